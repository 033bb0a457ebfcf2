"""Child processes of the driver: their time, their output and what they leave behind are bounded."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK = 64 << 10  # bytes a read: what a Linux pipe holds
POLL_S = 0.2  # how soon an exit is seen while a process left behind still holds the pipe
TERMINATE_S = 3.0  # for a process to tidy up after itself, as git does, before it is killed


@dataclass(frozen=True)
class Finished:
    """What a child process came to.

    `status` is its exit status, negative for a signal, None when it ran past its time and was ended. `output` and
    `errors` are the ends of what it wrote; `truncated` says that their beginnings are lost.
    """

    status: int | None
    output: bytes
    errors: bytes
    truncated: bool


def run_bounded(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    keep: int,
    merge: bool = False,
) -> Finished:
    """Run a program to its end without input, and end whatever it left in its process group.

    Args:
        argv: the program and its arguments.
        timeout_s: seconds until it is ended.
        keep: bytes kept of the end of each stream.
        merge: write errors into the output, in the order in which they came.

    Raises:
        OSError: the program cannot be started.
    """
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            return _collect(process, time.monotonic() + timeout_s, keep)
        finally:
            _end(process)


def _collect(process: subprocess.Popen[bytes], deadline: float, keep: int) -> Finished:
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    tails = {pipe.fileno(): bytearray() for pipe in pipes}
    truncated = False
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            ready = selector.select(min(left, POLL_S))
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                tail = tails[key.fd]
                tail += chunk
                truncated = truncated or len(tail) > keep
                del tail[:-keep]
    try:
        status: int | None = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        status = None
    output, *errors = (bytes(tail) for tail in tails.values())
    return Finished(status, output, b"".join(errors), truncated)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE_S)
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def readable(output: bytes) -> list[str]:
    """The lines of foreign output, without what a terminal or a CI log would obey."""
    text = output.decode("utf-8", "replace").replace("\r", "\n").replace("##[", "#[")
    lines = ("".join(c if c.isprintable() else " " for c in line).rstrip() for line in text.split("\n"))
    return [line for line in lines if line]
