"""Launches that fail: which side is to blame, what that makes of a verdict, and what `failed` of `fail_on` counts."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from evenbench.reports.compare.compare import compare, conditions_met
from evenbench.reports.compare.confirm import confirmed
from evenbench.reports.compare.report import measured
from evenbench.reports.history.rows import rows_of
from evenbench.reports.publish.outcome import Outcome
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.explain.reasons import because, family_of
from evenbench.reports.rows.outcome import ComparedRow, Comparison
from evenbench.reports.statistics.failures import Failures, fisher, weighed
from evenbench.runner.records import Failure, JudgeSettings, LaunchEnd, LaunchEvent, Measurement, SideInfo, SideName
from tests import build
from tests.build import Case

TODAY = date(2026, 11, 29)
DEFAULT = ("regressed", "failed")
BAD: dict[str, Any] = {"status": "failed", "kind": "setup", "reason": "no triton", "implementations": []}
WRONG: dict[str, Any] = BAD | {"status": "wrong", "kind": "wrong"}
WORST_FIRST = ("failed", "regressed", "inconclusive", "unchanged", "fixed", "improved")


def case(failed: int = 0, base_failed: int = 0, **options: Any) -> Case:
    """A case on which so many launches of each side fail; those of base last, so that rounds differ."""
    dies: dict[SideName, dict[int, str]] = {
        "head": dict.fromkeys(range(failed), "illegal memory access"),
        "base": {23 - number: "illegal memory access" for number in range(base_failed)},
    }
    return Case("a", dies=dies, **options)


def judged(*cases: Case, **options: Any) -> Comparison:
    return compare(build.results(cases, **({"made": 24} | options)), TODAY)


def row(*cases: Case, **options: Any) -> ComparedRow:
    (found,) = judged(*cases, **options).rows
    return found


class TestBlame:
    @pytest.mark.parametrize(
        ("head", "base", "blame"),
        [
            (0, 0, ""),
            (0, 1, ""),
            (0, 2, "base"),
            (0, 24, "base"),
            (1, 0, "unclear"),
            (2, 0, "head"),
            (18, 0, "head"),
            (1, 1, "unclear"),
            (7, 1, "unclear"),  # p 0.0240
            (8, 1, "unclear"),  # p 0.0113
            (9, 1, "head"),  # p 0.0051
            (9, 2, "unclear"),  # p 0.0182
            (10, 2, "head"),  # p 0.0087
            (1, 18, "unclear"),
            (24, 17, "head"),  # p 0.0047
            (24, 18, "unclear"),  # p 0.0110
            (24, 24, "unclear"),
        ],
    )
    def test_of_24_launches_a_side(self, head: int, base: int, blame: str) -> None:
        assert Failures(base, 24, head, 24).blame == blame

    def test_exact_values(self) -> None:
        assert fisher(8, 24, 1, 24) == pytest.approx(0.0113044738, rel=1e-8)
        assert fisher(9, 24, 1, 24) == pytest.approx(0.0050975081, rel=1e-8)
        assert fisher(1, 1, 0, 99) == pytest.approx(0.01, rel=1e-12)
        assert fisher(3, 6, 0, 6) == pytest.approx(20 / 220)  # C(6, 3) of C(12, 3)

    def test_a_p_of_just_one_per_cent_is_enough(self) -> None:
        """Head fails in its only launch and base in 1 of 199: one of the two failures is head's in 2 of 200 draws."""
        assert fisher(1, 1, 1, 199) == pytest.approx(0.01, rel=1e-12)

    @given(st.data())
    def test_it_is_fishers_exact_test(self, data: st.DataObject) -> None:
        launches = data.draw(st.tuples(*[st.integers(1, 60)] * 2))
        head, base = (data.draw(st.integers(0, number)) for number in launches)
        table = [[head, launches[0] - head], [base, launches[1] - base]]
        assert fisher(head, launches[0], base, launches[1]) == pytest.approx(
            fisher_exact(np.array(table), alternative="greater").pvalue, rel=1e-9
        )

    @given(st.data(), st.sampled_from(["regressed", "improved", "unchanged", "inconclusive"]))
    def test_more_failures_of_head_never_make_a_verdict_better(self, data: st.DataObject, verdict: str) -> None:
        launches, base_launches = (data.draw(st.integers(2, 60)) for _ in range(2))
        head = data.draw(st.integers(0, launches - 1))
        base = data.draw(st.integers(0, base_launches))
        fewer, more = (weighed(verdict, Failures(base, base_launches, n, launches)) for n in (head, head + 1))
        assert WORST_FIRST.index(more) <= WORST_FIRST.index(fewer)

    @given(st.data())
    def test_swapping_the_sides_mirrors_a_blame_that_is_of_one_side_alone(self, data: st.DataObject) -> None:
        launches, failed = data.draw(st.integers(1, 60)), data.draw(st.integers(2, 60))
        one, other = Failures(0, launches, failed, 60), Failures(failed, 60, 0, launches)
        assert (one.blame, other.blame) == ("head", "base")

    @given(st.integers(2, 60), st.sampled_from(["regressed", "improved", "unchanged", "inconclusive"]))
    def test_a_head_that_fails_alone_is_failed_whatever_the_rest_says(self, failed: int, verdict: str) -> None:
        assert weighed(verdict, Failures(0, 60, failed, 60)) == "failed"
        assert weighed(verdict, Failures(failed, 60, 0, 60)) == (verdict if verdict == "regressed" else "fixed")
        assert weighed(verdict, Failures(0, 60, 0, 60)) == weighed(verdict, None) == verdict

    @given(st.integers(0, 60), st.sampled_from(["improved", "unchanged", "inconclusive"]))
    def test_both_sides_alike_are_never_judged_by_the_rest(self, failed: int, verdict: str) -> None:
        found = weighed(verdict, Failures(failed, 60, failed, 60))
        assert found == ("inconclusive" if failed else verdict)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("head", "base", "times", "verdict", "broken"),
        [
            (18, 0, 20_000.0, "failed", True),
            (2, 0, 20_000.0, "failed", True),
            (2, 0, 18_000.0, "failed", True),
            (2, 0, 22_000.0, "failed", True),
            (1, 0, 20_000.0, "inconclusive", False),
            (1, 0, 18_000.0, "inconclusive", False),
            (1, 0, 22_000.0, "regressed", False),  # a failure never hides that head is slower
            (9, 1, 20_000.0, "failed", True),
            (8, 1, 20_000.0, "inconclusive", False),
            (9, 9, 20_000.0, "inconclusive", False),
            (3, 2, 22_000.0, "regressed", False),
            (0, 1, 20_000.0, "unchanged", False),  # an error on base alone hides nothing
            (0, 2, 20_000.0, "fixed", False),
            (0, 18, 20_000.0, "fixed", False),
            (0, 2, 22_000.0, "regressed", False),
            (0, 20, 20_000.0, "fixed", False),
            (24, 0, 20_000.0, "failed", True),
            (24, 24, 20_000.0, "failed", False),
            (0, 24, 20_000.0, "fixed", False),
            (20, 24, 20_000.0, "inconclusive", False),
        ],
    )
    def test_by_counts(self, head: int, base: int, times: float, verdict: str, broken: bool) -> None:
        found = judged(case(head, base, head=times))
        (only,) = found.rows
        assert (only.verdict, only.broken) == (verdict, broken)
        met = ("regressed",) if verdict == "regressed" else ("failed",) if broken else ()
        assert conditions_met(found, DEFAULT) == met

    def test_the_reason_names_the_counts_and_the_error_once(self) -> None:
        found = row(case(3, 2))
        assert found.reason == "head failed in 3 of 24 launches, base in 2 of 24: illegal memory access"
        assert found.warnings == ()

    @pytest.mark.parametrize(
        ("head", "verdict", "reason"),
        [
            (1, "new", ""),
            (2, "failed", "head failed in 2 of 24 launches: illegal memory access"),
        ],
    )
    def test_a_new_case_whose_launches_fail(self, head: int, verdict: str, reason: str) -> None:
        found = row(_new(head))
        assert (found.verdict, found.reason, found.broken) == (verdict, reason, verdict == "failed")

    def test_base_that_cannot_be_prepared_hides_no_failure_of_head(self) -> None:
        found = row(case(3, base_case=BAD))
        assert (found.verdict, found.broken) == ("inconclusive", False)
        assert found.reason == "base: setup: no triton; head failed in 3 of 24 launches: illegal memory access"
        assert row(case(0, base_case=BAD)).verdict == "fixed"

    def test_one_wrong_result_stays_wrong(self) -> None:
        events = build.events([case(18)], made=24)
        first = next(n for n, event in enumerate(events) if isinstance(event, Failure))
        events[first] = events[first].model_copy(update={"kind": "wrong"})
        (found,) = compare(build.of(events), TODAY).rows
        assert (found.verdict, found.broken) == ("wrong", True)

    def test_what_differs_hides_no_failure_of_head(self) -> None:
        differs: Any = {"head_measurement": {"timing": "host"}}
        assert row(case(2, **differs)).verdict == "failed"
        assert row(case(1, **differs)).verdict == "incomparable"

    def test_each_implementation_by_itself(self) -> None:
        events = build.events([case(3, implementations=("one", "two"))], made=24)
        events = [e.model_copy(update={"implementation": "two"}) if isinstance(e, Failure) else e for e in events]
        measured_one = build.events([Case("a", implementations=("one",))], made=24)
        failed = {event.launch for event in events if isinstance(event, Failure)}
        kept = [event for event in measured_one if isinstance(event, Measurement) and event.launch in failed]
        events[-1:-1] = kept
        found = {each.implementation: each.verdict for each in compare(build.of(events), TODAY).rows}
        assert found == {"one": "unchanged", "two": "failed"}

    def test_json_tells_the_counts(self) -> None:
        (found,) = as_json(judged(case(9, 1)))["rows"]
        assert found["broken_by_head"] is True
        assert found["failed_launches"] == {
            "base": {"failed": 1, "launches": 24},
            "head": {"failed": 9, "launches": 24},
        }
        (found,) = as_json(judged(case()))["rows"]
        assert (found["broken_by_head"], found["failed_launches"]) == (False, None)

    @pytest.mark.parametrize(
        ("head", "base", "words"),
        [
            (18, 0, "2 of head alone are enough"),
            (9, 1, "p 0.0051, at most 0.01 needed"),
            (3, 2, "not shown that head fails more often"),
            (1, 0, "a single failure may be an accident"),
            (0, 5, "head fails no more"),
        ],
    )
    def test_why(self, head: int, base: int, words: str) -> None:
        found = judged(case(head, base))
        said = because(found.rows[0], found, family_of(found))
        assert said.startswith(f"head failed in {head} of 24 launches, base in {base} of 24")
        assert words in said


