"""JSON lines between driver, warm parent and launch."""

from __future__ import annotations

import json
import os
from typing import Any

LINE_MAX = 1 << 20  # the reader of results takes no longer line either
START_DEADLINE_S = 300.0  # for imports and the device's context, before the first case begins


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

    def __init__(self) -> None:
        self._rest = b""
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Add bytes as they came; returns the lines that are now whole, without their newline."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines: list[bytes | None] = []
        for line in whole:
            if self._dropping or len(line) > LINE_MAX:
                lines.append(None)
                self._dropping = False
            else:
                lines.append(line)
        if len(self._rest) > LINE_MAX:
            self._rest = b""
            self._dropping = True
        return lines
