"""The keys that suites.yaml and the command line may set, their bounds, and how a refused one is reported.

Keys and numbers only; `suites` reads the file, `settings` puts the layers together.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from ..case.declare import CACHES, TIMERS
from ..errors import ConfigError

# Bounds. Wide enough for any honest use; they stop a slip of the keyboard and a file made to hurt.
LEAST_ROUNDS = 6  # fewer whole rounds are never judged
MOST_ROUNDS = 1_000  # a night of launches
MOST_LOOKS = 8  # each look multiplies every p; more would cost more power than they save time
MOST_SECONDS = 432_000.0  # five days, the longest that a job on a self-hosted runner may take
LEAST_TIMEOUT_S = 0.1  # about what noticing a dead launch takes
MOST_MS = 60_000.0  # a minute on one case in one launch
MOST_EFFECT = 1.0  # +100 %: twice the time
LEAST_ERROR, MOST_ERROR = 1e-9, 0.5  # below, t distributions have no meaning; above, a coin judges as well
MOST_PATTERN = 320  # characters: two ids
MOST_ITEMS = 200  # entries of any list or mapping
MOST_TEXT = 4_000  # characters of a set-up command or a reason
MOST_BITS = 64  # of a number that is printed
MOST_SHOWN = 60  # characters of a refused value in an error
FAIL_ON = ("regressed", "failed", "expectation", "artifact", "inconclusive")
NEVER = "never"
COMMAND_LINE = "--"  # where a value came from, in place of a path in the file

Values = Mapping[str, Any]  # keys that were set, with checked values


def _one_of(*names: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in names:
            raise PydanticCustomError("choice", "must be one of {names}", {"names": ", ".join(names)})
        return value

    return AfterValidator(check)


def _matching(expression: str, rule: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(expression, value):
            raise PydanticCustomError("text", "must be {rule}", {"rule": rule})
        return value

    return AfterValidator(check)


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _without_never(value: tuple[str, ...]) -> tuple[str, ...]:
    if NEVER in value and len(value) > 1:
        raise PydanticCustomError("never", "'never' stands alone")
    return tuple(dict.fromkeys(item for item in value if item != NEVER))


def _ascending(value: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in itertools.pairwise(value)):
        raise PydanticCustomError("ascending", "must be ascending")
    return value


AnyList = Field(strict=False, max_length=MOST_ITEMS)  # YAML and JSON give lists; kept as tuples
Text = Annotated[str, Field(max_length=MOST_TEXT)]
Name = Annotated[str, _matching(r"[A-Za-z0-9_.-]{1,64}", "a name of at most 64 letters, digits, '_', '.', '-'")]
Pattern = Annotated[
    str,
    Field(max_length=MOST_PATTERN),
    _matching(r"tag:[A-Za-z0-9_./-]+|[A-Za-z0-9_./=,+\[\]*-]+", "tag:NAME or an id with no wildcards but * and **"),
]
Include = Annotated[tuple[Pattern, ...], AnyList, Field(min_length=1)]
Milliseconds = Annotated[float, Field(ge=0, le=MOST_MS)]
Seconds = Annotated[float, Field(ge=LEAST_TIMEOUT_S, le=MOST_SECONDS)]
Rounds = Annotated[int, Field(ge=LEAST_ROUNDS, le=MOST_ROUNDS)]
AnyRounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
Effect = Annotated[float, Field(ge=0, le=MOST_EFFECT)]
Chance = Annotated[float, Field(ge=LEAST_ERROR, le=MOST_ERROR)]
Condition = Annotated[str, _one_of(*FAIL_ON, NEVER)]
FailOn = Annotated[tuple[Condition, ...], AnyList, BeforeValidator(_several), AfterValidator(_without_never)]
Looks = Annotated[
    tuple[AnyRounds, ...], Field(strict=False, min_length=1, max_length=MOST_LOOKS), AfterValidator(_ascending)
]


class Keys(BaseModel):
    """A mapping whose keys are known. The defaults stand in the fields; which keys were set is kept."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: object) -> object:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                raise PydanticCustomError("unknown", "unknown key", {"key": key, "known": list(cls.model_fields)})
        return data

    def set_keys(self) -> Values:
        """The keys that were set, without those left to a default."""
        return MappingProxyType(self.model_dump(exclude_unset=True))


class CaseKeys(Keys):
    """What a case's own code may set about its measuring."""

    timer: Annotated[str, _one_of(*TIMERS)] = "auto"
    cache: Annotated[str, _one_of(*CACHES)] = "cold"
    timeout_s: Seconds = 120.0


