"""The rounds of a row: where each launch was located, which rounds were dropped, how the whole ones differed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evenbench.runner.records import SideName

from ... import units
from ...load.results import Results
from ...rows import notes
from ...rows.side_row import SideRow, tick
from ...statistics.location import grouped_medians
from . import evidence
from .text_plot import Mark

REASONS_MAX = 5  # for which rounds were dropped
NAMED_MAX = 8  # rounds that are named for each
LISTED_MAX = 100  # rounds whose differences are listed
PAIR: tuple[SideName, SideName] = ("base", "head")


@dataclass(frozen=True)
class RowRounds:
    """Both sides of a row, in the run that measured them."""

    base: SideRow
    head: SideRow
    results: Results

    @cached_property
    def located(self) -> Mapping[tuple[int, SideName], float]:
        """The location of each launch in ns, as the judge takes it, by round and side."""
        placed = [each for side in (self.base, self.head) for each in side.placed]
        ticks = [tick((self.base, self.head))] * len(placed)
        found = grouped_medians([each.record.device_busy_ns for each in placed], ticks).tolist()
        return {(each.launch.round or 0, each.launch.side): ns for each, ns in zip(placed, found, strict=True)}

    @cached_property
    def begun(self) -> list[int]:
        """The rounds in which a side measured the row, or failed to, counted from 0."""
        lost = {loss.round for side in (self.base, self.head) for loss in side.losses}
        return sorted({number for number, _ in self.located} | lost)

    @cached_property
    def whole(self) -> Mapping[int, tuple[float, float]]:
        """The locations of base and head in the rounds that count."""
        pairs = {number: [self.located.get((number, side), 0.0) for side in PAIR] for number in self.begun}
        return {number: (base, head) for number, (base, head) in pairs.items() if base > 0 and head > 0}

    def marks(self) -> list[Mark]:
        """Each launch of base and head that was to measure the row, in the order in which they ran."""
        sides = {side.side: side.case for side in (self.base, self.head) if side.case is not None}
        cases = list(sides.values())
        indices = {side: case.index for side, case in sides.items()}  # a case of another run has that run's side
        ids = {case.id for case in cases}
        on_host = any(case.device == evidence.HOST for case in cases)
        found: dict[tuple[int, SideName], Mark] = {}
        for launch in self.results.launches:
            event, index = launch.event, indices.get(launch.event.side, -1)
            asked = index in event.order and self.results.names.get((launch.shard, index)) in ids
            if event.round is not None and asked:  # where one died, the first stands for those that went on
                key = (event.round, event.side)
                held = not on_host and bool(notes.throttles([launch]))
                found.setdefault(key, Mark(*key, self.located.get(key), held))
        return sorted(found.values(), key=lambda mark: mark.round)

    def dropped(self) -> str:
        """How many rounds are whole, and why the others are not; empty where a side takes no part in rounds."""
        if not all(side.placed or side.losses for side in (self.base, self.head)):
            return ""
        gone: dict[str, list[int]] = {}
        for number in self.begun:
            if number not in self.whole:
                gone.setdefault(self._why(number), []).append(number + 1)
        named = [
            f"{_rounds(numbers)} dropped: {why}"
            for why, numbers in sorted(gone.items(), key=lambda item: -len(item[1]))[:REASONS_MAX]
        ]
        if len(gone) > REASONS_MAX:
            named.append(f"and {units.count(len(gone) - REASONS_MAX, 'more reason')}")
        last = max(launch.event.round or 0 for launch in self.results.launches)
        asked = max((mark.round for mark in self.marks()), default=last)
        later = ["the run's later rounds left it out"] if asked < last else []
        return "; ".join([f"{len(self.whole)} of {units.count(len(self.begun), 'round')} whole", *named, *later])

    def _why(self, number: int) -> str:
        missing = [side for side in (self.base, self.head) if (number, side.side) not in self.located]
        if not missing:
            return "a time is not above 0"
        cut = "" if self.results.complete else ": the run was interrupted"
        errors = [next((loss.error for loss in side.losses if loss.round == number), "") for side in missing]
        told = [error or f"gave no number{cut}" for error in errors]
        return ", ".join(f"{side.side}: {why}" for side, why in zip(missing, told, strict=True))

    def differences(self) -> list[str]:
        """Each round's difference in percent, in order, ``–`` where it was dropped; then how many were above 0."""
        if not self.whole:
            return []
        shown = self.begun[:LISTED_MAX]
        changes = {number: head / base - 1 for number, (base, head) in self.whole.items()}
        listed = [units.percent(changes[number], 2)[:-2] if number in changes else units.NOTHING for number in shown]
        more = f" and {len(self.begun) - LISTED_MAX} more" if len(self.begun) > LISTED_MAX else ""
        slower = sum(1 for change in changes.values() if change > 0)
        return [
            f"round by round, in %: {', '.join(listed)}{more}",
            f"head was slower in {slower} of {units.count(len(changes), 'round')}",
        ]

    def modes(self) -> str:
        """The modes of the launches' locations."""
        found = notes.modes([base for base, _ in self.whole.values()], [head for _, head in self.whole.values()])
        return found or ("one on each side" if len(self.whole) >= 2 * notes.MODE_MIN_LAUNCHES else "")


def _rounds(numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:NAMED_MAX])) + (", …" if len(numbers) > NAMED_MAX else "")
    return f"round{'' if len(numbers) == 1 else 's'} {named}"
