"""Foreign text in a comment means nothing: GitHub's own engine renders it, a parser looks for what is alive."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import cmarkgfm
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenbench.reports.render.comment import markdown
from evenbench.reports.render.comment.markdown import Block
from evenbench.reports.text import JOINER, sanitise

UNSAFE = 1 << 17  # raw HTML is kept, so that a test sees it where it gets through

HOSTILE = (
    "|", "||", "\\|", "\\\\|", "a|b", "\n", "\r\n", "\n\n# heading", "\n- item", "\n\n    code", "`", "``", "`a", "a``b`", "\\`", "\\",
    "</details>", "<details>", "</td></tr></table>", "<b>", "<img src=x onerror=alert(1)>", "<script>", "<!--", "-->", "<!-- evenbench -->",
    "<!-- evenbench pr -->", "<input type=checkbox>", "<a href=https://x.y>", "<https://x.y>", "<a@b.com>",
    "@org", "@org/team", "x@y", "a@b.com", "mailto:a@b.com", "xmpp:a@b.com/c", "#1", "org/repo#1", "GH-1", "gh-22", "KEY-123", "org/repo@abcdef0",
    "0123456789abcdef0123456789abcdef01234567", "abcdef0", "ABCDEF0", "1234567",
    "https://evil.example", "http://evil.example/a?b=c", "ftp://evil.example", "www.evil.example", "WWW.evil.example", "HTTPS://evil.example",
    "![image](https://x.y/z.png)", "[link](https://x.y)", "[link][ref]", "[ref]: https://x.y", "[^1]", "[^1]: note", "[x]", "- [x] done",
    "**b**", "__b__", "*i*", "_i_", "~~s~~", "~s~", "$x$", "$$x$$", "$`x`$", ":tada:", ":+1:", "&amp;", "&#64;org", "&lt;b&gt;", "&#x3c;b>", "&commat;org",
    "# h", "> quote", "- item", "+ item", "* item", "1. item", "1) item", "---", "***", "===", "```", "~~~", "    code", "| a |\n|---|", ":--", "a\n---",
    "\u202e", "\u2066", "\u200b", "\u2060", "\ufeff", "\x00", "\x07", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u2029", "\t", "\u00ad", "\U000e0041",
    "> [!WARNING]", "{{ 7 * 7 }}", "{% raw %}", "::add-mask::x", "é", "漢字", "🔴", "a\u0301",
)  # fmt: skip

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.lists(st.one_of(st.sampled_from(HOSTILE), st.sampled_from([" ", "a", "1", "-", "."])), max_size=8).map("".join),
    st.text("@#|`<>&[]()!*_~\\:/.-$ \nwh1afGH", max_size=40),
)


class Page(HTMLParser):
    """Collects tags, and the text of each table cell or of the whole page; comments count as tags."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.prose: list[str] = [""]  # the texts outside of code
        self.text = ""
        self.source = source
        self._code = 0
        self._cell = False
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._code += tag == "code"
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"
        self._cell = self._cell and tag not in ("td", "th")

    def handle_comment(self, data: str) -> None:
        self.tags.append("!--")

    def handle_data(self, data: str) -> None:
        self.text += data
        if not self._code:
            self.prose.append(data)
        if self._cell:
            self.rows[-1][-1] += data


def rendered(source: str) -> Page:
    return Page(cmarkgfm.github_flavored_markdown_to_html(source, UNSAFE))


# What GitHub's later passes look for in text that is not code.
GITHUB = re.compile(
    r"@[a-z0-9]|#\d|\bGH-\d|\b[a-z]+-\d|\b[0-9a-f]{7,}\b|://|\bwww\.|:[a-z0-9_+-]+:|[a-z0-9._+-]+@[a-z0-9]",
    re.IGNORECASE,
)


def assert_dead(page: Page, allowed: set[str]) -> None:
    assert set(page.tags) <= allowed
    for text in page.prose:
        assert GITHUB.search(text) is None, text


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
@example([(text, text) for text in HOSTILE])
def test_a_table_holds_exactly_our_cells(pairs: list[tuple[str, str]]) -> None:
    lines = [markdown.table(["one", "two", "three"], ["---", "--:", "---"])]
    lines += [markdown.row([markdown.cell(one), markdown.code(two), "x"]) for one, two in pairs]
    page = rendered("\n".join(lines) + "\n\nafter\n")
    expected = [["one", "two", "three"]]
    expected += [[sanitise(one, 300), sanitise(two, 300).replace("|", "¦"), "x"] for one, two in pairs]
    assert [[cell.replace(JOINER, "") for cell in row] for row in page.rows] == expected
    assert_dead(page, {"table", "thead", "tbody", "tr", "th", "td", "code", "p"})


@given(texts)
@pytest.mark.parametrize("before", ["", "word ", "- "])
def test_prose_stays_prose(before: str, text: str) -> None:
    page = rendered(f"{before}{markdown.plain(text)}\n\nafter\n")
    assert page.text.replace(JOINER, "").split() == [
        *before.replace("- ", "").split(),
        *sanitise(text, 300).split(),
        "after",
    ]
    assert_dead(page, {"p", "ul", "li"})


