"""The CUPTI timer on a real device."""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.errors import AttributionForged, NoDeviceWork, OffThreadLaunch, RecordsLost
from evenbench.runner.timing.cache import NoSweep, ReadSweep
from evenbench.runner.timing.cupti.timer import CuptiTimer
from evenbench.runner.timing.events import CudaEventTimer
from evenbench.runner.timing.protocol import BUFFER_BYTES, Counts, Measured, Segment, Timer, calibrate, measure
from evenbench.runner.timing.select import choose_timer, make_timer

pytestmark = pytest.mark.gpu

SPIN_CYCLES = 500_000  # a few hundred microseconds at any clock
BIG = 1 << 24  # floats: kernels of tens of microseconds


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


@pytest.fixture
def timer(torch: Any) -> Iterator[CuptiTimer]:
    timer = CuptiTimer()
    yield timer
    timer.close()


def nothing() -> None:
    return None


def take(timer: Timer, run: Callable[[], object], *, samples: int = 20, count_copies: bool = False) -> Segment:
    return take_all(timer, run, samples=samples, count_copies=count_copies).segment


def take_all(
    timer: Timer,
    run: Callable[[], object],
    *,
    prepare: Callable[[], object] = nothing,
    samples: int = 20,
    count_copies: bool = False,
    buffer_bytes: int = BUFFER_BYTES,
) -> Measured:
    return measure(
        timer,
        prepare,
        run,
        Counts(3, samples),
        deadline_ns=None,
        clock=time.perf_counter_ns,
        count_copies=count_copies,
        buffer_bytes=buffer_bytes,
    )


def test_one_kernel_is_busy_for_its_own_duration(torch: Any, timer: CuptiTimer) -> None:
    short = take(timer, lambda: torch.cuda._sleep(SPIN_CYCLES))
    long = take(timer, lambda: torch.cuda._sleep(2 * SPIN_CYCLES))
    assert short.device_busy_ns == short.latency_ns
    assert set(short.n_kernels or ()) == {1}
    assert short.indices == list(range(20))
    assert [kernel["count"] for kernel in short.kernels] == [20]
    ratio = statistics.median(long.device_busy_ns) / statistics.median(short.device_busy_ns)
    assert ratio == pytest.approx(2, rel=0.03)


def test_events_around_the_same_kernel_read_a_little_more(torch: Any, timer: CuptiTimer) -> None:
    by_records = take(timer, lambda: torch.cuda._sleep(SPIN_CYCLES))
    by_events = take(CudaEventTimer(), lambda: torch.cuda._sleep(SPIN_CYCLES))
    assert by_events.n_kernels is None
    assert by_events.device_busy_ns == by_events.latency_ns
    busy = statistics.median(by_records.device_busy_ns)
    assert 1 < statistics.median(by_events.device_busy_ns) / busy < 1.5


def test_a_slow_host_lengthens_latency_and_leaves_busy_time_alone(torch: Any, timer: CuptiTimer) -> None:
    x, y = torch.randn(BIG, device="cuda"), torch.randn(BIG, device="cuda")

    def call(delay_s: float) -> None:
        z = torch.nn.functional.silu(x)
        if delay_s:
            time.sleep(delay_s)
        z = z * y
        if delay_s:
            time.sleep(delay_s)
        z += y

    prompt = take(timer, lambda: call(0))
    delayed = take(timer, lambda: call(0.005))
    assert set(prompt.n_kernels or ()) == set(delayed.n_kernels or ()) == {3}
    assert statistics.median(delayed.latency_ns) >= 10 * statistics.median(prompt.latency_ns)
    assert statistics.median(delayed.device_busy_ns) == pytest.approx(
        statistics.median(prompt.device_busy_ns), rel=0.02
    )


def test_kernels_on_two_streams_count_once_where_they_overlap(torch: Any, timer: CuptiTimer) -> None:
    side = torch.cuda.Stream()

    def call() -> None:
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        torch.cuda._sleep(4 * SPIN_CYCLES)
        with torch.cuda.stream(side):
            torch.cuda._sleep(4 * SPIN_CYCLES)
        main.wait_stream(side)

    one = take(timer, lambda: torch.cuda._sleep(4 * SPIN_CYCLES))
    both = take(timer, call)
    assert set(both.n_kernels or ()) == {2}
    assert statistics.median(both.device_busy_ns) < 1.5 * statistics.median(one.device_busy_ns)


