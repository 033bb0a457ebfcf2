"""The figures about size: `scale`, a run of 10,000 trivial cases and a results file of 1 GB. Needs no GPU.

Each step is a process of its own, so that its time and its memory are its own; launches are children and do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from evenbench.cli import grammar
from evenbench.cli.main import main
from evenbench.cli.steps.measure import measure
from evenbench.cli.steps.requests import request_of
from evenbench.reports.render.comment.markdown import COMMENT_BUDGET
from evenbench.runner.records import dump
from evenbench.runner.sides import SideSpec
from measurements.figures import seconds, table
from measurements.instrument.instrument import Verbs
from measurements.parts import Found, Part, fresh, run_part, serve
from measurements.size.files import large_run

SIZES = (1_000, 3_000, 10_000)
ROUNDS, SIDES = 6, 2  # and a look after them, which the driver judges, and which leaves nothing open
LARGE_CASES, LARGE_ROUNDS = 20_000, 24  # 960,000 measurements of 20 samples: 1 GB
OVERHEAD_MAX_MS, MEMORY_MAX_MB, REPORT_MAX_S = 2.0, 500.0, 30.0
LINEAR_MAX = 1.5  # overhead per case at the largest size, as a multiple of that at the smallest
LARGE_MEMORY_MAX = 1.5  # times the file's size
LIMIT_S = 3_600
RUN_PARTS = ("measure", "count", "plan", "report", "comment")
KIB, MB = 1024, 1e6

CASES = """
from evenbench import Bench, case

@case("many/trivial", params={{"n": list(range({cases}))}}, device="cpu", iterations=3)
def trivial(p, device):
    return Bench(run=lambda: p.n, reference=lambda: p.n)
"""
SUITES = """
version: 1
defaults: {{measure_ms: 1, warmup_ms: 0.1, rounds: {rounds}, max_rounds: {more}, cache: warm, ceilings: false}}
suites: {{all: {{include: ["**"], min_effect: 0.5, equivalence: 0.9, fail_on: []}}}}
"""


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommand to the grammar of scripts/prove."""
    verb = verbs.add_parser("scale", parents=[common], help="10,000 cases, and a results file of 1 GB; no GPU")
    verb.set_defaults(figure=scale)
    verb.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of cases")
    verb.add_argument("--without-large", action="store_true", help="leave the file of 1 GB out")


def scale(options: argparse.Namespace) -> bool:
    """Runs of several sizes, and the report of a large file. True where all limits are kept."""
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start")
    runs = {}
    for cases in options.sizes:
        folder = fresh(options.out / "scale" / str(cases))
        (folder / "side" / "cases").mkdir(parents=True)
        (folder / "side" / "cases" / "many.py").write_text(CASES.format(cases=cases), encoding="utf-8")
        (folder / "side" / "cases" / "suites.yaml").write_text(
            SUITES.format(rounds=ROUNDS, more=2 * ROUNDS), encoding="utf-8"
        )
        parts = {name: run_part(__name__, name, folder, LIMIT_S) for name in RUN_PARTS}
        if said := _missing(parts):
            print(f"\nWithout {said}")
            return False
        parts["measure"] = Part({**parts["measure"].found, **parts["count"].found})
        runs[cases] = {name: part.found for name, part in parts.items() if name != "count"}
    kept = _show_runs(runs)
    return (options.without_large or _large(options.out / "scale" / "large")) and kept


def _show_runs(runs: dict[int, dict[str, Found]]) -> bool:
    """A column a size. True where the limits are kept."""
    rows: list[tuple[str, ...]] = []

    def row(name: str, texts: list[str], limit: str = "") -> None:
        rows.append((name, *texts, limit))

    overheads = [found["measure"]["processor_s"] / found["measure"]["tries"] * 1e3 for found in runs.values()]
    memory = [max(found[part]["resident_mb"] for part in found) for found in runs.values()]
    reports = [max(found["report"]["processor_s"], found["comment"]["processor_s"]) for found in runs.values()]
    row("cases × launches", [f"{found['measure']['tries']:,}" for found in runs.values()])
    row("driver, processor time for each", [f"{ms:.2f} ms" for ms in overheads], f"{OVERHEAD_MAX_MS:g} ms")
    row(
        "driver, peak memory",
        [f"{found['measure']['resident_mb']:.0f} MB" for found in runs.values()],
        f"{MEMORY_MAX_MB:g} MB",
    )
    row("wall time of the run", [seconds(found["measure"]["wall_s"]) for found in runs.values()])
    row("a launch's wall time for each", [f"{found['measure']['launch_ms']:.2f} ms" for found in runs.values()])
    row("plan of 8 shards, balanced", [seconds(found["plan"]["processor_s"]) for found in runs.values()])
    row("report, processor time", [seconds(value) for value in reports], seconds(REPORT_MAX_S))
    row("report, wall time", [seconds(found["report"]["wall_s"]) for found in runs.values()])
    row(
        "report, peak memory",
        [f"{found['report']['resident_mb']:.0f} MB" for found in runs.values()],
        f"{MEMORY_MAX_MB:g} MB",
    )
    row("characters of the comment", [f"{found['comment']['characters']:,}" for found in runs.values()], "60,000")
    table(("a run of trivial cases", *(f"{cases:,}" for cases in runs), "at most"), rows)
    print(f"\nOverhead for each at the largest size: {overheads[-1] / overheads[0]:.2f} times that at the smallest.")
    return (
        max(overheads) <= OVERHEAD_MAX_MS
        and max(memory) <= MEMORY_MAX_MB
        and max(reports) <= REPORT_MAX_S
        and overheads[-1] <= LINEAR_MAX * overheads[0]
        and all(found["comment"]["characters"] <= COMMENT_BUDGET for found in runs.values())
    )


