"""What the history says: a case over time, and all cases at once.

A series is what may be compared night by night: one row on one GPU with one driver, or timed by the host's clock on one
model of CPU with one Python, with one image, torch, harness, timer, cache state and inputs. Where one of these changes
another series begins, so no change of the machine is taken for one of the code. Its runs are in the order of their commits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .change_points import Floats

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RECENT_DAYS = 30  # over which an overview tells a change; the median of as many days before is what it is held against


@dataclass(frozen=True)
class SeriesKey:
    """What distinguishes one series from another. `cpu` and `python` are empty where the host's clock is not the timer."""

    case: str
    implementation: str
    device: str
    uuid: str
    mig: str
    driver: str
    image: str
    torch: str
    harness: str
    timer: str
    cache: str
    inputs: str
    cpu: str = ""
    python: str = ""

    @property
    def machine(self) -> str:
        """UUID of the GPU, else the model of the CPU; empty where neither is known."""
        return self.uuid or self.cpu

    @property
    def row(self) -> tuple[str, str]:
        """Case and implementation."""
        return self.case, self.implementation


class SeriesPoint(NamedTuple):
    """One run of a series: when (UTC), what, its time with the quartiles of its launches, in ns."""

    started: datetime
    run_id: str
    commit: str
    ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class Series:
    """The runs of a place in the order of their commits. A commit that git did not know comes when it was measured."""

    place: SeriesKey
    points: tuple[SeriesPoint, ...]

    @property
    def first(self) -> datetime:
        """When the first run started."""
        return min(point.started for point in self.points)

    @property
    def last(self) -> datetime:
        """When the last run started."""
        return max(point.started for point in self.points)

    @property
    def drawn(self) -> list[tuple[datetime, SeriesPoint]]:
        """The runs with the time at which a chart shows each: an older commit that was measured later, before the next."""
        placed = []
        at = self.last
        for point in reversed(self.points):
            at = min(at, point.started)
            placed.append((at, point))
        return placed[::-1]


class Glance(NamedTuple):
    """A row's newest series at a glance: its last run, and its time then, `RECENT_DAYS` before, and in all runs (ns)."""

    place: SeriesKey
    runs: int
    last: datetime
    ns: float
    before_ns: float | None
    all_ns: Floats


PLACE: Sequence[str] = tuple(field.name for field in fields(SeriesKey))
_GROUP = ", ".join(f'"{name}"' for name in PLACE)
_TIMED = (  # what has a number, with its rank; the case stays a plain column, by which the index is sorted
    "(SELECT * REPLACE (CASE WHEN timer = 'host' THEN python ELSE '' END AS python) "
    'FROM runs JOIN ranks USING (run_id, side, started, "commit") WHERE ns > 0)'
)


def rows_like(duck: DuckDBPyConnection, case: str) -> list[str]:
    """The cases of that id, or those whose id holds the text."""
    found = duck.execute(
        'SELECT DISTINCT "case" FROM runs WHERE "case" = $1 OR contains("case", $1) ORDER BY "case" = $1 DESC, "case"',
        [case],
    ).fetchall()
    names = [name for (name,) in found]
    return [case] if case in names else names


def series_of(duck: DuckDBPyConnection, case: str) -> list[Series]:
    """All series of a case, the one with the newest commit at the end."""
    return _series(duck, 'WHERE "case" = ?', [case])


def all_series(duck: DuckDBPyConnection) -> list[Series]:
    """The series of all cases, by case; those of one case as `series_of` has them."""
    return _series(duck, "", [])


def overview(duck: DuckDBPyConnection) -> list[Glance]:
    """All rows, by case; of each the series that has the newest commit."""
    _rank(duck)
    duck.execute(
        f"SELECT {_GROUP}, count(*) AS runs, arg_max(started, rank) AS last, arg_max(ns, rank) AS ns, "  # noqa: S608 - our own words
        f"median(ns) FILTER (started BETWEEN newest - INTERVAL {2 * RECENT_DAYS} DAY AND newest - INTERVAL {RECENT_DAYS} DAY) "
        f"AS before, list(ns ORDER BY rank) AS every FROM (SELECT *, max(started) OVER () AS newest FROM {_TIMED}) "
        f"GROUP BY {_GROUP} "
        'QUALIFY row_number() OVER (PARTITION BY "case", implementation ORDER BY max(rank) DESC) = 1 '
        'ORDER BY "case", implementation'
    )
    columns = duck.fetchnumpy()
    lasts = columns["last"].astype("datetime64[us]").tolist()
    before = np.ma.filled(columns["before"], np.nan).tolist()
    places = zip(*(columns[name].tolist() for name in PLACE), strict=True)
    return [
        Glance(
            place=SeriesKey(*place),
            runs=int(columns["runs"][n]),
            last=lasts[n].replace(tzinfo=UTC),
            ns=float(columns["ns"][n]),
            before_ns=None if math.isnan(before[n]) else before[n],
            all_ns=np.asarray(columns["every"][n], dtype=np.float64),
        )
        for n, place in enumerate(places)
    ]


def _rank(duck: DuckDBPyConnection) -> None:
    """Make the table `ranks`, once: where each run is in the order of the commits.

    A commit whose position is not known was the newest of its time: it comes after all that had been measured by then.
    Runs of one commit are together.
    """
    duck.execute(
        """
        CREATE TEMP TABLE IF NOT EXISTS ranks AS
        WITH single AS (
            SELECT run_id, side, started, "commit", max("position") AS stored FROM runs WHERE ns > 0 GROUP BY ALL
        ), known AS (
            SELECT single.*, coalesce(max(stored) OVER same, positions."position") AS "position", min(started) OVER same AS met
            FROM single LEFT JOIN positions ON single."commit" = positions."commit"
            WINDOW same AS (PARTITION BY single."commit")
        ), placed AS (
            SELECT *, coalesce("position", max("position") OVER (ORDER BY met RANGE UNBOUNDED PRECEDING), -1) AS "after" FROM known
        )
        SELECT run_id, side, started, "commit", row_number() OVER (
            ORDER BY "after", "position" IS NULL, met, "commit", started, run_id, side
        ) AS rank FROM placed
        """
    )


def _series(duck: DuckDBPyConnection, where: str, values: Sequence[Any]) -> list[Series]:
    """The series, cut out of one table that is sorted by them: quicker than a list for each, which Python would build."""
    _rank(duck)
    groups = duck.execute(
        f"SELECT {_GROUP}, count(*) FROM {_TIMED} {where} "  # noqa: S608 - our own words
        f'GROUP BY {_GROUP} ORDER BY "case", implementation, max(rank), {_GROUP}',
        values,
    ).fetchall()
    duck.execute(
        f'SELECT started, run_id, "commit", ns, low_ns, high_ns FROM (SELECT *, max(rank) OVER (PARTITION BY {_GROUP}) AS last '  # noqa: S608
        f'FROM {_TIMED} {where}) ORDER BY "case", implementation, last, {_GROUP}, rank',
        values,
    )
    columns = duck.fetchnumpy()
    columns["started"] = [at.replace(tzinfo=UTC) for at in columns["started"].astype("datetime64[us]").tolist()]
    lists = [column if isinstance(column, list) else column.tolist() for column in columns.values()]
    points = map(SeriesPoint._make, zip(*lists, strict=True))
    return [Series(SeriesKey(*place), tuple(islice(points, runs))) for *place, runs in groups]
