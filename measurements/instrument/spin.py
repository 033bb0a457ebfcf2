"""A kernel that takes a known time: it reads the device's nanosecond counter until that much has passed.

It is PTX text, loaded through the driver, so that it needs no compiler; and it is not the kernel of the instrument's
own self-test, which it could not check. CuPy compiles the same where the driver refuses the text.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

THREADS = 32
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 span)
{
    .reg .pred %more;
    .reg .u64 %span, %began, %now;
    ld.param.u64 %span, [span];
    mov.u64 %began, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %began;
    setp.lt.u64 %more, %now, %span;
    @%more bra again;
    ret;
}
"""
SOURCE = r"""
extern "C" __global__ void spin(unsigned long long span) {
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - began < span);
}
"""

Call = Callable[[], None]


class Spin:
    """Makes calls that spin for a given time on torch's current stream. `how` says what loaded the kernel.

    Raises RuntimeError where neither the driver nor CuPy can.
    """

    def __init__(self) -> None:
        import torch

        torch.zeros(1, device="cuda")  # makes the context that the kernel is loaded into
        self._device = torch.cuda.current_device()
        self._current_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream  # noqa: SLF001 - what Triton launches with
        self._function: ctypes.c_void_p | None = None
        try:
            self._driver, self._function = _load(PTX)
            self.how = "PTX through the driver"
        except (OSError, RuntimeError) as refused:
            self._raw = _compile(refused)
            self.how = f"CuPy, since the driver would not: {refused}"

    def call(self, span_ns: int, blocks: int) -> Call:
        """A function that launches the kernel once. Its first launch is made here, and waited for."""
        call = self._by_driver(span_ns, blocks) if self._function is not None else self._by_cupy(span_ns, blocks)
        call()
        import torch

        torch.cuda.synchronize()
        return call

    def _by_driver(self, span_ns: int, blocks: int) -> Call:
        span = ctypes.c_uint64(span_ns)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(span))
        launch, function, stream, device = (
            self._driver.cuLaunchKernel,
            self._function,
            self._current_stream,
            self._device,
        )

        def call(_alive: object = span) -> None:
            code = launch(function, blocks, 1, 1, THREADS, 1, 1, 0, stream(device), arguments, None)
            if code:
                raise RuntimeError(f"cuLaunchKernel ended with CUDA error {code}")

        return call

    def _by_cupy(self, span_ns: int, blocks: int) -> Call:
        import numpy as np

        cupy = importlib.import_module("cupy")
        arguments = (np.uint64(span_ns),)

        def call() -> None:
            with cupy.cuda.ExternalStream(self._current_stream(self._device)):
                self._raw((blocks,), (THREADS,), arguments)

        return call


def _load(ptx: bytes) -> tuple[Any, ctypes.c_void_p]:
    """The driver's library, and the kernel `spin` of a PTX text loaded into the current context."""
    driver = ctypes.CDLL("libcuda.so.1")
    word, pointer = ctypes.c_uint, ctypes.c_void_p
    driver.cuLaunchKernel.argtypes = [pointer, *[word] * 7, pointer, pointer, pointer]
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check("cuModuleLoadData", driver.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(ptx)))
    _check("cuModuleGetFunction", driver.cuModuleGetFunction(ctypes.byref(function), module, ctypes.c_char_p(b"spin")))
    return driver, function


def _check(what: str, code: int) -> None:
    if code:
        raise RuntimeError(f"{what} ended with CUDA error {code}")


def _compile(refused: Exception) -> Any:
    try:
        return importlib.import_module("cupy").RawKernel(SOURCE, "spin")
    except ImportError:
        raise RuntimeError(f"{refused}, and CuPy is not installed") from refused
