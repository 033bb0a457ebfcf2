"""What verbs do with the texts that cases generated: write them out, save them anew, remove copies that are stale."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from evenbench.runner.artifacts.texts import Texts
from evenbench.runner.errors import UsageError
from evenbench.runner.records import SideName
from evenbench.runner.records.reader import printable
from evenbench.runner.words import count

from .console import say

OF_MEASURING: Mapping[str, str] = MappingProxyType(  # what --artifacts-only has no use for, by its name as parsed
    {
        "plant": "--plant",
        "rounds": "--rounds",
        "explain": "--explain",
        "gpu": "--gpu",
        "gpus": "--gpus",
        "timer": "--timer",
        "cache": "--cache",
        "measure_ms": "--measure-ms",
        "warmup_ms": "--warmup-ms",
        "allow_fallback": "--allow-fallback",
    }
)


def keep_texts(options: argparse.Namespace, texts: Mapping[SideName, Texts]) -> bool:
    """Write what the cases generated where it was asked for; whether saved copies were to be written anew."""
    if directory := options.dump_sources:
        for side, found in texts.items():
            found.dump(directory / side if len(texts) > 1 else directory)
        say(f"{count(sum(len(list(found)) for found in texts.values()), 'text')} in {directory}")
    if not getattr(options, "update_artifacts", False):
        return False
    written = [name for found in texts.values() for name in found.save()]
    for name in written:
        say(f"saved anew: {printable(name)}")
    removed = [name for found in texts.values() for name in found.remove_stale()]
    for name in removed:
        say(f"removed, since no case gives it any more: {printable(name)}")
    if not written and not removed:
        say("the saved copies of these texts are as they should be")
    return True


def refuse_update(options: bool) -> None:
    """Raises UsageError where saved copies must not change: what CI finds, a person looks at."""
    if options and os.environ.get("CI"):
        raise UsageError(
            "--update-artifacts: refused where CI is set, since a check that mends itself checks nothing",
            "update them on your own machine, look at the diff and commit it",
        )


def refuse_measuring(options: argparse.Namespace) -> None:
    """Raises UsageError for options that say how to measure, where nothing is to be measured."""
    if not options.artifacts_only:
        return
    idle = [option for name, option in OF_MEASURING.items() if getattr(options, name) not in (None, False)]
    idle += ["--no-ceilings"] if options.ceilings is False else []
    if idle:
        raise UsageError(
            f"--artifacts-only with {', '.join(idle)}: nothing is measured",
            f"leave {' and '.join(idle)} out, or --artifacts-only",
        )


def refuse_dump(directory: Path | None) -> None:
    """Raises UsageError for a place that is no directory."""
    if directory is not None and directory.exists() and not directory.is_dir():
        raise UsageError(f"--dump-sources {directory}: is no directory", "name one, it need not exist")
