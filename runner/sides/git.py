"""Git, as the driver calls it: on the repository that is named, without its hooks, without asking."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import UsageError
from ..process.bounded import Finished, readable, run_bounded

GIT_TIMEOUT_S = 1800.0  # for submodules and large files over a slow line
GIT_OUTPUT_MAX = 256 << 20  # bytes: a list of some million files

_GIT_OPTIONS = (
    "-c", "core.hooksPath=/dev/null",  # hooks of a measured repository do not run here
    "-c", "core.fsmonitor=false",
    "-c", "protocol.ext.allow=never",  # a submodule's address is no command
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
)  # fmt: skip
# All other GIT_* variables go: a hook or an alias that started us would point git at another repository.
_GIT_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_SSL_", "GIT_SSH", "GIT_ASKPASS")


def git(*arguments: str, cwd: Path, check: bool = True) -> Finished:
    """Run one git command in a folder.

    Raises:
        UsageError: git is not installed; or, with `check`, the command failed, in git's own words.
    """
    program = shutil.which("git")
    if program is None:
        raise UsageError("git is not installed", "install git, or name directories without a .git in them")
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(_GIT_KEPT)}
    finished = run_bounded(
        [program, *_GIT_OPTIONS, *arguments],
        cwd=cwd,
        environment={**variables, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        timeout_s=GIT_TIMEOUT_S,
        keep=GIT_OUTPUT_MAX,
    )
    if check and (finished.status != 0 or finished.truncated):
        reason = " / ".join(readable(finished.errors)[-3:]) or f"exit status {finished.status}"
        raise UsageError(f"git {' '.join(arguments[:2])} failed in {cwd}: {reason}")
    return finished


def has_git(root: Path) -> bool:
    """Whether a folder is the top of a git tree."""
    return (root / ".git").exists()


def repository_root(folder: Path) -> Path:
    """The top of the git tree that holds a folder, or the folder itself."""
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if has_git(place)), folder)
