"""What the history says → text for a terminal, JSON, and the issue that tells of new change points. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .. import units
from ..render.comment.markdown import COMMENT_BUDGET, Block, cell, code, fit, link, marker, plain, row, table
from ..rows.outcome import MAIN, row_name
from ..text import sanitise
from .changes import DETECTED, Change, Detected, dump
from .series import RECENT_DAYS, Glance, Series, SeriesKey, SeriesPoint

BARS = "▁▂▃▄▅▆▇█"
RECENT = 10  # runs of a series that `show` lists
SHORT = 7  # characters of a commit
CHANGE_MARK = "^"
NEITHER = "no change points"
FLAT = 0.01  # a scale covers at least this share of the time: less is noise, and drawn large would look like more


def show(case: str, series: Sequence[Series], found: Detected, width: int) -> str:
    """A case over time, a part for each series, and the last runs."""
    parts = [sanitise(case)]
    for each in series:
        runs = {point.run_id: number for number, point in enumerate(each.points)}
        changes = sorted((one for one in found.changes if one.place == each.place), key=lambda one: runs[one.run_id])
        parts.append(
            "\n".join([*_heading(each), *_plot(each.points, changes, width), *_changes(changes), *_runs(each)])
        )
    return "\n\n".join(parts) + "\n"


def show_json(case: str, series: Sequence[Series], found: Detected) -> dict[str, Any]:
    """The same, raw."""
    return {
        "schema": "evenbench.history.case/1.0",
        "case": case,
        "series": [
            {
                **vars(each.place),
                "runs": [{**point._asdict(), "started": point.started.isoformat()} for point in each.points],
                "changes": [as_json(one, found) for one in reversed(found.changes) if one.place == each.place],
            }
            for each in series
        ],
    }


def glances(rows: Sequence[Glance], width: int) -> str:
    """All rows, a line each: time, change over a month, runs, last run, machine."""
    shown = [
        (
            sanitise(row_name(*each.place.row)),
            units.time(each.ns),
            units.percent(each.ns / each.before_ns - 1) if each.before_ns else units.NOTHING,
            units.count(each.runs, "run"),
            f"{each.last:%Y-%m-%d}",
            machine(each.place),
        )
        for each in rows
    ]
    widths = [max(len(line[column]) for line in shown) for column in range(len(shown[0]))]
    lines = [
        "  ".join(
            text.ljust(size) if column in (0, 5) else text.rjust(size)
            for column, (text, size) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in shown
    ]
    return "\n".join([*(line[: max(width, 1)] for line in lines), f"changes are over the last {RECENT_DAYS} days\n"])


def glances_json(rows: Sequence[Glance]) -> dict[str, Any]:
    """The same, raw."""
    return {
        "schema": "evenbench.history.overview/1.0",
        "rows": [
            {
                **vars(each.place),
                "runs": each.runs,
                "last": each.last.isoformat(),
                "ns": each.ns,
                "before_ns": each.before_ns,
            }
            for each in rows
        ],
    }


def detected(changes: Sequence[Change], found: Detected) -> str:
    """The change points, the newest first, and over how much was looked."""
    lines = []
    for each in changes:
        before, after = units.times([each.before_ns, each.after_ns])
        lines.append(
            f"{each.at[:10]}  {units.percent(each.change):>8}  {before} → {after}  "
            f"{commits(each)}  {sanitise(row_name(each.case, each.implementation))}  {machine(each.place)}"
        )
    said = dict.fromkeys(suspicion for each in changes if (suspicion := _suspicion(each, found)))
    total = units.count(len(changes), "change point") if changes else NEITHER
    return "\n".join([*lines, *said, f"{total} in {found.series:,} series over {found.years:.1f} years\n"])


def detected_json(changes: Sequence[Change], found: Detected) -> dict[str, Any]:
    """The same, raw."""
    return {
        "schema": DETECTED,
        "series": found.series,
        "years": found.years,
        "changes": [as_json(each, found) for each in changes],
    }


def as_json(change: Change, found: Detected) -> dict[str, Any]:
    """One change point, and what makes it suspicious."""
    return {**change.model_dump(by_alias=True), "suspicious": found.suspicious(change)}


def issue(changes: Sequence[Change], suspicions: Sequence[str], repository_url: str) -> tuple[str, str, str]:
    """Title, Markdown and hidden marker of the issue that tells of new change points.

    Args:
        changes: at least one.
        suspicions: of each; empty where there is none.
        repository_url: ``https://github.com/OWNER/NAME``; empty leaves commits unlinked.
    """
    slower = sum(each.slower for each in changes)
    counts = [f"{number} {word}" for number, word in ((slower, "slower"), (len(changes) - slower, "faster")) if number]
    title = f"evenbench: {units.count(len(changes), 'change point')} on main, {' and '.join(counts)}"
    mark = marker("change " + hashlib.sha256("\n".join(map(dump, changes)).encode()).hexdigest()[:16])
    ordered = sorted(changes, key=lambda each: -each.change)
    head = table(
        ("case", "before", "after", "change", "commits", "machine"), (":--", "--:", "--:", "--:", ":--", ":--")
    )
    said = "\n".join(f"- {plain(one)}" for one in dict.fromkeys(suspicions) if one)
    intro = (
        "Nightly times of main went to another level and stayed there. The change lies in the commits named: after the "
        "first, up to the second."
    )
    rows = tuple(_issue_row(each, repository_url) for each in ordered)
    parts = [f"{mark}\n{intro}", *([said] if said else [])]
    room = COMMENT_BUDGET - sum(len(part) + 2 for part in parts)
    parts += fit([Block(f"{head}\n", rows, "", 0, "change point")], room)
    return title, "\n\n".join(parts) + "\n", mark


def compare_url(change: Change, repository_url: str) -> str:
    """The page of the commits between; empty where there is none."""
    if not repository_url or not (change.good and change.bad) or change.good == change.bad:
        return ""
    return f"{repository_url}/compare/{change.good}...{change.bad}"


def commits(change: Change) -> str:
    """The commits between which it lies."""
    return f"{change.good[:SHORT]}..{change.bad[:SHORT]}"


def machine(place: SeriesKey) -> str:
    """Where a series was measured, in the words that tell it from others."""
    named = [sanitise(name) for name in (place.uuid, place.mig, place.cpu) if name]
    return " ".join(named) or "no GPU"


def stack(place: SeriesKey) -> str:
    """With what a series was measured."""
    named = (
        ("driver", place.driver),
        ("torch", place.torch),
        ("python", place.python),
        ("evenbench", place.harness),
        ("image", place.image),
    )
    told = [f"{name} {sanitise(value)}" for name, value in named if value]
    return " · ".join([*told, *(sanitise(each) for each in (place.timer, place.cache) if each)])


def _suspicion(change: Change, found: Detected) -> str:
    text = found.suspicious(change)
    return f"{change.at[:10]}, {machine(change.place)}: {text}" if text else ""


def _issue_row(change: Change, repository_url: str) -> str:
    before, after = units.times([change.before_ns, change.after_ns])
    name = change.case if change.implementation == MAIN else f"{change.case} · {change.implementation}"
    url = compare_url(change, repository_url)
    between = link(commits(change), url) if url else code(commits(change))
    where = cell(f"{change.device} {machine(change.place)}".strip())
    return row((code(name), before, after, units.percent(change.change), between, where))


def _heading(series: Series) -> list[str]:
    first, last = series.first, series.last
    implementation = "" if series.place.implementation == MAIN else f"{sanitise(series.place.implementation)} · "
    where = f"{implementation}{sanitise(series.place.device)} {machine(series.place)}".strip()
    runs = f"{units.count(len(series.points), 'run')}, {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return [where, stack(series.place), runs]


def _plot(points: Sequence[SeriesPoint], changes: Sequence[Change], width: int) -> list[str]:
    """One line of bars, as many runs a bar as it takes to fit, and a mark under each change point."""
    each = -(-len(points) // max(width - 2, 1))
    groups = [points[at : at + each] for at in range(0, len(points), each)]
    values = [sorted(point.ns for point in group)[len(group) // 2] for group in groups]
    low, high = min(values), max(values)
    span = max(high - low, low * FLAT)
    bars = "".join(BARS[min(int((value - low) / span * len(BARS)), len(BARS) - 1)] for value in values)
    runs = {one.run_id for one in changes}
    marks = "".join(CHANGE_MARK if any(point.run_id in runs for point in group) else " " for group in groups)
    least, most = units.times([low, high])
    return [f" {bars}", *([f" {marks.rstrip()}"] if marks.strip() else []), f" from {least} to {most}"]


def _changes(changes: Sequence[Change]) -> list[str]:
    lines = []
    for each in changes:
        before, after = units.times([each.before_ns, each.after_ns])
        lines.append(f" {each.at[:10]}  {units.percent(each.change):>8}  {before} → {after}  {commits(each)}")
    return [f"change points: {len(changes)}", *lines] if lines else [NEITHER]


def _runs(series: Series) -> list[str]:
    recent = series.points[-RECENT:]
    shown = units.times([point.ns for point in recent])
    return [
        f"last {units.count(len(recent), 'run')}:",
        *(
            f" {point.started:%Y-%m-%d %H:%M}  {point.commit[:SHORT]}  {time:>9}  "
            f"{' to '.join(units.times([point.low_ns, point.high_ns]))}"
            for point, time in zip(recent, shown, strict=True)
        ),
    ]
