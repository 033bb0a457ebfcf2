"""The probe of the cache step, over a clock that a read advances by more when its data is not in the cache."""

from __future__ import annotations

import pytest

from evenbench.runner.errors import ColdProbeFailed
from evenbench.runner.timing.cache import HostSweep, NoSweep, _Sweep, last_level_cache_bytes
from evenbench.runner.timing.cold_probe import MARGIN, PROBE, PROBE_TRIES, doubt
from evenbench.runner.timing.host import HostTimer


class Memory:
    """A read takes `warm` nanoseconds, after an eviction `cold`."""

    def __init__(self, warm: int, cold: int) -> None:
        self.warm, self.cold = warm, cold
        self.now = 0
        self.evictions = 0
        self.evicted = True

    def evict(self) -> None:
        self.evictions += 1
        self.evicted = True

    def read(self) -> None:
        self.now += self.cold if self.evicted else self.warm
        self.evicted = False

    def timer(self) -> HostTimer:
        return HostTimer(clock=lambda: self.now)


ONE_TRY = (PROBE.warmup + PROBE.samples) // 2  # every other iteration follows the cache step


def test_a_slower_read_after_the_step_removes_the_doubt() -> None:
    memory = Memory(warm=1_000, cold=1_051)
    assert doubt(memory.timer(), memory.evict, memory.read) == ""
    assert memory.evictions == ONE_TRY


def test_a_difference_within_the_margin_is_no_proof_however_often_tried() -> None:
    memory = Memory(warm=1_000, cold=int(1_000 * MARGIN))
    assert (
        doubt(memory.timer(), memory.evict, memory.read)
        == "a read takes 1050 ns after the cache step and 1000 ns when repeated at once"
    )
    assert memory.evictions == PROBE_TRIES * ONE_TRY


def sweep_of(memory: Memory) -> _Sweep:
    return _Sweep(memory.evict, 64 << 20, lambda: memory.read)


def test_a_step_proves_itself_once() -> None:
    memory = Memory(warm=100, cold=200)
    sweep = sweep_of(memory)
    sweep.prove(memory.timer())
    sweep.prove(memory.timer())
    assert memory.evictions == ONE_TRY


def test_a_step_that_leaves_data_in_the_cache_is_refused_every_time_with_the_mend() -> None:
    memory = Memory(warm=100, cold=100)
    sweep = sweep_of(memory)
    for _ in range(2):
        with pytest.raises(ColdProbeFailed, match=r"not cold after reading 64 MB: a read takes 100 ns .*cache: warm"):
            sweep.prove(memory.timer())
    assert memory.evictions == PROBE_TRIES * ONE_TRY


def test_a_cache_beyond_bounds_is_refused_without_a_read() -> None:
    sweep = HostSweep(1 << 30)
    with pytest.raises(ColdProbeFailed, match=r"after reading 512 MB: the CPU's cache holds 1024 MB .*cache: warm"):
        sweep.prove(HostTimer())


def test_a_warm_step_has_nothing_to_prove() -> None:
    NoSweep().prove(HostTimer(clock=lambda: 0))


@pytest.mark.timing
def test_the_sweep_of_this_machine_proves_itself() -> None:
    sweep = HostSweep()
    if last_level_cache_bytes() < sweep.nbytes:
        sweep.prove(HostTimer())
    assert sweep.cold is (last_level_cache_bytes() < sweep.nbytes)
