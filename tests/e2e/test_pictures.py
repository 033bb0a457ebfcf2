"""Every golden comment as a browser shows it, with GitHub's engine and style sheet: all of it is there, and it reads well."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from measurements.pictures import Browser, Theme, browsing, comment_of, why_not
from tests.conftest import ON_CI

ROOT = Path(__file__).parents[2]
COMMENTS = sorted((ROOT / "tests" / "golden").glob("comment-*.md"))
RESULTS = ROOT / "tests" / "data" / "comment_h200.jsonl.gz"  # as the H200 gave it
LARGEST = 350_000  # bytes of the picture in the README

# Column and text of the cells that take more than one line.
BROKEN = """() => [...document.querySelectorAll('td')].filter(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map(each => Math.round(each.bottom / 8))).size > 1;
}).map(cell => [cell.closest('table').querySelectorAll('th')[cell.cellIndex].innerText, cell.innerText])"""
NUMBERS = {"base", "head", "time", "p10", "p90", "of baseline", "of ceiling"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if why := why_not():
        (pytest.fail if ON_CI else pytest.skip)(why)
    with browsing() as found:
        yield found


@pytest.mark.parametrize("path", COMMENTS, ids=lambda path: path.stem)
def test_a_comment_is_seen_whole(browser: Browser, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    page = browser.page
    browser.show(text)
    assert page.locator("h3").inner_text().startswith("⏱ evenbench: ")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rules = [line for line in lines if set(line) <= set("|-:")]
    assert page.locator("tr").count() == len(lines) - len(rules)
    assert page.locator("table").count() == len(rules)
    for case in re.findall(r"^\| `([^`]+)` \|", text.partition("<details>")[0], re.MULTILINE):
        assert page.locator("td:first-child code").get_by_text(case, exact=True).first.is_visible(), case
    folded = page.locator("details")
    assert folded.count() == text.count("<details>")
    for number in range(folded.count()):
        part = folded.nth(number)
        inside = part.locator("table, ul, pre").first
        assert not inside.is_visible()
        part.locator("summary").click()
        assert inside.is_visible()
    assert browser.errors == []


@pytest.mark.parametrize("path", COMMENTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("theme", get_args(Theme))
def test_a_comment_is_not_blank(browser: Browser, path: Path, theme: Theme) -> None:
    browser.show(path.read_text(encoding="utf-8"), theme)
    color = browser.page.evaluate("getComputedStyle(document.querySelector('article')).backgroundColor")
    assert color == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[theme]
    seen = browser.picture()
    assert seen.startswith(b"\x89PNG\r\n")
    browser.page.add_style_tag(content="article * { visibility: hidden }")
    assert len(browser.picture()) < len(seen) / 2


@pytest.mark.parametrize("path", COMMENTS, ids=lambda path: path.stem)
def test_numbers_stay_on_one_line(browser: Browser, path: Path) -> None:
    browser.show(path.read_text(encoding="utf-8"), unfold=True)
    broken = browser.page.evaluate(BROKEN)
    assert NUMBERS.isdisjoint(column for column, _ in broken)
    for column, cell in broken:
        assert not column.startswith("change") or re.fullmatch(r"[−+]?[\d.]+\s%\s\[[^\]]+\]", cell)


def test_a_browser_tells_of_errors_and_of_what_it_would_fetch(browser: Browser) -> None:
    before = len(browser.errors)
    browser.show("<img src=http://127.0.0.1:9/x.png>\n")
    browser.page.evaluate("console.error('so it is')")
    told = browser.errors[before:]
    del browser.errors[before:]
    assert told[0] == "asked for http://127.0.0.1:9/x.png"
    assert "so it is" in told


def test_the_picture_of_the_readme_can_be_made_again(tmp_path: Path) -> None:
    if why := why_not():
        (pytest.fail if ON_CI else pytest.skip)(why)
    picture = tmp_path / "made" / "comment.png"
    done = subprocess.run(
        [sys.executable, "-m", "measurements.pictures", str(RESULTS), "--out", str(picture)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert picture.stat().st_size <= LARGEST


def test_the_readme_shows_a_real_comment() -> None:
    """Its words beside the picture are the headline of the results that the picture is of."""
    (headline,) = re.findall(r"^### ⏱ (.*)$", comment_of([RESULTS]), re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"![{headline}](docs/images/comment.png)" in readme
    assert (ROOT / "docs/images/comment.png").stat().st_size <= LARGEST


CASE = "planted/softmax[cols=4096,more=0.02,rows=6400]"  # at which the README shows the page


def test_the_page_of_the_readme_can_be_made_again(tmp_path: Path) -> None:
    if why := why_not():
        (pytest.fail if ON_CI else pytest.skip)(why)
    sizes = []
    for more in (("--case", CASE, "--height", "645"), ("--dark",)):
        done = subprocess.run(
            [sys.executable, "-m", "measurements.pictures", str(RESULTS), "--page", "--out", str(tmp_path / "page.png"), *more],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        seen = (tmp_path / "page.png").read_bytes()
        assert seen.startswith(b"\x89PNG\r\n")
        sizes.append(len(seen))
    assert max(sizes) <= LARGEST
    assert len(set(sizes)) == 2


def test_pictures_of_the_readme_are_small() -> None:
    shown = re.findall(r"!\[[^\]]+\]\((docs/images/[a-z]+\.png)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert sorted(shown) == ["docs/images/comment.png", "docs/images/history.png", "docs/images/page.png"]
    assert sorted(ROOT.glob("docs/images/*.png")) == sorted(ROOT / name for name in shown)
    for name in shown:
        assert (ROOT / name).stat().st_size <= LARGEST