def _new(head: int) -> Case:
    return Case("a", base=None, dies={"head": dict.fromkeys(range(head), "illegal memory access")})


class TestLostWithTheMachine:
    """Launches that need not have died of the row do not count against it."""

    @staticmethod
    def lost(rounds: int, **changes: Any) -> ComparedRow:
        """Head's first launches die: `changes` are of their failures, `end` of the ends of these launches."""
        end = changes.pop("end", {})
        events = build.events([case(rounds)], made=24)
        failed = {event.launch for event in events if isinstance(event, Failure)}
        turned = [
            event.model_copy(update={"kind": "crashed"} | changes)
            if isinstance(event, Failure)
            else event.model_copy(update={"status": "crashed"} | end)
            if isinstance(event, LaunchEnd) and event.launch in failed
            else event
            for event in events
        ]
        (found,) = compare(build.of(turned), TODAY).rows
        return found

    def test_blamed_ones_count(self) -> None:
        assert self.lost(5).verdict == "failed"

    def test_a_launch_of_which_no_case_was_blamed(self) -> None:
        found = self.lost(5, case=None)
        assert (found.verdict, found.failures, found.rounds) == ("unchanged", None, 19)
        assert found.warnings == ("head lost 5 of 24 rounds: illegal memory access",)

    def test_a_machine_that_stood_still(self) -> None:
        assert self.lost(5, end={"paused_s": 30.0}).verdict == "unchanged"
        assert self.lost(5, end={"paused_s": 30.0}, kind="runtime").verdict == "failed"  # an error is none of that

    def test_too_few_rounds_are_left(self) -> None:
        found = self.lost(20, case=None)
        assert (found.verdict, found.broken) == ("inconclusive", False)
        assert found.reason == "too few rounds: 4 whole, at least 6 needed"

    def test_all_of_them(self) -> None:
        found = self.lost(24, case=None)
        assert (found.verdict, found.broken) == ("inconclusive", False)

    @pytest.mark.parametrize(("end", "others", "counts"), [(False, 0, 0), (True, 0, 1), (False, 1, 1)])
    def test_the_launch_with_which_the_device_was_gone(self, end: bool, others: int, counts: int) -> None:
        """Nothing was measured in it, and the run has no end."""
        died: dict[SideName, dict[int, str]] = {side: {8: "device lost"} for side in ("base", "head")}
        events = build.events([Case("a", dies=died), *[Case(f"b{n}") for n in range(others)]], made=9, end=end)
        last = max(event.launch for event in events if isinstance(event, LaunchEvent))
        side = next(event.side for event in events if isinstance(event, LaunchEvent) and event.launch == last)
        found = {each.case: each for each in compare(build.of(events), TODAY).rows}["a"]
        failed = found.failures
        assert failed is not None  # the other side's, which was not the last
        assert (failed.base if side == "base" else failed.head) == counts

    def test_an_interrupted_launch(self) -> None:
        events = build.events([case()], made=7, end=False)
        last = [event.launch for event in events if isinstance(event, LaunchEvent) and event.side == "head"][-2:]
        kept = [
            event.model_copy(update={"status": "interrupted"})
            if isinstance(event, LaunchEnd) and event.launch in last
            else event
            for event in events
            if isinstance(event, LaunchEvent | LaunchEnd) or getattr(event, "launch", -1) not in last
        ]
        (found,) = compare(build.of(kept), TODAY).rows
        assert (found.verdict, found.failures) == ("inconclusive", None)


