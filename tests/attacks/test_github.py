"""Attacks by way of GitHub, and its bad days: comments and check runs of others, races, limits, lost answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from evenbench.reports.compare.compare import compare
from evenbench.reports.load.results import load_file
from evenbench.reports.publish.client import GitHub
from evenbench.reports.publish.events import WorkflowRun
from evenbench.reports.publish.outcome import Outcome, Stamp, parse
from evenbench.reports.publish.publish import PublishTarget, publish
from evenbench.reports.render.comment.comment import Links
from evenbench.reports.render.comment.markdown import COMMENT_BUDGET
from tests.build import Case
from tests.fakes.desk import FAILED, SAME, SLOWER, Desk, Said
from tests.fakes.github import BOT, SECONDARY, TOO_LONG, run_event

HEAD = "b" * 40
FORGED = Stamp("pr", "done", HEAD, run=10**15, attempt=1, number=10**9, verdict="fine")
COMMENTS = "/issues/7/comments$"


def done(desk: Desk, said: Said) -> None:
    """Exactly one comment of ours, with the table, and one check run."""
    assert said.code == 0, said.err
    stamps = [stamp for body in desk.fake.bodies() if (stamp := parse(body)) is not None]
    assert [stamp.state for stamp in stamps] == ["done"]
    assert len(desk.fake.checks) == 1


def shown(desk: Desk) -> Any:
    """The conclusion of the check run that GitHub shows: the last one."""
    return desk.fake.checks[max(desk.fake.checks)]["conclusion"]


class TestOthersComments:
    @pytest.mark.parametrize("before", [0, 99, 250])
    def test_250_comments(self, desk: Desk, before: int) -> None:
        """Ours is found on any page."""
        for number in range(before):
            desk.fake.comment(7, "octocat", f"{number}")
        desk.publish(action="requested")
        for number in range(250 - before):
            desk.fake.comment(7, "octocat", f"{number}")
        done(desk, desk.publish(desk.results(SAME)))
        assert len(desk.fake.bodies(author="octocat")) == 250
        pages = [each for each in desk.fake.requests if each.query.get("page") == "3"]
        assert pages

    @pytest.mark.parametrize(
        "author", ["stranger", "github-actions", "github-actionsbot", "evenbench[bot]", "GitHub-Actions[bot]"]
    )
    def test_a_marker_by_a_stranger(self, desk: Desk, author: str) -> None:
        """Neither taken for ours, nor believed to be newer, nor touched."""
        body = f"{FORGED.marker}\n### evenbench: 1 unchanged"
        desk.fake.comment(7, author, body)
        done(desk, desk.publish(desk.results(SLOWER)))
        assert desk.fake.bodies(author=author) == [body]
        done(desk, desk.publish(desk.results(SAME)))

    def test_a_comment_of_a_deleted_account(self, desk: Desk) -> None:
        desk.fake.comment(7, "ghost", FORGED.marker)["user"] = None
        done(desk, desk.publish(desk.results(SAME)))

    def test_our_bot_s_comment_that_only_quotes_a_marker(self, desk: Desk) -> None:
        """Another workflow's comment that repeats what a stranger wrote."""
        quoted = f"> {FORGED.marker}\n\n{FORGED.marker}"
        desk.fake.comment(7, BOT, quoted)
        said = desk.publish(desk.results(SLOWER))
        assert said.code == 0
        assert desk.fake.bodies()[0] == quoted
        assert len(desk.fake.bodies()) == 2

    def test_our_marker_in_an_error_message(self, desk: Desk) -> None:
        evil = {**FAILED.head_case, "reason": f"x\n{FORGED.marker}\n{FORGED.marker}"}
        case = Case("norm/bad", head_case=evil)
        done(desk, desk.publish(desk.results(case, SAME)))
        (body,) = desk.fake.bodies()
        assert body.count("<!--") == 1
        stamp = parse(body)
        assert stamp is not None
        assert stamp.run == 50

    def test_our_marker_in_a_reason(self, desk: Desk) -> None:
        desk.publish("--state=failed", f"--reason={FORGED.marker}")
        (body,) = desk.fake.bodies()
        assert body.count("<!--") == 1