def _large(folder: Path) -> bool:
    """A file of 1 GB, reported. True where its memory is bounded."""
    parts = {name: run_part(__name__, name, folder, LIMIT_S) for name in ("write", "comment")}
    if said := _missing(parts):
        print(f"\nWithout {said}")
        return False
    size, found = parts["write"].found["size_mb"], parts["comment"].found
    (folder / "results.jsonl").unlink()
    limit = f"{LARGE_MEMORY_MAX * size:,.0f} MB"
    table(
        (f"a results file of {size:,.0f} MB, {parts['write'].found['lines']:,} lines", "value", "at most"),
        [
            ("report as a comment, processor time", seconds(found["processor_s"]), ""),
            ("the same, wall time", seconds(found["wall_s"]), ""),
            ("peak memory", f"{found['resident_mb']:,.0f} MB", limit),
            ("characters of the comment", f"{found['characters']:,}", "60,000"),
        ],
    )
    return bool(found["resident_mb"] <= LARGE_MEMORY_MAX * size)


def _missing(parts: dict[str, Part]) -> str:
    return "; ".join(part.missing for part in parts.values() if part.missing)


def part_measure() -> Found:
    """The driver of a comparison of the folder with itself, up to the end of its last launch."""
    folder = _folder()
    side = str(folder / "side")
    words = ["compare", side, side, "--seed", "5", "--output", str(folder / "results.jsonl"), "--ignore-unfit"]
    options = grammar.parse(words)
    os.chdir(folder)
    specs = [SideSpec("base", side), SideSpec("head", side)]
    request = request_of("compare", options, specs, (), {})
    before = _used()
    measure(request)
    return _since(before)


def part_count() -> Found:
    """How many cases launches ran, preparation included, and what a launch took for each."""
    wall_ns = tries = 0
    with (_folder() / "results.jsonl").open(encoding="utf-8") as file:
        for line in file:
            tries += line.startswith(('{"event":"case"', '{"event":"measurement"'))
            if line.startswith('{"event":"launch_end"'):
                wall_ns += json.loads(line)["wall_ns"]
    return {"tries": tries, "launch_ms": wall_ns / 1e6 / tries}


def part_plan() -> Found:
    """`plan` by the durations of that run."""
    return _verb("plan", "--shards", "8", "--seed", "5", "--durations", str(_folder() / "results.jsonl"))


def part_report() -> Found:
    """`report` as a terminal has it."""
    return _verb("report", str(_folder() / "results.jsonl"), "--out", str(_folder() / "report.txt"))


def part_comment() -> Found:
    """`report` as a comment."""
    out = _folder() / "comment.md"
    used = _verb(
        "report", str(_folder() / "results.jsonl"), "--format", "comment", "--fail-on", "never", "--out", str(out)
    )
    return used | {"characters": len(out.read_text(encoding="utf-8"))}


def part_write() -> Found:
    """The large file."""
    path, lines = _folder() / "results.jsonl", 0
    with path.open("w", encoding="utf-8") as file:
        for event in large_run(LARGE_CASES, LARGE_ROUNDS):
            file.write(dump(event) + "\n")
            lines += 1
    return {"lines": lines, "size_mb": path.stat().st_size / MB}


def _verb(*words: str) -> dict[str, Any]:
    before = _used()
    if code := main(list(words)):
        raise SystemExit(f"evenbench {words[0]} ended with {code}")
    return _since(before)


def _used() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(before: tuple[float, float]) -> dict[str, Any]:
    """Wall time and processor time of this process, threads included, and the most memory that it held."""
    wall, processor = (now - then for now, then in zip(_used(), before, strict=True))
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # getrusage counts what forked this process, too
    resident = int(status.partition("VmHWM:")[2].split()[0]) * KIB / MB
    return {"wall_s": wall, "processor_s": processor, "resident_mb": resident}


def _folder() -> Path:
    """The folder that parts answer into."""
    return Path(sys.argv[-1]).parent.resolve()


if __name__ == "__main__":
    steps = {
        "measure": part_measure,
        "count": part_count,
        "plan": part_plan,
        "report": part_report,
        "comment": part_comment,
        "write": part_write,
    }
    sys.exit(serve(steps))
