"""The cache step on the host: its size, and that it reads without writing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evenbench.runner.timing.cache import (
    HostSweep,
    NoSweep,
    ReadSweep,
    _host_reader,
    _reader,
    last_level_cache_bytes,
    make_sweep,
)
from evenbench.runner.timing.host import HostTimer
from tests.fakes.accelerator import COLD_NS_PER_KB, LAUNCH_NS, NAME, Device, fake_torch

MB = 1 << 20


def listing(root: Path, **sizes: str) -> Path:
    for index, size in sizes.items():
        (root / index).mkdir()
        (root / index / "size").write_text(size + "\n")
    return root


def test_the_largest_listed_cache_is_the_last_level(tmp_path: Path) -> None:
    root = listing(tmp_path, index0="32K", index1="32K", index2="1024K", index3="36M")
    assert last_level_cache_bytes(root) == 36 * MB


def test_an_unreadable_size_is_passed_over(tmp_path: Path) -> None:
    root = listing(tmp_path, index0="32K", index1="", index2="what")
    (tmp_path / "index3").mkdir()
    (tmp_path / "index3" / "size").mkdir()  # exists and cannot be read as text
    assert last_level_cache_bytes(root) == 32 << 10


def test_a_machine_without_a_listing_still_has_a_size(tmp_path: Path) -> None:
    assert last_level_cache_bytes(tmp_path) > 0


@pytest.mark.parametrize(
    ("cache_bytes", "nbytes", "cold"),
    [
        (1 * MB, 8 * MB, True),
        (16 * MB, 32 * MB, True),
        (260 * MB, 512 * MB, True),  # bounded, and still larger than the cache
        (512 * MB, 512 * MB, False),
        (1024 * MB, 512 * MB, False),
    ],
)
def test_the_host_buffer_exceeds_the_cache_within_bounds(cache_bytes: int, nbytes: int, cold: bool) -> None:
    sweep = HostSweep(cache_bytes)
    assert (sweep.nbytes, sweep.cold) == (nbytes, cold)


def test_the_host_reads_to_the_end_of_its_buffer() -> None:
    read = _host_reader(10_000)
    assert read() == -1  # what it looks for is nowhere


def test_a_warm_case_sweeps_nothing() -> None:
    warm = make_sweep("warm", "cuda")
    assert isinstance(warm, NoSweep)
    assert (warm.cold, warm.nbytes) == (False, 0)
    warm()


def test_an_accelerator_that_does_not_tell_its_cache_gets_a_generous_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(cache_bytes=100 * MB)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(device))
    sweep = make_sweep("cold", NAME)
    assert isinstance(sweep, ReadSweep)
    assert (sweep.nbytes, sweep.cold, sweep.persisting_off) == (256 * MB, True, False)
    sweep()
    assert device.now == LAUNCH_NS + 256 * 1024 * COLD_NS_PER_KB


def test_a_cold_case_on_the_cpu_sweeps_the_host() -> None:
    assert isinstance(make_sweep("cold", "cpu"), HostSweep)


def test_the_device_buffer_is_random_is_only_read_and_leaves_torchs_generator_alone() -> None:
    torch = pytest.importorskip("torch")
    state = torch.get_rng_state()
    read = _reader(torch.device("cpu"), 4 * 10_000)
    assert torch.equal(torch.get_rng_state(), state)
    total = read()
    assert 4_500 < float(total) < 5_500  # 10,000 draws between 0 and 1
    first = float(total)
    assert read() is total
    assert float(total) == first


def test_a_timer_too_coarse_to_tell_is_not_asked() -> None:
    """A pair of events takes in the host: no probe by it can speak for or against the sweep."""

    class Coarse(HostTimer):
        name = "cuda-events"

        def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
            raise AssertionError("asked")

    HostSweep(1 << 20).prove(Coarse())
