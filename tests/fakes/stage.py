"""A repository on our two stand-ins for GitHub, Actions and API, with its workflows: what happens there, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evenbench.starter.files import Source, write
from tests.conftest import ON_CI
from tests.fakes.act import OWN, ROOT, Actions, Done, copy_workflows
from tests.fakes.github import FakeGitHub
from tests.fakes.node import modules, payload
from tests.fakes.repositories import Repository

ADOPTER = "octo-org/kernels"
WRITE = "write-token"  # as the fake knows it
READ = "read-token"
CASES = """
    import numpy as np
    from evenbench import Bench, case

    @case("ops/softmax", params={"cols": [4096]}, device="cpu", tags={"pr"})
    def softmax(p, device):
        \"\"\"Some work, REPEATS times over.\"\"\"
        x = np.arange(200_000.0)

        def work():
            for _ in range(REPEATS):
                total = x.sum()
            return total

        return Bench(run=work, inputs={"x": x}, reference=lambda: x.sum())
"""
# As few and short launches as are judged, and only twice the time is a change: these tests are about all but the figures.
SUITES = """
    version: 1
    paths: ["cases/**"]
    defaults: {measure_ms: 10, warmup_ms: 1, rounds: 6, max_rounds: 6, cache: warm}
    compare: {equivalence: 1.0}
    suites:
      pr: {include: ["**"], min_effect: 0.5}
      full: {include: ["**"], min_effect: 0.03}
"""


@contextmanager
def staging(folder: Path, act: str) -> Iterator[Callable[[str], Stage]]:
    """Makes the repository of a name, on a GitHub that is there while this is open; the one that the name is of."""
    if modules() is None:
        (pytest.fail if ON_CI else pytest.skip)("npm is not installed")
    actions, github = Actions(folder, act), FakeGitHub()
    with github.serving() as api:

        def make(name: str) -> Stage:
            github.repository = name
            return Stage.of(name, actions, github, api)

        yield make


def cases(repeats: int = 4) -> str:
    """A file of cases."""
    return CASES.replace("REPEATS", str(repeats))


@dataclass(frozen=True)
class Stage:
    """One repository: its workflows run by `actions`, its pull requests kept by `github`, which serves at `api`."""

    actions: Actions
    github: FakeGitHub
    api: str
    repository: Repository
    name: str

    @classmethod
    def of(cls, name: str, actions: Actions, github: FakeGitHub, api: str) -> Stage:
        """Our own repository, with the workflows as they are, or an adopter's, with those that `evenbench init` writes."""
        stage = cls(actions, github, api, actions.repository(name), name)
        if name == OWN:
            copy_workflows(ROOT, stage.repository.path)
        else:
            write(stage.repository.path, "cases", Source(OWN, "f" * 40), force=False)
        (stage.repository.path / "cases" / "example.py").unlink(missing_ok=True)
        stage.repository.commit({"cases/ops.py": cases(), "cases/suites.yaml": SUITES})
        return stage

    @property
    def files(self) -> tuple[str, str, str]:
        """The workflows of pull requests, of publishing and by hand."""
        if self.name == OWN:
            return "benchmark.yml", "publish.yml", "manual.yml"
        return "evenbench.yml", "evenbench-publish.yml", "evenbench-manual.yml"

    def propose(
        self, files: Mapping[str, str], *, number: int = 7, branch: str = "faster", fork: str | None = None
    ) -> str:
        """A pull request with one commit, or another commit on it; returns its id."""
        git = self.repository.git
        there = git("for-each-ref", f"refs/pull/{number}/head")
        git("checkout", "-q", "--detach", f"refs/pull/{number}/head" if there else "main")
        sha = self.repository.commit(files)
        git("update-ref", f"refs/pull/{number}/head", sha)
        if fork is None:
            git("update-ref", f"refs/heads/{branch}", sha)
        git("checkout", "-q", "main")
        if there:
            self.github.push(number, sha)
        else:
            self.github.open_pull(number, head=sha, branch=branch, fork=fork, base=git("rev-parse", "main"))
        return sha

    def benchmark(self, run: int, *, number: int = 7, action: str = "synchronize", **more: Any) -> Done:
        """What a push to a pull request starts: without a token that may write, as GitHub has it for forks."""
        pull = self.github.pulls[number]
        event = self._event(payload("pull_request", action))
        event["number"] = event["pull_request"]["number"] = number
        for side in ("head", "base"):
            event["pull_request"][side].update(sha=pull[side]["sha"], ref=pull[side]["ref"])
            event["pull_request"][side]["repo"]["full_name"] = pull[side]["repo"]["full_name"]
        return self._run("pull_request", self.files[0], event | more, pull["head"]["sha"], run, READ)

    def queue(self, run: int, head: str) -> Done:
        """What the merge queue starts for a group of one."""
        event = self._event(payload("merge_group", "checks_requested"))
        event["merge_group"].update(
            head_sha=head,
            base_sha=self.repository.git("rev-parse", "main"),
            head_ref="refs/heads/gh-readonly-queue/main/pr-7",
        )
        return self._run("merge_group", self.files[0], event, head, run, READ)

    def publish(self, run: int, action: str, conclusion: str | None = None, *, number: int = 7, **changes: Any) -> Done:
        """What a run of the benchmark workflow starts on the default branch. `changes` are of the run in the event."""
        event = self._event(payload("workflow_run", "completed"))
        head = self.github.pulls[number]["head"]
        event["action"] = action
        event["workflow_run"].update(
            id=run,
            run_number=run,
            run_attempt=1,
            path=f".github/workflows/{self.files[0]}",
            event="pull_request",
            status=action,
            conclusion=conclusion,
            head_sha=head["sha"],
            head_branch=head["ref"],
            html_url=f"https://github.com/{self.name}/actions/runs/{run}",
        )
        event["workflow_run"]["repository"]["full_name"] = self.name
        event["workflow_run"]["head_repository"].update(
            full_name=head["repo"]["full_name"], id=len(head["repo"]["full_name"])
        )
        event["workflow_run"].update(changes)
        return self._run("workflow_run", self.files[1], event, "main", run, WRITE)

    def dispatch(self, run: int, inputs: Mapping[str, str]) -> Done:
        """A maintainer fills in the form."""
        event = self._event(payload("workflow_dispatch"))
        event["inputs"] = dict(inputs)
        event["workflow"] = f".github/workflows/{self.files[2]}"
        return self._run("workflow_dispatch", self.files[2], event, "main", run, WRITE)

    def night(self, run: int) -> Done:
        """The schedule's hour comes. Pushes to GitHub go to the folder of that GitHub."""
        event = self._event({"schedule": "17 2 * * *", "repository": payload("workflow_dispatch")["repository"]})
        settings = self.actions.folder / "gitconfig"
        remotes = self.actions.folder / "remotes"
        settings.write_text(f'[url "{remotes}/"]\n    insteadOf = https://github.com/\n', encoding="utf-8")
        return self.actions.run(
            "schedule",
            "nightly.yml",
            event,
            ref="main",
            run=run,
            token=WRITE,
            GITHUB_API_URL=self.api,
            GIT_CONFIG_GLOBAL=str(settings),
        )

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        event["repository"].update(full_name=self.name, default_branch="main")
        return event

    def _run(self, event: str, workflow: str, data: Mapping[str, Any], ref: str, run: int, token: str) -> Done:
        return self.actions.run(event, workflow, data, ref=ref, run=run, token=token, GITHUB_API_URL=self.api)
