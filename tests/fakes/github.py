"""A GitHub on 127.0.0.1 that remembers: what `evenbench.reports.publish.client` asks of the real one, in GitHub's own words.

Answers begin as the examples of GitHub's OpenAPI description, so they have every field that the real ones have; a
validating proxy holds them against that description in tests/e2e/test_prism.py. Rules make it fail as GitHub does.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

DESCRIPTION = Path(__file__).parents[1] / "data" / "github_openapi.json"
REPOSITORY = "octo-org/kernels"
BOT = "github-actions[bot]"
START = 1_764_000_000  # seconds since 1970 when a fake begins
BODY_MAX = 65_536  # characters of a comment
TOO_LONG = {
    "message": "Validation Failed",
    "errors": [
        {
            "resource": "IssueComment",
            "code": "unprocessable",
            "field": "data",
            "message": "Body is too long (maximum is 65536 characters)",
        }
    ],
    "documentation_url": "https://docs.github.com/rest",
}
SECONDARY = {
    "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
    "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api",
}
Json = Any


@cache
def _examples() -> Mapping[str, Json]:
    data = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return {name: each["value"] for name, each in data["components"]["examples"].items()}


def example(name: str) -> Json:
    """A copy of an example of GitHub's."""
    return copy.deepcopy(_examples()[name])


def when(seconds: int) -> str:
    """A time as GitHub writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Request:
    """What the fake was asked."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Json
    token: str


@dataclass
class Rule:
    """What the fake does instead, `times` often: to requests of that method whose path matches.

    `done`: the request is carried out first, so that only its answer is lost. `status` 0 closes the connection without
    one. `first` is called before anything else, with no lock held.
    """

    method: str
    path: str
    status: int = 0
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    done: bool = False
    first: Callable[[], object] | None = None
    passes: bool = False

    def takes(self, request: Request) -> bool:
        return self.times > 0 and self.method == request.method and re.search(self.path, request.path) is not None


