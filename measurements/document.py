"""Puts what a measuring command printed into docs/measurements.md, between the marks of that command. Pure but for `write`.

A block is what stands between ``<!-- measured: scripts/prove FIGURE … -->`` and ``<!-- end -->``: the date, then what the
command printed. Nothing else of the document is touched, and prose about a figure stays outside of its block.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from measurements.parts import ROOT

DOCUMENT = ROOT / "docs" / "measurements.md"
BEGIN, END = "<!-- measured: ", "<!-- end -->"
TABLE = "\n| --- |"  # the rule below the head of a table


class NoBlockError(ValueError):
    """The document has no block for this command, or what was printed cannot replace it."""


def begin_of(command: str) -> str:
    """The line that begins the block of a command."""
    return f"{BEGIN}{command} -->"


def replaced(document: str, command: str, printed: str, date: str) -> str:
    """The document with the block of `command` replaced.

    Args:
        command: as a person types it, such as ``scripts/prove judge-speed``.
        printed: what it printed, Markdown; the marks themselves may not occur in it.
        date: the day it was measured.

    Raises:
        NoBlockError: see there.
    """
    before, begin, after = around(document, command)
    if END in printed:
        raise NoBlockError(f"what {command} printed holds {END!r}")
    return f"{before}{begin}Date: {date}\n\n{printed.strip()}\n{END}\n{after}"


def around(document: str, command: str) -> tuple[str, str, str]:
    """What is before the block of a command, the line that begins it, and what is after its end.

    Raises:
        NoBlockError: there is not exactly one such block, or it has no end of its own.
    """
    begin = f"{begin_of(command)}\n"
    if (blocks := document.count(begin)) != 1:
        raise NoBlockError(f"docs/measurements.md has {blocks} blocks {begin.strip()!r}, not one (hint: add the marks)")
    before, _, rest = document.partition(begin)
    content, end, after = rest.partition(f"{END}\n")
    if not end or BEGIN in content:
        raise NoBlockError(f"the block {begin.strip()!r} has no {END!r}")
    return before, begin, after


def check(command: str, path: Path = DOCUMENT) -> None:
    """Raise NoBlockError where the document has no block for a command."""
    around(path.read_text(encoding="utf-8"), command)


def write(command: str, printed: str, path: Path = DOCUMENT) -> None:
    """Put what a command printed today into its block. Raises NoBlockError, and leaves the document as it is.

    What holds no table is no figure: a part failed, and what was measured before is worth more.
    """
    if TABLE not in printed:
        raise NoBlockError(f"{command} printed no table, so docs/measurements.md stays as it is")
    text = path.read_text(encoding="utf-8")
    path.write_text(replaced(text, command, printed, f"{datetime.now(UTC):%Y-%m-%d}"), encoding="utf-8")
