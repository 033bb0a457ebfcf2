"""The figures about verdicts that need a GPU, by the real command line: `collect` and `aa` of scripts/prove.

`collect` records the launches that `scripts/prove verdicts` judges without one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measurements.figures import Events, Row, seconds, table
from measurements.instrument.launches import REPEAT_CASES, run_cli
from measurements.parts import ROOT, fresh
from measurements.verdicts.recorded import NEW, pack, rounds_of

AA_CASES = (  # from 1 to some 200 µs on an H200
    *REPEAT_CASES,
    "ops/embedding[dim=2048,dtype=bfloat16,tokens=1024,vocab=32000]",
    "ops/gelu[dtype=bfloat16,n=4194304]",
    "ops/transpose[dtype=float32,n=2048]",
    "ops/cross_entropy[dtype=float32,tokens=1024,vocab=8192]",
)
AA_ROUNDS, PLANTED_ROUNDS = 60, 48  # 48: two runs of 24 that share no launch
PART_LIMIT_S = 400
PACKED_MAX = 400_000  # bytes
USUAL_ROUNDS, USUAL_MEASURE_MS, USUAL_WARMUP_MS = 8, 100, 25

PLANTED = ROOT / "measurements/cases/planted"
PLANTED_FILE, SAME, GROWN = "grown.py", "GROWN = False", "GROWN = True"

HUNDRED = "measurements/cases/hundred"
AA_TIMES, AA_BUDGET_S = 10, 540.0
AA_LIMIT_S = 240
AA_MEASURING_MAX_S = 45.0
AA_HEAD = (
    "run", "rows", "flagged", "unchanged", "inconclusive", "other", "flagged with shuffled labels", "preparation", "measuring", "whole",
)  # fmt: skip


def collect(options: argparse.Namespace) -> bool:
    """Record the launches, and pack them. True where both comparisons were made and the file is small."""
    out = fresh(options.out / "collect")
    began = time.perf_counter()
    same = ["compare", ".", ".", *AA_CASES, "--suite", "ops"]
    events = run_cli([*same, *counts(options.rounds)], out / "aa", PART_LIMIT_S)
    packed = out / NEW
    runs = {"aa": run_of(events, "identical code on both sides", {})}
    pack(packed, facts_of(events), runs)  # already here, so that a machine that is taken away leaves this much
    wall = time.perf_counter() - began
    print(f"aa: {len(runs['aa']['rounds'])} rounds of {len(AA_CASES)} cases, {wall:.0f} s", file=sys.stderr, flush=True)
    sides = planted_sides(out / "sides")
    arguments = ["compare", *(str(side) for side in sides), "--suite", "planted"]
    events = run_cli([*arguments, *counts(options.planted_rounds)], out / "planted", PART_LIMIT_S)
    runs["planted"] = run_of(events, "the kernels do more work in head", grown(events))
    size = pack(packed, facts_of(events), runs)
    print(
        f"planted: {len(runs['planted']['rounds'])} rounds of {len(runs['planted']['planted'])} cases",
        file=sys.stderr,
        flush=True,
    )
    rows: list[Row] = [(name, len(run["rounds"]), len(run["rounds"][0]["base"])) for name, run in runs.items()]
    table(("recorded", "rounds", "cases"), rows)
    print(f"\n{packed}: {size:,} bytes, {time.perf_counter() - began:.0f} s. Copy it to tests/data/.", file=sys.stderr)
    return size <= PACKED_MAX


def counts(rounds: int) -> list[str]:
    """Arguments for so many rounds at one look, with as many samples a launch as a run of the usual rounds has."""
    share = rounds / USUAL_ROUNDS
    budgets = ["--measure-ms", f"{USUAL_MEASURE_MS * share:g}", "--warmup-ms", f"{USUAL_WARMUP_MS * share:g}"]
    return ["--rounds", str(rounds), *budgets, "--fail-on", "never"]


def planted_sides(folder: Path) -> tuple[Path, Path]:
    """Two directories with the cases that can be slowed from within; in the second they are."""
    base, head = folder / "base", folder / "head"
    for side in (base, head):
        shutil.copytree(PLANTED, side / "cases", ignore=shutil.ignore_patterns("__pycache__"))
    file = head / "cases" / PLANTED_FILE
    text = file.read_text(encoding="utf-8")
    if text.count(SAME) != 1:
        raise ValueError(f"{PLANTED_FILE} says {SAME!r} {text.count(SAME)} times, not once")
    file.write_text(text.replace(SAME, GROWN), encoding="utf-8")
    return base, head


def grown(events: Events) -> dict[str, str]:
    """What was done to each case, after its parameter `more`."""
    cases = {event["case"] for event in events if event["event"] == "measurement"}
    return {
        case: f"{float(case.partition('more=')[2].split(',')[0].rstrip(']')):.0%} more work" for case in sorted(cases)
    }


def run_of(events: Events, how: str, planted: Mapping[str, str]) -> dict[str, Any]:
    """A comparison as `recorded` reads it."""
    return {"how": how, "planted": planted, "rounds": rounds_of(events)}


def facts_of(events: Events) -> dict[str, Any]:
    """Of the machine and its software."""
    launch = next(event for event in events if event["event"] == "launch" and event["kind"] == "timed")
    side = next(event for event in events if event["event"] == "side")
    ticks = [event["tick_ns"] for event in events if event["event"] == "measurement" and event["tick_ns"]]
    return {
        "device": launch["device"],
        "driver": launch["driver"],
        "torch": side["torch"],
        "tick_ns": max(ticks, default=None),
    }


def aa(options: argparse.Namespace) -> bool:
    """Comparisons of a hundred cases with themselves. True where none flags a row, and each measures in time."""
    folder = fresh(options.out / "aa")
    began = time.perf_counter()
    rows: list[Row] = []
    kept = True
    longest = 0.0
    while len(rows) < options.times and time.perf_counter() - began + longest <= options.budget:
        started = time.perf_counter()
        row, good = one_aa(folder / str(len(rows) + 1), len(rows) + 1)
        longest = max(longest, time.perf_counter() - started)
        kept = kept and good
        rows.append(row)
        print(*row, sep=" · ", file=sys.stderr, flush=True)
    table(AA_HEAD, rows)
    print(f"\n{len(rows)} of {options.times} runs within {options.budget:.0f} s.")
    return kept and len(rows) == options.times


def one_aa(folder: Path, number: int) -> tuple[Row, bool]:
    """One comparison of the hundred cases with themselves, and whether it flagged nothing and was quick enough."""
    report = fresh(folder) / "comparison.json"
    arguments = ["compare", ".", ".", "--cases", HUNDRED, "--suite", "hundred", "--seed", str(number)]
    arguments += ["--json", str(report), "--fail-on", "never"]
    began = time.perf_counter()
    events = run_cli(arguments, folder / "run", AA_LIMIT_S)
    wall = time.perf_counter() - began
    said = json.loads(report.read_text(encoding="utf-8"))
    end = next(event for event in events if event["event"] == "end")
    return aa_row(number, said, end, wall)


def aa_row(number: int, said: Mapping[str, Any], end: Mapping[str, Any], wall: float) -> tuple[Row, bool]:
    """The line of a finished comparison, from its JSON and the end of its results file."""
    verdicts = [row["verdict"] for row in said["rows"]]
    flagged = sum(verdict in ("regressed", "improved") for verdict in verdicts)
    other = len(verdicts) - flagged - verdicts.count("unchanged") - verdicts.count("inconclusive")
    times = (end["preparation_s"], end["measuring_s"], wall)
    shuffled = (said["shuffled_labels"] or {}).get("flagged", 0)
    counted = (len(verdicts), flagged, verdicts.count("unchanged"), verdicts.count("inconclusive"), other, shuffled)
    row = (number, *counted, *(seconds(value) for value in times))
    return row, bool(verdicts) and not flagged and not other and end["measuring_s"] <= AA_MEASURING_MAX_S
