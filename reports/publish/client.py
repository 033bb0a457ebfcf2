"""A small client of GitHub's REST API, as its guidelines ask: patient, never in a hurry to write, nothing written twice.

Session, clock and sleep are given, so that a test has no need to wait. urllib3's Retry is not used: it knows neither
GitHub's reset time, nor a wait that grows from a minute on, nor how to look before it posts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeVar

import requests

from evenbench.runner.errors import GitHubRefused

from ..text import sanitise

TRIES = 5  # of one request; what five do not bring, a later run of the workflow may
TIMEOUT_S = (10.0, 60.0)  # to connect, and between two bytes
WRITE_GAP_S = 1.0  # GitHub asks for at least a second between writes
LIMITED_S = 60.0  # first wait after a 403 or 429 that names none; doubles each time, as GitHub asks
BROKEN_S = 1.0  # first wait after a 5xx or a lost connection; doubles each time
PATIENCE_S = 3_900.0  # of one request in all: an hour, after which each limit is reset, and some more
PAGES_MAX = 200  # of one list: 20,000 comments
MESSAGE_MAX = 200  # characters of GitHub's own words in an error
VERSION = "2022-11-28"  # of the API
SERVER_ERROR = 500  # the first status that is GitHub's own fault
LIMITS = (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)  # GitHub uses both for its rate limits
WORKFLOWS_APP = "github-actions"  # the App whose token a workflow has
STATUS_PAGE = "try again, or see githubstatus.com"

# Words of a rate limit that no header names; any other 403 is final.
LIMIT_WORDS = ("rate limit", "abuse detection", "blocked from content creation", "submitted too quickly")
PERMISSIONS = "the job needs pull-requests: write, checks: write and actions: read"
# Words of a final 403, and what to do about it.
FORBIDDEN: Mapping[str, str] = MappingProxyType(
    {
        "resource not accessible": PERMISSIONS,
        "must have ": PERMISSIONS,
        "is locked": "unlock the conversation, then run the job again",
        "archived": "an archived repository is read-only",
        "saml": "authorise the token for the organisation's single sign-on",
        "ip allow list": "allow the address of the runner in the organisation's settings",
        "authenticate via a github app": "check runs need the token of an App, such as the job's own, github.token",
        "disabled": "enable it in the repository's settings",
        "blocked": "ask GitHub's support",
        "suspended": "ask the owner of the App or account to lift the suspension",
    }
)

T = TypeVar("T")
Json = Mapping[str, Any]


class NotFound(GitHubRefused):
    """404 or 410: it is not there, or the token may not see it."""


class Unprocessable(GitHubRefused):
    """422: GitHub understood and does not want it. `too_long` where it says that a text is."""

    too_long = False


class Unanswered(GitHubRefused):
    """A POST whose answer was lost or a 5xx: whether it was done is not known."""


@dataclass(frozen=True)
class _Bearer(requests.auth.AuthBase):
    """Puts the token into each request. As `auth`, so that no .netrc replaces it."""

    token: str

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


class GitHub:
    """One conversation with GitHub. All calls raise GitHubRefused where it says no for good.

    Args:
        session: sends the requests; the caller closes it.
        api: address of the API, such as ``https://api.github.com``.
        token: of the job.
        clock: seconds since 1970.
        sleep: waits that many seconds.
        rehearse: is called with method, path and body of each write, which then is not sent.
    """

    def __init__(
        self,
        session: requests.Session,
        api: str,
        token: str,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        rehearse: Callable[[str, str, Json], None] | None = None,
    ) -> None:
        self._session = session
        self._api = api.rstrip("/")
        self._auth = _Bearer(token)
        self._clock = clock
        self._sleep = sleep
        self._rehearse = rehearse
        self._wrote = float("-inf")
        self._login: str | None = None

    @property
    def login(self) -> str:
        """The name that the token writes under, such as ``github-actions[bot]``; empty where GitHub does not say."""
        if self._login is None:
            try:  # the REST API does not tell an App its own name
                data = _json(self._send("POST", self._graphql, body={"query": "{ viewer { login } }"}))
            except Unanswered:
                raise
            except GitHubRefused:
                data = None
            match data:
                case {"data": {"viewer": {"login": str(login)}}}:
                    self._login = login
                case _:
                    self._login = ""
        return self._login

    @property
    def _graphql(self) -> str:
        """Address of the GraphQL API, which on a server of one's own is beside the REST API."""
        return f"{self._api.removesuffix('/v3')}/graphql"

    @property
    def dry_run(self) -> bool:
        """Whether nothing is written."""
        return self._rehearse is not None

    def get(self, path: str, **params: str | int) -> Any:
        """What is at `path`, below the API's address."""
        return _json(self._send("GET", self._api + path, params=params))

    def pages(self, path: str, key: str = "", **params: str | int) -> Iterator[Any]:
        """The items of a list over all its pages, as the `Link` header leads; `key` names the list in each page."""
        url, query = self._api + path, {"per_page": 100, **params}  # the most that GitHub gives
        for _ in range(PAGES_MAX):
            answer = self._send("GET", url, params=query)
            data = _json(answer)
            items = data.get(key) if key and isinstance(data, dict) else data
            if not isinstance(items, list):
                raise GitHubRefused(f"GET {path}: the answer is not a list")
            yield from items
            url, query = answer.links.get("next", {}).get("url", ""), {}  # the link holds all parameters
            if not url:
                return
            if not url.startswith(self._api + "/"):
                raise GitHubRefused(f"GET {path}: the next page is at another address: {sanitise(url, MESSAGE_MAX)}")
        raise GitHubRefused(f"GET {path}: more than {PAGES_MAX} pages")

    def create(self, path: str, body: Json, find: Callable[[], T | None]) -> T | Any:
        """POST, unless `find` sees that it is there already: asked first, and again after each answer that was lost."""
        for attempt in range(TRIES):
            if (found := find()) is not None:
                return found
            try:
                return self._write("POST", path, body)
            except Unanswered:
                if attempt == TRIES - 1:
                    raise
                self._sleep(BROKEN_S * (1 << attempt))
        raise AssertionError("unreachable")

    def edit(self, path: str, body: Json) -> Any:
        """PATCH."""
        return self._write("PATCH", path, body)

    def delete(self, path: str) -> None:
        """DELETE; what is gone already is fine."""
        try:
            self._write("DELETE", path, {})
        except NotFound:
            return

    def _write(self, method: str, path: str, body: Json) -> Any:
        if self._rehearse is not None:
            self._rehearse(method, path, body)
            return None
        answer = self._send(method, self._api + path, body=body or None)
        return _json(answer) if answer.content else None

    def _send(
        self, method: str, url: str, *, params: Mapping[str, str | int] | None = None, body: Json | None = None
    ) -> requests.Response:
        """The answer, if need be after some waiting. A POST that may have been done is not sent again."""
        waited = 0.0
        for attempt in range(TRIES):
            try:
                answer, lost = self._once(method, url, params, body), ""
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                answer, lost = None, f"no answer ({type(error).__name__})"
            if answer is not None and answer.ok and not answer.is_redirect:
                return answer
            refusal = _refusal(f"{method} {url.removeprefix(self._api).partition('?')[0]}", answer, lost)
            wait = self._wait(answer, attempt)
            if wait is None:
                raise refusal
            if method == "POST" and (answer is None or answer.status_code >= SERVER_ERROR):
                raise Unanswered(refusal.message, refusal.hint)
            if attempt == TRIES - 1 or waited + wait > PATIENCE_S:
                raise refusal
            waited += wait
            self._sleep(wait)
        raise AssertionError("unreachable")

    def _once(
        self, method: str, url: str, params: Mapping[str, str | int] | None, body: Json | None
    ) -> requests.Response:
        if method != "GET" and (gap := WRITE_GAP_S - (self._clock() - self._wrote)) > 0:
            self._sleep(min(gap, WRITE_GAP_S))  # no more, should the clock have been set back
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": VERSION,
            "User-Agent": "evenbench",
        }
        try:
            return self._session.request(
                method,
                url,
                params=params,
                json=body,
                headers=headers,
                auth=self._auth,
                timeout=TIMEOUT_S,
                allow_redirects=False,  # would turn a POST into a GET
            )
        finally:
            if method != "GET":
                self._wrote = self._clock()

    def _wait(self, answer: requests.Response | None, attempt: int) -> float | None:
        """Seconds until the next try; None where none would help."""
        if answer is None or answer.status_code >= SERVER_ERROR:
            return BROKEN_S * (1 << attempt)
        if answer.status_code not in LIMITS:
            return None
        if (after := answer.headers.get("retry-after", "")).isdecimal():
            return max(float(after), WRITE_GAP_S)
        reset = answer.headers.get("x-ratelimit-reset", "")
        if answer.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
            return max(float(reset) - self._clock(), 0.0) + 1.0  # its seconds are whole ones, ours are not
        message = _message(answer).lower()
        if answer.status_code == HTTPStatus.FORBIDDEN and not any(words in message for words in LIMIT_WORDS):
            return None
        return LIMITED_S * (1 << attempt)


