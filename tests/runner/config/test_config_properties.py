"""What holds for every configuration, id and pattern."""

from __future__ import annotations

import itertools
import json
import re
from datetime import date
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.config import Config, RunSettings, parse, resolve, select
from evenbench.runner.errors import ConfigError

NAMES = st.from_regex(r"[a-z0-9_.-]{1,4}(/[a-z0-9_.-]{1,4}){0,3}", fullmatch=True)
PARAMETERS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,3}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_./+-]{1,5}", fullmatch=True),
    max_size=3,
)


@st.composite
def ids(draw: st.DrawFn) -> str:
    inside = ",".join(f"{key}={value}" for key, value in sorted(draw(PARAMETERS).items()))
    name = draw(NAMES)
    return f"{name}[{inside}]" if inside else name


@given(ids())
def test_a_full_id_matches_itself_and_so_does_its_name(id: str) -> None:
    name = id.partition("[")[0]
    assert select([id], id, ())
    assert select([name], id, ())
    assert select(["**"], id, ())
    assert select([name.rpartition("/")[0] + "/*" if "/" in name else "*"], id, ())


@given(ids(), ids())
def test_a_pattern_with_brackets_and_no_star_is_equality(pattern: str, id: str) -> None:
    expected = pattern == id if "[" in pattern else pattern == id.partition("[")[0]
    assert select([pattern], id, ()) == expected


def reference(pattern: str, text: str) -> bool:
    """The rule as one regular expression over a text in which each character carries the side of the bracket it is on."""
    bracket = (text + "[").index("[")
    sided = "".join(char + ("n" if at <= bracket else "p") for at, char in enumerate(text))
    pieces = {"**": "(?:..)*", "*": r"(?:[^/\[\]]n)*(?:[^,\[\]]p)*"}
    expression = "".join(
        pieces["**" if len(piece) > 1 else "*"] if piece.startswith("*") else re.escape(piece) + "[np]"
        for piece in re.findall(r"\*+|[^*]", pattern)
    )
    return re.fullmatch(expression, sided) is not None


@given(
    st.text(alphabet="ab/[],*", max_size=8), st.text(alphabet="ab/,", max_size=6), st.text(alphabet="ab/,", max_size=4)
)
def test_matching_agrees_with_a_regular_expression(pattern: str, name: str, inside: str) -> None:
    id = f"{name}[{inside}]" if inside else name
    against = id if "[" in pattern or "]" in pattern else name
    assert select([pattern], id, ()) == reference(pattern, against)


@given(st.lists(ids(), max_size=4), ids(), st.sets(st.sampled_from(["pr", "slow"])))
def test_include_is_the_union_of_its_patterns(include: list[str], id: str, tags: set[str]) -> None:
    patterns = [*include, "tag:pr"]
    assert select(patterns, id, tags) == any(select([pattern], id, tags) for pattern in patterns)


def test_no_pattern_is_slow() -> None:
    """A backtracking matcher would not end within the age of the universe."""
    assert not select(["*a" * 100 + "b"], "a" * 160, ())
    assert not select(["**a" * 100 + "b"], "a" * 160, ())


MEASURING: dict[str, st.SearchStrategy[Any]] = {
    "timer": st.sampled_from(["auto", "cupti", "cuda-events", "device-events", "host"]),
    "warmup_ms": st.integers(0, 60_000),
    "measure_ms": st.floats(1, 60_000),
    "timeout_s": st.floats(0.1, 432_000),
    "cache": st.sampled_from(["cold", "warm"]),
    "precision": st.floats(0, 0.5),
    "allow_fallback": st.booleans(),
    "ceilings": st.booleans(),
}
MIN_EFFECT = {"min_effect": st.floats(0, 1)}
JUDGING: dict[str, st.SearchStrategy[Any]] = MIN_EFFECT | {
    "equivalence": st.floats(1e-6, 1),
    "family_error": st.floats(1e-9, 0.5),
    "fail_on": st.lists(st.sampled_from(["regressed", "failed", "artifact"]), unique=True),
    "budget_s": st.integers(1, 432_000),
}


@st.composite
def rounds(draw: st.DrawFn) -> dict[str, int]:
    first = draw(st.integers(6, 100))
    return {"rounds": first, "max_rounds": draw(st.integers(first, 8 * first))}


def some(keys: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


@given(some(MEASURING), some(MEASURING | JUDGING), some(MEASURING | MIN_EFFECT), some(MEASURING | JUDGING), rounds())
def test_the_later_layer_wins_for_every_key(
    defaults: dict[str, Any],
    suite: dict[str, Any],
    override: dict[str, Any],
    typed: dict[str, Any],
    counts: dict[str, int],
) -> None:
    document = {
        "version": 1,
        "defaults": defaults,
        "suites": {"s": {"include": ["**"], **suite, **counts}},
        "overrides": {"a/*": override},
    }
    settings = resolve(parse(yaml.safe_dump(document), "s"), None, typed)
    plain = resolve(Config.default(), None, {})
    measured = settings.measure_for("a/b[c=1]", ())
    for key in MEASURING:
        layers = [layer[key] for layer in (typed, override, suite, defaults) if key in layer]
        assert getattr(measured, key) == [*layers, getattr(plain.measure, key)][0]
    effects = [layer["min_effect"] for layer in (typed, override, suite) if "min_effect" in layer]
    assert settings.min_effect_for("a/b[c=1]") == [*effects, plain.min_effect][0]
    assert RunSettings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


@given(rounds())
def test_looks_ascend_by_rounds_and_end_at_the_last(counts: dict[str, int]) -> None:
    settings = resolve(Config.default(), None, counts)
    looks = settings.looks
    assert 1 <= len(looks) <= 8
    assert (looks[0], looks[-1]) == (counts["rounds"], counts["max_rounds"])
    steps = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert all(step == counts["rounds"] for step in steps[:-1])
    assert all(0 < step <= counts["rounds"] for step in steps)


KEYS = st.sampled_from(
    ["version", "suites", "defaults", "overrides", "compare", "mute", "rounds", "include", "fail_on", "until"]
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(min_value=date(1, 1, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def one_line_or_fine(call: Any) -> None:
    message = "fine"
    try:
        call()
    except ConfigError as error:
        message = str(error)
    assert len(message.splitlines()) == 1


@given(st.dictionaries(KEYS, JSON_VALUES, max_size=5))
def test_any_document_is_read_or_refused_in_one_line(document: dict[str, Any]) -> None:
    text = yaml.safe_dump({**document, "version": 1}, allow_unicode=True)
    one_line_or_fine(lambda: parse(text, "s"))


@given(st.text(alphabet="ab:-?[]{}&*!|>'\"%@` \n\t#,0123456789.~<", max_size=40) | st.text(max_size=40))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    one_line_or_fine(lambda: parse(text, "s"))


@given(st.sampled_from(sorted(resolve(Config.default(), None, {}).as_dict())), JSON_VALUES)
def test_any_stored_settings_are_read_or_refused_in_one_line(key: str, value: Any) -> None:
    stored = resolve(Config.default(), None, {}).as_dict() | {key: value}
    one_line_or_fine(lambda: RunSettings.from_dict(stored))
