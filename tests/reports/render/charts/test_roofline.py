"""The roofline and the bandwidth curve as charts: what stands where, labels that leave each other room, files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.cli.main import main
from evenbench.cli.steps.plot import plot_ceilings
from evenbench.reports.compare.report import measured
from evenbench.reports.render.charts.axes import Axis, log_axis
from evenbench.reports.render.charts.parts import LINE, decades, spread
from evenbench.reports.render.charts.picture import coloured, picture, write_plot
from evenbench.reports.render.charts.roofline import (
    LABEL_WIDTH,
    LABELS,
    ChartPoint,
    bandwidth,
    charted,
    points,
    roofline,
)
from evenbench.reports.rows.outcome import Report
from evenbench.reports.rows.roofline import Peaks, peaks_of
from evenbench.runner.errors import UsageError
from evenbench.runner.records import CeilingsEvent, SideInfo, WorkRecord
from tests import build
from tests.build import CEILINGS, Case

PEAKS = peaks_of(CEILINGS)
NORM = ChartPoint("norm/rms[cols=4096]", "main", "bfloat16", False, 10**9, 10**8, 40_000.0, 0.6)
GEMM = ChartPoint("ops/matmul", "cublas", "bfloat16", True, 10**12, 10**8, 1_500_000.0, 0.8)
COPY = replace(NORM, case="ops/copy", dtype="float32", flops=0)
SIDES = [SideInfo(name="head", label="tree")]
PNG = b"\x89PNG\r\n\x1a\n"


def layers(chart: Mapping[str, Any] | None, mark: str) -> list[Mapping[str, Any]]:
    assert chart is not None
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == mark]


def values(chart: Mapping[str, Any] | None, mark: str) -> list[Mapping[str, Any]]:
    return [value for layer in layers(chart, mark) for value in layer["data"]["values"]]


def labels(chart: Mapping[str, Any] | None) -> list[str]:
    return [value["text"] for value in values(chart, "text")]


def report(*cases: Case, ceilings: CeilingsEvent = CEILINGS, **options: Any) -> Report:
    return measured(build.results(cases, made=1, verb="run", ceilings=[ceilings], **options))


class TestRoofline:
    def test_cases_stand_at_their_rates(self) -> None:
        chart = roofline(PEAKS, [NORM, GEMM, COPY])
        found = {value["name"]: (value["x"], value["y"]) for value in values(chart, "point")}
        assert found == {"norm/rms[cols=4096]": (10.0, 2.5e13), "ops/matmul · cublas": (1e4, pytest.approx(6.6667e14))}
        told = values(chart, "point")[1]
        assert (told["time"], told["rate"], told["ceiling"]) == (
            "1.50 ms",
            "667 TFLOP/s · 66.7 GB/s",
            "80 %",
        )

    def test_a_roof_begins_where_it_meets_that_of_memory(self) -> None:
        found = [layer["data"]["values"] for layer in layers(roofline(PEAKS, [NORM]), "line")]
        starts = {(line[0]["x"], line[0]["y"]) for line in found if line[0]["y"] == line[1]["y"]}
        assert starts == {(15.0, 6e13), (30.0, 1.2e14), (200.0, 8e14)}
        (memory,) = [line for line in found if line[0]["y"] != line[1]["y"]]
        assert memory[1] == {"x": 200.0, "y": 8e14}
        assert memory[0]["y"] / memory[0]["x"] == pytest.approx(4e12, rel=1e-3)

    def test_of_cases_of_a_name_the_one_with_the_largest_work_is_labelled(self) -> None:
        small = replace(NORM, case="norm/rms[cols=1]", moved=10**6, flops=10**7)
        chart = roofline(PEAKS, [small, NORM])
        (label,) = [value for value in values(chart, "text") if value["text"] == "rms"]
        assert (label["x"], label["y"]) == (10.0, 2.5e13)

    def test_roofs_are_named_and_the_ways_to_reach_one_are_not_roofs(self) -> None:
        assert set(labels(roofline(PEAKS, []))) == {
            "bfloat16 matrix 800 TFLOP/s", "bfloat16 compute 120 TFLOP/s", "float32 compute 60.0 TFLOP/s", "memory copy 4.00 TB/s",
        }  # fmt: skip

    def test_integers_do_no_floating_point_operations(self) -> None:
        chart = roofline(Peaks("cpu", "", {"compute/int32": 1.6e13, "matrix/int8": 1.9e15}, ()), [])
        assert labels(chart) == ["int32 compute 16.0 TOP/s", "int8 matrix 1900 TOP/s"]

    def test_without_memory_roofs_alone(self) -> None:
        chart = roofline(Peaks("cpu", "", {"compute/float32": 1e10}, ()), [])
        assert labels(chart) == ["float32 compute 10.0 GFLOP/s"]

    def test_no_roof_no_chart(self) -> None:
        assert roofline(Peaks("cpu", "", {"memory/copy": 1e10, "matrix/x/mma": 1e10}, ()), [NORM]) is None

    def test_a_type_of_the_cases_has_a_colour_and_the_others_none(self) -> None:
        by_text = {
            layer["data"]["values"][0]["text"]: layer["mark"]["color"]
            for layer in layers(roofline(PEAKS, [NORM]), "text")
        }
        assert by_text["bfloat16 matrix 800 TFLOP/s"] == "@tone1"
        assert by_text["float32 compute 60.0 TFLOP/s"] == "@quiet"


class TestBandwidth:
    def test_curve_peaks_and_cases_without_operations_too(self) -> None:
        chart = bandwidth(PEAKS, [NORM, COPY])
        curve = [{"x": size, "y": rate} for size, rate in CEILINGS.curve]
        assert [{**each, "x": pytest.approx(each["x"], rel=1e-4)} for each in curve] in [
            layer["data"]["values"] for layer in layers(chart, "line")
        ]
        assert {value["name"] for value in values(chart, "point")} == {"norm/rms[cols=4096]", "ops/copy"}
        assert {"memory copy 4.00 TB/s", "memory read 4.50 TB/s", "memory write 4.20 TB/s"} < set(labels(chart))

    def test_nothing_known(self) -> None:
        assert bandwidth(Peaks("cpu", "", {"compute/float32": 1e11}, ()), [NORM]) is None

    def test_a_peak_alone(self) -> None:
        assert labels(bandwidth(Peaks("cpu", "", {"memory/read": 1e10}, ()), [])) == ["memory read 10.0 GB/s"]


class TestPoints:
    def test_rows_that_something_binds(self) -> None:
        found = charted(
            report(Case("norm/a"), Case("norm/b", both_case={"work": None}), Case("norm/c", implementations=("x", "y")))
        )
        assert found is not None
        peaks, cases = found
        assert peaks == PEAKS
        assert [(case.case, case.implementation, case.label) for case in cases] == [
            ("norm/a", "main", "a"), ("norm/c", "x", "c · x"), ("norm/c", "y", "c · y"),
        ]  # fmt: skip
        assert [case.moved for case in cases] == [134_217_728] * 3

    def test_none_without_peaks_of_their_device(self) -> None:
        other = CEILINGS.model_copy(update={"uuid": "GPU-2"})
        assert charted(report(Case("norm/a"), ceilings=other)) is None

    def test_what_a_cache_gave_is_left_out(self) -> None:
        cases = [
            Case("norm/a"),
            *(
                Case(f"norm/{name}", head_measurement=how)
                for name, how in (("warm", {"cache": "warm"}), ("batch", {"batch": 9}))
            ),
        ]
        assert [case.case for case in points(report(*cases), PEAKS)] == ["norm/a"]

    def test_only_those_of_the_device(self) -> None:
        assert points(report(Case("norm/a")), replace(PEAKS, uuid="GPU-2")) == []


class TestLabels:
    @given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)), max_size=30))
    def test_labels_on_one_height_are_apart_and_each_name_appears_once(self, work: list[tuple[int, int]]) -> None:
        cases = [
            replace(NORM, case=f"ops/n{index % 9}", flops=flops, moved=moved)
            for index, (flops, moved) in enumerate(work)
        ]
        chart = roofline(Peaks("cpu", "", {"compute/float32": 1e13, "memory/copy": 1e12}, ()), cases)
        assert chart is not None
        (left, right), (bottom, top) = (chart["encoding"][axis]["scale"]["domain"] for axis in "xy")
        x, y = Axis(left, right, 760), Axis(bottom, top, 430, down=True)
        drawn = [value for value in values(chart, "text") if re.fullmatch("n[0-9]", value["text"])]
        assert len({value["text"] for value in drawn}) == len(drawn)
        assert bool(drawn) == bool(cases)
        for one, other in combinations(drawn, 2):
            across = abs(x.at(one["x"]) - x.at(other["x"]))
            assert across > LABEL_WIDTH - 0.1 or abs(y.at(one["y"]) - y.at(other["y"])) > LINE - 0.1

    def test_a_name_too_near_to_that_of_a_larger_case_is_left_out(self) -> None:
        near = replace(NORM, case="norm/near", moved=NORM.moved - 1)
        assert [text for text in labels(roofline(PEAKS, [near, NORM])) if text in {"rms", "near"}] == ["rms"]

    @given(st.lists(st.floats(0, 400), max_size=40))
    def test_names_are_moved_apart_in_their_order(self, positions: list[float]) -> None:
        found = spread(positions, 0, 400)
        step = min(LINE, 400 / max(1, len(positions) - 1))
        ordered = sorted(zip(positions, found, strict=True))
        assert all(
            other - one >= step * (1 - 1e-9) for one, other in zip(sorted(found), sorted(found)[1:], strict=False)
        )
        assert [at for _, at in ordered] == sorted(found) or len(set(positions)) < len(positions)
        assert all(-1e-6 <= at <= 400 + 1e-6 for at in found)

    def test_what_is_apart_stays_where_it_is(self) -> None:
        assert spread([300, 10, 200], 0, 400) == [300, 10, 200]

    @given(st.lists(st.floats(1e-20, 1e24), min_size=1, max_size=6), st.booleans())
    def test_an_axis_holds_its_values(self, found: list[float], down: bool) -> None:
        axis = log_axis(found, 100, after=LABELS, down=down)
        for value in found:
            assert 0 <= axis.at(value) <= 100
            assert axis.value(axis.at(value)) == pytest.approx(value, rel=1e-6)

    def test_few_decades_are_named_by_more_than_their_tens(self) -> None:
        assert decades(Axis(8, 900, 1)) == pytest.approx([10, 20, 50, 100, 200, 500])
        assert decades(Axis(8, 90_000, 1), end=500) == pytest.approx([10, 100])


def hostile() -> Iterator[CeilingsEvent]:
    for rate in (5e-324, 1e-3, 1.0, 1e24):
        for other in (5e-324, 1e24):
            rates = {"compute/float32": rate, "matrix/bfloat16": other, "memory/copy": other, "memory/read": rate}
            yield CEILINGS.model_copy(update={"rates": rates, "curve": [(1, rate), (2**62, other)]})


class TestFiles:
    @pytest.mark.parametrize("ending", [".svg", ".png", ".SVG"])
    def test_by_their_ending(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"roofline{ending}"
        write_plot(path, CEILINGS, [NORM, GEMM, COPY])
        if ending == ".png":
            assert path.read_bytes().startswith(PNG)
            return
        text = path.read_text(encoding="utf-8")
        ET.fromstring(text)
        for said in (
            "NVIDIA H200: measured peaks, 3 rows",
            "rms",
            "matmul · cublas",
            "bfloat16 matrix 800 TFLOP/s",
            "16 MiB",
        ):
            assert said in text

    def test_every_colour_is_one(self) -> None:
        text = json.dumps(picture(PEAKS, [NORM, GEMM, COPY]))
        assert "@" not in text
        assert "#0072b2" in text

    def test_both_charts_give_a_type_the_same_colour(self) -> None:
        def scale(chart: Mapping[str, Any] | None) -> Mapping[str, Any]:
            (layer,) = layers(chart, "point")
            found: Mapping[str, Any] = layer["encoding"]["color"]["scale"]
            return found

        expected = {"domain": ["bfloat16", "float32"], "range": ["@tone1", "@tone2"]}
        cases = [NORM, COPY]  # the copy, of another type, has no place in the roofline
        assert scale(roofline(PEAKS, cases)) == scale(bandwidth(PEAKS, cases)) == expected

    def test_what_is_no_colour_stays(self) -> None:
        assert coloured({"a": ["@ink", "@none", 1, None, "ink"]}, {"ink": "#000000"}) == {
            "a": ["#000000", "@none", 1, None, "ink"]
        }

    def test_another_ending(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"neither \.svg nor \.png.*name it"):
            write_plot(tmp_path / "roofline.pdf", CEILINGS)

    def test_nothing_to_draw(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no peak is known"):
            write_plot(tmp_path / "a.svg", CEILINGS.model_copy(update={"rates": {}, "curve": []}))

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cannot be written: No such file"):
            write_plot(tmp_path / "none" / "a.svg", CEILINGS)

    def test_foreign_names_are_text(self, tmp_path: Path) -> None:
        evil = "<script>x</script>\x1b\u202e&"
        strange = replace(NORM, dtype="@ink<b>", case="norm/a")
        write_plot(tmp_path / "a.svg", CEILINGS.model_copy(update={"device": evil}), [strange])
        text = (tmp_path / "a.svg").read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<b>" not in text
        assert not re.search("[\x1b\u202e]", text)
        ET.fromstring(text)

    def test_hostile_peaks_are_drawn_or_refused(self) -> None:
        odd = [
            replace(NORM, flops=flops, moved=moved, ns=ns)
            for flops in (1, 2**62)
            for moved in (1, 2**62)
            for ns in (1.0, 1e15)
        ]
        for event in hostile():
            peaks = peaks_of(event)
            for cases in ([], odd):
                text = json.dumps([roofline(peaks, cases), bandwidth(peaks, cases)], allow_nan=False)
                assert math.isfinite(len(text))

    def test_the_furthest_apart_are_drawn(self, tmp_path: Path) -> None:
        event = CEILINGS.model_copy(
            update={
                "rates": {"compute/float32": 1.0, "matrix/bfloat16": 1e24, "memory/copy": 1e3},
                "curve": [(1, 1.0), (2**62, 1e24)],
            }
        )
        write_plot(tmp_path / "a.svg", event, [replace(NORM, flops=1, moved=2**62), GEMM])
        ET.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))

    def test_many_cases(self, tmp_path: Path) -> None:
        many = [replace(NORM, case=f"ops/number{n}", flops=10**9 + n * 10**7) for n in range(500)]
        write_plot(tmp_path / "a.svg", CEILINGS, many)
        assert (tmp_path / "a.svg").stat().st_size < 3 << 20


def test_work_record_is_what_is_plotted() -> None:
    claimed = WorkRecord(dtype="torch.float32", flops=4, bytes_read=1, bytes_written=1)
    (case,) = points(report(Case("norm/a", both_case={"work": claimed})), PEAKS)
    assert (case.dtype, case.flops, case.moved, case.matrix) == ("float32", 4, 2, False)


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "run.jsonl"
        path.write_bytes(build.text(build.events([Case("norm/a"), Case("norm/b")], made=1, verb="run", sides=SIDES)))
        return path

    def test_of_results_without_ceilings(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["report", str(file), "--plot", str(file.with_suffix(".svg"))]) == 2
        assert "hold no measured peaks" in capsys.readouterr().err
        assert not file.with_suffix(".svg").exists()

    def test_of_the_device_with_rows_of_results(self, file: Path) -> None:
        plot_ceilings(file.with_suffix(".svg"), CEILINGS, [file])
        assert "measured peaks, 2 rows" in file.with_suffix(".svg").read_text(encoding="utf-8")

    def test_of_another_device(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        plot_ceilings(file.with_suffix(".svg"), CEILINGS.model_copy(update={"uuid": "GPU-2"}), [file])
        assert "can be drawn: it must have run on this device, from a cold cache" in capsys.readouterr().err
        assert "NVIDIA H200: measured peaks<" in file.with_suffix(".svg").read_text(encoding="utf-8")

    def test_beside_a_table(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        events = build.events([Case("norm/a")], made=1, verb="run", sides=SIDES, ceilings=[CEILINGS])
        file.write_bytes(build.text(events))
        assert main(["report", str(file), "--plot", str(file.with_suffix(".png"))]) == 0
        assert "of ceiling" in capsys.readouterr().out
        assert file.with_suffix(".png").read_bytes().startswith(PNG)
