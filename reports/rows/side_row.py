"""One side of a row: what became of a case and implementation on it. Then whether two sides can be compared. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from statistics import median
from typing import Literal, NamedTuple

from evenbench.runner.records import CaseEvent, ImplementationRecord, Input, SideName, WorkRecord

from ..load.results import Placed, Results
from ..statistics.failures import Failures
from ..statistics.location import grouped_medians
from .losses import SKIPPED, WRONG, Loss, losses_of
from .outcome import MAIN, Verdict, distinct
from .roofline import HOST, Peaks, is_cold, needs, peaks_for, peaks_of, share
from .times import Times

Key = tuple[str, str]  # case and implementation
Status = Literal["ok", "wrong", "failed", "skipped", "absent"]
GRAVITY: Sequence[Status] = (
    "wrong",
    "failed",
    "skipped",
)  # what a side is called that gave no number, for several reasons

_OWN = re.compile(r"\b0x[0-9a-fA-F]+|/\S*/evenbench-\d+\S*?/(?:base|head|control)(?=/)|/\S*-(?:base|head|control)(?=/)")


class Common(NamedTuple):
    """What the launches of a row mostly share."""

    device: str
    mig: str
    uuid: str
    timing: str
    cache: str
    inputs: str
    tick_ns: int | None
    stop: str
    coarse: bool


_COMMON = attrgetter(
    *(f"launch.{name}" for name in Common._fields[:3]), *(f"record.{name}" for name in Common._fields[3:])
)


@dataclass(frozen=True)
class SideRow:
    """A row on one side. `placed` is its timed measurements by round; `losses` the rounds that died.

    `peaks` are those of the device that it ran on; None where they are not known.
    """

    side: SideName
    status: Status
    reason: str
    case: CaseEvent | None
    implementation: ImplementationRecord | None
    placed: tuple[Placed, ...]
    losses: tuple[Loss, ...]
    peaks: Peaks | None = None

    @property
    def on_host(self) -> bool:
        """Whether it runs on the CPU, whatever device the launches that it is in opened for other cases."""
        return self.case is not None and self.case.device == HOST

    @property
    def bad(self) -> bool:
        """Whether it gave an error instead of numbers."""
        return self.status in ("failed", "wrong")

    @cached_property
    def common(self) -> frozenset[Common]:
        """One for each combination of values that occurs, so nearly always one."""
        found = map(Common._make, set(map(_COMMON, self.placed)))
        return frozenset(each._replace(device=HOST, mig="") if self.on_host else each for each in found)

    @cached_property
    def samples(self) -> Mapping[int, Sequence[int]]:
        """The device-busy times of each round, counted from 0, that has any."""
        return {each.launch.round or 0: each.record.device_busy_ns for each in self.placed}

    @property
    def failed(self) -> tuple[Loss, ...]:
        """The losses that are errors of this row: not left out on purpose, nor lost with the machine."""
        return tuple(loss for loss in self.losses if loss.blamed and loss.kind != SKIPPED)

    @property
    def launches(self) -> int:
        """How many launches measured the row or failed on it."""
        return len(self.placed) + len({loss.round for loss in self.failed})

    @property
    def lost_with_the_machine(self) -> bool:
        """Whether it gave no number, and only for reasons that need not be its own."""
        return self.status == "failed" and bool(self.losses) and not self.failed

    def alone(self) -> SideRow:
        """The row as a side by itself shows it: one wrong result, or failures that are no accident, leave no number."""
        if not self.placed or not self.failed:
            return self
        wrong = next((loss for loss in self.failed if loss.kind == WRONG), None)
        failures = failures_of(None, self)
        if wrong is not None:
            return replace(self, status="wrong", reason=f"round {wrong.round + 1}: {wrong.error}", placed=())
        if failures is not None and failures.blame == "head":
            return replace(self, status="failed", reason=counted(failures, self).removeprefix("head "), placed=())
        return self


class SideRows:
    """Answers for each key what became of it on a side; the losses are sorted once."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._losses = losses_of(results)
        self._peaks = [peaks_of(ceilings) for ceilings in results.ceilings]

    def keys(self, sides: Sequence[SideName]) -> list[Key]:
        """All rows of the sides, sorted by case, then in the order in which a case lists its implementations."""
        cases = [self._results.cases.get(side, {}) for side in sides]
        found: dict[Key, None] = {}
        for case in sorted(set().union(*cases)):
            events = [known[case] for known in cases if case in known]
            names = [(case, each.name) for event in events for each in event.implementations]
            found.update(dict.fromkeys(names or [(case, MAIN)]))
        return list(found)

    def row(self, side: SideName, key: Key) -> SideRow:
        """What became of `key` on `side`."""
        case = self._results.cases.get(side, {}).get(key[0])
        if case is None:
            return SideRow(side, "absent", "", None, None, (), ())
        found = next((each for each in case.implementations if each.name == key[1]), None)
        status, reason = _prepared(case, found)
        if status != "ok":
            return SideRow(side, status, reason, case, found, (), ())
        placed = [each for each in self._results.measurements.get(key, ()) if each.launch.side == side]
        placed.sort(key=_round)
        measured = {each.launch.round for each in placed}
        lost = chain(self._losses.get((side, *key), ()), self._losses.get((side, key[0], ""), ()))
        losses = tuple(sorted((loss for loss in lost if loss.round not in measured), key=lambda loss: loss.round))
        if not placed and losses:
            gravest = min(losses, key=lambda loss: GRAVITY.index(_status_of(loss)))
            told = _quoted(gravest.kind, gravest.error)
            return SideRow(side, _status_of(gravest), told, case, found, (), losses)
        peaks = peaks_for(placed[0].launch, self._peaks, on_host=case.device == HOST) if placed else None
        return SideRow(side, status, reason, case, found, tuple(placed), losses, peaks)


