"""Measures the figures of docs/measurements.md. Started by scripts/prove; each subcommand prints a table last.

Exit code 0 where the figure is what the project promises, 1 where it is not or could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from measurements import document

ROOT = Path(__file__).resolve().parents[1]
NS = 1e9
DEMO_CASE = "linear/matmul[size=256]"  # the case that the demo's second commit slows
NAMED_CASES, NAMED_LAUNCHES = 20, 16  # the promise about time: 20 cases by 8 rounds, in launches of two sides
REGRESSED_ROW = re.compile(r"^\| `([^`]+)` \|.*\| 🔴\s+regressed \|", re.MULTILINE)
HEADLINE = re.compile(r"^### .*?evenbench: (.*)$", re.MULTILINE)

Row = tuple[object, ...]
Events = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Plant:
    """A slow-down to find: 5 % more work on the same inputs, in one size of one case.

    Args:
        file: the case file, below the cases directory.
        old, new: text that stands in it exactly once, and what replaces it.
        row: id of the only case that gets slower.
    """

    file: str
    old: str
    new: str
    row: str

    def apply(self, cases: Path) -> None:
        """Change the file. Raises ValueError where `old` does not stand in it exactly once."""
        path = cases / self.file
        text = path.read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.file} holds the text to replace {found} times, not once: {self.old.strip()}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


# The right result is returned; after it, the same operation runs on a twentieth of the rows.
PLANTS: Mapping[str, Plant] = MappingProxyType(
    {
        "softmax": Plant(
            "ops/softmax.py",
            "run=lambda: torch.softmax(x, -1),",
            "run=lambda: (torch.softmax(x, -1), p.cols == 4096 and torch.softmax(x[: p.rows // 20], -1))[0],",
            "ops/softmax[cols=4096,dtype=bfloat16,rows=4096]",
        ),
        "rms_norm": Plant(
            "ops/rms_norm.py",
            "run=lambda: torch.nn.functional.rms_norm(x, (p.cols,), weight, eps=1e-6),",
            "run=lambda: (torch.nn.functional.rms_norm(x, (p.cols,), weight, eps=1e-6), p.cols == 8192 and "
            "torch.nn.functional.rms_norm(x[: p.rows // 20], (p.cols,), weight, eps=1e-6))[0],",
            "ops/rms_norm[cols=8192,dtype=bfloat16,rows=4096]",
        ),
    }
)


@dataclass(frozen=True)
class Compared:
    """A finished comparison: its events, its judgement as JSON, and its wall time in seconds."""

    events: Events
    report: Mapping[str, Any]
    wall_s: float

    def rows_that_are(self, *verdicts: str) -> list[Mapping[str, Any]]:
        """The rows with one of these verdicts."""
        return [row for row in self.report["rows"] if row["verdict"] in verdicts]


def main() -> int:
    """Parse the command line, measure, print."""
    options = parser().parse_args()
    options.out = options.out.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: ended from outside"))  # so that parts under way end too
    if not options.write:
        return int(not options.figure(options))
    command = command_of(sys.argv[1:])
    printed = Printed(sys.stdout)
    try:
        document.check(command)  # before hours of measuring
        with contextlib.redirect_stdout(printed):
            kept = options.figure(options)
        document.write(command, printed.text)
    except document.NoBlockError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return int(not kept)


def command_of(words: Sequence[str]) -> str:
    """The command as docs/measurements.md names it: without the options that change no figure."""
    apart = argparse.ArgumentParser(add_help=False)
    apart.add_argument("--out")
    apart.add_argument("--write", action="store_true")
    return shlex.join(["scripts/prove", *apart.parse_known_args(words)[1]])


class Printed(io.TextIOBase):
    """A stream that writes on, and keeps what was written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.text = ""

    def write(self, text: str) -> int:
        """As any stream."""
        self.text += text
        return self._stream.write(text)

    def flush(self) -> None:
        """As any stream."""
        self._stream.flush()


