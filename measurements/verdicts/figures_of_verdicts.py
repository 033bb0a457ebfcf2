"""The figures about verdicts: subcommands of scripts/prove, and what `verdicts` promises.

`recorded_launches` computes it and `tables` shows it; `speed` and `on_gpu` hold
the other figures whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count, repeat
from multiprocessing import get_context
from types import MappingProxyType

import numpy as np

from measurements.figures import table
from measurements.instrument.instrument import Verbs
from measurements.verdicts import on_gpu as prove_verdicts_gpu
from measurements.verdicts import speed as prove_verdicts_speed
from measurements.verdicts import tables as shown
from measurements.verdicts.noise import KINDS, found_under
from measurements.verdicts.recorded import pools
from measurements.verdicts.recorded_launches import (
    CASES_MIN,
    SAME,
    Found,
    agreeing,
    by_unit,
    found_in,
    in_kernel,
    runs_with,
    spreads,
)
from measurements.verdicts.tables import percent, share

SEED = 1
WORKERS = 2
RUNS = 50  # of each recording
SIMULATED_RUNS = 20  # of each noise
UNIT_DRAWS = 400
SPREADS = 4  # cases shown
AGREED = 1.02  # the change that two runs shall agree on

ROWS_MIN, RUNS_MIN = 2_000, 50
FOUND_MIN: Mapping[float, float] = MappingProxyType({1.02: 0.95, 1.03: 0.99})
COVERAGE = (0.93, 0.97)
UNCHANGED_MIN = 0.95

KEPT: Mapping[bool, str] = MappingProxyType({True: "kept", False: "short of it"})

Line = tuple[str, str, str, bool]  # figure, what was found, target, whether it is kept


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommands to the grammar of scripts/prove."""
    verb = verbs.add_parser("verdicts", parents=[common], help="right and wrong verdicts on recorded launches; no GPU")
    verb.set_defaults(figure=verdicts)
    verb.add_argument("--runs", type=int, default=RUNS, help="to draw from each recording")
    verb = verbs.add_parser("judge-speed", parents=[common], help="time and memory of judging 10,000 rows; no GPU")
    verb.set_defaults(figure=prove_verdicts_speed.judge_speed)
    verb = verbs.add_parser("aa", parents=[common], help="a hundred cases against themselves, again and again")
    verb.set_defaults(figure=prove_verdicts_gpu.aa)
    verb.add_argument("--times", type=int, default=prove_verdicts_gpu.AA_TIMES)
    verb.add_argument(
        "--budget", type=float, default=prove_verdicts_gpu.AA_BUDGET_S, metavar="S", help="seconds for all"
    )
    verb = verbs.add_parser("collect", parents=[common], help="record the launches that `verdicts` judges")
    verb.set_defaults(figure=prove_verdicts_gpu.collect)
    verb.add_argument("--rounds", type=int, default=prove_verdicts_gpu.AA_ROUNDS, help="of identical code")
    verb.add_argument("--planted-rounds", type=int, default=prove_verdicts_gpu.PLANTED_ROUNDS)


def verdicts(options: argparse.Namespace) -> bool:
    """All figures of the verdicts. True where every target is kept."""
    recorded = pools()
    untouched = [each for pool in recorded if len((each := pool.untouched).cases) >= CASES_MIN]
    planted = [pool for pool in recorded if pool.planted]
    few = min(untouched, key=lambda pool: len(pool.cases))  # the one whose cases fit a table
    runs, simulated = options.runs, min(options.runs, SIMULATED_RUNS)
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as workers:
        drawn = workers.map(found_in, untouched, count(SEED), repeat(runs))
        kinds = workers.map(found_under, KINDS, count(SEED), repeat(simulated))
        kernels = workers.map(in_kernel, planted, repeat(untouched[-1]), count(SEED), repeat(runs))
        pairs = workers.map(agreeing, untouched, count(SEED), repeat(runs), repeat(AGREED))
        found, noises, slowed, alike = list(drawn), list(kinds), list(kernels), list(pairs)
    shown.show_recordings(untouched, found)
    lines = target_lines(found)
    table(("over all recordings", "found", "target", ""), [(*line[:3], KEPT[line[3]]) for line in lines])
    shown.show_units(few, by_unit(few, SEED, UNIT_DRAWS), UNIT_DRAWS)
    shown.show_spreads(untouched[0], spreads(untouched[0])[:SPREADS])
    shown.show_detection(found)
    shown.show_by_spread(found, [spreads(pool) for pool in untouched])
    shown.show_untouched(found)
    shown.show_in_kernel(dict(zip((pool.name for pool in planted), slowed, strict=True)))
    shown.show_agreement(AGREED, dict(zip((pool.name for pool in untouched), alike, strict=True)))
    shown.show_as_recorded(recorded)
    shown.show_rivals(found)
    shown.show_noise(noises, simulated)
    return all(kept for *_, kept in lines)


def target_lines(found: Sequence[Found]) -> list[Line]:
    """What is promised, what was found, and whether that is enough."""
    late = np.concatenate([each.late[SAME] for each in found])
    wrong, runs = np.sum([runs_with(each.late[SAME], each.late[SAME]["flagged"]) for each in found], axis=0).tolist()
    alarms, rows = int(late["flagged"].sum()), len(late)
    lines: list[Line] = [
        ("untouched rows flagged", f"{alarms} of {rows:,}", f"0 of {ROWS_MIN:,}", not alarms and rows >= ROWS_MIN),
        ("runs with such a row", f"{wrong} of {runs}", f"0 of {RUNS_MIN}", not wrong and runs >= RUNS_MIN),
    ]
    for factor, least in FOUND_MIN.items():
        slow = np.concatenate([each.late[factor] for each in found])
        hits = slow["regressed"][slow["long"]]
        figure = f"{percent(factor)} found, kernels of 3 µs and more"
        lines.append((figure, share(hits), f"at least {least:.0%}", bool(hits.mean() >= least)))
    plain = late["covered"][~late["two_modes"]]
    low, high = COVERAGE
    held = bool(low <= plain.mean() <= high)
    lines.append(("95 % intervals that hold 0, rows without modes", share(plain), f"{low:.0%} to {high:.0%}", held))
    same = late["unchanged"]
    enough = bool(same.mean() >= UNCHANGED_MIN)
    return [*lines, ("untouched rows called unchanged", share(same), f"at least {UNCHANGED_MIN:.0%}", enough)]
