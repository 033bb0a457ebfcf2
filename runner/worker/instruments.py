"""The instruments of one launch: timers and cache steps, each made once."""

from __future__ import annotations

import time

from ..timing import cache, select
from ..timing.protocol import Timer
from .channel import Channel


class Instruments:
    """Makes timers and cache steps on first use and keeps them for the launch."""

    def __init__(self) -> None:
        self._timers: dict[tuple[str, int], Timer] = {}
        self._announced = False
        self._steps: dict[tuple[str, str], cache.CacheStep] = {}

    def announce_first_sample(self, channel: Channel) -> None:
        """Say, once a launch and just before it, when its first sample begins: on the clock that processes share."""
        if not self._announced:
            self._announced = True
            channel.send({"event": "first_sample", "at_ns": time.monotonic_ns()})

    def timer(self, name: str, batch: int) -> Timer:
        """The timer of that name; `batch` calls an iteration, where it is the host's."""
        if (name, batch) not in self._timers:
            self._timers[name, batch] = select.make_timer(name, batch=batch)
        return self._timers[name, batch]

    def cache_step(self, wanted: str, device: str) -> cache.CacheStep:
        """The cache step (`cold` or `warm`) for a device."""
        if (wanted, device) not in self._steps:
            self._steps[wanted, device] = cache.make_sweep(wanted, device)
        return self._steps[wanted, device]
