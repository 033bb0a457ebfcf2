"""Every verdict with its reason, in the order of the table; what the rows amount to; what makes a run fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare, conditions_met, headline
from evenbench.reports.compare.report import headline as report_headline
from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import Results
from evenbench.reports.rows.notes import modes
from evenbench.reports.rows.outcome import HEADLINE_ORDER, TABLE_ORDER, ComparedRow, Comparison
from evenbench.reports.statistics.location import grouped_median
from evenbench.runner.config import Mute
from evenbench.runner.errors import UntrustedInput
from evenbench.runner.records import (
    Artifact,
    Event,
    Failure,
    ImplementationRecord,
    Input,
    JudgeSettings,
    KernelRecord,
    LaunchEnd,
    LaunchEvent,
    Measurement,
    Skip,
    WorkRecord,
)
from tests import build
from tests.build import Case

TODAY = date(2026, 11, 29)
CONDITIONS = ("regressed", "failed", "expectation", "artifact", "inconclusive")


def judged(*cases: Case, **options: Any) -> Comparison:
    return compare(build.results(cases, **options), TODAY)


def row(case: Case, **options: Any) -> ComparedRow:
    """The row of a case on its own."""
    (found,) = judged(case, **options).rows
    return found


def without(side: str) -> Case:
    """A case that `side` lacks."""
    changes: dict[str, Any] = {side: None}
    return Case("a", **changes)


def broken_case(status: str, reason: str, **more: Any) -> dict[str, Any]:
    """What a case line says of a case that gave an error in the preparation launch."""
    return {"status": status, "reason": reason, "implementations": []} | more


FAILED = broken_case("failed", "ImportError: no triton", kind="setup")
WRONG = broken_case("wrong", "3 of 9 elements differ", kind="wrong")
SKIPPED = broken_case("skipped", "needs flash_attn")


class TestVerdictsOfTheSamples:
    def test_regressed(self) -> None:
        found = row(Case("a", head=20_600.0))
        assert found.verdict == "regressed"
        assert found.change == pytest.approx(0.03, abs=0.005)
        assert found.interval is not None
        assert found.interval[0] < 0.03 < found.interval[1]
        assert found.reason == ""
        assert found.rounds == 8

    def test_improved(self) -> None:
        found = row(Case("a", head=19_400.0))
        assert (found.verdict, found.reason) == ("improved", "")
        assert found.change == pytest.approx(-0.03, abs=0.005)

    def test_unchanged(self) -> None:
        assert row(Case("a")).verdict == "unchanged"

    def test_inconclusive_says_what_it_could_have_shown(self) -> None:
        found = row(Case("a", head=lambda number: 20_000 * (1 + 0.05 * (number % 3))))
        assert found.verdict == "inconclusive"
        assert found.resolvable is not None
        assert found.reason == (
            f"a change would have to exceed {100 * found.resolvable:.1f} % to be called at this noise; "
            "more rounds or a quieter machine lower that"
        )

    def test_too_few_rounds(self) -> None:
        found = row(Case("a", head=30_000.0), made=5)
        assert (found.verdict, found.reason) == ("inconclusive", "too few rounds: 5 whole, at least 6 needed")
        assert found.change == pytest.approx(0.5, abs=0.02)
        assert found.interval is None
        assert found.warnings == ()

    def test_no_round_at_all(self) -> None:
        found = row(Case("a"), made=0, end=False)
        assert (found.verdict, found.reason) == ("inconclusive", "too few rounds: 0 whole, at least 6 needed")
        assert (found.base, found.head, found.change) == (None, None, None)

    def test_times_are_medians_of_launch_locations(self) -> None:
        results = build.results([Case("a", head=20_600.0)])
        (found,) = compare(results, TODAY).rows
        located = sorted(
            grouped_median(placed.record.device_busy_ns, 32)
            for placed in results.measurements["a", "main"]
            if placed.launch.side == "base"
        )
        assert found.base is not None
        assert found.base.ns == found.base_ns == (located[3] + located[4]) / 2
        assert (found.base.launches, found.base.samples, found.base.n_kernels) == (8, 20, 1)

    def test_percentiles_and_rates(self) -> None:
        samples = list(range(1_000, 2_001, 50))
        data = {"device_busy_ns": samples, "latency_ns": samples, "n_kernels": None, "tick_ns": None}
        work = WorkRecord(dtype="float32", flops=3_000_000, bytes_read=1_000_000, bytes_written=500_000)
        found = row(Case("a", base_measurement=data, head_measurement=data, both_case={"work": work})).head
        assert found is not None
        assert (found.ns, found.percentiles_ns, found.latency_ns) == (1_500, (1_100, 1_900), 1_500)
        assert (found.tflops, found.bandwidth_tbs) == (2.0, 1.0)
        assert (found.n_kernels, found.uncounted_copy_ns, found.share) == (None, None, None)

    def test_latency_is_taken_as_busy_time_is(self) -> None:
        """The median of launches' medians, not of all samples: where a timer knows one number, they are the same."""
        host: dict[str, Any] = {"timing": "host", "n_kernels": None, "tick_ns": None}
        host |= {"device_busy_ns": [100, 100, 900], "latency_ns": [100, 100, 900]}
        events = build.events([Case("a", base_measurement=host, head_measurement=host)])
        for number, each in enumerate(events):
            if isinstance(each, Measurement) and each.launch % 4 == 1:
                events[number] = each.model_copy(update={"device_busy_ns": [500], "latency_ns": [500]})
        (found,) = compare(build.of(events), TODAY).rows
        for side in (found.base, found.head):
            assert side is not None
            assert side.latency_ns == side.ns == side.percentiles_ns[0] == 100
        cupti = row(Case("a")).head
        assert cupti is not None
        assert cupti.latency_ns == pytest.approx(cupti.ns + 500, abs=16)

    def test_without_work_there_is_no_rate(self) -> None:
        found = row(Case("a", both_case={"work": None})).head
        assert found is not None
        assert (found.tflops, found.bandwidth_tbs) == (None, None)

    def test_the_least_change_may_be_set_per_case(self) -> None:
        settings = JudgeSettings(
            min_effect=0.005, equivalence=0.1, family_error=0.01, min_effects=[("x/*", 0.5), ("x/y", 0.05), ("z", 0.9)]
        )
        found = judged(Case("x/y", head=20_600.0), Case("x/z", head=20_600.0), Case("w", head=20_600.0), judge=settings)
        assert {each.case: (each.verdict, each.min_effect) for each in found.rows} == {
            "w": ("regressed", 0.005),
            "x/y": ("unchanged", 0.05),
            "x/z": ("unchanged", 0.5),
        }

    def test_thresholds_may_come_from_elsewhere(self) -> None:
        results = build.results([Case("a", head=20_600.0)])
        strict = JudgeSettings(min_effect=0.2, equivalence=0.3, family_error=0.01)
        found = compare(results, TODAY, judge_by=strict)
        assert found.rows[0].verdict == "unchanged"
        assert found.judged_by == strict

    def test_rounds_beyond_the_last_look_of_a_row_are_not_missed(self) -> None:
        events = build.events([Case("a"), Case("b")], made=16)
        late = {e.launch for e in events if isinstance(e, LaunchEvent) and e.round is not None and e.round >= 8}
        kept = [e for e in events if not (isinstance(e, Measurement) and e.case == "a" and e.launch in late)]
        found = {each.case: each for each in compare(build.of(kept), TODAY).rows}
        assert (found["a"].rounds, found["b"].rounds) == (8, 16)
        assert found["a"].warnings == found["b"].warnings == ()


