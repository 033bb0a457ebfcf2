"""The host timer: a clock around the call, for cases that reach no accelerator."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from .protocol import Segment

RESOLUTION_READS = 1_000  # the smallest of so many steps is the clock's own, not an interruption's


class HostTimer:
    """Times whole calls by `time.perf_counter_ns`; busy and latency are the same number, per call.

    Args:
        batch: calls in one iteration, for calls too short for the clock. Only the first one of a batch meets the cache
            as preparation left it.
    """

    name = "host"
    tick_ns: int | None = None  # steps of a nanosecond or a few tens: no grid worth naming

    def __init__(self, batch: int = 1, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        if batch < 1:
            raise ValueError(f"batch={batch} must be 1 or more")
        self._batch = batch
        self._clock = clock
        self._elapsed: list[tuple[int, int]] = []

    def open(self, count_copies: bool, buffer_bytes: int) -> None:  # noqa: ARG002 (the protocol has both)
        """Start afresh. The host has neither copies to tell apart nor record buffers."""
        self._elapsed = []

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        """Prepare, then time one batch of calls. Returns the wall time of both."""
        clock = self._clock
        began = clock()
        prepare()
        if self._batch == 1:
            start = clock()
            run()
            end = clock()
        else:
            repeat = range(self._batch)
            start = clock()
            for _ in repeat:
                run()
            end = clock()
        self._elapsed.append((i, end - start))
        return end - began

    def collect(self) -> Segment:
        """The calls since the last collection. One shorter than the clock can tell is rejected."""
        taken, self._elapsed = self._elapsed, []
        kept = [(i, elapsed // self._batch) for i, elapsed in taken if elapsed >= self._batch]
        times = [ns for _, ns in kept]
        return Segment(
            indices=[i for i, _ in kept],
            device_busy_ns=times,
            latency_ns=list(times),
            n_kernels=None,
            uncounted_copy_ns=[0] * len(times),
            rejected=[(i, "shorter than the clock can tell") for i, elapsed in taken if elapsed < self._batch],
            batch=self._batch,
        )

    def close(self) -> None:
        """Forget what was not collected."""
        self._elapsed = []


def clock_resolution_ns(clock: Callable[[], int] = time.perf_counter_ns) -> int:
    """Smallest step in nanoseconds that successive readings of the clock show, its own cost included."""
    readings = [clock() for _ in range(RESOLUTION_READS)]
    return min((after - before for before, after in itertools.pairwise(readings) if after > before), default=1)
