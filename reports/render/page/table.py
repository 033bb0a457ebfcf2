"""Rows → the table of a page: cells with what they are sorted by. Pure; quotes foreign text, unescaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...rows.outcome import TABLE_ORDER, ComparedRow, Comparison, MeasuredRow, Report, row_name
from .. import wording

STATUS_ORDER = ("failed", "wrong", "ok", "skipped")


@dataclass(frozen=True)
class Column:
    """A column. `kind` is ``name``, ``number`` or ``word``; one that is not `vital` goes on a narrow screen."""

    title: str
    kind: str
    vital: bool = False


@dataclass(frozen=True)
class Cell:
    """What a reader sees, and what the column is sorted by: as numbers where they are; nothing sorts last."""

    text: str
    by: float | str | None = None


@dataclass(frozen=True)
class TableRow:
    """A row: `kind` is its verdict or status, `to` the address of its case in the page, the first cell its name."""

    kind: str
    to: str
    cells: tuple[Cell, ...]


def table(outcome: Comparison | Report, addresses: Sequence[str]) -> tuple[list[Column], list[TableRow]]:
    """The columns that hold something, and the rows, each with the address that its name links to."""
    if isinstance(outcome, Report):
        rows = [_measured(row, to) for row, to in zip(outcome.rows, addresses, strict=True)]
    else:
        rows = [_compared(row, to) for row, to in zip(outcome.rows, addresses, strict=True)]
    columns = _columns(outcome)
    kept = [at for at in range(len(columns)) if not rows or any(row.cells[at].text for row in rows)]
    return [columns[at] for at in kept], [replace(row, cells=tuple(row.cells[at] for at in kept)) for row in rows]


def _columns(outcome: Comparison | Report) -> list[Column]:
    if isinstance(outcome, Report):
        times = [Column(title, "number") for title in ("p10", "p90", "of baseline", "rate", "of ceiling")]
        checked = [Column("check", "word", vital=True), Column("notes", "word")]
        return [Column("case", "name", vital=True), Column("time", "number", vital=True), *times, *checked]
    return [
        Column("case", "name", vital=True),
        Column("base", "number"),
        Column("head", "number"),
        Column("change [95 %]", "number", vital=True),
        Column("verdict", "word", vital=True),
        Column("of ceiling", "number"),
        Column("rounds" if outcome.facts.paired else "launches", "number"),
        Column("notes", "word"),
    ]


def _compared(row: ComparedRow, to: str) -> TableRow:
    cells = wording.cells(row)
    return TableRow(
        row.verdict,
        to,
        (
            Cell(cells.name, cells.name),
            Cell(cells.base, row.base_ns),
            Cell(cells.head, row.head_ns),
            Cell(cells.change, row.change),
            Cell(cells.called, TABLE_ORDER.index(row.verdict)),
            Cell(cells.share, None if row.head is None else row.head.share),
            Cell(cells.rounds, row.rounds or None),
            Cell("; ".join(cells.notes), "; ".join(cells.notes)),
        ),
    )


def _measured(row: MeasuredRow, to: str) -> TableRow:
    cells, found = wording.run_cells(row), row.times
    p10, p90 = found.percentiles_ns if found is not None else (None, None)
    rate = None if found is None else found.tflops or found.bandwidth_tbs
    name = row_name(row.case, row.implementation)
    return TableRow(
        row.status,
        to,
        (
            Cell(name, name),
            Cell(cells.time, None if found is None else found.ns),
            Cell(cells.p10, p10),
            Cell(cells.p90, p90),
            Cell(cells.ratio, row.ratio),
            Cell(cells.rate, rate),
            Cell(cells.share, None if found is None else found.share),
            Cell(cells.check, STATUS_ORDER.index(row.status)),
            Cell("; ".join(cells.notes), "; ".join(cells.notes)),
        ),
    )


def below(comparison: Comparison) -> list[str]:
    """What stands below the table of a comparison; some of it may be empty."""
    return [
        *wording.proved(comparison),
        wording.mean(comparison),
        wording.shuffled(comparison),
        wording.control(comparison),
        *wording.nightly(comparison),
        wording.spent(comparison.facts),
    ]
