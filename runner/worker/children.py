"""A launch as a process: forked or started plainly, in a group of its own, reaped, killed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..process.channel import Channel
from .launch import jobs

KILL_WAIT_S = 5.0  # a killed group is reaped well within this; a process in an uninterruptible call is left behind
PR_SET_PDEATHSIG = 1  # from linux/prctl.h
RECORDS_VARIABLE = "EVENBENCH_RECORDS"  # descriptor of the records of a plainly started launch


def fork(job: dict[str, Any], write_end: int, not_theirs: tuple[int, ...]) -> int:
    """Start a launch as a fork of this process; returns its id. `not_theirs`: descriptors that it must not have."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        for descriptor in not_theirs:
            os.close(descriptor)
        _own_group()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        jobs.run(job, Channel(write_end))
        status = 0
    except BaseException as error:  # noqa: BLE001 - a fork must never return into the parent's loop
        sys.stderr.write(f"{jobs.one_line(error)}\n")
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def spawn(job: dict[str, Any], write_end: int) -> int:
    """Start a launch as an interpreter of its own; returns its id."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("__main__.py")), "launch"],
        stdin=subprocess.PIPE,
        pass_fds=(write_end,),
        env={**os.environ, RECORDS_VARIABLE: str(write_end)},
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - asked for above
    with contextlib.suppress(BrokenPipeError):  # it died at once: the reader of its records will see
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
    process.returncode = 0  # we reap it ourselves
    return process.pid


def plain_launch() -> int:
    """The body of a plainly started launch: its job comes on stdin, its records go to a descriptor of its own."""
    records = int(os.environ.pop(RECORDS_VARIABLE))
    os.set_inheritable(records, False)
    job = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _die_with_parent()
    jobs.run(job, Channel(records))
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(0)


def _own_group() -> None:
    os.setsid()
    _die_with_parent()


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, where the kernel can (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def has_ended(child: int) -> bool:
    """Whether a child has ended; leaves it to be reaped."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap(child: int, done: bool) -> tuple[str, str]:
    """Status and detail of a launch that closed its records."""
    deadline = time.monotonic() + KILL_WAIT_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            if done and code == 0:
                return "ok", ""
            return "crashed", _death(code)
        time.sleep(0.001)
    return "crashed", "closed its records but did not end"


KILLED = f"killed by {signal.SIGKILL.name}"  # by the system, where memory runs out, or by somebody else


def _death(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def kill_group(child: int) -> None:
    """Kill a launch with all processes of its group, and reap it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + KILL_WAIT_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline and os.waitpid(child, os.WNOHANG)[0] == 0:
            time.sleep(0.001)


def end_all_others() -> None:
    """Kill every process but the first of the container and this one, those that left a launch's group included."""
    own = {1, os.getpid()}
    deadline = time.monotonic() + KILL_WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)  # all at once: a fork bomb cannot outrun it
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()} <= own:
            return
        time.sleep(0.001)
