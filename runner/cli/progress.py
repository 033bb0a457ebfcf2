"""Progress of a long run: two live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from reports.markdown import sanitise

BAR = 20  # columns
REFRESHED = 4  # times a second; drawing takes a millisecond of this process, which measures nothing itself
MINUTES_FROM_S = 100  # from here on time that is left is told in minutes


class Now(NamedTuple):
    """What is going on: replaced as a whole, since another thread draws it."""

    text: str
    cases: int = 0  # of the launch under way; 0 between launches
    case: int = 0  # which one of them, from 1; 0 before the first
    case_id: str = ""

    @property
    def done(self) -> float:
        """Part of the launch that is over."""
        return max(0, self.case - 1) / self.cases if self.cases else 0.0


class ConsoleProgress:
    """Shows progress on a console that is not stdout: stdout is for the answer.

    Args:
        console: where to.
        launches: timed launches of the run, for the time that is left.
        live: two lines that change in place, as a terminal has them; else a plain line for each stage and round.
    """

    def __init__(self, console: Console, launches: int, *, live: bool) -> None:
        self._console = console
        self._expected = launches
        self._spinner = Spinner("dots")
        self._began = time.monotonic()
        self._now = Now("starting")
        self._timed = 0  # timed launches that ended
        self._measuring_since: float | None = None
        self._device = ""  # as a launch saw it last; host launches see none
        self._machine = ""
        self._told = ""
        self._is_live = live
        self._live = Live(console=console, get_renderable=self._shown, refresh_per_second=REFRESHED, transient=True)

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live:
            self._live.stop()

    def stage(self, text: str) -> None:
        """A new part of the run began."""
        self._now = Now(text)
        if not self._is_live:
            self._print(text)

    def launch(self, side: str, text: str, cases: int) -> None:
        """A launch began."""
        timed = text.startswith("round")
        if timed and self._measuring_since is None:
            self._measuring_since = time.monotonic()
        self._now = Now(f"{text} · {side}", cases)
        if not self._is_live and timed and text != self._told:  # plain lines: one a round
            self._told = text
            self._print(" · ".join(part for part in (text, self._left(0.0), self._machine) if part))

    def case(self, case_id: str) -> None:
        """A case began. Its id comes from the launch, so it may be anything."""
        self._now = self._now._replace(case=self._now.case + 1, case_id=case_id)

    def launch_done(self, seen: Mapping[str, float | str | None]) -> None:
        """A launch ended, and saw this of the device."""
        self._timed += self._measuring_since is not None
        self._now = Now(self._now.text)
        self._device = device_words(seen) or self._device
        self._machine = self._device or host_words()

    def more(self, launches: int) -> None:
        """The run goes on for at most so many launches."""
        self._expected = self._timed + launches

    def _left(self, done: float) -> str:
        """Time that is left, with a part of the launch under way over; nothing before the first one was timed."""
        if not self._timed or self._measuring_since is None:
            return ""
        over = self._timed + done
        left = (time.monotonic() - self._measuring_since) / over * (self._expected - over)
        return f"about {seconds_left(left)} left"

    def _shown(self) -> RenderableType:
        now = self._now
        parts = [now.text, self._left(now.done), self._machine]
        above = _beside(self._spinner, " · ".join(part for part in parts if part), 1)
        if not now.cases:
            return above
        part = (self._timed + now.done) / max(1, self._expected) if self._measuring_since is not None else now.done
        where = f"case {now.case} of {now.cases} · {now.case_id}" if now.case else f"{now.cases} cases"
        return Group(above, _beside(ProgressBar(total=1, completed=part, width=BAR), where, BAR))

    def _print(self, text: str) -> None:
        self._console.print(
            f"[{time.monotonic() - self._began:6.1f} s] {sanitise(text)}", markup=False, highlight=False
        )


def seconds_left(seconds: float) -> str:
    """Such as ``12 s`` or ``3 min``."""
    left = max(0.0, seconds)
    return f"{left:.0f} s" if left < MINUTES_FROM_S else f"{left / 60:.0f} min"


def device_words(seen: Mapping[str, float | str | None]) -> str:
    """Clock and temperature of the device, and what held its clocks back; empty where nothing was seen of them."""
    clock, degrees = seen.get("sm_clock_mhz"), seen.get("temperature_c")
    parts = [
        f"{clock:.0f} MHz" if isinstance(clock, int | float) else "",
        f"{degrees:.0f} °C" if isinstance(degrees, int | float) else "",
        f"held back: {sanitise(str(held))}" if (held := seen.get("throttle_reasons")) else "",
    ]
    return ", ".join(part for part in parts if part)


def host_words() -> str:
    """What a host tells of itself everywhere: how busy it is."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count() or 1} CPUs"


def _beside(sign: RenderableType, text: str, width: int) -> Table:
    """A sign of so many columns, then foreign text, in one line: it ends in an ellipsis where it is too long."""
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(width=width)
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_row(sign, Text(sanitise(text)))
    return line
