"""From an event to the pull request that it means, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.publish.client import GitHub
from evenbench.reports.publish.events import Event, WorkflowRun, read_event, state_of
from evenbench.reports.publish.pull_request import Resolution, current, resolve
from evenbench.runner.errors import EvenbenchError, GitHubRefused, PullRequestMoved, UntrustedInput, UsageError
from tests.fakes.clock import Clock
from tests.fakes.github import REPOSITORY, FakeGitHub, run_event

OWN = WorkflowRun(99, 1, 3, "https://github.com/octo-org/kernels/actions/runs/99", 1_764_000_000)
HEAD, BASE = "b" * 40, "a" * 40
HERE = {"repository": {"full_name": REPOSITORY}}


@pytest.fixture
def fake() -> FakeGitHub:
    return FakeGitHub()


@pytest.fixture
def github(fake: FakeGitHub) -> Iterator[GitHub]:
    clock = Clock()
    with fake.serving() as address, requests.Session() as session:
        session.trust_env = False
        yield GitHub(session, address, "read-token", clock=clock, sleep=clock.sleep)


def event(data: object) -> Event:
    return read_event(data, REPOSITORY, OWN)


def dispatch(**inputs: str | None) -> dict[str, Any]:
    return {**HERE, "ref": "refs/heads/main", "workflow": ".github/workflows/manual.yml", "inputs": inputs}


class TestWorkflowRun:
    @pytest.mark.parametrize("fork", [None, "stranger/kernels", "stranger/renamed"])
    def test_the_one_pull_request_of_its_branch(self, github: GitHub, fake: FakeGitHub, fork: str | None) -> None:
        fake.open_pull(7, fork=fork, branch="a/b&c=#d")
        fake.open_pull(8, fork="other/kernels", branch="a/b&c=#d")
        fake.open_pull(9, fork=fork, branch="other", head=HEAD)
        assert resolve(github, event(run_event(fake, 7))) == Resolution(7, HEAD, BASE)

    def test_it_is_not_taken_from_the_payload(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)
        data = run_event(fake, 7, pull_requests=[{"number": 8, "head": {"sha": HEAD}}])
        assert resolve(github, event(data)).number == 7

    def test_an_old_closed_one_of_the_same_branch_does_not_matter(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(5, state="closed")
        fake.open_pull(6, state="closed", head="c" * 40)
        fake.open_pull(7)
        assert resolve(github, event(run_event(fake, 7))).number == 7

    def test_a_list_over_several_pages(self, github: GitHub, fake: FakeGitHub) -> None:
        for number in range(100, 250):
            fake.open_pull(number, state="closed", head="c" * 40)
        fake.open_pull(7)
        assert resolve(github, event(run_event(fake, 7))).number == 7

    def test_a_filter_that_github_ignores(self, github: GitHub, fake: FakeGitHub) -> None:
        """What GitHub cannot read as a filter lists every pull request."""
        fake.open_pull(6, branch="other")
        fake.open_pull(7, fork="stranger/kernels")
        data = run_event(fake, 7)
        fake.open_pull(8, fork="third/kernels")
        fake.open_pull(9, fork="stranger/kernels", branch="other")
        fake.fail("GET", "pulls$", 200, [fake.pulls[number] for number in (6, 7, 8, 9)])
        assert resolve(github, event(data)).number == 7

    def test_a_merge_group_has_a_head_alone(self, github: GitHub, fake: FakeGitHub) -> None:
        branch = "gh-readonly-queue/main/pr-7-abc"
        more: dict[str, Any] = {
            "event": "merge_group",
            "head_branch": branch,
            "head_sha": HEAD,
            "head_repository": HERE["repository"],
        }
        found = resolve(github, event(run_event(fake, None, **more)))
        assert (found.number, found.head_sha, found.reason) == (None, HEAD, "no-pull-request")
        assert found.or_error() is found

    def test_another_form_of_the_path(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)
        for ref in ("main", "refs/heads/main", "refs/pull/7/merge"):
            data = run_event(fake, 7, path=f".github/workflows/benchmark.yml@{ref}")
            assert resolve(github, event(data)).number == 7

    def test_workflows_of_another_name(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)
        data = run_event(fake, 7, path=".github/workflows/evenbench.yml")
        assert resolve(github, event(data), [".github/workflows/evenbench.yml"]).number == 7


class TestDispatch:
    @pytest.mark.parametrize("text", ["7", "#7", " 7 "])
    def test_number(self, github: GitHub, fake: FakeGitHub, text: str) -> None:
        fake.open_pull(7)
        assert resolve(github, event(dispatch(pull_request=text))) == Resolution(7, HEAD, BASE)

    def test_a_head_that_is_the_head(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)
        assert resolve(github, event(dispatch(pull_request="7", head_sha=HEAD))).number == 7

    def test_a_head_that_is_not(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)
        found = resolve(github, event(dispatch(pull_request="7", head_sha="c" * 40)))
        assert (found.number, found.reason) == (None, "moved")
        assert found.why == "#7 is at bbbbbbb by now, not at ccccccc"

    def test_none_of_that_number(self, github: GitHub) -> None:
        found = resolve(github, event(dispatch(pull_request="7")))
        assert found.why == "there is no pull request #7"
        with pytest.raises(PullRequestMoved):
            found.or_error()

    def test_a_deleted_fork_can_still_be_measured(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)["head"]["repo"] = None
        assert resolve(github, event(dispatch(pull_request="7"))).number == 7

    @pytest.mark.parametrize("inputs", [{"base": "main", "head": "x"}, {"pull_request": ""}, {"pull_request": None}])
    def test_two_refs(self, github: GitHub, fake: FakeGitHub, inputs: dict[str, str]) -> None:
        found = resolve(github, event(dispatch(**inputs)))
        assert (found.number, found.head_sha, found.reason) == (None, "", "no-pull-request")
        assert fake.requests == []

    def test_a_form_without_fields(self) -> None:
        assert event({**HERE, "inputs": None}).kind == "workflow_dispatch"


class TestOtherEvents:
    def test_pull_request(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.open_pull(7)
        found = event({**HERE, "action": "opened", "pull_request": fake.pulls[7]})
        assert resolve(github, found) == Resolution(7, HEAD, BASE)
        assert fake.requests == []

    def test_merge_group(self, github: GitHub) -> None:
        found = event({**HERE, "merge_group": {"head_sha": HEAD, "base_sha": BASE}})
        assert resolve(github, found) == Resolution(
            None, HEAD, BASE, "no-pull-request", "a merge group has no pull request of its own"
        )

    def test_schedule(self, github: GitHub) -> None:
        found = event({**HERE, "schedule": "0 3 * * *", "workflow": ".github/workflows/nightly.yml"})
        assert found.kind == "other"
        assert resolve(github, found).reason == "no-pull-request"

    @pytest.mark.parametrize(
        "data", [None, [], 7, {}, {"repository": {}}, {"repository": {"full_name": "../x"}}, {**HERE, "inputs": 7}]
    )
    def test_no_event(self, data: object) -> None:
        with pytest.raises(UsageError):
            read_event(data, "", OWN)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "repository",
                            "full_name",
                            "workflow_run",
                            "pull_request",
                            "inputs",
                            "head",
                            "head_sha",
                            "sha",
                            "action",
                            "id",
                        ]
                    ),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=20,
        )
    )
    def test_only_errors_of_ours(self, data: object) -> None:
        with suppress(EvenbenchError):
            assert read_event(data, "", OWN).repository


@pytest.mark.parametrize(
    ("action", "conclusion", "state"),
    [
        ("requested", None, "queued"),
        ("in_progress", None, "running"),
        ("completed", "success", "nothing"),
        ("completed", "skipped", "nothing"),
        ("completed", "cancelled", "failed"),
        ("completed", "action_required", "queued"),
        ("completed", "failure", "failed"),
        ("completed", "timed_out", "failed"),
        ("completed", "startup_failure", "failed"),
        ("completed", None, "failed"),
    ],
)
def test_state_of_a_run(fake: FakeGitHub, action: str, conclusion: str | None, state: str) -> None:
    fake.open_pull(7)
    found, why = state_of(event(run_event(fake, 7, action=action, conclusion=conclusion)))
    assert found == state
    assert bool(why) == (action == "completed")


def test_current(github: GitHub, fake: FakeGitHub) -> None:
    fake.open_pull(7, labels=["x"])
    pull = current(github, REPOSITORY, 7, HEAD)
    assert [label.name for label in pull.labels] == ["x"]
    assert not pull.from_fork
    fake.push(7, "c" * 40)
    with pytest.raises(PullRequestMoved, match="#7 is at ccccccc by now"):
        current(github, REPOSITORY, 7, HEAD)


def test_an_answer_that_is_no_pull_request(github: GitHub, fake: FakeGitHub) -> None:
    fake.fail("GET", "pulls/7", 200, {"number": "seven"})
    with pytest.raises(GitHubRefused, match="GitHub's answer is not a pull: number"):
        current(github, REPOSITORY, 7, HEAD)


def test_a_run_of_another_repository() -> None:
    with pytest.raises(UntrustedInput, match="the event is about evil/kernels, not octo-org/kernels"):
        event({"repository": {"full_name": "evil/kernels"}})
