"""`evenbench report --watch`: a run under way, judged again as its results file grows, until it ends."""

from __future__ import annotations

import argparse
import fcntl
import shutil
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from evenbench.runner.errors import UsageError
from evenbench.runner.records.reader import LINE_MAX
from evenbench.runner.words import count

from ...steps import show
from ...steps.console import changing, colour, say, width
from . import report as judge

if TYPE_CHECKING:
    from evenbench.reports.rows.outcome import Comparison, Report

LOOKED_S = 0.5  # between two looks at the files
BUSY = 0.1  # judging takes a processor for this part of the time at most: the run that is watched may need it
QUIET_S = 10.0  # a file that did not grow for so long, and that no run holds, will not grow any more
BELOW = 2  # lines under the table: how much of it there was no room for, and what is watched

State: TypeAlias = tuple[int, ...]  # bytes of each file; 0 while it is not there, or holds no whole line


class WatchedRun(NamedTuple):
    """What the files held: the outcome so far, and whether all of them came to their end."""

    outcome: Comparison | Report
    ended: bool


def report(options: argparse.Namespace) -> int:
    """The verb report; with ``--watch`` it waits for the end of the run, and shows meanwhile what there is."""
    if options.watch:
        if options.format != "term" or options.explain is not None or options.out is not None:
            raise UsageError("--watch shows a table", "leave --format, --explain and --out out")
        follow(options)
    return judge.report(options)


def follow(options: argparse.Namespace) -> None:
    """Show what the files hold until each has its end, or no run writes it any more.

    On a terminal a table that changes, and that stays as it is after Ctrl-C; else a line where the headline changed.

    Raises:
        UntrustedInput: the files are not what they say.
    """
    shown: _Table | _Lines = _Table(options.results) if changing(sys.stdout) else _Lines(options.results)
    state: State = ()
    next_look = time.monotonic()
    with shown:
        while True:
            now, found = time.monotonic(), state_of(options.results)
            if found != state and all(found) and now >= next_look:
                seen = look(options)
                shown.show(seen.outcome)
                if seen.ended:
                    return
                state, next_look = found, now + (time.monotonic() - now) / BUSY
            elif all(found) and given_up(options.results):
                say("no run writes this any more")
                return
            shown.pause()


def look(options: argparse.Namespace) -> WatchedRun:
    """Judge what the files hold now. Raises UntrustedInput."""
    from evenbench.reports.compare.report import measured, so_far
    from evenbench.reports.load.results import load_runs

    results, seconds = load_runs(options.results)
    ended = all(each.complete_shards for each in (results, *seconds))
    if results.header.verb == "run":
        report = measured(results)
        return WatchedRun(report if ended else so_far(report), ended)
    return WatchedRun(show.judged(results, seconds, show.judged_by(options, results.header), options)[0], ended)


def state_of(files: Sequence[Path]) -> State:
    """What tells whether a file grew, or was taken up anew."""
    return tuple(_size(path) for path in files)


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        return 1  # `look` refuses it, and a pipe would block here
    with path.open("rb") as file:
        begun = len(line := file.readline(LINE_MAX)) == LINE_MAX or line.endswith(b"\n")
    return found.st_size if begun else 0


def given_up(files: Sequence[Path]) -> bool:
    """Whether no run writes the files any more: nobody holds them, and not only since a moment."""
    return age(files) > QUIET_S and not any(written(path) for path in files)


def age(files: Sequence[Path]) -> float:
    """Seconds since the last line of any file."""
    return max(0.0, time.time() - max(path.stat().st_mtime for path in files))


def written(path: Path) -> bool:
    """Whether a run is writing a file: it holds its lock."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class _Lines:
    """A line on stderr where the headline or the number of rounds changed."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._began = time.monotonic()
        self._told = ""
        if missing := [str(path) for path in files if not path.exists()]:
            say(f"waiting for {', '.join(missing)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, outcome: Comparison | Report) -> None:
        from evenbench.reports.render.wording import rounds, title

        text = " · ".join(part for part in (rounds(outcome.facts), title(outcome)) if part)
        if text != self._told:
            self._told = text
            say(f"[{time.monotonic() - self._began:6.1f} s] {text}")

    def pause(self) -> None:
        time.sleep(LOOKED_S)


class _Table:
    """The table in place, as much of it as the terminal is high: the worst rows stand on top."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._outcome: Comparison | Report | None = None
        self._drawn: tuple[int, str] = (0, "")  # the outcome in so many columns
        self._live = Live(console=Console(), auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if error is not None and self._outcome is not None:
            print(self._text(), end="")

    def show(self, outcome: Comparison | Report) -> None:
        self._outcome, self._drawn = outcome, (0, "")
        self._draw()

    def pause(self) -> None:
        self._draw()  # the terminal may have become another size
        time.sleep(LOOKED_S)

    def _draw(self) -> None:
        lines = self._text().splitlines()
        room = max(1, shutil.get_terminal_size().lines - BELOW - 1)
        hidden = len(lines) - room
        parts = [Text.from_ansi(line, no_wrap=True, overflow="ellipsis") for line in lines[:room]]
        if hidden > 0:
            parts.append(Text(f"… {count(hidden, 'more line')}", "dim"))
        parts.append(Text(self._watching(), "dim", no_wrap=True, overflow="ellipsis"))
        self._live.update(Group(*parts), refresh=True)

    def _watching(self) -> str:
        if missing := [path.name for path in self._files if not path.exists()]:
            return f"waiting for {', '.join(missing)} · Ctrl-C ends"
        said = "what is here may change until the run ends" if self._outcome is not None else "no result yet"
        return f"last line {age(self._files):.0f} s ago · {said} · Ctrl-C ends"

    def _text(self) -> str:
        from evenbench.reports.render.terminal.terminal import run_table, terminal
        from evenbench.reports.rows.outcome import Comparison

        outcome, columns = self._outcome, width()
        if outcome is not None and self._drawn[0] != columns:
            if isinstance(outcome, Comparison):
                text = terminal(outcome, columns, colour=colour())
            else:
                text = run_table(outcome, columns, colour=colour())
            self._drawn = columns, text
        return self._drawn[1]
