"""What a page of results holds. How it behaves in a browser: tests/e2e/test_page.py; with hostile text: tests/attacks."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.diff import diff
from evenbench.reports.compare.report import measured
from evenbench.reports.compare.stored import joined, stored
from evenbench.reports.render.charts import values as charts
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.explain.histogram import histogram
from evenbench.reports.render.explain.reasons import because, family_of, otherwise
from evenbench.reports.render.explain.row_rounds import RowRounds
from evenbench.reports.render.page.page import address, page
from evenbench.reports.rows.side_row import SideRows
from evenbench.runner.records import SideInfo
from tests import build
from tests.build import Case
from tests.reports.render.explain.test_row import JUDGED, TELEMETRY
from tests.reports.render.test_render import MIXED

TODAY = date(2026, 11, 29)
LIBRARY = 'window.vegaEmbed = async () => "</script><!-- <script>";'
RUN = (
    Case("norm/rms[cols=8192]", base=None, implementations=("torch", "triton"), both_case={"baseline": "torch"}),
    Case("y", base=None),
)


class Read(HTMLParser):
    """What a browser would find: ids of cases, visible text, and the scripts, styles and policy as they stand."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.cases: list[str] = []
        self.links: list[str] = []
        self.charts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.policy = ""
        self.text = ""
        self._into: list[str] | None = None
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._into = {"script": self.scripts, "style": self.styles}.get(tag)
        if self._into is not None:
            self._into.append("")
        if tag == "article":
            self.cases.append(found["data-case"] or "")
        if tag == "figure":
            self.charts.append(found["data-chart"] or "")
        if tag == "a" and "href" in found:
            self.links.append(found["href"] or "")
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """What the scripts are given."""
        found: dict[str, Any] = json.loads(self.scripts[1])
        return found


def compared_page(*cases: Case, **options: Any) -> Read:
    results = build.results(cases, **options)
    return Read(page(results, compare(results, TODAY), LIBRARY))


def measured_page(*cases: Case, **options: Any) -> Read:
    results = build.results(cases, made=4, verb="run", **options)
    return Read(page(results, measured(results), LIBRARY))


