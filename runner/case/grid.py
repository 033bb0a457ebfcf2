"""The parameter grid of a case: which values it may hold, and the ids of its points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..errors import CaseError

Scalar = str | int | float | bool

# Ids join base to head and are printed in Markdown tables, so nothing in them may mean anything there.
NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
KEY_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
VALUE_PATTERN = re.compile(r"[A-Za-z0-9_./+-]+")
ID_MAX = 160  # a table cell that still fits a screen
GRID_MAX = 10_000  # a grid larger than this is a mistake in a parameter list


class Params(Mapping[str, Scalar]):
    """The fixed parameters of one grid point: read as attributes (``p.cols``) or as a mapping."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        object.__setattr__(self, "_values", MappingProxyType(dict(values)))

    def __getitem__(self, key: str) -> Scalar:
        return self._values[key]  # type: ignore[no-any-return]  # a slot set in __init__

    def __getattr__(self, key: str) -> Any:
        values: Mapping[str, Scalar] = object.__getattribute__(self, "_values")  # absent while being unpickled
        try:
            return values[key]
        except KeyError:
            raise AttributeError(f"this case has no parameter {key!r}; it has: {', '.join(values)}") from None

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError("parameters are fixed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        return Params, (dict(self._values),)

    def __repr__(self) -> str:
        return "Params(" + ", ".join(f"{key}={value!r}" for key, value in self._values.items()) + ")"


def case_id(name: str, params: Mapping[str, Scalar]) -> str:
    """The id of a grid point: ``name[key=value,…]`` with sorted keys, or the bare name without parameters."""
    inside = ",".join(f"{key}={params[key]}" for key in sorted(params))
    return f"{name}[{inside}]" if inside else name


def checked_grid(name: object, params: object) -> dict[str, tuple[Scalar, ...]]:
    """A case's name and its parameters, checked.

    Raises:
        CaseError: a name, key or value with other characters than an id may hold, an empty or repeated list of values,
            a grid or an id that is too large.
    """
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise CaseError(f"case name {name!r} must match {NAME_PATTERN.pattern}")
    if not isinstance(params, Mapping):
        raise CaseError(f"case {name!r}: params must map names to lists of values, not be a {type(params).__name__}")
    grid: dict[str, tuple[Scalar, ...]] = {}
    points = 1
    for key, values in params.items():
        if not isinstance(key, str) or not KEY_PATTERN.fullmatch(key):
            raise CaseError(f"case {name!r}: parameter name {key!r} must be an identifier")
        if hasattr(Params, key):  # p.keys would be the method
            raise CaseError(f"case {name!r}: parameter name {key!r} is taken by the mapping p", "choose another name")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise CaseError(f"case {name!r}: parameter {key!r} needs a list of one or more values")
        texts = [_checked_value(name, key, value) for value in values]
        if len(set(texts)) != len(texts):
            raise CaseError(f"case {name!r}: parameter {key!r} lists a value twice")
        grid[key] = tuple(values)
        points *= len(values)
    if points > GRID_MAX:
        raise CaseError(f"case {name!r}: its grid has {points} points, at most {GRID_MAX} are allowed")
    longest = case_id(name, {key: max(values, key=lambda value: len(str(value))) for key, values in grid.items()})
    if len(longest) > ID_MAX:
        raise CaseError(f"case id {longest!r} is longer than {ID_MAX} characters", "shorten the name or the parameters")
    return grid


def _checked_value(name: str, key: str, value: object) -> str:
    if not isinstance(value, str | int | float | bool) or not VALUE_PATTERN.fullmatch(str(value)):
        raise CaseError(
            f"case {name!r}: value {value!r} of {key!r} must be a string, number or bool matching {VALUE_PATTERN.pattern}"
        )
    return str(value)
