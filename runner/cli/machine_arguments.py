"""The grammar of what part of a run, on which GPUs, and what if another run holds them. Nothing is done here."""

from __future__ import annotations

import argparse
import re
from pathlib import Path


def add_to(verb: argparse.ArgumentParser) -> None:
    """The options of every verb that measures."""
    where = verb.add_mutually_exclusive_group()
    where.add_argument("--gpu", metavar="INDEX|UUID", help="default: the first that is visible")
    where.add_argument(
        "--gpus", metavar="all|N|UUID,…", help="share the cases among several GPUs of this machine, at once"
    )
    verb.add_argument(
        "--durations",
        action="append",
        type=durations_path,
        default=[],
        metavar="RESULTS|DIR",
        help="with --gpus: share by what cases took in a results file or a history; may be repeated",
    )
    verb.add_argument(
        "--no-wait", action="store_true", help="end at once, with exit code 3, where another run holds the GPU"
    )
    verb.add_argument(
        "--ignore-unfit", action="store_true", help="measure where the machine is not fit; the results say so"
    )


def add_shard_to(verb: argparse.ArgumentParser) -> None:
    """The options of one shard of several."""
    verb.add_argument(
        "--shard", type=_shard, default=(0, 1), metavar="INDEX/COUNT", help="measure one part of the cases"
    )
    verb.add_argument(
        "--share", metavar="WORD", help="with --shard: its share of the cases, where evenbench plan printed one"
    )


def durations_path(text: str) -> Path:
    """Of ``--durations``: an empty word, as of a variable that is not set, would be the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a results file or the directory of a history, or leave it out")
    return Path(text)


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not INDEX/COUNT with INDEX from 0 to COUNT - 1")
    return int(match[1]), int(match[2])