def test_a_replayed_graph_is_attributed_kernel_by_kernel(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(BIG, device="cuda")
    out = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.sin(x, out=out)
        torch.cos(out, out=out)
        torch.sin(out, out=out)
    segment = take(timer, graph.replay)
    assert segment.n_kernels == [3] * 20
    assert sorted(kernel["count"] for kernel in segment.kernels) == [20, 40]
    assert all(0 < busy <= latency for busy, latency in zip(segment.device_busy_ns, segment.latency_ns, strict=True))


def test_the_cache_step_is_kept_out_of_the_call(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device="cuda")
    state = torch.cuda.get_rng_state()
    sweep = ReadSweep("cuda")
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert sweep.nbytes == 2 * torch.cuda.get_device_properties(0).L2_cache_size
    cold = take_all(timer, x.neg, prepare=sweep, samples=50).segment
    warm = take_all(timer, x.neg, prepare=NoSweep(), samples=50).segment
    assert set(cold.n_kernels or ()) == set(warm.n_kernels or ()) == {1}
    assert [kernel["name"] for kernel in cold.kernels] == [kernel["name"] for kernel in warm.kernels]
    assert statistics.median(cold.device_busy_ns) > 1.1 * statistics.median(warm.device_busy_ns)


def test_a_call_without_device_work_is_an_error(torch: Any, timer: CuptiTimer) -> None:
    with pytest.raises(NoDeviceWork, match="launched nothing"):
        take(timer, nothing)


def test_a_call_of_copies_alone_is_told_what_to_do(torch: Any, timer: CuptiTimer) -> None:
    source = torch.randn(BIG, device="cuda")
    target = torch.empty_like(source)
    with pytest.raises(NoDeviceWork, match="count_copies=True"):
        take(timer, lambda: target.copy_(source))
    counted = take(timer, lambda: target.copy_(source), count_copies=True)
    assert min(counted.device_busy_ns) > 0
    assert set(counted.n_kernels or ()) == {0}
    assert counted.uncounted_copy_ns == [0] * 20


def test_copies_beside_kernels_are_kept_apart(torch: Any, timer: CuptiTimer) -> None:
    source = torch.randn(BIG, device="cuda")
    target = torch.empty_like(source)

    def call() -> None:
        torch.sin(source, out=target)
        target.copy_(source)

    apart = take(timer, call)
    counted = take(timer, call, count_copies=True)
    assert min(apart.uncounted_copy_ns) > 0
    assert statistics.median(counted.device_busy_ns) > 1.2 * statistics.median(apart.device_busy_ns)


def test_a_plain_backward_is_refused_and_a_backward_on_this_thread_is_timed(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device="cuda", requires_grad=True)
    out = x.sin().cos().sum()

    def call() -> None:
        x.grad = None
        out.backward(retain_graph=True)

    with pytest.raises(OffThreadLaunch, match=r"kernel .*backward_of\(out\)"):
        take(timer, call)
    with torch.autograd.set_multithreading_enabled(False):
        assert min(take(timer, call).n_kernels or [0]) >= 3


def test_tampering_with_ids_is_found_out(torch: Any, timer: CuptiTimer) -> None:
    from cupti import cupti

    custom0 = int(cupti.ExternalCorrelationKind.CUSTOM0)
    x = torch.randn(1 << 20, device="cuda")

    def push() -> None:
        cupti.activity_push_external_correlation_id(custom0, 1)
        x.neg()

    def pop() -> None:
        x.neg()
        cupti.activity_pop_external_correlation_id(custom0)

    def hide_under_another_id() -> None:
        x.neg()
        cupti.activity_push_external_correlation_id(custom0, 1)
        x.neg()
        cupti.activity_pop_external_correlation_id(custom0)

    def hide_under_what_lies_below() -> None:
        x.neg()
        identity = cupti.activity_pop_external_correlation_id(custom0)
        x.neg()
        cupti.activity_push_external_correlation_id(custom0, identity)

    for tamper in (push, pop, hide_under_another_id, hide_under_what_lies_below):
        with pytest.raises(AttributionForged):
            take(timer, tamper)
    assert take(timer, x.neg).n_kernels == [1] * 20


def test_a_custom1_id_does_not_disturb(torch: Any, timer: CuptiTimer) -> None:
    from cupti import cupti

    custom1 = int(cupti.ExternalCorrelationKind.CUSTOM1)
    x = torch.randn(1 << 20, device="cuda")

    def call() -> None:
        cupti.activity_push_external_correlation_id(custom1, 1)
        x.neg()
        cupti.activity_pop_external_correlation_id(custom1)

    assert take(timer, call).n_kernels == [1] * 20


def test_dropped_records_are_noticed_and_measured_again(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device="cuda")
    with pytest.raises(RecordsLost, match="each of 3 attempts"):
        take_all(timer, x.neg, buffer_bytes=8)
    measured = take_all(timer, x.neg, buffer_bytes=64)  # too small for one kernel's record; 16 times that is not
    assert measured.retries
    assert all(retry.lost > 0 for retry in measured.retries)
    assert measured.segment.n_kernels == [1] * 20


def test_a_second_timer_of_the_process_works_as_the_first(torch: Any) -> None:
    x = torch.randn(1 << 20, device="cuda")
    for _ in range(2):
        timer = make_timer("cupti")
        assert take(timer, x.neg).n_kernels == [1] * 20


def test_work_between_the_blocks_is_nobodys(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device="cuda")
    timer.open(False, BUFFER_BYTES)
    for _ in range(2):
        x.cos()
        timer.iterate(0, nothing, x.neg)
        assert timer.collect().n_kernels == [1]


def test_the_tick_of_the_time_stamps_is_found(torch: Any, timer: CuptiTimer) -> None:
    sizes = itertools.count(1)
    x = torch.randn(1 << 24, device="cuda")

    def growing() -> Any:
        return x[: next(sizes) * 100_000].neg()

    take_all(timer, growing, prepare=ReadSweep("cuda"), samples=100)
    assert timer.tick_ns in {8, 16, 32, 64}


def test_calibration_pays_for_the_cache_step(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device="cuda")
    sweep = ReadSweep("cuda")
    swept = statistics.median(take(timer, sweep).device_busy_ns)
    assert calibrate(timer, sweep, x.neg) > swept + statistics.median(take(timer, x.neg).device_busy_ns)


def test_auto_means_cupti_here(torch: Any) -> None:
    assert choose_timer("auto", "cuda", allow_fallback=False) == ("cupti", None)


def test_a_kernel_hidden_under_the_preparations_id_is_found(torch: Any, timer: CuptiTimer) -> None:
    from cupti import cupti

    custom0 = int(cupti.ExternalCorrelationKind.CUSTOM0)
    x, learnt = torch.randn(1 << 20, device="cuda"), [0]

    def reset() -> None:
        learnt[0] = cupti.activity_pop_external_correlation_id(custom0)
        cupti.activity_push_external_correlation_id(custom0, learnt[0])
        x.zero_()

    def hide() -> None:
        x.neg()
        cupti.activity_push_external_correlation_id(custom0, learnt[0])
        x.neg()
        cupti.activity_pop_external_correlation_id(custom0)

    assert take_all(timer, x.neg, prepare=reset).segment.n_kernels == [1] * 20
    with pytest.raises(AttributionForged, match="after preparation ended"):
        take_all(timer, hide, prepare=reset)


@pytest.mark.parametrize("prepared_by", ["kernels", "copies", "a graph", "matmul"])
def test_preparation_of_any_kind_reconciles(torch: Any, timer: CuptiTimer, prepared_by: str) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    y, host = torch.empty_like(x), torch.randn(1024, 1024).pin_memory()
    torch.mm(x, x, out=y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.sin(x, out=y)
    prepare: dict[str, Callable[[], object]] = {
        "kernels": x.zero_,
        "copies": lambda: [x.copy_(host), y.copy_(x)],
        "a graph": graph.replay,
        "matmul": lambda: torch.mm(x, x, out=y),
    }
    segment = take_all(timer, x.neg, prepare=prepare[prepared_by]).segment
    assert (segment.rejected, segment.n_kernels) == ([], [1] * 20)


def test_a_graph_of_copies_and_memsets_reconciles(torch: Any, timer: CuptiTimer) -> None:
    x, y = torch.randn(BIG, device="cuda"), torch.empty(BIG, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(x)
    segment = take(timer, graph.replay, count_copies=True)
    assert segment.rejected == []
    assert min(segment.device_busy_ns) > 0


def test_a_graph_that_is_replayed_twice_counts_its_nodes_twice(torch: Any, timer: CuptiTimer) -> None:
    x = torch.randn(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        x.mul_(0.5)
    segment = take(timer, lambda: [graph.replay(), x.neg(), graph.replay()])
    assert (segment.rejected, segment.n_kernels) == ([], [5] * 20)


def test_a_hundred_thousand_kernels_leave_nothing_behind(torch: Any, timer: CuptiTimer) -> None:
    x = torch.zeros(1, device="cuda")

    def call() -> None:
        for _ in range(250):
            x.add_(1)

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    kernels = 0
    before = 0
    for done in range(25):
        if done == 5:  # by then CUPTI and Python have the memory that they keep
            gc.collect()
            before = resident_bytes()
        segment = take(timer, call)
        assert (segment.lost, segment.rejected) == (0, [])
        kernels += sum(segment.n_kernels or ())
    gc.collect()
    assert kernels == 25 * 20 * 250
    assert resident_bytes() <= 1.02 * before
