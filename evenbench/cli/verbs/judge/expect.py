"""The verb expect: what launches amount to, as a change to expectations.yaml."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evenbench.runner.config.expectations import FILE, dump, heading_of, parse
from evenbench.runner.errors import EXIT_OK, ConfigError, NothingMeasured, UsageError
from evenbench.runner.plan.request import check_cases
from evenbench.runner.sides import SideSpec
from evenbench.runner.sides.git import repository_root

from ...steps.arguments import add_measuring_options
from ...steps.console import answer, say
from ...steps.measure import measure
from ...steps.requests import request_of

if TYPE_CHECKING:
    from evenbench.reports.load.results import Results


def expect(options: argparse.Namespace) -> int:
    """Print what expectations.yaml should say, as a diff; with ``--write`` change it."""
    from evenbench.reports.compare.proposals import propose

    check_cases(options.cases)
    path = repository_root(Path.cwd()) / options.cases / FILE
    old = _text(path)
    known = parse(old, str(path)) if old else ()
    found = propose(_runs(options), options.patterns, known, datetime.now(UTC).date())
    for why in found.left_out:
        say(f"left out: {why}")
    if not found.proposed:
        hint = "name runs of several launches, or leave --from out"
        if options.patterns and not found.left_out:
            hint = f"none of the runs measured {' '.join(options.patterns)}"
        raise NothingMeasured("no row gave a figure to expect", hint)
    new = dump(found.expectations, heading_of(old))
    parse(new, "the proposal")  # what is written can be read
    name = f"{options.cases}/{FILE}"
    answer("".join(_diff(old, new, name)))
    if "\n#" in "\n".join(line.strip() for line in old[len(heading_of(old)) :].splitlines()):
        say(f"note: of the comments in {name} only those at its beginning are kept")
    if old == new:
        say(f"{name} says so already")
    elif options.write:
        _write(path, new)
        say(f"written: {name}; look at the change, and commit it")
    else:
        say(f"{name} is as it was; --write changes it")
    return EXIT_OK


def _runs(options: argparse.Namespace) -> Sequence[Results]:
    """The stored runs that were named, else a fresh one."""
    from evenbench.reports.compare.proposals import LEAST_LAUNCHES
    from evenbench.reports.load.results import load_file

    if options.stored:
        return [load_file(path) for path in options.stored]
    if options.rounds < LEAST_LAUNCHES:
        raise UsageError(
            f"--rounds {options.rounds}: at least {LEAST_LAUNCHES} launches are needed, fewer tell nothing of their spread",
            f"--rounds {LEAST_LAUNCHES} or more; left out: {EXPECT_LAUNCHES}",
        )
    spec = SideSpec("head", None, options.head_setup, options.head_python)
    done = measure(request_of("run", options, [spec], options.patterns, {}), None)
    say(f"results: {done.output}")
    return [load_file(done.output)]


def _text(path: Path) -> str:
    if path.exists() and not path.is_file():  # a FIFO would block for ever
        raise ConfigError(f"{path} is no regular file", "put a plain file in its place, or remove it")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None


def _diff(old: str, new: str, name: str) -> list[str]:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def add_expect_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `expect`."""
    add_measuring_options(verb)
    add_stored_options(verb)


EXPECT_LAUNCHES = 10  # of a fresh run of `expect`: so many show a spread


def add_stored_options(verb: argparse.ArgumentParser) -> None:
    """The options of `expect`, beside those of every verb that measures."""
    verb.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'norm/*' or tag:pr")
    verb.add_argument(
        "--from",
        dest="stored",
        nargs="+",
        type=Path,
        default=[],
        metavar="RESULTS",
        help="stored runs of run or compare, instead of a fresh one; patterns go before it",
    )
    verb.add_argument("--write", action="store_true", help="change expectations.yaml, not only print how")
    verb.add_argument("--setup", dest="head_setup", metavar="COMMAND", help="set-up, instead of that of suites.yaml")
    verb.add_argument("--python", dest="head_python", metavar="PATH", help="interpreter, used as it is")
    verb.set_defaults(rounds=EXPECT_LAUNCHES, json=None)
