"""Where series of the history changed: change points, what of them is new, and their lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter, ValidationError

from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import Record
from evenbench.runner.records.fields import CaseId, Finite, Name, Sha, ShortName
from evenbench.runner.records.reader import printable, strict_json

from ..load.proofs import moment
from .change_points import RUNS_MIN, SMALLEST, steps
from .series import PLACE, Series, SeriesKey, SeriesPoint

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "evenbench.change/1.1"  # of one change point
OLDER_SCHEMA = "evenbench.change/1.0"
DETECTED = "evenbench.changes/1.0"  # of all that detect found
COMMON = 0.5  # share of a machine's series that change in one night, from which on the machine is the first suspect

YEAR_S = 365.25 * 86_400


class Change(Record):
    """A change point: times before and after in ns, `change` as a fraction (above 0: slower), and the commits between.

    `good` is the last commit on the old level, `bad` the first on the new one; `at` is when `bad` was measured.
    """

    schema_: Annotated[Name, Field(alias="schema")] = SCHEMA
    case: CaseId
    implementation: ShortName
    device: Name
    uuid: Name
    mig: Name
    driver: Name
    image: Name
    torch: Name
    harness: Name
    timer: Name
    cache: Name
    inputs: Name
    cpu: Name = ""
    python: Name = ""
    good: Sha
    bad: Sha
    good_at: Name
    at: Name
    run_id: ShortName
    before_ns: Finite
    after_ns: Finite
    change: Finite
    p: Finite

    @property
    def place(self) -> SeriesKey:
        """The series that it is in."""
        return SeriesKey(**{name: getattr(self, name) for name in PLACE})

    def is_in(self, place: SeriesKey) -> bool:
        """Whether it is in that series; one of an older schema names neither CPU nor Python."""
        return place == self.place or (self.schema_ == OLDER_SCHEMA and self.place == replace(place, cpu="", python=""))

    @property
    def slower(self) -> bool:
        """Whether it is one for the worse."""
        return self.change > 0


_ADAPTER: TypeAdapter[Change] = TypeAdapter(Change)


@dataclass(frozen=True)
class Detected:
    """All change points of a history.

    Attributes:
        changes: the newest first, then the largest.
        series, years: how many series were looked at, and over how many years in all.
        at_once: of each run and machine, how many of its series changed in it, and how many it has.
    """

    changes: tuple[Change, ...]
    series: int
    years: float
    at_once: Mapping[tuple[str, str], tuple[int, int]]

    def suspicious(self, change: Change) -> str:
        """That so many series of the machine changed in the same run that the machine is suspect; empty where not."""
        together, of = self.at_once[change.run_id, change.place.machine]
        if together <= 1 or together < COMMON * of:
            return ""
        return f"{together} of {of} rows of this machine changed in this run: look at the machine first"


def detect(series: Iterable[Series], smallest: float = SMALLEST) -> Detected:
    """Where series changed. Raises UsageError where the library is missing."""
    changes: list[Change] = []
    together, of = Counter[tuple[str, str]](), Counter[str]()
    number, years = 0, 0.0
    for each in series:
        number += 1
        of[each.place.machine] += 1
        years += (each.last - each.first).total_seconds() / YEAR_S
        for change in changes_of(each, smallest):
            changes.append(change)
            together[change.run_id, change.place.machine] += 1
    changes.sort(key=lambda change: (change.at, abs(change.change)), reverse=True)
    at_once = {key: (count, of[key[1]]) for key, count in together.items()}
    return Detected(tuple(changes), number, years, at_once)


def changes_of(series: Series, smallest: float = SMALLEST) -> list[Change]:
    """The change points of one series, in order; none between two runs of one commit, which is no change of the code."""
    points = series.points
    found = steps([point.ns for point in points], smallest, [point.commit for point in points])
    edges = [0, *(step.index for step in found), len(points)]
    place = {name: getattr(series.place, name) for name in PLACE}
    changes = []
    for number, step in enumerate(found, start=1):
        good, bad = points[step.index - 1], points[step.index]
        if good.commit == bad.commit:
            continue
        after = _middle(points[step.index : edges[number + 1]])
        changes.append(
            Change(
                **place,
                good=good.commit,
                bad=bad.commit,
                good_at=good.started.isoformat(),
                at=bad.started.isoformat(),
                run_id=bad.run_id,
                before_ns=_middle(points[edges[number - 1] : step.index]),
                after_ns=after,
                change=step.change,
                p=step.p,
            )
        )
    return changes


def new_ones(changes: Sequence[Change], told: Sequence[Change], series: Iterable[Series]) -> list[Change]:
    """The changes that were not told before: none of the same series and direction within `RUNS_MIN` runs.

    More nights move a change point by a run or two; commits between the two already reported narrow it down.
    """
    told_by_row: dict[tuple[str, str], list[Change]] = {}
    for change in told:
        told_by_row.setdefault(change.place.row, []).append(change)
    runs: dict[SeriesKey, dict[str, int]] = {}
    lasts: dict[SeriesKey, dict[str, int]] = {}
    for each in series:
        if each.place.row in told_by_row:
            runs[each.place] = {point.run_id: number for number, point in enumerate(each.points)}
            lasts[each.place] = {point.commit: number for number, point in enumerate(each.points)}

    def was_told(change: Change) -> bool:
        numbers = runs.get(change.place, {})
        for other in told_by_row.get(change.place.row, ()):
            known = other.slower == change.slower and other.is_in(change.place)
            if not known or other.run_id not in numbers or change.run_id not in numbers:
                continue
            bad = numbers[other.run_id]
            good = min(lasts[change.place].get(other.good, bad), bad)
            if good - RUNS_MIN < numbers[change.run_id] <= bad + RUNS_MIN:
                return True
        return False

    return [change for change in changes if not was_told(change)]


def dump(change: Change) -> str:
    """The change as one line, without its end."""
    return change.model_dump_json(by_alias=True)


def read_changes(lines: Iterable[tuple[Path, bytes]]) -> list[Change]:
    """The change points of lines, each with the file that it is from. Raises UntrustedInput."""
    found = []
    for path, line in lines:
        try:
            found.append(_change(strict_json(line)))
        except UntrustedInput as error:
            raise UntrustedInput(f"{path}: {error.message}", error.hint) from None
    return found


def read_detected(data: bytes) -> tuple[list[Change], list[str]]:
    """The change points of what `detect --json` printed, and what makes each suspicious. Raises UntrustedInput."""
    value = strict_json(data)
    listed = value.get("changes") if isinstance(value, dict) and value.get("schema") == DETECTED else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UntrustedInput(f"its schema must be {DETECTED}", "evenbench history detect --json prints it")
    suspicions = [each.pop("suspicious", "") for each in listed]
    return [_change(each) for each in listed], [str(each) for each in suspicions]


def _change(value: object) -> Change:
    try:
        return _ADAPTER.validate_python(value, by_alias=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "change"
        raise UntrustedInput(printable(f"{place}: {first['msg']}"[:500])) from None


def since(changes: Iterable[Change], when: str) -> list[Change]:
    """The changes whose new level was first measured at that time or later. Raises UsageError."""
    limit = moment(when) or moment(f"{when}T00:00:00+00:00")
    if limit is None:
        raise UsageError(f"{when!r} is no time", "a day such as 2026-11-29, or a time with its zone in ISO 8601")
    return [each for each in changes if (at := moment(each.at)) is not None and at >= limit]


def _middle(points: Sequence[SeriesPoint]) -> float:
    ordered = sorted(point.ns for point in points)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
