"""The command line: verbs, calls, exit code. The only module that prints, and the one place where runner meets reports.

stdout is for the answer; progress, warnings and errors go to stderr. Starts without torch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import secrets
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from . import arguments, doctor, measuring
from .config import resolve, select
from .errors import (
    EXIT_BUG,
    EXIT_FAIL_ON,
    EXIT_INTERRUPTED,
    EXIT_OK,
    CaseError,
    EvenbenchError,
    NothingMeasured,
    UnfitMachine,
    UsageError,
)
from .plan import SEED_BITS, shard_matrix
from .preparation import PATTERN_HINT
from .progress import ConsoleProgress
from .records import JudgeSettings
from .requests import fail_on_of, refuse_seed, request_of
from .sides import SideSpec

WIDTH_OF_A_FILE = 160  # columns where stdout is no terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `evenbench`. Returns the exit code (see `runner.errors`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a table has signs that an ASCII terminal lacks
    for number in (signal.SIGTERM, signal.SIGHUP):  # a workflow's cancel or a closed terminal ends a run as Ctrl-C does
        signal.signal(number, _interrupt)
    verbose = False
    try:
        asked = arguments.parse(argv)
        verbose = asked.verbose
        code = VERBS[asked.verb](asked)
        sys.stdout.flush()  # a full disk behind it is noticed here
        return code
    except BaseException as error:  # noqa: BLE001 - whatever it is, people get one line and an exit code
        if verbose and not isinstance(error, KeyboardInterrupt | SystemExit | BrokenPipeError):
            traceback.print_exc()
        return _ended_by(error)


def _ended_by(error: BaseException) -> int:
    """Say what ended the command, in one line; its exit code."""
    match error:
        case SystemExit():
            raise error
        case KeyboardInterrupt():
            _say("interrupted")
            return EXIT_INTERRUPTED
        case BrokenPipeError():  # the reader of our stdout has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit does not complain again
            return EXIT_OK
        case EvenbenchError():
            _say(f"error: {error}")
            return error.exit_code
        case OSError():
            _say(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
            return UsageError.exit_code
    _say(f"error: a bug in evenbench: {type(error).__name__}: {error} (hint: -v shows where; please report it)")
    return EXIT_BUG


def compare(asked: argparse.Namespace) -> int:
    """Measure two sides, print the table."""
    head, patterns = arguments.split_sides(asked.rest)
    specs = [
        SideSpec("base", asked.base, asked.base_setup, asked.base_python, asked.base_sha),
        SideSpec("head", head, asked.head_setup, asked.head_python, asked.head_sha),
    ]
    done = _measure(request_of("compare", asked, specs, patterns, {"fail_on": fail_on_of(asked.fail_on)}))
    return _show_comparison([done.output], None, done.outcome.hopeless, asked)


def run(asked: argparse.Namespace) -> int:
    """Measure one checkout, print its times, and on demand what lies behind them."""
    from reports.explain import explain
    from reports.load import load_files
    from reports.measured import measured
    from reports.render_json import as_json
    from reports.render_terminal import run_table

    spec = SideSpec("head", asked.target, asked.head_setup, asked.head_python)
    done = _measure(request_of("run", asked, [spec], asked.patterns, {}))
    results = load_files([done.output])
    report = measured(results)
    print(run_table(report, _width(), colour=_colour()), end="")
    if asked.explain:
        print(f"\n{explain(results, _width(), colour=_colour())}", end="")
    _say(f"results: {done.output}")
    _write(asked.json, lambda: json.dumps(as_json(report), indent=1) + "\n")
    if not done.outcome.measured:
        raise NothingMeasured("no case gave a number")
    return _hopeless(done.outcome.hopeless)


def list_cases(asked: argparse.Namespace) -> int:
    """Print the ids."""
    request = measuring.Request(
        verb="run", repo=Path.cwd(), specs=[SideSpec("head", asked.target)], output=Path(os.devnull), cases=asked.cases,
        config=asked.config,
    )  # fmt: skip
    config, found = measuring.discover_only(request, _say)
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
        print(json.dumps({"cases": rows, "broken": unusable}, indent=1))
    else:
        for point in points:
            print(point.id)
    for broken in found.broken:
        _say(f"cannot be imported here: {broken.error}")
    if not found.points and found.broken:
        hint = "list runs no set-up: install the library here, or try evenbench run"
        raise CaseError(f"no case file can be imported: {found.broken[0].error}", hint)
    if not found.points:
        raise UsageError("no cases were found", f"put case files into {asked.cases}/, or name it with --cases")
    if not points:
        raise UsageError(
            f"{' '.join(patterns) or asked.suite}: selects none of the {len(found.points)} cases", PATTERN_HINT
        )
    return EXIT_OK


def report(asked: argparse.Namespace) -> int:
    """Results files as a table, an explanation, a comment or JSON."""
    from reports.explain import explain
    from reports.load import load_files
    from reports.measured import measured
    from reports.render import run_comment
    from reports.render_json import as_json
    from reports.render_terminal import run_table

    results = load_files(asked.results)
    if asked.format == "explain":
        print(explain(results, _width(), colour=_colour()), end="")
        return EXIT_OK
    if results.header.verb == "run":
        table = measured(results)
        text = json.dumps(as_json(table), indent=1) + "\n"
        texts = {"json": lambda: text, "comment": lambda: run_comment(table)}
        print(texts[asked.format]() if asked.format in texts else run_table(table, _width(), colour=_colour()), end="")
        return EXIT_OK
    judge_by = None
    if asked.config:
        config = measuring.load_given(asked.config)
        judge_by = measuring.judge_settings(config, resolve(config, results.header.suite))
    fail_on = fail_on_of(asked.fail_on)
    if fail_on is not None:
        judge_by = (judge_by or results.header.judge).model_copy(update={"fail_on": list(fail_on)})
    return _show_comparison(asked.results, judge_by, [], asked)


def plan(asked: argparse.Namespace) -> int:
    """Print the shard matrix."""
    refuse_seed(asked.seed)
    seed = asked.seed if asked.seed is not None else secrets.randbits(SEED_BITS)
    print(json.dumps({"include": shard_matrix(asked.shards, seed)}))
    return EXIT_OK


def examine(asked: argparse.Namespace) -> int:
    """Print what the doctor found."""
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


VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "compare": compare,
    "run": run,
    "list": list_cases,
    "report": report,
    "plan": plan,
    "doctor": examine,
}


def _show_comparison(
    files: Sequence[Path], judge_by: JudgeSettings | None, hopeless: Sequence[str], asked: argparse.Namespace
) -> int:
    from reports.compare import compare as judge
    from reports.compare import conditions_met
    from reports.load import load_files
    from reports.render import comment
    from reports.render_json import as_json
    from reports.render_terminal import terminal

    results = load_files(files)
    comparison = judge(results, datetime.now(UTC).date(), judge_by=judge_by)
    shown = getattr(asked, "format", "term")
    texts = {"json": lambda: json.dumps(as_json(comparison), indent=1) + "\n", "comment": lambda: comment(comparison)}
    print(texts[shown]() if shown in texts else terminal(comparison, _width(), colour=_colour()), end="")
    if asked.verb == "compare":
        _say(f"results: {files[0]}" + (f" · comment: {asked.comment}" if asked.comment else ""))
        _write(asked.comment, texts["comment"])
        _write(asked.json, texts["json"])
    code = _hopeless(hopeless)
    if not comparison.rows and results.header.shard.count > 1:
        _say("this shard has no case to measure")
        return code
    if not any(row.change is not None for row in comparison.rows):
        raise NothingMeasured("no case gave a number on both sides", "the table says why, row by row")
    met = conditions_met(comparison, comparison.judged_by.fail_on)
    if met and code == EXIT_OK:
        _say(f"fail_on: {', '.join(met)}")
        return EXIT_FAIL_ON
    return code


def _measure(request: measuring.Request) -> measuring.Done:
    console = Console(stderr=True)

    @contextlib.contextmanager
    def progress(launches: int) -> Any:
        with ConsoleProgress(console, launches) as shown:
            yield shown

    try:
        done = measuring.measure(request, progress, _say)
    except KeyboardInterrupt:
        if request.output.exists():
            _say(
                f"what was measured is in {request.output}; go on with the same command and --resume --output {request.output}"
            )
        raise
    for pattern in done.outcome.unmatched:
        _say(f"note: the pattern {pattern!r} selects no case")
    return done


def _hopeless(errors: Sequence[str]) -> int:
    for error in errors:
        _say(f"error: a case file that no side can import: {error}")
    return CaseError.exit_code if errors else EXIT_OK


def _write(path: Path | None, text: Callable[[], str]) -> None:
    if path is None:
        return
    try:
        path.write_text(text(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _width() -> int:
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size((WIDTH_OF_A_FILE, 24)).columns
    return WIDTH_OF_A_FILE


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
