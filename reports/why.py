"""Why a row of a comparison has its verdict: `evenbench report RESULTS --explain CASE`. Pure.

Everything that the verdict rests on, for whoever doubts it: each launch where it ran, the differences of the rounds, the
tests and what they had to meet, and what is known of the device, the kernels and the inputs on both sides.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from runner.config import select
from runner.errors import UsageError
from runner.records import CaseEvent, SideName

from . import describe, evidence, notes, reasons, units
from .kernel_sides import dimensions, kernel_lines
from .load import Launch, Results
from .location import grouped_medians
from .markdown import sanitise
from .render_terminal import STYLES, written
from .rows import SideRow, Sides, tick
from .tables import ComparedRow, Comparison, distinct
from .text_plot import Mark, plot

Line: TypeAlias = tuple[str, str | RenderableType]  # a label, and foreign text or what is rendered already

ROWS_MAX = 20  # that are explained at once; a pattern that takes more is a table's business
NEAR_MAX = 3  # ids that an unknown one may have meant
INDENT = 13  # columns before what is said: a margin, the longest label, a gap
WIDTH_MIN = 40  # of a plot, however narrow the terminal
ROUNDS_MAX = 100  # whose differences are listed
DROPPED_MAX = 5  # rounds that are named with their reason
STDERR_LINES = 8  # the last ones of a launch that died
PAIR: tuple[SideName, SideName] = ("base", "head")


def why(results: Results, comparison: Comparison, pattern: str, width: int = 120, *, colour: bool = False) -> str:
    """The rows that `pattern` takes, explained one after the other.

    Args:
        results: of a comparison, complete or not.
        comparison: what was made of them.
        pattern: an id, a row's name, or a pattern of ids.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.

    Raises UsageError where it takes none; the hint names near ones.
    """
    rows = [row for row in comparison.rows if row.name == pattern]
    if not rows:
        cases = set(chosen(results, [row.case for row in comparison.rows], pattern))
        rows = [row for row in comparison.rows if row.case in cases]
    sides = Sides(results)
    doubts = [each for each in describe.warnings(comparison) if comparison.unreliable and each.startswith("unreliable")]
    parts: list[RenderableType] = [Text(sanitise(f"! {doubt}"), "yellow") for doubt in doubts]
    for row in rows[:ROWS_MAX]:
        key = (row.case, row.implementation)
        lines = _lines(row, comparison, results, (sides.row("base", key), sides.row("head", key)), width)
        parts += [*([Text()] if parts else []), _title(row), _grid(lines)]
    if len(rows) > ROWS_MAX:
        parts += [Text(), Text(f"and {units.count(len(rows) - ROWS_MAX, 'more row')}: name fewer cases", "dim")]
    return written(parts, width, colour)


def chosen(results: Results, cases: Iterable[str], pattern: str) -> list[str]:
    """The cases that a pattern takes, in their order.

    Raises UsageError where it takes none; the hint names near ones.
    """
    known = list(dict.fromkeys(cases))
    tags = {id: event.tags for found in results.cases.values() for id, event in found.items()}
    taken = [case for case in known if case == pattern or select((pattern,), case, tags.get(case, ()))]
    if not taken:
        inside = [case for case in known if pattern.lower() in case.lower()]
        close = list(dict.fromkeys([*inside, *difflib.get_close_matches(pattern, known, NEAR_MAX, NEAR)]))
        hint = f"did you mean {', '.join(close[:NEAR_MAX])}?" if close else "the table names all cases"
        raise UsageError(f"--explain {sanitise(pattern)}: takes none of {units.count(len(known), 'case')}", hint)
    return taken


def _title(row: ComparedRow) -> Text:
    muted = " (muted)" if row.muted else ""
    return Text.assemble((sanitise(row.name), "bold"), "  ", (f"{row.verdict}{muted}", STYLES[row.verdict]))


def _grid(lines: Sequence[Line]) -> RenderableType:
    """Labels and what they stand for, in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in lines:
        if text:
            table.add_row(Text(f"  {label}", "dim"), Text(sanitise(text)) if isinstance(text, str) else text)
    return table


def _lines(
    row: ComparedRow, comparison: Comparison, results: Results, pair: tuple[SideRow, SideRow], width: int
) -> list[Line]:
    base, head = pair
    located = _located(pair)
    launches = {id(launch.event): launch for launch in results.launches}
    return [
        ("because", reasons.because(row, comparison)),
        ("otherwise", reasons.otherwise(row, comparison)),
        ("muted", row.muted),
        ("case", _both(_case(base.case), _case(head.case))),
        ("base", _state(base)),
        ("head", _state(head)),
        ("printed", _printed(pair, results)),
        ("launches", _text(plot(_marks(pair, located, results), max(WIDTH_MIN, width - INDENT)))),
        ("rounds", _rounds(pair, located, results)),
        ("change", _change(row, located)),
        ("tests", _tests(row, comparison)),
        ("timer", _both(_timer(base), _timer(head))),
        ("modes", _modes(located)),
        ("clocks", _both(evidence.clocks(base, results), evidence.clocks(head, results), told=base, other=head)),
    ]
