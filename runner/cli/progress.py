"""Progress of a long run: a live line with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status


class ConsoleProgress:
    """Shows progress on a console that is not stdout: stdout is for the answer.

    Args:
        console: where to; a terminal gets one live line, anything else a plain line for each stage and round.
        launches: timed launches of the run, for the time that is left.
    """

    def __init__(self, console: Console, launches: int) -> None:
        self._console = console
        self._expected = launches
        self._status: Status | None = console.status("starting") if console.is_terminal else None
        self._began = time.monotonic()
        self._timed = 0
        self._measuring_since: float | None = None
        self._line = ""
        self._told = ""

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def stage(self, text: str) -> None:
        """A new part of the run began."""
        if self._status:
            self._status.update(text)
        else:
            self._print(text)

    def launch(self, side: str, text: str, cases: int) -> None:
        """A launch began."""
        timed = text.startswith("round")
        if timed and self._measuring_since is None:
            self._measuring_since = time.monotonic()
        left = self._left() if timed else ""
        self._line = f"{text} · {side} · {cases} {'case' if cases == 1 else 'cases'}{left}"
        if self._status:
            self._status.update(self._line)
        elif timed and text != self._told:  # plain lines: one a round
            self._told = text
            self._print(f"{text}{left}")

    def case(self, case_id: str) -> None:
        """A case began."""
        if self._status:
            self._status.update(f"{self._line} · {case_id}")

    def launch_done(self) -> None:
        """A launch ended."""
        if self._measuring_since is not None:
            self._timed += 1

    def more(self, launches: int) -> None:
        """The run goes on for at most so many launches."""
        self._expected = self._timed + launches

    def _left(self) -> str:
        if not self._timed or self._measuring_since is None:
            return ""
        spent = time.monotonic() - self._measuring_since
        left = max(0.0, spent / self._timed * (self._expected - self._timed))
        return f" · about {left:.0f} s left"

    def _print(self, text: str) -> None:
        self._console.print(f"[{time.monotonic() - self._began:6.1f} s] {text}", markup=False, highlight=False)
