"""A device's peaks and the cases that ran on it → charts: the roofline, and bandwidth over bytes. Pure.

What comes out are parts of Vega-Lite specifications in which a colour is a name such as ``@ink``: whoever draws them
says which colours these are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ... import units
from ...rows.outcome import ComparedRow, Comparison, MeasuredRow, Report, row_name
from ...rows.roofline import COPY, READ, WRITE, Peaks, is_cold
from ...rows.times import Times
from ...text import sanitise
from ...units import unit_of
from .axes import Axis, log_axis
from .parts import (
    LINE,
    LabelOffset,
    Line,
    Name,
    Values,
    axis_of,
    chart,
    decades,
    line_names,
    lines_of,
    margin,
    rounded,
    texts,
)

WIDTH, HEIGHT, CURVE_HEIGHT = 760, 430, 340  # pixels of a picture; a page may draw wider
TONES = tuple(f"@tone{number}" for number in range(1, 7))  # of the data types, by turns
QUIET = "@quiet"  # of roofs under which no case ran
MATRIX = "matrix"
ROOF = re.compile(r"(compute|matrix)/[^/]+")  # keys of roofs; the ways to reach one have a part more
LABELS = 0.3  # of the width, at the right, for the names of the roofs
LABEL_WIDTH = 110  # pixels between two labels on one height: most names are shorter
RATE_MIN = 1.0  # operations or bytes a second: no device has less, and a hostile one would stretch the chart
NAMED_MAX = 28  # characters of a label
SIZES_MAX = 9  # sizes named on an axis
MATRIX_UNITS, OTHER_UNITS = "matrix units", "no matrix units"
SHAPES: Mapping[str, str] = MappingProxyType({MATRIX_UNITS: "square", OTHER_UNITS: "circle"})
TOOLTIP: Mapping[str, str] = MappingProxyType(
    {"name": "case", "dtype": "of", "work": "by", "time": "time", "rate": "rate", "ceiling": "of ceiling"}
)
# A number of bytes as an axis names it.
BYTES = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? datum.value / 1048576 + "
    "' MiB' : datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)


@dataclass(frozen=True)
class ChartPoint:
    """A case and implementation that ran on the device, with its work, its time, and the share of its ceiling."""

    case: str
    implementation: str
    dtype: str
    matrix: bool
    flops: int
    moved: int
    ns: float
    share: float

    @property
    def label(self) -> str:
        """The case's own name, without its group and parameters; of one of several implementations, that too."""
        own = self.case.partition("[")[0].rpartition("/")[2]
        return sanitise(row_name(own, self.implementation))[:NAMED_MAX]

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.flops / self.ns * 1e9

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.moved / self.ns * 1e9


def charted(outcome: Comparison | Report) -> tuple[Peaks, list[ChartPoint]] | None:
    """The peaks of the device that most rows ran on, and the rows that they bind; None where no peaks are known."""
    found: dict[tuple[str, str], list[Peaks]] = {}
    for row in outcome.rows:
        if (times := _times(row)) is not None and times.peaks is not None:
            found.setdefault((times.peaks.device, times.peaks.uuid), []).append(times.peaks)
    if not found:
        return None
    peaks = max(found.values(), key=len)[0]
    return peaks, points(outcome, peaks)


def points(outcome: Comparison | Report, peaks: Peaks) -> list[ChartPoint]:
    """The rows that ran on the device of these peaks, head's side of two."""
    found = []
    for row in outcome.rows:
        times = _times(row)
        if times is None or times.work is None or times.peaks is None or times.share is None:
            continue
        if not is_cold(times.records):  # what a cache gives has no place under the roof of memory
            continue
        if (times.peaks.device, times.peaks.uuid) == (peaks.device, peaks.uuid):
            work, moved = times.work, times.work.bytes_read + times.work.bytes_written
            dtype = sanitise(work.dtype.removeprefix("torch."))
            found.append(
                ChartPoint(row.case, row.implementation, dtype, work.matrix, work.flops, moved, times.ns, times.share)
            )
    return found


def charts_of(outcome: Comparison | Report) -> dict[str, Values]:
    """The charts below by their names, of the device that most rows ran on; those that it has."""
    found = charted(outcome)
    drawn = {} if found is None else {"roofline": roofline(*found), "bandwidth": bandwidth(*found)}
    return {name: each for name, each in drawn.items() if each is not None}


