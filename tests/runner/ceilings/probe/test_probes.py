"""What is probed: kernels that compile, launches that carry what they count, numpy calls that touch what they claim."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evenbench.runner.ceilings.probe import cuda, gemm, kernels
from evenbench.runner.ceilings.probe import host as host_probes
from evenbench.runner.ceilings.probe.benchmarker import Benchmarker, Probe
from evenbench.runner.ceilings.probe.host import HostDevice, free_memory
from evenbench.runner.ceilings.probe.peaks import find
from evenbench.runner.ceilings.probe.probes import PeakTarget, Shape, Unsupported
from evenbench.runner.launchers import probes as process
from evenbench.runner.process.bounded import run_bounded

MIB = 1 << 20

# --------------------------------------------------------------------------------------------------------------- kernels

TEXTS = {
    **{f"compute/{dtype}": (kernels.compute_text(dtype), 80) for dtype in kernels.ARITHMETIC},
    **{
        f"matrix/{dtype}/{what.name}": (kernels.matrix_text(what), what.capability)
        for dtype, known in kernels.MMA.items()
        for what in known
    },
    **{
        f"memory/{way}/{words}": (kernels.memory_text(way, words), 80)
        for way in kernels.MEMORY_WAYS
        for words, _ in cuda.MEMORY_SHAPES
    },
    "launch": (kernels.EMPTY_TEXT, 80),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_kernel_compiles_for_every_device_that_has_it(name: str) -> None:
    core = pytest.importorskip("cuda.core")
    text, least = TEXTS[name]
    for capability in {least, 90}:
        code = cuda.compile_text(core, text, capability).code
        assert kernels.ENTRY.encode() in bytes(code)


def test_an_instruction_that_a_device_lacks_does_not_compile() -> None:
    core = pytest.importorskip("cuda.core")
    (what,) = (what for what in kernels.MMA["float64"] if what.capability == 90)
    with pytest.raises(Exception, match="sm_90"):
        cuda.compile_text(core, kernels.matrix_text(what), 80)


def test_what_one_pass_counts() -> None:
    steps = kernels.CHAINS * kernels.UNROLL
    counted = {dtype: kernels.compute_operations(dtype) // steps for dtype in kernels.ARITHMETIC}
    assert counted == {"float32": 2, "float64": 2, "float16": 4, "bfloat16": 4, "int32": 1}  # halves come in pairs
    for what in itertools.chain(*kernels.MMA.values()):
        assert f"m{what.m}n{what.n}k{what.k}." in what.name
        assert kernels.matrix_operations(what) == kernels.CHAINS * kernels.MATRIX_UNROLL * 2 * what.m * what.n * what.k
        bits = 64 if what.operand == "double" else 32
        assert what.a * kernels.WARP * bits // (what.m * what.k) == what.b * kernels.WARP * bits // (what.n * what.k)
        assert what.d * kernels.WARP == what.m * what.n


@pytest.mark.parametrize("what", [*itertools.chain(*kernels.MMA.values())], ids=lambda what: what.name)
def test_random_operands_are_numbers_of_moderate_size(what: kernels.Mma) -> None:
    words = np.random.default_rng(0).integers(0, 1 << 32, 10_000, np.uint64).astype(np.uint32)
    words = (words & np.uint32(what.mask)) | np.uint32(what.fixed)
    if what.operand == "double":
        values = (words.astype(np.uint64) << 32).view(np.float64)
    elif ".f16." in what.name:
        values = words.view(np.float16).astype(np.float64)
    elif ".bf16." in what.name:
        values = (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    elif ".tf32." in what.name:
        values = words.view(np.float32).astype(np.float64)
    elif ".e4m3." in what.name:
        exponents = words.view(np.uint8) >> 3 & 0xF
        assert set(exponents) == {6}  # ±[0.5, 1)
        return
    else:
        assert len(set(words.view(np.uint8))) == 256
        return
    assert np.isfinite(values).all()
    assert ((np.abs(values) >= 0.5) & (np.abs(values) < 1)).all()
    assert -0.1 < values.mean() < 0.1
    assert len(set(values)) >= 128


# ------------------------------------------------------------------------------------------------- a CUDA device that is none


class FakeTensor:
    addresses = itertools.count(1 << 32, 1 << 30)

    def __init__(self, *shape: int, dtype: str = "", device: str = "") -> None:
        assert device == "cuda"
        self.address, self.shape, self.dtype, self.drawn = next(self.addresses), shape, dtype, False

    def data_ptr(self) -> int:
        return self.address

    def random_(self, low: int, high: int) -> FakeTensor:
        assert (low, high) == (-(1 << 31), (1 << 31) - 1)
        self.drawn = True
        return self

    def t(self) -> FakeTensor:
        return self

    def to(self, dtype: str) -> FakeTensor:
        return self


class FakeGpu:
    """torch and cuda-core as far as the probes use them; every launch is written down."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.launched: list[tuple[Any, tuple[int, ...]]] = []
        self.products: list[str] = []
        self.precision = ""
        self.sweeps = 0
        self.block_limit = 1024
        dtypes = {name: name for name in ("uint8", "int8", "int32", "float16", "bfloat16", "float32", "float64")}
        properties = SimpleNamespace(name="Fake", multi_processor_count=4, major=capability[0], minor=capability[1])

        def randint(low: int, high: int, shape: tuple[int, int], *, device: str, dtype: str) -> FakeTensor:
            assert (low, high, dtype) == (-128, 128, "int8")
            return FakeTensor(*shape, dtype=dtype, device=device)

        def product(name: str) -> Callable[..., None]:
            return lambda *_, **__: self.products.append(name)

        self.torch: Any = SimpleNamespace(
            **dtypes, float8_e4m3fn="float8_e4m3fn", zeros=FakeTensor, empty=FakeTensor, randn=FakeTensor,
            ones=FakeTensor, randint=randint, matmul=product("matmul"), _int_mm=product("int_mm"),
            _scaled_mm=product("scaled_mm"), set_float32_matmul_precision=lambda name: setattr(self, "precision", name),
            cuda=SimpleNamespace(
                is_available=lambda: True, get_device_properties=lambda _: properties, synchronize=lambda: None,
                get_device_capability=lambda: capability, set_stream=lambda _: None,
                Stream=lambda: SimpleNamespace(cuda_stream=7),
            ),
        )  # fmt: skip

        class Program:
            def __init__(self, text: str, language: str, options: Any) -> None:
                assert language == "c++"
                self.text = text

            def compile(self, kind: str) -> Any:
                assert kind == "cubin"
                return SimpleNamespace(get_kernel=lambda name: (name, self.text))

        self.core: Any = SimpleNamespace(
            Device=lambda number: SimpleNamespace(set_current=lambda: None), Program=Program,
            ProgramOptions=lambda **options: options, LaunchConfig=lambda grid, block: (grid, block),
            Stream=SimpleNamespace(from_handle=lambda handle: ("stream", handle)), launch=self._launch,
        )  # fmt: skip

    def sweep(self) -> None:
        self.sweeps += 1

    def _launch(self, stream: object, config: object, kernel: object, *arguments: int) -> None:
        assert stream == ("stream", 7)
        assert isinstance(kernel, FakeKernel)
        assert all(isinstance(argument, int) for argument in arguments)
        self.launched.append((config, arguments))


