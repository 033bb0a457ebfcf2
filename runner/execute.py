"""The driver: from prepared sides to a results file. Launches never overlap, and the driver sees ids and records only.

``execute`` is the straight line: discover, choose, prepare, fix counts, then round after round one launch of each side
in the plan's order. Everything is written as it happens, so that a killed run can be taken up again.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from .attempts import LaunchSpec, Progress, Recorder, run_targets
from .config import RunSettings
from .launch import Message
from .machine import Gpu
from .plan import Plan
from .preparation import Crew, Found, choose, discover, fix_counts, prepare, refuse_broken, unmatched
from .records import CaseEvent, End, Failure, Measurement, Resumed, SideEvent, SideName, Skip, Writer

ROUNDS_TO_JUDGE = 6  # fewer whole rounds are not judged, so a case that cannot reach them is not measured on


@dataclass(frozen=True)
class Taken:
    """What an interrupted run had done: its `case` lines, whole rounds, and the number of its next launch."""

    cases: Sequence[CaseEvent]
    rounds: int
    launches: int


@dataclass(frozen=True)
class Run:
    """Everything that `execute` needs to know.

    Args:
        verb: ``compare``, or ``run`` for one side.
        patterns: further narrow the suite's cases; may be empty.
        preload: modules that the warm parents import.
        gpu: where device cases run; None on a machine without.
        taken: what an earlier, interrupted run had done.
        notes: what is to be known of the machine, a line each.
    """

    verb: Literal["run", "compare"]
    plan: Plan
    settings: RunSettings
    patterns: Sequence[str]
    preload: Sequence[str]
    gpu: Gpu | None
    taken: Taken | None = None
    notes: Sequence[str] = ()


@dataclass
class Outcome:
    """How a run went, for the exit code and the last lines on the terminal."""

    hopeless: list[str] = field(default_factory=list)  # selected case files that no side can import
    unmatched: list[str] = field(default_factory=list)  # patterns that selected no case
    changed: list[str] = field(default_factory=list)  # sides whose code was edited meanwhile, and which files
    measured: int = 0
    rounds: int = 0
    preparation_s: float = 0.0
    measuring_s: float = 0.0


def execute(run: Run, crews: Sequence[Crew], writer: Writer, progress: Progress) -> Outcome:
    """Measure. Writes everything after the header.

    Raises:
        UsageError: no cases, or none selected.
        NothingMeasured: no common case, or no case that works on all sides gave a number.
    """
    began = time.monotonic()
    outcome = Outcome()
    recorder = Recorder(writer, launches=run.taken.launches if run.taken else 0)
    progress.stage("discovering cases")
    found = {crew.name: discover(crew) for crew in crews}
    outcome.hopeless = refuse_broken(found, run.patterns or run.settings.include)
    chosen = choose(found, run.settings, run.patterns, run.plan)
    outcome.unmatched = unmatched(found, run.patterns)
    forkable = {crew.name: _warm(crew, found[crew.name], chosen[crew.name], run, writer, progress) for crew in crews}
    cases = _prepared(run, crews, found, chosen, forkable, recorder, progress)
    table = CaseTable.of(cases, recorder, [crew.name for crew in crews])
    outcome.preparation_s = time.monotonic() - began
    if not table.common and not table.extra:
        return outcome
    progress.stage("measuring")
    began = time.monotonic()
    deadly = {name: side.deadly for name, side in found.items()}
    rounds = _Rounds(run, crews, table, forkable, deadly, recorder, progress)
    last = run.plan.rounds if table.common or run.verb == "run" else 1  # without a pair nothing is judged
    for number in range(run.taken.rounds if run.taken else 0, last):
        rounds.make(number)
    outcome.measured = rounds.measured
    outcome.measuring_s = time.monotonic() - began
    outcome.rounds = last
    return outcome


@dataclass(frozen=True)
class CaseTable:
    """The cases that launches measure: by side and id, those that work on all sides, those that work on some."""

    by_side: Mapping[SideName, Mapping[str, CaseEvent]]
    common: frozenset[str]
    extra: frozenset[str]

    @classmethod
    def of(cls, events: Sequence[CaseEvent], recorder: Recorder, sides: Sequence[SideName]) -> CaseTable:
        """From the `case` lines of all sides; tells the recorder their indices."""
        by_side: dict[SideName, dict[str, CaseEvent]] = {side: {} for side in sides}
        for event in events:
            recorder.indices[event.side, event.id] = event.index
            if event.id and any(one.status == "ok" for one in event.implementations):
                by_side[event.side][event.id] = event
        working = [frozenset(cases) for cases in by_side.values()]
        common = frozenset.intersection(*working) if working else frozenset()
        return cls(by_side, common, frozenset().union(*working) - common)


class _Rounds:
    """The timed launches of a run."""

    def __init__(
        self,
        run: Run,
        crews: Sequence[Crew],
        table: CaseTable,
        forkable: Mapping[SideName, bool],
        deadly: Mapping[SideName, Sequence[str]],
        recorder: Recorder,
        progress: Progress,
    ) -> None:
        self._deadly = deadly
        self._run = run
        self._crews = {crew.name: crew for crew in crews}
        self._table = table
        self._forkable = forkable
        self._recorder = recorder
        self._progress = progress
        self._lost: Counter[str] = Counter()  # case → rounds in which a launch of it died
        self.measured = 0

    def make(self, number: int) -> None:
        """One round: a launch of each side, device cases and host cases apart, since they start differently."""
        plan = self._run.plan
        order = plan.case_order(number, self._going_on(self._table.common), self._going_on(self._table.extra))
        sides = [name for name in plan.side_order(number) if name in self._crews]
        for start in ("fork", "plain"):
            for slot, name in enumerate(sides):
                ids = [case_id for case_id in order if self._start(name, case_id) == start]
                if ids:
                    self._launch(number, slot, self._crews[name], ids, start)

    def _going_on(self, ids: frozenset[str]) -> list[str]:
        """A case whose launches died so often that it cannot be judged is not launched again."""
        allowed = self._run.plan.rounds - ROUNDS_TO_JUDGE
        return [case_id for case_id in ids if self._lost[case_id] <= max(0, allowed)]

    def _start(self, side: SideName, case_id: str) -> Literal["fork", "plain"] | None:
        event = self._table.by_side.get(side, {}).get(case_id)
        if event is None:
            return None
        return "fork" if event.device != "cpu" and self._forkable[side] else "plain"

    def _launch(self, number: int, slot: int, crew: Crew, ids: Sequence[str], start: Literal["fork", "plain"]) -> None:
        gpu = self._run.gpu
        spec = LaunchSpec(
            side=crew.name,
            kind="timed",
            start=start,
            round=number,
            rounds=self._run.plan.rounds,
            slot=slot,
            mirrored=self._run.plan.mirrored(number),
            uuid=gpu.uuid if gpu else "",
            driver=gpu.driver if gpu else "",
        )
        cases = self._table.by_side[crew.name]
        targets = [_target(cases[i], mirrored=spec.mirrored, precision=self._precision(cases[i])) for i in ids]
        seen: set[tuple[str, str]] = set()

        def accept(launch: int, message: Message) -> None:
            record = _record(crew.name, launch, message, cases)
            if isinstance(record, Measurement):
                if (record.case, record.implementation) in seen:
                    raise ValueError("measured twice")
                seen.add((record.case, record.implementation))
                self.measured += 1
            self._recorder.writer.write(record)

        job = {"kind": "measure", "root": str(crew.side.root), "cases": crew.cases, "without": self._deadly[crew.name]}
        lost = run_targets(crew.session, self._recorder, spec, job, targets, accept, self._progress)
        self._lost.update(list(lost))

    def _precision(self, case: CaseEvent) -> float:
        """When sampling may stop early; in a comparison never, so that both sides draw equally."""
        return self._run.settings.measure_for(case.id, case.tags).precision if self._run.verb == "run" else 0.0


def _warm(crew: Crew, found: Found, chosen: Sequence[str], run: Run, writer: Writer, progress: Progress) -> bool:
    """Warm the side's parent where device cases are chosen; says in the file how launches start. Returns: by fork?"""
    on_device = any(not found.points[case_id].on_cpu for case_id in chosen)
    notes = list(run.notes) if crew.name == run.plan.sides[0] else []  # said once
    torch = ""
    fork = False
    if on_device:
        progress.stage(f"importing torch on {crew.name}")
        message = crew.session.warm(run.preload)
        torch = str(message.get("torch", ""))[:200]
        fork = not message.get("touched")
        if message.get("error"):
            notes.append(f"preload failed, launches import it themselves: {str(message['error'])[:1_000]}")
        if message.get("touched"):
            notes.append("preload initialised the device, so launches start plainly, which takes longer")
    writer.write(
        SideEvent(
            side=crew.name,
            status="prepared",
            python=str(crew.side.python)[:1_000],
            torch=torch,
            start="fork" if fork else "plain",
            notes=notes,
        )
    )
    return fork


