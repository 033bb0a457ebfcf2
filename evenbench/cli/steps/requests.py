"""From the command line's words to a `Request`: what contradicts itself is refused before anything is measured."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenbench.runner.config import FAIL_ON
from evenbench.runner.errors import UsageError
from evenbench.runner.execute.measuring import RESULTS_FOLDER
from evenbench.runner.plan.balance import Share
from evenbench.runner.plan.plan import SEED_BITS
from evenbench.runner.plan.planting import plant_of
from evenbench.runner.plan.request import Request
from evenbench.runner.sides import SideSpec
from evenbench.runner.words import count

from .console import say

KEYS: Sequence[str] = (  # of a suite, that the command line may set
    "timer",
    "cache",
    "measure_ms",
    "warmup_ms",
    "timeout_s",
    "min_effect",
    "allow_fallback",
    "ceilings",
    "max_rounds",
    "budget_s",
)


def request_of(
    verb: Any, options: argparse.Namespace, specs: Sequence[SideSpec], patterns: Sequence[str], more: Mapping[str, Any]
) -> Request:
    """What was asked for, as a request.

    Raises:
        UsageError: arguments that contradict each other, or a file that could not be written after measuring.
    """
    refuse_contradictions(options)
    share, plant = getattr(options, "share", None), getattr(options, "plant", None)
    return Request(
        verb=verb,
        repo=Path.cwd(),
        specs=specs,
        output=(options.output or _new_output()).resolve(),
        cases=options.cases,
        cases_from=getattr(options, "cases_from", "own"),
        config=options.config,
        suite=options.suite,
        patterns=list(patterns),
        keys={key: getattr(options, key, None) for key in KEYS} | dict(more),
        rounds=options.rounds,
        seed=options.seed,
        shard=getattr(options, "shard", (0, 1)),
        share=Share.parse(share) if share is not None else None,
        plant=plant_of(plant) if plant is not None else None,
        gpu=options.gpu,
        gpus=options.gpus,
        durations=known_durations(options.durations),
        launcher=options.launcher,
        resume=options.resume,
        ignore_unfit=options.ignore_unfit,
        only_texts=getattr(options, "artifacts_only", False),
        save_texts=getattr(options, "update_artifacts", False),
        wait=not options.no_wait,
    )


def refuse_contradictions(options: argparse.Namespace) -> None:
    """Raises UsageError for arguments that contradict each other, or a file that could not be written after measuring."""
    if options.resume and options.output is None:
        raise UsageError("--resume needs --output", "name the results file of the interrupted run")
    refuse_seed(options.seed)
    shard = getattr(options, "shard", (0, 1))
    share = getattr(options, "share", None)
    if share is not None and shard[1] == 1:
        raise UsageError("--share needs --shard", "evenbench plan gives a shard its index, count, seed and share")
    if shard[1] > 1 and options.seed is None and not options.resume:
        raise UsageError("--shard needs --seed", "all shards of a run share the seed that evenbench plan gives them")
    if getattr(options, "plant", None) is not None and getattr(options, "confirm", False):
        raise UsageError(
            "--plant with --confirm: what was slowed on purpose needs no second run", "leave one of them out"
        )
    for path in (options.json, getattr(options, "comment", None)):
        if path is not None and (
            path.is_dir() or not os.access(path.parent, os.W_OK)
        ):  # said before, not after measuring
            raise UsageError(f"{path} cannot be written", "name a file in a folder that exists and is writable")
    if options.durations and options.gpus is None:
        raise UsageError("--durations needs --gpus", "one GPU measures all cases; evenbench plan balances shards")


def _new_output() -> Path:
    return Path(RESULTS_FOLDER) / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}.results.jsonl"


def known_durations(paths: Sequence[Path]) -> Mapping[str, float]:
    """What cases took in earlier runs; says how many are known, or that the files know none."""
    from evenbench.reports.history.durations import durations

    if not paths:
        return {}
    found = durations(paths)
    known = f"balanced by the durations of {count(len(found), 'case')}"
    say(known if found else "no durations are known yet: not balanced")
    return found


def refuse_seed(seed: int | None) -> None:
    """Raises UsageError for a seed that the results file would not take."""
    if seed is not None and not 0 <= seed < 1 << SEED_BITS:
        raise UsageError(f"--seed {seed}: must be 0 to {(1 << SEED_BITS) - 1}")


def fail_on_of(text: str | None) -> tuple[str, ...] | None:
    """The conditions of ``--fail-on``; None where it was not given, empty for ``never``. Raises UsageError."""
    if text is None:
        return None
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise UsageError("--fail-on: names no condition", f"any of {', '.join(FAIL_ON)}; or never")
    if words == ("never",):
        return ()
    if "never" in words:
        raise UsageError("--fail-on: 'never' stands alone", f"name conditions, any of {', '.join(FAIL_ON)}, or never")
    for word in words:
        if word not in FAIL_ON:
            raise UsageError(f"--fail-on: {word!r} is no condition", f"any of {', '.join(FAIL_ON)}; or never")
    return words
