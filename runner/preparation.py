"""From sides to cases: discover, select, prepare, and fix the counts that every later launch uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .attempts import LaunchSpec, Loss, Progress, Recorder, run_targets
from .config import RunSettings, select
from .errors import CaseError, NothingMeasured, UsageError
from .generated import Texts
from .launch import Message, Session
from .plan import Plan
from .records import CaseEvent, ImplementationRecord, SideName
from .records.fields import NAME_MAX, CaseId, Name, Text
from .sides import Side
from .timing import protocol

NEVER_REPORTED = Loss("crashed", "its launch finished without a word about it")
IMPORT_TIMEOUT_S = 120.0  # importing one case file with its libraries, cold
DEADLY_MAX = 10  # files whose import kills the process; with more of them something else is wrong
TEXT_KEPT = 1_000  # characters of a foreign message
PATTERN_HINT = (
    "evenbench list shows their ids; a * stops at a slash or comma, ** does not, and a pattern with brackets names all "
    "parameters: 'conv/*', 'conv**', 'conv/fft[size=64,**]'"
)
CASES_MAX = 20_000  # of one side: more is a mistake in a parameter grid


class Point(BaseModel):
    """A case as discovery found it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    event: Literal["point"]
    id: CaseId
    file: Name
    line: int
    title: Text = ""
    tags: Annotated[list[Name], Field(max_length=1_000)] = []
    on_cpu: bool
    source: Name
    settings: dict[str, Any] = {}


