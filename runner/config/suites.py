"""suites.yaml: text → `Config`, and `Config` + suite + command line → `RunSettings`, in which nothing is left open.

Everything is bounded, and what is wrong is one line that starts with the path of the key. `reports` uses this module
too, so it imports nothing heavy.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ..errors import ConfigError
from . import safe_yaml
from .keys import (
    COMMAND_LINE,
    MOST_ITEMS,
    MOST_LOOKS,
    AnyList,
    CompareKeys,
    DefaultsKeys,
    Keys,
    Name,
    OverrideKeys,
    Pattern,
    SuiteKeys,
    Text,
    Values,
    checked,
    path_text,
    said,
    shown,
)
from .settings import MEASURE_KEYS, NOTHING, Measure, RunSettings, planned_looks, select

__all__ = ["Config", "Measure", "Mute", "RunSettings", "Suite", "load", "muted", "parse", "resolve", "select"]

VERSION = 1
FIRST_CHOICE, ALL_CASES = "pr", "full"  # suites that are meant when none is named


@dataclass(frozen=True)
class Suite:
    """A named selection of cases. `values` holds the other keys that it sets."""

    include: tuple[str, ...]
    values: Values


@dataclass(frozen=True)
class Mute:
    """Cases whose verdicts are shown but do not count, with the reason, to the end of the day `until`."""

    match: str
    why: str
    until: date


@dataclass(frozen=True)
class Config:
    """suites.yaml, checked.

    Args:
        version: of the format, 1.
        setup: shell command that makes a side usable; empty for none.
        preload: modules that the warm parent may import.
        paths: file globs that make a pull request worth measuring; empty for all.
        image: container image; empty for none.
        defaults: all keys of `defaults`.
        suites: name → suite, never empty.
        overrides: pattern → the keys it sets, in the file's order.
        compare: all keys of `compare`.
        mute: in the file's order.
    """

    version: int
    setup: str
    preload: tuple[str, ...]
    paths: tuple[str, ...]
    image: str
    defaults: Values
    suites: Mapping[str, Suite]
    overrides: Mapping[str, Values]
    compare: Values
    mute: tuple[Mute, ...]

    @classmethod
    def default(cls) -> Config:
        """What holds without a suites.yaml: one suite, ``full``, of all cases."""
        return parse(f"version: {VERSION}", "the defaults")


def load(path: Path) -> Config:
    """The configuration in the file `path`, or `Config.default` where there is no such file.

    Raises:
        ConfigError: the file cannot be read, or see `parse`.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(safe_yaml.MOST_CHARACTERS + 1)  # one too many is for `parse` to refuse
    except FileNotFoundError:
        return Config.default()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Config:
    """The configuration written in `text`. `source` names it in errors.

    Raises:
        ConfigError: one line: not plain YAML, out of bounds, an unknown or a missing key, a setting that cannot hold.
    """
    data = safe_yaml.read(text, source)
    try:
        _check_version(data)
        return _config(checked(_SuitesFile, {} if data is None else data, ""))
    except ConfigError as error:
        raise ConfigError(f"{error.message}, in {source}", error.hint) from None


def resolve(config: Config, suite: str | None, command_line: Values = NOTHING) -> RunSettings:
    """The settings for one run: defaults < suite < command line, with the overrides and measuring keys per case kept.

    Args:
        suite: its name. None means ``pr`` if there is one, else the only one, else ``full``.
        command_line: any key of a suite, `include` too; None counts as not said.

    Raises:
        ConfigError: no such suite, or a value from the command line is out of bounds.
    """
    name = _suite_name(config.suites, suite)
    fixed = checked(SuiteKeys, said(command_line), COMMAND_LINE).set_keys()
    chosen = config.suites[name]
    below = {**config.defaults, **config.compare, **chosen.values, "include": chosen.include}
    fixed = _raised(fixed, {**below, **fixed})
    layers = {**below, **fixed}
    values = SuiteKeys(**layers).model_dump()
    _check_looks(values, COMMAND_LINE, [], fixed)
    measure = Measure(**{key: values.pop(key) for key in MEASURE_KEYS})
    outranked = "min_effect" if "min_effect" in fixed else ""
    return RunSettings(
        suite=name,
        looks=planned_looks(values["rounds"], values["max_rounds"]),
        measure=measure,
        overrides=MappingProxyType({pattern: _without(keys, outranked) for pattern, keys in config.overrides.items()}),
        command_line=MappingProxyType({key: value for key, value in fixed.items() if key in MEASURE_KEYS}),
        **values,
    )


def muted(mutes: Sequence[Mute], id: str, today: date) -> Mute | None:
    """The first of `mutes` that matches the case and has not ended; its last day still counts."""
    return next((mute for mute in mutes if today <= mute.until and select((mute.match,), id, ())), None)


def _day(value: object) -> object:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime) or not isinstance(value, date):
        raise PydanticCustomError("day", "must be a day such as 2027-03-01")
    return value


def _no_tag(pattern: str) -> str:
    if pattern.startswith("tag:"):
        raise PydanticCustomError("tag", "cannot be a tag, which the case's own code sets")
    return pattern


class _MuteKeys(Keys):
    match: Annotated[Pattern, AfterValidator(_no_tag)]
    why: Annotated[Text, Field(min_length=1), AfterValidator(safe_yaml.one_line)]
    until: Annotated[date, BeforeValidator(_day)]