class TestVerdictsBySide:
    @pytest.mark.parametrize(
        ("case", "verdict", "reason"),
        [
            (Case("a", head_case=FAILED), "failed", "head: setup: ImportError: no triton"),
            (Case("a", head_case=WRONG), "wrong", "head: 3 of 9 elements differ"),
            (Case("a", base_case=FAILED), "fixed", "base: setup: ImportError: no triton"),
            (Case("a", base_case=WRONG), "fixed", "base: wrong: 3 of 9 elements differ"),
            (Case("a", base_case=FAILED, head_case=WRONG), "wrong", "head: 3 of 9 elements differ; base: setup: ImportError: no triton"),
            (Case("a", base_case=WRONG, head_case=FAILED), "failed", "head: setup: ImportError: no triton; base: wrong: 3 of 9 elements differ"),
            (Case("a", head=None, base_case=WRONG), "removed", "it was wrong on base: 3 of 9 elements differ"),
            (Case("a", both_case=FAILED), "failed", "both sides: setup: ImportError: no triton"),
            (Case("a", base_case=SKIPPED, head_case=FAILED), "failed", "head: setup: ImportError: no triton"),
            (Case("a", head_case=SKIPPED), "skipped", "head: needs flash_attn"),
            (Case("a", base_case=SKIPPED), "skipped", "base: needs flash_attn"),
            (Case("a", base_case=FAILED, head_case=SKIPPED), "skipped", "head: needs flash_attn"),
            (Case("a", base=None), "new", ""),
            (Case("a", base=None, head_case=FAILED), "failed", "head: setup: ImportError: no triton"),
            (Case("a", base=None, head_case=SKIPPED), "skipped", "head: needs flash_attn"),
            (Case("a", head=None), "removed", ""),
            (Case("a", head=None, base_case=FAILED), "removed", "it was failed on base: setup: ImportError: no triton"),
            (Case("a", head_case=broken_case("failed", "")), "failed", "head: no reason given"),
        ],
    )  # fmt: skip
    def test_states(self, case: Case, verdict: str, reason: str) -> None:
        found = row(case)
        assert (found.verdict, found.reason) == (verdict, reason)

    def test_implementation_that_fails_alone(self) -> None:
        status = {"status": "failed", "kind": "compile", "reason": "no ptxas"}
        case = Case("a", head_case={"implementations": [
            ImplementationRecord(name="torch", status="ok", check="passed"), ImplementationRecord(name="triton", **status),  # type: ignore[arg-type]
        ]}, implementations=("torch", "triton"))  # fmt: skip
        found = {each.implementation: (each.verdict, each.reason) for each in judged(case).rows}
        assert found == {"torch": ("unchanged", ""), "triton": ("failed", "head: compile: no ptxas")}

    def test_case_that_fails_whole_fails_all_implementations_of_the_other_side(self) -> None:
        found = judged(Case("a", implementations=("torch", "triton"), head_case=FAILED))
        assert [(each.name, each.verdict) for each in found.rows] == [("a · torch", "failed"), ("a · triton", "failed")]

    def test_implementation_on_one_side_only(self) -> None:
        both = Case(
            "a",
            implementations=("torch", "triton"),
            base_case={"implementations": [ImplementationRecord(name="torch", status="ok")]},
        )
        found = judged(both, broken={"base": {"cases/other.py": "SyntaxError"}})
        assert {each.implementation: each.verdict for each in found.rows} == {"torch": "unchanged", "triton": "new"}

    @pytest.mark.parametrize("side", ["base", "head"])
    def test_a_file_that_cannot_be_imported_may_hide_the_case(self, side: Any) -> None:
        broken = {side: {"cases/z.py": "NameError: x", "cases/ops/norm.py": "SyntaxError: line 3"}}
        found = row(without(side), broken=broken)
        assert found.verdict == "failed"
        assert found.reason == f"{side}: cases/ops/norm.py (and 1 more) cannot be imported: SyntaxError: line 3"

    def test_a_broken_file_leaves_rows_of_both_sides_alone(self) -> None:
        found = judged(Case("a"), broken={"head": {"cases/z.py": "NameError: x"}})
        assert found.rows[0].verdict == "unchanged"
        assert found.facts.notes == ("head: cases/z.py cannot be imported: NameError: x",)

    @pytest.mark.parametrize("side", ["base", "head"])
    def test_a_side_that_could_not_be_prepared(self, side: Any) -> None:
        found = judged(without(side), prepared={side: {"status": "failed", "error": "pip: no wheel"}})
        assert [(each.verdict, each.reason) for each in found.rows] == [
            ("failed", f"{side} could not be prepared: pip: no wheel")
        ]
        assert found.facts.notes == (f"{side} could not be prepared: pip: no wheel",)
        assert conditions_met(found, CONDITIONS) == (("failed",) if side == "head" else ())


