"""Launches → the expectations that they amount to: a median and a tolerance for each row. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import median

from evenbench.runner.config import select
from evenbench.runner.config.expectations import NAME_MAX, Expectation, Metric
from evenbench.runner.errors import UsageError

from ..load.results import Results
from ..rows.outcome import row_name
from ..rows.side_row import SideRow, SideRows
from ..text import sanitise
from ..units import count
from .expectations import models, value_of

LEAST_LAUNCHES = 3  # fewer tell nothing of their spread
LEAST_RTOL = 0.02  # a driver, another board of the same model: what no launch of one machine shows
SPREADS = 2  # the tolerance is so many times the largest deviation of one launch from the median
RTOL_MAX = 0.99  # a figure that varies as much is no expectation
DIGITS = 4  # of a proposed value

Key = tuple[str, str, str, Metric]  # model, case, implementation, metric


@dataclass(frozen=True)
class Proposals:
    """All expectations, those that were measured anew in place of the old ones.

    Attributes:
        expectations: what the file should hold.
        proposed: how many of them are new or measured anew.
        left_out: why rows have none, a line each; foreign text.
    """

    expectations: tuple[Expectation, ...]
    proposed: int
    left_out: tuple[str, ...]


@dataclass
class _RowLaunches:
    """The launches of a row, in all runs: its figures, and what is told of them."""

    values: list[float] = field(default_factory=list)
    started: str = ""
    by: str = ""


def propose(runs: Iterable[Results], patterns: Sequence[str], known: Sequence[Expectation], today: date) -> Proposals:
    """What the launches of side head amount to, in all runs together.

    Args:
        runs: complete or not; of run or compare.
        patterns: which cases; empty for all.
        known: the expectations that there are; a row keeps its metrics, and those of other models stay.
        today: stands in where a run does not tell its day.

    Raises:
        UsageError: head was slowed on purpose in a run, or a run is given twice.
    """
    seen: dict[Key, _RowLaunches] = {}
    left_out: dict[str, None] = {}
    taken: set[tuple[str, int]] = set()  # runs and shards of theirs
    for results in runs:
        shard = (results.header.run_id, results.header.shard.index)
        if shard in taken:
            raise UsageError(f"run {sanitise(shard[0])} is named twice", "its launches would count twice; name it once")
        taken.add(shard)
        if results.header.plant is not None:
            raise UsageError("head was slowed on purpose in this run, so it is no expectation", "name another run")
        for row, why in _rows(results, patterns):
            if why:
                left_out[why] = None
            else:
                _take(row, results, known, seen)
    found: dict[Key, Expectation] = {}
    for key, each in seen.items():
        if len(each.values) < LEAST_LAUNCHES:
            label = f"{row_name(key[1], key[2])}: {key[3]}"
            few = f"{label}: launches with a figure: {len(each.values)}, at least {LEAST_LAUNCHES} are needed"
            left_out[few] = None
        else:
            found[key] = _proposal(key, each, today)
    old = {(each.device, each.case, each.implementation, each.metric): each for each in known}
    return Proposals(tuple({**old, **found}.values()), len(found), tuple(left_out))


def _rows(results: Results, patterns: Sequence[str]) -> Iterable[tuple[SideRow, str]]:
    """The rows of head, each with the reason why it has no figure; empty where it has."""
    sides = SideRows(results)
    for key in sides.keys(("head",)):
        row = sides.row("head", key)
        if row.case is None or row.status == "absent" or (patterns and not select(patterns, key[0], row.case.tags)):
            continue
        here = models(row, results)
        if not row.placed:
            yield row, f"{row_name(*key)}: {row.status}: {row.reason}" if row.status != "ok" else ""
        elif len(here) != 1:
            yield row, f"{row_name(*key)}: measured on {' and '.join(here) or 'a device that is not known'}"
        else:
            yield row, ""


def _take(row: SideRow, results: Results, known: Sequence[Expectation], seen: dict[Key, _RowLaunches]) -> None:
    if row.case is None or row.implementation is None or not row.placed:
        return
    device = sanitise(models(row, results)[0], NAME_MAX)
    case, name = row.case.id, row.implementation.name
    metrics = [each.metric for each in known if (each.device, each.case, each.implementation) == (device, case, name)]
    for metric in metrics or [_metric(row)]:
        into = seen.setdefault((device, case, name, metric), _RowLaunches())
        values = [value_of(row, [each], metric) for each in row.placed]
        into.values += [value for value in values if value is not None and math.isfinite(value) and value > 0]
        if results.header.started >= into.started:
            into.started, into.by = results.header.started, _by(row, results)


def _metric(row: SideRow) -> Metric:
    """The one that says most: the rate of the arithmetic, else that of memory, else the time."""
    work = row.case.work if row.case is not None else None
    if work is not None and work.flops:
        return "tflops"
    return "bandwidth_tbs" if work is not None and work.bytes_read + work.bytes_written else "device_busy_ms"


def _by(row: SideRow, results: Results) -> str:
    header, record = results.header, row.placed[0].record
    head = next((side for side in header.sides if side.name == "head"), None)
    sha = f"commit {head.sha[:7]}{' with changes' if head.dirty else ''}" if head is not None and head.sha else ""
    driver = row.placed[0].launch.driver
    parts = [f"evenbench {header.harness.version}", record.timing, f"{record.cache} cache", sha]
    return ", ".join(part for part in (*parts, f"driver {driver}" if driver else "") if part)


def _proposal(key: Key, seen: _RowLaunches, today: date) -> Expectation:
    middle = median(seen.values)
    value = float(f"{middle:.{DIGITS}g}")
    off = max(abs(each - middle) for each in seen.values) / middle
    rtol = min(RTOL_MAX, max(LEAST_RTOL, math.ceil(round(SPREADS * off * 100, 6)) / 100))
    try:
        measured = date.fromisoformat(seen.started[:10])
    except ValueError:
        measured = today
    by = sanitise(f"{seen.by}, {count(len(seen.values), 'launch')}", NAME_MAX)
    return Expectation(*key, value=value, rtol=rtol, atol=0.0, measured=measured.isoformat(), by=by)
