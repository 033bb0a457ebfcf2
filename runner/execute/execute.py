"""The driver: from prepared sides to a results file. Launches never overlap, and the driver sees ids and records only.

``execute`` is the straight line: discover, choose, prepare, fix counts, then the rounds. Everything is written as it
happens, so that a killed run can be taken up again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ..artifacts.texts import Texts
from ..launchers.launcher import Message
from ..machine.gpus import refuse_lost
from ..plan.balance import parts_of
from ..plan.expectations import cpu_model, events_of, unknown_cases
from ..plan.planting import planted_case
from ..plan.selection import Crew, SideCases, choose, discover, refuse_broken, unmatched
from ..records import CaseEvent, End, Event, Resumed, SideEvent, SideName, Writer
from .attempts import LaunchRecorder, LaunchSpec, Progress
from .chains import Chain, Lanes
from .origins import ModuleOrigins
from .preparation import fix_counts, prepare
from .rounds import CaseTable, Judge, Rounds, Run


@dataclass
class RunOutcome:
    """How a run went, for the exit code and the last lines on the terminal."""

    hopeless: list[str] = field(default_factory=list)  # selected case files that no side can import
    unmatched: list[str] = field(default_factory=list)  # patterns that selected no case
    changed: list[str] = field(default_factory=list)  # sides whose code was edited meanwhile, and which files
    measured: int = 0
    rounds: int = 0
    out_of_budget: bool = False  # rows that were still open did not go on for lack of time
    texts: Mapping[SideName, Texts] = field(default_factory=dict)  # what the cases generated
    preparation_s: float = 0.0
    measuring_s: float = 0.0


def execute(
    run: Run,
    chains: Sequence[Chain],
    writer: Writer,
    progress: Progress,
    judge: Judge | None = None,
    origins: ModuleOrigins | None = None,
) -> RunOutcome:
    """Measure. Writes everything after the header.

    Args:
        origins: where the sides' modules came from, as the sessions of `chains` report it; None: nobody asks.
        chains: of launches, one a GPU.
        judge: says after each look but the last which cases go on; None: all end with the first look.

    Raises:
        UsageError: no cases, or none selected.
        NothingMeasured: no common case, or no case that works on all sides gave a number.
    """
    began = time.monotonic()
    deadline = began + run.settings.budget_s
    outcome = RunOutcome()
    recorder = LaunchRecorder(writer, launches=run.taken.launches if run.taken else 0, cpu=cpu_model())
    # Cases for a GPU import torch: warmed first, a side's processes have it already when they look for its cases.
    crews = chains[0].crews
    warm = {crew.name: _warm(crew.name, chains, run, progress) for crew in crews if run.gpu is not None}
    progress.stage("discovering cases")
    found = {crew.name: discover(crew) for crew in crews}
    outcome.hopeless = refuse_broken(found, run.patterns or run.settings.include)
    chosen = choose(found, run.settings, run.patterns, run.plan)
    if run.plant:
        run = replace(run, plant=planted_case(run.plant, found, run.settings, run.patterns))
    outcome.unmatched = unmatched(found, run.patterns)
    run = replace(run, notes=[*run.notes, *_odd(run, found)])
    forkable = {}
    for crew in crews:
        on_device = any(not found[crew.name].points[case_id].on_cpu for case_id in chosen[crew.name])
        if on_device and crew.name not in warm:
            warm[crew.name] = _warm(crew.name, chains, run, progress)
        forkable[crew.name] = _tell_side(crew, warm[crew.name] if on_device else None, run, writer)
    lanes = _lanes(run, chains, found, chosen)
    cases = _prepared(run, lanes, found, chosen, forkable, recorder, progress)
    if origins is not None and not run.taken:
        for crew in crews:
            writer.write(origins.record(crew.name))
    table = CaseTable.of(cases, recorder, [crew.name for crew in crews])
    outcome.preparation_s = time.monotonic() - began
    if not table.common and not table.extra:
        return outcome
    progress.stage("measuring")
    began = time.monotonic()
    deadly = {name: side.deadly for name, side in found.items()}
    rounds = Rounds(run, lanes, table, forkable, deadly, recorder, progress)
    outcome.rounds = rounds.make_all(judge, lambda: time.monotonic() < deadline)
    outcome.measured, outcome.out_of_budget = rounds.measured, rounds.out_of_budget
    outcome.measuring_s = time.monotonic() - began + (run.taken.measuring_s if run.taken else 0.0)
    return outcome


def _warm(side: SideName, chains: Sequence[Chain], run: Run, progress: Progress) -> Message:
    """Import torch and what is to be preloaded in the side's parent on each GPU; returns what the first said."""
    progress.stage(f"importing torch on {side}")
    said = Lanes(chains, {}).each_chain(lambda chain: chain.crew(side).session.warm(run.preload))
    return said[0] | {"touched": any(message.get("touched") for message in said)}