def parser() -> argparse.ArgumentParser:
    """The grammar of scripts/prove."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, default=Path("out/prove"), metavar="DIR", help="default: out/prove")
    common.add_argument("--write", action="store_true", help="put what is printed into docs/measurements.md")
    suite = argparse.ArgumentParser(add_help=False)
    suite.add_argument("patterns", nargs="*", default=["tag:pr"], help="of the ops suite's cases; default: tag:pr")
    suite.add_argument("--rounds", type=int, default=8)
    top = argparse.ArgumentParser(prog="scripts/prove", description="Measures the figures of docs/measurements.md.")
    verbs = top.add_subparsers(required=True, metavar="FIGURE")

    verb = verbs.add_parser("self", parents=[common, suite], help="the ops suite against itself: verdicts, wall time")
    verb.set_defaults(figure=prove_self)
    verb = verbs.add_parser("planted", parents=[common, suite], help="one kernel with 5 %% more work: found, alone?")
    verb.add_argument("--plant", choices=sorted(PLANTS), action="append", help="default: all, one after the other")
    verb.set_defaults(figure=prove_planted)
    verb = verbs.add_parser("timers", parents=[common], help="medians beside do_bench and Nsight Compute")
    verb.set_defaults(figure=prove_timers)
    verb = verbs.add_parser("host", parents=[common], help="the demo again and again; needs no GPU")
    verb.add_argument("--times", type=int, default=10)
    verb.set_defaults(figure=prove_host)
    verb = verbs.add_parser("start", parents=[common], help="how long launches take to start, from a results file")
    verb.add_argument("results", nargs="?", type=Path, help="default: that of `self`")
    verb.set_defaults(figure=prove_start)
    from measurements.faults import figure as prove_faults
    from measurements.instrument import instrument as prove_instrument
    from measurements.kernels import ceilings as prove_ceilings
    from measurements.kernels import ceilings_ops as prove_ceilings_ops
    from measurements.kernels import codegen as prove_codegen
    from measurements.kernels import expectations as prove_expectations
    from measurements.size import files as prove_files
    from measurements.size import history as prove_history
    from measurements.size import scale as prove_scale
    from measurements.size import two_gpus as prove_two_gpus
    from measurements.verdicts import figures_of_verdicts as prove_verdicts_figure

    prove_ceilings.add_to(verbs, common)
    prove_ceilings_ops.add_to(verbs, common)
    prove_codegen.add_to(verbs, common)
    prove_expectations.add_to(verbs, common)
    prove_faults.add_to(verbs, common)
    prove_files.add_to(verbs, common)
    prove_history.add_to(verbs, common)
    prove_instrument.add_to(verbs, common)
    prove_scale.add_to(verbs, common)
    prove_two_gpus.add_to(verbs, common)
    prove_verdicts_figure.add_to(verbs, common)
    return top


def prove_self(options: argparse.Namespace) -> bool:
    """The suite against itself. True where nothing is called regressed or improved."""
    done = compare(".", ".", options.out / "self", options.rounds, options.patterns)
    counts = [(f"rows that are {verdict}", count) for verdict, count in done.report["counts"].items() if count]
    table(("figure", "value"), [("rows", len(done.report["rows"])), *counts, *wall_times(done.events, done.wall_s)])
    return bool(done.report["rows"]) and not done.rows_that_are("regressed", "improved", "failed", "wrong")


def prove_planted(options: argparse.Namespace) -> bool:
    """Each plant in head alone. True where its row, and no other, is called regressed, and none improved."""
    lines = []
    for name in options.plant or PLANTS:
        plant = PLANTS[name]
        with tempfile.TemporaryDirectory() as scratch:
            base, head = Path(scratch, "base"), Path(scratch, "head")
            for side in (base, head):
                shutil.copytree(ROOT / "cases", side / "cases", ignore=shutil.ignore_patterns("__pycache__"))
            plant.apply(head / "cases")
            done = compare(str(base), str(head), options.out / f"planted-{name}", options.rounds, options.patterns)
        flagged = done.rows_that_are("regressed", "improved", "failed", "wrong")
        alone = [(row["case"], row["verdict"]) for row in flagged] == [(plant.row, "regressed")]
        shown = ", ".join(f"{row['case']} {row['verdict']} {change(row)}" for row in flagged) or "nothing"
        lines.append((plant.row, len(done.report["rows"]), shown, done.report["headline"], "yes" if alone else "NO"))
    table(("planted: 5 % more work in", "rows", "found", "headline", "that row alone"), lines)
    return all(line[-1] == "yes" for line in lines)


def prove_timers(options: argparse.Namespace) -> bool:
    """In a process of its own, which Nsight Compute starts once more."""
    command = [sys.executable, "-m", "measurements.instrument.timers", "--out", str(options.out / "timers")]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    return done.returncode == 0


def prove_host(options: argparse.Namespace) -> bool:
    """The demo so many times. True where each headline says `1 regressed`, for just the case that was slowed."""
    lines = []
    (options.out / "host").mkdir(parents=True, exist_ok=True)
    for number in range(1, options.times + 1):
        folder = options.out / "host" / str(number)
        began = time.perf_counter()
        with folder.with_suffix(".txt").open("w", encoding="utf-8") as log:
            command = [str(ROOT / "scripts/demo"), str(folder)]
            code = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT).returncode
        wall = time.perf_counter() - began
        comment = folder / "comment.md"
        text = comment.read_text(encoding="utf-8") if comment.exists() else ""
        headline, right = demo_outcome(text)
        lines.append((number, f"{wall:.0f} s", code, headline, "yes" if right and code == 0 else "NO"))
    good = sum(line[-1] == "yes" for line in lines)
    table(("demo", "wall time", "exit code", "headline", "1 regressed, the slowed case"), lines)
    print(f"\n{good} of {len(lines)}")
    return good == len(lines)


def demo_outcome(comment: str) -> tuple[str, bool]:
    """Headline of a demo's comment, and whether it calls just the slowed case regressed."""
    found = HEADLINE.search(comment)
    headline = found[1] if found else "(no comment)"
    alone = REGRESSED_ROW.findall(comment) == [DEMO_CASE]
    return headline, alone and headline.split(", ")[0] == "1 regressed" and "improved" not in headline


