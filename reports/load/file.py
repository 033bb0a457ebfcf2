"""One results file, which may hold or be anything → `Gathered`, or an error that names the file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import Reading

from ..text import sanitise
from .lines import Gathered, gather

WRITTEN = "`evenbench run` and `evenbench compare` write their results into .evenbench/, or where --output says"


def read_file(path: Path, max_bytes: int | None) -> Gathered:
    """Read a file by itself.

    Raises:
        UsageError: the file is not there, or may not be read.
        UntrustedInput: it is not a regular file, is larger than `max_bytes`, or not what it says.
    """
    try:
        with _opened(path) as stream:
            if max_bytes is not None and os.fstat(stream.fileno()).st_size > max_bytes:
                raise UntrustedInput(f"larger than {max_bytes} bytes")
            return gather(Reading(stream, max_bytes=max_bytes))
    except UntrustedInput as error:
        raise UntrustedInput(f"{path}: {sanitise(error.message)}", error.hint) from None  # it may quote the file


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, opened without following a link in its last part, and without waiting for a FIFO's writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", WRITTEN) from None
    except OSError as error:
        if path.is_symlink():
            raise UntrustedInput("a symbolic link, not a regular file", "name the file that it leads to") from None
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UntrustedInput("not a regular file", f"name files: {WRITTEN}")
    with os.fdopen(descriptor, "rb", buffering=1 << 20) as stream:  # bytes: a line has a few kB, so fewer system calls
        yield stream
