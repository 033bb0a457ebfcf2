"""Is head slower than base? Pure functions of numbers, for sides that were measured in rounds.

The statistical unit is the launch, and its location speaks for it (`evenbench.reports.statistics.location`). Of round k a row keeps
d_k = log(head location) - log(base location). Over its K whole rounds, with mean d, standard deviation s (at least that
of rounding to a tick, tick / (√12 · location)), the estimate is d, its standard error s / √K, with K - 1 degrees of
freedom. `evenbench.reports.statistics.decision` makes verdicts of that.

Swapping base and head mirrors every answer, so the floor of s takes the smaller of the two sides' median locations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .. import units
from .decision import (
    EQUIVALENT_P,
    MIN_ROUNDS,
    Flags,
    GeometricMean,
    Integers,
    Judgement,
    Settings,
    Tests,
    Verdict,
    change_of,
    decided,
    mean_change,
    rounding,
    tested,
    undecided,
)
from .location import Floats, Row, grouped_median, locations, side_medians

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

STOP_CHANGED_P = 1e-6  # a row stops as changed only where later looks could not make it doubtful
STOP_UNCHANGED_RAW_P = 0.05  # a hint of a change keeps an equivalent row going
DRAWS = 20  # of shuffled labels
ONE_SIDED = "samples of a side are missing"  # how a warning ends; who knows why can say it better
WITHIN_TICK = "the rounds differ by less than the timer can tell; its tick sets the interval"


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
    tests, within_tick = _test(located[judged], [rows[i] for i in judged], settings)
    for i, answer, within in zip(
        judged, decided([answers[i] for i in judged], tests, settings), within_tick, strict=True
    ):
        answers[i] = replace(answer, warnings=(*answer.warnings, WITHIN_TICK)) if within else answer
    return answers


def _unjudged(rows: Sequence[Row], located: Floats) -> list[Judgement]:
    """The rows' estimates, without a judgement on them."""
    d, _, count = _differences(located)
    change = change_of(d.sum(axis=1) / np.maximum(count, 1))
    medians = side_medians(located)
    return [
        undecided(
            row.key,
            float(change[i]) if whole else None,
            (float(medians[i, 0]), float(medians[i, 1])) if whole else None,
            whole,
            _warnings(row, whole),
        )
        for i, (row, whole) in enumerate(zip(rows, count.tolist(), strict=True))
    ]


def _warnings(row: Row, whole: int) -> tuple[str, ...]:
    begun = max((k + 1 for k, sides in enumerate(row.rounds) if any(s is not None for s in sides or ())), default=0)
    few = f"too few rounds: {whole} whole, at least {MIN_ROUNDS} needed"
    missing = begun - sum(1 for sides in row.rounds if sides and sides[0] is not None and sides[1] is not None)
    why = {ONE_SIDED: missing, "a time is not above 0": begun - whole - missing}
    dropped = tuple(
        f"{number} of {units.count(begun, 'round')} dropped: {reason}" for reason, number in why.items() if number
    )
    return ((few,) if whole < MIN_ROUNDS else ()) + dropped


class OpenOrNot(Protocol):
    """The part of a `Judgement` that decides whether its row goes on."""

    @property
    def key(self) -> Hashable: ...
    @property
    def p_slower(self) -> float: ...
    @property
    def p_faster(self) -> float: ...
    @property
    def p_equivalent(self) -> float: ...


def open_rows(judgements: Sequence[OpenOrNot], settings: Settings, *, shards: int = 1) -> list[Hashable]:
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
        slower, faster = _test(shuffled, chosen, settings)[0].flags(settings.family_error)
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
    floor = _rounding(located, chosen) / np.sqrt(count)
    variance = max((deviations.sum(axis=0) ** 2).sum(), (floor**2).sum())
    return mean_change(float(means.mean()), float(np.sqrt(variance)) / judged.size, count.min() - 1, judged.size)


def _test(located: Floats, rows: Sequence[Row], settings: Settings) -> tuple[Tests, Flags]:
    """The tests of rows of MIN_ROUNDS whole rounds or more, and of which rows the tick sets the interval."""
    d, whole, count = _differences(located)
    mean = d.sum(axis=1) / count
    spread = np.sqrt((np.where(whole, d - mean[:, np.newaxis], 0.0) ** 2).sum(axis=1) / (count - 1))
    floor = _rounding(located, rows)
    se = np.maximum(spread, floor) / np.sqrt(count)
    return tested(mean, se, count - 1, [row.min_effect for row in rows], settings), spread < floor


def _judged(located: Floats) -> Integers:
    """The indices of the rows with enough whole rounds."""
    return np.flatnonzero((~np.isnan(located[:, :, 0])).sum(axis=1) >= MIN_ROUNDS)


def _differences(located: Floats) -> tuple[Floats, Flags, Integers]:
    """d_k (0 in rounds that are not whole) and which rounds are whole, each rows by rounds; how many a row has."""
    whole = ~np.isnan(located[:, :, 0])
    logs = np.log(located)
    return np.where(whole, logs[:, :, 1] - logs[:, :, 0], 0.0), whole, whole.sum(axis=1)


def _rounding(located: Floats, rows: Sequence[Row]) -> Floats:
    """What rounding to the tick alone makes of s, one value a row."""
    return rounding([row.tick_ns for row in rows], side_medians(located).min(axis=1))
