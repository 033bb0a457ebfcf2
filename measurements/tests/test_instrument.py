"""The figures about the instrument: what of them can be wrong without a GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.statistics.location import grouped_median
from measurements import all_gpu as prove_all
from measurements import figures as prove_figures
from measurements import parts
from measurements.instrument import bias as prove_bias
from measurements.instrument import costs as prove_costs
from measurements.instrument import instrument as prove_instrument
from measurements.instrument import launches as prove_launches
from measurements.instrument import peers, spin
from measurements.parts import Part

ROOT = Path(__file__).parents[2]
SPUN = [length + 0.7 for _, length in prove_bias.SPINS]


# -------------------------------------------------------------------------------------------------------------- parts


def test_a_part_that_fails_or_hangs_says_why_and_the_next_goes_on(tmp_path: Path) -> None:
    failing = parts.run_logged(
        [sys.executable, "-c", "print('on the way'); raise SystemExit('no device')"], tmp_path / "a", 60
    )
    assert failing == "ended with code 1: no device"
    assert (tmp_path / "a").read_text() == "on the way\nno device\n"
    hanging = parts.run_logged([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "b", 0.5)
    assert hanging.startswith("took over 0.5 s")
    assert parts.run_logged([sys.executable, "-c", ""], tmp_path / "c", 60) == ""


def test_a_part_answers_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = tmp_path / "answer.json"
    monkeypatch.setattr(sys, "argv", ["module", "one", str(answer)])
    assert parts.serve({"one": lambda: {"median": 1.5}, "other": dict}) == 0
    assert answer.read_text() == '{\n "median": 1.5\n}'


def test_a_part_of_a_module_without_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    part = parts.run_part("measurements.size.files", "ours", tmp_path, 60)
    assert part.found == {}
    assert part.missing == "ours: ended with code 1: KeyError: 'ours'"


# --------------------------------------------------------------------------------------------------------------- bias


@given(st.floats(0.5, 2), st.floats(-5, 25))
def test_the_line_through_readings_is_found_again(slope: float, constant: float) -> None:
    found = prove_bias.fit({float(t): slope * t + constant for t in prove_bias.LENGTHS_US})
    assert found.slope == pytest.approx(slope, abs=1e-9)
    assert found.constant == pytest.approx(constant, abs=1e-7)


@pytest.mark.parametrize(("factor", "straight"), [(1.0, True), (1.004, True), (1.006, False)])
def test_a_slope_half_a_percent_off_is_not_one(factor: float, straight: bool) -> None:
    lines, found = prove_bias.offset_lines(
        {prove_bias.OURS: [us * factor for us in SPUN], "other": [2 * us for us in SPUN]}
    )
    assert found is straight
    assert [line[:2] for line in lines] == [
        ("evenbench", "1 block"), ("evenbench", "full grid"), ("other", "1 block"), ("other", "full grid"),
    ]  # fmt: skip


def test_offsets_are_told_length_by_length() -> None:
    lines, _ = prove_bias.offset_lines({prove_bias.OURS: SPUN})
    assert lines[0] == ("evenbench", "1 block", "+0.70", "+0.70", "+0.70", "+0.70", "1.0000", "+0.70")


def test_without_ours_the_slope_is_not_shown() -> None:
    assert prove_bias.offset_lines({"other": SPUN})[1] is False


@pytest.mark.parametrize(("ours", "close"), [(20.3, True), (20.5, False)])
def test_the_distance_is_taken_after_the_offset_of_each_kernel(ours: float, close: bool) -> None:
    count = len(prove_bias.REAL)
    own = {"spin": {prove_bias.OURS: {"medians": SPUN}}, "read": [ours] * count, "write": [24.0] * count}
    theirs = {
        "spin": {prove_bias.NCU: {"medians": [us + 1 for us in SPUN]}},
        "real": [22.0] * count,
        "kernels": [2] * count,
    }
    lines, found = prove_bias.distance_lines(own, theirs)
    assert found is close
    assert lines[0][3:6] == ("24.00", "22.00", "20.00")
    assert lines[0][7] == "+20.0%"
    assert prove_bias.distance_lines(own, {}) == ([], False)


def test_a_timer_that_gives_nothing_is_told_and_the_others_stay() -> None:
    found = {
        "ours": Part({"how": "PTX", "spin": {prove_bias.OURS: {"medians": SPUN}}}),
        "triton": Part({"spin": {"do_bench": {"missing": "triton.testing is not installed"}}}),
        "ncu": Part(missing="ncu: took over 120 s: "),
    }
    spins, notes = prove_bias.readings_of(found)
    assert list(spins) == [prove_bias.OURS]
    assert notes == [
        "Spinning kernel: PTX.",
        "Without do_bench: triton.testing is not installed",
        "Without ncu: took over 120 s: ",
    ]


def test_the_real_kernels_are_cases_of_this_project() -> None:
    pytest.importorskip("torch")
    from evenbench.runner.case.discover import load, points_of

    known = {point.id for point in points_of(load(ROOT / "cases"))}
    wanted = {*prove_bias.REAL, *prove_launches.REPEAT_CASES, prove_costs.THREE_KERNELS}
    assert wanted <= known
    names = {case_id.partition("[")[0] for case_id in known} | known
    assert set(prove_all.TWENTY_CASES) <= names


def state(number: int, **summaries: str) -> dict[str, Any]:
    return {
        "axis_values": [{"name": "call", "type": "int64", "value": str(number)}],
        "summaries": [
            {"tag": f"nv/cold/time/gpu/{name}", "data": [{"name": "value", "type": "float64", "value": value}]}
            for name, value in summaries.items()
        ],
    }


def test_nvbench_times_are_read_in_the_order_of_the_calls() -> None:
    report: dict[str, Any] = {
        "benchmarks": [{"states": [state(1, mean="5.5e-06"), state(0, mean="9e-06", median="2.5e-06")]}]
    }
    assert peers.nvbench_times(report, 2) == pytest.approx([2.5, 5.5])
    with pytest.raises(ValueError, match="times for 2 of 3 calls"):
        peers.nvbench_times(report, 3)
    report["benchmarks"][0]["states"][0]["summaries"] = None  # a state that was skipped
    with pytest.raises(ValueError, match="times for 1 of 2 calls"):
        peers.nvbench_times(report, 2)


def test_a_peer_that_is_not_there_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MODULES", {"do_bench": "no_such_package.testing"})
    assert peers.ask("do_bench", lambda: 1 / 0) == {"missing": "no_such_package.testing is not installed"}  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(peers, "MODULES", {"do_bench": "json"})
    assert peers.ask("do_bench", lambda: [1 / 0])["missing"].startswith("ZeroDivisionError")  # type: ignore[list-item]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
def test_the_spinning_kernel_assembles(tmp_path: Path) -> None:
    (tmp_path / "spin.ptx").write_bytes(spin.PTX)
    subprocess.run(["ptxas", "-arch", "sm_90", "spin.ptx", "-o", "spin.cubin"], cwd=tmp_path, check=True)
    assert b"spin" in (tmp_path / "spin.cubin").read_bytes()


def test_the_driver_is_called_with_eleven_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    class Function:
        argtypes: tuple[type, ...] = ()

        def __call__(self, *_: object) -> int:
            return 0

    class Driver:
        def __init__(self, _: str) -> None:
            self.cuLaunchKernel = Function()
            self.cuModuleLoadData = self.cuModuleGetFunction = Function()

    monkeypatch.setattr(ctypes, "CDLL", Driver)
    driver, _ = spin._load(b"")
    assert len(driver.cuLaunchKernel.argtypes) == 11


# ----------------------------------------------------------------------------------------------------------- launches


def measurement(case: str, samples: list[int], name: str = "main") -> dict[str, Any]:
    return {"event": "measurement", "case": case, "implementation": name, "device_busy_ns": samples, "tick_ns": 32}


def test_the_spread_between_launches_is_that_of_their_locations() -> None:
    launches = [[3200, 3232, 3264], [3232, 3264, 3296], [3264, 3296, 3296]]
    events = [measurement("b", samples) for samples in launches]
    events += [measurement("a", [1000] * 3), measurement("a", [1000] * 3), measurement("a", [960] * 3, "fast")]
    events.append({"event": "launch"})
    first, second = prove_launches.repeatability(events)
    assert (first.case, first.launches, first.cv) == ("a", 2, 0.0)
    locations = [grouped_median(samples, 32) for samples in launches]
    assert second.location_ns == statistics.median(locations)
    assert second.cv == pytest.approx(statistics.stdev(locations) / statistics.fmean(locations))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Uid:\t10001\t10001\t10001\t10001\nCapEff:\t0000000000000000\nNoNewPrivs:\t1", True),
        ("Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\nNoNewPrivs:\t1", False),
        ("Uid:\t10001\t10001\t10001\t10001\nCapEff:\t00000000a80425fb\nNoNewPrivs:\t0", False),
        ("", False),
    ],
)
def test_a_user_with_capabilities_is_told_apart(status: str, expected: bool) -> None:
    assert prove_launches.is_unprivileged(status) is expected


def test_the_copy_takes_this_repositorys_place_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:/site")
    assert prove_launches.without_root(Path("/copy")) == "/copy:/site"


# -------------------------------------------------------------------------------------------------- cost and the rest


def test_walls_stand_beside_ours() -> None:
    found = {
        "wall": Part({"walls": {"do_bench": 100.0, prove_instrument.OURS: 25.0}}),
        "flashinfer": Part({"missing": "not installed"}),
        "nvbench": Part({"medians": [4.0], "wall_s": 1.25}),
    }
    lines, quick = prove_instrument.wall_lines(found)
    assert quick
    assert lines == [
        ("do_bench", "100.0", "4.0"),
        ("evenbench, 200 samples", "25.0", "1.0"),
        ("nvbench (its defaults)", "1250.0", "50.0"),
        ("flashinfer", "not installed", ""),
    ]
    found["wall"] = Part({"walls": {prove_instrument.OURS: 41.0}})
    assert not prove_instrument.wall_lines(found)[1]
    found["wall"] = Part(missing="no device")
    assert not prove_instrument.wall_lines(found)[1]


def test_the_name_of_ours_is_what_the_part_writes() -> None:
    assert f'"{prove_instrument.OURS}"' in (ROOT / "measurements/instrument/costs.py").read_text()


def test_decoding_counts_all_records_over_the_time_of_reading() -> None:
    decode = Part({"kernels": 100_000, "collect_s": 0.5, "take_s": 0.4, "read_s": 0.2, "records": 300_000})
    span = Part({name: {"host_us": us, "device_us": us + 20} for name, us in (("untraced", 10.0), ("traced", 14.5))})
    lines, quick = prove_instrument.cost_lines(decode, span)
    assert quick
    assert lines[3] == ("records read a second", "1.50 M")
    assert lines[4] == ("a three-kernel call on the host", "10.0 µs, traced +4.5 µs")
    assert prove_instrument.cost_lines(Part(missing="x"), Part(missing="x")) == ([], False)


@pytest.mark.parametrize(
    ("delayed", "steady"), [([50, 10.05, 110.0], True), ([50, 10.2, 110.0], False), ([50, 10.0, 9.0], False)]
)
def test_busy_time_may_move_by_one_percent_while_latency_grows(delayed: list[float], steady: bool) -> None:
    lines, found = prove_instrument.delay_lines({"1024": [[0, 10.0, 12.0], delayed]})
    assert found is steady
    assert len(lines) == 2
    assert prove_instrument.delay_lines({}) == ([], False)


def leaked(**other: Any) -> dict[str, Any]:
    sound = {"kept": 99, "rejected": 1, "asked": 100, "kernels": 198, "retries": 0, "failed": []}
    return sound | {"resident": [100 << 20, 101 << 20]} | other


def test_memory_must_be_flat_and_every_sample_accounted_for() -> None:
    assert prove_instrument.leak_lines(leaked())[1]
    assert not prove_instrument.leak_lines(leaked(resident=[100 << 20, 103 << 20]))[1]
    assert not prove_instrument.leak_lines(leaked(rejected=0))[1]
    assert not prove_instrument.leak_lines(leaked(kept=49, failed=["2 of 50 samples failed validation"]))[1]


def test_a_host_that_is_kept_busy_stays_so() -> None:
    prove_costs.keep_host_busy(0)
    began = time.perf_counter_ns()
    prove_costs.keep_host_busy(200)
    assert time.perf_counter_ns() - began >= 200_000


# ------------------------------------------------------------------------------------------------------ all of them


def test_the_tables_of_a_figure_begin_at_the_line_above_the_first() -> None:
    text = "compare …\nprogress\n\nThe rows.\n\n| a |\n| - |\n| 1 |\n\nWithout x\n"
    assert prove_all.tables_of(text) == "The rows.\n\n| a |\n| - |\n| 1 |\n\nWithout x"
    assert prove_all.tables_of("x" * 9_000 + " error: no device\n").endswith(" error: no device")
    assert len(prove_all.tables_of("x" * 9_000)) == 1_500


def test_every_step_is_a_figure_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    parser = prove_figures.parser()
    for step in prove_all.STEPS.values():
        assert callable(parser.parse_args(list(step.arguments)).figure)
    with pytest.raises(SystemExit, match="no step nothing"):
        prove_all.run_all(tmp_path, ["nothing"])


def test_a_step_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(
        prove_all, "STEPS", {"start": prove_all.Step(("start",), 60), "leak": prove_all.Step(("nothing",), 60)}
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert prove_all.run_all(tmp_path, None) is False
    assert capsys.readouterr().out.count("no results file") == 2  # as it came, and among the tables
    summary = (tmp_path / "all.md").read_text()
    assert re.search(r"\| start \| \d+ s \| ended with code 1 \|\n\| leak \| \d+ s \| ended with code 2 \|", summary)


@pytest.mark.parametrize("figure", sorted(prove_instrument.FIGURES))
def test_every_figure_has_a_place_in_the_measurements(figure: str) -> None:
    assert callable(prove_figures.parser().parse_args([figure]).figure)
    text = (ROOT / "docs/measurements.md").read_text()
    _, command, after = text.partition(f"    scripts/prove {figure}\n")
    assert command or figure == "gpu-all"
    section = after.partition("\n## ")[0]
    assert figure == "gpu-all" or re.search(r"^Date: \d{4}-\d{2}-\d{2}$.*^\|", section, re.MULTILINE | re.DOTALL)


def test_the_table_of_tampering_names_every_test_and_no_other() -> None:
    rows = re.findall(r"^\|.*\| `([a-z_]+)` \|$", (ROOT / "docs/tampering.md").read_text(), re.MULTILINE)
    tests = re.findall(r"^def test_(\w+)\(", (ROOT / "tests/gpu/test_tampering.py").read_text(), re.MULTILINE)
    assert sorted([*rows, "an_honest_case_is_measured"]) == sorted(tests)