class Broken(BaseModel):
    """A case file that could not be imported."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    event: Literal["broken"]
    file: Name
    error: Text
    usage: bool = False
    deadly: bool = False


@dataclass(frozen=True)
class Crew:
    """One side, ready to launch: its tree, its session, where its cases stand, what they generate."""

    side: Side
    session: Session
    cases: str
    texts: Texts = field(default_factory=Texts)

    @property
    def name(self) -> SideName:
        """base, head or control."""
        return self.side.name


@dataclass(frozen=True)
class Found:
    """What discovery found on one side."""

    points: Mapping[str, Point]
    broken: Sequence[Broken]

    @property
    def deadly(self) -> list[str]:
        """Files that no launch may import: it would end there."""
        return [broken.file for broken in self.broken if broken.deadly]


def discover(crew: Crew) -> Found:
    """All cases of a side, found in its processes.

    A file whose import kills or hangs its process costs only its own cases: discovery goes on without it.
    """
    deadly: list[Broken] = []
    while True:
        found, file, died = _discover_once(crew, [each.file for each in deadly])
        if not died:
            return Found(found.points, [*found.broken, *deadly])
        name = f"{file}: " if file else ""
        deadly.append(
            Broken(event="broken", file=file, error=f"{name}its import ended the process: {died}", deadly=True)
        )
        if not file or len(deadly) > DEADLY_MAX:
            return Found(found.points, [*found.broken, *deadly])


def _discover_once(crew: Crew, without: Sequence[str]) -> tuple[Found, str, str]:
    """What one process found, the file that it imported last, and how it died; empty where it lived."""
    points: dict[str, Point] = {}
    broken: list[Broken] = []
    file = died = ""
    for message in crew.session.launch(_job("discover", crew, without), fork=True, timeout_s=IMPORT_TIMEOUT_S):
        try:
            if message["event"] == "begin":
                file = str(message.get("case"))[:NAME_MAX]
            elif message["event"] == "point":
                point = Point.model_validate(message)
                points[point.id] = point
            elif message["event"] == "broken":
                broken.append(Broken.model_validate(message))
            elif message["event"] == "exit" and message["status"] != "ok":
                died = str(message["detail"])[:TEXT_KEPT]
        except ValueError:  # what a process of the side sends is foreign
            broken.append(Broken(event="broken", file=file, error=f"{file}: discovery sent a malformed message"))
        if len(points) > CASES_MAX:
            raise UsageError(f"{crew.name} has more than {CASES_MAX} cases", "cut down the parameter grids")
    return Found(points, broken), file, died


def _job(kind: str, crew: Crew, without: Sequence[str]) -> Message:
    return {"kind": kind, "root": str(crew.side.root), "cases": crew.cases, "without": list(without)}


def refuse_broken(found: Mapping[SideName, Found], patterns: Sequence[str]) -> list[str]:
    """Case files that no side can import and that the selection may want, each with its error.

    Raises:
        CaseError: nothing else was found, or the declarations themselves contradict each other on every side.
    """
    common = set.intersection(*({broken.file for broken in side.broken} for side in found.values()))
    errors = {broken.file: broken for side in found.values() for broken in side.broken}
    hopeless = [errors[file] for file in sorted(common)]
    for broken in hopeless:
        if broken.usage and not broken.file:
            raise CaseError(broken.error)
    if hopeless and not any(side.points for side in found.values()):
        raise CaseError(f"no case file can be imported: {hopeless[0].error}")
    return [broken.error for broken in hopeless if may_hold(broken.file, patterns)]


def may_hold(file: str, patterns: Sequence[str]) -> bool:
    """Whether a file that cannot be imported may hold a selected case.

    A file in a folder is taken to hold cases named like the folder, so that a suite of ``host/**`` does not suffer
    from an ``ops/gemm.py`` whose library is missing.
    """
    folder = file.partition("/")[0] if "/" in file else ""
    if not folder or not patterns:
        return True
    names = [pattern.removeprefix("id:") for pattern in patterns]
    firsts = [name.partition("/")[0] if "/" in name else "" for name in names]
    return any(first in ("", folder) or "*" in first or first.startswith("tag:") for first in firsts)


def choose(
    found: Mapping[SideName, Found], settings: RunSettings, patterns: Sequence[str], plan: Plan
) -> dict[SideName, list[str]]:
    """The ids to measure on each side: those of the suite, the patterns and the shard.

    Raises:
        UsageError: no cases, or none that the suite and patterns select.
        NothingMeasured: two sides without a common case.
    """
    everything = {case_id for side in found.values() for case_id in side.points}
    if not everything:
        raise UsageError("no cases were found", "put cases into the cases directory, or name it with --cases")
    chosen = {
        name: [
            case_id
            for case_id, point in side.points.items()
            if select(settings.include, case_id, point.tags) and (not patterns or select(patterns, case_id, point.tags))
        ]
        for name, side in found.items()
    }
    if not any(chosen.values()):
        raise _nothing_selected(found, settings, patterns, len(everything))
    whole = all(not side.broken for side in found.values())  # else the table says what could not be imported
    if len(chosen) > 1 and whole and not set.intersection(*(set(ids) for ids in chosen.values())):
        some = {name: (ids or ["none"])[0] for name, ids in chosen.items()}
        listed = ", ".join(f"{name} has {example}" for name, example in some.items())
        raise NothingMeasured(
            f"the sides have no case in common: {listed}", "--cases-from head runs head's cases on both"
        )
    return {name: [case_id for case_id in ids if plan.takes(case_id)] for name, ids in chosen.items()}


def _nothing_selected(
    found: Mapping[SideName, Found], settings: RunSettings, patterns: Sequence[str], number: int
) -> UsageError:
    points = {case_id: point for side in found.values() for case_id, point in side.points.items()}
    wanted = " ".join(patterns) or f"suite {settings.suite!r}"
    outside = sum(1 for case_id, point in points.items() if patterns and select(patterns, case_id, point.tags))
    if outside:
        return UsageError(
            f"{wanted}: selects none of the cases of suite {settings.suite!r}, but {outside} outside it",
            "choose another suite with --suite, or give the case the tag of this one",
        )
    broken = [each.error for side in found.values() for each in side.broken]
    if broken:
        return UsageError(
            f"{wanted}: selects none of the {number} cases", f"{len(broken)} files cannot be imported: {broken[0]}"
        )
    return UsageError(f"{wanted}: selects none of the {number} cases", PATTERN_HINT)


def unmatched(found: Mapping[SideName, Found], patterns: Sequence[str]) -> list[str]:
    """The patterns that select no case of any side: most often a slip of the pen."""
    points = {case_id: point for side in found.values() for case_id, point in side.points.items()}
    return [p for p in patterns if not any(select((p,), case_id, point.tags) for case_id, point in points.items())]


def prepare(
    crew: Crew,
    found: Found,
    ids: Sequence[str],
    settings: RunSettings,
    recorder: Recorder,
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
    job = _job("texts" if spec.only_texts else "prepare", crew, found.deadly)
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
    found: Mapping[SideName, Found],
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


def _target(point: Point, settings: RunSettings) -> Message:
    measure = settings.measure_for(point.id, point.tags, _measuring(point))
    return {
        "id": point.id,
        "timeout_s": measure.timeout_s,
        "timer": measure.timer,
        "cache": measure.cache,
        "allow_fallback": measure.allow_fallback,
    }


def _measuring(point: Point) -> dict[str, Any]:
    return {key: value for key, value in point.settings.items() if key in ("timer", "cache", "timeout_s")}


def _case_event(side: SideName, point: Point, timeout_s: float, message: Message) -> CaseEvent:
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
