"""JSON lines between driver, warm parent and launch."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

LINE_MAX = 1 << 20  # the reader of results takes no longer line either
COMMAND_MAX = 64 << 20  # of a line to the warm parent: 10,000 cases of some kB each
COMMANDS: Mapping[str, frozenset[str]] = MappingProxyType(  # command → what it must bring
    {"warm": frozenset({"nonce", "root", "preload"}), "launch": frozenset({"nonce", "job", "fork"})}
)
START_DEADLINE_S = 300.0  # for imports and the device's context, before the first case begins
BETWEEN_DEADLINE_S = 60.0  # between two cases, and after the last, there is next to nothing to do


class Channel:
    """The way out of a launch: one JSON object a line into a descriptor that nothing else writes to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: dict[str, Any]) -> None:
        """Write one message whole, or raise OSError when nobody reads any more."""
        data = (json.dumps(message, separators=(",", ":"), allow_nan=False) + "\n").encode()
        while data:
            data = data[os.write(self._descriptor, data) :]


class LineBuffer:
    """Bytes in, whole lines out; a line over the limit is handed out as None, once, and dropped."""

    def __init__(self, limit: int = LINE_MAX) -> None:
        self._limit = limit
        self._rest = b""
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Add bytes as they came; returns the lines that are now whole, without their newline."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines: list[bytes | None] = []
        for line in whole:
            if self._dropping or len(line) > self._limit:
                lines.append(None)
                self._dropping = False
            else:
                lines.append(line)
        if len(self._rest) > self._limit:
            self._rest = b""
            self._dropping = True
        return lines


def parsed_message(line: bytes) -> dict[str, Any] | None:
    """A launch's line as the message that it is; None for what is none."""
    message = _object(line)
    return message if message is not None and isinstance(message.get("event"), str) else None


def parsed_command(line: bytes) -> dict[str, Any] | None:
    """A command of the driver; None for anything else: a launch of the same user can write to the parent's stdin too."""
    command = _object(line)
    if command is None or not isinstance(command.get("command"), str):
        return None
    needed = COMMANDS.get(command["command"])
    return command if needed is not None and needed <= command.keys() else None


def _object(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        return found if isinstance(found, dict) else None
    return None
