"""`Results` → what the history keeps of a run: one row for each case and implementation of one side. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from types import MappingProxyType
from typing import Any

import numpy as np

from evenbench.runner.errors import NothingMeasured, UntrustedInput, UsageError
from evenbench.runner.records import SideInfo, SideName

from ..load.proofs import moment
from ..load.results import Results
from ..rows.outcome import distinct
from ..rows.side_row import Key, SideRow, SideRows, times
from ..statistics.location import grouped_medians

NAME, MAJOR, MINOR = "evenbench.history", 1, 2
SCHEMA = f"{NAME}/{MAJOR}.{MINOR}"
QUARTILES = (0.25, 0.75)

# The columns of a file, in order, with DuckDB's types. A minor version may add some, never change one; they are `NEWER`.
COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "schema": "VARCHAR",
        "run_id": "VARCHAR",
        "started": "TIMESTAMP",  # UTC
        "side": "VARCHAR",
        "commit": "VARCHAR",
        "suite": "VARCHAR",
        "harness": "VARCHAR",
        "harness_sha": "VARCHAR",
        "image": "VARCHAR",
        "device": "VARCHAR",
        "mig": "VARCHAR",
        "uuid": "VARCHAR",
        "driver": "VARCHAR",
        "torch": "VARCHAR",
        "python": "VARCHAR",
        "case": "VARCHAR",
        "implementation": "VARCHAR",
        "status": "VARCHAR",
        "reason": "VARCHAR",
        "timer": "VARCHAR",
        "cache": "VARCHAR",
        "tick_ns": "BIGINT",
        "ns": "DOUBLE",  # median of `launches_ns`; null where there is no number
        "low_ns": "DOUBLE",  # quartiles of `launches_ns`
        "high_ns": "DOUBLE",
        "launches_ns": "DOUBLE[]",  # location of each launch, in the order of the rounds
        "latency_ns": "DOUBLE",
        "n_kernels": "BIGINT",
        "dtype": "VARCHAR",
        "flops": "BIGINT",
        "bytes_read": "BIGINT",
        "bytes_written": "BIGINT",
        "inputs": "VARCHAR",
        "source": "VARCHAR",
        "cost_ns": "DOUBLE",  # what the row takes of a launch
        "cpu": "VARCHAR",  # model of the CPU, of a row that the host's clock timed
        "position": "BIGINT",  # of the commit on its branch, counted from the first one; null where not known
    }
)

NEWER: Sequence[str] = ("cost_ns", "cpu", "position")  # older files lack them


@dataclass(frozen=True)
class RunRows:
    """One run as the history keeps it.

    Attributes:
        run_id, started, side: which run, when it started (UTC), which side of it.
        commit: that was measured.
        machine: UUID of its GPU; empty without one; several are joined.
        rows: by the names of `COLUMNS`; JSON.
    """

    run_id: str
    started: datetime
    side: SideName
    commit: str
    machine: str
    rows: tuple[Mapping[str, Any], ...]


def rows_of(results: Results, side: SideName, position: int | None = None) -> RunRows:
    """What a run says of one of its sides.

    Args:
        position: of the side's commit on its branch; None where not known.

    Raises:
        UsageError: the run has no such side, is not complete, or what it measured is no commit of the project.
        NothingMeasured: that side has no number.
        UntrustedInput: the header's time is none.
    """
    info, started = _commit_of(results, side), moment(results.header.started)
    if started is None:
        raise UntrustedInput("started: must be a time with its zone, in ISO 8601")
    sides = SideRows(results)
    keys = sides.keys((side,))
    found = [sides.row(side, key).alone() for key in keys]
    if not any(row.placed for row in found):
        raise NothingMeasured(f"{side} has no number", "the report says why, row by row")
    run = {**_stack(results, info, started), "position": position}
    taken = costs(results)
    rows = []
    for key, row in zip(keys, found, strict=True):
        if row.status != "absent":
            case, implementation = key
            named = {"case": case, "implementation": implementation, "cost_ns": taken.get(key)}
            rows.append({**run, **named, **_measured(row)})
    return RunRows(
        run_id=results.header.run_id,
        started=started,
        side=side,
        commit=info.sha,
        machine=_joined(each.uuid for row in found for each in row.common),
        rows=tuple(rows),
    )


def _commit_of(results: Results, side: SideName) -> SideInfo:
    """The commit of a side. Raises UsageError where the side is not a commit, or was slowed on purpose."""
    header = results.header
    info = next((info for info in header.sides if info.name == side), None)
    if info is None:
        raise UsageError(f"the run has no side {side}", f"it has {', '.join(info.name for info in header.sides)}")
    if not results.complete:
        raise UsageError("the run is not complete, so it would stand in the history for ever", "; ".join(results.notes))
    if header.confirms:
        raise UsageError("a second run of rows that regressed is no sample of them: they were chosen")
    if header.plant is not None and side == "head":
        raise UsageError("its head was slowed on purpose", "--side base, or leave --side out to keep its proof alone")
    if not info.sha or info.dirty or any(end.changed for end in results.ends):
        raise UsageError(
            f"{side} is no commit, or was edited; a history is one of commits", "measure a ref, or name --head-sha"
        )
    return info


def _stack(results: Results, info: SideInfo, started: datetime) -> dict[str, Any]:
    """What all rows of a run share."""
    header, prepared = results.header, results.prepared.get(info.name, ())
    return {
        "schema": SCHEMA,
        "run_id": header.run_id,
        "started": started.replace(tzinfo=None).isoformat(),
        "side": info.name,
        "commit": info.sha,
        "suite": header.suite,
        "harness": header.harness.version,
        "harness_sha": header.harness.sha,
        "image": header.image,
        "torch": _joined(event.torch for event in prepared),
        "python": _joined(event.python for event in prepared),
    }


def _measured(row: SideRow) -> dict[str, Any]:
    """What is known of a row alone."""
    found = times(row)
    work = row.case.work if row.case is not None else None
    known: dict[str, Any] = {
        name: _joined(getattr(each, name) for each in row.common) for name in ("device", "mig", "uuid", "cache")
    }
    known |= {
        "driver": _joined(each.launch.driver for each in row.placed),
        "cpu": _joined(each.launch.cpu for each in row.placed if each.record.timing == "host"),
        "status": row.status if found is not None or row.status != "ok" else "failed",
        "reason": row.reason,
        "timer": _joined(each.timing for each in row.common),
        "inputs": _joined(each.inputs for each in row.common),
        "source": row.case.source if row.case is not None else "",
        "dtype": work.dtype if work else None,
        "flops": work.flops if work else None,
        "bytes_read": work.bytes_read if work else None,
        "bytes_written": work.bytes_written if work else None,
    }
    if found is not None:
        ticks = [record.tick_ns for record in found.records]
        located = grouped_medians([record.device_busy_ns for record in found.records], ticks)
        known |= {
            "tick_ns": max((tick for tick in ticks if tick), default=None),
            "ns": found.ns,
            **dict(zip(("low_ns", "high_ns"), np.quantile(located, QUARTILES).tolist(), strict=True)),
            "launches_ns": located.tolist(),
            "latency_ns": found.latency_ns,
            "n_kernels": found.n_kernels,
        }
    return known


def _joined(values: Any) -> str:
    return ", ".join(distinct(values))


def costs(results: Results) -> dict[Key, float]:
    """What each row takes of a launch in ns, the median over launches: its own time and an even part of what is left.

    What is left of a launch is its start, and the set-up and checks of its cases.
    """
    launches: dict[int, list[tuple[Key, int]]] = {}
    for key, placed in results.measurements.items():
        for launch, record in placed:
            launches.setdefault(id(launch), []).append((key, record.wall_ns))
    walls = {id(each.event): each.end.wall_ns for each in results.launches if each.end is not None}
    rows: dict[Key, list[float]] = {}
    for launch_id, measured in launches.items():
        rest = max(0, walls.get(launch_id, 0) - sum(wall for _, wall in measured)) / len(measured)
        for key, wall in measured:
            rows.setdefault(key, []).append(wall + rest)
    return {key: median(taken) for key, taken in rows.items()}


def of_cases(rows: Mapping[Key, float]) -> dict[str, float]:
    """The sum over the implementations of each case."""
    found: dict[str, float] = {}
    for (case, _), taken in rows.items():
        found[case] = found.get(case, 0.0) + taken
    return found
