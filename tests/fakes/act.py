"""GitHub Actions on this machine: workflow files run by act on the host, with folders for remotes and artifacts.

What act does not keep to is GitHub's to keep and a test's of the files themselves: permissions, concurrency,
environments. It refuses the key `queue`, so that one key is left out of the copies that it runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.repositories import Repository

ROOT = Path(__file__).parents[2]
OWN = "evenbench/evenbench"
ACTIONS = Path(__file__).parent / "actions"
PATIENCE_S = 200.0  # of one run
QUEUE = re.compile(r"^ +queue: max\b.*\n", re.MULTILINE)
USES = re.compile(r"uses: +(actions/[\w-]+@[0-9a-f]{40})")
WAITS = re.compile(r"^    environment: evenbench-approval\n(?:    .*\n)*?    steps:\n", re.MULTILINE)
NOWHERE = "http://127.0.0.1:9"  # where nothing listens


@dataclass(frozen=True)
class Done:
    """A finished run: act's exit code and all that it printed."""

    code: int
    text: str

    def says(self, job: str) -> str:
        """What the steps of a job printed."""
        lines = re.findall(rf"^\[[^\]]*{re.escape(job)}[^\]]*\]\s+\| ?(.*)$", self.text, re.MULTILINE)
        return "\n".join(lines)

    def ran(self, job: str) -> bool:
        """Whether a job of that name ran to its good end."""
        return self._ended(job, "succeeded")

    def failed(self, job: str) -> bool:
        """Whether a job of that name failed."""
        return self._ended(job, "failed")

    def _ended(self, job: str, how: str) -> bool:
        return re.search(rf"^\[[^\]]*{re.escape(job)}[^\]]*\] 🏁  Job {how}$", self.text, re.MULTILINE) is not None


@dataclass(frozen=True)
class Actions:
    """A GitHub of folders below `folder`, and act.

    Attributes:
        act: the program.
        source: a copy of this repository's workflows, as act takes them.
        programs: a folder that is first on every job's PATH.
    """

    folder: Path
    act: str
    source: Path = field(init=False)
    programs: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.folder / "source")
        object.__setattr__(self, "programs", self.folder / "programs")
        for name in ("remotes", "artifacts", "log", "cache", "tmp", "programs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        copy_workflows(ROOT, self.source)

    @property
    def checkouts(self) -> list[str]:
        """Path, repository and ref of each checkout that a workflow made."""
        file = self.folder / "log" / "checkouts"
        return file.read_text().splitlines() if file.exists() else []

    def artifacts(self, run: int) -> dict[str, Path]:
        """The artifacts of a run."""
        return {path.name: path for path in sorted((self.folder / "artifacts" / str(run)).glob("*"))}

    def repository(self, name: str) -> Repository:
        """A new repository on that GitHub."""
        path = self.folder / "remotes" / name
        path.mkdir(parents=True)
        made = Repository(path)
        made.git("init", "-q", "-b", "main")
        made.git("config", "uploadpack.allowAnySHA1InWant", "true")
        return made

    def refuse_approval(self) -> None:
        """From now on a reviewer rejects each job that waits for approval. act itself lets all of them pass."""
        path = self.source / ".github/workflows/gpu-benchmark.yml"
        text, count = WAITS.subn(r"\g<0>      - run: exit 1\n", path.read_text(encoding="utf-8"))
        assert count == 1
        path.write_text(text, encoding="utf-8")

    def run(
        self,
        event: str,
        workflow: str,
        payload: Mapping[str, Any],
        *,
        ref: str,
        run: int,
        token: str = "",
        **variables: str,
    ) -> Done:
        """Run a workflow of the payload's repository as it is at `ref`."""
        name = payload["repository"]["full_name"]
        place = self.folder / f"run-{run}-{len(list(self.folder.glob('run-*')))}"
        remote = self.folder / "remotes" / name
        subprocess.run(["git", "clone", "-q", str(remote), str(place)], check=True)
        Repository(place).git("fetch", "-q", "origin", ref)
        Repository(place).git("checkout", "-q", "--detach", "FETCH_HEAD")
        Repository(place).git("remote", "set-url", "origin", f"https://github.com/{name}")
        if name == OWN:
            copy_workflows(place, place)
        file = self.folder / "event.json"
        file.write_text(json.dumps(payload), encoding="utf-8")
        command = [
            self.act,
            event,
            "-W",
            f".github/workflows/{workflow}",
            "-e",
            str(file),
            "-s",
            f"GITHUB_TOKEN={token}",
        ]
        command += ["--pull=false", "--no-cache-server", "--action-offline-mode"]
        command += [f"-P={label}=-self-hosted" for label in ("ubuntu-24.04", "gpu")]
        command += ["--var=EVENBENCH_PAGES=true"]  # the one variable that a workflow of ours looks at
        command += [f"--local-repository={uses}={local}" for uses, local in self._local(place).items()]
        settings = {
            "FAKE_REMOTES": str(self.folder / "remotes"),
            "FAKE_ARTIFACTS": str(self.folder / "artifacts"),
            "FAKE_LOG": str(self.folder / "log"),
            "FAKE_SOURCE": str(ROOT),
            "EVENBENCH_VENV": str(Path(sys.executable).parent.parent),
            "GITHUB_RUN_ID": str(run),
            "GITHUB_API_URL": NOWHERE,
            "OPENBLAS_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "TMPDIR": str(self.folder / "tmp"),
            **variables,
        }
        command += [f"--env={key}={value}" for key, value in settings.items()]
        path = os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        env = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), "PATH": path}
        done = subprocess.run(
            command, cwd=place, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        return Done(done.returncode, done.stdout + done.stderr)

    def _local(self, place: Path) -> dict[str, str]:
        """What `uses:` means here: our reusable workflows, and stand-ins of the actions."""
        texts = [
            path.read_text() for folder in (self.source, place) for path in (folder / ".github/workflows").glob("*")
        ]
        actions = {uses for text in texts for uses in USES.findall(text)}
        called = {uses for text in texts for uses in re.findall(rf"uses: {OWN}/\S+@(\S+)", text)}
        return {
            **{uses: str(ACTIONS / uses.partition("@")[0].partition("/")[2]) for uses in actions},
            **{f"{OWN}@{ref}": str(self.source) for ref in called},
        }


def copy_workflows(source: Path, target: Path) -> None:
    """This repository's `.github` with the one key left out that act refuses."""
    if source != target:
        shutil.copytree(source / ".github", target / ".github")
    for path in (target / ".github/workflows").glob("*.yml"):
        path.write_text(QUEUE.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
