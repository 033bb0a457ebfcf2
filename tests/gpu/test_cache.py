"""The cold-cache step on a real device: what it reads, where, and that the cache is cold afterwards."""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import Any

import pytest

from evenbench.runner.errors import ColdProbeFailed
from evenbench.runner.timing.cache import (
    CU_ATTRIBUTE_BYTES,
    CU_LIMIT_PERSISTING_L2,
    CU_STREAM_ACCESS_POLICY_WINDOW,
    NoSweep,
    ReadSweep,
    _Sweep,
)
from evenbench.runner.timing.protocol import Counts, measure
from evenbench.runner.timing.select import make_timer

pytestmark = pytest.mark.gpu

LONG_CYCLES = 400_000_000  # a tenth of a second or more at any clock
MB = 1 << 20


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


@pytest.fixture(scope="module")
def sweep(torch: Any) -> ReadSweep:
    return ReadSweep("cuda")


def median_ns(timer_name: str, prepare: Any, run: Any) -> float:
    timer = make_timer(timer_name)
    measured = measure(timer, prepare, run, Counts(5, 50), deadline_ns=None, clock=time.perf_counter_ns)
    return statistics.median(measured.segment.device_busy_ns)


def test_a_call_is_slower_after_the_sweep_than_repeated(torch: Any, sweep: ReadSweep) -> None:
    x = torch.randn(2 * MB, device="cuda")  # 8 MB: stays in the L2 of any recent device
    out = torch.empty_like(x)

    def call() -> None:
        torch.neg(x, out=out)

    assert median_ns("cupti", sweep, call) > 1.1 * median_ns("cupti", NoSweep(), call)


def test_the_sweep_proves_itself(torch: Any) -> None:
    ReadSweep("cuda").prove(make_timer("cupti"))


def test_a_step_that_evicts_nothing_is_found_out(sweep: ReadSweep) -> None:
    read = sweep._probe()
    idle = _Sweep(read, MB, lambda: read)  # "sweeps" by reading what the call reads
    with pytest.raises(ColdProbeFailed, match="cache: warm"):
        idle.prove(make_timer("cupti"))


def test_the_sweep_reads_twice_the_l2_of_its_device(torch: Any, sweep: ReadSweep) -> None:
    assert sweep.nbytes == 2 * torch.cuda.get_device_properties("cuda").L2_cache_size
    # 20 TB/s bounds what any device yet reads, from its L2 too; a shorter sweep would not have read it all.
    assert median_ns("cupti", NoSweep(), sweep) > sweep.nbytes / 20_000


def test_the_sweep_takes_no_memory_of_the_device_after_the_first(torch: Any, sweep: ReadSweep) -> None:
    def state() -> tuple[int, int, int]:
        segments = torch.cuda.memory_stats()["segment.all.allocated"]
        return segments, torch.cuda.memory_reserved(), torch.cuda.memory_allocated()

    sweep()
    torch.cuda.synchronize()
    before = state()
    for _ in range(100):
        sweep()
    torch.cuda.synchronize()
    assert state() == before


def total_of(sweep: ReadSweep) -> Any:
    """The scalar that the sweep writes."""
    return sweep._read()


def test_the_sweep_runs_on_the_current_stream(torch: Any, sweep: ReadSweep) -> None:
    total = total_of(sweep)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        sweep()  # takes the memory that a first sum on a stream needs
    torch.cuda.synchronize()
    right = float(total)
    total.fill_(-1)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG_CYCLES)
        sweep()
    seen = total.clone()  # on the main stream, which waits for nobody
    torch.cuda.current_stream().synchronize()
    assert not side.query()
    assert float(seen) == -1
    side.synchronize()
    assert float(total) == pytest.approx(right)


def test_the_sweep_runs_on_the_device_of_the_case(torch: Any) -> None:
    last = torch.cuda.device_count() - 1
    sweep = ReadSweep(f"cuda:{last}")
    assert sweep.device == torch.device("cuda", last)
    assert total_of(sweep).device == torch.device("cuda", last)
    assert torch.cuda.current_device() == 0


def test_the_persisting_part_of_l2_is_off_again_before_every_case(torch: Any, sweep: ReadSweep) -> None:
    driver = ctypes.CDLL("libcuda.so.1")

    def limit() -> int:
        value = ctypes.c_size_t(0)
        assert driver.cuCtxGetLimit(ctypes.byref(value), CU_LIMIT_PERSISTING_L2) == 0
        return value.value

    if driver.cuCtxSetLimit(CU_LIMIT_PERSISTING_L2, ctypes.c_size_t(MB)) != 0 or limit() == 0:
        pytest.skip("this device has no persisting L2 (a MIG slice, or older than Ampere)")
    sweep.settle()
    assert limit() == 0


class AccessWindow(ctypes.Structure):
    """`CUaccessPolicyWindow` in the union of stream attributes, which is 64 bytes long."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("on_hit", ctypes.c_int),
        ("on_miss", ctypes.c_int),
        ("rest", ctypes.c_char * 36),
    )


def test_the_access_window_of_the_current_stream_is_cleared(torch: Any, sweep: ReadSweep) -> None:
    assert ctypes.sizeof(AccessWindow) == CU_ATTRIBUTE_BYTES
    driver = ctypes.CDLL("libcuda.so.1")
    x = torch.randn(MB, device="cuda")
    side = torch.cuda.Stream()
    stream = ctypes.c_void_p(side.cuda_stream)
    persisting, streaming = 2, 1
    window = AccessWindow(x.data_ptr(), MB, 0.5, persisting, streaming)
    if driver.cuStreamSetAttribute(stream, CU_STREAM_ACCESS_POLICY_WINDOW, ctypes.byref(window)) != 0:
        pytest.skip("this device has no access windows (a MIG slice, or older than Ampere)")
    with torch.cuda.stream(side):
        sweep.settle()
    assert driver.cuStreamGetAttribute(stream, CU_STREAM_ACCESS_POLICY_WINDOW, ctypes.byref(window)) == 0
    assert window.nbytes == 0
    assert sweep.persisting_off
