"""The grammar of the verb history."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def add_to(verb: argparse.ArgumentParser, verbose_help: str) -> None:
    """The verbs below `history`; `history` names the verb in what is parsed."""
    verbs = verb.add_subparsers(dest="history", metavar="VERB", required=True)
    grammars: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None]], ...] = (
        ("add", "put a run into the history", _add),
        ("show", "a case over time, or all cases at a glance", _show),
        ("detect", "where cases changed, and between which commits", _detect),
        ("site", "write static pages", _site),
        ("alert", "open an issue about what detect found", _alert),
    )
    for name, meaning, grammar in grammars:
        below = verbs.add_parser(name, help=meaning)
        grammar(below)
        below.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=verbose_help)


def _where(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dir", dest="folder", type=Path, required=True, metavar="DIR", help="where the history is")


def _add(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="results files of one run: its shards")
    _where(verb)
    verb.add_argument(
        "--side",
        choices=("base", "head", "control"),
        help="which side of a comparison is main; of one commit against itself: base, if not told",
    )


def _show(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("case", nargs="?", metavar="CASE", help="an id, or a part of one that no other has; default: all")
    _where(verb)
    verb.add_argument("--json", action="store_true", help="as JSON")


def _detect(verb: argparse.ArgumentParser) -> None:
    _where(verb)
    verb.add_argument("--smallest", type=float, metavar="FRACTION", help="change that counts; default: 0.01")
    verb.add_argument("--since", metavar="TIME", help="only where the new level began then or later")
    verb.add_argument("--new", action="store_true", help="only what --record has not told before")
    verb.add_argument("--record", action="store_true", help="as --new, and keep in DIR that it was told")
    verb.add_argument("--json", action="store_true", help="as JSON")


def _site(verb: argparse.ArgumentParser) -> None:
    _where(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the pages, which is made")
    verb.add_argument(
        "--repository", metavar="OWNER/NAME", help="to which commits are linked; default: GITHUB_REPOSITORY"
    )


def _alert(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("found", type=Path, metavar="FILE", help="what detect --json printed")
    verb.add_argument("--repository", metavar="OWNER/NAME", help="whose issue it is; default: GITHUB_REPOSITORY")
    verb.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")
