"""The CUDA device as a probed one: kernels compiled by NVRTC through cuda-core, matrix products of torch's libraries."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ...timing.cache import ReadSweep
from ...timing.cupti.timer import CuptiTimer
from . import kernels
from .benchmarker import Probe
from .clocks import LaunchClock, WallClock, device_clock, repeated
from .gemm import GEMM_DTYPES, GEMM_REST_S, gemm_shapes
from .probes import BUFFER_BYTES, PeakTarget, Shape, Unsupported

GRIDS: Sequence[tuple[int, int]] = (
    (256, 4),
    (256, 8),
    (512, 4),
    (1024, 2),
)  # threads, blocks a multiprocessor: 1,024 or
# 2,048 lanes each, which is as many as it holds
MATRIX_GRIDS: Sequence[tuple[int, int]] = ((128, 4), (256, 2), (256, 4), (512, 2))  # fewer: they need more registers
MEMORY_SHAPES: Sequence[tuple[int, int]] = ((1, 256), (1, 512), (4, 512), (8, 512))  # words a lane, threads: copies
# are fastest with one word, reads with eight
WINDOW_SHAPES: Sequence[tuple[int, int]] = ((1, 64), (1, 256), (1, 1024), (4, 256))  # few words a window: small blocks
# spread them over more multiprocessors
SCRATCH_BYTES_A_VALUE = 8  # the widest
LAUNCHES_LEAST = 1_000  # of empty kernels: gaps need many


def load_core() -> ModuleType:
    """cuda-core. Raises Unsupported."""
    try:
        return importlib.import_module("cuda.core")
    except (ImportError, OSError, RuntimeError) as error:
        raise Unsupported(f"cuda-core cannot be used: {error}", "pip install 'evenbench[cuda]'") from error


def compile_text(core: ModuleType, text: str, capability: int) -> Any:
    """CUDA C++ → machine code for a device of this compute capability, times ten."""
    options = core.ProgramOptions(std="c++17", arch=f"sm_{capability}")
    return core.Program(text, "c++", options).compile("cubin")


@dataclass(frozen=True)
class _Grid:
    blocks: int
    threads: int

    @property
    def lanes(self) -> int:
        return self.blocks * self.threads


class CudaDevice:
    """See `probes.Device`: the CUDA device that is torch's current one.

    Args:
        zeros: constant data instead of random ones, to show what that would pretend.
        buffer_bytes: of each of the two buffers.

    Raises:
        Unsupported: torch or cuda-core cannot be used here.
    """

    def __init__(self, *, zeros: bool = False, buffer_bytes: int = BUFFER_BYTES) -> None:
        try:
            import torch
        except ImportError as error:
            raise Unsupported(f"torch cannot be imported: {error}", "pip install 'evenbench[cuda]'") from error

        if not torch.cuda.is_available():
            raise Unsupported("torch sees no CUDA device", "evenbench doctor says what this machine lacks")
        self._zeros = zeros
        self._core = load_core()
        properties = torch.cuda.get_device_properties(0)
        self.name = str(properties.name)
        self._processors = int(properties.multi_processor_count)
        self._capability = properties.major * 10 + properties.minor
        self._core.Device(0).set_current()
        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)  # for good: this process does nothing else
        self._torch_stream = stream  # owns what cuda-core only borrows
        self._stream = self._core.Stream.from_handle(stream.cuda_stream)
        self.window_cap = 2 * buffer_bytes
        self._words = buffer_bytes // kernels.WORD_BYTES
        self._buffers = [self._filled(buffer_bytes) for _ in range(2)]
        self._sweep = ReadSweep("cuda")
        self._wall = WallClock(torch.cuda.synchronize)

    @functools.cached_property
    def _clock(self) -> LaunchClock:
        """Opened when first used: from then on every launch is recorded, which makes it slower on the host."""
        import torch

        return device_clock(CuptiTimer, torch.cuda.synchronize)

    @property
    def timing(self) -> str:
        """See `probes.Device`."""
        return self._clock.name

    def targets(self) -> Sequence[PeakTarget]:
        """See `probes.Device`."""
        return (
            *(PeakTarget(f"compute/{dtype}", functools.partial(self._compute, dtype)) for dtype in kernels.ARITHMETIC),
            *(PeakTarget(f"matrix/{dtype}/mma", functools.partial(self._matrix, dtype)) for dtype in kernels.MMA),
            *(
                PeakTarget(f"matrix/{dtype}/library", functools.partial(self._library, dtype), GEMM_REST_S)
                for dtype in GEMM_DTYPES
            ),
            *(PeakTarget(f"memory/{way}", functools.partial(self._memory, way)) for way in kernels.MEMORY_WAYS),
            PeakTarget("launch", self._launch, at_once=True),
        )

    def window(self, nbytes: int) -> Sequence[Shape]:
        """See `probes.Device`: every copy is a launch, of a window that moves on through the buffers.

        Before each the cache is swept by reading, as before the sample of a case: what the last copy wrote need not
        leave the cache first, and a small copy's own writes may stay there.
        """
        words = nbytes // 2 // kernels.WORD_BYTES
        return [
            Shape(_moving(each, threads), Probe(self._walk(*self._mover("copy", each, threads, words), words), nbytes))
            for each, threads in WINDOW_SHAPES
        ]

    def _compute(self, dtype: str) -> Sequence[Shape]:
        kernel = self._kernel(kernels.compute_text(dtype))
        operations = kernels.compute_operations(dtype)
        return [
            Shape(self._called(grid), Probe(self._passes(kernel, grid, kernels.CHAINS), operations * grid.lanes))
            for grid in self._grids(GRIDS)
        ]

    def _matrix(self, dtype: str) -> Sequence[Shape]:
        fitting = [what for what in kernels.MMA[dtype] if what.capability <= self._capability]
        if not fitting:
            least = min(what.capability for what in kernels.MMA[dtype])
            raise Unsupported(
                f"mma.sync needs compute capability {least / 10}, this device has {self._capability / 10}"
            )
        return [shape for what in fitting for shape in self._matrix_shapes(what)]

    def _matrix_shapes(self, what: kernels.Mma) -> Sequence[Shape]:
        kernel = self._kernel(kernels.matrix_text(what))
        most = _block_limit(kernel)
        operations = kernels.matrix_operations(what)
        return [
            Shape(
                f"{what.name.split('.')[0]}, {self._called(grid)}",
                Probe(self._passes(kernel, grid, kernels.CHAINS * what.d), operations * grid.lanes // kernels.WARP),
            )
            for grid in self._grids(MATRIX_GRIDS)
            if grid.threads <= most  # a lane that holds many registers leaves room for fewer
        ]

    def _library(self, dtype: str) -> Sequence[Shape]:
        return gemm_shapes(dtype, self._clock.busy, zeros=self._zeros)

    def _memory(self, way: str) -> Sequence[Shape]:
        moved = self._words * kernels.WORD_BYTES * (2 if way == "copy" else 1)
        out, source = (buffer.data_ptr() for buffer in self._buffers)

        def sample(each: int, threads: int) -> Callable[[int], float]:
            start = self._starter(*self._mover(way, each, threads, self._words))
            return lambda passes: self._clock.busy(repeated(lambda: start(out, source, self._words), passes))

        return [Shape(_moving(*shape), Probe(sample(*shape), moved)) for shape in MEMORY_SHAPES]

    def _mover(self, way: str, each: int, threads: int, words: int) -> tuple[Any, _Grid]:
        """A kernel that moves so many words, and its grid: each lane has its share."""
        return self._kernel(kernels.memory_text(way, each)), _Grid(math.ceil(words / (each * threads)), threads)

    def _launch(self) -> Sequence[Shape]:
        start = self._starter(self._kernel(kernels.EMPTY_TEXT), _Grid(1, kernels.WARP))
        probe = Probe(lambda count: self._wall.busy(repeated(start, count)), 1, LAUNCHES_LEAST)
        return [Shape("empty kernel, one warp", probe)]

    def _passes(self, kernel: Any, grid: _Grid, values: int) -> Callable[[int], float]:
        """Samples of a kernel that takes a place for `values` results a lane, and how often to repeat its body."""
        import torch

        scratch = torch.empty(grid.lanes * values * SCRATCH_BYTES_A_VALUE, dtype=torch.uint8, device="cuda")
        start = self._starter(kernel, grid)
        return lambda passes: self._clock.busy(lambda: start(scratch.data_ptr(), passes))

    def _walk(self, kernel: Any, grid: _Grid, words: int) -> Callable[[int], float]:
        out, source = (buffer.data_ptr() for buffer in self._buffers)
        start = self._starter(kernel, grid)
        steps = max(1, self._words // words)
        step = 0

        def run() -> None:
            nonlocal step
            offset = step % steps * words * kernels.WORD_BYTES
            start(out + offset, source + offset, words)
            step += 1

        return lambda count: self._clock.each(self._sweep, run, count)

    def _starter(self, kernel: Any, grid: _Grid) -> Callable[..., None]:
        """Starts a kernel with the arguments that it is given; integers are 64 bits wide, as addresses are."""
        config = self._core.LaunchConfig(grid=grid.blocks, block=grid.threads)
        return functools.partial(self._core.launch, self._stream, config, kernel)

    def _kernel(self, text: str) -> Any:
        return _kernel(self._core, text, self._capability)

    def _grids(self, shapes: Sequence[tuple[int, int]]) -> Sequence[_Grid]:
        return [_Grid(blocks * self._processors, threads) for threads, blocks in shapes]

    def _called(self, grid: _Grid) -> str:
        return f"{grid.blocks // self._processors} × {grid.threads} threads"

    def _filled(self, nbytes: int) -> Any:
        """A buffer whose pages are all there: untouched ones would share one page of zeros."""
        import torch

        buffer = torch.zeros(nbytes // 4, dtype=torch.int32, device="cuda")
        return buffer if self._zeros else buffer.random_(-(1 << 31), (1 << 31) - 1)


def _moving(words: int, threads: int) -> str:
    return f"{words} × 16 B a lane, {threads} threads"


def _block_limit(kernel: Any) -> int:
    """The most threads that a block of this kernel can have. A method of cuda-core's up to 1.1, a property since."""
    limit = kernel.attributes.max_threads_per_block
    return int(limit() if callable(limit) else limit)


@functools.cache
def _kernel(core: ModuleType, text: str, capability: int) -> Any:
    return compile_text(core, text, capability).get_kernel(kernels.ENTRY)
