"""What `evenbench init` writes into a repository: a case, suites.yaml and the thin workflow files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from urllib.parse import urlsplit

from evenbench.runner.errors import UsageError
from evenbench.runner.sides.git import git, has_git, repository_root

WORKFLOWS = ".github/workflows"
HOSTS = ("github.com", "www.github.com")  # where `uses:` looks
USES = re.compile(r"(?P<repository>[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})@(?P<commit>[0-9a-f]{40})")
ADDRESS = re.compile(r"/?(?P<repository>[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}?)(\.git)?/?")
FOLDER = re.compile(r"[A-Za-z0-9_./-]{1,100}")  # what stands unquoted in YAML and on a command line

# Template → file; {cases} is the cases directory. Those of the workflows name the repository and commit of evenbench.
FILES: Mapping[str, str] = MappingProxyType(
    {
        "cases/example.py.in": "{cases}/example.py",
        "cases/suites.yaml": "{cases}/suites.yaml",
        "workflows/evenbench.yml": f"{WORKFLOWS}/evenbench.yml",
        "workflows/evenbench-publish.yml": f"{WORKFLOWS}/evenbench-publish.yml",
        "workflows/evenbench-manual.yml": f"{WORKFLOWS}/evenbench-manual.yml",
    }
)


@dataclass(frozen=True)
class Source:
    """The evenbench whose workflows a repository calls: ``owner/name`` and the full id of a commit."""

    repository: str
    commit: str

    @classmethod
    def parse(cls, text: str) -> Source:
        """From ``OWNER/REPOSITORY@COMMIT``. Raises UsageError."""
        match = USES.fullmatch(text)
        if match is None:
            raise UsageError(f"--uses {text}: must be OWNER/REPOSITORY@COMMIT", "the full 40 digits of the commit")
        return cls(match["repository"], match["commit"])


@dataclass(frozen=True)
class Written:
    """What `write` did, by path relative to the repository, and the commands to go on with."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    left_out: tuple[str, ...]


def files_of(cases: str, source: Source | None) -> dict[str, str]:
    """The files and their texts, by path relative to the repository; without a source no workflow files.

    Raises:
        UsageError: the cases directory would lie outside the repository, or has a name that needs quoting.
    """
    path = PurePosixPath(cases)
    if path.is_absolute() or ".." in path.parts or not path.parts or not FOLDER.fullmatch(cases):
        raise UsageError(
            f"--cases {cases}: must be a plain folder inside the repository", "such as cases or benchmarks/cases"
        )
    texts = {}
    for template, name in FILES.items():
        text = resources.files(__package__).joinpath("templates", template).read_text(encoding="utf-8")
        if name.startswith(WORKFLOWS):
            if source is None:
                continue
            text = text.replace("OWNER/evenbench", source.repository).replace("@REF", f"@{source.commit}")
        texts[name.format(cases=path)] = text.replace("CASES", str(path))
    return texts


def write(folder: Path, cases: str, source: Source | None, *, force: bool) -> Written:
    """Write the files into the repository that holds `folder`. What exists stays as it is, unless `force`.

    Raises:
        UsageError: see `files_of`; or a file cannot be written, or is a link that leads out of the repository.
    """
    root = repository_root(folder)
    texts = files_of(cases, source)
    written, kept = [], []
    for name, text in texts.items():
        path = root / name
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{name} leads out of the repository", "name another folder with --cases")
        if path.exists() and not force:
            kept.append(name)
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{name} cannot be written: {error.strerror}") from None
        written.append(name)
    left_out = tuple(name for name in FILES.values() if name.startswith(WORKFLOWS)) if source is None else ()
    return Written(tuple(written), tuple(kept), left_out)


def installed_source() -> Source | None:
    """Where the running evenbench comes from: the checkout it lies in, or what pip noted; None where neither tells."""
    root = Path(__file__).resolve().parents[2]
    try:
        note = json.loads(metadata.distribution("evenbench").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        note = {}
    url = urlsplit(note.get("url", ""))
    commit = note.get("vcs_info", {}).get("commit_id", "")
    if commit:
        return _source(url.netloc, url.path, commit)
    for place in (root, Path(url.path) if url.scheme == "file" else root):
        if has_git(place):
            return _of_checkout(place)
    return None


def _of_checkout(root: Path) -> Source | None:
    address = git("remote", "get-url", "origin", cwd=root, check=False)
    commit = git("rev-parse", "HEAD", cwd=root, check=False)
    if address.status != 0 or commit.status != 0:
        return None
    text = re.sub(r"^git@([^:/]+):", r"ssh://git@\1/", address.output.decode("utf-8", "replace").strip())
    url = urlsplit(text)
    return _source(url.netloc, url.path, commit.output.decode().strip())


def _source(host: str, path: str, commit: str) -> Source | None:
    match = ADDRESS.fullmatch(path)
    if host.rpartition("@")[2].lower() not in HOSTS or match is None:
        return None
    try:
        return Source.parse(f"{match['repository']}@{commit}")
    except UsageError:
        return None
