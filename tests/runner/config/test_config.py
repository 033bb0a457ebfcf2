"""suites.yaml and the command line: what is read, what is refused and how the refusal reads."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.config import Config, Measure, Mute, RunSettings, Suite, load, muted, parse, resolve, select
from evenbench.runner.errors import ConfigError

ROOT = Path(__file__).parents[3]

FULL = """
version: 1
setup: pip install .
preload: [mylib, mylib.kernels]
paths: ["src/**", "cases/**"]
image: ghcr.io/me/evenbench-mylib@sha256:abc
defaults: {warmup_ms: 10, timer: cuda-events}
suites:
  pr:   {include: ["tag:pr"], budget_s: 900, cache: warm, min_effect: 0.02}
  full: {include: ["**"], rounds: 12, budget_s: 7200}
overrides:
  "attention/*": {measure_ms: 200, min_effect: 0.01}
  "attention/big": {measure_ms: 400, timer: cupti}
  "tag:slow": {timeout_s: 600}
compare: {family_error: 0.05, fail_on: [failed, regressed]}
mute: [{match: "old/*", why: "being\\n  replaced", until: 2027-03-01}]
"""


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, "suites.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def settings(text: str = FULL, suite: str | None = None, **command_line: object) -> RunSettings:
    return resolve(parse(text, "suites.yaml"), suite, command_line)


def test_a_whole_file_is_read() -> None:
    config = parse(FULL, "suites.yaml")
    assert (config.version, config.setup, config.preload) == (1, "pip install .", ("mylib", "mylib.kernels"))
    assert (config.paths, config.image) == (("src/**", "cases/**"), "ghcr.io/me/evenbench-mylib@sha256:abc")
    assert config.defaults == {
        "timer": "cuda-events", "warmup_ms": 10, "measure_ms": 100, "rounds": 8, "max_rounds": 24, "timeout_s": 120,
        "cache": "cold", "precision": 0, "allow_fallback": False, "ceilings": True,
    }  # fmt: skip
    assert config.compare == {
        "min_effect": 0.005, "equivalence": 0.02, "family_error": 0.05, "fail_on": ("failed", "regressed"),
    }  # fmt: skip
    assert list(config.suites) == ["pr", "full"]
    assert config.suites["pr"] == Suite(("tag:pr",), {"budget_s": 900, "cache": "warm", "min_effect": 0.02})
    assert list(config.overrides) == ["attention/*", "attention/big", "tag:slow"]
    assert config.mute == (Mute("old/*", "being replaced", date(2027, 3, 1)),)


def test_the_defaults_are_those_of_the_design() -> None:
    plain = resolve(Config.default(), None, {})
    assert plain.measure == Measure("auto", 25, 100, 120, "cold", 0, False, True)
    assert (plain.suite, plain.include, plain.budget_s) == ("full", ("**",), 3600)
    assert (plain.rounds, plain.max_rounds, plain.looks) == (8, 24, (8, 16, 24))
    assert (plain.min_effect, plain.equivalence, plain.family_error) == (0.005, 0.02, 0.01)
    assert plain.fail_on == ("regressed", "failed")
    assert Config.default() == parse("version: 1", "x") == parse("version: 1\nsuites: {}", "x")


def test_the_projects_own_file_says_what_it_means() -> None:
    config = load(ROOT / "cases" / "suites.yaml")
    assert {name: suite.include for name, suite in config.suites.items()} == {
        "pr": ("tag:pr",), "ops": ("ops/*",),
        "impl": ("ops/impl/*",), "codegen": ("codegen/*",), "full": ("**",), "host": ("host/**",),
    }  # fmt: skip
    host = resolve(config, "host", {})
    assert (host.min_effect, host.equivalence) == (0.05, 0.10)
    plain = resolve(Config.default(), None, {})
    assert (config.defaults, config.compare) == (Config.default().defaults, Config.default().compare)
    assert resolve(config, None, {}).measure == plain.measure


def test_the_comments_of_the_projects_file_name_the_true_defaults() -> None:
    text = (ROOT / "cases" / "suites.yaml").read_text(encoding="utf-8")
    for key, value in Config.default().defaults.items():
        assert f"#   {key}: {str(value).lower().removesuffix('.0')}" in text


def test_a_missing_file_means_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "suites.yaml") == Config.default()


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"version: 1\nsetup: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml: cannot be read: it is not UTF-8 text"):
        load(tmp_path / "latin.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "long.yaml").write_text("version: 1\n" + "#" * 1024 * 1024)
    with pytest.raises(ConfigError, match=r"long\.yaml: longer than 1048576 characters"):
        load(tmp_path / "long.yaml")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("suites: {pr: {include: [a], rounds: 5}}", "suites.pr.rounds: must be at least 6, not 5, in suites.yaml"),
        (
            "suites: {pr: {include: [a], ronds: 9}}",
            "suites.pr.ronds: unknown key, in suites.yaml (hint: did you mean 'rounds'?)",
        ),
        ("suits: {}", "suits: unknown key, in suites.yaml (hint: did you mean 'suites'?)"),
        (
            "suites: {pr: {rounds: 9}}",
            'suites.pr.include: is required, in suites.yaml (hint: include: ["**"] takes all cases)',
        ),
        ("suites: {pr: {include: []}}", "suites.pr.include: needs at least 1 entry, in suites.yaml"),
        ("suites: {pr: {include: 'tag:pr'}}", "suites.pr.include: must be a list, not 'tag:pr', in suites.yaml"),
        ("suites: {pr: {include: [3]}}", "suites.pr.include[0]: must be text, not 3, in suites.yaml"),
        ("suites: {pr: }", "suites.pr: must be a mapping, not nothing, in suites.yaml"),
        ("defaults: {rounds: true}", "defaults.rounds: must be a whole number, not True, in suites.yaml"),
        ("defaults: {rounds: 8.0}", "defaults.rounds: must be a whole number, not 8.0, in suites.yaml"),
        ("defaults: {warmup_ms: .nan}", "defaults.warmup_ms: must be a finite number, not nan, in suites.yaml"),
        ("defaults: {warmup_ms: .inf}", "defaults.warmup_ms: must be a finite number, not inf, in suites.yaml"),
        ("defaults: {measure_ms: 0}", "defaults.measure_ms: must be at least 1, not 0, in suites.yaml"),
        ("defaults: {timeout_s: 432001}", "defaults.timeout_s: must be at most 432000, not 432001, in suites.yaml"),
        ("defaults: {allow_fallback: 1}", "defaults.allow_fallback: must be true or false, not 1, in suites.yaml"),
        ("defaults: {cache: off}", "defaults.cache: must be text, not False, in suites.yaml"),
        (
            "defaults: {timer: cupty}",
            "defaults.timer: must be one of auto, cupti, cuda-events, device-events, host, not 'cupty', in suites.yaml",
        ),
        (
            "suites: {a: {include: [b], max_rounds: 7}}",
            "suites.a.max_rounds: rounds 8 is more than max_rounds 7, in suites.yaml (hint: set both rounds and max_rounds)",
        ),
        (
            "suites: {a: {include: [b], max_rounds: 65}}",
            (
                "suites.a.max_rounds: rounds 8 up to max_rounds 65 makes 9 looks, at most 8 are allowed, in suites.yaml "
                "(hint: set rounds to at least 9 or max_rounds to at most 64)"
            ),
        ),
        ("compare: {equivalence: 0}", "compare.equivalence: must be over 0, not 0, in suites.yaml"),
        ("compare: {family_error: 0}", "compare.family_error: must be at least 1e-09, not 0, in suites.yaml"),
        (
            "compare: {fail_on: [never, failed]}",
            "compare.fail_on: 'never' stands alone, not a list of 2, in suites.yaml",
        ),
        (
            "overrides: {'a/*': {min_efect: 0.1}}",
            "overrides['a/*'].min_efect: unknown key, in suites.yaml (hint: did you mean 'min_effect'?)",
        ),
        (
            "overrides: {'tag:x': {min_effect: 0.1}}",
            (
                "overrides['tag:x'].min_effect: cannot hang on a tag, which the case's own code sets, in suites.yaml "
                "(hint: name the cases by id)"
            ),
        ),
        (
            "overrides: {'a?': {}}",
            "overrides['a?']: must be tag:NAME or an id with no wildcards but * and **, not 'a?', in suites.yaml",
        ),
        (
            "mute: [{match: a, why: b, until: 5}]",
            "mute[0].until: must be a day such as 2027-03-01, not 5, in suites.yaml",
        ),
        (
            "mute: [{match: a, why: b, until: 2027-03-01 10:00:00}]",
            "mute[0].until: must be a day such as 2027-03-01, not datetime.datetime(2027, 3, 1, 10, 0), in suites.yaml",
        ),
        ("mute: [{match: a, until: 2027-03-01}]", "mute[0].why: is required, in suites.yaml"),
        ("mute: [{match: a, why: '', until: 2027-03-01}]", "mute[0].why: is empty, in suites.yaml"),
        (
            "mute: [{match: 'tag:a', why: b, until: 2027-03-01}]",
            "mute[0].match: cannot be a tag, which the case's own code sets, not 'tag:a', in suites.yaml",
        ),
    ],
)
def test_a_refusal_starts_with_the_path_and_says_what_would_do(body: str, message: str) -> None:
    assert refusal(f"version: 1\n{body}") == message


def test_rounds_are_no_key_of_an_override() -> None:
    assert refusal("version: 1\noverrides: {'a': {rounds: 9}}").startswith("overrides.a.rounds: unknown key")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "version: is required, in suites.yaml"),
        (
            "version: 2\nnew_key: 1",
            "version: must be 1, not 2, in suites.yaml (hint: use an evenbench that knows this version)",
        ),
        ("version: true", "version: must be a whole number, not True, in suites.yaml"),
        ("version: '1'", "version: must be a whole number, not '1', in suites.yaml"),
        ("[]", "the whole file: must be a mapping, not a list of 0, in suites.yaml"),
    ],
)
def test_the_version_is_required_and_comes_first(text: str, message: str) -> None:
    assert refusal(text) == message


def laughs(join: str) -> str:
    """Nine levels, each of which uses the one before nine times."""
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, 10):
        uses = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + join.format(uses=uses))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "setup: !!python/object/apply:os.system [ls]",
            "suites.yaml:1:8: the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("version: !!int 1", "suites.yaml:1:10: the tag tag:yaml.org,2002:int is not wanted"),
        ("version: 1\nversion: 1", "suites.yaml:2:1: the key 'version' stands here twice"),
        ("suites: {a: &a {cache: warm}, b: {<<: *a, <<: *a}}", "suites.yaml:1:43: the key '<<' stands here twice"),
        ("a: &a [*a]", "suites.yaml:1:8: the alias *a contains itself"),
        ("on: 1", "suites.yaml:1:1: a key must be text"),
        ("? [a]\n: 1", "suites.yaml:1:3: a key must be text"),
        ("a: 1\n---\nb: 1", "suites.yaml:2:1: expected a single document"),
        ("a: [", "suites.yaml:1:5: while parsing a flow node"),
        ("a: \x00", "suites.yaml: unacceptable character"),
        ("until: 2027-13-45", "suites.yaml:1:8: not a value that can be read"),
        ("version: " + "9" * 5000, "suites.yaml:1:10: not a value that can be read"),
        ("[" * 5000, "suites.yaml:1:17: nested more than 16 deep"),
        ("- a\n" * 20_000, "suites.yaml:1:1: more than 20000 values"),
        ("a: &a 1\nb: [" + "*a, " * 101 + "]", "suites.yaml:2:405: more than 100 uses of aliases"),
        (laughs("[{uses}]"), "suites.yaml:5:45: more than 20000 values, aliases written out"),
        (laughs("{{<<: [{uses}], y: 1}}"), "suites.yaml:5:45: more than 20000 values, aliases written out"),
        ("#" * (1024 * 1024 + 1), "suites.yaml: longer than 1048576 characters"),
    ],
)
def test_yaml_made_to_hurt_is_refused(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


def test_a_long_hostile_text_is_not_quoted_in_full() -> None:
    assert len(refusal("*" + "a" * 100_000)) < 300
    assert len(refusal("version: 1\nsetup: [" + "a" * 100_000 + "]")) < 300
    assert len(refusal("version: 1\ndefaults: {timer: " + "a" * 100_000 + "}")) < 300
    assert refusal("version: 0x" + "f" * 5000).startswith("version: must be 1, not a huge number")


def test_honest_aliases_and_merges_work() -> None:
    config = parse("version: 1\nsuites: {a: &a {include: [x], rounds: 9}, b: {<<: *a, rounds: 10}}", "s")
    assert config.suites["b"] == Suite(("x",), {"rounds": 10})


@pytest.mark.parametrize(
    ("written", "read"),
    [("never", ()), ("[never]", ()), ("[]", ()), ("failed", ("failed",)), ("[failed, failed]", ("failed",))],
)
def test_fail_on(written: str, read: tuple[str, ...]) -> None:
    assert parse(f"version: 1\ncompare: {{fail_on: {written}}}", "s").compare["fail_on"] == read


@pytest.mark.parametrize(
    ("names", "wanted", "found"),
    [(["a", "pr", "full"], None, "pr"), (["a"], None, "a"), (["a", "full"], None, "full"), (["a", "b"], "b", "b")],
)
def test_which_suite_is_meant(names: list[str], wanted: str | None, found: str) -> None:
    suites = ", ".join(f"{name}: {{include: [x]}}" for name in names)
    assert settings(f"version: 1\nsuites: {{{suites}}}", wanted).suite == found


def test_a_suite_that_is_not_there() -> None:
    text = "version: 1\nsuites: {nightly: {include: [x]}, host: {include: [y]}}"
    with pytest.raises(ConfigError) as caught:
        settings(text)
    assert str(caught.value) == "--suite: is required, since there are several: nightly, host"
    with pytest.raises(ConfigError) as caught:
        settings(text, "nighty")
    assert str(caught.value) == "--suite: no suite 'nighty'; there are: nightly, host (hint: did you mean 'nightly'?)"


def test_a_suite_overrides_defaults_and_compare() -> None:
    pr = settings(suite="pr")
    assert (pr.budget_s, pr.min_effect, pr.measure.cache, pr.measure.timer) == (900, 0.02, "warm", "cuda-events")
    full = settings(suite="full")
    assert (full.rounds, full.looks, full.min_effect, full.family_error) == (12, (12, 24), 0.005, 0.05)


def test_the_command_line_wins_and_none_is_not_said() -> None:
    pr = settings(suite="pr", rounds=6, max_rounds=20, include=["x/*"], fail_on="never", cache=None, timeout_s=7)
    assert (pr.looks, pr.include, pr.fail_on) == ((6, 12, 18, 20), ("x/*",), ())
    assert (pr.measure.cache, pr.measure.timeout_s) == ("warm", 7)


@pytest.mark.parametrize(
    ("command_line", "message"),
    [
        ({"rounds": 5}, "--rounds: must be at least 6, not 5"),
        ({"max_rounds": 7}, "--max-rounds: rounds 8 is more than max_rounds 7 (hint: set both rounds and max_rounds)"),
        ({"include": ["a?"]}, "PATTERN: must be tag:NAME or an id with no wildcards but * and **, not 'a?'"),
        ({"measure_s": 1}, "--measure-s: unknown key (hint: did you mean 'measure_ms'?)"),
    ],
)
def test_a_wrong_command_line_is_named_as_it_is_typed(command_line: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**command_line)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("rounds", "max_rounds", "looks"),
    [
        (8, 24, (8, 16, 24)),
        (8, 20, (8, 16, 20)),
        (8, 8, (8,)),
        (6, 48, (6, 12, 18, 24, 30, 36, 42, 48)),
        (7, 8, (7, 8)),
    ],
)
def test_looks(rounds: int, max_rounds: int, looks: tuple[int, ...]) -> None:
    made = settings(rounds=rounds, max_rounds=max_rounds)
    assert made.looks == looks


def test_a_run_that_judges_nothing_may_have_one_round() -> None:
    once = settings().without_judging(1)
    assert (once.rounds, once.max_rounds, once.looks) == (1, 1, (1,))
    assert RunSettings.from_dict(once.as_dict()) == once
    with pytest.raises(ConfigError, match="--rounds: must be 1 to 1000, not 0"):
        settings().without_judging(0)


def test_each_layer_of_measuring_outranks_the_one_before() -> None:
    pr = settings(suite="pr")
    assert asdict(pr.measure_for("norm/rms", ())) == asdict(pr.measure)
    assert pr.measure_for("attention/small[d=1]", ()).measure_ms == 200
    last_wins = pr.measure_for("attention/big[d=1]", {"slow"})
    assert (last_wins.measure_ms, last_wins.timer, last_wins.timeout_s) == (400, "cupti", 600)
    case = {"timer": "host", "cache": "cold", "timeout_s": 5.5}
    assert pr.measure_for("attention/big", {"slow"}, case) == Measure("host", 10, 400, 5.5, "cold", 0, False, True)
    typed = settings(suite="pr", timer="device-events")
    assert typed.measure_for("attention/big", {"slow"}, case).timer == "device-events"
    assert typed.measure_for("attention/big", (), case, {"timer": "auto", "rounds": 9}).timer == "auto"
    assert pr.measure_for("a", (), {"timer": None}).timer == "cuda-events"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"timeout_s": 0.01}, "norm/rms[cols=1].timeout_s: must be at least 0.1, not 0.01"),
        ({"min_effect": 0.9}, "norm/rms[cols=1].min_effect: unknown key (hint: known keys: timer, cache, timeout_s)"),
        (
            {"allow_fallback": True},
            "norm/rms[cols=1].allow_fallback: unknown key (hint: known keys: timer, cache, timeout_s)",
        ),
    ],
)
def test_a_case_may_set_three_keys_within_bounds(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings().measure_for("norm/rms[cols=1]", (), values)
    assert str(caught.value) == message


def test_min_effect_comes_from_the_file_or_the_command_line() -> None:
    pr = settings(suite="pr")
    assert pr.min_effect_for("attention/small[d=1]") == 0.01
    assert pr.min_effect_for("attention/big") == 0.01  # the later override does not set it
    assert pr.min_effect_for("norm/rms") == 0.02
    assert pr.min_effects == (("attention/*", 0.01),)
    twice = settings("version: 1\noverrides: {'a/*': {min_effect: 0.1}, 'a/b': {min_effect: 0.2}}")
    assert (twice.min_effect_for("a/b[c=1]"), twice.min_effect_for("a/c")) == (0.2, 0.1)
    assert settings(suite="pr", min_effect=0.1).min_effect_for("attention/small") == 0.1


def test_settings_survive_the_header_of_a_results_file() -> None:
    made = settings(suite="pr", timer="cupti", min_effect=0.1)
    stored = json.loads(json.dumps(made.as_dict()))
    assert stored == made.as_dict()
    again = RunSettings.from_dict(stored)
    assert again == made
    assert again.measure_for("attention/x", (), {"timer": "host"}).timer == "cupti"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 10**6}, "settings.rounds: must be at most 1000, not 1000000"),
        ({"looks": [8, 8]}, "settings.looks: must be ascending, not a list of 2"),
        ({"looks": list(range(1, 10))}, "settings.looks: has more than 8 entries"),
        ({"looks": []}, "settings.looks: needs at least 1 entry"),
        ({"extra": 1}, "settings.extra: unknown key"),
        ({"measure": {}}, "settings.measure.timer: is required"),
        ({"measure": []}, "settings.measure: must be a mapping, not a list of 0"),
        ({"overrides": {"a\n|": {}}}, "settings.overrides['a\\n|']: must be tag:NAME or an id"),
        ({"family_error": 1}, "settings.family_error: must be at most 0.5, not 1"),
        ({"fail_on": ["nothing"]}, "settings.fail_on[0]: must be one of"),
    ],
)
def test_hostile_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunSettings.from_dict(settings().as_dict() | change)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("key", sorted(resolve(Config.default(), None, {}).as_dict()))
def test_no_key_of_stored_settings_may_be_missing(key: str) -> None:
    stored = settings().as_dict()
    del stored[key]
    with pytest.raises(ConfigError, match=rf"settings\.{key}: is required"):
        RunSettings.from_dict(stored)


@pytest.mark.parametrize("data", [None, [], 3, "x"])
def test_stored_settings_must_be_a_mapping(data: object) -> None:
    with pytest.raises(ConfigError, match="settings: must be a mapping"):
        RunSettings.from_dict(data)


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("norm/*", ["norm/rms[cols=4096]", "norm/rms", "norm/a.b"], ["norm", "norm/a/b", "xnorm/rms", "norm/a/b[c=1]"]),
        ("norm/rms", ["norm/rms", "norm/rms[cols=1]"], ["norm/rms2", "norm/rms/x", "a/norm/rms"]),
        (
            "norm/rms[cols=4096]",
            ["norm/rms[cols=4096]"],
            ["norm/rms", "norm/rms[cols=40960]", "norm/rmsc", "norm/rms4"],
        ),
        ("norm/rms[cols=*]", ["norm/rms[cols=1]", "norm/rms[cols=a/b]"], ["norm/rms[cols=1,rows=2]", "norm/rms"]),
        ("norm/rms[*,rows=2]", ["norm/rms[cols=1,rows=2]"], ["norm/rms[rows=2]", "norm/rms[a=1,cols=1,rows=2]"]),
        ("**[**rows=2]", ["norm/rms[a=1,b=1,rows=2]", "x[rows=2]"], ["x[rows=2,z=1]", "x"]),
        ("*[**]", ["x[a=1]"], ["n/x[a=1]", "x"]),
        ("**", ["a", "a/b/c[d=e/f]"], []),
        ("*", ["a", "a[b=c]"], ["a/b"]),
        ("**/rms", ["a/rms", "a/b/rms[c=1]"], ["rms", "a/rms2"]),
        ("**x*y", ["x/xy", "xxy", "a/b/xzzy[c=1]"], ["x/y", "xy/"]),
        ("**=1]", ["x[a=1]", "a/b[a=2,b=1]"], ["x[a=11,b=2]", "x"]),
        ("x*a=1]", [], ["x[a=1]"]),
        ("tag:pr", [], ["tag", "pr", "a"]),
    ],
)
def test_patterns(pattern: str, taken: list[str], left: list[str]) -> None:
    assert [id for id in [*taken, *left] if select([pattern], id, ())] == taken


def test_tags_match_whole() -> None:
    assert select(["x", "tag:pr"], "a", {"pr", "slow"})
    assert not select(["tag:pr"], "a", {"pr2", "tag:pr"})
    assert not select([], "a", {"pr"})


def test_a_mute_holds_through_its_last_day() -> None:
    mutes = (Mute("a/*", "first", date(2027, 3, 1)), Mute("a/b", "second", date(2027, 4, 1)))
    assert muted(mutes, "a/b[c=1]", date(2027, 3, 1)) == mutes[0]
    assert muted(mutes, "a/b[c=1]", date(2027, 3, 2)) == mutes[1]
    assert muted(mutes, "a/c", date(2027, 3, 2)) is None
    assert muted((), "a/c", date(2027, 3, 2)) is None


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, evenbench.runner.config; print(sorted({'torch', 'numpy', 'scipy', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_rounds_alone_raise_max_rounds() -> None:
    """Whoever asks for 30 rounds means 30; only a layer that sets both can contradict itself."""
    settings = resolve(parse("version: 1\ndefaults: {rounds: 30}", "suites.yaml"), None)
    assert (settings.rounds, settings.max_rounds) == (30, 30)
    settings = resolve(parse("version: 1\nsuites: {a: {include: [b], rounds: 40}}", "suites.yaml"), "a")
    assert (settings.rounds, settings.max_rounds) == (40, 40)
    settings = resolve(Config.default(), None, {"rounds": 25})
    assert (settings.rounds, settings.max_rounds) == (25, 25)
    with pytest.raises(ConfigError, match="rounds 30 is more than max_rounds 7"):
        parse("version: 1\ndefaults: {rounds: 30, max_rounds: 7}", "suites.yaml")
