"""Whether a cache step does what it says: a read after it must be slower than one that is repeated at once."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

from .protocol import Counts, Timer, measure

PROBE = Counts(warmup=4, samples=22)  # even: reads after the step and repeated ones take turns, so no drift favours one
PROBE_TRIES = 3  # a busy machine may drown the difference once; a step that does nothing shows none three times
MARGIN = 1.05  # twice what a step that does nothing showed at most; a read from memory takes 1.3 to 5 times as long


def doubt(timer: Timer, evict: Callable[[], object], read: Callable[[], object]) -> str:
    """What speaks against `evict` emptying the cache; an empty text when nothing does.

    Args:
        timer: the timer in use. Opened and closed here.
        evict: the cache step.
        read: reads a buffer that fits into the cache.
    """
    cold = warm = 0
    for _ in range(PROBE_TRIES):
        cold, warm = _medians(timer, evict, read)
        if cold > MARGIN * warm:
            return ""
    return f"a read takes {cold} ns after the cache step and {warm} ns when repeated at once"


def _medians(timer: Timer, evict: Callable[[], object], read: Callable[[], object]) -> tuple[int, int]:
    """Nanoseconds of a read after the step, and of a repeated one."""
    turns = itertools.cycle((evict, read))

    def prepare() -> None:
        next(turns)()

    measured = measure(timer, prepare, read, PROBE, deadline_ns=None, clock=time.perf_counter_ns).segment
    after: tuple[list[int], list[int]] = ([], [])
    for index, busy in zip(measured.indices, measured.device_busy_ns, strict=True):
        after[index % 2].append(busy)
    return int(statistics.median(after[0])), int(statistics.median(after[1]))
