"""`evenbench publish` and `resolve` as a workflow runs them, in this process, against a fake GitHub."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evenbench.cli.main import main
from evenbench.runner.records import Event
from tests import build
from tests.build import Case
from tests.fakes.github import FakeGitHub, run_event

SUITES = "version: 1\nsuites:\n  pr: {include: ['**']}\n"
SLOWER = Case("norm/rms", head=30_000.0)
SAME = Case("norm/layer")
FAILED = Case("norm/bad", head_case={"status": "failed", "reason": "it broke", "implementations": []})


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Desk:
    """Where a publisher works: its files, its GitHub."""

    folder: Path
    fake: FakeGitHub
    address: str
    capsys: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    slept: list[float]

    @property
    def summary(self) -> str:
        """The job summary."""
        path = self.folder / "summary.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def run(
        self, verb: str, data: Mapping[str, Any], *words: str | Path, token: str = "write-token", **env: str
    ) -> Said:
        """Run a verb for an event."""
        event = self.folder / "event.json"
        event.write_text(json.dumps(data), encoding="utf-8")
        values = {
            "GITHUB_API_URL": self.address,
            "GITHUB_TOKEN": token,
            "GITHUB_REPOSITORY": self.fake.repository,
            "GITHUB_RUN_ID": "99",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_NUMBER": "5",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "NO_PROXY": "127.0.0.1",
        }
        for name, value in (values | env).items():
            self.patch.setenv(name, value)
        self.capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            code = main([verb, *map(str, words), f"--event={event}"])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        out, err = self.capsys.readouterr()
        return Said(code, out, err)

    def results(self, *cases: Case, name: str = "evenbench-0.results.jsonl", head: str = "b" * 40, **more: Any) -> Path:
        """A results file of a comparison of `head`."""
        sides = [
            side if side.name == "base" else side.model_copy(update={"sha": head}) for side in build.header().sides
        ]
        return self.write(build.events(cases, **({"sides": sides} | more)), name)

    def write(self, events: Sequence[Event], name: str = "evenbench-0.results.jsonl") -> Path:
        """A results file of these events."""
        path = self.folder / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(build.text(events))
        return path

    def publish(
        self, *words: str | Path, event: Mapping[str, Any] | None = None, suites: str = SUITES, **more: Any
    ) -> Said:
        """Publish for a run of pull request 7, or for `event`; `more` changes the run, or the environment if in capitals."""
        config = self.folder / "suites.yaml"
        config.write_text(suites, encoding="utf-8")
        env = {name: more.pop(name) for name in list(more) if name.isupper() or name == "token"}
        data = event if event is not None else run_event(self.fake, **more)
        return self.run("publish", data, *words, f"--config={config}", **env)
