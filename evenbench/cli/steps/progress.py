"""Progress of a long run: a few live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import threading
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

from evenbench.reports.text import sanitise
from evenbench.runner.words import count

BAR = 20  # columns
REFRESHED = 4  # times a second; drawing takes a millisecond of this process, which measures nothing itself
GPU_NAMED = 12  # characters of a UUID: `GPU-` and eight more, which `--gpus` takes as well
MINUTES_FROM_S = 100  # from here on time that is left is told in minutes


class Now(NamedTuple):
    """A launch under way, or the last one of its GPU: replaced as a whole, since another thread draws it."""

    side: str
    cases: int = 0  # of the launch; 0 between launches
    case: int = 0  # which one of them, from 1; 0 before the first
    case_id: str = ""

    @property
    def done(self) -> float:
        """Part of the launch that is over."""
        return max(0, self.case - 1) / self.cases if self.cases else 0.0

    @property
    def counted(self) -> str:
        """Which case it is at."""
        return f"case {self.case} of {self.cases}" if self.case else count(self.cases, "case")


class ConsoleProgress:
    """Shows progress on a console that is not stdout: stdout is for the answer.

    Args:
        console: where to.
        launches: timed launches of the run, for the time that is left.
        live: lines that change in place, as a terminal has them: two, or where launches go on on several GPUs one for
            each of these besides; else a plain line for each stage and round.
    """

    def __init__(self, console: Console, launches: int, *, live: bool) -> None:
        self._console = console
        self._expected = launches
        self._spinner = Spinner("dots")
        self._began = time.monotonic()
        self._changing = threading.Lock()  # each GPU's chain of launches has a thread
        self._text = "starting"
        self._now: dict[str, Now] = {}  # by GPU; an empty name where launches know of none
        self._device: dict[str, str] = {}  # by GPU, as a launch saw it last; host launches see none
        self._gpus: frozenset[str] = frozenset()  # that had a launch so far
        self._timed = 0  # timed launches that ended
        self._measuring_since: float | None = None
        self._host = ""
        self._told: set[str] = set()  # rounds; on several GPUs one may be ahead
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
        with self._changing:
            self._text, self._now = text, {}
        if not self._is_live:
            self._print(text)

    def launch(self, side: str, text: str, cases: int, gpu: str = "") -> None:
        """A launch began."""
        timed = text.startswith("round")
        with self._changing:
            if timed and self._measuring_since is None:
                self._measuring_since = time.monotonic()
            self._text = text
            self._now[gpu] = Now(side, cases)
            self._gpus |= {gpu}
            if not self._is_live and timed and text not in self._told:  # plain lines: one a round
                self._told.add(text)
                self._print(_joined(text, self._left(0.0), self._machine))

    def case(self, case_id: str, gpu: str = "") -> None:
        """A case began. Its id comes from the launch, so it may be anything."""
        with self._changing:
            now = self._now.get(gpu, Now(""))
            self._now[gpu] = now._replace(case=now.case + 1, case_id=case_id)

    def launch_done(self, seen: Mapping[str, float | str | None], gpu: str = "") -> None:
        """A launch ended, and saw this of the device."""
        with self._changing:
            self._timed += self._measuring_since is not None
            self._now[gpu] = Now(self._now.get(gpu, Now("")).side)
            self._device[gpu] = device_words(seen) or self._device.get(gpu, "")
            self._host = host_words()

    def more(self, launches: int) -> None:
        """The run goes on for at most so many launches."""
        self._expected = self._timed + launches

    @property
    def _machine(self) -> str:
        """What is known of the one device, else of the host; of several devices each has a line of its own."""
        seen = [words for words in self._device.values() if words]
        return self._host if not seen else "" if len(self._gpus) > 1 else seen[0]

    def _left(self, done: float) -> str:
        """Time that is left, with parts of launches under way over; nothing before the first one was timed."""
        if not self._timed or self._measuring_since is None:
            return ""
        over = self._timed + done
        left = (time.monotonic() - self._measuring_since) / over * (self._expected - over)
        return f"about {seconds_left(left)} left"

    def _shown(self) -> RenderableType:
        with self._changing:
            done = sum(now.done for now in self._now.values())
            part = (self._timed + done) / max(1, self._expected)
            if self._measuring_since is None:
                part = done / max(1, len(self._now))
            bar = ProgressBar(total=1, completed=part, width=BAR)
            if len(self._gpus) > 1:
                return self._several(done, bar)
            now = next(iter(self._now.values()), Now(""))
            above = _beside(self._spinner, _joined(self._text, now.side, self._left(done), self._machine), 1)
            return Group(above, _beside(bar, _joined(now.counted, now.case_id), BAR)) if now.cases else above

    def _several(self, done: float, bar: ProgressBar) -> RenderableType:
        """As for one GPU, without its case; below a line for each GPU."""
        above = _beside(self._spinner, _joined(self._text, self._left(done), self._machine), 1)
        if not self._now:
            return above
        lines = [_line(_of_gpu(gpu, self._now.get(gpu), self._device.get(gpu, ""))) for gpu in sorted(self._gpus)]
        return Group(above, _beside(bar, f"{len(self._gpus)} GPUs", BAR), *lines)

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
    return f"load {os.getloadavg()[0]:.1f} on {count(os.cpu_count() or 1, 'CPU')}"


def _of_gpu(gpu: str, now: Now | None, device: str) -> str:
    """What a GPU is at; the case last, since it may be cut."""
    if now is None or not now.cases:
        return _joined(gpu[:GPU_NAMED], "idle", device)
    return _joined(gpu[:GPU_NAMED], now.side, now.counted, device, now.case_id)


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _beside(sign: RenderableType, text: str, width: int) -> Table:
    """A sign of so many columns, then foreign text, in one line: it ends in an ellipsis where it is too long."""
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(width=width)
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_row(sign, _line(text))
    return line


def _line(text: str) -> Text:
    """Foreign text in one line, which ends in an ellipsis where it is too long."""
    return Text(sanitise(text), no_wrap=True, overflow="ellipsis")
