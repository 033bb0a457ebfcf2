"""The figures of verdicts that need a GPU: what of them can be wrong without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.case.discover import load, points_of
from measurements import figures as prove_figures
from measurements.verdicts import on_gpu as prove_verdicts_gpu

ROOT = Path(__file__).parents[2]


def test_collecting_draws_as_many_samples_as_a_usual_run() -> None:
    assert prove_verdicts_gpu.counts(8)[2:6] == ["--measure-ms", "100", "--warmup-ms", "25"]
    assert prove_verdicts_gpu.counts(60)[:6] == ["--rounds", "60", "--measure-ms", "750", "--warmup-ms", "187.5"]


def test_the_recorded_cases_are_cases_of_this_project() -> None:
    pytest.importorskip("torch")
    ids = {point.id for point in points_of(load(ROOT / "cases"))}
    assert ids >= set(prove_verdicts_gpu.AA_CASES)
    assert len(set(prove_verdicts_gpu.AA_CASES)) == 12


def test_head_does_more_work_on_equal_inputs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    seen: dict[str, dict[str, tuple[Any, Any]]] = {}
    for side in prove_verdicts_gpu.planted_sides(tmp_path):
        found = load(side / "cases")
        assert not found.broken
        for point in points_of(found):
            bench = point.case.function(point.params, "meta")
            assert bench.run is not None
            assert bench.inputs is not None
            assert bench.reference is not None
            shapes = {name: tuple(value.shape) for name, value in bench.inputs.items()}
            assert bench.reference().shape == bench.run().shape
            seen.setdefault(point.id, {})[side.name] = (shapes, bench.run().shape[0])
    assert len(seen) == 6
    for case, sides in seen.items():
        (base_inputs, base), (head_inputs, head) = sides["base"], sides["head"]
        assert base_inputs == head_inputs
        more = float(case.partition("more=")[2].split(",")[0].rstrip("]"))
        assert head == base + round(base * more) > base
    assert prove_verdicts_gpu.grown([{"event": "measurement", "case": case} for case in seen]) == {
        case: f"{case.partition('more=0.0')[2][0]}% more work" for case in seen
    }


def test_a_hundred_cases() -> None:
    pytest.importorskip("torch")
    found = load(ROOT / prove_verdicts_gpu.HUNDRED)
    points = points_of(found)
    assert not found.broken
    assert len({point.id for point in points}) == len(points) == 100
    for point in points:
        bench = point.case.function(point.params, "meta")
        assert bench.inputs
        assert bench.run is not None
        bench.run()


@pytest.mark.parametrize(
    ("verdicts", "measuring", "good"),
    [
        ({"unchanged": 99, "inconclusive": 1}, 45.0, True),
        ({"unchanged": 99, "improved": 1}, 40.0, False),
        ({"unchanged": 99, "failed": 1}, 40.0, False),
        ({"unchanged": 100}, 45.1, False),
        ({}, 40.0, False),
    ],
)
def test_a_comparison_with_itself_must_flag_nothing_in_time(
    verdicts: dict[str, int], measuring: float, good: bool
) -> None:
    rows = [{"verdict": verdict} for verdict, number in verdicts.items() for _ in range(number)]
    said = {"rows": rows, "shuffled_labels": {"flagged": 3, "rows": 100, "draws": 20}}
    end = {"preparation_s": 60.0, "measuring_s": measuring}
    row, held = prove_verdicts_gpu.aa_row(3, said, end, 120.0)
    assert held is good
    assert len(row) == len(prove_verdicts_gpu.AA_HEAD)
    assert row[0] == 3
    assert row[1] == len(rows)
    assert row[6:] == (3, "60.00 s", f"{measuring:.2f} s", "120.00 s")


@pytest.mark.parametrize("figure", ["verdicts", "judge-speed", "aa", "collect"])
def test_every_figure_has_a_place_in_the_measurements(figure: str) -> None:
    assert callable(prove_figures.parser().parse_args([figure]).figure)
    assert f"    scripts/prove {figure}" in (ROOT / "docs/measurements.md").read_text()