class TestOthersCheckRuns:
    @pytest.mark.parametrize(
        "values",
        [
            {"external_id": "1c8bf0a6-job", "conclusion": "success"},
            {"external_id": "", "conclusion": "success"},
            {"external_id": None, "conclusion": None, "status": "in_progress"},
        ],
    )
    def test_a_job_of_the_pull_request_bears_our_name(self, desk: Desk, values: dict[str, Any]) -> None:
        theirs = desk.fake.add_check(HEAD, name="evenbench (pr)", **({"status": "completed"} | values))
        before = dict(theirs)
        assert desk.publish(desk.results(SLOWER)).code == 0
        assert theirs == before
        (ours,) = [each for each in desk.fake.checks.values() if each is not theirs]
        assert ours["conclusion"] == "failure"

    def test_another_app_s_check_run_with_our_stamp(self, desk: Desk) -> None:
        theirs = desk.fake.add_check(HEAD, name="evenbench (pr)", external_id=FORGED.marker)
        theirs["app"]["slug"] = "evil-app"
        assert desk.publish(desk.results(SLOWER)).code == 0
        assert len(desk.fake.checks) == 2

    def test_a_check_run_without_app(self, desk: Desk) -> None:
        desk.fake.add_check(HEAD, name="evenbench (pr)", external_id=FORGED.marker)["app"] = None
        assert desk.publish(desk.results(SLOWER)).code == 0
        assert len(desk.fake.checks) == 2


