"""`main`: from the command line to a verb and its exit code; whatever ends a command is one line."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from types import FrameType

from evenbench.runner.errors import EXIT_BUG, EXIT_INTERRUPTED, EXIT_OK, EvenbenchError, UsageError

from . import grammar
from .steps.console import answer, discard, say, without_commands

CLEAN_UP_S = 15.0  # launches end and worktrees go within it


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `evenbench`. Returns the exit code (see `evenbench.runner.errors`)."""
    if argv is None:
        sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115 - `>&-`
        sys.stdout, sys.stderr = without_commands(sys.stdout), without_commands(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="evenbench.plainly")  # a table has signs that an ASCII terminal lacks
    interrupt = _Interrupt()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # Ctrl-C, a workflow's cancel, a closed terminal
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, interrupt)
    verbose = False
    try:
        options = grammar.parse(argv)
        verbose = options.verbose
        action = next(verb.action for verb in grammar.VERBS if verb.name == options.verb)
        code = action(options)
        answer("")  # a full disk behind stdout is noticed here
        return code
    except BaseException as error:  # noqa: BLE001 - whatever it is, people get one line and an exit code
        if verbose and not isinstance(error, KeyboardInterrupt | SystemExit | BrokenPipeError):
            traceback.print_exc()
        return _ended_by(error)


def _ended_by(error: BaseException) -> int:
    """Say what ended the command, in one line; its exit code."""
    match error:
        case SystemExit():
            raise error
        case KeyboardInterrupt():
            say("interrupted")
            return EXIT_INTERRUPTED
        case BrokenPipeError():  # the reader of our stdout has seen enough
            discard(sys.stdout)
            return EXIT_OK
        case EvenbenchError():
            say(f"error: {error}")
            return error.exit_code
        case OSError():
            say(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
            return UsageError.exit_code
    say(f"error: a bug in evenbench: {type(error).__name__}: {error} (hint: -v shows where; please report it)")
    return EXIT_BUG


class _Interrupt:
    """Ends a command as Ctrl-C does. While it cleans up, what comes again is ignored: GitHub's cancel comes three times."""

    def __init__(self) -> None:
        self._until = 0.0

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now >= self._until:
            self._until = now + CLEAN_UP_S
            raise KeyboardInterrupt
