"""The measurement of one case in one timed launch: warm up, sample, check the last result."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Any

from ...case import check
from ...case.declare import GridPoint
from ...errors import InputsChanged, MeasurementError, RuntimeFailure, WrongResult
from ...process.channel import Channel
from ...timing import protocol
from ...timing.no_gc import no_collection
from ...words import count
from . import plant
from .bench import Call, NotMeasured, Opened, Runnable, classified, one_line, open_case
from .instruments import Instruments

DEADLINE_SHARE = 0.8  # sampling stops at this share of a case's deadline, so that what was measured is reported
NS = 1_000_000_000
STOPS = ("timeout", "precision")  # of several segments the gravest reason counts; else all ended by count


def measure_case(
    point: GridPoint, target: dict[str, Any], device: str, instruments: Instruments, channel: Channel
) -> None:
    """Measure all implementations of one case, and send a `measurement` or `failure` for each."""
    deadline = time.perf_counter_ns() + int(target["timeout_s"] * DEADLINE_SHARE * NS)
    try:
        opened = open_case(point, device)
    except NotMeasured as reason:
        channel.send({"event": "skip", "case": point.id, "reason": str(reason)})
        return
    inputs = opened.inputs_checksum()
    made: dict[str, Runnable] = {}
    for name in target["implementations"]:
        try:
            made[name] = opened.make(name)
        except (NotMeasured, MeasurementError) as error:
            channel.send(_failure(point.id, name, error))
    gc.collect()
    with no_collection():
        _measure_all(opened, made, target, deadline, inputs, instruments, channel)


def _measure_all(
    opened: Opened,
    made: Mapping[str, Runnable],
    target: dict[str, Any],
    deadline: int,
    inputs: str,
    instruments: Instruments,
    channel: Channel,
) -> None:
    """All segments in their mirrored order; an implementation is reported after its last one."""
    segments = protocol.split_for_implementations(_counts(target, made), target["mirrored"])
    measured: dict[str, list[protocol.Measured]] = {name: [] for name in made}
    walls = dict.fromkeys(made, 0)
    failed: set[str] = set()
    spoilt = _changed(opened, inputs, "making the implementations") if len(made) > 1 else None
    instruments.announce_first_sample(channel)
    for name, counts in segments:
        if name in failed:
            continue
        parts = measured[name]
        began = time.perf_counter_ns()
        try:
            if spoilt:  # by another implementation: what comes after it would not be measured on the same inputs
                raise spoilt
            parts.append(_segment(opened, made[name], counts, target, deadline, instruments))
            walls[name] += time.perf_counter_ns() - began
            if spoilt := _changed(opened, inputs, f"implementation {name}" if len(made) > 1 else "the call"):
                raise spoilt
            if len(parts) == _segments_of(segments, name):
                _check(opened, made[name], target["implementations"][name])
                record = _measurement(opened.point, target, name, parts, instruments)
                channel.send(record | {"inputs": inputs, "wall_ns": walls[name]})
        except MeasurementError as error:
            failed.add(name)
            channel.send(_failure(opened.point.id, name, error))


def _changed(opened: Opened, inputs: str, who: str) -> InputsChanged | None:
    """The error that says who changed the shared inputs; None while nobody has."""
    try:
        opened.refuse_changed_inputs(inputs, who)
    except InputsChanged as error:
        return error
    return None


def _counts(target: Mapping[str, Any], made: Mapping[str, Runnable]) -> dict[str, protocol.Counts]:
    """The counts of each implementation, as they were fixed for all sides."""
    plans = target["implementations"]
    return {name: protocol.Counts(plans[name]["warmup"], plans[name]["samples"]) for name in made}


def _segments_of(segments: list[tuple[str, protocol.Counts]], name: str) -> int:
    return sum(1 for other, _ in segments if other == name)


def _segment(
    opened: Opened,
    runnable: Runnable,
    counts: protocol.Counts,
    target: dict[str, Any],
    deadline: int,
    instruments: Instruments,
) -> protocol.Measured:
    sweep = instruments.cache_step(target["cache"], opened.device)

    def before() -> None:
        runnable.restore()
        sweep()

    timer = instruments.timer(target["timing"], target["implementations"][runnable.name]["batch"])

    def timed(call: Call, counts: protocol.Counts) -> protocol.Measured:
        return protocol.measure(
            timer,
            before,
            call,
            counts,
            deadline_ns=deadline,
            clock=time.perf_counter_ns,
            count_copies=opened.bench.count_copies,
            precision=target["precision"],
        )

    def trial(call: Call) -> protocol.Segment:
        return timed(call, protocol.Counts(counts.warmup, plant.TRIAL_SAMPLES)).segment

    call, planted = runnable.call, target.get("plant")
    try:
        sweep.settle()
        if planted:
            call = plant.slowed(call, planted, opened.device, trial)
        check.poison(opened.bench.outputs)  # else what another implementation wrote could pass for this one's
        return timed(call, counts)
    except Exception as error:
        raise classified(error, RuntimeFailure) from error


def _check(opened: Opened, runnable: Runnable, plan: Mapping[str, Any]) -> None:
    """Hold the last timed result against the checked one: by checksum, or by value where results vary."""
    if missed := check.unwritten(opened.bench.outputs):
        raise WrongResult(f"outputs left (partly) unwritten by the timed calls: {', '.join(missed)}")
    if plan["result"] and check.checksum(runnable.result) == plan["result"]:
        return
    if opened.bench.reference is not None:
        case = opened.point.case
        try:
            check.check_result(runnable.result, opened.reference(), case.rtol, case.atol)
        except WrongResult as error:
            raise WrongResult(f"the result of the last sample is wrong: {error.message}", error.hint) from None


def _measurement(
    point: GridPoint,
    target: dict[str, Any],
    name: str,
    parts: list[protocol.Measured],
    instruments: Instruments,
) -> dict[str, Any]:
    segment = protocol.merge([part.segment for part in parts])
    timer = instruments.timer(target["timing"], target["implementations"][name]["batch"])
    return {
        "event": "measurement",
        "case": point.id,
        "implementation": name,
        "timing": target["timing"],
        "device_busy_ns": segment.device_busy_ns,
        "latency_ns": segment.latency_ns,
        "n_kernels": segment.n_kernels,
        "uncounted_copy_ns": segment.uncounted_copy_ns if any(segment.uncounted_copy_ns) else [],
        "kernels": segment.kernels,
        "tick_ns": timer.tick_ns,
        "batch": segment.batch,
        "cache": target["cache"],
        "stop": next((stop for stop in STOPS if any(part.stop == stop for part in parts)), "count"),
        "coarse": any(part.coarse for part in parts),
        "rejected": [{"index": index, "reason": reason} for index, reason in segment.rejected],
        "retries": [
            f"{count(r.lost, 'record')} lost, buffer of {r.buffer_bytes} bytes" for part in parts for r in part.retries
        ],
        "check": target["implementations"][name]["check"],
        "source": point.case.source_hash,
    }


def _failure(case: str, name: str, error: Exception) -> dict[str, Any]:
    return {
        "event": "failure",
        "case": case,
        "implementation": name,
        "kind": getattr(error, "kind", "setup"),
        "error": one_line(error),
    }
