"""Which files the project's own modules were loaded from, in this process: the driver compares the two sides.

Only modules that the repository itself holds are reported, with the shared objects of an installed copy, and files of any
name that lie in a folder where this side has no business, such as the other side's tree.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

TEXT_MAX = 512 << 10  # characters of names and paths that are reported: half of the longest line of a launch
HASHED_MAX = 16 << 20  # bytes of a file whose content is hashed; of a larger one, its size
STANDARD_LIBRARY = tuple(f"{os.path.dirname(path)}/" for path in (os.__file__, os.path.realpath(os.__file__)))  # noqa: PTH120
HARNESS = str(Path(__file__).resolve().parents[2])  # evenbench's own folder


def report(origin: Mapping[str, Any], cases: str, *, hashed: bool) -> dict[str, Any]:
    """The `modules` message of this process.

    Args:
        origin: from the driver: `names`, dotted prefixes of the repository's own modules; `distributions`, names of its
            projects; `foreign`, folders that modules of this side must not come from.
        cases: the cases directory, whose files are known to the driver.
        hashed: with a digest of the files' contents, of each top-level name.

    Returns:
        `modules`, name → real path; and by top-level name `versions` and, where `hashed`, `digests`.
    """
    names, known = _own_names(tuple(origin["names"]), tuple(origin["distributions"]))
    versions, real_cases, modules = dict(known), os.path.realpath(cases), dict[str, str]()
    for name, file in _loaded():
        own = _is_own(name, names)
        if not own and _is_installed(file):
            continue
        path = _real(file)
        if _is_below(path, HARNESS) or _is_below(path, real_cases):
            continue
        if own or (not _is_installed(path) and any(_is_below(path, folder) for folder in origin["foreign"])):
            modules[name] = path
    modules |= _libraries({name.partition(".")[0] for name in names}, origin["foreign"], set(modules.values()))
    kept: dict[str, str] = {}
    room = TEXT_MAX
    for name, path in sorted(modules.items()):
        room -= len(name) + len(path)
        if room > 0:
            kept[name] = path
    tops = {name.partition(".")[0] for name in kept}
    for top in tops - versions.keys():
        version = vars(sys.modules.get(top, sys)).get("__version__")
        versions[top] = version if isinstance(version, str) and top in sys.modules else ""
    message: dict[str, Any] = {
        "event": "modules",
        "modules": kept,
        "versions": {top: versions[top][:100] for top in tops},
    }
    if hashed:
        message["digests"] = {top: _digest(kept, top) for top in tops}
    return message


@functools.cache
def _own_names(names: tuple[str, ...], distributions: tuple[str, ...]) -> tuple[frozenset[str], Mapping[str, str]]:
    """Prefixes of the project's modules, and versions by top-level name: of the tree, and of what is installed of it."""
    prefixes, versions = set(names), {}
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, OSError, ValueError):
            distribution = importlib.metadata.distribution(name)
            for top in _top_level(distribution):
                prefixes.add(top)
                versions[top] = str(distribution.version)
    return frozenset(prefixes), MappingProxyType(versions)


def _top_level(distribution: importlib.metadata.Distribution) -> set[str]:
    """The top-level modules that an installed project has; of a namespace package, what lies in it."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    tops = set()
    for file in distribution.files or ():
        parts = file.parts
        if parts[0].endswith((".dist-info", ".egg-info", ".data")) or parts[0] in {"..", "__pycache__"}:
            continue
        if len(parts) == 1:
            name = re.match(r"(\w+)(\.[\w-]+)?\.(py|so|pyd)$", parts[0])
            if name and not name[1].startswith("__editable__"):
                tops.add(name[1])
        elif len(parts) == 2 and parts[1] == "__init__.py":
            tops.add(parts[0])
    return tops | {name for name in listed if name.isidentifier()}


def _loaded() -> Iterator[tuple[str, str]]:
    """Name and path of every module that was loaded from a file. Asks no module: some import when they are asked."""
    for name, module in list(sys.modules.items()):
        with contextlib.suppress(Exception):  # sys.modules may hold any object
            path = object.__getattribute__(module, "__dict__").get("__file__")
            if isinstance(name, str) and isinstance(path, str) and path:
                yield name, path


def _is_own(name: str, prefixes: frozenset[str]) -> bool:
    """Whether a module is one of these, or lies in one."""
    while name:
        if name in prefixes:
            return True
        name = name.rpartition(".")[0]
    return False


def _real(path: str) -> str:
    """The real path of a file; its folder's is kept, since many files share it."""
    file = os.path.join(_real_folder(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120 - many
    return os.path.realpath(file) if os.path.islink(file) else file  # noqa: PTH114 - as above


_real_folder = functools.cache(os.path.realpath)


def _libraries(tops: set[str], foreign: Sequence[str], known: set[str]) -> dict[str, str]:
    """Shared objects of the project that were not loaded as modules, such as by ``torch.ops.load_library``: name → path."""
    libraries = {}
    for path in _mapped():
        installed = re.search(r"/(?:site|dist)-packages/([^/]+)/", path)
        if path in known or _is_below(path, HARNESS):
            continue
        if installed is not None and installed[1] in tops:
            libraries[f"{installed[1]}.{os.path.basename(path)}"] = path  # noqa: PTH119 - as above
        elif installed is None and any(_is_below(path, folder) for folder in foreign):
            libraries[os.path.basename(path)] = path  # noqa: PTH119 - as above
    return libraries


def _mapped() -> set[str]:
    """The shared objects that this process has mapped; none where the kernel does not list them."""
    paths = set()
    with contextlib.suppress(OSError), Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            path = line.rstrip("\n").split(maxsplit=5)[5:]
            if path and re.search(r"\.so(\.|$)", path[0]):
                paths.add(path[0])
    return paths


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _is_installed(path: str) -> bool:
    """Whether a file is the interpreter's, or lies among installed packages: an environment may lie in a checkout."""
    return "/site-packages/" in path or "/dist-packages/" in path or path.startswith(STANDARD_LIBRARY)


def _digest(modules: Mapping[str, str], top: str) -> str:
    digest = hashlib.sha256()
    for name, path in modules.items():
        if name.partition(".")[0] == top:
            digest.update(f"{name}\0".encode("utf-8", "replace") + _content(Path(path)))
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        return hashlib.sha256(path.read_bytes()).digest() if size <= HASHED_MAX else str(size).encode()
    except OSError:  # gone since, or in an archive
        return b""
