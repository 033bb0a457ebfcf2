"""Where a launch is when it dies or hangs: the Python stacks of all its threads, on its stderr."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time

STDERR = 2
WANTED = signal.SIGQUIT  # as other runtimes dump their threads
TELL_S = 0.2  # for a handler that writes some kilobytes; it needs no lock, and interrupts what waits for a device


def tell() -> None:
    """From now on this process writes its stacks where a signal kills it, and where it is asked."""
    faulthandler.enable(STDERR)
    faulthandler.register(WANTED, STDERR, all_threads=True, chain=False)


def ask(process: int) -> None:
    """Let a process that hangs write its stacks, and give it time to. One that does not listen may die of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, WANTED)
        time.sleep(TELL_S)
