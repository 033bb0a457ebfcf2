"""Are the verdicts right? From recorded launches, without a GPU: `scripts/prove verdicts`.

How comparisons are drawn from the recordings stands in `draws`, the rules of other tools in `rivals`,
simulated noise in `noise`; how the figures are shown in `tables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, ttest_rel

from measurements.verdicts.draws import Drawn, Ended, as_measured, drawing, joined, looked_at, runs_of, some_rounds
from measurements.verdicts.recorded import Floats, Integers, Pool

LOOKS = (8, 16, 24)
UNIT_ALPHA = 0.01
FACTORS = (1.01, 1.02, 1.03, 1.05)
SAME = 1.0  # the factor of untouched rows
SLOWED = 10  # rows of a run of about 100
LONG_NS = 3_000.0  # shorter kernels last a few dozen ticks of the device's clock
CASES_MIN = 8  # of a recording that untouched rows are drawn from

Tally = NDArray[Any]  # of TALLY: what became of rows, an entry for each
TALLY = np.dtype(
    [
        ("run", int),
        ("case", "U160"),
        ("long", bool),
        ("regressed", bool),
        ("flagged", bool),  # or improved
        ("unchanged", bool),
        ("covered", bool),  # the interval holds the true change
        ("two_modes", bool),
        ("rounds", int),
        ("agrees", bool),  # another run on the same change, without a launch in common, has the same verdict
    ]
)


@dataclass(frozen=True)
class Found:
    """What became of the rows of many runs, by the factor that head was slowed by.

    Args:
        name: of the recording or noise.
        looks: after how many rounds rows were judged.
        late: rows after their last look.
        early: the same rows with one look, at the first of `looks`.
        samples: (base, head) of the rows of `early`, for the rules of other tools.
    """

    name: str
    looks: tuple[int, ...]
    late: Mapping[float, Tally]
    early: Mapping[float, Tally]
    samples: Mapping[float, tuple[Integers, Integers]]


class InKernel(NamedTuple):
    """A case that was slowed in its kernel: its time, the change over all recorded rounds, and rows of drawn runs."""

    case: str
    how: str
    ns: float
    change: float
    interval: tuple[float, float]
    rows: Tally


def found_in(pool: Pool, seed: int, runs: int) -> Found:
    """Runs of about 100 rows drawn from a recording."""
    random = np.random.default_rng(seed)
    looks = looks_within(pool.rounds)
    return found_of(pool.name, (runs_of(pool, looks[-1], random)[0] for _ in range(runs)), looks, random)


def found_of(name: str, drawn: Iterable[Drawn], looks: tuple[int, ...], random: np.random.Generator) -> Found:
    """Each run untouched, and with some rows of head slowed by each factor."""
    factors = (SAME, *FACTORS)
    late: dict[float, list[Tally]] = {factor: [] for factor in factors}
    early: dict[float, list[Tally]] = {factor: [] for factor in factors}
    firsts: dict[float, list[Drawn]] = {factor: [] for factor in factors}
    for run, same in enumerate(drawn):
        chosen = random.permutation(len(same))[:SLOWED]
        for factor in factors:
            rows = np.arange(len(same)) if factor == SAME else chosen
            head = same if factor == SAME else same.planted(rows, factor, random)
            late[factor].append(tally(run, looked_at(head, looks), factor - 1, rows))
            early[factor].append(tally(run, looked_at(head, looks[:1]), factor - 1, rows))
            firsts[factor].append(head.part(rows, looks[0]))
    samples = {factor: joined(parts).sides for factor, parts in firsts.items()}
    return Found(name, looks, _together(late), _together(early), samples)


def runs_with(rows: Tally, flagged: NDArray[np.bool_]) -> tuple[int, int]:
    """In how many runs any of the rows is flagged, of how many."""
    return len(np.unique(rows["run"][flagged])), len(np.unique(rows["run"]))


def looks_within(rounds: int) -> tuple[int, ...]:
    """The planned looks for which there are rounds."""
    return tuple(look for look in LOOKS if look <= rounds)


def tally(run: int, ended: Ended, change: float, rows: Integers) -> Tally:
    """What became of some rows of a run, whose true change is known."""
    found = np.zeros(len(ended.judgements), TALLY)
    found["run"] = run
    found["case"] = [case for case, _ in ended.keys]
    found["long"] = ended.ns >= LONG_NS
    found["regressed"] = ended.are("regressed")
    found["flagged"] = ended.are("regressed", "improved")
    found["unchanged"] = ended.are("unchanged")
    found["covered"] = ended.covers(change)
    found["two_modes"] = ended.two_modes
    found["rounds"] = ended.rounds
    return found[rows]


def in_kernel(pool: Pool, filler: Pool, seed: int, runs: int) -> list[InKernel]:
    """The planted cases of a recording, found in pairs of runs of about 100 rows that share no launch.

    Rows that a small recording lacks to a run are untouched ones of another.
    """
    random = np.random.default_rng(seed)
    whole = looked_at(as_measured(pool, np.arange(pool.rounds)), (pool.rounds,))
    looks = looks_within(pool.rounds // 2)
    rows: dict[str, list[Tally]] = {case: [] for case in pool.planted}
    for run in range(runs):
        parts = some_rounds(pool, looks[-1], random, 2)
        more = runs_of(filler, looks[-1], random)[0] if len(pool.cases) < SLOWED else None
        ended = [looked_at(_filled(as_measured(pool, part), more), looks) for part in parts]
        for case in pool.planted:
            at = np.array([pool.cases.index(case)])
            change = whole.judgements[at[0]].change or 0.0
            one, other = (tally(run, each, change, at) for each in ended)
            one["agrees"] = ended[0].judgements[at[0]].verdict == ended[1].judgements[at[0]].verdict
            other["agrees"] = one["agrees"]
            rows[case] += [one, other]
    found = []
    for case, how in pool.planted.items():
        each = whole.judgements[pool.cases.index(case)]
        seen = np.concatenate(rows[case])
        found.append(InKernel(case, how, each.base_ns or 0.0, each.change or 0.0, each.interval or (0.0, 0.0), seen))
    return found


def _filled(drawn: Drawn, more: Drawn | None) -> Drawn:
    return joined([drawn, more]) if more is not None else drawn


def agreeing(pool: Pool, seed: int, runs: int, factor: float) -> NDArray[np.bool_]:
    """Of rows slowed by the factor in two runs without a launch in common, whether both give one verdict."""
    random = np.random.default_rng(seed)
    looks = looks_within(pool.rounds // 2)
    equal = []
    for _ in range(runs):
        pair = runs_of(pool, looks[-1], random, 2)
        rows = random.permutation(len(pair[0]))[:SLOWED]
        one, other = (looked_at(each.planted(rows, factor, random), looks).judgements for each in pair)
        equal += [one[row].verdict == other[row].verdict for row in rows]
    return np.array(equal)


class ByUnit(NamedTuple):
    """How often tests at UNIT_ALPHA call a case different whose sides are the same, by what they take for independent.

    An entry for each case: Mann-Whitney on iterations, on the locations of launches, the t test on rounds.
    """

    iterations: Floats
    launches: Floats
    rounds: Floats


def by_unit(pool: Pool, seed: int, draws: int) -> ByUnit:
    """Tests of untouched cases after the rounds of the first look."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        drawn = drawing(pool, some_rounds(pool, LOOKS[0], random)[0], random)
        one, other = (side.reshape(len(side), -1).astype(np.float64) for side in drawn.sides)
        base, head = np.log(drawn.located).transpose(2, 0, 1)
        tests = (
            mannwhitneyu(one, other, axis=1, method="asymptotic").pvalue,
            mannwhitneyu(base, head, axis=1, method="exact").pvalue,
            ttest_rel(base, head, axis=1).pvalue,
        )
        found.append([p < UNIT_ALPHA for p in tests])
    return ByUnit(*np.mean(found, axis=0))


