"""The lines of one results file, held against each other: every line must refer to lines before it. Pure."""

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
    # What was seen, to find what comes twice or from nowhere.
    implementations: dict[tuple[SideName, str], frozenset[str]] = field(default_factory=dict)
    told: set[tuple[str, ...]] = field(default_factory=set)  # artifacts and expectations
    numbers: set[int] = field(default_factory=set)
    measured: dict[tuple[SideName, tuple[str, str]], int] = field(default_factory=dict)  # a bit for each round
    resumes: int = 0
    compactor: Compactor = field(default_factory=Compactor)


def gather(lines: Lines | Reading) -> Gathered:
    """Check and sort the events of one file. Measurements are packed, see `evenbench.reports.load.packed`.

    Raises:
        UntrustedInput: a line refers to what is not there, or says again what was said; names the event's line.
    """
    events = iter(lines)
    header = next(events)
    if not isinstance(header, Header):
        raise UntrustedInput("line 1: the first line must be the header")
    found = Gathered(header, cut=False)
    takers = _takers()
    sides = frozenset(side.name for side in header.sides)
    for number, event in enumerate(events, start=2):
        try:
            if found.end is not None:
                raise UntrustedInput("a line after the end")
            if isinstance(event, SIDED) and event.side not in sides:
                raise UntrustedInput(f"side {event.side} is not in the header")
            takers[event.event](found, event)
        except UntrustedInput as error:
            raise UntrustedInput(f"event {number} ({event.event}): {error.message}") from None
    found.cut = lines.cut
    return found


def _takers() -> Mapping[str, Callable[[Gathered, Any], None]]:
    return MappingProxyType(
        {
            "side": _take_side,
            "modules": _take_modules,
            "case": _take_case,
            "ceilings": lambda found, event: found.ceilings.append(event),
            "launch": _take_launch,
            "measurement": _take_measurement,
            "failure": _take_failure,
            "skip": _take_skip,
            "artifact": _take_artifact,
            "expectation": _take_expectation,
            "launch_end": _take_launch_end,
            "look": _take_look,
            "resumed": _take_resumed,
            "end": _take_end,
        }
    )


def _take_side(found: Gathered, event: SideEvent) -> None:
    found.sides[event.side] = event


def _take_modules(found: Gathered, event: ModulesEvent) -> None:
    found.modules[event.side] = event


def _take_case(found: Gathered, event: CaseEvent) -> None:
    if event.index != len(found.cases):
        raise UntrustedInput(f"index {event.index} where {len(found.cases)} is next")
    if not event.id and not event.error:
        raise UntrustedInput("neither the id of a case nor the error of a file that cannot be imported")
    found.cases.append(event)
    if not event.id:
        return
    if (event.side, event.id) in found.implementations:
        raise UntrustedInput(f"{event.id} comes twice on {event.side}")
    names = frozenset(implementation.name for implementation in event.implementations)
    if len(names) != len(event.implementations):
        raise UntrustedInput(f"{event.id} names an implementation twice")
    found.implementations[event.side, event.id] = names


def _take_launch(found: Gathered, event: LaunchEvent) -> None:
    if event.launch in found.numbers:
        raise UntrustedInput(f"launch {event.launch} begins twice")
    rounds = found.header.looks[-1]
    if (event.round is None) != (event.kind == "preparation"):
        raise UntrustedInput("a timed launch has a round, a preparation none")
    if event.round is not None and event.round >= rounds:
        raise UntrustedInput(f"round {event.round} of at most {rounds}")
    if event.order and max(event.order) >= len(found.cases):
        raise UntrustedInput("the order names a case that was not told before")
    found.numbers.add(event.launch)
    found.launches[event.launch] = event


def _launch(found: Gathered, number: int) -> LaunchEvent:
    launch = found.launches.get(number)
    if launch is None:
        raise UntrustedInput(f"launch {number} is not known")
    return launch


