"""What a launch left running, whatever group or session it put itself into: ended before the next launch begins."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # from linux/prctl.h
END_WAIT_S = 5.0  # for all of them to be gone; what the kernel holds in an uninterruptible call stays


def adopt() -> None:
    """Become the parent of every process below this one whose own parent dies, where the kernel can (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """This process's own, those that it adopted included."""
    return frozenset(_children(os.getpid()))


def end_children(spared: AbstractSet[int]) -> None:
    """Kill all processes below this one but those that are spared, with what is below those."""
    deadline = time.monotonic() + END_WAIT_S
    while (top := children() - spared) and time.monotonic() < deadline:
        for process in [*top, *_below(top)]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        for process in top:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.001)


def _below(processes: AbstractSet[int]) -> Iterator[int]:
    waiting = list(processes)
    while waiting:
        found = list(_children(waiting.pop()))
        yield from found
        waiting += found


def _children(process: int) -> Iterator[int]:
    """Of each of its threads; none where the process is gone or the kernel does not tell."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                yield from map(int, (thread / "children").read_text(encoding="ascii").split())
