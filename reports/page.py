"""`Comparison` and `Report` → one HTML page that holds all it needs. Pure.

The page asks no network for anything: its policy forbids that, and runs only the scripts whose hashes it names. Foreign
text is made visible (`clean`) and escaped wherever the template writes it; scripts get it as data, and put it into the
page as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from . import beside, charts, describe, page_environment, page_table, reasons, render_beside, roofline_chart
from .explain import explained
from .load import Results
from .row_rounds import RowRounds
from .rows import Sides
from .tables import MAIN, ComparedRow, Comparison, MeasuredRow, Report
from .why import TESTS, clean, looks, tests, told, told_of_two_runs

STYLES_AND_SCRIPTS = ("page.css", "early.js", "charts.js", "page.js")
# What could end a script, as JSON may write it.
IN_SCRIPT: Mapping[int, str] = MappingProxyType({ord(char): f"\\u{ord(char):04x}" for char in "<>&"})
BREAKS_OUT = re.compile(r"<(?=/?script|!--)", re.IGNORECASE)  # what means something inside a script element
NAME_PARTS = re.compile(r"[^,\[/]*[,\[/]?")
NO_BREAK = Markup("&nbsp;")
EXPLAINED_WIDTH = 100  # columns of what is told of a run's case


@dataclass(frozen=True)
class Part:
    """One implementation of a case.

    Attributes:
        name: of the implementation; empty where there is but one.
        verdict: or status; with a mark where it does not count.
        kind: its verdict or status alone.
        lines: labels, and what they stand for.
        tests, looks: of a judged row.
        text: told in columns, of a run; visible already, and escaped, since spaces count.
        data: what its charts are drawn of, by kind of chart.
    """

    name: str
    verdict: str
    kind: str
    lines: Sequence[tuple[str, Sequence[str]]] = ()
    tests: Sequence[Sequence[str]] = ()
    looks: str = ""
    text: Sequence[str] = ()
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CaseView:
    """All of one case: its implementations, and what compares them."""

    id: str
    parts: Sequence[Part]
    data: Mapping[str, Any]


@dataclass(frozen=True)
class _Body:
    cases: Sequence[CaseView]
    paired: bool
    overview: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    below: Sequence[str]
    reading: Sequence[str]


def page(results: Results, outcome: Comparison | Report, library: str) -> str:
    """The page.

    Args:
        results: of a comparison or of a run of one side.
        outcome: what was made of them.
        library: the script that draws charts; gives `vegaEmbed`.
    """
    body = _compared(results, outcome) if isinstance(outcome, Comparison) else _measured(results, outcome)
    columns, rows = page_table.table(outcome, [address(row.case, row.implementation) for row in outcome.rows])
    machine = charts.of_machine(results)
    environment = _environment()
    diffs, counted = render_beside.page(outcome.artifacts)
    body = replace(body, below=[*body.below, *counted])
    texts = {name: _source(environment, name) for name in STYLES_AND_SCRIPTS} | {"library": _harmless(library)}
    ceilings = roofline_chart.charts_of(outcome)
    data = {
        "overview": body.overview,
        "ceilings": ceilings,
        "machine": machine,
        "cases": [{"parts": [part.data for part in case.parts]} | dict(case.data) for case in body.cases],
    }
    return environment.get_template("page.html.j2").render(
        title=describe.title(outcome),
        facts=describe.facts(outcome.facts),
        sides=page_environment.sides(outcome.facts),
        columns=columns,
        rows=rows,
        body=body,
        diffs=[(title, [escape(line) for line in lines]) for title, lines in diffs],
        machine=set().union(*machine),
        ceilings=ceilings,
        about=page_environment.lines(outcome),
        settings=page_environment.settings(outcome.facts),
        tests=TESTS,
        policy=_policy(texts),
        texts={name: Markup(text) for name, text in texts.items()},  # noqa: S704 - our own, and the library's
        data=Markup(json.dumps(data, separators=(",", ":")).translate(IN_SCRIPT)),  # noqa: S704 - nothing in it is read as HTML
        notices=_source(environment, "notices.txt").split("\n"),
    )


def address(case: str, implementation: str = MAIN) -> str:
    """What stands behind a page's address to open it at a case, such as ``#case=norm/rms%5Bcols%3D4096%5D``."""
    more = "" if implementation == MAIN else f"&implementation={quote(implementation, safe='/')}"
    return f"#case={quote(case, safe='/')}{more}"


