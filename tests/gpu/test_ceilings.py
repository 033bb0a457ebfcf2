"""Ceilings on the device: every probe runs, does what it counts, and reaches nothing that cannot be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from evenbench.reports.render.terminal.vendor import stated
from evenbench.runner.ceilings.probe.benchmarker import Benchmarker
from evenbench.runner.ceilings.probe.peaks import find
from evenbench.runner.ceilings.probe.probes import PeakTarget, Unsupported

pytestmark = pytest.mark.gpu

POSSIBLE = 1.05  # of what the vendor states: clocks may be a little above those that it reckons with
DOUBLED = (1.8, 2.2)  # times as long for twice the work, of launches of at least this long:
LONG_S = 2e-3


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    import torch

    from evenbench.runner.ceilings.probe.cuda import CudaDevice

    before = torch.cuda.current_stream()
    found = CudaDevice(buffer_bytes=64 << 20)
    yield found
    found._clock._timer.close()  # type: ignore[attr-defined]  # other tests of this process find CUPTI as they expect it
    torch.cuda.set_stream(before)
    torch.set_float32_matmul_precision("highest")


def targets(device: Any) -> dict[str, PeakTarget]:
    return {target.key: target for target in device.targets()}


def test_the_timer_is_cupti(device: Any) -> None:
    assert device.timing == "cupti"


def test_every_shape_of_every_probe_runs_or_says_what_is_lacking(device: Any) -> None:
    ran = set()
    for key, target in targets(device).items():
        try:
            shapes = target.shapes()
        except Unsupported:
            continue
        assert all(shape.probe.sample(max(2, shape.probe.min_iterations)) > 0 for shape in shapes), key
        ran.add(key)
    assert {"compute/float32", "compute/float64", "compute/float16", "compute/bfloat16", "compute/int32"} <= ran
    assert {f"matrix/{dtype}/mma" for dtype in ("float16", "bfloat16", "tf32", "float64", "int8")} <= ran
    assert {f"matrix/{dtype}/library" for dtype in ("float32", "tf32", "float16", "bfloat16", "float64")} <= ran
    assert {"memory/copy", "memory/read", "memory/write", "launch"} <= ran


@pytest.mark.timing
@pytest.mark.parametrize(
    "key", ["compute/float32", "compute/float16", "compute/int32", "matrix/bfloat16/mma", "memory/read"]
)
def test_twice_the_work_takes_twice_as_long(device: Any, key: str) -> None:
    """No compiler took the work out of the loop."""
    probe = targets(device)[key].shapes()[0].probe
    iterations = 64
    while probe.sample(iterations) < LONG_S:
        iterations *= 2
    once, twice = (min(probe.sample(iterations * times) for _ in range(5)) for times in (1, 2))
    assert DOUBLED[0] <= twice / once <= DOUBLED[1]


def test_a_copy_copies_and_a_write_writes(device: Any) -> None:
    import torch

    found = targets(device)
    for shape in found["memory/copy"].shapes():
        device._buffers[0].zero_()
        shape.probe.sample(1)
        assert torch.equal(device._buffers[0], device._buffers[1])
    for shape in found["memory/write"].shapes():
        device._buffers[0].zero_()
        shape.probe.sample(1)
        assert int((device._buffers[0] == 0).sum()) < device._buffers[0].numel() // 1_000


def test_windows_copy_what_they_count(device: Any) -> None:
    for shape in device.window(1 << 20):
        device._buffers[0].zero_()
        assert shape.probe.sample(4) > 0
        changed = int((device._buffers[0] != 0).sum()) * 4
        assert 0.99 * 4 * (1 << 19) <= changed <= 4 * (1 << 19)


@pytest.mark.timing
@pytest.mark.slow
def test_nothing_is_faster_than_it_can_be(device: Any) -> None:
    found = find(device, Benchmarker(time.perf_counter), lambda _: None, repeats=1).as_fields()
    rates, known = found["rates"], stated(device.name)
    assert isinstance(rates, dict)
    assert len(rates) >= 15
    for key, rate in rates.items():
        claim = known.rate(key) if known else None
        assert claim is None or rate <= POSSIBLE * claim, key
    curve = found["curve"]
    assert isinstance(curve, list)
    assert curve[0][1] < curve[-1][1]
