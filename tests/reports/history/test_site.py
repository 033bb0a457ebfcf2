"""What people see of the history: terminal, issue and pages; foreign text in them means nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.history.changes import Change, Detected, detect
from evenbench.reports.history.series import Glance, Series
from evenbench.reports.history.site import Site, page_of, pages
from evenbench.reports.history.text import detected, glances, issue, show, show_json
from evenbench.reports.render.comment.markdown import COMMENT_BUDGET
from tests import build
from tests.reports.history.test_store import START, level, made

URL = "https://github.com/octo-org/kernels"
STEPPED = made(
    level((30, 20_000), (20, 20_600)),
    case="norm/rms[cols=8192]",
    driver="580.1",
    torch="2.13.0",
    timer="cupti",
    cache="cold",
)
HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}\x1b[31m\u202e@org #1 | `"


class Page(HTMLParser):
    """Collects tags, links and text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def glance(series: Series) -> Glance:
    times = np.array([point.ns for point in series.points])
    last = series.points[-1].started
    return Glance(series.place, len(times), last, float(times[-1]), float(times[0]), times)


def site(*series: Series, url: str = URL) -> dict[str, str]:
    return dict(pages(Site([glance(each) for each in series], series, detect(series), build.proofs(3), url)))


class TestTerminal:
    def test_a_case_over_time(self) -> None:
        text = show(STEPPED.place.case, [STEPPED], detect([STEPPED]), 100)
        head, bars, mark = text.splitlines()[:5], *text.splitlines()[5:7]
        assert head == [
            "norm/rms[cols=8192]",
            "",
            "NVIDIA H200 GPU-1",
            "driver 580.1 · torch 2.13.0 · cupti · cold",
            "50 runs, 2026-01-01 to 2026-02-19",
        ]
        assert set(bars[1:31]) <= set("▁▂")
        assert set(bars[31:]) <= set("▇█")
        assert mark == " " * 31 + "^"
        assert " 2026-01-31    +3.0 %  20.0 µs → 20.6 µs  0000000..0000000" in text

    @pytest.mark.parametrize("width", [1, 20, 40, 200])
    def test_the_plot_fits(self, width: int) -> None:
        text = show("a", [STEPPED], detect([STEPPED]), width)
        bars = next(line for line in text.splitlines() if re.search("[▁▂▃▄▅▆▇█]", line))
        assert len(bars) <= max(width, 3)

    def test_json_holds_the_raw_numbers(self) -> None:
        found = show_json("a", [STEPPED], detect([STEPPED]))
        (series,) = found["series"]
        assert series["runs"][0]["ns"] == STEPPED.points[0].ns
        assert [change["run_id"] for change in series["changes"]] == ["run-30"]

    def test_change_points_and_overview_are_lines(self) -> None:
        found = detect([STEPPED])
        assert detected(found.changes, found).splitlines() == [
            "2026-01-31    +3.0 %  20.0 µs → 20.6 µs  0000000..0000000  norm/rms[cols=8192]  GPU-1",
            "1 change point in 1 series over 0.1 years",
        ]
        assert detected((), replace(found, changes=())) == "no change points in 1 series over 0.1 years\n"
        assert glances([glance(STEPPED)], 100).splitlines()[0] == (
            "norm/rms[cols=8192]  20.6 µs  +2.8 %  50 runs  2026-02-19  GPU-1"
        )