def roofline(peaks: Peaks, cases: Sequence[ChartPoint]) -> Values | None:
    """Operations a second over operations a byte: the roofs of the data types, and the cases under them.

    Cases without operations or without bytes have no place in it. None where the device has no roof.
    """
    shown = [case for case in cases if case.flops and case.moved and case.rate >= RATE_MIN]
    roofs = {key: rate for key, rate in sorted(peaks.rates.items()) if ROOF.fullmatch(key) and rate >= RATE_MIN}
    if not roofs:
        return None
    of_memory, memory = next(iter(_memory(peaks).items()), ("", 0.0))
    ridges = [rate / memory for rate in roofs.values()] if memory else [1.0]
    x = log_axis([*(case.flops / case.moved for case in shown), *ridges], WIDTH, after=LABELS)
    lowest = [x.low * memory * 2] if memory else []  # so that the roof of memory begins in the corner, or above it
    y = log_axis([*(case.rate for case in shown), *lowest, *roofs.values()], HEIGHT, down=True)
    tones, end = _tones(cases, roofs), x.value(x.pixels * (1 - LABELS))
    lines, names = [], []
    for key, rate in roofs.items():
        unit, dtype = key.split("/")
        begin = rate / memory if memory else x.low
        lines.append(Line(key, ((begin, rate), (end, rate)), tones[dtype], solid=unit == MATRIX))
        names.append(Name(rate, f"{dtype} {unit} {units.quantity(rate, unit_of(key))}", tones[dtype]))
    if memory:
        ends = (max(x.low, y.low / memory), max(ridges))
        lines.append(Line(of_memory, tuple((end, end * memory) for end in ends), "@dim", solid=True))
    places = [(case.flops / case.moved, case.rate) for case in shown]
    layers = [margin(end, x, y), *lines_of(lines), *line_names(names, end, x, y)]
    if memory:
        layers.append(_slope(f"{_said(of_memory)} {units.quantity(memory, unit_of(of_memory))}", lines[-1]))
    layers += _cases(shown, places, tones, x, y)
    across = axis_of(x, "operations a byte", {"values": decades(x, end), "format": "~g"})
    return chart(layers, across, axis_of(y, "operations a second", {"values": decades(y), "format": "~s"}), HEIGHT)


def bandwidth(peaks: Peaks, cases: Sequence[ChartPoint]) -> Values | None:
    """Bytes a second over the bytes that an iteration moves: the curve of a copy, the peaks, and the cases.

    None where the device has no bandwidth.
    """
    shown = [case for case in cases if case.moved and case.bandwidth >= RATE_MIN]
    curve = [(size, rate) for size, rate in peaks.curve if rate >= RATE_MIN]
    rates = _memory(peaks)
    if not curve and not rates:
        return None
    x = log_axis(
        [float(size) for size, _ in curve] + [float(case.moved) for case in shown] or [1.0], WIDTH, after=LABELS
    )
    highs = [rate for _, rate in curve] + [*rates.values()]
    y = log_axis([*highs, *(case.bandwidth for case in shown)], CURVE_HEIGHT, down=True)
    tones, end = _tones(cases, ()), x.value(x.pixels * (1 - LABELS))
    lines = [Line(key, ((x.low, rate), (end, rate)), "@dim", solid=False) for key, rate in rates.items()]
    lines.append(Line("copy by size", tuple(curve), "@ink", solid=True))
    names = [Name(rate, f"{_said(key)} {units.quantity(rate, unit_of(key))}", "@dim") for key, rate in rates.items()]
    places = [(float(case.moved), case.bandwidth) for case in shown]
    layers = [margin(end, x, y), *lines_of(lines), *line_names(names, end, x, y), *_cases(shown, places, tones, x, y)]
    ticks = {"values": _sizes(x), "labelExpr": BYTES}
    return chart(
        layers,
        axis_of(x, "bytes moved", ticks),
        axis_of(y, "bytes a second", {"values": decades(y), "format": "~s"}),
        CURVE_HEIGHT,
    )


def _times(row: ComparedRow | MeasuredRow) -> Times | None:
    return row.times if isinstance(row, MeasuredRow) else row.head or row.base


