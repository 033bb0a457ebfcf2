"""The client against GitHub's own description of its API, and our fake held against the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from evenbench.reports.compare.compare import compare
from evenbench.reports.publish.accepted import acceptance
from evenbench.reports.publish.check_run import CheckRun, CheckRuns
from evenbench.reports.publish.client import GitHub, NotFound, Unprocessable
from evenbench.reports.publish.events import State, WorkflowRun, read_event
from evenbench.reports.publish.outcome import LABEL, Outcome, Stamp, check_text, parse
from evenbench.reports.publish.publish import PublishTarget, publish
from evenbench.reports.publish.pull_request import Pull, checked, current, resolve
from evenbench.reports.render.comment.comment import Links
from evenbench.runner.errors import GitHubRefused
from tests import build
from tests.conftest import ON_CI
from tests.fakes.clock import Clock
from tests.fakes.desk import SAME, SLOWER
from tests.fakes.github import BODY_MAX, BOT, REPOSITORY, FakeGitHub, example, run_event
from tests.fakes.node import payload
from tests.fakes.prism import prism, why_not

HEAD = "b" * 40
BELOW = f"/repos/{REPOSITORY}"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _there() -> None:
    if reason := why_not():
        (pytest.fail if ON_CI else pytest.skip)(reason)


def client(address: str, session: requests.Session) -> GitHub:
    session.trust_env = False
    clock = Clock()
    return GitHub(session, address, "write-token", clock=clock, sleep=clock.sleep)


@pytest.mark.parametrize("name", ["workflow_run", "pull_request", "workflow_dispatch", "merge_group"])
def test_payloads_as_github_sends_them(name: str) -> None:
    data = payload(name)
    if name == "workflow_run":  # the example was made anonymous in one place only
        data["repository"] = data[name]["repository"]
    found = read_event(data, "", WorkflowRun(1, 1, 1, ""))
    assert found.kind == name
    assert found.repository == data["repository"]["full_name"]
    assert found.head_sha or name == "workflow_dispatch"


class TestMock:
    """Prism answers with GitHub's examples, and refuses what GitHub's description does not allow."""

    @pytest.fixture(scope="class")
    @classmethod
    def github(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHub]:
        with prism(tmp_path_factory.mktemp("mock"), "mock", links=False) as address, requests.Session() as session:
            yield client(address, session)

    def test_pull_requests(self, github: GitHub) -> None:
        pull = checked(Pull, github.get(f"{BELOW}/pulls/1347"))
        assert pull == checked(Pull, example("pull-request"))
        assert pull.head.sha == "6dcb09b5b57875f334f61aebed695e2e4193db5e"
        (listed,) = github.pages(f"{BELOW}/pulls", state="all", head="octocat:new-topic")
        assert checked(Pull, listed).number == 1347

    def test_current(self, github: GitHub) -> None:
        assert current(github, "octocat/Hello-World", 1347, "6dcb09b5b57875f334f61aebed695e2e4193db5e").number == 1347

    def test_resolve(self, github: GitHub) -> None:
        fake = FakeGitHub("octocat/Hello-World")
        fake.pulls[1347] = example("pull-request")
        event = run_event(fake, 1347)
        assert resolve(github, read_event(event, "", WorkflowRun(1, 1, 1, ""))).number == 1347

    def test_comments(self, github: GitHub) -> None:
        (listed,) = github.pages(f"{BELOW}/issues/7/comments")
        assert listed["user"]["login"] == "octocat"
        made = github.create(f"{BELOW}/issues/7/comments", {"body": "x"}, lambda: None)
        assert made["id"] == 1
        assert github.edit(f"{BELOW}/issues/comments/1", {"body": "x"})["id"] == 1
        github.delete(f"{BELOW}/issues/comments/1")

    def test_check_runs(self, github: GitHub) -> None:
        runs = CheckRuns(github, REPOSITORY, HEAD, "evenbench (pr)", "https://github.com/o/r/actions/runs/1")
        assert runs.newest() is None  # the example is none of ours
        states: tuple[State, ...] = ("queued", "running", "nothing", "failed", "superseded")
        for state in states:
            outcome = Outcome(state)
            stamp = Stamp("pr", outcome.state, HEAD, 1, 1, 1)
            assert runs.write(stamp, check_text(outcome, Links())).startswith("check run created")
        listed = next(github.pages(f"{BELOW}/commits/{HEAD}/check-runs", "check_runs", check_name="x", filter="all"))
        ours = checked(CheckRun, listed)
        text = check_text(Outcome("failed"), Links())
        assert runs.edit(ours, Stamp("pr", "failed", HEAD, 1, 1, 1), text) == "check run edited: failure"

    def test_who_accepted(self, github: GitHub) -> None:
        found = acceptance(github, REPOSITORY, 7, 0)
        assert found.why == "it is not known who added it"  # the example labels a bug
        assert github.get(f"{BELOW}/collaborators/octocat/permission")["permission"] == "admin"

    def test_artifacts(self, github: GitHub) -> None:
        found = list(github.pages(f"{BELOW}/actions/runs/50/artifacts", "artifacts"))
        assert found[0]["name"] == "Rails"

    @pytest.mark.parametrize("body", [{}, {"body": 7}, {"text": "x"}])
    def test_what_the_description_forbids_is_noticed(self, github: GitHub, body: dict[str, Any]) -> None:
        """Or the tests above would show nothing."""
        with pytest.raises(Unprocessable):
            github.create(f"{BELOW}/issues/7/comments", body, lambda: None)
        with pytest.raises(Unprocessable):
            github.create(f"{BELOW}/check-runs", {"name": "x"}, lambda: None)


class TestProxy:
    """Every request of a publisher's life, and every answer of the fake, as the description has them."""

    @pytest.fixture(scope="class")
    @classmethod
    def behind(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeGitHub, str]]:
        """One fake and the proxy before it."""
        fake = FakeGitHub()
        folder = tmp_path_factory.mktemp("proxy")
        with fake.serving() as address, prism(folder, "proxy", "--errors", address) as proxy:
            yield fake, proxy

    @pytest.fixture
    def fake(self, behind: tuple[FakeGitHub, str]) -> FakeGitHub:
        fake, proxy = behind
        vars(fake).update(vars(FakeGitHub()))  # as new
        fake.public = proxy
        fake.open_pull(7, fork="stranger/kernels")
        return fake

    @pytest.fixture
    def github(self, behind: tuple[FakeGitHub, str], fake: FakeGitHub) -> Iterator[GitHub]:
        with requests.Session() as session:
            yield client(behind[1], session)

    def test_a_publisher_s_life(self, github: GitHub, fake: FakeGitHub) -> None:
        own = WorkflowRun(99, 1, 1, "https://github.com/octo-org/kernels/actions/runs/99")
        links = Links(run="https://github.com/octo-org/kernels/actions/runs/50")

        def outcome(*cases: build.Case) -> Outcome:
            return Outcome.of(compare(build.results(cases), datetime.now(UTC).date()))

        def says(what: Outcome, run: int) -> list[str]:
            event = read_event(run_event(fake, run=run), REPOSITORY, own)
            found = resolve(github, event).or_error()
            return publish(
                github, PublishTarget(REPOSITORY, found.number, found.head_sha, "pr", event.run), what, links
            )

        for number in range(120):
            fake.comment(7, "octocat", f"{number}")
        assert says(Outcome("queued"), 50) == ["check run created: queued", "comment created"]
        assert says(Outcome("running"), 50) == ["check run edited: in_progress", "comment edited"]
        assert says(outcome(SAME), 50) == ["check run edited: success", "comment edited"]
        fake.push(7, "d" * 40, force=True)
        assert says(outcome(SLOWER), 51)[0] == "check run created: failure"
        fake.label(7, LABEL, "ada", "write")
        assert says(Outcome("nothing"), 52) == ["check run edited: success", "comment edited"]
        fake.comment(7, BOT, fake.bodies()[0])
        assert says(outcome(SAME), 53) == ["check run edited: success", "comment edited", "a second comment deleted"]
        assert [stamp.run for body in fake.bodies() if (stamp := parse(body))] == [53]
        fake.upload(50, "evenbench-0.results.jsonl")
        assert len(list(github.pages(f"{BELOW}/actions/runs/50/artifacts", "artifacts"))) == 1

    def test_errors_of_the_fake(self, github: GitHub, fake: FakeGitHub) -> None:
        with pytest.raises(NotFound):
            github.get(f"{BELOW}/pulls/8")
        with pytest.raises(NotFound):
            github.get(f"{BELOW}/collaborators/nobody/permission")
        with pytest.raises(Unprocessable) as caught:
            github.create(f"{BELOW}/issues/7/comments", {"body": "x" * (BODY_MAX + 1)}, lambda: None)
        assert caught.value.too_long
        fake.tokens["write-token"] = "read"
        with pytest.raises(GitHubRefused, match="Resource not accessible by integration"):
            github.create(f"{BELOW}/issues/7/comments", {"body": "x"}, lambda: None)

    def test_a_wrong_answer_is_noticed(self, github: GitHub, fake: FakeGitHub) -> None:
        """Or the tests above would show nothing."""
        del fake.pulls[7]["number"]
        with pytest.raises(GitHubRefused, match="500"):
            github.get(f"{BELOW}/pulls/7")
