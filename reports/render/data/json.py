"""`Comparison` and `Report` → JSON with a schema version. Numbers are raw, under their published names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...compare.known_truth import kind_of, planted_change
from ...load.proofs import ProofHistory
from ...rows.outcome import ComparedRow, Comparison, Facts, MeasuredRow, Report, SecondRun
from ...rows.times import Times
from ...statistics.failures import Failures
from .. import wording

COMPARISON_SCHEMA = "evenbench.comparison/1.0"
REPORT_SCHEMA = "evenbench.report/1.0"
NS_PER_MS = 1e6


def as_json(outcome: Comparison | Report) -> dict[str, Any]:
    """All of a comparison or report as plain data: times in ms, changes and shares as fractions, None where missing."""
    artifacts = [artifact.model_dump(mode="json", exclude={"event"}) for artifact in outcome.artifacts]
    expectations = [asdict(each) for each in outcome.expectations]
    if isinstance(outcome, Report):
        rows = [_measured_row(row) for row in outcome.rows]
        return _common(REPORT_SCHEMA, outcome) | {"artifacts": artifacts, "expectations": expectations, "rows": rows}
    return _common(COMPARISON_SCHEMA, outcome) | {
        "kind": kind_of(outcome),
        "planted": _planted(outcome),
        "history": _history(outcome.history),
        "second_runs": [{"run": _run(second), "facts": _facts(second)} for second in outcome.seconds],
        "unreliable": outcome.unreliable,
        "muted": outcome.muted,
        "geometric_mean": None if outcome.mean is None else asdict(outcome.mean),
        "shuffled_labels": None if outcome.shuffled is None else asdict(outcome.shuffled),
        "control": None if outcome.control is None else asdict(outcome.control),
        "artifacts": artifacts,
        "expectations": expectations,
        "rows": [_compared_row(row) for row in outcome.rows],
    }


def _common(schema: str, outcome: Comparison | Report) -> dict[str, Any]:
    return {
        "schema": schema,
        "headline": wording.title(outcome),
        "counts": dict(outcome.counts),
        "run": _run(outcome.facts),
        "facts": _facts(outcome.facts),
    }


def _run(facts: Facts) -> dict[str, Any]:
    return facts.header.model_dump(by_alias=True, mode="json", exclude={"event"})


def _facts(facts: Facts) -> dict[str, Any]:
    return {
        "sides": [asdict(side) for side in facts.sides],
        "devices": facts.devices,
        "uuids": facts.uuids,
        "drivers": facts.drivers,
        "timing": facts.timers,
        "cache": facts.caches,
        "rounds": facts.rounds,
        "preparation_s": facts.preparation_s,
        "measuring_s": facts.measuring_s,
        "partial": facts.partial,
        "missing_shards": facts.missing,
        "paired": facts.paired,
        "notes": facts.notes,
    }


def _planted(comparison: Comparison) -> dict[str, Any] | None:
    found = planted_change(comparison)
    if found is None:
        return None
    return {"asked": found.asked, "cases": found.cases, "fraction": found.fraction, "found": found.found}


def _history(history: ProofHistory | None) -> dict[str, Any] | None:
    if history is None:
        return None
    sides = {
        kind: {"rows": rows, "flagged": flagged}
        for kind, (rows, flagged) in (("aa", history.aa), ("control", history.control))
    }
    planted = [
        {"fraction": fraction, "found": found, "runs": runs} for fraction, (found, runs) in history.planted.items()
    ]
    return {"nights": history.nights, **sides, "planted": planted}


def _compared_row(row: ComparedRow) -> dict[str, Any]:
    kept = (
        "case",
        "implementation",
        "family",
        "verdict",
        "reason",
        "change",
        "interval",
        "resolvable",
        "p_slower",
        "p_faster",
    )
    more = ("p_equivalent", "min_effect", "rounds", "timing", "cache", "notes", "warnings", "muted", "planted")
    sides = {"base": _times(row.base), "head": _times(row.head)}
    failed = {"broken_by_head": row.broken, "failed_launches": _failures(row.failures)}
    return {name: getattr(row, name) for name in (*kept, *more)} | failed | {"second_run": _second(row.second)} | sides


def _failures(found: Failures | None) -> dict[str, dict[str, int]] | None:
    if found is None:
        return None
    return {
        "base": {"failed": found.base, "launches": found.base_launches},
        "head": {"failed": found.head, "launches": found.head_launches},
    }


def _second(found: SecondRun | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found) | {"confirmed": found.confirmed, "cleared": found.cleared}


def _measured_row(row: MeasuredRow) -> dict[str, Any]:
    kept = (
        "case",
        "implementation",
        "family",
        "status",
        "reason",
        "ratio",
        "baseline",
        "check",
        "timing",
        "cache",
        "notes",
        "warnings",
    )
    return {name: getattr(row, name) for name in kept} | {"times": _times(row.times)}


def _times(times: Times | None) -> dict[str, Any] | None:
    if times is None:
        return None
    p10_ns, p90_ns = times.percentiles_ns
    gap = None if times.latency_ns is None else max(0.0, times.latency_ns - times.ns)
    return {
        "device_busy_ms": times.ns / NS_PER_MS,
        "p10_ms": p10_ns / NS_PER_MS,
        "p90_ms": p90_ns / NS_PER_MS,
        "latency_ms": _ms(times.latency_ns),
        "gap_ms": _ms(gap),
        "uncounted_copy_ms": _ms(times.uncounted_copy_ns),
        "n_kernels": times.n_kernels,
        "tflops": times.tflops,
        "bandwidth_tbs": times.bandwidth_tbs,
        "share_of_ceiling": times.share,
        "samples": times.samples,
        "launches": times.launches,
    }


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / NS_PER_MS
