"""The command line's grammar: verbs, arguments, and what each is for. Nothing is done here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from .. import __version__
from ..case import CACHES, TIMERS
from ..errors import UsageError
from ..host_settings import LauncherName
from . import ceilings_arguments, expect_arguments, history_arguments, machine_arguments
from .completion import SHELLS, PrintCompletion
from .export import FORMATS
from .parser import Parser

VERBOSE_HELP = "a traceback with every error"
EXIT_CODES = """exit codes: 0 fine · 1 a fail_on condition was met · 2 usage or configuration
error, or a case file that no side can import · 3 machine not fit · 4 nothing
could be measured · 5 input not trusted · 6 GitHub refused · 8 the pull request
moved on · 70 a bug in evenbench · 130 interrupted"""


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
    _init(verbs.add_parser("init", help="write a case, suites.yaml and the workflow files into a repository"))
    _compare(verbs.add_parser("compare", help="measure two sides in turn and print the table; the main job"))
    _run(verbs.add_parser("run", help="measure one checkout"))
    _list(verbs.add_parser("list", help="the ids of the cases, found in a process of the checkout"))
    _report(verbs.add_parser("report", help="results files as a table, a page, a comment, or for other tools"))
    _diff(verbs.add_parser("diff", help="two stored runs against each other, launches unpaired"))
    _expect(verbs.add_parser("expect", help="what launches amount to, as a change to expectations.yaml"))
    _plan(
        verbs.add_parser(
            "plan", help="the shard matrix as JSON, and whether two commits are worth measuring; needs no GPU"
        )
    )
    _publish(verbs.add_parser("publish", help="results to the pull request that an event means, and the job summary"))
    _resolve(verbs.add_parser("resolve", help="which pull request an event means, as JSON"))
    history_arguments.add_to(
        verbs.add_parser("history", help="main over time: add runs, show cases, detect changes, write pages"),
        VERBOSE_HELP,
    )
    ceilings_arguments.add_to_ceilings(
        verbs.add_parser("ceilings", help="what this device was measured to reach, and a picture of it")
    )
    _doctor(verbs.add_parser("doctor", help="is this machine fit to measure, and how to mend what is not"))
    for verb in verbs.choices.values():
        verb.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=VERBOSE_HELP)
    return top


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with patterns wherever they stand: also behind options, where argparse leaves them over."""
    top = parser()
    asked, left = top.parse_known_args(argv)
    words = "rest" if hasattr(asked, "rest") else "patterns"
    if any(word.startswith("-") for word in left) or (left and not hasattr(asked, words)):
        raise UsageError(f"unrecognized arguments: {' '.join(left)}", f"{top.prog} {asked.verb} --help")
    if left:
        setattr(asked, words, [*getattr(asked, words), *left])
    return asked


def _init(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--dir", dest="target", type=Path, default=Path(), metavar="DIR", help="the repository, instead of this one"
    )
    verb.add_argument(
        "--cases", default="cases", metavar="DIR", help="cases directory, relative to the repository; default: cases"
    )
    verb.add_argument("--force", action="store_true", help="write files that exist already anew")
    verb.add_argument(
        "--uses",
        metavar="OWNER/REPOSITORY@COMMIT",
        help="whose workflows are called; default: where this one comes from",
    )


