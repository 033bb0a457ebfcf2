"""Is head slower than base? Pure functions of numbers.

The statistical unit is the launch, and its location speaks for it (`reports.location`). Of round k a row keeps
d_k = log(head location) - log(base location). Over its K whole rounds, with mean d, standard deviation s (at least that
of rounding to a tick, tick / (√12 · location)), se = s / √K and t with K - 1 degrees of freedom::

    change        exp(d) - 1, with the 95 % interval exp(d ± t₀.₉₇₅ · se) - 1
    p_slower      P(t > (d - δ) / se)          δ = log(1 + min_effect)
    p_faster      P(t < (d + δ) / se)
    p_equivalent  P(t > (ε - |d|) / se)        ε = log(1 + equivalence); the larger of two one-sided tests
    resolvable    exp(δ + t₁₋ₐ · se) - 1       a = family_error / (2 · rows · looks), the first step of Holm

Each p is multiplied by the number of planned looks. Holm's step-down over all judged rows and both directions then
keeps the chance of any false `regressed` or `improved` in the whole run at `family_error`.

Swapping base and head mirrors every answer, so the floor of s takes the smaller of the two sides' median locations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from .location import Floats, Row, grouped_median, locations

__all__ = [
    "DRAWS",
    "MIN_ROUNDS",
    "ONE_SIDED",
    "GeometricMean",
    "Judgement",
    "Row",
    "Settings",
    "Shuffled",
    "Verdict",
    "geometric_mean",
    "grouped_median",
    "judge",
    "locations",
    "open_rows",
    "shuffled_labels",
]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Verdict = Literal["regressed", "improved", "unchanged", "inconclusive"]

MIN_ROUNDS = 6  # under it a t test has next to no power at the levels of a whole run
CONFIDENCE = 0.95  # of the printed intervals
EQUIVALENT_P = 0.05  # `unchanged` speaks of one row, so the family does not correct it
STOP_CHANGED_P = 1e-6  # a row stops as changed only where later looks could not make it doubtful
STOP_UNCHANGED_RAW_P = 0.05  # a hint of a change keeps an equivalent row going
DRAWS = 20  # of shuffled labels
TICK_WITHOUT_ONE_NS = 1  # samples are whole nanoseconds
MAX_EXPONENT = 700.0  # its exp is still finite
ONE_SIDED = "samples of a side are missing"  # how a warning ends; who knows why can say it better
WITHIN_TICK = "the rounds differ by less than the timer can tell; its tick sets the interval"


@dataclass(frozen=True)
class Settings:
    """How a run is judged.

    Attributes:
        looks: rounds after which the plan looks at the data; their number multiplies each p, reached or not.
        equivalence: a change, as a fraction, inside which a row counts as unchanged.
        family_error: the chance of any false `regressed` or `improved` in the whole run.

    Raises ValueError without looks.
    """

    looks: tuple[int, ...] = (8, 16, 24)
    equivalence: float = 0.02
    family_error: float = 0.01

    def __post_init__(self) -> None:
        if not self.looks:
            raise ValueError("looks must name at least one number of rounds")


@dataclass(frozen=True)
class Judgement:
    """What the samples of one row say. Changes are fractions, above 0 where head is slower.

    Attributes:
        verdict: the decision.
        change: paired estimate over the whole rounds; None without one.
        interval: 95 % confidence interval of `change`; None under MIN_ROUNDS whole rounds.
        p_slower, p_faster, p_equivalent: times the planned looks, at most 1, before Holm.
        resolvable: the slow-down that these rounds could have shown; None where `interval` is.
        base_ns, head_ns: median location of the side's launches in whole rounds; None without one.
        rounds: whole rounds used.
        warnings: what a reader should know, a short sentence each.
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
    """The mean change of a run's `rows` judged rows, as a fraction, and its 95 % interval."""

    change: float
    interval: tuple[float, float]
    rows: int


@dataclass(frozen=True)
class Shuffled:
    """In how many of `draws` draws of shuffled labels each row was flagged, in row order."""

    flagged: tuple[int, ...]
    draws: int

    @property
    def total(self) -> int:
        """Flagged (row, draw) pairs."""
        return sum(self.flagged)


