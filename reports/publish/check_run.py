"""The check run on a commit: what branch protection requires. One that ended is never started again, but may be edited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import BaseModel

from .client import GitHub
from .outcome import CheckText, Conclusion, Stamp, parse, shared, shares_of
from .pull_request import checked


class _Output(BaseModel):
    title: str | None = None
    summary: str | None = None


class CheckRun(BaseModel):
    """A check run of ours."""

    id: int
    status: str
    conclusion: str | None = None
    external_id: str | None = None
    output: _Output = _Output()

    @property
    def stamp(self) -> Stamp | None:
        """What it is about."""
        return parse(self.external_id or "")

    @property
    def text(self) -> CheckText:
        """What it says."""
        running, conclusion = self.status == "in_progress", cast("Conclusion | None", self.conclusion)
        return CheckText(running, conclusion, self.output.title or "", self.output.summary or "")


@dataclass(frozen=True)
class CheckRuns:
    """The check runs of one name on one commit.

    Attributes:
        github: is asked and told.
        repository: ``owner/name``.
        head_sha: the commit.
        name: of the check run.
        url: where its details are; empty for nowhere.
        pull: number of the pull request; 0 for none. All that have this commit as their head share its check run.
        is_current: whether another pull request still has this commit as its head.
    """

    github: GitHub
    repository: str
    head_sha: str
    name: str
    url: str
    pull: int = 0
    is_current: Callable[[int], bool] = lambda _: True

    def newest(self) -> CheckRun | None:
        """The one of ours that GitHub shows."""
        return max(self._ours(), key=lambda check: check.id, default=None)

    def write(self, stamp: Stamp, text: CheckText) -> str:
        """Say `text`, of `stamp`, unless a newer run has said something. Returns what was done; empty for nothing."""
        newest, stamp = self.newest(), replace(stamp, pull=self.pull)
        if newest is not None and newest.stamp is not None:
            if self.is_mine(newest.stamp) and newest.stamp.key > stamp.key:
                return ""
            others = [share for share in shares_of(newest.text.summary) if share.pull != self.pull]
            text = shared(text, self.pull, [share for share in others if self.is_current(share.pull)])
        else:
            text = shared(text, self.pull, ())
        if newest is not None and (text.conclusion is not None or newest.status != "completed"):
            return self.edit(newest, stamp, text)
        body = {"head_sha": self.head_sha, **self._body(stamp, text)}
        self.github.create(f"/repos/{self.repository}/check-runs", body, lambda: self._of(stamp))
        self._show_the_newer(stamp)
        return f"check run created: {text.conclusion or body['status']}"

    def is_mine(self, stamp: Stamp) -> bool:
        """Whether a check run was last written for this pull request, as far as it says for which."""
        return not stamp.pull or not self.pull or stamp.pull == self.pull

    def _show_the_newer(self, mine: Stamp) -> None:
        """GitHub shows the check run that came last: should a newer run have come first, ours repeats what it says."""
        ours = {check.stamp: check for check in self._ours() if check.stamp is not None}
        newer = ours[max(ours, key=lambda stamp: stamp.key)] if ours else None
        if newer is not None and newer.stamp is not None and newer.stamp.key > mine.key and mine in ours:
            body = self._body(newer.stamp, newer.text)
            self.github.edit(f"/repos/{self.repository}/check-runs/{ours[mine].id}", body)

    def edit(self, check: CheckRun, stamp: Stamp, text: CheckText) -> str:
        """Change a check run, if need be. Returns what was done; empty for nothing."""
        stamp = replace(stamp, pull=self.pull)
        body = self._body(stamp, text)
        there = (check.external_id, check.status, check.conclusion, check.output.title, check.output.summary)
        if there == (stamp.marker, body["status"], text.conclusion, text.title, text.summary):
            return ""
        self.github.edit(f"/repos/{self.repository}/check-runs/{check.id}", body)
        return f"check run edited: {text.conclusion or body['status']}"

    def _ours(self) -> Iterator[CheckRun]:
        """A job of a pull request may have the name, too, but not our stamp, which only an App of the repository can write."""
        path = f"/repos/{self.repository}/commits/{self.head_sha}/check-runs"
        for each in self.github.pages(path, "check_runs", check_name=self.name, filter="all"):
            check = checked(CheckRun, each)
            if check.stamp is not None:
                yield check

    def _of(self, stamp: Stamp) -> CheckRun | None:
        return next((check for check in self._ours() if check.stamp == stamp), None)

    def _body(self, stamp: Stamp, text: CheckText) -> dict[str, Any]:
        body = {
            "name": self.name,
            "external_id": stamp.marker,
            "status": "completed" if text.conclusion else "in_progress" if text.running else "queued",
            "output": {"title": text.title, "summary": text.summary},
        }
        more = {"conclusion": text.conclusion or "", "details_url": self.url}
        return body | {key: value for key, value in more.items() if value}
