"""The grammar of what a run is held against: generated texts and expectations. Nothing is done here."""

from __future__ import annotations

import argparse
from pathlib import Path

EXPECT_LAUNCHES = 10  # of a fresh run of `expect`: so many show a spread


def add_dump_to(verb: argparse.ArgumentParser) -> None:
    """The option of `run` and `compare`."""
    verb.add_argument("--dump-sources", type=Path, metavar="DIR", help="write every text that cases generate")


def add_to_run(verb: argparse.ArgumentParser) -> None:
    """The options of `run` alone."""
    add_dump_to(verb)
    verb.add_argument(
        "--artifacts-only",
        action="store_true",
        help="only hold generated texts against their saved copies: needs no GPU",
    )
    verb.add_argument(
        "--update-artifacts",
        action="store_true",
        help="write the saved copies of generated texts anew, and remove stale ones; not in CI",
    )
    verb.add_argument(
        "--plant",
        metavar="PATTERN[=FRACTION]",
        help="slow one case on purpose, by 0.05 if not told; does it miss its expectation?",
    )
    verb.add_argument(
        "--fail-on", metavar="LIST", help="conditions that end in exit code 1: expectation, artifact, failed; or never"
    )


def add_to_expect(verb: argparse.ArgumentParser) -> None:
    """The options of `expect`, beside those of every verb that measures."""
    verb.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'norm/*' or tag:pr")
    verb.add_argument(
        "--from",
        dest="stored",
        nargs="+",
        type=Path,
        default=[],
        metavar="RESULTS",
        help="stored runs of run or compare, instead of a fresh one; patterns go before it",
    )
    verb.add_argument("--write", action="store_true", help="change expectations.yaml, not only print how")
    verb.add_argument("--setup", dest="head_setup", metavar="COMMAND", help="set-up, instead of that of suites.yaml")
    verb.add_argument("--python", dest="head_python", metavar="PATH", help="interpreter, used as it is")
    verb.set_defaults(rounds=EXPECT_LAUNCHES, json=None)