class TestDeadLaunches:
    def test_enough_rounds_are_left(self) -> None:
        found = row(Case("a", head=20_600.0, dies={"head": {3: "illegal memory access"}}))
        assert found.verdict == "regressed"
        assert found.rounds == 7
        assert "head lost 1 of 8 rounds: illegal memory access" in found.warnings

    @pytest.mark.parametrize("side", ["base", "head"])
    def test_too_few_are_left(self, side: Any) -> None:
        found = row(Case("a", dies={side: dict.fromkeys(range(3), "illegal memory access")}))
        head, base = (3, 0) if side == "head" else (0, 3)
        assert found.verdict == ("failed" if side == "head" else "fixed")
        assert found.reason == f"head failed in {head} of 8 launches, base in {base} of 8: illegal memory access"

    def test_all_died(self) -> None:
        every = dict.fromkeys(range(8), "illegal memory access")
        head, base = row(Case("a", dies={"head": every})), row(Case("a", dies={"base": every}))
        assert (head.verdict, head.reason) == ("failed", "head: runtime: illegal memory access")
        assert (base.verdict, base.reason) == ("fixed", "base: runtime: illegal memory access")

    def test_a_launch_that_died_counts_for_what_it_had_finished(self) -> None:
        results = self.died(before="b")
        found = {each.case: each for each in compare(results, TODAY).rows}
        assert (found["a"].rounds, found["a"].warnings) == (8, ())
        assert found["b"].rounds == 7
        assert "head lost 1 of 8 rounds: its launch died" in found["b"].warnings

    def test_a_later_attempt_makes_up_for_it(self) -> None:
        events = build.events([Case("a")])
        at = next(n for n, e in enumerate(events) if isinstance(e, LaunchEvent) and e.side == "head")
        launch = events[at]
        assert isinstance(launch, LaunchEvent)
        first = launch.model_copy(update={"launch": 500})
        found = compare(build.of([*events[:at], first, LaunchEnd(launch=500, status="crashed"), *events[at:]]), TODAY)
        assert (found.rows[0].rounds, found.rows[0].warnings) == (8, ())

    def test_the_failure_of_a_whole_launch_tells_why(self) -> None:
        results = self.died(before="b", failure="the driver fell off")
        found = {each.case: each for each in compare(results, TODAY).rows}
        assert "head lost 1 of 8 rounds: the driver fell off" in found["b"].warnings

    def test_one_wrong_result_on_head_is_enough(self) -> None:
        def wrong(side: str) -> ComparedRow:
            events = build.events([Case("a", dies={side: {2: "differs by 0.5"}})])  # type: ignore[dict-item]
            changed = [e.model_copy(update={"kind": "wrong"}) if isinstance(e, Failure) else e for e in events]
            return compare(build.of(changed), TODAY).rows[0]

        assert (wrong("head").verdict, wrong("head").reason) == ("wrong", "head, round 3: differs by 0.5")
        assert wrong("base").verdict == "unchanged"
        assert "base lost 1 of 8 rounds: differs by 0.5" in wrong("base").warnings

    @pytest.mark.parametrize("side", ["base", "head"])
    def test_a_case_that_timed_launches_skip(self, side: str) -> None:
        """Skipped only once it is timed: it is no row that nobody reached, and none that died."""
        every = row(Case("a", dies={side: dict.fromkeys(range(8), "")}))  # type: ignore[dict-item]
        assert every.verdict == ("failed" if side == "head" else "fixed")

        def skipped(rounds: range) -> ComparedRow:
            events = build.events([Case("a", dies={side: dict.fromkeys(rounds, "no licence")})])  # type: ignore[dict-item]
            turned = [
                Skip(launch=e.launch, side=e.side, case="a", reason=e.error) if isinstance(e, Failure) else e
                for e in events
            ]
            return compare(build.of(turned), TODAY).rows[0]

        assert (skipped(range(8)).verdict, skipped(range(8)).reason) == ("skipped", f"{side}: no licence")
        assert (skipped(range(1, 4)).verdict, skipped(range(1, 4)).reason) == (
            "skipped",
            f"{side}, round 2: no licence",
        )
        assert (skipped(range(2)).verdict, skipped(range(2)).rounds) == ("unchanged", 6)
        assert skipped(range(2)).warnings == (f"{side} lost 2 of 8 rounds: no licence",)

    def test_an_interrupted_round_says_so(self) -> None:
        events = build.events([Case("a")], made=7, end=False)
        last = max(each.launch for each in events if isinstance(each, LaunchEvent))
        kept = [each for each in events if getattr(each, "launch", None) != last]
        (found,) = compare(build.of(kept), TODAY).rows
        assert (found.verdict, found.rounds) == ("unchanged", 6)
        assert len(found.warnings) == 1
        assert found.warnings[0].endswith(" lacks 1 of 7 rounds: the run was interrupted")

    @pytest.mark.parametrize("end", [False, True])
    def test_a_launch_that_another_case_broke(self, end: bool) -> None:
        """The rest of its cases go on in a new launch, which an interruption may have cut off: they did not die."""
        events = build.events([Case("a"), Case("b", dies={"head": {5: "boom"}})], made=6, end=end)
        broken = next(each.launch for each in events if isinstance(each, Failure))
        kept: list[Event] = []
        for event in events:
            if isinstance(event, Measurement) and event.launch == broken:
                continue
            if isinstance(event, LaunchEnd) and event.launch == broken:
                kept.append(event.model_copy(update={"status": "crashed"}))
            else:
                kept.append(event)
        found = {each.case: each for each in compare(build.of(kept), TODAY).rows}
        assert (found["b"].verdict, found["a"].verdict) == ("inconclusive", "inconclusive")
        assert found["b"].reason == "head failed in 1 of 6 launches, base in 0 of 6: boom"
        assert found["a"].reason == "too few rounds: 5 whole, at least 6 needed"
        lost = (
            "head lost 1 of 6 rounds: its launch died" if end else "head lacks 1 of 6 rounds: the run was interrupted"
        )
        assert found["a"].warnings == (lost,)

    def test_a_round_that_died_is_told_once(self) -> None:
        found = row(Case("a", dies={"head": {3: "illegal memory access"}}))
        assert found.reason == "head failed in 1 of 8 launches, base in 0 of 8: illegal memory access"
        assert found.warnings == ()

    def test_a_time_that_is_not_above_0_is_told(self) -> None:
        zero = {"device_busy_ns": [0] * 20, "latency_ns": [0] * 20, "tick_ns": None}
        found = row(Case("a", head_measurement=zero))
        assert found.reason == "too few rounds: 0 whole, at least 6 needed"
        assert found.warnings == ("8 of 8 rounds dropped: a time is not above 0",)

    @staticmethod
    def died(before: str, failure: str = "") -> Results:
        """A run of cases a and b in which one head launch died before it measured the case `before`."""
        events = build.events([Case("a"), Case("b")])
        number = next(e.launch for e in events if isinstance(e, LaunchEvent) and e.side == "head")
        kept: list[Event] = []
        for event in events:
            if isinstance(event, Measurement) and event.launch == number and event.case == before:
                continue
            if isinstance(event, LaunchEnd) and event.launch == number:
                if failure:
                    kept.append(Failure(launch=number, side="head", kind="crashed", error=failure))
                kept.append(event.model_copy(update={"status": "crashed"}))
            else:
                kept.append(event)
        return build.of(kept)


