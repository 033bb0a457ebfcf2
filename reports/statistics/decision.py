"""From estimates with their standard errors to verdicts: three tests a row, Holm over all of them, the intervals. Pure.

What a row's samples amount to is told by `evenbench.reports.statistics` where base and head were measured in rounds, and by
`evenbench.reports.statistics.unpaired` where they were not. From there on both go by the same rules, with d the estimate of
log(head / base), se its standard error and t with the estimate's degrees of freedom::

    change        exp(d) - 1, with the 95 % interval exp(d ± t₀.₉₇₅ · se) - 1
    p_slower      P(t > (d - δ) / se)          δ = log(1 + min_effect)
    p_faster      P(t < (d + δ) / se)
    p_equivalent  P(t > (ε - |d|) / se)        ε = log(1 + equivalence); the larger of two one-sided tests
    resolvable    exp(δ + t₁₋ₐ · se) - 1       a = family_error / (2 · rows · looks), the first step of Holm

Each p is multiplied by the number of planned looks. Holm's step-down over all judged rows and both directions then
keeps the chance of any false `regressed` or `improved` in the whole run at `family_error`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from .location import Floats

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Freedom = Integers | Floats
Verdict = Literal["regressed", "improved", "unchanged", "inconclusive"]

MIN_ROUNDS = 6  # under it a t test has next to no power at the levels of a whole run
CONFIDENCE = 0.95  # of the printed intervals
EQUIVALENT_P = 0.05  # `unchanged` speaks of one row, so the family does not correct it
TICK_WITHOUT_ONE_NS = 1  # samples are whole nanoseconds
MAX_EXPONENT = 700.0  # its exp is still finite


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
        change: estimate over the whole rounds, or the launches where sides are not paired; None without one.
        interval: 95 % confidence interval of `change`; None where there is too little to judge.
        p_slower, p_faster, p_equivalent: times the planned looks, at most 1, before Holm.
        resolvable: the slow-down that these rounds could have shown; None where `interval` is.
        base_ns, head_ns: median location of the side's launches that count; None without one.
        rounds: whole rounds used; launches of the side that has fewer, where sides are not paired.
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
class Tests:
    """The formulas of the module's docstring, one value a row; made by `tested`."""

    mean: Floats
    se: Floats
    freedom: Freedom
    delta: Floats
    slower: Floats
    faster: Floats
    equivalent: Floats

    def flags(self, family_error: float) -> tuple[Flags, Flags]:
        """Which rows Holm's step-down over all rows and both directions calls slower, and which faster."""
        p = np.concatenate([self.slower, self.faster])
        order = np.argsort(p)
        passes = p[order] <= family_error / np.arange(p.size, 0, -1)
        rejected = np.zeros(p.size, dtype=np.bool_)
        rejected[order[np.logical_and.accumulate(passes)]] = True
        return rejected[: p.size // 2], rejected[p.size // 2 :]


def tested(mean: Floats, se: Floats, freedom: Freedom, min_effects: Sequence[float], settings: Settings) -> Tests:
    """The tests of the rows' estimates of log(head / base), with their standard errors, all above 0."""
    delta = np.log1p(np.array(min_effects, dtype=np.float64))
    slower, faster, equivalent = (
        # A lower tail keeps the digits that an upper one loses as 1 minus almost 1.
        np.minimum(1.0, len(settings.looks) * stdtr(freedom, -beyond / se))
        for beyond in (mean - delta, -mean - delta, np.log1p(settings.equivalence) - np.abs(mean))
    )
    return Tests(mean, se, freedom, delta, slower, faster, equivalent)


def decided(answers: Sequence[Judgement], tests: Tests, settings: Settings) -> list[Judgement]:
    """The answers with verdict, interval, p values and what could have been resolved; one test an answer."""
    regressed, improved = tests.flags(settings.family_error)
    half = t_quantile((1 - CONFIDENCE) / 2, tests.freedom) * tests.se
    low, high = change_of(tests.mean - half), change_of(tests.mean + half)
    first_step = settings.family_error / (2 * max(1, len(answers)) * len(settings.looks))
    resolvable = change_of(tests.delta + t_quantile(first_step, tests.freedom) * tests.se)
    judged = []
    for n, answer in enumerate(answers):
        p = float(tests.equivalent[n])
        otherwise: Verdict = "unchanged" if p <= EQUIVALENT_P else "inconclusive"
        judged.append(
            replace(
                answer,
                verdict="regressed" if regressed[n] else "improved" if improved[n] else otherwise,
                interval=(float(low[n]), float(high[n])),
                p_slower=float(tests.slower[n]),
                p_faster=float(tests.faster[n]),
                p_equivalent=p,
                resolvable=float(resolvable[n]),
            )
        )
    return judged


def undecided(
    key: Hashable,
    change: float | None,
    medians_ns: tuple[float, float] | None,
    rounds: int,
    warnings: tuple[str, ...],
) -> Judgement:
    """The estimates of a row, without a judgement on them."""
    base_ns, head_ns = medians_ns or (None, None)
    return Judgement(key, "inconclusive", change, None, 1.0, 1.0, 1.0, None, base_ns, head_ns, rounds, warnings)


def mean_change(mean: float, se: float, freedom: Freedom, rows: int) -> GeometricMean:
    """The geometric mean, from the mean of the rows' estimates of log(head / base) and its standard error."""
    half = float(t_quantile((1 - CONFIDENCE) / 2, freedom)) * se
    low, mid, high = change_of(mean + half * np.array([-1.0, 0.0, 1.0])).tolist()
    return GeometricMean(mid, (low, high), rows)


def rounding(ticks: Sequence[int | None], medians_ns: Floats) -> Floats:
    """The standard deviation of log locations that rounding to the tick alone brings, one value a row."""
    known = np.array([tick or TICK_WITHOUT_ONE_NS for tick in ticks], dtype=np.float64)
    return np.asarray(known / (np.sqrt(12) * medians_ns), dtype=np.float64)


def t_quantile(upper: float, freedom: Freedom) -> Floats:
    """The t that is exceeded with probability `upper`."""
    return np.asarray(-stdtrit(freedom, upper), dtype=np.float64)


def change_of(logarithm: Floats) -> Floats:
    """The change, as a fraction, that a logarithm of head / base stands for; finite."""
    return np.asarray(np.expm1(np.minimum(logarithm, MAX_EXPONENT)), dtype=np.float64)