@given(texts, texts)
def test_details_cannot_be_ended_from_within(summary: str, text: str) -> None:
    page = rendered(markdown.plain(text).join(markdown.folded(summary)) + "\n\nafter\n")
    assert page.tags.count("details") == page.tags.count("summary") == 1
    assert_dead(page, {"details", "summary", "p"})
    assert page.text.replace(JOINER, "").split() == [
        *sanitise(summary, 300).split(),
        *sanitise(text, 300).split(),
        "after",
    ]


@given(texts)
def test_our_marker_is_never_in_foreign_text(text: str) -> None:
    for written in (markdown.plain(text), markdown.cell(text), markdown.code(text), "".join(markdown.folded(text))):
        assert "<!--" not in written


@given(texts)
def test_prose_starts_no_formula(text: str) -> None:
    assert "$" not in markdown.plain(text)


@given(texts, texts)
def test_a_marker_is_one_hidden_line(name: str, text: str) -> None:
    page = rendered(f"{markdown.marker(name)}\n\n{markdown.plain(text)}\n")
    assert page.tags[:1] == ["!--"]
    assert markdown.marker(name).count("<!--") == markdown.marker(name).count("-->") == 1
    assert "\n" not in markdown.marker(name)


@given(st.text(max_size=80))
def test_sanitised_text_is_one_visible_line(text: str) -> None:
    clean = sanitise(text)
    assert clean.replace("\ufffd", "").replace(" ", "x").isprintable() or any(char.isspace() for char in clean)
    assert clean == " ".join(clean.split())
    assert sanitise(clean) == clean
    assert JOINER not in clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\nb", "a b"),
        ("  a \t\r\n b  ", "a b"),
        ("a\x1b[31mb", "a\ufffd[31mb"),
        ("a\u202eb", "ab"),
        ("a\u200bb", "ab"),
        ("a\ud800b", "a\ufffdb"),
        ("a\u2028b", "a b"),
        ("漢字 é 🔴", "漢字 é 🔴"),
    ],
)
def test_sanitise(text: str, clean: str) -> None:
    assert sanitise(text) == clean


@pytest.mark.parametrize(("limit", "short"), [(5, "abcd…"), (6, "abcdef"), (1, "…")])
def test_shortened(limit: int, short: str) -> None:
    assert sanitise("abcdef", limit) == short


def test_case_ids_read_well_in_code() -> None:
    assert markdown.code("norm/rms[cols=8192]") == "`norm/rms[cols=8192]`"
    assert markdown.code("") == ""


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://github.com/o/r/actions/runs/1?a=b#c", "[run](https://github.com/o/r/actions/runs/1?a=b#c)"),
        ("http://github.com", "run"),
        ("javascript:alert(1)", "run"),
        ("https://x.y/a)b", "run"),
        ("https://x.y/a b", "run"),
        ("https://x.y/<b>", "run"),
        ("", "run"),
    ],
)
def test_links_are_plain_https_or_none(url: str, written: str) -> None:
    assert markdown.link("run", url) == written


class TestFit:
    def blocks(self, *sizes: tuple[int, int]) -> list[Block]:
        return [
            Block(f"b{n}\n", tuple(f"row {n}.{i}" for i in range(rows)), "\nend", goes)
            for n, (rows, goes) in enumerate(sizes)
        ]

    def test_all_that_fits(self) -> None:
        assert markdown.fit(self.blocks((2, 1), (1, 2)), 1_000) == ["b0\nrow 0.0\nrow 0.1\nend", "b1\nrow 1.0\nend"]

    def test_rows_go_from_the_bottom(self) -> None:
        (text,) = markdown.fit(self.blocks((100, 1)), 200, "see there")
        kept = text.count("row 0.")
        assert 0 < kept < 100
        assert f"row 0.{kept - 1}\nend\n\n{100 - kept} rows not shown (see there)" in text

    def test_one_row(self) -> None:
        blocks = self.blocks((1, 1))
        assert markdown.fit(blocks, 15) == ["1 row not shown"]

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=4), st.integers(0, 1_500))
    def test_the_budget_holds_and_the_order_too(self, sizes: list[tuple[int, int]], budget: int) -> None:
        blocks = self.blocks(*sizes)
        found = markdown.fit(blocks, budget, "there")
        kept = [
            sum(1 for row in block.rows if f"{row}\n" in f"{text}\n") for block, text in zip(blocks, found, strict=True)
        ]
        least = sum(len("40 rows not shown (there)") + 2 for _ in blocks)
        if budget >= least:
            assert sum(len(text) + 2 for text in found) <= max(budget, least)
        for block, count in zip(blocks, kept, strict=True):
            if count < len(block.rows):  # then all that goes before it has gone
                assert all(
                    other_kept == 0 for other, other_kept in zip(blocks, kept, strict=True) if other.goes > block.goes
                )

    def test_no_more_goes_than_must(self) -> None:
        blocks = self.blocks((200, 1), (200, 2))
        full = sum(len(text) + 2 for text in markdown.fit(blocks, 10**6))
        for budget in range(300, full, 37):
            found = markdown.fit(blocks, budget)
            size = sum(len(text) + 2 for text in found)
            assert size <= budget
            assert budget - size < 3 * len("200 rows not shown") + len("row 0.100")
