"""The host timer, over a clock that advances as told; and which timer is chosen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenbench.runner.errors import TimerUnavailable
from evenbench.runner.timing.host import HostTimer, clock_resolution_ns
from evenbench.runner.timing.protocol import Timer
from evenbench.runner.timing.select import choose_timer, make_timer


class SteppingClock:
    """Stands still except when told to advance."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now

    def spend(self, ns: int) -> Callable[[], None]:
        def step() -> None:
            self.now += ns

        return step


def test_preparation_is_in_the_wall_but_not_in_the_time() -> None:
    clock = SteppingClock()
    timer = HostTimer(clock=clock)
    timer.open(False, 0)
    assert timer.iterate(4, clock.spend(50), clock.spend(7)) == 57
    segment = timer.collect()
    assert (segment.indices, segment.device_busy_ns, segment.latency_ns) == ([4], [7], [7])
    assert (segment.n_kernels, segment.uncounted_copy_ns, segment.batch) == (None, [0], 1)


def test_a_batch_prepares_once_and_reports_the_time_of_one_call() -> None:
    clock = SteppingClock()
    calls: list[str] = []
    timer = HostTimer(batch=4, clock=clock)

    def run() -> None:
        calls.append("run")
        clock.now += 25

    timer.open(False, 0)
    timer.iterate(0, lambda: calls.append("prepare"), run)
    segment = timer.collect()
    assert calls == ["prepare", "run", "run", "run", "run"]
    assert (segment.device_busy_ns, segment.batch) == ([25], 4)


def test_collecting_takes_what_came_since_and_opening_forgets() -> None:
    clock = SteppingClock()
    timer = HostTimer(clock=clock)
    timer.open(False, 0)
    timer.iterate(0, clock.spend(0), clock.spend(3))
    assert timer.collect().indices == [0]
    timer.iterate(1, clock.spend(0), clock.spend(3))
    timer.open(False, 0)
    assert timer.collect().indices == []


def test_a_call_that_the_clock_cannot_see_is_rejected() -> None:
    clock = SteppingClock()
    timer = HostTimer(batch=2, clock=clock)
    timer.open(False, 0)
    timer.iterate(0, clock.spend(0), clock.spend(0))
    segment = timer.collect()
    assert segment.indices == []
    assert segment.rejected == [(0, "shorter than the clock can tell")]


def test_a_batch_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="batch=0"):
        HostTimer(batch=0)


def test_the_resolution_is_the_smallest_step_seen() -> None:
    readings = iter([step for n in range(500) for step in (100 * n, 100 * n + 40)])
    assert clock_resolution_ns(lambda: next(readings)) == 40
    assert clock_resolution_ns(lambda: 5) == 1


def test_the_factory_gives_a_timer_of_that_name() -> None:
    timer: Timer = make_timer("host", batch=8)
    assert timer.name == "host"
    assert timer.collect().batch == 8
    with pytest.raises(TimerUnavailable, match=r"no timer 'sundial' .*cupti, cuda-events, device-events, host"):
        make_timer("sundial")


def works() -> None:
    return None


def fails() -> None:
    raise TimerUnavailable("cupti-python cannot be loaded", "pip install it")


@pytest.mark.parametrize(
    ("requested", "device", "probe", "fallback", "expected"),
    [
        ("auto", "cpu", fails, False, ("host", None)),
        ("host", "cpu", fails, False, ("host", None)),
        ("auto", "cuda", works, False, ("cupti", None)),
        ("auto", "cuda:1", works, True, ("cupti", None)),
        ("cupti", "cuda", works, False, ("cupti", None)),
        ("auto", "cuda", fails, True, ("cuda-events", "cupti-python cannot be loaded")),
        ("cuda-events", "cuda", fails, False, ("cuda-events", "asked for")),
        ("auto", "xpu", fails, False, ("device-events", None)),
        ("device-events", "mps:0", fails, False, ("device-events", None)),
    ],
)
def test_the_timer_follows_request_and_device(
    requested: str, device: str, probe: Callable[[], None], fallback: bool, expected: tuple[str, str | None]
) -> None:
    assert choose_timer(requested, device, fallback, probe=probe) == expected


@pytest.mark.parametrize(
    ("requested", "device", "fallback", "message"),
    [
        ("auto", "cuda", False, r"cannot be loaded \(hint: pip install it\)"),
        ("cupti", "cuda", False, "cannot be loaded"),
        ("cupti", "cuda", True, "cannot be loaded"),  # asked for by name: nothing else will do
        ("cupti", "cpu", True, "cannot time the CPU"),
        ("cuda-events", "cpu", True, "cannot time the CPU"),
        ("device-events", "cpu", True, 'cannot time the CPU .*"host"'),
        ("host", "cuda", True, r"cannot time device 'cuda': a call returns before .*use timer \"auto\""),
        ("host", "xpu", True, "cannot time device 'xpu'"),
        ("device-events", "cuda", True, 'other than NVIDIA\'s .*"auto" or "cuda-events"'),
        ("cupti", "xpu", True, "'cupti' is for CUDA devices, not for 'xpu' .*\"device-events\""),
        ("cuda-events", "xpu", True, "'cuda-events' is for CUDA devices"),
        ("sundial", "cpu", True, "no timer 'sundial'"),
    ],
)
def test_no_timer_takes_anothers_place_silently(requested: str, device: str, fallback: bool, message: str) -> None:
    with pytest.raises(TimerUnavailable, match=message):
        choose_timer(requested, device, fallback, probe=fails)
