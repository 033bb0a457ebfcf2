"""What binds a case, and its share: exact times, what takes part, hostile peaks; then what each format shows of it."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import Results
from evenbench.reports.render.comment.comment import comment, run_comment, summary
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.data.rows import rows as exchange_rows
from evenbench.reports.render.explain.row import why
from evenbench.reports.render.explain.run import explain
from evenbench.reports.render.terminal.terminal import run_table, terminal
from evenbench.reports.rows.roofline import (
    TOO_FAST,
    Peaks,
    ceiling_at,
    is_cold,
    needs,
    peaks_for,
    peaks_of,
    share,
    too_fast,
    usable,
)
from evenbench.runner.records import CeilingsEvent, LaunchEvent, SideInfo, WorkRecord
from tests import build
from tests.build import CEILINGS, Case

TODAY = date(2026, 11, 29)
PEAKS = peaks_of(CEILINGS)
LARGE = 1 << 30  # bytes: beyond the curve's end
ANY_NUMBER = st.floats() | st.integers(-10, 10**25)


def peaks(**rates: float) -> Peaks:
    return Peaks("gpu", "GPU-1", {key.replace("_", "/", 1): rate for key, rate in rates.items()}, ())


def work(
    flops: int = 0, read: int = 0, written: int = 0, dtype: str = "bfloat16", *, matrix: bool = False
) -> WorkRecord:
    return WorkRecord(dtype=dtype, flops=flops, bytes_read=read, bytes_written=written, matrix=matrix)


class TestNeeds:
    @pytest.mark.parametrize(
        ("claimed", "resource", "ns"),
        [
            (work(read=LARGE, written=LARGE), ("memory/copy",), 2 * LARGE / 4e12 * 1e9),
            (work(read=LARGE), ("memory/read",), LARGE / 4.5e12 * 1e9),
            (work(written=LARGE), ("memory/write",), LARGE / 4.2e12 * 1e9),
            (work(read=2 * LARGE, written=LARGE), ("memory/copy", "memory/read"), (2 * LARGE / 4e12 + LARGE / 4.5e12) * 1e9),
            (work(read=LARGE, written=3 * LARGE), ("memory/copy", "memory/write"), (2 * LARGE / 4e12 + 2 * LARGE / 4.2e12) * 1e9),
            (work(flops=10**12), ("compute/bfloat16",), 1e12 / 1.2e14 * 1e9),
            (work(flops=10**12, matrix=True), ("matrix/bfloat16",), 1e12 / 8e14 * 1e9),
            (work(flops=10**12, dtype="torch.bfloat16", matrix=True), ("matrix/bfloat16",), 1e12 / 8e14 * 1e9),
            (work(flops=10**12, dtype="float32", matrix=True), ("compute/float32",), 1e12 / 6e13 * 1e9),
        ],
    )  # fmt: skip
    def test_of_one_resource(self, claimed: WorkRecord, resource: tuple[str, ...], ns: float) -> None:
        (found,) = needs(claimed, PEAKS)
        assert found.resource == resource
        assert found.ns == pytest.approx(ns, rel=1e-12)
        assert not found.small

    def test_the_slowest_binds(self) -> None:
        found = needs(work(flops=10**12, read=LARGE, written=LARGE, matrix=True), PEAKS)
        assert [need.resource for need in found] == [("matrix/bfloat16",), ("memory/copy",)]
        assert share(found, found[0].ns * 2) == 0.5
        found = needs(work(flops=10**11, read=LARGE, written=LARGE, matrix=True), PEAKS)
        assert [need.kind for need in found] == ["memory", "arithmetic"]

    def test_either_unit_serves_what_matrix_units_may_do(self) -> None:
        slow = peaks(compute_float32=6e13, matrix_float32=5e13)
        (found,) = needs(work(flops=6 * 10**13, dtype="float32", matrix=True), slow)
        assert found.resource == ("compute/float32",)
        assert [found.rate, found.ns] == pytest.approx([6e13, 1e9])

    def test_launches_bind_nothing(self) -> None:
        """What is timed is when the device is busy, and that it waits for its next launch is not."""
        assert needs(work(flops=1), Peaks("gpu", "", {"launch": 1.0}, ())) == ()

    @pytest.mark.parametrize(
        ("claimed", "known"),
        [
            (work(), PEAKS),
            (work(flops=1, dtype="float8_e4m3fn"), PEAKS),
            (work(flops=1), peaks(matrix_bfloat16=8e14)),  # what matrix units may not do
            (work(read=1), peaks(memory_copy=4e12)),
            (work(read=1, written=1), peaks(memory_read=4e12, memory_write=4e12)),
            (work(read=2, written=1), peaks(memory_copy=4e12)),
        ],
    )
    def test_what_has_no_peak_takes_no_part(self, claimed: WorkRecord, known: Peaks) -> None:
        assert needs(claimed, known) == ()

    def test_hardly_a_byte_written_does_not_turn_reading_into_a_copy(self) -> None:
        """A sum reads all and writes one number: held against a copy's peak it would be impossibly fast."""
        reading, summing = (needs(work(read=LARGE, written=some), PEAKS)[0].ns for some in (0, 4))
        assert summing == pytest.approx(reading, rel=1e-6)

    @pytest.mark.parametrize("size", [1 << 13, 1 << 20, 1 << 24])
    def test_a_small_copy_is_held_against_its_point_of_the_curve(self, size: int) -> None:
        (found,) = needs(work(read=size // 2, written=size // 2), PEAKS)
        assert found.small
        assert found.rate == pytest.approx(dict(CEILINGS.curve)[size], rel=1e-12)
        assert found.ns == pytest.approx(size / dict(CEILINGS.curve)[size] * 1e9, rel=1e-12)

    def test_reading_alone_reaches_as_much_of_its_peak_as_a_copy_of_the_size(self) -> None:
        (found,) = needs(work(read=1 << 20), PEAKS)
        assert found.rate == pytest.approx(4.5e12 * 1e12 / 4e12, rel=1e-12)

    @pytest.mark.parametrize("size", [1 << 27, 1 << 40])
    def test_from_the_end_of_the_curve_on_the_peak_holds(self, size: int) -> None:
        (found,) = needs(work(read=size // 2, written=size // 2), PEAKS)
        assert found.rate == pytest.approx(4e12)
        assert not found.small

    def test_memory_takes_no_part_where_data_may_lie_in_a_cache(self) -> None:
        both = work(flops=10**9, read=LARGE)
        assert [need.kind for need in needs(both, PEAKS)] == ["memory", "arithmetic"]
        assert [need.kind for need in needs(both, PEAKS, cold=False)] == ["arithmetic"]

    @pytest.mark.parametrize(("changes", "cold"), [({}, True), ({"cache": "warm"}, False), ({"batch": 100}, False)])
    def test_which_samples_are_cold(self, changes: dict[str, Any], cold: bool) -> None:
        results = build.results([Case("a", head_measurement=changes)])
        assert is_cold([placed.record for placed in results.measurements["a", "main"]]) is cold

    @pytest.mark.parametrize(("copy", "at"), [(1e24, 5e-324), (5e-324, 1e24)])
    def test_a_curve_that_has_nothing_to_do_with_its_peak_binds_nothing(self, copy: float, at: float) -> None:
        odd = Peaks("gpu", "", {"memory/copy": copy}, ((1, at), (1 << 20, at)))
        assert needs(work(read=8, written=8), odd) == ()

    @given(
        claimed=st.builds(work, *(st.integers(0, 2**62) for _ in range(3)), matrix=st.booleans()),
        rates=st.dictionaries(st.sampled_from(sorted(CEILINGS.rates)), ANY_NUMBER),
        curve=st.lists(st.tuples(st.integers(-5, 2**63), ANY_NUMBER), max_size=5),
        busy=st.floats(allow_nan=False),
    )
    def test_hostile_peaks_give_numbers_or_nothing(
        self, claimed: WorkRecord, rates: dict[str, float], curve: list[tuple[int, float]], busy: float
    ) -> None:
        event = CeilingsEvent.model_construct(device="", uuid="", rates=rates, curve=curve)
        found = needs(claimed, peaks_of(event))
        assert all(usable(need.ns) and usable(need.rate) for need in found)
        assert [need.ns for need in found] == sorted((need.ns for need in found), reverse=True)
        part = share(found, busy)
        assert part is None or (math.isfinite(part) and part >= 0)

    @given(read=st.integers(0, 2**40), written=st.integers(0, 2**40), factor=st.integers(2, 1_000))
    def test_memory_needs_no_less_for_more(self, read: int, written: int, factor: int) -> None:
        flat = Peaks("gpu", "", PEAKS.rates, ())

        def ns(read: int, written: int) -> float:
            return sum(need.ns for need in needs(work(read=read, written=written), flat))

        assert ns(factor * read, factor * written) == pytest.approx(factor * ns(read, written))
        assert ns(read + 1, written) >= ns(read, written) * (1 - 1e-12)
        assert ns(read, written + 1) >= ns(read, written) * (1 - 1e-12)
        slowest, fastest = (read + written) / 4e12 * 1e9, (read + written) / 4.5e12 * 1e9
        assert fastest * (1 - 1e-9) <= ns(read, written) <= slowest * (1 + 1e-9)


class TestCurve:
    CURVE = ((1 << 10, 1.0), (1 << 12, 3.0), (1 << 20, 11.0))

    @pytest.mark.parametrize(
        ("moved", "rate"),
        [(1, 1.0), (1 << 10, 1.0), (1 << 11, 2.0), (1 << 12, 3.0), (1 << 16, 7.0), (1 << 20, 11.0), (1 << 40, 11.0)],
    )
    def test_linear_in_the_logarithm_exact_at_points_clamped_beyond(self, moved: int, rate: float) -> None:
        assert ceiling_at(self.CURVE, moved) == rate

    def test_sizes_that_floats_do_not_tell_apart(self) -> None:
        assert ceiling_at(((1 << 62, 1.0), ((1 << 62) + 200, 3.0)), (1 << 62) + 100) == 3.0

    def test_none_without_points(self) -> None:
        assert ceiling_at((), 1 << 20) is None

    def test_one_point_holds_everywhere(self) -> None:
        assert {ceiling_at(((1 << 20, 5.0),), moved) for moved in (1, 1 << 20, 1 << 30)} == {5.0}

    def test_points_that_are_none_are_dropped_and_the_first_of_two_stays(self) -> None:
        curve = [
            (1 << 20, 5.0),
            (0, 1.0),
            (-4, 1.0),
            (1 << 10, 2.0),
            (1 << 20, 7.0),
            (8, 0.0),
            (9, math.nan),
            (10, math.inf),
        ]
        event = CeilingsEvent.model_construct(device="", uuid="", rates={}, curve=curve)
        assert peaks_of(event).curve == ((1 << 10, 2.0), (1 << 20, 5.0))

    @given(
        curve=st.dictionaries(st.integers(1, 2**63), st.floats(1e-3, 1e24), min_size=1, max_size=8),
        moved=st.integers(1, 2**64),
    )
    def test_between_its_neighbours(self, curve: dict[int, float], moved: int) -> None:
        found = ceiling_at(sorted(curve.items()), moved)
        assert found is not None
        assert min(curve.values()) * (1 - 1e-9) <= found <= max(curve.values()) * (1 + 1e-9)
        for size, rate in curve.items():
            assert ceiling_at(sorted(curve.items()), size) == rate


class TestDevice:
    def launch(self, device: str = "NVIDIA H200", uuid: str = "GPU-1") -> LaunchEvent:
        return LaunchEvent(launch=0, side="head", kind="timed", start="fork", device=device, uuid=uuid)

    def test_a_gpu_is_known_by_its_uuid(self) -> None:
        other = Peaks("NVIDIA H200", "GPU-2", {}, ())
        assert peaks_for(self.launch(), [other]) is None
        assert peaks_for(self.launch(), [PEAKS, other]) is PEAKS

    def test_the_last_statement_on_a_gpu_counts(self) -> None:
        again = Peaks("NVIDIA H200", "GPU-1", {}, ())
        assert peaks_for(self.launch(), [PEAKS, again]) is again

    def test_a_case_on_the_host_is_not_held_against_the_gpu_beside_it(self) -> None:
        host = Peaks("some CPU", "", {}, ())
        assert peaks_for(self.launch("cpu"), [PEAKS]) is None
        assert peaks_for(self.launch("cpu"), [PEAKS, host]) is host
        assert peaks_for(self.launch(), [PEAKS, host], on_host=True) is host  # others of its launch use the GPU
        on_host = build.results(
            [Case("norm/a", both_case={"device": "cpu", "timer": "host"})], ceilings=[CEILINGS], **ONE_SIDE
        )
        found = measured(on_host).rows[0].times
        assert found is not None
        assert found.peaks is None

    def test_of_several_hosts_none(self) -> None:
        one, other = (Peaks("cpu", "", {"memory/copy": rate}, ()) for rate in (1e10, 2e10))
        assert peaks_for(self.launch("cpu", ""), [one, other]) is None
        assert peaks_for(self.launch("cpu", ""), [one, one]) == one


@pytest.mark.parametrize(
    ("part", "error"), [(None, False), (1.0, False), (TOO_FAST, False), (1.0301, True), (2.0, True)]
)
def test_above_three_per_cent_is_an_error(part: float | None, *, error: bool) -> None:
    assert too_fast(part) is error


def test_no_share_of_no_time() -> None:
    assert share(needs(work(flops=1), PEAKS), 0.0) is None
    assert share((), 1.0) is None


# A case of `tests.build` moves 2²⁷ bytes, which takes 33.6 µs at 4 TB/s; so base is at 84 % of the ceiling.
FAST, SLOW, WRONG = 33_554.4, 40_000.0, 17_000.0
ONE_SIDE: dict[str, Any] = {
    "sides": [SideInfo(name="head", label="tree")],
    "verb": "run",
    "made": 1,
    "looks": [1],
    "rounds": 1,
}
SAID = "its work is claimed too large, or the timing is wrong"


def run_of(*cases: Case) -> Results:
    return build.results(cases, ceilings=[CEILINGS], **ONE_SIDE)


def both(*cases: Case, **options: Any) -> Results:
    return build.results(cases, ceilings=[CEILINGS], **options)


class TestShown:
    def test_of_a_run(self) -> None:
        report = measured(run_of(Case("norm/a", head=SLOW)))
        (row,) = report.rows
        assert row.times is not None
        assert row.times.share == pytest.approx(FAST / SLOW, rel=0.01)
        assert "84 %" in run_table(report, 120)
        assert "| of ceiling |" in run_comment(report)
        assert as_json(report)["rows"][0]["times"]["share_of_ceiling"] == row.times.share
        assert exchange_rows(report)[0]["share_of_ceiling"] == row.times.share
        assert row.warnings == ()

    def test_of_each_implementation(self) -> None:
        report = measured(run_of(Case("norm/a", head=SLOW, implementations=("torch", "mine"))))
        assert [row.times.share for row in report.rows if row.times] == pytest.approx([FAST / SLOW] * 2, rel=0.01)

    def test_of_a_comparison_in_what_has_room(self) -> None:
        results = both(Case("norm/a", base=SLOW, head=2 * SLOW), Case("norm/b", base=SLOW, head=SLOW))
        comparison = compare(results, TODAY)
        sides = {row.case: (row.base, row.head) for row in comparison.rows}
        found = {case: [side.share for side in pair if side] for case, pair in sides.items()}
        assert found["norm/a"] == pytest.approx([FAST / SLOW, FAST / SLOW / 2], rel=0.01)
        assert "84 % → 42 %" in terminal(comparison, 160)
        assert "of ceiling, base → head:" in terminal(comparison, 160)
        assert "of ceiling" not in comment(comparison)
        assert "| 84 % → 42 % |" in summary(comparison).replace("\N{NO-BREAK SPACE}", " ")
        assert "| 84 % |" in summary(comparison).replace("\N{NO-BREAK SPACE}", " ")  # once where both are the same
        row = as_json(comparison)["rows"][0]
        assert row["head"]["share_of_ceiling"] == pytest.approx(FAST / SLOW / 2, rel=0.01)

    def test_none_without_ceilings(self) -> None:
        results = build.results([Case("norm/a")])
        comparison = compare(results, TODAY)
        assert as_json(comparison)["rows"][0]["head"]["share_of_ceiling"] is None
        for text in (terminal(comparison, 200), summary(comparison), why(results, comparison, comparison.rows)):
            assert "ceiling" not in text

    def test_explained(self) -> None:
        results = run_of(Case("norm/a", head=SLOW))
        said = " ".join(explain(results, 120).split())
        assert "bound by memory/copy at 4.00 TB/s: at least 33.6 µs, 84 % of the time" in said
        assert "compute/bfloat16 at 120 TFLOP/s: at least 1.12 µs" in said
        results = both(Case("norm/a", base=SLOW, head=2 * SLOW))
        comparison = compare(results, TODAY)
        said = " ".join(why(results, comparison, comparison.rows).split())
        assert "base: bound by memory/copy at 4.00 TB/s: at least 33.6 µs, 84 % of the time" in said
        assert "head: bound by memory/copy at 4.00 TB/s: at least 33.6 µs, 42 % of the time" in said

    @pytest.mark.parametrize(
        ("case", "reason"),
        [
            ({"both_case": {"work": None}}, "none: the case declares no work"),
            ({"both_case": {"work": work(flops=1, dtype="float8_e5m2")}}, "none: no peak was measured for this work"),
            ({"both_case": {"work": work(read=LARGE)}, "head_measurement": {"cache": "warm"}}, "none: its data may lie in a cache, no peak was measured"),
            ({"both_case": {"work": work(flops=1 << 20, read=LARGE)}, "head_measurement": {"cache": "warm"}}, "% of the time · memory takes no part: the data may lie in a cache"),
            ({"both_case": {"work": work(read=1 << 19, written=1 << 19)}, "head": 10_000.0}, "at 1.00 TB/s (what a copy of so few bytes reaches): at least 1.05 µs"),
        ],
    )  # fmt: skip
    def test_explained_why_not(self, case: dict[str, Any], reason: str) -> None:
        assert reason in " ".join(explain(run_of(Case("norm/a", **case)), 200).split())


class TestImpossible:
    def test_in_a_run(self) -> None:
        results = run_of(Case("norm/a", head=SLOW), Case("norm/twice", head=WRONG))
        report = measured(results)
        warnings = {row.case: row.warnings for row in report.rows}
        assert warnings["norm/a"] == ()
        (said,) = warnings["norm/twice"]
        assert said.startswith("share of ceiling 1.9")
        assert said.endswith(f": {SAID}")
        for text in (run_table(report, 120), run_comment(report), explain(results, 120)):
            assert "than 1.03 times the ceiling" in text or SAID in " ".join(text.split())

    def test_in_a_comparison(self) -> None:
        results = both(Case("norm/twice", base=WRONG, head=WRONG / 2), Case("norm/late", base=SLOW, head=WRONG))
        comparison = compare(results, TODAY)
        warnings = {row.case: row.warnings[0] for row in comparison.rows}
        assert warnings["norm/twice"] == f"share of ceiling 1.97 on base, 3.95 on head: {SAID}"
        assert warnings["norm/late"] == f"share of ceiling 1.97 on head: {SAID}"
        for text in (terminal(comparison, 120), comment(comparison), json.dumps(as_json(comparison))):
            assert SAID in " ".join(text.split())
        said = " ".join(why(results, comparison, comparison.rows).split())
        assert "more than 1.03 times the ceiling cannot be" in said

    def test_the_same_on_both_sides_is_said_once(self) -> None:
        comparison = compare(both(Case("norm/twice", base=WRONG, head=WRONG)), TODAY)
        assert f"share of ceiling 1.97 on base and head: {SAID}" in comparison.rows[0].warnings

    @pytest.mark.parametrize(
        ("key", "spread", "doubted"),
        [("memory/copy", 0.11, True), ("memory/copy", 0.1, False), ("memory/write", 3.0, False)],
    )
    def test_a_ceiling_that_varied_is_doubted_too(self, key: str, spread: float, *, doubted: bool) -> None:
        ceilings = CEILINGS.model_copy(update={"spread": {key: (4e12, spread)}})
        results = build.results([Case("norm/twice", head=WRONG)], ceilings=[ceilings], **ONE_SIDE)
        (said,) = measured(results).rows[0].warnings
        assert said.endswith(", or the ceiling is too low: it varied while it was measured") is doubted

    def test_on_a_cpu_better_code_than_numpy_may_do_it(self) -> None:
        on_cpu = {"launches": {"head": {"device": "cpu", "uuid": ""}}}
        ceilings = CEILINGS.model_copy(update={"uuid": ""})
        results = build.results([Case("norm/twice", head=WRONG)], ceilings=[ceilings], **ONE_SIDE, **on_cpu)
        (said,) = measured(results).rows[0].warnings
        assert said.endswith(f": {SAID}, or it does better than numpy, which reached this ceiling")

    def test_an_absurd_one_is_written_short(self) -> None:
        ceilings = CEILINGS.model_copy(update={"rates": {"memory/copy": 1e-290}, "curve": []})
        report = measured(build.results([Case("norm/a")], ceilings=[ceilings], **ONE_SIDE))
        assert report.rows[0].warnings[0].startswith("share of ceiling 7e+302: ")
        assert max(map(len, run_table(report, 200).splitlines())) <= 200

    def test_no_verdict_changes(self) -> None:
        cases = (Case("norm/twice", base=WRONG, head=WRONG * 1.1), Case("norm/b", head=SLOW))
        with_, without = (compare(results, TODAY) for results in (both(*cases), build.results(cases)))
        assert [(row.case, row.verdict, row.change) for row in with_.rows] == [
            (row.case, row.verdict, row.change) for row in without.rows
        ]
