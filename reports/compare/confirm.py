"""A comparison and the second run of its regressed rows → the comparison that shows both. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..rows.outcome import CLEARING, ComparedRow, Comparison, Facts, SecondRun
from ..rows.side_row import Key

CASES_MAX = 1_000  # as many patterns as a results file holds; rows beyond are not measured again, and still count
# What must be equal for a second run to speak of the first one's code: everything that the header knows of a side but
# the name that somebody called it by, and what else decides what is measured.
SAME = ("verb", "harness", "image", "suite", "cases_from")
SAME_OF_SIDE = ("sha", "dirty", "tree", "setup", "python")


def to_confirm(comparison: Comparison) -> list[str]:
    """The cases with regressed rows that count, the largest change first; none of a run that is unreliable."""
    if comparison.unreliable:
        return []
    return list(dict.fromkeys(row.case for row in comparison.rows if _counts(row)))[:CASES_MAX]


def confirmed(first: Comparison, seconds: Sequence[Comparison]) -> Comparison:
    """The first comparison, with what the second runs, one or one a shard, say of its regressed rows."""
    if not seconds:
        return first
    found: dict[Key, SecondRun] = {}
    notes: list[str] = []
    for second in seconds:
        doubt = _doubt(first, second)
        found.update({(row.case, row.implementation): _second(row, doubt) for row in second.rows})
        notes += [f"second run: {note}" for note in second.facts.notes if note not in first.facts.notes]
    return replace(
        first,
        rows=tuple(replace(row, second=_of(row, found)) if _counts(row) else row for row in first.rows),
        facts=replace(first.facts, notes=(*first.facts.notes, *dict.fromkeys(notes))),
        seconds=tuple(second.facts for second in seconds),
    )


def _counts(row: ComparedRow) -> bool:
    return row.verdict == "regressed" and not row.muted and not row.planted


def _of(row: ComparedRow, found: Mapping[Key, SecondRun]) -> SecondRun:
    return found.get((row.case, row.implementation), SecondRun("", None, None, "not measured there"))


def _second(row: ComparedRow, doubt: str) -> SecondRun:
    blamed = row.failures is not None and bool(row.failures.blame)  # the times of other launches clear nothing
    settled = row.verdict == "regressed" or (row.verdict in CLEARING and row.interval is not None and not blamed)
    return SecondRun(
        row.verdict, row.change, row.interval, doubt or ("" if settled else row.reason or "no reason given")
    )


def _doubt(first: Comparison, second: Comparison) -> str:
    """Why a second run settles nothing; empty where it does."""
    if different := _difference(first.facts, second.facts):
        return f"it is of other code or another machine: {different} differs"
    if second.facts.partial:
        return "it did not come to its end"
    return "it is unreliable" if second.unreliable else ""


def _difference(first: Facts, second: Facts) -> str:
    for name in SAME:
        if getattr(first.header, name) != getattr(second.header, name):
            return name
    there = {side.name: side for side in second.header.sides}
    for side in first.header.sides:
        if side.name == "control":
            continue  # proves the first run, and is not measured again
        other = there.get(side.name)
        if other is None or any(getattr(side, name) != getattr(other, name) for name in SAME_OF_SIDE):
            return side.name
    return "GPU" if set(second.uuids) - set(first.uuids) else ""
