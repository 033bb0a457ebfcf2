"""expectations.yaml: text → `Expectation`s, committed figures that a case must meet on a named model; and back.

Model → case → implementation → metric → value and tolerances, when and by what it was measured. Read as strictly as
suites.yaml; `reports` uses this module too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal, TypeAlias, get_args

import yaml
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ..errors import ConfigError
from . import safe_yaml
from .keys import Keys, Pattern, checked, shown

FILE = "expectations.yaml"
VERSION = 1
MODELS_MAX = 100  # models of one file
CASES_MAX = 1_000  # cases of one model
EXPECTATIONS_MAX = 2_000  # of one file, and of one results file
VALUE_MIN, VALUE_MAX = 1e-12, 1e12  # of any metric: no device is as slow or as fast
NAME_MAX = 200  # characters of a model's name, or of what measured
PLAIN = re.compile(r"[A-Za-z]([A-Za-z0-9_. -]*[A-Za-z0-9])?")  # text that most often needs no quotes
YEAR_MONTH_DAY = re.compile(r"([1-9]\d{3})(?:-(\d{2})(?:-(\d{2}))?)?")

Metric: TypeAlias = Literal["tflops", "bandwidth_tbs", "device_busy_ms"]
METRICS: Sequence[Metric] = get_args(Metric)


@dataclass(frozen=True)
class Expectation:
    """One figure.

    Args:
        device: the model that it holds for: a GPU's as torch names it, for cases on the CPU that of the CPU.
        case, implementation: what must meet it.
        metric: which published figure.
        value: expected, in the metric's unit.
        rtol, atol: met when |measured - value| is at most atol + rtol · |value|; `atol` in the metric's unit.
        measured: when, a year, month or day.
        by: what measured it.
    """

    device: str
    case: str
    implementation: str
    metric: Metric
    value: float
    rtol: float
    atol: float
    measured: str
    by: str


def _when(value: object) -> object:
    return str(value) if isinstance(value, date | int) and not isinstance(value, bool) else value


def _is_when(value: str) -> str:
    parts = YEAR_MONTH_DAY.fullmatch(value)
    try:
        date(*(int(part or 1) for part in parts.groups()) if parts else (0, 0, 0))
    except ValueError:
        raise PydanticCustomError("when", "must be a day, month or year such as 2027-03-01") from None
    return value


def _one_line(value: str) -> str:
    text = safe_yaml.one_line(value)
    if not text or not text.isprintable():
        raise PydanticCustomError("line", "must be plain text on one line")
    return text


def _an_id(value: str) -> str:
    if "*" in value or value.startswith("tag:") or len(value) > 160:
        raise PydanticCustomError("id", "must be the whole id of one case, as evenbench list shows it")
    return value


Tolerance = Annotated[float, Field(ge=0, le=VALUE_MAX)]
Line = Annotated[str, Field(min_length=1, max_length=NAME_MAX), AfterValidator(_one_line)]
Implementation = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./+-]{1,160}$")]


class _Figure(Keys):
    value: Annotated[float, Field(ge=VALUE_MIN, le=VALUE_MAX)]
    rtol: Annotated[float, Field(ge=0, lt=1)]
    atol: Tolerance = 0.0
    measured: Annotated[str, BeforeValidator(_when), AfterValidator(_is_when)]
    by: Line


class _Figures(Keys):
    tflops: _Figure | None = None
    bandwidth_tbs: _Figure | None = None
    device_busy_ms: _Figure | None = None


_Cases: TypeAlias = Annotated[
    dict[Annotated[Pattern, AfterValidator(_an_id)], dict[Implementation, _Figures]], Field(max_length=CASES_MAX)
]


class _ExpectationsFile(Keys):
    version: int
    devices: Annotated[dict[Line, _Cases], Field(max_length=MODELS_MAX)] = {}  # noqa: RUF012 - pydantic copies it


def parse(text: str, source: str) -> tuple[Expectation, ...]:
    """The expectations written in `text`, in its order. `source` names it in errors.

    Raises:
        ConfigError: one line with the path of what is wrong: not plain YAML, out of bounds, an unknown or missing key.
    """
    data = safe_yaml.read(text, source)
    try:
        version = data.get("version") if isinstance(data, dict) else None
        if isinstance(version, int) and version != VERSION:
            raise ConfigError(f"version: must be {VERSION}, not {shown(version)}")
        found = tuple(_expectations(checked(_ExpectationsFile, {} if data is None else data, "")))
        if len(found) > EXPECTATIONS_MAX:
            raise ConfigError(f"devices: hold more than {EXPECTATIONS_MAX} expectations")
    except ConfigError as error:
        raise ConfigError(f"{error.message}, in {source}", error.hint) from None
    return found


def _expectations(file: _ExpectationsFile) -> Iterable[Expectation]:
    for device, cases in file.devices.items():
        for case, implementations in cases.items():
            for implementation, figures in implementations.items():
                for metric in METRICS:
                    figure: _Figure | None = getattr(figures, metric)
                    if figure is not None:
                        yield Expectation(device, case, implementation, metric, **figure.model_dump())


def dump(expectations: Iterable[Expectation], heading: str = "") -> str:
    """The text of an expectations.yaml that `parse` reads as these; `heading` goes first, lines of comment."""
    tree: dict[str, dict[str, dict[str, list[Expectation]]]] = {}
    for each in expectations:
        tree.setdefault(each.device, {}).setdefault(each.case, {}).setdefault(each.implementation, []).append(each)
    lines = [f"version: {VERSION}", "devices:" if tree else "devices: {}"]
    for device, cases in tree.items():
        lines.append(f"  {_text(device)}:")
        for case, implementations in cases.items():
            lines.append(f"    {_text(case)}:")
            for name, figures in implementations.items():
                lines.append(f"      {_text(name)}:")
                lines += [f"        {each.metric}: {_figure(each)}" for each in figures]
    return heading + "\n".join(lines) + "\n"


def heading_of(text: str) -> str:
    """The comment and empty lines that a file begins with: `dump` keeps no other."""
    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    return "".join(lines[:first])


def _figure(each: Expectation) -> str:
    atol = f", atol: {_number(each.atol)}" if each.atol else ""
    tolerances = f"rtol: {_number(each.rtol)}{atol}"
    return f"{{value: {_number(each.value)}, {tolerances}, measured: {each.measured}, by: {json.dumps(each.by, ensure_ascii=False)}}}"


def _number(value: float) -> str:
    """As YAML 1.1 reads a number: with a point in its mantissa where it has an exponent."""
    mantissa, e, exponent = repr(float(value)).partition("e")
    point = "" if "." in mantissa else ".0"
    return f"{mantissa}{point}e{exponent}" if e else mantissa


def _text(value: str) -> str:
    """A scalar that YAML reads as this very text, in quotes where it must be."""
    plain = PLAIN.fullmatch(value) and yaml.safe_load(value) == value  # `no` is a boolean
    return value if plain else json.dumps(value, ensure_ascii=False)