class TestTooMuch:
    def test_a_few_lines_cannot_ask_for_gigabytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        events = build.events([Case(f"c{n}") for n in range(40)], made=1, looks=[1_000])
        late = [e.model_copy(update={"round": 999}) if isinstance(e, LaunchEvent) else e for e in events]
        assert compare(build.of(late), TODAY).counts == {"inconclusive": 40}
        monkeypatch.setattr("evenbench.reports.compare.compare.LAUNCHES_MAX", 39_999)
        with pytest.raises(UntrustedInput, match="39,999 rounds of rows"):
            compare(build.of(late), TODAY)


class TestIncomparable:
    def test_a_case_on_the_host_is_not_where_its_launches_opened_a_gpu_for_others_on_one_side(self) -> None:
        case = Case("a", both_case={"device": "cpu"})
        assert row(case, launches={"base": {"device": "cpu"}, "head": {"mig": "1g.18gb"}}).verdict == "unchanged"

    @pytest.mark.parametrize(
        ("case", "options", "reason"),
        [
            (Case("a"), {"launches": {"head": {"device": "NVIDIA H100"}}}, "GPU differs: NVIDIA H200 on base, NVIDIA H100 on head"),
            (Case("a"), {"launches": {"head": {"mig": "1g.18gb"}}}, "GPU differs: NVIDIA H200 on base, NVIDIA H200 1g.18gb on head"),
            (Case("a", head_measurement={"timing": "host"}), {}, "timer differs: cupti on base, host on head"),
            (Case("a", head_measurement={"cache": "warm"}), {}, "cache differs: cold on base, warm on head"),
            (Case("a", head_case={"inputs": []}), {}, "input x differs: bfloat16 4096×8192 on base, missing on head"),
            (Case("a", head_case={"inputs": [Input(name="x", shape=[4096, 4096], dtype="float16", sha="1" * 64)]}), {},
                "input x differs: bfloat16 4096×8192 on base, float16 4096×4096 on head"),
            (Case("a", head_case={"inputs": [Input(name="x", shape=[4096, 8192], dtype="bfloat16", sha="2" * 64)]}), {},
                "input x differs in its contents: bfloat16 4096×8192"),
            (Case("a", head_measurement={"inputs": "2" * 64}), {}, "inputs as timed differ"),
            (Case("a", head_case={"work": None}), {}, "work differs: declared on base, none on head"),
            (Case("a", both_case={"work": WorkRecord(dtype="b", flops=2)}, head_case={"work": WorkRecord(dtype="b", flops=1)}), {},
                "work differs: flops 2 on base, 1 on head"),
            (Case("a", head_measurement={"timing": "host", "cache": "warm"}), {},
                "timer differs: cupti on base, host on head; cache differs: cold on base, warm on head"),
            (Case("a"), {"launches": {"head": {"uuid": "GPU-2"}}}, "GPU differs: GPU-1 on base, GPU-2 on head"),
            (Case("a", both_case={"inputs": [Input(name=n, shape=[], dtype="int8", sha="1" * 16) for n in "yx"]}, head_case={"inputs": []}), {},
                "input x differs (and 1 more): int8 scalar on base, missing on head"),
        ],
    )  # fmt: skip
    def test_what_differs_is_named_with_both_values(self, case: Case, options: dict[str, Any], reason: str) -> None:
        found = row(case, **options)
        assert (found.verdict, found.reason) == ("incomparable", reason)
        assert (found.change, found.rounds) == (None, 0)
        assert found.base is not None
        assert found.head is not None

    @pytest.mark.parametrize(
        ("name", "other", "reason"),
        [
            ("timing", "host", "timer differs: cupti and host on base, cupti and host on head"),
            ("cache", "warm", "cache differs: cold and warm on base, cold and warm on head"),
        ],
    )
    def test_a_round_may_hold_what_differs_although_the_sides_hold_the_same(
        self, name: str, other: str, reason: str
    ) -> None:
        events = build.events([Case("a")])
        for number, each in enumerate(events):
            if isinstance(each, Measurement) and each.launch in (0, 2):  # base of round 1, head of round 2
                events[number] = each.model_copy(update={name: other})
        (found,) = compare(build.of(events), TODAY).rows
        assert (found.verdict, found.reason) == ("incomparable", reason)

    @pytest.mark.parametrize(("side", "verdict"), [("head", "failed"), ("base", "fixed")])
    def test_an_error_is_more_than_a_difference(self, side: Any, verdict: str) -> None:
        case = Case("a", head_measurement={"timing": "host"}, dies={side: dict.fromkeys(range(4), "x")})
        assert row(case).verdict == verdict

    def test_it_takes_no_part_in_the_family(self) -> None:
        found = judged(Case("a"), Case("b", head_measurement={"timing": "host"}))
        assert found.shuffled is not None
        assert found.shuffled.rows == 1


