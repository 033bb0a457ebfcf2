"""The verbs that speak with GitHub: publish a result, resolve an event. Nothing of a pull request runs here."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenbench.runner.config import Config, resolve
from evenbench.runner.errors import EXIT_OK, PullRequestMoved, UntrustedInput, UsageError
from evenbench.runner.plan.request import judge_settings, load_given
from evenbench.runner.records import Header, JudgeSettings

from ...steps.arguments import add_proofs_option
from ...steps.console import say
from ...steps.show import read_proofs

if TYPE_CHECKING:
    from evenbench.reports.publish.client import GitHub
    from evenbench.reports.publish.events import Event, WorkflowRun
    from evenbench.reports.publish.outcome import Outcome
    from evenbench.reports.publish.pull_request import Resolution
    from evenbench.reports.render.comment.comment import Links
    from evenbench.reports.rows.outcome import Comparison

API = "https://api.github.com"
SERVER = "https://github.com"
DOCS = "https://github.com/evenbench/evenbench/blob/main/docs/reading.md"
FILES_MAX = 1_000  # of one run: its shards
SUFFIX = ".jsonl"


def resolve_event(options: argparse.Namespace) -> int:
    """Which pull request an event means, as one line of JSON. Raises where nothing may be published to it."""
    from evenbench.reports.publish.pull_request import WORKFLOW
    from evenbench.reports.publish.pull_request import resolve as resolve_pull

    event = _event(options)
    with conversation(dry_run=False) as github:
        found = resolve_pull(github, event, options.workflow or (WORKFLOW,))
    answer = {
        "event": event.kind,
        "number": found.number,
        "head": found.head_sha,
        "base": found.base_sha,
        "reason": found.reason,
        "why": found.why,
    }
    print(json.dumps(answer))
    found.or_error()
    return EXIT_OK


def publish(options: argparse.Namespace) -> int:
    """Results, or the state of a run without any, to the pull request that the event means, and to the job summary."""
    from evenbench.reports.publish.pull_request import WORKFLOW
    from evenbench.reports.publish.pull_request import resolve as resolve_pull

    event = _event(options)
    with conversation(dry_run=options.dry_run) as github:
        found = resolve_pull(github, event, options.workflow or (WORKFLOW,))
        if found.reason == "wrong-workflow":
            found.or_error()
        head_sha = options.head_sha or found.head_sha
        suite, outcome, distrust = _outcome(options, event, head_sha)
        links = _links(options, event)
        if not options.dry_run:
            _write_summary(outcome, links, head_sha)
        try:
            found.or_error()
            _publish_to(github, options, event, replace(found, head_sha=head_sha), suite, outcome, links)
        except PullRequestMoved as moved:  # nothing went wrong, and a red run would be shown on the default branch
            say(f"no comment: {moved}")
    if distrust is not None:
        raise distrust
    return EXIT_OK


def _publish_to(
    github: GitHub,
    options: argparse.Namespace,
    event: Event,
    found: Resolution,
    suite: str,
    outcome: Outcome,
    links: Links,
) -> None:
    """Write where this event may write, and say what was done."""
    from evenbench.reports.publish.publish import PublishTarget
    from evenbench.reports.publish.publish import publish as publish_outcome

    may_write = event.kind in ("workflow_run", "workflow_dispatch")  # what a pull request itself starts never may
    wanted = found.number is not None or event.trigger == "merge_group" or found.reason == "ambiguous"
    if not may_write or not wanted:
        print(f"no comment: {found.why or 'a job that a pull request starts may not write'}")
        return
    target = PublishTarget(
        repository=event.repository,
        number=found.number,
        head_sha=found.head_sha,
        suite=suite,
        run=event.run,
        workflow=options.manual_workflow,
        ambiguous=found.reason == "ambiguous",
    )
    for line in publish_outcome(github, target, outcome, links):
        print(line)
    if found.reason == "ambiguous":
        print(f"no comment: {found.why}")


def _outcome(options: argparse.Namespace, event: Event, head_sha: str) -> tuple[str, Outcome, UntrustedInput | None]:
    """The suite, what is to be said, and the error where the results are not what they say.

    Suite and thresholds come from the command line, the event and --config: the file could name those that suit it.
    """
    from evenbench.reports.publish.events import state_of
    from evenbench.reports.publish.outcome import Outcome

    named = options.suite or event.suite
    config = load_given(options.config) if options.config else Config.default()
    settings = resolve(config, (named or None) if options.config else None)
    suite = settings.suite if options.config else named or settings.suite
    strict = bool(settings.fail_on)
    state, reason = (options.state, options.reason) if options.state else state_of(event)
    try:
        files = _files(options.results)
        if files and state not in ("queued", "running"):
            expected = _Expected(head_sha, suite if options.config or named else "")
            judge_by = judge_settings(config, settings)
            return suite, Outcome.of(_judged(files, expected, judge_by, options)), None
    except UntrustedInput as error:
        return suite, Outcome("failed", f"The results are not to be trusted: {error.message}", strict=strict), error
    if state == "done":
        state, reason = "failed", "The run left no results."
    return suite, Outcome(state, reason, strict=strict), None


@dataclass(frozen=True)
class _Expected:
    """What results must be of; empty where nothing says it."""

    head_sha: str
    suite: str

    def refuse_other(self, header: Header) -> None:
        """Raises UntrustedInput for results of something else."""
        if header.verb != "compare":
            raise UntrustedInput("the results are of one side, not of a comparison")
        head = next((side.sha for side in header.sides if side.name == "head"), "")
        if self.head_sha and head != self.head_sha:
            raise UntrustedInput(f"the results are of head {head[:12] or 'unknown'}, not of {self.head_sha[:12]}")
        if self.suite and header.suite != self.suite:
            raise UntrustedInput(
                f"the results are of the suite {header.suite}, not of {self.suite}", "name it by --suite"
            )


def _judged(
    files: Sequence[Path], expected: _Expected, judge_by: JudgeSettings, options: argparse.Namespace
) -> Comparison:
    """The comparison in hostile files. Raises UntrustedInput."""
    from evenbench.reports.compare.compare import compare
    from evenbench.reports.compare.confirm import confirmed
    from evenbench.reports.load.results import PUBLISH_MAX_BYTES, load_runs

    try:
        first, seconds = load_runs(files, max_bytes=PUBLISH_MAX_BYTES)
    except UsageError as error:  # the files are there: whatever does not fit is in them
        raise UntrustedInput(error.message) from None
    for header in chain.from_iterable(run.headers for run in (first, *seconds)):
        expected.refuse_other(header)
    today = datetime.now(UTC).date()
    comparison = compare(first, today, judge_by=judge_by, proofs=read_proofs(options.proofs))
    return confirmed(comparison, [compare(second, today, judge_by=judge_by) for second in seconds])


def _files(paths: Sequence[Path]) -> list[Path]:
    """The results files among `paths`, and those in folders among them. A folder that is not there holds none.

    Raises:
        UsageError: a file that is not there.
        UntrustedInput: there are more than a run can have.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            within = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
            files += sorted(file for file in within if file.suffix == SUFFIX)
        elif path.exists() or path.is_symlink():
            files.append(path)
        elif path.suffix == SUFFIX:
            raise UsageError(f"{path}: no such file", "name results files, or the folder that they are in")
    if len(files) > FILES_MAX:
        raise UntrustedInput(f"more than {FILES_MAX:,} results files")
    return files


