"""What `report --explain` says of fabricated comparisons. Golden files: `EVENBENCH_UPDATE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.cli.main import main
from evenbench.reports.compare.compare import compare
from evenbench.reports.load.results import Results
from evenbench.reports.render.explain.kernel_sides import NAMES_MAX
from evenbench.reports.render.explain.reasons import Family, because, family_of, judged_of, otherwise
from evenbench.reports.render.explain.row import ROWS_MAX, chosen_rows, why
from evenbench.reports.render.explain.text_plot import DOTS, Mark, plot
from evenbench.reports.rows.outcome import ComparedRow, Comparison, Verdict
from evenbench.runner.config import Mute
from evenbench.runner.errors import UsageError
from evenbench.runner.records import (
    Event,
    Failure,
    Input,
    KernelRecord,
    LaunchEnd,
    LaunchEvent,
    Measurement,
    PlantRecord,
    SideInfo,
)
from tests import build
from tests.build import Case

GOLDEN = Path(__file__).parents[3] / "golden"
UPDATE = os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1"
TODAY = date(2026, 11, 29)
HOSTILE = "\x1b[2Jboom\u202e [bold]x[/]\n\nevenbench: all fine"
KERNEL = KernelRecord(
    name="rms_kernel<4>", grid=(132, 1, 1), block=(256, 1, 1), registers=32, count=20, median_ns=19_900
)
ADD = KERNEL.model_copy(update={"name": "add", "median_ns": 1_100})
TWO = {"kernels": [KERNEL, ADD], "n_kernels": [2] * 20}
WIDER = {"kernels": [KERNEL.model_copy(update={"registers": 40, "median_ns": 20_800}), ADD], "n_kernels": [2] * 20}
BAD = {"status": "failed", "kind": "setup", "reason": HOSTILE, "implementations": []}
SKIPPED = {"status": "skipped", "reason": "needs flash_attn", "implementations": []}
TELEMETRY: Any = {
    "base": {"samples": 12.0, "sm_clock_mhz": 1980.0, "throttle_reasons": ""},
    "head": {"samples": 12.0, "sm_clock_mhz": 1755.0, "throttle_reasons": "power cap"},
}


def by_round(number: int) -> float:
    """A head with two modes, 5 % apart."""
    return 21_000 if number % 4 == 1 else 20_000


JUDGED = (
    Case("norm/rms[cols=8192]", head=20_600.0, base_measurement=TWO, head_measurement=WIDER,
         both_case={"title": "RMS norm over the last axis."}, dies={"base": {3: "illegal memory access"}}),
    Case("norm/softmax", base=54_800.0, head=54_700.0, head_case={"source": "6" * 64, "line": 14}),
    Case("attention/fwd", head=lambda n: 20_000 * (1 + 0.02 * (n % 3))),
    Case("moe/route", head=by_round),
    Case("gemm/bf16", base=174_900.0, head=160_000.0, implementations=("torch", "triton")),
)  # fmt: skip
SETTLED = (
    Case("a/failed", head_case=BAD),
    Case("a/wrong", head_case={"status": "wrong", "kind": "wrong", "reason": "3 of 9 elements differ", "implementations": []}),
    Case("a/died", dies={"head": dict.fromkeys(range(1, 5), "illegal memory access"), "base": {0: "illegal memory access"}}),
    Case("a/fixed", base_case=BAD),
    Case("a/new", base=None),
    Case("a/removed", head=None),
    Case("a/skipped", both_case=SKIPPED),
    Case("a/other", head_case={"inputs": [Input(name="x", shape=[8], dtype="float16", sha="2" * 64)], "work": None}),
)  # fmt: skip


def compared(*cases: Case, **options: Any) -> tuple[Results, Comparison]:
    results = build.results(cases, **options)
    return results, compare(results, TODAY)


def explained(*cases: Case, pattern: str = "**", width: int = 110, **options: Any) -> str:
    results, comparison = compared(*cases, **options)
    return why(results, comparison, chosen_rows(results, comparison, pattern), width)


def line(text: str, label: str) -> str:
    """What stands behind a label, its lines joined."""
    (found,) = re.findall(rf"^  {label} +((?:.*\n)(?: {{13}}.*\n)*)", text, re.MULTILINE)
    return " ".join(str(found).split())


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


class TestGolden:
    def test_judged(self) -> None:
        golden("why-judged.txt", explained(*JUDGED, telemetry=TELEMETRY))

    def test_settled(self) -> None:
        events = build.events(SETTLED)
        for number, event in enumerate(events):
            if isinstance(event, Failure):
                events[number] = event.model_copy(update={"stderr": f"Traceback\n\n  {HOSTILE}\nRuntimeError: died"})
        results = build.of(events)
        comparison = compare(results, TODAY, [Mute("a/new", "being replaced", date(2027, 3, 1))])
        golden("why-settled.txt", why(results, comparison, comparison.rows, 110))

    def test_narrow(self) -> None:
        text = explained(*JUDGED[:1], width=60, made=24)
        golden("why-narrow.txt", text)
        assert max(map(len, text.splitlines())) <= 60

    @pytest.mark.parametrize("width", [36, 40, 50, 53])
    def test_no_line_of_the_plot_is_broken(self, width: int) -> None:
        text = explained(Case("a", head=by_round), width=width, made=12)
        drawn = text[text.index("\n  launches") : text.index("\n  rounds")].splitlines()[2:]
        assert len(drawn) > 10
        assert all(re.match(r" {13} *(\S+ µs │|└|round  |order  )", each) for each in drawn), text


class TestReasons:
    @pytest.mark.parametrize(
        ("case", "said"),
        [
            (Case("a", head=20_600.0), r"head was shown to be slower by more than 0\.5 % \(p \S+, at most 0\.005 asked: step 1 of 2 of Holm's\)"),
            (Case("a", head=19_400.0), r"head was shown to be faster by more than 0\.5 % \(p \S+, at most 0\.005 asked: step 1 of 2 of Holm's\)"),
            (Case("a"), r"the change was shown to lie within ± 2 % \(p \S+, at most 0\.05 asked\), and not that head is \w+ by more .*"),
            (Case("a", head=lambda n: 20_000 * (1 + 0.05 * (n % 3))),
                r"neither was shown: not that head is slower by more than 0\.5 % .*, nor that the change lies within ± 2 % \(p 1, .*\)\. These rounds could have shown a change of \d+\.\d %, whatever the other rows say"),
            (Case("a", head_case=SKIPPED), r"it was left out on purpose\. Head: needs flash_attn"),
            (Case("a", base=None), r"the case is on head only\. Nothing hides it on base: .*"),
            (Case("a", head=None), r"the case is on base only\. Nothing hides it on head: .*"),
            (Case("a", base_case=BAD), r"base gave an error and head gives none, so there is no time to compare with\. Base: setup: .*"),
            (Case("a", head_measurement={"timing": "host"}), r"the sides did not measure the same thing.* Timer differs: cupti on base, host on head"),
        ],
    )  # fmt: skip
    def test_each_verdict_has_its_own(self, case: Case, said: str) -> None:
        _, comparison = compared(case)
        assert re.fullmatch(said, because(comparison.rows[0], comparison, family_of(comparison)), re.DOTALL)

    def test_too_few_rounds(self) -> None:
        _, comparison = compared(Case("a", head=30_000.0), made=5)
        assert (
            because(comparison.rows[0], comparison, family_of(comparison))
            == "there is too little to judge. Too few rounds: 5 whole, at least 6 needed"
        )
        assert otherwise(comparison.rows[0], comparison, family_of(comparison)) == ""

    def test_an_implementation_that_one_side_lacks(self) -> None:
        two = Case(
            "a",
            implementations=("torch", "triton"),
            base_case={"implementations": [build._implementation("torch", {})]},
        )
        _, comparison = compared(two)
        (new,) = (row for row in comparison.rows if row.verdict == "new")
        assert because(new, comparison, family_of(comparison)).startswith("the implementation triton is on head only. ")

    def test_a_small_change_that_counts_as_unchanged(self) -> None:
        _, comparison = compared(Case("a", head=20_100.0))
        assert comparison.rows[0].verdict == "unchanged"
        assert because(comparison.rows[0], comparison, family_of(comparison)).endswith(
            ". 0 lies outside the interval: there may be a change, too small to count"
        )

    def test_what_another_estimate_would_have_given(self) -> None:
        _, comparison = compared(
            Case("quiet"),
            Case("noisy", head=lambda n: 20_000 * (1 + 0.05 * (n % 3))),
            Case("between", head=lambda n: 20_000 * (1 + 0.011 * (n % 2))),
        )
        said = {row.case: otherwise(row, comparison, family_of(comparison)) for row in comparison.rows}
        number = r"[+−]\d+\.\d\d %"
        limits = (
            rf"after 8 rounds of this noise an estimate above {number} is called regressed, one below {number} improved"
        )
        more = r"If estimate and noise stay as they are, about (\d+) rounds would say (regressed|unchanged) \(--rounds \1\)"
        assert re.fullmatch(rf"{limits}, any between unchanged", said["quiet"])
        assert re.fullmatch(rf"{limits}, and none unchanged\. {more}", said["noisy"])
        assert re.fullmatch(
            rf"{limits}, one within ± \d\.\d\d % unchanged, any other inconclusive(\. {more.replace('1', '2')})?",
            said["between"],
        )

    @given(
        st.lists(
            st.tuples(st.sampled_from([0.97, 0.985, 0.99, 1.0, 1.008, 1.01, 1.015, 1.03]), st.sampled_from([0.0, 0.004, 0.02])),
            min_size=1, max_size=8,
        )
    )  # fmt: skip
    def test_the_limits_are_those_by_which_rows_were_judged(self, drawn: Sequence[tuple[float, float]]) -> None:
        cases = [
            Case(f"c{at}", head=lambda n, by=factor, noise=noise: 20_000 * by * (1 + noise * (n % 3 - 1)))  # type: ignore[misc]
            for at, (factor, noise) in enumerate(drawn)
        ]
        _, comparison = compared(*cases)
        for row in comparison.rows:
            judged = judged_of(row, comparison, family_of(comparison))
            called = abs(judged.estimate) >= judged.called_from() * (1 - 1e-9)
            assert called is (row.verdict in ("regressed", "improved"))
            same = abs(judged.estimate) <= judged.unchanged_up_to() * (1 + 1e-9)
            assert same is (row.p_equivalent is not None and row.p_equivalent <= 0.05)

    def test_more_rounds_of_the_same_noise_settle_a_row(self) -> None:
        """What is said of more rounds, tried: each round of the run twice, three times, …"""

        def noisy(number: int) -> float:
            return 20_000 * (1 + 0.016 * (number % 8 - 3.5) / 3.5 + 0.012)

        _, comparison = compared(Case("a", head=noisy), looks=[8, 80])
        (row,) = comparison.rows
        assert row.verdict == "inconclusive"
        settled = judged_of(row, comparison, family_of(comparison)).settled_after()
        assert settled is not None
        rounds, verdict = settled
        made = -(-rounds // 8) * 8 + 8
        _, longer = compared(Case("a", head=noisy), made=made, looks=[8, 80])
        assert longer.rows[0].verdict == verdict
        _, shorter = compared(Case("a", head=noisy), made=max(8, rounds // 16 * 8), looks=[8, 80])
        assert shorter.rows[0].verdict == "inconclusive"

    def test_noise_that_no_rounds_settle(self) -> None:
        _, comparison = compared(Case("a", head=lambda n: 20_000 * (4 if n % 2 else 0.3)))
        assert otherwise(comparison.rows[0], comparison, family_of(comparison)).endswith(
            "If it stays as it is, 1,000 rounds would not be enough: a quieter machine might"
        )


class TestFamily:
    @given(
        st.lists(
            st.sampled_from([0.0, 1e-9, 0.001, 0.0011, 0.002, 0.0025, 0.005, 0.01, 0.5, 1.0]), min_size=1, max_size=12
        )
    )
    def test_the_step_of_each_p(self, drawn: list[float]) -> None:
        ps = sorted(drawn)
        family = Family(tuple(ps), 0.01)
        alive = True
        for at, p in enumerate(ps):
            alive = alive and p <= 0.01 / (len(ps) - at)
            assert (p <= family.bound(p)) is alive
            assert family.last_bound(p) >= family.bound(p)
            if not alive:
                assert family.step(p) == family.rejected
        assert family.rejected == sum(p <= family.bound(p) for p in ps)

    def test_it_holds_the_judged_rows_in_both_directions(self) -> None:
        _, comparison = compared(*JUDGED, *SETTLED)
        family = family_of(comparison)
        assert len(family.ps) == 12
        assert list(family.ps) == sorted(family.ps)
        assert family.rejected == sum(row.verdict in ("regressed", "improved") for row in comparison.rows) == 3
        assert [family.bound(family.ps[at]) for at in range(4)] == [0.01 / 12, 0.01 / 11, 0.01 / 10, 0.01 / 9]


class TestLines:
    def test_the_tests_name_what_was_asked(self) -> None:
        text = explained(Case("a", head=20_600.0), width=200)
        slower, faster, same = re.findall(r"^ +(?:tests)? *(?:slower|faster|within) .*$", text, re.MULTILINE)
        assert re.search(r"slower by more than 0.5 % +\S+ +0.005  yes +1 % / 2: Holm's step 1 of 2$", slower)
        assert re.search(r"faster by more than 0.5 % +1 +0.01  no +1 % / 1: Holm's step 2 of 2$", faster)
        assert re.search(r"within ± 2 % of base +1 +0.05  no +this row alone$", same)
        assert (
            "3 looks at the data were planned, after 8, 16, 24 rounds, so each p counts 3 times; 8 rounds count" in text
        )
        assert "one look at the data was planned, after 8 rounds; 8 count" in explained(Case("a"), looks=[8])

    def test_rounds_that_were_dropped_say_why(self) -> None:
        zero = {"device_busy_ns": [0] * 20, "latency_ns": [0] * 20, "tick_ns": None}
        text = explained(Case("a", dies={"head": {3: "illegal memory access"}}))
        assert line(text, "rounds") == "7 of 8 rounds whole; round 4 dropped: head: illegal memory access"
        assert len(line(text, "change").split("–")) == 2
        assert "head was slower in " in line(text, "change")
        assert line(text, "launches").count("×") == 2  # in the legend, and in its place
        both = explained(Case("a", dies={"head": {3: "x"}, "base": {3: "y", 5: "y"}}))
        assert "; round 4 dropped: base: y, head: x; round 6 dropped: base: y" in line(both, "rounds")
        all_zero = line(explained(Case("a", head_measurement=zero)), "rounds")
        assert all_zero == "0 of 8 rounds whole; rounds 1, 2, 3, 4, 5, 6, 7, 8 dropped: a time is not above 0"
        ten = line(explained(Case("a", dies={"head": dict.fromkeys(range(3, 13), "x")}), made=16), "rounds")
        assert ten == "6 of 16 rounds whole; rounds 4, 5, 6, 7, 8, 9, 10, 11, … dropped: head: x"
        many = line(explained(Case("a", dies={"head": {n: f"error {n}" for n in range(7)}})), "rounds")
        assert many.endswith("; round 5 dropped: head: error 4; and 2 more reasons")

    def test_rounds_that_were_left_to_rows_still_open(self) -> None:
        events = build.events([Case("a"), Case("b")], made=16)
        index = {"base": 0, "head": 2}
        kept: list[Event] = []
        for event in events:
            if isinstance(event, LaunchEvent) and event.round is not None and event.round >= 8:
                order = [at for at in event.order if at != index[event.side]]
                kept.append(event.model_copy(update={"order": order}))
            else:
                kept.append(event)
        late = {e.launch for e in kept if isinstance(e, LaunchEvent) and e.round is not None and e.round >= 8}
        results = build.of([e for e in kept if not (isinstance(e, Measurement) and e.case == "a" and e.launch in late)])
        comparison = compare(results, TODAY)
        text = why(results, comparison, chosen_rows(results, comparison, "a"))
        assert line(text, "rounds") == "8 of 8 rounds whole; the run's later rounds left it out"
        (order,) = re.findall(r"^ +order  (.*)$", text, re.MULTILINE)
        assert order == "bh hb hb bh bh hb hb bh"
        assert "×" not in text.partition("rounds")[0]

    def test_a_side_that_declares_nothing(self) -> None:
        text = explained(Case("a", head_case={"work": None, "inputs": []}))
        assert line(text, "work").endswith("B written head: none declared")
        assert line(text, "inputs") == "base: x bfloat16 4096×8192 (11111111) head: none declared"

    def test_a_round_that_was_cut_off(self) -> None:
        events = build.events([Case("a")], made=7, end=False)
        last = max(each.launch for each in events if isinstance(each, LaunchEvent))
        results = build.of([each for each in events if getattr(each, "launch", None) != last])
        comparison = compare(results, TODAY)
        text = why(results, comparison, comparison.rows, 110)
        assert re.search(r"round 7 dropped: \w+: gave no number: the run was interrupted", line(text, "rounds"))

    def test_launches_stand_in_the_order_in_which_they_ran(self) -> None:
        results, comparison = compared(Case("a"), Case("b"))
        text = why(results, comparison, chosen_rows(results, comparison, "a"), 110)
        (order,) = re.findall(r"^ +order  (.*)$", text, re.MULTILINE)
        ran = [each.event for each in results.launches if each.event.round is not None]
        assert order.replace(" ", "") == "".join(event.side[0] for event in ran) == "bhhbhbbh" * 2

    def test_what_a_side_ran_alone(self) -> None:
        text = explained(JUDGED[0], width=200)
        assert "kernels differ: registers 32 → 40 of rms_kernel<4>" in line(text, "kernels")
        assert "base only: 1 × 19.9 µs · grid 132×1×1 · block 256×1×1 · 32 registers · 0 B shared" in line(
            text, "kernels"
        )
        assert "head only: 1 × 20.8 µs · grid 132×1×1 · block 256×1×1 · 40 registers · 0 B shared" in line(
            text, "kernels"
        )
        assert "base 1 × 1.10 µs, head 1 × 1.10 µs (0.0 %)" in line(text, "kernels")

    def test_a_kernel_that_only_some_launches_ran(self) -> None:
        events = build.events([Case("a", both_case={"work": None})])
        for number, each in enumerate(events):
            if isinstance(each, Measurement) and each.launch in (0, 3):
                events[number] = each.model_copy(update={"kernels": [KERNEL]})
        results = build.of(events)
        comparison = compare(results, TODAY)
        text = line(why(results, comparison, comparison.rows, 200), "kernels")
        assert "base only in 2 of 8 launches: 0.25 × 19.9 µs" in text
        assert "base in 6 of 8 launches 0.75 × –, head 1 × –" in text
        many = {"kernels": [KERNEL.model_copy(update={"name": f"k{n:02}"}) for n in range(NAMES_MAX + 3)]}
        assert "and 3 more kernels" in explained(Case("a", base_measurement=many, head_measurement=many))

    def test_clocks_of_both_sides(self) -> None:
        text = explained(Case("a"), telemetry=TELEMETRY)
        assert line(text, "clocks") == (
            "base: SM 1980 MHz, held back by nothing, 96 readings "
            "head: SM 1755 MHz, held back by power cap in 8 of 8 launches, 96 readings"
        )
        (held,) = re.findall(r"^ +held back  (.*)$", text, re.MULTILINE)
        (order,) = re.findall(r"^ +order  (.*)$", text, re.MULTILINE)
        assert [at for at, mark in enumerate(held) if mark == "!"] == [
            at for at, mark in enumerate(order) if mark == "h"
        ]
        host: Any = {"device": "cpu", "timer": "host"}
        assert "held back" not in explained(Case("a", both_case=host), telemetry=TELEMETRY)

    def test_what_is_the_same_on_both_sides_stands_once(self) -> None:
        text = explained(Case("a"))
        assert line(text, "inputs") == "x bfloat16 4096×8192 (11111111)"
        assert line(text, "work") == "bfloat16: 134,217,728 operations, 67,108,864 B read, 67,108,864 B written"
        other = explained(SETTLED[-1])
        assert line(other, "inputs") == "base: x bfloat16 4096×8192 (11111111) head: x float16 8 (22222222)"

    def test_modes(self) -> None:
        assert (
            line(explained(Case("a", head=by_round)), "modes")
            == "2 modes, 8:0 against 6:2 (fast to slow launches, base against head)"
        )
        text = explained(Case("a"))
        assert line(text, "modes") == "one on each side"
        assert "notes" not in text

    def test_what_a_launch_printed_before_it_died(self) -> None:
        events = build.events([Case("a", dies={"head": dict.fromkeys(range(8), "died")})])
        printed = "\n".join(f"line {n}" for n in range(30)) + f"\n{HOSTILE}"
        for number, event in enumerate(events):
            if isinstance(event, Failure):
                events[number] = event.model_copy(update={"stderr": printed})
        results = build.of(events)
        comparison = compare(results, TODAY)
        text = why(results, comparison, comparison.rows, 110)
        assert line(text, "printed").startswith("on head, at last: line 24 line 25")
        assert "line 23" not in text
        assert "\x1b" not in text

    def test_of_a_stack_that_a_launch_printed_the_innermost_calls(self) -> None:
        stack = [f"  File f.py, line {n} in call_{n}" for n in range(30)]
        printed = "\n".join(
            ["Thread 1 (most recent call first):", *stack, "Current thread 2 (most recent call first):", *stack]
        )
        events = [
            event.model_copy(update={"stderr": printed}) if isinstance(event, Failure) else event
            for event in build.events([Case("a", dies={"head": dict.fromkeys(range(8), "died")})])
        ]
        results = build.of(events)
        comparison = compare(results, TODAY)
        text = line(why(results, comparison, comparison.rows, 110), "printed")
        assert text.startswith(
            "on head, at last: Current thread 2 (most recent call first): File f.py, line 0 in call_0"
        )
        assert "call_6" in text
        assert "call_7" not in text

    def test_an_unreliable_run_says_so_first(self) -> None:
        results, comparison = compared(Case("a", head=20_600.0))
        assert comparison.shuffled is not None
        often = replace(comparison, shuffled=replace(comparison.shuffled, often=("a",)))
        assert why(results, often, often.rows, 110).startswith("! unreliable: with shuffled labels")

    def test_foreign_text_moves_no_cursor(self) -> None:
        text = explained(*SETTLED)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not re.search(r"^evenbench: all fine", text, re.MULTILINE)
        assert "[bold]x[/]" in text
        results, comparison = compared(*JUDGED)
        assert "\x1b[31mregressed" in why(results, comparison, comparison.rows, colour=True)

    @given(
        st.lists(st.integers(1, 10**15), min_size=2, max_size=12),
        st.sampled_from([None, 1, 32, 10**9]),
        st.sampled_from([1, 5, 8, 24]),
    )
    def test_absurd_times_are_written_short(self, drawn: list[int], tick: int | None, made: int) -> None:
        events = build.events([Case("a")], made=made)
        number = 0
        for at, each in enumerate(events):
            if isinstance(each, Measurement):
                samples = [drawn[number % len(drawn)]]
                number += 1
                change = {"device_busy_ns": samples, "latency_ns": samples, "n_kernels": None, "tick_ns": tick}
                events[at] = each.model_copy(update=change)
        results = build.of(events)
        comparison = compare(results, TODAY)
        text = why(results, comparison, comparison.rows, 100)
        assert max(map(len, text.splitlines())) <= 100
        assert len(line(text, "because")) < 600
        assert not re.search(r"\bnan\b|\binf\b", text)


MARKS = st.lists(
    st.tuples(st.booleans(), st.one_of(st.none(), st.floats(1, 1e12)), st.one_of(st.none(), st.floats(1, 1e12)), st.booleans()),
    min_size=1, max_size=30,
)  # fmt: skip


class TestPlot:
    @staticmethod
    def marks(rounds: Sequence[tuple[bool, float | None, float | None, bool]]) -> list[Mark]:
        found = []
        for number, (base_first, base, head, held) in enumerate(rounds):
            pair = [Mark(number, "base", base, held), Mark(number, "head", head)]
            found += pair if base_first else pair[::-1]
        return found

    @given(MARKS, st.integers(40, 130))
    def test_every_launch_is_drawn_once_in_its_place(self, rounds: Any, width: int) -> None:
        marks = self.marks(rounds)
        lines = plot(marks, width)
        known = [mark for mark in marks if mark.ns is not None]
        if not known:
            assert lines == []
            return
        body = [line for line in lines if "│" in line]
        shown = "".join(line.partition("│")[2] for line in body)
        orders = "".join(line.partition("order  ")[2] for line in lines if line.lstrip().startswith("order"))
        if not any("not drawn" in line for line in lines):
            assert (shown.count(DOTS["base"]), shown.count(DOTS["head"])) == tuple(
                sum(mark.side == side for mark in known) for side in ("base", "head")
            )
            assert orders.replace(" ", "") == "".join(mark.side[0] if mark.ns is not None else "×" for mark in marks)
        assert all(len(line) <= width for line in lines[1:] if not line.startswith("beyond"))
        for band in "\n".join(lines).split("└")[:-1]:
            columns = zip(*(line.ljust(width) for line in band.splitlines() if "│" in line), strict=True)
            assert all(len(re.findall("[○●]", "".join(column))) <= 1 for column in columns)

    def test_higher_is_slower(self) -> None:
        lines = plot(
            [
                Mark(0, "base", 20_000.0),
                Mark(0, "head", 20_700.0),
                Mark(1, "head", 20_350.0),
                Mark(1, "base", 20_000.0),
            ],
            80,
        )
        assert lines == [
            "○ base   ● head",
            "  20.7 µs │ ●",
            "  20.6 µs │",
            "  20.5 µs │",
            "  20.4 µs │",
            "  20.3 µs │   ●",
            "  20.2 µs │",
            "  20.1 µs │",
            "  20.0 µs │○   ○",
            "          └──────",
            "    round  1  2",
            "    order  bh hb",
        ]  # fmt: skip

    def test_equal_times_take_one_line(self) -> None:
        assert plot([Mark(0, "base", 960.0), Mark(0, "head", 960.0)], 80)[1:3] == [
            "   960 ns │○●",
            "          └───",
        ]

    def test_a_far_launch_does_not_squeeze_the_others(self) -> None:
        rounds = [(True, 20_000.0 + 10 * n, 20_005.0 + 10 * n, False) for n in range(12)]
        rounds[4] = (True, 250_000.0, 20_045.0, False)
        lines = plot(self.marks(rounds), 100)
        assert lines[1].split("│")[0].strip() == "above"
        assert lines[2].split("│")[0].strip() == "20.11 µs"
        assert lines[-1] == "beyond the scale: 250 µs (base, round 5)"

    def test_many_rounds_stand_below_each_other_and_end(self) -> None:
        marks = self.marks([(True, 1_000.0 + n, 1_001.0 + n, False) for n in range(200)])
        lines = plot(marks, 60)
        assert sum("order" in line for line in lines) == 3
        (rest,) = (line for line in lines if "not drawn" in line)
        drawn = sum(len(line.split("order  ")[1].split()) for line in lines if "order" in line)
        assert rest == f"{200 - drawn} more rounds, not drawn"
        numbers = [line.split("round  ")[1].split() for line in lines if "round  " in line]
        assert numbers[0][:3] == ["1", "2", "3"]


class TestChosen:
    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("norm/softmax", ["norm/softmax"]),
            ("norm/*", ["norm/rms[cols=8192]", "norm/softmax"]),
            ("norm/rms[cols=8192]", ["norm/rms[cols=8192]"]),
            ("gemm/bf16", ["gemm/bf16 · torch", "gemm/bf16 · triton"]),
            ("gemm/bf16 · triton", ["gemm/bf16 · triton"]),
            ("tag:slow", ["moe/route"]),
        ],
    )
    def test_id_pattern_tag_or_the_name_of_a_row(self, pattern: str, names: list[str]) -> None:
        cases = [replace(case, head_case={"tags": ["slow"]}) if case.id == "moe/route" else case for case in JUDGED]
        results, comparison = compared(*cases)
        assert sorted(row.name for row in chosen_rows(results, comparison, pattern)) == names

    @pytest.mark.parametrize(
        ("pattern", "hint"),
        [
            ("rms", "did you mean norm/rms[cols=8192]"),
            ("norm/softmx", "did you mean norm/softmax"),
            ("norm/rms[cols=4096]", "did you mean norm/rms[cols=8192]"),
            ("\x1b[2J" + "z" * 30, "the table names all cases"),
        ],
    )
    def test_none_names_near_ones(self, pattern: str, hint: str) -> None:
        results, comparison = compared(*JUDGED)
        with pytest.raises(UsageError) as error:
            chosen_rows(results, comparison, pattern)
        assert hint in str(error.value)
        assert "takes none of 5 cases" in str(error.value)
        assert "\x1b" not in str(error.value)
        assert "\n" not in str(error.value)

    def test_many_rows_end(self) -> None:
        text = explained(*[Case(f"c{n:02}") for n in range(ROWS_MAX + 5)])
        assert text.endswith("and 5 more rows: name fewer cases\n")
        assert len(re.findall(r"^c\d\d: unchanged$", text, re.MULTILINE)) == ROWS_MAX

    def test_what_makes_a_verdict_count_otherwise(self) -> None:
        assert explained(Case("a", head=21_000.0), plant=PlantRecord(case="a", fraction=0.05)).startswith(
            "a: regressed (planted)\n"
        )


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
        code = main(["report", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "results.jsonl"
        path.write_bytes(build.text(build.events(JUDGED)))
        return path

    def test_a_comparison(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = self.run(capsys, file, "--explain", "norm/*")
        assert (code, err) == (0, "")
        assert re.findall(r"^\S.*$", out, re.MULTILINE) == ["norm/rms[cols=8192]: regressed", "norm/softmax: unchanged"]

    def test_thresholds_that_were_asked_for(
        self, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = tmp_path / "suites.yaml"
        config.write_text("version: 1\nsuites: {pr: {include: ['**']}}\ncompare: {min_effect: 0.1, equivalence: 0.2}\n")
        _, out, _ = self.run(capsys, file, "--explain", "norm/rms", "--config", config)
        assert out.startswith("norm/rms[cols=8192]: unchanged\n")
        assert "within ± 20 %" in out

    def test_thresholds_of_other_suites(self, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        config = tmp_path / "suites.yaml"
        config.write_text("version: 1\nsuites: {one: {include: ['**']}, two: {include: ['**']}}\n")
        code, out, err = self.run(capsys, file, "--config", config)
        assert (code, out) == (2, "")
        assert err == (
            f"error: --config {config}: has no suite 'pr', by which the results were measured "
            "(hint: name a file that has it: there are one, two)\n"
        )

    def test_errors_are_one_line(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = self.run(capsys, file, "--explain", "norm/soft")
        assert (code, out) == (2, "")
        assert (
            err
            == "error: --explain norm/soft: takes none of 5 cases (hint: did you mean norm/softmax, norm/rms[cols=8192]?)\n"
        )
        code, out, err = self.run(capsys, file, "--explain", "norm/*", "--format", "json")
        assert (code, out, err) == (2, "", "error: --explain is text, not json (hint: leave --format out)\n")

    def test_a_second_run_is_explained_too(
        self, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        second = tmp_path / "second.jsonl"
        again = build.events([Case("norm/rms[cols=8192]", head=20_000.0)], run_id="run-2", confirms="run-1")
        second.write_bytes(build.text(again))
        _, out, _ = self.run(capsys, file, second, "--explain", "norm/*")
        first, _, other = out.partition("\nThe second run:\n\n")
        assert "not confirmed: unchanged" in first
        assert re.findall(r"^\S.*$", other, re.MULTILINE) == ["norm/rms[cols=8192]: unchanged"]
        _, out, _ = self.run(capsys, file, second, "--explain", "norm/softmax")
        assert "second run" not in out

    def test_a_run_of_one_side(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "run.jsonl"
        sides = [SideInfo(name="head", label="feature")]
        path.write_bytes(build.text(build.events(JUDGED, made=1, verb="run", sides=sides)))
        code, out, _ = self.run(capsys, path, "--explain", "norm/*")
        assert code == 0
        assert re.findall(r"^\S.*$", out, re.MULTILINE) == ["norm/rms[cols=8192]", "norm/softmax"]
        assert self.run(capsys, path, "--explain", "nor")[0] == 2
        _, every, _ = self.run(capsys, path, "--format", "explain")
        assert out in every
        assert len(every) > len(out)


class TestReading:
    TEXT = (Path(__file__).parents[4] / "docs" / "reading.md").read_text(encoding="utf-8")

    def rows(self, heading: str) -> set[str]:
        """The words in backticks that the first column of the tables under a heading holds."""
        text = self.TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        return {
            word for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for word in re.findall(r"`([^`]+)`", row)
        }

    def test_every_verdict_is_explained_and_no_other(self) -> None:
        assert self.rows("Verdicts") == set(get_args(Verdict))

    def test_every_line_is_explained_and_no_other(self) -> None:
        every = {"telemetry": TELEMETRY, "ceilings": [build.CEILINGS]}
        text = explained(*JUDGED, **every) + (GOLDEN / "why-settled.txt").read_text(encoding="utf-8")
        shown = set(re.findall(r"^  (\w+) {2,}\S", text, re.MULTILINE)) - {"case", "muted"}  # which need no words
        assert self.rows("Why this verdict: `--explain`") == shown | {"others"}


def test_a_launch_that_lost_its_end_is_drawn() -> None:
    events = [event for event in build.events([Case("a")]) if not (isinstance(event, LaunchEnd) and event.launch == 3)]
    results = build.of(events)
    comparison: Comparison = compare(results, TODAY)
    rows: Sequence[ComparedRow] = comparison.rows
    assert math.isclose(rows[0].rounds, 8)
    assert "8 of 8 rounds whole" in why(results, comparison, rows)
