"""The documents say what the program does: their examples run, and their tables hold every name, default and bound."""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from evenbench.cli.grammar import VERBS as TABLE
from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import load_file
from evenbench.runner import errors
from evenbench.runner.case.declare import Bench, Implementation, Work, case
from evenbench.runner.case.discover import PACKAGE, load, points_of
from evenbench.runner.config import parse, resolve
from evenbench.runner.config.keys import CompareKeys, DefaultsKeys, Keys, OverrideKeys, SuiteKeys, checked
from evenbench.runner.config.suites import _MuteKeys, _SuitesFile
from evenbench.runner.errors import ConfigError
from evenbench.runner.records import SCHEMA, events, fields, header, read
from evenbench.runner.worker.launch.bench import NotMeasured, open_case
from tests.test_repository import tracked

VERBS = {verb.name for verb in TABLE}
ROOT = Path(__file__).parents[1]
MARK = "<!-- executed by tests/test_docs.py -->"
WORDS = (
    "case",
    "implementation",
    "suite",
    "side",
    "launch",
    "round",
    "sample",
    "device-busy time",
    "location",
    "ceiling",
    "expectation",
    "verdict",
)

Row = tuple[str, ...]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def documents() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md" and path.relative_to(ROOT).parts[0] != "tests"]


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    match = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"there is no {heading!r}"
    return match[1]


def rows(text: str) -> list[Row]:
    """The rows of all tables in a text, their rules left out."""
    lines = [line.strip() for line in text.splitlines() if line.lstrip().startswith("|")]
    split = [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in lines]
    return [cells for cells in split if not all(set(cell) <= set("-: ") for cell in cells)]