class FakeKernel:
    def __init__(self, fake: FakeGpu, text: str) -> None:
        self.attributes = SimpleNamespace(max_threads_per_block=fake.block_limit)
        self.text = text


class FakeClock:
    name = "cupti"

    def busy(self, run: Callable[[], object]) -> float:
        run()
        return 0.02

    def each(self, prepare: Callable[[], object], run: Callable[[], object], count: int) -> float:
        for _ in range(count):
            prepare()
            run()
        return 0.02


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeGpu]:
    def install(capability: tuple[int, int] = (9, 0)) -> FakeGpu:
        fake = FakeGpu(capability)
        monkeypatch.setitem(sys.modules, "torch", fake.torch)
        monkeypatch.setattr(cuda, "load_core", lambda: fake.core)
        monkeypatch.setattr(cuda, "_kernel", lambda core, text, capability: FakeKernel(fake, text))
        monkeypatch.setattr(cuda, "ReadSweep", lambda device: fake.sweep)
        monkeypatch.setattr(cuda, "device_clock", lambda *_: FakeClock())
        return fake

    return install


def targets(device: Any) -> dict[str, PeakTarget]:
    return {target.key: target for target in device.targets()}


def test_a_new_device_offers_everything(gpu: Callable[..., FakeGpu]) -> None:
    gpu((9, 0))
    device = cuda.CudaDevice(buffer_bytes=MIB)
    found = targets(device)
    assert all(found[key].shapes() for key in found)
    assert {key for key in found if key.count("/") < 2} == {
        *(f"compute/{dtype}" for dtype in ("float32", "float64", "float16", "bfloat16", "int32")),
        "memory/copy", "memory/read", "memory/write", "launch",
    }  # fmt: skip
    assert device.timing == "cupti"
    assert len(found["matrix/float64/mma"].shapes()) == 2 * len(cuda.MATRIX_GRIDS)


