"""That each side runs its own code: which files its launches loaded the project's modules from, compared over the sides.

A library that is installed beside evenbench, or a set-up that installed nothing, puts one copy behind both sides, and a
change of any size would read `unchanged`. Such a run ends instead.
"""

from __future__ import annotations

import configparser
import contextlib
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import NothingMeasured
from ..launchers.launcher import Message, Session
from ..records import ModuleOrigin, ModulesEvent, SideName
from ..records.fields import ITEMS_MAX, NAME_MAX
from ..sides import Side
from ..sides.git import has_git

SOURCES = ("", "src", "python")  # folders of a repository that hold packages by custom
FILE_MAX = 1 << 20  # bytes of a project's own configuration
INSTALLED = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class Project:
    """What a repository calls its own: dotted prefixes of its modules, and the names of its distributions."""

    names: Sequence[str]
    distributions: Sequence[str]

    @classmethod
    def of(cls, root: Path) -> Project:
        """The project in a tree, by its folders and by what pyproject.toml, setup.cfg and setup.py say."""
        table = _pyproject(root)
        setuptools = _table(table, "tool", "setuptools")
        folders = [*SOURCES, *_texts(_table(setuptools, "packages", "find").get("where"))]
        folders += _texts(list(_table(setuptools, "package-dir").values()))
        names: set[str] = set()
        for folder in folders:
            names |= _packages(root / folder)
        declared = [_table(table, "project").get("name"), _table(table, "tool", "poetry").get("name")]
        distributions = [*_texts(declared), *_setup_names(root)]
        return cls(sorted(names - {"setup", "conftest"}), sorted(set(distributions)))


def _packages(folder: Path) -> set[str]:
    """Names of the modules and packages in a folder; of a folder without `__init__`, the names below it."""
    names: set[str] = set()
    for path in _entries(folder):
        if path.suffix == ".py" and path.stem.isidentifier() and path.is_file():
            names.add(path.stem)
        elif path.name.isidentifier() and path.is_dir():
            inner = [inner for inner in _entries(path) if inner.suffix == ".py" or inner.is_dir()]
            if (path / "__init__.py").is_file():
                names.add(path.name)
            else:
                names |= {f"{path.name}.{part.stem}" for part in inner if part.stem.isidentifier()}
    return names


