"""Is head slower than base, where the two were measured at different times? Pure functions of numbers.

The launches of two stored runs are two samples, not pairs: what differs between the runs (the day, temperature, clocks,
the driver's state) is in the difference of their means, and no test can take it out again.

The unit is the launch, and its location speaks for it (`evenbench.reports.statistics.location`). Welch's t on log locations: of the n launches
of a side, with mean m, standard deviation s (at least that of rounding to the side's tick, tick / (√12 · median
location)) and v = s² / n, the estimate is d = m_head - m_base, its standard error √(v_base + v_head), with
(v_base + v_head)² / (v_base² / (n_base - 1) + v_head² / (n_head - 1)) degrees of freedom, after Satterthwaite.
`evenbench.reports.statistics.decision` makes verdicts of that, with one look: nobody stopped a run by what the other one said.

Swapping base and head mirrors every answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..units import count
from .decision import (
    MIN_ROUNDS,
    Flags,
    GeometricMean,
    Integers,
    Judgement,
    Settings,
    change_of,
    decided,
    mean_change,
    rounding,
    tested,
    undecided,
)
from .location import Floats, Samples, grouped_medians, side_medians

MIN_LAUNCHES = MIN_ROUNDS  # of each side
WITHIN_TICK = "the launches differ by less than the timer can tell; its tick sets the interval"


@dataclass(frozen=True)
class UnpairedRow:
    """The samples of one case and implementation on two sides that were measured apart.

    Attributes:
        key: any hashable; comes back in the judgement.
        base, head: of each launch of the side, in nanoseconds; None for one without samples of this row. What stands at
            the same place in several rows of a run is of one launch.
        base_tick_ns, head_tick_ns: the tick of the side's timer; None where it has none.
        min_effect: the change, as a fraction, that a verdict must exceed.
    """

    key: Hashable
    base: Sequence[Samples | None]
    head: Sequence[Samples | None]
    base_tick_ns: int | None
    head_tick_ns: int | None
    min_effect: float


@dataclass(frozen=True)
class _Estimates:
    """Of rows with enough launches: the estimate of log(head / base), its standard error, degrees of freedom.

    `deviations` are those of log locations from their side's mean, rows by launches by (base, head), 0 where there is no
    launch; `counts` and `floors` (what rounding alone makes of s) are rows by (base, head).
    """

    mean: Floats
    se: Floats
    freedom: Floats
    within_tick: Flags
    deviations: Floats
    counts: Integers
    floors: Floats


def launch_locations(rows: Sequence[UnpairedRow]) -> Floats:
    """The location of every launch in ns: rows by launches by (base, head); NaN where there is none above 0."""
    width = max([1, *(len(side) for row in rows for side in (row.base, row.head))])
    places: list[int] = []
    launches: list[Samples] = []
    ticks: list[int | None] = []
    for r, row in enumerate(rows):
        for side, (samples_of, tick) in enumerate(((row.base, row.base_tick_ns), (row.head, row.head_tick_ns))):
            for k, samples in enumerate(samples_of):
                if samples is not None and len(samples):
                    places.append((r * width + k) * 2 + side)
                    launches.append(samples)
                    ticks.append(tick)
    flat = np.full(len(rows) * width * 2, np.nan)
    flat[places] = grouped_medians(launches, ticks)
    flat[~(flat > 0)] = np.nan
    return flat.reshape(len(rows), width, 2)


def judge_unpaired(rows: Sequence[UnpairedRow], settings: Settings, located: Floats | None = None) -> list[Judgement]:
    """Judges all comparable rows of two runs, and answers in row order.

    A row with under MIN_LAUNCHES launches of a side is inconclusive with p = 1, and Holm does not count it.
    `located` is `launch_locations(rows)`, where the caller has it already.
    """
    located = launch_locations(rows) if located is None else located
    answers = _unjudged(rows, located)
    judged = _judged(located)
    found = _estimates(located[judged], [rows[i] for i in judged])
    tests = tested(found.mean, found.se, found.freedom, [rows[i].min_effect for i in judged], settings)
    for i, answer, within in zip(
        judged, decided([answers[i] for i in judged], tests, settings), found.within_tick, strict=True
    ):
        answers[i] = replace(answer, warnings=(*answer.warnings, WITHIN_TICK)) if within else answer
    return answers


def unpaired_mean(rows: Sequence[UnpairedRow], located: Floats | None = None) -> GeometricMean | None:
    """The geometric mean of the change over the rows with enough launches on both sides; None without any.

    Its interval comes from the launches' means over rows, since what disturbs a launch disturbs many of its rows; each
    row enters them by its deviation from its own mean. Freedom is after Satterthwaite, from the shortest row of a side.
    """
    located = launch_locations(rows) if located is None else located
    judged = _judged(located)
    if not judged.size:
        return None
    found = _estimates(located[judged], [rows[i] for i in judged])
    scale = np.sqrt(found.counts * (found.counts - 1))[:, np.newaxis, :]
    spread = ((found.deviations / scale).sum(axis=0) ** 2).sum(axis=0)
    variances = np.maximum(spread, (found.floors**2 / found.counts).sum(axis=0)) / judged.size**2
    variance, freedom = _satterthwaite(variances, found.counts.min(axis=0))
    return mean_change(float(found.mean.mean()), float(np.sqrt(variance)), freedom, judged.size)


def _unjudged(rows: Sequence[UnpairedRow], located: Floats) -> list[Judgement]:
    """The rows' estimates, without a judgement on them."""
    logs, counts = _logs(located)
    base, head = (logs.sum(axis=1) / np.maximum(counts, 1)).T
    change, medians = change_of(head - base), side_medians(located)
    answers = []
    for i, row in enumerate(rows):
        fewer = int(counts[i].min())
        answers.append(
            undecided(
                row.key,
                float(change[i]) if fewer else None,
                (float(medians[i, 0]), float(medians[i, 1])) if fewer else None,
                fewer,
                _warnings(row, counts[i].tolist()),
            )
        )
    return answers


