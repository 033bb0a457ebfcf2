"""Sides: a checkout together with the Python environment that runs it.

`Sides` holds what one run makes, and removes it when it closes. `check_out` finds the files, `prepare` makes a `Side`
of them, which is all that a launch needs to know.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from ..errors import ConfigError
from ..process.bounded import Finished, readable, run_bounded
from ..records import SideName
from .checkouts import Checkout, SideSpec, check_out, owned_prefix, prune_stale, release_below
from .environments import (
    given_python,
    installed_names,
    make_environment,
    refuse_changed_packages,
    refuse_noexec,
    refuse_uv_redirects,
    run_setup,
    shared_paths,
    side_variables,
)
from .git import give_repository, has_git, repository_root
from .trees import copy_tree, make_readable, remove_tree

FIND_TIMEOUT_S = 300.0  # finding a submodule imports its package, torch too, from a cold disk
FIND_OUTPUT_MAX = 1 << 20

Log = Callable[[str], None]


@dataclass(frozen=True)
class Side:
    """What a launch needs.

    Args:
        root: the tree that launches run in: the worktree, the copy that set-up ran in, or the directory itself.
        python: the interpreter, an absolute path.
        environment: all variables of its processes.
        cache: the folder of its compile and tuning caches; lives for the run.
        private: a folder that is another one on each side though it has the same name there; None for none.

    Paths are as its processes see them: in a container they are no paths of this machine.
    """

    name: SideName
    checkout: Checkout
    root: Path
    python: Path
    environment: Mapping[str, str]
    cache: Path
    private: Path | None = None

    def owns(self, path: str) -> bool:
        """Whether a path is part of the side's own files."""
        return any(Path(path).is_relative_to(own) for own in (self.root.resolve(), self.private) if own is not None)


RunPython: TypeAlias = Callable[[Side, Sequence[str], int, float], Finished]


class Sides:
    """The checkouts and environments of one run; leaving the ``with`` block removes them, whatever happened inside.

    Args:
        repo: any folder of the user's repository.
        scratch: where the run's temporary folder is made; the system's place for such if left out.
        log: is told in one line each what takes long.
        exclude: files that the run itself writes: they make no tree dirty.
    """

    def __init__(
        self, repo: Path, scratch: Path | None = None, *, log: Log = lambda _: None, exclude: Collection[Path] = ()
    ) -> None:
        self._repo = repository_root(repo)
        self._scratch = Path(tempfile.gettempdir()) if scratch is None else scratch
        self._log = log
        self._exclude = exclude
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self._scratch.mkdir(parents=True, exist_ok=True)
        refuse_noexec(self._scratch)
        prune_stale(self._repo, self._scratch)
        self._folder = Path(tempfile.mkdtemp(prefix=owned_prefix(), dir=self._scratch)).resolve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        folder, self._folder = self.folder, None
        try:
            release_below(folder, self._repo)
        finally:
            remove_tree(folder)

    def source(self, checkout: Checkout, *, with_git: bool) -> Path:
        """The files that count of a checkout, readable for every user.

        Args:
            with_git: with a separate repository, from which set-up may read a version.
        """
        root = checkout.root
        if checkout.kind != "ref":
            root = self.folder / f"{checkout.name}-source"
            copy_tree(checkout.root, root, exclude=(*self._exclude, self.folder))
        if with_git:
            give_repository(root, checkout.root, _commit(checkout))
        make_readable(root)
        return root

    def say(self, text: str) -> None:
        """Tell whoever waits."""
        self._log(text)

    @property
    def folder(self) -> Path:
        """The run's temporary folder."""
        if self._folder is None:
            raise RuntimeError("Sides is used outside its with block")
        return self._folder

    def check_out(self, spec: SideSpec) -> Checkout:
        """See `check_out`."""
        checkout = check_out(spec, self._repo, self.folder, exclude=self._exclude)
        if checkout.kind == "ref" and checkout.label != spec.target:
            self._log(
                f"note: the name of {spec.name} is ambiguous: {checkout.label}; heads/… or tags/… names one of them"
            )
        return checkout

    def prepare(self, checkout: Checkout, spec: SideSpec, setup: str) -> Side:
        """See `prepare`."""
        return prepare(checkout, spec, setup, self.folder, log=self._log, repo=self._repo, exclude=self._exclude)


