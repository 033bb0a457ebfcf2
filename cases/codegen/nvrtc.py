"""Compiles a kernel's text with NVRTC, through cuda-core, and launches it on torch's current stream."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from .program import Program


def can_launch(device: str) -> bool:
    """Whether kernels can be compiled and launched here."""
    return device == "cuda" and find_spec("cuda") is not None and find_spec("cuda.core") is not None


def compiled(text: str, architecture: str, cache: Any = None) -> Any:
    """The machine code of a kernel, as cuda-core's `ObjectCode`; needs no GPU.

    Args:
        text: CUDA C++.
        architecture: such as `sm_90`.
        cache: where cuda-core looks for the code first, and keeps it.
    """
    from cuda.core import Program as Source
    from cuda.core import ProgramOptions

    options = ProgramOptions(arch=architecture, std="c++17")
    return Source(text, "c++", options).compile("cubin", cache=cache)


def launcher(program: Program, text: str, arrays: Sequence[Any]) -> Callable[[], None]:
    """A call that runs the kernel on these torch tensors, in the order of its arguments.

    Raises ImportError on a CPU, which skips an implementation with this text as the reason.
    """
    if arrays[0].device.type != "cuda":
        raise ImportError("a CUDA kernel, for NVIDIA GPUs only")
    import torch
    from cuda.core import Device, LaunchConfig, Stream, launch
    from cuda.core.utils import FileStreamProgramCache

    device = Device(torch.cuda.current_device())
    device.set_current()
    with FileStreamProgramCache() as cache:  # in the side's own cache folder, so that no launch compiles again
        code = compiled(text, f"sm_{device.arch}", cache)
    kernel, grid = code.get_kernel(program.name), LaunchConfig(grid=program.grid, block=program.threads)
    addresses = [array.data_ptr() for array in arrays]
    borrowed = functools.cache(Stream.from_handle)  # torch's streams live as long as the process

    def run(_alive: object = (code, arrays)) -> None:
        launch(borrowed(torch.cuda.current_stream().cuda_stream), grid, kernel, *addresses)

    return run
