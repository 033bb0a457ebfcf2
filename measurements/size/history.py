"""How quick the history is at two years of nights, and what its change points find: the figure `history`. Needs no GPU."""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evenbench.reports.history.change_points import RUNS_MIN, steps
from evenbench.reports.history.changes import Detected, detect
from evenbench.reports.history.series import all_series, overview, series_of
from evenbench.reports.history.site import Site, pages
from evenbench.reports.history.store import opened
from measurements.figures import table
from measurements.size.made_history import Made, Planted, made, name_of, write

CASES, NIGHTS, SEED = 500, 730, 0
ONE_S, OVERVIEW_S, DETECT_S, SITE_S = 0.3, 2.0, 60.0, 60.0
FOUND_MIN, FALSE_MAX = 0.95, 0.01  # of planted steps within RUNS_MIN runs; false ones in a case-year
QUERIES = 9  # cases that are asked for, one after the other
NEAR = 3  # runs by which the place of a step that is found may be off
YEAR_NIGHTS = 365
DRIFT_AFTER = 30  # runs after its end in which a drift may still be found


@dataclass(frozen=True)
class Replayed:
    """What detect would have told over the nights, as `--record` does: of each kind of alarm, how many."""

    steps: int
    drifts: int
    false: int
    found_soon: int
    found_ever: int
    drifts_found: int
    drifts_planted: int


def add_to(verbs: Any, common: argparse.ArgumentParser) -> None:
    """The figure's grammar."""
    verb = verbs.add_parser("history", parents=[common], help="two years of nights of 500 cases; needs no GPU")
    verb.add_argument("--cases", type=int, default=CASES)
    verb.add_argument("--nights", type=int, default=NIGHTS)
    verb.add_argument("--seed", type=int, default=SEED)
    verb.set_defaults(figure=prove_history)


def prove_history(options: argparse.Namespace) -> bool:
    """Make it, ask it, replay it. True where every target is met."""
    folder = options.out / "history"
    shutil.rmtree(folder, ignore_errors=True)
    history = made(options.cases, options.nights, options.seed)
    _, writing = timed(lambda: write(history, folder / "data"))
    size = sum(path.stat().st_size for path in (folder / "data").rglob("*.parquet")) / 1e6
    print(f"{len(history.nights)} runs of {options.cases} cases, {size:.0f} MB, written in {writing:.0f} s", flush=True)
    times = quick(folder)
    replayed = replay(history)
    years = options.cases * options.nights / YEAR_NIGHTS
    met = [
        ("query of one case, median of nine", f"{times['one']:.2f} s", f"{ONE_S} s", times["one"] <= ONE_S),
        ("overview", f"{times['overview']:.2f} s", f"{OVERVIEW_S:.0f} s", times["overview"] <= OVERVIEW_S),
        ("detect over all", f"{times['detect']:.1f} s", f"{DETECT_S:.0f} s", times["detect"] <= DETECT_S),
        ("site built, detect included", f"{times['site']:.1f} s", f"{SITE_S:.0f} s", times["site"] <= SITE_S),
        (
            f"planted steps of 3 % found within {RUNS_MIN} runs",
            f"{replayed.found_soon} of {options.cases} ({replayed.found_soon / options.cases:.1%})",
            f"≥ {FOUND_MIN:.0%}",
            replayed.found_soon >= FOUND_MIN * options.cases,
        ),
        (
            f"false ones in {years:,.0f} case-years, night by night",
            replayed.false,
            f"{FALSE_MAX * years:.0f}",
            replayed.false <= FALSE_MAX * years,
        ),
    ]
    table(("history", "value", "target", "met"), [(*row[:3], "yes" if row[3] else "NO") for row in met])
    table(
        ("beside these", "value"),
        [
            ("query of one case, slowest of nine", f"{times['slowest']:.2f} s"),
            ("the first query of a fresh copy, which makes the index", f"{times['first']:.1f} s"),
            ("planted steps found at any time", f"{replayed.found_ever} of {options.cases}"),
            ("planted drifts of 4 % over 90 runs found", f"{replayed.drifts_found} of {replayed.drifts_planted}"),
            ("alarms in all: at steps, at drifts, false", f"{replayed.steps}, {replayed.drifts}, {replayed.false}"),
        ],
    )
    return all(row[3] for row in met)


def quick(folder: Path) -> dict[str, float]:
    """Seconds of each question."""
    data = folder / "data"

    def one(case: int) -> int:
        with opened(data) as duck:
            return len(series_of(duck, name_of(case)))

    def glance() -> int:
        with opened(data) as duck:
            return len(overview(duck))

    def all_changes() -> Detected:
        with opened(data) as duck:
            return detect(all_series(duck))

    def site() -> int:
        with opened(data) as duck:
            glances, series = overview(duck), all_series(duck)
        number = 0
        for name, text in pages(Site(glances, series, detect(series), [], "https://github.com/octo-org/kernels")):
            path = folder / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            number += 1
        return number

    first = timed(lambda: one(0))[1]
    options = [timed(partial(one, case))[1] for case in range(QUERIES)]
    return {
        "first": first,
        "one": statistics.median(options),
        "slowest": max(options),
        "overview": timed(glance)[1],
        "detect": timed(all_changes)[1],
        "site": timed(site)[1],
    }


def replay(history: Made) -> Replayed:
    """Detect after each night, for each case, as a schedule would."""
    tally = dict.fromkeys(("steps", "drifts", "false", "soon", "ever", "drifts_found", "drifts_planted"), 0)
    for planted, times in zip(history.planted, history.times, strict=True):
        alarms = [alarm for start, end in history.pieces() for alarm in _alarms(times, start, end)]
        kinds = [_kind(planted, at, change) for at, _, change in alarms]
        for kind in ("steps", "drifts", "false"):
            tally[kind] += kinds.count(kind)
        near = [seen for at, seen, change in alarms if abs(at - planted.step) <= NEAR and change * planted.change > 0]
        tally["soon"] += any(seen - planted.step < RUNS_MIN for seen in near)
        tally["ever"] += bool(near)
        tally["drifts_planted"] += planted.drift is not None
        tally["drifts_found"] += "drifts" in kinds
    return Replayed(
        tally["steps"],
        tally["drifts"],
        tally["false"],
        tally["soon"],
        tally["ever"],
        tally["drifts_found"],
        tally["drifts_planted"],
    )


def _alarms(times: Sequence[float] | Any, start: int, end: int) -> list[tuple[int, int, float]]:
    """Of one series: the run of each change point that is new, the run after which it was told, and its change."""
    told: list[tuple[int, int, float]] = []
    for last in range(start, end):
        for step in steps(times[start : last + 1]):
            at = start + step.index
            if not any(abs(at - other) <= RUNS_MIN and change * step.change > 0 for other, _, change in told):
                told.append((at, last, step.change))
    return told


def _kind(planted: Planted, at: int, change: float) -> str:
    if abs(at - planted.step) <= RUNS_MIN and change * planted.change > 0:
        return "steps"
    drift = planted.drift
    if drift is not None and drift[0] - RUNS_MIN <= at <= drift[1] + DRIFT_AFTER and change > 0:
        return "drifts"
    return "false"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and how long it took."""
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began
