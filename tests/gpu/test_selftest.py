"""The CUPTI timer's self-test on a real device."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.timing.cupti import selftest
from evenbench.runner.timing.cupti.driver import Spinner, torch_spinner
from evenbench.runner.timing.cupti.timer import CuptiTimer, probe
from evenbench.runner.timing.protocol import BUFFER_BYTES, Segment
from evenbench.runner.timing.select import choose_timer

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
UNDER_TORCHS_PROFILER = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from evenbench.runner.errors import TimerUnavailable
from evenbench.runner.timing.cupti.timer import CuptiTimer

torch.zeros(1, device="cuda")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
    try:
        CuptiTimer().open(False, 1 << 20)
    except TimerUnavailable as error:
        print("refused:", error)
"""


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


@pytest.fixture
def spin(torch: Any) -> Spinner:
    return torch_spinner()


def block(timer: CuptiTimer, run: Callable[[], object], samples: int = 20) -> Segment:
    timer.open(False, BUFFER_BYTES)
    try:
        for i in range(samples):
            timer.iterate(i, lambda: None, run)
        return timer.collect()
    finally:
        timer.close()


def test_the_instrument_is_proven_here(torch: Any) -> None:
    facts = selftest.verify()
    assert facts["drop_counter"] == "live"
    assert float(facts["slope"] or 0) == pytest.approx(1, abs=0.005)
    assert 0 < float(facts["constant_ns"] or 0) < 2_000
    assert facts["tick_ns"] in {8, 16, 32, 64, 1024}
    assert facts["cupti_python"]
    assert facts["libcupti"]
    assert facts["cuda_driver"]
    assert facts["profiler"] == ""


def test_cupti_works_on_after_the_self_test(torch: Any) -> None:
    x = torch.randn(1 << 20, device="cuda")
    for _ in range(3):
        selftest.verify()
        segment = block(CuptiTimer(), x.neg)
        assert (segment.lost, segment.rejected, segment.n_kernels) == (0, [], [1] * 20)


def test_the_canary_reads_what_the_self_test_reads(torch: Any) -> None:
    facts, full = selftest.canary(), selftest.verify()
    assert float(facts["slope"] or 0) == pytest.approx(1, abs=0.02)
    assert float(facts["constant_ns"] or 0) == pytest.approx(float(full["constant_ns"] or 0), abs=1_000)


def test_the_probe_gets_a_record(torch: Any) -> None:
    probe()
    assert choose_timer("auto", "cuda", allow_fallback=False) == ("cupti", None)


@pytest.mark.parametrize("us", [2, 5, 20, 100])
def test_a_kernel_of_known_length_reads_its_length_and_a_constant(spin: Spinner, us: int) -> None:
    timer = CuptiTimer()
    block(timer, lambda: spin(us * 1_000))  # the first launch loads it
    segment = block(timer, lambda: spin(us * 1_000), 50)
    assert segment.n_kernels == [1] * 50
    assert [kernel["name"] for kernel in segment.kernels] == ["spin"]
    assert -1_000 < statistics.median(segment.device_busy_ns) - us * 1_000 < 2_000


def test_a_spinner_follows_the_stream_that_was_current(torch: Any) -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        spin = torch_spinner()
    done = torch.cuda.Event()
    spin(20_000_000)
    done.record(side)
    assert not done.query()
    side.synchronize()
    assert done.query()


def test_torchs_profiler_is_refused_by_name(torch: Any) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", UNDER_TORCHS_PROFILER, str(ROOT)], capture_output=True, text=True, check=True
    )
    assert "refused:" in finished.stdout
    assert "torch.profiler" in finished.stdout


TORCHS_PROFILER_IN_TURN = """
import statistics
import sys
sys.path.insert(0, sys.argv[1])
import torch
from evenbench.runner.timing.cupti.timer import CuptiTimer

x = torch.randn(1 << 22, device="cuda")


def theirs():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(20):
            x.neg()
        torch.cuda.synchronize()
    times = [event.device_time for event in profiler.events() if "neg" in event.name.lower() and event.device_time > 0]
    return len(times), 1e3 * statistics.median(times or [0])


def ours():
    timer = CuptiTimer()
    timer.open(False, 1 << 20)
    try:
        for i in range(20):
            timer.iterate(i, lambda: None, x.neg)
        segment = timer.collect()
    finally:
        timer.close()
    return sum(segment.n_kernels), statistics.median(segment.device_busy_ns)


x.neg()
torch.cuda.synchronize()
for turn in sys.argv[2].split(","):
    print(turn, *{"theirs": theirs, "ours": ours}[turn]())
"""


def in_turn(turns: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TORCHS_PROFILER_IN_TURN, str(ROOT), turns]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_torchs_profiler_sees_the_same_after_ours() -> None:
    """Kineto and cupti-python in one process: each sees all kernels, and equal times."""
    finished = in_turn("ours,ours,theirs,theirs")
    assert finished.returncode == 0, finished.stderr
    said = [line.split() for line in finished.stdout.splitlines()]
    assert [words[0] for words in said] == ["ours", "ours", "theirs", "theirs"]
    assert [int(words[1]) for words in said] == [20] * 4, finished.stdout
    times = [float(words[2]) for words in said]
    assert max(times) < 1.15 * min(times), finished.stdout


@pytest.mark.parametrize("turns", ["theirs,ours", "ours,theirs,ours"])
def test_after_torchs_profiler_ours_says_who_holds_cupti(turns: str) -> None:
    """Kineto stays subscribed until the process ends."""
    finished = in_turn(turns)
    assert finished.returncode != 0
    assert [line.split()[0] for line in finished.stdout.splitlines()] == turns.split(",")[:-1]
    assert "another tool is subscribed to CUPTI" in finished.stderr
    assert "torch.profiler" in finished.stderr
