"""Whether a cache step does what it says: a read after it must be slower than one that is repeated at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .protocol import Counts, Timer, measure

PROBE = Counts(warmup=2, samples=11)  # an odd number, so that the median is one of them
PROBE_TRIES = 3  # a busy machine may drown the difference once; a step that does nothing shows none three times
MARGIN = 1.02  # several times the spread of such a median; a read from memory takes 1.2 to 5 times as long


def doubt(timer: Timer, evict: Callable[[], object], read: Callable[[], object]) -> str:
    """What speaks against `evict` emptying the cache; an empty text when nothing does.

    Args:
        timer: the timer in use. Opened and closed here.
        evict: the cache step.
        read: reads a buffer that fits into the cache.
    """
    cold = warm = 0
    for _ in range(PROBE_TRIES):
        cold, warm = _median(timer, evict, read), _median(timer, read, read)
        if cold > MARGIN * warm:
            return ""
    return f"a read takes {cold} ns after the cache step and {warm} ns when repeated at once"


def _median(timer: Timer, prepare: Callable[[], object], read: Callable[[], object]) -> int:
    measured = measure(timer, prepare, read, PROBE, deadline_ns=None, clock=time.perf_counter_ns)
    return int(statistics.median(measured.segment.device_busy_ns))
