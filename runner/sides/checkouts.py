"""What a side's target holds: git refs as temporary worktrees, directories, and the working tree.

A user's repository is left as it was found: no branch, index or configuration of it is written, no hook of it runs,
and the worktrees are removed at the end, or by the next run where this one was killed.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import re
import secrets
import shutil
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import ConfigError, UsageError
from ..records import SideName
from .git import git, has_git, repository_root
from .trees import counted, remove_tree, tree_hash

SUITES_FILE = "suites.yaml"
SUITES_MAX = 1 << 20  # bytes of a suites.yaml; people write them
HINTS_MAX = 3  # close names shown for an unknown ref
OWNED = "evenbench-"  # begins the name of every folder that a later run may remove

_OWNER = re.compile(rf"{OWNED}(\d+)-([0-9a-f]{{8}})-")
Kind = Literal["ref", "directory", "worktree"]


@dataclass(frozen=True)
class SideSpec:
    """What the command line says of a side.

    Args:
        name: ``base``, ``head`` or ``control``.
        target: a git ref, a directory, or None for the working tree. A ref goes before a directory of the same name,
            unless the name begins with ``/``, ``./``, ``../`` or ``~``, which only directories do. Relative
            directories are relative to the current one.
        setup: goes before the set-up of suites.yaml; empty for none.
        python: an interpreter to use as it is, instead of an environment of the side's own.
        sha: what a directory without git holds; for the others, what they must turn out to hold.
    """

    name: SideName
    target: str | None
    setup: str | None = None
    python: str | None = None
    sha: str | None = None


@dataclass(frozen=True)
class Checkout:
    """The files of a side as they were found.

    `sha` is the full commit id, empty for a directory without git of which none was given. `tree` is a SHA-256 of the
    files that count (tracked and unignored ones; all of a plain directory), empty for a clean commit. `exact`: the files
    are those of the commit and no others, ignored ones included.
    """

    name: SideName
    root: Path
    sha: str
    dirty: bool
    tree: str
    kind: Kind
    label: str
    exact: bool = False


def check_out(spec: SideSpec, repo: Path, scratch: Path, *, exclude: Collection[Path] = ()) -> Checkout:
    """Find a side's files; a ref is checked out below `scratch` and stays there until `release`.

    Args:
        repo: any folder of the user's repository.
        scratch: an existing folder for temporary files.
        exclude: files and folders that do not count, such as the results file that a run writes.

    Raises:
        UsageError: no such ref or directory, git or git-lfs missing, or not the commit that `spec.sha` names.
    """
    repo, exclude = repository_root(repo), (*exclude, scratch)
    if spec.target is None:
        return _in_place(spec, repo, "worktree", "working tree", exclude)
    folder = Path(spec.target).expanduser().resolve()
    explicit = spec.target.startswith(("/", "./", "../", "~")) or spec.target in (".", "..")
    if not explicit and (sha := _resolve(spec.target, repo)):
        return _worktree(spec, sha, repo, scratch)
    if spec.target and folder.is_dir():
        return _in_place(spec, folder, "directory", spec.target, exclude)
    if explicit:
        raise UsageError(f"{spec.name}: no such directory: {spec.target}")
    if not has_git(repo):
        raise UsageError(f"{spec.name}: {spec.target} is no directory, and {repo} is no git repository")
    hint = _close_refs(spec.target, repo)
    if spec.name == "head":
        hint = "; ".join(filter(None, (hint, f"a pattern of cases is known by its *, as in '{spec.target}**'")))
    raise UsageError(f"{spec.name}: unknown ref or directory: {spec.target!r}", hint)


def release(checkout: Checkout, repo: Path) -> None:
    """Remove a ref's worktree; the other kinds belong to the user. Never raises for what is gone already."""
    if checkout.kind == "ref":
        _remove_worktree(repository_root(repo), checkout.root)


def release_below(folder: Path, repo: Path) -> None:
    """Remove every worktree below a folder, also one whose checkout was interrupted."""
    repo = repository_root(repo)
    for path in _worktrees(repo):
        if path.is_relative_to(folder.resolve()):
            _remove_worktree(repo, path)


