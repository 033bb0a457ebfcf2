"""The verb report: show results files in any format, or explain one case."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from evenbench.runner.errors import EXIT_OK, UsageError

from ...steps.arguments import add_proofs_option
from ...steps.console import width
from ...steps.export import FORMATS, deliver, exported
from ...steps.plot import plot_results
from ...steps.show import _colour, _lost, code_of, judged, judged_by, show


def report(options: argparse.Namespace) -> int:
    """Results files as a table, an explanation, a page, a comment, or what other tools take."""
    from evenbench.reports.compare.report import measured
    from evenbench.reports.load.results import load_runs
    from evenbench.reports.render.comment.comment import run_comment
    from evenbench.reports.render.data.json import as_json
    from evenbench.reports.render.explain.run import explain
    from evenbench.reports.render.terminal.terminal import run_table

    if options.plot is not None:
        plot_results(options.plot, options.results)
    if options.explain is not None:
        return explain_cases(options)
    if options.format == "parquet" and options.out is None and sys.stdout.isatty():
        raise UsageError("--format parquet is no text for a terminal", "name a file: --out rows.parquet")
    results, seconds = load_runs(options.results)
    if options.format == "proof" and results.header.verb == "run":
        raise UsageError("a run of one side proves nothing", "evenbench compare makes runs that do")
    if options.format == "explain":
        deliver(explain(results, width(), colour=_colour(options)), options.out)
        return EXIT_OK
    if results.header.verb == "run":
        judge_by = judged_by(options, results.header)
        table = measured(results, datetime.now(UTC).date(), judge_by)
        texts: dict[str, Callable[[], str | bytes]] = {
            "json": lambda: json.dumps(as_json(table), indent=1) + "\n",
            "comment": lambda: run_comment(table),
            "summary": lambda: run_comment(table),
            "term": lambda: run_table(table, width(), colour=_colour(options)),
        }
        deliver(texts.get(options.format, lambda: exported(options.format, results, table))(), options.out)
        judge = judge_by or results.header.judge
        return code_of(table, judge, lost=_lost(table.facts, judge))
    comparison, _ = judged(results, seconds, judged_by(options, results.header), options)
    return show(comparison, options, options.results, results=results)


def explain_cases(options: argparse.Namespace) -> int:
    """Print why rows have their verdicts; of a run of one side, what lies behind its numbers. Raises UsageError."""
    from evenbench.reports.load.results import load_runs
    from evenbench.reports.render.explain.row import chosen, chosen_rows, why
    from evenbench.reports.render.explain.run import explain

    if options.format not in ("term", "explain"):
        raise UsageError(f"--explain is text, not {options.format}", "leave --format out")
    results, seconds = load_runs(options.results)
    if results.header.verb == "run":
        cases = chosen(results, results.cases.get("head", {}), options.explain)
        deliver(explain(results, width(), colour=_colour(options), cases=cases), options.out)
        return EXIT_OK
    comparison, again = judged(results, seconds, judged_by(options, results.header), options)
    rows = chosen_rows(results, comparison, options.explain)
    texts = [why(results, comparison, rows, width(), colour=_colour(options))]
    keys = {(row.case, row.implementation) for row in rows}
    for second, its in zip(seconds, again, strict=True):
        if same := [row for row in its.rows if (row.case, row.implementation) in keys]:
            texts.append(f"\nThe second run:\n\n{why(second, its, same, width(), colour=_colour(options))}")
    deliver("".join(texts), options.out)
    return EXIT_OK


def add_report_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `report`."""
    verb.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULTS",
        help="results files; shards are merged, second runs held against the first",
    )
    verb.add_argument(
        "--format",
        choices=("term", "html", "comment", "summary", "json", "explain", "proof", *FORMATS[1:]),
        default="term",
        help="html is a page with charts; csv, parquet and customSmallerIsBetter are for other tools",
    )
    verb.add_argument("--out", type=Path, metavar="FILE", help="write to this file, instead of stdout")
    verb.add_argument("--explain", metavar="CASE", help="why it has its verdict: an id, or a pattern such as 'norm/*'")
    verb.add_argument(
        "--plot", type=Path, metavar="FILE", help="also draw the device's roofline with the rows on it; .svg or .png"
    )
    verb.add_argument("--watch", action="store_true", help="of a run under way: show it again and again until it ends")
    verb.add_argument("--config", type=Path, metavar="FILE", help="judge by this suites.yaml")
    add_proofs_option(verb)
    verb.add_argument("--fail-on", metavar="LIST", help="conditions that end in exit code 1")
