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

from ..errors import ColdProbeFailed
from .cold_probe import doubt
from .protocol import Timer

if TYPE_CHECKING:
    import torch

CACHE_MULTIPLE = 2  # replacement is not strictly oldest-first, so one cache's worth leaves part of it
PROBE_SHARE = 2  # the probe reads half a cache: it stays there, and is long enough to show where it comes from

DEVICE_CACHE_DEFAULT = 128 << 20  # of accelerators that do not tell: beyond nearly all of them
DEVICE_PROBE_DEFAULT = 4 << 20  # stays in the cache of nearly all of them

HOST_CACHE_DEFAULT = 64 << 20  # where the machine does not tell: too small a guess would leave data in the cache
HOST_BUFFER_MIN = 8 << 20
HOST_BUFFER_MAX = 512 << 20  # 40 ms a read at 12 GB/s, which the budget has to pay for; exceeds nearly all caches
HOST_PROBE_MAX = 4 << 20  # of a large cache shared by many, one process may hold but a part
WARM = "measure with cache: warm, in suites.yaml or by --cache warm; the rows then say so"
SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
SIZE_UNITS: Mapping[str, int] = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

CU_LIMIT_PERSISTING_L2 = 6
CU_STREAM_ACCESS_POLICY_WINDOW = 1
CU_ATTRIBUTE_BYTES = 64  # size of the union that cuStreamSetAttribute reads


# A pair of events around the call takes in so much of the host that the two reads cannot be told apart: cold over warm
# was 0.97 to 1.05 on an H200, and 0.97 to 1.06 with a sweep that does nothing; CUPTI read 1.30 to 1.37, and 0.99 to 1.02.
TOO_COARSE = frozenset({"cuda-events"})


class CacheStep(Protocol):
    """Called before every iteration. `cold` says whether the call then finds an empty cache; `nbytes`, what is read."""

    cold: bool
    nbytes: int

    def __call__(self) -> None:
        """Do it."""

    def settle(self) -> None:
        """Get ready for the iterations of one case, whatever the one before left behind."""

    def prove(self, timer: Timer) -> None:
        """Show with `timer` that the cache is empty afterwards; once, later calls know the answer.

        Raises:
            ColdProbeFailed: it is not, so no row may be called cold.
        """


class NoSweep:
    """Leaves the cache as the last iteration left it: `cache: warm`."""

    cold = False
    nbytes = 0

    def __call__(self) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Nothing to get ready."""

    def prove(self, timer: Timer) -> None:
        """Nothing to show: no row is called cold."""


class _Sweep:
    """A cache step that reads a buffer, and proves itself by a second one."""

    cold = True

    def __init__(self, read: Callable[[], object], nbytes: int, probe: Callable[[], Callable[[], object]]) -> None:
        self._read = read
        self.nbytes = nbytes
        self._probe = probe
        self._doubt: str | None = None  # None: not proved yet

    def __call__(self) -> None:
        """Read the buffer. On a device it returns before that is done; the timer drains it."""
        self._read()

    def settle(self) -> None:
        """Nothing to get ready."""

    def prove(self, timer: Timer) -> None:
        """Compare a read after the sweep with a repeated one, once. Raises ColdProbeFailed."""
        if timer.name in TOO_COARSE:
            return
        if self._doubt is None:
            self._doubt = doubt(timer, self, self._probe())
        if self._doubt:
            raise ColdProbeFailed(f"the cache is not cold after reading {self.nbytes >> 20} MB: {self._doubt}", WARM)


class ReadSweep(_Sweep):
    """Reads twice the L2 of a device into a scalar, on the stream that is current when it is called.

    On a CUDA device it also keeps the persisting part of L2 off, which a sweep cannot evict, as far as there is one.

    Args:
        device: the device that the case runs on, such as ``cuda`` or ``cuda:1``.
    """

    def __init__(self, device: str) -> None:
        import torch

        self.device = torch.device(device)
        cache_bytes = _device_cache_bytes(self.device)
        nbytes = CACHE_MULTIPLE * (cache_bytes or DEVICE_CACHE_DEFAULT)
        probe_bytes = cache_bytes // PROBE_SHARE or DEVICE_PROBE_DEFAULT
        super().__init__(_reader(self.device, nbytes), nbytes, lambda: _reader(self.device, probe_bytes))
        self.persisting_off = False
        self.settle()

    def settle(self) -> None:
        """Switch the persisting part of L2 off: the case before may have switched it on."""
        import torch

        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                self.persisting_off = _switch_persisting_l2_off(torch.cuda.current_stream().cuda_stream)


class HostSweep(_Sweep):
    """Reads a buffer larger than the last-level cache of the CPU. `cold` is false where that cache is beyond bounds."""

    def __init__(self, cache_bytes: int | None = None) -> None:
        cache_bytes = last_level_cache_bytes() if cache_bytes is None else cache_bytes
        nbytes = max(HOST_BUFFER_MIN, min(CACHE_MULTIPLE * cache_bytes, HOST_BUFFER_MAX))
        probe_bytes = min(cache_bytes // PROBE_SHARE, HOST_PROBE_MAX)
        super().__init__(_host_reader(nbytes), nbytes, lambda: _host_reader(probe_bytes))
        self.cold = nbytes > cache_bytes
        if not self.cold:
            self._doubt = f"the CPU's cache holds {cache_bytes >> 20} MB"


def make_sweep(cache: str, device: str) -> CacheStep:
    """The cache step for `cache` (``cold`` or ``warm``) on a device."""
    if cache == "warm":
        return NoSweep()
    return HostSweep() if device == "cpu" else ReadSweep(device)


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


def _device_cache_bytes(device: torch.device) -> int:
    """Size of a device's L2 in bytes; 0 where it does not tell."""
    import torch

    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def _host_reader(nbytes: int) -> Callable[[], object]:
    """A call that reads so many bytes at the speed of memory: it looks for what is not among them."""
    buffer = b"\x01" * nbytes  # written once: pages never written would all be one page of zeros
    return lambda: buffer.find(b"\x00")


def _reader(device: torch.device, nbytes: int) -> Callable[[], Any]:
    """A call that sums a buffer of random data into a scalar that lies ready.

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
