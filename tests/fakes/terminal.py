"""A terminal that a test looks at: a real pseudo-terminal with a real program in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PATIENCE_S = 60.0  # a hung program fails its test, not the whole suite
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]")


class Terminal:
    """A program in a terminal of so many columns and lines; `raw` is all that it wrote so far."""

    def __init__(self, process: int, descriptor: int) -> None:
        self._process, self._descriptor = process, descriptor
        self._status: int | None = None
        self.raw = ""

    @property
    def text(self) -> str:
        """What it wrote, without control sequences."""
        return CONTROL.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        """Every line that ever stood there."""
        return re.split(r"[\r\n]+", self.text)

    def type(self, keys: str) -> None:
        """Type."""
        os.write(self._descriptor, keys.encode())

    def until(self, pattern: str, after: int = 0) -> re.Match[str]:
        """Wait until the text behind so many characters of it matches."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.text[after:], re.DOTALL)) is None:
            assert self._read(), f"it ended without {pattern!r}: {self.text[-2000:]}"
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text[-2000:]}"
        return found

    def end(self) -> int:
        """Wait for its end; its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, self.text[-2000:]
        if self._status is None:
            self._status = os.waitpid(self._process, 0)[1]
        return os.waitstatus_to_exitcode(self._status)

    def close(self) -> None:
        """End it where it has not."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._descriptor)

    def _read(self) -> bool:
        """Take up what is there, after a moment's wait. Returns whether there may be more."""
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return True
        try:
            new = os.read(self._descriptor, 1 << 16)
        except OSError:  # Linux says so of a terminal that nobody has open any more
            return False
        self.raw += new.decode(errors="replace")
        return bool(new)


@contextlib.contextmanager
def terminal(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], columns: int = 80, height: int = 24
) -> Iterator[Terminal]:
    """The program in its terminal while this is open."""
    process, descriptor = pty.fork()
    if process == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, columns, 0, 0))
            os.chdir(cwd)
            os.execvpe(command[0], list(command), dict(environment))
        finally:
            os._exit(127)
    shown = Terminal(process, descriptor)
    try:
        yield shown
    finally:
        shown.close()
