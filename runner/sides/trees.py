"""The files of a side that count: listed, hashed, copied, removed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ..errors import UsageError
from .git import git, has_git

Stamp = tuple[int, int] | None  # size and nanosecond of the last change; None for what is not there
READABLE_FILE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
READABLE_FOLDER = READABLE_FILE | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
CODE_SUFFIXES = frozenset({".py", ".pyi", ".so", ".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".ptx", ".cubin"})


def copy_tree(source: Path, destination: Path, *, exclude: Collection[Path] = ()) -> None:
    """Copy the files that count into a new folder: symbolic links as links, modes kept, nothing of git."""
    destination.mkdir(parents=True)
    for name in tree_files(source, exclude):
        path, target = source / name, destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            target.mkdir(exist_ok=True)
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            shutil.copy2(path, target, follow_symlinks=False)


def tree_files(root: Path, exclude: Collection[Path] = ()) -> list[str]:
    """Sorted names, relative to root, of what counts: tracked and unignored files where git knows them, else all.

    Symbolic links and empty folders count as entries; compiled Python files never do.
    """
    names = _git_files(root) if has_git(root) else _plain_files(root)
    return [name for name in sorted(counted(root, names, exclude)) if os.path.lexists(root / name)]


def counted(root: Path, names: Iterable[str], exclude: Collection[Path] = ()) -> list[str]:
    """Of names relative to root, those that count: not excluded, and no compiled Python files."""
    outside = [path.resolve() for path in exclude]
    below = [str(path.relative_to(root.resolve())) for path in outside if path.is_relative_to(root.resolve())]
    return [
        name
        for name in names
        if "__pycache__" not in name.split("/")
        and not any(name == folder or name.startswith(f"{folder}/") for folder in below)
    ]


def code_stamps(root: Path, exclude: Collection[Path] = ()) -> dict[str, Stamp]:
    """Size and time of change of the files that a launch may run: what git tracks, and other code; else all files.

    A log that somebody writes into the tree meanwhile is no code.
    """
    names = tree_files(root, exclude)
    if has_git(root):
        tracked = set(os.fsdecode(git("ls-files", "-z", "--cached", cwd=root).output).split("\0"))
        names = [name for name in names if name in tracked or Path(name).suffix in CODE_SUFFIXES]
    return {name: _stamp(root / name) for name in names}


def edited_since(root: Path, before: Mapping[str, Stamp]) -> list[str]:
    """The files of `code_stamps` that are not what they were, or gone."""
    return [name for name, stamp in before.items() if _stamp(root / name) != stamp]


def _stamp(path: Path) -> Stamp:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def make_readable(root: Path) -> None:
    """Let every user read a tree of ours: a container's has no other right to it."""
    root.chmod(root.stat().st_mode | READABLE_FOLDER)
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (READABLE_FOLDER if path.is_dir() else READABLE_FILE))


def remove_tree(path: Path) -> None:
    """Remove a folder, read-only parts too, as far as this user may."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                Path(folder).chmod(stat.S_IRWXU)  # a folder without it cannot be emptied
        shutil.rmtree(path, ignore_errors=True)


def _git_files(root: Path) -> Iterator[str]:
    listing = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", cwd=root)
    for name in os.fsdecode(listing.output).split("\0"):
        path = root / name
        if name and path.is_dir() and not path.is_symlink():  # a submodule, or a repository inside this one
            yield from (f"{name.rstrip('/')}/{inner}" for inner in tree_files(path))
        elif name:
            yield name


def _plain_files(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        here = Path(folder).relative_to(root)
        links = [name for name in folders if (root / here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in (".git", "__pycache__", *links)]
        entries = [str(here / name) for name in (*files, *links) if name != ".git"]
        yield from entries or ([str(here)] if not folders and here.parts else [])


def tree_hash(root: Path, exclude: Collection[Path] = ()) -> str:
    """SHA-256 over the names, kinds, executable bits and contents of the files that count.

    Raises:
        UsageError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in tree_files(root, exclude):
        try:
            digest.update(os.fsencode(name) + b"\0" + _entry_hash(root / name))
        except OSError as error:
            raise UsageError(f"cannot read {root / name}: {error.strerror}") from error
    return digest.hexdigest()


def _entry_hash(path: Path) -> bytes:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return b"l" + hashlib.sha256(os.fsencode(path.readlink())).digest()
    if not stat.S_ISREG(mode):
        return b"d" + bytes(hashlib.sha256().digest_size)
    with path.open("rb") as stream:
        return (b"x" if mode & stat.S_IXUSR else b"f") + hashlib.file_digest(stream, "sha256").digest()
