"""How long a launch kept the device: by CUPTI where it works, else by the wall clock around a drained launch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ...errors import MeasurementError, TimerUnavailable
from ...timing.protocol import Segment, Timer

NS = 1e-9
BUFFER_BYTES = 16 << 20  # holds the records of a long launch: a buffer that fills up is read while it launches


class LaunchClock(Protocol):
    """Tells the seconds of what `run` launches."""

    name: str

    def busy(self, run: Callable[[], object]) -> float:
        """In which the device worked, gaps between its kernels left out where the clock can tell."""

    def each(self, prepare: Callable[[], object], run: Callable[[], object], count: int) -> float:
        """In which the device worked on `run` in all of so many calls, each drained and prepared for before it."""


class TimerClock:
    """A timer of launches, asked about one launch at a time.

    Args:
        timer: CUPTI's. It is opened here and stays open.
    """

    def __init__(self, timer: Timer) -> None:
        self.name = timer.name
        self._timer = timer
        timer.open(count_copies=False, buffer_bytes=BUFFER_BYTES)

    def busy(self, run: Callable[[], object]) -> float:
        """See `LaunchClock.busy`. Raises MeasurementError where records are lost or refused."""
        return self._segment(_nothing, run, 1).device_busy_ns[0] * NS

    def each(self, prepare: Callable[[], object], run: Callable[[], object], count: int) -> float:
        """See `LaunchClock.each`. Raises MeasurementError as well."""
        return sum(self._segment(prepare, run, count).device_busy_ns) * NS

    def _segment(self, prepare: Callable[[], object], run: Callable[[], object], count: int) -> Segment:
        for i in range(count):
            self._timer.iterate(i, prepare, run)
        segment = self._timer.collect()
        if len(segment.device_busy_ns) != count:
            raise MeasurementError(segment.rejected[0][1] if segment.rejected else "the launch left no record")
        return segment


class WallClock:
    """The host's clock around a launch and the wait for its end: gaps are part of it."""

    name = "host"

    def __init__(
        self, synchronize: Callable[[], object] = lambda: None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._synchronize = synchronize
        self._clock = clock

    def busy(self, run: Callable[[], object]) -> float:
        """See `LaunchClock.busy`."""
        self._synchronize()
        began = self._clock()
        run()
        self._synchronize()
        return self._clock() - began

    def each(self, prepare: Callable[[], object], run: Callable[[], object], count: int) -> float:
        """See `LaunchClock.each`."""
        took = 0.0
        for _ in range(count):
            prepare()
            took += self.busy(run)
        return took


def repeated(start: Callable[[], object], count: int) -> Callable[[], None]:
    """A call that starts something so often."""

    def run() -> None:
        for _ in range(count):
            start()

    return run


def device_clock(cupti: Callable[[], Timer], synchronize: Callable[[], object]) -> LaunchClock:
    """CUPTI's clock, else the wall's; which one it is stands in its name."""
    try:
        return TimerClock(cupti())
    except TimerUnavailable:
        return WallClock(synchronize)


def _nothing() -> None:
    """No step before the call: nothing here wants a cold cache."""
