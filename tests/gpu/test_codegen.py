"""The generated kernels on a real device: compiled, launched on torch's stream, right, and seen by the timer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cases.codegen.cuda_text import cuda_text
from cases.codegen.matmul_nt import Sizes, Tile, matmul_nt
from cases.codegen.nvrtc import can_launch, launcher
from cases.codegen.passes import SCHEDULES
from evenbench import bench_kernel
from evenbench.runner.case.check import checksum, poison, unwritten
from evenbench.runner.case.discover import PACKAGE, load, points_of
from evenbench.runner.worker.launch.bench import Opened, open_case

pytestmark = pytest.mark.gpu

CASES = Path(__file__).parents[2] / "cases"
NAMES = ("codegen/dense", "codegen/batch_matmul_nt")


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


@pytest.fixture(scope="module")
def cases() -> Iterator[Mapping[str, Opened]]:
    assert can_launch("cuda"), "cuda-core is not installed (hint: the extra `cuda`)"
    found = [point for point in points_of(load(CASES)) if point.case.file.startswith("codegen/")]
    yield {point.case.name: open_case(point, "cuda") for point in found}
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cuda-core keeps compiled kernels, as in a launch: a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("implementation", [*SCHEDULES, "vendor"])
@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_equals_the_vendors(
    name: str, implementation: str, cases: Mapping[str, Opened], torch: Any
) -> None:
    opened = cases[name]
    assert opened.bench.baseline == "baseline"
    opened.checked_call(opened.make(implementation), opened.reference(), opened.inputs_checksum())
    assert opened.bench.inputs is not None
    assert opened.bench.outputs is not None
    exact = opened.bench.inputs["x"].double() @ opened.bench.inputs["w"].double().mT
    torch.testing.assert_close(opened.bench.outputs["y"].double(), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_schedules_differ_in_time_alone(name: str, cases: Mapping[str, Opened]) -> None:
    """Each sums in the same order, zeros included, so that their results are equal to the bit."""
    opened = cases[name]
    found = set()
    for schedule in SCHEDULES:
        poison(opened.bench.outputs)
        opened.make(schedule).call()
        assert unwritten(opened.bench.outputs) == []
        found.add(checksum(dict(opened.bench.outputs or {})))
    assert len(found) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_timer_sees_one_kernel_a_call(name: str, cases: Mapping[str, Opened]) -> None:
    opened = cases[name]
    for schedule in SCHEDULES:
        timing = bench_kernel(opened.make(schedule).call)
        assert (timing.timer, timing.n_kernels) == ("cupti", 1)
        assert timing.median_ns > 0


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        (Sizes(i=13, j=9, k=7), Tile(16, 16, 16)),
        (Sizes(i=130, j=257, k=33, batch=3), Tile(64, 64, 4)),
        (Sizes(i=128, j=128, k=16), Tile(64, 64, 8)),
        (Sizes(i=1, j=1, k=1, batch=2), Tile(32, 32, 8)),
    ],
    ids=str,
)
def test_other_sizes_are_right_too(sizes: Sizes, tile: Tile, schedule: str, torch: Any) -> None:
    program = SCHEDULES[schedule](matmul_nt("other", sizes, tile))
    x, w, y = (torch.rand(buffer.shape, device="cuda") - 0.5 for buffer in program.buffers if buffer.memory == "global")
    launcher(program, cuda_text(program), (x, w, y))()
    torch.testing.assert_close(y.double(), x.double() @ w.double().mT, rtol=1e-4, atol=1e-5)


def test_kernels_run_on_torchs_current_stream(torch: Any) -> None:
    """Behind a long kernel on another stream: only there does the result come after it."""
    program = SCHEDULES["local_padding"](matmul_nt("streamed", Sizes(i=64, j=64, k=8), Tile(64, 64, 8)))
    x, w, y = (torch.zeros(buffer.shape, device="cuda") for buffer in program.buffers if buffer.memory == "global")
    run = launcher(program, cuda_text(program), (x, w, y))
    run()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(1)
        w.fill_(1)
        run()
    stream.synchronize()
    assert y.unique().tolist() == [8]


def test_a_launch_does_not_compile_again(own_cache: Path, torch: Any) -> None:
    program = SCHEDULES["baseline"](matmul_nt("kept", Sizes(i=64, j=64, k=8), Tile(64, 64, 8)))
    arrays = [torch.zeros(buffer.shape, device="cuda") for buffer in program.buffers if buffer.memory == "global"]
    for _ in range(2):
        launcher(program, cuda_text(program), arrays)
    kept = [path for path in own_cache.rglob("*") if path.is_file() and path.read_bytes().startswith(b"\x7fELF")]
    assert len(kept) == 1
