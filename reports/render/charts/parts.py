"""Parts of Vega-Lite specifications: lines with names at their ends, labels, logarithmic axes. Pure.

A colour is a name such as ``@ink``: whoever draws a specification says which colour that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from .labels import SIZE, Axis, LabelPlace, spread

Values: TypeAlias = dict[str, Any]  # what JSON takes

LEADER = 0.03  # of the width, from the end of a line to its name
FEW = 3  # decades, under which an axis needs more names than theirs
DIGITS = 5  # significant ones: more than a screen has pixels


class Line(NamedTuple):
    """A line through these places; one that is not solid is dashed."""

    name: str
    places: tuple[tuple[float, float], ...]
    colour: str
    solid: bool


class Name(NamedTuple):
    """What a line at this height is called."""

    value: float
    text: str
    colour: str


def short(value: float) -> float:
    """A number with few digits, since a page holds many."""
    return float(f"{value:.{DIGITS}g}")


def axis_of(axis: Axis, title: str, more: Values) -> Values:
    """How a channel is drawn on a logarithmic axis; `more` are properties of Vega-Lite's axis."""
    scale = {"type": "log", "domain": [axis.low, axis.high], "nice": False}
    return {
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"labelFlush": True, "labelOverlap": True} | more,
    }


def chart(layers: Sequence[Values], x: Values, y: Values, height: int) -> Values:
    """Layers with the same axes; those without data are left out."""
    encoding = {"x": {"field": "x"} | x, "y": {"field": "y"} | y}
    return {"height": height, "encoding": encoding, "layer": [layer for layer in layers if layer["data"]["values"]]}


def decades(axis: Axis, end: float = math.inf) -> list[float]:
    """What a logarithmic axis names, up to an end: powers of ten, and their doubles and fives where there are few."""
    first, last = math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high))
    steps = (1,) if last - first >= FEW else (1, 2, 5)
    found = [step * 10.0**power for power in range(first - 1, last + 1) for step in steps]
    return [value for value in found if axis.low <= value <= min(axis.high, end)]


def margin(end: float, x: Axis, y: Axis) -> Values:
    """An empty place to the right of where lines end, for their names."""
    corners = {"x": short(end), "x2": short(x.value(x.pixels + 2)), "y": short(y.low), "y2": short(y.high)}
    return _between([corners], {"type": "rect", "color": "@paper", "opacity": 1})


def lines_of(lines: Sequence[Line]) -> list[Values]:
    """A layer for each line, since each has its own colour."""
    return [
        {
            "data": {"values": [{"x": short(x), "y": short(y)} for x, y in line.places]},
            "mark": {
                "type": "line",
                "color": line.colour,
                "strokeWidth": 1.5,
                "strokeDash": [1, 0] if line.solid else [5, 3],
            },
        }
        for line in lines
    ]


def named(names: Sequence[Name], end: float, x: Axis, y: Axis) -> list[Values]:
    """Names to the right of where lines end, moved apart, each with a short line that leads to it."""
    pixels = spread([y.at(name.value) for name in names], 0, y.pixels)
    at = x.value(x.at(end) + LEADER * x.pixels)
    found = []
    for name, pixel in zip(names, pixels, strict=True):
        place = {"x": short(at), "y": short(y.value(pixel))}
        leader = place | {"x2": short(end), "y2": short(name.value)}
        found.append(_between([leader], {"type": "rule", "color": name.colour}))
        found.append(texts([place | {"text": name.text}], name.colour, LabelPlace(4, 0, "left")))
    return found


def _between(values: Sequence[Values], mark: Values) -> Values:
    """What reaches from one place to another."""
    ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    return {"data": {"values": list(values)}, "mark": mark, "encoding": ends}


def texts(values: Sequence[Values], colour: str, place: LabelPlace) -> Values:
    """Labels, each beside its place."""
    mark = {"type": "text", "color": colour, "fontSize": SIZE, "dx": place.dx, "dy": place.dy, "align": place.align}
    return {
        "data": {"values": list(values)},
        "mark": mark | {"baseline": "middle"},
        "encoding": {"text": {"field": "text"}},
    }
