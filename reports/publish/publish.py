"""An outcome → one comment on the pull request, edited in place, and one check run on the commit.

Who publishes may be late, twice, or interrupted: what is there already is read first, an older run never writes over a
newer one, and nothing is written to a pull request that moved on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pydantic import BaseModel

from evenbench.runner.errors import PullRequestMoved

from ..render.comment.comment import Links
from ..render.comment.comment import comment as table_comment
from ..render.comment.markdown import COMMENT_BUDGET
from .accepted import Acceptance, acceptance
from .check_run import CheckRun, CheckRuns
from .check_shares import CheckShare
from .client import WORKFLOWS_APP, GitHub, NotFound, Unprocessable
from .events import WorkflowRun
from .outcome import (
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
from .pull_request import Pull, checked, current

PASSES = 3  # looks at the comments until they are as they should be; each other publisher costs one at most
SHORTER = COMMENT_BUDGET // 2  # of a comment that GitHub found too long
NEWER = "a newer run has written already"
TABLE_STAYS = "the table of this commit stays"


@dataclass(frozen=True)
class PublishTarget:
    """Where an outcome is published.

    Attributes:
        repository: ``owner/name``.
        number: of the pull request; None for a check run alone.
        head_sha: what was measured.
        suite: one comment and check run each.
        run: that the outcome is of.
        workflow: file name of the workflow by which a maintainer measures again.
        ambiguous: whether the run may be of any of several pull requests, so that `number` is None.
    """

    repository: str
    number: int | None
    head_sha: str
    suite: str
    run: WorkflowRun
    workflow: str = "manual.yml"
    ambiguous: bool = False

    @property
    def config(self) -> str:
        """The configuration's name in stamps."""
        return config_name(self.suite)

    @property
    def share(self) -> str:
        """The key of what the check run says of it, as in `CheckShare`; empty for a commit without a pull request."""
        if self.number is not None:
            return f"pull-{self.number}"
        return f"run-{self.run.id}" if self.ambiguous else ""


def publish(github: GitHub, target: PublishTarget, outcome: Outcome, links: Links) -> list[str]:
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


_Ours = list[tuple[_Comment, Stamp]]


