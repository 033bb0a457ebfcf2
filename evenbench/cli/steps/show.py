"""Showing what a run or a comparison says, and the exit code that follows from it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evenbench.runner.config import resolve
from evenbench.runner.errors import EXIT_FAIL_ON, EXIT_OK, CaseError, NothingMeasured, UntrustedInput, UsageError
from evenbench.runner.plan.request import judge_settings, load_given
from evenbench.runner.records import Header, JudgeSettings

from .console import colour, say, width, write
from .export import FORMATS, deliver, exported
from .requests import fail_on_of

if TYPE_CHECKING:
    from evenbench.reports.load.proofs import Proof
    from evenbench.reports.load.results import Results
    from evenbench.reports.rows.outcome import Comparison, Facts, Report


def code_of(report: Report, judge: JudgeSettings, ignored: tuple[str, ...] = (), lost: Sequence[str] = ()) -> int:
    """The exit code of a run that gave numbers: whether a `fail_on` condition is met, or something of it is `lost`."""
    from evenbench.reports.compare.compare import conditions_met

    met = (*conditions_met(report, [condition for condition in judge.fail_on if condition not in ignored]), *lost)
    if met:
        say(f"fail_on: {', '.join(met)}")
    return EXIT_FAIL_ON if met else EXIT_OK


def judged_by(options: argparse.Namespace, header: Header) -> JudgeSettings | None:
    """The thresholds of ``--config`` and ``--fail-on``; None for those of the file. Raises UsageError, ConfigError."""
    judge_by = None
    if options.config:
        config = load_given(options.config)
        if header.suite not in config.suites:
            raise UsageError(
                f"--config {options.config}: has no suite {header.suite!r}, by which the results were measured",
                f"name a file that has it: there are {', '.join(config.suites)}",
            )
        judge_by = judge_settings(config, resolve(config, header.suite))
    fail_on = fail_on_of(options.fail_on)
    if fail_on is not None:
        judge_by = (judge_by or header.judge).model_copy(update={"fail_on": list(fail_on)})
    return judge_by


def show_comparison(
    files: Sequence[Path], judge_by: JudgeSettings | None, hopeless: Sequence[str], options: argparse.Namespace
) -> int:
    """Judge the files of a run, with second runs of its regressed rows, and `show` what comes of it."""
    from evenbench.reports.load.results import load_runs

    results, seconds = load_runs(files)
    comparison, _ = judged(results, seconds, judge_by, options)
    return show(comparison, options, files, hopeless, results=results)


def judged(
    results: Results, seconds: Sequence[Results], judge_by: JudgeSettings | None, options: argparse.Namespace
) -> tuple[Comparison, list[Comparison]]:
    """A run's comparison, with what second runs say of its regressed rows; then those of the second runs."""
    from evenbench.reports.compare.compare import compare as judge
    from evenbench.reports.compare.confirm import confirmed

    today = datetime.now(UTC).date()
    comparison = judge(results, today, judge_by=judge_by, proofs=read_proofs(options.proofs))
    again = [judge(second, today, judge_by=comparison.judged_by) for second in seconds]
    return confirmed(comparison, again), again


def show(
    comparison: Comparison,
    options: argparse.Namespace,
    files: Sequence[Path] = (),
    hopeless: Sequence[str] = (),
    results: Results | None = None,
) -> int:
    """Print, write what was asked for; what is exported needs `results`. Returns the exit code. Raises NothingMeasured."""
    from evenbench.reports.compare.compare import conditions_met
    from evenbench.reports.compare.known_truth import proof_line
    from evenbench.reports.render.comment.comment import comment, summary
    from evenbench.reports.render.data.json import as_json
    from evenbench.reports.render.terminal.terminal import terminal

    shown = getattr(options, "format", "term")
    texts: dict[str, Callable[[], str]] = {
        "json": lambda: json.dumps(as_json(comparison), indent=1) + "\n",
        "comment": lambda: comment(comparison),
        "summary": lambda: summary(comparison),
        "proof": lambda: proof_line(comparison),
        "term": lambda: terminal(comparison, width(), colour=_colour(options)),
    }
    out = getattr(options, "out", None)
    if shown in FORMATS and results is not None:
        deliver(exported(shown, results, comparison), out)
    else:
        deliver(texts[shown](), out)
    if options.verb == "compare":
        say(
            f"results: {', '.join(str(file) for file in files)}"
            + (f" · comment: {options.comment}" if options.comment else "")
        )
        write(options.comment, texts["comment"])
        write(options.json, texts["json"])
    code = hopeless_files(hopeless)
    if not any(row.measured for row in comparison.rows):
        if options.verb == "compare" and comparison.facts.header.shard.count > 1:
            some = "with a number on both sides; the others may" if comparison.rows else "to measure"
            say(f"this shard has no case {some}")
            return code
        raise NothingMeasured("no case gave a number on both sides", "the table says why, row by row")
    met = conditions_met(comparison, comparison.judged_by.fail_on)
    if options.verb != "compare":
        met = (*met, *_lost(comparison.facts, comparison.judged_by))
    if met and code == EXIT_OK:
        say(f"fail_on: {', '.join(met)}")
        return EXIT_FAIL_ON
    return code


def _lost(facts: Facts, judge: JudgeSettings) -> Sequence[str]:
    """That a stored run is not here, whole: what it lacks may hold what is asked for. Empty where nothing is."""
    if not (facts.partial and judge.fail_on):
        return ()
    if facts.missing:
        return ("a shard is missing",)
    return (f"{'a shard' if facts.header.shard.count > 1 else 'the run'} did not come to its end",)


def read_proofs(path: Path | None) -> list[Proof]:
    """The proofs in a file of ``--proofs``, or in the history of a directory; none without one.

    Raises:
        UsageError: it cannot be read.
        UntrustedInput: it holds anything else.
    """
    from evenbench.reports.load.proofs import LINE_MAX, read

    if path is None:
        return []
    if path.is_dir():  # a history
        from evenbench.reports.history.store import proofs_in

        return proofs_in(path)
    try:
        with path.open("rb") as file:
            return read(iter(lambda: file.readline(LINE_MAX + 1), b""))  # of an endless line no more than shows it
    except OSError as error:
        raise UsageError(
            f"--proofs {path} cannot be read: {error.strerror}", "evenbench report --format proof writes its lines"
        ) from None
    except UntrustedInput as error:
        raise UntrustedInput(f"--proofs {path}: {error.message}", error.hint) from None


def _colour(options: argparse.Namespace) -> bool:
    return colour() and getattr(options, "out", None) is None


def hopeless_files(errors: Sequence[str]) -> int:
    """Name the case files that no side can import; the exit code that they mean."""
    for error in errors:
        say(f"error: a case file that no side can import: {error}")
    return CaseError.exit_code if errors else EXIT_OK