class TestNotes:
    KERNEL = KernelRecord(name="rms_kernel", grid=(132, 1, 1), block=(256, 1, 1), registers=32, code="9" * 64)

    @pytest.mark.parametrize(
        ("head", "note"),
        [
            ({}, "same kernels"),
            ({"kernels": [KERNEL.model_copy(update={"count": 40})]}, "same kernels"),
            (
                {"kernels": [KERNEL.model_copy(update={"registers": 40})]},
                "kernels differ: registers 32 → 40 of rms_kernel",
            ),
            (
                {"kernels": [KERNEL.model_copy(update={"grid": (66, 2, 1)})]},
                "kernels differ: grid 132×1×1 → 66×2×1 of rms_kernel",
            ),
            ({"kernels": [KERNEL.model_copy(update={"code": "8" * 64})]}, "kernels differ: code of rms_kernel"),
            ({"kernels": [KERNEL.model_copy(update={"name": "n" * 100})]}, f"kernels differ: rms_kernel → {'n' * 59}…"),
            ({"kernels": [KERNEL, KERNEL.model_copy(update={"name": "copy"})]}, "kernels differ: none → copy"),
            ({"n_kernels": [2] * 10 + [3] * 10}, "kernels differ: 1 a call on base, 2–3 on head"),
            ({"kernels": []}, "kernels differ: rms_kernel → none"),
        ],
    )
    def test_kernels(self, head: dict[str, Any], note: str) -> None:
        assert row(Case("a", head_measurement=head)).notes == (note,)

    def test_a_timer_that_knows_no_kernels(self) -> None:
        unknown: dict[str, Any] = {"kernels": [], "n_kernels": None}
        assert row(Case("a", base_measurement=unknown, head_measurement=unknown)).notes == ()

    def test_a_change_with_the_same_kernels_is_doubtful(self) -> None:
        assert row(Case("a", head=20_600.0)).notes == ("same kernels, so doubt it",)

    def test_kernels_whose_code_is_not_known(self) -> None:
        """CUPTI's records hold no hash of the code: a change inside a kernel leaves all else of it the same."""
        nameless = {"kernels": [self.KERNEL.model_copy(update={"code": ""})]}
        same = row(Case("a", base_measurement=nameless, head_measurement=nameless))
        assert same.notes == ("same kernels (their code is not known)",)
        slower = row(Case("a", head=20_600.0, base_measurement=nameless, head_measurement=nameless))
        assert slower.notes == ("same kernels (their code is not known), so doubt it unless that changed",)

    def test_calls_without_kernels(self) -> None:
        copies: dict[str, Any] = {"kernels": [], "n_kernels": [0] * 20}
        assert row(Case("a", base_measurement=copies, head_measurement=copies)).notes == ()

    @pytest.mark.parametrize(
        ("case", "note"),
        [
            (Case("a", head_case={"source": "6" * 64}), "case changed"),
            (Case("a", head_implementation={"tuning": "BLOCK=64"}), "tuning differs: none on base, BLOCK=64 on head"),
            (Case("a", both_case={"inputs": []}), "inputs unverified"),
            (
                Case("a", head_implementation={"result_change": "differs"}),
                "on head the result changes from call to call",
            ),
            (
                Case(
                    "a",
                    base_implementation={"result_change": "not-finite"},
                    head_implementation={"result_change": "not-finite"},
                ),
                "the result became infinite or NaN after some calls: declare a reset",
            ),
            (Case("a", head_implementation={"check": "unchecked"}), "unchecked"),
            (Case("a", both_case={"fallback": "CUPTI: no permission"}), "CUPTI: no permission"),
            (Case("a", both_case={"leaves": "changed umask"}), "the case changed umask"),
            (Case("a", head_case={"leaves": "left 2 threads running"}), "on head the case left 2 threads running"),
        ],
    )
    def test_of_the_case(self, case: Case, note: str) -> None:
        assert row(case).notes == ("same kernels", note)

    @pytest.mark.parametrize(
        ("base", "head", "note"),
        [
            (
                lambda n: 20_000 if n < 5 else 21_000,
                lambda n: 20_000 if n % 2 else 21_000,
                "2 modes, 5:3 against 4:4 (fast to slow launches, base against head)",
            ),
            (
                lambda n: 20_000,
                lambda n: 20_000 if n < 6 else 21_000,
                "2 modes, 8:0 against 6:2 (fast to slow launches, base against head)",
            ),
        ],
    )
    def test_modes(self, base: Callable[[int], float], head: Callable[[int], float], note: str) -> None:
        assert note in row(Case("a", base=base, head=head)).notes

    def test_a_change_is_no_mode(self) -> None:
        assert all("modes" not in note for note in row(Case("a", head=22_000.0)).notes)

    def test_each_side_is_parted_by_its_own_gap(self) -> None:
        """A head that became slower as a whole and has two modes as well."""
        two = modes([20_000.0] * 5 + [21_000.0] * 3, [21_000.0] * 4 + [22_000.0] * 4)
        assert two.startswith("2 modes, 5:3 against 4:4")

    def test_one_slow_launch_is_no_mode(self) -> None:
        assert all("modes" not in note for note in row(Case("a", head=lambda n: 22_000 if n == 3 else 20_000)).notes)

    def test_modes_are_seldom_seen_where_there_are_none_and_mostly_where_there_are(self) -> None:
        drawn = random.Random(1)

        def located(share: float) -> list[float]:
            return [(1.05 if drawn.random() < share else 1.0) * drawn.gauss(20_000, 60) for _ in range(8)]

        found = {
            share: sum(bool(modes(located(share), located(share))) for _ in range(1_000)) for share in (0.0, 0.25, 0.5)
        }
        assert found[0.0] <= 10
        assert found[0.25] >= 750
        assert found[0.5] >= 950

    def test_clocks_stand_on_the_run_and_on_changed_rows(self) -> None:
        telemetry = {
            "base": {"sm_clock_mhz": 1980.0},
            "head": {"sm_clock_mhz": 1700.0, "throttle_reasons": "power cap"},
        }
        found = judged(Case("a"), Case("b", head=20_600.0), telemetry=telemetry)
        said = ("SM clock 1980 MHz on base, 1700 MHz on head", "throttling: none on base, power cap on head")
        assert found.facts.notes == said
        assert [each.notes for each in found.rows] == [("same kernels, so doubt it", *said), ("same kernels",)]

    def test_clocks_of_a_row_are_those_of_its_launches(self) -> None:
        """In shards the other rows were measured elsewhere; and a row of the host has no device to be slow."""
        held: Any = {"head": {"throttle_reasons": "power cap"}}
        host: Any = {"device": "cpu", "timer": "host"}
        found = judged(Case("a", head=20_600.0, both_case=host, dies={"base": {0: "x"}}), telemetry=held)
        assert found.facts.notes == ("throttling: none on base, power cap on head",)
        assert found.rows[0].notes == ("same kernels, so doubt it",)
        events = build.events([Case("a", head=20_600.0)], telemetry=held)
        heads = [e.launch for e in events if isinstance(e, LaunchEvent) and e.side == "head"]
        for number, each in enumerate(events):
            if isinstance(each, LaunchEnd) and each.launch in heads[3:]:
                events[number] = each.model_copy(update={"telemetry": {}})
        (one,) = compare(build.of(events), TODAY).rows
        assert one.notes[1:] == ("throttling: none on base, power cap in 3 of 8 launches on head",)

    def test_equal_clocks_are_not_mentioned(self) -> None:
        telemetry = {"base": {"sm_clock_mhz": 1980.0}, "head": {"sm_clock_mhz": 1965.0}}
        assert judged(Case("a"), telemetry=telemetry).facts.notes == ()

    def test_doubtful_numbers(self) -> None:
        data = {
            "rejected": [{"index": 3, "reason": "ends before it starts"}],
            "retries": ["4096 bytes"],
            "stop": "timeout",
            "coarse": True,
        }
        assert set(row(Case("a", head_measurement=data)).warnings) >= {
            "head: 8 samples rejected: ends before it starts",
            "head: records were lost and measured again in 8 launches",
            "head: stopped by the time limit",
            "calls over 10 ms: few samples a launch",
        }

    def test_one_of_them_is_singular(self) -> None:
        data = {"rejected": [{"index": 3, "reason": "ends before it starts"}], "retries": ["4096 bytes"]}
        found = measured(build.results([Case("a", base=None, head_measurement=data)], made=1, verb="run"))
        assert found.rows[0].warnings == (
            "head: 1 sample rejected: ends before it starts",
            "head: records were lost and measured again in 1 launch",
        )

    def test_percentiles_are_called_coarse_where_they_are_shown(self) -> None:
        case = Case("a", base=None, head_measurement={"coarse": True})
        found = measured(build.results([case], made=1, verb="run"))
        assert found.rows[0].warnings == ("long call: p10 and p90 are coarse",)


