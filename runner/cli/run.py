"""The verb run: one checkout's times, what its cases generate, and whether it meets what is expected of it."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

from ..errors import NothingMeasured
from ..sides import SideSpec
from .console import answer, colour, say, width, write
from .judge import code_of, hopeless_files
from .measure import measure
from .requests import fail_on_of, request_of
from .texts import keep_texts, refuse_dump, refuse_measuring, refuse_update

OF_TEXTS = ("artifact", "failed")  # what fails where nothing but the texts is asked for, unless --fail-on says more


def run(asked: argparse.Namespace) -> int:
    """Measure one checkout, print its times, and on demand what lies behind them."""
    from reports.explain import explain
    from reports.load import load_files
    from reports.measured import measured
    from reports.render_json import as_json
    from reports.render_terminal import run_table

    refuse_update(asked.update_artifacts)
    refuse_dump(asked.dump_sources)
    refuse_measuring(asked)
    fail_on = fail_on_of(asked.fail_on)
    if fail_on is None and asked.artifacts_only:
        fail_on = OF_TEXTS
    spec = SideSpec("head", asked.target, asked.head_setup, asked.head_python)
    done = measure(request_of("run", asked, [spec], asked.patterns, {"fail_on": fail_on}))
    results = load_files([done.output])
    report = measured(results, datetime.now(UTC).date())
    answer(run_table(report, width(), colour=colour()))
    if asked.explain:
        answer(f"\n{explain(results, width(), colour=colour())}")
    say(f"results: {done.output}")
    write(asked.json, lambda: json.dumps(as_json(report), indent=1) + "\n")
    saved = keep_texts(asked, done.outcome.texts)
    if asked.artifacts_only and not report.artifacts:
        raise NothingMeasured("no case gave a text", "a case gives some with Bench(artifacts={name: text})")
    if not asked.artifacts_only and not done.outcome.measured:
        raise NothingMeasured("no case gave a number")
    ignored = ("artifact",) if saved else ()
    return hopeless_files(done.outcome.hopeless) or code_of(report, results.header.judge, ignored)