def prepare(
    checkout: Checkout,
    spec: SideSpec,
    setup: str,
    scratch: Path,
    *,
    log: Log,
    repo: Path | None = None,
    exclude: Collection[Path] = (),
) -> Side:
    """Make a side ready to launch: its environment, and its set-up where there is one.

    Set-up writes into a worktree of ours or a copy, never into the user's files; it gets a separate repository, see
    `evenbench.runner.sides.git.give_repository`. A `spec.python` is used as it is, and only its own set-up is run.

    Args:
        setup: the command of suites.yaml; empty for none. `spec.setup` goes before it.
        scratch: an existing folder; the side takes the one below it that has its name.
        repo: the user's repository; see `shared_paths`.

    Raises:
        NothingMeasured: set-up failed.
        UsageError: `spec.python` cannot be used.
    """
    folder = scratch.resolve() / checkout.name
    folder.mkdir()
    command = setup_of(spec, setup)
    root = checkout.root
    if command and checkout.kind != "ref":
        root = folder / "tree"
        copy_tree(checkout.root, root, exclude=(*exclude, scratch))
    if command:
        give_repository(root, checkout.root, _commit(checkout))
    paths: list[Path] = []
    if spec.python:
        python = given_python(spec.name, spec.python)
    else:
        refuse_uv_redirects(os.environ, root, command)
        paths = shared_paths(os.environ, repository_root(repo or checkout.root), root)
        python = make_environment(folder / "env", paths, with_pip=bool(command))
    cache = folder / "cache"
    variables = side_variables(os.environ, python, cache)
    if command:
        log(f"{checkout.name}: set-up: {command}")
        before = installed_names(paths, folder)
        run_setup(checkout.name, command, root, variables, log=log)
        refuse_changed_packages(checkout.name, before, installed_names(paths, folder))
    return Side(checkout.name, checkout, root, python, variables, cache)


def _commit(checkout: Checkout) -> str:
    """The commit of a checkout that git knows; empty for a plain directory."""
    return checkout.sha if has_git(checkout.root) else ""


def setup_of(spec: SideSpec, setup: str) -> str:
    """The set-up command of a side, empty for none: its own goes first, and a given interpreter is as it should be."""
    return spec.setup if spec.setup is not None else ("" if spec.python else setup)


def run_python(side: Side, arguments: Sequence[str], keep: int, timeout_s: float) -> Finished:
    """Run the Python of a side on this machine to its end; `keep` bytes of its output are kept."""
    return run_bounded(
        [str(side.python), *arguments], cwd=side.root, environment=side.environment, timeout_s=timeout_s, keep=keep
    )


def check_preload(preload: Sequence[str], side: Side, *, run: RunPython = run_python) -> None:
    """Refuse modules to preload that a side does not have. That both sides have their own is seen when they load them.

    Args:
        run: runs the Python of a side.

    Raises:
        ConfigError: the side has no such module, or cannot look for it.
    """
    if not preload:
        return
    finished = run(side, ["-P", "-c", _FIND, str(side.root), *preload], FIND_OUTPUT_MAX, FIND_TIMEOUT_S)
    try:
        missing = [str(name) for name in json.loads(finished.output)]
    except (ValueError, TypeError):
        reason = (readable(finished.errors) or [f"exit status {finished.status}"])[-1]
        raise ConfigError(f"preload: {side.name} cannot look for {', '.join(preload)}: {reason}") from None
    if missing:
        raise ConfigError(
            f"preload: {side.name} has no module {', '.join(missing)}",
            "let `setup` install it, or remove it from `preload`",
        )


# Runs in the side's interpreter. Answers on a copy of stdout, as modules that it imports may print.
_FIND = """
import importlib.util, json, os, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, sys.argv[1])
missing = []
for name in sys.argv[2:]:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        missing.append(name)
print(json.dumps(missing), file=answer, flush=True)
"""
