"""What the history says → static pages: an overview, a page a case, the machines. Pure; no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .. import units
from ..load.proofs import Proof, ProofHistory, history_of, moment
from ..render.page.page import breakable
from ..rows.outcome import row_name
from ..text import sanitise
from .changes import Change, Detected
from .series import Glance, Series, SeriesPoint
from .store import safe
from .text import SHORT, commits, compare_url, machine, stack

CHANGES_SHOWN = 200  # change points of the overview, the newest; each case's page has its own
RUNS_SHOWN = 60  # runs of a series that a case's page lists
WIDE, HIGH = 900, 240  # of a case's picture, in its own units
LEFT, BOTTOM = 70, 24  # of it, for the labels
SPARK_WIDE, SPARK_HIGH = 160, 24
SPARK_POINTS = 80  # of a sparkline: two units each
LINES = 4  # of the scale
FLAT = 0.02  # a picture shows at least this share of the time, so that noise does not look like more


@dataclass(frozen=True)
class Site:
    """All that the pages are made from. `repository_url`: ``https://github.com/OWNER/NAME``, or empty: no links."""

    glances: Sequence[Glance]
    series: Sequence[Series]
    found: Detected
    proofs: Sequence[Proof]
    repository_url: str


def pages(site: Site) -> Iterator[tuple[str, str]]:
    """The path and text of each page."""
    templates = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["name"] = breakable
    newest = max((glance.last for glance in site.glances), default=None)
    by_case = {case: list(group) for case, group in groupby(site.series, key=lambda each: each.place.case)}
    of_case: dict[str, list[Change]] = {}
    for change in site.found.changes:
        of_case.setdefault(change.case, []).append(change)
    common = {"newest": f"{newest:%Y-%m-%d %H:%M} UTC" if newest else "", "commit_url": _commit_url(site)}
    overview = {
        "rows": [_glance(each, len(of_case.get(each.place.case, ()))) for each in site.glances],
        "changes": [_change(each, site) for each in site.found.changes[:CHANGES_SHOWN]],
        "more": max(len(site.found.changes) - CHANGES_SHOWN, 0),
        "looked": f"{site.found.series:,} series over {site.found.years:.1f} years",
    }
    yield "index.html", templates.get_template("history.html.j2").render(**common, **overview, root="")
    machines = [_machine(uuid, each, site.proofs) for uuid, each in _by_machine(site.series).items()]
    yield (
        "machines.html",
        templates.get_template("history_machines.html.j2").render(**common, machines=machines, root=""),
    )
    template = templates.get_template("history_case.html.j2")
    for case, series in by_case.items():
        changes = of_case.get(case, [])
        drawn = {
            "case": sanitise(case),
            "pictures": [_picture(list(group), changes, site) for _, group in _by_implementation(series)],
            "changes": [_change(each, site) for each in changes],
            "series": [_series(each) for each in reversed(series)],
        }
        yield page_of(case), template.render(**common, **drawn, root="../")


def page_of(case: str) -> str:
    """The path of a case's page."""
    return f"cases/{safe(case)}.html"


def _by_implementation(series: Sequence[Series]) -> Iterator[tuple[str, Iterator[Series]]]:
    return groupby(series, key=lambda each: each.place.implementation)


def _by_machine(series: Sequence[Series]) -> dict[str, list[Series]]:
    found: dict[str, list[Series]] = {}
    for each in series:
        found.setdefault(each.place.machine, []).append(each)
    return dict(sorted(found.items()))


def _commit_url(site: Site) -> str:
    return f"{site.repository_url}/commit/" if site.repository_url else ""


def _glance(each: Glance, changes: int) -> dict[str, Any]:
    change = None if not each.before_ns else each.ns / each.before_ns - 1
    return {
        "name": sanitise(row_name(*each.place.row)),
        "page": page_of(each.place.case),
        "time": units.time(each.ns),
        "change": units.NOTHING if change is None else units.percent(change),
        "spark": _spark(each.all_ns.tolist()),
        "changes": changes,
        "runs": each.runs,
        "last": f"{each.last:%Y-%m-%d}",
        "machine": f"{sanitise(each.place.device)} {machine(each.place)}".strip(),
    }


def _change(each: Change, site: Site) -> dict[str, Any]:
    before, after = units.times([each.before_ns, each.after_ns])
    return {
        "name": sanitise(row_name(each.case, each.implementation)),
        "page": page_of(each.case),
        "day": each.at[:10],
        "before": before,
        "after": after,
        "change": units.percent(each.change),
        "slower": each.slower,
        "commits": commits(each),
        "url": compare_url(each, site.repository_url),
        "machine": machine(each.place),
        "stack": stack(each.place),
        "suspicious": site.found.suspicious(each),
    }


def _series(each: Series) -> dict[str, Any]:
    recent = each.points[-RUNS_SHOWN:]
    shown = units.times([point.ns for point in recent])
    return {
        "name": sanitise(row_name(*each.place.row)),
        "where": f"{sanitise(each.place.device)} {machine(each.place)}".strip(),
        "stack": stack(each.place),
        "runs": units.count(len(each.points), "run"),
        "first": f"{each.first:%Y-%m-%d}",
        "last": f"{each.last:%Y-%m-%d}",
        "recent": [
            {
                "day": f"{point.started:%Y-%m-%d %H:%M}",
                "commit": point.commit,
                "short": point.commit[:SHORT],
                "time": time,
            }
            for point, time in zip(reversed(recent), reversed(shown), strict=True)
        ],
    }