def _warnings(row: UnpairedRow, counts: Sequence[int]) -> tuple[str, ...]:
    few = f"too few launches: {counts[0]} of base and {counts[1]} of head, at least {MIN_LAUNCHES} of each needed"
    found = [few] if min(counts) < MIN_LAUNCHES else []
    for name, side, counted in (("base", row.base, counts[0]), ("head", row.head, counts[1])):
        made = sum(1 for samples in side if samples is not None and len(samples))
        if made > counted:
            found.append(f"{made - counted} of {count(made, 'launch')} of {name} dropped: a time is not above 0")
    return tuple(found)


def _judged(located: Floats) -> Integers:
    """The indices of the rows with enough launches on both sides."""
    return np.flatnonzero(((~np.isnan(located)).sum(axis=1) >= MIN_LAUNCHES).all(axis=1))


def _logs(located: Floats) -> tuple[Floats, Integers]:
    """Log locations, 0 where there is no launch; and how many launches each row's sides have."""
    there = ~np.isnan(located)
    return np.where(there, np.log(np.where(there, located, 1.0)), 0.0), there.sum(axis=1)


def _estimates(located: Floats, rows: Sequence[UnpairedRow]) -> _Estimates:
    logs, counts = _logs(located)
    means = logs.sum(axis=1) / counts
    deviations = np.where(np.isnan(located), 0.0, logs - means[:, np.newaxis, :])
    spread = np.sqrt((deviations**2).sum(axis=1) / (counts - 1))
    medians = side_medians(located)
    floors = np.stack(
        [
            rounding([row.base_tick_ns for row in rows], medians[:, 0]),
            rounding([row.head_tick_ns for row in rows], medians[:, 1]),
        ],
        axis=1,
    )
    variance, freedom = _satterthwaite(np.maximum(spread, floors) ** 2 / counts, counts)
    within = (spread < floors).all(axis=1)
    return _Estimates(means[:, 1] - means[:, 0], np.sqrt(variance), freedom, within, deviations, counts, floors)


def _satterthwaite(variances: Floats, counts: Integers) -> tuple[Floats, Floats]:
    """The variance of a difference of two means, and its degrees of freedom; the last axis is (base, head)."""
    total = variances.sum(axis=-1)
    shares = variances / total[..., np.newaxis]  # of a variance that may be too small to be squared
    return np.asarray(total), np.asarray(1 / (shares**2 / (counts - 1)).sum(axis=-1), dtype=np.float64)
