"""The event timer, over events that read a clock when recorded."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from evenbench.runner.errors import TimerUnavailable
from evenbench.runner.timing.events import EventTimer
from evenbench.runner.timing.select import make_timer
from tests.fakes import accelerator


class Device:
    """A clock in nanoseconds that its events read, and a log of what happened."""

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []

    def clock(self) -> int:
        return self.now

    def synchronize(self) -> None:
        self.log.append("drain")

    def event(self) -> Event:
        return Event(self)

    def work(self, ns: int, what: str) -> None:
        self.now += ns
        self.log.append(what)


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.at = -1

    def record(self) -> None:
        self.at = self.device.now
        self.device.log.append("record")

    def elapsed_time(self, later: Any) -> float:
        return float(later.at - self.at) / 1e6


def event_timer(device: Device) -> EventTimer:
    timer = EventTimer("cuda-events", device.event, device.synchronize, device.clock)
    timer.open(False, 0)
    return timer


def test_the_pair_encloses_the_call_alone_between_two_drains() -> None:
    device = Device()
    timer = event_timer(device)
    wall = timer.iterate(3, lambda: device.work(500, "prepare"), lambda: device.work(2_004, "run"))
    assert wall == 2_504
    assert device.log == ["prepare", "drain", "record", "run", "record", "drain"]
    segment = timer.collect()
    assert (segment.indices, segment.device_busy_ns, segment.latency_ns) == ([3], [2_004], [2_004])
    assert (segment.n_kernels, segment.uncounted_copy_ns, segment.kernels) == (None, [0], [])
    assert timer.collect().indices == []


def test_a_pair_without_time_between_is_rejected() -> None:
    device = Device()
    timer = event_timer(device)
    timer.iterate(0, lambda: None, lambda: None)
    segment = timer.collect()
    assert (segment.indices, segment.rejected) == ([], [(0, "the events show no time between them")])


def test_any_accelerator_of_torch_is_timed_by_its_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    device = accelerator.Device(cache_bytes=1 << 20)
    monkeypatch.setitem(sys.modules, "torch", accelerator.fake_torch(device))
    timer = make_timer("device-events")
    timer.open(False, 0)
    drained = device.drained

    def work() -> None:
        device.now += 5_000

    timer.iterate(0, work, work)
    segment = timer.collect()
    assert (timer.name, timer.tick_ns) == ("device-events", None)
    assert (segment.device_busy_ns, segment.latency_ns, segment.n_kernels) == ([5_000], [5_000], None)
    assert device.drained == drained + 2


def test_no_accelerator_and_events_without_time_are_refused_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", accelerator.fake_torch(None))
    with pytest.raises(TimerUnavailable, match='sees no accelerator .*device="cpu"'):
        make_timer("device-events")
    mute = accelerator.fake_torch(accelerator.Device(1 << 20), events_tell_time=False)
    monkeypatch.setitem(sys.modules, "torch", mute)
    with pytest.raises(TimerUnavailable, match="events of device 'npu' tell no time: .*have no timing .*hint"):
        make_timer("device-events")
