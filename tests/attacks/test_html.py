"""Foreign text in every place of a results file, in the page and in what other tools read: nothing of it is alive."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from functools import cache
from html.parser import HTMLParser

from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.render.data.rows import FORMULA, as_csv, custom_smaller_is_better, rows
from evenbench.reports.render.page.page import IN_SCRIPT, page
from evenbench.reports.text import sanitise
from evenbench.runner.records import SideInfo
from tests import build
from tests.attacks.test_text import EVERY, PLACES, TODAY, WHOLE, Words, events
from tests.build import Case
from tests.reports.render.comment.test_markdown import texts

LIBRARY = "window.vegaEmbed = () => null;"
HEAD_ONLY = [SideInfo(name="head", label="x", sha="b" * 40)]
BREAKS = ("</script><script>alert(1)</script>", "<!--<script>", "]]>", '"><img src=x onerror=alert(1)>', "' autofocus onfocus=alert(1) '",
          "javascript:alert(1)", "{{ policy }}{% raw %}", "</pre></dd></article>", "\u2028</style>", "&lt;script&gt;")  # fmt: skip
said = st.lists(st.one_of(texts, st.sampled_from(BREAKS)), min_size=PLACES, max_size=PLACES).map(Words)
BROKEN = Words(["".join(BREAKS)])
PLAIN = Words(["word"])


class Built(HTMLParser):
    """The elements of a page with their attributes, in order; what is in its scripts; what a reader sees."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self.seen = ""
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        if tag == "script":
            self.scripts.append("")
        if tag not in ("meta", "input", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.seen += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def compared_page(say: Words) -> str:
    results = build.of(events(say))
    return page(results, compare(results, TODAY), LIBRARY)


def measured_page(say: Words) -> str:
    results = build.of(events(say, verb="run", sides=HEAD_ONLY))
    return page(results, measured(results), LIBRARY)


@cache
def plain() -> tuple[Built, Built]:
    return Built(compared_page(PLAIN)), Built(measured_page(PLAIN))


def assert_dead(source: str, expected: Built) -> None:
    assert not {char for char in source if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp")} - {"\n"}
    found = Built(source)
    assert set(found.elements) <= set(expected.elements) | {("div", ()), ("li", ())}
    assert found.open == []
    assert [script for at, script in enumerate(found.scripts) if at != 1] == [
        script for at, script in enumerate(expected.scripts) if at != 1
    ]
    assert not set(IN_SCRIPT) & {ord(char) for char in found.scripts[1]}
    assert json.loads(found.scripts[1]).keys() == {"overview", "machine", "ceilings", "cases"}
    assert all(address.startswith("#") for address in found.addresses)


@settings(max_examples=20)
@given(said)
@example(WHOLE)
@example(BROKEN)
def test_a_page_holds_only_our_elements_and_scripts(say: Words) -> None:
    assert_dead(compared_page(say), plain()[0])
    assert_dead(measured_page(say), plain()[1])


def test_each_hostile_text_in_some_place() -> None:
    for say in EVERY:
        source = compared_page(say)
        assert_dead(source, plain()[0])


def test_a_reader_sees_what_was_written() -> None:
    text = "<b>&amp;</b> \"quoted\" 'so' </script> {{ 7 * 7 }}"
    bad = {"status": "failed", "kind": "setup", "implementations": [], "reason": text}
    results = build.results([Case("a", head_case=bad)], prepared={"head": {"notes": [text]}})
    found = Built(page(results, compare(results, TODAY), LIBRARY))
    assert f"head: {text}" in found.seen  # a note of the run
    assert f"head: setup: {text}" in found.seen  # why the row failed


@settings(max_examples=20)
@given(said)
@example(WHOLE)
@example(Words(['=cmd|"/c calc"!A1', "+1", "-1", "@SUM(A1)", "\t=1", '"', ",", "a\nb", ";"]))
def test_tables_for_other_tools_hold_words_alone(say: Words) -> None:
    comparison = compare(build.of(events(say)), TODAY)
    flat = rows(comparison)
    assert all(value == sanitise(value) for row in flat for value in row.values() if isinstance(value, str))
    read = list(csv.DictReader(io.StringIO(as_csv(comparison))))
    assert len(read) == len(comparison.rows)
    for row, told in zip(flat, read, strict=True):
        assert told.keys() == row.keys()
        for name, value in row.items():
            if isinstance(value, str):
                assert told[name] == (f"'{value}" if value.startswith(FORMULA) else value)
                assert not told[name].startswith(FORMULA)
            elif value is None:
                assert told[name] == ""
            elif not isinstance(value, bool):
                assert float(told[name]) == value
    for each in json.loads(custom_smaller_is_better(comparison)):
        assert each.keys() == {"name", "unit", "value", "range", "extra"}
        assert all(line == sanitise(line) for line in each["extra"].split("\n"))
