"""`Comparison` and `Report` → text for a terminal. Pure: it returns the text and looks at no environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import StringIO
from types import MappingProxyType

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from . import describe
from .markdown import sanitise
from .tables import Comparison, Report

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
NAME_MIN = 16  # columns that a case's id keeps on a narrow terminal; it folds, and is never cut
NOTES_MIN = 12


def terminal(comparison: Comparison, width: int = 120, *, colour: bool = False) -> str:
    """The comparison as a table: headline first, failures on top, then how to read it.

    Args:
        comparison: what to show.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.
    """
    shares = any(side.share is not None for row in comparison.rows for side in (row.base, row.head) if side is not None)
    table = _table()
    table.add_column("case", overflow="fold", min_width=NAME_MIN)
    for name in ("base", "head"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("change [95 %]", justify="right")
    table.add_column("verdict", no_wrap=True)
    if shares:
        table.add_column("of ceiling", justify="right")
    table.add_column("rounds", justify="right", no_wrap=True)
    table.add_column("notes", overflow="fold", min_width=NOTES_MIN)
    for row in comparison.rows:
        cells = describe.cells(row)
        verdict = Text(f"{cells.verdict}{' (muted)' if cells.muted else ''}", STYLES[cells.verdict])
        share = [Text(cells.share)] if shares else []
        first = [_text(cells.name), Text(cells.base), Text(cells.head), Text(cells.change), verdict]
        table.add_row(*first, *share, Text(cells.rounds), _notes(cells.notes))
    about = comparison.facts
    sides = [f"{side.name} {' '.join(part for part in describe.side(side) if part)}" for side in about.sides]
    lines = [" · ".join([*describe.facts(about), " → ".join(sides)])]
    footers = [
        describe.mean(comparison),
        describe.shuffled(comparison),
        describe.spent(about),
        *describe.reading(comparison),
    ]
    warned = [Text(f"! {sanitise(warning)}", "yellow") for warning in describe.warnings(comparison)]
    heading = Text(describe.title(comparison), "bold")
    body: list[RenderableType] = [table] if comparison.rows else []
    return _written(
        [heading, *map(_text, lines), *warned, *body, *(Text(line, "dim") for line in footers if line)], width, colour
    )


def run_table(report: Report, width: int = 120, *, colour: bool = False) -> str:
    """A run of one side as a table: times, and implementations side by side where a case has several.

    Args:
        report: what to show.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.
    """
    rows = [describe.run_cells(row) for row in report.rows]
    several = any(cells.implementation != "main" for cells in rows)
    optional = {name: any(getattr(cells, name) for cells in rows) for name in ("ratio", "rate", "share")}
    table = _table()
    table.add_column("case", overflow="fold", min_width=NAME_MIN)
    if several:
        table.add_column("implementation", overflow="fold")
    for name in ("time", "p10", "p90"):
        table.add_column(name, justify="right", no_wrap=True)
    titles = {"ratio": "of baseline", "rate": "rate", "share": "of ceiling"}
    for name, wanted in optional.items():
        if wanted:
            table.add_column(titles[name], justify="right")
    table.add_column("check", no_wrap=True)
    table.add_column("notes", overflow="fold", min_width=NOTES_MIN)
    last = ""
    for cells in rows:
        named = [_text("" if cells.case == last else cells.case), *([_text(cells.implementation)] if several else [])]
        times = [Text(cells.time), Text(cells.p10), Text(cells.p90)]
        more = [Text(getattr(cells, name)) for name, wanted in optional.items() if wanted]
        table.add_row(*named, *times, *more, Text(cells.check, STYLES.get(cells.check, "")), _notes(cells.notes))
        last = cells.case
    heading = Text(describe.title(report), "bold")
    facts = _text(" · ".join(describe.facts(report.facts)))
    warned = [Text(f"! {sanitise(note)}", "yellow") for note in report.facts.notes]
    spent = [Text(line, "dim") for line in [describe.spent(report.facts)] if line]
    body: list[RenderableType] = [table] if rows else []
    return _written([heading, facts, *warned, *body, *spent], width, colour)


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")


def _text(text: str) -> Text:
    """Foreign text: no control characters, and none of rich's own markup."""
    return Text(sanitise(text))


def _notes(notes: Iterable[str]) -> Text:
    return _text("; ".join(notes))


def _written(parts: Iterable[RenderableType], width: int, colour: bool) -> str:
    file = StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    for number, part in enumerate(parts):
        console.print(part, soft_wrap=number == 0)  # the headline stays one line
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