class TestFailOn:
    """`failed` counts what fails or is wrong on head and not on base."""

    @pytest.mark.parametrize(
        ("one", "met"),
        [
            (Case("a", head_case=BAD), True),
            (Case("a", head_case=WRONG), True),
            (Case("a", base=None, head_case=BAD), True),
            (Case("a", base=None, head_case=WRONG), True),
            (Case("a", base_case=BAD), False),
            (Case("a", base_case=WRONG), False),
            (Case("a", base_case=BAD, head_case=BAD), False),
            (Case("a", base_case=WRONG, head_case=WRONG), False),
            (Case("a", base_case=BAD, head_case=WRONG), False),
            (Case("a", base_case=WRONG, head_case=BAD), False),
            (Case("a", head=None, base_case=BAD), False),
            (Case("a", head_case=BAD, dies={"base": {0: "x"}}), True),
            (Case("a", head_case=BAD, dies={"base": dict.fromkeys(range(20), "x")}), False),
            (Case("a", head_case=WRONG, dies={"base": {0: "x"}}), True),
        ],
    )
    def test_rows(self, one: Case, met: bool) -> None:
        found = judged(one, Case("b"))
        assert conditions_met(found, DEFAULT) == (("failed",) if met else ())
        assert Outcome.of(found).conclusion == ("failure" if met else "success")

    @pytest.mark.parametrize(("head", "base", "met"), [(1, 0, True), (1, 1, False), (24, 1, True), (2, 3, False)])
    def test_wrong_in_some_launches(self, head: int, base: int, met: bool) -> None:
        events = build.events([case(head, base)], made=24)
        events = [e.model_copy(update={"kind": "wrong"}) if isinstance(e, Failure) else e for e in events]
        found = compare(build.of(events), TODAY)
        assert found.rows[0].verdict == "wrong"
        assert conditions_met(found, DEFAULT) == (("failed",) if met else ())

    @pytest.mark.parametrize(
        ("broken", "met"),
        [
            ({"head": {"cases/z.py": "NameError"}}, True),
            ({"base": {"cases/z.py": "NameError"}}, False),
            ({"base": {"cases/z.py": "NameError"}, "head": {"cases/z.py": "NameError"}}, False),
            ({"base": {"cases/z.py": "NameError"}, "head": {"cases/y.py": "NameError"}}, True),
        ],
    )
    def test_case_files(self, broken: Any, met: bool) -> None:
        assert conditions_met(judged(Case("b"), broken=broken), DEFAULT) == (("failed",) if met else ())

    @pytest.mark.parametrize("side", ["base", "head"])
    def test_what_a_case_file_hides(self, side: SideName) -> None:
        hidden = Case("a", **{side: None})  # type: ignore[arg-type]
        found = judged(hidden, Case("b"), broken={side: {"cases/ops/norm.py": "NameError"}})
        assert [each.verdict for each in found.rows] == ["failed", "unchanged"]
        assert conditions_met(found, DEFAULT) == (("failed",) if side == "head" else ())

    @pytest.mark.parametrize(
        ("sides", "met", "conclusion"),
        [(["base"], (), "neutral"), (["head"], ("failed",), "failure"), (["base", "head"], (), "neutral")],
    )
    def test_a_side_that_could_not_be_prepared(
        self, sides: list[SideName], met: tuple[str, ...], conclusion: str
    ) -> None:
        prepared: Any = {side: {"status": "failed", "error": "no compiler"} for side in sides}
        found = compare(build.results([], made=0, end=False, prepared=prepared), TODAY)
        assert conditions_met(found, DEFAULT) == met
        assert Outcome.of(found).conclusion == conclusion

    def test_a_head_that_breaks_all_rows_is_a_failure(self) -> None:
        for dies in (18, 24):
            outcome = Outcome.of(judged(case(dies)))
            assert (outcome.met, outcome.conclusion) == (("failed",), "failure")
        assert Outcome.of(judged(case(18))).state == "done"
        assert Outcome.of(judged(case(18))).verdict == "regressed"

    def test_a_base_that_breaks_all_rows_is_none(self) -> None:
        assert Outcome.of(judged(case(0, 18))).conclusion == "success"
        assert Outcome.of(judged(case(0, 24))).conclusion == "neutral"

    def test_muted_rows_do_not_count(self) -> None:
        mute: Any = [{"match": "a", "why": "known", "until": "2027-01-01"}]
        judge = JudgeSettings(min_effect=0.005, equivalence=0.02, family_error=0.01, mute=mute)
        assert conditions_met(judged(case(18), judge=judge), DEFAULT) == ()

    def test_a_header_without_fail_on_has_the_default(self) -> None:
        assert JudgeSettings(min_effect=0.005, equivalence=0.02, family_error=0.01).fail_on == list(DEFAULT)