class TestPage:
    def test_every_row_and_why(self) -> None:
        results = build.results(MIXED)
        comparison = compare(results, TODAY)
        found = Read(page(results, comparison, LIBRARY))
        words = " ".join(found.text.split())
        assert found.cases == list(dict.fromkeys(row.case for row in comparison.rows))
        assert [link for link in found.links if link != "#"] == [
            address(row.case, row.implementation) for row in comparison.rows
        ]
        family = family_of(comparison)
        for row in comparison.rows:
            for said in (because(row, comparison, family), otherwise(row, comparison, family)):
                clean = " ".join(said.replace("\u202e", "").replace("\x1b", "\ufffd").split())
                assert clean[1:] in words
        assert as_json(comparison)["headline"] in words
        assert "8 rounds, looks after 8, 16, 24, seed 7" in words
        assert comparison.facts.header.run_id in words

    def test_two_stored_runs_make_no_rounds(self) -> None:
        runs = [
            build.results(
                [Case("a", head=head)],
                run_id=str(head),
                verb="run",
                sides=[SideInfo(name="head", label="feature", sha="d" * 40)],
                made=made,
            )
            for head, made in ((20_000.0, 8), (21_000.0, 7))
        ]
        base, head = (stored(name, results, None) for name, results in zip(("a.jsonl", "b.jsonl"), runs, strict=True))
        comparison = diff(base, head, TODAY)
        found = Read(page(joined(base, head), comparison, LIBRARY))
        words = " ".join(found.text.split())
        assert comparison.rows[0].verdict == "regressed"
        assert "launches were not paired: base is of run 20000.0" in words
        assert "Head was shown to be slower by more than 0.5" in words
        assert "from the means of the sides' launches, which were not paired" in words
        assert "the median of 8 launches" in words
        assert "the median of 7 launches" in words
        for of_rounds in (
            "rounds whole",
            "round by round",
            "whole rounds",
            "one look",
            "a tick for each round",
            "After ",
        ):
            assert of_rounds not in words
        (part,) = found.data["cases"][0]["parts"]
        assert part["change"]["rounds"] == []
        launches = [each["side"] for each in part["rounds"]["launches"]]
        assert (launches.count("base"), launches.count("head")) == (8, 7)

    def test_charts_only_of_what_was_measured(self) -> None:
        found = compared_page(
            Case("a"),
            Case("b", base=None),
            Case("c", both_case={"status": "skipped", "reason": "why", "implementations": []}),
        )
        assert found.charts == ["overview", "launches", "spread", "launches", "change", "spread"]  # of b, then of a
        assert found.cases == ["b", "c", "a"]
        assert [case["parts"][0]["rounds"] is None for case in found.data["cases"]] == [False, True, False]
        assert "Clocks and temperature were not recorded." in found.text

    def test_the_machine(self) -> None:
        found = compared_page(Case("a"), telemetry=TELEMETRY, rounds=2, made=2)
        assert found.charts[-1] == "clock"
        assert "temperature" not in found.charts
        assert {(each["side"], each["clock"], each["held"]) for each in found.data["machine"]} == {
            ("base", 1980.0, False),
            ("head", 1755.0, True),
        }
        assert [each["launch"] for each in found.data["machine"]] == [1, 2, 3, 4]

    def test_a_run_of_one_side(self) -> None:
        found = measured_page(*RUN)
        assert found.cases == ["norm/rms[cols=8192]", "y"]
        assert found.charts == ["implementations", *["launches", "spread"] * 3]
        bars = found.data["cases"][0]["implementations"]["bars"]
        assert [(each["name"], each["side"]) for each in bars] == [("torch", "head"), ("triton", "head")]
        assert found.data["cases"][1]["implementations"] is None
        assert "of baseline" in found.text
        assert "of ceiling" not in found.text  # nothing stands in it
        assert "80 kept, 5 for warm-up in each launch" in found.text

    def test_the_devices_peaks(self) -> None:
        found = measured_page(*RUN, ceilings=[build.CEILINGS])
        assert found.charts[-2:] == ["roofline", "bandwidth"]
        assert found.data["ceilings"].keys() == {"roofline", "bandwidth"}
        assert "The device's peaks" in found.text
        assert "of ceiling" in found.text
        assert "of ceiling" in compared_page(Case("a"), ceilings=[build.CEILINGS]).text
        for bare in (
            measured_page(*RUN),
            measured_page(*RUN, ceilings=[build.CEILINGS.model_copy(update={"uuid": "GPU-2"})]),
        ):
            assert bare.data["ceilings"] == {}
            assert "The device's peaks" not in bare.text

    def test_spaces_of_columns_stay(self) -> None:
        assert "\n  samples  " in measured_page(*RUN).text

    def test_nothing_is_fetched_and_only_our_scripts_run(self) -> None:
        found = compared_page(*MIXED)
        kinds = dict(part.split(" ", 1) for part in found.policy.split("; "))
        hashes = [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in (*found.scripts, *found.styles)
        ]
        early, _data, *later, style = hashes
        assert kinds == {
            "default-src": "'none'",
            "script-src": kinds["script-src"],
            "style-src": style,
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        assert set(kinds["script-src"].split()) == {early, *later}
        assert len(later) == 3
        assert all(link.startswith("#") for link in found.links)

    def test_whose_software_is_in_it(self) -> None:
        found = compared_page(Case("a")).text
        for name in (
            "University of Washington Interactive Data Lab",
            "Mike Bostock",
            "Jon Mease",
            "Ariya Hidayat",
            "hashlru",
            "without the third condition\nRedistribution",
        ):
            assert name in found

    def test_a_library_cannot_end_its_script(self) -> None:
        found = compared_page(Case("a"))
        assert found.scripts[2] == LIBRARY.replace("<", "\\x3c")

    def test_a_hundred_cases_fit(self) -> None:
        cases = [Case(f"family/case[n={number}]", implementations=("main",)) for number in range(100)]
        results = build.results(cases, rounds=24, made=24)
        text = page(results, compare(results, TODAY), "x" * 900_000)
        assert len(text.encode()) < 5_000_000


@given(st.text("abc/[]=,+._-", min_size=1, max_size=30), st.sampled_from(["main", "triton", "a+b.c/d"]))
def test_an_address_says_which_case(case: str, implementation: str) -> None:
    found = re.fullmatch(r"#case=([^&#\[\]+]+)(?:&implementation=([^&#+]+))?", address(case, implementation))
    assert found is not None
    assert (unquote(found[1]), unquote(found[2] or "main")) == (case, implementation)


class TestCharts:
    @staticmethod
    def rounds(*cases: Case, **options: Any) -> RowRounds:
        results = build.results(cases, **options)
        sides, key = SideRows(results), (cases[0].id, cases[0].implementations[0])
        return RowRounds(sides.row("base", key), sides.row("head", key), results)

    def test_launches_in_their_order(self) -> None:
        rounds = self.rounds(Case("a", base=20_000.0, head=2_000_000.0, dies={"head": {1: "boom"}}), rounds=3, made=3)
        found = charts.of_rounds(rounds)
        assert found is not None
        assert found["unit"] == "ms"
        marks = rounds.marks()
        assert [(each["round"], each["side"]) for each in found["launches"]] == [
            (mark.round + 1, mark.side) for mark in marks
        ]
        assert [each["time"] for each in found["launches"]] == [
            None if mark.ns is None else pytest.approx(mark.ns / 1e6, rel=1e-5) for mark in marks
        ]
        assert sum(each["time"] is None for each in found["launches"]) == 1

    def test_a_row_that_was_not_measured_has_none(self) -> None:
        assert (
            charts.of_rounds(
                self.rounds(
                    Case("a", both_case={"status": "failed", "kind": "setup", "reason": "x", "implementations": []})
                )
            )
            is None
        )

    def test_the_change_is_the_judges(self) -> None:
        results = build.results(JUDGED)
        comparison = compare(results, TODAY)
        sides = SideRows(results)
        row = next(row for row in comparison.rows if row.case.startswith("norm/rms"))
        rounds = RowRounds(sides.row("base", (row.case, "main")), sides.row("head", (row.case, "main")), results)
        found = charts.of_change(row, comparison, rounds)
        assert found is not None
        assert found["change"] == pytest.approx(row.change, rel=1e-5)
        assert found["interval"] == pytest.approx(row.interval, rel=1e-5)
        assert [each["round"] for each in found["rounds"]] == [1, 2, 3, 5, 6, 7, 8]  # the fourth died
        assert (found["min_effect"], found["equivalence"]) == (0.005, 0.02)
        assert charts.of_change(replace(row, interval=None), comparison, rounds) is None

    def test_one_implementation_is_no_comparison(self) -> None:
        comparison = compare(build.results([Case("a"), Case("b", implementations=("x", "y"))]), TODAY)
        rows = {case: [row for row in comparison.rows if row.case == case] for case in ("a", "b")}
        assert charts.of_implementations(rows["a"]) is None
        found = charts.of_implementations(rows["b"])
        assert found is not None
        assert {(each["name"], each["side"]) for each in found["bars"]} == {
            (name, side) for name in "xy" for side in ("base", "head")
        }
        assert all(each["p10"] <= each["time"] <= each["p90"] for each in found["bars"])

    @given(st.lists(st.lists(st.integers(1, 10**7), min_size=1, max_size=40), min_size=1, max_size=3))
    def test_a_spread_holds_every_sample_of_each_side(self, launches: list[list[int]]) -> None:
        found = build.events([Case("a")], rounds=len(launches), made=len(launches))
        changed = [
            each.model_copy(update={"device_busy_ns": samples, "latency_ns": samples, "n_kernels": None})
            if each.event == "measurement" and (samples := launches[each.launch % len(launches)])
            else each
            for each in found
        ]
        results = build.of(changed)
        sides = SideRows(results)
        drawn = charts.of_rounds(RowRounds(sides.row("base", ("a", "main")), sides.row("head", ("a", "main")), results))
        assert drawn is not None
        spread = drawn["spread"]
        for side in ("base", "head"):
            beyond = sum(spread["beyond"][side].values()) / spread["samples"][side]
            inside = sum(each["share"] for each in spread["bins"] if each["side"] == side)
            assert inside + beyond == pytest.approx(1, abs=1e-4)
        assert len(spread["bins"]) <= 2 * (charts.BINS + 1)

    @given(st.lists(st.integers(0, 10**9), min_size=1, max_size=100), st.integers(1, 1000), st.integers(1, 60))
    def test_a_histogram_counts_every_sample_in_as_many_bins_as_asked(
        self, samples: list[int], tick: int, most: int
    ) -> None:
        bins = histogram(sorted(samples), tick, most)
        assert sum(each.count for each in bins) == len(samples)
        assert len([each for each in bins if each.low is not None and each.high is not None]) <= most

    @pytest.mark.parametrize(("ns", "unit"), [(999.0, "ns"), (1_000.0, "µs"), (1e6, "ms"), (2e9, "s"), (0.0, "ns")])
    def test_the_unit_fits_the_largest(self, ns: float, unit: str) -> None:
        assert charts.scale([ns, 0.5])[1] == unit
