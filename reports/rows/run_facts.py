"""What holds for a run as a whole: sides, devices, timers, time spent, what is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

from evenbench.runner.records import SideInfo, SideName

from ..load.results import Results
from .outcome import Facts, SideFacts, SideModule, distinct
from .side_row import cannot_import


def facts_of(results: Results, notes: Sequence[str] = (), rounds: Sequence[int] = ()) -> Facts:
    """The facts of a run.

    Args:
        results: the run.
        notes: what else is to be said of it.
        rounds: whole rounds of each judged row.
    """
    placed = list(chain.from_iterable(results.measurements.values()))
    timed = [launch.event for launch in results.launches if launch.event.round is not None]
    return Facts(
        header=results.header,
        sides=tuple(_side(results, info) for info in results.header.sides),
        devices=distinct(f"{event.device} {event.mig}".strip() for event in timed),
        uuids=distinct(event.uuid for event in timed),
        drivers=distinct(event.driver for event in timed),
        timers=distinct(map(attrgetter("record.timing"), placed)),
        caches=distinct(map(attrgetter("record.cache"), placed)),
        rounds=(min(rounds), max(rounds)) if rounds else None,
        preparation_s=sum(end.preparation_s for end in results.ends) if results.ends else None,
        measuring_s=sum(end.measuring_s for end in results.ends) if results.ends else None,
        partial=not results.complete,
        missing=results.missing,
        changed=tuple(dict.fromkeys(name for end in results.ends for name in end.changed)),
        notes=(*results.notes, *_side_notes(results), *_spent(results), *notes),
    )


def _spent(results: Results) -> list[str]:
    """That rows could not go on, where time was up."""
    if not any(end.out_of_budget for end in results.ends):
        return []
    return ["the time budget (budget_s) was spent before the last look, so rows that were open did not go on"]


def _modules(results: Results, side: SideName) -> tuple[SideModule, ...]:
    """The project's modules of a side; where shards differ, each of them."""
    modules: dict[SideModule, None] = {}
    for event in results.modules.get(side, ()):
        for origin in event.modules:
            modules[SideModule(**origin.model_dump())] = None
    return tuple(sorted(modules, key=attrgetter("name", "path", "digest")))


def _side(results: Results, info: SideInfo) -> SideFacts:
    events = results.prepared.get(info.name, ())
    return SideFacts(
        name=info.name,
        label=info.label,
        sha=info.sha,
        dirty=info.dirty,
        python=distinct(event.python for event in events),
        torch=distinct(event.torch for event in events),
        modules=_modules(results, info.name),
        error=next((event.error or "no reason given" for event in events if event.status == "failed"), ""),
        broken=tuple(sorted({event.file for event in results.broken.get(info.name, ())})),
        notes=tuple(dict.fromkeys(chain.from_iterable(event.notes for event in events))),
    )


def _side_notes(results: Results) -> list[str]:
    notes = []
    for info in results.header.sides:
        side = _side(results, info)
        if side.error:
            notes.append(f"{side.name} could not be prepared: {side.error}")
        notes.extend(f"{side.name}: {note}" for note in side.notes)
        notes.extend(f"{side.name}: {cannot_import(event)}" for event in results.broken.get(side.name, ()))
    return notes
