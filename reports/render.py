"""`Comparison` → the pull-request comment and the job summary; `Report` → the same table. Every value passes through `markdown`; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from runner.records import SideName

from . import describe, markdown
from .describe import Cells
from .tables import MAIN, ComparedRow, Comparison, Report, Verdict
from .units import count

EMOJI: Mapping[Verdict, str] = MappingProxyType(
    {
        "failed": "❌",
        "wrong": "❌",
        "regressed": "🔴",
        "incomparable": "⚖️",
        "inconclusive": "🟡",
        "improved": "🟢",
        "fixed": "🔧",
        "new": "🆕",
        "removed": "🗑️",
        "skipped": "⏭️",
        "unchanged": "⚪",
    }
)
PLANTED = "🌱"  # instead of the verdict's: a change that was made on purpose alarms nobody
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
    """The same for a job summary: more room, no marker."""
    budget = markdown.SUMMARY_BUDGET
    text = _render(comparison, links, "", budget)
    while len(text.encode()) > markdown.SUMMARY_BUDGET:  # a budget counts characters, this limit bytes
        budget = budget * 9 // 10
        text = _render(comparison, links, "", budget)
    return text


def run_comment(report: Report) -> str:
    """A run of one side as Markdown, within the limit of a comment."""
    harness = markdown.code(report.facts.header.harness.version, FACTS_MAX)
    values = {
        "marker": "",
        "title": describe.title(report),
        "facts": " · ".join(markdown.plain(fact, FACTS_MAX) for fact in describe.facts(report.facts)),
        "warnings": _warnings(report.facts.notes),
        "reading": [],
        "footer": " · ".join(part for part in (describe.spent(report.facts), f"evenbench {harness}") if part),
    }
    rows = [describe.run_cells(row) for row in report.rows]
    several = any(row.implementation != MAIN for row in rows)
    columns = {
        "case": ("---", [markdown.code(row.case) for row in rows]),
        "implementation": ("---", [markdown.code(row.implementation) if several else "" for row in rows]),
        "time": ("--:", [row.time for row in rows]),
        "p10": ("--:", [row.p10 for row in rows]),
        "p90": ("--:", [row.p90 for row in rows]),
        "of baseline": ("--:", [row.ratio for row in rows]),
        "rate": ("--:", [row.rate for row in rows]),
        "of ceiling": ("--:", [row.share for row in rows]),
        "check": ("---", [row.check for row in rows]),
        "notes": ("---", [_notes(row.notes) for row in rows]),
    }
    shown = {title: column for title, column in columns.items() if any(column[1])}
    lines = tuple(markdown.row(cells) for cells in zip(*(cells for _, cells in shown.values()), strict=True))
    head = markdown.table(list(shown), [align for align, _ in shown.values()]) + "\n"
    return _filled(values, [markdown.Block(head, lines, "", 1)] if rows else [], markdown.COMMENT_BUDGET, "")


def _render(comparison: Comparison, links: Links, marker: str, budget: int) -> str:
    values = {
        "marker": marker,
        "title": describe.title(comparison),
        "facts": _facts(comparison),
        "warnings": _warnings(describe.warnings(comparison)),
        "reading": describe.reading(comparison),
        "footer": _footer(comparison, links),
    }
    where = markdown.link("full report", links.report) if links.report else ""
    return _filled(values, _blocks(comparison), budget, where)


def _filled(values: Mapping[str, Any], blocks: Sequence[markdown.Block], budget: int, where: str) -> str:
    environment = Environment(
        loader=PackageLoader(__package__ or "reports"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - what comes out is Markdown; `markdown` escapes every value
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.get_template("comment.md.j2")
    fixed = len(template.render(values, blocks=[]))
    return template.render(values, blocks=markdown.fit(blocks, budget - fixed, where))


def _facts(comparison: Comparison) -> str:
    parts = [markdown.plain(fact, FACTS_MAX) for fact in describe.facts(comparison.facts)]
    sides = []
    names: tuple[SideName, ...] = ("base", "head")
    for side in names:
        short, more = describe.side(comparison.facts.side(side))
        if short:
            sides.append(
                f"{side} {markdown.code(short, FACTS_MAX)}" + (f" ({markdown.plain(more, FACTS_MAX)})" if more else "")
            )
    parts.append(" → ".join(sides))
    parts += [markdown.plain(said) for said in describe.proved(comparison)]
    parts += [
        describe.shuffled(comparison),
        describe.control(comparison),
        describe.mean(comparison),
        *describe.nightly(comparison),
    ]
    return " · ".join(part for part in parts if part)


def _warnings(found: Sequence[str]) -> list[str]:
    shown = [markdown.plain(warning) for warning in found[:WARNINGS_MAX]]
    if len(found) > WARNINGS_MAX:
        shown.append(f"{count(len(found) - WARNINGS_MAX, 'more note')}, in the results file")
    return shown


def _blocks(comparison: Comparison) -> list[markdown.Block]:
    """The table, then what did not change, folded: its rows go first where there is not room for all."""
    shares = any(side.share is not None for row in comparison.rows for side in (row.base, row.head) if side is not None)
    telling = [row for row in comparison.rows if row.verdict != "unchanged"]
    quiet = [row for row in comparison.rows if row.verdict == "unchanged"]
    blocks = []
    if telling:
        head = ["case", "base", "head", "change [95 %]", "verdict", *(["of ceiling"] if shares else []), "notes"]
        align = ["---", "--:", "--:", "--:", "---", *(["--:"] if shares else []), "---"]
        rows = tuple(_row(describe.cells(row), shares=shares) for row in telling)
        blocks.append(markdown.Block(markdown.table(head, align) + "\n", rows, "", 1))
    if quiet:
        before, after = markdown.folded(f"{len(quiet):,} unchanged")
        head = ["family", "case", "base", "head", "change [95 %]", *(["of ceiling"] if shares else []), "notes"]
        align = ["---", "---", "--:", "--:", "--:", *(["--:"] if shares else []), "---"]
        rows = tuple(_quiet_rows(quiet, shares=shares))
        blocks.append(markdown.Block(before + markdown.table(head, align) + "\n", rows, after, 2))
    return blocks


def _row(cells: Cells, *, shares: bool) -> str:
    verdict = f"{PLANTED if cells.planted else EMOJI[cells.verdict]} {cells.called}"
    share = [cells.share] if shares else []
    return markdown.row(
        [markdown.code(cells.name), cells.base, cells.head, cells.change, verdict, *share, _notes(cells.notes)]
    )


def _quiet_rows(rows: Iterable[ComparedRow], *, shares: bool) -> Iterable[str]:
    for family, members in groupby(sorted(rows, key=lambda row: row.family), lambda row: row.family):
        label = markdown.code(family)
        for row in members:
            cells = describe.cells(row)
            share = [cells.share] if shares else []
            yield markdown.row(
                [label, markdown.code(cells.name), cells.base, cells.head, cells.change, *share, _notes(cells.notes)]
            )
            label = ""  # once a family


def _notes(notes: Sequence[str]) -> str:
    return "; ".join(markdown.cell(note) for note in notes)


def _footer(comparison: Comparison, links: Links) -> str:
    parts = []
    if command := describe.command(comparison):
        parts.append(f"How to run it here: {markdown.code(command, None)}")
    named = (
        ("how this is measured", links.docs),
        ("full report", links.report),
        ("raw samples", links.samples),
        ("this run", links.run),
        ("run again", links.rerun),
        ("run otherwise", links.dispatch),
    )
    parts += [markdown.link(text, url) for text, url in named if url]
    parts += [part for part in [describe.spent(comparison.facts)] if part]
    harness = comparison.facts.header.harness
    parts.append(f"evenbench {markdown.code(harness.version, FACTS_MAX)}")
    return " · ".join(parts)