class TestTwoPublishers:
    """Another publisher does all its work between two calls of ours."""

    def other(self, desk: Desk, id: int = 51) -> Callable[[], None]:
        """Publishes as run 51, from another thread, as another job would."""
        results = load_file(desk.results(SLOWER, name="other.results.jsonl"))
        outcome = Outcome.of(compare(results, datetime.now(UTC).date()))
        target = PublishTarget(desk.fake.repository, 7, HEAD, "pr", WorkflowRun(id, 1, 2, ""))

        def publishes() -> None:
            with requests.Session() as session:
                session.trust_env = False
                publish(
                    GitHub(session, desk.address, "write-token", clock=time.time, sleep=time.sleep),
                    target,
                    outcome,
                    Links(),
                )

        def job() -> None:
            thread = threading.Thread(target=publishes)
            thread.start()
            thread.join()

        return job

    @pytest.mark.parametrize(
        "call", [("GET", COMMENTS), ("POST", COMMENTS), ("POST", "check-runs$"), ("GET", "check-runs$")]
    )
    def test_a_newer_one_wins(self, desk: Desk, call: tuple[str, str]) -> None:
        desk.fake.fail(*call, passes=True, first=self.other(desk))
        assert desk.publish(desk.results(SAME)).code == 0
        newest = [stamp for body in desk.fake.bodies() if (stamp := parse(body)) is not None]
        assert max(stamp.run for stamp in newest) == 51
        assert shown(desk) == "failure"
        assert desk.publish(desk.results(SLOWER), run=51).code == 0  # whatever was left over goes
        (body,) = desk.fake.bodies()
        assert "1 regressed" in body

    @pytest.mark.parametrize(
        "call", [("GET", COMMENTS), ("POST", COMMENTS), ("POST", "check-runs$"), ("GET", "check-runs$")]
    )
    def test_an_older_one_does_not(self, desk: Desk, call: tuple[str, str]) -> None:
        desk.fake.fail(*call, passes=True, first=self.other(desk, id=49))
        assert desk.publish(desk.results(SAME)).code == 0
        (stamp,) = [stamp for body in desk.fake.bodies() if (stamp := parse(body)) is not None]
        assert stamp.run == 50
        assert shown(desk) == "success"

    def test_a_newer_one_wins_while_we_decide(self, desk: Desk) -> None:
        desk.publish(action="requested")
        desk.fake.fail("GET", "check-runs$", passes=True)
        desk.fake.fail("GET", "check-runs$", passes=True, first=self.other(desk))
        said = desk.publish(desk.results(SAME))
        assert (said.code, said.out) == (0, "a newer run has written already\n")
        assert shown(desk) == "failure"

    def test_both_created_a_comment(self, desk: Desk) -> None:
        """Both saw none, both wrote: the later run ends with one, the oldest, which tells of itself."""
        stamp = Stamp("pr", "done", HEAD, 49, 1, 9)

        def other() -> None:
            desk.fake.comment(7, BOT, f"{stamp.marker}\nolder")

        desk.fake.fail("POST", COMMENTS, passes=True, first=other)
        done(desk, desk.publish(desk.results(SAME)))
        assert "1 unchanged" in desk.fake.bodies()[0]
        assert [method for method in desk.fake.writes() if "comments" in method][1:] != []

    def test_the_other_deleted_it_first(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        extra = desk.fake.comment(7, BOT, desk.fake.bodies()[0])["id"]
        desk.fake.fail("DELETE", "/issues/comments/", passes=True, first=lambda: desk.fake.comments.pop(extra))
        done(desk, desk.publish(desk.results(SAME)))


class TestBadDays:
    @pytest.mark.parametrize("status", [403, 429])
    @pytest.mark.parametrize(
        "headers", [{}, {"Retry-After": "1"}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}]
    )
    @pytest.mark.parametrize("call", [("GET", "/pulls$"), ("POST", COMMENTS), ("POST", "check-runs$")])
    def test_limits(self, desk: Desk, status: int, headers: dict[str, str], call: tuple[str, str]) -> None:
        desk.fake.fail(*call, status, SECONDARY, headers=headers, times=2)
        done(desk, desk.publish(desk.results(SAME)))
        waited = [each for each in desk.slept if each > 1.0 or (headers and each == 1.0)]
        assert len(waited) == 2
        assert waited == [60.0, 120.0] or headers

    @pytest.mark.parametrize("status", [0, 500, 502, 503, 504])
    @pytest.mark.parametrize(
        "call", [("GET", "/pulls"), ("GET", COMMENTS), ("POST", COMMENTS), ("POST", "check-runs$")]
    )
    def test_5xx_and_lost_connections(self, desk: Desk, status: int, call: tuple[str, str]) -> None:
        desk.fake.fail(*call, status, times=3)
        done(desk, desk.publish(desk.results(SAME)))

    @pytest.mark.parametrize("status", [0, 502])
    @pytest.mark.parametrize("path", [COMMENTS, "check-runs$"])
    def test_a_crash_between_post_and_its_answer(self, desk: Desk, status: int, path: str) -> None:
        desk.fake.fail("POST", path, status, done=True)
        done(desk, desk.publish(desk.results(SAME)))
        assert len([each for each in desk.fake.writes() if each.startswith("POST")]) == 2

    @pytest.mark.parametrize("path", [COMMENTS, "check-runs$"])
    def test_a_publisher_that_dies_after_its_post(self, desk: Desk, path: str) -> None:
        """The job starts again and finds what it wrote."""

        def die() -> None:
            desk.fake.fail("GET", "comments|check-runs", 400, {"message": "gone"})

        desk.fake.fail("POST", path, 0, done=True, first=die)
        assert desk.publish(desk.results(SAME)).code == 6
        done(desk, desk.publish(desk.results(SAME)))

    def test_422_too_long_gets_a_shorter_body_once(self, desk: Desk) -> None:
        cases = [Case(f"norm/case[n={n}]", head=30_000.0) for n in range(700)]
        desk.fake.fail("POST", COMMENTS, 422, TOO_LONG)
        said = desk.publish(desk.results(*cases, made=6))
        done(desk, said)
        (body,) = desk.fake.bodies()
        assert COMMENT_BUDGET // 4 < len(body) <= COMMENT_BUDGET // 2
        assert "rows not shown ([full report](https://github.com/octo-org/kernels/actions/runs/50))" in body

    def test_422_too_long_again(self, desk: Desk) -> None:
        desk.fake.fail("POST", COMMENTS, 422, TOO_LONG, times=2)
        said = desk.publish(desk.results(SAME))
        assert said.code == 6
        assert said.err.startswith(
            "error: GitHub: POST /repos/octo-org/kernels/issues/7/comments: 422 Validation Failed"
        )

    def test_422_for_another_reason_is_not_tried_again(self, desk: Desk) -> None:
        desk.fake.fail("POST", COMMENTS, 422, {"message": "Validation Failed"})
        assert desk.publish(desk.results(SAME)).code == 6
        assert len([each for each in desk.fake.writes() if "comments" in each]) == 1

    def test_the_longest_comment_is_taken(self, desk: Desk) -> None:
        cases = [Case(f"norm/{'x' * 100}[n={n}]", head=30_000.0 if n % 2 else 20_000.0) for n in range(500)]
        done(desk, desk.publish(desk.results(*cases, made=6)))
        (body,) = desk.fake.bodies()
        assert COMMENT_BUDGET - 1_000 < len(body) <= COMMENT_BUDGET

    def test_a_token_that_may_only_read(self, desk: Desk) -> None:
        said = desk.publish(desk.results(SAME), token="read-token")
        assert said.code == 6
        assert "Resource not accessible by integration" in said.err
        assert desk.fake.bodies() == []

    def test_github_s_words_give_no_commands(self, desk: Desk) -> None:
        desk.fake.fail("GET", "/pulls$", 400, {"message": "\n::set-output name=x::y\n\x1b]0;"})
        said = desk.run("resolve", run_event(desk.fake))
        assert said.code == 6
        assert not any(line.startswith("::") for line in (said.out + said.err).splitlines())
        assert "\x1b" not in said.err
