"""Event timers: a pair of events around the call. On a CUDA device only on request: they time the host's launch too."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ..errors import TimerUnavailable
from .protocol import NS_PER_MS, Segment


class EventTimer:
    """Times by pairs of device events: one number in both fields, the number of kernels unknown.

    Args:
        name: the timer's name.
        new_event: makes an event that can `record()` and tell its `elapsed_time(later)` in milliseconds.
        synchronize: waits until the device is idle.
        clock: the host's clock in nanoseconds.
    """

    tick_ns: int | None = None  # elapsed times come as a rounded float: they show no grid

    def __init__(
        self,
        name: str,
        new_event: Callable[[], Any],
        synchronize: Callable[[], object],
        clock: Callable[[], int],
    ) -> None:
        self.name = name
        self._new_event = new_event
        self._synchronize = synchronize
        self._clock = clock
        self._pairs: list[tuple[int, Any, Any]] = []

    def open(self, count_copies: bool, buffer_bytes: int) -> None:  # noqa: ARG002 (the protocol has both)
        """Start afresh. Events cannot tell copies from kernels, and have no record buffers."""
        self._pairs = []

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        """Prepare, drain, run between two events, drain. Returns the wall time of it all."""
        began = self._clock()
        prepare()
        start, end = self._new_event(), self._new_event()
        self._synchronize()
        start.record()
        run()
        end.record()
        self._synchronize()
        self._pairs.append((i, start, end))
        return self._clock() - began

    def collect(self) -> Segment:
        """The calls since the last collection. A pair that shows no time is rejected."""
        pairs, self._pairs = self._pairs, []
        taken = [(i, round(start.elapsed_time(end) * NS_PER_MS)) for i, start, end in pairs]
        kept = [(i, ns) for i, ns in taken if ns > 0]
        return Segment(
            indices=[i for i, _ in kept],
            device_busy_ns=[ns for _, ns in kept],
            latency_ns=[ns for _, ns in kept],
            n_kernels=None,
            uncounted_copy_ns=[0] * len(kept),
            rejected=[(i, "the events show no time between them") for i, ns in taken if ns <= 0],
        )

    def close(self) -> None:
        """Forget what was not collected."""
        self._pairs = []


class CudaEventTimer(EventTimer):
    """`torch.cuda` events on the current stream. Raises TimerUnavailable where torch sees no CUDA device."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise TimerUnavailable("torch sees no CUDA device", 'use timer "host" on a CPU')
        new_event = functools.partial(torch.cuda.Event, enable_timing=True)
        super().__init__("cuda-events", new_event, torch.cuda.synchronize, time.perf_counter_ns)


class DeviceEventTimer(EventTimer):
    """`torch.Event` on the current stream of whatever accelerator torch has.

    Raises:
        TimerUnavailable: torch has no accelerator, or one whose events tell no time.
    """

    def __init__(self) -> None:
        import torch

        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        if found is None:
            raise TimerUnavailable(
                "torch sees no accelerator", 'use device="cpu", or a torch built for this accelerator'
            )
        new_event = functools.partial(torch.Event, found, enable_timing=True)
        super().__init__("device-events", new_event, torch.accelerator.synchronize, time.perf_counter_ns)
        try:
            self._try()
        except (RuntimeError, NotImplementedError) as error:
            raise TimerUnavailable(
                f"the events of device {found.type!r} tell no time: {error}",
                'use a torch that supports them, or device="cpu"',
            ) from error

    def _try(self) -> None:
        start, end = self._new_event(), self._new_event()
        start.record()
        end.record()
        self._synchronize()
        start.elapsed_time(end)