def _entries(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _pyproject(root: Path) -> Mapping[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return tomllib.loads(_text(root / "pyproject.toml"))
    return {}


def _setup_names(root: Path) -> list[str]:
    """The project's name in setup.cfg, and in setup.py where it is a plain text."""
    config = configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(OSError, ValueError, configparser.Error):
        config.read_string(_text(root / "setup.cfg"))
    names = [config.get("metadata", "name", fallback="")]
    with contextlib.suppress(OSError, ValueError):
        names += re.findall(r"\bname\s*=\s*[\"']([\w.-]+)[\"']", _text(root / "setup.py"))
    return [name for name in names if name]


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(FILE_MAX).decode("utf-8", "replace")


def _table(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        inner = table.get(key)
        table = inner if isinstance(inner, dict) else {}
    return table


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


@dataclass(frozen=True)
class _Loaded:
    """What the launches of a side have reported."""

    modules: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


class ModuleOrigins:
    """Collects what launches report, and ends the run where a side does not run its own code.

    Args:
        sides: of the run. Two with one and the same tree are the same code on purpose.
        repo: the user's checkout, from which only a side that is measured in place may load.
    """

    def __init__(self, sides: Sequence[Side], repo: Path) -> None:
        self._sides = {side.name: side for side in sides}
        self._repo = repo.resolve()
        self._loaded = {side.name: _Loaded() for side in sides}
        projects = [Project.of(side.checkout.root) for side in sides]
        self._names = sorted({name for project in projects for name in project.names})
        self._distributions = sorted({name for project in projects for name in project.distributions})
        self._lock = threading.Lock()  # several GPUs launch at once

    def question(self, name: SideName) -> Message:
        """What a launch of a side is asked to report; see `evenbench.runner.worker.launch.origins`."""
        return {"names": self._names, "distributions": self._distributions, "foreign": self._foreign(name)}

    def take(self, name: SideName, message: Message) -> None:
        """Take note of a launch's `modules` message.

        Raises:
            NothingMeasured: both sides loaded a module of the project from one file, or a side loaded one from the
                other side's tree or from the user's checkout.
        """
        modules = _strings(message.get("modules"))
        with self._lock:
            loaded = self._loaded[name]
            loaded.modules.update(modules)
            loaded.versions.update(_strings(message.get("versions")))
            loaded.digests.update(_strings(message.get("digests")))
            self._refuse_foreign(name, modules)
            self._refuse_shared(name, modules)

    def record(self, name: SideName) -> ModulesEvent:
        """Where a side's own modules came from, a line for each top-level name."""
        loaded, side = self._loaded[name], self._sides[name]
        files: dict[str, list[str]] = {}
        for module, path in loaded.modules.items():
            files.setdefault(module.partition(".")[0], []).append(path)
        origins = [
            ModuleOrigin(
                name=top[:NAME_MAX],
                path=_shown(side, _place(top, loaded.modules, paths))[:NAME_MAX],
                version=loaded.versions.get(top, "")[:NAME_MAX],
                files=len(paths),
                digest=_digest(loaded.digests.get(top, "")),
            )
            for top, paths in sorted(files.items())
        ]
        return ModulesEvent(side=name, modules=origins[:ITEMS_MAX])

    def _foreign(self, name: SideName) -> list[str]:
        """Folders from which a side must not load: those of the others, and the user's checkout."""
        side = self._sides[name]
        if side.private is not None:  # in a container nothing else of this machine can be seen
            return []
        others = [other for other in self._sides.values() if not _same_tree(other, side)]
        folders = [self._repo] if has_git(self._repo) else []
        for other in others:
            folders += [other.root, other.checkout.root]
        own = {side.root.resolve(), side.checkout.root.resolve()}
        return sorted({str(folder.resolve()) for folder in folders if folder.resolve() not in own})

    def _refuse_foreign(self, name: SideName, modules: Mapping[str, str]) -> None:
        side, folders = self._sides[name], self._foreign(name)
        own = [side.root.resolve(), side.checkout.root.resolve(), side.cache.parent.resolve()]
        for module, path in modules.items():
            if any(Path(path).is_relative_to(folder) for folder in own) or not INSTALLED.isdisjoint(Path(path).parts):
                continue
            if any(Path(path).is_relative_to(folder) for folder in folders):
                raise NothingMeasured(
                    f"{name} does not run its own code: it loads {module} from {path}",
                    "import the library without a fixed path, and let `setup` install it into each side",
                )

    def _refuse_shared(self, name: SideName, modules: Mapping[str, str]) -> None:
        side = self._sides[name]
        for other in self._sides.values():
            if other is side or _same_tree(other, side):
                continue
            theirs = self._loaded[other.name].modules
            for module, path in modules.items():
                private = side.owns(path) and other.owns(path)  # of one name in two containers
                if theirs.get(module) == path and not private:
                    raise NothingMeasured(
                        f"nothing would be compared: {side.name} and {other.name} both load {module} from {path}",
                        _remedy(path),
                    )


def _remedy(path: str) -> str:
    if INSTALLED.isdisjoint(Path(path).parts):
        return "let `setup` install the library into each side, such as `pip install --no-deps .`"
    return (
        "let `setup` install the library into each side, such as `pip install --no-deps --force-reinstall .`, or "
        "uninstall the copy beside evenbench"
    )


def _same_tree(one: Side, other: Side) -> bool:
    return one.checkout.root.resolve() == other.checkout.root.resolve() and one.python == other.python


def _place(top: str, modules: Mapping[str, str], paths: Sequence[str]) -> str:
    """The folder of a package, or the file of a module."""
    path = modules.get(top, min(paths))
    return str(Path(path).parent) if Path(path).stem == "__init__" or top not in modules else path


def _shown(side: Side, path: str) -> str:
    """A path in the side's tree, as ``./src/mylib``, or in its own folder, as ``env/lib/…``; else as it is."""
    if Path(path).is_relative_to(side.root.resolve()):
        return f"./{Path(path).relative_to(side.root.resolve())}"
    for folder in (side.private, side.cache.parent):
        if folder is not None and Path(path).is_relative_to(folder.resolve()):
            return str(Path(path).relative_to(folder.resolve()))
    return path


def _digest(text: str) -> str:
    return text if re.fullmatch(r"[0-9a-f]{64}", text) else ""


def _strings(values: object) -> dict[str, str]:
    """A mapping of texts out of a foreign message, without halves of characters that no file can hold."""
    if not isinstance(values, dict):
        return {}
    texts = {}
    for name, value in values.items():
        if isinstance(value, str):
            texts[_storable(name)] = _storable(value)
    return texts


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class WatchedSession:
    """A side's session whose launches report where the project's modules came from."""

    session: Session
    side: SideName
    origins: ModuleOrigins

    def warm(self, preload: Sequence[str]) -> Message:
        """See `Session.warm`."""
        return self.session.warm(preload)

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        """See `Session.launch`. Raises NothingMeasured as `ModuleOrigins.take` does."""
        asked = {**job, "origin": self.origins.question(self.side)}
        launch = self.session.launch(asked, fork=fork, timeout_s=timeout_s)
        with contextlib.closing(launch):  # type: ignore[type-var]  # sessions are generators
            for message in launch:
                if message["event"] == "modules":
                    self.origins.take(self.side, message)
                else:
                    yield message

    def output_tail(self) -> str:
        """See `Session.output_tail`."""
        return self.session.output_tail()

    def close(self) -> None:
        """See `Session.close`."""
        self.session.close()

    def abandon(self) -> None:
        """See `Session.abandon`."""
        self.session.abandon()
