"""A stand-in for torch with an accelerator that is neither CPU nor CUDA: a clock, a cache, events, one kernel.

Reading costs a launch, and a price for each KB that depends on whether the buffer lies in the cache. Nothing here
measures real time, so every figure is exact.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NAME = "npu"
LAUNCH_NS = 1_000
COLD_NS_PER_KB = 2
WARM_NS_PER_KB = 1


class Device:
    """The accelerator: its time, and the buffers in its cache, the oldest first."""

    def __init__(self, cache_bytes: int) -> None:
        self.cache_bytes = cache_bytes
        self.now = 0
        self.drained = 0
        self.cached: dict[int, int] = {}

    def read(self, buffer: Buffer) -> None:
        hit = self.cached.pop(id(buffer), 0) == buffer.nbytes
        self.now += LAUNCH_NS + buffer.nbytes // 1024 * (WARM_NS_PER_KB if hit else COLD_NS_PER_KB)
        self.cached[id(buffer)] = min(buffer.nbytes, self.cache_bytes)
        while sum(self.cached.values()) > self.cache_bytes:
            del self.cached[next(iter(self.cached))]

    def synchronize(self) -> None:
        self.drained += 1


class Buffer:
    """Memory of the device, as far as a cache step needs it."""

    def __init__(self, shape: int | tuple[()], dtype: Any, device: Any) -> None:
        self.nbytes = (shape if isinstance(shape, int) else 1) * dtype.itemsize
        self.device = device

    def uniform_(self, *, generator: Any) -> Buffer:
        assert generator.seeded
        return self


class Event:
    """Reads the device's clock when it is recorded."""

    def __init__(self, device: Device, *, tells_time: bool = True) -> None:
        self._device = device
        self._tells_time = tells_time
        self._at = -1

    def record(self) -> None:
        self._at = self._device.now

    def elapsed_time(self, later: Event) -> float:
        if not self._tells_time:
            raise RuntimeError("this backend's events have no timing")
        return (later._at - self._at) / 1e6


class Generator:
    seeded = False

    def __init__(self, device: Any) -> None:
        self.device = device

    def manual_seed(self, seed: int) -> None:
        self.seeded = True


def fake_torch(device: Device | None, *, events_tell_time: bool = True) -> Any:
    """A module-like torch with that accelerator, or with none."""
    place = SimpleNamespace(type=NAME)

    def new_event(where: Any, *, enable_timing: bool) -> Event:
        assert (where, enable_timing, device is None) == (place, True, False)
        assert device is not None
        return Event(device, tells_time=events_tell_time)

    def total(buffer: Buffer, axis: int, *, out: Buffer) -> Buffer:
        assert device is not None
        device.read(buffer)
        return out

    return SimpleNamespace(
        __version__="0",
        Tensor=Buffer,
        Event=new_event,
        Generator=Generator,
        device=lambda name: place,
        empty=Buffer,
        float32=SimpleNamespace(itemsize=4),
        manual_seed=lambda seed: None,
        sum=total,
        accelerator=SimpleNamespace(
            is_available=lambda: device is not None,
            current_accelerator=lambda: place,
            synchronize=device.synchronize if device else None,
        ),
    )
