"""Arguments that several verbs share."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import get_args

from evenbench.runner.case.declare import CACHES, TIMERS
from evenbench.runner.launchers.host_settings import LauncherName

VERBOSE_HELP = "a traceback with every error"


def add_measuring_options(verb: argparse.ArgumentParser) -> None:
    """The options of every verb that measures."""
    add_place_options(verb)
    verb.add_argument("--suite", metavar="NAME", help="suite of suites.yaml; default: pr, or the only one")
    verb.add_argument("--output", type=Path, metavar="FILE", help="results file; default: a new one in .evenbench/")
    verb.add_argument("--resume", action="store_true", help="go on with the interrupted run in --output")
    verb.add_argument("--rounds", type=int, metavar="N", help="launches of each side")
    verb.add_argument("--seed", type=int, metavar="N", help="all that is drawn follows from it")
    add_machine_options(verb)
    add_ceilings_option(verb)
    verb.add_argument("--timer", choices=TIMERS, help="instead of the one that fits the device")
    verb.add_argument("--cache", choices=CACHES, help="state of the cache before each iteration")
    verb.add_argument("--measure-ms", type=float, metavar="MS", help="budget of a case's samples")
    verb.add_argument("--warmup-ms", type=float, metavar="MS", help="budget of a case's warm-up")
    verb.add_argument("--timeout-s", type=float, metavar="S", help="longest time of a case in one launch")
    verb.add_argument(
        "--allow-fallback", action="store_true", default=None, help="CUDA events where CUPTI fails, labelled"
    )


def add_place_options(verb: argparse.ArgumentParser) -> None:
    """Where cases and their configuration are, and how launches start."""
    verb.add_argument(
        "--cases", default="cases", metavar="DIR", help="cases directory, relative to a side; default: cases"
    )
    verb.add_argument(
        "--config", type=Path, metavar="FILE", help="instead of the suites.yaml of the side, of base first"
    )
    verb.add_argument(
        "--launcher", choices=get_args(LauncherName), help="processes, or containers; default: as this machine demands"
    )


def add_proofs_option(verb: argparse.ArgumentParser) -> None:
    """The option by which a verdict cites what this machine proved."""
    verb.add_argument(
        "--proofs",
        type=Path,
        metavar="FILE",
        help="cite what this machine proved: lines of report --format proof, or the directory of a history",
    )


def split_sides(rest: list[str]) -> tuple[str | None, list[str]]:
    """HEAD and the patterns among the words after BASE: no git ref holds ``*``, ``[`` or ``:``, so those are patterns."""
    head = rest[0] if rest and not is_pattern(rest[0]) else None
    return head, rest[1:] if head is not None else rest


def is_pattern(word: str) -> bool:
    """Whether a word can only be a pattern of cases."""
    return word.startswith(("tag:", "id:")) or any(mark in word for mark in "*[")


def add_machine_options(verb: argparse.ArgumentParser) -> None:
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


def add_shard_option(verb: argparse.ArgumentParser) -> None:
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


def add_ceilings_option(verb: argparse.ArgumentParser) -> None:
    """The option of every verb that measures."""
    verb.add_argument(
        "--no-ceilings",
        dest="ceilings",
        action="store_const",
        const=False,
        help="neither measure what the GPU reaches nor show shares of it",
    )


def add_dump_option(verb: argparse.ArgumentParser) -> None:
    """The option of `run` and `compare`."""
    verb.add_argument("--dump-sources", type=Path, metavar="DIR", help="write every text that cases generate")
