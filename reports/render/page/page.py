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

from ... import units
from ...load.results import Results
from ...rows import commitments
from ...rows.outcome import MAIN, ComparedRow, Comparison, Facts, MeasuredRow, Report, SideFacts
from ...rows.side_row import SideRows
from .. import wording
from ..charts import roofline as roofline_chart
from ..charts import values as charts
from ..comment import beside
from ..explain import reasons
from ..explain.row import TESTS, clean, looks, tests, told, told_of_two_runs
from ..explain.row_rounds import RowRounds
from ..explain.run import explained
from . import table

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
    columns, rows = table.table(outcome, [address(row.case, row.implementation) for row in outcome.rows])
    machine = charts.of_machine(results)
    environment = _environment()
    diffs, counted = beside.page(outcome.artifacts)
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
        title=wording.title(outcome),
        facts=wording.facts(outcome.facts),
        sides=side_lines(outcome.facts),
        columns=columns,
        rows=rows,
        body=body,
        diffs=[(title, [escape(line) for line in lines]) for title, lines in diffs],
        machine=set().union(*machine),
        ceilings=ceilings,
        about=about_lines(outcome),
        settings=setting_lines(outcome.facts),
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
    family, sides = reasons.family_of(comparison), SideRows(results)
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
        warnings=wording.warnings(comparison),
        below=[*commitments.expectation_lines(comparison.expectations), *filter(None, table.below(comparison))],
        reading=wording.reading(comparison),
    )


def _judged_part(row: ComparedRow, comparison: Comparison, family: reasons.Family, rounds: RowRounds) -> Part:
    paired = comparison.facts.paired
    tell = told if paired else told_of_two_runs
    return Part(
        name="" if row.implementation == MAIN else row.implementation,
        verdict=wording.cells(row).called,
        kind=row.verdict,
        lines=[line for line in tell(row, comparison, family, rounds) if line[1]],
        tests=tests(row, comparison, family),
        looks=looks(row, comparison) if paired else "",
        data={"rounds": charts.of_rounds(rounds), "change": charts.of_change(row, comparison, rounds)},
    )


def _measured(results: Results, report: Report) -> _Body:
    sides = SideRows(results)
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
        below=[*commitments.expectation_lines(report.expectations), *filter(None, [wording.spent(report.facts)])],
        reading=(),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
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


def side_lines(facts: Facts) -> str:
    """Such as ``base 1234567 → head 89abcde (uncommitted changes)``."""
    return " → ".join(wording.named(side) for side in facts.sides)


def about_lines(outcome: Comparison | Report) -> list[tuple[str, list[str]]]:
    """Labels, and what they stand for; none without."""
    facts, header = outcome.facts, outcome.facts.header
    patterns = f": {', '.join(header.patterns)}" if header.patterns else ""
    found = [
        ("run", [f"{header.run_id}, evenbench {header.verb}, begun {header.started}"]),
        ("suite", [f"{header.suite}{patterns}"]),
        ("plan", [f"{units.count(header.rounds, 'round')}, looks after {_listed(header.looks)}, seed {header.seed}"]),
        *((side.name, _side(side)) for side in facts.sides),
        ("device", [*facts.devices, *facts.uuids]),
        ("driver", [*facts.drivers]),
        ("timer", [wording.TIMERS.get(timer, timer) for timer in facts.timers]),
        ("cache", [*facts.caches]),
        ("image", [header.image] if header.image else []),
        ("evenbench", [" ".join(filter(None, (header.harness.version, header.harness.sha)))]),
        ("judged by", _judged_by(outcome) if isinstance(outcome, Comparison) else []),
    ]
    return [(label, texts) for label, texts in found if texts]


def setting_lines(facts: Facts) -> list[str]:
    """The settings of the run, as JSON in lines."""
    return json.dumps(facts.header.settings, indent=1, ensure_ascii=False).splitlines()


def _side(side: SideFacts) -> list[str]:
    commit = " ".join(filter(None, (side.sha or side.label, f"({wording.DIRTY})" if side.dirty else "")))
    label = side.label if side.sha and side.label not in (".", side.name) else ""
    software = [f"{name} {each}" for name, found in (("python", side.python), ("torch", side.torch)) for each in found]
    return [text for text in (commit, label, *software, *map(wording.module, side.modules)) if text]


def _judged_by(comparison: Comparison) -> list[str]:
    judge = comparison.judged_by
    bounds = {name: units.setting(getattr(judge, name)) for name in ("min_effect", "equivalence", "family_error")}
    return [
        ", ".join(f"{name} {value}" for name, value in bounds.items()),
        f"fail_on {', '.join(judge.fail_on) or 'never'}",
    ]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
