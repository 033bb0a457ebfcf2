"""The lines of one results file, checked against each other: every line must refer to lines before it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from evenbench.runner.config.expectations import EXPECTATIONS_MAX
from evenbench.runner.errors import UntrustedInput
from evenbench.runner.records import (
    Artifact,
    CaseEvent,
    CeilingsEvent,
    End,
    ExpectationEvent,
    Failure,
    Header,
    LaunchEnd,
    LaunchEvent,
    Lines,
    Look,
    Measurement,
    ModulesEvent,
    Reading,
    Resumed,
    SideEvent,
    SideName,
    Skip,
)
from evenbench.runner.records.fields import ARTIFACTS_MAX, RESUMES_MAX

from ..units import count
from .packed import Compactor, Sampled

SIDED = (SideEvent, ModulesEvent, CaseEvent, LaunchEvent, Failure, Skip, Artifact)  # events that name a side


@dataclass
class Gathered:
    """What one file holds, while it is gathered and after.

    Attributes:
        header: line 1.
        sides: the last `side` line of each side.
        modules: the last `modules` line of each side.
        cases: in the order of their indices.
        launches: by number; those that a resumed run made again are gone, with all they hold.
        launch_ends: by number.
        measurements: by (case, implementation).
        end: None where the run did not come to its end.
        cut: the file ended in the middle of a line.
    """

    header: Header
    cut: bool
    sides: dict[SideName, SideEvent] = field(default_factory=dict)
    modules: dict[SideName, ModulesEvent] = field(default_factory=dict)
    cases: list[CaseEvent] = field(default_factory=list)
    launches: dict[int, LaunchEvent] = field(default_factory=dict)
    launch_ends: dict[int, LaunchEnd] = field(default_factory=dict)
    measurements: dict[tuple[str, str], list[Sampled]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    ceilings: list[CeilingsEvent] = field(default_factory=list)
    expectations: list[ExpectationEvent] = field(default_factory=list)
    end: End | None = None
    # What came before, to refuse what comes twice or refers to nothing.
    implementations: dict[tuple[SideName, str], frozenset[str]] = field(default_factory=dict)
    listed: set[tuple[str, ...]] = field(default_factory=set)  # artifacts and expectations
    numbers: set[int] = field(default_factory=set)
    measured: dict[tuple[SideName, tuple[str, str]], int] = field(default_factory=dict)  # a bit for each round
    resumes: int = 0
    compactor: Compactor = field(default_factory=Compactor)


def gather(lines: Lines | Reading) -> Gathered:
    """Check and sort the events of one file. Measurements are packed, see `evenbench.reports.load.packed`.

    Raises:
        UntrustedInput: a line refers to something unknown, or repeats what may come once; names the event's line.
    """
    events = iter(lines)
    header = next(events)
    if not isinstance(header, Header):
        raise UntrustedInput("line 1: the first line must be the header")
    gathered = Gathered(header, cut=False)
    handlers = _handlers()
    sides = frozenset(side.name for side in header.sides)
    for number, event in enumerate(events, start=2):
        try:
            if gathered.end is not None:
                raise UntrustedInput("a line after the end")
            if isinstance(event, SIDED) and event.side not in sides:
                raise UntrustedInput(f"side {event.side} is not in the header")
            handlers[event.event](gathered, event)
        except UntrustedInput as error:
            raise UntrustedInput(f"event {number} ({event.event}): {error.message}") from None
    gathered.cut = lines.cut
    return gathered


def _handlers() -> Mapping[str, Callable[[Gathered, Any], None]]:
    return MappingProxyType(
        {
            "side": _add_side,
            "modules": _add_modules,
            "case": _add_case,
            "ceilings": lambda gathered, event: gathered.ceilings.append(event),
            "launch": _add_launch,
            "measurement": _add_measurement,
            "failure": _add_failure,
            "skip": _add_skip,
            "artifact": _add_artifact,
            "expectation": _add_expectation,
            "launch_end": _add_launch_end,
            "look": _add_look,
            "resumed": _add_resumed,
            "end": _add_end,
        }
    )


def _add_side(gathered: Gathered, event: SideEvent) -> None:
    gathered.sides[event.side] = event


def _add_modules(gathered: Gathered, event: ModulesEvent) -> None:
    gathered.modules[event.side] = event


def _add_case(gathered: Gathered, event: CaseEvent) -> None:
    if event.index != len(gathered.cases):
        raise UntrustedInput(f"index {event.index} where {len(gathered.cases)} is next")
    if not event.id and not event.error:
        raise UntrustedInput("neither the id of a case nor the error of a file that cannot be imported")
    gathered.cases.append(event)
    if not event.id:
        return
    if (event.side, event.id) in gathered.implementations:
        raise UntrustedInput(f"{event.id} comes twice on {event.side}")
    names = frozenset(implementation.name for implementation in event.implementations)
    if len(names) != len(event.implementations):
        raise UntrustedInput(f"{event.id} names an implementation twice")
    gathered.implementations[event.side, event.id] = names


def _add_launch(gathered: Gathered, event: LaunchEvent) -> None:
    if event.launch in gathered.numbers:
        raise UntrustedInput(f"launch {event.launch} begins twice")
    rounds = gathered.header.looks[-1]
    if (event.round is None) != (event.kind == "preparation"):
        raise UntrustedInput("a timed launch has a round, a preparation none")
    if event.round is not None and event.round >= rounds:
        raise UntrustedInput(f"round {event.round} of at most {rounds}")
    if event.order and max(event.order) >= len(gathered.cases):
        raise UntrustedInput("the order names a case that no line before it describes")
    gathered.numbers.add(event.launch)
    gathered.launches[event.launch] = event


def _launch(gathered: Gathered, number: int) -> LaunchEvent:
    launch = gathered.launches.get(number)
    if launch is None:
        raise UntrustedInput(f"launch {number} is not known")
    return launch


def _add_measurement(gathered: Gathered, event: Measurement) -> None:
    launch = _launch(gathered, event.launch)
    case, implementation, side, in_round = event.case, event.implementation, launch.side, launch.round
    if in_round is None:
        raise UntrustedInput(f"launch {event.launch} is not timed")
    names = gathered.implementations.get((side, case))
    if names is None or implementation not in names:
        raise UntrustedInput(f"{case}, implementation {implementation}, is not known on {side}")
    row = gathered.compactor.once((case, implementation))
    rounds, this_round = gathered.measured.get((side, row), 0), 1 << in_round
    if rounds & this_round:
        raise UntrustedInput(f"{case}, implementation {implementation}, is measured twice in a round")
    gathered.measured[side, row] = rounds | this_round
    gathered.measurements.setdefault(row, []).append(gathered.compactor.packed(event, launch.launch))


def _add_failure(gathered: Gathered, event: Failure) -> None:
    _check_launch_side(gathered, event)
    gathered.failures.append(event)


def _add_skip(gathered: Gathered, event: Skip) -> None:
    _check_launch_side(gathered, event)
    gathered.skips.append(event)


def _check_launch_side(gathered: Gathered, event: Failure | Skip) -> None:
    if _launch(gathered, event.launch).side != event.side:
        raise UntrustedInput(f"launch {event.launch} is not of side {event.side}")


def _add_artifact(gathered: Gathered, event: Artifact) -> None:
    if len(gathered.artifacts) >= len(gathered.header.sides) * ARTIFACTS_MAX:
        raise UntrustedInput(f"more than {ARTIFACTS_MAX} artifacts a side")
    _list_once(gathered, event.side, event.case, f"artifact {event.name}")
    gathered.artifacts.append(event)


def _add_expectation(gathered: Gathered, event: ExpectationEvent) -> None:
    if len(gathered.expectations) >= EXPECTATIONS_MAX:
        raise UntrustedInput(f"more than {EXPECTATIONS_MAX} expectations")
    _list_once(gathered, "head", event.case, f"{event.metric} of {event.implementation} on {event.device}")
    gathered.expectations.append(event)


def _list_once(gathered: Gathered, side: SideName, case: str, what: str) -> None:
    """Note an event that may come once. A stale copy has no case.

    Raises:
        UntrustedInput: it came before, or its case is not known.
    """
    if case and (side, case) not in gathered.implementations:
        raise UntrustedInput(f"{case} is not known on {side}")
    if (side, case, what) in gathered.listed:
        raise UntrustedInput(f"{what} of {case} comes twice" if case else f"{what} comes twice")
    gathered.listed.add((side, case, what))


def _add_launch_end(gathered: Gathered, event: LaunchEnd) -> None:
    _launch(gathered, event.launch)
    if event.launch in gathered.launch_ends:
        raise UntrustedInput(f"launch {event.launch} ends twice")
    gathered.launch_ends[event.launch] = event


def _add_look(gathered: Gathered, event: Look) -> None:
    """The driver's own note, for --resume and for people: what is judged is what was measured."""
    if event.rounds not in gathered.header.looks:
        raise UntrustedInput(f"a look after {count(event.rounds, 'round')}, which was not planned")
    if event.open and max(event.open) >= len(gathered.cases):
        raise UntrustedInput("a look names a case that no line before it describes")


def _add_resumed(gathered: Gathered, event: Resumed) -> None:
    """Rounds from `event.round` on are made again: what was written of them before does not count."""
    gathered.resumes += 1
    if gathered.resumes > RESUMES_MAX:
        raise UntrustedInput(f"resumed more than {RESUMES_MAX} times")
    gone = {n for n, launch in gathered.launches.items() if launch.round is not None and launch.round >= event.round}
    for number in gone:
        del gathered.launches[number]
        gathered.launch_ends.pop(number, None)
    for key, records in gathered.measurements.items():
        gathered.measurements[key] = [record for record in records if record.launch not in gone]
    rounds_before = (1 << event.round) - 1
    gathered.measured = {key: rounds & rounds_before for key, rounds in gathered.measured.items()}
    gathered.failures = [failure for failure in gathered.failures if failure.launch not in gone]
    gathered.skips = [skip for skip in gathered.skips if skip.launch not in gone]


def _add_end(gathered: Gathered, event: End) -> None:
    gathered.end = event
