"""A time limit that counts only while this process runs: no deadline of a run uses the wall clock, or dies of a pause.

A suspended machine, a frozen container and a stopped process tree have in common that whoever waits stands still as
well: between two looks passes more time than it asked to wait. That time is nobody's fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable

HEARTBEAT_S = 1.0  # whoever waits looks at least so often; a wake-up a second disturbs nothing
PAUSE_S = 2.0  # so much later than asked for: a busy machine is seldom that late, and a little patience costs nothing


def running_s() -> float:
    """Seconds since the machine started, those in which it was suspended included; setting the clock moves it not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Patience:
    """Waits for a time, pauses not counted.

    Args:
        limit_s: the time.
        clock: seconds that go on while the machine is suspended.

    Attributes:
        paused_s: how long this process stood still.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = running_s) -> None:
        self._clock = clock
        self._looked = clock()
        self._end = self._looked + limit_s
        self.paused_s = 0.0

    def left(self) -> float:
        """Seconds that are left, below 0 when time is up. To be asked after every wait of at most `HEARTBEAT_S`."""
        now = self._clock()
        passed = now - self._looked
        if passed > HEARTBEAT_S + PAUSE_S:
            self._end += passed
            self.paused_s += passed
        self._looked = now
        return self._end - now

    def slice(self) -> float:
        """Seconds to wait before the next look."""
        return min(max(0.0, self.left()), HEARTBEAT_S)