class TestMutes:
    MUTE = Mute(match="old/*", why="being replaced", until=date(2026, 11, 29))

    def test_a_muted_row_keeps_its_verdict_but_does_not_count(self) -> None:
        results = build.results([Case("old/a", head=30_000.0), Case("old/b", head_case=FAILED), Case("new/a")])
        found = compare(results, TODAY, [self.MUTE])
        assert {each.case: (each.verdict, each.muted) for each in found.rows} == {
            "old/a": ("regressed", "muted until 2026-11-29: being replaced"),
            "old/b": ("failed", "muted until 2026-11-29: being replaced"),
            "new/a": ("unchanged", ""),
        }
        assert conditions_met(found, CONDITIONS) == ()
        assert headline(found) == "1 failed, 1 regressed, 1 unchanged (2 muted)"

    def test_a_mute_that_has_ended_is_noted(self) -> None:
        found = compare(build.results([Case("old/a", head=30_000.0)]), date(2026, 11, 30), [self.MUTE])
        assert found.rows[0].muted == ""
        assert conditions_met(found, CONDITIONS) == ("regressed",)
        assert found.facts.notes == ("the mute of old/* ended on 2026-11-29: being replaced",)


class TestConditions:
    @pytest.mark.parametrize(
        ("case", "met"),
        [
            (Case("a"), ()),
            (Case("a", head=20_600.0), ("regressed",)),
            (Case("a", head=19_400.0), ()),
            (Case("a", head_case=FAILED), ("failed",)),
            (Case("a", head_case=WRONG), ("failed",)),
            (Case("a", base_case=FAILED), ()),
            (Case("a", head=lambda n: 20_000 + 1_000 * (n % 3)), ("inconclusive",)),
        ],
    )
    def test_each_verdict(self, case: Case, met: tuple[str, ...]) -> None:
        found = judged(case)
        assert conditions_met(found, CONDITIONS) == met
        assert conditions_met(found, ()) == ()

    @pytest.mark.parametrize(("status", "met"), [("equal", ()), ("changed", ("artifact",)), ("new", ("artifact",))])
    def test_artifacts(self, status: Any, met: tuple[str, ...]) -> None:
        events = build.events([Case("a")])
        artifact = Artifact(side="head", case="a", name="ptx", status=status)
        results = build.of([*events[:-1], artifact, events[-1]])
        assert conditions_met(compare(results, TODAY), CONDITIONS) == met
        muted = compare(results, TODAY, [Mute(match="a", why="w", until=TODAY)])
        assert conditions_met(muted, CONDITIONS) == ()

    def test_an_unreliable_run_fails_by_errors_alone(self) -> None:
        found = self.unreliable()
        assert found.shuffled is not None
        assert found.shuffled.often == ("drift",)
        assert found.counts["regressed"] == 1
        assert conditions_met(found, CONDITIONS) == ("failed",)
        assert headline(found) == "unreliable: 1 failed, 1 regressed"

    @staticmethod
    def unreliable() -> Comparison:
        found = judged(Case("slow", head=20_600.0), Case("bad", head_case=FAILED))
        assert found.shuffled is not None
        assert not found.unreliable
        return replace(found, shuffled=replace(found.shuffled, often=("drift",)))


