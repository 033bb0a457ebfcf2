"""Rows → the tables of a comment: what tells something, its long notes below, what did not change folded. Pure.

GitHub gives a comment some 800 pixels and narrows columns to their longest word before it lets a table scroll. So
numbers are words without a space that breaks, and long notes stand below the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType

from ...rows.outcome import MAIN, Comparison, Report, Verdict, row_name
from ...text import sanitise
from ...units import count
from .. import wording
from ..wording import Cells
from . import markdown
from .markdown import NO_BREAK, Block

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
NOTE_MAX = 40  # characters of a note in the table; longer ones stand below it
NOTE_WORDS = 16  # characters that stay on one line, so that a narrow column does not become a tall one
BELOW = "see below"
NAMED_MAX = 3  # rows that a note names; of more it says how many
FOLDED_NOTES_MAX = 12  # notes below the folded table, which go with the last of its rows
CHANGE = f"change [95{NO_BREAK}%]"

# What goes first where there is not room for all. A regressed row never goes while an unchanged one stays.
UNCHANGED, READING, NOTES, ROWS = 4, 3, 2, 1

# Title of each column, and how it is aligned.
ALIGN: Mapping[str, str] = MappingProxyType(
    {
        "family": "---", "case": "---", "implementation": "---", "base": "--:", "head": "--:", CHANGE: "--:", "verdict": "---",
        "time": "--:", "p10": "--:", "p90": "--:", "of baseline": "--:", "rate": "--:", "of ceiling": "--:", "check": "---", "notes": "---",
    }
)  # fmt: skip


def blocks(comparison: Comparison, *, shares: bool = False) -> list[Block]:
    """What a comment holds between headline and footer; with `shares` of ceilings where there are some and there is room."""
    rows = [(row, wording.cells(row)) for row in comparison.rows]
    telling = [cells for row, cells in rows if row.verdict != "unchanged"]
    shares = shares and any(cells.share for _, cells in rows)
    found = []
    if telling:
        found.append(_table([_telling(cells, shares=shares) for cells in telling]))
        found.append(_below((cells.name, cells.notes) for cells in telling))
    if quiet := [(row.family, cells) for row, cells in rows if row.verdict == "unchanged"]:
        found.append(_folded(quiet, shares=shares))
    if said := wording.reading(comparison, shares=shares):
        before, after = markdown.folded("How to read this")
        found.append(Block(before, ("\n".join(f"- {sentence}" for sentence in said),), after, READING, ""))
    return found


def run_blocks(report: Report) -> list[Block]:
    """The same of a run of one side; columns that say nothing are left out."""
    rows = [wording.run_cells(row) for row in report.rows]
    several = any(row.implementation != MAIN for row in rows)
    cells = [
        {
            "case": markdown.code(row.case),
            "implementation": markdown.code(row.implementation) if several else "",
            "time": markdown.whole(row.time),
            "p10": markdown.whole(row.p10),
            "p90": markdown.whole(row.p90),
            "of baseline": markdown.whole(row.ratio),
            "rate": markdown.whole(row.rate).replace(f"·{NO_BREAK}", "· "),
            "of ceiling": markdown.whole(row.share),
            "check": row.check,
            "notes": _notes(row.notes),
        }
        for row in rows
    ]
    idle = {title for title in ALIGN if not any(row.get(title) for row in cells)}
    below = _below((row_name(row.case, row.implementation), row.notes) for row in rows)
    return [_table([_without(row, idle) for row in cells]), below] if rows else []


def _table(rows: Sequence[Mapping[str, str]], before: str = "", after: str = "", goes: int = ROWS) -> Block:
    """A table of rows that all have the same columns."""
    titles = list(rows[0])
    head = markdown.table(titles, [ALIGN[title] for title in titles])
    return Block(f"{before}{head}\n", tuple(markdown.row(list(row.values())) for row in rows), after, goes)


def _telling(cells: Cells, *, shares: bool) -> dict[str, str]:
    emoji = PLANTED if cells.planted else EMOJI[cells.verdict]
    return {
        "case": markdown.code(cells.name),
        **_numbers(cells),
        "verdict": f"{emoji}{NO_BREAK}{cells.called}",
        **_share(cells, shares=shares),
        "notes": _notes(cells.notes),
    }


def _folded(rows: Sequence[tuple[str, Cells]], *, shares: bool) -> Block:
    """What did not change, each row with its family. What holds for all is said once, below."""
    notes = [cells.notes for _, cells in rows]
    common = [note for note in notes[0] if all(note in others for others in notes)] if notes[1:] else []
    lines, own = [], []
    for family, members in groupby(sorted(rows, key=itemgetter(0)), itemgetter(0)):
        label = markdown.code(family)  # once a family
        for _, cells in members:
            case = {"family": label, "case": markdown.code(cells.name)}
            own.append((cells.name, [note for note in cells.notes if note not in common]))
            lines.append({**case, **_numbers(cells), **_share(cells, shares=shares), "notes": _notes(own[-1][1])})
            label = ""
    idle = {"notes"} if not any(line["notes"] for line in lines) else set()
    idle |= {"family"} if len({family for family, _ in rows}) == 1 else set()
    below = [*(f"- all of them: {markdown.plain(note)}" for note in common), *_below(own).rows]
    if len(below) > FOLDED_NOTES_MAX:
        below[FOLDED_NOTES_MAX:] = [f"- {count(len(below) - FOLDED_NOTES_MAX, 'more note')}, in the results file"]
    said = "".join(f"\n{line}" for line in ["", *below]) if below else ""
    before, after = markdown.folded(f"{len(rows):,} unchanged")
    return _table([_without(line, idle) for line in lines], before, f"{said}{after}", UNCHANGED)


def _without(cells: Mapping[str, str], titles: Collection[str]) -> dict[str, str]:
    return {title: cell for title, cell in cells.items() if title not in titles}


def _numbers(cells: Cells) -> dict[str, str]:
    change = markdown.whole(cells.change).replace(f"{NO_BREAK}[", " [")
    return {"base": markdown.whole(cells.base), "head": markdown.whole(cells.head), CHANGE: change}


def _share(cells: Cells, *, shares: bool) -> dict[str, str]:
    return {"of ceiling": markdown.whole(cells.share)} if shares else {}


def _notes(notes: Sequence[str]) -> str:
    """A cell of notes; of long ones it says that they stand below."""
    short = [markdown.whole(markdown.cell(note), NOTE_WORDS) for note in notes if not _is_long(note)]
    below = [markdown.whole(BELOW)] if len(short) < len(notes) else []
    return "; ".join(note for note in [*short, *below] if note)


def _below(rows: Iterable[tuple[str, Sequence[str]]]) -> Block:
    """The notes that are too long for the table, each once, with the names of its rows."""
    about: dict[str, list[str]] = {}
    for name, notes in rows:
        for note in filter(_is_long, dict.fromkeys(notes)):
            about.setdefault(note, []).append(name)
    lines = []
    for note, names in about.items():
        named = ", ".join(markdown.code(name) for name in names[:NAMED_MAX])
        more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
        lines.append(f"- {named}{more}: {markdown.plain(note)}")
    return Block("", tuple(lines), "", NOTES, "note")


def _is_long(note: str) -> bool:
    return len(sanitise(note)) > NOTE_MAX
