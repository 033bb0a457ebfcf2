"""The verb run: one checkout's times, what its cases generate, and whether it meets what is expected of it."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from evenbench.runner.errors import NothingMeasured
from evenbench.runner.sides import SideSpec

from ...steps.arguments import add_dump_option, add_measuring_options
from ...steps.console import answer, colour, say, width, write
from ...steps.measure import measure
from ...steps.requests import fail_on_of, request_of
from ...steps.show import code_of, hopeless_files
from ...steps.texts import keep_texts, refuse_dump, refuse_measuring, refuse_update

OF_TEXTS = ("artifact", "failed")  # what fails where nothing but the texts is asked for, unless --fail-on says more


def run(options: argparse.Namespace) -> int:
    """Measure one checkout, print its times, and on demand what lies behind them."""
    from evenbench.reports.compare.report import measured
    from evenbench.reports.load.results import load_files
    from evenbench.reports.render.data.json import as_json
    from evenbench.reports.render.explain.run import explain
    from evenbench.reports.render.terminal.terminal import run_table

    refuse_update(options.update_artifacts)
    refuse_dump(options.dump_sources)
    refuse_measuring(options)
    fail_on = fail_on_of(options.fail_on)
    if fail_on is None and options.artifacts_only:
        fail_on = OF_TEXTS
    spec = SideSpec("head", options.target, options.head_setup, options.head_python)
    done = measure(request_of("run", options, [spec], options.patterns, {"fail_on": fail_on}))
    results = load_files([done.output])
    report = measured(results, datetime.now(UTC).date())
    answer(run_table(report, width(), colour=colour()))
    if options.explain:
        answer(f"\n{explain(results, width(), colour=colour())}")
    say(f"results: {done.output}")
    write(options.json, lambda: json.dumps(as_json(report), indent=1) + "\n")
    saved = keep_texts(options, done.outcome.texts)
    if options.artifacts_only and not report.artifacts:
        raise NothingMeasured("no case gave a text", "a case gives some with Bench(artifacts={name: text})")
    if not options.artifacts_only and not done.outcome.measured:
        raise NothingMeasured("no case gave a number")
    ignored = ("artifact",) if saved else ()
    return hopeless_files(done.outcome.hopeless) or code_of(report, results.header.judge, ignored)


def add_run_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `run`."""
    verb.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'norm/*' or tag:pr")
    verb.add_argument("--in", dest="target", metavar="DIR", help="a directory or ref, instead of the working tree")
    add_measuring_options(verb)
    verb.add_argument("--setup", dest="head_setup", metavar="COMMAND", help="set-up, instead of that of suites.yaml")
    verb.add_argument("--python", dest="head_python", metavar="PATH", help="interpreter, used as it is")
    verb.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    add_expectation_options(verb)
    verb.add_argument(
        "--explain", action="store_true", help="also say what lies behind each number: kernels, gaps, samples, clocks"
    )


def add_expectation_options(verb: argparse.ArgumentParser) -> None:
    """The options of `run` alone."""
    add_dump_option(verb)
    verb.add_argument(
        "--artifacts-only",
        action="store_true",
        help="only hold generated texts against their saved copies: needs no GPU",
    )
    verb.add_argument(
        "--update-artifacts",
        action="store_true",
        help="write the saved copies of generated texts anew, and remove stale ones; not in CI",
    )
    verb.add_argument(
        "--plant",
        metavar="PATTERN[=FRACTION]",
        help="slow one case on purpose, by 0.05 if not told; does it miss its expectation?",
    )
    verb.add_argument(
        "--fail-on", metavar="LIST", help="conditions that end in exit code 1: expectation, artifact, failed; or never"
    )
