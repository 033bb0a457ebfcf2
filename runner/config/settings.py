"""The settings of one run: which cases, how often, how measured, how judged.

Made by `evenbench.runner.config.resolve`, stored in the header of a results file. What the patterns of `include`, `overrides` and
`mute` mean is told by `select`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Self

from ..errors import ConfigError
from .keys import COMMAND_LINE, MOST_ROUNDS, CaseKeys, RunKeys, SuiteKeys, Values, checked, said, shown

NOTHING: Values = MappingProxyType({})


def select(include: Sequence[str], id: str, tags: Iterable[str]) -> bool:
    """Whether any pattern of `include` takes the case `id` with `tags`. Upper and lower case differ.

    - ``tag:NAME`` takes cases that carry exactly this tag; ``id:ID`` takes just the case of this id.
    - Anything else is an id, in which ``**`` stands for any run of characters, also none, and ``*`` for a run within
      one part: in the name it ends at a slash, in the brackets at a comma, and it takes no bracket. There are no other
      wildcards: a bracket is a bracket.
    - A pattern without brackets is held against the name alone, so any parameters will do, or none: ``norm/*`` and
      ``norm/rms`` both take ``norm/rms[cols=4096]``.
    - A pattern with brackets is held against the whole id: ``norm/rms[cols=4096]`` takes just that case,
      ``norm/rms[cols=*,rows=8]`` any `cols`, ``norm/rms[**rows=8]`` whatever stands before.
    """
    owned = set(tags)
    for pattern in include:
        if pattern.startswith("tag:"):
            if pattern.removeprefix("tag:") in owned:
                return True
        elif pattern.startswith("id:"):
            if pattern.removeprefix("id:") == id:
                return True
        elif _glob(pattern, id if "[" in pattern or "]" in pattern else id.partition("[")[0]):
            return True
    return False


def _glob(pattern: str, text: str) -> bool:
    """Follows all positions that the pattern can have reached, so that no pattern is slow."""
    bracket = (text + "[").index("[")
    part_ends = [at for at, char in enumerate(text) if char in ("/[" if at <= bracket else ",]")] + [len(text)]
    positions = {0}
    for piece in re.split(r"(\*+)", pattern):
        if not positions:
            return False
        if not piece.startswith("*"):
            positions = {at + len(piece) for at in positions if text.startswith(piece, at)}
        elif piece == "*":
            ends = {at: next(end for end in part_ends if end >= at) for at in positions}
            positions = {reached for at, end in ends.items() for reached in range(at, end + 1)}
        else:
            positions = set(range(min(positions), len(text) + 1))
    return len(text) in positions


@dataclass(frozen=True)
class Measure:
    """How one case is measured, fully resolved. Times in the unit of their name.

    Args:
        timer: one of `evenbench.runner.case.declare.TIMERS`.
        warmup_ms, measure_ms: budgets that become counts.
        timeout_s: a case that takes longer in one launch is given up.
        cache: ``cold`` or ``warm``.
        precision: `run` stops early at this half-width of the median's 95 % interval, as a fraction; 0 is off.
        allow_fallback: CUDA events may stand in for CUPTI.
        ceilings: show the share of what the device was measured to reach.
    """

    timer: str
    warmup_ms: float
    measure_ms: float
    timeout_s: float
    cache: str
    precision: float
    allow_fallback: bool
    ceilings: bool


MEASURE_KEYS = tuple(field.name for field in fields(Measure))


@dataclass(frozen=True)
class RunSettings:
    """The settings of one run: a suite with defaults, overrides and command line put in. Made by `resolve`.

    Args:
        suite: its name.
        include: patterns that select its cases; see `select`.
        rounds: rounds before the first look.
        max_rounds: rounds that rows which are still open may reach; as many as `rounds`: no escalation.
        looks: rounds after which rows are judged, ascending; the last one ends the run.
        budget_s: seconds within which escalation may start another round.
        equivalence, family_error, min_effect: what the judge calls unchanged, his chance of any false alarm in the run,
            and the smallest change he calls one, all as fractions. `min_effect_for` knows the overrides.
        fail_on: conditions that end in exit code 1; empty for never.
        measure: how cases without an override are measured; `measure_for` gives a case's own.
        overrides: pattern → keys, in the file's order; of those that match the last one wins.
        command_line: measuring keys that the command line fixed, for all cases.
    """

    suite: str
    include: tuple[str, ...]
    rounds: int
    max_rounds: int
    looks: tuple[int, ...]
    budget_s: float
    equivalence: float
    family_error: float
    min_effect: float
    fail_on: tuple[str, ...]
    measure: Measure
    overrides: Mapping[str, Values]
    command_line: Values

    @property
    def min_effects(self) -> tuple[tuple[str, float], ...]:
        """The overrides of `min_effect`: pattern and fraction, in order; the last that matches an id holds."""
        return tuple((key, values["min_effect"]) for key, values in self.overrides.items() if "min_effect" in values)

    def without_judging(self, rounds: int, attempts: int = 1) -> Self:
        """The same with exactly `rounds` rounds, from 1 up: for `run`, which compares nothing.

        What misses its expectation may go on for so many `attempts`, the first included, of as many rounds each.
        """
        if not 1 <= rounds <= MOST_ROUNDS:
            raise ConfigError(f"--rounds: must be 1 to {MOST_ROUNDS}, not {shown(rounds)}")
        looks = tuple(rounds * n for n in range(1, attempts + 1) if n == 1 or rounds * n <= MOST_ROUNDS)
        return replace(self, rounds=rounds, max_rounds=looks[-1], looks=looks)

    def measure_for(
        self, case_id: str, tags: Iterable[str], case_level: Values = NOTHING, command_line: Values = NOTHING
    ) -> Measure:
        """How a case is measured: suite < overrides < what the case says < command line. None counts as not said.

        Args:
            case_level: of `timer`, `cache`, `timeout_s` what the case's declaration sets.
            command_line: further command-line keys, on top of those that `resolve` was given.

        Raises:
            ConfigError: a value is out of bounds.
        """
        owned = frozenset(tags)
        merged = asdict(self.measure)
        for pattern, values in self.overrides.items():
            if select((pattern,), case_id, owned):
                merged |= values
        merged |= checked(CaseKeys, said(case_level), case_id).set_keys()
        merged |= self.command_line
        merged |= checked(SuiteKeys, said(command_line), COMMAND_LINE).set_keys()
        return Measure(**{key: merged[key] for key in MEASURE_KEYS})

    def min_effect_for(self, case_id: str) -> float:
        """The smallest change of this case that is called one, a fraction. Neither its code nor its tags can set it."""
        found = [effect for pattern, effect in self.min_effects if select((pattern,), case_id, ())]
        return found[-1] if found else self.min_effect

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for the header of a results file."""
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        stored |= {key: list(value) for key, value in stored.items() if isinstance(value, tuple)}
        stored["measure"] = asdict(self.measure)
        stored["overrides"] = {pattern: dict(values) for pattern, values in self.overrides.items()}
        stored["command_line"] = dict(self.command_line)
        return stored

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The settings that `as_dict` stored. `data` may be hostile.

        Raises:
            ConfigError: a key is missing, unknown or out of bounds; the message starts with ``settings``.
        """
        keys = checked(RunKeys, data, "settings")
        missing = [key for key in RunKeys.model_fields if key not in keys.model_fields_set]
        missing += [f"measure.{key}" for key in MEASURE_KEYS if key not in keys.measure.model_fields_set]
        if missing:
            raise ConfigError(f"settings.{missing[0]}: is required")
        return cls(
            **keys.model_dump(exclude={"measure", "overrides", "command_line"}),
            measure=Measure(**keys.measure.model_dump()),
            overrides=MappingProxyType({pattern: values.set_keys() for pattern, values in keys.overrides.items()}),
            command_line=keys.command_line.set_keys(),
        )


def planned_looks(rounds: int, max_rounds: int) -> tuple[int, ...]:
    """The rounds after which rows are judged: `rounds`, twice that, … below `max_rounds`, and `max_rounds`."""
    return (*range(rounds, max_rounds, rounds), max_rounds)