def failures_of(base: SideRow | None, head: SideRow) -> Failures | None:
    """In how many launches each side failed on the row; None where none did. Without base, of head alone."""
    sides = (head,) if base is None else (base, head)
    if not any(side.failed for side in sides):
        return None
    failed = {side.side: len({loss.round for loss in side.failed}) for side in sides}
    if base is None:
        return Failures(0, 0, failed[head.side], head.launches)
    return Failures(failed[base.side], base.launches, failed[head.side], head.launches)


def counted(failures: Failures, *sides: SideRow) -> str:
    """The counts of failed launches as a reason, with the first error of the first side that has one."""
    error = next(loss.error for side in sides for loss in side.failed)
    return f"{failures.text}: {error or 'no reason given'}"


def settled(base: SideRow, head: SideRow, results: Results) -> tuple[Verdict, str] | None:
    """The verdict that the sides' states alone give, with its reason; None where the samples decide."""
    failures = failures_of(base, head)
    if error := _error(base, head, failures, results):
        return error
    if head.status == "absent":
        return "removed", f"it was {base.status} on base: {base.reason}" if base.status != "ok" else ""
    if head.status == "skipped":
        return "skipped", f"head: {head.reason}"
    if base.status == "absent":
        return "new", ""
    if base.bad and not base.lost_with_the_machine:
        alike = f"; {counted(failures, head)}" if failures is not None and failures.head else ""
        return "inconclusive" if alike else "fixed", f"base: {_told(base)}{alike}"
    return ("skipped", f"base: {base.reason}") if base.status == "skipped" else None


def _error(base: SideRow, head: SideRow, failures: Failures | None, results: Results) -> tuple[Verdict, str] | None:
    wrong = next((loss for loss in head.losses if loss.kind == WRONG), None)
    if wrong is not None and head.placed:
        return "wrong", f"head, round {wrong.round + 1}: {wrong.error}"
    prepared = not base.bad or bool(base.losses)  # where base never got so far, head fails on no more
    blamed = failures is not None and failures.blame == "head" and prepared
    if head.bad and (blamed or not head.losses or head.status == "wrong" or not base.placed):
        if head.lost_with_the_machine:
            return "inconclusive", f"head: {head.reason}"
        reason = of_both(_told(base), head.reason) if base.bad else f"head: {head.reason}"
        return ("wrong" if head.status == "wrong" else "failed"), reason
    if failures is not None and blamed:
        return "failed", counted(failures, head, base)
    for missing, other in ((base, head), (head, base)):
        if missing.case is None and (error := unreadable(results, missing.side, other)):
            return "failed", error
    return None


def _told(row: SideRow) -> str:
    """A bad side's reason where the verdict does not speak of that side."""
    return f"wrong: {row.reason}" if row.status == "wrong" else row.reason


def of_both(base: str, head: str) -> str:
    """The reasons of both sides; once where they differ only in addresses and in the sides' folders."""
    if _OWN.sub("", base) == _OWN.sub("", head):
        return f"both sides: {head}"
    return f"head: {head}; base: {base}"


def differences(base: SideRow, head: SideRow) -> tuple[str, ...]:
    """What forbids comparing the two, each with both values."""
    found = []
    for what, seen in (
        ("GPU", lambda each: f"{each.device} {each.mig}".strip()),
        ("timer", lambda each: each.timing),
        ("cache", lambda each: each.cache),
    ):
        found.extend(_differing(what, *(distinct(map(seen, row.common)) for row in (base, head))))
    if base.case is not None and head.case is not None:
        found.extend(_input_difference(base, head))
        found.extend(_work_difference(base.case.work, head.case.work))
    return tuple(found)