def named(cell: str) -> list[str]:
    """The words of a cell that stand in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def executed_blocks() -> list[tuple[str, str]]:
    """File and source of every fenced Python block that is marked as executed."""
    pattern = re.compile(rf"^( *){re.escape(MARK)}\n *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    return [
        (path.name, textwrap.dedent(match[2]))
        for path in documents()
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]


@pytest.fixture
def forget_cases() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


# ------------------------------------------------------------------------------------------------------------- examples


def test_readme_and_cases_have_executed_examples() -> None:
    assert {name for name, _ in executed_blocks()} >= {"README.md", "cases.md"}
    assert any("import torch" not in source for _, source in executed_blocks())  # so that some run on every machine


@pytest.mark.usefixtures("forget_cases")
@pytest.mark.parametrize(("name", "source"), executed_blocks(), ids=lambda value: value if "\n" not in value else "")
def test_examples_give_right_results(name: str, source: str, tmp_path: Path) -> None:
    if "import torch" in source:
        pytest.importorskip("torch")
    (tmp_path / "example.py").write_text(source, encoding="utf-8")
    found = load(tmp_path)
    assert found.broken == []
    points = points_of(found)
    assert points
    for point in points:
        opened = open_case(point, "cpu")
        assert point.case.title
        assert opened.bench.inputs
        reference = opened.reference()
        assert reference is not None
        inputs = opened.inputs_checksum()
        called = []
        for implementation in opened.names:
            try:
                runnable = opened.make(implementation)
            except NotMeasured as reason:
                assert "not installed" in str(reason)  # noqa: PT017 - the other implementations go on
                continue
            for _ in range(2):  # a missing reset shows in the second call
                opened.checked_call(runnable, reference, inputs)
            called.append(implementation)
        assert (opened.bench.baseline or "main") in called, f"{name}: {point.id}"


def test_the_readmes_suites_file_takes_the_readmes_case(tmp_path: Path) -> None:
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```$", text_of("README.md"), re.MULTILINE | re.DOTALL)
    config = parse(textwrap.dedent(blocks[0]), "README.md")
    assert resolve(config, None).suite == "pr"
    assert resolve(config, None).include == ("tag:pr",)
    assert config.setup.startswith("pip install")


def test_the_example_of_the_configuration_is_accepted() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text_of("docs/configuration.md"), re.MULTILINE | re.DOTALL)
    config = parse(block, "docs/configuration.md")
    assert set(config.suites) == {"pr", "full", "host"}
    assert config.mute[0].match == "old/*"


def test_the_sample_of_the_results_file_is_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```json\n(.*?)^```$", text_of("docs/results.md"), re.MULTILINE | re.DOTALL)
    assert read(io.BytesIO(block.encode())).events[-1].event == "end"
    assert json.loads(block.splitlines()[0])["schema"] == SCHEMA
    path = tmp_path / "results.jsonl"
    path.write_text(block, encoding="utf-8")
    (row,) = measured(load_file(path)).rows
    assert row.status == "ok"
    assert row.times is not None
    assert row.times.samples == 5


# ---------------------------------------------------------------------------------------------- the command line's names


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_in_the_readme(verb: str) -> None:
    assert re.search(
        rf"^\| `evenbench {verb}\b", section(text_of("README.md"), "## What this version does"), re.MULTILINE
    )


def test_no_document_names_a_verb_that_is_not_there() -> None:
    for path in documents():
        text = path.read_text(encoding="utf-8")
        commands = re.findall(r"`evenbench ([^`]*)`", text)
        for block in re.findall(r"^ *```\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            commands += re.findall(r"^ *evenbench (.*)$", block, re.MULTILINE)
        for command in commands:
            assert command.split()[0] in {*VERBS, "VERB", "--print-completion"}, f"{path.name}: evenbench {command}"


def exit_codes() -> set[int]:
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    codes = {value.exit_code for value in classes if issubclass(value, errors.EvenbenchError)}
    return codes | {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_every_exit_code_is_explained_and_no_other(name: str) -> None:
    table = {int(row[0]) for row in rows(section(text_of(name), "## Exit codes")) if row[0].isdecimal()}
    assert table == exit_codes()


def test_the_table_of_exit_codes_names_the_errors() -> None:
    for code, names, _ in rows(section(text_of("docs/architecture.md"), "## Exit codes"))[1:]:
        for name in named(names):
            assert getattr(errors, name).exit_code == int(code), name


def test_the_glossary_has_every_word_once() -> None:
    table = rows(section(text_of("README.md"), "## Words"))[1:]
    assert [word for word, _ in table] == list(WORDS)
    assert all(meaning for _, meaning in table)


def test_every_verdict_is_explained_and_no_other() -> None:
    from evenbench.reports.rows.outcome import Verdict

    table = rows(section(text_of("README.md"), "## How to read the table"))[1:]
    assert {verdict for cell, _ in table for verdict in named(cell)} == set(get_args(Verdict))


# -------------------------------------------------------------------------------------------------------- configuration

SECTIONS: Mapping[str, type[Keys]] = {
    "## Top level": _SuitesFile,
    "## Measuring: keys of `defaults`": DefaultsKeys,
    "## Judging: keys of `compare`": CompareKeys,
    "## Suites": SuiteKeys,
    "## Mute": _MuteKeys,
}


def configuration_rows(heading: str) -> dict[str, Row]:
    table = rows(section(text_of("docs/configuration.md"), heading))
    return {named(row[0])[0]: row for row in table[1:] if named(row[0])}


@pytest.mark.parametrize(("heading", "model"), SECTIONS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_every_key_is_explained_where_it_belongs(heading: str, model: type[Keys]) -> None:
    keys = set(configuration_rows(heading))
    if model is SuiteKeys:  # a suite also takes the keys of the two tables before
        keys |= set(DefaultsKeys.model_fields) | set(CompareKeys.model_fields)
    assert keys == set(model.model_fields)


def test_overrides_take_the_keys_that_the_text_says() -> None:
    but = {"rounds", "max_rounds"}
    assert set(OverrideKeys.model_fields) == set(DefaultsKeys.model_fields) - but | {"min_effect"}
    assert "`overrides` take all but `rounds` and `max_rounds`" in text_of("docs/configuration.md")


def numbers() -> list[tuple[str, Row]]:
    tables = [configuration_rows(heading) for heading in list(SECTIONS)[1:4]]
    return [(key, row) for table in tables for key, row in table.items() if re.search(r"\d to \d", row[2])]


def test_the_documented_defaults_hold() -> None:
    shown = {key: row[1] for heading in list(SECTIONS)[1:4] for key, row in configuration_rows(heading).items()}
    assert shown.pop("include") == "required"
    assert shown.pop("fail_on") == "`[regressed, failed]`"
    assert CompareKeys().fail_on == ("regressed", "failed")
    values = SuiteKeys().model_dump()
    assert {key: json.loads(text.strip("`")) for key, text in shown.items() if key not in ("timer", "cache")} == {
        key: values[key] for key in shown if key not in ("timer", "cache")
    }
    assert (shown["timer"], shown["cache"]) == (f"`{values['timer']}`", f"`{values['cache']}`")


@pytest.mark.parametrize(("key", "row"), [each for each in numbers() if "patterns" not in each[1][2]])
def test_the_documented_bounds_hold(key: str, row: Row) -> None:
    match = re.fullmatch(r"(over )?([\d.e-]+) to ([\d.e-]+)", row[2])
    assert match, row[2]
    low, high = (float(text) for text in match.groups()[1:])

    def accepted(value: float) -> bool:
        try:
            checked(SuiteKeys, {key: int(value) if value.is_integer() else value}, "")
        except ConfigError:
            return False
        return True

    assert accepted(high)
    assert not accepted(high + 1 if high.is_integer() else high * 1.01)
    assert accepted(low) is not bool(match[1])
    assert not accepted(low - 1 if low.is_integer() else low * 0.99)


# ---------------------------------------------------------------------------------------------------- records and cases


def event_classes() -> list[Any]:
    union, *_ = get_args(events.Event)
    return list(get_args(union))


@pytest.mark.parametrize("model", event_classes(), ids=lambda model: model.__name__)
def test_every_event_and_field_is_explained(model: Any) -> None:
    text = section(text_of("docs/results.md"), f"### `{model.model_fields['event'].default}`")
    names = {field.alias or name for name, field in model.model_fields.items()} - {"event"}
    assert names - set(named(text)) == set()


def test_no_event_is_explained_that_is_not_there() -> None:
    headings = re.findall(r"^### `(\w+)`$", text_of("docs/results.md"), re.MULTILINE)
    assert set(headings) == events.EVENT_NAMES
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize(
    ("model", "event"),
    [
        (header.SideInfo, "header"),
        (header.JudgeSettings, "header"),
        (events.Input, "case"),
        (events.WorkRecord, "case"),
        (events.ImplementationRecord, "case"),
        (events.KernelRecord, "measurement"),
        (events.Rejected, "measurement"),
    ],
)
def test_the_fields_of_inner_records_are_explained(model: Any, event: str) -> None:
    assert set(model.model_fields) - set(named(section(text_of("docs/results.md"), f"### `{event}`"))) == set()


def test_every_kind_of_failure_is_explained_and_no_other() -> None:
    table = rows(section(text_of("docs/results.md"), "## Status"))
    kinds = table[table.index(("kind", "means")) + 1 :]
    assert {named(row[0])[0] for row in kinds} == set(get_args(fields.FailureKind))


def test_every_keyword_of_a_case_is_explained_with_its_default() -> None:
    table = rows(section(text_of("docs/cases.md"), "## Keywords of `@case`"))[1:]
    signature = inspect.signature(case).parameters
    keywords = [name for name, each in signature.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    assert sorted(name for row in table for name in named(row[0])) == sorted(keywords)
    (tolerances,) = (row for row in table if named(row[0]) == ["rtol", "atol"])
    assert [float(text) for text in named(tolerances[1])] == [signature["rtol"].default, signature["atol"].default]


def test_every_field_of_a_bench_is_explained() -> None:
    text = section(text_of("docs/cases.md"), "## Fields of `Bench`")
    assert {named(row[0])[0] for row in rows(text)[1:]} == {field.name for field in dataclasses.fields(Bench)}
    for helper in (Implementation, Work):
        assert {field.name for field in dataclasses.fields(helper)} - set(named(text)) == set()


# ------------------------------------------------------------------------------------------------------------ structure


def test_the_table_of_folders_is_complete() -> None:
    """Every package has a row in docs/architecture.md, and no row names another."""
    table = rows(section(text_of("docs/architecture.md"), "## Folders, in the order of the line"))[1:]
    described = [name for row in table for name in named(row[0])]
    there = {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for folder in ("evenbench", "runner", "reports")
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert sorted(described) == sorted(there)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_relative_links_lead_somewhere() -> None:
    checked_links = 0
    for path in documents():
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            assert there.is_relative_to(ROOT), f"{path.name}: {target}"
            assert there.exists(), f"{path.name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in {slug(heading) for heading in headings}, f"{path.name}: {target}"
            checked_links += 1
    assert checked_links


def test_the_readmes_scripts_can_be_run() -> None:
    for name in re.findall(r"^\| `(scripts/\w+)` \|", text_of("README.md"), re.MULTILINE):
        mode = subprocess.run(
            ["git", "ls-files", "-s", name], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        assert mode.startswith("100755"), name
