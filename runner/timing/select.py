"""Which timer times a case. None takes another's place without saying so."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import TimerUnavailable
from .cupti import timer as cupti
from .events import CudaEventTimer, DeviceEventTimer
from .host import HostTimer
from .protocol import Timer

AUTO = "auto"
TIMERS = ("cupti", "cuda-events", "device-events", "host")


def make_timer(name: str, *, batch: int = 1) -> Timer:
    """The timer of that name.

    Args:
        batch: calls in one iteration, for the host timer.

    Raises:
        TimerUnavailable: no timer has this name, or it does not work here.
    """
    if name == "cupti":
        return cupti.CuptiTimer()
    if name == "cuda-events":
        return CudaEventTimer()
    if name == "device-events":
        return DeviceEventTimer()
    if name == "host":
        return HostTimer(batch)
    raise _unknown(name)


def choose_timer(
    requested: str, device: str, allow_fallback: bool, *, probe: Callable[[], None] = cupti.probe
) -> tuple[str, str | None]:
    """Name of the timer for a case, and why it is not the usual one.

    Args:
        requested: ``auto`` or the name of a timer.
        device: the device the case runs on.
        allow_fallback: take events where CUPTI fails; the reason goes with the row.
        probe: tries CUPTI; raises TimerUnavailable where it does not work.

    Raises:
        TimerUnavailable: the timer does not work here, or cannot time this device.
    """
    if requested not in (AUTO, *TIMERS):
        raise _unknown(requested)
    kind = device.split(":", maxsplit=1)[0]
    if kind == "cpu":
        if requested in (AUTO, "host"):
            return "host", None
        raise TimerUnavailable(f"timer {requested!r} cannot time the CPU", 'use timer "auto" or "host"')
    if requested == "host":
        raise TimerUnavailable(
            f"the host timer cannot time device {device!r}: a call returns before the device has done it",
            'use timer "auto"',
        )
    if kind != "cuda":
        if requested in (AUTO, "device-events"):
            return "device-events", None
        raise TimerUnavailable(
            f"timer {requested!r} is for CUDA devices, not for {device!r}", 'use timer "auto" or "device-events"'
        )
    if requested == "device-events":
        raise TimerUnavailable(
            "timer 'device-events' is for accelerators other than NVIDIA's", 'use timer "auto" or "cuda-events"'
        )
    if requested == "cuda-events":
        return "cuda-events", "asked for"
    return _cupti_or_events(may_fall_back=allow_fallback and requested == AUTO, probe=probe)


def _cupti_or_events(*, may_fall_back: bool, probe: Callable[[], None]) -> tuple[str, str | None]:
    try:
        probe()
    except TimerUnavailable as error:
        if may_fall_back:
            return "cuda-events", error.message
        raise
    return "cupti", None


def _unknown(name: str) -> TimerUnavailable:
    return TimerUnavailable(f"there is no timer {name!r}", f"use {AUTO}, {', '.join(TIMERS)}")