def prune_stale(repo: Path, scratch: Path) -> None:
    """Remove the worktrees and scratch folders of runs on this machine whose process is gone."""
    repo = repository_root(repo)
    for path in _worktrees(repo):
        if any(is_stale(part) for part in path.parts):
            _remove_worktree(repo, path)
    for folder in stale_folders(scratch):
        remove_tree(folder)


def stale_folders(scratch: Path) -> list[Path]:
    """The scratch folders of runs on this machine whose process is gone."""
    return [folder for folder in sorted(scratch.glob(f"{OWNED}*")) if is_stale(folder.name)]


def owned_prefix() -> str:
    """The beginning of a folder's name that tells a later run whether its process still lives."""
    return f"{OWNED}{os.getpid()}-{_machine()}-"


def side_config_text(checkout: Checkout, cases: Path | str, name: str = SUITES_FILE) -> str | None:
    """The text of a side's suites.yaml, or other such file; None where it has none.

    Args:
        cases: the cases directory, relative to the side's root.
        name: of the file in it.

    Raises:
        ConfigError: the file is not a plain one inside the side, is too large or is not UTF-8.
    """
    path = checkout.root / cases / name
    if not os.path.lexists(path):
        return None
    where = f"{checkout.name}: {Path(cases) / name}"
    if not (path.is_file() and path.resolve().is_relative_to(checkout.root.resolve())):
        raise ConfigError(f"{where} is not a file inside {checkout.label}")
    with path.open("rb") as stream:
        data = stream.read(SUITES_MAX + 1)
    if len(data) > SUITES_MAX:
        raise ConfigError(f"{where} is larger than {SUITES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is not UTF-8 (byte {error.start})") from None


def _in_place(spec: SideSpec, root: Path, kind: Kind, label: str, exclude: Collection[Path]) -> Checkout:
    if not has_git(root):
        return Checkout(spec.name, root, spec.sha or "", False, tree_hash(root, exclude), kind, label)
    git("rev-parse", "--git-dir", cwd=root)  # says so when git does not trust the folder's owner
    sha = _resolve("HEAD", root)
    _agree(spec, sha)
    listing = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
    entries = git("status", *listing, cwd=root).output.split(b"\0")
    dirty = not sha or bool(counted(root, [os.fsdecode(entry[3:]) for entry in entries if entry], exclude))
    tree = tree_hash(root, exclude) if dirty else ""
    return Checkout(spec.name, root, sha, dirty, tree, kind, label, exact=not dirty and _is_exact(root, exclude))


def _is_exact(root: Path, exclude: Collection[Path]) -> bool:
    """Whether a clean tree holds its commit and nothing else: no ignored files, none marked skip-worktree or assume-unchanged."""
    flags = git("ls-files", "-v", "-z", cwd=root).output.split(b"\0")
    if any(not flag.startswith(b"H") for flag in flags if flag):  # S: skip-worktree; lower case: assume-unchanged
        return False
    ignored = git("ls-files", "-z", "--others", "--ignored", "--exclude-standard", cwd=root).output.split(b"\0")
    if counted(root, [os.fsdecode(name) for name in ignored if name], exclude):
        return False
    inner = git("ls-files", "-z", "--stage", cwd=root).output.split(b"\0")
    folders = [root / os.fsdecode(entry.partition(b"\t")[2]) for entry in inner if entry.startswith(b"160000")]
    return all(has_git(folder) and _is_exact(folder, exclude) for folder in folders)


def _worktree(spec: SideSpec, sha: str, repo: Path, scratch: Path) -> Checkout:
    _agree(spec, sha)
    root = scratch.resolve() / f"{owned_prefix()}{secrets.token_hex(4)}-{spec.name}"
    try:
        git("worktree", "add", "--quiet", "--detach", str(root), sha, cwd=repo)
        _fetch_submodules(root)
        _fetch_large_files(root)
    except BaseException:
        _remove_worktree(repo, root)
        raise
    return Checkout(spec.name, root, sha, False, "", "ref", _label(str(spec.target), sha, repo), exact=True)