def test_an_older_device_says_what_it_lacks(gpu: Callable[..., FakeGpu]) -> None:
    gpu((8, 0))
    found = targets(cuda.CudaDevice(buffer_bytes=MIB))
    with pytest.raises(Unsupported, match="needs compute capability 8.9, this device has 8.0"):
        found["matrix/float8_e4m3fn/mma"].shapes()
    with pytest.raises(Unsupported, match="no units for float8"):
        found["matrix/float8_e4m3fn/library"].shapes()
    assert len(found["matrix/float64/mma"].shapes()) == len(cuda.MATRIX_GRIDS)


def test_a_compute_kernel_counts_all_lanes(gpu: Callable[..., FakeGpu]) -> None:
    fake = gpu()
    shape = targets(cuda.CudaDevice(buffer_bytes=MIB))["compute/float32"].shapes()[0]
    assert shape.name == "4 × 256 threads"
    assert (
        shape.probe.ops_count == 4 * 4 * 256 * 4 * 32 * 2
    )  # multiprocessors, blocks, lanes, chains, steps, operations
    shape.probe.sample(17)
    (grid, block), (scratch, passes) = fake.launched[-1]
    assert (grid, block, passes) == (16, 256, 17)
    assert scratch


def test_a_matrix_kernel_counts_warps(gpu: Callable[..., FakeGpu]) -> None:
    gpu()
    shape = targets(cuda.CudaDevice(buffer_bytes=MIB))["matrix/bfloat16/mma"].shapes()[0]
    assert shape.name == "m16n8k16, 4 × 128 threads"
    assert shape.probe.ops_count == 4 * 4 * 4 * 4 * 8 * 2 * 16 * 8 * 16


