"""The figure `verdicts` of scripts/prove: what it promises, and how it is shown. `prove_verdicts` computes it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count, repeat
from multiprocessing import get_context
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scripts.prove_figures import Row, table
from scripts.prove_verdicts import (
    CASES_MIN,
    FACTORS,
    LOOKS,
    SAME,
    SLOWED,
    Found,
    InKernel,
    agreeing,
    as_recorded,
    found_in,
    in_kernel,
    runs_with,
)
from scripts.prove_verdicts_noise import KINDS, found_under
from scripts.recorded import DATA, NEW, Pool, pools
from scripts.rivals import RIVALS, Calls, called

SEED = 1
WORKERS = 2
RUNS = 60  # of each recording
SIMULATED_RUNS = 20  # of each noise
AGREED = 1.02  # the change that two runs shall agree on

ROWS_MIN, RUNS_MIN = 2_000, 50
FOUND_MIN: Mapping[float, float] = MappingProxyType({1.02: 0.95, 1.03: 0.99})
COVERAGE = (0.93, 0.97)
UNCHANGED_MIN = 0.95

Line = tuple[str, str, str, bool]  # figure, what was found, target, whether it is kept


def verdicts(asked: argparse.Namespace) -> bool:
    """All figures of the verdicts. True where every target is kept."""
    recorded = pools()
    untouched = [each for pool in recorded if len((each := pool.untouched).cases) >= CASES_MIN]
    planted = [pool for pool in recorded if pool.planted]
    runs, simulated = asked.runs, min(asked.runs, SIMULATED_RUNS)
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as workers:
        drawn = workers.map(found_in, untouched, count(SEED), repeat(runs))
        kinds = workers.map(found_under, KINDS, count(SEED), repeat(simulated))
        kernels = workers.map(in_kernel, planted, repeat(untouched[-1]), count(SEED), repeat(runs))
        pairs = workers.map(agreeing, untouched, count(SEED), repeat(runs), repeat(AGREED))
        found, noises, slowed, alike = list(drawn), list(kinds), list(kernels), list(pairs)
    show_recordings(untouched, found)
    lines = target_lines(found)
    table(("over all recordings", "found", "target", ""), [(*line[:3], KEPT[line[3]]) for line in lines])
    show_detection(found)
    show_untouched(found)
    show_in_kernel(dict(zip((pool.name for pool in planted), slowed, strict=True)))
    show_agreement(dict(zip((pool.name for pool in untouched), alike, strict=True)))
    show_as_recorded(recorded)
    show_rivals(found)
    show_noise(noises, simulated)
    return all(kept for *_, kept in lines)


KEPT: Mapping[bool, str] = MappingProxyType({True: "kept", False: "short of it"})


def show_recordings(untouched: Sequence[Pool], found: Sequence[Found]) -> None:
    """What everything is drawn from."""
    if not (DATA / NEW).is_file():
        print(f"\nWithout {NEW}, which `scripts/prove collect` makes on a GPU.")
    rows: list[Row] = []
    for pool, each in zip(untouched, found, strict=True):
        us = np.median(pool.samples, axis=(1, 2, 3)) / 1e3
        sizes = (len(us), f"{us.min():.1f} to {us.max():.0f}", 2 * pool.rounds, pool.samples.shape[-1])
        late = each.late[SAME]
        runs = len(np.unique(late["run"]))
        rows.append((pool.name, *sizes, runs, f"{len(late):,}", ", ".join(str(look) for look in each.looks)))
    head = (
        "recording, untouched cases",
        "cases",
        "µs",
        "launches",
        "samples each",
        "drawn runs",
        "their rows",
        "looks",
    )
    table(head, rows)


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


def show_detection(found: Sequence[Found]) -> None:
    """How many slowed rows are found, and after how many rounds."""
    print(
        f"\n{SLOWED} rows of a run are slowed: head's samples multiplied. How many are called regressed, after how many rounds."
    )
    rows: list[Row] = []
    for each in found:
        for kernels, long in (("from 3 µs", True), ("under 3 µs", False)):
            parts = [late[late["long"] == long] for late in (each.late[factor] for factor in FACTORS)]
            if all(len(part) for part in parts):
                cells = [f"{share(part['regressed'])}, {part['rounds'].mean():.1f}" for part in parts]
                rows.append((each.name, kernels, *cells))
    table(("recording", "kernels", *(percent(factor) for factor in FACTORS)), rows)


def show_untouched(found: Sequence[Found]) -> None:
    """Untouched rows: intervals, verdicts and rounds; with and without two modes, by the report's own note."""
    print("\nUntouched rows: intervals that hold 0, rows called unchanged, rounds.")
    rows: list[Row] = []
    for each in found:
        for when, seen in (("after 8 rounds", each.early[SAME]), ("after their last look", each.late[SAME])):
            covered = [share(seen["covered"][seen["two_modes"] == modes]) for modes in (False, True)]
            rows.append((each.name, when, *covered, share(seen["unchanged"]), f"{seen['rounds'].mean():.1f}"))
    table(("recording", "judged", "covered, without modes", "covered, 2 modes", "unchanged", "rounds"), rows)


