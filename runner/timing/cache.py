"""The cold-cache step: what runs before every iteration so that the call finds none of its data in the cache.

It reads a buffer rather than writing one: a write leaves the cache full of dirty lines, and the timed call then pays
for writing them back (12 to 22 % on memory-bound kernels).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

CACHE_MULTIPLE = 2  # replacement is not strictly oldest-first, so one cache's worth leaves part of it

HOST_CACHE_DEFAULT = 32 << 20  # where the machine does not tell
HOST_BUFFER_MIN = 8 << 20
HOST_BUFFER_MAX = 128 << 20  # 8 ms a read at 16 GB/s; the budget has to pay for it
SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
SIZE_UNITS: Mapping[str, int] = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

CU_LIMIT_PERSISTING_L2 = 6
CU_STREAM_ACCESS_POLICY_WINDOW = 1
CU_ATTRIBUTE_BYTES = 64  # size of the union that cuStreamSetAttribute reads


class CacheStep(Protocol):
    """Called before every iteration. `cold` says whether the call then finds an empty cache; `nbytes`, what is read."""

    cold: bool
    nbytes: int

    def __call__(self) -> None:
        """Do it."""


class NoSweep:
    """Leaves the cache as the last iteration left it: `cache: warm`."""

    cold = False
    nbytes = 0

    def __call__(self) -> None:
        """Do nothing."""


class ReadSweep:
    """Reads twice the L2 of a CUDA device into a scalar, on the stream that is current when it is called.

    Also switches the persisting part of L2 off, which a sweep cannot evict, as far as the device has one.

    Args:
        device: the device that the case runs on, such as ``cuda`` or ``cuda:1``.
    """

    cold = True

    def __init__(self, device: str) -> None:
        import torch

        where = torch.device(device)
        l2_bytes = int(torch.cuda.get_device_properties(where).L2_cache_size)
        self._read = _reader(where, CACHE_MULTIPLE * l2_bytes)
        self.nbytes = CACHE_MULTIPLE * l2_bytes
        with torch.cuda.device(where):
            self.persisting_off = _switch_persisting_l2_off(torch.cuda.current_stream().cuda_stream)

    def __call__(self) -> None:
        """Read the buffer. Returns before the device is done; the timer drains it."""
        self._read()


class HostSweep:
    """Reads a buffer larger than the last-level cache of the CPU. `cold` is false where that cache is beyond bounds."""

    def __init__(self, cache_bytes: int | None = None) -> None:
        cache_bytes = last_level_cache_bytes() if cache_bytes is None else cache_bytes
        self.nbytes = max(HOST_BUFFER_MIN, min(CACHE_MULTIPLE * cache_bytes, HOST_BUFFER_MAX))
        self.cold = self.nbytes > cache_bytes
        self._buffer = b"\x01" * self.nbytes  # written once: pages never written would all be one page of zeros

    def __call__(self) -> None:
        """Read the buffer."""
        self._buffer.find(b"\x00")  # not in there, so every byte is read, at the speed of memory


def make_sweep(cache: str, device: str) -> CacheStep:
    """The cache step for `cache` (``cold`` or ``warm``) on a device."""
    if cache == "warm":
        return NoSweep()
    return ReadSweep(device) if device.startswith("cuda") else HostSweep()


def last_level_cache_bytes(root: Path = SYS_CACHE) -> int:
    """Size of the largest cache that the first CPU sees, in bytes; a guess where the machine does not tell.

    The kernel's listing comes first: it gives one cache, where sysconf adds up those of all sockets.
    """
    sizes = [_parse_size(_read_text(path)) for path in root.glob("index*/size")]
    return max(sizes, default=0) or _sysconf_cache_bytes() or HOST_CACHE_DEFAULT


def _sysconf_cache_bytes() -> int:
    names = (name for name in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE") if name in os.sysconf_names)
    return next((size for size in map(os.sysconf, names) if size > 0), 0)


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # some virtual machines list a file that cannot be read
        return ""


def _parse_size(text: str) -> int:
    text = text.strip()
    digits, unit = text.rstrip("KMG"), SIZE_UNITS.get(text[-1:], 1)
    return int(digits) * unit if digits.isdigit() else 0


def _reader(device: torch.device, nbytes: int) -> Callable[[], Any]:
    """A call that sums a buffer of random data into a scalar, without allocating.

    The generator is its own: drawing from torch's would shift what the case draws afterwards.
    """
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(0)
    count = nbytes // torch.float32.itemsize
    buffer = torch.empty(count, dtype=torch.float32, device=device).uniform_(generator=generator)
    total = torch.empty((), dtype=torch.float32, device=device)
    return lambda: torch.sum(buffer, 0, out=total)


def _switch_persisting_l2_off(stream: int) -> bool:
    """Limit 0 for persisting lines, no access window on the stream, what persists reset. False where unsupported."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    no_window = (ctypes.c_char * CU_ATTRIBUTE_BYTES)()
    results = (
        driver.cuCtxSetLimit(CU_LIMIT_PERSISTING_L2, ctypes.c_size_t(0)),
        driver.cuStreamSetAttribute(ctypes.c_void_p(stream), CU_STREAM_ACCESS_POLICY_WINDOW, no_window),
        driver.cuCtxResetPersistingL2Cache(),
    )
    return not any(results)