class TestIssue:
    def test_it_names_cases_changes_and_commits(self) -> None:
        changes = detect([STEPPED, made(level((30, 1000), (20, 900)), case="b/c")]).changes
        title, body, mark = issue(changes, ["", "look at the machine"], URL)
        assert title == "evenbench: 2 change points on main, 1 slower and 1 faster"
        assert body.startswith(mark)
        rows = [line for line in body.splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == ["norm/rms[cols=8192]", "b/c"]
        assert f"/compare/{29:040x}...{30:040x})" in rows[0]
        assert "- look at the machine" in body

    def test_the_same_changes_have_the_same_mark_and_others_another(self) -> None:
        (change,) = detect([STEPPED]).changes
        other = change.model_copy(update={"run_id": "run-31"})
        marks = {issue([each], [""], URL)[2] for each in (change, change, other)}
        assert len(marks) == 2

    def test_thousands_of_changes_fit(self) -> None:
        (change,) = detect([STEPPED]).changes
        many = [change.model_copy(update={"case": f"a[n={n}]"}) for n in range(3000)]
        _, body, _ = issue(many, [""] * len(many), URL)
        assert len(body) <= COMMENT_BUDGET
        assert "change points not shown" in body

    def test_foreign_text_is_escaped(self) -> None:
        (change,) = detect([STEPPED]).changes
        hostile = change.model_copy(update={"device": HOSTILE, "uuid": HOSTILE})
        _, body, _ = issue([hostile], [HOSTILE], "")
        assert "<script>" not in body
        assert "@org" not in body


class TestPages:
    def test_overview_machines_and_a_page_a_case(self) -> None:
        other = made(level((30, 1000)), case="b/c", uuid="GPU-2")
        found = site(STEPPED, other)
        assert set(found) == {"index.html", "machines.html", page_of("norm/rms[cols=8192]"), page_of("b/c")}
        overview = Page(found["index.html"])
        assert {page_of("norm/rms[cols=8192]"), page_of("b/c"), "machines.html"} <= set(overview.links)
        assert f"{URL}/compare/{29:040x}...{30:040x}" in overview.links
        assert "+3.0 %" in overview.text
        assert "norm/<wbr>rms[<wbr>cols=8192]" in found["index.html"]  # an id breaks at its parts alone
        assert '<td class="d">2026-' in found["index.html"]
        assert "driver 580.1 · torch 2.13.0" in Page(found["machines.html"]).text
        page = Page(found[page_of("norm/rms[cols=8192]")])
        assert f"{URL}/commit/{49:040x}" in page.links
        assert page.tags.count("circle") == 1
        assert "../index.html" in page.links

    def test_one_run_of_one_row_is_singular(self) -> None:
        found = site(replace(STEPPED, points=STEPPED.points[:1]))
        assert ": 1 run, 2026-01-01 to 2026-01-01" in Page(found[page_of("norm/rms[cols=8192]")]).text
        assert "1 row." in Page(found["machines.html"]).text

    def test_what_the_machine_proved_stands_by_it(self) -> None:
        late = replace(
            STEPPED, points=tuple(p._replace(started=p.started + timedelta(days=300)) for p in STEPPED.points)
        )
        text = Page(site(late)["machines.html"]).text
        assert "A/A, 3 nights: 0 of 300 rows flagged." in text
        assert "planted 5 %: found 3 of 3." in text

    def test_nothing_is_loaded_from_elsewhere(self) -> None:
        for name, text in site(STEPPED).items():
            page = Page(text)
            assert not {"script", "img", "link", "iframe"} & set(page.tags), name
            assert "default-src 'none'" in text
            assert all(link.startswith((URL, "../", "cases/", "index.html", "machines.html")) for link in page.links)

    def test_without_a_repository_nothing_leads_out(self) -> None:
        for text in site(STEPPED, url="").values():
            assert "http" not in text.replace("http-equiv", "")

    @given(st.one_of(st.just(HOSTILE), st.text(max_size=60)))
    def test_foreign_text_is_text(self, foreign: str) -> None:
        names = ("device", "uuid", "driver", "image", "torch", "mig", "cpu", "python")
        hostile = replace(STEPPED, place=replace(STEPPED.place, **dict.fromkeys(names, foreign)))
        plain, found = site(STEPPED), site(hostile)
        assert {name: Page(text).tags for name, text in found.items()} == {
            name: Page(text).tags for name, text in plain.items()
        }
        assert not any(re.search(r"[\x00-\x08\x1b\u202a-\u202e]", text) for text in found.values())

    def test_a_history_without_changes_says_so(self) -> None:
        flat = made(level((30, 1000)))
        assert "None." in Page(site(flat)["index.html"]).text
        empty = dict(pages(Site((), (), Detected((), 0, 0.0, {}), (), "")))
        assert set(empty) == {"index.html", "machines.html"}

    def test_one_run_is_a_picture_too(self) -> None:
        assert "polyline" in Page(site(made([1000.0]))[page_of("a")]).tags


def test_changes_are_dated_by_their_first_run() -> None:
    (change,) = detect([STEPPED]).changes
    assert isinstance(change, Change)
    assert change.at == (START + timedelta(days=30)).isoformat()
