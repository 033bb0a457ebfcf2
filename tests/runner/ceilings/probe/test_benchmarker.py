"""The measuring protocol of ceilings, over a device and a clock that do what the test says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.ceilings.probe.benchmarker import (
    ITERATIONS_MOST,
    RANKING_SAMPLES,
    SAMPLE_PATIENCE,
    SAMPLES_MOST,
    TARGET_S,
    WARMUP_LAUNCHES,
    Benchmarker,
    Probe,
    retarget,
)

US = 1e-6


@dataclass
class Device:
    """A device whose launches take, and report, what the test says.

    Args:
        pace: seconds of one iteration, given the clock.
        launch: seconds of a launch, given the iterations; default: as many paces.
        reads: seconds that the timer reports, given what the launch took; default: the truth.
    """

    pace: Callable[[float], float] = lambda _: US
    launch: Callable[[int], float] | None = None
    reads: Callable[[float], float] = lambda took: took
    now: float = 0.0
    launches: list[int] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sample(self, iterations: int) -> float:
        self.launches.append(iterations)
        took = self.launch(iterations) if self.launch else iterations * self.pace(self.now)
        self.now += took
        return self.reads(took)

    def probe(self, ops_count: float = 1.0, min_iterations: int = 1) -> Probe:
        return Probe(self.sample, ops_count, min_iterations)


def steady(pace: float) -> Device:
    return Device(lambda _: pace)


def zero_timer() -> Device:
    return Device(launch=lambda _: 1e-3, reads=lambda _: 0.0)


# ------------------------------------------------------------------------------------------------------------------ warm


def test_a_timer_that_reads_zero_grows_a_launch_to_1024_and_no_further() -> None:
    device = zero_timer()
    assert Benchmarker(device.clock).warm(device.probe()) == 1 << 10
    assert device.launches == [1 << power for power in range(11)]


def test_a_timer_that_reads_zero_ends_sampling_by_patience() -> None:
    device = zero_timer()
    rate = Benchmarker(device.clock).sample_at(device.probe(), 8)
    assert len(device.launches) == SAMPLE_PATIENCE + 1 < SAMPLES_MOST
    assert rate == math.inf


def test_a_blind_timer_leaves_what_a_launch_must_carry() -> None:
    device = zero_timer()
    assert Benchmarker(device.clock).warm(device.probe(min_iterations=1 << 20)) == 1 << 20


def test_the_budget_ends_growth() -> None:
    device = Device(launch=lambda _: 5e-3, reads=lambda _: 1e-3)
    iterations = Benchmarker(device.clock, warmup_budget_s=12e-3).warm(device.probe())
    assert iterations == 400 < 1 << 20  # 1, 20, 400: the third launch ends past the budget
    assert device.launches == [1, 20, 400]


def test_a_clock_that_rises_late_is_waited_for() -> None:
    device = Device(lambda now: 3 * US if now < 0.1 else US)
    Benchmarker(device.clock).warm(device.probe())
    assert device.now >= 0.35


def test_a_steady_pace_holds_the_plateau_and_no_longer_than_need_be() -> None:
    device = steady(US)
    Benchmarker(device.clock).warm(device.probe())
    assert device.now >= 0.25
    assert len(device.launches) <= 20


def test_a_launch_grows_to_exactly_the_target() -> None:
    device = steady(US)
    assert Benchmarker(device.clock).warm(device.probe()) == 20_000
    assert device.launches[:3] == [1, 20_000, 20_000]


def test_a_device_that_never_settles_is_let_go() -> None:
    device = Device(lambda now: US / (1 + 10 * now))
    Benchmarker(device.clock).warm(device.probe())
    assert len(device.launches) <= WARMUP_LAUNCHES


def test_growth_by_less_than_one_is_one() -> None:
    device = Device(launch=lambda iterations: TARGET_S * (1 - 1e-12) if iterations < 3 else TARGET_S)
    assert Benchmarker(device.clock).warm(device.probe(min_iterations=2)) == 3


@pytest.mark.parametrize(("drop", "launches"), [(0.029, 8), (0.031, 15)])
def test_a_plateau_begins_anew_where_the_pace_falls_by_more_than_the_tolerance(drop: float, launches: int) -> None:
    """The drop comes with the last launch that the plateau needed; launches of 40 ms stay over the target."""
    device = Device(lambda now: US if now < 0.27 else US * (1 - drop))
    Benchmarker(device.clock).warm(device.probe(min_iterations=40_000))
    assert len(device.launches) == launches


@given(st.floats(min_value=1e-9, max_value=1.0), st.integers(min_value=1, max_value=1 << 25))
def test_a_warm_up_of_any_steady_pace_ends_within_its_launches(pace: float, least: int) -> None:
    device = steady(pace)
    iterations = Benchmarker(device.clock).warm(device.probe(min_iterations=least))
    assert len(device.launches) <= WARMUP_LAUNCHES
    assert iterations >= least
    assert iterations == least or iterations * pace < 2 * TARGET_S or iterations == 2


# ---------------------------------------------------------------------------------------------------------------- sample


def test_a_device_that_is_slow_throughout_is_measured_as_slow() -> None:
    device = steady(3 * US)
    assert 2.9 * US <= 1 / Benchmarker(device.clock).sample(device.probe()) <= 3.1 * US


def test_sampling_goes_on_while_it_improves() -> None:
    pace = iter([1.0, 0.98, 0.96] + [0.955] * 100)
    device = Device(launch=lambda n: n * next(pace) * 1e-6)
    rate = Benchmarker(device.clock).sample_at(device.probe(ops_count=2.0), 1_000)
    assert len(device.launches) == 3 + SAMPLE_PATIENCE
    assert rate == pytest.approx(2 / 0.955e-6)


def test_an_improvement_within_the_tolerance_counts_but_buys_no_time() -> None:
    pace = iter([1.0] + [0.995] * 100)
    device = Device(launch=lambda n: n * next(pace) * 1e-6)
    rate = Benchmarker(device.clock).sample_at(device.probe(), 1_000)
    assert len(device.launches) == 1 + SAMPLE_PATIENCE
    assert rate == pytest.approx(1 / 0.995e-6)


def test_sampling_ends_with_its_budget() -> None:
    device = steady(US)
    Benchmarker(device.clock).sample_at(device.probe(), 30_000)
    assert len(device.launches) == 7  # 0.21 s


def test_sampling_ends_after_200_samples() -> None:
    improving = iter(1e-3 * 0.98**i for i in range(1_000))
    device = Device(launch=lambda _: 1e-6, reads=lambda _: next(improving))
    Benchmarker(device.clock).sample_at(device.probe(), 1)
    assert len(device.launches) == SAMPLES_MOST


def test_a_launch_carries_what_it_must_however_few_are_asked_for() -> None:
    device = steady(US)
    Benchmarker(device.clock).sample_at(device.probe(min_iterations=64), 1)
    assert set(device.launches) == {64}


# ------------------------------------------------------------------------------------------------------------------ rank


def test_ranking_orders_shapes_without_paying_for_a_measurement() -> None:
    fast, slow = steady(US), steady(3 * US)
    rate, iterations = Benchmarker(fast.clock).rank(fast.probe(), 20_000)
    slower, _ = Benchmarker(slow.clock).rank(slow.probe(), iterations)
    assert rate == pytest.approx(3 * slower)
    assert fast.now + slow.now < 0.45


@pytest.mark.parametrize(("pace", "iterations"), [(US, 20_000), (US / 10, 200_000)])
def test_ranking_times_all_shapes_over_one_span(pace: float, iterations: int) -> None:
    device = steady(pace)
    rate, chosen = Benchmarker(device.clock).rank(device.probe(), 1_000)
    assert 1 / rate == pytest.approx(pace)
    assert chosen == iterations
    assert device.launches == [1_000, 1_000] + [iterations] * RANKING_SAMPLES


def test_the_first_launch_of_a_shape_does_not_count() -> None:
    paces = iter([100 * US] + [US] * 4)
    device = Device(launch=lambda iterations: iterations * next(paces))
    rate, iterations = Benchmarker(device.clock).rank(device.probe(), 1_000)
    assert 1 / rate == pytest.approx(US)
    assert iterations == 20_000


def test_ranking_honours_what_a_launch_must_carry() -> None:
    device = steady(1e-9)
    rate, iterations = Benchmarker(device.clock).rank(device.probe(min_iterations=64), 1)
    assert 1 / rate == pytest.approx(1e-9, rel=1e-12)
    assert iterations >= 64


def test_ranking_may_pass_the_most_iterations_where_a_launch_must_carry_more() -> None:
    device = steady(1e-12)
    least = ITERATIONS_MOST * 2
    assert Benchmarker(device.clock).rank(device.probe(min_iterations=least), 1)[1] == least


def test_instant_launches_stay_within_the_most_iterations() -> None:
    device = Device(launch=lambda _: 20 * US)
    assert Benchmarker(device.clock).rank(device.probe(), ITERATIONS_MOST)[1] == ITERATIONS_MOST


# -------------------------------------------------------------------------------------------------------------- retarget


@pytest.mark.parametrize(
    ("iterations", "took", "expected"),
    [
        (100, 0.0, 100),
        (100, -1.0, 100),
        (100, math.nan, 100),
        (100, 5e-324, 100),  # infinitely many would be wanted
        (100, math.inf, 1),
        (100, TARGET_S, 100),
        (100, 2 * TARGET_S, 50),
        (3, 2 * TARGET_S, 1),  # truncated
        (1, 1.0, 1),
        (ITERATIONS_MOST, 1e-6, ITERATIONS_MOST),
    ],
)
def test_retarget(iterations: int, took: float, expected: int) -> None:
    assert retarget(iterations, took) == expected


@given(st.integers(min_value=1, max_value=ITERATIONS_MOST), st.floats(allow_nan=True))
def test_retarget_stays_in_bounds(iterations: int, took: float) -> None:
    assert 1 <= retarget(iterations, took) <= ITERATIONS_MOST


# ----------------------------------------------------------------------------------------------------------------- cache


class Kept(dict[str, float]):
    """A cache in memory; `add` keeps what is there already, as where another process was first."""

    def add(self, key: str, rate: float) -> float:
        return self.setdefault(key, rate)


def test_what_was_measured_is_cached() -> None:
    device, cache = steady(US), Kept()
    bench = Benchmarker(device.clock, cache)
    assert bench.cached("x") is None
    rate = bench.measure("x", device.probe())
    launches = len(device.launches)
    assert cache == {"x": rate}
    assert bench.measure("x", device.probe()) == bench.cached("x") == rate
    assert len(device.launches) == launches


def test_only_a_measurement_is_cached() -> None:
    cache = Kept()

    def broken(_: int) -> float:
        raise RuntimeError("no such kernel")

    bench = Benchmarker(lambda: 0.0, cache)
    with pytest.raises(RuntimeError, match="no such kernel"):
        bench.measure("x", Probe(broken, 1.0))
    assert cache == {}


def test_with_the_cache_off_everything_is_measured() -> None:
    device = steady(US)
    bench = Benchmarker(device.clock)
    bench.measure("x", device.probe())
    launches = len(device.launches)
    bench.measure("x", device.probe())
    assert len(device.launches) > launches
    assert bench.cached("x") is None


def test_the_value_of_a_writer_that_came_first_is_kept() -> None:
    cache = Kept()

    def sample(iterations: int) -> float:
        cache["x"] = 7.0  # another process, meanwhile
        return iterations * 1e-3

    clock = iter(i * 0.1 for i in range(10_000))
    assert Benchmarker(lambda: next(clock), cache).measure("x", Probe(sample, 1.0)) == 7.0
    assert cache == {"x": 7.0}
