"""How well a handful of samples fixes its median: the half-width of the 95 % interval by order statistics; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

OUTSIDE = 20  # the interval misses the median at most once in so many times: 95 %
EXACT_MAX = 1_000  # samples; beyond it the binomial is normal to within one rank, and its numbers grow long
SAMPLES_MIN = 10  # fewer never end a measurement: under that a median says nothing


def interval_rank(count: int) -> int:
    """The largest k for which the k-th smallest and the k-th largest sample enclose the median 95 times in 100.

    That probability is 1 - 2 P(B < k) for a binomial B of `count` fair coins, whatever the samples' distribution.

    Returns:
        k, counted from 1; 0 where even the whole range is too narrow (under 6 samples).
    """
    if count > EXACT_MAX:
        z = statistics.NormalDist().inv_cdf(1 - 0.5 / OUTSIDE)
        return math.floor((count - z * math.sqrt(count)) / 2)
    rank, below, ways = 0, 1, 1  # `below`: outcomes with at most `rank` heads; `ways`: with exactly that many
    while 2 * OUTSIDE * below <= 2**count:
        rank += 1
        ways = ways * (count - rank + 1) // rank
        below += ways
    return rank


def half_width(samples: Sequence[int], grid: int = 0) -> float:
    """Half of the 95 % interval of the median, relative to the median; infinite where there is none.

    Args:
        grid: step of the readings: each stands for anything within half a step, so equal ones are no proof of more.
    """
    ordered = sorted(samples)
    rank = interval_rank(len(ordered))
    middle = statistics.median(ordered) if ordered else 0
    if rank == 0 or middle <= 0:
        return math.inf
    return (ordered[-rank] - ordered[rank - 1] + grid) / 2 / middle


def is_precise(samples: Sequence[int], precision: float, grid: int = 0) -> bool:
    """Whether the half-width falls under `precision`, a fraction; never with fewer than 10 samples."""
    return len(samples) >= SAMPLES_MIN and half_width(samples, grid) < precision
