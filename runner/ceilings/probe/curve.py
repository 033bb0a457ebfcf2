"""The working sets at which bandwidth is measured, and the points that are kept. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

SMALLEST_BYTES = 8 << 10  # what a kernel of a few blocks moves; below, it is the launch that takes the time


def sizes(cap: int) -> Sequence[int]:
    """Powers of two from `SMALLEST_BYTES` to the last that fits into `cap`; a smaller cap gives the cap alone."""
    if cap < SMALLEST_BYTES:
        return (cap,)
    return tuple(1 << power for power in range(SMALLEST_BYTES.bit_length() - 1, cap.bit_length()))


def points(measured: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """What was measured, smallest first: without empty sizes and rates that are none; of duplicates the first."""
    kept: dict[int, float] = {}
    for size, rate in measured:
        if size > 0 and math.isfinite(rate) and rate > 0:
            kept.setdefault(size, rate)
    return sorted(kept.items())
