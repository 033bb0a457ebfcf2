"""The event timer, over events that read a clock when recorded."""

from __future__ import annotations

from typing import Any

from runner.timing.events import EventTimer


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
