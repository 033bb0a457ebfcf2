"""Launches of base and head in their order → a small plot in lines of text, for a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from evenbench.runner.records import SideName

from ... import units

LINES = 8  # of the scale, without what lies beyond it
BANDS_MAX = 3  # rounds that do not fit beside each other stand below; more than three bands are no picture
SPREADS = 2  # of what lies between p10 and p90, on either side of them: a launch beyond would squeeze all others
DIGITS = 3  # significant ones of a label, more where two lines would read the same
AXIS = 2  # columns of the scale's line and the space before it
FEW = 5  # launches beyond the scale that are named
DOTS: Mapping[SideName, str] = MappingProxyType({"base": "○", "head": "●"})
LETTERS: Mapping[SideName, str] = MappingProxyType({"base": "b", "head": "h"})
LOST, HELD = "×", "!"
LEGEND = f"{DOTS['base']} base   {DOTS['head']} head"


@dataclass(frozen=True)
class Mark:
    """One launch of a row.

    Attributes:
        round: counted from 0.
        side: whose launch it was.
        ns: its location; None where it gave no number.
        held: whether something held the clocks back in it.
    """

    round: int
    side: SideName
    ns: float | None
    held: bool = False


class _Scale(NamedTuple):
    """The lowest and the highest time that are drawn, in ns; the labels of the lines, the highest first."""

    low: float
    high: float
    labels: tuple[str, ...]

    def line(self, ns: float) -> int:
        """Which line shows a time, from 0 at the top; one less or more than there are for what lies beyond."""
        if ns > self.high or ns < self.low:
            return -1 if ns > self.high else len(self.labels)
        span = self.high - self.low
        return round((self.high - ns) / span * (len(self.labels) - 1)) if span else 0


def plot(marks: Sequence[Mark], width: int) -> list[str]:
    """Times upwards, launches to the right, a group for each round; none without a time.

    Args:
        marks: in the order in which the launches ran.
        width: columns that the plot may take.
    """
    known = [mark.ns for mark in marks if mark.ns is not None]
    if not known:
        return []
    scale = _scale(known)
    rounds = [list(group) for _, group in groupby(marks, lambda mark: mark.round)]
    column = max(map(len, rounds)) + 1
    label = max(len("held back"), *map(len, scale.labels))
    fitting = max(1, (width - label - AXIS) // column)
    bands = [rounds[at : at + fitting] for at in range(0, len(rounds), fitting)]
    lines = [LEGEND + _legend(marks)]
    for band in bands[:BANDS_MAX]:
        lines += _band(band, scale, column, label)
    if len(bands) > BANDS_MAX:
        lines.append(f"{units.count(len(rounds) - BANDS_MAX * fitting, 'more round')}, not drawn")
    return lines + _beyond(marks, scale)


def _legend(marks: Sequence[Mark]) -> str:
    lost = f"   {LOST} no number" if any(mark.ns is None for mark in marks) else ""
    return lost + (f"   {HELD} clocks held back" if any(mark.held for mark in marks) else "")


def _band(rounds: Sequence[Sequence[Mark]], scale: _Scale, column: int, label: int) -> list[str]:
    placed = [(at * column + slot, mark) for at, group in enumerate(rounds) for slot, mark in enumerate(group)]
    columns = len(rounds) * column
    drawn = {(scale.line(mark.ns), at): DOTS[mark.side] for at, mark in placed if mark.ns is not None}
    used = {line for line, _ in drawn}
    lines = []
    for line in range(-1, len(scale.labels) + 1):
        inside = 0 <= line < len(scale.labels)
        if inside or line in used:
            name = scale.labels[line] if inside else "above" if line < 0 else "below"
            lines.append((name, " │" + "".join(drawn.get((line, at), " ") for at in range(columns))))
    lines.append(("", " └" + "─" * columns))
    lines.append(("round", "  " + _numbers([group[0].round + 1 for group in rounds], column)))
    order = {at: LETTERS[mark.side] if mark.ns is not None else LOST for at, mark in placed}
    lines.append(("order", "  " + "".join(order.get(at, " ") for at in range(columns))))
    if any(mark.held for _, mark in placed):
        held = {at: HELD for at, mark in placed if mark.held}
        lines.append(("held back", "  " + "".join(held.get(at, " ") for at in range(columns))))
    return [f"{name:>{label}}{text}".rstrip() for name, text in lines]


def _numbers(rounds: Sequence[int], column: int) -> str:
    """The rounds' numbers below their first launches, as many as there is room for."""
    line = ""
    for at, number in enumerate(rounds):
        if not line or len(line) < at * column:
            line = line.ljust(at * column) + str(number)
    return line


def _scale(known: Sequence[float]) -> _Scale:
    ordered = sorted(known)
    last = len(ordered) - 1
    p10, p90 = ordered[last // 10], ordered[last - last // 10]
    room = SPREADS * (p90 - p10)
    inside = [ns for ns in ordered if p10 - room <= ns <= p90 + room]
    low, high = inside[0], inside[-1]
    lines = LINES if high > low else 1
    step = (high - low) / (LINES - 1)
    factor, unit = next((pair for pair in units.TIME_UNITS if high >= pair[0]), units.TIME_UNITS[-1])
    finest = round(math.log10(factor)) + 1  # a tenth of a nanosecond: a location is interpolated
    needed = -math.floor(math.log10(step / factor)) if step else 0
    decimals = min(finest, max(0, needed, DIGITS - 1 - math.floor(math.log10(max(high, 1.0) / factor))))
    values = [high - line * step for line in range(lines)]
    return _Scale(low, high, tuple(f"{value / factor:.{decimals}f}{units.SPACE}{unit}" for value in values))


def _beyond(marks: Sequence[Mark], scale: _Scale) -> list[str]:
    """The launches that the scale does not hold, with their times."""
    far = [mark for mark in marks if mark.ns is not None and not scale.low <= mark.ns <= scale.high]
    if not far:
        return []
    named = [f"{units.time(mark.ns)} ({mark.side}, round {mark.round + 1})" for mark in far[:FEW]]
    return [f"beyond the scale: {', '.join(named)}{', …' if len(far) > FEW else ''}"]
