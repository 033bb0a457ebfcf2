"""What GitHub does to a publisher that nothing is wrong with: it ends well, once, and hides no failure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.publish.check_run import CheckRun, CheckRuns
from evenbench.reports.publish.check_shares import CheckShare, combined, shares_of, without_shares
from evenbench.reports.publish.outcome import LABEL, CheckText, Conclusion, Stamp
from evenbench.reports.text import sanitise
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
        ("Issues has been disabled in this repository.", "enable it"),
        ("Repository access blocked", "GitHub's support"),
        ("This installation has been suspended", "lift the suspension"),
        ("The `octo-org` organization has an IP allow list enabled, and your IP address is not permitted", "address"),
        ("You must authenticate via a GitHub App.", "need the token of an App"),
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
        (403, "Validation Failed: was submitted too quickly"),
        (429, "Too many requests"),
    ],
)
def test_a_rate_limit_is_waited_for(desk: Desk, status: int, message: str) -> None:
    desk.fake.fail("POST", r"issues/7/comments", status, refused(message))
    assert desk.publish(desk.results(SAME)).code == 0
    assert sum(desk.slept) >= 60
    assert len(desk.fake.comments) == 1


@pytest.mark.parametrize("author", ["bench-app[bot]", "octocat"])
def test_another_token_makes_one_comment(desk: Desk, author: str) -> None:
    """Of an App, or of a person."""
    desk.fake.author = author
    for action in ("requested", "in_progress"):
        desk.publish(action=action)
    desk.publish(desk.results(SAME))
    ((_, comment),) = desk.fake.comments.values()
    assert comment["user"]["login"] == author
    assert "1 unchanged" in comment["body"]
    (edited,) = {each.path for each in desk.fake.requests if each.method == "PATCH" and "comments" in each.path}
    assert edited.endswith(f"/{comment['id']}")


def test_the_token_of_an_app_makes_one_check_run(desk: Desk) -> None:
    desk.fake.author = "bench-app[bot]"
    desk.publish(action="requested")
    desk.publish(desk.results(SLOWER))
    (check,) = desk.fake.checks.values()
    assert (check["app"]["slug"], check["conclusion"]) == ("bench-app", "failure")


def test_the_answer_to_a_comment_names_its_author(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where GitHub does not tell whose the token is."""

    def create(self: github.FakeGitHub, request: github.Request, number: str) -> None:
        raise Status(201, self.comment(int(number), "bench-app[bot]", request.body["body"]))

    monkeypatch.setitem(github.ROUTES, r"POST issues/(\d+)/comments", create)
    desk.fake.fail("POST", "/graphql", 403, refused("Resource not accessible by integration"), times=99)
    for action in ("requested", "in_progress"):
        desk.publish(action=action)
    desk.publish(desk.results(SAME))
    assert len(desk.fake.comments) == 1


def test_nobody_is_asked_whose_the_token_is_without_need(desk: Desk) -> None:
    desk.publish(action="requested")
    desk.fake.comment(7, "octocat", "well done")
    desk.publish(desk.results(SAME))
    assert not [each for each in desk.fake.requests if each.path == "/graphql"]


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


def test_a_comment_that_cannot_be_edited_is_an_error(desk: Desk) -> None:
    """It is there, and GitHub does not find it: nothing was published."""
    desk.publish(desk.results(SAME))
    desk.fake.fail("PATCH", r"issues/comments", 404, refused("Not Found"), times=99)
    said = desk.publish(desk.results(SLOWER), run=51)
    assert said.code == 6
    assert "PATCH" in said.err


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


@pytest.mark.parametrize("second", ["done", "failed"])
def test_a_run_of_one_of_them_hides_no_failure_of_the_other(desk: Desk, second: str) -> None:
    """Which of them a run is of cannot be known."""
    desk.fake.open_pull(8, base_branch="release")
    first, last = (SLOWER, SAME) if second == "done" else (SAME, None)
    desk.publish(desk.results(first), event=run_event(desk.fake, 8, run=50))
    if last is None:
        desk.publish(event=run_event(desk.fake, 7, run=51, conclusion="failure"))
    else:
        desk.publish(desk.results(last), event=run_event(desk.fake, 7, run=51))
    check = TestOneCommitOfTwoPullRequests.check(desk)
    assert check["conclusion"] == "failure"
    wrong = 50 if second == "done" else 51
    desk.publish(desk.results(SAME), event=run_event(desk.fake, 8, run=wrong, run_attempt=2))  # started again
    check = TestOneCommitOfTwoPullRequests.check(desk)
    assert (check["conclusion"], check["output"]["title"]) == ("success", "1 unchanged")


