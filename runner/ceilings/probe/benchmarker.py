"""The peak rate of a probe: warm the device, rank shapes, sample. Pure over an injected clock.

The protocol and its numbers are those of CubeCL's device-throughput benchmarker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

WARMUP_BUDGET_S = 2.0  # wall clock a warm-up may grow for: the only bound where the timer cannot reach the target
PLATEAU_S = 0.25  # wall clock that a steady pace must hold: a change of clocks takes hundreds of milliseconds
PLATEAU_TOLERANCE = 0.03  # what is faster by more begins a new plateau
PLATEAU_PATIENCE = 3  # launches in a row that bring nothing faster
WARMUP_LAUNCHES = 50  # whatever the device does, a warm-up ends
TARGET_S = 0.02  # toward which one launch is grown or cut, so that all shapes bear an equal share of its cost
SAMPLE_BUDGET_S = 0.2  # wall clock of one shape's peak
SAMPLE_PATIENCE = 12  # samples without improvement before a peak is accepted
SAMPLE_TOLERANCE = 0.01  # what is faster by less is no improvement
SAMPLES_MOST = 200
ITERATIONS_MOST = 1 << 24  # of one launch
ITERATIONS_MOST_BLIND = 1 << 10  # while the timer reads zero, a launch may be longer than it says
BLIND_S = 1e-9  # a reading at or under it says nothing
RANKING_SAMPLES = 3  # a count, not a budget: a short pass would draw more, and the fastest of more is faster


@dataclass(frozen=True)
class Probe:
    """One way to use a resource.

    Args:
        sample: runs one launch of so many iterations; returns the seconds that it took.
        ops_count: operations, or bytes, of one iteration.
        min_iterations: what a launch must carry to measure what it claims, however quickly it runs.
    """

    sample: Callable[[int], float]
    ops_count: float
    min_iterations: int = 1


class Cache(Protocol):
    """Where peaks are kept."""

    def get(self, key: str) -> float | None:
        """The peak kept under a key; None where there is none."""

    def add(self, key: str, rate: float) -> float:
        """Keep a peak. Returns the one that is kept: another's, where it came first."""


class Benchmarker:
    """Measures peak rates, in operations a second.

    Args:
        clock: the wall clock in seconds, which bounds warm-up and sampling.
        cache: keeps what `measure` found; None: nothing is read or written.
        warmup_budget_s: wall clock that a warm-up may spend on growing a launch.
    """

    def __init__(
        self, clock: Callable[[], float], cache: Cache | None = None, *, warmup_budget_s: float = WARMUP_BUDGET_S
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._warmup_budget_s = warmup_budget_s

    def measure(self, key: str, probe: Probe) -> float:
        """The cached peak, else the probe's, which is then cached. An error of the probe passes through."""
        cached = self.cached(key)
        if cached is not None:
            return cached
        rate = self.sample(probe)
        return rate if self._cache is None else self._cache.add(key, rate)

    def cached(self, key: str) -> float | None:
        """The cached peak; nothing is measured."""
        return None if self._cache is None else self._cache.get(key)

    def sample(self, probe: Probe) -> float:
        """The peak rate of a probe on a device that is warmed first."""
        return self.sample_at(probe, self.warm(probe))

    def warm(self, probe: Probe) -> int:
        """Run until the pace is steady; returns the iterations of a launch that takes the target time.

        It is the device that gets warm, not the shape, so a sweep over shapes pays once. One that is slow throughout is
        measured as slow: contention that outlasts the warm-up is not rejected.
        """
        iterations = max(probe.min_iterations, 1)
        best, stable = math.inf, 0
        began = plateau = self._clock()
        for _ in range(WARMUP_LAUNCHES):
            took = probe.sample(iterations)
            now = self._clock()
            if took < TARGET_S:
                most = max(ITERATIONS_MOST_BLIND if took <= BLIND_S else ITERATIONS_MOST, probe.min_iterations)
                if iterations >= most or now - began >= self._warmup_budget_s:
                    break
                iterations = min(iterations + _missing(iterations, took), most)
                best, stable = math.inf, 0
                continue
            pace = took / iterations
            if pace < best * (1 - PLATEAU_TOLERANCE):
                best, stable, plateau = pace, 0, now
                continue
            best, stable = min(best, pace), stable + 1
            if stable >= PLATEAU_PATIENCE and now - plateau >= PLATEAU_S:
                break
        return iterations

    def sample_at(self, probe: Probe, iterations: int) -> float:
        """The peak rate at so many iterations a launch; infinite where the timer reads zero."""
        iterations = max(iterations, probe.min_iterations, 1)
        best, stale = math.inf, 0
        began = self._clock()
        for _ in range(SAMPLES_MOST):
            took = probe.sample(iterations)
            stale = 0 if took < best * (1 - SAMPLE_TOLERANCE) else stale + 1
            best = min(best, took)
            # Wall clock, not the time reported: a timer that reads zero must still come to an end.
            if stale >= SAMPLE_PATIENCE or self._clock() - began >= SAMPLE_BUDGET_S:
                break
        return _rate(probe, iterations, best)

    def rank(self, probe: Probe, iterations: int) -> tuple[float, int]:
        """A rate good enough to order shapes by, and the iterations that the next shape starts from.

        The first launch compiles and faults memory in, so it does not count; the second sets the length of the others.
        """
        settling = max(iterations, probe.min_iterations, 1)
        probe.sample(settling)
        iterations = max(retarget(settling, probe.sample(settling)), probe.min_iterations, 1)
        best = min(probe.sample(iterations) for _ in range(RANKING_SAMPLES))
        return _rate(probe, iterations, best), iterations


def retarget(iterations: int, took: float) -> int:
    """The iterations of a launch that takes the target time, given that so many took so long."""
    if took <= 0:
        return iterations
    wanted = iterations * TARGET_S / took
    return max(1, min(int(wanted), ITERATIONS_MOST)) if math.isfinite(wanted) else iterations


def _missing(iterations: int, took: float) -> int:
    """By how many iterations a launch must grow to reach the target at this pace; as many again where that is unknown."""
    if took <= BLIND_S:
        return iterations
    return max(1, math.ceil(iterations * TARGET_S / took) - iterations)


def _rate(probe: Probe, iterations: int, took: float) -> float:
    return probe.ops_count * iterations / took if took > 0 else math.inf
