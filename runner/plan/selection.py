"""From sides to cases: which there are, found in processes of each side, and which of them are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..artifacts.texts import Texts
from ..config import RunSettings, select
from ..errors import CaseError, NothingMeasured, UsageError
from ..launchers.launcher import Message, Session
from ..records import SideName
from ..records.fields import NAME_MAX, CaseId, Name, Text
from ..sides import Side
from ..words import count
from .plan import Plan

IMPORT_TIMEOUT_S = 120.0  # importing one case file with its libraries, cold
DEADLY_MAX = 10  # files whose import kills the process; with more of them something else is wrong
TEXT_KEPT = 1_000  # characters of a foreign message
PATTERN_HINT = (
    "evenbench list shows their ids; a * stops at a slash or comma, ** does not, and a pattern with brackets names all "
    "parameters: 'conv/*', 'conv**', 'conv/fft[size=64,**]'"
)
CASES_MAX = 20_000  # of one side: more is a mistake in a parameter grid


class DiscoveredCase(BaseModel):
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
class SideCases:
    """What discovery found on one side."""

    points: Mapping[str, DiscoveredCase]
    broken: Sequence[Broken]

    @property
    def deadly(self) -> list[str]:
        """Files that no launch may import: it would end there."""
        return [broken.file for broken in self.broken if broken.deadly]


def discover(crew: Crew) -> SideCases:
    """All cases of a side, found in its processes.

    A file whose import kills or hangs its process costs only its own cases: discovery goes on without it.
    """
    deadly: list[Broken] = []
    while True:
        found, file, died = _discover_once(crew, [each.file for each in deadly])
        if not died:
            return SideCases(found.points, [*found.broken, *deadly])
        name = f"{file}: " if file else ""
        deadly.append(
            Broken(event="broken", file=file, error=f"{name}its import ended the process: {died}", deadly=True)
        )
        if not file or len(deadly) > DEADLY_MAX:
            return SideCases(found.points, [*found.broken, *deadly])


def _discover_once(crew: Crew, without: Sequence[str]) -> tuple[SideCases, str, str]:
    """What one process found, the file that it imported last, and how it died; empty where it lived."""
    points: dict[str, DiscoveredCase] = {}
    broken: list[Broken] = []
    file = died = ""
    for message in crew.session.launch(job_of("discover", crew, without), fork=True, timeout_s=IMPORT_TIMEOUT_S):
        try:
            if message["event"] == "begin":
                file = str(message.get("case"))[:NAME_MAX]
            elif message["event"] == "point":
                point = DiscoveredCase.model_validate(message)
                points[point.id] = point
            elif message["event"] == "broken":
                broken.append(Broken.model_validate(message))
            elif message["event"] == "exit" and message["status"] != "ok":
                died = str(message["detail"])[:TEXT_KEPT] or "no reason given"
        except ValueError:  # what a process of the side sends is foreign
            broken.append(Broken(event="broken", file=file, error=f"{file}: discovery sent a malformed message"))
        if len(points) > CASES_MAX:
            raise UsageError(f"{crew.name} has more than {CASES_MAX} cases", "cut down the parameter grids")
    return SideCases(points, broken), file, died


def job_of(kind: str, crew: Crew, without: Sequence[str]) -> Message:
    """What a launch of a side is to do, without its cases; files that it must not import are left out."""
    return {"kind": kind, "root": str(crew.side.root), "cases": crew.cases, "without": list(without)}


def refuse_broken(found: Mapping[SideName, SideCases], patterns: Sequence[str]) -> list[str]:
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
    found: Mapping[SideName, SideCases], settings: RunSettings, patterns: Sequence[str], plan: Plan
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
    found: Mapping[SideName, SideCases], settings: RunSettings, patterns: Sequence[str], number: int
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
            f"{wanted}: selects none of {count(number, 'case')}",
            f"{count(len(broken), 'file')} cannot be imported: {broken[0]}",
        )
    return UsageError(f"{wanted}: selects none of {count(number, 'case')}", PATTERN_HINT)


def unmatched(found: Mapping[SideName, SideCases], patterns: Sequence[str]) -> list[str]:
    """The patterns that select no case of any side: most often a slip of the pen."""
    points = {case_id: point for side in found.values() for case_id, point in side.points.items()}
    return [p for p in patterns if not any(select((p,), case_id, point.tags) for case_id, point in points.items())]
