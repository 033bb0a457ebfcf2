"""The command line: verbs, calls, exit code. The only module that prints, and the one place where runner meets reports.

stdout is for the answer; progress, warnings and errors go to stderr. Starts without torch.
"""

from __future__ import annotations

import argparse
import contextlib
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
from .config import FAIL_ON, load, resolve, select
from .errors import (
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
from .sides import SideSpec

RESULTS_FOLDER = ".evenbench"  # holds its own .gitignore, so that results make no tree dirty
WIDTH_OF_A_FILE = 160  # columns where stdout is no terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `evenbench`. Returns the exit code (see `runner.errors`)."""
    asked = arguments.parse(argv)
    signal.signal(signal.SIGTERM, _interrupt)  # a workflow's cancel ends a run as Ctrl-C does
    try:
        return VERBS[asked.verb](asked)
    except KeyboardInterrupt:
        _say("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our stdout has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit does not complain again
        return EXIT_OK
    except EvenbenchError as error:
        if asked.verbose:
            traceback.print_exc()
        _say(f"error: {error}")
        return error.exit_code


def compare(asked: argparse.Namespace) -> int:
    """Measure two sides, print the table."""
    head, patterns = arguments.split_sides(asked.rest)
    specs = [
        SideSpec("base", asked.base, asked.base_setup, asked.base_python, asked.base_sha),
        SideSpec("head", head, asked.head_setup, asked.head_python, asked.head_sha),
    ]
    done = _measure(_request("compare", asked, specs, patterns, {"fail_on": _fail_on(asked.fail_on)}))
    return _show_comparison([done.output], None, done.outcome.hopeless, asked)


def run(asked: argparse.Namespace) -> int:
    """Measure one checkout, print its times, and on demand what lies behind them."""
    from reports.explain import explain
    from reports.load import load_files
    from reports.measured import measured
    from reports.render_json import as_json
    from reports.render_terminal import run_table

    spec = SideSpec("head", asked.target, asked.head_setup, asked.head_python)
    done = _measure(_request("run", asked, [spec], asked.patterns, {}))
    results = load_files([done.output])
    report = measured(results)
    print(run_table(report, _width(), colour=_colour()), end="")
    if asked.explain:
        print(f"\n{explain(results, _width(), colour=_colour())}", end="")
    _say(f"results: {done.output}")
    _write(asked.json, json.dumps(as_json(report), indent=1) + "\n")
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
    from reports.render_json import as_json
    from reports.render_terminal import run_table

    results = load_files(asked.results)
    if asked.format == "explain":
        print(explain(results, _width(), colour=_colour()), end="")
        return EXIT_OK
    if results.header.verb == "run":
        table = measured(results)
        text = json.dumps(as_json(table), indent=1) + "\n"
        print(text if asked.format == "json" else run_table(table, _width(), colour=_colour()), end="")
        return EXIT_OK
    judge_by = None
    if asked.config:
        config = load(asked.config)
        judge_by = measuring.judge_settings(config, resolve(config, results.header.suite))
    fail_on = _fail_on(asked.fail_on)
    if fail_on is not None:
        judge_by = (judge_by or results.header.judge).model_copy(update={"fail_on": list(fail_on)})
    return _show_comparison(asked.results, judge_by, [], asked)


def plan(asked: argparse.Namespace) -> int:
    """Print the shard matrix."""
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

    comparison = judge(load_files(files), datetime.now(UTC).date(), judge_by=judge_by)
    as_text = json.dumps(as_json(comparison), indent=1) + "\n"
    shown = getattr(asked, "format", "term")
    texts = {"json": lambda: as_text, "comment": lambda: comment(comparison)}
    print(texts[shown]() if shown in texts else terminal(comparison, _width(), colour=_colour()), end="")
    if asked.verb == "compare":
        _say(f"results: {files[0]}" + (f" · comment: {asked.comment}" if asked.comment else ""))
        _write(asked.comment, comment(comparison))
        _write(asked.json, as_text)
    code = _hopeless(hopeless)
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
        return measuring.measure(request, progress, _say)
    except KeyboardInterrupt:
        if request.output.exists():
            _say(
                f"what was measured is in {request.output}; go on with the same command and --resume --output {request.output}"
            )
        raise


def _request(
    verb: Any, asked: argparse.Namespace, specs: Sequence[SideSpec], patterns: Sequence[str], more: Mapping[str, Any]
) -> measuring.Request:
    if asked.resume and asked.output is None:
        raise UsageError("--resume needs --output", "name the results file of the interrupted run")
    for path in (asked.json, getattr(asked, "comment", None)):
        if path is not None and (
            path.is_dir() or not os.access(path.parent, os.W_OK)
        ):  # said before, not after measuring
            raise UsageError(f"{path} cannot be written", "name a file in a folder that exists and is writable")
    keys = ("timer", "cache", "measure_ms", "warmup_ms", "timeout_s", "min_effect", "allow_fallback")
    return measuring.Request(
        verb=verb,
        repo=Path.cwd(),
        specs=specs,
        output=(asked.output or _new_output()).resolve(),
        cases=asked.cases,
        cases_from=getattr(asked, "cases_from", "own"),
        config=asked.config,
        suite=asked.suite,
        patterns=list(patterns),
        keys={key: getattr(asked, key, None) for key in keys} | dict(more),
        rounds=asked.rounds,
        seed=asked.seed,
        shard=getattr(asked, "shard", (0, 1)),
        gpu=asked.gpu,
        resume=asked.resume,
        ignore_unfit=asked.ignore_unfit,
    )


def _new_output() -> Path:
    folder = Path(RESULTS_FOLDER)
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}.results.jsonl"


def _fail_on(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if words == ("never",):
        return ()
    for word in words:
        if word not in FAIL_ON:
            raise UsageError(f"--fail-on: {word!r} is no condition", f"any of {', '.join(FAIL_ON)}; or never")
    return words


def _hopeless(errors: Sequence[str]) -> int:
    for error in errors:
        _say(f"error: a case file that no side can import: {error}")
    return CaseError.exit_code if errors else EXIT_OK


def _write(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
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
