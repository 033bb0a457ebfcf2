"""`Results` → `Report`: what a run of one side measured, its implementations side by side. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from types import MappingProxyType

from evenbench.runner.config import muted, select
from evenbench.runner.records import JudgeSettings

from ..load.results import Results
from ..rows import commitments, notes
from ..rows.outcome import MAIN, MeasuredRow, Report, distinct
from ..rows.pair import mutes_of
from ..rows.run_facts import facts_of
from ..rows.side_row import SideRow, SideRows, times
from ..units import setting
from .expectations import expected

STATUS_ORDER = ("failed", "wrong", "ok", "skipped")  # of a headline's counts
NOT_MEASURED = "not measured"  # reason of a row that nothing else tells of


def so_far(report: Report) -> Report:
    """The report of a run under way, without the rows whose turn has not come."""
    rows = tuple(row for row in report.rows if row.reason != NOT_MEASURED)
    counts = Counter[str](row.status for row in rows)
    return replace(
        report, rows=rows, counts=MappingProxyType({name: counts[name] for name in report.counts if counts[name]})
    )


def measured(results: Results, today: date | None = None, judge_by: JudgeSettings | None = None) -> Report:
    """The times of side `head`, case by case.

    Args:
        today: decides which mutes have ended; None: all have.
        judge_by: whose mutes hold, in place of those in the file.
    """
    sides = SideRows(results)
    rows: list[MeasuredRow] = []
    by_case: dict[str, list[SideRow]] = {}
    for key in sides.keys(("head",)):
        by_case.setdefault(key[0], []).append(sides.row("head", key).alone())
    expectations = expected(results, sides)
    for case, found in by_case.items():
        rows.extend(_with_ratios([_row(case, row) for row in found if row.status != "absent"]))
    noted = commitments.Notes.of(results.artifacts, expectations)
    rows = [_with_notes(row, results, noted) for row in rows]
    counts = Counter[str](row.status for row in rows)
    mutes = mutes_of(judge_by or results.header.judge)
    return Report(
        facts=facts_of(results, notes.throttled(results.launches)),
        rows=tuple(rows),
        counts=MappingProxyType({status: counts[status] for status in STATUS_ORDER if counts[status]}),
        artifacts=results.artifacts,
        expectations=expectations,
        muted=frozenset(case for case in by_case if today is not None and muted(mutes, case, today) is not None),
    )


def headline(report: Report) -> str:
    """One line that counts the rows, such as ``1 failed, 12 measured``."""
    counts = [f"{number:,} {'measured' if status == 'ok' else status}" for status, number in report.counts.items()]
    if report.artifacts and not report.rows:  # nothing but them was asked for
        counts = [commitments.artifacts_line(report.artifacts)]
    else:
        counts += commitments.headline(report.artifacts, report.expectations)
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
        reason=row.reason or (NOT_MEASURED if found is None else ""),
        times=found,
        ratio=None,
        baseline=baseline == name,
        check=row.implementation.check if row.implementation is not None else "",
        timing=", ".join(distinct(each.record.timing for each in row.placed)),
        cache=", ".join(distinct(each.record.cache for each in row.placed)),
        notes=tuple(note for note in notes.of_side([row]) if note != "unchecked"),  # `check` says it
        warnings=(*notes.impossible({"": found}), *notes.doubts([row])),
    )


def _with_notes(row: MeasuredRow, results: Results, noted: commitments.Notes) -> MeasuredRow:
    plant = results.header.plant
    slowed = plant is not None and select((plant.case,), row.case, results.cases["head"][row.case].tags)
    more = [f"slowed on purpose by {setting(plant.fraction)}"] if plant is not None and slowed else []
    more += noted.row(row.case, row.implementation)
    return replace(row, notes=(*more, *row.notes)) if more else row


def _with_ratios(rows: list[MeasuredRow]) -> list[MeasuredRow]:
    baseline = next((row.times.ns for row in rows if row.baseline and row.times is not None), None)
    if not baseline:
        return rows
    return [replace(row, ratio=row.times.ns / baseline) if row.times is not None else row for row in rows]
