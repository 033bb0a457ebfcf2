"""How the figure `verdicts` of scripts/prove is shown: its tables, in their order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from measurements.figures import Row, table
from measurements.verdicts.recorded import DATA, NEW, Pool
from measurements.verdicts.recorded_launches import (
    FACTORS,
    LOOKS,
    SAME,
    SLOWED,
    UNIT_ALPHA,
    ByUnit,
    Found,
    InKernel,
    Spread,
    as_recorded,
    runs_with,
)
from measurements.verdicts.rivals import RIVALS, Calls, called

SPREADS = (0.0, 0.005, 0.01, np.inf)


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


def show_units(pool: Pool, found: ByUnit, draws: int) -> None:
    """What a test makes of launches, and of iterations."""
    print(
        f"\n{pool.name}, untouched: how often a test at {UNIT_ALPHA:.0%} calls a case different, by what it takes for independent; in"
    )
    print(f"{draws} drawings of 8 rounds.")
    us = np.median(pool.samples, axis=(1, 2, 3)) / 1e3
    rows = [(f"`{pool.cases[n]}`", f"{us[n]:.1f}", *(f"{each[n]:.1%}" for each in found)) for n in np.argsort(us)]
    table(("case", "µs", "Mann-Whitney, iterations", "Mann-Whitney, launches", "paired t, rounds"), rows)


def show_spreads(pool: Pool, found: Sequence[Spread]) -> None:
    """What cancels within a round."""
    print(
        f"\n{pool.name}: the cases whose launches vary most; standard deviation of base between rounds, and of head over base."
    )
    rows = [(f"`{each.case}`", f"{each.ns / 1e3:.1f}", f"{each.rounds:.2%}", f"{each.sides:.2%}") for each in found]
    table(("case", "µs", "between rounds", "between the sides of a round"), rows)


def show_detection(found: Sequence[Found]) -> None:
    """How many slowed rows are found, and after how many rounds."""
    print(
        f"\n{SLOWED} rows of a run are slowed: head's samples made longer. How many are called regressed, after how many rounds."
    )
    rows: list[Row] = []
    for each in found:
        for kernels, long in (("from 3 µs", True), ("under 3 µs", False)):
            parts = [late[late["long"] == long] for late in (each.late[factor] for factor in FACTORS)]
            if all(len(part) for part in parts):
                cells = [f"{share(part['regressed'])}, {part['rounds'].mean():.1f}" for part in parts]
                rows.append((each.name, kernels, *cells))
    table(("recording", "kernels", *(percent(factor) for factor in FACTORS)), rows)


def show_by_spread(found: Sequence[Found], spreads: Sequence[Sequence[Spread]]) -> None:
    """How many are found by how much the sides of a round differ."""
    print(
        "\nThe same rows of 3 µs and more, by the standard deviation of head over base between the recorded rounds of their case."
    )
    rows: list[Row] = []
    for low, high in itertools.pairwise(SPREADS):
        cases = [[each.case for each in known if low <= each.sides < high] for known in spreads]
        cells = []
        for factor in FACTORS:
            parts = [
                seen[seen["long"] & np.isin(seen["case"], names)]
                for seen, names in zip((each.late[factor] for each in found), cases, strict=True)
            ]
            cells.append(share(np.concatenate(parts)["regressed"]))
        span = (
            f"under {high:.1%}" if not low else f"{low:.1%} and more" if high == np.inf else f"{low:.1%} to {high:.1%}"
        )
        rows.append((span, sum(map(len, cases)), *cells))
    table(("differs by", "cases", *(percent(factor) for factor in FACTORS)), rows)


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


def show_agreement(change: float, alike: Mapping[str, NDArray[np.bool_]]) -> None:
    """Two runs on one change."""
    print(
        f"\nPairs of runs that share no launch, the same rows slowed by {percent(change)}: how often a row has one verdict in both."
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
