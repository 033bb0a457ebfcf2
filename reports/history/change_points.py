"""Where a series of times changed its level. Pure.

Two steps, as Fleming et al. (https://doi.org/10.1145/3578244.3583719) have them: a library splits the series generously,
then each split must prove itself by a test between its two sides, the weakest going first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from evenbench.runner.errors import UsageError

Floats = NDArray[np.float64]

RUNS_MIN = 5  # runs of a level: with fewer, chance looks like a step; with more, a step would be found late
TOGETHER_MIN = 15  # runs of both levels: fewer do not tell how much nights vary
SMALLEST = 0.01  # change that counts: nights on one machine differ by some tenths of a per cent
ALPHA = 1e-7  # of one test: each night asks anew about every place, and real noise has longer tails than the test knows
PENALTY = 4.0  # of a split, in variances × log(runs): generous, since the test decides
CLIP = 3.0  # standard deviations off its neighbours' median beyond which a single night counts no further
WINDOW = 5  # runs of that median: two odd nights in a row do not move it
NOISE_MIN = 2e-4  # a series that repeats better than this shows its clock's grid
MEMORY = 100  # runs on each side that the test looks at: further off, the level may have drifted
CORRELATION = 0.2  # of neighbouring nights, as first guess: what is known of a series replaces it
GUESS_RUNS = 30  # runs that the guess weighs as much as
CORRELATION_MAX = 0.8  # above, it tells of drifts rather than of noise
NORMAL = 1.4826  # from the median absolute deviation to the standard deviation of a normal distribution


@dataclass(frozen=True)
class Step:
    """A change of level.

    Attributes:
        index: of the first run on the new level.
        change: as a fraction; above 0: slower.
        p: chance of so clear a step where there is none, of this one test.
    """

    index: int
    change: float
    p: float


def steps(
    times: Sequence[float] | Floats, smallest: float = SMALLEST, commits: Sequence[str] | None = None
) -> list[Step]:
    """The steps of a series, in order.

    Args:
        times: one a run, above 0, oldest first.
        smallest: change that counts, as a fraction.
        commits: of the runs, those of one commit together; None where each has its own. A step is within the runs of one
            commit only where their times say so clearly: then something else than the code changed.

    Raises:
        UsageError: the library is not installed.
    """
    if len(times) < TOGETHER_MIN:
        return []
    values = np.log(np.asarray(times, dtype=np.float64))
    noise = max(_spread(np.diff(values)) / math.sqrt(2), NOISE_MIN)
    clipped = _clipped(values, noise)
    splits = _splits(clipped / noise)
    if commits is not None:
        splits = _at_commits(splits, clipped / noise, commits)
    return _proven(_Both(values, clipped), splits, noise, math.log1p(smallest))


def _splits(values: Floats) -> list[int]:
    """Where the library would split values of variance 1: the first index of each piece but the first."""
    try:
        from ruptures.detection import KernelCPD
    except ImportError:
        raise UsageError("change points need ruptures, which is missing", "pip install 'evenbench[history]'") from None
    # The linear kernel's cost is the sum of squares about the mean; its search is exact (PELT), and in C.
    found = KernelCPD(kernel="linear", min_size=RUNS_MIN).fit(values.reshape(-1, 1))
    return [int(end) for end in found.predict(pen=PENALTY * math.log(len(values)))[:-1]]


def _at_commits(splits: Sequence[int], values: Floats, commits: Sequence[str]) -> list[int]:
    """The splits, moved to where a commit begins or ends unless that costs as much as another split."""
    edges = [0, *splits, len(values)]
    for number in range(1, len(edges) - 1):
        start, split, end = edges[number - 1 : number + 2]
        if commits[split - 1] != commits[split]:
            continue
        first = last = split
        while first > start and commits[first - 1] == commits[split]:
            first -= 1
        while last < end and commits[last] == commits[split]:
            last += 1
        off = _off(values, start, split, end)
        noise = max(1.0, NORMAL * float(np.median(off)))
        allowed = _cost(off, noise) + PENALTY * math.log(len(values))
        for place in (first, last):
            if start + RUNS_MIN <= place <= end - RUNS_MIN:
                cost = _cost(_off(values, start, place, end), noise)
                if cost < allowed:
                    edges[number], allowed = place, cost
    return edges[1:-1]


def _off(values: Floats, start: int, split: int, end: int) -> Floats:
    """How far each run of two pieces is off the median of its piece."""
    pieces = values[start:split], values[split:end]
    return np.concatenate([np.abs(piece - np.median(piece)) for piece in pieces])


def _cost(off: Floats, noise: float) -> float:
    """The sum of squares in variances; a single odd run counts no further than elsewhere."""
    return float(np.square(np.minimum(off / noise, CLIP)).sum())


class _Both(NamedTuple):
    """The logarithms of a series' times as they are, and with odd nights drawn in."""

    raw: Floats
    clipped: Floats


