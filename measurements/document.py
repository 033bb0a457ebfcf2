"""Puts what a measuring command printed into docs/measurements.md, between the marks of that command. Pure but for `write`.

A block is what stands between ``<!-- measured: scripts/prove FIGURE … -->`` and ``<!-- end -->``: the date, then what the
command printed. Nothing else of the document is touched, and prose about a figure stays outside of its block.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from measurements.parts import ROOT

DOCUMENT = ROOT / "docs" / "measurements.md"
END = "<!-- end -->"


class NoBlockError(ValueError):
    """The document has no block for this command, or more than one, or one without an end."""


def begin_of(command: str) -> str:
    """The line that begins the block of a command."""
    return f"<!-- measured: {command} -->"


def replaced(document: str, command: str, printed: str, date: str) -> str:
    """The document with the block of `command` replaced.

    Args:
        command: as a person types it, such as ``scripts/prove judge-speed``.
        printed: what it printed, Markdown; the marks themselves may not occur in it.
        date: the day it was measured.

    Raises:
        NoBlockError: see there.
    """
    begin = f"{begin_of(command)}\n"
    if document.count(begin) != 1:
        raise NoBlockError(f"docs/measurements.md has {document.count(begin)} blocks {begin.strip()!r}, not one")
    if END in printed:
        raise NoBlockError(f"what {command} printed holds {END!r}")
    before, _, rest = document.partition(begin)
    _, end, after = rest.partition(f"{END}\n")
    if not end:
        raise NoBlockError(f"the block {begin.strip()!r} has no {END!r}")
    return f"{before}{begin}Date: {date}\n\n{printed.strip()}\n{END}\n{after}"


def write(command: str, printed: str, path: Path = DOCUMENT) -> None:
    """Put what a command printed today into its block. Raises NoBlockError, and leaves the document as it is."""
    text = path.read_text(encoding="utf-8")
    path.write_text(replaced(text, command, printed, f"{datetime.now(UTC):%Y-%m-%d}"), encoding="utf-8")