class TestConfirm:
    def test_a_second_run_with_failures_clears_nothing(self) -> None:
        """The times of the launches that did not fail are no proof that head is as fast as base."""
        first = judged(Case("a", head=22_000.0))
        for failed in (1, 2, 20):
            (found,) = confirmed(first, [judged(case(failed), confirms="run-1")]).rows
            assert found.second is not None
            assert not found.second.cleared
        (found,) = confirmed(first, [judged(case(0, 1), confirms="run-1")]).rows
        assert found.second is not None
        assert found.second.cleared


class TestOneSide:
    """A run of one side: whatever fails or is wrong is `failed`."""

    @staticmethod
    def run(one: Case, **options: Any) -> Any:
        sides = [SideInfo(name="head", label="HEAD", sha="b" * 40)]
        return build.results([one], verb="run", sides=sides, **({"made": 8} | options))

    @pytest.mark.parametrize(
        ("failed", "status", "reason", "met"),
        [
            (0, "ok", "", ()),
            (1, "ok", "", ()),
            (2, "failed", "failed in 2 of 8 launches: illegal memory access", ("failed",)),
            (8, "failed", "runtime: illegal memory access", ("failed",)),
        ],
    )
    def test_launches_that_fail(self, failed: int, status: str, reason: str, met: tuple[str, ...]) -> None:
        results = self.run(case(failed))
        report = measured(results, TODAY)
        (found,) = report.rows
        assert (found.status, found.reason, found.times is None) == (status, reason, status != "ok")
        assert conditions_met(report, DEFAULT) == met

    def test_one_wrong_result_is_enough(self) -> None:
        events = build.events([case(1)], made=8, verb="run", sides=[SideInfo(name="head", label="HEAD", sha="b" * 40)])
        events = [e.model_copy(update={"kind": "wrong"}) if isinstance(e, Failure) else e for e in events]
        report = measured(build.of(events), TODAY)
        assert (report.rows[0].status, report.rows[0].reason) == ("wrong", "round 1: illegal memory access")
        assert conditions_met(report, DEFAULT) == ("failed",)

    def test_a_file_or_a_side_that_is_broken(self) -> None:
        assert conditions_met(measured(self.run(Case("a"), broken={"head": {"cases/z.py": "x"}})), DEFAULT) == (
            "failed",
        )
        failed: Any = {"head": {"status": "failed", "error": "no compiler"}}
        assert conditions_met(measured(self.run(Case("a"), prepared=failed)), DEFAULT) == ("failed",)

    @pytest.mark.parametrize(("failed", "status"), [(1, "ok"), (2, "failed")])
    def test_history_keeps_no_time_of_a_row_that_fails(self, failed: int, status: str) -> None:
        results = build.results([case(failed), Case("b")])
        found = {each["case"]: each for each in rows_of(results, "head").rows}
        assert found["a"]["status"] == status
        assert ("ns" in found["a"]) == (status == "ok")
        assert found["b"]["status"] == "ok"
