"""`Comparison` → the pull-request comment and the job summary; `Report` → the same table. Every value passes through `markdown`; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenbench.runner.records import SideName

from ...rows.outcome import Comparison, Report
from ...units import count
from .. import wording
from . import beside as render_beside
from . import markdown
from .tables import blocks, run_blocks

WARNINGS_MAX = 12  # lines above the table; a run with more has the same trouble many times
FACTS_MAX = 200  # characters of one fact: a device's name, a branch's name


@dataclass(frozen=True)
class Links:
    """https addresses that a comment points to; empty ones are left out."""

    run: str = ""
    report: str = ""
    samples: str = ""
    rerun: str = ""
    dispatch: str = ""
    docs: str = ""


def comment(
    comparison: Comparison, links: Links = Links(), *, name: str | None = None, budget: int = markdown.COMMENT_BUDGET
) -> str:
    """The comment on a pull request, within GitHub's limit.

    Args:
        comparison: what to show.
        links: where the run, the report and the samples are.
        name: goes into the hidden marker by which the comment is found again; None for the suite's name.
        budget: characters; less than there is room for where more follows.
    """
    suite = comparison.facts.header.suite
    named = suite if comparison.facts.paired else f"diff {suite}"  # no pull request's comment is taken for it
    marker = markdown.marker(name if name is not None else named)
    return _render(comparison, links, marker, budget)


def summary(comparison: Comparison, links: Links = Links()) -> str:
    """The same for a job summary: more room, so shares of ceilings too; no marker."""
    budget = markdown.SUMMARY_BUDGET
    text = _render(comparison, links, "", budget, shares=True)
    while len(text.encode()) > markdown.SUMMARY_BUDGET:  # a budget counts characters, this limit bytes
        budget = budget * 9 // 10
        text = _render(comparison, links, "", budget, shares=True)
    return text


def run_comment(report: Report) -> str:
    """A run of one side as Markdown, within the limit of a comment."""
    harness = markdown.code(report.facts.header.harness.version, FACTS_MAX)
    values = {
        "marker": "",
        "title": wording.title(report),
        "facts": " · ".join(markdown.plain(fact, FACTS_MAX) for fact in wording.facts(report.facts)),
        "warnings": _warnings(report.facts.notes),
        "footer": " · ".join(part for part in (wording.spent(report.facts), f"evenbench {harness}") if part),
    }
    parts = [*run_blocks(report), *render_beside.blocks(report.artifacts, report.expectations)]
    return _filled(values, parts, markdown.COMMENT_BUDGET, "")


def _render(comparison: Comparison, links: Links, marker: str, budget: int, *, shares: bool = False) -> str:
    values = {
        "marker": marker,
        "title": wording.title(comparison),
        "facts": _facts(comparison),
        "warnings": _warnings(wording.warnings(comparison)),
        "footer": _footer(comparison, links),
    }
    places = (("full report", links.report), ("raw samples", links.samples))
    where = next((markdown.link(text, url) for text, url in places if url), "")
    room = render_beside.SUMMARY_ROOM if shares else render_beside.COMMENT_ROOM  # which only a summary shows
    beside = render_beside.blocks(comparison.artifacts, comparison.expectations, room)
    parts = [*blocks(comparison, shares=shares), *beside]
    return _filled(values, parts, budget, where)


def _filled(values: Mapping[str, Any], parts: Sequence[markdown.Block], budget: int, where: str) -> str:
    environment = Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - what comes out is Markdown; `markdown` escapes every value
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.get_template("comment.md.j2")
    fixed = len(template.render(values, blocks=[]))
    return template.render(values, blocks=markdown.fit(parts, budget - fixed, where))


def _facts(comparison: Comparison) -> str:
    parts = [markdown.plain(fact, FACTS_MAX) for fact in wording.facts(comparison.facts)]
    sides = []
    names: tuple[SideName, ...] = ("base", "head")
    for side in names:
        short, more = wording.side(comparison.facts.side(side))
        if short:
            called = "" if short == side else f" {markdown.code(short, FACTS_MAX)}"  # a directory called as its side
            sides.append(f"{side}{called}" + (f" ({markdown.plain(more, FACTS_MAX)})" if more else ""))
    parts.append(" → ".join(sides))
    parts += [markdown.plain(said) for said in wording.proved(comparison)]
    parts += [
        wording.shuffled(comparison),
        wording.control(comparison),
        wording.mean(comparison),
        *wording.nightly(comparison),
    ]
    return " · ".join(part for part in parts if part)


def _warnings(found: Sequence[str]) -> list[str]:
    shown = [markdown.plain(warning) for warning in found[:WARNINGS_MAX]]
    if len(found) > WARNINGS_MAX:
        shown.append(f"{count(len(found) - WARNINGS_MAX, 'more note')}, in the results file")
    return shown


def _footer(comparison: Comparison, links: Links) -> str:
    parts = [markdown.link("How to read this, at length", links.docs)] if links.docs else []
    if command := wording.command(comparison):
        parts.append(f"How to run it here: {markdown.code(command, None)}")
    named = (
        ("full report", links.report),
        ("raw samples", links.samples),
        ("this run", links.run),
        ("run again", links.rerun),
        ("measure by hand", links.dispatch),
    )
    parts += [markdown.link(text, url) for text, url in named if url]
    parts += [part for part in [wording.spent(comparison.facts)] if part]
    harness = comparison.facts.header.harness
    parts.append(f"evenbench {markdown.code(harness.version, FACTS_MAX)}")
    return " · ".join(parts)
