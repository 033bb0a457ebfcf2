"""What verbs share to speak: stdout for the answer, stderr for everything else, files on demand."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import UsageError

WIDTH_OF_A_FILE = 160  # columns where stdout is no terminal


def say(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)


def write(path: Path | None, text: Callable[[], str]) -> None:
    """Write a text that is made only where a file was asked for. Raises UsageError."""
    if path is None:
        return
    try:
        path.write_text(text(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def width() -> int:
    """Columns of the answer."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size((WIDTH_OF_A_FILE, 24)).columns
    return WIDTH_OF_A_FILE


def colour() -> bool:
    """Whether the answer may have colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
