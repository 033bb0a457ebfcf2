"""The ops suite beside the peaks of the device: shares of ceilings, none impossible, a false claim caught."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenbench.reports import units
from evenbench.reports.load.results import load_file
from evenbench.reports.render.explain.run import explain
from evenbench.reports.rows.roofline import TOO_FAST
from measurements.figures import table
from measurements.parts import ROOT, fresh

# A case whose `work` claims twice the bytes that it moves, beside the same without the lie.
FALSE = """
import torch

from evenbench import Bench, Work, case


@case("claims/copy", params={"times": [1, 2]})
def copy(p, device):
    x = torch.randn(1 << 26, device=device)
    out = torch.empty_like(x)
    moved = p.times * x.nbytes
    return Bench(
        run=lambda: torch.add(x, 1, out=out),
        inputs={"x": x},
        reference=lambda: x + 1,
        work=Work(dtype="float32", flops=x.numel(), bytes_read=moved, bytes_written=moved),
    )
"""
SUITES = "version: 1\nsuites:\n  ops: {include: ['**']}\n"
TWICE = "claims/copy[times=2]"

Rows = Sequence[Mapping[str, Any]]


def add_to(verbs: Any, common: argparse.ArgumentParser) -> None:
    """The figure's grammar."""
    verb = verbs.add_parser(
        "ceilings-ops", parents=[common], help="the ops suite's shares of ceilings; a false claim caught; a picture"
    )
    verb.add_argument("patterns", nargs="*", default=["tag:pr"], help="of the ops suite's cases; default: tag:pr")
    verb.add_argument("--ignore-unfit", action="store_true", help="measure where the machine is not fit")
    verb.set_defaults(figure=prove_ceilings_ops)


def prove_ceilings_ops(options: argparse.Namespace) -> bool:
    """True where each row has a share, none is above what can be, and of two equal calls only the false claim is caught."""
    folder = fresh(options.out / "ceilings-ops")
    unfit = ["--ignore-unfit"] if options.ignore_unfit else []
    evenbench(["ceilings", *unfit], folder / "ceilings.txt")  # measures what is not kept yet; runs look it up
    rows = measured(ROOT, folder / "results.jsonl", [*options.patterns, *unfit])
    shares = {row["case"]: row["times"]["share_of_ceiling"] for row in rows if row["times"]}
    table(("case", "time", "rate", "share of ceiling"), [_cells(row) for row in rows if row["times"]])
    (folder / "explained.txt").write_text(explain(load_file(folder / "results.jsonl")), encoding="utf-8")
    print(f"\nwhat binds each case: {folder / 'explained.txt'}", file=sys.stderr)
    draw(folder)
    with tempfile.TemporaryDirectory() as scratch:
        cases = Path(scratch, "cases")
        cases.mkdir()
        (cases / "claims.py").write_text(FALSE, encoding="utf-8")
        (cases / "suites.yaml").write_text(SUITES, encoding="utf-8")
        claims = measured(Path(scratch), folder / "claims.jsonl", unfit)
    caught = [row["case"] for row in claims if any("share of ceiling" in text for text in row["warnings"])]
    without = [case for case, share in shares.items() if share is None]
    impossible = [case for case, share in shares.items() if share is not None and share > TOO_FAST]
    told = [
        ("rows with a share", f"{len(shares) - len(without)} of {len(rows)}", bool(rows) and not without),
        (f"above {TOO_FAST:g}", ", ".join(impossible) or "none", not impossible),
        ("of two equal copies, one of which claims twice its bytes, caught", ", ".join(caught), caught == [TWICE]),
    ]
    table(("figure", "value", "as promised"), [(*each[:2], "yes" if each[2] else "NO") for each in told])
    table(("claim", "time", "rate", "share of ceiling"), [_cells(row) for row in claims if row["times"]])
    return len(shares) == len(rows) and all(each[2] for each in told)


def measured(where: Path, out: Path, words: Sequence[str]) -> Rows:
    """The rows of `evenbench run` there, with patterns or options. Ends this process where it gives none."""
    table_file, answer = out.with_suffix(".txt"), out.with_suffix(".json")
    evenbench(
        ["run", *words, "--suite", "ops", "--output", str(out.resolve()), "--json", str(answer.resolve())],
        table_file, where,
    )  # fmt: skip
    rows: Rows = json.loads(answer.read_text(encoding="utf-8"))["rows"]
    return rows


def draw(folder: Path) -> None:
    """The roofline of the results, where the extra `html` is installed."""
    drawing = ["report", str(folder / "results.jsonl"), "--plot", str(folder / "roofline.svg")]
    if importlib.util.find_spec("vl_convert") is None:
        print(
            f"no picture without the extra `html`; where it is: {shlex.join(['evenbench', *drawing])}", file=sys.stderr
        )
    else:
        evenbench(drawing, folder / "plot.txt")


def evenbench(arguments: Sequence[str], log: Path, where: Path = ROOT) -> None:
    """Run the command, what it says into a file. Ends this process where it fails."""
    print(shlex.join(["evenbench", *arguments]), file=sys.stderr, flush=True)
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            [sys.executable, "-m", "evenbench", *arguments], check=False, cwd=where, stdout=out, stderr=out
        )
    if done.returncode:
        raise SystemExit(f"error: it ended with code {done.returncode}:\n{log.read_text(encoding='utf-8')[-2_000:]}")


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    times = row["times"]
    share = times["share_of_ceiling"]
    return (
        f"`{row['case']}`",
        units.time(times["device_busy_ms"] * 1e6),
        units.rate(times["tflops"], times["bandwidth_tbs"]),
        units.NOTHING if share is None else f"{share:.2f}",
    )