class MeasureKeys(CaseKeys):
    """Measuring one case: the fields of `Measure`."""

    warmup_ms: Milliseconds = 25.0
    measure_ms: Annotated[Milliseconds, Field(ge=1)] = 100.0
    precision: Annotated[float, Field(ge=0, le=0.5)] = 0.0  # half-width over median; 0 is off
    allow_fallback: bool = False
    ceilings: bool = True


class DefaultsKeys(MeasureKeys):
    """`defaults` of suites.yaml."""

    rounds: Rounds = 8
    max_rounds: Rounds = 24


class OverrideKeys(MeasureKeys):
    """One entry of `overrides`. Rounds are the whole run's, so they are no key here."""

    min_effect: Effect = 0.005


class CompareKeys(Keys):
    """`compare` of suites.yaml."""

    min_effect: Effect = 0.005
    equivalence: Annotated[float, Field(gt=0, le=MOST_EFFECT)] = 0.02
    family_error: Chance = 0.01
    fail_on: FailOn = ("regressed", "failed")


class SuiteKeys(DefaultsKeys, CompareKeys):
    """One suite; also what the command line may set for the suite it runs."""

    include: Include = ("**",)
    budget_s: Annotated[Seconds, Field(ge=1)] = 3_600.0  # an hour, where a suite says nothing


class RunKeys(CompareKeys):
    """A stored `RunSettings`. `run` judges nothing, so it may have fewer rounds than a comparison."""

    suite: Name = ""
    include: Include = ()
    rounds: AnyRounds = 1
    max_rounds: AnyRounds = 1
    looks: Looks = ()
    budget_s: Seconds = MOST_SECONDS
    measure: MeasureKeys = MeasureKeys()
    overrides: Annotated[dict[Pattern, OverrideKeys], Field(max_length=MOST_ITEMS)] = {}
    command_line: MeasureKeys = MeasureKeys()


Model = TypeVar("Model", bound=Keys)


def checked(model: type[Model], data: object, prefix: str) -> Model:
    """`data` as `model`. `prefix` is the path that leads to it, or `COMMAND_LINE`.

    Raises:
        ConfigError: one line that starts with the path of the first offending key.
    """
    try:
        return model.model_validate(dict(data) if isinstance(data, Mapping) else data)
    except ValidationError as refused:
        error = refused.errors(include_url=False)[0]
    loc = [part for part in error["loc"] if part != "[key]"]
    context = error.get("ctx", {})
    if error["type"] == "unknown":
        near = difflib.get_close_matches(context["key"], context["known"], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(context['known'])}"
        raise ConfigError(f"{path_text(prefix, [*loc, context['key']])}: unknown key", hint)
    raise ConfigError(f"{path_text(prefix, loc)}: {_problem(error)}")


def path_text(prefix: str, keys: Iterable[str | int]) -> str:
    """The path of a key as people write it: ``suites.pr.rounds``, ``mute[0].until``, ``--max-rounds``."""
    text = "".join(
        f".{key}" if isinstance(key, str) and re.fullmatch(r"[\w-]+", key) else f"[{shown(key)}]" for key in keys
    ).removeprefix(".")
    if prefix == COMMAND_LINE:
        return "PATTERN" if text.startswith("include") else prefix + text.replace("_", "-")
    return f"{prefix}.{text}" if prefix and text else prefix or text or "the whole file"


def shown(value: object) -> str:
    """A value on one short line, whatever it is."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return "a huge number"  # Python refuses to print one of thousands of digits
    if isinstance(value, dict | list | tuple):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def _problem(error: ErrorDetails) -> str:
    limits = error.get("ctx", {})
    texts = {
        "missing": "is required",
        "greater_than": f"must be over {limits.get('gt', 0):g}",
        "greater_than_equal": f"must be at least {limits.get('ge', 0):g}",
        "less_than": f"must be under {limits.get('lt', 0):g}",
        "less_than_equal": f"must be at most {limits.get('le', 0):g}",
        "too_short": f"needs at least {limits.get('min_length')} entry",
        "too_long": f"has more than {limits.get('max_length')} entries",
        "string_too_short": "is empty",
        "string_too_long": f"is longer than {limits.get('max_length')} characters",
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "bool_type": "must be true or false",
        "string_type": "must be text",
        "tuple_type": "must be a list",
        "dict_type": "must be a mapping",
        "model_type": "must be a mapping",
    }
    wordy = error["type"] in ("missing", "too_short", "too_long", "string_too_short", "string_too_long")
    return texts.get(error["type"], error["msg"]) + ("" if wordy else f", not {shown(error['input'])}")


def said(values: Values) -> dict[str, Any]:
    """`values` without the keys that are None."""
    return {key: value for key, value in values.items() if value is not None}
