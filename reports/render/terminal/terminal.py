"""`Comparison` and `Report` → text for a terminal. Pure: it returns the text and looks at no environment."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...rows.outcome import MAIN, Comparison, Report, row_name
from ...text import sanitise
from ...units import count
from .. import wording
from ..comment import beside
from ..wording import Cells
from .lines import foreign, written

STYLES: Mapping[str, str] = MappingProxyType(
    {
        "failed": "bold red",
        "wrong": "bold red",
        "regressed": "red",
        "incomparable": "magenta",
        "inconclusive": "yellow",
        "improved": "green",
        "fixed": "green",
        "new": "cyan",
        "removed": "cyan",
        "skipped": "dim",
        "unchanged": "dim",
        "unchecked": "yellow",
        "passed": "green",
    }
)
WIDE = 120  # columns from which rounds and notes stand in the table; under it notes stand below
NOTES_MIN = 32  # columns that notes need to be read in the table
NOTE_MAX = 160  # characters of a note beside its row; of a longer one the first sentence, and the whole below the table
RATE_FROM = 180  # columns from which a comparison has room for the rate of head
GAP, EDGES = 3, 2  # of `box.SIMPLE_HEAD`: between two columns, and at both ends together
GLUED = re.compile(r"(?<=±) | (?=%)")  # spaces at which no line ends
NO_BREAK = "\N{NO-BREAK SPACE}"
NOTES_SHARED = 3  # below the table, notes of more rows than these stand once


@dataclass(frozen=True)
class _Column:
    """One that is never wrapped. Where the table is too wide, those with the highest `goes` leave first; 0 stays."""

    title: str
    cells: Sequence[Text]
    right: bool = False
    goes: int = 0

    @property
    def width(self) -> int:
        return max(cell_len(self.title), *(cell.cell_len for cell in self.cells))


def terminal(comparison: Comparison, width: int = WIDE, *, colour: bool = False) -> str:
    """The comparison as a table: headline first, failures on top, then how to read it.

    No case is ever cut: a table that is too wide loses columns, and puts cases on lines of their own in the end.

    Args:
        comparison: what to show.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.
    """
    rows = [wording.cells(row) for row in comparison.rows]
    columns = [
        _Column("case", [foreign(row.name) for row in rows]),
        _Column("base", [Text(row.base) for row in rows], right=True, goes=1),
        _Column("head", [Text(row.head) for row in rows], right=True, goes=1),
        _Column("change [95 %]", [Text(row.change) for row in rows], right=True),
        _Column("verdict", [_verdict(row) for row in rows]),
        _Column("of ceiling", [Text(row.share) for row in rows], right=True, goes=2),
        _Column("rate of head", [Text(row.rate if width >= RATE_FROM else "") for row in rows], right=True, goes=3),
        _Column(
            "rounds" if comparison.facts.paired else "launches",
            [Text(row.rounds if width >= WIDE else "") for row in rows],
            right=True,
            goes=4,
        ),
    ]
    about = comparison.facts
    footers = [
        *wording.proved(comparison),
        wording.mean(comparison),
        wording.shuffled(comparison),
        wording.control(comparison),
        " · ".join(wording.nightly(comparison)),
        wording.spent(about),
        wording.modules(about),
        *wording.reading(comparison),
    ]
    return written(
        [
            Text(wording.title(comparison), "bold"),
            _wrapped(" · ".join([*wording.facts(about), " → ".join(map(wording.named, about.sides))]), width),
            *(_wrapped(f"! {warning}", width, "yellow") for warning in wording.warnings(comparison)),
            *_table(columns, [(row.name, row.notes) for row in rows], width),
            *beside.terminal(comparison.artifacts, comparison.expectations),
            *(_wrapped(line, width, "dim") for line in footers if line),
        ],
        width,
        colour,
    )


def run_table(report: Report, width: int = WIDE, *, colour: bool = False) -> str:
    """A run of one side as a table: times, and implementations side by side where a case has several.

    Args:
        report: what to show.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.
    """
    rows = [wording.run_cells(row) for row in report.rows]
    several = any(row.implementation != MAIN for row in rows)
    before = ["", *(row.case for row in rows)]
    cases = ["" if row.case == last else row.case for row, last in zip(rows, before, strict=False)]
    columns = [
        _Column("case", [foreign(case) for case in cases]),
        _Column("implementation", [foreign(row.implementation if several else "") for row in rows]),
        _Column("time", [Text(row.time) for row in rows], right=True),
        _Column("p10", [Text(row.p10) for row in rows], right=True, goes=3),
        _Column("p90", [Text(row.p90) for row in rows], right=True, goes=3),
        _Column("of baseline", [Text(row.ratio) for row in rows], right=True),
        _Column("rate", [Text(row.rate) for row in rows], right=True, goes=2),
        _Column("of ceiling", [Text(row.share) for row in rows], right=True, goes=1),
        _Column("check", [Text(row.check, STYLES.get(row.check, "")) for row in rows]),
    ]
    spent = wording.spent(report.facts)
    return written(
        [
            Text(wording.title(report), "bold"),
            _wrapped(" · ".join(wording.facts(report.facts)), width),
            *(_wrapped(f"! {note}", width, "yellow") for note in report.facts.notes),
            *_table(columns, [(row_name(row.case, row.implementation), row.notes) for row in rows], width),
            *beside.terminal(report.artifacts, report.expectations, counted=bool(report.rows)),
            *([_wrapped(spent, width, "dim")] if spent else []),
        ],
        width,
        colour,
    )


def _table(columns: Sequence[_Column], notes: Sequence[tuple[str, Sequence[str]]], width: int) -> list[RenderableType]:
    """The columns that hold something and have room, and the notes of each row, by name: in the table or below it."""
    if not notes:
        return []
    full = [column for column in columns if any(cell.plain for cell in column.cells)]
    kept = _fitting(full, width)
    if _width(kept) > width:
        return _stacked(full, notes, width)
    inside = width >= WIDE and _width(kept) + GAP + NOTES_MIN <= width
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", width=None if inside else _width(kept))
    for column in kept:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True, width=column.width)
    if inside:
        table.add_column("notes", overflow="fold")
    for number, (_, texts) in enumerate(notes):
        shown = "; ".join(_shortened(text) for text in texts)
        table.add_row(*(column.cells[number] for column in kept), *([foreign(shown)] if inside else []))
    below = _whole_below(notes, width) if inside else _notes_below(notes, width)
    return [table, *_gone(full, kept, width), *below]


def _stacked(
    columns: Sequence[_Column], notes: Sequence[tuple[str, Sequence[str]]], width: int
) -> list[RenderableType]:
    """The first column on lines of its own, which a terminal may break; the others below it, a line for each row."""
    names, rest = columns[0], columns[1:]
    kept = _fitting(rest, width - EDGES)
    titles = [Text(column.title, "bold") for column in kept]
    lines = [Text(f" {names.title}", "bold"), _aligned(titles, kept), Text(" " + "─" * (width - EDGES))]
    for number, name in enumerate(names.cells):
        lines += [Text(" ").append_text(name)] if name.plain else []
        lines.append(_aligned([column.cells[number] for column in kept], kept))
    return [Text(), *lines, Text(), *_gone(rest, kept, width), *_notes_below(notes, width)]


def _aligned(cells: Sequence[Text], columns: Sequence[_Column]) -> Text:
    line = Text(" " * EDGES)
    for cell, column in zip(cells, columns, strict=True):
        shown = cell.copy()
        shown.align("right" if column.right else "left", column.width)
        line.append(" " * (GAP if len(line) > EDGES else 1)).append_text(shown)
    return line


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """The columns without those for which there is no room."""
    kept = list(columns)
    while _width(kept) > width and (last := max(column.goes for column in kept)):
        kept = [column for column in kept if column.goes != last]
    return kept


def _gone(full: Sequence[_Column], kept: Sequence[_Column], width: int) -> list[RenderableType]:
    """Which columns had no room; nothing where all had."""
    titles = ", ".join(column.title for column in full if column not in kept)
    said = f"no room for {titles}: with them the table takes {_width(full)} columns"
    return [_wrapped(said, width, "dim")] if titles else []


def _notes_below(notes: Sequence[tuple[str, Sequence[str]]], width: int) -> list[RenderableType]:
    """The notes of each row, and the whole of those that were shortened."""
    below = _below((name, [_shortened(text) for text in texts]) for name, texts in notes)
    return [*(_wrapped(line, width) for line in below), Text(), *_whole_below(notes, width)] if below else []


def _whole_below(notes: Sequence[tuple[str, Sequence[str]]], width: int) -> list[RenderableType]:
    """The full text of the notes that are shortened beside their rows, each once."""
    rows: dict[str, list[str]] = {}
    for name, texts in notes:
        for text in texts:
            if _shortened(text) != text:
                rows.setdefault(text, []).append(name)
    lines = []
    for text, names in rows.items():
        lines.append(f"{', '.join(names) if len(names) <= NOTES_SHARED else count(len(names), 'row')}: {text}")
    return [*(_wrapped(line, width) for line in lines), Text()] if lines else []


def _shortened(text: str) -> str:
    """The first sentence of a long note, or its beginning."""
    if len(text) <= NOTE_MAX:
        return text
    sentence = text.partition(". ")[0]
    if len(sentence) > NOTE_MAX:
        sentence = textwrap.shorten(sentence, NOTE_MAX, placeholder="")
    return f"{sentence.rstrip('.,;: ')}…"


def _below(notes: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """`case: note`, a line for each row that has some; where many rows have the same ones, a line for all of them."""
    told = [(name, "; ".join(said)) for name, said in notes if said]
    rows = Counter(said for _, said in told)
    named = [(name if rows[said] <= NOTES_SHARED else count(rows[said], "row"), said) for name, said in told]
    return [f"{who}: {said}" for who, said in dict.fromkeys(named)]


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width + GAP for column in columns) - GAP + EDGES


def _verdict(cells: Cells) -> Text:
    return Text(cells.called, "cyan" if cells.planted else STYLES[cells.verdict])


def _wrapped(text: str, width: int, style: str = "") -> Text:
    """Foreign text in lines that end between words: an id is never broken."""
    text = GLUED.sub(NO_BREAK, sanitise(text))
    lines = textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return Text("\n".join(lines).replace(NO_BREAK, " "), style)
