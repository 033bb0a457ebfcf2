"""What the charts of a page are drawn of: plain numbers, rounded to what a screen can show. Pure.

Times are in the unit that the chart names; rounds are counted from 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from ... import units
from ...load.results import Results
from ...rows import notes
from ...rows.outcome import ComparedRow, Comparison, MeasuredRow
from ...rows.side_row import SideRow, tick
from ...rows.times import Times
from ..explain.histogram import histogram
from ..explain.row_rounds import RowRounds

Values: TypeAlias = dict[str, Any]  # what JSON takes

BINS = 40  # of a spread: a phone is 300 pixels wide
DIGITS = 6  # significant ones: more than a screen has pixels
TEMPERATURE_KEY = "temperature_c"  # of a launch's telemetry: the median while it ran


def of_rounds(rounds: RowRounds) -> Values | None:
    """The launches of a row in their order, and the spread of its samples by side; None where it was not measured."""
    if not rounds.located:
        return None
    factor, unit = scale(rounds.located.values())
    return {
        "unit": unit,
        "launches": [
            {
                "round": mark.round + 1,
                "side": mark.side,
                "time": None if mark.ns is None else short(mark.ns / factor),
                "held": mark.held,
            }
            for mark in rounds.marks()
        ],
        "spread": _spread([side for side in (rounds.base, rounds.head) if side.placed], factor),
    }


def of_change(row: ComparedRow, comparison: Comparison, rounds: RowRounds) -> Values | None:
    """The estimate, its interval, the difference of each whole round, and the bounds that were asked; None without an interval."""
    if row.change is None or row.interval is None:
        return None
    pairs = rounds.whole if comparison.facts.paired else {}
    return {
        "change": short(row.change),
        "interval": list(map(short, row.interval)),
        "rounds": [{"round": number + 1, "change": short(head / base - 1)} for number, (base, head) in pairs.items()],
        "min_effect": row.min_effect,
        "equivalence": comparison.judged_by.equivalence,
    }


def of_implementations(rows: Sequence[ComparedRow | MeasuredRow]) -> Values | None:
    """The times of a case's implementations, with the p10 and p90 of their samples; None where there are no two to compare."""
    found = [(row.implementation, *each) for row in rows for each in _sides(row)]
    if len({name for name, _, _ in found}) < 2:
        return None
    factor, unit = scale(times.ns for _, _, times in found)
    bars = []
    for name, side, times in found:
        p10, p90 = (short(value / factor) for value in times.percentiles_ns)
        bars.append({"name": name, "side": side, "time": short(times.ns / factor), "p10": p10, "p90": p90})
    return {"unit": unit, "bars": bars}


def of_rows(comparison: Comparison) -> list[Values]:
    """Every estimate with its interval, in the order of the table."""
    return [
        {
            "case": row.case,
            "implementation": row.implementation,
            "name": row.name,
            "verdict": row.verdict,
            "change": short(row.change),
            "interval": list(map(short, row.interval)),
        }
        for row in comparison.rows
        if row.change is not None and row.interval is not None
    ]


def of_machine(results: Results) -> list[Values]:
    """Clock and temperature in each timed launch that noted one, in their order."""
    found: list[Values] = []
    for launch in results.launches:
        event, telemetry = launch.event, launch.end.telemetry if launch.end is not None else {}
        values = {"clock": telemetry.get(notes.CLOCK_KEY), "temperature": telemetry.get(TEMPERATURE_KEY)}
        known = {name: value for name, value in values.items() if isinstance(value, int | float)}
        if event.round is not None and known:
            held = bool(notes.throttles([launch]))
            found.append({"launch": len(found) + 1, "round": event.round + 1, "side": event.side, "held": held} | known)
    return found


def scale(values_ns: Iterable[float]) -> tuple[float, str]:
    """Nanoseconds in the unit that fits the largest of these times, and its name."""
    most = max(values_ns, default=0.0)
    return next((pair for pair in units.TIME_UNITS if most >= pair[0]), units.TIME_UNITS[-1])


def short(value: float) -> float:
    """A number with few digits, since a page holds many."""
    return float(f"{value:.{DIGITS}g}")


def _sides(row: ComparedRow | MeasuredRow) -> list[tuple[str, Times]]:
    sides = [("head", row.times)] if isinstance(row, MeasuredRow) else [("base", row.base), ("head", row.head)]
    return [(name, times) for name, times in sides if times is not None]


def _spread(sides: Sequence[SideRow], factor: float) -> Values:
    """How the samples of each side spread over the same bins: the share of its samples; and how many lie beyond on either side."""
    samples = {side.side: sorted(chain.from_iterable(side.samples.values())) for side in sides}
    bins = histogram(sorted(chain.from_iterable(samples.values())), tick(sides) or 1, BINS)
    inner = [(each.low, each.high) for each in bins if each.low is not None and each.high is not None]
    return {
        "bins": [
            {
                "side": side,
                "low": short(low / factor),
                "high": short(high / factor),
                "share": short((bisect_left(ordered, high) - bisect_left(ordered, low)) / len(ordered)),
            }
            for side, ordered in samples.items()
            for low, high in inner
        ],
        "beyond": {side: _beyond(ordered, inner) for side, ordered in samples.items()},
        "samples": {side: len(ordered) for side, ordered in samples.items()},
    }


def _beyond(ordered: Sequence[int], inner: Sequence[tuple[int, int]]) -> Mapping[str, int]:
    below = bisect_left(ordered, inner[0][0])
    return {"below": below, "above": len(ordered) - bisect_left(ordered, inner[-1][1])}