class TestOrderAndCounts:
    CASES = (
        Case("new", base=None),
        Case("same"),
        Case("slow", head=20_600.0),
        Case("slower", head=22_000.0),
        Case("fast", head=19_000.0),
        Case("bad", head_case=FAILED),
        Case("wrong", head_case=WRONG),
        Case("gone", head=None),
        Case("fixed", base_case=FAILED),
        Case("skipped", both_case=SKIPPED),
        Case("noisy", head=lambda n: 20_000 + 1_000 * (n % 3)),
        Case("other", head_measurement={"timing": "host"}),
    )

    def test_all_verdicts(self) -> None:
        found = judged(*self.CASES)
        assert [each.case for each in found.rows] == [
            "bad", "wrong", "slower", "slow", "other", "noisy", "fast", "fixed", "new", "gone", "skipped", "same",
        ]  # fmt: skip
        assert {each.verdict for each in found.rows} == set(TABLE_ORDER) == set(HEADLINE_ORDER)
        assert headline(found) == (
            "1 failed, 1 wrong, 2 regressed, 1 improved, 1 fixed, 1 new, 1 removed, 1 skipped, 1 unchanged, 1 inconclusive, 1 incomparable"
        )
        assert conditions_met(found, CONDITIONS) == ("regressed", "failed", "inconclusive")

    @given(st.permutations(CASES), st.integers(0, 12))
    def test_the_headline_never_contradicts_a_row(self, cases: list[Case], kept: int) -> None:
        found = judged(*cases[:kept])
        for verdict in HEADLINE_ORDER:
            assert found.counts.get(verdict, 0) == sum(1 for each in found.rows if each.verdict == verdict)
        assert len(found.rows) == kept

    def test_order_of_the_file_does_not_matter(self) -> None:
        assert judged(*self.CASES).rows == judged(*reversed(self.CASES)).rows

    def test_geometric_mean_and_shuffled_labels(self) -> None:
        found = judged(*self.CASES)
        assert found.mean is not None
        assert found.shuffled is not None
        assert found.mean.rows == found.shuffled.rows == 5
        assert found.shuffled.draws == 20
        assert not found.unreliable

    def test_nothing(self) -> None:
        found = judged()
        assert headline(found) == "nothing to compare"
        assert (found.rows, found.mean, found.shuffled, found.facts.rounds) == ((), None, None, None)
        assert conditions_met(found, CONDITIONS) == ()

    def test_partial(self) -> None:
        found = judged(Case("a"), end=False)
        assert found.facts.partial
        assert headline(found) == "partial: 1 unchanged"
        assert (found.facts.preparation_s, found.facts.measuring_s) == (None, None)

    def test_facts(self) -> None:
        found = judged(*self.CASES).facts
        assert (found.devices, found.drivers, found.timers, found.caches) == (
            ("NVIDIA H200",), ("580.159.04",), ("cupti", "host"), ("cold",),
        )  # fmt: skip
        assert (found.preparation_s, found.measuring_s, found.rounds) == (12.5, 30.25, (8, 8))
        head = found.side("head")
        assert head is not None
        assert (head.sha, head.label, head.torch, head.error) == (build.HEAD_SHA, "feature", ("2.13.0",), "")
        assert found.side("control") is None

    def test_a_control_side_is_no_row(self) -> None:
        found = judged(Case("a"), Case("b", base=None))
        assert {each.case for each in found.rows} == {"a", "b"}

    def test_same_file_same_answer(self) -> None:
        assert judged(*self.CASES) == judged(*self.CASES)