def _label(ref: str, sha: str, repo: Path) -> str:
    """The ref; of a name that git could read in several ways, which of them was taken, and what the others are."""
    meanings = {}
    for kind, place in (("tag", "refs/tags"), ("branch", "refs/heads"), ("remote branch", "refs/remotes")):
        meanings[kind] = _resolve(f"{place}/{ref}", repo)
    if re.fullmatch(r"[0-9a-f]{4,40}", ref):
        found = git("rev-parse", f"--disambiguate={ref}", cwd=repo, check=False).output.decode().split()
        meanings["commit"] = next((commit for commit in found if _resolve(commit, repo)), "")
    others = [f"the {kind} is {commit[:7]}" for kind, commit in meanings.items() if commit and commit != sha]
    taken = next((kind for kind, commit in meanings.items() if commit == sha), "commit")
    return f"{ref}: the {taken}; {', '.join(others)}" if others else ref


def _agree(spec: SideSpec, sha: str) -> None:
    if spec.sha and spec.sha != sha:
        raise UsageError(f"{spec.name} holds commit {sha or 'none'}, not {spec.sha}", "check out the one that is meant")


def _fetch_submodules(root: Path) -> None:
    # Active by option: `--init` would write them into the configuration that the worktree shares with the user's own.
    if (root / ".gitmodules").exists():
        git("-c", "submodule.active=.", "submodule", "--quiet", "update", "--recursive", cwd=root)


def _fetch_large_files(root: Path) -> None:
    query = ("grep", "--quiet", "--recurse-submodules", "-F", "filter=lfs", "--", ":(glob)**/.gitattributes")
    if git(*query, cwd=root, check=False).status != 0:
        return
    if shutil.which("git-lfs") is None:
        raise UsageError("the repository keeps files in Git LFS, and git-lfs is not installed", "install git-lfs")
    git("lfs", "pull", cwd=root)
    git("submodule", "--quiet", "foreach", "--recursive", "git lfs pull", cwd=root)


def _worktrees(repo: Path) -> list[Path]:
    if not has_git(repo) or shutil.which("git") is None:
        return []
    listing = git("worktree", "list", "--porcelain", cwd=repo, check=False).output
    return [Path(os.fsdecode(line[9:])) for line in listing.splitlines() if line.startswith(b"worktree ")]


def _remove_worktree(repo: Path, path: Path) -> None:
    if (path / ".git").is_dir():  # `give_repository` replaced the link
        remove_tree(path / ".git")
        folder = repo / os.fsdecode(git("rev-parse", "--git-common-dir", cwd=repo, check=False).output.strip())
        for entry in (folder / "worktrees").glob("*/gitdir"):
            if entry.read_text(encoding="utf-8", errors="surrogateescape").strip() == str(path / ".git"):
                (path / ".git").write_text(f"gitdir: {entry.parent}\n", encoding="utf-8", errors="surrogateescape")
    git("worktree", "remove", "--force", "--force", str(path), cwd=repo, check=False)
    remove_tree(path)


def _resolve(ref: str, repo: Path) -> str:
    """The commit that a ref names, empty where it names none."""
    if not has_git(repo):
        return ""
    found = git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{ref}^{{commit}}", cwd=repo, check=False)
    return found.output.decode().strip() if found.status == 0 else ""


def _close_refs(ref: str, repo: Path) -> str:
    listing = git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes", cwd=repo)
    names = listing.output.decode("utf-8", "replace").split()
    same_end = [name for name in names if name.endswith(f"/{ref}")]
    close = dict.fromkeys(same_end + difflib.get_close_matches(ref, names, HINTS_MAX))
    return f"did you mean {', '.join(list(close)[:HINTS_MAX])}?" if close else "fetch it, or name a commit that is here"


def _machine() -> str:
    """Eight hex digits for this host and process namespace: a pid means nothing outside them."""
    namespace = ""
    with contextlib.suppress(OSError):  # not on Linux
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:8]


def is_stale(name: str) -> bool:
    """Whether a name that began with `owned_prefix` belongs to a run of this machine whose process is gone."""
    found = _OWNER.match(name)
    if found is None or found[2] != _machine():
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
