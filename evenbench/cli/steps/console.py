"""What verbs share to speak: stdout for the answer, stderr for everything else, files on demand."""

from __future__ import annotations

import codecs
import io
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from rich.console import Console

from evenbench.runner.errors import UsageError

WIDTH_OF_A_FILE = 160  # columns where stdout is no terminal
# What GitHub's runner takes for a command in a step's log: the first of a line, or the second anywhere in it.
LOG_COMMAND = re.compile(r"((?:^|[\r\n])\s*)::|##\[")


# What a stream without UTF-8 shows in place of a sign that it lacks.
PLAIN = str.maketrans({
    "−": "-", "–": "-", "—": "-", "µ": "u", "μ": "u", "→": "->", "←": "<-", "±": "+/-", "×": "x", "·": "-", "…": "...",
    "’": "'", "\N{LEFT SINGLE QUOTATION MARK}": "'", "“": '"', "”": '"', "≤": "<=", "≥": ">=", "≈": "~", "²": "2", "³": "3", "°": " deg", "α": "alpha",
    "\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " ",
    "─": "-", "━": "-", "│": "|", "┃": "|", "┆": ":", "▁": "_", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#",
    "▍": "#", "▎": "#", "▏": "|", "░": ".", "▒": ":", "▓": "#", "•": "*", "●": "*", "○": "o", "✓": "ok", "✗": "x",
    "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+", "╵": "|", "╷": "|",
})  # fmt: skip


def plainly(error: UnicodeError) -> tuple[str, int]:
    """An error handler of `codecs`: signs that an encoding lacks as others that it has; ``?`` for the rest."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(PLAIN)
    return text.encode("ascii", "replace").decode(), error.end


codecs.register_error("evenbench.plainly", plainly)


class UnheededLog(io.TextIOWrapper):
    """A step's log: of foreign text in it, such as errors and kernels' names, nothing is a command for the runner."""

    def write(self, text: str) -> int:
        """As it is, but for the first characters of a command."""
        super().write(LOG_COMMAND.sub(lambda found: "#[" if found[1] is None else f"{found[1]}: :", text))
        return len(text)


def without_commands(stream: TextIO) -> TextIO:
    """The stream, or where a workflow's runner reads it an `UnheededLog` in its place; a file takes text as it is."""
    log = os.environ.get("GITHUB_ACTIONS") == "true" and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    return UnheededLog(stream.buffer, stream.encoding, "evenbench.plainly", line_buffering=True) if log else stream


def say(text: str) -> None:
    """A line on stderr, where anybody reads it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        discard(sys.stderr)


def answer(text: str | bytes) -> None:
    """To stdout, bytes as they are. A reader who has seen enough misses the rest, and nothing else: not the exit code."""
    try:
        sys.stdout.flush()
        if isinstance(text, str):
            print(text, end="", flush=True)
        else:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: TextIO) -> None:
    """Let what a stream still holds, and gets, go nowhere: else the exit would complain of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class ProgressConsole(Console):
    """stderr for progress. A run whose progress nobody reads any more goes on, where rich would end it."""

    def on_broken_pipe(self) -> None:
        """Says nothing from now on."""
        self.quiet = True
        discard(sys.stderr)


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
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def changing(stream: TextIO | None = None) -> bool:
    """Whether what was written to a stream, stderr if left out, can be changed: on a terminal that a person looks at."""
    terminal = (stream or sys.stderr).isatty() and os.environ.get("TERM") != "dumb"
    return terminal and not os.environ.get("CI")  # some of them record what a terminal would show
