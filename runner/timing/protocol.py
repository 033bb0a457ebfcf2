"""One measurement, pure over a `Timer`: calibrate, count, warm up, sample, stop.

The rules and their constants are those of the measuring method: budgets in milliseconds become counts, a count is
clamped, every iteration is prepared (reset, then cache step) outside the timed interval and drained before the next.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ..errors import RecordsLost, SamplesRejected
from ..words import count
from .precision import is_precise

NS_PER_MS = 1_000_000

CALIBRATION_ITERATIONS = 3  # odd, so that the median is one of them
RUN_COUNTS = (10, 200)  # fewer give no percentiles, more buy little once between-launch spread dominates
COMPARISON_SAMPLES = (10, 20)  # per launch: the launch is the statistical unit, so many short ones are worth more
COMPARISON_WARMUP = (3, 5)
SEGMENT_MIN_SAMPLES = 5  # of each of the two segments that an implementation gets in a launch
SEGMENT_MIN_WARMUP = 3
TIMEOUT_MIN_SAMPLES = 10  # a time-out never leaves fewer: under that a median says nothing
PRECISION_BLOCK = 20  # looking costs a flush and a decoding, so not after every sample
COARSE_NS = 10 * NS_PER_MS  # longer calls keep the lowest count, whose p10 and p90 rest on single samples

BUFFER_BYTES = 1 << 20  # holds the records of a block; larger ones only make the flush longer
BUFFER_GROWTH = 4
LOST_ATTEMPTS = 3  # records lost three times, the last with 16 times the buffer, is no accident
REJECTED_SHARE = 0.01  # one sample in a hundred may fail validation

BATCH_TICKS = 1_000  # a host batch lasts that many clock steps, so reading the clock costs it at most 0.1 %
BATCH_MAX = 100_000  # a call under a nanosecond is not a call; keeps a wrong cost from hanging the launch


@dataclass(frozen=True)
class Segment:
    """The samples of a block of iterations: one entry per kept iteration, in order; all times in integer nanoseconds.

    Args:
        indices: the `i` given to `Timer.iterate`, of each kept iteration.
        device_busy_ns: length of the union of the device's intervals of that iteration.
        latency_ns: earliest start to latest end.
        n_kernels: kernels of that iteration, or None where the timer cannot know.
        uncounted_copy_ns: time of copies and memsets that are not in `device_busy_ns`.
        kernels: the distinct kernels seen, as plain dicts (name, grid, block, registers, shared memory, count).
        rejected: index and reason of every iteration that was not kept.
        batch: calls in one iteration; the times are per call.
        lost: activity records that the instrument says it dropped.
    """

    indices: list[int]
    device_busy_ns: list[int]
    latency_ns: list[int]
    n_kernels: list[int] | None
    uncounted_copy_ns: list[int]
    kernels: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    batch: int = 1
    lost: int = 0


class Timer(Protocol):
    """An instrument. All timers look alike, so that the rest of the runner never asks which one it holds."""

    name: str
    tick_ns: int | None  # resolution of the time stamps; None where readings do not sit on a grid

    def open(self, count_copies: bool, buffer_bytes: int) -> None:
        """Get ready to time. `buffer_bytes` is the size of one record buffer, where the timer has some.

        Opening an open timer starts afresh with the new settings.
        """

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        """Prepare, drain, run once as iteration `i`, drain. Returns the wall time of it all in nanoseconds."""

    def collect(self) -> Segment:
        """Everything iterated since the last call. Decodes records here, never inside `iterate`."""

    def close(self) -> None:
        """Give back what `open` took. Closing a closed timer does nothing."""


class Counts(NamedTuple):
    """How many iterations one segment takes."""

    warmup: int
    samples: int


class Retry(NamedTuple):
    """A segment that was measured again: the buffer size it ran with and the records it lost."""

    buffer_bytes: int
    lost: int


@dataclass(frozen=True)
class Measured:
    """What one segment gave.

    Args:
        segment: the kept samples, warm-up left out.
        warmup: warm-up iterations done.
        stop: why sampling ended: ``"count"``, ``"timeout"`` or ``"precision"``.
        retries: the attempts before this one whose records were lost.
        coarse: the call takes over 10 ms, so its percentiles rest on few samples.
    """

    segment: Segment
    warmup: int
    stop: str
    retries: list[Retry]
    coarse: bool


def calibrate(
    timer: Timer, prepare: Callable[[], object], run: Callable[[], object], *, count_copies: bool = False
) -> int:
    """Cost of one iteration in nanoseconds, cache step included, since the budget has to pay for it.

    Opens and closes the timer. The very first call (compilation, lazy set-up) is made outside it and decides nothing.

    Raises:
        MeasurementError: what the timer found wrong with the call itself.
    """
    prepare()
    run()
    timer.open(count_copies, BUFFER_BYTES)
    try:
        walls = [timer.iterate(i, prepare, run) for i in range(CALIBRATION_ITERATIONS)]
        timer.collect()
    finally:
        timer.close()
    return max(1, int(statistics.median(walls)))


def call_cost(timer: Timer, run: Callable[[], object]) -> int:
    """Time of one warm call in nanoseconds, as the timer reads it: what `host_batch` needs. Opens and closes it."""
    timer.open(False, BUFFER_BYTES)
    try:
        for i in range(CALIBRATION_ITERATIONS):
            timer.iterate(i, _nothing, run)
        segment = timer.collect()
    finally:
        timer.close()
    return max(1, int(statistics.median(segment.latency_ns or [1])))


def host_batch(cost_ns: int, resolution_ns: int) -> int:
    """Calls in one iteration of the host timer, so that a batch lasts at least 1,000 times the clock's resolution.

    Args:
        cost_ns: time of one call alone, without its preparation (see `call_cost`).
        resolution_ns: smallest step of the clock.
    """
    needed = -(-BATCH_TICKS * max(1, resolution_ns) // max(1, cost_ns))
    return min(needed, BATCH_MAX)


def counts_for_run(cost_ns: int, warmup_ms: float, measure_ms: float, iterations: int | None = None) -> Counts:
    """Budgets divided by the cost of one iteration, each count clamped to [10, 200]. `iterations` overrides samples."""
    return Counts(
        _count(warmup_ms, cost_ns, RUN_COUNTS),
        iterations or _count(measure_ms, cost_ns, RUN_COUNTS),
    )


def counts_for_comparison(
    cost_ns: int, warmup_ms: float, measure_ms: float, rounds: int, iterations: int | None = None
) -> Counts:
    """The budget of one side, spread over its launches. Give both sides the larger cost, so that they draw equally."""
    return Counts(
        _count(warmup_ms / rounds, cost_ns, COMPARISON_WARMUP),
        iterations or _count(measure_ms / rounds, cost_ns, COMPARISON_SAMPLES),
    )


def split_for_implementations(counts: Mapping[str, Counts], mirrored: bool = False) -> list[tuple[str, Counts]]:
    """The segments of one launch in their order: A B C C B A, or C B A A B C when `mirrored`.

    Each implementation runs twice with half of its own counts, which cancels a steady drift of clock and temperature
    to first order. A single one keeps its counts in one segment.
    """
    order = list(reversed(list(counts))) if mirrored else list(counts)
    if len(order) <= 1:
        return list(counts.items())
    return [(name, _half(counts[name])) for name in [*order, *reversed(order)]]


def _half(counts: Counts) -> Counts:
    return Counts(max(SEGMENT_MIN_WARMUP, -(-counts.warmup // 2)), max(SEGMENT_MIN_SAMPLES, -(-counts.samples // 2)))


def measure(  # noqa: PLR0913 (what is measured, how often, until when; the rest has defaults)
    timer: Timer,
    prepare: Callable[[], object],
    run: Callable[[], object],
    counts: Counts,
    *,
    deadline_ns: int | None,
    clock: Callable[[], int],
    count_copies: bool = False,
    precision: float = 0.0,
    buffer_bytes: int = BUFFER_BYTES,
) -> Measured:
    """Measure one segment: warm up, sample, validate; again with larger buffers where records were lost.

    Opens and closes the timer.

    Args:
        deadline_ns: when to stop, on `clock`; 10 samples are taken even past it. None: never.
        precision: stop early once the half-width of the median's 95 % interval is a smaller fraction of the median;
            looked at after each block of 20 samples. 0: never.

    Raises:
        RecordsLost: records were lost in each of three attempts.
        SamplesRejected: more than one sample and more than 1 % failed validation.
        MeasurementError: what the timer found wrong with the call itself.
    """
    retries: list[Retry] = []
    while True:
        timer.open(count_copies, buffer_bytes)
        try:
            segment, warmup, stop = _attempt(timer, prepare, run, counts, deadline_ns, clock, precision)
        finally:
            timer.close()
        if not segment.lost:
            break
        retries.append(Retry(buffer_bytes, segment.lost))
        if len(retries) == LOST_ATTEMPTS:
            raise RecordsLost(
                f"records were lost in each of {LOST_ATTEMPTS} attempts, {segment.lost} of them in the last, "
                f"with buffers of {buffer_bytes} bytes",
                "ask for fewer iterations, or time a call that launches fewer kernels",
            )
        buffer_bytes *= BUFFER_GROWTH
    _check_rejected(segment)
    coarse = bool(segment.latency_ns) and statistics.median(segment.latency_ns) > COARSE_NS
    return Measured(segment, warmup, stop, retries, coarse)


def merge(segments: Sequence[Segment]) -> Segment:
    """Pool segments of one implementation, in the order given. Kernel counts add up; batches must be equal."""
    if len({s.batch for s in segments}) != 1:
        raise ValueError("segments to pool must have the same batch")
    n_kernels = [n for s in segments for n in s.n_kernels or ()]
    return Segment(
        indices=[i for s in segments for i in s.indices],
        device_busy_ns=[ns for s in segments for ns in s.device_busy_ns],
        latency_ns=[ns for s in segments for ns in s.latency_ns],
        n_kernels=None if any(s.n_kernels is None for s in segments) else n_kernels,
        uncounted_copy_ns=[ns for s in segments for ns in s.uncounted_copy_ns],
        kernels=_merge_kernels(segments),
        rejected=[pair for s in segments for pair in s.rejected],
        batch=segments[0].batch,
        lost=sum(s.lost for s in segments),
    )


def _attempt(
    timer: Timer,
    prepare: Callable[[], object],
    run: Callable[[], object],
    counts: Counts,
    deadline_ns: int | None,
    clock: Callable[[], int],
    precision: float,
) -> tuple[Segment, int, str]:
    """One try at a segment: the samples, the warm-up iterations done, why it stopped."""
    iterate = timer.iterate
    warmup = 0
    while warmup < counts.warmup and not (deadline_ns is not None and clock() >= deadline_ns):
        iterate(warmup, prepare, run)
        warmup += 1
    if warmup and (lost := timer.collect().lost):
        return Segment([], [], [], None, [], lost=lost), warmup, "lost"
    floor = min(TIMEOUT_MIN_SAMPLES, counts.samples)
    blocks: list[Segment] = []
    stop = "count"
    for done in range(counts.samples):
        if precision and done and done % PRECISION_BLOCK == 0:
            blocks.append(timer.collect())
            busy = [ns for block in blocks for ns in block.device_busy_ns]
            if blocks[-1].lost or is_precise(busy, precision, timer.tick_ns or 0):
                return merge(blocks), warmup, "precision"
        if deadline_ns is not None and done >= floor and clock() >= deadline_ns:
            stop = "timeout"
            break
        iterate(done, prepare, run)
    return merge([*blocks, timer.collect()]), warmup, stop


def _check_rejected(segment: Segment) -> None:
    rejected = len(segment.rejected)
    total = rejected + len(segment.indices)
    if rejected and (not segment.indices or (rejected > 1 and rejected > REJECTED_SHARE * total)):
        index, reason = segment.rejected[0]
        raise SamplesRejected(
            f"{rejected} of {count(total, 'sample')} failed validation; the first, sample {index}: {reason}"
        )


def _merge_kernels(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """Counts add up; the median of the whole is taken to be the mean of the segments' medians, by their counts."""
    merged: dict[str, dict[str, Any]] = {}
    for kernel in (k for s in segments for k in s.kernels):
        identity = repr(sorted((key, value) for key, value in kernel.items() if key not in ("count", "median_ns")))
        known = merged.setdefault(identity, {**kernel, "count": 0})
        both = known["count"] + kernel["count"]
        if "median_ns" in kernel:
            summed = known["median_ns"] * known["count"] + kernel["median_ns"] * kernel["count"]
            known["median_ns"] = summed // both
        known["count"] = both
    return list(merged.values())


def _count(budget_ms: float, cost_ns: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    return max(low, min(high, int(budget_ms * NS_PER_MS // max(1, cost_ns))))


def _nothing() -> None:
    """No preparation."""
