"""From chosen cases to the counts that every later launch uses: a launch of each side builds, checks and times them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import RunSettings
from ..launchers.launcher import Message
from ..plan.selection import TEXT_KEPT, Crew, DiscoveredCase, SideCases, job_of
from ..records import CaseEvent, ImplementationRecord, SideName
from ..timing import protocol
from .attempts import LaunchLoss, LaunchRecorder, LaunchSpec, Progress, run_targets

NEVER_REPORTED = LaunchLoss("crashed", "its launch finished without a word about it")


def prepare(
    crew: Crew,
    found: SideCases,
    ids: Sequence[str],
    settings: RunSettings,
    recorder: LaunchRecorder,
    spec: LaunchSpec,
    progress: Progress,
) -> dict[str, CaseEvent]:
    """Run a side's preparation launch. Returns the cases by id, counts not yet fixed, indices all 0."""
    events: dict[str, CaseEvent] = {}
    failures: dict[str, Message] = {}
    leaves: dict[str, str] = {}

    def accept(_number: int, message: Message) -> None:
        case_id = message["id"] if message["event"] == "case" else message["case"]
        if case_id not in wanted:
            raise ValueError(f"{case_id!r} was not asked for")
        if message["event"] == "failure":
            failures[case_id] = message
        elif message["event"] == "left":
            leaves[case_id] = str(message["text"])[:TEXT_KEPT].encode("utf-8", "replace").decode()
        elif message["event"] == "artifact":
            if taken := crew.texts.take(found.points[case_id].file, message):
                failures[case_id] = {"kind": "setup", "error": taken}
        elif case_id not in failures:
            events[case_id] = _case_event(crew.name, found.points[case_id], timeouts[case_id], message)

    wanted = set(ids)
    targets = [_target(found.points[case_id], settings) for case_id in ids]
    timeouts = {target["id"]: float(target["timeout_s"]) for target in targets}
    job = job_of("texts" if spec.only_texts else "prepare", crew, found.deadly)
    lost = run_targets(crew.session, recorder, spec, job, targets, accept, progress)
    for case_id in ids:
        if case_id not in events or case_id in lost:
            failure = failures.get(case_id) or lost.get(case_id, NEVER_REPORTED)._asdict()
            events[case_id] = _case_event(
                crew.name,
                found.points[case_id],
                timeouts[case_id],
                {"status": "failed", "kind": failure["kind"], "reason": str(failure["error"])[:4_000]},
            )
    return events | {one: events[one].model_copy(update={"leaves": text}) for one, text in leaves.items()}


def fix_counts(
    prepared: Mapping[SideName, Mapping[str, CaseEvent]],
    found: Mapping[SideName, SideCases],
    settings: RunSettings,
    *,
    verb: str,
) -> list[CaseEvent]:
    """The `case` lines of all sides in order, with the counts that both sides share: from the larger cost."""
    events: list[CaseEvent] = []
    for name, cases in prepared.items():
        for case_id, event in cases.items():
            others = [side[case_id] for side in prepared.values() if case_id in side]
            point = found[name].points[case_id]
            measure = settings.measure_for(case_id, point.tags, _measuring(point))
            iterations = point.settings.get("iterations")
            implementations = [
                _with_counts(one, others, settings.rounds, measure.warmup_ms, measure.measure_ms, iterations, verb)
                for one in event.implementations
            ]
            events.append(event.model_copy(update={"index": len(events), "implementations": implementations}))
        events += [
            CaseEvent(index=len(events) + number, side=name, file=broken.file, error=broken.error, status="failed")
            for number, broken in enumerate(found[name].broken)
        ]
    return events


def _with_counts(
    one: ImplementationRecord,
    cases: Sequence[CaseEvent],
    rounds: int,
    warmup_ms: float,
    measure_ms: float,
    iterations: int | None,
    verb: str,
) -> ImplementationRecord:
    same = [
        other for case in cases for other in case.implementations if other.name == one.name and other.status == "ok"
    ]
    if one.status != "ok" or not same:
        return one
    cost = max(1, *(other.cost_ns for other in same), 1)
    if verb == "run":
        counts = protocol.counts_for_run(cost, warmup_ms, measure_ms, iterations)
    else:
        counts = protocol.counts_for_comparison(cost, warmup_ms, measure_ms, rounds, iterations)
    # One for all implementations and sides, the smallest: a call that needs a reset cannot be batched, and what is
    # compared must meet the cache alike.
    batch = min(other.batch for case in cases for other in case.implementations if other.status == "ok")
    return one.model_copy(update={"samples": counts.samples, "warmup": counts.warmup, "batch": batch})


def _target(point: DiscoveredCase, settings: RunSettings) -> Message:
    measure = settings.measure_for(point.id, point.tags, _measuring(point))
    return {
        "id": point.id,
        "timeout_s": measure.timeout_s,
        "timer": measure.timer,
        "cache": measure.cache,
        "allow_fallback": measure.allow_fallback,
    }


def _measuring(point: DiscoveredCase) -> dict[str, Any]:
    return {key: value for key, value in point.settings.items() if key in ("timer", "cache", "timeout_s")}


def _case_event(side: SideName, point: DiscoveredCase, timeout_s: float, message: Message) -> CaseEvent:
    fields = {key: value for key, value in message.items() if key not in ("event", "id", "inputs_checksum")}
    return CaseEvent.model_validate(
        {
            "index": 0,
            "side": side,
            "id": point.id,
            "file": point.file,
            "line": point.line,
            "title": point.title,
            "tags": point.tags,
            "source": point.source,
            "timeout_s": timeout_s,
            **fields,
        }
    )
