"""The scripts that measure this project's figures: what of them can be wrong without a GPU."""

from __future__ import annotations

import argparse
import ast
import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.case.discover import load, points_of
from measurements import figures as prove_figures
from measurements.instrument import timers as prove_timers
from measurements.parts import Part

ROOT = Path(__file__).parents[2]
PLANTS = [pytest.param(plant, id=name) for name, plant in prove_figures.PLANTS.items()]

NCU = """==PROF== Connected to process 7 (/usr/bin/python3)
"ID","Process ID","Kernel Name","Block Size","gpu__time_duration.sum"
"","","","block","ns"
"0","7","spin_kernel(long)","(1, 1, 1)","1,504"
"1","7","void add<float, 4>(T1)","(128, 1, 1)","2,016"
"2","7","void ""mul""(T1)","(128, 1, 1)","3008.5"
"3","7","spin_kernel(long)","(1, 1, 1)","1504"
"4","7","void add<float, 4>(T1)","(128, 1, 1)","2000"
==PROF== Disconnected from process 7
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return shutil.copytree(ROOT / "cases", tmp_path / "cases", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_applies_exactly_once(plant: prove_figures.Plant, cases: Path) -> None:
    before = (cases / plant.file).read_text()
    plant.apply(cases)
    assert (cases / plant.file).read_text() == before.replace(plant.old, plant.new) != before
    with pytest.raises(ValueError, match="0 times, not once"):
        plant.apply(cases)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_repeats_a_twentieth_of_the_rows_of_its_own_row_alone(
    plant: prove_figures.Plant, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    shapes: list[tuple[int, ...]] = []

    def recording(function: Callable[..., Any]) -> Callable[..., Any]:
        def record(x: Any, *rest: Any, **more: Any) -> Any:
            shapes.append(tuple(x.shape))
            return function(x, *rest, **more)

        return record

    monkeypatch.setattr(torch, "softmax", recording(torch.softmax))
    monkeypatch.setattr(torch.nn.functional, "rms_norm", recording(torch.nn.functional.rms_norm))
    plant.apply(cases)
    seen = {}
    for point in points_of(load(cases)):
        if point.case.file == plant.file and "pr" in point.case.tags:
            size = point.params.rows, point.params.cols
            run = point.case.function(point.params, "meta").run
            assert run is not None
            assert run().shape == size
            assert shapes == [size, (size[0] // 20, size[1])][: 1 + (point.id == plant.row)]
            seen[point.id] = len(shapes)
            shapes.clear()
    assert sorted(seen.values()) == [1, 2]
    assert seen[plant.row] == 2


def test_the_timed_kernels_are_cases_of_this_project() -> None:
    pytest.importorskip("torch")
    points = {point.id: point for point in points_of(load(ROOT / "cases"))}
    assert all("pr" in points[case].case.tags for case in prove_timers.KERNELS)


def test_kernels_of_nsight_compute_are_summed_by_call() -> None:
    first, second = prove_timers.split_calls(prove_timers.profiled_kernels(NCU), 2)
    assert [kernel.us for kernel in first] == pytest.approx([2.016, 3.0085])
    assert [kernel.us for kernel in second] == pytest.approx([2.0])
    assert first[1].name == 'void "mul"(T1)'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM", "profiled nothing"),
        (NCU.replace('"block","ns"', '"block","cycle"'), "unknown unit 'cycle'"),
    ],
)
def test_output_that_cannot_be_read_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        prove_timers.profiled_kernels(text)


def test_a_call_without_kernels_is_refused() -> None:
    kernels = prove_timers.profiled_kernels(NCU)
    with pytest.raises(ValueError, match="2 calls, 2 of them with kernels, not 3"):
        prove_timers.split_calls(kernels, 3)
    with pytest.raises(ValueError, match="2 calls, 1 of them with kernels, not 2"):
        prove_timers.split_calls(kernels[:4], 2)


def comment(headline: str, *regressed: str) -> str:
    rows = "".join(
        f"| `{case}` | 2 ms | 3 ms | +22.4 % [19.0, 25.9] | 🔴\N{NO-BREAK SPACE}regressed |  |\n" for case in regressed
    )
    return f"<!-- evenbench pr -->\n### ⏱ evenbench: {headline}\n\n{rows}| `linear/b` | 1 | 1 | 0 | unchanged |  |\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (comment("1 regressed, 2 unchanged", prove_figures.DEMO_CASE), ("1 regressed, 2 unchanged", True)),
        (comment("1 regressed, 2 unchanged", "linear/b"), ("1 regressed, 2 unchanged", False)),
        (comment("2 regressed", prove_figures.DEMO_CASE, "linear/b"), ("2 regressed", False)),
        (comment("1 regressed, 1 improved", prove_figures.DEMO_CASE), ("1 regressed, 1 improved", False)),
        ("", ("(no comment)", False)),
    ],
)
def test_the_demo_is_right_only_for_just_the_slowed_case(text: str, expected: tuple[str, bool]) -> None:
    assert prove_figures.demo_outcome(text) == expected


def test_the_slowed_case_is_the_demos() -> None:
    demo = (ROOT / "scripts/demo").read_text()
    name, _, params = prove_figures.DEMO_CASE.rstrip("]").partition("[")
    key, _, value = params.partition("=")
    assert f'@case("{name}", params={{"{key}": [{value}]}}' in demo


def test_wall_times_are_shared_out_over_cases_and_launches() -> None:
    second = 10**9
    events: list[dict[str, Any]] = [{"event": "launch", "launch": 0, "kind": "preparation", "order": []}]
    for launch, wall in ((1, 2), (2, 4), (3, 3)):
        events.append({"event": "launch", "launch": launch, "kind": "timed", "order": [0, 1, 2]})
        end = {"event": "launch_end", "launch": launch, "wall_ns": wall * second, "first_sample_ns": second}
        events.append(end)
    events.append({"event": "launch", "launch": 4, "kind": "timed", "order": [0]})  # cut off
    events.append({"event": "end", "preparation_s": 5.0, "measuring_s": 9.5})
    assert dict(prove_figures.wall_times(events, 15.0)) == {
        "wall time, whole": "15.00 s",
        "preparation": "5.00 s",
        "measuring": "9.50 s",
        "launches": "3 of 3 cases",
        "a launch, median": "3.00 s",
        "a case and launch, the launch's start shared out": "1000.0 ms",
        "a further case of a launch": "1000.0 ms",
        "so 20 cases by 8 rounds take": "320.00 s",
    }


@pytest.mark.parametrize("figure", ["self", "planted", "timers", "host", "start"])
def test_every_figure_has_a_place_in_the_measurements(figure: str) -> None:
    assert callable(prove_figures.parser().parse_args([figure]).figure)
    text = (ROOT / "docs/measurements.md").read_text()
    assert f"scripts/prove {figure}" in text


def started_modules() -> dict[str, set[str]]:
    """The modules of this package that each file names in a string, as `run_part` and `python -m` take them."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "measurements").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        names = {text for text in texts if isinstance(text, str) and text.startswith("measurements.")} - {
            "measurements.md"
        }
        if "tests" not in path.parts and names:
            found[path.stem] = names
    return found


