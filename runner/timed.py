"""A case of a timed launch, both ways: what the launch is asked of it, and what it answers as records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .launch import Message
from .records import CaseEvent, Failure, Measurement, SideName, Skip


def target_of(case: CaseEvent, *, mirrored: bool, precision: float) -> Message:
    """What a launch is asked of a case: of the implementations that worked, the counts that all sides share.

    Args:
        mirrored: whether implementations come in the turned order.
        precision: at which sampling may stop early; 0 for never.
    """
    return {
        "id": case.id,
        "timeout_s": case.timeout_s,
        "timing": case.timer,
        "cache": case.cache,
        "mirrored": mirrored,
        "precision": precision,
        "implementations": {
            one.name: {
                "samples": one.samples,
                "warmup": one.warmup,
                "batch": one.batch,
                "check": one.check or "unchecked",
                "result": one.result,
            }
            for one in case.implementations
            if one.status == "ok"
        },
    }


def record_of(
    side: SideName, launch: int, message: Message, cases: Mapping[str, CaseEvent]
) -> Measurement | Failure | Skip:
    """A launch's message as a record, held against what was asked of it. Raises ValueError for anything else."""
    case = cases.get(str(message.get("case")))
    if case is None:
        raise ValueError("about a case that was not asked for")
    names = {one.name for one in case.implementations}
    if message.get("implementation", next(iter(names))) not in names:
        raise ValueError("about an implementation that was not asked for")
    if message["event"] == "measurement":
        inputs = (
            hashlib.sha256(str(message.get("inputs", "")).encode()).hexdigest()[:16] if message.get("inputs") else ""
        )
        record = Measurement.model_validate({**message, "launch": launch, "inputs": inputs})
        if record.timing != case.timer or record.cache != case.cache:
            raise ValueError("timed otherwise than it was prepared")
        return record
    fields: dict[str, Any] = {**message, "launch": launch, "side": side}
    if message["event"] == "failure":
        return Failure.model_validate(fields)
    if message["event"] == "skip":
        return Skip.model_validate(fields)
    raise ValueError(f"of unknown kind {message['event']!r}")
