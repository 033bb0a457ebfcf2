"""Files of a tree that a stranger may have filled: read and written without following a link below its root."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO's writer is not waited for
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Names(NamedTuple):
    """What a folder holds, each sorted: plain files, folders, and all else, such as links."""

    files: Sequence[str] = ()
    folders: Sequence[str] = ()
    other: Sequence[str] = ()


def names_below(root: Path, folders: Sequence[str]) -> Names:
    """What a folder holds; nothing where it is not there, cannot be read, or lies behind a link."""
    with contextlib.suppress(OSError), _opened(root, folders) as folder, os.scandir(folder) as entries:
        files: list[str] = []
        below: list[str] = []
        other: list[str] = []
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            else:
                (below if entry.is_dir(follow_symlinks=False) else other).append(entry.name)
        return Names(sorted(files), sorted(below), sorted(other))
    return Names()


def read_below(root: Path, folders: Sequence[str], name: str, most: int) -> bytes | None:
    """The first `most` bytes of a plain file; None where it is not there, is no plain file, or lies behind a link."""
    with contextlib.suppress(OSError), _opened(root, folders) as folder:
        descriptor = os.open(name, FILE, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None


def write_below(root: Path, folders: Sequence[str], name: str, data: bytes, *, make: int = 1) -> None:
    """Write a file, whole or not at all; a link of that name is replaced, and none is followed on the way.

    Args:
        make: how many of the last folders may be made.

    Raises:
        OSError: a folder is not there, is a link, or cannot be written.
    """
    with _opened(root, folders, make) as folder:
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(os.open(temporary, NEW, 0o644, dir_fd=folder), "wb") as stream:
                stream.write(data)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def remove_below(root: Path, folders: Sequence[str], name: str) -> None:
    """Remove a file; a link of that name itself, and none is followed on the way.

    Raises:
        OSError: it is not there, is a folder, lies behind a link, or cannot be removed.
    """
    with _opened(root, folders) as folder:
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def _opened(root: Path, folders: Sequence[str], make: int = 0) -> Iterator[int]:
    """A descriptor of the folder below `root`, each part of the way a folder itself."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, name in enumerate(folders):
            if number >= len(folders) - make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            below = os.open(name, FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)
