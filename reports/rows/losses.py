"""Why timed rounds gave a side no number for a case, and whether the case is to blame for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain

from evenbench.runner.records import SideName

from ..load.results import Launch, Results

SKIPPED = "skipped"  # kind of a loss that a launch made on purpose
WRONG = "wrong"  # kind of a loss whose result was not right
DEATHS = ("crashed", "timeout")  # kinds that a machine which stands still may be the cause of


@dataclass(frozen=True)
class Loss:
    """A round, counted from 0, in which a side gave no number, and why.

    `blamed` is false where the row need not be the cause: its launch died of another case or for no known reason, or all
    of the machine stood still.
    """

    round: int
    kind: str
    error: str
    blamed: bool = True


def losses_of(results: Results) -> Mapping[tuple[SideName, str, str], list[Loss]]:
    """By side, case and implementation, the timed rounds that gave an error; '' stands for all implementations."""
    found: dict[tuple[SideName, str, str], list[Loss]] = {}
    died: dict[tuple[int, int], Loss] = {}
    by_case: set[tuple[int, int]] = set()  # launches with a failure of one case
    stood_still = {
        (launched.shard, launched.event.launch)
        for launched in results.launches
        if launched.end is not None and launched.end.paused_s > 0
    }
    ended_the_run = _last_words(results)
    for failed in results.failures:
        launch, record = failed.launch, failed.record
        if launch.round is None:
            continue
        this = (failed.shard, launch.launch)
        blamed = record.case is not None and (this not in stood_still or record.kind not in DEATHS)
        blamed = blamed and this not in ended_the_run
        loss = Loss(launch.round, record.kind, record.error, blamed)
        if record.case is None:
            died[this] = loss
        else:
            by_case.add(this)
            found.setdefault((launch.side, record.case, record.implementation or ""), []).append(loss)
    for launch, skip in results.skips:
        if launch.round is not None:
            loss = Loss(launch.round, SKIPPED, skip.reason)
            found.setdefault((launch.side, skip.case, skip.implementation or ""), []).append(loss)
    names = results.names
    for launched in results.launches:
        if loss_or_none := _death(launched, died, by_case, complete=results.complete):
            for index in launched.event.order:
                if name := names.get((launched.shard, index)):
                    found.setdefault((launched.event.side, name, ""), []).append(loss_or_none)
    return found


def _last_words(results: Results) -> AbstractSet[tuple[int, int]]:
    """Of a run without an end the last launches on each GPU, where they measured nothing: the GPU may be gone."""
    if results.complete:
        return frozenset()
    timed = [launched for launched in results.launches if launched.event.round is not None]
    last = {(launched.shard, launched.event.uuid): _part(launched) for launched in timed}
    ending = {
        id(launched.event): (launched.shard, launched.event.launch)
        for launched in timed
        if _part(launched) == last[launched.shard, launched.event.uuid]
    }
    if not any(id(failed.launch) in ending for failed in results.failures):
        return frozenset()
    measured = {
        (placed.launch.uuid, placed.launch.side, placed.launch.round)
        for placed in chain.from_iterable(results.measurements.values())
        if id(placed.launch) in ending
    }
    parts = {(shard, uuid): (uuid, *part) for (shard, uuid), part in last.items()}
    gone = {key for key, part in parts.items() if part not in measured}
    return {
        (launched.shard, launched.event.launch)
        for launched in timed
        if id(launched.event) in ending and (launched.shard, launched.event.uuid) in gone
    }


def _part(launched: Launch) -> tuple[SideName, int | None]:
    """The side's part of a round, of which a launch that died is the first of several."""
    return launched.event.side, launched.event.round


def _death(
    launched: Launch, died: Mapping[tuple[int, int], Loss], by_case: AbstractSet[tuple[int, int]], *, complete: bool
) -> Loss | None:
    """What a timed launch that died cost the cases that it had not finished; None where nothing."""
    event, end, this = launched.event, launched.end, (launched.shard, launched.event.launch)
    if event.round is None or this in died:
        return died.get(this)
    if end is None or end.status not in ("crashed", "timeout"):
        return None
    if this in by_case and not complete:
        return None  # one case broke it, and what would have gone on with the others may have been cut off
    return Loss(event.round, end.status, "its launch died", blamed=False)
