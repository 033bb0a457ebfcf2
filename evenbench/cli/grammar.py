"""The grammar of the command line: its verbs, what each is for, what each takes and which function does it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evenbench.runner import __version__
from evenbench.runner.errors import UsageError

from .completion import SHELLS, PrintCompletion
from .parser import Parser
from .steps.arguments import VERBOSE_HELP
from .verbs.github import init, plan, publish
from .verbs.history import history
from .verbs.judge import diff, expect, report, watch
from .verbs.machine import ceilings, doctor
from .verbs.measure import compare, list_cases, run

EXIT_CODES = """exit codes: 0 fine · 1 a fail_on condition was met · 2 usage or configuration
error, or a case file that no side can import · 3 machine not fit · 4 nothing
could be measured · 5 input not trusted · 6 GitHub refused · 8 the pull request
moved on · 70 a bug in evenbench · 130 interrupted"""


class Verb(NamedTuple):
    """A verb of the command line.

    Attributes:
        name: the word after ``evenbench``.
        help: what the list of verbs says of it.
        add_arguments: adds its own arguments to its parser.
        action: does it; returns the exit code.
    """

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    action: Callable[[argparse.Namespace], int]


VERBS = (
    Verb(
        "init", "write a case, suites.yaml and the workflow files into a repository", init.add_init_arguments, init.init
    ),
    Verb(
        "compare",
        "measure two sides in turn and print the table; the main job",
        compare.add_compare_arguments,
        compare.compare,
    ),
    Verb("run", "measure one checkout", run.add_run_arguments, run.run),
    Verb(
        "list",
        "the ids of the cases, found in a process of the checkout",
        list_cases.add_list_arguments,
        list_cases.list_cases,
    ),
    Verb(
        "report",
        "results files as a table, a page, a comment, or for other tools",
        report.add_report_arguments,
        watch.report,
    ),
    Verb("diff", "two stored runs against each other, launches unpaired", diff.add_diff_arguments, diff.diff),
    Verb(
        "expect",
        "what launches amount to, as a change to expectations.yaml",
        expect.add_expect_arguments,
        expect.expect,
    ),
    Verb(
        "plan",
        "the shard matrix as JSON, and whether two commits are worth measuring; needs no GPU",
        plan.add_plan_arguments,
        plan.plan,
    ),
    Verb(
        "publish",
        "results to the pull request that an event means, and the job summary",
        publish.add_publish_arguments,
        publish.publish,
    ),
    Verb("resolve", "which pull request an event means, as JSON", publish.add_resolve_arguments, publish.resolve_event),
    Verb(
        "history",
        "main over time: add runs, show cases, detect changes, write pages",
        history.add_history_arguments,
        history.history,
    ),
    Verb(
        "ceilings",
        "what this device was measured to reach, and a picture of it",
        ceilings.add_ceilings_arguments,
        ceilings.ceilings,
    ),
    Verb(
        "doctor",
        "is this machine fit to measure, and how to fix what is not",
        doctor.add_doctor_arguments,
        doctor.examine,
    ),
)


def parser() -> argparse.ArgumentParser:
    """The parser of `evenbench`. `verb` names the verb in what it returns."""
    top = Parser(
        prog="evenbench",
        description="Which GPU kernels became slower or faster, by how much, how sure.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"evenbench {__version__}")
    top.add_argument("-v", "--verbose", action="store_true", help=VERBOSE_HELP)
    top.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="a script by which this shell completes words",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        its = verbs.add_parser(verb.name, help=verb.help)
        verb.add_arguments(its)
        its.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=VERBOSE_HELP)
    return top


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with patterns wherever they stand: also behind options, where argparse leaves them over."""
    top = parser()
    options, left = top.parse_known_args(argv)
    words = "rest" if hasattr(options, "rest") else "patterns"
    if any(word.startswith("-") for word in left) or (left and not hasattr(options, words)):
        raise UsageError(f"unrecognized arguments: {' '.join(left)}", f"{top.prog} {options.verb} --help")
    if left:
        setattr(options, words, [*getattr(options, words), *left])
    return options
