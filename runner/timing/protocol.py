"""One measurement, pure over a `Timer`: calibrate, count, warm up, sample, stop.

The rules and their constants are those of the measuring method: budgets in milliseconds become counts, a count is
clamped, every iteration is prepared (reset, then cache step) outside the timed interval and drained before the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol


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
        """Get ready to time. `buffer_bytes` is the size of one record buffer, where the timer has some."""

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        """Prepare, drain, run once as iteration `i`, drain. Returns the wall time of it all in nanoseconds."""

    def collect(self) -> Segment:
        """Everything iterated since the last call. Decodes records here, never inside `iterate`."""

    def close(self) -> None:
        """Give back what `open` took."""