def times(row: SideRow, ns: float | None = None) -> Times | None:
    """The times of a side; `ns` where the judge has told it already. None without a measurement."""
    if not row.placed or row.case is None:
        return None
    records = [each.record for each in row.placed]
    if ns is None:
        ticks = [record.tick_ns for record in records]
        ns = median(grouped_medians([record.device_busy_ns for record in records], ticks).tolist())
    work = row.case.work
    moved = 0 if work is None else work.bytes_read + work.bytes_written
    needed = needs(work, row.peaks, cold=is_cold(records)) if work and row.peaks else ()
    return Times(
        ns=ns,
        records=tuple(records),
        tflops=work.flops / ns / 1e3 if work and work.flops and ns > 0 else None,
        bandwidth_tbs=moved / ns / 1e3 if moved and ns > 0 else None,
        share=share(needed, ns),
        needs=needed,
        work=work,
        peaks=row.peaks,
    )


def cannot_import(event: CaseEvent, more: str = "") -> str:
    """That a case file cannot be imported, and why; a discovery that died as a whole names no file."""
    return f"{event.file}{more} cannot be imported: {event.error}" if event.file else event.error


def tick(rows: Iterable[SideRow]) -> int | None:
    """The coarsest tick of the measurements; None where they have none."""
    return max((each.tick_ns for row in rows for each in row.common if each.tick_ns), default=None)


def _round(placed: Placed) -> int:
    return placed.launch.round or 0


def _prepared(case: CaseEvent, implementation: ImplementationRecord | None) -> tuple[Status, str]:
    if case.status != "ok" and (implementation is None or implementation.status == "ok"):
        if implementation is None and case.implementations:
            return "absent", ""
        return case.status, _quoted(case.kind or "", case.reason or case.error)
    if implementation is None:
        return "absent", ""
    if implementation.status != "ok":
        return implementation.status, _quoted(implementation.kind or "", implementation.reason)
    return "ok", ""


def _status_of(loss: Loss) -> Status:
    return "wrong" if loss.kind == WRONG else "skipped" if loss.kind == SKIPPED else "failed"


def _quoted(kind: str, error: str) -> str:
    shown = "" if kind in (WRONG, SKIPPED) else kind  # the verdict says that
    return ": ".join(part for part in (shown, error) if part) or "no reason given"


def unreadable(results: Results, side: SideName, other: SideRow) -> str:
    """The error that may hide the row on `side`: its set-up's, or that of a case file, its own first."""
    errors = [event.error for event in results.prepared.get(side, ()) if event.status == "failed"]
    if errors:
        return f"{side} could not be prepared: {errors[0]}"
    file = other.case.file if other.case is not None else ""
    broken = sorted(results.broken.get(side, ()), key=lambda event: (event.file != file, event.file))
    if not broken:
        return ""
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{side}: {cannot_import(broken[0], more)}"


def other_device(base: SideRow, head: SideRow) -> tuple[str, ...]:
    """That a row's rounds did not stay on one device, which the launches of a round must."""
    one, other = (distinct(each.uuid for each in row.common) for row in (base, head))
    return tuple(_differing("GPU", one, other))


def _differing(what: str, one: Sequence[str], other: Sequence[str]) -> list[str]:
    if not one or not other or (one == other and len(one) == 1):  # several on a side may stand in one round
        return []
    return [f"{what} differs: {' and '.join(one)} on base, {' and '.join(other)} on head"]


def _input_difference(base: SideRow, head: SideRow) -> list[str]:
    one, other = ({each.name: each for each in row.case.inputs} if row.case else {} for row in (base, head))
    differing = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    if differing:
        a, b = _input(one.get(differing[0])), _input(other.get(differing[0]))
        what = f"input {differing[0]} differs{' in its contents' if a == b else ''}"
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        return [f"{what}{more}: {a}{'' if a == b else f' on base, {b} on head'}"]
    hashes = [distinct(each.inputs for each in row.common) for row in (base, head)]
    return ["inputs as timed differ"] if all(hashes) and hashes[0] != hashes[1] else []


def _input(value: Input | None) -> str:
    return "missing" if value is None else f"{value.dtype} {'×'.join(str(size) for size in value.shape) or 'scalar'}"


def _work_difference(base: WorkRecord | None, head: WorkRecord | None) -> list[str]:
    if base == head:
        return []
    if base is None or head is None:
        return [
            f"work differs: {'none' if base is None else 'declared'} on base, {'none' if head is None else 'declared'} on head"
        ]
    for name in WorkRecord.model_fields:
        if getattr(base, name) != getattr(head, name):
            return [f"work differs: {name} {getattr(base, name)} on base, {getattr(head, name)} on head"]
    return []