def _path(pattern: str) -> str:
    """A pattern of `paths`, by the rules of a .gitignore. Refuses one that would match nothing."""
    plain = pattern.removeprefix("!").strip()
    if "{" in plain and "}" in plain:
        raise PydanticCustomError("path", "has braces, which match nothing: write a pattern for each")
    if "\\" in plain:
        raise PydanticCustomError("path", "has a backslash: separate folders with /")
    if plain.count("[") != plain.count("]"):
        raise PydanticCustomError("path", "has a bracket that is not closed")
    if not plain.strip("/.") or plain.startswith(("#", "//", "../")) or "/../" in plain:
        raise PydanticCustomError("path", "matches no file of the repository: paths are relative to its root")
    return pattern


class _SuitesFile(Keys):
    version: int
    setup: Text = ""
    preload: Annotated[tuple[Name, ...], AnyList] = ()
    paths: Annotated[tuple[Annotated[Text, AfterValidator(_path)], ...], AnyList] = ()
    image: Text = ""
    defaults: DefaultsKeys = DefaultsKeys()
    suites: Annotated[dict[Name, SuiteKeys], Field(max_length=MOST_ITEMS)] = {}  # noqa: RUF012 - pydantic copies it
    overrides: Annotated[dict[Pattern, OverrideKeys], Field(max_length=MOST_ITEMS)] = {}  # noqa: RUF012 - pydantic copies it
    compare: CompareKeys = CompareKeys()
    mute: Annotated[tuple[_MuteKeys, ...], AnyList] = ()


def _check_version(data: object) -> None:
    """Before all else, since another version may have other keys."""
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise ConfigError(
            f"version: must be {VERSION}, not {shown(version)}", "use an evenbench that knows this version"
        )


def _config(file: _SuitesFile) -> Config:
    written = file.defaults.model_dump()
    defaults = {**written, **_raised(file.defaults.set_keys(), written)}
    _check_looks(defaults, "", ["defaults"], file.defaults.set_keys())
    suites = {name: _suite(name, keys, defaults) for name, keys in file.suites.items()}
    overrides = {pattern: keys.set_keys() for pattern, keys in file.overrides.items()}
    for pattern, values in overrides.items():
        if pattern.startswith("tag:") and "min_effect" in values:
            path = path_text("", ["overrides", pattern, "min_effect"])
            raise ConfigError(f"{path}: cannot hang on a tag, which the case's own code sets", "name the cases by id")
    return Config(
        version=file.version,
        setup=file.setup.strip(),
        preload=file.preload,
        paths=file.paths,
        image=file.image.strip(),
        defaults=MappingProxyType(defaults),
        suites=MappingProxyType(suites or {ALL_CASES: Suite(("**",), NOTHING)}),
        overrides=MappingProxyType(overrides),
        compare=MappingProxyType(file.compare.model_dump()),
        mute=tuple(Mute(entry.match, entry.why, entry.until) for entry in file.mute),
    )


def _suite(name: str, keys: SuiteKeys, defaults: Values) -> Suite:
    values = keys.set_keys()
    if "include" not in values:
        path = path_text("", ["suites", name, "include"])
        raise ConfigError(f"{path}: is required", 'include: ["**"] takes all cases')
    values = _raised(values, {**defaults, **values})
    _check_looks({**defaults, **values}, "", ["suites", name], values)
    return Suite(keys.include, _without(values, "include"))


def _raised(own: Values, all_values: Values) -> Values:
    """A layer that sets `rounds` alone, over the `max_rounds` below it, means as many of both."""
    rounds = all_values["rounds"]
    if "rounds" in own and "max_rounds" not in own and rounds > all_values["max_rounds"]:
        return MappingProxyType({**own, "max_rounds": rounds})
    return own


def _without(values: Values, key: str) -> Values:
    return MappingProxyType({name: value for name, value in values.items() if name != key})


def _check_looks(values: Values, prefix: str, keys: Sequence[str], own: Values) -> None:
    """Refuse `rounds` and `max_rounds` that do not fit, by the path of the one that the layer `own` sets."""
    rounds, most = values["rounds"], values["max_rounds"]
    key = "max_rounds" if "max_rounds" in own and "rounds" not in own else "rounds"
    path = path_text(prefix, [*keys, key])
    if rounds > most:
        raise ConfigError(f"{path}: rounds {rounds} is more than max_rounds {most}", "set both rounds and max_rounds")
    looks = len(planned_looks(rounds, most))
    if looks > MOST_LOOKS:
        raise ConfigError(
            f"{path}: rounds {rounds} up to max_rounds {most} makes {looks} looks, at most {MOST_LOOKS} are allowed",
            f"set rounds to at least {-(-most // MOST_LOOKS)} or max_rounds to at most {MOST_LOOKS * rounds}",
        )


def _suite_name(suites: Mapping[str, Suite], wanted: str | None) -> str:
    names = ", ".join(suites)
    if wanted is None:
        only = list(suites) if len(suites) == 1 else []
        for name in (FIRST_CHOICE, *only, ALL_CASES):
            if name in suites:
                return name
        raise ConfigError(f"--suite: is required, since there are several: {names}")
    if wanted not in suites:
        near = difflib.get_close_matches(wanted, list(suites), 1)
        hint = f"did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"--suite: no suite {shown(wanted)}; there are: {names}", hint)
    return wanted
