"""The header of a results file: everything about a run that is fixed before anything is measured."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from .fields import (
    COUNT_MAX,
    ITEMS_MAX,
    LOOKS_MAX,
    PLANT_MAX,
    ROUNDS_MAX,
    SCHEMA,
    Hash,
    Name,
    Sha,
    ShortName,
    SideName,
    Text,
)


class Record(BaseModel):
    """Base of all records: strict types, no unknown keys, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class SideInfo(Record):
    """One side as it was planned: where its code comes from.

    ``sha`` is empty for a plain directory; ``tree`` hashes the files of a dirty tree or plain directory, else empty.
    ``setup`` and ``python`` are what the command line gave this side alone; None where it gave nothing. ``exact``: its
    files are those of the commit and no others, ignored ones included (since version 1.1).
    """

    name: SideName
    label: Name
    sha: Sha = ""
    dirty: bool = False
    tree: Hash = ""
    setup: Text | None = None
    python: Text | None = None
    exact: bool = True


class Harness(Record):
    """What measured: the version of evenbench and its own commit where known."""

    version: Name
    sha: Sha = ""


class Shard(Record):
    """Which part of the cases this file holds: `index` of `count`.

    ``plan`` is the id of a plan by durations, which a plan by seed and id alone has none of.
    """

    index: Annotated[int, Field(ge=0, lt=1_000)] = 0
    count: Annotated[int, Field(ge=1, le=1_000)] = 1
    plan: Hash = ""

    @model_validator(mode="after")
    def _index_within(self) -> Shard:
        if self.index >= self.count:
            raise ValueError("index must be under count")
        return self


class MuteRecord(Record):
    """Rows that are shown but do not count: a pattern of ids, why, and the last day (ISO 8601) that it holds."""

    match: Name
    why: Text
    until: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]

    @field_validator("until")
    @classmethod
    def _is_a_day(cls, value: str) -> str:
        date.fromisoformat(value)
        return value


# Strict mode takes no JSON array for a tuple; what is in it stays strict.
MinEffect = Annotated[tuple[Name, Annotated[float, Field(ge=0, le=1)]], Field(strict=False)]


class PlantRecord(Record):
    """A change made on purpose: the case that head runs slower, and by which fraction of its time.

    ``case`` is an id or a pattern, as it was asked for; exactly one case of the run matches it.
    """

    case: Name
    fraction: Annotated[float, Field(gt=0, le=PLANT_MAX)]


class JudgeSettings(Record):
    """What the verdicts depend on, as the run was planned with."""

    min_effect: Annotated[float, Field(ge=0, le=1)]
    equivalence: Annotated[float, Field(gt=0, le=1)]
    family_error: Annotated[float, Field(gt=0, le=0.5)]
    min_effects: Annotated[list[MinEffect], Field(max_length=ITEMS_MAX)] = []
    """Overrides in order: pattern and its `min_effect`; the last that matches an id holds."""
    fail_on: Annotated[list[ShortName], Field(max_length=10)] = ["regressed", "failed"]
    mute: Annotated[list[MuteRecord], Field(max_length=ITEMS_MAX)] = []


class Header(Record):
    """Line 1: everything that is fixed before anything is measured."""

    event: Literal["header"] = "header"
    schema_: Annotated[Name, Field(alias="schema")] = SCHEMA
    verb: Literal["run", "compare"]
    run_id: ShortName
    started: Name
    """UTC, ISO 8601."""
    sides: Annotated[list[SideInfo], Field(min_length=1, max_length=3)]
    harness: Harness
    image: Name = ""
    suite: ShortName
    patterns: Annotated[list[Name], Field(max_length=ITEMS_MAX)] = []
    cases_from: Literal["own", "head"] = "own"
    seed: Annotated[int, Field(ge=0, le=COUNT_MAX)]
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_MAX)]
    looks: Annotated[list[Annotated[int, Field(ge=1, le=ROUNDS_MAX)]], Field(min_length=1, max_length=LOOKS_MAX)]
    shard: Shard = Shard()
    plant: PlantRecord | None = None
    confirms: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./+-]{0,160}$")] = ""
    """The `run_id` of the run whose regressed rows are measured again; empty for any other run."""
    judge: JudgeSettings
    settings: dict[Name, Any] = {}
    """The resolved settings of the run, for people and for --resume; nothing is judged by them."""

    @model_validator(mode="after")
    def _consistent(self) -> Header:
        if any(later <= earlier for earlier, later in zip(self.looks, self.looks[1:], strict=False)):
            raise ValueError("looks must ascend")
        names = [side.name for side in self.sides]
        if len(set(names)) != len(names):
            raise ValueError("a side is named twice")
        return self

    @property
    def same_code(self) -> bool:
        """Whether base and head are one commit and nothing else, made ready in the same way (A/A)."""
        sides = {side.name: side for side in self.sides}
        base, head = sides.get("base"), sides.get("head")
        if base is None or head is None or not base.sha or base.dirty or head.dirty:
            return False
        if not (base.exact and head.exact):
            return False
        return all(getattr(base, name) == getattr(head, name) for name in ("sha", "tree", "setup", "python"))