def _event(options: argparse.Namespace) -> Event:
    """The event in the file of ``--event``. Raises UsageError."""
    from evenbench.reports.publish.events import read_event

    named = options.event or os.environ.get("GITHUB_EVENT_PATH")
    if not named:
        raise UsageError("no event is named", "--event FILE; GitHub's runners name it in GITHUB_EVENT_PATH")
    path = Path(named)
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"--event {path} cannot be read: {error.strerror}", "GitHub's runners name it in GITHUB_EVENT_PATH"
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(f"--event {path} is not JSON") from None
    return read_event(data, os.environ.get("GITHUB_REPOSITORY", ""), _own_run())


def _own_run() -> WorkflowRun:
    """The run of a workflow that this is a part of; of none, zeros."""
    from evenbench.reports.publish.events import WorkflowRun

    id, attempt, number = (int(_env(f"GITHUB_RUN_{name}", "0")) for name in ("ID", "ATTEMPT", "NUMBER"))
    page = f"{_env('GITHUB_SERVER_URL', SERVER)}/{_env('GITHUB_REPOSITORY', '')}/actions/runs/{id}" if id else ""
    return WorkflowRun(id, attempt, number, page, int(time.time()))


def _env(name: str, default: str) -> str:
    return os.environ.get(name) or default


