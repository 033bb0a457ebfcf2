"""A change planted on purpose: the timed calls of a case are followed by a wait on the device, or on the host.

What the call does, its result and its inputs stay as they are; only its time grows. On a CUDA device the wait is a
kernel that spins, which costs about 0.7 µs by itself: a case should take some 20 µs, or it grows by more than asked.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import SetupError
from ...timing.cupti.driver import SPIN, torch_spinner
from ...timing.protocol import Segment
from .bench import Call

TRIAL_SAMPLES = 10  # of the case as it is, before each segment: its median must be known to a few percent
MARGIN = 1.1  # so that, whatever the trial's scatter, the slow-down is at least what was asked for

Trial = Callable[[Call], Segment]


def slowed(call: Call, fraction: float, device: str, trial: Trial) -> Call:
    """The call, slower by at least `fraction` of its own time, and by little more where a wait can be that short.

    Args:
        device: the type of the device that the case runs on.
        trial: times a call a few times, as the segment that follows will.

    Raises:
        SetupError: no wait is known for such a device.
        MeasurementError: what the trial found wrong with the call.
    """
    wanted = fraction * MARGIN
    if device == "cpu":
        return waiting(call, round(wanted * _median(trial(call))))
    if device != "cuda":
        raise SetupError(f"a change can be planted on CUDA devices and on the CPU, not on {device!r}")
    spin = torch_spinner()

    def spinning(ns: int) -> Call:
        def both() -> None:
            call()
            spin(ns)

        return both

    bare = trial(spinning(0))
    own = min((kernel["median_ns"] for kernel in bare.kernels if _spins(kernel)), default=0)
    return spinning(max(0, round(wanted * (_median(bare) - own)) - own))


def waiting(call: Call, ns: int, clock: Callable[[], int] = time.perf_counter_ns) -> Call:
    """The call, and then a loop on the host for so many nanoseconds."""

    def both() -> None:
        call()
        until = clock() + ns
        while clock() < until:
            pass

    return both


def _median(segment: Segment) -> float:
    """Of the device-busy times; 0 where none was kept, which the segment that follows will tell."""
    return statistics.median(segment.device_busy_ns or [0])


def _spins(kernel: Mapping[str, Any]) -> bool:
    """Whether this is our kernel: one thread, by its name."""
    return bool(kernel["name"] == SPIN.decode() and kernel["block"] == [1, 1, 1] and kernel["grid"] == [1, 1, 1])