def _lanes(
    run: Run, chains: Sequence[Chain], found: Mapping[SideName, SideCases], chosen: Mapping[SideName, Sequence[str]]
) -> Lanes:
    """Which GPU measures which cases: as the interrupted run had it, else evenly by what they took in earlier runs."""
    on_device = {
        case_id for name, ids in chosen.items() for case_id in ids if not found[name].points[case_id].on_cpu
    }  # a case that is on the device on one side only cannot be compared: it may go wherever it likes
    host = frozenset(case_id for ids in chosen.values() for case_id in ids) - on_device
    parts = parts_of(on_device, run.durations, len(chains))
    places = {chain.uuid: number for number, chain in enumerate(chains)}
    before = run.taken.gpus if run.taken else {}
    known = {case_id: places[uuid] for case_id, uuid in before.items() if uuid in places}
    host_at = next((known[case_id] for case_id in sorted(host & known.keys())), 0)
    return Lanes(chains, parts | {case_id: known[case_id] for case_id in parts if case_id in known}, host, host_at)


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
    lanes: Lanes,
    found: Mapping[SideName, SideCases],
    chosen: Mapping[SideName, Sequence[str]],
    forkable: Mapping[SideName, bool],
    recorder: LaunchRecorder,
    progress: Progress,
) -> Sequence[CaseEvent]:
    """The `case` lines: new ones, or those of the run that is taken up, whose sides are prepared all the same."""
    prepared: dict[SideName, dict[str, CaseEvent]] = {}
    for crew in lanes.chains[0].crews:
        progress.stage(f"preparing {crew.name}: compile, check, count")
        work = _Preparation(
            run, crew.name, found[crew.name], chosen[crew.name], forkable[crew.name], recorder, progress
        )
        events = {case_id: event for part in lanes.each(work.on) for case_id, event in part.items()}
        prepared[crew.name] = {case_id: events[case_id] for case_id in chosen[crew.name]}
        _look_for_stale(crew, found[crew.name], prepared[crew.name])
    if run.taken:
        recorder.writer.write(Resumed(round=run.taken.rounds, at=_now()))
        return run.taken.cases
    cases = fix_counts(prepared, found, run.settings, verb=run.verb)
    texts = [record for crew in lanes.chains[0].crews for record in crew.texts.records(crew.name)]
    lines: list[Event] = [*cases, *texts, *events_of(run.expected, prepared.get("head", {}))]
    for line in lines:
        recorder.writer.write(line)
    return cases


def _look_for_stale(crew: Crew, found: SideCases, prepared: Mapping[str, CaseEvent]) -> None:
    """Which saved copies no case gives any more; none where a file cannot be imported.

    A helper in any folder may declare cases for such a file, and their copies lie beside the helper.
    """
    if not found.broken:
        whole = {case_id for case_id, event in prepared.items() if event.status == "ok"}
        crew.texts.look_for_stale((point.file, case_id in whole) for case_id, point in found.points.items())


@dataclass(frozen=True)
class _Preparation:
    """The preparation of one side, in parts."""

    run: Run
    side: SideName
    found: SideCases
    chosen: Sequence[str]
    fork: bool
    recorder: LaunchRecorder
    progress: Progress

    def on(self, chain: Chain, mine: Callable[[str], bool]) -> Mapping[str, CaseEvent]:
        """What a chain prepares of it."""
        ids = [case_id for case_id in self.chosen if mine(case_id)]
        spec = LaunchSpec(
            side=self.side,
            kind="preparation",
            start="fork" if self.fork else "plain",
            in_turn=True,
            uuid=chain.uuid,
            driver=chain.driver,
            only_texts=self.run.only_texts,
        )
        crew, settings = chain.crew(self.side), self.run.settings
        events = prepare(crew, self.found, ids, settings, self.recorder, spec, self.progress)
        if ids and not any(event.status == "ok" for event in events.values()):
            refuse_lost(chain.gpu)
        return events


def _odd(run: Run, found: Mapping[SideName, SideCases]) -> list[str]:
    """Expectations about cases that head has not; nothing where a file with cases cannot be imported here."""
    head = found.get("head")
    return [] if head is None or head.broken else unknown_cases(run.expected, head.points)


def end_of(outcome: RunOutcome) -> End:
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
