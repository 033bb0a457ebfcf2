"""Comparisons drawn from recorded launches, judged as the driver and the report do. Pure, and seeded.

A drawn comparison takes some rounds of a pool, none twice, in the order in which they were measured. Where both launches
of a round ran the same code, which of them is called base follows from the plan of a run with a seed of its own, as in
any other run. All cases of a drawing share its rounds and labels, so what disturbed a launch disturbs all of them, as in
life. A run of 100 cases puts as many drawings of a smaller pool together as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenbench.reports.rows.notes import modes
from evenbench.reports.statistics.location import grouped_medians
from evenbench.reports.statistics.paired import Judgement, Row, Settings, judge, open_rows
from evenbench.runner.plan.plan import Plan
from measurements.verdicts.recorded import Floats, Integers, Pool, slowed

MIN_EFFECT = 0.005  # the default of suites.yaml
RUN_ROWS = 100
SEEDS = 1 << 32

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Drawn:
    """The rows of one run; made by `of`.

    Args:
        keys: case and number of the drawing of each row.
        samples: nanoseconds, rows by rounds by (base, head) by iterations.
        located: the locations of the launches, rows by rounds by (base, head).
    """

    keys: tuple[tuple[str, int], ...]
    samples: Integers
    located: Floats
    tick_ns: int | None

    @classmethod
    def of(cls, keys: Sequence[tuple[str, int]], samples: Integers, tick_ns: int | None) -> Drawn:
        """Rows with the locations of their launches."""
        return cls(tuple(keys), samples, _located(samples, tick_ns), tick_ns)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def rows(self) -> list[Row]:
        """For the judge."""
        return [
            Row(key, [(base, head) for base, head in rounds], self.tick_ns, MIN_EFFECT)
            for key, rounds in zip(self.keys, self.samples, strict=True)
        ]

    def part(self, rows: Integers, rounds: int) -> Drawn:
        """Some of the rows, with their first rounds."""
        keys = tuple(self.keys[row] for row in rows)
        return Drawn(keys, self.samples[rows, :rounds], self.located[rows, :rounds], self.tick_ns)

    @property
    def sides(self) -> tuple[Integers, Integers]:
        """Samples of base and of head: rows by rounds by iterations."""
        return self.samples[:, :, 0], self.samples[:, :, 1]

    def planted(self, rows: Integers, factor: float, random: np.random.Generator) -> Drawn:
        """The same run with these rows `factor` times as slow in head."""
        samples, located = self.samples.copy(), self.located.copy()
        samples[rows, :, 1] = slowed(samples[rows, :, 1], factor, self.tick_ns, random)
        located[rows, :, 1] = _located(samples[rows, :, 1], self.tick_ns)
        return Drawn(self.keys, samples, located, self.tick_ns)


def _located(samples: Integers, tick_ns: int | None) -> Floats:
    """The location of every launch: of all axes but the last."""
    launches = samples.reshape(-1, samples.shape[-1]).tolist()
    return grouped_medians(launches, [tick_ns] * len(launches)).reshape(samples.shape[:-1])


@dataclass(frozen=True)
class Ended:
    """A run after its last look: the judgements in row order, and which rows the report would note as having two modes."""

    keys: Sequence[tuple[str, int]]
    judgements: Sequence[Judgement]
    two_modes: Flags

    def are(self, *verdicts: str) -> Flags:
        """Which rows have one of these verdicts."""
        return np.array([each.verdict in verdicts for each in self.judgements])

    @property
    def flagged(self) -> Flags:
        """Which rows are called changed."""
        return self.are("regressed", "improved")

    @property
    def rounds(self) -> Integers:
        """Rounds that each row took."""
        return np.array([each.rounds for each in self.judgements])

    @property
    def ns(self) -> Floats:
        """The time of base that the table would show; 0 where nothing was measured."""
        return np.array([each.base_ns or 0.0 for each in self.judgements])

    def covers(self, change: float) -> Flags:
        """Which intervals hold the true change."""
        low, high = np.array([each.interval or (math.nan, math.nan) for each in self.judgements]).T
        return np.asarray((low <= change) & (change <= high))


def drawing(pool: Pool, rounds: Integers, random: np.random.Generator, number: int = 0) -> Drawn:
    """All cases of a pool whose sides are the same, in these rounds."""
    base = labels(len(rounds), int(random.integers(SEEDS)))
    sides = np.stack([base, 1 - base], axis=1)
    keys = tuple((case, number) for case in pool.cases)
    return Drawn.of(keys, pool.samples[:, rounds[:, np.newaxis], sides], pool.tick_ns)


def as_measured(pool: Pool, rounds: Integers, number: int = 0) -> Drawn:
    """All cases of a pool in these rounds, with the sides that they had."""
    return Drawn.of([(case, number) for case in pool.cases], pool.samples[:, rounds], pool.tick_ns)


def some_rounds(pool: Pool, rounds: int, random: np.random.Generator, runs: int = 1) -> list[Integers]:
    """For each of so many runs the rounds that it takes: none twice in all of them, each in the order of measuring."""
    if runs * rounds > pool.rounds:
        raise ValueError(f"{pool.name}: has {pool.rounds} rounds, not {runs} × {rounds}")
    chosen = random.permutation(pool.rounds)
    return [np.sort(chosen[run * rounds : (run + 1) * rounds]) for run in range(runs)]


def labels(rounds: int, seed: int) -> Integers:
    """Which launch of each round is base, as the plan of a run with this seed orders the sides."""
    plan = Plan(("base", "head"), seed, rounds)
    return np.array([plan.side_order(number).index("base") for number in range(rounds)])


def runs_of(pool: Pool, rounds: int, random: np.random.Generator, runs: int = 1) -> list[Drawn]:
    """Runs of about RUN_ROWS rows: as many drawings of the pool as that takes, at least one.

    Several runs have no round of a drawing in common.
    """
    drawings = max(1, round(RUN_ROWS / len(pool.cases)))
    parts = [some_rounds(pool, rounds, random, runs) for _ in range(drawings)]
    return [
        joined([drawing(pool, part[run], random, number) for number, part in enumerate(parts)]) for run in range(runs)
    ]


def joined(parts: Sequence[Drawn]) -> Drawn:
    """The rows of all, each with as many samples as all have."""
    n = min(part.samples.shape[-1] for part in parts)
    samples = np.concatenate([part.samples[..., :n] for part in parts])
    return Drawn.of([key for part in parts for key in part.keys], samples, parts[0].tick_ns)


def looked_at(drawn: Drawn, looks: Sequence[int]) -> Ended:
    """Judge after each look, go on with the rows that are open, and judge all of them at the end; of one look just that."""
    settings = Settings(looks=tuple(looks))
    taken = np.full(len(drawn), looks[0])
    for later in looks[1:]:
        still = set(open_rows(_judged(drawn, taken, settings), settings))
        going = np.array([key in still for key in drawn.keys])
        if not going.any():
            break
        taken[going] = later
    sides = [drawn.located[row, :rounds].T.tolist() for row, rounds in enumerate(taken)]
    two_modes = np.array([bool(modes(base, head)) for base, head in sides])
    return Ended(drawn.keys, _judged(drawn, taken, settings), two_modes)


def _judged(drawn: Drawn, taken: Integers, settings: Settings) -> list[Judgement]:
    """Every row on the first rounds that it took."""
    rows = [replace(row, rounds=row.rounds[:rounds]) for row, rounds in zip(drawn.rows, taken, strict=True)]
    not_made = np.arange(drawn.located.shape[1]) >= taken[:, np.newaxis]
    return judge(rows, settings, np.where(not_made[:, :, np.newaxis], np.nan, drawn.located))
