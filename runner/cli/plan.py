"""The verb plan: the shard matrix as JSON and, given two commits, what a workflow needs to measure them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
from typing import Any

from ..changed import changed
from ..errors import EXIT_OK, UsageError
from ..plan import SEED_BITS, shard_matrix
from .requests import known_durations, refuse_seed


def plan(asked: argparse.Namespace) -> int:
    """Print the plan on one line."""
    refuse_seed(asked.seed)
    seed = asked.seed if asked.seed is not None else secrets.randbits(SEED_BITS)
    matrix = {"include": shard_matrix(asked.shards, seed, known_durations(asked.durations))}
    printed: dict[str, Any] = matrix
    if (asked.base is None) != (asked.head is None):
        raise UsageError("--base and --head go together", "name both commits, or neither")
    if asked.base is not None:
        found = changed(
            asked.target, asked.base, asked.head, asked.cases, from_merge_base=asked.merge_base, always=asked.always
        )
        printed = {**dataclasses.asdict(found), "matrix": matrix}
    print(json.dumps(printed))
    return EXIT_OK
