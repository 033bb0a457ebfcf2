"""The verb list: the ids of the cases."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from evenbench.runner.config import resolve, select
from evenbench.runner.errors import EXIT_OK, CaseError, UsageError
from evenbench.runner.execute import measuring
from evenbench.runner.plan.request import Request
from evenbench.runner.plan.selection import PATTERN_HINT
from evenbench.runner.sides import SideSpec
from evenbench.runner.words import count

from ...steps.arguments import add_place_options
from ...steps.console import answer, say


def list_cases(options: argparse.Namespace) -> int:
    """Print the ids."""
    request = Request(
        verb="run", repo=Path.cwd(), specs=[SideSpec("head", options.target)], output=Path(os.devnull), cases=options.cases,
        config=options.config, launcher=options.launcher,
    )  # fmt: skip
    config, found = measuring.discover_only(request, say)
    patterns = list(options.patterns)
    include = resolve(config, options.suite).include if options.suite else ("**",)
    points = [
        point
        for point in found.points.values()
        if select(include, point.id, point.tags) and (not patterns or select(patterns, point.id, point.tags))
    ]
    if options.json:
        rows = [{"id": p.id, "file": p.file, "line": p.line, "title": p.title, "tags": p.tags} for p in points]
        unusable = [{"file": b.file, "error": b.error} for b in found.broken]
        answer(json.dumps({"cases": rows, "broken": unusable}, indent=1) + "\n")
    else:
        answer("".join(f"{point.id}\n" for point in points))
    for broken in found.broken:
        say(f"cannot be imported here: {broken.error}")
    if not found.points and found.broken:
        hint = "list runs no set-up: install the library here, or try evenbench run"
        raise CaseError(f"no case file can be imported: {found.broken[0].error}", hint)
    if not found.points:
        raise UsageError("no cases were found", f"put case files into {options.cases}/, or name it with --cases")
    if not points:
        raise UsageError(
            f"{' '.join(patterns) or options.suite}: selects none of {count(len(found.points), 'case')}", PATTERN_HINT
        )
    return EXIT_OK


def add_list_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `list`."""
    verb.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'norm/*' or tag:pr")
    verb.add_argument("--in", dest="target", metavar="DIR", help="a directory or ref, instead of the working tree")
    verb.add_argument("--suite", metavar="NAME", help="only the cases of this suite")
    verb.add_argument("--json", action="store_true", help="as JSON")
    add_place_options(verb)
