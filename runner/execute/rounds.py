"""The timed launches of a run: round after round, look after look. Which rows go on is the judge's word.

A round is one launch of each side. After the rounds of a look a judge is asked, who reads the file and knows
statistics; only the cases that he leaves open go on to the next look.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..config import RunSettings
from ..config.expectations import Expectation
from ..launchers.launcher import Message
from ..machine.gpus import Gpu, refuse_lost
from ..plan.plan import Plan
from ..plan.planting import slow_down
from ..plan.selection import Crew
from ..records import CaseEvent, Look, Measurement, PlantRecord, SideName
from ..words import count
from .attempts import LaunchRecorder, LaunchSpec, Progress, record_of, run_targets, target_of
from .chains import Chain, Lanes, Pace

LOST_ALLOWED = 1  # one loss may be an accident, and another look may make up for it
ROUNDS_TO_JUDGE = 6  # fewer whole rounds are not judged, so a case that cannot reach them is not measured on

Judge: TypeAlias = Callable[[], Collection[str]]
"""Asked after a look that is not the last: the ids of the cases that another look may still decide."""


@dataclass(frozen=True)
class Taken:
    """What an interrupted run had done: its `case` lines, whole rounds, the number of its next launch, its looks.

    `gpus` holds the UUID of the GPU that each case ran on, `measuring_s` the seconds that its timed launches took.
    """

    cases: Sequence[CaseEvent]
    rounds: int
    launches: int
    looks: Mapping[int, Collection[str]] = field(default_factory=dict)
    gpus: Mapping[str, str] = field(default_factory=dict)
    measuring_s: float = 0.0


@dataclass(frozen=True)
class Run:
    """Everything that `execute` needs to know.

    Args:
        verb: ``compare``, or ``run`` for one side.
        looks: rounds after which rows are judged, ascending; of them `rounds` of the plan is the first.
        patterns: further narrow the suite's cases; may be empty.
        preload: modules that the warm parents import.
        gpu: where device cases run, the first of several; None on a machine without.
        taken: what an earlier, interrupted run had done.
        notes: what is to be known of the machine, a line each.
        plant: a change to make on purpose, in the timed launches of head.
        expected: figures that cases of head must meet.
        only_texts: ask the cases for the texts that they generate, and for no more.
        durations: what a launch takes for each case that is known, by which several GPUs share the cases.
    """

    verb: Literal["run", "compare"]
    plan: Plan
    settings: RunSettings
    looks: Sequence[int]
    patterns: Sequence[str]
    preload: Sequence[str]
    gpu: Gpu | None
    taken: Taken | None = None
    notes: Sequence[str] = ()
    plant: PlantRecord | None = None
    expected: Sequence[Expectation] = ()
    only_texts: bool = False
    durations: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseTable:
    """The cases that launches measure: by side and id, those that work on all sides, those that work on some."""

    by_side: Mapping[SideName, Mapping[str, CaseEvent]]
    common: frozenset[str]
    extra: frozenset[str]

    @classmethod
    def of(cls, events: Sequence[CaseEvent], recorder: LaunchRecorder, sides: Sequence[SideName]) -> CaseTable:
        """From the `case` lines of all sides; tells the recorder their indices."""
        by_side: dict[SideName, dict[str, CaseEvent]] = {side: {} for side in sides}
        for event in events:
            recorder.indices[event.side, event.id] = event.index
            if event.id and any(one.status == "ok" for one in event.implementations):
                by_side[event.side][event.id] = event
        working = [frozenset(cases) for cases in by_side.values()]
        common = frozenset.intersection(*working) if working else frozenset()
        return cls(by_side, common, frozenset().union(*working) - common)


class Rounds:
    """The timed launches of a run."""

    def __init__(
        self,
        run: Run,
        lanes: Lanes,
        table: CaseTable,
        forkable: Mapping[SideName, bool],
        deadly: Mapping[SideName, Sequence[str]],
        recorder: LaunchRecorder,
        progress: Progress,
    ) -> None:
        self._deadly = deadly
        self._run = run
        self._lanes = lanes
        self._table = table
        self._forkable = forkable
        self._recorder = recorder
        self._progress = progress
        self._lost: Counter[str] = Counter()  # case → rounds in which a launch of it died
        self._open: frozenset[str] = table.common
        self._look = run.looks[0]
        self._first = 0  # of the rounds that chains begin together
        self.measured = 0
        self.out_of_budget = False

    def make_all(self, judge: Judge | None, in_time: Callable[[], bool]) -> int:
        """All rounds that a taken-up run has not made yet. Returns how many there are now.

        Args:
            judge: asked after each look but the last; None ends the run with the first.
            in_time: whether a round beyond the first look may still start.
        """
        looks = self._looks(judge)
        made = self._run.taken.rounds if self._run.taken else 0
        for self._look in looks:
            self._progress.more(self._launches_a_round() * (self._look - made))
            within = in_time if self._look != looks[0] else _always
            while made < self._look and not self.out_of_budget:
                made = self._advance(made, within)
            if self.out_of_budget or judge is None or self._look == looks[-1]:
                break
            self._open = self._left_open(judge)
            if not self._open:
                break
        return made

    def _advance(self, made: int, in_time: Callable[[], bool]) -> int:
        """The rounds up to the look, or one where chains must meet after it. Returns how many are made."""
        self._first = made
        numbers = range(made, made + 1 if self._lanes.meet else self._look)
        pace = Pace(len(self._lanes.chains), made, in_time)

        def rounds(chain: Chain, mine: Callable[[str], bool]) -> tuple[int, int]:
            with pace.of(self._lanes.chains.index(chain)) as may_begin:
                done = itertools.takewhile(may_begin, numbers)
                measured = [self.make(number, chain, mine) for number in done]
            return len(measured), sum(measured)

        made_by = self._lanes.each(rounds)
        self.measured += sum(measured for _, measured in made_by)
        self.out_of_budget = any(done < len(numbers) for done, _ in made_by)
        return made + min(done for done, _ in made_by)

    def _launches_a_round(self) -> int:
        """As `make` starts them, for as long as no case is lost."""
        ids = self._open | self._table.extra if self._look == self._run.looks[0] else self._open
        number, names = self._lanes.number, self._table.by_side
        return len({(number(one), name, start) for name in names for one in ids if (start := self._start(name, one))})

    def _looks(self, judge: Judge | None) -> Sequence[int]:
        """The looks of this run: without a pair nothing is judged, so one round tells all there is."""
        if self._run.verb == "compare" and not self._table.common:
            return (1,)
        return self._run.looks if judge is not None else self._run.looks[:1]

    def _left_open(self, judge: Judge) -> frozenset[str]:
        """Which cases go on after this look: as the interrupted run found, else as the judge says now."""
        taken = self._run.taken
        if taken is not None and self._look in taken.looks:
            return self._open.intersection(taken.looks[self._look])
        self._progress.stage(f"judging after {count(self._look, 'round')}")
        left = self._open.intersection(judge())
        indices = [self._recorder.indices[self._run.plan.sides[0], case_id] for case_id in sorted(left)]
        self._recorder.writer.write(Look(rounds=self._look, open=indices))
        return left

    def make(self, number: int, chain: Chain, mine: Callable[[str], bool]) -> int:
        """A chain's part of a round: a launch of each side, forked and plainly started ones apart. Returns rows measured.

        Args:
            mine: whether a case is one of this chain's.
        """
        plan = self._run.plan
        extra = self._table.extra if number < self._run.looks[0] else frozenset()  # one side tells no more by more
        shared, rest = (self._going_on(filter(mine, ids)) for ids in (self._open, extra))
        order = plan.case_order(number, shared, rest)
        crews = {crew.name: crew for crew in chain.crews}
        measured = 0
        for start in ("fork", "plain"):
            for slot, name in enumerate(name for name in plan.side_order(number) if name in crews):
                ids = [case_id for case_id in order if self._start(name, case_id) == start]
                if ids:
                    measured += self._launch(number, slot, chain, crews[name], ids, start)
        return measured

    def _going_on(self, ids: Iterable[str]) -> list[str]:
        """A case whose launches died so often that it cannot be judged is not launched again."""
        allowed = max(LOST_ALLOWED, self._look - ROUNDS_TO_JUDGE)
        return [case_id for case_id in ids if self._lost[case_id] <= allowed]

    def _start(self, side: SideName, case_id: str) -> Literal["fork", "plain"] | None:
        event = self._table.by_side.get(side, {}).get(case_id)
        if event is None:
            return None
        return "fork" if event.device != "cpu" and self._forkable[side] else "plain"

    def _launch(
        self, number: int, slot: int, chain: Chain, crew: Crew, ids: Sequence[str], start: Literal["fork", "plain"]
    ) -> int:
        """One launch. Returns how many rows it measured."""
        spec = LaunchSpec(
            side=crew.name,
            kind="timed",
            start=start,
            round=number,
            rounds=self._look,
            slot=slot,
            mirrored=self._run.plan.mirrored(number),
            in_turn=number == self._first,
            uuid=chain.uuid,
            driver=chain.driver,
        )
        cases = self._table.by_side[crew.name]
        targets = [target_of(cases[i], mirrored=spec.mirrored, precision=self._precision(cases[i])) for i in ids]
        targets = [target | slow_down(self._run.plant, crew.name, target["id"]) for target in targets]
        seen: dict[tuple[str, str], int] = {}  # in which launch it was measured

        def accept(launch: int, message: Message) -> None:
            if message["event"] == "left":
                return  # the preparation told it
            record = record_of(crew.name, launch, message, cases)
            if isinstance(record, Measurement):
                first = seen.setdefault((record.case, record.implementation), -1)
                if first == launch:
                    raise ValueError("measured twice")
                if first >= 0:
                    return  # its launch died just then, so it was tried again
                seen[record.case, record.implementation] = launch
            self._recorder.writer.write(record)

        job = {"kind": "measure", "root": str(crew.side.root), "cases": crew.cases, "without": self._deadly[crew.name]}
        lost = run_targets(crew.session, self._recorder, spec, job, targets, accept, self._progress)
        self._lost.update(list(lost))
        measured = sum(1 for launch in seen.values() if launch >= 0)
        if not measured:
            refuse_lost(chain.gpu)
        return measured

    def _precision(self, case: CaseEvent) -> float:
        """When sampling may stop early; in a comparison never, so that both sides draw equally."""
        return self._run.settings.measure_for(case.id, case.tags).precision if self._run.verb == "run" else 0.0


def _always() -> bool:
    """The rounds of the first look are made in any case."""
    return True
