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
OOM_FIRST = "1000"  # the highest that proc(5) knows
BUSY_SHARE = 0.3  # of the time that a thread is watched: it would share the processors with what is measured next
END_WAIT_S = 5.0  # for all of them to be gone; what the kernel holds in an uninterruptible call stays


def offer_to_oom_killer() -> None:
    """Where memory runs out, this process goes first: neither the driver nor another program."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_FIRST, encoding="ascii")


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


def threads() -> set[int]:
    """Of this process."""
    with contextlib.suppress(OSError):
        return {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208 - a tenth of iterdir's time
    return set()


def busy(those: AbstractSet[int], for_s: float) -> set[int]:
    """Those of the threads that in some seconds use, or wait for, a processor for a good part of them, or at their end."""
    before, began = {one: _wanted_ns(one) for one in those}, time.perf_counter_ns()
    time.sleep(for_s)
    bound = (time.perf_counter_ns() - began) * BUSY_SHARE
    return {one for one, wanted in before.items() if _wanted_ns(one) - wanted > bound or _runs(one)}


def _wanted_ns(thread: int) -> int:
    """How long a thread was on a processor or ready to; told late for one that never gets there."""
    with contextlib.suppress(OSError, ValueError):
        text = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii")
        return sum(int(number) for number in text.split()[:2])
    return 0


def _runs(thread: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/self/task/{thread}/stat").read_bytes().rpartition(b") ")[2].startswith(b"R")
    return False
