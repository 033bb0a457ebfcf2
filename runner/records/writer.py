"""Append events to `results.jsonl`, line by line, so that a killed run loses nothing that it measured."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from ..errors import UsageError
from .events import Event


def dump(event: Event) -> str:
    """One event as one line of JSON, without the newline."""
    return json.dumps(event.model_dump(by_alias=True, mode="json"), separators=(",", ":"), allow_nan=False)


class Writer:
    """An append-only results file, locked while it is open. Every event is one `write` of one whole line.

    Args:
        path: the file.
        resume: append to an existing file; else the file must be new.

    Raises:
        UsageError: the file exists and `resume` is false, another run is writing it, or it cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        flags = os.O_WRONLY | os.O_APPEND | (0 if resume else os.O_CREAT | os.O_EXCL)
        try:
            self._descriptor = os.open(path, flags, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise UsageError(f"{path} is being written by another run", "wait for it to end") from None
        except FileExistsError:
            raise UsageError(f"{path} exists already", "give another --output, or go on with --resume") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        self.path = path
        self._one_at_a_time = threading.Lock()  # launches on several GPUs write to one file
        self._error = ""  # why it cannot be written any more

    def cut_unfinished_line(self) -> None:
        """Before appending to an interrupted run: cut off the line that it was writing."""
        cut_unfinished_line(self.path)

    def write(self, event: Event) -> None:
        """Append one event. Raises `UsageError` when the disk is full or the file is gone, and for all events after that.

        Part of a line may stand at the end by then, and what followed it would spoil the file.
        """
        data = (dump(event) + "\n").encode()
        with self._one_at_a_time:
            try:
                while data and not self._error:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                self._error = str(error.strerror)
        if self._error:
            raise UsageError(
                f"{self.path} cannot be written any more: {self._error}", "free some space, then go on with --resume"
            )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def cut_unfinished_line(path: Path) -> None:
    """Cut off what follows the last newline: the line that a killed run was writing."""
    with path.open("rb+") as file:
        position = file.seek(0, os.SEEK_END)
        while position > 0:
            step = min(position, 65_536)
            file.seek(position - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                file.truncate(position - step + newline + 1)
                return
            position -= step
        file.truncate(0)
