"""What lies under the CUPTI timer: a kernel of known length, loaded through the driver, and who else looks on.

The kernel is PTX text, which the driver compiles itself, so that no compiler is needed. libcuda is called by ctypes:
torch has it loaded, and the four functions used here have been the same since CUDA 4.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Any

from ...errors import TimerUnavailable

LIBRARY = "libcuda.so.1"
DRIVER_FIX = "check that the NVIDIA driver is loaded and visible in this container, or use --timer cuda-events"

SPIN = b"spin"
SPIN_PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 duration)
{
    .reg .pred %early;
    .reg .u64 %asked, %began, %now;
    ld.param.u64 %asked, [duration];
    mov.u64 %began, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %began;
    setp.lt.u64 %early, %now, %asked;
    @%early bra again;
    ret;
}
"""
"""Reads the device's nanosecond clock until the asked time has passed: one thread, no memory. sm_75 is the oldest
architecture that CUPTI 13 supports, and runs on all later ones."""

INJECTIONS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
TOOLS: Mapping[str, str] = {
    "nsight-systems": "Nsight Systems",
    "nsys": "Nsight Systems",
    "nsight-compute": "Nsight Compute",
    "ncu": "Nsight Compute",
    "sanitizer": "Compute Sanitizer",
}
TOOL_VARIABLES: Mapping[str, str] = {"NSYS_": "Nsight Systems", "NV_COMPUTE_PROFILER_": "Nsight Compute"}


class Spinner:
    """Launches a kernel that spins for a given time, in nanoseconds of the device's clock.

    Args:
        library: libcuda as ctypes sees it; the kernel is loaded into the context that is current.
        stream: handle of the stream to launch on.

    Raises:
        TimerUnavailable: the driver cannot load the kernel; says why.
    """

    def __init__(self, library: Any, stream: int) -> None:
        self._cuda = library
        self._stream = ctypes.c_void_p(stream)
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(SPIN_PTX))
        self._call("cuModuleGetFunction", ctypes.byref(self._function), self._module, ctypes.c_char_p(SPIN))

    def __call__(self, ns: int) -> None:
        """Launch one. Returns before the device is done."""
        duration = ctypes.c_uint64(ns)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))  # read before the launch returns
        one, nothing = ctypes.c_uint(1), ctypes.c_uint(0)
        self._call("cuLaunchKernel", self._function, *[one] * 6, nothing, self._stream, arguments, None)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise TimerUnavailable(f"the self-test's kernel: {name} gave {self._name_of(status)}", DRIVER_FIX)

    def _name_of(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorName(ctypes.c_int(status), ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"


def torch_spinner() -> Spinner:
    """A spinner on torch's current device and stream."""
    import torch

    torch.zeros(1, device="cuda")  # makes torch's context this thread's current one
    return Spinner(_load(), torch.cuda.current_stream().cuda_stream)


def driver_version(library: Any = None) -> str:
    """The newest CUDA that the driver supports, such as ``13.0``; empty where it cannot be read."""
    version = ctypes.c_int(0)
    try:
        status = (library or _load()).cuDriverGetVersion(ctypes.byref(version))
    except TimerUnavailable:
        return ""
    return "" if status else f"{version.value // 1000}.{version.value % 1000 // 10}"


def profiler_here(environ: Mapping[str, str] = os.environ) -> str:
    """The profiler that this process was started under, or that records in it, by name; empty where none shows."""
    for variable in INJECTIONS:
        if path := environ.get(variable):
            tool = next((tool for word, tool in TOOLS.items() if word in path.lower()), "a tool")
            return f"{tool} ({variable}={path})"
    for prefix, tool in TOOL_VARIABLES.items():
        if any(variable.startswith(prefix) for variable in environ):
            return tool
    return "torch.profiler" if torch_profiler_records() else ""


def torch_profiler_records() -> bool:
    """Whether torch's own profiler records in this process, which then takes CUPTI for itself."""
    torch = sys.modules.get("torch")
    try:
        return bool(torch and torch._C._autograd._profiler_enabled())  # noqa: SLF001 (there is no public question)
    except AttributeError:
        return False


def _load() -> Any:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise TimerUnavailable(f"the CUDA driver cannot be loaded: {error}", DRIVER_FIX) from error
