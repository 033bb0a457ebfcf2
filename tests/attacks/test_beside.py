"""Foreign text in diffs, names and reasons: it stays text in a comment, in a terminal and on a page."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import Results
from evenbench.reports.render.comment.comment import run_comment
from evenbench.reports.render.page.page import page
from evenbench.reports.render.terminal.terminal import run_table
from evenbench.reports.text import JOINER
from evenbench.runner.records import Artifact, ExpectationEvent, SideInfo
from tests import build
from tests.attacks.test_html import Built
from tests.attacks.test_text import OURS
from tests.build import Case
from tests.reports.render.comment.test_markdown import HOSTILE, assert_dead, rendered, texts

ALL = [
    *HOSTILE,
    "```",
    "````",
    "~~~",
    "</pre>",
    "</details>",
    "<!-- evenbench config=pr state=done -->",
    "\x1b[2J",
    "\t- x",
]


def results(lines: list[str], name: str) -> Results:
    """A run whose one text changed, and whose one expectation is skipped, in these words."""
    head = [SideInfo(name="head", label="x", sha="b" * 40)]
    events = build.events([Case("k", base=None)], made=1, verb="run", sides=head)
    values: dict[str, Any] = {"case": "k", "implementation": "main", "metric": "tflops", "value": 1.0, "rtol": 0.0}
    told = ExpectationEvent(device=name[:300] or "x", measured="2026", by="x", **values)
    changed = Artifact(side="head", case="k", name=name[:300], status="changed", diff="\n".join(lines)[:60_000])
    return build.of([*events[:-1], changed, told, events[-1]])


@settings(max_examples=40)
@given(st.lists(texts, min_size=1, max_size=6), texts)
@example(ALL, "".join(ALL))
def test_a_diff_is_code_and_nothing_else(lines: list[str], name: str) -> None:
    report = measured(results(lines, name))
    text = run_comment(report)
    assert "<!--" not in text
    found = rendered(text)
    assert_dead(found, OURS | {"pre"})
    assert found.tags.count("details") == found.tags.count("pre") <= 1
    assert found.tags.count("tr") == 2
    terminal = run_table(report)
    assert all(char.isprintable() or char == "\n" for char in terminal.replace(JOINER, ""))


@settings(max_examples=10)
@given(st.lists(texts, min_size=1, max_size=4), texts)
@example(ALL, "".join(ALL))
def test_a_page_holds_no_element_of_a_diff(lines: list[str], name: str) -> None:
    def elements(found: Results) -> set[tuple[str, tuple[str, ...]]]:
        return set(Built(page(found, measured(found), "function vegaEmbed() {}")).elements)

    assert elements(results(lines, name)) <= elements(results(["+x"], "x"))
