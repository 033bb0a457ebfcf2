"""Why a row of a comparison has its verdict, in words, and what its p values had to meet. Pure; may quote foreign text."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ... import units
from ...rows.outcome import MAIN, ComparedRow, Comparison
from ...statistics.decision import CONFIDENCE, EQUIVALENT_P, change_of, t_quantile
from ...statistics.failures import BLAME_P, FAILURES_MIN, Failures

ROUNDS_TRIED = 1_000  # a noise that needs more rounds needs another machine
LEAST_CHANGE = -1 + 2**-52
CHANGED = ("regressed", "improved")


@dataclass(frozen=True)
class Family:
    """The p values of all judged rows in both directions, ascending, and what Holm's step-down made of them."""

    ps: tuple[float, ...]
    error: float

    @cached_property
    def rejected(self) -> int:
        """How many it rejects: it stops at the first that is too large."""
        passes = (p <= self.error / (len(self.ps) - at) for at, p in enumerate(self.ps))
        return next((at for at, passed in enumerate(passes) if not passed), len(self.ps))

    def step(self, p: float) -> int:
        """The step, from 0, at which a p was rejected, or at which it would have had to be."""
        return min(bisect_left(self.ps, p), self.rejected)

    def bound(self, p: float) -> float:
        """What a p had to be at most."""
        return self.error / max(1, len(self.ps) - self.step(p))

    def last_bound(self, p: float) -> float:
        """What it could have been and still be rejected, all others as they are: they leave it the last step."""
        among = self.step(p) < self.rejected
        return self.error / max(1, len(self.ps) - self.rejected + among)


def family_of(comparison: Comparison) -> Family:
    """The family of a run: what had enough rounds to be judged, muted rows as well."""
    judged = [row for row in comparison.rows if row.interval is not None]
    ps = sorted(p for row in judged for p in (row.p_slower, row.p_faster) if p is not None)
    return Family(tuple(ps), comparison.judged_by.family_error)


@dataclass(frozen=True)
class JudgedRow:
    """A judged row, and the numbers that its verdict hangs on. Estimates and errors are of log(head / base).

    Attributes:
        row: it has an interval.
        family: of its run.
        looks: planned ones.
        equivalence: as the run was judged by.
    """

    row: ComparedRow
    family: Family
    looks: int
    equivalence: float

    @property
    def smaller_p(self) -> float:
        """That of the direction in which the estimate lies."""
        return min(self.row.p_slower or 0.0, self.row.p_faster or 0.0)

    @property
    def estimate(self) -> float:
        """Mean over the rounds."""
        return _log(self.row.change or 0.0)

    @property
    def se(self) -> float:
        """The estimate's standard error, as the interval tells it."""
        _, high = self.row.interval or (0.0, 0.0)
        half = _log(high) - self.estimate
        return half / float(t_quantile((1 - CONFIDENCE) / 2, np.array(self.row.rounds - 1)))

    def called_from(self, rounds: int | None = None) -> float:
        """The estimate from which a slow-down is called, after so many rounds of this noise; its negative a speed-up."""
        level = self.family.last_bound(self.smaller_p) / self.looks
        return _log(self.row.min_effect) + self._margin(level, rounds)

    def unchanged_up_to(self, rounds: int | None = None) -> float:
        """The estimate up to which `unchanged` can be shown, after so many rounds of this noise; not above 0: never."""
        return _log(self.equivalence) - self._margin(EQUIVALENT_P / self.looks, rounds)

    def _margin(self, level: float, rounds: int | None) -> float:
        made = self.row.rounds
        number = rounds or made
        return float(t_quantile(level, np.array(number - 1))) * self.se * math.sqrt(made / number)

    def settled_after(self) -> tuple[int, str] | None:
        """After how many rounds in all an open row would be decided, and how, if estimate and noise stay as they are."""
        size = abs(self.estimate)
        for rounds in range(self.row.rounds + 1, ROUNDS_TRIED + 1):
            if size >= self.called_from(rounds):
                return rounds, "regressed" if self.estimate > 0 else "improved"
            if size <= self.unchanged_up_to(rounds):
                return rounds, "unchanged"
        return None


