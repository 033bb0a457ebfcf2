"""`Results` → `Report`: what a run of one side measured, its implementations side by side. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import MappingProxyType

from . import notes
from .facts import facts_of
from .load import Results
from .rows import SideRow, Sides, times
from .tables import MAIN, MeasuredRow, Report, distinct

STATUS_ORDER = ("failed", "wrong", "ok", "skipped")  # of a headline's counts


def measured(results: Results) -> Report:
    """The times of side `head`, case by case."""
    sides = Sides(results)
    rows: list[MeasuredRow] = []
    by_case: dict[str, list[SideRow]] = {}
    for key in sides.keys(("head",)):
        by_case.setdefault(key[0], []).append(sides.row("head", key))
    for case, found in by_case.items():
        rows.extend(_with_ratios([_row(case, row) for row in found if row.status != "absent"]))
    counts = Counter[str](row.status for row in rows)
    return Report(
        facts=facts_of(results, notes.throttled(results.launches)),
        rows=tuple(rows),
        counts=MappingProxyType({status: counts[status] for status in STATUS_ORDER if counts[status]}),
    )


def headline(report: Report) -> str:
    """One line that counts the rows, such as ``1 failed, 12 measured``."""
    counts = [f"{number:,} {'measured' if status == 'ok' else status}" for status, number in report.counts.items()]
    return ("partial: " if report.facts.partial else "") + (", ".join(counts) or "nothing measured")


def _row(case: str, row: SideRow) -> MeasuredRow:
    found = times(row)
    status = "failed" if found is None and row.status == "ok" else row.status
    baseline = row.case.baseline if row.case is not None else None
    name = row.implementation.name if row.implementation is not None else MAIN
    return MeasuredRow(
        case=case,
        implementation=name,
        status="ok" if status == "absent" else status,
        reason=row.reason or ("not measured" if found is None else ""),
        times=found,
        ratio=None,
        baseline=baseline == name,
        check=row.implementation.check if row.implementation is not None else "",
        timing=", ".join(distinct(each.record.timing for each in row.placed)),
        cache=", ".join(distinct(each.record.cache for each in row.placed)),
        notes=tuple(note for note in notes.of_side([row]) if note != "unchecked"),  # `check` says it
        warnings=tuple(notes.doubts([row])),
    )


def _with_ratios(rows: list[MeasuredRow]) -> list[MeasuredRow]:
    baseline = next((row.times.ns for row in rows if row.baseline and row.times is not None), None)
    if not baseline:
        return rows
    return [replace(row, ratio=row.times.ns / baseline) if row.times is not None else row for row in rows]