def _machine(name: str, series: Sequence[Series], proofs: Sequence[Proof]) -> dict[str, Any]:
    last = max(each.last for each in series)
    stacks: dict[str, tuple[datetime, datetime, set[str]]] = {}
    for each in series:
        place = each.place
        used = stack(replace(place, timer="", cache=""))
        first, until, runs = stacks.get(used, (each.first, each.last, set()))
        first, until = min(first, each.first), max(until, each.last)
        stacks[used] = first, until, runs | {point.run_id for point in each.points}
    told = sorted(stacks.items(), key=lambda item: item[1][0], reverse=True)
    return {
        "name": sanitise(name) or "no GPU",
        "device": ", ".join(sorted({sanitise(each.place.device) for each in series})),
        "rows": units.count(len({each.place.row for each in series}), "row"),
        "stacks": [
            {"name": used, "first": f"{first:%Y-%m-%d}", "last": f"{until:%Y-%m-%d}", "runs": len(runs)}
            for used, (first, until, runs) in told
        ],
        "proved": _proved(history_of(proofs, [name], max([last, *_times(proofs)])) if name else None),
    }


def _times(proofs: Sequence[Proof]) -> list[datetime]:
    return [at for proof in proofs if (at := moment(proof.at)) is not None]


def _proved(history: ProofHistory | None) -> list[str]:
    """What the last thirty days of proofs amount to, in words."""
    if history is None:
        return []
    told = []
    if history.nights:
        told.append(
            f"A/A, {units.count(history.nights, 'night')}: {history.aa[1]:,} of {units.count(history.aa[0], 'row')} flagged"
        )
    if history.control[0]:
        told.append(f"control sides: {history.control[1]:,} of {units.count(history.control[0], 'row')} flagged")
    for fraction, (hits, runs) in history.planted.items():
        told.append(f"planted {units.setting(fraction)}: found {hits} of {runs}")
    return told


def _spark(values: Sequence[float]) -> str:
    """The points of a sparkline."""
    step = -(-len(values) // SPARK_POINTS)
    kept = [sorted(values[at : at + step])[len(values[at : at + step]) // 2] for at in range(0, len(values), step)]
    low, span = _range(kept)
    across = SPARK_WIDE / max(len(kept) - 1, 1)
    return " ".join(
        f"{n * across:.1f},{(1 - (value - low) / span) * (SPARK_HIGH - 2) + 1:.1f}" for n, value in enumerate(kept)
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The lowest time that a picture shows, and how far it reaches."""
    low, high = min(values), max(values)
    span = max(high - low, FLAT * high, 1e-9)
    return (low + high - span) / 2, span


@dataclass(frozen=True)
class _Frame:
    """From time and ns to a place in the picture."""

    first: datetime
    seconds: float
    low: float
    span: float

    def x(self, at: datetime) -> float:
        return LEFT + (at - self.first).total_seconds() / self.seconds * (WIDE - LEFT - 10)

    def y(self, ns: float) -> float:
        ns = min(max(ns, self.low), self.low + self.span)
        return (1 - (ns - self.low) / self.span) * (HIGH - BOTTOM - 10) + 10


def _picture(series: Sequence[Series], changes: Sequence[Change], site: Site) -> dict[str, Any]:
    """One implementation's series over time, each in its own colour, with quartiles of the launches and change points."""
    points = [point for each in series for point in each.points]
    first, last = min(point.started for point in points), max(point.started for point in points)
    low, span = _range([point.ns for point in points])
    frame = _Frame(first, max((last - first).total_seconds(), 1.0), low, span)
    levels = [low + span * n / (LINES - 1) for n in range(LINES)]
    return {
        "name": sanitise(row_name(*series[0].place.row)),
        "size": (WIDE, HIGH, LEFT, BOTTOM),
        "lines": [
            {
                "path": " ".join(f"{frame.x(at):.1f},{frame.y(point.ns):.1f}" for at, point in each.drawn),
                "band": _band(frame, each.drawn),
                "title": f"{machine(each.place)} · {stack(each.place)}",
            }
            for each in series
        ],
        "marks": [mark for each in series for mark in _marks(frame, each, changes, site)],
        "levels": [
            {"y": f"{frame.y(ns):.1f}", "text": text} for ns, text in zip(levels, units.times(levels), strict=True)
        ],
        "first": f"{first:%Y-%m-%d}",
        "last": f"{last:%Y-%m-%d}",
    }


def _band(frame: _Frame, points: Sequence[tuple[datetime, SeriesPoint]]) -> str:
    there = [f"{frame.x(at):.1f},{frame.y(point.high_ns):.1f}" for at, point in points]
    back = [f"{frame.x(at):.1f},{frame.y(point.low_ns):.1f}" for at, point in reversed(points)]
    return " ".join([*there, *back])


def _marks(frame: _Frame, series: Series, changes: Sequence[Change], site: Site) -> Iterator[dict[str, Any]]:
    starts = {point.run_id: at for at, point in series.drawn}
    for each in changes:
        if each.place == series.place and each.run_id in starts:
            yield {
                "x": f"{frame.x(starts[each.run_id]):.1f}",
                "y": f"{frame.y(each.after_ns):.1f}",
                "slower": each.slower,
                "title": f"{each.at[:10]}: {units.percent(each.change)}, {commits(each)}",
                "url": compare_url(each, site.repository_url),
            }
