"""Repositories that tests fill, and the real command run inside them, in real processes on the host timer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0  # a hung command fails its test, not the whole suite

# A case that takes little time and never varies in what it does.
QUICK = """
    import numpy as np
    from evenbench import Bench, case

    @case("quick/sum", device="cpu", tags={"pr"})
    def quick_sum(p, device):
        x = np.arange(200_000.0)
        return Bench(run=lambda: x.sum(), inputs={"x": x}, reference=lambda: x.sum())
"""
# Six rounds, the fewest that are judged, of few samples: these tests are about everything but the figures.
SUITES = """
    version: 1
    defaults: {measure_ms: 10, warmup_ms: 1, rounds: 6, max_rounds: 6, cache: warm}
    suites:
      pr: {include: ["**"], min_effect: 0.05, equivalence: 0.10}
"""


@dataclass(frozen=True)
class Repository:
    """A git repository that a test fills, and the command run inside it."""

    path: Path

    @classmethod
    def made(cls, path: Path, files: Mapping[str, str]) -> Repository:
        """A new folder with these files in a first commit on `main`."""
        path.mkdir()
        repository = cls(path)
        repository.git("init", "-q", "-b", "main")
        repository.commit(files)
        return repository

    def write(self, files: Mapping[str, str]) -> None:
        """Write files; an empty text removes one."""
        for name, text in files.items():
            file = self.path / name
            if not text:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text).lstrip("\n"))

    def commit(self, files: Mapping[str, str]) -> str:
        """Write files and commit everything; returns the SHA."""
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        """Run git here."""
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.path, check=True, capture_output=True, text=True).stdout.strip()

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start `evenbench` here, with temporary files and machine locks of its own."""
        temporary = self.path.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("evenbench")), *arguments],
            cwd=self.path,
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
                "TMPDIR": str(temporary),
                "EVENBENCH_LOCKS": str(temporary),
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def evenbench(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `evenbench` here to its end."""
        with self.start(*arguments, **variables) as process:
            try:
                out, error = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def errors(finished: subprocess.CompletedProcess[str]) -> list[str]:
    """The error lines of a command: each error is one line."""
    return [line for line in finished.stderr.splitlines() if line.startswith("error: ")]


def events(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a results file; none while it is not there."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for_launches(path: Path, process: subprocess.Popen[str], launches: int) -> None:
    """Until so many timed launches have begun in a results file that a process writes."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(event["event"] == "launch" and event["kind"] == "timed" for event in events(path)) < launches:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