def _compare(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("base", metavar="BASE", help="a git ref or a directory")
    verb.add_argument(
        "rest",
        nargs="*",
        metavar="[HEAD] [PATTERN …]",
        help="a git ref or a directory, left out: the working tree; then patterns such as 'norm/*' or tag:pr",
    )
    _measuring(verb)
    for side in ("base", "head"):
        verb.add_argument(
            f"--{side}-setup", metavar="COMMAND", help=f"set-up of {side}, instead of that of suites.yaml"
        )
        verb.add_argument(f"--{side}-python", metavar="PATH", help=f"interpreter of {side}, used as it is")
        verb.add_argument(f"--{side}-sha", metavar="SHA", help=f"the commit that the directory of {side} holds")
    verb.add_argument(
        "--max-rounds",
        type=int,
        metavar="N",
        help="go on with rows that are still open; default: that of the suite, or --rounds",
    )
    verb.add_argument(
        "--budget-s", type=float, metavar="S", help="seconds within which rows that are still open may go on"
    )
    verb.add_argument(
        "--control",
        action="store_true",
        help="measure base once more, made ready apart: what is called changed there is a false alarm",
    )
    verb.add_argument("--min-effect", type=float, metavar="FRACTION", help="smallest change that is called one")
    verb.add_argument(
        "--cases-from", choices=("own", "head"), default="own", help="whose cases run; default: each its own"
    )
    machine_arguments.add_shard_to(verb)
    expect_arguments.add_dump_to(verb)
    verb.add_argument(
        "--plant",
        metavar="PATTERN[=FRACTION]",
        help="slow one case of head on purpose, by 0.05 if not told; was it found?",
    )
    _proofs(verb)
    verb.add_argument(
        "--confirm", action="store_true", help="measure what regressed in a second, independent run, and show both"
    )
    verb.add_argument("--comment", type=Path, metavar="FILE", help="also write the Markdown comment")
    verb.add_argument("--json", type=Path, metavar="FILE", help="also write the comparison as JSON")
    verb.add_argument(
        "--fail-on", metavar="LIST", help="conditions that end in exit code 1: regressed, failed, …, never"
    )


def _run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'norm/*' or tag:pr")
    verb.add_argument("--in", dest="target", metavar="DIR", help="a directory or ref, instead of the working tree")
    _measuring(verb)
    verb.add_argument("--setup", dest="head_setup", metavar="COMMAND", help="set-up, instead of that of suites.yaml")
    verb.add_argument("--python", dest="head_python", metavar="PATH", help="interpreter, used as it is")
    verb.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    expect_arguments.add_to_run(verb)
    verb.add_argument(
        "--explain", action="store_true", help="also say what lies behind each number: kernels, gaps, samples, clocks"
    )


def _expect(verb: argparse.ArgumentParser) -> None:
    _measuring(verb)
    expect_arguments.add_to_expect(verb)


def _measuring(verb: argparse.ArgumentParser) -> None:
    _where(verb)
    verb.add_argument("--suite", metavar="NAME", help="suite of suites.yaml; default: pr, or the only one")
    verb.add_argument("--output", type=Path, metavar="FILE", help="results file; default: a new one in .evenbench/")
    verb.add_argument("--resume", action="store_true", help="go on with the interrupted run in --output")
    verb.add_argument("--rounds", type=int, metavar="N", help="launches of each side")
    verb.add_argument("--seed", type=int, metavar="N", help="all that is drawn follows from it")
    machine_arguments.add_to(verb)
    ceilings_arguments.add_to_run(verb)
    verb.add_argument("--timer", choices=TIMERS, help="instead of the one that fits the device")
    verb.add_argument("--cache", choices=CACHES, help="state of the cache before each iteration")
    verb.add_argument("--measure-ms", type=float, metavar="MS", help="budget of a case's samples")
    verb.add_argument("--warmup-ms", type=float, metavar="MS", help="budget of a case's warm-up")
    verb.add_argument("--timeout-s", type=float, metavar="S", help="longest time of a case in one launch")
    verb.add_argument(
        "--allow-fallback", action="store_true", default=None, help="CUDA events where CUPTI fails, labelled"
    )


def _where(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--cases", default="cases", metavar="DIR", help="cases directory, relative to a side; default: cases"
    )
    verb.add_argument(
        "--config", type=Path, metavar="FILE", help="instead of the suites.yaml of the side, of base first"
    )
    verb.add_argument(
        "--launcher", choices=get_args(LauncherName), help="processes, or containers; default: as this machine demands"
    )


def _list(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'norm/*' or tag:pr")
    verb.add_argument("--in", dest="target", metavar="DIR", help="a directory or ref, instead of the working tree")
    verb.add_argument("--suite", metavar="NAME", help="only the cases of this suite")
    verb.add_argument("--json", action="store_true", help="as JSON")
    _where(verb)


def _report(verb: argparse.ArgumentParser) -> None:
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
    _proofs(verb)
    verb.add_argument("--fail-on", metavar="LIST", help="conditions that end in exit code 1")


def _diff(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("a", type=Path, metavar="A", help="results file of run or compare: what it is held against")
    verb.add_argument("b", type=Path, metavar="B", help="another one, by whose settings it is judged")
    verb.add_argument(
        "--side", choices=("base", "head", "control"), help="which side of a file of compare; default: head"
    )
    verb.add_argument("--format", choices=("term", "html", "comment", "json"), default="term")
    verb.add_argument("--out", type=Path, metavar="FILE", help="write to this file, instead of stdout")
    verb.add_argument("--config", type=Path, metavar="FILE", help="judge by this suites.yaml")
    verb.add_argument("--fail-on", metavar="LIST", help="conditions that end in exit code 1")


def _proofs(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--proofs",
        type=Path,
        metavar="FILE",
        help="cite what this machine proved: lines of report --format proof, or the directory of a history",
    )


def _plan(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--shards", type=int, required=True, metavar="N", help="how many machines share the cases")
    verb.add_argument("--seed", type=int, metavar="N", help="common seed; default: drawn")
    verb.add_argument(
        "--durations",
        nargs="+",
        type=machine_arguments.durations_path,
        default=[],
        metavar="RESULTS|DIR",
        help="balance the shards by what cases took in these results files or histories",
    )
    verb.add_argument(
        "--base", metavar="REF", help="with --head: also say whether what lies between is worth measuring"
    )
    verb.add_argument("--head", metavar="REF", help="see --base")
    verb.add_argument("--merge-base", action="store_true", help="take for BASE the commit where HEAD left it")
    verb.add_argument("--always", action="store_true", help="worth measuring, whatever `paths` of suites.yaml says")
    verb.add_argument(
        "--in", dest="target", type=Path, default=Path(), metavar="DIR", help="the repository, instead of this one"
    )
    verb.add_argument(
        "--cases", default="cases", metavar="DIR", help="cases directory, relative to the repository; default: cases"
    )


def _publish(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS", help="results files, or folders of them; none: only a state"
    )
    _resolve(verb)
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
    _proofs(verb)
    verb.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")


def _resolve(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--event", type=Path, metavar="FILE", help="the event's payload; default: GITHUB_EVENT_PATH")
    verb.add_argument(
        "--workflow",
        action="append",
        metavar="FILE",
        help="workflow whose runs are published, may be repeated; default: .github/workflows/benchmark.yml",
    )


def _doctor(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--gpu", metavar="INDEX|UUID", help="default: the first that is visible")
    verb.add_argument("--python", type=Path, metavar="PATH", help="interpreter whose torch and CUPTI are looked at")
    verb.add_argument(
        "--host", action="store_true", help="can this machine be GitHub's runner; asked as its user, in its environment"
    )
    verb.add_argument("--runner", type=Path, metavar="DIR", help="with --host: GitHub's runner; default: this folder")
    verb.add_argument("--json", action="store_true", help="as JSON")


def split_sides(rest: list[str]) -> tuple[str | None, list[str]]:
    """HEAD and the patterns among the words after BASE: no git ref holds ``*``, ``[`` or ``:``, so those are patterns."""
    head = rest[0] if rest and not is_pattern(rest[0]) else None
    return head, rest[1:] if head is not None else rest


def is_pattern(word: str) -> bool:
    """Whether a word can only be a pattern of cases."""
    return word.startswith(("tag:", "id:")) or any(mark in word for mark in "*[")


def _commit(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no full commit id")
    return text
