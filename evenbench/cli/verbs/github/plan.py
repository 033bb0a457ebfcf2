"""The verb plan: the shard matrix as JSON and, given two commits, what a workflow needs to measure them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
from pathlib import Path
from typing import Any

from evenbench.runner.errors import EXIT_OK, UsageError
from evenbench.runner.plan.changed import changed
from evenbench.runner.plan.plan import SEED_BITS, shard_matrix

from ...steps.arguments import durations_path
from ...steps.requests import known_durations, refuse_seed


def plan(options: argparse.Namespace) -> int:
    """Print the plan on one line."""
    refuse_seed(options.seed)
    seed = options.seed if options.seed is not None else secrets.randbits(SEED_BITS)
    matrix = {"include": shard_matrix(options.shards, seed, known_durations(options.durations))}
    printed: dict[str, Any] = matrix
    if (options.base is None) != (options.head is None):
        raise UsageError("--base and --head go together", "name both commits, or neither")
    if options.base is not None:
        found = changed(
            options.target,
            options.base,
            options.head,
            options.cases,
            from_merge_base=options.merge_base,
            always=options.always,
        )
        printed = {**dataclasses.asdict(found), "matrix": matrix}
    print(json.dumps(printed))
    return EXIT_OK


def add_plan_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `plan`."""
    verb.add_argument("--shards", type=int, required=True, metavar="N", help="how many machines share the cases")
    verb.add_argument("--seed", type=int, metavar="N", help="common seed; default: drawn")
    verb.add_argument(
        "--durations",
        nargs="+",
        type=durations_path,
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
