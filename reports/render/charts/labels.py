"""Logarithmic axes, and places for labels in a chart's pixels, so that none stands on another. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

CHARACTER = 6.1  # pixels of one, at the font's size below
SIZE = 11  # of the font, in pixels
GAP = 7  # pixels between a point and its label
POINT = 4  # pixels around a point that a label keeps off
LINE = 14  # pixels from one line of text to the next
MOST = 100  # labels that are tried: a chart with more would show nothing else
TRIED = 5  # points of a name that are tried
STEP = 8.0  # pixels between the places of a line that labels keep off: less than a line of text is high
ROOM = 2.0  # between what is drawn and the edge of a chart, as a factor

Pixel = tuple[float, float]  # from the left, from above
Align = Literal["left", "right", "center"]


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high` over so many pixels; one that goes `down` has its high end at 0."""

    low: float
    high: float
    pixels: float
    down: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.pixels * (1 - part if self.down else part)

    def value(self, pixel: float) -> float:
        """The value at a pixel."""
        part = pixel / self.pixels
        return self.low * math.exp((1 - part if self.down else part) * math.log(self.high / self.low))


def log_axis(values: Sequence[float], pixels: float, *, after: float = 0.0, down: bool = False) -> Axis:
    """An axis that holds these values with some room at both ends; `after`, a fraction of it, is left free behind them."""
    low, high = min(values) / ROOM, max(values) * ROOM
    return Axis(low, low * math.exp(math.log(high / low) / (1 - after)), pixels, down)


class LabelPlace(NamedTuple):
    """Where a label stands, as an offset from its point in pixels, and how it is aligned there."""

    dx: float
    dy: float
    align: Align


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


PLACES = (
    LabelPlace(GAP, 0, "left"),
    LabelPlace(-GAP, 0, "right"),
    LabelPlace(0, -LINE + 3, "center"),
    LabelPlace(0, LINE - 3, "center"),
    LabelPlace(GAP, -LINE + 3, "left"),
    LabelPlace(GAP, LINE - 3, "left"),
    LabelPlace(-GAP, -LINE + 3, "right"),
    LabelPlace(-GAP, LINE - 3, "right"),
)


def placed(
    points: Sequence[Pixel],
    names: Mapping[str, Sequence[int]],
    width: float,
    height: float,
    lines: Sequence[Sequence[Pixel]] = (),
) -> dict[int, tuple[str, LabelPlace]]:
    """By point a name and its place: each name once, beside the first of its points where there is room; else nowhere.

    Args:
        points: which no label covers.
        names: the points of each, by their indices, the one where it should stand first.
        width, height: of the chart, which no label leaves.
        lines: that labels keep off where they can, each by the places that it runs through.
    """
    along = [_around(place, 1) for line in lines for ends in pairwise(line) for place in _along(*ends)]
    taken = [_around(point, POINT) for point in points]
    found: dict[int, tuple[str, LabelPlace]] = {}
    for name, indices in list(names.items())[:MOST]:
        tries = (
            (index, place)
            for others in ([*taken, *along], taken)
            for index in indices[:TRIED]
            if index not in found and (place := _free(points[index], name, others, width, height)) is not None
        )
        index, place = next(tries, (-1, None))
        if place is not None:
            found[index] = name, place
            taken.append(_box(points[index], name, place))
    return found


def spread(positions: Sequence[float], low: float, high: float, step: float = LINE) -> list[float]:
    """Positions moved apart to at least `step`, in their order, as near to where they were as `low` and `high` allow."""
    order = sorted(range(len(positions)), key=lambda at: positions[at])
    step = min(step, (high - low) / max(1, len(order) - 1))
    found = [0.0] * len(positions)
    last = low - step
    for at in order:
        last = found[at] = max(positions[at], last + step)
    last = high + step
    for at in reversed(order):
        last = found[at] = min(found[at], last - step)
    return found


def _along(one: Pixel, other: Pixel) -> list[Pixel]:
    """Places on a straight line, `STEP` apart."""
    steps = max(1, math.ceil(math.dist(one, other) / STEP))
    return [
        (one[0] + (other[0] - one[0]) * at / steps, one[1] + (other[1] - one[1]) * at / steps)
        for at in range(steps + 1)
    ]


def _free(point: Pixel, text: str, taken: Sequence[_Box], width: float, height: float) -> LabelPlace | None:
    for place in PLACES:
        box = _box(point, text, place)
        inside = box.left >= 0 and box.top >= 0 and box.right <= width and box.bottom <= height
        if inside and not any(box.meets(other) for other in taken):
            return place
    return None


def _box(point: Pixel, text: str, place: LabelPlace) -> _Box:
    wide = CHARACTER * len(text)
    left = point[0] + place.dx - {"left": 0.0, "center": wide / 2, "right": wide}[place.align]
    middle = point[1] + place.dy
    return _Box(left, middle - LINE / 2, left + wide, middle + LINE / 2)


def _around(point: Pixel, by: float) -> _Box:
    x, y = point
    return _Box(x - by, y - by, x + by, y + by)