def show_in_kernel(slowed: Mapping[str, Sequence[InKernel]]) -> None:
    """Kernels that do more work in head."""
    print(
        "\nSlowed in the kernel itself: the change over all recorded rounds; and in pairs of runs that share no launch, how"
    )
    print("many call it regressed, after how many rounds, intervals that hold that change, and pairs with one verdict.")
    rows: list[Row] = []
    for name, cases in slowed.items():
        for each in cases:
            low, high = each.interval
            change = f"{each.change:+.2%} [{low:.2%}, {high:.2%}]"
            seen = each.rows
            found = (share(seen["regressed"]), f"{seen['rounds'].mean():.1f}", share(seen["covered"]))
            rows.append(
                (name, f"`{each.case}`", each.how, f"{each.ns / 1e3:.1f}", change, *found, share(seen["agrees"][::2]))
            )
    head = ("recording", "case", "in head", "µs", "change", "regressed", "rounds", "covered", "pairs agree")
    table(head, rows)


def show_agreement(alike: Mapping[str, NDArray[np.bool_]]) -> None:
    """Two runs on one change."""
    print(
        f"\nPairs of runs that share no launch, the same rows slowed by {percent(AGREED)}: how often a row has one verdict in both."
    )
    table(("recording", "agree"), [(name, share(equal)) for name, equal in alike.items()])


def show_as_recorded(recorded: Sequence[Pool]) -> None:
    """No drawing at all."""
    print(f"\nNothing drawn: the rounds as they ran, cut into runs of {LOOKS[0]}. Untouched rows.")
    rows: list[Row] = []
    for pool in recorded:
        if pool.untouched.cases:
            seen = as_recorded(pool)
            verdict = (int(seen["flagged"].sum()), share(seen["unchanged"]), share(seen["covered"]))
            rows.append((pool.name, len(seen), *verdict))
    table(("recording", "rows", "flagged", "unchanged", "covered"), rows)


def show_rivals(found: Sequence[Found]) -> None:
    """The rules of other tools on the same samples."""
    print(
        "\nOther rules, in our reading of them, on the samples of the same rows: untouched rows flagged, runs with such a row,"
    )
    print("slowed rows of 3 µs and more called slower. All see the first 8 rounds; evenbench with its looks up to 24.")
    rows: list[Row] = []
    for name, takes, tallies in (
        ("evenbench, one look", "launches' grouped medians", [each.early for each in found]),
        ("evenbench", "the same, looks at 8, 16, 24", [each.late for each in found]),
    ):
        calls = [
            {factor: seen["regressed"] | -1 * (seen["flagged"] & ~seen["regressed"]) for factor, seen in each.items()}
            for each in tallies
        ]
        rows.append((name, takes, *rule_cells(found, calls)))
    for name, rival in RIVALS.items():
        calls = [{factor: called(rival, *sides) for factor, sides in each.samples.items()} for each in found]
        rows.append((name, rival.takes, *rule_cells(found, calls)))
    table(("rule", "takes", "rows flagged", "runs with one", *(percent(factor) for factor in FACTORS)), rows)


def rule_cells(found: Sequence[Found], calls: Sequence[Mapping[float, Calls]]) -> list[str]:
    """Of what a rule said of every recording's rows: false alarms of rows and runs, and slowed rows found."""
    flagged = [said[SAME] != 0 for said in calls]
    wrong, runs = np.sum([runs_with(each.early[SAME], rows) for each, rows in zip(found, flagged, strict=True)], axis=0)
    hits = (
        np.concatenate(
            [(said[factor] > 0)[each.early[factor]["long"]] for said, each in zip(calls, found, strict=True)]
        )
        for factor in FACTORS
    )
    return [f"{np.concatenate(flagged).mean():.1%}", f"{wrong} of {runs}", *(f"{each.mean():.0%}" for each in hits)]


def show_noise(noises: Sequence[Found], runs: int) -> None:
    """Simulated noise, by evenbench and by other rules."""
    print(
        f"\nSimulated noise, {runs} runs of 100 rows each: untouched rows flagged by evenbench, runs with such a row, rows called"
    )
    print("unchanged; slowed rows found, after how many rounds.")
    rows: list[Row] = []
    for found in noises:
        same = found.late[SAME]
        wrong, of = runs_with(same, same["flagged"])
        slow = [
            f"{found.late[factor]['regressed'].mean():.0%}, {found.late[factor]['rounds'].mean():.1f}"
            for factor in FACTORS
        ]
        rows.append(
            (
                found.name,
                f"{int(same['flagged'].sum())} of {len(same):,}",
                f"{wrong} of {of}",
                f"{same['unchanged'].mean():.0%}",
                *slow,
            )
        )
    table(("noise", "rows flagged", "runs with one", "unchanged", *(percent(factor) for factor in FACTORS)), rows)
    print("\nThe same runs' first 8 rounds by other rules: untouched rows flagged.")
    table(
        ("noise", *RIVALS),
        [
            (found.name, *(f"{(called(rival, *found.samples[SAME]) != 0).mean():.1%}" for rival in RIVALS.values()))
            for found in noises
        ],
    )


def percent(factor: float) -> str:
    """A factor as a change."""
    return f"{factor - 1:+.0%}"


def share(rows: NDArray[np.bool_]) -> str:
    """How many of the rows, in per cent; empty without any."""
    return f"{rows.mean():.1%} of {len(rows):,}" if len(rows) else ""
