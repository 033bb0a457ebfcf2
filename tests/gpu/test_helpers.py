"""The bare timer and the single backward node on a real device."""

from __future__ import annotations

import time
from typing import Any

import pytest

from evenbench import backward_of, bench_kernel
from evenbench.runner.errors import NoDeviceWork, OffThreadLaunch, UsageError
from evenbench.runner.timing import make_sweep, make_timer
from evenbench.runner.timing.protocol import Counts, measure

pytestmark = pytest.mark.gpu

N = 1 << 22


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


def test_the_bare_timer_is_cupti_and_reads_what_a_launch_reads(torch: Any) -> None:
    x = torch.randn(N, device="cuda")
    bare = bench_kernel(torch.neg, (x,))
    assert (bare.timer, bare.cache, bare.n_kernels, bare.batch) == ("cupti", "cold", 1, 1)
    assert 10 <= len(bare.samples_ns) <= 200
    assert bare.p10_ns <= bare.median_ns <= bare.p90_ns
    sweep = make_sweep("cold", "cuda")
    launch = measure(
        make_timer("cupti"), sweep, x.neg, Counts(25, 100), deadline_ns=None, clock=time.perf_counter_ns
    ).segment
    assert bare.median_ns == pytest.approx(sorted(launch.device_busy_ns)[50], rel=0.05)


def test_it_is_cold_unless_asked_to_be_warm(torch: Any) -> None:
    x = torch.randn(1 << 20, device="cuda")
    cold, warm = bench_kernel(torch.neg, (x,)), bench_kernel(x.neg, cache="warm")
    assert (warm.timer, warm.cache) == ("cupti", "warm")
    assert cold.median_ns > 1.1 * warm.median_ns


def test_it_takes_resets_and_copies_like_a_case(torch: Any) -> None:
    x, source = torch.ones(N, device="cuda"), torch.ones(N, device="cuda")
    assert bench_kernel(lambda: x.mul_(3), reset=lambda: x.copy_(source)).n_kernels == 1
    assert x.unique().tolist() == [3]
    with pytest.raises(NoDeviceWork, match="count_copies"):
        bench_kernel(x.copy_, (source,))
    copied = bench_kernel(x.copy_, (source,), count_copies=True)
    assert copied.median_ns > 0
    assert copied.n_kernels == 0


def test_a_call_on_the_host_is_no_kernel(torch: Any) -> None:
    x = torch.randn(1 << 10)
    assert bench_kernel(torch.neg, (x,), cache="warm").timer == "host"
    with pytest.raises(NoDeviceWork):
        bench_kernel(x.neg, device="cuda")


def test_another_device_than_the_current_one_is_refused(torch: Any) -> None:
    with pytest.raises(UsageError, match="not the current device"):
        bench_kernel(int, device="cuda:7" if torch.cuda.current_device() != 7 else "cuda:0")


def test_a_backward_node_is_timed_where_the_engine_is_refused(torch: Any) -> None:
    x = torch.randn(N, device="cuda", requires_grad=True)
    out = torch.nn.functional.silu(x)
    ones = torch.ones_like(out)
    with pytest.raises(OffThreadLaunch, match=r"backward_of\(out\)"):
        bench_kernel(lambda: torch.autograd.grad(out, x, ones, retain_graph=True))
    backward = backward_of(out)
    assert torch.equal(backward(), torch.autograd.grad(out, x, ones, retain_graph=True)[0])
    timing = bench_kernel(backward)
    assert (timing.timer, timing.n_kernels) == ("cupti", 1)
