"""Finds the cases of a directory by importing its files; runs inside a launch only.

The directory becomes a package under a private name, so its files may import each other relatively and none of them
takes a name that the user's own code needs.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ..errors import CaseError
from .declare import Case, GridPoint

PACKAGE = "_evenbench_cases"
SKIPPED_FOLDERS = frozenset({"__pycache__", "artifacts"})  # caches, and generated code that cases keep beside them
MESSAGE_MAX = 300  # characters of a foreign error message worth a line in a report


@dataclass(frozen=True)
class BrokenFile:
    """A file that could not be imported.

    Args:
        file: its path, relative to the cases directory.
        error: one line, ``file.py:line: ErrorType: message``.
        usage: a case in it is malformed (a `CaseError`), whatever the environment.
    """

    file: str
    error: str
    usage: bool = False


@dataclass(frozen=True)
class CasesDirectory:
    """What a cases directory holds.

    Args:
        cases: by file and then by declaration; `Case.file` is relative to the directory where it lies in it.
        broken: the files that could not be imported.
    """

    cases: list[Case]
    broken: list[BrokenFile]


def load(
    directory: Path, *, without: Collection[str] = (), announce: Callable[[str], object] = lambda _: None
) -> CasesDirectory:
    """Import every ``*.py`` below a directory and collect the `Case` objects that are attributes of its modules.

    Left out are hidden folders, ``__pycache__`` and ``artifacts``. A case counts once, for the file that declares it;
    one that a helper made counts where it was found.

    Args:
        without: files, relative to the directory, that are left out.
        announce: told each file just before its import, which may never return.

    Raises:
        CaseError: the directory does not exist, or two cases share an id (names both places).
    """
    directory = directory.resolve()
    if not directory.is_dir():
        raise CaseError(f"no cases directory at {directory}", "make one, or name it with --cases")
    broken: list[BrokenFile] = []
    at_home: dict[int, Case] = {}
    elsewhere: dict[int, Case] = {}
    _install_package(directory)
    for file in _python_files(directory):
        name = file.relative_to(directory).as_posix()
        if name in without:
            continue
        announce(name)
        try:
            module = _import(file.relative_to(directory))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a file raises costs only that file
            broken.append(_broken(error, file, directory))
            continue
        for case in _cases_in(module):
            (at_home if os.path.realpath(case.file) == os.path.realpath(file) else elsewhere)[id(case)] = case
    cases = list(at_home.values()) + _not_yet_counted(elsewhere, at_home)
    cases = [replace(case, file=_relative(case.file, directory)) for case in cases]
    cases.sort(key=lambda case: (case.file, case.line))  # stable: cases of one line stay as they were declared
    _refuse_duplicates(cases)
    return CasesDirectory(cases, broken)


def points_of(found: CasesDirectory) -> list[GridPoint]:
    """All grid points, in the order of file, declaration and grid."""
    return [point for case in found.cases for point in case.points]


def _install_package(directory: Path) -> None:
    """Put a fresh package over the directory; its own ``__init__.py``, if any, has yet to run."""
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    init = directory / "__init__.py"
    spec = spec_from_file_location(PACKAGE, init) if init.is_file() else ModuleSpec(PACKAGE, None, is_package=True)
    spec = spec or ModuleSpec(PACKAGE, None, is_package=True)
    spec.submodule_search_locations = [str(directory)]
    sys.modules[PACKAGE] = module_from_spec(spec)


def _python_files(directory: Path) -> list[Path]:
    """Sorted by path, but for the package's own ``__init__.py``, which Python would run first."""
    files: list[Path] = []
    for folder, subfolders, names in os.walk(directory):
        subfolders[:] = [name for name in subfolders if not name.startswith(".") and name not in SKIPPED_FOLDERS]
        files += [Path(folder, name) for name in names if name.endswith(".py") and not name.startswith(".")]
    return sorted(files, key=lambda file: (file != directory / "__init__.py", file.relative_to(directory).as_posix()))


def _import(relative: Path) -> ModuleType:
    parts = relative.with_suffix("").parts
    if any("." in part for part in parts):
        raise ImportError("a dot in the name of a case file or its folder cannot be imported; rename it")
    if parts == ("__init__",):
        package = sys.modules[PACKAGE]
        if package.__spec__ is not None and package.__spec__.loader is not None:
            package.__spec__.loader.exec_module(package)
        return package
    return importlib.import_module(".".join((PACKAGE, *parts)).removesuffix(".__init__"))


def _cases_in(module: ModuleType) -> list[Case]:
    # type() and not isinstance: lazy proxies among a module's attributes would be woken by the latter.
    return [value for value in vars(module).values() if type(value) is Case]


def _not_yet_counted(elsewhere: dict[int, Case], at_home: dict[int, Case]) -> list[Case]:
    """Cases that no file of their own holds: made by a helper, or declared outside the directory.

    The user's code may import a case file under its public name too; that second copy is told by its place.
    """
    counted = {(os.path.realpath(case.file), case.line, case.name) for case in at_home.values()}
    places = {key: (os.path.realpath(case.file), case.line, case.name) for key, case in elsewhere.items()}
    return [case for key, case in elsewhere.items() if places[key] not in counted]


def _relative(file: str, directory: Path) -> str:
    path = Path(file)
    return path.relative_to(directory).as_posix() if path.is_relative_to(directory) else file


def _broken(error: BaseException, file: Path, directory: Path) -> BrokenFile:
    relative = file.relative_to(directory).as_posix()
    message = " ".join(str(error).split())[:MESSAGE_MAX].replace(f"{directory}{os.sep}", "")
    if isinstance(error, CaseError):
        placed = message.startswith(f"{relative}:")
        return BrokenFile(relative, message if placed else f"{relative}:{_line(error, file)}: {message}", usage=True)
    return BrokenFile(relative, f"{relative}:{_line(error, file)}: {type(error).__name__}: {message}")


def _line(error: BaseException, file: Path) -> int:
    """The line of the file that raised, or that called what raised; 1 where it never ran."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 1
    lines = [frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return lines[-1] if lines else 1


def _refuse_duplicates(cases: list[Case]) -> None:
    first: dict[str, Case] = {}
    for case in cases:
        for point in case.points:
            other = first.setdefault(point.id, case)
            if other is not case:
                places = f"{other.file}:{other.line} and {case.file}:{case.line}"
                raise CaseError(f"case id {point.id!r} is declared twice: {places}", "give one of them another name")
