"""The verb diff: compare two stored runs, launches unpaired."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from ...steps.show import judged_by, show


def diff(options: argparse.Namespace) -> int:
    """Judge B against A, print, return the exit code."""
    from evenbench.reports.compare.diff import diff as judge
    from evenbench.reports.compare.stored import joined, stored
    from evenbench.reports.load.results import load_file

    base, head = (
        stored(_name(path, other), load_file(path), options.side)
        for path, other in ((options.a, options.b), (options.b, options.a))
    )
    settings = judged_by(options, head.results.header)
    return show(judge(base, head, datetime.now(UTC).date(), settings), options, results=joined(base, head))


def _name(path: Path, other: Path) -> str:
    """What a file is called: its name, with its folder where the other's is the same."""
    return str(path) if path.name == other.name else path.name


def add_diff_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `diff`."""
    verb.add_argument("a", type=Path, metavar="A", help="results file of run or compare: the baseline")
    verb.add_argument("b", type=Path, metavar="B", help="another one, by whose settings it is judged")
    verb.add_argument(
        "--side", choices=("base", "head", "control"), help="which side of a file of compare; default: head"
    )
    verb.add_argument("--format", choices=("term", "html", "comment", "json"), default="term")
    verb.add_argument("--out", type=Path, metavar="FILE", help="write to this file, instead of stdout")
    verb.add_argument("--config", type=Path, metavar="FILE", help="judge by this suites.yaml")
    verb.add_argument("--fail-on", metavar="LIST", help="conditions that end in exit code 1")
