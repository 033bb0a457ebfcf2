"""The verbs that measure, or look at what could be measured: compare, run, list, doctor."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import doctor, measuring
from ..config import resolve, select
from ..errors import EXIT_OK, CaseError, UnfitMachine, UsageError
from ..request import Request
from ..selection import PATTERN_HINT
from ..sides import SideSpec
from ..words import count
from . import arguments, confirm
from .console import ProgressConsole, answer, changing, say
from .judge import read_proofs, show_comparison
from .progress import ConsoleProgress
from .requests import fail_on_of, request_of
from .texts import keep_texts, refuse_dump


def compare(asked: argparse.Namespace) -> int:
    """Measure two sides, print the table."""
    read_proofs(asked.proofs)  # what is wrong with them is said before, not after measuring
    refuse_dump(asked.dump_sources)
    head, patterns = arguments.split_sides(asked.rest)
    specs = [
        SideSpec("base", asked.base, asked.base_setup, asked.base_python, asked.base_sha),
        SideSpec("head", head, asked.head_setup, asked.head_python, asked.head_sha),
    ]
    if asked.control:
        specs.append(SideSpec("control", asked.base, asked.base_setup, asked.base_python, asked.base_sha))
    request = request_of("compare", asked, specs, patterns, {"fail_on": fail_on_of(asked.fail_on)})
    if not asked.confirm:
        return show_comparison([request.output], None, _measured(request, asked), asked)
    request = confirm.with_room_for_second(request)
    hopeless = [] if confirm.first_is_whole(request) else _measured(request, asked)
    return show_comparison([request.output, *confirm.second_run(request, measure)], None, hopeless, asked)


def _measured(request: Request, asked: argparse.Namespace) -> Sequence[str]:
    """Measure; the case files that no side can import."""
    outcome = measure(request).outcome
    keep_texts(asked, outcome.texts)
    return outcome.hopeless


def list_cases(asked: argparse.Namespace) -> int:
    """Print the ids."""
    request = Request(
        verb="run", repo=Path.cwd(), specs=[SideSpec("head", asked.target)], output=Path(os.devnull), cases=asked.cases,
        config=asked.config, launcher=asked.launcher,
    )  # fmt: skip
    config, found = measuring.discover_only(request, say)
    patterns = list(asked.patterns)
    include = resolve(config, asked.suite).include if asked.suite else ("**",)
    points = [
        point
        for point in found.points.values()
        if select(include, point.id, point.tags) and (not patterns or select(patterns, point.id, point.tags))
    ]
    if asked.json:
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
        raise UsageError("no cases were found", f"put case files into {asked.cases}/, or name it with --cases")
    if not points:
        raise UsageError(
            f"{' '.join(patterns) or asked.suite}: selects none of {count(len(found.points), 'case')}", PATTERN_HINT
        )
    return EXIT_OK


def examine(asked: argparse.Namespace) -> int:
    """Print what the doctor found."""
    if asked.host and asked.python is not None:
        raise UsageError("--host looks at no interpreter: torch and CUPTI are in the image", "leave --python out")
    if asked.runner is not None and not asked.host:
        raise UsageError("--runner belongs to --host", "evenbench doctor --host --runner DIR")
    if asked.host:
        checks = doctor.examine_host(asked.gpu, asked.runner or Path.cwd())
    else:
        checks = doctor.examine(asked.gpu, asked.python)
    if asked.json:
        print(json.dumps([check.as_dict() for check in checks], indent=1))
    else:
        for check in checks:
            print(check.line())
    unfit = [check for check in checks if check.state == "unfit"]
    if unfit:
        raise UnfitMachine(
            f"{len(unfit)} of {len(checks)} checks say unfit: {', '.join(check.name for check in unfit)}"
        )
    return EXIT_OK


def open_cases(path: Path) -> Collection[str]:
    """The cases of a run under way that another look may still decide, as its file tells."""
    from reports.load import load_files
    from reports.looks import open_cases as judge

    return judge(load_files([path]), datetime.now(UTC).date())


def measure(request: Request, judge: Callable[[Path], Collection[str]] | None = open_cases) -> measuring.Done:
    """Measure, with progress on stderr; says how an interrupted run can be taken up. Without a judge no case goes on."""
    console = ProgressConsole(stderr=True)

    @contextlib.contextmanager
    def progress(launches: int) -> Any:
        with ConsoleProgress(console, launches, live=changing()) as shown:
            yield shown

    try:
        done = measuring.measure(request, progress, say, judge)
    except KeyboardInterrupt:
        if request.output.exists():
            first = request.beside[0] if request.confirms else request.output
            whole = f"the first run is whole, in {first}; " if request.confirms else ""
            say(
                f"{whole}what was measured is in {request.output}; go on with the same command and --resume --output {first}"
            )
        raise
    for pattern in done.outcome.unmatched:
        say(f"note: the pattern {pattern!r} selects no case")
    return done
