"""Comments, tables and JSON. Golden files: `EVENBENCH_UPDATE_GOLDEN=1 pytest tests/reports/render/test_render.py` writes them anew."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports import units
from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.load.proofs import Proof
from evenbench.reports.render.comment.comment import Links, comment, run_comment, summary
from evenbench.reports.render.comment.markdown import COMMENT_BUDGET, SUMMARY_BUDGET
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.terminal.terminal import run_table, terminal
from evenbench.reports.rows.outcome import Comparison, Report
from evenbench.runner.config import Mute
from evenbench.runner.records import SCHEMA, Input, PlantRecord, SideInfo
from tests import build
from tests.build import Case

GOLDEN = Path(__file__).parents[2] / "golden"
UPDATE = os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1"
TODAY = date(2026, 11, 29)
LINKS = Links(
    run="https://github.com/o/r/actions/runs/1",
    report="https://github.com/o/r/actions/runs/1/artifacts/2",
    samples="https://github.com/o/r/actions/runs/1/artifacts/3",
    rerun="https://github.com/o/r/actions/runs/1/attempts/2",
    dispatch="https://github.com/o/r/actions/workflows/manual.yml",
    docs="https://github.com/o/r/blob/main/docs/timing.md",
)
HOSTILE = "x|y `z` </details> @org #1 GH-1 https://evil.example a@b.com <img src=x> \u202e\x1b[2J\n\n# heading <!-- evenbench pr -->"
FAILED = {"status": "failed", "kind": "setup", "reason": HOSTILE, "implementations": []}

MIXED = (
    Case("norm/rms[cols=8192]", head=20_700.0),
    Case("norm/rms[cols=4096]", base=10_100.0, head=10_100.0),
    Case("norm/softmax", base=54_800.0, head=54_700.0, head_case={"source": "6" * 64}),
    Case("gemm/bf16[k=4096,m=4096,n=4096]", base=174_900.0, head=160_000.0, implementations=("torch", "triton")),
    Case("gemm/fp8", base=None, head=2_500_000.0),
    Case("gemm/int4", base=950.0, head=None),
    Case("attention/fwd", base=83_600.0, head=lambda number: 83_600 * (1 + 0.03 * (number % 3))),
    Case("attention/bwd", head_case=FAILED),
    Case("attention/varlen", both_case={"status": "skipped", "reason": "needs flash_attn", "implementations": []}),
    Case("moe/route", base_case=FAILED),
    Case("moe/pack", head_case={"inputs": [Input(name="x", shape=[1], dtype="float16", sha="1" * 64)]}),
    Case("old/slow", head=30_000.0),
)
# At four fifths of what memory reaches, at twice of it, which cannot be, and without declared work.
CEILED = (
    Case("norm/rms[cols=8192]", base=40_000.0, head=44_000.0),
    Case("norm/softmax", base=41_000.0, head=41_000.0),
    Case("norm/twice", base=17_000.0, head=17_000.0),
    Case("norm/unknown", base=41_000.0, head=41_000.0, both_case={"work": None}),
)
MUTES = (Mute(match="old/*", why="being replaced", until=date(2027, 3, 1)),)


def compared(*cases: Case, proofs: Sequence[Proof] = (), **options: Any) -> Comparison:
    return compare(build.results(cases, **options), TODAY, MUTES, proofs=proofs)


@cache
def mixed() -> Comparison:
    return compared(*MIXED)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


SETUPS: Mapping[str, Mapping[str, Any]] = {
    "mixed": {},
    "unchanged": {},
    "failed-sides": {
        "prepared": {"base": {"status": "failed", "error": "pip: no wheel for torch"}, "head": {"notes": ["preload initialised CUDA"]}},
        "broken": {"head": {"cases/bad.py": HOSTILE}},
    },
    "partial": {"made": 3, "end": False, "shard": build.shard(0, 2)},
    "empty": {},
    "aa": {"sides": [SideInfo(name=name, label="main", sha=build.BASE_SHA) for name in ("base", "head")]},
    "planted": {"plant": PlantRecord(case="norm/rms", fraction=0.05)},
    "shares": {"ceilings": [build.CEILINGS]},
}  # fmt: skip
RUNS: Mapping[str, Sequence[Case]] = {
    "mixed": MIXED,
    "unchanged": (Case("norm/rms"), Case("gemm/bf16"), Case("gemm/fp8", base=900.0, head=900.0)),
    "failed-sides": (Case("norm/rms", base=None),),
    "partial": (Case("norm/rms"), Case("norm/slow", head=30_000.0)),
    "empty": (),
    "aa": (Case("norm/rms"), Case("norm/slow", head=21_000.0)),
    "planted": (Case("norm/rms[cols=8192]", head=21_080.0), Case("gemm/bf16")),
    "shares": CEILED,
}


class TestComment:
    @pytest.mark.parametrize("name", RUNS)
    def test_golden(self, name: str) -> None:
        golden(
            f"comment-{name}.md",
            comment(compared(*RUNS[name], proofs=build.proofs(), **SETUPS[name]), LINKS),
        )

    @pytest.mark.parametrize("name", RUNS)
    def test_github_reads_what_we_mean(self, name: str) -> None:
        found = compared(*RUNS[name], **SETUPS[name])
        page = cmarkgfm.github_flavored_markdown_to_html(comment(found, LINKS), 1 << 17)
        assert page.startswith("<!-- evenbench pr -->\n<h3>⏱ evenbench: ")
        assert page.count("<h3>") == page.count("<h") == 1
        rows = len(re.findall(r"<tr>", page))
        tables = page.count("<table>")
        assert rows - tables == len(found.rows)
        assert page.count("<details>") == page.count("</details>") == page.count("<summary>")
        assert set(re.findall(r'<a href="([^"]*)"', page)) == set(vars(LINKS).values())
        assert "<img" not in page
        assert page.count("<!--") == 1

    def test_failures_are_on_top_and_the_unchanged_are_folded(self) -> None:
        text = comment(mixed())
        table, folded = text.split("<details>")[:2]
        order = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
        assert order[0] == "attention/bwd"
        assert order[1:3] == ["old/slow", "norm/rms[cols=8192]"]
        assert "norm/rms[cols=4096]" not in table
        assert "\n| `norm/rms[cols=4096]` |" in folded
        assert "\n| `norm/softmax` |" in folded

    def test_the_unchanged_are_grouped_by_family(self) -> None:
        """Which is named once, and not at all where there is one; so is what holds for all of them."""
        other = {"source": "6" * 64}
        folded = comment(compared(Case("b/x"), Case("a/y"), Case("b/z", head_case=other))).replace("\u00a0", " ")
        assert "\n| family | case | base | head | change [95 %] | notes |\n|---|---|--:|--:|--:|---|\n" in folded
        rows = re.findall(r"^\| (\S*) \| `(\w/\w)` \|.*\| (.*) \|$", folded, re.MULTILINE)
        assert rows == [("`a`", "a/y", ""), ("`b`", "b/x", ""), ("", "b/z", "case changed")]
        assert "\n\n- all of them: same kernels\n\n</details>" in folded
        one = comment(compared(Case("b/x"), Case("b/y"))).replace("\u00a0", " ")
        assert "\n| case | base | head | change [95 %] |\n|---|--:|--:|--:|\n" in one

    def test_the_command_names_the_families_that_changed(self) -> None:
        assert "`evenbench compare aaaaaaa bbbbbbb 'norm/**'`" in comment(
            compared(Case("norm/rms", head=30_000.0), Case("x/y"))
        )
        assert "`evenbench compare aaaaaaa bbbbbbb --suite pr`" in comment(compared(Case("x/y")))

    @pytest.mark.parametrize("label", ["a b", "$(id)", "-x", "`id`", "a'b", "a;b"])
    def test_no_command_is_made_from_a_name_that_a_shell_would_read(self, label: str) -> None:
        sides = [side.model_copy(update={"sha": "", "label": label}) for side in build.header().sides]
        assert "How to run it here" not in comment(compared(Case("x/y"), sides=sides))

    def test_a_dirty_directory_has_no_command(self) -> None:
        sides = [side.model_copy(update={"dirty": side.name == "head"}) for side in build.header().sides]
        text = comment(compared(Case("x/y"), sides=sides))
        assert "How to run it here" not in text
        assert "`bbbbbbb` (feature, uncommitted changes)" in text

    @pytest.mark.parametrize(
        ("label", "written"),
        [("./base", "`aaaaaaa` →"), (".", "`aaaaaaa` →"), ("./merge-base", "`aaaaaaa` (merge-base) →"), ("main", "`aaaaaaa` (main) →")],
    )  # fmt: skip
    def test_a_folder_that_only_names_its_side_is_not_told(self, label: str, written: str) -> None:
        base, head = build.header().sides
        sides = [base.model_copy(update={"label": label}), head]
        assert f" · base {written} head `bbbbbbb`" in comment(compared(Case("x/y"), sides=sides))

    def test_what_is_short_does_not_break_and_what_is_long_stands_below(self) -> None:
        """GitHub narrows columns to their longest word before it lets a table scroll."""
        why = "a wrong result, 3 of 9 elements differ by more than they may"
        slow = Case("x/slow", head=30_000.0, head_implementation={"tuning": "w" * 30})
        found = compared(
            slow, Case("x/bad", head_case=FAILED | {"reason": why}), Case("y/bad", head_case=FAILED | {"reason": why})
        )
        lines = comment(found).replace("\u00a0", "_").splitlines()
        assert "| case | base | head | change [95_%] | verdict | notes |" in lines
        assert "| `x/bad` | 20.0_µs | – | – | ❌_failed | see_below |" in lines
        row = next(line for line in lines if line.startswith("| `x/slow` |"))
        assert re.fullmatch(
            r"\| `x/slow` \| 20.0_µs \| 30.0_µs \| \+49.\d_% \[49.\d,_50.\d\] \| 🔴_regressed \| same_kernels,_so doubt_it; see_below \|",
            row,
        )
        assert f"- `x/bad`, `y/bad`: head: setup: {why}" in lines
        assert f"- `x/slow`: tuning differs: none on base, {'w' * 30} on head" in lines

    def test_notes_of_folded_rows_stay_with_them(self) -> None:
        text = comment(compared(Case("x", head_implementation={"tuning": "w" * 30})))
        said = f"\n\n- `x`: tuning differs: none on base, {'w' * 30} on head\n\n</details>"
        assert "<summary>1 unchanged</summary>" in text.partition(said)[0]
        assert said in text
        many = comment(compared(*(Case(f"x{n}", head_implementation={"tuning": f"{n:030}"}) for n in range(20))))
        assert many.count(": tuning differs: ") == 11
        assert "\n- 9 more notes, in the results file\n\n</details>" in many

    def test_a_working_tree_needs_no_name(self) -> None:
        base, head = build.header().sides
        sides = [base, head.model_copy(update={"dirty": True, "label": "working tree"})]
        text = comment(compared(Case("x/y", head=30_000.0), Case("z", head=30_000.0), sides=sides))
        assert "`evenbench compare aaaaaaa 'z*' 'x/**'`" in text
        assert "base `aaaaaaa` (main) → head `bbbbbbb` (working tree, uncommitted changes)" in text
        dirty = [side.model_copy(update={"dirty": True}) for side in sides]
        assert "How to run it here" not in comment(compared(Case("x/y"), sides=dirty))

    @pytest.mark.parametrize(
        ("base", "head", "said"),
        [("cold", "cold", " · cold cache · "), ("warm", "warm", " · warm cache · "), ("cold", "warm", " · cold and warm cache · ")],
    )  # fmt: skip
    def test_the_state_of_the_cache_is_said(self, base: str, head: str, said: str) -> None:
        text = comment(compared(Case("x", base_measurement={"cache": base}, head_measurement={"cache": head})))
        assert said in text

    def test_a_table_without_a_judged_row_explains_no_verdict(self) -> None:
        assert "How to read this" not in comment(compared())
        few = comment(compared(Case("x"), made=3, end=False))
        assert "base, head: the median" in few
        assert "change: the paired estimate" in few
        assert "regressed, improved" not in few

    def test_least_effects_of_several_cases(self) -> None:
        judge = build.header().judge.model_copy(update={"min_effects": [("x", 0.05)]})
        text = comment(compared(Case("x"), Case("y"), judge=judge))
        assert "regressed, improved: a change beyond 0.5 % to 5 % (by case);" in text

    def test_marker(self) -> None:
        assert comment(compared(), name="pr on h200").startswith("<!-- evenbench pr on h200 -->\n")
        assert comment(compared(), name="--> @org").count("-->") == 1
        assert "<!--" not in summary(compared())

    def test_nothing_follows_from_a_link_that_is_no_https(self) -> None:
        text = comment(mixed(), Links(run="javascript:alert(1)", report="https://x.y/) [a](b"))
        assert "javascript" not in text
        assert "](" not in text

    def test_foreign_text_everywhere(self) -> None:
        sides = [side.model_copy(update={"label": HOSTILE, "sha": ""}) for side in build.header().sides]
        options: dict[str, Any] = {
            "sides": sides,
            "launches": {"base": {"device": HOSTILE}, "head": {"device": HOSTILE}},
            "prepared": {"base": {"notes": [HOSTILE], "torch": HOSTILE}},
            "broken": {"head": {HOSTILE: HOSTILE}},
            "plant": PlantRecord(case=HOSTILE, fraction=0.05),
            "harness": build.header().harness.model_copy(update={"version": HOSTILE}),
        }
        case = Case(
            "a",
            head=30_000.0,
            head_implementation={"tuning": HOSTILE},
            head_measurement={"rejected": [{"index": 0, "reason": HOSTILE}]},
        )
        text = comment(compared(case, Case("b", head_case=FAILED), **options))
        page = cmarkgfm.github_flavored_markdown_to_html(text, 1 << 17)
        assert page.count("<h") == 1
        assert page.count("<!--") == text.count("<!--") == 1
        assert re.search(r"<a |<img|<input", page) is None
        outside_code = re.sub(r"<code>.*?</code>", "", page)
        assert re.search(r"@\w|#\d|GH-\d|://", outside_code) is None
        assert "\x1b" not in text
        assert "\u202e" not in text


class TestBudget:
    @pytest.fixture(scope="class")
    @classmethod
    def many(cls) -> Comparison:
        cases = [
            Case(f"f{n % 7}/case[n={n}]", head=20_000.0 if n % 8 else 30_000.0, implementations=("main",))
            for n in range(1_600)
        ]
        return compared(*cases, made=6)

    def test_a_comment_fits_and_a_regressed_row_never_goes_before_an_unchanged_one(self, many: Comparison) -> None:
        text = comment(many, LINKS)
        assert len(text) <= COMMENT_BUDGET
        assert text.count("🔴\N{NO-BREAK SPACE}regressed |") == many.counts["regressed"] == 200
        assert "rows not shown ([full report](https://" in text
        assert "How to read this</summary>" in text  # goes after rows that did not change
        assert len(text) > COMMENT_BUDGET - 500

    def test_rows_of_the_table_go_last(self) -> None:
        cases = [Case(f"family/{'x' * 100}[n={n}]", head=30_000.0) for n in range(500)] + [Case("same")]
        text = comment(compared(*cases, made=6), LINKS)
        assert len(text) <= COMMENT_BUDGET
        assert 0 < text.count("🔴\N{NO-BREAK SPACE}regressed |") < 500
        assert "1 row not shown" in text

    def test_a_summary_takes_all_of_it(self, many: Comparison) -> None:
        text = summary(many, LINKS)
        assert text.count("🔴\N{NO-BREAK SPACE}regressed |") == 200
        assert "not shown" not in text
        assert len(text.encode()) <= SUMMARY_BUDGET

    def test_long_foreign_text_is_shortened(self) -> None:
        cases = [
            Case(f"a{n}", head_case={"status": "failed", "reason": "`&<" * 1_300, "implementations": []})
            for n in range(200)
        ]
        sides = [side.model_copy(update={"label": "<" * 1_000}) for side in build.header().sides]
        broken = {"head": {f"{n}.py": "<" * 4_000 for n in range(100)}}
        text = comment(compared(*cases, made=0, sides=sides, broken=broken), LINKS)
        assert len(text) <= COMMENT_BUDGET
        assert "more notes, in the results file" in text
        assert "rows not shown" not in text  # the one reason that all share is told once
        assert "- `a0`, `a1`, `a10` and 197 more: head: &#96;&#38;&#60;" in text

    def test_5_000_rows(self) -> None:
        """Folded rows go first, then what is folded beside them and long notes, then rows from the bottom."""
        few = compared(Case("a", head_case=FAILED), Case("b", head=30_000.0), Case("c", head=15_000.0), Case("d"))
        many = [(100, f"a reason {'<b>|' * 70}"), (300, ""), (600, ""), (4_000, "")]
        rows = [
            replace(row, case=f"{row.case}/case[n={n}]", reason=f"{reason}{n}" if reason else row.reason)
            for row, (count, reason) in zip(few.rows, many, strict=True)
            for n in range(count)
        ]
        found = replace(few, rows=tuple(rows))
        text = comment(found, LINKS)
        assert COMMENT_BUDGET - 500 < len(text) <= COMMENT_BUDGET
        verdicts = re.findall(r"^\| `[^`]+` \|.*\| \S+\s(\w+) \|[^|]*\|$", text, re.MULTILINE)
        assert verdicts[:400] == ["failed"] * 100 + ["regressed"] * 300
        gone = 600 - verdicts.count("improved")
        assert 0 < gone < 600
        report = f"([full report]({LINKS.report}))"
        assert f"\n\n{gone} rows not shown {report}\n" in text
        assert f"\n\n4,000 rows not shown {report}\n" in text
        assert f"\n\n100 notes not shown {report}\n" in text
        assert "<details>" not in text
        page = cmarkgfm.github_flavored_markdown_to_html(text, 1 << 17)
        assert page.count("<table>") == page.count("</table>") == 1
        assert page.count("<tr>") == 1 + len(verdicts)
        whole = summary(found, LINKS)
        assert len(whole.encode()) <= SUMMARY_BUDGET
        assert "not shown" not in whole
        assert whole.count("\n| `") == 5_000


class TestTerminal:
    @pytest.mark.parametrize("name", RUNS)
    def test_golden(self, name: str) -> None:
        golden(f"terminal-{name}.txt", terminal(compared(*RUNS[name], proofs=build.proofs(), **SETUPS[name]), 140))

    @pytest.mark.parametrize("width", range(20, 220, 20))
    def test_width(self, width: int) -> None:
        text = terminal(mixed(), width)
        assert text.startswith("evenbench: 1 failed, 2 regressed")
        lines = text.splitlines()[1:]  # a terminal breaks the headline itself
        for row in mixed().rows:
            assert any(row.name in line for line in lines)
        assert "…" not in text
        (titles,) = (line for line in lines if line.startswith(" case"))
        assert ("rounds" in titles) == (width >= 120)
        assert ("change" in titles) == (width >= 85)  # else the longest id takes a line of its own
        if width >= 46:  # change and verdict without an id
            assert max(map(len, lines)) <= width

    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    def test_the_longest_id_has_its_numbers(self, width: int) -> None:
        name = f"attention/{'x' * 50}[{','.join(f'parameter_{n:02}=4096' for n in range(5))}]"
        _, *lines = terminal(compared(Case(name), Case("f/slow", head=30_000.0)), width).splitlines()
        assert all(len(line) <= width or line == f" {name}" or line.startswith(f"{name}:") for line in lines)
        row = next(number for number, line in enumerate(lines) if line.startswith(f" {name}"))
        if width < 200:
            assert lines[row] == f" {name}"
            assert re.match(r" +20\.\d+ µs +20\.\d+ µs .* unchanged( +8)?$", lines[row + 1])
        else:
            assert re.search(r"\] +[+−]?\d.* unchanged$", lines[row])

    def test_notes_stand_below_a_narrow_table(self) -> None:
        cases = [Case(f"f/{n}") for n in range(4)] + [Case("f/slow", head=30_000.0)]
        text = terminal(compared(*cases), 80)
        assert "f/slow: same kernels, so doubt it\n" in text
        assert text.count("same kernels") == 2
        assert text.count("4 rows: same kernels\n") == 1
        assert "notes" not in text
        wide = terminal(compared(*cases), 120)
        assert "notes" in wide
        assert wide.count("same kernels") == 5

    def test_a_wide_terminal_shows_rates(self) -> None:
        assert "rate of head" in terminal(mixed(), 180)
        assert "rate of head" not in terminal(mixed(), 179)
        assert "rate of head" not in terminal(compared(Case("a", both_case={"work": None})), 180)

    def test_colour_only_where_asked(self) -> None:
        assert "\x1b[" not in terminal(mixed())
        coloured = terminal(mixed(), colour=True)
        assert "\x1b[31mregressed" in coloured
        plain = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()]
        assert plain == terminal(mixed()).splitlines()

    def test_environment_does_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = terminal(mixed())
        for name, value in {"COLUMNS": "33", "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb"}.items():
            monkeypatch.setenv(name, value)
        assert terminal(mixed()) == before

    def test_foreign_text_moves_no_cursor_and_is_no_markup(self) -> None:
        found = compared(Case("a", head_case=FAILED | {"reason": "[bold red]x[/] \x1b[2J \x07 \u202e :tada:"}))
        text = terminal(found, 200)
        assert "[bold red]x[/] \ufffd[2J \ufffd :tada:" in text
        assert "\x1b" not in text

    def test_the_footer_says_how_to_read_it(self) -> None:
        text = terminal(mixed(), 200)
        assert "20 × 7 rows with shuffled labels: 0 flagged" in text
        assert "preparation 12.5 s, measuring 30.2 s" in text
        assert "base, head: the median over launches of each launch's (grouped) median time" in text
        assert "change: the paired estimate" in text
        assert "a row can stay inconclusive although its interval lies clear of ± 0.5 %." in text
        assert "a row can stay inconclusive" not in terminal(compared(Case("a")), 200)

    def test_partial_is_said(self) -> None:
        text = terminal(compared(Case("a"), end=False))
        assert text.startswith("evenbench: partial: 1 unchanged\n")
        assert "! partial: the run did not come to the end\n" in text


class TestRunTable:
    @staticmethod
    def report(**options: Any) -> Report:
        case = Case("norm/rms", base=None, implementations=("torch", "triton"), both_case={"baseline": "torch"})
        return measured(
            build.results(
                [case, Case("x/bad", base=None, head_case=FAILED), Case("y", base=None)], made=1, verb="run", **options
            )
        )

    def test_golden(self) -> None:
        golden("terminal-run.txt", run_table(self.report(), 140))

    def test_golden_beside_ceilings(self) -> None:
        report = measured(build.results(CEILED, made=1, verb="run", ceilings=[build.CEILINGS]))
        golden("terminal-run-shares.txt", run_table(report, 140))
        golden("comment-run-shares.md", run_comment(report))

    @pytest.mark.parametrize("width", range(60, 220, 20))
    def test_width(self, width: int) -> None:
        lines = run_table(self.report(), width).splitlines()
        assert max(map(len, lines)) <= width
        assert all(any(row.case in line for line in lines) for row in self.report().rows)

    def test_comment(self) -> None:
        text = run_comment(self.report())
        golden("comment-run.md", text)
        page = cmarkgfm.github_flavored_markdown_to_html(text, 1 << 17)
        assert len(re.findall("<tr>", page)) == 5
        assert "<img" not in page
        assert "<!--" not in page

    def test_long_comment(self) -> None:
        cases = [Case(f"family/{'x' * 100}[n={n}]", base=None) for n in range(500)]
        text = run_comment(measured(build.results(cases, made=1, verb="run")))
        assert len(text) <= COMMENT_BUDGET
        assert "rows not shown" in text
        assert "implementation" not in text
        assert run_comment(measured(build.results([], verb="run"))).startswith("### ⏱ evenbench: nothing measured\n")

    def test_one_implementation_needs_no_column(self) -> None:
        text = run_table(measured(build.results([Case("a", base=None)], made=1, verb="run")))
        assert "implementation" not in text
        assert "of baseline" not in text

    def test_nothing(self) -> None:
        assert run_table(measured(build.results([], verb="run"))).startswith("evenbench: nothing measured\n")


class TestJson:
    @pytest.mark.parametrize("name", RUNS)
    def test_plain_data_of_finite_numbers(self, name: str) -> None:
        found = as_json(compared(*RUNS[name], **SETUPS[name]))
        assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
        assert_plain(found)

    def test_comparison(self) -> None:
        found = mixed()
        data = json.loads(json.dumps(as_json(found)))
        assert data["schema"] == "evenbench.comparison/1.0"
        assert data["run"]["schema"] == SCHEMA
        assert data["counts"] == dict(found.counts)
        for row, written in zip(found.rows, data["rows"], strict=True):
            assert (written["case"], written["verdict"], written["change"]) == (row.case, row.verdict, row.change)
            assert (
                written["base"] is None
                if row.base is None
                else written["base"]["device_busy_ms"] * 1e6 == pytest.approx(row.base_ns)
            )

    def test_published_names(self) -> None:
        head = as_json(compared(Case("a")))["rows"][0]["head"]
        assert set(head) == {
            "device_busy_ms", "p10_ms", "p90_ms", "latency_ms", "gap_ms", "uncounted_copy_ms", "n_kernels", "tflops", "bandwidth_tbs",
            "share_of_ceiling", "samples", "launches",
        }  # fmt: skip
        assert head["uncounted_copy_ms"] is None
        assert head["gap_ms"] == pytest.approx(0.0005, rel=0.1)

    def test_report(self) -> None:
        data = as_json(TestRunTable.report())
        assert data["schema"] == "evenbench.report/1.0"
        assert [row["status"] for row in data["rows"]] == ["ok", "ok", "failed", "ok"]
        assert_plain(data)


def assert_plain(value: object) -> None:
    """Only what json knows itself: no numpy scalar, no record."""
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        for part in value.values():
            assert_plain(part)
    elif isinstance(value, list | tuple):
        for part in value:
            assert_plain(part)
    else:
        assert value is None or type(value) in (str, int, float, bool)
        assert not isinstance(value, float) or math.isfinite(value)


class TestUnits:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.0, "0 ns"), (0.5, "0.500 ns"), (1.0, "1.00 ns"), (999.4, "999 ns"), (999.6, "1000 ns"), (1_000.0, "1.00 µs"), (20_123.0, "20.1 µs"),
            (174_900.0, "175 µs"), (1_234_567.0, "1.23 ms"), (2e9, "2.00 s"), (3.6e12, "3600 s"), (None, "–"),
        ],
    )  # fmt: skip
    def test_time(self, value: float | None, text: str) -> None:
        assert units.time(value) == text

    @pytest.mark.parametrize(
        ("values", "texts"),
        [
            ((900.0, 1_100.0), ("0.900 µs", "1.10 µs")),
            ((20_010.0, 20_020.0), ("20.01 µs", "20.02 µs")),
            ((20_010.0, 20_010.0), ("20.0 µs", "20.0 µs")),
            ((None, 1.5e6), ("–", "1.50 ms")),
            ((None, None), ("–", "–")),
        ],
    )
    def test_two_times_share_a_unit(self, values: tuple[float | None, ...], texts: tuple[str, ...]) -> None:
        assert units.times(values) == texts

    @given(st.floats(1e-3, 1e15))
    def test_a_time_is_true_to_three_digits(self, value: float) -> None:
        number, unit = units.time(value).split(" ")
        scale = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
        assert float(number) * scale == pytest.approx(value, rel=5.1e-3)
        assert "e" not in number

    @pytest.mark.parametrize(
        ("change", "interval", "text"),
        [
            (0.031, (0.028, 0.034), "+3.1 % [2.8, 3.4]"),
            (-0.012, (-0.015, -0.009), "−1.2 % [−1.5, −0.9]"),
            (0.0001, (-0.002, 0.002), "0.0 % [−0.2, 0.2]"),
            (-0.0003, (-0.0006, 0.0), "−0.03 % [−0.06, 0.00]"),
            (0.5, None, "+50.0 %"),
            (None, None, "–"),
        ],
    )
    def test_change(self, change: float | None, interval: tuple[float, float] | None, text: str) -> None:
        assert units.change(change, interval) == text

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.0, "0.0 s"), (12.34, "12.3 s"), (99.9, "99.9 s"), (100.0, "1 min 40 s"), (3_600.0, "60 min 0 s")],
    )
    def test_seconds(self, value: float, text: str) -> None:
        assert units.seconds(value) == text

    @pytest.mark.parametrize(
        ("tflops", "bandwidth", "text"),
        [
            (312.04, None, "312 TFLOP/s"),
            (None, 4.3, "4.30 TB/s"),
            (0.0123, 1.0, "12.3 GFLOP/s · 1.00 TB/s"),
            (None, None, ""),
        ],
    )
    def test_rate(self, tflops: float | None, bandwidth: float | None, text: str) -> None:
        assert units.rate(tflops, bandwidth) == text

    def test_count(self) -> None:
        assert (units.count(1, "row"), units.count(3_000, "row")) == ("1 row", "3,000 rows")


class TestLongTexts:
    """Ids of 60 characters and errors of 300 leave a table that can be read."""

    ERROR = (
        "RuntimeError: CUDA error: an illegal memory access was encountered. CUDA kernel errors might be asynchronously "
        "reported at some other API call, so the stacktrace below might be incorrect. For debugging consider passing "
        "CUDA_LAUNCH_BLOCKING=1. Compile with TORCH_USE_CUDA_DSA to enable device-side assertions at 0x7f12{}."
    )
    LONG = "attention/flash_decoding_paged[batch=64,heads=32,len=8192,d]"

    def failing(self, number: int) -> Mapping[str, Any]:
        return {"status": "failed", "reason": self.ERROR.format(number), "implementations": []}

    def table(self, width: int) -> str:
        return terminal(
            compared(
                Case(self.LONG, base_case=self.failing(1), head_case=self.failing(2)),
                Case("norm/one", head_case=self.failing(3)),
                Case("norm/two", head_case=self.failing(3)),
            ),
            width,
        )

    @pytest.mark.parametrize("width", [60, 80, 120, 160, 200])
    def test_the_whole_of_an_error_stands_once(self, width: int) -> None:
        text = " ".join(self.table(width).split())
        assert text.count("device-side assertions at 0x7f122") == 1
        assert text.count("device-side assertions at 0x7f123") == 1
        assert f"{self.LONG}: both sides: RuntimeError: CUDA error" in text
        assert "norm/one, norm/two: head: RuntimeError: CUDA error" in text

    @pytest.mark.parametrize("width", [120, 160, 200])
    def test_a_row_takes_few_lines(self, width: int) -> None:
        table = self.table(width).partition("\n\n\n")[0].partition("geometric")[0]
        assert len(table.splitlines()) < 30

    def test_the_first_sentence_stands_beside_the_row(self) -> None:
        assert "an illegal memory access was encountered…" in " ".join(self.table(200).split())