def _json(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise GitHubRefused(f"{answer.request.method}: the answer is not JSON") from None


def _message(answer: requests.Response) -> str:
    """GitHub's own words, one line."""
    try:
        data = answer.json()
    except ValueError:
        return ""
    if not isinstance(data, dict):
        return ""
    messages = [str(data.get("message", ""))]
    errors = data.get("errors")
    if isinstance(errors, list):
        messages += [str(error.get("message", "")) for error in errors if isinstance(error, dict)]
    return sanitise(" ".join(messages), MESSAGE_MAX)


def _refusal(what: str, answer: requests.Response | None, lost: str) -> GitHubRefused:
    """The error that an answer means."""
    what = sanitise(what, MESSAGE_MAX)
    if answer is None:
        return GitHubRefused(f"GitHub: {what}: {lost}", STATUS_PAGE)
    refused = f"GitHub: {what}: {answer.status_code} {_message(answer)}".rstrip()
    match answer.status_code:
        case 401:
            return GitHubRefused(refused, "GITHUB_TOKEN is not valid here")
        case 403:
            return GitHubRefused(refused, _forbidden_hint(_message(answer).lower()))
        case 404 | 410:
            return NotFound(refused, "it is not there, or the token may not see it")
        case 422:
            unprocessable = Unprocessable(refused)
            unprocessable.too_long = "too long" in answer.text
            return unprocessable
    return GitHubRefused(refused, "" if answer.status_code < SERVER_ERROR else STATUS_PAGE)


def _forbidden_hint(message: str) -> str:
    """What to do about a 403, by GitHub's words in small letters."""
    for words, hint in FORBIDDEN.items():
        if words in message:
            return hint
    return PERMISSIONS
