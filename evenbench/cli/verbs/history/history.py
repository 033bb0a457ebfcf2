"""The verb history: main over time, from results files to a directory, tables, change points, pages and an issue."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evenbench.runner.errors import EXIT_OK, UntrustedInput, UsageError
from evenbench.runner.sides.git import git, has_git, repository_root

from ...steps.arguments import VERBOSE_HELP
from ...steps.console import answer, say, width, write
from ..github.publish import SERVER, conversation

if TYPE_CHECKING:
    from evenbench.reports.history.changes import Change
    from evenbench.reports.load.proofs import Proof
    from evenbench.reports.load.results import Results
    from evenbench.runner.records import SideName

REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100}")  # as GitHub allows them
FOUND_MAX = 64 << 20  # bytes of what detect wrote: a hundred thousand change points
CASES_SHOWN = 10  # of those that a part of an id may mean


def add_history_arguments(verb: argparse.ArgumentParser) -> None:
    """The verbs below `history`; `history` names the verb in what is parsed."""
    verbs = verb.add_subparsers(dest="history", metavar="VERB", required=True)
    grammars: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None]], ...] = (
        ("add", "put a run into the history", _add_arguments),
        ("show", "a case over time, or all cases at a glance", _show_arguments),
        ("detect", "where cases changed, and between which commits", _detect_arguments),
        ("site", "write static pages", _site_arguments),
        ("alert", "open an issue about what detect found", _alert_arguments),
    )
    for name, meaning, grammar in grammars:
        below = verbs.add_parser(name, help=meaning)
        grammar(below)
        below.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=VERBOSE_HELP)


def _where_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dir", dest="folder", type=Path, required=True, metavar="DIR", help="where the history is")


def _add_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="results files of one run: its shards")
    _where_arguments(verb)
    verb.add_argument(
        "--side",
        choices=("base", "head", "control"),
        help="which side of a comparison is main; of one commit against itself: base, if not told",
    )
    verb.add_argument(
        "--repo",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="checkout of main with its whole history, which knows the order of commits; default: the current folder",
    )


def _show_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("case", nargs="?", metavar="CASE", help="an id, or a part of one that no other has; default: all")
    _where_arguments(verb)
    verb.add_argument("--json", action="store_true", help="as JSON")


def _detect_arguments(verb: argparse.ArgumentParser) -> None:
    _where_arguments(verb)
    verb.add_argument("--smallest", type=float, metavar="FRACTION", help="change that counts; default: 0.01")
    verb.add_argument("--since", metavar="TIME", help="only where the new level began then or later")
    verb.add_argument("--new", action="store_true", help="only changes not reported yet by --record")
    verb.add_argument(
        "--record", action="store_true", help="only changes not reported yet, like --new, and remember them as reported"
    )
    verb.add_argument("--json", action="store_true", help="as JSON")


def _site_arguments(verb: argparse.ArgumentParser) -> None:
    _where_arguments(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the pages, which is made")
    verb.add_argument(
        "--repository", metavar="OWNER/NAME", help="to which commits are linked; default: GITHUB_REPOSITORY"
    )


def _alert_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("found", type=Path, metavar="FILE", help="what detect --json printed")
    verb.add_argument("--repository", metavar="OWNER/NAME", help="whose issue it is; default: GITHUB_REPOSITORY")
    verb.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")


def history(options: argparse.Namespace) -> int:
    """Dispatch the verbs below."""
    return VERBS[options.history](options)


def add(options: argparse.Namespace) -> int:
    """Put one side of a run into the history, and its proof, where it has one."""
    from evenbench.reports.history.rows import rows_of
    from evenbench.reports.history.store import add as add_run
    from evenbench.reports.history.store import add_positions, add_proof
    from evenbench.reports.load.results import load_files

    results = load_files(options.results)
    kind, proof = _proof(results)
    side = options.side or _side(kind)
    sha = next((info.sha for info in results.header.sides if info.name == side), "")
    line = _line(sha, options.repo) if sha else {}
    kept = [add_run(options.folder, rows_of(results, side, line.get(sha)))] if side else []
    kept += [add_proof(options.folder, proof)] if proof is not None else []
    for path, new in kept:
        print(f"{'added' if new else 'there already, left as it is'}: {path}")
    if line:
        try:
            add_positions(options.folder, line, datetime.now(UTC))
        except UntrustedInput as error:  # of another file: this run was added
            say(f"the order of older commits is not known: {error}")
    return EXIT_OK


def _line(sha: str, folder: Path) -> dict[str, int]:
    """The positions of commits on the branches of a commit and of main; none where this is not their whole repository."""
    repository = repository_root(folder)
    if not has_git(repository):
        return {}
    try:
        shallow = git("rev-parse", "--is-shallow-repository", cwd=repository).output.strip() == b"true"
    except UsageError as error:
        say(f"the order of commits is not known: {error}")
        return {}
    if shallow:
        say(f"the order of commits is not known: {repository} is a shallow clone; fetch all of its history")
        return {}
    positions: dict[str, int] = {}
    for tip in (sha, "refs/remotes/origin/HEAD", "HEAD"):
        listed = git("rev-list", "--first-parent", "--reverse", tip, "--", cwd=repository, check=False)
        if listed.status == 0 and not listed.truncated:
            for position, commit in enumerate(listed.output.decode("ascii").split(), start=1):
                positions.setdefault(commit, position)
    if sha not in positions:
        say(f"the order of commits is not known: {sha[:12]} is not a commit of {repository}")
    return positions


def _proof(results: Results) -> tuple[str, Proof | None]:
    """The kind of a run, and its proof; none of an ordinary one."""
    from evenbench.reports.compare.compare import compare
    from evenbench.reports.compare.known_truth import kind_of, proof_of

    if results.header.verb == "run":
        return "run", None
    comparison = compare(results, date.min)  # nothing is muted: a proof counts all rows
    kind = kind_of(comparison)
    if results.header.confirms or kind == "ordinary":
        return "ordinary", None
    return kind, proof_of(comparison)


def _side(kind: str) -> SideName | None:
    """Which side is meant where nobody said it; None for a planted run, of which the proof is kept alone."""
    if kind in ("ordinary", "control"):
        raise UsageError("which side of the comparison is main?", "--side base, or --side head")
    if kind == "planted":
        return None
    return "head" if kind == "run" else "base"


def show(options: argparse.Namespace) -> int:
    """A case over time, or all cases at a glance."""
    from evenbench.reports.history import text as history_text
    from evenbench.reports.history.changes import detect
    from evenbench.reports.history.series import overview, rows_like, series_of
    from evenbench.reports.history.store import opened

    with opened(options.folder) as duck:
        if options.case is None:
            glances = overview(duck)
            print(
                _json(history_text.glances_json(glances)) if options.json else history_text.glances(glances, width()),
                end="",
            )
            return EXIT_OK
        cases = rows_like(duck, options.case)
        if len(cases) != 1:
            some = ", ".join(cases[:CASES_SHOWN]) + (", …" if len(cases) > CASES_SHOWN else "")
            raise UsageError(
                f"{options.case!r} is {'no case' if not cases else f'in the ids of {len(cases)} cases'} of the history",
                f"name one of {some}" if cases else "evenbench history show without a case names all",
            )
        series = series_of(duck, cases[0])
    if not series:
        raise UsageError(f"{cases[0]} never gave a number")
    found = detect(series)
    text = history_text.show(cases[0], series, found, width())
    answer(_json(history_text.show_json(cases[0], series, found)) if options.json else text)
    return EXIT_OK


def detect(options: argparse.Namespace) -> int:
    """Change points of all cases; with --record keep those that are new."""
    from evenbench.reports.history import text as history_text
    from evenbench.reports.history.change_points import SMALLEST
    from evenbench.reports.history.changes import detect as detect_in
    from evenbench.reports.history.changes import dump, new_ones, read_changes, since
    from evenbench.reports.history.series import all_series
    from evenbench.reports.history.store import add_found, found_lines, opened

    smallest = SMALLEST if options.smallest is None else options.smallest
    if not 0 < smallest < 1:
        raise UsageError(f"--smallest {smallest:g}: must be above 0 and below 1", "0.01 is one per cent")
    with opened(options.folder) as duck:
        series = all_series(duck)
    found = detect_in(series, smallest)
    changes = list(found.changes)
    if options.new or options.record:
        changes = new_ones(changes, read_changes(found_lines(options.folder)), series)
    if options.since:
        changes = since(changes, options.since)
    text = history_text.detected(changes, found)
    answer(_json(history_text.detected_json(changes, found)) if options.json else text)
    if options.record:
        add_found(options.folder, [dump(change) for change in changes], datetime.now(UTC))
    return EXIT_OK


def site(options: argparse.Namespace) -> int:
    """Write the pages."""
    from evenbench.reports.history.changes import detect as detect_in
    from evenbench.reports.history.series import all_series, overview
    from evenbench.reports.history.site import Site, pages
    from evenbench.reports.history.store import opened, proofs_in

    with opened(options.folder) as duck:
        glances, series = overview(duck), all_series(duck)
    name = _repository(options, needed=False)
    url = f"{os.environ.get('GITHUB_SERVER_URL') or SERVER}/{name}" if name else ""
    number = 0
    for place, text in pages(Site(glances, series, detect_in(series), proofs_in(options.folder), url)):
        path = options.out / place
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent} cannot be made: {error.strerror}") from None
        write(path, partial(str, text))
        number += 1
    say(f"{number:,} pages: {options.out / 'index.html'}")
    return EXIT_OK


def alert(options: argparse.Namespace) -> int:
    """Open an issue about change points; one that is open already is left as it is."""
    from evenbench.reports.history.text import issue

    changes, suspicions = _told(options.found)
    if not changes:
        print("no change points, no issue")
        return EXIT_OK
    repository = _repository(options, needed=True)
    title, body, mark = issue(changes, suspicions, f"{os.environ.get('GITHUB_SERVER_URL') or SERVER}/{repository}")
    path = f"/repos/{repository}/issues"
    with conversation(dry_run=options.dry_run) as github:

        def find() -> object:
            return next((each for each in github.pages(path, state="all") if mark in (each.get("body") or "")), None)

        made = github.create(path, {"title": title, "body": body}, find)
    print(f"issue: {made.get('html_url', '')}" if isinstance(made, dict) else f"no issue: {title}")
    return EXIT_OK


def _told(path: Path) -> tuple[list[Change], list[str]]:
    """The change points that detect printed, and what makes each suspicious. Raises UsageError, UntrustedInput."""
    from evenbench.reports.history.changes import read_detected

    try:
        with path.open("rb") as file:
            data = file.read(FOUND_MAX + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "evenbench history detect --json prints it"
        ) from None
    if len(data) > FOUND_MAX:
        raise UntrustedInput(f"{path}: longer than {FOUND_MAX:,} bytes")
    try:
        return read_detected(data)
    except UntrustedInput as error:
        raise UntrustedInput(f"{path}: {error.message}", error.hint) from None


def _repository(options: argparse.Namespace, *, needed: bool) -> str:
    name = options.repository or os.environ.get("GITHUB_REPOSITORY", "")
    if (name or needed) and not REPOSITORY.fullmatch(name):
        raise UsageError(f"--repository {name!r} is not OWNER/NAME", "GitHub's runners name it in GITHUB_REPOSITORY")
    return str(name)


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=1) + "\n"


VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "add": add,
    "show": show,
    "detect": detect,
    "site": site,
    "alert": alert,
}
