"""A picture of a device's peaks and the cases under them: the roofline, and below it bandwidth over bytes."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from evenbench.runner.errors import UsageError
from evenbench.runner.records import CeilingsEvent

from ... import units
from ...rows.roofline import Peaks, peaks_of
from ...text import sanitise
from . import roofline as roofline_chart
from . import vega as plots
from .roofline import WIDTH, ChartPoint

Values: TypeAlias = dict[str, Any]

SUFFIXES = (".svg", ".png")
WHAT = "--plot"
COLOUR = re.compile(r"--(\w+): (#[0-9a-f]{6});")
TITLES = ("roofline", "bandwidth by bytes moved")
CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "font": "Liberation Sans, Arial, sans-serif",
        "view": {"stroke": None},
        "title": {"color": "@ink", "fontWeight": "normal", "anchor": "start", "frame": "group", "fontSize": 13},
        "axis": {
            name: "@line" if name in ("gridColor", "domainColor", "tickColor") else "@dim"
            for name in ("labelColor", "titleColor", "gridColor", "domainColor", "tickColor")
        }
        | {"titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 12},
        "legend": {"labelColor": "@ink", "titleColor": "@dim", "orient": "top", "title": None, "labelFontSize": 12},
    }
)


def write_plot(path: Path, ceilings: CeilingsEvent | Peaks, cases: Sequence[ChartPoint] = ()) -> None:
    """Draw a device's roofline and its bandwidth curve, with cases on them, as SVG or PNG by the file's ending.

    Args:
        path: the file, which is written over.
        ceilings: what the device was measured to reach.
        cases: that ran on it.

    Raises:
        UsageError: the ending is another one, there is nothing to draw, the file cannot be written, or the library is
            missing.
    """
    suffix = path.suffix.lower()
    check_plot(path)
    peaks = peaks_of(ceilings) if isinstance(ceilings, CeilingsEvent) else ceilings
    spec = picture(peaks, cases)
    drawn = plots.svg(spec, WHAT).encode() if suffix == ".svg" else plots.png(spec, WHAT)
    try:
        path.write_bytes(drawn)
    except OSError as error:
        raise UsageError(f"{WHAT} {path} cannot be written: {error.strerror}") from None


def check_plot(path: Path) -> None:
    """Raise UsageError where the file's ending is none that can be drawn, there can be no such file, or no library draws.

    Best before anything is measured.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{WHAT} {path}: an ending that is neither .svg nor .png", "name it roofline.svg, say")
    problem = errno.EISDIR if path.is_dir() else 0 if path.parent.is_dir() else errno.ENOENT
    if problem:
        raise UsageError(f"{WHAT} {path} cannot be written: {os.strerror(problem)}", "name another place")
    plots.check(WHAT)


def picture(peaks: Peaks, cases: Sequence[ChartPoint]) -> Values:
    """The specification of both charts, one below the other, in light colours. Raises UsageError where there is neither."""
    charts = zip(TITLES, (roofline_chart.roofline(peaks, cases), roofline_chart.bandwidth(peaks, cases)), strict=True)
    drawn = [{"title": title, "width": WIDTH} | chart for title, chart in charts if chart is not None]
    if not drawn:
        raise UsageError("no peak is known to draw", "evenbench ceilings measures them")
    count = f", {units.count(len(cases), 'row')}" if cases else ""
    spec: Values = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {
            "text": sanitise(f"{peaks.device}: measured peaks{count}"),
            "anchor": "start",
            "fontSize": 15,
            "offset": 12,
        },
        "background": "@paper",
        "padding": 16,
        "vconcat": drawn,
        "spacing": 28,
        "config": dict(CONFIG),
    }
    filled: Values = coloured(spec, _light())
    return filled


def coloured(part: Any, colours: Mapping[str, str]) -> Any:
    """A specification with colours in place of their names, ``@ink`` and the like."""
    if isinstance(part, dict):
        return {key: coloured(value, colours) for key, value in part.items()}
    if isinstance(part, list):
        return [coloured(value, colours) for value in part]
    return colours.get(part.removeprefix("@"), part) if isinstance(part, str) and part.startswith("@") else part


def _light() -> Mapping[str, str]:
    """The light colours of the page, by name."""
    style = files("evenbench.reports.render.page").joinpath("templates/page.css").read_text(encoding="utf-8")
    return dict(COLOUR.findall(style.partition("}")[0]))
