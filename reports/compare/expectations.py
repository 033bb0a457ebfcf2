"""Committed figures held against what a run measured: met, in which attempt, or off to which side. Pure.

In a run of one side an attempt is as many rounds as were planned; those after the first were made for rows that missed.
Every attempt is judged by its own launches alone, so that a file tells all that was seen. In a comparison all launches
of head are one attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from statistics import median

from evenbench.runner.config import select
from evenbench.runner.records import ExpectationEvent
from evenbench.runner.records.fields import ROUNDS_MAX

from ..load.results import Placed, Results
from ..rows.outcome import Expected, distinct
from ..rows.side_row import Key, SideRow, SideRows, times

HOST = "cpu"  # device of a case that runs on the CPU: its model is that of the CPU
SMALLER_IS_BETTER = "device_busy_ms"
NS_PER_MS = 1e6


def expected(results: Results, sides: SideRows | None = None) -> tuple[Expected, ...]:
    """The outcome of every expectation, in the order of the file; of a row without one for its model, one that says so."""
    if not results.expectations:
        return ()
    sides = sides or SideRows(results)
    by_row: dict[Key, list[ExpectationEvent]] = {}
    for event in results.expectations:
        by_row.setdefault((event.case, event.implementation), []).append(event)
    return tuple(
        chain.from_iterable(_of_row(sides.row("head", key), key, found, results) for key, found in by_row.items())
    )


def outliers(results: Results) -> frozenset[str]:
    """The cases with a row that missed its expectation, so that another attempt may still meet it."""
    return frozenset(each.case for each in expected(results) if each.outcome in ("worse", "better"))


def value_of(row: SideRow, placed: Sequence[Placed], metric: str) -> float | None:
    """A metric of a row by some of its launches; None where the case declares no such work, or without launches."""
    found = times(replace(row, placed=tuple(placed)))
    if found is None:
        return None
    if metric == SMALLER_IS_BETTER:
        return found.ns / NS_PER_MS
    return found.tflops if metric == "tflops" else found.bandwidth_tbs


def models(row: SideRow, results: Results) -> tuple[str, ...]:
    """The models of what a row ran on: of the GPU, or for a case on the CPU that of the CPU. Should be one."""
    launches = [each.launch for each in row.placed] or [
        each.event for each in results.launches if each.event.side == row.side
    ]
    device = row.case.device if row.case is not None else ""
    found = []
    for launch in launches:
        if device == HOST:  # whatever device the launch opened for other cases
            found.append(launch.cpu)
        elif launch.device not in ("", HOST):
            found.append(launch.device)
        elif not device:  # of a case that died before it told, any may be meant
            found.append(launch.cpu)
    return distinct(found)


def _of_row(row: SideRow, key: Key, events: Sequence[ExpectationEvent], results: Results) -> list[Expected]:
    here = models(row, results)
    mine = [event for event in events if event.device in here]
    run_on = " and ".join(here) or "a device that is not known"
    if not mine:
        others = " and ".join(distinct(event.device for event in events))
        return [Expected(*key, run_on, "skipped", reason=f"no figure for {run_on}, only for {others}")]
    if why := row.reason if row.status == "skipped" else _slowed(row, results):
        return [Expected(*key, run_on, "skipped", event.metric, reason=why) for event in mine]
    rounds = results.header.rounds if results.header.verb == "run" else ROUNDS_MAX
    return [_judged(row, event, rounds) for event in mine]


def _slowed(row: SideRow, results: Results) -> str:
    """Of a comparison, whose other proof it is; in a run of one side it is there to miss its expectation."""
    plant, case = results.header.plant, row.case
    slowed = plant is not None and case is not None and select((plant.case,), case.id, case.tags)
    return "slowed on purpose" if slowed and results.header.verb == "compare" else ""


def _judged(row: SideRow, event: ExpectationEvent, rounds: int) -> Expected:
    attempts = _attempts(row, event.metric, rounds)
    known = [value for value in attempts if value is not None]
    found = Expected(
        event.case,
        event.implementation,
        event.device,
        "missing",
        event.metric,
        event.value,
        event.rtol,
        event.atol,
        attempts,
        measured=event.measured,
        by=event.by,
    )
    if not known:
        return replace(found, reason=_why_missing(row, event))
    met = [value is not None and abs(value - event.value) <= found.tolerance for value in attempts]
    if any(met):  # what came after was made for another row of the case
        return replace(found, outcome="met" if met[0] else "flaky", attempts=attempts[: met.index(True) + 1])
    above = median(known) > event.value
    return replace(found, outcome="better" if above != (event.metric == SMALLER_IS_BETTER) else "worse")


def _attempts(row: SideRow, metric: str, rounds: int) -> tuple[float | None, ...]:
    by_attempt: dict[int, list[Placed]] = {loss.round // rounds: [] for loss in row.losses}
    for each in row.placed:
        by_attempt.setdefault((each.launch.round or 0) // rounds, []).append(each)
    return tuple(value_of(row, by_attempt[number], metric) for number in sorted(by_attempt))


def _why_missing(row: SideRow, event: ExpectationEvent) -> str:
    if row.status == "absent":
        return f"the case has no implementation {event.implementation}"
    if row.placed:
        return f"the case declares no work that gives {event.metric}"
    return row.reason or "not measured"
