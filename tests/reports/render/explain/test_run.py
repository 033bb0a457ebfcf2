"""What `--explain` says of fabricated runs. `EVENBENCH_UPDATE_GOLDEN=1 pytest tests/reports/render/explain/test_run.py` writes it anew."""

from __future__ import annotations

import os
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.render.explain.histogram import BINS, bars, histogram
from evenbench.reports.render.explain.run import explain
from evenbench.runner.records import KernelRecord, SideInfo
from evenbench.runner.timing.protocol import Segment, merge
from tests import build
from tests.build import Case

GOLDEN = Path(__file__).parents[3] / "golden" / "explain.txt"
UPDATE = os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1"
HOSTILE = "\x1b[2Jboom\u202e [bold]x[/]"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
KERNELS = [
    KernelRecord(name=ADD, grid=(132, 1, 1), block=(256, 1, 1), registers=32, count=40, median_ns=3_140),
    KernelRecord(
        name="rms",
        grid=(4096, 1, 1),
        block=(1024, 1, 1),
        registers=64,
        shared_memory=49_152,
        count=20,
        median_ns=13_700,
    ),
]
TORTURED = {
    "kernels": KERNELS,
    "n_kernels": [3] * 20,
    "uncounted_copy_ns": [2_100] * 20,
    "rejected": [{"index": index, "reason": "a record ends before it starts"} for index in (3, 7)],
    "retries": ["12 records lost, buffer of 1048576 bytes"],
    "stop": "timeout",
}
HOST: dict[str, Any] = {"timing": "host", "n_kernels": None, "kernels": [], "tick_ns": None, "batch": 3}
PROOF = {
    "timer": "cupti",
    "constant_ns": 690.0,
    "slope": 1.0003,
    "spent_ms": 31.5,
    "tick_ns": 32.0,
    "drop_counter": "live",
    "cupti_python": "13.4.0",
    "profiler": None,
}
TELEMETRY = {
    "samples": 12.0,
    "sm_clock_mhz": 1980.0,
    "sm_clock_min_mhz": 1700.0,
    "sm_clock_max_mhz": 1980.0,
    "memory_clock_mhz": 3201.0,
    "power_w": 310.4,
    "temperature_c": 45.0,
    "throttle_reasons": "power cap",
    "memory_used_by_others_mib": 3.0,
    "other_processes": 1.0,
    "ecc_errors": 0.0,
}
CASES = (
    Case("norm/rms[cols=8192]", head_measurement=TORTURED, head_case={"title": "RMS norm over the last axis."}),
    Case("host/sort", head_measurement=HOST, head_case={"device": "cpu", "timer": "host", "work": None, "inputs": []}),
    Case("x/bad", head_case={"status": "failed", "kind": "setup", "reason": HOSTILE, "implementations": []}),
)
HEAD = [SideInfo(name="head", label="feature")]


def explained(*cases: Case, width: int = 110, **options: Any) -> str:
    return explain(build.results(cases, **({"made": 1, "verb": "run", "sides": HEAD} | options)), width)


def line(text: str, label: str) -> str:
    (found,) = re.findall(rf"^  {label} +(.*)$", text, re.MULTILINE)
    return str(found)


def test_the_golden_explanation() -> None:
    text = explained(*CASES, telemetry={"head": TELEMETRY}, launches={"head": {"instrument": PROOF}})
    if UPDATE:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_kernels_come_with_their_share_and_count() -> None:
    text = explained(CASES[0], width=300)
    assert line(text, "kernels") == "3 kernels a call"
    rows = [row.split() for row in text.splitlines() if "×1×1" in row]
    assert [row[:6] for row in rows] == [
        ["1", "13.7", "µs", "68.6", "%", "4096×1×1"],
        ["2", "3.14", "µs", "31.4", "%", "132×1×1"],
    ]
    assert rows[0][6:] == ["1024×1×1", "64", "49,152", "B", "rms"]
    assert " ".join(rows[1][10:]) == ADD


def test_a_kernel_without_a_time_has_no_share() -> None:
    (row,) = [row.split() for row in explained(Case("a")).splitlines() if "132×1×1" in row]
    assert row == ["1", "–", "–", "132×1×1", "256×1×1", "32", "0", "B", "rms_kernel"]


def test_a_number_of_kernels_that_varies_is_told() -> None:
    text = explained(Case("a", head_measurement={"n_kernels": [1] * 18 + [2] * 2}))
    assert line(text, "kernels") == "kernels a call: 1 in 18 samples, 2 in 2 samples"
    text = explained(Case("a", head_measurement={"n_kernels": [1] * 19 + [2]}))
    assert line(text, "kernels") == "kernels a call: 1 in 19 samples, 2 in 1 sample"


@pytest.mark.parametrize(("cpu", "named"), [("AMD EPYC", "AMD EPYC"), ("", "cpu")])
def test_a_case_on_the_host_names_the_cpu_and_not_the_gpu_beside_it(cpu: str, named: str) -> None:
    """Neither where its launches were told of a GPU, nor where they opened one for other cases."""
    for device in ("cpu", "NVIDIA H200"):
        text = explained(CASES[1], launches={"head": {"device": device, "cpu": cpu, "start": "plain"}})
        assert line(text, "device") == f"{named} · 1 launch by a plain start"
        assert "GPU" not in text


