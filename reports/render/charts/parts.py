"""Parts of Vega-Lite specifications: lines with names at their ends, labels, logarithmic axes. Pure.

A colour is a name such as ``@ink``, which the format that draws the specification replaces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from .axes import Axis

Values: TypeAlias = dict[str, Any]  # what JSON takes

LINE = 14  # pixels from one line of text to the next


class Line(NamedTuple):
    """A line through these places; one that is not solid is dashed."""

    name: str
    places: tuple[tuple[float, float], ...]
    colour: str
    solid: bool


class Name(NamedTuple):
    """The name of the line at this height."""

    value: float
    text: str
    colour: str


class LabelOffset(NamedTuple):
    """Where a label is drawn, as an offset in pixels from its point, and how it is aligned there."""

    dx: float
    dy: float
    align: Literal["left", "right", "center"]


def rounded(value: float) -> float:
    """A number with few digits, since a page holds many."""
    return float(f"{value:.5g}")  # more digits than a screen has pixels


def axis_of(axis: Axis, title: str, more: Values) -> Values:
    """The encoding of a channel on a logarithmic axis; `more` are properties of Vega-Lite's axis."""
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
    """The ticks of a logarithmic axis up to `end`: powers of ten, and their doubles and fives where there are few."""
    first, last = math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high))
    steps = (1,) if last - first >= 3 else (1, 2, 5)  # powers of ten alone would leave a short axis bare
    ticks = []
    for power in range(first - 1, last + 1):
        ticks += [step * 10.0**power for step in steps]
    return [value for value in ticks if axis.low <= value <= min(axis.high, end)]


def margin(end: float, x: Axis, y: Axis) -> Values:
    """A blank rectangle to the right of where lines end, for their names."""
    corners = {"x": rounded(end), "x2": rounded(x.value(x.pixels + 2)), "y": rounded(y.low), "y2": rounded(y.high)}
    return _between([corners], {"type": "rect", "color": "@paper", "opacity": 1})


def lines_of(lines: Sequence[Line]) -> list[Values]:
    """A layer for each line, since each has its own colour."""
    return [
        {
            "data": {"values": [{"x": rounded(x), "y": rounded(y)} for x, y in line.places]},
            "mark": {
                "type": "line",
                "color": line.colour,
                "strokeWidth": 1.5,
                "strokeDash": [1, 0] if line.solid else [5, 3],
            },
        }
        for line in lines
    ]


def line_names(names: Sequence[Name], end: float, x: Axis, y: Axis) -> list[Values]:
    """Names to the right of where lines end, moved apart, each with a short line that leads to it."""
    pixels = spread([y.at(name.value) for name in names], 0, y.pixels)
    start = x.value(x.at(end) + 0.03 * x.pixels)
    layers = []
    for name, pixel in zip(names, pixels, strict=True):
        place = {"x": rounded(start), "y": rounded(y.value(pixel))}
        leader = place | {"x2": rounded(end), "y2": rounded(name.value)}
        layers.append(_between([leader], {"type": "rule", "color": name.colour}))
        layers.append(texts([place | {"text": name.text}], name.colour, LabelOffset(4, 0, "left")))
    return layers


def spread(positions: Sequence[float], low: float, high: float, step: float = LINE) -> list[float]:
    """Positions moved apart to at least `step`, in their order, as near to where they were as `low` and `high` allow."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    step = min(step, (high - low) / max(1, len(order) - 1))
    moved = [0.0] * len(positions)
    last = low - step
    for index in order:
        last = moved[index] = max(positions[index], last + step)
    last = high + step
    for index in reversed(order):
        last = moved[index] = min(moved[index], last - step)
    return moved


def texts(values: Sequence[Values], colour: str, offset: LabelOffset) -> Values:
    """Labels, each beside its place."""
    mark = {"type": "text", "color": colour, "fontSize": 11, **offset._asdict()}
    return {
        "data": {"values": list(values)},
        "mark": mark | {"baseline": "middle"},
        "encoding": {"text": {"field": "text"}},
    }


def _between(values: Sequence[Values], mark: Values) -> Values:
    """What reaches from one place to another."""
    ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    return {"data": {"values": list(values)}, "mark": mark, "encoding": ends}
