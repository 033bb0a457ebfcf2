"""What GitHub does to a publisher that nothing is wrong with: it ends well, once, and hides no failure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import github
from tests.fakes.desk import SAME, SLOWER, Desk
from tests.fakes.github import Status, run_event


def refused(message: str) -> dict[str, str]:
    return {"message": message}


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("Unable to create comment because issue is locked.", "unlock the conversation"),
        ("Repository was archived so is read-only.", "an archived repository is read-only"),
        ("Resource protected by organization SAML enforcement.", "single sign-on"),
        ("Issues has been disabled in this repository.", ""),
        ("Repository access blocked", ""),
        ("Resource not accessible by integration", "pull-requests: write"),
        ("Must have admin rights to Repository.", "pull-requests: write"),
        ("Something new that GitHub says", "pull-requests: write"),
    ],
)
def test_a_403_that_is_no_rate_limit_is_final(desk: Desk, message: str, hint: str) -> None:
    desk.fake.fail("POST", r"issues/7/comments", 403, refused(message), times=99)
    said = desk.publish(desk.results(SAME))
    assert said.code == 6
    assert sum(desk.slept) < 60
    assert message in said.err
    assert hint in said.err
    assert hint == "pull-requests: write" or "pull-requests: write" not in said.err
    (check,) = desk.fake.checks.values()
    assert check["conclusion"] == "success"  # written all the same


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "You have exceeded a secondary rate limit."),
        (403, "API rate limit exceeded for installation ID 1."),
        (403, "You have triggered an abuse detection mechanism."),
        (429, "Too many requests"),
    ],
)
def test_a_rate_limit_is_waited_for(desk: Desk, status: int, message: str) -> None:
    desk.fake.fail("POST", r"issues/7/comments", status, refused(message))
    assert desk.publish(desk.results(SAME)).code == 0
    assert sum(desk.slept) >= 60
    assert len(desk.fake.comments) == 1


def test_the_token_of_an_app_makes_one_comment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(self: github.FakeGitHub, request: github.Request, number: str) -> None:
        raise Status(201, self.comment(int(number), "bench-app[bot]", request.body["body"]))

    monkeypatch.setitem(github.ROUTES, r"POST issues/(\d+)/comments", create)
    for action in ("requested", "in_progress"):
        desk.publish(action=action)
    desk.publish(desk.results(SAME))
    ((_, comment),) = desk.fake.comments.values()
    assert "1 unchanged" in comment["body"]


def test_a_superseded_run_is_no_failure(desk: Desk) -> None:
    desk.publish(action="requested")
    old = run_event(desk.fake, conclusion="cancelled")
    desk.fake.push(7, "d" * 40)
    said = desk.publish(event=old)
    assert (said.code, said.out) == (0, "")
    assert "no comment: #7 is at ddddddd by now" in said.err


@pytest.mark.parametrize("with_results", [True, False])
def test_neither_is_one_whose_pull_request_was_merged_meanwhile(desk: Desk, with_results: bool) -> None:
    desk.fake.pulls[7]["state"] = "closed"
    said = desk.publish(*([desk.results(SAME)] if with_results else []))
    assert said.code == 0
    assert "no comment: #7 is closed" in said.err
    assert not desk.fake.comments
    assert not desk.fake.checks


def test_a_comment_deleted_meanwhile_is_made_again(desk: Desk) -> None:
    desk.publish(desk.results(SAME))
    desk.fake.fail("PATCH", r"issues/comments", first=desk.fake.comments.clear, passes=True)
    said = desk.publish(desk.results(SLOWER), run=51)
    assert said.code == 0, said.err
    (*_, body) = desk.fake.bodies()
    assert "1 regressed" in body


@pytest.mark.parametrize("conclusion", ["cancelled", "stale", "timed_out"])
def test_a_run_without_results_of_the_current_head_is_no_pass(desk: Desk, conclusion: str) -> None:
    """GitHub reports a job that reached its `timeout-minutes` as cancelled."""
    said = desk.publish(conclusion=conclusion)
    (check,) = desk.fake.checks.values()
    assert (said.code, check["conclusion"], check["output"]["title"]) == (0, "failure", "no result")


def test_two_pull_requests_of_one_branch_have_a_check(desk: Desk) -> None:
    desk.fake.open_pull(8, base_branch="release")
    said = desk.publish(desk.results(SAME))
    assert said.code == 0
    assert "no comment: #7 and #8 are of the same branch and commit" in said.out
    (check,) = desk.fake.checks.values()
    assert check["conclusion"] == "success"
    assert not desk.fake.comments


class TestOneCommitOfTwoPullRequests:
    @pytest.fixture
    def both(self, desk: Desk) -> Desk:
        """#8, of another branch at the same commit, regressed; #7 is published after it."""
        desk.fake.open_pull(8, branch="backport", base_branch="release")
        desk.publish(desk.results(SLOWER), event=run_event(desk.fake, 8, run=50))
        return desk

    @staticmethod
    def check(desk: Desk) -> dict[str, Any]:
        found: dict[str, Any] = max(desk.fake.checks.values(), key=lambda check: check["id"])
        return found

    def test_the_success_of_one_does_not_hide_the_failure_of_the_other(self, both: Desk) -> None:
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=51))
        check = self.check(both)
        assert (check["conclusion"], check["output"]["title"]) == ("failure", "#7: 1 unchanged; #8: 1 regressed")

    def test_neither_where_the_older_run_comes_last(self, both: Desk) -> None:
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=49))
        assert self.check(both)["conclusion"] == "failure"

    def test_an_older_run_of_the_same_pull_request_writes_over_nothing(self, both: Desk) -> None:
        both.publish(both.results(SAME), event=run_event(both.fake, 8, run=49))
        assert self.check(both)["output"]["title"] == "1 regressed"

    def test_a_better_result_of_the_other_clears_it(self, both: Desk) -> None:
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=51))
        both.publish(both.results(SAME), event=run_event(both.fake, 8, run=52))
        assert (self.check(both)["conclusion"], self.check(both)["output"]["title"]) == ("success", "1 unchanged")

    @pytest.mark.parametrize("how", ["closed", "pushed"])
    def test_a_pull_request_that_is_gone_no_longer_counts(self, both: Desk, how: str) -> None:
        if how == "closed":
            both.fake.pulls[8]["state"] = "closed"
        else:
            both.fake.push(8, "d" * 40)
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=51))
        assert self.check(both)["conclusion"] == "success"

    def test_each_has_its_comment(self, both: Desk) -> None:
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=51))
        regressed = {number: "1 regressed" in comment["body"] for number, comment in both.fake.comments.values()}
        assert regressed == {7: False, 8: True}
