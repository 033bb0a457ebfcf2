"""The check run on a commit: what branch protection requires. One that ended is never started again, but may be edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import BaseModel

from .check_shares import CheckShare, combined, shares_of, without_shares
from .client import WORKFLOWS_APP, GitHub
from .outcome import CheckText, Conclusion, Stamp, accepted_check, parse
from .pull_request import checked


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
        github: with whom to speak.
        repository: ``owner/name``.
        head_sha: the commit.
        name: of the check run.
        url: where its details are; empty for nowhere.
        key: of what is written, as in `CheckShare`; empty where the commit is of no pull request.
        is_current: whether what is said of another pull request of this commit still counts.
    """

    github: GitHub
    repository: str
    head_sha: str
    name: str
    url: str
    key: str = ""
    is_current: Callable[[CheckShare], bool] = lambda _: True

    def newest(self) -> CheckRun | None:
        """The one of ours that GitHub shows."""
        return max(self._ours(), key=lambda check: check.id, default=None)

    def write(self, stamp: Stamp, text: CheckText) -> str:
        """Say `text`, of `stamp`, unless a newer run has said something. Returns what was done; empty for nothing."""
        ours = sorted(self._ours(), key=lambda check: check.id)
        stamp = replace(stamp, pull=self._pull)
        if any(check.stamp.key > stamp.key for check in ours if check.stamp is not None and self.is_mine(check.stamp)):
            return ""
        whole = self._combined(text, ours)
        if ours and (whole.conclusion is not None or ours[-1].status != "completed"):
            return self.edit(ours[-1], stamp, whole)
        body = {"head_sha": self.head_sha, **self._body(stamp, whole)}
        self.github.create(f"/repos/{self.repository}/check-runs", body, lambda: self._of(stamp))
        self._show_all(stamp, text)
        return f"check run created: {whole.conclusion or body['status']}"

    def accept(self, check: CheckRun, stamp: Stamp, by: str) -> str:
        """Turn what a check run says of this pull request, should that be a failure, into a success that names who accepted.

        Args:
            check: ours, which GitHub shows.
            stamp: of the table that was accepted.
            by: who accepted it.

        Returns:
            What was done; empty for nothing.
        """
        shares, written, stamp = shares_of(check.text.summary), check.stamp, replace(stamp, pull=self._pull)
        mine = shares.get(self.key)
        if mine is None and written is not None and self.is_mine(written):
            mine = CheckShare(self.key, check.text.conclusion, check.text.title)
        if written is None or mine is None or mine.conclusion != "failure":
            return ""
        text = CheckText(
            running=False, conclusion="failure", title=mine.title, summary=without_shares(check.text.summary)
        )
        accepted = accepted_check(text, by)
        others = {share.key: share for share in shares.values() if share.key != self.key and self.is_current(share)}
        writer = None if self.is_mine(written) else others.pop(f"pull-{written.pull}", None)
        if writer is None:  # written for this pull request, or for one that is no longer at this commit
            return self.edit(check, stamp, combined(accepted, self.key, others.values()))
        text = replace(text, running=writer.conclusion is None, conclusion=writer.conclusion, title=writer.title)
        others[self.key] = CheckShare(self.key, accepted.conclusion, accepted.title)
        return self.edit(check, written, combined(text, writer.key, others.values()))

    def is_mine(self, stamp: Stamp) -> bool:
        """Whether a check run was last written for what this one is about, as far as its stamp says."""
        kind, _, number = self.key.partition("-")
        if kind == "run":  # any other run may be of another pull request
            return not stamp.pull and stamp.run == int(number)
        return not stamp.pull or not number or stamp.pull == int(number)

    @property
    def _pull(self) -> int:
        """Number of the pull request; 0 where it is not known."""
        kind, _, number = self.key.partition("-")
        return int(number) if kind == "pull" else 0

    def _combined(self, text: CheckText, ours: Iterable[CheckRun]) -> CheckText:
        """`text` beside what our check runs, the newest last, say of the commit's other pull requests."""
        shares: dict[str, CheckShare] = {}
        for check in ours:
            shares |= shares_of(check.text.summary)
        shares.pop(self.key, None)
        return combined(text, self.key, [share for share in shares.values() if self.is_current(share)])

    def _show_all(self, stamp: Stamp, text: CheckText) -> None:
        """GitHub shows the check run that came last: ours repeats what others have written since we looked."""
        ours = sorted(self._ours(), key=lambda check: check.id)
        created = next((check for check in ours if check.stamp == stamp), None)
        if created is None:
            return
        newest = created
        for check in ours:
            if check.stamp is not None and self.is_mine(check.stamp) and check.stamp.key > (newest.stamp or stamp).key:
                newest = check
        if newest is not created and newest.stamp is not None:
            self.edit(created, newest.stamp, newest.text)
        else:
            self.edit(created, stamp, self._combined(text, ours))

    def edit(self, check: CheckRun, stamp: Stamp, text: CheckText) -> str:
        """Change a check run, if need be. Returns what was done; empty for nothing."""
        body = self._body(stamp, text)
        shown = (check.external_id, check.status, check.conclusion, check.output.title, check.output.summary)
        if shown == (stamp.marker, body["status"], text.conclusion, text.title, text.summary):
            return ""
        self.github.edit(f"/repos/{self.repository}/check-runs/{check.id}", body)
        return f"check run edited: {text.conclusion or body['status']}"

    def _ours(self) -> Iterator[CheckRun]:
        """A job of a pull request may have the name, too, but not our stamp; another App may write both."""
        path = f"/repos/{self.repository}/commits/{self.head_sha}/check-runs"
        for item in self.github.pages(path, "check_runs", check_name=self.name, filter="all"):
            check = checked(CheckRun, item)
            slug = check.app.slug if check.app is not None else None
            if slug and check.stamp is not None and (slug == WORKFLOWS_APP or self.github.login == f"{slug}[bot]"):
                yield check

    def _of(self, stamp: Stamp) -> CheckRun | None:
        return next((check for check in self._ours() if check.stamp == stamp), None)

    def _body(self, stamp: Stamp, text: CheckText) -> dict[str, Any]:
        status = "in_progress" if text.running else "queued"
        body: dict[str, Any] = {
            "name": self.name,
            "external_id": stamp.marker,
            "status": "completed" if text.conclusion else status,
            "output": {"title": text.title, "summary": text.summary},
        }
        if text.conclusion:
            body["conclusion"] = text.conclusion
        if self.url:
            body["details_url"] = self.url
        return body
