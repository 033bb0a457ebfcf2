"""Expectations: do figures from ten launches hold, and is a case that was slowed by a tenth found?

`scripts/prove expectations`. What it proposes for this machine's model is in out/expectations/expectations.yaml.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from evenbench.runner.config.expectations import FILE, Expectation, parse
from evenbench.runner.errors import EXIT_FAIL_ON, EXIT_OK
from measurements.figures import Row, table
from measurements.parts import ROOT, fresh

LAUNCHES = 10
RUNS = 2  # in a row, which must pass
SLOWED = 0.10
LIMIT_S = 600
SUITE = "codegen"
SLOWED_CASE = "codegen/dense**"
HEAD = ("row", "metric", "expected", "± rtol", *(f"run {n + 1}" for n in range(RUNS)), f"slowed by {SLOWED:.0%}")

Outcomes = Mapping[tuple[str, str, str], str]  # case, implementation and metric → what became of it


class Verbs(Protocol):
    """What `ArgumentParser.add_subparsers` gives."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Another subcommand."""


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommand to the grammar of scripts/prove."""
    verb = verbs.add_parser("expectations", parents=[common], help="figures from ten launches, and whether they hold")
    verb.add_argument("--suite", default=SUITE, help=f"default: {SUITE}")
    verb.add_argument("--slowed", default=SLOWED_CASE, help=f"the one case that is slowed; default: {SLOWED_CASE}")
    verb.set_defaults(figure=expectations)


def expectations(options: argparse.Namespace) -> bool:
    """Propose, hold two runs against it, then one with a case slowed. True where the runs say what they must."""
    folder = fresh(options.out / "expectations")
    tree = folder / "tree"  # the proposal is written into a copy: what is committed, a person decides
    shutil.copytree(ROOT / "cases", tree / "cases", ignore=shutil.ignore_patterns("__pycache__"))
    command(
        ["expect", "--suite", options.suite, "--rounds", str(LAUNCHES), "--write"], tree, folder / "expect", EXIT_OK
    )
    shutil.copy(tree / "cases" / FILE, folder / FILE)
    before = parse((ROOT / "cases" / FILE).read_text(encoding="utf-8"), FILE)
    here = [each for each in parse((folder / FILE).read_text(encoding="utf-8"), FILE) if each not in before]
    check = ["run", "--suite", options.suite, "--fail-on", "expectation"]
    found = [command(check, tree, folder / f"run-{n + 1}", EXIT_OK) for n in range(RUNS)]
    planted = ["--plant", f"{options.slowed}={SLOWED}"]
    slowed = command([*check, *planted], tree, folder / "slowed", EXIT_FAIL_ON)
    print(f"{here[0].device if here else 'no row gave a figure'}, {LAUNCHES} launches\n")
    table(HEAD, [row_of(each, [*(outcomes for _, outcomes in found), slowed[1]]) for each in here])
    return bool(here) and all(fine for fine, _ in (*found, slowed))


def command(arguments: Sequence[str], tree: Path, out: Path, wanted: int) -> tuple[bool, Outcomes]:
    """Run `evenbench …` in a tree. Whether it ended as wanted, and what became of the expectations."""
    log = out.with_suffix(".txt")
    results = [] if arguments[0] == "expect" else ["--json", str(out.with_suffix(".json"))]
    whole = [sys.executable, "-m", "evenbench", *arguments, *results, "--output", str(out.with_suffix(".jsonl"))]
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(whole, cwd=tree, stdout=file, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    if done.returncode not in (EXIT_OK, EXIT_FAIL_ON):
        raise SystemExit(f"error: evenbench {' '.join(arguments)} ended with {done.returncode}, see {log}")
    if done.returncode != wanted:
        print(f"evenbench {' '.join(arguments)} ended with {done.returncode}, not {wanted}; see {log}")
    told = json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))["expectations"] if results else []
    keyed = {(each["case"], each["implementation"], each["metric"]): shown(each) for each in told}
    return done.returncode == wanted, keyed


def shown(each: Mapping[str, Any]) -> str:
    """The attempts of an expectation, and its outcome."""
    return f"{', '.join('–' if value is None else f'{value:.4g}' for value in each['attempts'])}: {each['outcome']}"


def row_of(each: Expectation, found: Sequence[Outcomes]) -> Row:
    """A line of the table."""
    key = (each.case, each.implementation, each.metric)
    name = f"`{each.case}` {each.implementation}"
    return (name, each.metric, f"{each.value:g}", f"{each.rtol:.0%}", *(outcomes.get(key, "–") for outcomes in found))
