"""Telemetry, the look before a run and `--explain` on a real device."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.timing.cupti.timer import CuptiTimer
from evenbench.runner.timing.protocol import Counts, measure
from evenbench.runner.worker.launch import telemetry
from tests.fakes.repositories import Repository

pytestmark = pytest.mark.gpu
pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed, so launches see nothing of the device")

ROOT = Path(__file__).parents[2]
SPIN_CYCLES = 500_000  # a few hundred microseconds at any clock
CASES = """
    import torch
    from evenbench import Bench, case

    @case("gpu/silu", params={"n": [1 << 20]}, tags={"pr"})
    def silu(p, device):
        \"\"\"Three kernels and a copy.\"\"\"
        x, y = torch.randn(p.n, device=device), torch.randn(p.n, device=device)
        out = torch.empty_like(x)

        def run():
            out.copy_(torch.nn.functional.silu(x) * y + y)

        return Bench(run=run, inputs={"x": x, "y": y}, outputs={"out": out})
"""
SUITES = """
    version: 1
    defaults: {warmup_ms: 1, measure_ms: 10}
    suites:
      pr: {include: ["tag:pr"], rounds: 6, max_rounds: 6}
"""
UNTOUCHED = """
import sys, threading
import torch
from evenbench.runner.worker.launch import telemetry
watch = telemetry.start("cuda", {"CUDA_VISIBLE_DEVICES": sys.argv[1]})
watch.mark()
values = watch.stop()
assert values["samples"] >= 1, values
assert not torch.cuda.is_initialized()
assert threading.active_count() == 1
"""


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


@pytest.fixture(scope="module")
def environment(torch: Any) -> dict[str, str]:
    """The variables of a launch on the GPU at hand."""
    return {"CUDA_VISIBLE_DEVICES": f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"}


def spin(torch: Any, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        torch.cuda._sleep(SPIN_CYCLES)
        torch.cuda.synchronize()


def test_what_nvml_says_of_a_busy_device(torch: Any, environment: dict[str, str]) -> None:
    watch = telemetry.start("cuda", environment)
    spin(torch, 1.0)
    watch.mark()
    values = watch.stop()
    assert "note" not in values
    assert values["uuid"] == environment["CUDA_VISIBLE_DEVICES"]
    assert values["compute_mode"] in ("default", "exclusive process")
    assert int(values["samples"]) >= 4
    low, middle, high = (float(values[f"sm_clock_{which}mhz"]) for which in ("min_", "", "max_"))
    assert 100 <= low <= middle <= high <= 5_000
    assert 10 <= float(values["power_w"]) <= float(values["power_max_w"]) <= 3_000
    assert 5 <= float(values["temperature_c"]) <= float(values["temperature_max_c"]) <= 120
    assert isinstance(values["throttle_reasons"], str)
    assert float(values["memory_used_by_others_mib"]) >= 0


def test_the_thread_never_opens_the_device_for_cuda(environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", UNTOUCHED, environment["CUDA_VISIBLE_DEVICES"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_watching_moves_no_time(torch: Any, environment: dict[str, str]) -> None:
    x = torch.randn(1 << 24, device="cuda")

    def busy(watched: bool) -> float:
        watch = telemetry.start("cuda" if watched else "cpu", environment)
        timer = CuptiTimer()
        try:
            measured = measure(
                timer, lambda: None, x.sin, Counts(20, 200), deadline_ns=None, clock=time.perf_counter_ns
            )
        finally:
            timer.close()
            watch.stop()
        return statistics.median(measured.segment.device_busy_ns)

    pairs = [(busy(False), busy(True)) for _ in range(5)]
    assert statistics.median(on / off for off, on in pairs) == pytest.approx(1, abs=0.01)


def evenbench_run(path: Path, environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """`evenbench run` on the GPU, in a repository made at `path`."""
    repository = Repository(path)
    repository.git("init", "-q", "-b", "main")
    repository.commit({"cases/gpu.py": CASES, "cases/suites.yaml": SUITES})
    command = [sys.executable, "-P", "-m", "evenbench", "run", "--output", "out.jsonl", *options]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, **environment, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=path, env=variables, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def explained(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> tuple[str, list[dict[str, Any]]]:
    """What a run with `--explain` prints, and the lines of its results."""
    path = tmp_path_factory.mktemp("explained")
    # This process holds memory of the GPU, so that for the run there is another tenant.
    done = evenbench_run(path, environment, "--explain", "--ignore-unfit")
    assert done.returncode == 0, done.stderr
    return done.stdout, [json.loads(line) for line in (path / "out.jsonl").read_text().splitlines()]


def test_every_launch_keeps_its_telemetry(
    explained: tuple[str, list[dict[str, Any]]], environment: dict[str, str]
) -> None:
    ends = [line for line in explained[1] if line["event"] == "launch_end"]
    assert len(ends) >= 2
    for end in ends[-2:]:  # preparation and the timed launch; discovery uses no device
        assert end["telemetry"]["uuid"] == environment["CUDA_VISIBLE_DEVICES"]
        assert end["telemetry"]["sm_clock_mhz"] > 100
        assert "memory_used_by_others_mib" in end["telemetry"]


def test_each_kernel_of_a_run_is_explained(explained: tuple[str, list[dict[str, Any]]]) -> None:
    text, lines = explained
    (record,) = [line for line in lines if line["event"] == "measurement"]
    assert sum(kernel["count"] for kernel in record["kernels"]) == sum(record["n_kernels"])
    assert all(kernel["median_ns"] > 0 and kernel["registers"] > 0 for kernel in record["kernels"])
    # They follow one another, so their times add up to the busy time.
    per_call = sum(k["count"] * k["median_ns"] for k in record["kernels"]) / len(record["n_kernels"])
    assert per_call == pytest.approx(statistics.median(record["device_busy_ns"]), rel=0.05)
    for label in ("kernels", "copies", "latency", "clocks", "timer", "busy", "samples"):
        assert re.search(rf"^  {label} ", text, re.MULTILINE), text
    assert "SM " in text
    assert "MHz" in text
    shares = [float(share) for share in re.findall(r"µs +(\d+\.\d) % ", text)]
    assert sum(shares) == pytest.approx(100, abs=1)


def test_a_run_beside_a_tenant_ends_before_it_measures(torch: Any, environment: dict[str, str], tmp_path: Path) -> None:
    tenant = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    try:
        done = evenbench_run(tmp_path, environment)
    finally:
        del tenant
        torch.cuda.empty_cache()
    assert done.returncode == 3, done.stderr
    assert "this machine is not fit: GPU memory: " in done.stderr
    assert "--ignore-unfit" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
