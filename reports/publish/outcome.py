"""What is said on a pull request beside the table: states, stamps, the check run's words. Pure; every value is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, cast

from evenbench.runner.errors import UntrustedInput

from ..compare.compare import conditions_met, headline
from ..render.comment import markdown
from ..render.comment.comment import Links, summary
from ..render.wording import SHORT_SHA
from ..rows.outcome import Comparison
from ..text import sanitise
from .events import State

LABEL = "evenbench: accepted"  # by which a maintainer says that a regression is wanted
BAD = frozenset({"failed", "wrong"})
RANK: Mapping[State, int] = MappingProxyType(
    {"queued": 0, "running": 1, "done": 2, "nothing": 2, "failed": 2, "superseded": 2}
)  # the order of one run's states, should their publishers overtake each other
TITLES: Mapping[State, str] = MappingProxyType(
    {
        "queued": "queued",
        "running": "measuring",
        "done": "done",
        "nothing": "nothing to measure",
        "failed": "no result",
        "superseded": "superseded",
    }
)
SIGNS: Mapping[State, str] = MappingProxyType(
    {"queued": "⏳", "running": "⏳", "done": "⏱", "nothing": "⚪", "failed": "❌", "superseded": "⏭️"}
)
ACCEPTED = "✅ Accepted by "  # begins the line below the marker
SELF_REPORTED = (
    "This code comes from outside the repository. A kernel shares a process with its timer, so these figures are "
    "self-reported; a maintainer can measure them again."
)
CONFIG = re.compile(r"[^A-Za-z0-9_./]+")  # what a configuration's name in a marker may not hold
MARKER = re.compile(
    r"<!-- evenbench config=(?P<config>\S+) state=(?P<state>[a-z]+) head=(?P<head>[0-9a-f]{40,64}) "
    r"run=(?P<run>\d{1,19})\.(?P<attempt>\d{1,9}) number=(?P<number>\d{1,19}) since=(?P<since>\d{1,19}) "
    r"verdict=(?P<verdict>none|fine|regressed)(?: pull=(?P<pull>\d{1,9}))? -->"
)

Conclusion = Literal["success", "failure", "neutral"]
LastVerdict = Literal["none", "fine", "regressed"]


@dataclass(frozen=True)
class Stamp:
    """What a comment or check run of ours is about: its hidden marker.

    Attributes:
        config: the configuration, one comment each.
        state: at the time of writing.
        head: the commit.
        run, attempt, number: of the workflow's run that it is about.
        since: when GitHub first reported this head, seconds since 1970.
        verdict: of the last table.
        pull: number of the pull request, in the stamp of a check run: those of one commit share it; 0 where not known.
    """

    config: str
    state: State
    head: str
    run: int
    attempt: int
    number: int
    since: int = 0
    verdict: LastVerdict = "none"
    pull: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """Grows with time."""
        return self.run, self.attempt, RANK[self.state]

    @property
    def name(self) -> str:
        """For `markdown.marker`."""
        return (
            f"config={self.config} state={self.state} head={self.head} run={self.run}.{self.attempt} "
            f"number={self.number} since={self.since} verdict={self.verdict}"
            + (f" pull={self.pull}" if self.pull else "")
        )

    @property
    def marker(self) -> str:
        """The first line of a comment."""
        return markdown.marker(self.name)

    def stays_for(self, new: Stamp) -> bool:
        """Whether this is a table that another run of the same commit, which brings none, leaves alone."""
        started_again = self.run == new.run and new.state in ("queued", "running", "failed")
        return self.state == "done" and self.head == new.head and new.state != "done" and not started_again


def parse(body: str) -> Stamp | None:
    """The stamp in the first line of a comment; None without one. An error message that quotes one is never first."""
    match = MARKER.match(body)
    if match is None or match["state"] not in RANK:
        return None
    numbers = {name: int(match[name]) for name in ("run", "attempt", "number", "since")}
    state, verdict = cast("State", match["state"]), cast("LastVerdict", match["verdict"])
    pull = int(match["pull"] or 0)
    return Stamp(config=match["config"], state=state, head=match["head"], verdict=verdict, pull=pull, **numbers)


def config_name(suite: str) -> str:
    """The name of a configuration as a marker can hold it."""
    return CONFIG.sub("-", suite) or "-"


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        state: of the run.
        reason: why there is no table; may quote foreign text.
        comparison: what was compared.
        met: conditions of `fail_on` that hold.
        strict: whether `fail_on` names any condition.
    """

    state: State
    reason: str = ""
    comparison: Comparison | None = None
    met: tuple[str, ...] = ()
    strict: bool = True

    @classmethod
    def of(cls, comparison: Comparison) -> Outcome:
        """What a comparison comes to, by the `fail_on` that it was judged by."""
        fail_on = comparison.judged_by.fail_on
        met = conditions_met(comparison, fail_on)
        bad = any(side.error for side in comparison.facts.sides) or any(row.verdict in BAD for row in comparison.rows)
        if any(row.measured for row in comparison.rows):
            return cls("done", "", comparison, met, bool(fail_on))
        if bad or comparison.facts.partial or met:
            return cls("failed", "No case gave a number on both sides.", comparison, met, bool(fail_on))
        return cls("nothing", "There is nothing to compare.", comparison, met, bool(fail_on))

    @property
    def title(self) -> str:
        """One line; plain text."""
        return headline(self.comparison) if self.comparison is not None else TITLES[self.state]

    @property
    def verdict(self) -> LastVerdict:
        """Of its table: whether a row that counts regressed or was broken, as for `fail_on`."""
        if self.state != "done" or self.comparison is None:
            return "none"
        bad = ("regressed", "failed")
        return "regressed" if set(bad) & set(conditions_met(self.comparison, bad)) else "fine"

    @property
    def _base_alone_failed(self) -> bool:
        """Whether base could not be made ready, for which head is not to blame."""
        facts = self.comparison.facts if self.comparison is not None else None
        base = facts.side("base") if facts is not None else None
        return base is not None and bool(base.error) and not self.met

    @property
    def conclusion(self) -> Conclusion | None:
        """Of the check run; None while the run goes on. What was not measured, or only in part, is not a success."""
        match self.state:
            case "queued" | "running":
                return None
            case "nothing" | "superseded":
                return "neutral"
            case "failed":
                return "failure" if self.strict and not self._base_alone_failed else "neutral"
        if self.comparison is None:
            raise UntrustedInput("a table without a comparison")
        if self.met or (self.comparison.facts.partial and self.strict):
            return "failure"
        return "neutral" if self.comparison.unreliable else "success"


