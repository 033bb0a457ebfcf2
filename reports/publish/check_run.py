"""The check run on a commit: what branch protection requires. One that ended is never started again, but may be edited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from .client import GitHub
from .outcome import CheckText, Conclusion, Stamp, parse
from .pull_request import checked

APP = "github-actions"  # whose check runs a workflow's token makes


class _App(BaseModel):
    slug: str | None = None


class _Output(BaseModel):
    title: str | None = None
    summary: str | None = None


class CheckRun(BaseModel):
    """A check run of ours."""

    id: int
    status: str
    conclusion: str | None = None
    external_id: str | None = None
    app: _App | None = None
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
    """

    github: GitHub
    repository: str
    head_sha: str
    name: str
    url: str

    def newest(self) -> CheckRun | None:
        """The one of ours that GitHub shows."""
        return max(self._ours(), key=lambda check: check.id, default=None)

    def write(self, stamp: Stamp, text: CheckText) -> str:
        """Say `text`, of `stamp`, unless a newer run has said something. Returns what was done; empty for nothing."""
        newest = self.newest()
        if newest is not None and newest.stamp is not None and newest.stamp.key > stamp.key:
            return ""
        if newest is not None and (text.conclusion is not None or newest.status != "completed"):
            return self.edit(newest, stamp, text)
        body = {"head_sha": self.head_sha, **self._body(stamp, text)}
        self.github.create(f"/repos/{self.repository}/check-runs", body, lambda: self._of(stamp))
        self._show_the_newer(stamp)
        return f"check run created: {text.conclusion or body['status']}"

    def _show_the_newer(self, mine: Stamp) -> None:
        """GitHub shows the check run that came last: should a newer run have come first, ours repeats what it says."""
        ours = {check.stamp: check for check in self._ours() if check.stamp is not None}
        newer = ours[max(ours, key=lambda stamp: stamp.key)] if ours else None
        if newer is not None and newer.stamp is not None and newer.stamp.key > mine.key and mine in ours:
            body = self._body(newer.stamp, newer.text)
            self.github.edit(f"/repos/{self.repository}/check-runs/{ours[mine].id}", body)

    def edit(self, check: CheckRun, stamp: Stamp, text: CheckText) -> str:
        """Change a check run, if need be. Returns what was done; empty for nothing."""
        body = self._body(stamp, text)
        there = (check.external_id, check.status, check.conclusion, check.output.title, check.output.summary)
        if there == (stamp.marker, body["status"], text.conclusion, text.title, text.summary):
            return ""
        self.github.edit(f"/repos/{self.repository}/check-runs/{check.id}", body)
        return f"check run edited: {text.conclusion or body['status']}"

    def _ours(self) -> Iterator[CheckRun]:
        """A job of a pull request may bear the name, too, but not our stamp."""
        path = f"/repos/{self.repository}/commits/{self.head_sha}/check-runs"
        for each in self.github.pages(path, "check_runs", check_name=self.name, filter="all"):
            check = checked(CheckRun, each)
            if check.app is not None and check.app.slug == APP and check.stamp is not None:
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
