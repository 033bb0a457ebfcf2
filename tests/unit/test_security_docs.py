"""docs/security.md names tests for its defences: each is there, and no attack of tests/attacks is left out."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.unit.test_docs import ROOT, rows, section, text_of

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(name: str) -> frozenset[str]:
    """The tests of a file, those in classes too."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def table() -> list[tuple[str, ...]]:
    return rows(section(text_of("docs/security.md"), "## Attacks, defences, tests"))[1:]


def test_every_row_names_tests_that_exist() -> None:
    assert len(table()) > 15
    for attack, defence, tests in table():
        named = NAMED.findall(tests)
        assert defence, attack
        assert named, attack
        assert re.sub(r"[`, ]|<br>", "", NAMED.sub("", tests)) == "", attack  # nothing but names
        for file, name in named:
            assert name in names_in(file), f"{attack}: {file}::{name}"


def test_every_file_of_attacks_is_in_the_table() -> None:
    named = {file for *_, tests in table() for file, _ in NAMED.findall(tests)}
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert there <= named