def test_gaps_are_what_latency_has_over_busy_time() -> None:
    samples = {"device_busy_ns": [8_000] * 20, "latency_ns": [10_000] * 20}
    text = explained(Case("a", head_measurement=samples), width=200)
    assert line(text, "latency") == (
        "median 10.0 µs from first start to last end; gaps between kernels 2.00 µs, 20.0 % of it, not counted as busy"
    )
    assert line(text, "busy") == "median 8.00 µs · p10 8.00 µs · p90 8.00 µs · 8.00 µs to 8.00 µs"


def test_a_host_timer_says_what_it_can() -> None:
    text = explained(CASES[1], telemetry={"head": TELEMETRY})
    assert line(text, "latency") == "one number a call: this timer sees neither kernels nor gaps nor copies"
    assert "each the mean of 3 calls" in line(text, "samples")
    assert not re.search(r"^  (kernels|copies|clocks|others|rate) ", text, re.MULTILINE)


def test_several_launches_are_pooled_and_each_has_its_location() -> None:
    text = explained(CASES[0], made=3, telemetry={"head": TELEMETRY | {"throttle_reasons": ""}})
    assert len(line(text, "launches").split("µs")) == 4
    assert line(text, "samples").startswith("60 kept, 5 for warm-up in each launch")
    assert "held back by nothing, 36 readings" in line(text, "clocks")
    assert line(text, "rejected").startswith("6 × a record ends before it starts (sample 3, 7, 3, 7, 3, …)")
    assert [row.split()[0] for row in text.splitlines() if "×1×1" in row] == ["1", "2"]


def test_both_sides_of_a_comparison_are_explained() -> None:
    text = explain(build.results([Case("a"), Case("b", base=None)], made=2))
    assert re.findall(r"^\S.*$", text, re.MULTILINE) == ["a on base", "a on head", "b on head"]


def test_throttled_launches_are_labelled_and_stay() -> None:
    held = measured(build.results([Case("a")], made=2, verb="run", sides=HEAD, telemetry={"head": TELEMETRY}))
    assert held.facts.notes == ("clocks were held back in 2 of 2 launches: power cap",)
    assert [row.status for row in held.rows] == ["ok"]
    free = measured(build.results([Case("a")], verb="run", sides=HEAD, telemetry={"head": {"throttle_reasons": ""}}))
    assert free.facts.notes == ()
    both = compare(build.results([Case("a")], telemetry=dict.fromkeys(("base", "head"), TELEMETRY)), date(2026, 11, 29))
    assert both.facts.notes == ("throttling: power cap on base, power cap on head",)


def test_why_nothing_was_seen_of_the_device() -> None:
    note = "nothing was seen of the device: pynvml is not installed"
    assert line(explained(Case("a"), telemetry={"head": {"note": note}}), "clocks") == note
    assert line(explained(Case("a")), "clocks") == "not recorded"


def test_lost_rounds_and_failures_are_told() -> None:
    text = explained(Case("a", dies={"head": {1: "the call raised"}}), made=3)
    assert line(text, "lost") == "round 2: the call raised"
    text = explained(Case("a", dies={"head": {0: "the call raised"}}))
    assert line(text, "failed") == "runtime: the call raised"
    assert explained() == "nothing was measured\n"


def test_foreign_text_moves_no_cursor() -> None:
    text = explained(*CASES)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]x[/]" in text
    assert "\x1b[1m" in explain(build.results(CASES, made=1), colour=True)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_keep_to_the_width(width: int) -> None:
    assert max(map(len, explained(CASES[1], CASES[2], width=width).splitlines())) <= width


NS = st.integers(0, 10**10)


@given(st.lists(NS, min_size=1, max_size=60).map(sorted), st.sampled_from([1, 8, 32, 1024]))
def test_every_sample_falls_into_one_bin(ordered: list[int], tick: int) -> None:
    bins = histogram(ordered, tick)
    assert sum(each.count for each in bins) == len(ordered)
    for each in bins:
        low = -1 if each.low is None else each.low
        high = 10**11 if each.high is None else each.high
        assert each.count == sum(1 for sample in ordered if low <= sample < high)
    inner = [each for each in bins if each.low is not None and each.high is not None]
    assert 1 <= len(inner) <= BINS + 1
    assert len(bins) <= len(inner) + 2
    assert len(bars(ordered, tick)) == (0 if ordered[0] == ordered[-1] else len(bins))


def test_a_far_sample_does_not_squeeze_the_others_into_one_bin() -> None:
    ordered = [*range(20_000, 20_040), 90_000]
    bins = histogram(ordered, 1)
    assert (bins[-1].high, bins[-1].count) == (None, 1)
    assert max(each.count for each in bins) <= 10
    assert bars(ordered, 1)[-1].split() == ["from", "20.072", "µs", "████", "1"]


def test_no_bin_ends_on_the_grid_of_the_time_stamps() -> None:
    assert {each.low % 32 for each in histogram([20_000, 20_032, 20_064], 32) if each.low is not None} == {16}


def test_segments_pool_the_medians_of_a_kernel() -> None:
    def segment(count: int, median_ns: int) -> Segment:
        kernel = {"name": "a", "grid": [1, 1, 1], "count": count, "median_ns": median_ns}
        return Segment([0], [1], [1], [1], [0], kernels=[kernel])

    (kernel,) = merge([segment(10, 100), segment(30, 120)]).kernels
    assert (kernel["count"], kernel["median_ns"]) == (40, 115)
