"""How launches start: one interface, whatever holds the processes.

A `Launcher` opens one `Session` a side. A session holds the side's warm parent; `launch` starts one launch in it and
yields its messages. What comes out of a launch is foreign: lines without the launch's nonce, over-long lines and
silence end the launch, never the run.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from .sides import Side
from .worker.channel import LINE_MAX, START_DEADLINE_S

OUTPUT_KEPT = 64 << 10  # bytes of a launch's own output kept for an error message
MESSAGES_MAX = 1_000_000  # of one launch: a flood ends it
GRACE_S = 15.0  # the warm parent enforces deadlines; the driver steps in this much later
STOP_S = 3.0  # a parent whose stdin is closed leaves within this
WARM_S = 600.0  # importing torch and preload from a cold disk
NONCE_BYTES = 16

Message = dict[str, Any]


class Session(Protocol):
    """One side's launches."""

    def warm(self, preload: Sequence[str]) -> Message:
        """Import torch and `preload` in the parent; returns its `warm` message."""

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        """Start a launch and yield its messages; the last is always `exit`.

        `timeout_s` is the longest deadline of one case: longer silence is a dead parent.
        """

    def output_tail(self) -> str:
        """The end of what the last launch printed."""

    def close(self) -> None:
        """End the parent and whatever it started."""


class Launcher(Protocol):
    """Opens sessions."""

    def open(self, side: Side, gpu: str) -> Session:
        """A session for a side on one GPU (its UUID; empty for none)."""


class LocalLauncher:
    """Launches as plain processes of this machine: for one's own code, not for a stranger's."""

    def open(self, side: Side, gpu: str) -> LocalSession:
        """Start the side's warm parent."""
        return LocalSession(side, gpu)


class LocalSession:
    """A warm parent as a local process in a group of its own."""

    def __init__(self, side: Side, gpu: str) -> None:
        self._side = side
        self._environment = dict(side.environment)
        if gpu:
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu
        self._preload: Sequence[str] | None = None
        self._start()

    def warm(self, preload: Sequence[str]) -> Message:
        """See `Session.warm`."""
        self._preload = preload
        nonce = self._command({"command": "warm", "root": str(self._side.root), "preload": list(preload)})
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
        case = None
        for _ in range(MESSAGES_MAX):
            message = self._next(nonce, max(timeout_s, START_DEADLINE_S) + GRACE_S)
            if message is None:
                break
            case = message.get("case") if message["event"] == "begin" else case
            yield message
            if message["event"] == "exit":
                return
        self._restart()
        yield {
            "event": "exit",
            "status": "crashed",
            "detail": "the side's warm parent died or fell silent",
            "case": case,
        }

    def output_tail(self) -> str:
        """See `Session.output_tail`."""
        return self._output.text()

    def close(self) -> None:
        """See `Session.close`."""
        with contextlib.suppress(OSError):
            self._pipe(self._process.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._kill()

    def _start(self) -> None:
        worker = Path(__file__).resolve().parent / "worker" / "__main__.py"
        self._process = subprocess.Popen(
            [str(self._side.python), "-P", str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            cwd=self._side.root,
            start_new_session=True,
        )
        self._messages: queue.Queue[bytes | None] = queue.Queue(maxsize=1_000)
        self._output = _Tail(OUTPUT_KEPT)
        self._threads = [
            threading.Thread(target=_pump_lines, args=(self._pipe(self._process.stdout), self._messages), daemon=True),
            threading.Thread(target=self._output.drain, args=(self._pipe(self._process.stderr),), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _restart(self) -> None:
        self._kill()
        tail = self._output.text()
        self._start()
        self._output.add(tail.encode())
        if self._preload is not None:
            self.warm(self._preload)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(STOP_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                self._pipe(pipe).close()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101 - all three are asked for
        return pipe

    def _command(self, command: Message) -> str:
        nonce = secrets.token_hex(NONCE_BYTES)
        data = (json.dumps({**command, "nonce": nonce}) + "\n").encode()
        with contextlib.suppress(OSError):  # a dead parent is found out by the silence that follows
            self._pipe(self._process.stdin).write(data)
            self._pipe(self._process.stdin).flush()
        return nonce

    def _next(self, nonce: str, timeout_s: float) -> Message | None:
        """The next message of this nonce; None when the parent died, fell silent or sent garbage."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._messages.get(timeout=left)
            except queue.Empty:
                return None
            if line is None:
                return None
            head, _, body = line.partition(b" ")
            if head != nonce.encode():
                continue  # forged, or left over from a launch that was killed
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(body)
                if isinstance(message, dict) and isinstance(message.get("event"), str):
                    return message
            return None
        return None


def _pump_lines(pipe: IO[bytes], messages: queue.Queue[bytes | None]) -> None:
    """Move lines from a pipe into a queue; an over-long line ends the session."""
    with contextlib.suppress(OSError, ValueError):
        while line := pipe.readline(LINE_MAX + 1):
            if len(line) > LINE_MAX:
                break
            messages.put(line.rstrip(b"\n"))
    with contextlib.suppress(queue.Full):
        messages.put(None, timeout=1)


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