@dataclass(frozen=True)
class CheckText:
    """What a check run says. `conclusion` is None while the run goes on."""

    running: bool
    conclusion: Conclusion | None
    title: str
    summary: str


def state_comment(outcome: Outcome, head: str, links: Links) -> str:
    """What is said of a run without a table."""
    about = [f"head {markdown.code(head[:SHORT_SHA])}"] if head else []
    lines = [f"### {SIGNS[outcome.state]} evenbench: {outcome.title}", " · ".join([*about, *_run(links)])]
    if outcome.reason:
        lines += ["", markdown.plain(outcome.reason)]
    return "\n".join([*lines, ""])


def summary_of(outcome: Outcome, links: Links, head: str) -> str:
    """The text of a job summary: the table, or why there is no table."""
    if outcome.comparison is None:
        return state_comment(outcome, head, links)
    return summary(outcome.comparison, links)


def footer(*, fork: bool, number: int, head: str, workflow: str) -> str:
    """What is shown below a table on a pull request: what a fork's figures are worth, and how to measure them again."""
    command = f"gh workflow run {workflow} -f pull_request={number} -f head_sha={head}"
    lines = [SELF_REPORTED] if fork else []
    return "\n\n".join([*lines, f"To measure again: {markdown.code(command)}", ""])


def turned_regressed(outcome: Outcome, stamp: Stamp, table_url: str) -> str:
    """The extra comment when a table turns to regressed; its first line finds it again."""
    text = (
        f"🔴 evenbench: {markdown.plain(outcome.title)} at {markdown.code(stamp.head[:SHORT_SHA])}. "
        f"{markdown.link('The table', table_url)} is up to date."
    )
    return f"{note_marker(stamp)}\n{text}\n"


def note_marker(stamp: Stamp) -> str:
    """The first line of the extra comment that this run makes."""
    return markdown.marker(f"note config={stamp.config} run={stamp.run}.{stamp.attempt}")


def with_accepted(body: str, by: str) -> str:
    """A comment of ours that also says who accepted it; nobody where `by` is empty."""
    marker, _, rest = body.partition("\n")
    if rest.startswith(ACCEPTED):
        rest = rest.partition("\n")[2].lstrip("\n")
    return f"{marker}\n{ACCEPTED}{markdown.code(by)}.\n\n{rest}" if by else f"{marker}\n{rest}"


def check_text(outcome: Outcome, links: Links, not_accepted: str = "") -> CheckText:
    """What the check run says of an outcome; `not_accepted` is why the label does not count, empty without the label."""
    lines = [markdown.plain(outcome.reason)] if outcome.reason else []
    if outcome.met:
        lines.append(f"fail_on: {', '.join(outcome.met)}")
    if not_accepted:
        lines.append(f"The label {markdown.code(LABEL)} does not count: {markdown.plain(not_accepted)}.")
    lines += _run(links)
    return CheckText(outcome.state == "running", outcome.conclusion, outcome.title, "\n\n".join(lines) or outcome.title)


def accepted_check(text: CheckText, by: str) -> CheckText:
    """A failed check run that someone accepted."""
    line = f"{ACCEPTED}{markdown.code(by)} with the label {markdown.code(LABEL)}."
    summary = f"{line}\n\n{text.summary}"
    return replace(text, conclusion="success", title=f"accepted by {sanitise(by)}: {text.title}", summary=summary)


def _run(links: Links) -> list[str]:
    return [markdown.link("this run", links.run)] if links.run else []