def _prepared(
    run: Run,
    crews: Sequence[Crew],
    found: Mapping[SideName, Found],
    chosen: Mapping[SideName, Sequence[str]],
    forkable: Mapping[SideName, bool],
    recorder: Recorder,
    progress: Progress,
) -> Sequence[CaseEvent]:
    """The `case` lines: new ones, or those of the run that is taken up, whose sides are prepared all the same."""
    prepared: dict[SideName, dict[str, CaseEvent]] = {}
    for crew in crews:
        progress.stage(f"preparing {crew.name}: compile, check, count")
        spec = LaunchSpec(
            side=crew.name,
            kind="preparation",
            start="fork" if forkable[crew.name] else "plain",
            uuid=run.gpu.uuid if run.gpu else "",
            driver=run.gpu.driver if run.gpu else "",
        )
        prepared[crew.name] = prepare(crew, found[crew.name], chosen[crew.name], run.settings, recorder, spec, progress)
    if run.taken:
        recorder.writer.write(Resumed(round=run.taken.rounds, at=_now()))
        return run.taken.cases
    events = fix_counts(prepared, found, run.settings, verb=run.verb)
    for event in events:
        recorder.writer.write(event)
    return events


def _target(case: CaseEvent, *, mirrored: bool, precision: float) -> Message:
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


def _record(
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


def end_of(outcome: Outcome) -> End:
    """The last line of a run's file."""
    return End(
        at=_now(),
        rounds=outcome.rounds,
        changed=outcome.changed,
        preparation_s=round(outcome.preparation_s, 3),
        measuring_s=round(outcome.measuring_s, 3),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
