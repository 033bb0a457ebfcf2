"""The verb diff: two stored runs held against each other, launches unpaired."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from .judge import judged_by, show


def diff(asked: argparse.Namespace) -> int:
    """Judge B against A, print, return the exit code."""
    from reports.diff import diff as judge
    from reports.load import load_file
    from reports.stored import joined, stored

    base, head = (
        stored(_name(path, other), load_file(path), asked.side)
        for path, other in ((asked.a, asked.b), (asked.b, asked.a))
    )
    settings = judged_by(asked, head.results.header)
    return show(judge(base, head, datetime.now(UTC).date(), settings), asked, results=joined(base, head))


def _name(path: Path, other: Path) -> str:
    """What a file is called: its name, with its folder where the other's is the same."""
    return str(path) if path.name == other.name else path.name
