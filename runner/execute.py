"""The driver: from prepared sides to a results file. Launches never overlap, and the driver sees ids and records only.

``execute`` is the straight line: discover, choose, prepare, fix counts, then the rounds. Everything is written as it
happens, so that a killed run can be taken up again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from .attempts import LaunchSpec, Progress, Recorder
from .launch import Message
from .planting import planted_case
from .preparation import Crew, Found, choose, discover, fix_counts, prepare, refuse_broken, unmatched
from .records import CaseEvent, End, Resumed, SideEvent, SideName, Writer
from .rounds import CaseTable, Judge, Rounds, Run


@dataclass
class Outcome:
    """How a run went, for the exit code and the last lines on the terminal."""

    hopeless: list[str] = field(default_factory=list)  # selected case files that no side can import
    unmatched: list[str] = field(default_factory=list)  # patterns that selected no case
    changed: list[str] = field(default_factory=list)  # sides whose code was edited meanwhile, and which files
    measured: int = 0
    rounds: int = 0
    out_of_budget: bool = False  # rows that were still open did not go on for lack of time
    preparation_s: float = 0.0
    measuring_s: float = 0.0


def execute(run: Run, crews: Sequence[Crew], writer: Writer, progress: Progress, judge: Judge | None = None) -> Outcome:
    """Measure. Writes everything after the header.

    Args:
        judge: says after each look but the last which cases go on; None: all end with the first look.

    Raises:
        UsageError: no cases, or none selected.
        NothingMeasured: no common case, or no case that works on all sides gave a number.
    """
    began = time.monotonic()
    deadline = began + run.settings.budget_s
    outcome = Outcome()
    recorder = Recorder(writer, launches=run.taken.launches if run.taken else 0)
    # Cases for a GPU import torch: warmed first, a side's processes have it already when they look for its cases.
    warm = {crew.name: _warm(crew, run, progress) for crew in crews if run.gpu is not None}
    progress.stage("discovering cases")
    found = {crew.name: discover(crew) for crew in crews}
    outcome.hopeless = refuse_broken(found, run.patterns or run.settings.include)
    chosen = choose(found, run.settings, run.patterns, run.plan)
    if run.plant:
        run = replace(run, plant=planted_case(run.plant, found, run.settings, run.patterns))
    outcome.unmatched = unmatched(found, run.patterns)
    forkable = {}
    for crew in crews:
        on_device = any(not found[crew.name].points[case_id].on_cpu for case_id in chosen[crew.name])
        if on_device and crew.name not in warm:
            warm[crew.name] = _warm(crew, run, progress)
        forkable[crew.name] = _tell_side(crew, warm[crew.name] if on_device else None, run, writer)
    cases = _prepared(run, crews, found, chosen, forkable, recorder, progress)
    table = CaseTable.of(cases, recorder, [crew.name for crew in crews])
    outcome.preparation_s = time.monotonic() - began
    if not table.common and not table.extra:
        return outcome
    progress.stage("measuring")
    began = time.monotonic()
    deadly = {name: side.deadly for name, side in found.items()}
    rounds = Rounds(run, crews, table, forkable, deadly, recorder, progress)
    outcome.rounds = rounds.make_all(judge, lambda: time.monotonic() < deadline)
    outcome.measured, outcome.out_of_budget = rounds.measured, rounds.out_of_budget
    outcome.measuring_s = time.monotonic() - began
    return outcome


def _warm(crew: Crew, run: Run, progress: Progress) -> Message:
    """Import torch and what is to be preloaded in the side's parent; returns what it said."""
    progress.stage(f"importing torch on {crew.name}")
    return crew.session.warm(run.preload)


def _tell_side(crew: Crew, warm: Message | None, run: Run, writer: Writer) -> bool:
    """Say in the file how a side is made ready and how its launches start. Returns whether device ones are forked.

    Args:
        warm: what its warm parent said; None where no case of it runs on a device.
    """
    notes = list(run.notes) if crew.name == run.plan.sides[0] else []  # said once
    fork = warm is not None and not warm.get("touched")
    if warm and warm.get("error"):
        notes.append(f"preload failed, launches import it themselves: {str(warm['error'])[:1_000]}")
    if warm and warm.get("touched"):
        notes.append("preload initialised the device, so launches start plainly, which takes longer")
    writer.write(
        SideEvent(
            side=crew.name,
            status="prepared",
            python=str(crew.side.python)[:1_000],
            torch=str(warm.get("torch", ""))[:200] if warm else "",
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


def end_of(outcome: Outcome) -> End:
    """The last line of a run's file."""
    return End(
        at=_now(),
        rounds=outcome.rounds,
        changed=outcome.changed,
        out_of_budget=outcome.out_of_budget,
        preparation_s=round(outcome.preparation_s, 3),
        measuring_s=round(outcome.measuring_s, 3),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
