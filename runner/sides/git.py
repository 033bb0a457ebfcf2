"""Git, as the driver calls it: on the repository that is named, without its hooks, without asking."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import UsageError
from ..process.bounded import Finished, readable, run_bounded

GIT_TIMEOUT_S = 1800.0  # for submodules and large files over a slow line
GIT_OUTPUT_MAX = 256 << 20  # bytes: a list of some million files
DEPTH_MAX = 1_000  # commits back to a tag; of more a copy would take longer than a version is worth

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


def give_repository(root: Path, origin: Path, sha: str) -> None:
    """Create a separate repository in a tree, which answers like the one that it was checked out from.

    Set-up may ask git for a version: HEAD is the commit, with the history back to the last tag that holds a digit, and
    changes of the tree show as changes. It has no remote and no hooks, and nothing written to it reaches the user's.
    It is a copy of objects, not a link to the user's: that one may be out of sight in a container, or collected.

    Args:
        root: the tree; a worktree's link to the user's repository is replaced.
        origin: the tree as it was checked out: `root` itself, or what it was copied from.
        sha: the commit; empty for none, which leaves the tree as it is.

    Raises:
        UsageError: git failed.
    """
    if not sha:
        return
    wanted, depth = [sha], 1
    tag = git("describe", "--tags", "--abbrev=0", "--match=*[0-9]*", sha, cwd=origin, check=False)
    if tag.status == 0:
        name = os.fsdecode(tag.output.strip())
        between = int(git("rev-list", "--count", f"refs/tags/{name}..{sha}", cwd=origin).output)
        if between < DEPTH_MAX:
            wanted.append(f"refs/tags/{name}:refs/tags/{name}")
            depth = between + 1
    hashing = git("rev-parse", "--show-object-format", cwd=origin).output.decode().strip()
    store = origin / os.fsdecode(git("rev-parse", "--git-common-dir", cwd=origin).output.strip())
    link = root / ".git"
    if link.is_file():
        link.unlink()
    git("init", "--quiet", f"--object-format={hashing}", "--template=", cwd=root)
    git("config", "core.hooksPath", os.devnull, cwd=root)
    serve = "git -c uploadpack.allowAnySHA1InWant=true -c safe.directory=* upload-pack"
    git("fetch", "--quiet", "--no-tags", f"--depth={depth}", f"--upload-pack={serve}", str(store), *wanted, cwd=root)
    git("update-ref", "--no-deref", "HEAD", sha, cwd=root)
    git("reset", "--quiet", "--mixed", cwd=root, check=False)  # 1 where the tree has changes
    (link / "FETCH_HEAD").unlink(missing_ok=True)


def has_git(root: Path) -> bool:
    """Whether a folder is the top of a git tree."""
    return (root / ".git").exists()


def repository_root(folder: Path) -> Path:
    """The top of the git tree that holds a folder, or the folder itself."""
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if has_git(place)), folder)
