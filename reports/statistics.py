"""Is head slower than base? Pure functions of numbers.

The statistical unit is the launch. Its *location* is the grouped median of its samples: the median, interpolated
inside the timer's tick. Of round k a row keeps d_k = log(head location) − log(base location). Over its K whole rounds,
with mean d, standard deviation s (at least that of rounding to a tick, tick / (√12 · location)), se = s / √K and t with
K − 1 degrees of freedom::

    change        exp(d) − 1, with the 95 % interval exp(d ± t₀.₉₇₅ · se) − 1
    p_slower      P(t > (d − δ) / se)          δ = log(1 + min_effect)
    p_faster      P(t < (d + δ) / se)
    p_equivalent  P(t > (ε − |d|) / se)        ε = log(1 + equivalence); the larger of two one-sided tests
    resolvable    exp(δ + t₁₋ₐ · se) − 1       a = family_error / (2 · rows · looks), the first step of Holm

Each p is multiplied by the number of planned looks. Holm's step-down over all judged rows and both directions then
keeps the chance of any false `regressed` or `improved` in the whole run under `family_error`.

Swapping base and head mirrors every answer, so the floor of s takes the smaller of the two sides' median locations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Samples = Sequence[int] | NDArray[np.integer]
Floats = NDArray[np.float64]
Verdict = Literal["regressed", "improved", "unchanged", "inconclusive"]

MIN_ROUNDS = 6  # under it a t test has next to no power at the levels of a whole run
CONFIDENCE = 0.95  # of the printed intervals
EQUIVALENT_P = 0.05  # `unchanged` is a statement on one row, so it is not corrected for the family
STOP_CHANGED_P = 1e-6  # a clear change stops early only where no later look could make it doubtful
STOP_UNCHANGED_RAW_P = 0.05  # a hint of a change keeps an equivalent row going
DRAWS = 20  # of shuffled labels
TICK_WITHOUT_ONE_NS = 1  # samples are whole nanoseconds at best
MAX_EXPONENT = 700.0  # exp of it is still finite
BLOCK_SAMPLES = 1 << 20  # sorted at once: 8 MiB, whatever the size of the run


@dataclass(frozen=True)
class Row:
    """The samples of one case and implementation on both sides.

    Attributes:
        key: any hashable; comes back in the judgement.
        rounds: (base, head) of each planned round, in nanoseconds; None for a round, or a side of it, without samples.
        tick_ns: the timer's tick; None where it has none.
        min_effect: the change, as a fraction, that a verdict must exceed.
    """

    key: Hashable
    rounds: Sequence[tuple[Samples | None, Samples | None] | None]
    tick_ns: int | None
    min_effect: float


@dataclass(frozen=True)
class Settings:
    """How a run is judged.

    Attributes:
        looks: rounds after which the plan looks at the data; their number multiplies each p, reached or not.
        equivalence: a change, as a fraction, inside which a row counts as unchanged.
        family_error: the chance of any false `regressed` or `improved` in the whole run.
    """

    looks: tuple[int, ...] = (8, 16, 24)
    equivalence: float = 0.02
    family_error: float = 0.01

    def __post_init__(self) -> None:
        if not self.looks:
            raise ValueError("looks: at least one is needed")


@dataclass(frozen=True)
class Judgement:
    """What the samples of one row say. Changes are fractions, positive where head is slower.

    Attributes:
        verdict: the decision, under the settings' family error.
        change: paired estimate over the whole rounds; None without one.
        interval: 95 % confidence interval of `change`; None under MIN_ROUNDS whole rounds.
        p_slower, p_faster, p_equivalent: times the planned looks, at most 1, before Holm.
        resolvable: the slow-down that these rounds could have shown; None as `interval`.
        base_ns, head_ns: median location of the side's launches in whole rounds; None without one.
        rounds: whole rounds used.
        warnings: what a reader should know, each a short sentence.
    """

    key: Hashable
    verdict: Verdict
    change: float | None
    interval: tuple[float, float] | None
    p_slower: float
    p_faster: float
    p_equivalent: float
    resolvable: float | None
    base_ns: float | None
    head_ns: float | None
    rounds: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class GeometricMean:
    """The mean change over `rows` judged rows, and its 95 % interval."""

    change: float
    interval: tuple[float, float]
    rows: int


@dataclass(frozen=True)
class Shuffled:
    """How often each row, in row order, was flagged in `draws` draws of shuffled labels."""

    flagged: tuple[int, ...]
    draws: int

    @property
    def total(self) -> int:
        """Flagged (row, draw) pairs."""
        return sum(self.flagged)


def grouped_median(samples: Samples, tick_ns: int | None) -> float:
    """The location of one launch in ns: `statistics.median_grouped` of the samples snapped to the tick.

    Without a tick it is the plain median. Raises ValueError without samples.
    """
    block = np.asarray(samples, dtype=np.int64).reshape(1, -1)
    if not block.size:
        raise ValueError("no samples")
    return float(_grouped_medians(block, np.array([tick_ns or 0]))[0])


def _grouped_medians(block: NDArray[np.int64], ticks: NDArray[np.int64]) -> Floats:
    """The locations of launches with equally many samples, one a line; tick 0 stands for none."""
    n = block.shape[1]
    tick = np.maximum(ticks, 1)[:, np.newaxis]
    cells = np.sort((block + tick // 2) // tick, axis=1)  # in ticks, halves upwards
    lower, upper = cells[:, (n - 1) // 2], cells[:, n // 2]
    below = (cells < upper[:, np.newaxis]).sum(axis=1)
    at = (cells == upper[:, np.newaxis]).sum(axis=1)
    grouped = (upper - 0.5 + (n / 2 - below) / at) * tick[:, 0]
    return np.asarray(np.where(ticks > 0, grouped, lower / 2 + upper / 2), dtype=np.float64)


def locations(rows: Sequence[Row]) -> Floats:
    """The location of every launch in ns: an array of rows × rounds × (base, head).

    Both sides are NaN in a round that is not whole: one without samples, or with a location that is not positive.
    """
    width = max([1, *(len(row.rounds) for row in rows)])
    found = np.full((len(rows), width, 2), np.nan)
    flat = found.reshape(-1)
    by_length: dict[int, tuple[list[int], list[Samples], list[int]]] = {}
    for r, row in enumerate(rows):
        for k, sides in enumerate(row.rounds):
            for side, samples in enumerate(sides or ()):
                if samples is not None and len(samples):
                    places, launches, ticks = by_length.setdefault(len(samples), ([], [], []))
                    places.append((r * width + k) * 2 + side)
                    launches.append(samples)
                    ticks.append(row.tick_ns or 0)
    for length, (places, launches, ticks) in by_length.items():
        step = max(1, BLOCK_SAMPLES // length)
        for i in range(0, len(places), step):
            part = slice(i, i + step)
            block = np.concatenate([np.asarray(samples, dtype=np.int64) for samples in launches[part]])
            flat[places[part]] = _grouped_medians(block.reshape(-1, length), np.array(ticks[part]))
    found[~(found > 0).all(axis=2)] = np.nan
    return found


def _differences(located: Floats) -> tuple[Floats, NDArray[np.bool_], NDArray[np.int64]]:
    """d_k (0 in rounds that are not whole), which rounds are whole, and how many: rows × rounds twice, then rows."""
    whole = ~np.isnan(located[:, :, 0])
    logs = np.log(located)
    return np.where(whole, logs[:, :, 1] - logs[:, :, 0], 0.0), whole, whole.sum(axis=1)


def _side_medians(located: Floats, count: NDArray[np.int64]) -> Floats:
    """The median location of each row's sides: rows × 2; NaN without whole rounds."""
    ordered = np.sort(located, axis=1)  # NaN last
    middle = np.stack([(count - 1) // 2, count // 2], axis=1)
    return np.take_along_axis(ordered, middle[:, :, np.newaxis], axis=1).mean(axis=1)


def _floor(located: Floats, count: NDArray[np.int64], rows: Sequence[Row]) -> Floats:
    """The least standard deviation of d_k to believe in: that of rounding one location to the tick."""
    tick = np.array([row.tick_ns or TICK_WITHOUT_ONE_NS for row in rows], dtype=np.float64)
    return tick / (np.sqrt(12) * _side_medians(located, count).min(axis=1))


def _t_above(t: Floats, freedom: NDArray[np.int64]) -> Floats:
    """P(T > t). As a lower tail, which keeps its digits where an upper one is 1 minus almost 1."""
    return np.asarray(stdtr(freedom, -t), dtype=np.float64)


def _t_quantile(upper: float, freedom: NDArray[np.int64]) -> Floats:
    """The t that is exceeded with probability `upper`."""
    return np.asarray(-stdtrit(freedom, upper), dtype=np.float64)


def _change(logarithm: Floats) -> Floats:
    return np.asarray(np.expm1(np.minimum(logarithm, MAX_EXPONENT)), dtype=np.float64)


@dataclass(frozen=True)
class _Tests:
    """The formulas of the module's docstring, one value a row; for rows of MIN_ROUNDS whole rounds or more."""

    mean: Floats
    se: Floats
    freedom: NDArray[np.int64]
    delta: Floats
    slower: Floats
    faster: Floats
    equivalent: Floats
    floored: NDArray[np.bool_]

    def flags(self, family_error: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows Holm's step-down over all rows and both directions calls slower, and which faster."""
        p = np.concatenate([self.slower, self.faster])
        order = np.argsort(p)
        passes = p[order] <= family_error / np.arange(p.size, 0, -1)
        rejected = np.zeros(p.size, dtype=np.bool_)
        rejected[order[np.logical_and.accumulate(passes)]] = True
        return rejected[: p.size // 2], rejected[p.size // 2 :]


def _test(located: Floats, rows: Sequence[Row], settings: Settings) -> _Tests:
    d, whole, count = _differences(located)
    mean = d.sum(axis=1) / count
    spread = np.sqrt(np.where(whole, d - mean[:, np.newaxis], 0.0).__pow__(2).sum(axis=1) / (count - 1))
    floor = _floor(located, count, rows)
    se = np.maximum(spread, floor) / np.sqrt(count)
    delta = np.log1p(np.array([row.min_effect for row in rows], dtype=np.float64))
    freedom = count - 1
    slower, faster, equivalent = (
        np.minimum(1.0, len(settings.looks) * _t_above(excess / se, freedom))
        for excess in (mean - delta, -mean - delta, np.log1p(settings.equivalence) - np.abs(mean))
    )
    return _Tests(mean, se, freedom, delta, slower, faster, equivalent, spread < floor)


def judge(rows: Sequence[Row], settings: Settings, located: Floats | None = None) -> list[Judgement]:
    """Judges the rows of a whole run, over all its shards, and answers in row order.

    A row under MIN_ROUNDS whole rounds is inconclusive with p = 1, and Holm does not count it.

    Args:
        rows: all rows of the run that are comparable.
        settings: looks, equivalence and family error.
        located: `locations(rows)`, where the caller has it already.
    """
    located = locations(rows) if located is None else located
    d, _, count = _differences(located)
    change = _change(d.sum(axis=1) / np.maximum(count, 1))
    medians = _side_medians(located, count)
    judged = np.flatnonzero(count >= MIN_ROUNDS)
    answers = dict(zip(judged.tolist(), _answers(located[judged], [rows[i] for i in judged], settings), strict=True))
    return [
        _judgement(row, n, float(change[i]), (float(medians[i, 0]), float(medians[i, 1])), answers.get(i, _TOO_FEW))
        for i, (row, n) in enumerate(zip(rows, count.tolist(), strict=True))
    ]


@dataclass(frozen=True)
class _Answer:
    verdict: Verdict
    interval: tuple[float, float] | None
    slower: float
    faster: float
    equivalent: float
    resolvable: float | None
    warnings: tuple[str, ...]


_TOO_FEW = _Answer("inconclusive", None, 1.0, 1.0, 1.0, None, (f"too few rounds: {MIN_ROUNDS} whole ones are needed",))
_FLOORED = "the rounds differ by less than the timer can tell; its tick sets the interval"


def _answers(located: Floats, rows: Sequence[Row], settings: Settings) -> list[_Answer]:
    tests = _test(located, rows, settings)
    regressed, improved = tests.flags(settings.family_error)
    half = _t_quantile((1 - CONFIDENCE) / 2, tests.freedom) * tests.se
    first_step = settings.family_error / (2 * max(1, len(rows)) * len(settings.looks))
    resolvable = _change(tests.delta + _t_quantile(first_step, tests.freedom) * tests.se)
    low, high = _change(tests.mean - half), _change(tests.mean + half)
    verdicts: list[Verdict] = [
        "regressed" if slow else "improved" if fast else "unchanged" if p <= EQUIVALENT_P else "inconclusive"
        for slow, fast, p in zip(regressed, improved, tests.equivalent, strict=True)
    ]
    return [
        _Answer(
            verdicts[i],
            (float(low[i]), float(high[i])),
            float(tests.slower[i]),
            float(tests.faster[i]),
            float(tests.equivalent[i]),
            float(resolvable[i]),
            (_FLOORED,) if tests.floored[i] else (),
        )
        for i in range(len(rows))
    ]


def _judgement(row: Row, whole: int, change: float, medians: tuple[float, float], answer: _Answer) -> Judgement:
    begun = max((k + 1 for k, sides in enumerate(row.rounds) if any(s is not None for s in sides or ())), default=0)
    dropped = (f"{begun - whole} of {begun} rounds dropped: no time above 0 on both sides",) if begun > whole else ()
    return Judgement(
        key=row.key,
        verdict=answer.verdict,
        change=change if whole else None,
        interval=answer.interval,
        p_slower=answer.slower,
        p_faster=answer.faster,
        p_equivalent=answer.equivalent,
        resolvable=answer.resolvable,
        base_ns=medians[0] if whole else None,
        head_ns=medians[1] if whole else None,
        rounds=whole,
        warnings=answer.warnings + dropped,
    )
