"""The measurement procedure, over a timer and a clock that do what the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.errors import NoDeviceWork, RecordsLost, SamplesRejected
from evenbench.runner.timing.protocol import (
    BUFFER_BYTES,
    Counts,
    Retry,
    Segment,
    calibrate,
    call_cost,
    counts_for_comparison,
    counts_for_run,
    host_batch,
    measure,
    merge,
    split_for_implementations,
)

MS = 1_000_000


class FakeClock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class FakeTimer:
    """Every iteration costs `wall_ns` on the clock and reads `latency_ns`; blocks lose and reject as told."""

    name = "fake"
    tick_ns: int | None = None

    def __init__(self, clock: FakeClock, wall_ns: int = MS, latency_ns: int = 1_000, walls: list[int] | None = None):
        self.clock = clock
        self.wall_ns = wall_ns
        self.latency_ns = latency_ns
        self.walls = walls or []
        self.lost: list[int] = []  # of the blocks to come
        self.bad: set[int] = set()
        self.opened: list[tuple[bool, int]] = []
        self.is_open = False
        self.pending: list[int] = []
        self.blocks: list[list[int]] = []
        self.error: Exception | None = None

    def open(self, count_copies: bool, buffer_bytes: int) -> None:
        self.opened.append((count_copies, buffer_bytes))
        self.is_open = True

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        assert self.is_open
        prepare()
        run()
        self.pending.append(i)
        wall = self.walls.pop(0) if self.walls else self.wall_ns
        self.clock.now += wall
        return wall

    def collect(self) -> Segment:
        assert self.is_open
        if self.error:
            raise self.error
        taken, self.pending = self.pending, []
        self.blocks.append(taken)
        lost = self.lost.pop(0) if self.lost else 0
        if lost:
            return Segment([], [], [], [], [], lost=lost)
        kept = [i for i in taken if i not in self.bad]
        times = [self.latency_ns + i for i in kept]
        return Segment(
            kept, times, times, [1] * len(kept), [0] * len(kept), rejected=[(i, "bad") for i in taken if i in self.bad]
        )

    def close(self) -> None:
        self.is_open = False


def nothing() -> None:
    return None


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_calibration_throws_the_first_call_away_and_takes_the_median_of_three(clock: FakeClock) -> None:
    calls: list[str] = []
    timer = FakeTimer(clock, walls=[900, 700, 800])
    cost = calibrate(timer, lambda: calls.append("prepare"), lambda: calls.append("run"))
    assert cost == 800
    assert calls == ["prepare", "run"] * 4
    assert timer.blocks == [[0, 1, 2]]
    assert not timer.is_open


def test_calibration_counts_copies_only_where_told(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    calibrate(timer, nothing, nothing)
    calibrate(timer, nothing, nothing, count_copies=True)
    assert timer.opened == [(False, BUFFER_BYTES), (True, BUFFER_BYTES)]


def test_an_error_of_the_call_closes_the_timer(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    timer.error = NoDeviceWork("nothing")
    with pytest.raises(NoDeviceWork):
        calibrate(timer, nothing, nothing)
    assert not timer.is_open
    with pytest.raises(NoDeviceWork):
        measure(timer, nothing, nothing, Counts(1, 1), deadline_ns=None, clock=clock)
    assert not timer.is_open


def test_the_cost_of_a_call_is_what_the_timer_reads_not_the_wall(clock: FakeClock) -> None:
    assert call_cost(FakeTimer(clock, wall_ns=50_000, latency_ns=2_000), nothing) == 2_001


@pytest.mark.parametrize(
    ("cost_ns", "expected"),
    [
        (1, Counts(200, 200)),
        (125_000, Counts(200, 200)),
        (250_000, Counts(100, 200)),
        (1 * MS, Counts(25, 100)),
        (2 * MS, Counts(12, 50)),
        (50 * MS, Counts(10, 10)),
    ],
)
def test_counts_of_a_run_are_budgets_over_cost_clamped(cost_ns: int, expected: Counts) -> None:
    assert counts_for_run(cost_ns, 25, 100) == expected


@pytest.mark.parametrize(
    ("cost_ns", "expected"),
    [(1, Counts(5, 20)), (800_000, Counts(3, 15)), (700_000, Counts(4, 17)), (9 * MS, Counts(3, 10))],
)
def test_counts_of_a_comparison_spread_the_budget_over_its_rounds(cost_ns: int, expected: Counts) -> None:
    assert counts_for_comparison(cost_ns, 25, 100, 8) == expected


def test_iterations_override_the_samples_and_leave_the_warm_up() -> None:
    assert counts_for_run(1 * MS, 25, 100, iterations=3) == Counts(25, 3)
    assert counts_for_comparison(1 * MS, 25, 100, 8, iterations=500) == Counts(3, 500)


@given(st.integers(1, 10**12), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 1_000))
def test_counts_stay_within_their_bounds(cost_ns: int, warmup_ms: float, measure_ms: float, rounds: int) -> None:
    run = counts_for_run(cost_ns, warmup_ms, measure_ms)
    assert 10 <= run.warmup <= 200
    assert 10 <= run.samples <= 200
    comparison = counts_for_comparison(cost_ns, warmup_ms, measure_ms, rounds)
    assert 3 <= comparison.warmup <= 5
    assert 10 <= comparison.samples <= 20


def test_implementations_take_turns_and_come_back_mirrored() -> None:
    half = Counts(5, 10)
    assert split_for_implementations(dict.fromkeys("abc", Counts(10, 20))) == [(name, half) for name in "abccba"]
    assert split_for_implementations(dict.fromkeys("abc", Counts(10, 20)), mirrored=True) == [
        (n, half) for n in "cbaabc"
    ]


def test_a_single_implementation_is_not_split() -> None:
    assert split_for_implementations({"main": Counts(10, 20)}, mirrored=True) == [("main", Counts(10, 20))]


@pytest.mark.parametrize(
    ("whole", "half"),
    [(Counts(3, 10), Counts(3, 5)), (Counts(200, 200), Counts(100, 100)), (Counts(5, 9), Counts(3, 5))],
)
def test_half_a_budget_keeps_its_lower_bounds(whole: Counts, half: Counts) -> None:
    assert split_for_implementations({"a": whole, "b": whole})[0] == ("a", half)


def test_a_host_batch_lasts_a_thousand_clock_steps() -> None:
    assert host_batch(cost_ns=10_000, resolution_ns=40) == 4
    assert host_batch(cost_ns=40_000, resolution_ns=40) == 1
    assert host_batch(cost_ns=0, resolution_ns=10**9) == 100_000


@given(st.integers(1, 10**9), st.integers(1, 10_000))
def test_a_host_batch_is_long_enough_and_no_longer(cost_ns: int, resolution_ns: int) -> None:
    batch = host_batch(cost_ns, resolution_ns)
    assert batch == 100_000 or batch * cost_ns >= 1_000 * resolution_ns
    assert batch == 1 or (batch - 1) * cost_ns < 1_000 * resolution_ns


def test_warm_up_goes_through_the_timer_and_is_dropped(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    measured = measure(timer, nothing, nothing, Counts(4, 12), deadline_ns=None, clock=clock, count_copies=True)
    assert timer.blocks == [[0, 1, 2, 3], list(range(12))]
    assert measured.segment.indices == list(range(12))
    assert (measured.warmup, measured.stop, measured.retries, measured.coarse) == (4, "count", [], False)
    assert timer.opened == [(True, BUFFER_BYTES)]


def test_a_time_out_stops_between_samples(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    measured = measure(timer, nothing, nothing, Counts(5, 200), deadline_ns=40 * MS, clock=clock)
    assert len(measured.segment.indices) == 35
    assert measured.stop == "timeout"


def test_a_time_out_never_leaves_fewer_than_ten_samples(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    measured = measure(timer, nothing, nothing, Counts(5, 200), deadline_ns=2 * MS, clock=clock)
    assert measured.warmup == 2
    assert len(measured.segment.indices) == 10
    assert measured.stop == "timeout"


def test_a_short_segment_past_its_deadline_still_ends_by_count(clock: FakeClock) -> None:
    measured = measure(FakeTimer(clock), nothing, nothing, Counts(3, 5), deadline_ns=0, clock=clock)
    assert (measured.warmup, len(measured.segment.indices), measured.stop) == (0, 5, "count")


def test_lost_records_mean_the_whole_segment_again_with_larger_buffers(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    timer.lost = [0, 7, 3]  # the first attempt loses samples, the second warm-up
    measured = measure(timer, nothing, nothing, Counts(2, 10), deadline_ns=None, clock=clock, buffer_bytes=100)
    assert measured.retries == [Retry(100, 7), Retry(400, 3)]
    assert timer.opened == [(False, 100), (False, 400), (False, 1600)]
    assert measured.segment.indices == list(range(10))
    assert measured.segment.lost == 0


def test_three_losses_are_an_error(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    timer.lost = [5, 5, 5]
    with pytest.raises(RecordsLost, match="each of 3 attempts"):
        measure(timer, nothing, nothing, Counts(2, 10), deadline_ns=None, clock=clock)
    assert [size // BUFFER_BYTES for _, size in timer.opened] == [1, 4, 16]
    assert not timer.is_open


@pytest.mark.parametrize(("samples", "bad"), [(10, {3}), (200, {3, 4}), (100, {0})])
def test_a_few_rejected_samples_are_borne(clock: FakeClock, samples: int, bad: set[int]) -> None:
    timer = FakeTimer(clock)
    timer.bad = bad
    measured = measure(timer, nothing, nothing, Counts(0, samples), deadline_ns=None, clock=clock)
    assert len(measured.segment.indices) == samples - len(bad)
    assert measured.segment.rejected == [(i, "bad") for i in sorted(bad)]


@pytest.mark.parametrize(("samples", "bad"), [(10, {3, 4}), (200, {3, 4, 5}), (1, {0})])
def test_more_rejected_samples_fail_the_measurement(clock: FakeClock, samples: int, bad: set[int]) -> None:
    timer = FakeTimer(clock)
    timer.bad = bad
    with pytest.raises(SamplesRejected, match=f"{len(bad)} of {samples} samples? .* sample {min(bad)}: bad"):
        measure(timer, nothing, nothing, Counts(0, samples), deadline_ns=None, clock=clock)


@pytest.mark.parametrize(("latency_ns", "coarse"), [(9 * MS, False), (11 * MS, True)])
def test_long_calls_say_that_their_percentiles_are_coarse(clock: FakeClock, latency_ns: int, coarse: bool) -> None:
    timer = FakeTimer(clock, latency_ns=latency_ns)
    assert measure(timer, nothing, nothing, Counts(0, 10), deadline_ns=None, clock=clock).coarse is coarse


KERNEL = {"name": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "registers": 8, "shared_memory": 0, "count": 2}


def test_pooled_segments_keep_every_sample_and_add_kernel_counts() -> None:
    one = Segment([0], [5], [6], [1], [7], kernels=[KERNEL], rejected=[(1, "bad")])
    two = Segment([0, 2], [8, 9], [8, 9], [2, 2], [0, 1], kernels=[{**KERNEL, "count": 3}, {**KERNEL, "name": "l"}])
    assert merge([one, two]) == Segment(
        [0, 0, 2],
        [5, 8, 9],
        [6, 8, 9],
        [1, 2, 2],
        [7, 0, 1],
        kernels=[{**KERNEL, "count": 5}, {**KERNEL, "name": "l"}],
        rejected=[(1, "bad")],
    )
    assert one.kernels == [KERNEL]


def test_pooling_does_not_invent_kernel_numbers_nor_mix_batches() -> None:
    unknown = Segment([0], [5], [5], None, [0])
    assert merge([unknown, unknown]).n_kernels is None
    with pytest.raises(ValueError, match="same batch"):
        merge([unknown, replace(unknown, batch=2)])


def test_sampling_stops_once_the_median_is_precise(clock: FakeClock) -> None:
    timer = FakeTimer(clock, latency_ns=10_000)  # reads 10000, 10001, …: the half-width of 20 is 4.5, of 40 6.5
    measured = measure(timer, nothing, nothing, Counts(3, 200), deadline_ns=None, clock=clock, precision=0.001)
    assert timer.blocks == [[0, 1, 2], list(range(20))]
    assert measured.segment.indices == list(range(20))
    assert measured.stop == "precision"


def test_every_block_is_decoded_before_the_next_and_the_grid_counts(clock: FakeClock) -> None:
    timer = FakeTimer(clock, latency_ns=10_000)
    timer.tick_ns = 32
    measured = measure(timer, nothing, nothing, Counts(0, 50), deadline_ns=None, clock=clock, precision=0.001)
    assert timer.blocks == [list(range(20)), list(range(20, 40)), list(range(40, 50))]
    assert measured.segment.indices == list(range(50))
    assert measured.segment.n_kernels == [1] * 50
    assert measured.stop == "count"


@pytest.mark.parametrize("samples", [5, 10, 20])
def test_nothing_is_looked_at_before_twenty_samples(clock: FakeClock, samples: int) -> None:
    timer = FakeTimer(clock)
    measured = measure(timer, nothing, nothing, Counts(0, samples), deadline_ns=None, clock=clock, precision=0.5)
    assert timer.blocks == [list(range(samples))]
    assert measured.stop == "count"


def test_records_lost_in_a_block_mean_the_whole_segment_again(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    timer.lost = [0, 0, 4]  # warm-up, first block, second block
    timer.tick_ns = 2_000  # so that no block is precise
    measured = measure(timer, nothing, nothing, Counts(1, 60), deadline_ns=None, clock=clock, precision=0.1)
    assert measured.retries == [Retry(BUFFER_BYTES, 4)]
    assert measured.segment.indices == list(range(60))


def test_a_time_out_holds_between_blocks_too(clock: FakeClock) -> None:
    timer = FakeTimer(clock)
    timer.tick_ns = 2_000
    measured = measure(timer, nothing, nothing, Counts(0, 200), deadline_ns=30 * MS, clock=clock, precision=0.1)
    assert (len(measured.segment.indices), measured.stop) == (30, "timeout")


def test_each_implementation_keeps_its_own_counts() -> None:
    """One that is costly takes no samples from the others: the other side may not have it."""
    segments = split_for_implementations({"a": Counts(4, 20), "b": Counts(2, 10)})
    assert segments == [("a", Counts(3, 10)), ("b", Counts(3, 5)), ("b", Counts(3, 5)), ("a", Counts(3, 10))]
