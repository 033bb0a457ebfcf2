"""One side's launches, over the streams of its warm parent, wherever that runs.

Commands go in by its stdin; messages come over its stdout, each line framed with the nonce of its launch; what
launches print comes over its stderr. All that comes out is foreign: lines without the nonce, over-long lines, floods
and silence end the launch, never the run.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..process.channel import BETWEEN_DEADLINE_S, LINE_MAX, START_DEADLINE_S
from ..process.patience import Patience

OUTPUT_KEPT = 64 << 10  # bytes of a launch's own output kept for an error message
LINES_MAX = 1_000_000  # of one launch, forged ones included: a flood ends it
BYTES_MAX = 256 << 20  # the same: the publisher takes no larger file
QUEUED_MAX = 64  # lines read ahead: a faster writer waits, and 64 of the longest are 64 MiB
GRACE_S = 15.0  # the warm parent enforces deadlines; the driver steps in this much later
STALL_S = 15.0  # for a parent to read a command: it does nothing else between launches
EMPTY_POLL_S = 0.05  # how soon the end of the readers is seen
STOP_S = 3.0  # a parent whose stdin is closed leaves within this
WARM_S = 600.0  # importing torch and preload from a cold disk
NONCE_BYTES = 16

Message = dict[str, Any]


@dataclass(frozen=True)
class Started:
    """A warm parent that was started: the process that holds its streams, and what ends it for certain."""

    process: subprocess.Popen[bytes]
    end: Callable[[], None]


def kill_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, with its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Abandoned(Exception):
    """The run is over while this launch was under way on another GPU."""


class ParentSession:
    """See `evenbench.runner.launchers.launcher.Session`.

    Args:
        root: the side's tree, as its processes see it.
        start: starts a warm parent with pipes for stdin, stdout and stderr.
    """

    def __init__(self, root: Path, start: Callable[[], Started]) -> None:
        self._root = root
        self._start_parent = start
        self._preload: Sequence[str] | None = None
        self._abandoned = False
        self._changing = threading.Lock()  # the parent, while another thread may abandon it
        self._start()

    def warm(self, preload: Sequence[str]) -> Message:
        """See `Session.warm`."""
        self._preload = preload
        nonce = self._command({"command": "warm", "root": str(self._root), "preload": list(preload)})
        message = self._next(nonce, WARM_S)
        if message is None:
            self._restart()
            return {
                "event": "warm",
                "torch": "",
                "error": f"the warm parent died: {self.output_tail()}",
                "touched": True,
            }
        return message

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        """See `Session.launch`."""
        self._output.clear()
        nonce = self._command({"command": "launch", "job": job, "fork": fork})
        limits = {target["id"]: float(target["timeout_s"]) for target in job.get("targets", ())}
        limit, case = START_DEADLINE_S, None
        while (message := self._next(nonce, limit + GRACE_S)) is not None:
            if message["event"] in ("begin", "finish"):
                case = message.get("case") if message["event"] == "begin" else None
                limit = BETWEEN_DEADLINE_S if case is None else limits.get(str(case), timeout_s)
            yield message
            if message["event"] == "exit":
                return
        self._restart()
        yield {
            "event": "exit",
            "status": "crashed",
            "detail": "the side's warm parent died or fell silent",
            "case": case,
            "untold": True,
        }

    def output_tail(self) -> str:
        """See `Session.output_tail`."""
        return self._output.text()

    def close(self) -> None:
        """See `Session.close`."""
        with contextlib.suppress(OSError):
            self._pipe(self._parent.process.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._parent.process.wait(STOP_S)
        self._end()

    def abandon(self) -> None:
        """See `Session.abandon`."""
        with self._changing:
            self._abandoned = True
            self._parent.end()

    def _start(self) -> None:
        self._parent = self._start_parent()
        self._messages: queue.Queue[bytes | None] = queue.Queue(QUEUED_MAX)
        self._output = _Tail(OUTPUT_KEPT)
        process = self._parent.process
        self._threads = [
            threading.Thread(target=_pump_lines, args=(self._pipe(process.stdout), self._messages), daemon=True),
            threading.Thread(target=self._output.drain, args=(self._pipe(process.stderr),), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _restart(self) -> None:
        self._end()
        tail = self._output.text()
        with self._changing:
            if self._abandoned:
                raise Abandoned
            self._start()
        self._output.add(tail.encode())
        if self._preload is not None:
            self.warm(self._preload)

    def _end(self) -> None:
        self._parent.end()
        process = self._parent.process
        process.wait()
        deadline = time.monotonic() + STOP_S
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):  # after a flood the reader waits for room
                self._messages.get(timeout=EMPTY_POLL_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                self._pipe(pipe).close()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101 - all three are asked for
        return pipe

    def _command(self, command: Message) -> str:
        nonce = secrets.token_hex(NONCE_BYTES)
        self._lines_left, self._bytes_left = LINES_MAX, BYTES_MAX
        data = (json.dumps({**command, "nonce": nonce}) + "\n").encode()
        with contextlib.suppress(OSError):  # a dead parent is found out by the silence that follows
            _write_all(self._pipe(self._parent.process.stdin).fileno(), data, STALL_S)
        return nonce

    def _next(self, nonce: str, timeout_s: float) -> Message | None:
        """The next message of this nonce; None when the parent died, fell silent, or sent garbage or too much."""
        patience, stopped_s = Patience(timeout_s), 0.0
        while (wait := patience.slice()) > 0 and self._lines_left > 0 and self._bytes_left > 0:
            try:
                line = self._messages.get(timeout=wait)
            except queue.Empty:
                stopped_s = stopped_s + wait if _is_stopped(self._parent.process.pid) else 0.0
                if stopped_s > STALL_S:
                    return None
                continue
            if line is None:
                return None
            self._lines_left -= 1
            self._bytes_left -= len(line)
            head, _, body = line.partition(b" ")
            if head != nonce.encode():
                continue  # forged, or left over from a launch that was killed
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(body)
                if isinstance(message, dict) and isinstance(message.get("event"), str):
                    return message
            return None
        return None


def _is_stopped(process: int) -> bool:
    """Whether somebody stopped a process, while this one runs: it may stay so for ever."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2].startswith(b"T")
    return False


def _write_all(descriptor: int, data: bytes, stall_s: float) -> None:
    """Write to a pipe whose reader may have been stopped for good: raises OSError when it takes nothing for so long."""
    os.set_blocking(descriptor, False)
    while data:
        if not select.select([], [descriptor], [], stall_s)[1]:
            raise TimeoutError
        data = data[os.write(descriptor, data) :]


def _pump_lines(pipe: IO[bytes], messages: queue.Queue[bytes | None]) -> None:
    """Move lines from a pipe into a queue; an over-long line ends the session."""
    with contextlib.suppress(OSError, ValueError):
        while line := pipe.readline(LINE_MAX + 1):
            if len(line) > LINE_MAX:
                break
            messages.put(line.rstrip(b"\n"))
    messages.put(None)


class _Tail:
    """The last bytes of a stream, however much flows through."""

    def __init__(self, limit: int) -> None:
        self._chunks: collections.deque[bytes] = collections.deque()
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()

    def drain(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), 1 << 16):
                self.add(chunk)

    def add(self, chunk: bytes) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._size += len(chunk)
            while self._size - len(self._chunks[0]) >= self._limit:
                self._size -= len(self._chunks.popleft())

    def clear(self) -> None:
        with self._lock:
            self._chunks.clear()
            self._size = 0

    def text(self) -> str:
        with self._lock:
            return b"".join(self._chunks)[-self._limit :].decode("utf-8", "replace")
