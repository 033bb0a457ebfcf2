"""What a pull request changes, and whether that is worth measuring by `paths` of base's suites.yaml."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from ..config import Config, parse
from ..errors import UsageError
from ..sides.checkouts import SUITES_FILE
from ..sides.git import git, repository_root
from ..words import count


@dataclass(frozen=True)
class CommitRange:
    """Two commits to compare.

    Args:
        base, head: full commit ids.
        measure: whether measuring is worth it.
        why: the reason, in a sentence without words of the pull request's author.
        cases_from: ``head`` where base has no cases yet, so that the first comparison has rows; else ``own``.
        merge_base: whether base is where head left it, and not what was named.
    """

    base: str
    head: str
    measure: bool
    why: str
    cases_from: str
    merge_base: bool


def changed(folder: Path, base: str, head: str, cases: str, *, from_merge_base: bool, always: bool) -> CommitRange:
    """What lies between two commits of the repository that holds `folder`.

    Args:
        base, head: refs or commit ids; a branch may be known by its remote only.
        cases: the cases directory, relative to the repository.
        from_merge_base: compare with the commit where head left base, not with base as it is now.
        always: measure whatever was changed.

    Raises:
        UsageError: a commit is not there, or the two share no history.
        ConfigError: base's suites.yaml is wrong.
    """
    repo = repository_root(folder)
    old, new = _commit(repo, base), _commit(repo, head)
    if from_merge_base:
        old = _merge_base(repo, old, new)
    has_cases = {sha: _holds(repo, sha, cases) for sha in (old, new)}
    if not any(has_cases.values()):
        why = f"Neither side has a folder {cases}/."
        return CommitRange(old, new, measure=False, why=why, cases_from="own", merge_base=from_merge_base)
    cases_from = "own" if has_cases[old] else "head"
    if always:
        return CommitRange(old, new, True, "It was asked for.", cases_from, from_merge_base)
    files, submodules = _changed_files(repo, old, new)
    measure, why = worth_measuring(_config(repo, old, cases), files, submodules)
    return CommitRange(old, new, measure, why, cases_from, from_merge_base)


def worth_measuring(config: Config | None, files: Sequence[str], submodules: Collection[str] = ()) -> tuple[bool, str]:
    """Whether changes of `files` are worth measuring by `paths` of suites.yaml, and why.

    Args:
        config: base's; None where base has none.
        files: changed files, relative to the repository.
        submodules: those of them that are submodules, whose own files are not known here.
    """
    if config is None or not config.paths:
        return True, "suites.yaml of the base names no `paths`, so every change is measured."
    number, changed = len(touched(config.paths, files, submodules)), count(len(files), "changed file")
    if number:
        return True, f"{number:,} of {changed} {'is' if number == 1 else 'are'} named by `paths` of suites.yaml."
    return False, f"None of {changed} is named by `paths` of suites.yaml."


def touched(paths: Sequence[str], files: Sequence[str], submodules: Collection[str] = ()) -> list[str]:
    """The files that `paths` match, by the rules of a .gitignore.

    A submodule counts where any of its files could: which of them changed is not known without it.
    """
    rules = GitIgnoreSpec.from_lines([f"/{path[2:]}" if path.startswith("./") else path for path in paths])
    positive = [path for path in paths if not path.startswith("!")]
    return [
        file
        for file in files
        if rules.match_file(file) or (file in submodules and any(_reaches_into(path, file) for path in positive))
    ]


def _reaches_into(path: str, folder: str) -> bool:
    """Whether a pattern may match a file below a folder."""
    parts = path.removeprefix("./").strip("/").split("/")
    if len(parts) == 1 and not path.startswith(("/", "./")):
        return True  # a name, which matches at any depth
    for part, name in zip(parts, folder.split("/"), strict=False):
        if part == "**":
            return True
        if not fnmatchcase(name, part):
            return False
    return True


def _changed_files(repo: Path, old: str, new: str) -> tuple[list[str], set[str]]:
    """The files that differ between two commits, and those of them that are submodules, whatever `ignore` they have."""
    listing = git("diff", "--raw", "-z", "--no-renames", "--ignore-submodules=none", old, new, "--", cwd=repo).output
    fields = listing.split(b"\0")
    files, submodules = [], set()
    for modes, name in zip(fields[::2], fields[1::2], strict=False):
        files.append(os.fsdecode(name))
        if b"160000" in modes.split()[:2] or modes.startswith(b":160000"):  # the mode of a submodule
            submodules.add(files[-1])
    return files, submodules


def _commit(repo: Path, ref: str) -> str:
    """The full id of a commit, by its id, a ref, or the name of a branch of the remote."""
    if not ref:
        raise UsageError("no commit was named", "base and head must both be, or a pull request")
    for name in (ref, f"origin/{ref}"):
        found = git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}", cwd=repo, check=False)
        if found.status == 0:
            return found.output.decode().strip()
    raise UsageError(f"unknown commit: {ref!r}", "fetch it first: the checkout needs the whole history")


def _merge_base(repo: Path, base: str, head: str) -> str:
    found = git("merge-base", base, head, cwd=repo, check=False)
    if found.status != 0:
        raise UsageError(
            f"{base[:12]} and {head[:12]} share no commit", "fetch the whole history, or leave --merge-base out"
        )
    return found.output.decode().strip()


def _holds(repo: Path, sha: str, cases: str) -> bool:
    return git("cat-file", "-e", f"{sha}:{PurePosixPath(cases)}", cwd=repo, check=False).status == 0


def _config(repo: Path, sha: str, cases: str) -> Config | None:
    name = str(PurePosixPath(cases) / SUITES_FILE)
    found = git("cat-file", "blob", f"{sha}:{name}", cwd=repo, check=False)
    return parse(found.output.decode("utf-8", "replace"), f"{name} of base") if found.status == 0 else None