def judge(rows: Sequence[Row], settings: Settings, located: Floats | None = None) -> list[Judgement]:
    """Judges the comparable rows of a whole run, over all its shards, and answers in row order.

    A row under MIN_ROUNDS whole rounds is inconclusive with p = 1, and Holm does not count it.
    `located` is `locations(rows)`, where the caller has it already.
    """
    located = locations(rows) if located is None else located
    answers = _unjudged(rows, located)
    judged = _judged(located)
    tests = _test(located[judged], [rows[i] for i in judged], settings)
    regressed, improved = tests.flags(settings.family_error)
    half = _t_quantile((1 - CONFIDENCE) / 2, tests.freedom) * tests.se
    low, high = _change(tests.mean - half), _change(tests.mean + half)
    first_step = settings.family_error / (2 * max(1, judged.size) * len(settings.looks))
    resolvable = _change(tests.delta + _t_quantile(first_step, tests.freedom) * tests.se)
    for n, i in enumerate(judged):
        p = float(tests.equivalent[n])
        otherwise: Verdict = "unchanged" if p <= EQUIVALENT_P else "inconclusive"
        answers[i] = replace(
            answers[i],
            verdict="regressed" if regressed[n] else "improved" if improved[n] else otherwise,
            interval=(float(low[n]), float(high[n])),
            p_slower=float(tests.slower[n]),
            p_faster=float(tests.faster[n]),
            p_equivalent=p,
            resolvable=float(resolvable[n]),
            warnings=answers[i].warnings + ((WITHIN_TICK,) if tests.within_tick[n] else ()),
        )
    return answers


def _unjudged(rows: Sequence[Row], located: Floats) -> list[Judgement]:
    """The rows' estimates, without a judgement on them."""
    d, _, count = _differences(located)
    change = _change(d.sum(axis=1) / np.maximum(count, 1))
    medians = _side_medians(located, count)
    return [
        Judgement(
            key=row.key,
            verdict="inconclusive",
            change=float(change[i]) if whole else None,
            interval=None,
            p_slower=1.0,
            p_faster=1.0,
            p_equivalent=1.0,
            resolvable=None,
            base_ns=float(medians[i, 0]) if whole else None,
            head_ns=float(medians[i, 1]) if whole else None,
            rounds=whole,
            warnings=_warnings(row, whole),
        )
        for i, (row, whole) in enumerate(zip(rows, count.tolist(), strict=True))
    ]


def _warnings(row: Row, whole: int) -> tuple[str, ...]:
    begun = max((k + 1 for k, sides in enumerate(row.rounds) if any(s is not None for s in sides or ())), default=0)
    few = f"too few rounds: {whole} whole, at least {MIN_ROUNDS} needed"
    missing = begun - sum(1 for sides in row.rounds if sides and sides[0] is not None and sides[1] is not None)
    why = {ONE_SIDED: missing, "a time is not above 0": begun - whole - missing}
    dropped = tuple(f"{number} of {begun} rounds dropped: {reason}" for reason, number in why.items() if number)
    return ((few,) if whole < MIN_ROUNDS else ()) + dropped


def open_rows(judgements: Sequence[Judgement], settings: Settings, *, shards: int = 1) -> list[Hashable]:
    """The keys of the rows that go on to the next look.

    A row stops as changed where Holm over all `shards`, each of as many rows, must reject it; as unchanged where it is
    equivalent and its p, before the factor for the looks, hints at no change.
    """
    changed_p = min(STOP_CHANGED_P, settings.family_error / (2 * max(1, len(judgements)) * shards))
    hint_p = min(1.0, STOP_UNCHANGED_RAW_P * len(settings.looks))
    going_on = []
    for judgement in judgements:
        p = min(judgement.p_slower, judgement.p_faster)
        if p > changed_p and not (judgement.p_equivalent <= EQUIVALENT_P and p >= hint_p):
            going_on.append(judgement.key)
    return going_on


def shuffled_labels(
    rows: Sequence[Row], settings: Settings, seed: int, draws: int = DRAWS, located: Floats | None = None
) -> Shuffled:
    """Judges the rows with base and head swapped in half of the rounds: each row that is flagged then is a false alarm.

    A draw puts the run's rounds in a random order, the same for all rows, and each row swaps the first half of its own
    whole rounds: exactly half, so that a true change cancels; of an odd number the smaller half.
    """
    located = locations(rows) if located is None else located
    judged = _judged(located)
    chosen = [rows[i] for i in judged]
    flagged = np.zeros(len(rows), dtype=np.int64)
    random = np.random.default_rng(seed)
    for _ in range(draws):
        shuffled = _swap_half(located[judged], random.permutation(located.shape[1]))
        slower, faster = _test(shuffled, chosen, settings).flags(settings.family_error)
        flagged[judged] += slower | faster
    return Shuffled(tuple(flagged.tolist()), draws)


def _swap_half(located: Floats, order: Integers) -> Floats:
    """The sides swapped in the first half of each row's whole rounds, as `order` ranks the rounds."""
    drawn = located[:, order]
    whole = ~np.isnan(drawn[:, :, :1])
    swapped = whole.cumsum(axis=1) <= whole.sum(axis=1, keepdims=True) // 2
    answer = np.empty_like(located)
    answer[:, order] = np.where(swapped, drawn[:, :, ::-1], drawn)
    return answer


