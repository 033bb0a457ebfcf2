"""The REST client: how it pages, waits, gives up, and never writes twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from evenbench.reports.publish.client import PAGES_MAX, TRIES, GitHub, NotFound, Unanswered, Unprocessable
from evenbench.runner.errors import GitHubRefused
from tests.fakes.clock import Clock
from tests.fakes.github import SECONDARY, TOO_LONG, FakeGitHub

PULL = "/repos/octo-org/kernels/pulls/7"
COMMENTS = "/repos/octo-org/kernels/issues/7/comments"


@pytest.fixture
def fake() -> FakeGitHub:
    made = FakeGitHub()
    made.open_pull(7)
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def github(fake: FakeGitHub, clock: Clock) -> Iterator[GitHub]:
    with fake.serving() as address, requests.Session() as session:
        session.trust_env = False  # a proxy of this machine is no part of the test
        yield GitHub(session, address, "write-token", clock=clock, sleep=clock.sleep)


def create(github: GitHub, text: str = "x") -> object:
    """Posts a comment unless it is there."""
    there = lambda: next((each for each in github.pages(COMMENTS) if each["body"] == text), None)  # noqa: E731
    return github.create(COMMENTS, {"body": text}, there)


class TestReading:
    def test_get(self, github: GitHub, fake: FakeGitHub) -> None:
        assert github.get(PULL)["number"] == 7
        (request,) = fake.requests
        assert request.token == "write-token"

    def test_pages_are_followed_by_their_link(self, github: GitHub, fake: FakeGitHub) -> None:
        for number in range(250):
            fake.comment(7, "octocat", f"{number}")
        assert [each["body"] for each in github.pages(COMMENTS)] == [f"{number}" for number in range(250)]
        assert [request.query["per_page"] for request in fake.requests] == ["100"] * 3
        assert [request.query.get("page", "1") for request in fake.requests] == ["1", "2", "3"]

    def test_a_list_in_an_object(self, github: GitHub, fake: FakeGitHub) -> None:
        for number in range(101):
            fake.add_check("c" * 40, name=f"job {number}")
        found = list(github.pages(f"/repos/octo-org/kernels/commits/{'c' * 40}/check-runs", "check_runs"))
        assert len(found) == 101

    def test_the_token_goes_to_no_other_address(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.public = "http://127.0.0.1:9"
        for number in range(101):
            fake.comment(7, "octocat", f"{number}")
        with pytest.raises(GitHubRefused, match="the next page is at another address"):
            list(github.pages(COMMENTS))

    def test_pages_end(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.fail(
            "GET", "comments", 200, [], times=PAGES_MAX + 1, headers={"Link": f'<{fake.public}{COMMENTS}>; rel="next"'}
        )
        with pytest.raises(GitHubRefused, match=f"more than {PAGES_MAX} pages"):
            list(github.pages(COMMENTS))

    @pytest.mark.parametrize("body", [{"message": "hello"}, "text", None])
    def test_what_is_no_list(self, github: GitHub, fake: FakeGitHub, body: object) -> None:
        fake.fail("GET", "comments", 200, body)
        with pytest.raises(GitHubRefused, match="not a list|not JSON"):
            list(github.pages(COMMENTS))

    def test_redirects_are_not_followed(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.fail("GET", "pulls", 301, {"message": "Moved Permanently"}, headers={"Location": "http://127.0.0.1:9/"})
        with pytest.raises(GitHubRefused, match="301 Moved Permanently"):
            github.get(PULL)


class TestWaiting:
    @pytest.mark.parametrize("status", [403, 429])
    def test_retry_after(self, github: GitHub, fake: FakeGitHub, clock: Clock, status: int) -> None:
        fake.fail("GET", "pulls", status, SECONDARY, headers={"Retry-After": "17"}, times=2)
        assert github.get(PULL)["number"] == 7
        assert clock.slept == [17.0, 17.0]

    @pytest.mark.parametrize("status", [403, 429])
    def test_reset_time(self, github: GitHub, fake: FakeGitHub, clock: Clock, status: int) -> None:
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{int(clock.now) + 1_800}"}
        fake.fail("GET", "pulls", status, SECONDARY, headers=headers)
        github.get(PULL)
        assert clock.slept == [1_801.0]

    def test_retry_after_goes_before_the_reset_time(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        headers = {"Retry-After": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{int(clock.now) + 1_800}"}
        fake.fail("GET", "pulls", 403, SECONDARY, headers=headers)
        github.get(PULL)
        assert clock.slept == [5.0]

    @pytest.mark.parametrize("status", [403, 429])
    def test_without_headers_a_minute_and_more(
        self, github: GitHub, fake: FakeGitHub, clock: Clock, status: int
    ) -> None:
        fake.fail("GET", "pulls", status, SECONDARY, times=3)
        github.get(PULL)
        assert clock.slept == [60.0, 120.0, 240.0]

    def test_a_reset_time_with_requests_left_says_nothing(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        headers = {"x-ratelimit-remaining": "100", "x-ratelimit-reset": f"{int(clock.now) + 5}", "Retry-After": "soon"}
        fake.fail("GET", "pulls", 403, SECONDARY, headers=headers)
        github.get(PULL)
        assert clock.slept == [60.0]

    def test_a_reset_time_that_is_past(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}
        fake.fail("GET", "pulls", 403, SECONDARY, headers=headers)
        github.get(PULL)
        assert clock.slept == [1.0]

    def test_tries_are_bounded(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        fake.fail("GET", "pulls", 429, SECONDARY, times=99)
        with pytest.raises(GitHubRefused, match="429 You have exceeded"):
            github.get(PULL)
        assert len(fake.requests) == TRIES
        assert clock.slept == [60.0, 120.0, 240.0, 480.0]

    def test_patience_is_bounded(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        fake.fail("GET", "pulls", 429, SECONDARY, headers={"Retry-After": "86400"})
        with pytest.raises(GitHubRefused):
            github.get(PULL)
        assert clock.slept == []

    def test_what_no_waiting_mends(self, clock: Clock, fake: FakeGitHub) -> None:
        with fake.serving() as address, requests.Session() as session:
            session.trust_env = False
            github = GitHub(session, address, "read-token", clock=clock, sleep=clock.sleep)
            with pytest.raises(
                GitHubRefused, match="Resource not accessible.*hint: the job needs pull-requests: write"
            ):
                create(github)
        assert clock.slept == []
        assert len(fake.writes()) == 1

    @pytest.mark.parametrize("status", [500, 502, 503, 504, 0])
    def test_a_fault_of_github_s_is_tried_again(
        self, github: GitHub, fake: FakeGitHub, clock: Clock, status: int
    ) -> None:
        fake.fail("GET", "pulls", status, times=3)
        assert github.get(PULL)["number"] == 7
        assert clock.slept == [1.0, 2.0, 4.0]

    @pytest.mark.parametrize("status", [500, 0])
    def test_a_lasting_fault(self, github: GitHub, fake: FakeGitHub, status: int) -> None:
        fake.fail("GET", "pulls", status, times=99)
        with pytest.raises(GitHubRefused, match="githubstatus.com"):
            github.get(PULL)
        assert len(fake.requests) == TRIES

    def test_nobody_listens(self, clock: Clock) -> None:
        with requests.Session() as session:
            session.trust_env = False
            github = GitHub(session, "http://127.0.0.1:9", "t", clock=clock, sleep=clock.sleep)
            with pytest.raises(GitHubRefused, match="no answer"):
                github.get(PULL)


class TestWriting:
    def test_a_second_between_writes(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        create(github, "a")
        clock.now += 0.25
        create(github, "b")
        clock.now += 5.0
        create(github, "c")
        assert clock.slept == [0.75]

    def test_a_clock_that_was_set_back_costs_a_second(self, github: GitHub, clock: Clock) -> None:
        create(github, "a")
        clock.now -= 3_600.0
        create(github, "b")
        assert clock.slept == [1.0]

    def test_edit_and_delete(self, github: GitHub, fake: FakeGitHub) -> None:
        id = fake.comment(7, "github-actions[bot]", "old")["id"]
        path = f"/repos/octo-org/kernels/issues/comments/{id}"
        assert github.edit(path, {"body": "new"})["body"] == "new"
        github.delete(path)
        github.delete(path)  # gone already
        assert fake.comments == {}

    def test_what_is_there_is_not_posted(self, github: GitHub, fake: FakeGitHub) -> None:
        there = fake.comment(7, "octocat", "x")
        assert create(github) == there
        assert fake.writes() == []

    @pytest.mark.parametrize("status", [0, 502])
    def test_a_lost_answer_is_looked_for(self, github: GitHub, fake: FakeGitHub, status: int) -> None:
        fake.fail("POST", "comments", status, done=True)
        create(github)
        assert fake.bodies() == ["x"]
        assert len(fake.writes()) == 1

    @pytest.mark.parametrize("status", [0, 502])
    def test_what_was_not_done_is_posted_again(self, github: GitHub, fake: FakeGitHub, status: int) -> None:
        fake.fail("POST", "comments", status, times=2)
        create(github)
        assert fake.bodies() == ["x"]
        assert len(fake.writes()) == 3

    def test_posts_are_bounded(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.fail("POST", "comments", 500, times=99)
        with pytest.raises(Unanswered):
            create(github)
        assert len(fake.writes()) == TRIES

    def test_a_limited_post_is_sent_again(self, github: GitHub, fake: FakeGitHub, clock: Clock) -> None:
        fake.fail("POST", "comments", 429, SECONDARY, headers={"Retry-After": "9"})
        create(github)
        assert fake.bodies() == ["x"]
        assert 9.0 in clock.slept

    def test_errors_have_their_kind(self, github: GitHub, fake: FakeGitHub) -> None:
        with pytest.raises(NotFound):
            github.get("/repos/octo-org/kernels/pulls/8")
        fake.fail("POST", "comments", 422, TOO_LONG)
        with pytest.raises(Unprocessable, match="Body is too long") as caught:
            create(github)
        assert caught.value.too_long
        fake.fail("POST", "comments", 422, {"message": "Validation Failed"})
        with pytest.raises(Unprocessable) as other:
            create(github)
        assert not other.value.too_long
        fake.tokens.clear()
        with pytest.raises(GitHubRefused, match="GITHUB_TOKEN is not valid here"):
            github.get(PULL)

    def test_github_s_words_are_made_harmless(self, github: GitHub, fake: FakeGitHub) -> None:
        fake.fail("GET", "pulls", 400, {"message": "a\n::add-mask::b\x1b[2J", "errors": ["x", {"message": "c"}]})
        with pytest.raises(GitHubRefused) as caught:
            github.get(PULL)
        assert caught.value.message == f"GitHub: GET {PULL}: 400 a ::add-mask::b\ufffd[2J c"

    def test_a_rehearsal_writes_nothing(self, fake: FakeGitHub, clock: Clock) -> None:
        told: list[tuple[str, str, object]] = []
        with fake.serving() as address, requests.Session() as session:
            session.trust_env = False
            github = GitHub(
                session,
                address,
                "write-token",
                clock=clock,
                sleep=clock.sleep,
                rehearse=lambda *write: told.append(write),
            )
            assert github.dry_run
            create(github)
            github.edit("/a", {"body": "b"})
            github.delete("/c")
        assert told == [("POST", COMMENTS, {"body": "x"}), ("PATCH", "/a", {"body": "b"}), ("DELETE", "/c", {})]
        assert fake.writes() == []


def test_a_netrc_does_not_replace_the_token(
    fake: FakeGitHub, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with fake.serving() as address, requests.Session() as session:
        assert GitHub(session, address, "write-token", clock=Clock(), sleep=Clock().sleep).get(PULL)["number"] == 7
    assert fake.requests[0].token == "write-token"