def _compared(results: Results, comparison: Comparison) -> _Body:
    family, sides = reasons.family_of(comparison), Sides(results)
    by_case: dict[str, list[ComparedRow]] = {}
    for row in comparison.rows:
        by_case.setdefault(row.case, []).append(row)
    cases = []
    for case, rows in by_case.items():
        parts = []
        for row in rows:
            key = (row.case, row.implementation)
            rounds = RowRounds(sides.row("base", key), sides.row("head", key), results)
            parts.append(_judged_part(row, comparison, family, rounds))
        cases.append(CaseView(case, parts, {"implementations": charts.of_implementations(rows)}))
    return _Body(
        cases=cases,
        paired=comparison.facts.paired,
        overview=charts.of_rows(comparison),
        warnings=describe.warnings(comparison),
        below=[*beside.expectation_lines(comparison.expectations), *filter(None, page_table.below(comparison))],
        reading=describe.reading(comparison),
    )


def _judged_part(row: ComparedRow, comparison: Comparison, family: reasons.Family, rounds: RowRounds) -> Part:
    paired = comparison.facts.paired
    tell = told if paired else told_of_two_runs
    return Part(
        name="" if row.implementation == MAIN else row.implementation,
        verdict=describe.cells(row).called,
        kind=row.verdict,
        lines=[line for line in tell(row, comparison, family, rounds) if line[1]],
        tests=tests(row, comparison, family),
        looks=looks(row, comparison) if paired else "",
        data={"rounds": charts.of_rounds(rounds), "change": charts.of_change(row, comparison, rounds)},
    )


def _measured(results: Results, report: Report) -> _Body:
    sides = Sides(results)
    by_case: dict[str, list[MeasuredRow]] = {}
    for row in report.rows:
        by_case.setdefault(row.case, []).append(row)
    cases = []
    for case, rows in by_case.items():
        parts = []
        for row in rows:
            key, name = (case, row.implementation), "" if row.implementation == MAIN else row.implementation
            rounds = RowRounds(sides.row("base", key), sides.row("head", key), results)
            text = [escape(line) for line in explained(rounds.head, results, EXPLAINED_WIDTH).splitlines()]
            data = {"rounds": charts.of_rounds(rounds), "change": None}
            parts.append(Part(name, row.status, row.status, text=text, data=data))
        cases.append(CaseView(case, parts, {"implementations": charts.of_implementations(rows)}))
    return _Body(
        cases=cases,
        paired=True,
        overview=(),
        warnings=report.facts.notes,
        below=[*beside.expectation_lines(report.expectations), *filter(None, [describe.spent(report.facts)])],
        reading=(),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "reports"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(name=breakable, number=_number, sentence=_sentence)
    return environment


def breakable(text: str) -> Markup:
    """An id, which a narrow column breaks where its parts end."""
    parts = NAME_PARTS.findall(clean(text))
    return Markup("<wbr>").join(parts)


def _number(text: str) -> Markup:
    """Numbers that stay beside their units; an interval may go to a line of its own."""
    return NO_BREAK.join(clean(text).split(" ")).replace(NO_BREAK + "[", " [").replace(NO_BREAK + "·", " ·")


def _sentence(text: str) -> Markup:
    """Prose as a sentence."""
    shown = clean(text)
    return escape(f"{shown[:1].upper()}{shown[1:]}.").replace(" %", NO_BREAK + "%")


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None  # noqa: S101 - for mypy: `_environment` gives it one
    return environment.loader.get_source(environment, name)[0]


def _harmless(script: str) -> str:
    """A script that nothing in it ends before its end; carriage returns go, since a browser would hash it without them."""
    return BREAKS_OUT.sub(r"\\x3c", script).replace("\r\n", "\n").replace("\r", "\n")


def _policy(texts: Mapping[str, str]) -> str:
    """What a browser may do for this page: run these scripts, use this style, and nothing else."""
    hashes = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for name, text in texts.items()
    }
    scripts = " ".join(value for name, value in hashes.items() if not name.endswith(".css"))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {hashes['page.css']}; base-uri 'none'; form-action 'none'"
    )