def test_the_runs_of_several_no_longer_count_once_one_is_left(desk: Desk) -> None:
    desk.fake.open_pull(8, base_branch="release")
    desk.publish(desk.results(SLOWER), event=run_event(desk.fake, 8, run=50))
    desk.fake.pulls[8]["state"] = "closed"
    desk.publish(desk.results(SAME), event=run_event(desk.fake, 7, run=51))
    assert TestOneCommitOfTwoPullRequests.check(desk)["conclusion"] == "success"


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

    def test_the_label_of_one_accepts_nothing_of_the_other(self, both: Desk) -> None:
        both.publish(both.results(SLOWER), event=run_event(both.fake, 7, run=51))
        both.fake.label(7, LABEL, "octocat", "admin")
        both.publish(event=run_event(both.fake, 7, run=52))
        check = self.check(both)
        assert check["conclusion"] == "failure"
        assert check["output"]["title"] == "#7: accepted by octocat: 1 regressed; #8: 1 regressed"
        both.fake.label(8, LABEL, "octocat", "admin")
        both.publish(event=run_event(both.fake, 8, run=53))
        check = self.check(both)
        assert check["conclusion"] == "success"
        assert "accepted by octocat" in check["output"]["title"]

    def test_a_label_accepts_nothing_where_only_the_other_has_said_anything(self, both: Desk) -> None:
        """The check run of #7 was never written; its comment was."""
        check = self.check(both)
        runs = CheckRuns(github=None, repository="", head_sha="", name="", url="", key="pull-7")  # type: ignore[arg-type]
        written = CheckRun.model_validate(check)
        assert written.stamp is not None
        assert runs.accept(written, written.stamp, "octocat") == ""

    def test_a_label_counts_though_the_other_wrote_last(self, both: Desk) -> None:
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=51))
        both.fake.label(8, LABEL, "octocat", "admin")
        both.publish(event=run_event(both.fake, 8, run=52))
        assert self.check(both)["conclusion"] == "success"
        both.publish(both.results(SAME), event=run_event(both.fake, 7, run=53))
        assert self.check(both)["conclusion"] == "success"

    def test_a_success_does_not_hide_that_the_other_is_still_measured(self, desk: Desk) -> None:
        desk.fake.open_pull(8, branch="backport", base_branch="release")
        desk.publish(event=run_event(desk.fake, 8, run=50, action="requested"))
        desk.publish(desk.results(SAME), event=run_event(desk.fake, 7, run=51))
        (check,) = desk.fake.checks.values()
        assert (check["status"], check["output"]["title"]) == ("in_progress", "#7: 1 unchanged; #8: queued")
        desk.publish(desk.results(SAME), event=run_event(desk.fake, 8, run=50))
        assert (check["status"], check["conclusion"]) == ("completed", "success")

    def test_two_that_publish_at_once(self, desk: Desk) -> None:
        """Both see no check run, and both make one: GitHub shows the last."""
        desk.fake.open_pull(8, branch="backport", base_branch="release")
        event = run_event(desk.fake, 8, run=50)

        def first() -> None:
            stamp = Stamp("pr", "done", "b" * 40, 50, 1, 10, pull=8)
            share = CheckShare("pull-8", "failure", "1 regressed")
            output = {"title": "1 regressed", "summary": share.line}
            values = {"name": "evenbench (pr)", "status": "completed", "external_id": stamp.marker}
            desk.fake.add_check(event["workflow_run"]["head_sha"], conclusion="failure", output=output, **values)

        desk.fake.fail("POST", "check-runs$", passes=True, first=first)
        desk.publish(desk.results(SAME), event=run_event(desk.fake, 7, run=49))
        check = self.check(desk)
        assert (check["conclusion"], check["output"]["title"]) == ("failure", "#7: 1 unchanged; #8: 1 regressed")


conclusions = st.sampled_from(["success", "failure", "neutral", None])
shares = st.builds(
    CheckShare, st.integers(1, 10**9).map("pull-{}".format), conclusions, st.text(max_size=40).map(sanitise)
)


@given(conclusions, st.lists(shares, max_size=4, unique_by=lambda share: share.key))
def test_the_worst_of_a_commit_s_pull_requests_decides(conclusion: Conclusion | None, others: list[CheckShare]) -> None:
    text = CheckText(conclusion is None, conclusion, "mine", "summary")
    whole = combined(text, "run-7", others)
    known = {share.conclusion for share in others}
    if conclusion is None:
        expected = None
    elif "failure" in {conclusion, *known}:
        expected = "failure"
    else:
        expected = None if None in known else conclusion
    assert whole.conclusion == expected
    assert whole.running == (expected is None)
    assert shares_of(whole.summary) == {
        share.key: share for share in [CheckShare("run-7", conclusion, "mine"), *others]
    }
    assert without_shares(whole.summary) == "summary"
    assert combined(text, "", others) == text
