"""Blocks of docs/measurements.md: what a command writes there, and what it must not touch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measurements.document import DOCUMENT, END, NoBlockError, begin_of, replaced, write

COMMAND = "scripts/prove judge-speed"
TEXT = f"# A\n\n    {COMMAND}\n\n{begin_of(COMMAND)}\nold\n{END}\n\nKept.\n"
TABLE = "\n| a |\n| --- |\n"
PLAIN = st.text(max_size=200).filter(lambda text: "<!--" not in text)


def test_a_block_is_replaced() -> None:
    text = replaced(TEXT, COMMAND, "\n| a |\n| --- |\n\n", "2026-12-01")
    assert text == TEXT.replace("old\n", "Date: 2026-12-01\n\n| a |\n| --- |\n")


@given(PLAIN, PLAIN, PLAIN, PLAIN)
def test_nothing_else_is_touched_and_twice_is_once(before: str, old: str, after: str, printed: str) -> None:
    document = f"{before}\n{begin_of(COMMAND)}\n{old}\n{END}\n{after}"
    once = replaced(document, COMMAND, printed, "2026-12-01")
    assert once.startswith(f"{before}\n{begin_of(COMMAND)}\nDate: 2026-12-01\n\n")
    assert once.endswith(f"\n{END}\n{after}")
    assert printed.strip() in once
    assert replaced(once, COMMAND, printed, "2026-12-01") == once


@pytest.mark.parametrize(
    ("document", "command", "printed", "message"),
    [
        (TEXT, "scripts/prove other", "", "has 0 blocks"),
        (TEXT + TEXT, COMMAND, "", "has 2 blocks"),
        (TEXT.replace(END, ""), COMMAND, "", "has no '<!-- end -->'"),
        (TEXT.replace(END, "", 1) + TEXT.replace(COMMAND, "x"), COMMAND, "", "has no '<!-- end -->'"),
        (TEXT, COMMAND, f"a {END} b", "printed holds"),
    ],
)
def test_a_document_without_the_block_is_refused(document: str, command: str, printed: str, message: str) -> None:
    with pytest.raises(NoBlockError, match=message):
        replaced(document, command, printed, "2026-12-01")


def test_a_refused_document_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "measurements.md"
    path.write_text(TEXT)
    for command, printed in (("scripts/prove other", TABLE), (COMMAND, "\nWithout judge: ended with code 1\n")):
        with pytest.raises(NoBlockError):
            write(command, printed, path)
        assert path.read_text() == TEXT
    write(COMMAND, TABLE, path)
    assert "\nDate: 20" in path.read_text()


def test_every_block_of_the_document_has_its_command_before_it_and_an_end() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    begins = [line for line in text.splitlines() if line.startswith("<!-- measured: ")]
    assert begins
    assert text.count(f"{END}\n") == len(begins) == len(set(begins))
    for begin in begins:
        command = begin.removeprefix("<!-- measured: ").removesuffix(" -->")
        assert f"    {command}\n\n{begin}\n" in text
