"""The preparation of one case: build, check, calibrate, fingerprint. Nothing of it is a sample.

What every later launch needs is settled here: which implementations work, the cost of one iteration, the batch of a
host timer, the checksums of inputs and result.
"""

from __future__ import annotations

import time
from typing import Any

from ...case import check
from ...case.declare import GridPoint
from ...errors import InputsChanged, MeasurementError, RuntimeFailure, WrongResult
from ...process.channel import Channel
from ...timing import host, protocol, select
from .bench import Call, NotMeasured, Opened, Runnable, classified, one_line, open_case
from .instruments import Instruments

NO_HURRY_NS = 10**15  # a trial of three iterations needs no deadline of its own: the warm parent has one
RESULT_UNSTABLE = ""  # the checksum recorded for a result that differs from call to call


def prepare_case(
    point: GridPoint, target: dict[str, Any], device: str, instruments: Instruments, channel: Channel
) -> None:
    """Prepare one case and send its `case` message."""
    message: dict[str, Any] = {"event": "case", "id": point.id, "device": device, "cache": target["cache"]}
    try:
        opened = open_case(point, device)
        _send_texts(opened, channel)
        timer, fallback = select.choose_timer(
            target["timer"], device, target["allow_fallback"], probe=instruments.refuse_unproven
        )
        message |= {"timer": timer, "fallback": fallback or ""}
        _prove_cold(opened, timer, target, instruments)
        message |= _fingerprint(opened)
        message["implementations"] = _prepare_implementations(opened, timer, target, instruments)
        message |= _verdict(message["implementations"], opened.bench.baseline)
    except NotMeasured as reason:
        message |= {"status": "skipped", "reason": str(reason)}
    except MeasurementError as error:
        message |= {"status": _status(error), "kind": error.kind, "reason": one_line(error)}
    channel.send(message)


def give_texts(
    point: GridPoint, target: dict[str, Any], device: str, _instruments: Instruments, channel: Channel
) -> None:
    """Send the texts that a case generates, and its `case` message: nothing of it is made, called or timed."""
    message: dict[str, Any] = {"event": "case", "id": point.id, "device": device, "cache": target["cache"]}
    try:
        _send_texts(open_case(point, device), channel)
        message["status"] = "ok"
    except NotMeasured as reason:
        message |= {"status": "skipped", "reason": str(reason)}
    except MeasurementError as error:
        message |= {"status": "failed", "kind": error.kind, "reason": one_line(error)}
    channel.send(message)


def _send_texts(opened: Opened, channel: Channel) -> None:
    """What the case generated, before anything of it can fail to compile."""
    for name, text in opened.bench.artifacts.items():
        channel.send({"event": "artifact", "case": opened.point.id, "name": name, "text": text})


def _prove_cold(opened: Opened, timer: str, target: dict[str, Any], instruments: Instruments) -> None:
    """Show that the cache step empties the cache, once a launch, with the timer of its first case."""
    try:
        instruments.cache_step(target["cache"], opened.device).prove(instruments.timer(timer, 1))
    except Exception as error:
        raise classified(error, RuntimeFailure) from error


def _fingerprint(opened: Opened) -> dict[str, Any]:
    bench = opened.bench
    work = bench.work
    return {
        "inputs": check.describe(bench.inputs),
        "inputs_checksum": opened.inputs_checksum(),
        "baseline": bench.baseline,
        "work": None
        if work is None
        else {
            "dtype": work.dtype,
            "flops": work.flops,
            "bytes_read": work.bytes_read,
            "bytes_written": work.bytes_written,
            "matrix": work.matrix,
        },
    }


def _prepare_implementations(
    opened: Opened, timer: str, target: dict[str, Any], instruments: Instruments
) -> list[dict[str, Any]]:
    """All implementations. After one that changed the shared inputs the case is built anew for the next."""
    inputs, reference = opened.inputs_checksum(), opened.reference()
    opened.refuse_borrowed_reference(reference)
    found = []
    for name in opened.names:
        if opened.inputs_checksum() != inputs:
            opened = open_case(opened.point, opened.device)
            inputs, reference = opened.inputs_checksum(), opened.reference()
        found.append(_prepare_implementation(opened, name, reference, inputs, timer, target, instruments))
    return found


def _prepare_implementation(
    opened: Opened,
    name: str,
    reference: Any,
    inputs: str,
    timer_name: str,
    target: dict[str, Any],
    instruments: Instruments,
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "status": "ok"}
    try:
        runnable = opened.make(name)
        opened.refuse_changed_inputs(inputs, f"making {name}")
        opened.checked_call(runnable, reference, inputs)
        first, finite = check.checksum(runnable.result), check.is_finite(runnable.result)
        found |= _calibrate(opened, runnable, timer_name, target, instruments)
        opened.checked_call(runnable, reference, inputs)
        again = check.checksum(runnable.result)
        if first != again and not runnable.resets:
            became_infinite = finite and not check.is_finite(runnable.result)
            found["result_change"] = "not-finite" if became_infinite else "differs"
        found["check"] = "passed" if opened.bench.reference is not None else "unchecked"
        found["result"] = first if first == again else RESULT_UNSTABLE
    except NotMeasured as reason:
        found |= {"status": "skipped", "reason": str(reason)}
    except MeasurementError as error:
        found |= {"status": _status(error), "kind": error.kind, "reason": one_line(error)}
    return found


def _calibrate(
    opened: Opened, runnable: Runnable, timer_name: str, target: dict[str, Any], instruments: Instruments
) -> dict[str, Any]:
    """The cost of one iteration and the host timer's batch; runs the timer once as the launches will."""
    bench = opened.bench
    sweep = instruments.cache_step(target["cache"], opened.device)

    def before() -> None:
        runnable.restore()
        sweep()

    try:
        sweep.settle()
        return _cost(timer_name, before, runnable, instruments, count_copies=bench.count_copies)
    except Exception as error:
        raise classified(error, RuntimeFailure) from error


def _cost(
    timer_name: str, before: Call, runnable: Runnable, instruments: Instruments, *, count_copies: bool
) -> dict[str, Any]:
    batch = 1
    if timer_name == "host" and not runnable.resets:  # a batch has one reset, and each of its calls would need one
        cost = protocol.call_cost(instruments.timer("host", 1), runnable.call)
        batch = protocol.host_batch(cost, host.clock_resolution_ns())
    timer = instruments.timer(timer_name, batch)
    cost = protocol.calibrate(timer, before, runnable.call, count_copies=count_copies)
    trial = protocol.Counts(warmup=1, samples=protocol.CALIBRATION_ITERATIONS)
    clock = time.perf_counter_ns
    protocol.measure(
        timer, before, runnable.call, trial, deadline_ns=clock() + NO_HURRY_NS, clock=clock, count_copies=count_copies
    )
    return {"cost_ns": cost, "batch": batch}


def _status(error: MeasurementError) -> str:
    return "wrong" if isinstance(error, WrongResult | InputsChanged) else "failed"


def _verdict(implementations: list[dict[str, Any]], baseline: str | None) -> dict[str, Any]:
    """A case fails with its baseline, or with its only implementation."""
    decisive = next((found for found in implementations if baseline in (None, found["name"])), None)
    if decisive is None or decisive["status"] == "ok":
        return {"status": "ok"}
    return {key: decisive[key] for key in ("status", "kind", "reason") if key in decisive}
