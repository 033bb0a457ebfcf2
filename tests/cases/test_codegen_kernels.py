"""Generated kernels: their texts against the saved copies, compiled by NVRTC, and run on the CPU; the cases themselves."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cases.codegen.cuda_text import cuda_text
from cases.codegen.matmul_nt import Sizes, Tile, matmul_nt
from cases.codegen.nvrtc import compiled, launcher
from cases.codegen.passes import SCHEDULES
from cases.codegen.program import Program
from evenbench.runner.case.discover import PACKAGE, load, points_of
from evenbench.runner.worker.launch.bench import NotMeasured, Opened, open_case
from tests.conftest import ON_CI
from tests.fakes.cuda_on_host import HostKernels

CODEGEN = Path(__file__).parents[2] / "cases" / "codegen"
WORKLOADS: Mapping[str, tuple[Sizes, Tile]] = {
    "dense": (Sizes(i=960, j=2304, k=770), Tile(128, 128, 4)),
    "batch_matmul_nt": (Sizes(i=120, j=120, k=64, batch=192), Tile(128, 128, 8)),
    "all_ragged": (Sizes(i=13, j=9, k=7), Tile(8, 4, 2, rows=4, columns=2)),
    "tile_too_large": (Sizes(i=3, j=5, k=3, batch=2), Tile(8, 8, 4, rows=2, columns=4)),
    "divided": (Sizes(i=16, j=8, k=4, batch=3), Tile(8, 8, 4, rows=2, columns=4)),
}
SAVED = [f"{name}_{schedule}.cu" for name in ("dense", "batch_matmul_nt") for schedule in SCHEDULES]
FIRST: Mapping[str, tuple[int, int, int]] = {"dense": (1, 8, 1), "batch_matmul_nt": (1, 1, 16)}  # all take a minute


def program_of(workload: str, schedule: str) -> Program:
    return SCHEDULES[schedule](matmul_nt(workload, *WORKLOADS[workload]))


def own_name(workload: str, schedule: str) -> str:
    return f"{workload}_{schedule}"


# ------------------------------------------------------------------------------------------------------------ the texts


def test_there_is_a_saved_copy_of_each_text_and_nothing_else() -> None:
    assert sorted(path.name for path in (CODEGEN / "artifacts").iterdir()) == sorted(SAVED)


@pytest.mark.parametrize("name", SAVED)
def test_texts_equal_their_saved_copies(name: str) -> None:
    workload = "dense" if name.startswith("dense") else "batch_matmul_nt"
    schedule = name.removeprefix(f"{workload}_").removesuffix(".cu")
    text = (CODEGEN / "artifacts" / name).read_bytes()
    assert cuda_text(program_of(workload, schedule)).encode("ascii") == text


@pytest.fixture
def nvrtc() -> None:
    """Skips, but fails in CI, where kernels cannot be compiled."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
        (pytest.fail if ON_CI else pytest.skip)("cuda-core is not installed")


@pytest.mark.usefixtures("nvrtc")
def test_a_text_that_does_not_compile_says_where() -> None:
    with pytest.raises(Exception, match=r'\(1\): error: identifier "nothing" is undefined'):
        compiled('extern "C" __global__ void broken() { nothing(); }', "sm_90")


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nvrtc_compiles_every_text(architecture: str) -> None:
    texts = {(CODEGEN / "artifacts" / name).read_text(encoding="ascii") for name in SAVED}
    assert len(texts) == 6  # partitioning leaves two as they are
    for text in texts:
        assert compiled(text, architecture).code.startswith(b"\x7fELF")


