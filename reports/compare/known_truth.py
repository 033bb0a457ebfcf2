"""What kind of run a comparison is: an ordinary one, or one whose truth is known, and what that one proves. Pure.

An A/A run has the same commit on both sides, made ready in the same way: what it calls changed is a false alarm. In a
planted run head was slowed on purpose: that must be found, and nothing else. A run with a control side knows the truth
about that one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from evenbench.runner.errors import NothingMeasured, UntrustedInput, UsageError

from ..load import proofs
from ..load.proofs import NAMES_MAX, Planted, Proof
from ..rows.outcome import ComparedRow, Comparison
from ..units import count

Kind = Literal["aa", "planted", "control", "ordinary"]
CHANGED = ("regressed", "improved")
PROVING = (
    "A/A runs (evenbench compare REF REF, one commit on both sides), planted ones (--plant) and those with a control side "
    "(--control) have proofs, once they are complete"
)


@dataclass(frozen=True)
class PlantedChange:
    """What became of a change that was made on purpose.

    Attributes:
        asked: which case to slow, as it was asked for; foreign text.
        cases: the case that was slowed; none where it was not measured.
        fraction: of its time, at least.
        found: whether each of its rows is called regressed.
        row: the one that shows it least; None where none was measured.
    """

    asked: str
    cases: tuple[str, ...]
    fraction: float
    found: bool
    row: ComparedRow | None

    @property
    def outcome(self) -> str:
        """Found, not found, or not measured."""
        return "not measured" if self.row is None else "found" if self.found else "not found"


def kind_of(comparison: Comparison) -> Kind:
    """What kind of run it is, by its header."""
    header = comparison.facts.header
    if not comparison.facts.paired:  # what drifted between two runs is no false alarm
        return "ordinary"
    if header.plant is not None:
        return "planted"
    if header.same_code:
        return "aa"
    return "control" if comparison.control is not None else "ordinary"


def unplanted(comparison: Comparison) -> list[ComparedRow]:
    """The rows that nobody slowed."""
    return [row for row in comparison.rows if not row.planted]


def judged(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """The rows that could be called changed."""
    return [row for row in rows if row.interval is not None]


def changed(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """The rows that were called changed; muted ones too, since they were judged like all others."""
    return [row for row in rows if row.verdict in CHANGED]


def heading(comparison: Comparison) -> str:
    """What the headline says first of a run whose truth is known; empty for an ordinary one."""
    if (planted := planted_change(comparison)) is not None:
        return f"planted change {planted.outcome}"
    if kind_of(comparison) == "aa":
        return f"A/A, {count(len(changed(comparison.rows)), 'false alarm')}"
    return ""


def unproven(comparison: Comparison) -> tuple[str, ...]:
    """What a planted run should have shown and did not; empty for other runs, and where all is well."""
    planted = planted_change(comparison)
    if planted is None:
        return ()
    others = len(changed(unplanted(comparison)))
    elsewhere = planted.row is None and comparison.facts.partial  # in another shard
    missed = () if planted.found or elsewhere else (f"planted change {planted.outcome}",)
    return (*missed, f"{count(others, 'other row')} called changed") if others else missed


def planted_change(comparison: Comparison) -> PlantedChange | None:
    """What became of the planted change; None where none was planted."""
    plant = comparison.facts.header.plant
    if plant is None or not comparison.facts.paired:
        return None
    rows = [row for row in comparison.rows if row.planted]
    cases = tuple(dict.fromkeys(row.case for row in rows))
    found = len(cases) == 1 and all(row.verdict == "regressed" for row in rows)
    weakest = min(rows, key=_evidence, default=None)
    return PlantedChange(plant.case, cases, plant.fraction, found, weakest)


def proof_of(comparison: Comparison) -> Proof:
    """The run's proof.

    Raises:
        UsageError: it is an ordinary run, or not complete: neither proves anything.
        NothingMeasured: no row was judged.
        UntrustedInput: the header holds what no run of evenbench writes.
    """
    kind, header, facts = kind_of(comparison), comparison.facts.header, comparison.facts
    if kind == "ordinary":
        raise UsageError("an ordinary comparison proves nothing, since nobody knows its truth", PROVING)
    if header.confirms:
        raise UsageError("a second run of rows that were called changed proves nothing: they were chosen", PROVING)
    if facts.partial:
        raise UsageError("the run did not come to its end, so it proves nothing", PROVING)
    planted = _planted(comparison)
    if kind == "control" and comparison.control is not None:
        rows, names = comparison.control.rows, list(comparison.control.flagged)
    else:
        found = judged(unplanted(comparison))
        rows, names = len(found), [row.name for row in changed(found)]
        if comparison.control is not None:  # what was flagged there is a false alarm of this run as well
            rows, names = rows + comparison.control.rows, [*names, *comparison.control.flagged]
    if not rows and planted is None:
        raise NothingMeasured("no row was judged, so nothing is proved", "the table says why, row by row")
    try:
        return Proof(
            kind=kind,
            at=header.started,
            run_id=header.run_id,
            uuids=list(facts.uuids),
            devices=list(facts.devices),
            drivers=list(facts.drivers),
            harness=header.harness.version,
            rows=rows,
            flagged=len(names),
            names=names[:NAMES_MAX],
            planted=planted,
        )
    except ValidationError as error:
        wrong = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UntrustedInput(f"the results make no proof: {wrong} is out of its bounds") from None


def proof_line(comparison: Comparison) -> str:
    """The run's proof as a line. Raises as `proof_of`."""
    return proofs.dump(proof_of(comparison)) + "\n"


def _planted(comparison: Comparison) -> Planted | None:
    planted = planted_change(comparison)
    if planted is None:
        return None
    if planted.row is None or len(planted.cases) != 1:
        raise NothingMeasured(f"the planted change names {len(planted.cases)} cases of the results, not one")
    row = planted.row
    return Planted(
        case=row.case, fraction=planted.fraction, found=planted.found, change=row.change, interval=row.interval
    )


def _evidence(row: ComparedRow) -> tuple[bool, float]:
    """How clearly a row is slower, least clearly first."""
    return row.verdict == "regressed", row.interval[0] if row.interval is not None else float("-inf")