@contextmanager
def conversation(*, dry_run: bool) -> Iterator[GitHub]:
    """A conversation with GitHub that tells the writes of a rehearsal. Raises UsageError without a token."""
    import requests

    from evenbench.reports.publish.client import GitHub

    token = os.environ.get("GITHUB_TOKEN", "")
    if not token:
        raise UsageError("GITHUB_TOKEN is not set", "a step gets it by env: GITHUB_TOKEN: ${{ github.token }}")
    with requests.Session() as session:
        rehearse = _rehearse if dry_run else None
        yield GitHub(session, _env("GITHUB_API_URL", API), token, clock=time.time, sleep=time.sleep, rehearse=rehearse)


def _rehearse(method: str, path: str, body: Mapping[str, Any]) -> None:
    """Say what would be written."""
    text = body["body"] if set(body) == {"body"} else json.dumps(body, indent=1, ensure_ascii=False) if body else ""
    print(f"would {method} {path}" + (f"\n{text.rstrip()}\n" if text else ""))


def _links(options: argparse.Namespace, event: Event) -> Links:
    """Where the run and its files are, and where to measure again."""
    from evenbench.reports.render.comment.comment import Links

    run = options.run_url or event.run.url
    dispatch = f"{_env('GITHUB_SERVER_URL', SERVER)}/{event.repository}/actions/workflows/{options.manual_workflow}"
    samples = f"{run}#artifacts" if run else ""
    return Links(run=run, report=run, samples=samples, rerun=run, dispatch=dispatch, docs=DOCS)


def _write_summary(outcome: Outcome, links: Links, head_sha: str) -> None:
    """Add to the job summary, where there is one, as much as GitHub takes. Raises UsageError."""
    from evenbench.reports.publish.outcome import summary_of
    from evenbench.reports.render.comment.markdown import SUMMARY_BUDGET

    where = os.environ.get("GITHUB_STEP_SUMMARY")
    if not where:
        return
    path = Path(where)
    text = summary_of(outcome, links, head_sha).encode()
    try:
        if len(text) + (path.stat().st_size if path.exists() else 0) > SUMMARY_BUDGET:
            say("the job summary has no room left")  # GitHub would drop all of it
            return
        with path.open("ab") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def add_publish_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `publish`."""
    verb.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS", help="results files, or folders of them; none: only a state"
    )
    add_resolve_arguments(verb)
    verb.add_argument(
        "--config", type=Path, metavar="FILE", help="judge by this suites.yaml: that of the default branch"
    )
    verb.add_argument("--suite", metavar="NAME", help="that was measured; default: the one that --config means")
    verb.add_argument(
        "--state",
        choices=("queued", "running", "done", "nothing", "failed", "superseded"),
        help="instead of the event's",
    )
    verb.add_argument("--reason", default="", metavar="TEXT", help="with --state: why there is no table")
    verb.add_argument("--head-sha", type=_commit, metavar="SHA", help="the head that was pinned and measured")
    verb.add_argument("--run-url", default="", metavar="URL", help="page of the run; default: as the event has it")
    verb.add_argument(
        "--manual-workflow", default="manual.yml", metavar="FILE", help="by which a maintainer measures again"
    )
    add_proofs_option(verb)
    verb.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")


def add_resolve_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `resolve`."""
    verb.add_argument("--event", type=Path, metavar="FILE", help="the event's payload; default: GITHUB_EVENT_PATH")
    verb.add_argument(
        "--workflow",
        action="append",
        metavar="FILE",
        help="workflow whose runs are published, may be repeated; default: .github/workflows/benchmark.yml",
    )


def _commit(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a full commit id")
    return text
