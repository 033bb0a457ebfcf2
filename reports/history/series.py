"""What the history says: a case over time, and all cases at once.

A series is what may be compared night by night: one row on one GPU with one driver, or on one model of CPU, with one image,
torch, harness, timer, cache state and inputs. Where one of these changes another series begins, so no change of the machine
is taken for one of the code. Its runs are in the order of their commits.
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
    """What tells one series from another."""

    case: str
    implementation: str
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
    """The runs of a place in the order of their commits, and the name of its device.

    That order is known where all commits have a position; else it is that of the times when each was first measured.
    """

    place: SeriesKey
    device: str
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
    device: str
    runs: int
    last: datetime
    ns: float
    before_ns: float | None
    all_ns: Floats


PLACE: Sequence[str] = tuple(field.name for field in fields(SeriesKey))
_GROUP = ", ".join(f'"{name}"' for name in PLACE)


def rows_like(duck: DuckDBPyConnection, case: str) -> list[str]:
    """The cases of that id, or those whose id holds the text."""
    found = duck.execute(
        'SELECT DISTINCT "case" FROM runs WHERE "case" = $1 OR contains("case", $1) ORDER BY "case" = $1 DESC, "case"',
        [case],
    ).fetchall()
    names = [name for (name,) in found]
    return [case] if case in names else names


def series_of(duck: DuckDBPyConnection, case: str) -> list[Series]:
    """All series of a case, the one that was measured last at the end."""
    return _series(duck, 'WHERE "case" = ? AND ns > 0', [case])


def all_series(duck: DuckDBPyConnection) -> list[Series]:
    """The series of all cases, by case; those of one case as `series_of` has them."""
    return _series(duck, "WHERE ns > 0", [])


def overview(duck: DuckDBPyConnection) -> list[Glance]:
    """All rows, by case; of each the series that was measured last."""
    order = 'coalesce("position", 0), started'
    duck.execute(
        f"SELECT {_GROUP}, any_value(device) AS device, count(*) AS runs, max(started) AS last, "  # noqa: S608 - our own words
        f"arg_max(ns, ({order})) AS ns, "
        f"median(ns) FILTER (started BETWEEN newest - INTERVAL {2 * RECENT_DAYS} DAY AND newest - INTERVAL {RECENT_DAYS} DAY) "
        f"AS before, list(ns ORDER BY {order}) AS every FROM (SELECT *, max(started) OVER () AS newest FROM runs WHERE ns > 0) "
        f"GROUP BY {_GROUP} "
        'QUALIFY row_number() OVER (PARTITION BY "case", implementation ORDER BY max(started) DESC, uuid) = 1 '
        'ORDER BY "case", implementation'
    )
    found = duck.fetchnumpy()
    lasts = found["last"].astype("datetime64[us]").tolist()
    before = np.ma.filled(found["before"], np.nan).tolist()
    places = zip(*(found[name].tolist() for name in PLACE), strict=True)
    return [
        Glance(
            place=SeriesKey(*place),
            device=str(found["device"][n]),
            runs=int(found["runs"][n]),
            last=lasts[n].replace(tzinfo=UTC),
            ns=float(found["ns"][n]),
            before_ns=None if math.isnan(before[n]) else before[n],
            all_ns=np.asarray(found["every"][n], dtype=np.float64),
        )
        for n, place in enumerate(places)
    ]


def _series(duck: DuckDBPyConnection, where: str, values: Sequence[Any]) -> list[Series]:
    """The series, cut out of one table that is sorted by them: quicker than a list for each, which Python would build."""
    found = duck.execute(
        f"SELECT {_GROUP}, any_value(device), count(*) FROM runs {where} "  # noqa: S608 - our own words
        f'GROUP BY {_GROUP} ORDER BY "case", implementation, max(started), {_GROUP}',
        values,
    ).fetchall()
    duck.execute(
        f'SELECT started, run_id, "commit", ns, low_ns, high_ns FROM (SELECT *, max(started) OVER place AS last, '  # noqa: S608
        f'count("position") OVER place = count(*) OVER place AS known, '
        f'min(started) OVER (PARTITION BY {_GROUP}, "commit") AS met FROM runs {where} WINDOW place AS (PARTITION BY {_GROUP})) '
        f'ORDER BY "case", implementation, last, {_GROUP}, CASE WHEN known THEN "position" ELSE epoch_us(met) END, '
        "started, run_id",
        values,
    )
    columns = duck.fetchnumpy()
    columns["started"] = [each.replace(tzinfo=UTC) for each in columns["started"].astype("datetime64[us]").tolist()]
    rows = map(
        SeriesPoint._make,
        zip(*(column if isinstance(column, list) else column.tolist() for column in columns.values()), strict=True),
    )
    width = len(PLACE)
    return [Series(SeriesKey(*row[:width]), row[width], tuple(islice(rows, row[width + 1]))) for row in found]
