"""Runs generated CUDA C++ on the CPU, compiled as plain C++: what a GPU would be given, without one."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cases.codegen.program import Program

SHIM = Path(__file__).with_suffix(".cpp")
OPTIONS = ("-std=c++17", "-O2", "-shared", "-fPIC")
MARGIN = 1 << 12  # elements before and behind each array, which nobody may read or write


class HostKernels:
    """Kernels, each by its own name, compiled together.

    Args:
        compiler: of C++.
        texts: of the kernels.
        folder: where to.
    """

    def __init__(self, compiler: str, texts: Iterable[str], folder: Path) -> None:
        kernels, library = folder / "kernels.cu", folder / "kernels.so"
        kernels.write_text("\n".join(texts), encoding="utf-8")
        command = [compiler, *OPTIONS, f'-DKERNELS="{kernels}"', str(SHIM), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self._library = ctypes.CDLL(str(library))

    def run(self, program: Program, x: Any, w: Any, blocks: tuple[int, int, int] | None = None) -> Any:
        """What a program, or its first blocks alone, computes of two arrays: NaN where it wrote nothing.

        AssertionError where it wrote beside its result, or where not all threads of a block reach a barrier.
        """
        (shape,) = (buffer.shape for buffer in program.buffers if buffer.written)
        arrays = [_between_margins(array) for array in (x, w, np.full(shape, np.nan))]
        pointers = [array[MARGIN:].ctypes.data_as(ctypes.c_void_p) for array in arrays]
        kernel = ctypes.cast(getattr(self._library, program.name), ctypes.c_void_p)
        grid = (ctypes.c_uint * 3)(*(blocks or program.grid))
        assert self._library.run(kernel, *pointers, grid, ctypes.c_uint(program.threads)) == 0, "a barrier in a branch"
        written = arrays[-1]
        assert np.isnan(written[:MARGIN]).all()
        assert np.isnan(written[-MARGIN:]).all()
        return written[MARGIN:-MARGIN].reshape(shape)


def _between_margins(array: Any) -> Any:
    return np.concatenate([np.full(MARGIN, np.nan), np.ravel(array), np.full(MARGIN, np.nan)]).astype(np.float32)