def test_memory_kernels_count_bytes_over_the_interface(gpu: Callable[..., FakeGpu]) -> None:
    fake = gpu()
    found = targets(cuda.CudaDevice(buffer_bytes=MIB))
    counted = {way: found[f"memory/{way}"].shapes()[0].probe.ops_count for way in ("copy", "read", "write")}
    assert counted == {"copy": 2 * MIB, "read": MIB, "write": MIB}
    for way in ("copy", "read", "write"):
        for shape, (each, threads) in zip(found[f"memory/{way}"].shapes(), cuda.MEMORY_SHAPES, strict=True):
            fake.launched.clear()
            shape.probe.sample(3)
            assert len(fake.launched) == 3  # a launch a pass: no lane meets its own words in the cache
            ((blocks, block), (out, source, words)) = fake.launched[-1]
            assert (block, words) == (threads, MIB // 16)
            assert blocks * threads * each == words
            assert abs(out - source) >= MIB


def test_a_block_is_no_larger_than_a_kernels_registers_allow(gpu: Callable[..., FakeGpu]) -> None:
    fake = gpu()
    fake.block_limit = 256
    names = [shape.name for shape in targets(cuda.CudaDevice(buffer_bytes=MIB))["matrix/bfloat16/mma"].shapes()]
    assert names == ["m16n8k16, 4 × 128 threads", "m16n8k16, 2 × 256 threads", "m16n8k16, 4 × 256 threads"]


def test_a_launch_probe_launches_so_often(gpu: Callable[..., FakeGpu]) -> None:
    fake = gpu()
    (shape,) = targets(cuda.CudaDevice(buffer_bytes=MIB))["launch"].shapes()
    shape.probe.sample(5)
    assert fake.launched == [((1, 32), ())] * 5
    assert shape.probe.min_iterations == 1_000


def test_launches_are_timed_before_any_is_recorded(
    gpu: Callable[..., FakeGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu()
    monkeypatch.setattr(cuda, "device_clock", lambda *_: pytest.fail("CUPTI is opened"))
    launch = targets(cuda.CudaDevice(buffer_bytes=MIB))["launch"]
    assert launch.at_once
    assert launch.shapes()[0].probe.sample(5) > 0


def test_windows_walk_through_the_buffers_and_begin_again(gpu: Callable[..., FakeGpu]) -> None:
    fake = gpu()
    device = cuda.CudaDevice(buffer_bytes=MIB)
    assert device.window_cap == 2 * MIB
    for shape in device.window(MIB):
        fake.launched.clear()
        fake.sweeps = 0
        shape.probe.sample(3)
        begins = [arguments[0] for _, arguments in fake.launched]
        assert [begin - begins[0] for begin in begins] == [0, MIB // 2, 0]
        assert {arguments[2:] for _, arguments in fake.launched} == {(MIB // 2 // 16,)}
        assert fake.sweeps == 3  # the cache is cold and clean before each
    small = {config for shape in device.window(8192) for config in [(shape.probe.sample(1), fake.launched[-1][0])[1]]}
    assert small == {(4, 64), (1, 256), (1, 1024)}  # 256 words; four a lane fit into one block as well


def test_data_are_random_unless_zeros_are_asked_for(gpu: Callable[..., FakeGpu]) -> None:
    gpu()
    assert all(buffer.drawn for buffer in cuda.CudaDevice(buffer_bytes=MIB)._buffers)
    assert not any(buffer.drawn for buffer in cuda.CudaDevice(zeros=True, buffer_bytes=MIB)._buffers)


@pytest.mark.parametrize(
    ("dtype", "called", "precision"),
    [
        ("float32", "matmul", "highest"),
        ("tf32", "matmul", "high"),
        ("bfloat16", "matmul", "highest"),
        ("int8", "int_mm", "highest"),
        ("float8_e4m3fn", "scaled_mm", "highest"),
    ],
)
def test_products_of_the_library(gpu: Callable[..., FakeGpu], dtype: str, called: str, precision: str) -> None:
    fake = gpu()
    (shape,) = targets(cuda.CudaDevice(buffer_bytes=MIB))[f"matrix/{dtype}/library"].shapes()
    assert shape.probe.ops_count == 2 * 8192**3
    shape.probe.sample(3)
    assert fake.products == [called] * 3
    assert fake.precision == precision
    assert "8192³" in shape.name
    assert gemm.SIZE == 8192


def test_no_cuda_device_says_so(gpu: Callable[..., FakeGpu], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = gpu()
    fake.torch.cuda.is_available = lambda: False
    with pytest.raises(Unsupported, match="torch sees no CUDA device"):
        cuda.CudaDevice()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Unsupported, match="torch cannot be imported"):
        cuda.CudaDevice()


def test_no_cuda_core_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(Unsupported, match="cuda-core cannot be used") as error:
        cuda.load_core()
    assert "evenbench[cuda]" in error.value.hint


# ------------------------------------------------------------------------------------------------------------------- CPU


@pytest.fixture
def host() -> HostDevice:
    return HostDevice(buffer_bytes=MIB)


def named(device: HostDevice, key: str) -> Sequence[Shape]:
    return targets(device)[key].shapes()


def test_a_copy_copies_everything_with_any_number_of_threads(host: HostDevice) -> None:
    for shape in named(host, "memory/copy"):
        host._out[:] = 0
        assert shape.probe.sample(1) > 0
        assert (host._out == host._source).all()
        assert shape.probe.ops_count == 2 * MIB


def test_a_write_writes_everything(host: HostDevice) -> None:
    for shape in named(host, "memory/write"):
        host._out[:] = 0
        shape.probe.sample(1)
        assert (host._out.reshape(-1, len(host._block)) == host._block).all()
        assert shape.probe.ops_count == MIB


def test_parts_cover_a_place_once(host: HostDevice) -> None:
    block = len(host._block)
    for threads in (1, 2, 3, 5):
        parts = host._parts(slice(block, 8 * block), threads)
        assert len(parts) == threads
        assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
        assert (parts[0].start, parts[-1].stop) == (block, 8 * block)
    assert host._parts(slice(0, 10), 4) == [slice(0, 10)]


def test_windows_of_the_cpu_walk_and_begin_again(host: HostDevice) -> None:
    (shape, *_) = host.window(MIB)
    for steps in (1, 1, 1):
        host._out[:] = 0
        shape.probe.sample(steps)
        copied = host._out == host._source
        assert copied.mean() == pytest.approx(0.5)
    assert copied[0]  # the third is the first again


def test_what_numpy_lacks_is_said(host: HostDevice) -> None:
    with pytest.raises(Unsupported, match="numpy has no bfloat16"):
        named(host, "compute/bfloat16")


def test_buffers_of_the_cpu_are_random_unless_zeros_are_asked_for(host: HostDevice) -> None:
    assert len(np.unique(host._source)) > 0.99 * len(host._source)
    assert not HostDevice(zeros=True, buffer_bytes=MIB)._source.any()


def test_free_memory(tmp_path: Path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:  100 kB\nMemAvailable:   24 kB\n")
    assert free_memory(info) == 24 << 10
    assert free_memory(tmp_path / "none") > 0


class Once(Benchmarker):
    """Runs everything once, for what is not about how well it is measured."""

    def warm(self, probe: Probe) -> int:
        return 1

    def rank(self, probe: Probe, iterations: int) -> tuple[float, int]:
        return self.sample_at(probe, iterations), iterations

    def sample_at(self, probe: Probe, iterations: int) -> float:
        return probe.ops_count / probe.sample(1)


def test_the_whole_of_it_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_probes, "PRODUCT_SIZES", (32, 64))  # on a busy machine BLAS's threads wait for each other
    host = HostDevice(buffer_bytes=MIB // 4)
    told: list[str] = []
    found = find(host, Once(time.perf_counter), told.append, repeats=2)
    assert found.repeats.keys() == {
        "compute/float32", "compute/float64", "compute/int32", "memory/copy", "memory/read", "memory/write", "launch",
    }  # fmt: skip
    assert all(len(repeats) == 2 and min(repeats) > 0 for repeats in found.repeats.values())
    assert found.skipped.keys() == {"compute/float16", "compute/bfloat16", "matrix/float32", "matrix/float64"}
    assert [size for size, _ in found.curve] == [8192 << power for power in range(7)]
    assert told[-1] == "bandwidth of small working sets"


def test_the_process_finds_its_own_package_whatever_the_tree_holds(tmp_path: Path) -> None:
    (tmp_path / "runner.py").write_text("raise SystemExit('another runner')\n")
    finished = run_bounded(
        [sys.executable, "-P", str(process.PROGRAM), "--help"],
        cwd=tmp_path, environment={"PYTHONPATH": str(tmp_path)}, timeout_s=60, keep=10_000,
    )  # fmt: skip
    assert finished.status == 0, finished.errors
    assert b"--zeros" in finished.output


def test_the_process_says_why_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none here')\n")
    finished = run_bounded(
        [sys.executable, "-P", str(process.PROGRAM), "cuda"],
        cwd=tmp_path, environment={"PYTHONPATH": str(tmp_path)}, timeout_s=60, keep=10_000,
    )  # fmt: skip
    assert finished.status == 2
    assert finished.errors.decode().startswith("torch cannot be imported: none here (hint: ")