def because(row: ComparedRow, comparison: Comparison, family: Family) -> str:
    """Why the verdict is what it is."""
    if row.failures is not None and (said := _of_failures(row.failures, row)):
        return said
    if row.interval is None or row.p_equivalent is None:
        return _settled(row)
    judged = judged_of(row, comparison, family)
    effect, equal = units.setting(row.min_effect), units.setting(judged.equivalence)
    p = judged.smaller_p
    step = f"step {family.step(p) + 1:,} of {len(family.ps):,} of Holm's"
    change = f"{_way(judged)} by more than {effect} (p {p_value(p)}, at most {p_value(family.bound(p))} asked: {step})"
    same = f"within ± {equal} (p {p_value(row.p_equivalent)}, at most {EQUIVALENT_P:g} asked)"
    if row.verdict in CHANGED:
        return f"head was shown to be {change}"
    if row.verdict == "unchanged":
        low, high = row.interval
        small = (
            ". 0 lies outside the interval: there may be a change, too small to count" if low > 0 or high < 0 else ""
        )
        return f"the change was shown to lie {same}, and not that head is {change}{small}"
    could = units.percent(row.resolvable or 0.0, plus=False)
    rounds = "rounds" if comparison.facts.paired else "launches"
    return (
        f"neither was shown: not that head is {change}, nor that the change lies {same}. "
        f"These {rounds} could have shown a change of {could}, whatever the other rows say"
    )


def otherwise(row: ComparedRow, comparison: Comparison, family: Family) -> str:
    """Which estimates would have given which verdict at this noise; what would decide an open row."""
    if row.interval is None or (row.failures is not None and row.failures.blame and row.verdict != "regressed"):
        return ""
    judged = judged_of(row, comparison, family)
    called, equal = judged.called_from(), judged.unchanged_up_to()
    slower, faster = (units.percent(float(change_of(np.array(each))), 2) for each in (called, -called))
    inner = units.percent(float(change_of(np.array(equal))), 2, plus=False)
    said = (
        f"after {units.count(row.rounds, 'round')} of this noise an estimate above {slower} is called regressed, "
        f"one below {faster} improved"
    )
    if equal <= 0:
        said += ", and none unchanged"
    elif equal >= called:
        said += ", any between unchanged"
    else:
        said += f", one within ± {inner} unchanged, any other inconclusive"
    if row.verdict == "inconclusive":
        said += _more(judged)
    return said


def _more(judged: JudgedRow) -> str:
    settled = judged.settled_after()
    if settled is None:
        return f". If it stays as it is, {ROUNDS_TRIED:,} rounds would not be enough: a quieter machine might"
    rounds, verdict = settled
    return (
        f". If estimate and noise stay as they are, about {rounds:,} rounds would say {verdict} (--rounds {rounds:,})"
    )


def judged_of(row: ComparedRow, comparison: Comparison, family: Family) -> JudgedRow:
    """The numbers that a judged row's verdict hangs on."""
    looks = len(comparison.facts.header.looks)
    return JudgedRow(row, family, looks, comparison.judged_by.equivalence)


def _log(change: float) -> float:
    """The logarithm of head / base that a change stands for; finite where it was rounded to -100 %."""
    return math.log1p(max(change, LEAST_CHANGE))


def _way(judged: JudgedRow) -> str:
    return "slower" if (judged.row.p_slower or 0) <= (judged.row.p_faster or 0) else "faster"


def p_value(p: float) -> str:
    """A p value or its bound, in two digits."""
    return f"{p:.2g}"


def _of_failures(failures: Failures, row: ComparedRow) -> str:
    """Why launches that failed decide the verdict; empty where they do not."""
    missing = "A launch that fails is not missing at random, so the times of the others"
    test = f"Fisher's exact test: p {p_value(failures.p)}, at most {BLAME_P:g} needed"
    match failures.blame, row.verdict:
        case "head", "failed" if failures.base:
            return f"{failures.text}: head fails more often ({test}). {missing} do not count"
        case "head", "failed" if failures.base_launches and row.head is not None:
            return f"{failures.text}: {FAILURES_MIN} of head alone are enough. {missing} do not count"
        case "base", "fixed" if row.base is not None:
            return f"{failures.text}: head fails no more. {missing} do not count, unless head was shown to be slower"
        case "unclear", "inconclusive" if not failures.base:
            return f"{failures.text}: a single failure may be an accident. {missing} cannot show that nothing changed"
        case "unclear", "inconclusive":
            return f"{failures.text}: not shown that head fails more often ({test}). {missing} cannot show that nothing changed"
    return ""


def _settled(row: ComparedRow) -> str:
    """Of a verdict that the sides' states gave, not their samples."""
    what = "the case" if row.implementation == MAIN else f"the implementation {row.implementation}"
    hides = "Nothing hides it on {}: its set-up went well, and all its case files could be imported"
    words = {
        "failed": "there is no number that could be compared",
        "wrong": "its result is not right, so its time says nothing",
        "fixed": "base gave an error and head gives none, so there is no time to compare with",
        "new": f"{what} is on head only. {hides.format('base')}",
        "removed": f"{what} is on base only. {hides.format('head')}",
        "skipped": "it was left out on purpose",
        "incomparable": "the sides did not measure the same thing, so a difference would not tell of the code",
        "inconclusive": "there is too little to judge",
    }
    said = words.get(row.verdict, "")
    return f"{said}. {row.reason[:1].upper()}{row.reason[1:]}" if row.reason else said
