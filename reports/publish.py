"""An outcome → one comment on the pull request, edited in place, and one check run on the commit.

Who publishes may be late, twice, or interrupted: what is there already is read first, an older run never writes over a
newer one, and nothing is written to a pull request that moved on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from .accepted import Acceptance, acceptance
from .events import Run
from .github import GitHub, Unprocessable
from .markdown import COMMENT_BUDGET
from .render import Links, comment
from .resolve import Pull, checked, current
from .states import (
    LABEL,
    CheckText,
    Outcome,
    Stamp,
    accepted_check,
    check_text,
    config_name,
    footer,
    note_marker,
    parse,
    state_comment,
    turned_regressed,
    with_accepted,
)

BOT = "github-actions[bot]"  # who a workflow's token writes as; nobody else can have this name
APP = "github-actions"
PASSES = 3  # looks at the comments until they are as they should be; each other publisher costs one at most
SHORTER = COMMENT_BUDGET // 2  # of a comment that GitHub found too long
NEWER = "a newer run has written already"


@dataclass(frozen=True)
class Target:
    """Where an outcome is published.

    Attributes:
        repository: ``owner/name``.
        number: of the pull request; None for a check run alone.
        head_sha: what was measured.
        suite: one comment and check run each.
        run: that the outcome is of.
        workflow: file name of the workflow by which a maintainer measures again.
    """

    repository: str
    number: int | None
    head_sha: str
    suite: str
    run: Run
    workflow: str

    @property
    def check_name(self) -> str:
        """Of the check run: what a branch protection rule requires."""
        return f"evenbench ({config_name(self.suite)})"


def publish(github: GitHub, target: Target, outcome: Outcome, links: Links) -> list[str]:
    """Write the check run and, on a pull request, the comment. Returns what was done, a few words each.

    Raises:
        PullRequestMoved: the pull request is not open at this head, or not any more.
        GitHubRefused: GitHub said no.
    """
    return _Publisher(github, target, outcome, links).publish()


class _User(BaseModel):
    login: str


class _Comment(BaseModel):
    id: int
    html_url: str = ""
    body: str | None = None
    user: _User | None = None


class _App(BaseModel):
    slug: str | None = None


class _Output(BaseModel):
    title: str | None = None
    summary: str | None = None


class _Check(BaseModel):
    id: int
    status: str
    conclusion: str | None = None
    external_id: str | None = None
    app: _App | None = None
    output: _Output = _Output()


class _Publisher:
    """One call of `publish`."""

    def __init__(self, github: GitHub, target: Target, outcome: Outcome, links: Links) -> None:
        self._github = github
        self._target = target
        self._outcome = outcome
        self._links = links
        self._below = f"/repos/{target.repository}"
        self._done: list[str] = []

    def publish(self) -> list[str]:
        pull = self._current()
        comments = list(self._comments())
        check = self._newest_check()
        stamps = [stamp for _, stamp in comments] + ([parse(check.external_id or "")] if check else [])
        last = max((stamp for stamp in stamps if stamp), key=lambda stamp: stamp.key, default=None)
        stamp = self._stamp(last)
        if last is not None and last.key > stamp.key:
            return [NEWER]
        stands = last is not None and last.stands_before(stamp)
        label = self._label(pull, stamp) if stands or self._outcome.state == "done" else None
        if last is not None and stands:
            self._accept(last, check, label)
            return self._done or ["the table of this commit stands"]
        self._write_check(check, stamp, label)
        self._current()
        if pull is not None:
            self._note(comments, last, stamp)
            self._write_comment(pull, stamp, label)
        return self._done

    def _current(self) -> Pull | None:
        """Asked again before each kind of write. Raises PullRequestMoved."""
        if self._target.number is None:
            return None
        return current(self._github, self._target.repository, self._target.number, self._target.head_sha)

    def _stamp(self, last: Stamp | None) -> Stamp:
        run = self._target.run
        same_head = last is not None and last.head == self._target.head_sha
        verdict = self._outcome.verdict
        return Stamp(
            config=config_name(self._target.suite),
            state=self._outcome.state,
            head=self._target.head_sha,
            run=run.id,
            attempt=run.attempt,
            number=run.number,
            since=last.since if last is not None and same_head else run.created,
            verdict=last.verdict if last is not None and verdict == "none" else verdict,
        )

    def _label(self, pull: Pull | None, stamp: Stamp) -> Acceptance | None:
        """What the label says; None without it."""
        if pull is None or all(label.name != LABEL for label in pull.labels):
            return None
        return acceptance(self._github, self._target.repository, pull.number, stamp.since)

    def _accept(self, last: Stamp, check: _Check | None, label: Acceptance | None) -> None:
        """The run brought no table, so the label is what it may be about."""
        if label is None or not label.by:
            self._done += [f"the label does not count: {label.why}"] if label else []
            return
        if check is not None and check.conclusion == "failure":
            text = CheckText(False, "failure", check.output.title or "", check.output.summary or "")
            self._edit_check(check, last, accepted_check(text, label.by))
        self._current()
        for found, stamp in self._comments():
            if stamp == last and (body := with_accepted(found.body or "", label.by)) != found.body:
                self._github.edit(f"{self._below}/issues/comments/{found.id}", {"body": body})
                self._done.append("comment edited")

    # ------------------------------------------------------------------------------------------------------- check run

    def _checks(self) -> Iterator[_Check]:
        """Check runs of ours on the commit: a job of a pull request may bear the name, but not our stamp."""
        path = f"{self._below}/commits/{self._target.head_sha}/check-runs"
        params = {"check_name": self._target.check_name, "filter": "all"}
        for each in self._github.pages(path, "check_runs", **params):
            check = checked(_Check, each)
            if check.app is not None and check.app.slug == APP and parse(check.external_id or ""):
                yield check

    def _newest_check(self) -> _Check | None:
        return max(self._checks(), key=lambda check: check.id, default=None)

    def _write_check(self, newest: _Check | None, stamp: Stamp, label: Acceptance | None) -> None:
        accepted = label.by if label is not None and self._outcome.conclusion == "failure" else ""
        not_accepted = label.why if label is not None else ""
        text = check_text(self._outcome, self._links, accepted_by=accepted, not_accepted=not_accepted)
        if newest is not None and (text.conclusion is not None or newest.status != "completed"):
            self._edit_check(newest, stamp, text)
            return  # a check run that ended does not start again: another one of this name takes its place
        body = {"head_sha": self._target.head_sha, **self._check_body(stamp, text)}
        self._github.create(
            f"{self._below}/check-runs",
            body,
            lambda: next((check for check in self._checks() if check.external_id == stamp.marker), None),
        )
        self._done.append(f"check run created: {text.conclusion or body['status']}")

    def _edit_check(self, check: _Check, stamp: Stamp, text: CheckText) -> None:
        there = (check.external_id, check.conclusion, check.output.title, check.output.summary)
        if there == (stamp.marker, text.conclusion, text.title, text.summary):
            return
        body = self._check_body(stamp, text)
        self._github.edit(f"{self._below}/check-runs/{check.id}", body)
        self._done.append(f"check run edited: {text.conclusion or body['status']}")

    def _check_body(self, stamp: Stamp, text: CheckText) -> dict[str, Any]:
        status = "completed" if text.conclusion else "in_progress" if text.running else "queued"
        return {
            "name": self._target.check_name,
            "external_id": stamp.marker,
            "status": status,
            **({"conclusion": text.conclusion} if text.conclusion else {}),
            **({"details_url": self._links.run} if self._links.run else {}),
            "output": {"title": text.title, "summary": text.summary},
        }

    # -------------------------------------------------------------------------------------------------------- comments

    def _all_comments(self) -> Iterator[_Comment]:
        """All comments that our workflows wrote: the author decides, since a stranger can write our marker."""
        for each in self._github.pages(f"{self._below}/issues/{self._target.number}/comments"):
            found = checked(_Comment, each)
            if found.user is not None and found.user.login == BOT:
                yield found

    def _comments(self) -> Iterator[tuple[_Comment, Stamp]]:
        """Our comments of this configuration, the oldest first."""
        if self._target.number is None:
            return
        for found in sorted(self._all_comments(), key=lambda found: found.id):
            stamp = parse(found.body or "")
            if stamp is not None and stamp.config == config_name(self._target.suite):
                yield found, stamp

    def _note(self, comments: list[tuple[_Comment, Stamp]], last: Stamp | None, stamp: Stamp) -> None:
        """An edit notifies nobody, so a turn to regressed is said. Before the edit, which would hide the turn."""
        if not comments or last is None or stamp.verdict != "regressed" or last.verdict == "regressed":
            return
        marker = note_marker(stamp)
        self._github.create(
            f"{self._below}/issues/{self._target.number}/comments",
            {"body": turned_regressed(self._outcome, stamp, comments[0][0].html_url)},
            lambda: next((found for found in self._all_comments() if (found.body or "").startswith(marker)), None),
        )
        self._done.append("comment on the turn created")

    def _write_comment(self, pull: Pull, stamp: Stamp, label: Acceptance | None) -> None:
        """Until the comments are as they should be: another publisher may have written meanwhile."""
        budget = COMMENT_BUDGET

        def written(send: Callable[[str], Any]) -> None:
            nonlocal budget
            try:
                send(self._body(pull, stamp, label, budget))
            except Unprocessable as error:
                if not error.too_long or budget == SHORTER:
                    raise
                budget = SHORTER
                send(self._body(pull, stamp, label, budget))

        path = f"{self._below}/issues"
        for _ in range(1 if self._github.dry_run else PASSES):
            ours = list(self._comments())
            if any(there.key > stamp.key for _, there in ours):
                self._done.append(NEWER)
                return
            if not ours:
                written(lambda body: self._github.create(f"{path}/{pull.number}/comments", {"body": body}, self._first))
                self._done.append("comment created")
                continue  # and look whether another publisher did the same
            (keep, _), *more = ours
            same = _text(keep.body) == _text(self._body(pull, stamp, label, budget))
            if same and not more:
                return
            if not same:
                written(lambda body, id=keep.id: self._github.edit(f"{path}/comments/{id}", {"body": body}))
                self._done.append("comment edited")
            for extra, _ in more:
                self._github.delete(f"{path}/comments/{extra.id}")
                self._done.append("a second comment of ours deleted")

    def _first(self) -> _Comment | None:
        return next((found for found, _ in self._comments()), None)

    def _body(self, pull: Pull, stamp: Stamp, label: Acceptance | None, budget: int) -> str:
        outcome, target = self._outcome, self._target
        again = footer(fork=pull.from_fork, number=pull.number, head=target.head_sha, workflow=target.workflow)
        if outcome.comparison is None:
            body = state_comment(outcome, stamp, self._links)
            return f"{body}\n{again}" if outcome.state == "failed" else body
        room = budget - len(again) - len(with_accepted("\n", label.by if label else "")) - 2
        body = comment(outcome.comparison, self._links, name=stamp.name, budget=room)
        return with_accepted(f"{body.rstrip()}\n\n{again}", label.by if label and outcome.met else "")


def _text(body: str | None) -> str:
    """A body as compared: GitHub may change line ends and the space at the end."""
    return (body or "").replace("\r\n", "\n").rstrip()
