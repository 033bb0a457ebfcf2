"""The page in a browser: sorted, filtered, by keys, on a phone, dark, opened at a case; no complaint, nothing fetched."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, expect, sync_playwright

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.render.charts.vega import library
from evenbench.reports.render.page.page import address, page
from evenbench.runner.records import Artifact
from measurements.pictures import BROWSERS, FLAGS
from tests import build
from tests.attacks.test_html import BREAKS
from tests.attacks.test_text import Words, events
from tests.build import Case
from tests.conftest import ON_CI
from tests.reports.render.explain.test_row import JUDGED, SETTLED, TELEMETRY
from tests.reports.render.page.test_page import RUN

TODAY = date(2026, 11, 29)
WARM = {side: {**values, "temperature_c": 41.0} for side, values in TELEMETRY.items()}
SLOW = "norm/rms[cols=8192]"
LONG = "padding_and_partitioning"  # an implementation of the example of generated kernels
SEVERAL = "gemm/bf16"
OF_MACHINE = ["roofline", "bandwidth", "clock", "temperature"]
TEXTS = (
    Artifact(side="head", case="y", name=f"{'new' * 20}.cu", status="new"),
    Artifact(side="head", case="y", name=f"{'changed' * 10}.cu", status="changed", diff="--- a\n+++ b\n-1\n+2"),
)
WAITING = "figure.chart:visible:not([data-drawn])"
NARROW, WIDE = 390, 1280
PATIENCE_MS = 20_000  # with a browser on a busy machine; none of it is waited for elsewhere
WIDTHS = "[document.documentElement.scrollWidth, innerWidth]"


@dataclass(frozen=True)
class Shown:
    """A page in a browser, and what the browser complained of or would fetch."""

    page: Page
    file: Path
    errors: list[str] = field(default_factory=list)

    def open(self, where: str = "", *, dark: bool = False, width: int = WIDE) -> Page:
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self.page.goto("about:blank")
        self.page.goto(self.file.as_uri() + where)
        expect(self.page.locator(WAITING)).to_have_count(0, timeout=PATIENCE_MS)
        return self.page

    def names(self) -> list[str]:
        return self.page.locator("#table tbody tr:visible td:first-child").all_inner_texts()

    def column(self, title: str) -> list[str]:
        titles = self.page.locator("#table th button").all_inner_texts()
        return self.page.locator(f"#table tbody tr:visible td:nth-child({titles.index(title) + 1})").all_inner_texts()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if path is None:
        (pytest.fail if ON_CI else pytest.skip)(f"no browser is installed, none of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield program
        program.close()


@pytest.fixture(scope="module")
def script() -> str:
    return library()


def shown(browser: Browser, file: Path, text: str) -> Shown:
    file.write_text(text, encoding="utf-8")
    found = Shown(browser.new_page(), file)
    tell = found.errors.append
    found.page.set_default_timeout(PATIENCE_MS)
    found.page.on("console", lambda said: tell(f"{said.type}: {said.text}"))
    found.page.on("pageerror", lambda error: tell(str(error)))
    found.page.on("request", lambda asked: None if asked.url.startswith(file.as_uri()) else tell(asked.url))
    return found


@pytest.fixture(scope="module")
def compared(browser: Browser, script: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    results = build.results((*JUDGED, *SETTLED), telemetry=WARM)
    return shown(browser, tmp_path_factory.mktemp("page") / "page.html", page(results, compare(results, TODAY), script))


@pytest.fixture(scope="module")
def ran(browser: Browser, script: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    *events, end = build.events(RUN, made=3, verb="run", telemetry=WARM, ceilings=[build.CEILINGS])
    results = build.of([*events, *TEXTS, end])
    return shown(browser, tmp_path_factory.mktemp("run") / "page.html", page(results, measured(results), script))


@pytest.fixture(autouse=True)
def no_complaint(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"compared", "ran"} & set(request.fixturenames):
        found: Shown = request.getfixturevalue(name)
        told = [*found.errors]
        found.errors.clear()
        assert told == []


def _width(drawing: Locator) -> float:
    return float(drawing.evaluate("each => each.getBoundingClientRect().width"))


def charts(of: Page) -> list[str]:
    """The charts that can be seen, each with something drawn in it."""
    figures = of.locator("figure.chart:visible")
    assert all(figures.nth(at).locator("svg path").count() > 1 for at in range(figures.count()))
    return [figures.nth(at).get_attribute("data-chart") or "" for at in range(figures.count())]


class TestTable:
    def test_it_begins_with_what_needs_a_reader(self, compared: Shown) -> None:
        open_page = compared.open()
        assert charts(open_page) == ["overview", "clock", "temperature"]
        assert open_page.locator("article:visible").count() == 0
        assert compared.column("verdict")[0] == "failed"
        assert open_page.locator("#count").inner_text() == "14 rows"

    def test_sort(self, compared: Shown) -> None:
        open_page = compared.open()
        button, header = (open_page.locator(f"#table th {each}") for each in ("button", ""))
        change = button.get_by_text("change")
        change.click()
        values = [
            float(text.split("\u00a0")[0].split(" ")[0].replace("−", "-"))
            for text in compared.column("change [95 %]")
            if text != "–"
        ]
        assert values == sorted(values)
        assert len(set(values)) > 2
        assert compared.column("change [95 %]")[-1] == "–"
        change.click()
        down = compared.column("change [95 %]")
        assert down[0].startswith("+")
        assert down[-1] == "–"  # nothing stays last
        assert header.evaluate_all("all => all.map(e => e.getAttribute('aria-sort')).filter(Boolean)") == ["descending"]
        button.get_by_text("case").click()
        assert compared.names() == sorted(compared.names())

    def test_filter(self, compared: Shown) -> None:
        open_page = compared.open()
        open_page.locator("#filter").fill("NORM regress")
        assert compared.names() == [SLOW]
        assert open_page.locator("#count").inner_text() == "1 of 14 rows"
        open_page.locator("#filter").fill("")
        open_page.locator("#kinds").select_option("improved")
        assert compared.names() == [f"{SEVERAL} · triton", f"{SEVERAL} · torch"]
        open_page.locator("#filter").fill("no such thing")
        assert compared.names() == []

    def test_a_point_of_the_overview_opens_its_case(self, compared: Shown) -> None:
        open_page = compared.open()
        open_page.locator("figure[data-chart=overview] svg path[aria-roledescription=point]").first.click()
        assert open_page.locator("article:visible").count() == 1


class TestCase:
    @pytest.mark.parametrize("where", [address(SLOW), f"#case={SLOW}"])
    def test_an_address_opens_it(self, compared: Shown, where: str) -> None:
        open_page = compared.open(where)
        expect(open_page.locator("h2:focus")).to_have_text(SLOW)
        expect(open_page.locator("#table")).not_to_be_visible()
        assert charts(open_page) == ["launches", "change", "spread", "clock", "temperature"]
        article = open_page.locator("article:visible").inner_text()
        assert "Head was shown to be slower by more than 0.5\u00a0% (p" in article
        assert "kernels differ: registers 32 → 40" in article
        assert "round 4 dropped: base: illegal memory access" in article

    def test_one_implementation_of_it(self, compared: Shown) -> None:
        open_page = compared.open(address(SEVERAL, "triton"))
        expect(open_page.locator(":focus")).to_have_text("triton")
        assert charts(open_page)[0] == "implementations"

    @pytest.mark.parametrize(("where", "told"), [("<b>no</b>", "<b>no</b>"), ("%zz", "%zz")])
    def test_an_unknown_one_is_told(self, compared: Shown, where: str, told: str) -> None:
        open_page = compared.open(f"#case={where}")
        assert open_page.get_by_role("alert").inner_text() == f"No such case in this report: {told}"
        expect(open_page.locator("#table")).to_be_visible()

    def test_the_browsers_way_back(self, compared: Shown) -> None:
        open_page = compared.open()
        open_page.get_by_role("link", name=SLOW).click()
        open_page.locator("article:visible").wait_for()
        open_page.go_back()
        expect(open_page.locator("#table")).to_be_visible()
        expect(open_page.locator("a:focus")).to_have_text(SLOW)

    def test_what_could_not_be_compared_has_no_chart(self, compared: Shown) -> None:
        open_page = compared.open(address("a/skipped"))
        assert charts(open_page) == ["clock", "temperature"]
        assert "It was left out on purpose. Head: needs flash_attn" in open_page.locator("article:visible").inner_text()

    def test_scripts_off(self, browser: Browser, compared: Shown) -> None:
        context = browser.new_context(java_script_enabled=False)
        still = context.new_page()
        still.goto(compared.file.as_uri())
        assert still.locator("article:visible").count() == 13
        assert still.locator(f"article[data-case='{SLOW}'] table.tests").is_visible()
        context.close()


class TestKeys:
    def test_through_the_table_into_a_case_and_back(self, compared: Shown) -> None:
        open_page = compared.open()
        keys, names = open_page.keyboard, compared.names()
        keys.press("ArrowDown")
        keys.press("ArrowDown")
        expect(open_page.locator("a:focus")).to_have_text(names[1])
        keys.press("ArrowUp")
        expect(open_page.locator("a:focus")).to_have_text(names[0])
        keys.press("Enter")
        expect(open_page.locator("h2:focus")).to_have_text(names[0])
        keys.press("ArrowRight")
        expect(open_page.locator("h2:focus")).to_have_text(names[1])
        keys.press("ArrowLeft")
        keys.press("ArrowLeft")  # there is none before the first
        expect(open_page.locator("h2:focus")).to_have_text(names[0])
        keys.press("Escape")
        expect(open_page.locator("a:focus")).to_have_text(names[0])

    def test_filter_and_go_on(self, compared: Shown) -> None:
        open_page = compared.open()
        open_page.keyboard.press("/")
        open_page.keyboard.type("gemm")
        assert compared.names() == [f"{SEVERAL} · triton", f"{SEVERAL} · torch"]
        open_page.keyboard.press("ArrowDown")
        open_page.keyboard.press("ArrowDown")
        open_page.keyboard.press("Enter")
        expect(open_page.locator(":focus")).to_have_text("torch")  # the case is drawn before the focus goes there

    def test_everything_by_tab_and_sort(self, compared: Shown) -> None:
        open_page = compared.open()
        reached = []
        for _ in range(40):
            open_page.keyboard.press("Tab")
            reached.append(open_page.evaluate("document.activeElement.id || document.activeElement.innerText"))
        buttons = open_page.locator("#table th button").all_inner_texts()
        wanted = [open_page.locator("h1").inner_text(), "filter", "kinds", *buttons, *compared.names()]
        assert [each for each in reached if each in wanted][: len(wanted)] == wanted
        open_page.get_by_role("button", name="case").focus()
        open_page.keyboard.press("Enter")
        assert compared.names() == sorted(compared.names())


class TestLooks:
    def test_dark_and_back(self, compared: Shown) -> None:
        open_page = compared.open(address(SLOW))
        schemes: Sequence[tuple[Literal["light", "dark"], str, str]] = (
            ("dark", "rgb(13, 17, 23)", "#56b4e9"),
            ("light", "rgb(255, 255, 255)", "#0072b2"),
        )
        for scheme, paper, base in schemes:
            open_page.emulate_media(color_scheme=scheme)
            expect(open_page.locator("html")).to_have_css("background-color", paper)
            point = open_page.locator(
                f"figure[data-chart=launches] svg path[aria-roledescription=point][stroke='{base}']"
            )
            expect(point).to_have_count(7)  # of the 8 rounds base lost one

    @pytest.mark.parametrize("where", ["", address(SLOW), address(SEVERAL), address("a/failed")])
    def test_a_narrow_screen_does_not_scroll_sideways(self, compared: Shown, where: str) -> None:
        open_page = compared.open(where, width=NARROW)
        width, room = open_page.evaluate(WIDTHS)
        assert width <= room == NARROW
        if not where:
            assert open_page.locator("#table th:visible").all_inner_texts() == ["case", "change [95 %]", "verdict"]
        drawings = open_page.locator("figure.chart:visible svg")
        assert all(_width(drawings.nth(at)) <= NARROW for at in range(drawings.count()))

    def test_charts_follow_the_width(self, compared: Shown) -> None:
        open_page = compared.open(width=NARROW)
        drawing = open_page.locator("figure[data-chart=overview] svg")
        narrow = _width(drawing)
        open_page.set_viewport_size({"width": WIDE, "height": 800})
        expect(drawing).to_have_attribute("width", re.compile(r"1\d{3}"))
        assert narrow < NARROW


class TestRun:
    def test_implementations_side_by_side(self, ran: Shown) -> None:
        open_page = ran.open()
        assert ran.names() == [f"{SLOW} · torch", f"{SLOW} · triton", "y"]
        assert charts(open_page) == OF_MACHINE
        open_page.get_by_role("link", name="torch").click()
        expect(open_page.locator(WAITING)).to_have_count(0)
        assert charts(open_page) == ["implementations", *["launches", "spread"] * 2, *OF_MACHINE]
        bars = open_page.locator("figure[data-chart=implementations] svg path[aria-roledescription=bar]")
        assert bars.count() == 2

    def test_a_long_name_of_one_is_not_cut(self, browser: Browser, script: str, tmp_path: Path) -> None:
        names = ("baseline", LONG)
        *events, end = build.events((Case("a", base=None, implementations=names),), made=3, verb="run")
        results = build.of([*events, end])
        found = shown(browser, tmp_path / "page.html", page(results, measured(results), script))
        open_page = found.open()
        open_page.get_by_role("link", name=LONG).click()
        for width in (1000, 320):
            open_page.set_viewport_size({"width": width, "height": 640})
            expect(open_page.locator(WAITING)).to_have_count(0)
            expect(open_page.locator("figure[data-chart=implementations] svg")).to_contain_text(LONG)

    def test_the_devices_peaks(self, ran: Shown) -> None:
        open_page = ran.open(dark=True)
        assert charts(open_page) == OF_MACHINE
        roofline = open_page.locator("figure[data-chart=roofline] svg")
        assert "bfloat16 matrix 800 TFLOP/s" in roofline.locator("text").all_text_contents()
        dim = open_page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--dim').trim()")
        assert roofline.locator(f"path[stroke='{dim}']").count() > 0
        roofline.locator("path[aria-roledescription=point]").last.click()  # the first lies below it
        assert open_page.locator("article:visible").count() == 1

    def test_its_names_are_left_out_where_there_is_no_room(self, ran: Shown) -> None:
        roofline = ran.open(width=NARROW).locator("figure[data-chart=roofline] svg")
        assert "bfloat16 matrix 800 TFLOP/s" not in roofline.locator("text").all_text_contents()
        assert roofline.locator("path[aria-roledescription=point]").count() == 3

    @pytest.mark.parametrize("where", ["", address(SLOW)])
    def test_on_a_phone(self, ran: Shown, where: str) -> None:
        width, room = ran.open(where, width=NARROW).evaluate(WIDTHS)
        assert width <= room == NARROW

    def test_only_a_text_with_a_difference_opens(self, ran: Shown) -> None:
        told = ran.open().locator("summary", has_text="artifact ").all_inner_texts()
        assert told == [f"artifact changed: {TEXTS[1].name} of y"]


def hostile(words: Sequence[str]) -> Words:
    return Words(["".join(words)])


def test_hostile_text_runs_nothing(browser: Browser, script: str, tmp_path: Path) -> None:
    results = build.of([*events(hostile(BREAKS))])
    found = shown(browser, tmp_path / "page.html", page(results, compare(results, TODAY), script))
    asked: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    found.page.on("dialog", dismiss)
    for where in ("", *(address(case) for case in results.cases["head"])):
        found.open(where)
    assert asked == []
    assert found.errors == []
    assert found.page.locator("img, [onerror], [onfocus]").count() == 0


def test_a_script_that_is_not_ours_does_not_run(browser: Browser, script: str, tmp_path: Path) -> None:
    results = build.results([Case("a")])
    text = page(results, compare(results, TODAY), script)
    evil = "<script>document.title = 'evil'</script><img src=http://127.0.0.1:9/x.png onerror=alert(1)>"
    found = shown(browser, tmp_path / "page.html", text.replace("<main>", f"<main>{evil}", 1))
    open_page = found.open()
    assert open_page.title().startswith("evenbench: ")
    refused = [error for error in found.errors if "Content Security Policy" in error]
    assert any("inline script" in error for error in refused)
    assert any("http://127.0.0.1:9/x.png" in error for error in refused)