@pytest.mark.usefixtures("nvrtc")
def test_a_kernel_is_compiled_for_the_gpu_at_hand_and_launched_on_torchs_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the driver is real: compiler, cache and launch configuration."""
    torch = pytest.importorskip("torch")
    launched: list[Any] = []

    class Device:
        arch = "90"

        def __init__(self, ordinal: int) -> None:
            assert ordinal == 3

        def set_current(self) -> None:
            launched.append("current")

    def compiled_to_names(text: str, architecture: str, cache: Any) -> Any:
        code = compiled(text, architecture, cache)
        return SimpleNamespace(get_kernel=lambda name: (name, code.code[:4]))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("cuda.core.Device", Device)
    monkeypatch.setattr("cuda.core.Stream", SimpleNamespace(from_handle=lambda handle: ("stream", handle)))
    monkeypatch.setattr("cuda.core.launch", lambda *arguments: launched.append(arguments))
    monkeypatch.setattr("cases.codegen.nvrtc.compiled", compiled_to_names)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=17))
    arrays = [SimpleNamespace(device=torch.device("cuda:3"), data_ptr=lambda at=at: at) for at in (100, 200, 300)]
    program = program_of("divided", "baseline")
    launcher(program, cuda_text(program), arrays)()
    assert launched[0] == "current"
    ((stream, configuration, kernel, *addresses),) = launched[1:]
    assert stream == ("stream", 17)
    assert (tuple(configuration.grid), tuple(configuration.block)) == ((1, 2, 3), (8, 1, 1))
    assert kernel == ("divided", b"\x7fELF")
    assert addresses == [100, 200, 300]
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes().startswith(b"\x7fELF")]


# -------------------------------------------------------------------------------------------------------- on the CPU


@pytest.fixture(scope="module")
def compiler(tool: Callable[[str], str]) -> str:
    return tool("g++")


@pytest.fixture(scope="module")
def kernels(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> HostKernels:
    """All schedules of all workloads. Each kernel has a name of its own, which is all that differs from its text."""
    programs = [
        replace(program_of(workload, schedule), name=own_name(workload, schedule))
        for workload in WORKLOADS
        for schedule in SCHEDULES
    ]
    return HostKernels(compiler, map(cuda_text, programs), tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_kernels_compute_the_product(workload: str, schedule: str, kernels: HostKernels) -> None:
    sizes, _ = WORKLOADS[workload]
    blocks = FIRST.get(workload)
    x, w, product = inputs(sizes)
    y = kernels.run(replace(program_of(workload, schedule), name=own_name(workload, schedule)), x, w, blocks)
    there = ~np.isnan(y)
    assert there.sum() == {"dense": 960 * 128, "batch_matmul_nt": 16 * 120 * 120}.get(workload, y.size)
    np.testing.assert_allclose(y[there], product[there], rtol=1e-3, atol=1e-5)


# What is forgotten, in which schedule, and the text with it and without.
BROKEN: Mapping[str, tuple[str, str, str]] = {
    "barrier before compute": ("baseline", "__syncthreads();\n        // compute", "// compute"),
    "barrier after compute": ("baseline", "        __syncthreads();\n    }\n", "    }\n"),
    "predicate of fetch": ("local_padding", " && k_tile * 2 + column < 7 ? X", " ? X"),
    "predicate of compute": ("baseline", " && k_tile * 2 + kk < 7", ""),
    "predicate of write-back": (
        "baseline",
        "i_tile * 8 + ii * 4 + thread / 2 < 13 && j_tile * 4 + jj * 2 + thread % 2 < 9) {\n                Y",
        "j_tile * 4 + jj * 2 + thread % 2 < 9) {\n                Y",
    ),
    "thread that waits": ("baseline", "__syncthreads();\n        // compute", "if (thread) __syncthreads();"),
}


@pytest.fixture(scope="module")
def broken_kernels(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> HostKernels:
    texts = []
    for what, (schedule, there, left) in BROKEN.items():
        text = cuda_text(replace(program_of("all_ragged", schedule), name=what.replace(" ", "_").replace("-", "_")))
        assert text.count(there) == 1, what
        texts.append(text.replace(there, left))
    return HostKernels(compiler, texts, tmp_path_factory.mktemp("broken"))


@pytest.mark.parametrize("what", BROKEN)
def test_the_cpu_notices_a_kernel_that_is_wrong(what: str, broken_kernels: HostKernels) -> None:
    name = what.replace(" ", "_").replace("-", "_")
    x, w, product = inputs(WORKLOADS["all_ragged"][0])
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(
            broken_kernels.run(replace(program_of("all_ragged", "baseline"), name=name), x, w), product, rtol=1e-3
        )


def inputs(sizes: Sizes) -> tuple[Any, Any, Any]:
    """X, W, and their product."""
    random = np.random.default_rng(0)
    batch = (sizes.batch,) if sizes.batch else ()
    x, w = (random.uniform(-0.1, 0.1, (*batch, rows, sizes.k)).astype(np.float32) for rows in (sizes.i, sizes.j))
    return x, w, x.astype(np.float64) @ np.swapaxes(w, -1, -2).astype(np.float64)


# ------------------------------------------------------------------------------------------------------------ the cases


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[str, Opened]]:
    pytest.importorskip("torch")
    found = [point for point in points_of(load(CODEGEN.parent)) if point.case.file.startswith("codegen/")]
    yield {point.case.name: open_case(point, "cpu") for point in found}
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "flops", "read", "written"),
    [
        ("dense", 2 * 16 * 60 * 770 * 2304, 4 * 770 * (960 + 2304), 4 * 960 * 2304),
        ("batch_matmul_nt", 2 * 16 * 120 * 120 * 768, 2 * 4 * 192 * 120 * 64, 4 * 192 * 120 * 120),
    ],
)
def test_the_cases_are_the_published_workloads(
    name: str, flops: int, read: int, written: int, cases: Mapping[str, Opened]
) -> None:
    assert set(cases) == {"codegen/dense", "codegen/batch_matmul_nt"}
    opened = cases[f"codegen/{name}"]
    case, work = opened.point.case, opened.bench.work
    assert (case.rtol, case.atol, case.tags) == (1e-3, 1e-3, frozenset({"codegen"}))
    assert work is not None
    assert (work.dtype, work.flops, work.bytes_read, work.bytes_written) == ("float32", flops, read, written)
    assert not work.matrix
    assert opened.names == [*SCHEDULES, "vendor"]
    assert opened.bench.artifacts == {
        saved: (CODEGEN / "artifacts" / saved).read_text(encoding="ascii") for saved in SAVED if saved.startswith(name)
    }
    for values in (opened.bench.inputs or {}).values():
        assert 0.099 < values.abs().max() <= 0.1
        assert abs(values.mean()) < 1e-3


@pytest.mark.parametrize("name", ["dense", "batch_matmul_nt"])
def test_without_a_gpu_the_vendor_is_measured_alone(name: str, cases: Mapping[str, Opened]) -> None:
    opened = cases[f"codegen/{name}"]
    assert opened.bench.baseline == "vendor"
    opened.checked_call(opened.make("vendor"), opened.reference(), opened.inputs_checksum())
    for schedule in SCHEDULES:
        with pytest.raises(NotMeasured, match="for NVIDIA GPUs only|requires cuda.core, which is not installed"):
            opened.make(schedule)
