"""Saved copies that no case gives any more, found only where every case that might give one has told its texts.

Folders are walked on this machine, and no link is followed. What lies in `artifacts/` and cannot be a copy that was
saved by `evenbench.runner.artifacts.texts` is left alone: links, folders, hidden files, what is no text or too long for one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ..case.artifact_names import FOLDER, NAME_LENGTH, NAME_PATTERN, TEXT_MAX, encoded_size
from ..records.fields import ARTIFACTS_MAX, NAME_MAX
from .tree_files import Names, names_below, read_below

FOLDERS_MAX = 10_000  # that are walked: a tree may be a stranger's
CACHE = "__pycache__"


def stale_copies(
    tree: Path,
    cases: Sequence[str],
    given: Collection[tuple[PurePosixPath, str]],
    told: Mapping[PurePosixPath, bool],
) -> list[tuple[PurePosixPath, str]]:
    """Folder of the case files, and name, of each saved copy that no case gives any more; not all of too many.

    Args:
        cases: the parts of the way from the tree to the cases directory.
        given: folder and name of each text that a case gave.
        told: the folders in which cases are declared, and whether all cases of each have told their texts.
    """
    found: list[tuple[PurePosixPath, str]] = []
    for folder, names in _walked(tree, cases):
        # Without a Python file there is no case any more. With one, and no case, they may be for other machines. Where
        # the whole tree is the cases directory, folders of that name may be anybody's.
        if FOLDER not in names.folders or not told.get(folder, bool(cases) and not _holds_python(names)):
            continue
        beside = [*cases, *folder.parts, FOLDER]
        for name in names_below(tree, beside).files:
            if (folder, name) not in given and NAME_PATTERN.fullmatch(name) and _may_be_ours(tree, beside, name):
                found.append((folder, name))
            if len(found) >= ARTIFACTS_MAX:
                return found
    return found


def _walked(tree: Path, cases: Sequence[str]) -> Iterator[tuple[PurePosixPath, Names]]:
    """The folders in which discovery looks for cases, and what they hold; bounded, and none that no record can name."""
    left = [PurePosixPath()]
    for _ in range(FOLDERS_MAX):
        if not left:
            return
        folder = left.pop()
        names = names_below(tree, [*cases, *folder.parts])
        yield folder, names
        below = [folder / name for name in reversed(names.folders) if name not in (FOLDER, CACHE) and name[0] != "."]
        left += [path for path in below if _can_be_named(cases, path)]


def _can_be_named(cases: Sequence[str], folder: PurePosixPath) -> bool:
    path = "/".join([*cases, *folder.parts, FOLDER])
    return len(path) + 1 + NAME_LENGTH <= NAME_MAX and path.encode("utf-8", "replace").decode() == path


def _holds_python(names: Names) -> bool:
    return any(name.endswith(".py") for name in (*names.files, *names.other))


def _may_be_ours(tree: Path, folders: Sequence[str], name: str) -> bool:
    """Whether it could have been saved as a copy, by its content."""
    data = read_below(tree, folders, name, TEXT_MAX + 1)
    try:
        return data is not None and len(data) <= TEXT_MAX and encoded_size(data.decode()) <= TEXT_MAX
    except UnicodeDecodeError:
        return False
