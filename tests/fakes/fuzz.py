"""Hostile results files through all that reads, judges and shows them; whatever but `UntrustedInput` comes out is a bug."""

from __future__ import annotations

import gc
import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from random import Random

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import PUBLISH_MAX_BYTES, Results, load_files
from evenbench.reports.render.comment.comment import comment, run_comment, summary
from evenbench.reports.render.comment.markdown import COMMENT_BUDGET, SUMMARY_BUDGET
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.explain.row import why
from evenbench.reports.render.explain.run import explain
from evenbench.reports.render.terminal.terminal import run_table, terminal
from evenbench.reports.rows.outcome import Comparison
from evenbench.runner.errors import UntrustedInput
from tests.fakes import mutations

TODAY = date(2026, 11, 29)
COLLECT_EVERY = 1_000  # loading keeps the collector away from a run's records, of which a process has one otherwise

Shown = Callable[[Results, Comparison], str]
SHOWN: Sequence[Shown] = (
    lambda _, found: comment(found),
    lambda _, found: comment(found),
    lambda _, found: summary(found),
    lambda _, found: terminal(found),
    lambda _, found: json.dumps(as_json(found), allow_nan=False),
    lambda results, found: why(results, found, found.rows, 100),
)


def fuzz(times: int, seed: int, file: Path) -> Counter[str]:
    """So many files, each a whole one with a few changes. Returns how many were refused, and how many shown.

    File `n` of a seed is the same however many there are. Raises AssertionError, with the bytes left in `file`, for
    the first that is neither.
    """
    originals = mutations.originals()
    outcomes: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(times):
            random = Random(f"{seed}/{number}")
            file.write_bytes(mutations.mutated(originals[number % len(originals)], random))
            try:
                outcomes[outcome_of(file, random)] += 1
            except Exception as error:
                error.add_note(f"file {number} of seed {seed}: {file}")
                raise
            if number % COLLECT_EVERY == 0:
                gc.unfreeze()
                gc.collect()
    return outcomes


def outcome_of(file: Path, random: Random) -> str:
    """What becomes of one file: `refused`, `judged`, or `measured` for a run of one side."""
    try:
        results = load_files([file], max_bytes=PUBLISH_MAX_BYTES)
        if results.header.verb == "run":
            report = measured(results)
            text = random.choice((lambda: run_comment(report), lambda: run_table(report), lambda: explain(results)))()
            outcome = "measured"
        else:
            comparison = compare(results, TODAY)
            text = random.choice(SHOWN)(results, comparison)
            outcome = "judged"
    except UntrustedInput as error:
        outcome, text = "refused", str(error)
    if outcome == "refused":
        assert text.isprintable(), f"an error that a terminal would obey: {text!r}"
    if text.startswith("<!--"):
        assert len(text) <= COMMENT_BUDGET
    assert len(text.encode()) <= SUMMARY_BUDGET
    return outcome