def _tones(cases: Iterable[ChartPoint], roofs: Iterable[str]) -> Mapping[str, str]:
    """A colour for each data type: those of the cases first, in the order of their names; roofs without a case are dim."""
    used = sorted({case.dtype for case in cases})
    unused = sorted({key.partition("/")[2] for key in roofs} - set(used))
    coloured = dict(zip(used or unused, TONES * (1 + len(used or unused) // len(TONES)), strict=False))
    return MappingProxyType(dict.fromkeys(unused, QUIET) | coloured)


def _memory(peaks: Peaks) -> dict[str, float]:
    """The peaks of memory that can be drawn, a copy's first."""
    return {key: peaks.rates[key] for key in (COPY, READ, WRITE) if peaks.rates.get(key, 0.0) >= RATE_MIN}


def _said(key: str) -> str:
    return key.replace("/", " ")


def _slope(text: str, line: Line) -> Values:
    """The name of the roof of memory, on its upper side, where no case can be."""
    (x, y), (x2, y2) = line.places
    place = {"x": rounded(x ** (1 / 3) * x2 ** (2 / 3)), "y": rounded(y ** (1 / 3) * y2 ** (2 / 3)), "text": text}
    return texts([place], line.colour, LabelOffset(-10, -6, "right"))


def _sizes(x: Axis) -> list[int]:
    """Powers of two on an axis, as many as it has room for."""
    first, last = math.ceil(math.log2(x.low)), math.floor(math.log2(x.value(x.pixels * (1 - LABELS))))
    step = max(1, math.ceil((last - first + 1) / SIZES_MAX))
    return [2**power for power in range(max(0, first), last + 1, step)]


def _cases(
    cases: Sequence[ChartPoint],
    places: Sequence[tuple[float, float]],
    tones: Mapping[str, str],
    x: Axis,
    y: Axis,
) -> list[Values]:
    """The cases as points, and each name once, beside the case of the largest work: there a ceiling matters.

    A name too near to one already drawn is left out; pointing at a case shows it.
    """
    values = [
        _values(case) | {"x": rounded(place[0]), "y": rounded(place[1])}
        for case, place in zip(cases, places, strict=True)
    ]
    labels: dict[str, tuple[float, float]] = {}
    for case, place in sorted(zip(cases, places, strict=True), key=lambda pair: (-pair[0].moved, -pair[0].flops)):
        clear = all(
            abs(x.at(place[0]) - x.at(other[0])) > LABEL_WIDTH or abs(y.at(place[1]) - y.at(other[1])) > LINE
            for other in labels.values()
        )
        if clear and case.label not in labels:
            labels[case.label] = place
    drawn = [{"x": rounded(place[0]), "y": rounded(place[1]), "text": name} for name, place in labels.items()]
    return [_points(cases, values, tones), texts(drawn, "@ink", LabelOffset(7, 0, "left"))]


def _values(case: ChartPoint) -> Values:
    """What a reader is told of a case that is pointed at."""
    return {
        "case": case.case,
        "implementation": case.implementation,
        "name": sanitise(row_name(case.case, case.implementation)),
        "dtype": case.dtype,
        "work": MATRIX_UNITS if case.matrix else OTHER_UNITS,
        "time": units.time(case.ns),
        "rate": units.rate(case.rate / 1e12, case.bandwidth / 1e12),
        "ceiling": units.share(case.share),
    }


def _points(cases: Sequence[ChartPoint], values: Sequence[Values], tones: Mapping[str, str]) -> Values:
    # Of both charts alike, since one below the other they share one scale and one legend.
    domain = sorted(dtype for dtype, tone in tones.items() if tone != QUIET)
    both = len({case.matrix for case in cases}) > 1
    colour: Values = {"field": "dtype", "scale": {"domain": domain, "range": [tones[name] for name in domain]}}
    shape: Values = {"field": "work", "scale": {"domain": [*SHAPES], "range": [*SHAPES.values()]}}
    below = {"title": None, "orient": "bottom", "symbolFillColor": "@dim"} if both else None
    return {
        "data": {"values": list(values)},
        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.9, "cursor": "pointer"},
        "encoding": {
            "color": colour | {"type": "nominal", "legend": {"title": None, "orient": "top", "columns": 3}},
            "shape": shape | {"type": "nominal", "legend": below},
            "tooltip": [{"field": name, "title": title} for name, title in TOOLTIP.items()],
        },
    }
