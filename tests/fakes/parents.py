"""A real warm parent, driven by hand: what the driver of a run does with it, without the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parents[2] / "runner" / "worker" / "__main__.py"
NONCE = "n"
END_S = 30.0  # a parent whose stdin ends kills its launch and leaves


@dataclass(frozen=True)
class Parent:
    """A warm parent and its two pipes."""

    process: subprocess.Popen[str]

    def send(self, command: str, **fields: object) -> None:
        """Send a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"command": command, "nonce": NONCE, **fields}) + "\n")
        self.process.stdin.flush()

    def next(self, event: str) -> dict[str, Any]:
        """The next message that is such an event."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line.removeprefix(f"{NONCE} "))
            if message["event"] == event:
                return message
        raise AssertionError(f"the warm parent ended with {self.process.wait(END_S)} before it sent {event!r}")


@contextmanager
def warm_parent(**variables: str) -> Iterator[Parent]:
    """A warm parent with these variables. On leaving, its launch, itself and both pipes are gone."""
    with subprocess.Popen(
        [sys.executable, "-P", str(WORKER)],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Parent(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
