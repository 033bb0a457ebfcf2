"""What a comment looks like on GitHub, and a page in a browser. Started by scripts/picture; tests open comments with it, too.

The Markdown goes through GitHub's own engine (cmark-gfm) and style sheet into a browser without a window. What GitHub
does afterwards (mentions, references, emoji codes) is not shown: nothing of a comment may wait for it.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import cmarkgfm
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.confirm import confirmed
from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import load_runs
from evenbench.reports.render.charts.vega import library
from evenbench.reports.render.comment.comment import Links, comment
from evenbench.reports.render.page.page import address, page
from evenbench.runner.errors import EvenbenchError
from tests.fakes.node import modules

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # as scripts/lib.sh looks for them
# Nothing is fetched, and a test's browser has nobody to ask for leave.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RAW_HTML = 1 << 17  # cmark's CMARK_OPT_UNSAFE: GitHub keeps HTML here, and takes out later what it does not allow
WIDTH = 832  # of a comment's text on GitHub, beside the avatar and the sidebar, in CSS pixels
MARGIN = 16
PAGE_WIDTH, PAGE_HEIGHT = 1000, 640  # of a picture of a page: its top, which says what it is
SHARP = 1.5  # pixels of the picture for one of CSS: enough for a dense screen
WAITING = "figure.chart:visible:not([data-drawn])"  # charts that are not drawn yet
SAMPLE = "https://github.com/evenbench/evenbench"
LINKS = Links(  # as a publisher gives them; a picture shows but their words
    run=f"{SAMPLE}/actions/runs/1",
    report=f"{SAMPLE}/actions/runs/2",
    samples=f"{SAMPLE}/actions/runs/1#artifacts",
    dispatch=f"{SAMPLE}/actions/workflows/manual.yml",
    docs=f"{SAMPLE}/blob/main/docs/reading.md",
)

Theme = Literal["light", "dark"]


@dataclass(frozen=True)
class Browser:
    """A page that shows one comment after the other, and what the browser complained of so far."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def show(self, markdown: str, theme: Theme = "light", *, unfold: bool = False) -> None:
        """Open a comment."""
        self.page.emulate_media(color_scheme=theme)
        self.page.set_content(html(markdown), wait_until="load")
        if unfold:
            self.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")

    def picture(self, path: Path | None = None) -> bytes:
        """The comment as a PNG, also written to `path`."""
        return self.page.locator("main").screenshot(path=path, animations="disabled")


def why_not() -> str:
    """Why no comment can be opened here; empty where it can."""
    if _browser() is None:
        return f"no browser is installed, none of {', '.join(BROWSERS)}"
    return "" if modules() is not None else "npm is not installed, which brings GitHub's style sheet"


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser while this is open."""
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=_browser(), args=FLAGS)
        try:
            size: ViewportSize = {"width": WIDTH + 4 * MARGIN, "height": 600}
            browser = Browser(program.new_page(viewport=size, device_scale_factor=SHARP))
            tell = browser.errors.append
            browser.page.on("console", lambda said: tell(said.text) if said.type in ("error", "warning") else None)
            browser.page.on("pageerror", lambda error: tell(str(error)))
            browser.page.on("request", lambda request: tell(f"asked for {request.url}"))
            yield browser
        finally:
            program.close()


def html(markdown: str) -> str:
    """A page that holds the comment in a frame as GitHub draws it, light or dark as the reader has it."""
    found = modules()
    if found is None:
        raise EvenbenchError(why_not())
    style = (found / "github-markdown-css" / "github-markdown.css").read_text(encoding="utf-8")
    body = cmarkgfm.github_flavored_markdown_to_html(markdown, RAW_HTML)
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>comment</title><style>{style}
html {{ color-scheme: light dark; background: Canvas }}
body {{ margin: 0 }}
main {{ padding: {MARGIN}px; width: {WIDTH + 2 * MARGIN}px }}
article {{ padding: {MARGIN}px; border: 1px solid #8888; border-radius: 6px; font-size: 14px !important }}
</style></head><body><main><article class="markdown-body">{body}</article></main></body></html>"""


def comment_of(paths: Sequence[Path]) -> str:
    """The comment that a publisher would make of results files, which may be packed by gzip; of a .md file its text."""
    if paths[0].suffix == ".md":
        return paths[0].read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        files = [path if path.suffix != ".gz" else _unpacked(path, Path(folder)) for path in paths]
        first, seconds = load_runs(files)
    today = datetime.now(UTC).date()
    return comment(confirmed(compare(first, today), [compare(second, today) for second in seconds]), LINKS)


def page_of(path: Path, folder: Path) -> Path:
    """The page of `evenbench report --format html` of a results file, which may be packed by gzip; an .html file is one."""
    if path.suffix == ".html":
        return path
    results, _ = load_runs([path if path.suffix != ".gz" else _unpacked(path, folder)])
    outcome = measured(results) if results.header.verb == "run" else compare(results, datetime.now(UTC).date())
    (folder / "page.html").write_text(page(results, outcome, library()), encoding="utf-8")
    return folder / "page.html"


def picture_of_page(file: Path, case: str, theme: Theme, height: int, out: Path) -> int:
    """The top of a page, at a case where one is named, as a PNG in `out`. Returns its bytes."""
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=_browser(), args=FLAGS)
        size: ViewportSize = {"width": PAGE_WIDTH, "height": height}
        shown = program.new_page(viewport=size, device_scale_factor=SHARP, color_scheme=theme)
        shown.goto(file.resolve().as_uri() + (address(case) if case else ""))
        expect(shown.locator(WAITING)).to_have_count(0)
        made = shown.screenshot(path=out, animations="disabled")
        program.close()
    return len(made)


def main(words: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/picture", description="What a comment looks like on GitHub, or a page, as a PNG."
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="RESULTS", help="results files, a comment's .md, or a page's .html"
    )
    parser.add_argument("--out", type=Path, default=Path("comment.png"), metavar="PNG", help="left out: comment.png")
    parser.add_argument("--dark", action="store_true", help="as a reader sees it who has GitHub dark")
    parser.add_argument("--unfold", action="store_true", help="folded parts opened")
    parser.add_argument("--page", action="store_true", help="the page with charts, instead of the comment")
    parser.add_argument("--case", default="", metavar="CASE", help="the page opened at this one")
    parser.add_argument("--height", type=int, default=PAGE_HEIGHT, metavar="PIXELS", help="of a page that is shown")
    options = parser.parse_args(words)
    try:
        if why := why_not():
            raise EvenbenchError(why)
        theme: Theme = "dark" if options.dark else "light"
        options.out.parent.mkdir(parents=True, exist_ok=True)
        if options.page or options.case or options.files[0].suffix == ".html":
            with tempfile.TemporaryDirectory() as folder:
                file = page_of(options.files[0], Path(folder))
                size = picture_of_page(file, options.case, theme, options.height, options.out)
        else:
            text = comment_of(options.files)
            with browsing() as browser:
                browser.show(text, theme, unfold=options.unfold)
                size = len(browser.picture(options.out))
    except (EvenbenchError, OSError) as error:
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"error: {said}", file=sys.stderr)
        return 1
    print(f"{options.out}: {size / 1024:,.0f} KiB")
    return 0


def _unpacked(path: Path, folder: Path) -> Path:
    unpacked = folder / path.stem
    unpacked.write_bytes(gzip.decompress(path.read_bytes()))
    return unpacked


def _browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


if __name__ == "__main__":
    sys.exit(main())