class Spread(NamedTuple):
    """How much of a case's time varies between rounds, and between the two sides of a round: standard deviations."""

    case: str
    ns: float
    rounds: float
    sides: float


def spreads(pool: Pool) -> list[Spread]:
    """The cases of a recording, those first that vary most between rounds."""
    located = as_measured(pool, np.arange(pool.rounds)).located
    logs = np.log(located)
    between, within = logs[:, :, 0].std(axis=1, ddof=1), (logs[:, :, 1] - logs[:, :, 0]).std(axis=1, ddof=1)
    rows = zip(pool.cases, np.median(located[:, :, 0], axis=1), between, within, strict=True)
    return sorted((Spread(case, float(ns), float(b), float(w)) for case, ns, b, w in rows), key=lambda row: -row.rounds)


def as_recorded(pool: Pool) -> Tally:
    """The untouched rows as they ran, with the sides that they had, cut into runs of the first look's rounds."""
    rounds = LOOKS[0]
    runs = []
    for run in range(pool.rounds // rounds):
        part = np.arange(run * rounds, (run + 1) * rounds)
        ended = looked_at(as_measured(pool.untouched, part), (rounds,))
        runs.append(tally(run, ended, 0.0, np.arange(len(ended.judgements))))
    return np.concatenate(runs)


def _together(parts: Mapping[float, Sequence[Tally]]) -> dict[float, Tally]:
    return {factor: np.concatenate(each) for factor, each in parts.items()}
