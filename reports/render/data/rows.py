"""`Comparison` and `Report` → what other tools take: CSV, rows of a table, github-action-benchmark's JSON. Pure.

docs/exchange.md tells the columns and their units. Numbers are those of the JSON report, under its names.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from ... import units
from ...rows.outcome import ComparedRow, Comparison, MeasuredRow, Report, row_name
from ...rows.times import Times
from ...text import sanitise
from .. import wording
from .json import as_json

Value: TypeAlias = str | float | int | bool | None

RUN: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("run_id", "started", "suite", "devices", "uuids", "drivers", "base_sha", "head_sha"), "VARCHAR")
)
TIMES: Mapping[str, str] = MappingProxyType(
    {
        "device_busy_ms": "DOUBLE",
        "p10_ms": "DOUBLE",
        "p90_ms": "DOUBLE",
        "latency_ms": "DOUBLE",
        "gap_ms": "DOUBLE",
        "uncounted_copy_ms": "DOUBLE",
        "n_kernels": "BIGINT",
        "tflops": "DOUBLE",
        "bandwidth_tbs": "DOUBLE",
        "share_of_ceiling": "DOUBLE",
        "samples": "BIGINT",
        "launches": "BIGINT",
    }
)
COMPARED: Mapping[str, str] = MappingProxyType(
    {
        **RUN,
        "case": "VARCHAR",
        "implementation": "VARCHAR",
        "verdict": "VARCHAR",
        "reason": "VARCHAR",
        "muted": "VARCHAR",
        "change": "DOUBLE",
        "interval_low": "DOUBLE",
        "interval_high": "DOUBLE",
        "resolvable": "DOUBLE",
        "p_slower": "DOUBLE",
        "p_faster": "DOUBLE",
        "p_equivalent": "DOUBLE",
        "min_effect": "DOUBLE",
        "rounds": "BIGINT",
        "planted": "DOUBLE",
        "confirmed": "BOOLEAN",
        "timing": "VARCHAR",
        "cache": "VARCHAR",
        "notes": "VARCHAR",
        **{f"base_{name}": kind for name, kind in TIMES.items()},
        **{f"head_{name}": kind for name, kind in TIMES.items()},
    }
)
MEASURED: Mapping[str, str] = MappingProxyType(
    {
        **RUN,
        "case": "VARCHAR",
        "implementation": "VARCHAR",
        "status": "VARCHAR",
        "reason": "VARCHAR",
        "ratio": "DOUBLE",
        "baseline": "BOOLEAN",
        "check": "VARCHAR",
        "timing": "VARCHAR",
        "cache": "VARCHAR",
        "notes": "VARCHAR",
        **TIMES,
    }
)
FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the start of one
NS_PER_US = 1_000


def columns(outcome: Comparison | Report) -> Mapping[str, str]:
    """The columns of `rows`, with their SQL types."""
    return COMPARED if isinstance(outcome, Comparison) else MEASURED


def rows(outcome: Comparison | Report) -> list[dict[str, Value]]:
    """A flat record for each row, None where there is nothing; foreign text is made visible."""
    found = as_json(outcome)
    about, facts = found["run"], found["facts"]
    shas = {f"{side['name']}_sha": side["sha"] or None for side in facts["sides"]}
    run = {name: about[name] for name in ("run_id", "started", "suite")}
    run |= {name: ", ".join(facts[name]) for name in ("devices", "uuids", "drivers")} | shas
    kept = columns(outcome)
    return [{name: _value(values.get(name)) for name in kept} for values in (run | _flat(row) for row in found["rows"])]


def as_csv(outcome: Comparison | Report) -> str:
    """The rows below a line with the names of their columns; empty where there is nothing.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, list(columns(outcome)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows(outcome))
    return file.getvalue()


def custom_smaller_is_better(outcome: Comparison | Report) -> str:
    """github-action-benchmark's JSON for its tool ``customSmallerIsBetter``: head's time of each row that has one."""
    found = [(row, row.times if isinstance(row, MeasuredRow) else row.head) for row in outcome.rows]
    written = [_benchmark(row, times) for row, times in found if times is not None]
    return json.dumps(written, indent=1, ensure_ascii=False) + "\n"


def _benchmark(row: ComparedRow | MeasuredRow, times: Times) -> dict[str, Value]:
    p10, p90 = (value / NS_PER_US for value in times.percentiles_ns)
    if isinstance(row, ComparedRow):
        told = [row.verdict, f"change {units.change(row.change, row.interval)}" if row.change is not None else ""]
        notes: Sequence[str] = wording.cells(row).notes
    else:
        told, notes = [row.status], wording.run_cells(row).notes
    return {
        "name": row_name(row.case, row.implementation),
        "unit": "µs",
        "value": times.ns / NS_PER_US,
        "range": f"{p10:.6g} to {p90:.6g}",
        "extra": "\n".join(sanitise(each) for each in (*told, *notes) if each),
    }


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row.get("interval") or (None, None)
    second = row.get("second_run") or {}
    flat = dict(row) | {"interval_low": low, "interval_high": high, "confirmed": second.get("confirmed")}
    flat["notes"] = "; ".join((*row["notes"], *row["warnings"]))
    flat |= row.get("times") or {}
    for side in ("base", "head"):
        flat |= {f"{side}_{name}": value for name, value in (row.get(side) or {}).items()}
    return flat


def _value(value: Value) -> Value:
    return (sanitise(value) or None) if isinstance(value, str) else value


def _harmless(value: Value) -> Value:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