class Status(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, body: Json = None) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class FakeGitHub:
    """The state of one repository, and what was asked of it."""

    def __init__(self, repository: str = REPOSITORY) -> None:
        self.repository = repository
        self.now = START
        self.tokens: dict[str, str] = {"write-token": "write", "read-token": "read"}
        self.author = BOT  # whose token it is: an App's ends with [bot]
        self.pulls: dict[int, Json] = {}
        self.comments: dict[int, tuple[int, Json]] = {}
        self.checks: dict[int, Json] = {}
        self.issues: list[Json] = []
        self.events: dict[int, list[Json]] = {}
        self.permissions: dict[str, str] = {}
        self.artifacts: dict[int, list[Json]] = {}
        self.rules: list[Rule] = []
        self.requests: list[Request] = []
        self.public = ""  # the address in links; that of the server, or of a proxy before it
        self._lock = threading.RLock()
        self._ids = 1_000

    # ----------------------------------------------------------------------------------------------------- what is there

    def open_pull(
        self,
        number: int = 7,
        *,
        head: str = "b" * 40,
        branch: str = "faster",
        fork: str | None = None,
        base: str = "a" * 40,
        base_branch: str = "main",
        state: str = "open",
        labels: Sequence[str] = (),
    ) -> Json:
        """A pull request, from the repository itself or from a fork."""
        pull = example("pull-request")
        pull |= {"number": number, "state": state, "html_url": f"https://github.com/{self.repository}/pull/{number}"}
        self._name_branch(pull["head"], fork or self.repository, branch, head)
        self._name_branch(pull["base"], self.repository, base_branch, base)
        template = pull["labels"][0]
        pull["labels"] = [{**template, "name": name} for name in labels]
        pull["requested_teams"] = []
        self.pulls[number] = pull
        return pull

    @staticmethod
    def _name_branch(branch: Json, repository: str, ref: str, sha: str) -> None:
        owner, _, name = repository.partition("/")
        branch |= {"ref": ref, "sha": sha, "label": f"{owner}:{ref}"}
        branch["repo"] |= {"full_name": repository, "name": name}
        branch["repo"]["owner"]["login"] = branch["user"]["login"] = owner

    def push(self, number: int, sha: str, *, force: bool = False) -> None:
        """A new head of a pull request."""
        self.now += 10
        self.pulls[number]["head"]["sha"] = sha
        if force:
            self._event(number, "head_ref_force_pushed", "octocat")

    def label(self, number: int, name: str, by: str, permission: str | None = None) -> None:
        """Somebody labels a pull request."""
        self.now += 10
        template = example("pull-request")["labels"][0]
        self.pulls[number]["labels"].append({**template, "name": name})
        self._event(number, "labeled", by, label={"name": name, "color": "0e8a16"})
        if permission is not None:
            self.permissions[by] = permission

    def _event(self, number: int, kind: str, by: str, **more: Json) -> None:
        (event,) = example("issue-event-for-issue-items")
        event |= {"id": self._id(), "event": kind, "created_at": when(self.now), "actor": user(by), **more}
        if kind != "labeled":
            event.pop("label", None)
        self.events.setdefault(number, []).append(event)

    def comment(self, number: int, author: str, body: str) -> Json:
        """Somebody comments."""
        made = example("issue-comment")
        id = self._id()
        page = f"https://github.com/{self.repository}/pull/{number}#issuecomment-{id}"
        made |= {"id": id, "body": body, "user": user(author), "html_url": page, "created_at": when(self.now)}
        self.comments[id] = (number, made)
        return made

    def bodies(self, number: int = 7, author: str = BOT) -> list[str]:
        """What somebody's comments on a pull request say, the oldest first."""
        ours = (each for there, each in self.comments.values() if there == number and each["user"] is not None)
        return [each["body"] for each in ours if each["user"]["login"] == author]

    def add_check(self, head: str, **values: Json) -> Json:
        """A check run."""
        check = example("check-run")
        id = self._id()
        output = check["output"] | {"text": None} | values.pop("output", {})
        check |= {"id": id, "head_sha": head, "pull_requests": [], "completed_at": None, "conclusion": None}
        check["app"] |= {"slug": self.author.removesuffix("[bot]")}
        check |= values | {"output": output}
        self.checks[id] = check
        return check

    def upload(self, run: int, name: str) -> None:
        """An artifact of a run."""
        artifact = example("artifact-paginated")["artifacts"][0]
        self.artifacts.setdefault(run, []).append(artifact | {"id": self._id(), "name": name})

    def writes(self) -> list[str]:
        """Methods and paths of all that was not only asked."""
        asked = ("/graphql",)  # a question, though it is a POST
        return [
            f"{each.method} {each.path}" for each in self.requests if each.method != "GET" and each.path not in asked
        ]

    def fail(self, method: str, path: str, status: int = 0, body: Json = None, **more: Any) -> None:
        """Add a rule."""
        self.rules.append(Rule(method, path, status, body, **more))

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    # ------------------------------------------------------------------------------------------------------------ answers

    def answer(self, request: Request) -> tuple[int, Json, Mapping[str, str]]:
        """Status (0: none), body, headers."""
        with self._lock:
            self.requests.append(request)
            rule = next((each for each in self.rules if each.takes(request)), None)
            if rule is not None:
                rule.times -= 1
        if rule is not None and rule.first is not None:
            rule.first()
        if rule is not None and not rule.passes:
            if rule.done:
                with self._lock:
                    self._do(request)
            return rule.status, rule.body, rule.headers
        with self._lock:
            return self._do(request)

    def _do(self, request: Request) -> tuple[int, Json, Mapping[str, str]]:
        may = self.tokens.get(request.token)
        if may is None:
            return 401, {"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"}, {}
        if request.method != "GET" and may != "write":
            return (
                403,
                {
                    "message": "Resource not accessible by integration",
                    "documentation_url": "https://docs.github.com/rest",
                },
                {},
            )
        prefix = f"/repos/{self.repository}/"
        if not request.path.startswith(prefix):
            viewer = {"data": {"viewer": {"login": self.author}}}
            return (200, viewer, {}) if request.path == "/graphql" else (404, NOT_FOUND, {})
        here = f"{request.method} {request.path.removeprefix(prefix)}"
        for pattern, method in ROUTES.items():
            if match := re.fullmatch(pattern, here):
                try:
                    found = method(self, request, *(unquote(group) for group in match.groups()))
                except Status as status:
                    return status.status, status.body, {}
                return self._paged(request, found)
        return 404, NOT_FOUND, {}

    def _paged(self, request: Request, found: Json) -> tuple[int, Json, Mapping[str, str]]:
        """One page of a list, with the link to the next."""
        key = (
            "" if isinstance(found, list) else next((key for key in ("check_runs", "artifacts") if key in found), None)
        )
        if key is None:
            return 200, found, {}
        items = found[key] if key else found
        size, page = int(request.query.get("per_page", "30")), int(request.query.get("page", "1"))
        shown = items[(page - 1) * size : page * size]
        more = {**request.query, "page": str(page + 1)}
        query = "&".join(f"{name}={value}" for name, value in more.items())
        link = {"Link": f'<{self.public}{request.path}?{query}>; rel="next"'} if len(items) > page * size else {}
        return 200, {**found, key: shown} if key else shown, link

    def _list_pulls(self, request: Request) -> Json:
        state, head = request.query.get("state", "open"), request.query.get("head", "")
        found = [each for each in self.pulls.values() if state in ("all", each["state"])]
        if ":" in head:  # GitHub ignores what is no OWNER:BRANCH
            found = [each for each in found if each["head"]["label"] == head]
        return [_simple(each) for each in found]

    def _pull(self, _: Request, number: str) -> Json:
        if int(number) not in self.pulls:
            raise Status(404, NOT_FOUND)
        return self.pulls[int(number)]

    def _list_comments(self, _: Request, number: str) -> Json:
        return [each for there, each in self.comments.values() if there == int(number)]

    def _list_issues(self, _: Request) -> Json:
        return self.issues

    def _create_issue(self, request: Request) -> Json:
        number = 1_000 + len(self.issues)
        page = f"https://github.com/{self.repository}/issues/{number}"
        self.issues.append({**request.body, "number": number, "html_url": page, "state": "open", "user": user(BOT)})
        raise Status(201, self.issues[-1])

    def _create_comment(self, request: Request, number: str) -> Json:
        self._refuse_long(request)
        self.now += 1
        raise Status(201, self.comment(int(number), self.author, request.body["body"]))

    def _edit_comment(self, request: Request, id: str) -> Json:
        self._refuse_long(request)
        made = self._comment(id)
        made["body"] = request.body["body"]
        return made

    def _delete_comment(self, _: Request, id: str) -> Json:
        self._comment(id)
        del self.comments[int(id)]
        raise Status(204)

    def _comment(self, id: str) -> Json:
        if int(id) not in self.comments:
            raise Status(404, NOT_FOUND)
        return self.comments[int(id)][1]

    @staticmethod
    def _refuse_long(request: Request) -> None:
        if len(request.body["body"]) > BODY_MAX:
            raise Status(422, TOO_LONG)

    def _list_events(self, _: Request, number: str) -> Json:
        return self.events.get(int(number), [])

    def _permission(self, _: Request, login: str) -> Json:
        if login not in self.permissions:
            raise Status(404, NOT_FOUND)
        found = example("repository-collaborator-permission-response-if-user-has-admin-permissions")
        permission = self.permissions[login]
        who = found["user"] | {"login": login, "role_name": permission}  # which GitHub's own example lacks
        return found | {"permission": permission, "role_name": permission, "user": who}

    def _list_artifacts(self, _: Request, run: str) -> Json:
        found = self.artifacts.get(int(run), [])
        return {"total_count": len(found), "artifacts": found}

    def _list_checks(self, request: Request, head: str) -> Json:
        name = request.query.get("check_name")
        found = [each for each in self.checks.values() if each["head_sha"] == head and name in (None, each["name"])]
        return {"total_count": len(found), "check_runs": found}

    def _create_check(self, request: Request) -> Json:
        body = dict(request.body)
        raise Status(201, self.add_check(body.pop("head_sha"), **body))

    def _edit_check(self, request: Request, id: str) -> Json:
        if int(id) not in self.checks:
            raise Status(404, NOT_FOUND)
        check = self.checks[int(id)]
        body = dict(request.body)
        check["output"] |= body.pop("output", {})
        check |= body
        return check

    # ------------------------------------------------------------------------------------------------------------- server

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Answers on 127.0.0.1 while it is open; yields the address."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # head and body in one packet, or the client's side waits for it

            def do(self) -> None:
                size = int(self.headers.get("content-length", 0))
                data = self.rfile.read(size)
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                token = self.headers.get("authorization", "").removeprefix("Bearer ")
                request = Request(self.command, parts.path, query, json.loads(data) if data else None, token)
                status, body, headers = fake.answer(request)
                if not status:
                    self.close_connection = True
                    return
                text = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                if text:
                    self.send_header("Content-Type", "application/json; charset=utf-8")
                if status != 204:
                    self.send_header("Content-Length", str(len(text)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_DELETE = do  # noqa: N815 - the names that http.server looks for

            def log_message(self, *args: object) -> None:
                """Says nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            address = f"http://127.0.0.1:{server.server_address[1]}"
            self.public = self.public or address
            try:
                yield address
            finally:
                server.shutdown()
                thread.join()


NOT_FOUND = {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"}
ROUTES: Mapping[str, Callable[..., Json]] = {
    r"GET pulls": FakeGitHub._list_pulls,
    r"GET pulls/(\d+)": FakeGitHub._pull,
    r"GET issues/(\d+)/comments": FakeGitHub._list_comments,
    r"GET issues": FakeGitHub._list_issues,
    r"POST issues": FakeGitHub._create_issue,
    r"POST issues/(\d+)/comments": FakeGitHub._create_comment,
    r"PATCH issues/comments/(\d+)": FakeGitHub._edit_comment,
    r"DELETE issues/comments/(\d+)": FakeGitHub._delete_comment,
    r"GET issues/(\d+)/events": FakeGitHub._list_events,
    r"GET collaborators/([^/]+)/permission": FakeGitHub._permission,
    r"GET actions/runs/(\d+)/artifacts": FakeGitHub._list_artifacts,
    r"POST check-runs": FakeGitHub._create_check,
    r"PATCH check-runs/(\d+)": FakeGitHub._edit_check,
    r"GET commits/([^/]+)/check-runs": FakeGitHub._list_checks,
}


def user(login: str) -> Json:
    """A user; workflows are a bot."""
    found = example("issue-comment")["user"]
    return found | {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}


def _simple(pull: Json) -> Json:
    """A pull request as a list shows it."""
    kept = example("pull-request-simple-items")[0].keys()
    return {key: value for key, value in pull.items() if key in kept}


def run_event(
    fake: FakeGitHub,
    pull: int | None = 7,
    *,
    run: int = 50,
    action: str = "completed",
    conclusion: str | None = "success",
    **changes: Any,
) -> dict[str, Any]:
    """The payload of a `workflow_run` about a pull request as it is now; `changes` are of the run."""
    found: dict[str, Any] = {
        "id": run,
        "run_attempt": 1,
        "run_number": run - 40,
        "html_url": f"https://github.com/{fake.repository}/actions/runs/{run}",
        "path": ".github/workflows/benchmark.yml",
        "event": "pull_request",
        "conclusion": conclusion if action == "completed" else None,
        "created_at": when(fake.now),
        "repository": {"full_name": fake.repository},
        "pull_requests": [],
    }
    if pull is not None:
        head = fake.pulls[pull]["head"]
        found |= {
            "head_branch": head["ref"],
            "head_sha": head["sha"],
            "head_repository": {"full_name": head["repo"]["full_name"]} if head["repo"] else None,
        }
    return {"action": action, "repository": {"full_name": fake.repository}, "workflow_run": found | changes}
