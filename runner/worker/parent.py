"""The warm parent: imports torch once, never touches CUDA, and starts every launch of its side.

A launch is a fork of this process, or a plainly started interpreter. It lives in a process group of its own, reports
`begin` before each case, and is killed, group and all, when a case makes no progress within its deadline. A parent
whose driver is gone (stdin at its end) kills its launch and leaves.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..process import leftovers, stacks
from ..process.channel import (
    BETWEEN_DEADLINE_S,
    COMMAND_MAX,
    START_DEADLINE_S,
    LineBuffer,
    parsed_command,
    parsed_message,
)
from ..process.patience import Patience
from . import children
from .launch import jobs

READ_BYTES = 1 << 16
OURS = ("exit", "warm")  # messages that the warm parent alone sends


def main(arguments: list[str]) -> int:
    """Entry point of the worker process. Returns its exit status."""
    if arguments == ["launch"]:
        return children.plain_launch()
    alone = arguments == ["alone"]
    if alone and 1 not in (os.getpid(), os.getppid()):
        sys.exit("not the first process of a container: ending all others would end those of this user")
    records = os.dup(1)
    os.dup2(2, 1)  # whatever prints from now on goes to stderr
    return WarmParent(sys.stdin.fileno(), records, alone=alone).serve()


class WarmParent:
    """Serves the driver's commands, one at a time, until stdin ends.

    Args:
        commands, records: descriptors to read from and to write to.
        alone: all other processes that it can see are its launches': it has a container of its own.
    """

    def __init__(self, commands: int, records: int, *, alone: bool = False) -> None:
        self._commands = commands
        self._records = records
        self._alone = alone
        self._lines = LineBuffer(COMMAND_MAX)
        self._waiting: list[dict[str, Any]] = []
        self._ended = False

    def serve(self) -> int:
        """Answer `warm` and `launch` until the driver closes its end."""
        leftovers.adopt()
        while (command := self._next()) is not None:
            nonce = str(command["nonce"])
            if command["command"] == "warm":
                self._send(nonce, warm_up(command["root"], command["preload"]))
            elif command["command"] == "launch":
                self._launch(nonce, command["job"], fork=bool(command["fork"]))
        return 0

    def _send(self, nonce: str, message: dict[str, Any]) -> None:
        self._relay(nonce, json.dumps(message, separators=(",", ":")).encode())

    def _relay(self, nonce: str, line: bytes) -> None:
        data = nonce.encode() + b" " + line + b"\n"
        while data:
            data = data[os.write(self._records, data) :]

    def _next(self) -> dict[str, Any] | None:
        while not self._waiting and not self._ended:
            self._read_commands()
        return self._waiting.pop(0) if self._waiting else None

    def _read_commands(self) -> None:
        data = os.read(self._commands, READ_BYTES)
        self._ended = not data
        found = [parsed_command(line) for line in self._lines.feed(data) if line]
        self._waiting += [command for command in found if command is not None]

    def _launch(self, nonce: str, job: dict[str, Any], *, fork: bool) -> None:
        read_end, write_end = os.pipe()
        own = leftovers.children()  # of what `preload` started
        child = children.fork(job, write_end, (read_end, self._records)) if fork else children.spawn(job, write_end)
        os.close(write_end)
        try:
            status, detail, launch = self._watch(nonce, child, read_end)
            if status == "timeout":
                stacks.ask(child)
        finally:
            os.close(read_end)
            children.kill_group(child)
            if self._alone:
                children.end_all_others()
            leftovers.end_children(own)
        exit_message = {"event": "exit", "status": status, "detail": detail, "killed": detail == children.KILLED}
        self._send(nonce, exit_message | {"case": launch.case, "paused_s": launch.paused_s})

    def _watch(self, nonce: str, child: int, records: int) -> tuple[str, str, _Watched]:
        """Relay the launch's lines until it ends. Returns status, detail, and what is known of the launch."""
        launch = _Watched(LineBuffer())
        with selectors.DefaultSelector() as selector:
            selector.register(records, selectors.EVENT_READ)
            selector.register(self._commands, selectors.EVENT_READ)
            while True:
                ready = selector.select(launch.patience.slice())
                if not ready and launch.patience.left() <= 0:
                    return "timeout", f"no progress within {launch.limit_s:g} s", launch
                if not ready and children.has_ended(child):  # what it left running may hold the records open
                    return (*children.reap(child, launch.done), launch)
                for key, _ in ready:
                    if key.fd == self._commands:
                        self._read_commands()
                        if self._ended:  # the driver is gone
                            children.kill_group(child)
                            leftovers.end_children(frozenset())
                            os._exit(1)
                        continue
                    data = os.read(records, READ_BYTES)
                    if not data:
                        return (*children.reap(child, launch.done), launch)
                    if not self._relay_lines(nonce, launch, data):
                        return "crashed", "a line on the record stream is no message of ours", launch
                    if launch.done:  # what it left running holds the records open, and is killed with its group
                        return (*children.reap(child, launch.done), launch)

    def _relay_lines(self, nonce: str, launch: _Watched, data: bytes) -> bool:
        """Hand on the whole lines; false at the first that is no message."""
        for line in launch.lines.feed(data):
            if line is None or not launch.understands(line):
                return False
            self._relay(nonce, line)
        return True


@dataclass
class _Watched:
    """What the warm parent knows of the launch that it watches."""

    lines: LineBuffer
    case: str | None = None
    done: bool = False
    limit_s: float = START_DEADLINE_S
    patience: Patience = field(default_factory=lambda: Patience(START_DEADLINE_S))
    paused_before_s: float = 0.0

    @property
    def paused_s(self) -> float:
        """How long the warm parent stood still, and so most likely all that it watches."""
        return round(self.paused_before_s + self.patience.paused_s, 3)

    def understands(self, line: bytes) -> bool:
        """Take note of a message; false for what is none. Every case begun and finished moves the deadline."""
        message = parsed_message(line)
        if message is None:
            return False
        event = message["event"]
        if event in OURS:
            return False
        if event in ("begin", "finish"):
            begun = event == "begin"
            self.case = str(message.get("case")) if begun else None
            limit = message.get("timeout_s") if begun else BETWEEN_DEADLINE_S
            if not isinstance(limit, int | float):
                return False
            self.limit_s = float(limit)
            self.paused_before_s = self.paused_s
            self.patience = Patience(self.limit_s)
        self.done = self.done or event == "done"
        return True


def warm_up(root: str, preload: list[str]) -> dict[str, Any]:
    """Import torch and `preload` into this process, so that forks have them. Never initialises a device.

    Returns a message: `torch` (its version, empty without), `error`, and `touched`: whether a device was initialised
    all the same, so that launches must start plainly.
    """
    message: dict[str, Any] = {"event": "warm", "torch": "", "error": "", "touched": False}
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        message["torch"] = str(torch.__version__)
        with contextlib.suppress(Exception):  # absent or broken: the launch that needs it says so
            importlib.import_module("cupti.cupti")  # loads its modules, and no driver
    jobs.enter_root(root)
    try:
        for name in preload:
            importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        message["error"] = jobs.one_line(error)
    message["touched"] = device_touched()
    gc.collect()
    gc.freeze()  # what the parent imported is never collected in a launch, so a collection there stays cheap
    return message


def device_touched() -> bool:
    """Whether this process has opened an NVIDIA device: a fork of it could not use CUDA."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return True
    with contextlib.suppress(OSError):
        return any(target.startswith("/dev/nvidia") for target in _open_files())
    return False


def _open_files() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield str(entry.readlink())