class _Publisher:
    """One call of `publish`."""

    def __init__(self, github: GitHub, target: PublishTarget, outcome: Outcome, links: Links) -> None:
        self._github = github
        self._target = target
        self._outcome = outcome
        self._links = links
        name = f"evenbench ({target.config})"
        self._checks = CheckRuns(
            github, target.repository, target.head_sha, name, links.run, target.share, self._is_current
        )
        self._issues = f"/repos/{target.repository}/issues"
        self._budget = COMMENT_BUDGET
        self._author = f"{WORKFLOWS_APP}[bot]"

    def publish(self) -> list[str]:
        pull = self._current()
        ours, check = self._comments(), self._checks.newest()
        stamps = [stamp for _, stamp in ours]
        commented = _newest(stamps)
        if check is not None and check.stamp is not None and self._checks.is_mine(check.stamp):
            stamps.append(replace(check.stamp, pull=0))
        last = _newest(stamps)
        stamp = self._stamp(last, commented)
        if last is not None and last.key > stamp.key:
            return [NEWER]
        table_stays = last is not None and last.stays_for(stamp)
        label = self._label(pull, stamp) if table_stays or self._outcome.state == "done" else None
        if last is not None and table_stays:
            return self._accept(last, check, label)
        done = [self._checks.write(stamp, self._check_text(label))]
        pull = self._current()
        if pull is not None:
            done += [self._note(ours, commented, stamp), *self._write_comment(pull, stamp, label)]
        return [action for action in done if action]

    def _current(self) -> Pull | None:
        """Asked again between writes. Raises PullRequestMoved."""
        if self._target.number is None:
            return None
        return current(self._github, self._target.repository, self._target.number, self._target.head_sha)

    def _is_current(self, share: CheckShare) -> bool:
        """Whether another pull request is open at this commit. Which one a run is of is known once there is just one."""
        kind, _, number = share.key.partition("-")
        if kind == "run":
            return self._target.ambiguous
        try:
            current(self._github, self._target.repository, int(number), self._target.head_sha)
        except (PullRequestMoved, NotFound):
            return False
        return True

    def _stamp(self, last: Stamp | None, commented: Stamp | None) -> Stamp:
        run, verdict = self._target.run, self._outcome.verdict
        same_head = last is not None and last.head == self._target.head_sha
        return Stamp(
            config=self._target.config,
            state=self._outcome.state,
            head=self._target.head_sha,
            run=run.id,
            attempt=run.attempt,
            number=run.number,
            since=last.since if last is not None and same_head else run.created,
            verdict=commented.verdict if commented is not None and verdict == "none" else verdict,
        )

    def _label(self, pull: Pull | None, stamp: Stamp) -> Acceptance | None:
        """What the label says; None without it."""
        if pull is None or all(label.name != LABEL for label in pull.labels):
            return None
        return acceptance(self._github, self._target.repository, pull.number, stamp.since)

    def _check_text(self, label: Acceptance | None) -> CheckText:
        text = check_text(self._outcome, self._links, label.why if label is not None else "")
        by = label.by if label is not None else ""
        return accepted_check(text, by) if by and text.conclusion == "failure" else text

    def _accept(self, last: Stamp, check: CheckRun | None, label: Acceptance | None) -> list[str]:
        """The run brought no table, and that of its commit stays: the run may be about the label."""
        if label is None:
            return [TABLE_STAYS]
        if not label.by:
            return [f"the label does not count: {label.why}"]
        done = []
        if check is not None and (edited := self._checks.accept(check, last, label.by)):
            done.append(edited)
            self._current()
        for comment, stamp in self._comments():
            body = with_accepted(comment.body or "", label.by)
            if stamp == last and done and body != comment.body:
                with contextlib.suppress(NotFound):  # deleted meanwhile
                    self._edit(comment.id, body)
                    done.append("comment edited")
        return done or [TABLE_STAYS]

    def _comments(self) -> _Ours:
        """Our comments of this configuration, the oldest first."""
        if self._target.number is None:
            return []
        ours = []
        for comment in self._by_us():
            stamp = parse(comment.body or "")
            if stamp is not None and stamp.config == self._target.config:
                ours.append((comment, stamp))
        return sorted(ours, key=lambda stamped: stamped[0].id)

    def _by_us(self) -> Iterator[_Comment]:
        """Comments that a workflow or our own token wrote: the author decides, since a stranger can write our marker."""
        for item in self._github.pages(f"{self._issues}/{self._target.number}/comments"):
            comment = checked(_Comment, item)
            if comment.user is not None and (comment.user.login == self._author or self._is_own(comment)):
                yield comment

    def _is_own(self, comment: _Comment) -> bool:
        """Whether our token wrote a comment: GitHub is asked only about one that has our marker."""
        login = comment.user.login if comment.user is not None else ""
        marked = (comment.body or "").startswith("<!-- evenbench ")
        return marked and login in (f"{WORKFLOWS_APP}[bot]", self._github.login)

    def _note(self, ours: _Ours, commented: Stamp | None, stamp: Stamp) -> str:
        """An edit notifies nobody, so a turn to regressed gets a comment: before the edit, which would hide the turn."""
        if commented is None or stamp.verdict != "regressed" or commented.verdict == "regressed":
            return ""
        marker = note_marker(stamp)
        self._github.create(
            f"{self._issues}/{self._target.number}/comments",
            {"body": turned_regressed(self._outcome, stamp, ours[0][0].html_url)},
            lambda: next((comment for comment in self._by_us() if (comment.body or "").startswith(marker)), None),
        )
        return "extra comment created"

    def _write_comment(self, pull: Pull, stamp: Stamp, label: Acceptance | None) -> list[str]:
        """Until the comments are as they should be: another publisher may have written meanwhile."""
        done: list[str] = []
        missing: NotFound | None = None
        for _ in range(1 if self._github.dry_run else PASSES):
            ours = self._comments()
            if any(written.key > stamp.key for _, written in ours):
                return [*done, NEWER]
            if not ours:
                self._send(pull, stamp, label, self._create)
                missing = None
                done.append("comment created")
                continue  # and look whether another publisher did the same
            (first, _), *extra = ours
            if _text(first.body) != _text(self._body(pull, stamp, label)):
                try:
                    self._send(pull, stamp, label, partial(self._edit, first.id))
                except NotFound as error:  # deleted meanwhile: created again in the next pass
                    missing = error
                    continue
                missing = None
                done.append("comment edited")
            elif not extra:
                break
            for comment, _ in extra:
                self._github.delete(f"{self._issues}/comments/{comment.id}")
                done.append("a second comment deleted")
        if missing is not None:  # GitHub lists a comment that it does not find
            raise missing
        return done

    def _send(self, pull: Pull, stamp: Stamp, label: Acceptance | None, send: Callable[[str], None]) -> None:
        try:
            send(self._body(pull, stamp, label))
        except Unprocessable as error:
            if not error.too_long or self._budget == SHORTER:
                raise
            self._budget = SHORTER
            send(self._body(pull, stamp, label))

    def _create(self, body: str) -> None:
        path = f"{self._issues}/{self._target.number}/comments"
        answer = self._github.create(path, {"body": body}, lambda: next(iter(self._comments()), None))
        if isinstance(answer, dict):
            author = checked(_Comment, answer).user
            self._author = author.login if author is not None else self._author

    def _edit(self, id: int, body: str) -> None:
        self._github.edit(f"{self._issues}/comments/{id}", {"body": body})

    def _body(self, pull: Pull, stamp: Stamp, label: Acceptance | None) -> str:
        outcome, target = self._outcome, self._target
        how_to_repeat = footer(fork=pull.from_fork, number=pull.number, head=target.head_sha, workflow=target.workflow)
        if outcome.comparison is None:
            body = f"{stamp.marker}\n{state_comment(outcome, target.head_sha, self._links)}"
            return f"{body}\n{how_to_repeat}" if outcome.state == "failed" else body
        by = label.by if label is not None and outcome.conclusion == "failure" else ""
        room = self._budget - len(how_to_repeat) - len(with_accepted("\n", by))
        body = table_comment(outcome.comparison, self._links, name=stamp.name, budget=room)
        return with_accepted(f"{body.rstrip()}\n\n{how_to_repeat}", by)


def _newest(stamps: list[Stamp]) -> Stamp | None:
    return max(stamps, key=lambda stamp: stamp.key, default=None)


def _text(body: str | None) -> str:
    """A body as compared: GitHub may change line ends and the space at the end."""
    return (body or "").replace("\r\n", "\n").rstrip()
