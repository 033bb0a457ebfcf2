"""What one check run says of each pull request that has its commit as head, since all of them share it. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ..render.comment import markdown
from ..text import JOINER
from .outcome import CheckText, Conclusion

SHARE = re.compile(
    r"^<!-- evenbench share=(?P<key>(?:pull|run)-\d{1,19}) conclusion=(?P<conclusion>success|failure|neutral|none) -->"
    r"[^:\n]*: (?P<title>.*)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class CheckShare:
    """What a check run says of one pull request.

    Attributes:
        key: ``pull-NUMBER``; or ``run-ID`` where a run may be of any of several pull requests.
        conclusion: of that pull request alone; None while its run goes on.
        title: of that pull request alone; plain text.
    """

    key: str
    conclusion: Conclusion | None
    title: str

    @property
    def name(self) -> str:
        """What people call it."""
        kind, _, number = self.key.partition("-")
        return f"#{number}" if kind == "pull" else f"run {number}"

    @property
    def line(self) -> str:
        """The line of the check run's summary from which it is read back."""
        marker = f"<!-- evenbench share={self.key} conclusion={self.conclusion or 'none'} -->"
        return f"{marker}{self.name}: {markdown.plain(self.title)}"


def shares_of(summary: str) -> dict[str, CheckShare]:
    """The shares in the summary of a check run, by their keys."""
    shares = {}
    for match in SHARE.finditer(summary):
        conclusion = None if match["conclusion"] == "none" else cast("Conclusion", match["conclusion"])
        title = html.unescape(match["title"]).replace(JOINER, "")
        shares[match["key"]] = CheckShare(match["key"], conclusion, title)
    return shares


def without_shares(summary: str) -> str:
    """The summary of a check run without the lines of its shares."""
    return SHARE.sub("", summary).rstrip()


def combined(text: CheckText, key: str, others: Iterable[CheckShare]) -> CheckText:
    """What the check run of a commit says when one of its pull requests has something to say: the worst decides.

    A failure of any is a failure; without one, the check run goes on as long as the run of any does.

    Args:
        text: what is to be said of the pull request `key` alone.
        key: of that pull request; empty for a commit that has none, whose text is the whole.
        others: what is known of the other pull requests that have the commit as head.
    """
    if not key:
        return text
    mine = CheckShare(key, text.conclusion, text.title)
    others = sorted(others, key=lambda share: share.key)
    lines = [share.line for share in sorted([mine, *others], key=lambda share: share.key)]
    text = replace(text, summary="\n\n".join([text.summary, *lines]))
    decisive = _decisive(text.conclusion, others)
    if not decisive:
        return text
    title = "; ".join(f"{share.name}: {share.title}" for share in (mine, *decisive))
    conclusion = decisive[0].conclusion
    return replace(text, running=conclusion is None, conclusion=conclusion, title=title)


def _decisive(conclusion: Conclusion | None, others: Sequence[CheckShare]) -> list[CheckShare]:
    """Those of the others that count for more than `conclusion`; a failure beside a failure counts as well."""
    if conclusion is None:  # this run has yet to end, whatever the others came to
        return []
    failed = [share for share in others if share.conclusion == "failure"]
    if failed or conclusion == "failure":
        return failed
    return [share for share in others if share.conclusion is None]
