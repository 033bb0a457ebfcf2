"""The CPU as a probed device, by numpy: what its BLAS and its loops reach, on one thread or on all of this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .benchmarker import Probe
from .clocks import WallClock
from .probes import BUFFER_BYTES, PeakTarget, Shape, Unsupported

PRODUCT_SIZES = (256, 512, 1024, 2048)  # BLAS is fastest at one that depends on the caches
VECTOR_SIZES = (1 << 14, 1 << 16, 1 << 18)  # values of an array that stays in a cache
BLOCK_BYTES = 64 << 10  # of the random block that is written again and again: it stays in a cache
SHARED_BYTES = 1 << 20  # windows from here on are also copied by all threads: a smaller one is done before they wake
MEMORY_SHARE = 8  # of what is free, for one of the two buffers: a small machine must not swap
PAGE = 4096
WORD_BYTES = 8
SEED = 0
PLAIN = "as compute: a CPU multiplies matrices by its plain units"
SKIPPED: Mapping[str, str] = {
    "compute/float16": "numpy computes float16 by way of float32",
    "compute/bfloat16": "numpy has no bfloat16",
    "matrix/float32": PLAIN,
    "matrix/float64": PLAIN,
}

Task = Callable[[], object]


class HostDevice:
    """See `probes.Device`.

    Args:
        zeros: constant data instead of random ones.
        buffer_bytes: of each of two buffers; by default less where little memory is free.
    """

    def __init__(self, *, zeros: bool = False, buffer_bytes: int | None = None) -> None:
        import numpy as np

        self._np = np
        self._clock = WallClock()
        self.timing = self._clock.name
        self._threads = len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self._threads)
        nbytes = buffer_bytes or min(BUFFER_BYTES, free_memory() // MEMORY_SHARE // PAGE * PAGE)
        self.window_cap = 2 * nbytes
        self._random = np.random.default_rng(SEED)
        self._source, self._out = (self._words(nbytes, zeros=zeros) for _ in range(2))
        self._block = self._words(BLOCK_BYTES, zeros=zeros)

    def targets(self) -> Sequence[PeakTarget]:
        """See `probes.Device`."""
        return (
            PeakTarget("compute/float32", functools.partial(self._products, "float32")),
            PeakTarget("compute/float64", functools.partial(self._products, "float64")),
            PeakTarget("compute/int32", self._multiplications),
            *(PeakTarget(key, functools.partial(_refuse, why)) for key, why in SKIPPED.items()),
            PeakTarget("memory/copy", functools.partial(self._memory, self._copy, 2)),
            PeakTarget("memory/read", functools.partial(self._memory, self._read, 1)),
            PeakTarget("memory/write", functools.partial(self._memory, self._write, 1)),
            PeakTarget("launch", self._calls),
        )

    def window(self, nbytes: int) -> Sequence[Shape]:
        """See `probes.Device`."""
        words = max(1, nbytes // 2 // self._out.itemsize)
        places = [slice(at, at + words) for at in range(0, len(self._out) - words + 1, words)]
        shapes = [Shape("1 thread", Probe(self._walk([[self._copy(place)] for place in places]), nbytes))]
        if nbytes >= SHARED_BYTES and self._threads > 1:
            shared = [[self._copy(part) for part in self._parts(place)] for place in places]
            shapes.append(Shape(f"{self._threads} threads", Probe(self._walk(shared), nbytes)))
        return shapes

    def _products(self, dtype: str) -> Sequence[Shape]:
        """Matrix products: the chains of fused multiply-adds that numpy has. BLAS takes the threads that it is given."""
        return [self._product(size, dtype) for size in PRODUCT_SIZES]

    def _product(self, size: int, dtype: str) -> Shape:
        a, b = (self._random.standard_normal((size, size)).astype(dtype) for _ in range(2))
        out = self._np.empty_like(a)
        run = functools.partial(self._np.matmul, a, b, out=out)
        return Shape(f"numpy.matmul {size}³", Probe(self._repeat([run]), 2 * size**3))

    def _multiplications(self) -> Sequence[Shape]:
        return [self._multiplied(size, threads) for size in VECTOR_SIZES for threads in self._team_sizes()]

    def _multiplied(self, size: int, threads: int) -> Shape:
        def task() -> Task:
            x, factors = (self._random.integers(0, 1 << 30, size, "int32") | 1 for _ in range(2))  # odd: never 0
            return functools.partial(self._np.multiply, x, factors, out=x)

        name = f"numpy.multiply of {size}, {_called(threads)}"
        return Shape(name, Probe(self._repeat([task() for _ in range(threads)]), size * threads))

    def _memory(self, task: Callable[[slice], Task], ways: int) -> Sequence[Shape]:
        everything = slice(0, len(self._out))
        return [
            Shape(
                _called(threads),
                Probe(self._repeat([task(part) for part in self._parts(everything, threads)]), ways * self._out.nbytes),
            )
            for threads in self._team_sizes()
        ]

    def _copy(self, part: slice) -> Task:
        return functools.partial(self._np.copyto, self._out[part], self._source[part])

    def _read(self, part: slice) -> Task:
        return functools.partial(self._np.max, self._source[part].view("int64"))  # the quickest of numpy's reductions

    def _write(self, part: slice) -> Task:
        rows = (part.stop - part.start) // len(self._block)
        place = self._out[part.start : part.start + rows * len(self._block)].reshape(rows, -1)
        return functools.partial(self._np.copyto, place, self._block)

    def _calls(self) -> Sequence[Shape]:
        """A call of numpy on one value: nothing but its cost."""
        x = self._np.zeros(1)
        return [Shape("numpy.add of one value", Probe(self._repeat([functools.partial(self._np.add, x, x, out=x)]), 1))]

    def _repeat(self, team: Sequence[Task]) -> Callable[[int], float]:
        """Samples of tasks that go on side by side, each so often."""

        def often(task: Task, count: int) -> None:
            for _ in range(count):
                task()

        def run(count: int) -> None:
            if len(team) == 1:
                often(team[0], count)
            else:
                list(self._pool.map(often, team, [count] * len(team)))

        return lambda count: self._clock.busy(lambda: run(count))

    def _walk(self, steps: Sequence[Sequence[Task]]) -> Callable[[int], float]:
        """Samples that go on from step to step; the tasks of a step side by side."""
        at = 0

        def run(count: int) -> None:
            nonlocal at
            for _ in range(count):
                step = steps[at % len(steps)]
                at += 1
                if len(step) == 1:
                    step[0]()
                else:
                    list(self._pool.map(_call, step))

        return lambda count: self._clock.busy(lambda: run(count))

    def _parts(self, place: slice, threads: int | None = None) -> Sequence[slice]:
        """A place, cut into one part a thread at whole blocks; all of it where it has no more than one block."""
        blocks = (place.stop - place.start) // len(self._block)
        count = max(1, min(threads or self._threads, blocks))
        cuts = [place.start + blocks * index // count * len(self._block) for index in range(count)]
        return [slice(begin, end) for begin, end in zip(cuts, [*cuts[1:], place.stop], strict=True)]

    def _team_sizes(self) -> Sequence[int]:
        return (1, self._threads) if self._threads > 1 else (1,)

    def _words(self, nbytes: int, *, zeros: bool) -> Any:
        """A buffer whose pages are all there: untouched ones would share one page of zeros."""
        made = self._random.integers(0, 1 << 64, nbytes // WORD_BYTES, "uint64")
        if zeros:
            made[:] = 0
        return made


def free_memory(path: Path = Path("/proc/meminfo")) -> int:
    """Bytes that can be had without swapping; what is unused at all, where the kernel does not say."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _refuse(why: str) -> Sequence[Shape]:
    raise Unsupported(why)


def _called(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _call(task: Task) -> object:
    return task()