def prove_start(options: argparse.Namespace) -> bool:
    """Start times of forked launches, from a results file. Nothing is promised, so always true."""
    path = options.results or options.out / "self" / "results.jsonl"
    if not path.is_file():
        raise SystemExit(f"error: no results file {path} (hint: run `scripts/prove self` first, or name one)")
    launches = [launch for launch in timed_launches(read_events(path)) if launch["start"] == "fork"]
    if not launches:
        raise SystemExit(f"error: {path} holds no timed launch that was forked")
    spans = sorted(launch["first_sample_ns"] / NS for launch in launches)
    figures = {"median": statistics.median(spans), "fastest": spans[0], "slowest": spans[-1]}
    rows = [(name, seconds(value)) for name, value in figures.items()]
    table(("launch start to first sample", "value"), [("forked launches", len(spans)), *rows])
    return True


def compare(base: str, head: str, folder: Path, rounds: int, patterns: Sequence[str]) -> Compared:
    """Run the real command line. Ends the process where it ends without a comparison."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "evenbench", "compare", base, head, *patterns, "--suite", "ops"]
    command += ["--rounds", str(rounds), "--output", str(folder / "results.jsonl")]
    command += ["--json", str(folder / "comparison.json"), "--comment", str(folder / "comment.md")]
    print(shlex.join(command), file=sys.stderr, flush=True)
    began = time.perf_counter()
    with (folder / "table.txt").open("w") as out, (folder / "progress.txt").open("w") as err:
        code = subprocess.run(command, check=False, cwd=ROOT, stdout=out, stderr=err).returncode
    wall = time.perf_counter() - began
    if code not in (0, 1):  # 1: a regression was found
        tail = (folder / "progress.txt").read_text(encoding="utf-8", errors="replace")[-2_000:]
        raise SystemExit(f"error: the comparison ended with code {code}:\n{tail}")
    print(f"table, comment and results: {folder}", file=sys.stderr, flush=True)
    report = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    return Compared(read_events(folder / "results.jsonl"), report, wall)


def wall_times(events: Events, whole_s: float) -> list[tuple[str, str]]:
    """Where the time of a comparison went, and what 20 cases by 8 rounds take at these rates."""
    launches = timed_launches(events)
    end = next(event for event in events if event["event"] == "end")
    wall = [launch["wall_ns"] / NS for launch in launches]
    starts = [launch["first_sample_ns"] / NS for launch in launches]
    cases = [len(launch["order"]) for launch in launches]
    rows = [
        ("wall time, whole", seconds(whole_s)),
        ("preparation", seconds(end["preparation_s"])),
        ("measuring", seconds(end["measuring_s"])),
        ("launches", f"{len(launches)} of {statistics.median(cases):.0f} cases"),
        ("a launch, median", seconds(statistics.median(wall))),
        ("a case and launch, the launch's start shared out", f"{sum(wall) / sum(cases) * 1e3:.1f} ms"),
    ]
    if min(cases) > 1:
        further = statistics.median((w - s) / (n - 1) for w, s, n in zip(wall, starts, cases, strict=True))
        named = NAMED_LAUNCHES * (statistics.median(starts) + (NAMED_CASES - 1) * further)
        rows.append(("a further case of a launch", f"{further * 1e3:.1f} ms"))
        rows.append(("so 20 cases by 8 rounds take", seconds(named)))
    return rows


def timed_launches(events: Events) -> list[dict[str, Any]]:
    """The timed launches that ended, each with what its last line says."""
    ends = {event["launch"]: event for event in events if event["event"] == "launch_end"}
    timed = (event for event in events if event["event"] == "launch" and event["kind"] == "timed")
    return [{**event, **ends[event["launch"]]} for event in timed if event["launch"] in ends]


def read_events(path: Path) -> Events:
    """The lines of a results file of our own making."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def change(row: Mapping[str, Any]) -> str:
    """A row's change with its interval, in per cent."""
    if row["change"] is None:
        return ""
    low, high = row["interval"] or (float("nan"),) * 2
    return f"{row['change']:+.1%} [{low:.1%}, {high:.1%}]"


def seconds(value: float) -> str:
    """A time for a table."""
    return f"{value:.2f} s"


def table(head: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a Markdown table."""
    print("\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