def test_every_module_that_is_started_by_name_is_there() -> None:
    started = started_modules()
    assert {"bias", "figures", "instrument"} <= set(started)
    assert [name for names in started.values() for name in sorted(names) if find_spec(name) is None] == []


@pytest.mark.parametrize(
    ("module", "figure", "part"),
    [("size.files", "load", "write"), ("size.scale", "scale", "measure"), ("verdicts.speed", "judge_speed", "judge")],
)
def test_a_figure_without_a_gpu_starts_its_own_module(
    module: str, figure: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real module, under the name that `python -m` gets, serves the part."""
    name = f"measurements.{module}"
    started: list[tuple[str, str]] = []

    def note(module: str, part: str, *_: object) -> Part:
        started.append((module, part))
        return Part(missing=part)

    loaded = import_module(name)
    monkeypatch.setattr(loaded, "run_part", note)
    getattr(loaded, figure)(argparse.Namespace(out=tmp_path, sizes=[1], without_large=True))
    assert (name, part) in started


@pytest.mark.parametrize(
    "words",
    [["load", "--write"], ["--write", "load"], ["load", "--out", "x", "--write"], ["load", "--out=x"], ["load"]],
)
def test_the_block_of_a_figure_does_not_depend_on_where_files_go(words: list[str]) -> None:
    assert prove_figures.command_of(words) == "scripts/prove load"


def test_options_that_change_a_figure_are_part_of_its_block() -> None:
    words = ["self", "ops/transpose[dtype=float32,n=2048]", "--rounds", "4", "--write"]
    assert prove_figures.command_of(words) == "scripts/prove self 'ops/transpose[dtype=float32,n=2048]' --rounds 4"


def test_a_figure_without_block_is_refused_before_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["prove", "fuzz", "--times", "7", "--write"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("measurements.size.files.hostile", lambda _: pytest.fail("measured"))
    assert prove_figures.main() == 1
    error = capsys.readouterr().err
    assert error.startswith("error: docs/measurements.md has 0 blocks")
    assert error.count("\n") == 1