def _proven(both: _Both, splits: list[int], noise: float, smallest: float) -> list[Step]:
    """What is left once the split that proves least has gone, again and again, until all prove enough."""
    while splits:
        edges = [0, *splits, len(both.raw)]
        tested = _tested(both, edges, *_residual(both.clipped, edges, noise))
        weak = [
            n
            for n, step in enumerate(tested)
            if step.p > ALPHA or abs(math.log1p(step.change)) < smallest or edges[n + 2] - edges[n] < TOGETHER_MIN
        ]
        if not weak:
            return tested
        del splits[max(weak, key=lambda n: (tested[n].p, -abs(tested[n].change)))]
    return []


def _tested(both: _Both, edges: Sequence[int], noise: float, correlation: float) -> list[Step]:
    """Each split with what a t test says of it.

    Neighbours that resemble each other say less than as many strangers. And a level is one only where most of its nights
    agree: three odd ones of five have a mean, and no level.
    """
    found = []
    inflation = (1 + correlation) / (1 - correlation)
    freedom = max(len(both.raw) - len(edges) + 1, 1)
    for start, split, end in zip(edges, edges[1:], edges[2:], strict=False):
        sides = slice(max(start, split - MEMORY), split), slice(split, min(end, split + MEMORY))
        before, after = (float(both.clipped[side].mean()) for side in sides)
        variances = (max(noise, _spread(both.raw[side])) ** 2 / len(both.raw[side]) for side in sides)
        p = 2 * float(special.stdtr(freedom, -abs(after - before) / math.sqrt(inflation * sum(variances))))
        found.append(Step(split, math.expm1(after - before), p))
    return found


def _residual(values: Floats, edges: Sequence[int], noise: float) -> tuple[float, float]:
    """Standard deviation within the pieces, at least `noise`, and the correlation of neighbours in them."""
    pieces = [values[start:end] - values[start:end].mean() for start, end in pairwise(edges)]
    squares = sum(float(piece @ piece) for piece in pieces)
    products = sum(float(piece[1:] @ piece[:-1]) for piece in pieces)
    variance = max(squares / max(len(values) - len(pieces), 1), noise * noise)
    guess = GUESS_RUNS * variance
    correlation = (products + CORRELATION * guess) / (squares + guess)
    return math.sqrt(variance), min(max(correlation, 0.0), CORRELATION_MAX)


def _clipped(values: Floats, noise: float) -> Floats:
    """The series with single odd nights drawn in; at its ends the first and last windows stand still."""
    starts = np.clip(np.arange(len(values)) - WINDOW // 2, 0, len(values) - WINDOW)
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, WINDOW), axis=1)[starts]
    return np.asarray(medians + np.clip(values - medians, -CLIP * noise, CLIP * noise), dtype=np.float64)


def _spread(values: Floats) -> float:
    return float(NORMAL * np.median(np.abs(values - np.median(values))))