def geometric_mean(rows: Sequence[Row], located: Floats | None = None) -> GeometricMean | None:
    """The geometric mean of the change over the rows of MIN_ROUNDS whole rounds or more; None without any.

    Its interval comes from the rounds' means over rows, since what disturbs a launch disturbs many of its rows. Each
    row enters them by its deviation from its own mean, so that rows which stopped at an early look do not shift them.
    With all rows in all rounds this is the t interval of the rounds' means. Freedom is that of the shortest row.
    """
    located = locations(rows) if located is None else located
    judged = _judged(located)
    if not judged.size:
        return None
    located, chosen = located[judged], [rows[i] for i in judged]
    d, whole, count = _differences(located)
    means = d.sum(axis=1) / count
    deviations = np.where(whole, d - means[:, np.newaxis], 0.0) / np.sqrt(count * (count - 1))[:, np.newaxis]
    rounding = _rounding(located, count, chosen) / np.sqrt(count)
    variance = max((deviations.sum(axis=0) ** 2).sum(), (rounding**2).sum())
    half = _t_quantile((1 - CONFIDENCE) / 2, count.min(keepdims=True) - 1) * np.sqrt(variance) / judged.size
    low, mid, high = _change(means.mean() + half * np.array([-1.0, 0.0, 1.0])).tolist()
    return GeometricMean(mid, (low, high), judged.size)


@dataclass(frozen=True)
class _Tests:
    """The formulas of the module's docstring, one value a row; for rows of MIN_ROUNDS whole rounds or more."""

    mean: Floats
    se: Floats
    freedom: Integers
    delta: Floats
    slower: Floats
    faster: Floats
    equivalent: Floats
    within_tick: Flags

    def flags(self, family_error: float) -> tuple[Flags, Flags]:
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
    spread = np.sqrt((np.where(whole, d - mean[:, np.newaxis], 0.0) ** 2).sum(axis=1) / (count - 1))
    rounding = _rounding(located, count, rows)
    se = np.maximum(spread, rounding) / np.sqrt(count)
    delta = np.log1p(np.array([row.min_effect for row in rows], dtype=np.float64))
    slower, faster, equivalent = (
        # A lower tail keeps the digits that an upper one loses as 1 minus almost 1.
        np.minimum(1.0, len(settings.looks) * stdtr(count - 1, -beyond / se))
        for beyond in (mean - delta, -mean - delta, np.log1p(settings.equivalence) - np.abs(mean))
    )
    return _Tests(mean, se, count - 1, delta, slower, faster, equivalent, spread < rounding)


def _judged(located: Floats) -> Integers:
    """The indices of the rows with enough whole rounds."""
    return np.flatnonzero((~np.isnan(located[:, :, 0])).sum(axis=1) >= MIN_ROUNDS)


def _differences(located: Floats) -> tuple[Floats, Flags, Integers]:
    """d_k (0 in rounds that are not whole) and which rounds are whole, each rows by rounds; how many a row has."""
    whole = ~np.isnan(located[:, :, 0])
    logs = np.log(located)
    return np.where(whole, logs[:, :, 1] - logs[:, :, 0], 0.0), whole, whole.sum(axis=1)


def _side_medians(located: Floats, count: Integers) -> Floats:
    """The median location of each row's sides: rows by (base, head); NaN without whole rounds."""
    ordered = np.sort(located, axis=1)  # NaN last
    middle = np.stack([(count - 1) // 2, count // 2], axis=1)
    pair = np.take_along_axis(ordered, middle[:, :, np.newaxis], axis=1)
    return np.asarray(pair.mean(axis=1), dtype=np.float64)


def _rounding(located: Floats, count: Integers, rows: Sequence[Row]) -> Floats:
    """The standard deviation of log locations that rounding to the tick alone brings, one value a row."""
    ticks = np.array([row.tick_ns or TICK_WITHOUT_ONE_NS for row in rows], dtype=np.float64)
    return np.asarray(ticks / (np.sqrt(12) * _side_medians(located, count).min(axis=1)), dtype=np.float64)


def _t_quantile(upper: float, freedom: Integers) -> Floats:
    """The t that is exceeded with probability `upper`."""
    return np.asarray(-stdtrit(freedom, upper), dtype=np.float64)


def _change(logarithm: Floats) -> Floats:
    return np.asarray(np.expm1(np.minimum(logarithm, MAX_EXPONENT)), dtype=np.float64)