class TestMeasured:
    def test_a_run(self) -> None:
        implementations = ("torch", "triton", "mine")
        case = Case("norm/rms", base=None, implementations=implementations, both_case={"baseline": "torch"})
        results = build.results([case, Case("x/bad", base=None, head_case=FAILED)], made=1, verb="run")
        found = measured(results)
        assert [(each.implementation, each.status, each.baseline) for each in found.rows[:3]] == [
            ("torch", "ok", True), ("triton", "ok", False), ("mine", "ok", False),
        ]  # fmt: skip
        torch, triton = found.rows[0], found.rows[1]
        assert torch.times is not None
        assert triton.times is not None
        assert torch.ratio == 1.0
        assert triton.ratio == triton.times.ns / torch.times.ns
        assert (torch.check, torch.timing, torch.cache, torch.family) == ("passed", "cupti", "cold", "norm")
        assert (found.rows[3].status, found.rows[3].reason, found.rows[3].times) == (
            "failed",
            "setup: ImportError: no triton",
            None,
        )
        assert report_headline(found) == "1 failed, 3 measured"
        assert conditions_met(found, CONDITIONS) == ("failed",)

    def test_without_a_baseline_there_is_no_ratio(self) -> None:
        found = measured(build.results([Case("a", base=None)], made=1, verb="run"))
        assert found.rows[0].ratio is None

    def test_what_was_not_reached(self) -> None:
        found = measured(build.results([Case("a", base=None)], made=0, end=False, verb="run"))
        assert (found.rows[0].status, found.rows[0].reason) == ("failed", "not measured")
        assert report_headline(found) == "partial: 1 failed"

    def test_nothing(self) -> None:
        assert report_headline(measured(build.results([], verb="run"))) == "nothing measured"
