"""What runs that prove evenbench itself came to, one JSON line each, and what they amount to for a machine. Pure.

A run proves something where the truth is known: base and head are one commit (``aa``), head was slowed on purpose
(``planted``), or base was measured a second time beside it (``control``). `evenbench.reports.compare.known_truth` makes the lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from evenbench.runner.errors import UntrustedInput
from evenbench.runner.records import Record
from evenbench.runner.records.fields import CASES_MAX, IMPLEMENTATIONS_MAX, PLANT_MAX, CaseId, Finite, Name, ShortName
from evenbench.runner.records.reader import printable, strict_json

NAME, MAJOR, MINOR = "evenbench.proof", 1, 0
SCHEMA = f"{NAME}/{MAJOR}.{MINOR}"
SCHEMA_PATTERN = re.compile(re.escape(NAME) + r"/(\d{1,4})\.(\d{1,4})")

LINE_MAX = 1 << 16  # bytes of one line: `NAMES_MAX` of the longest names and a bit
PROOFS_MAX = 100_000  # lines: three a night for ninety years
NAMES_MAX = 100  # flagged rows that a line names; it counts them all
GPUS_MAX = 64  # GPUs of one run: one a shard
ROWS_MAX = CASES_MAX * IMPLEMENTATIONS_MAX

WINDOW = timedelta(days=30)  # drivers, neighbours and clocks change; what is older says little of today's machine

Fraction = Annotated[float, Field(gt=0, le=PLANT_MAX)]
Rows = Annotated[int, Field(ge=0, le=ROWS_MAX)]
Interval = Annotated[tuple[Finite, Finite], Field(strict=False)]  # strict mode does not accept a JSON array as a tuple


class Planted(Record):
    """The planted change: which, and what became of it. ``change`` and ``interval`` are fractions, None where not judged."""

    case: CaseId
    fraction: Fraction
    found: bool
    change: Finite | None
    interval: Interval | None


class Proof(Record):
    """One run and what it proved.

    ``at`` is when it started. Of the ``rows`` that were judged and on which nothing was changed, ``flagged`` were called
    changed; ``names`` names the first of them.
    """

    schema_: Annotated[Name, Field(alias="schema")] = SCHEMA
    kind: Literal["aa", "planted", "control"]
    at: Name
    run_id: ShortName
    uuids: Annotated[list[Name], Field(max_length=GPUS_MAX)]
    devices: Annotated[list[Name], Field(max_length=GPUS_MAX)]
    drivers: Annotated[list[Name], Field(max_length=GPUS_MAX)]
    harness: Name
    rows: Rows
    flagged: Rows
    names: Annotated[list[Name], Field(max_length=NAMES_MAX)]
    planted: Planted | None = None

    @field_validator("at")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        if moment(value) is None:
            raise ValueError("must be a time with its zone, in ISO 8601")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Proof:
        if (self.planted is None) == (self.kind == "planted"):
            raise ValueError("planted belongs to the kind of that name, and to no other")
        if not len(self.names) <= self.flagged <= self.rows:
            raise ValueError("more rows are flagged than were judged, or more named than flagged")
        return self


_ADAPTER: TypeAdapter[Proof] = TypeAdapter(Proof)


@dataclass(frozen=True)
class ProofHistory:
    """What the proofs of a machine amount to, over the time that `WINDOW` leaves.

    Attributes:
        nights: days on which an A/A run was made.
        aa: rows judged in A/A runs, and how many of them were called changed.
        control: the same of control sides.
        planted: for each planted fraction, how often it was found, and in how many runs.
    """

    nights: int
    aa: tuple[int, int]
    control: tuple[int, int]
    planted: Mapping[float, tuple[int, int]]


def moment(text: str) -> datetime | None:
    """A time as results and proofs write it, in UTC; None where it is not a time with its zone."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):  # a zone can lead out of the calendar
        return None


def read(lines: Iterable[bytes | str]) -> list[Proof]:
    """The proofs of a file of JSON lines, in its order.

    Raises:
        UntrustedInput: a line is not a proof, or breaks a bound; names its number.
    """
    proofs = []
    for number, line in enumerate(lines, start=1):
        if number > PROOFS_MAX:
            raise UntrustedInput(f"more than {PROOFS_MAX:,} lines", "keep those of the last months")
        if len(line) > LINE_MAX:
            raise UntrustedInput(f"line {number}: longer than {LINE_MAX:,} bytes")
        try:
            proofs.append(_proof(line))
        except UntrustedInput as error:
            raise UntrustedInput(f"line {number}: {error.message}", error.hint) from None
    return proofs


def dump(proof: Proof) -> str:
    """The proof as one line, without its end."""
    return proof.model_dump_json(by_alias=True)


def history_of(proofs: Iterable[Proof], uuids: Collection[str], now: datetime) -> ProofHistory | None:
    """What was proved on these GPUs, and no others, in the `WINDOW` before `now`; None where nothing was.

    A run that is in the file twice counts once.
    """
    gpus = set(uuids)
    recent: dict[tuple[str, str], Proof] = {}
    for proof in proofs:
        if proof.uuids and gpus.issuperset(proof.uuids) and _is_recent(proof, now):
            recent[proof.kind, proof.run_id] = proof
    if not recent:
        return None
    runs, hits = Counter[float](), Counter[float]()
    for proof in recent.values():
        if proof.planted is not None:
            runs[proof.planted.fraction] += 1
            hits[proof.planted.fraction] += proof.planted.found
    same = [proof for proof in recent.values() if proof.kind == "aa"]
    return ProofHistory(
        nights=len({_day(proof) for proof in same}),
        aa=_tally(same),
        control=_tally([proof for proof in recent.values() if proof.kind == "control"]),
        planted=MappingProxyType({fraction: (hits[fraction], runs[fraction]) for fraction in sorted(runs)}),
    )


def _proof(line: bytes | str) -> Proof:
    value = strict_json(line)
    try:
        return _ADAPTER.validate_python(value, extra="ignore" if _is_newer(value) else "forbid", by_alias=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UntrustedInput(printable(f"{place or 'proof'}: {first['msg']}"[:500])) from None


def _is_newer(value: Any) -> bool:
    """Whether a newer minor version wrote it, which may know more keys. Raises UntrustedInput for another major one."""
    schema = value.get("schema") if isinstance(value, dict) else None
    match = SCHEMA_PATTERN.fullmatch(schema) if isinstance(schema, str) else None
    if match is None:
        raise UntrustedInput(f"not a proof: its schema must be {NAME}/…", "evenbench report --format proof writes them")
    if int(match[1]) != MAJOR:
        raise UntrustedInput(
            f"schema version {match[1]}.{match[2]} is not known to this evenbench, which reads {MAJOR}.x"
        )
    return int(match[2]) > MINOR


def _is_recent(proof: Proof, now: datetime) -> bool:
    at = moment(proof.at)
    return at is not None and timedelta(0) < now - at <= WINDOW  # a run does not count as evidence for itself


def _day(proof: Proof) -> str:
    at = moment(proof.at)
    return at.date().isoformat() if at is not None else ""


def _tally(proofs: Sequence[Proof]) -> tuple[int, int]:
    return sum(proof.rows for proof in proofs), sum(proof.flagged for proof in proofs)