def _take_measurement(found: Gathered, event: Measurement) -> None:
    launch = _launch(found, event.launch)
    case, implementation, side, in_round = event.case, event.implementation, launch.side, launch.round
    if in_round is None:
        raise UntrustedInput(f"launch {event.launch} is not timed")
    names = found.implementations.get((side, case))
    if names is None or implementation not in names:
        raise UntrustedInput(f"{case}, implementation {implementation}, is not known on {side}")
    row = found.compactor.once((case, implementation))
    rounds, this = found.measured.get((side, row), 0), 1 << in_round
    if rounds & this:
        raise UntrustedInput(f"{case}, implementation {implementation}, is measured twice in a round")
    found.measured[side, row] = rounds | this
    found.measurements.setdefault(row, []).append(found.compactor.packed(event, launch.launch))


def _take_failure(found: Gathered, event: Failure) -> None:
    _check_launch_side(found, event)
    found.failures.append(event)


def _take_skip(found: Gathered, event: Skip) -> None:
    _check_launch_side(found, event)
    found.skips.append(event)


def _check_launch_side(found: Gathered, event: Failure | Skip) -> None:
    if _launch(found, event.launch).side != event.side:
        raise UntrustedInput(f"launch {event.launch} is not of side {event.side}")


def _take_artifact(found: Gathered, event: Artifact) -> None:
    if len(found.artifacts) >= len(found.header.sides) * ARTIFACTS_MAX:
        raise UntrustedInput(f"more than {ARTIFACTS_MAX} artifacts a side")
    _tell_once(found, event.side, event.case, f"artifact {event.name}")
    found.artifacts.append(event)


def _take_expectation(found: Gathered, event: ExpectationEvent) -> None:
    if len(found.expectations) >= EXPECTATIONS_MAX:
        raise UntrustedInput(f"more than {EXPECTATIONS_MAX} expectations")
    _tell_once(found, "head", event.case, f"{event.metric} of {event.implementation} on {event.device}")
    found.expectations.append(event)


def _tell_once(found: Gathered, side: SideName, case: str, what: str) -> None:
    """Refuse what was told already, and a case that is not there; a stale copy is of none."""
    if case and (side, case) not in found.implementations:
        raise UntrustedInput(f"{case} is not known on {side}")
    if (side, case, what) in found.told:
        raise UntrustedInput(f"{what}{f' of {case}' if case else ''} comes twice")
    found.told.add((side, case, what))


def _take_launch_end(found: Gathered, event: LaunchEnd) -> None:
    _launch(found, event.launch)
    if event.launch in found.launch_ends:
        raise UntrustedInput(f"launch {event.launch} ends twice")
    found.launch_ends[event.launch] = event


def _take_look(found: Gathered, event: Look) -> None:
    """The driver's own note, for --resume and for people: what is judged is what was measured."""
    if event.rounds not in found.header.looks:
        raise UntrustedInput(f"a look after {count(event.rounds, 'round')}, which was not planned")
    if event.open and max(event.open) >= len(found.cases):
        raise UntrustedInput("a look names a case that was not told before")


def _take_resumed(found: Gathered, event: Resumed) -> None:
    """Rounds from `event.round` on are made again: what was written of them before does not count."""
    found.resumes += 1
    if found.resumes > RESUMES_MAX:
        raise UntrustedInput(f"resumed more than {RESUMES_MAX} times")
    gone = {n for n, launch in found.launches.items() if launch.round is not None and launch.round >= event.round}
    for number in gone:
        del found.launches[number]
        found.launch_ends.pop(number, None)
    found.measurements = {
        key: [record for record in records if record.launch not in gone] for key, records in found.measurements.items()
    }
    kept = (1 << event.round) - 1
    found.measured = {key: rounds & kept for key, rounds in found.measured.items()}
    found.failures = [failure for failure in found.failures if failure.launch not in gone]
    found.skips = [skip for skip in found.skips if skip.launch not in gone]


def _take_end(found: Gathered, event: End) -> None:
    found.end = event
