"""The verb compare: measure two versions alternately and show what got slower or faster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from evenbench.runner.plan.request import Request
from evenbench.runner.sides import SideSpec

from ...steps import confirm
from ...steps.arguments import add_dump_option, add_measuring_options, add_proofs_option, add_shard_option, split_sides
from ...steps.measure import measure
from ...steps.requests import fail_on_of, request_of
from ...steps.show import read_proofs, show_comparison
from ...steps.texts import keep_texts, refuse_dump


def compare(options: argparse.Namespace) -> int:
    """Measure two sides, print the table."""
    read_proofs(options.proofs)  # what is wrong with them is said before, not after measuring
    refuse_dump(options.dump_sources)
    head, patterns = split_sides(options.rest)
    specs = [
        SideSpec("base", options.base, options.base_setup, options.base_python, options.base_sha),
        SideSpec("head", head, options.head_setup, options.head_python, options.head_sha),
    ]
    if options.control:
        specs.append(SideSpec("control", options.base, options.base_setup, options.base_python, options.base_sha))
    request = request_of("compare", options, specs, patterns, {"fail_on": fail_on_of(options.fail_on)})
    if not options.confirm:
        return show_comparison([request.output], None, _measured(request, options), options)
    request = confirm.with_room_for_second(request)
    hopeless = [] if confirm.first_is_whole(request) else _measured(request, options)
    return show_comparison([request.output, *confirm.second_run(request, measure)], None, hopeless, options)


def _measured(request: Request, options: argparse.Namespace) -> Sequence[str]:
    """Measure; the case files that no side can import."""
    outcome = measure(request).outcome
    keep_texts(options, outcome.texts)
    return outcome.hopeless


def add_compare_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `compare`."""
    verb.add_argument("base", metavar="BASE", help="a git ref or a directory")
    verb.add_argument(
        "rest",
        nargs="*",
        metavar="[HEAD] [PATTERN …]",
        help="a git ref or a directory, left out: the working tree; then patterns such as 'norm/*' or tag:pr",
    )
    add_measuring_options(verb)
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
    add_shard_option(verb)
    add_dump_option(verb)
    verb.add_argument(
        "--plant",
        metavar="PATTERN[=FRACTION]",
        help="slow one case of head on purpose, by 0.05 if not told; was it found?",
    )
    add_proofs_option(verb)
    verb.add_argument(
        "--confirm", action="store_true", help="measure what regressed in a second, independent run, and show both"
    )
    verb.add_argument("--comment", type=Path, metavar="FILE", help="also write the Markdown comment")
    verb.add_argument("--json", type=Path, metavar="FILE", help="also write the comparison as JSON")
    verb.add_argument(
        "--fail-on", metavar="LIST", help="conditions that end in exit code 1: regressed, failed, …, never"
    )
