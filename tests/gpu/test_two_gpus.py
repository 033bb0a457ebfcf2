"""Two real GPUs at once: each case on one of them throughout, each launch on the GPU that it was sent to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.machine.gpus import Gpu, gpus
from tests.fakes.parents import warm_parent
from tests.fakes.repositories import Repository

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
CASES = """
    import torch
    from evenbench import Bench, case

    @case("gpu/scale", params={"n": [1 << 20, 4 << 20, 16 << 20, 32 << 20]})
    def scale(p, device):
        x = torch.randn(p.n, device=device)
        return Bench(run=lambda: x * 2, inputs={"x": x}, reference=lambda: x + x)

    @case("host/sum", device="cpu")
    def total(p, device):
        x = torch.ones(1000)
        return Bench(run=lambda: x.sum(), inputs={"x": x}, reference=lambda: x.sum())
"""
SUITES = """
    version: 1
    defaults: {ceilings: false}
    suites: {pr: {include: ["**"], rounds: 6, max_rounds: 6}}
"""

HUNDRED = ROOT / "measurements/cases/hundred"
PREPARED = ("hundred/add[n=16384]", "hundred/matmul[n=256]")  # the second is the first to need cuBLAS
LAUNCH_S = 60  # for what takes one


@pytest.fixture(scope="module")
def two() -> list[Gpu]:
    found = gpus()
    if len(found) < 2:
        pytest.skip(f"this machine has {len(found)} GPUs, and two are needed")
    return found[:2]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory, two: list[Gpu]) -> list[dict[str, Any]]:
    """The lines of a comparison of one commit with itself on two GPUs."""
    path = tmp_path_factory.mktemp("two") / "repository"
    path.mkdir()
    repository = Repository(path)
    repository.git("init", "-q", "-b", "main")
    repository.commit({"cases/gpu.py": CASES, "cases/suites.yaml": SUITES})
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    temporary = path.parent / "tmp"
    temporary.mkdir()
    words = ["compare", "HEAD", "HEAD", "--gpus", "2", "--ignore-unfit", "--fail-on", "never", "--output", "out.jsonl"]
    variables = {
        "PYTHONPATH": paths,
        "TMPDIR": str(temporary),
        "EVENBENCH_LOCKS": str(temporary),
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in two),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "evenbench", *words],
        cwd=path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in (path / "out.jsonl").read_text().splitlines()]


def of(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == name]


def test_each_case_stays_on_one_gpu_and_both_are_used(events: list[dict[str, Any]]) -> None:
    launches = {launch["launch"]: launch for launch in of(events, "launch")}
    places: dict[str, set[str]] = {}
    for record in of(events, "measurement"):
        places.setdefault(record["case"], set()).add(launches[record["launch"]]["uuid"])
    assert len(places) == 5
    assert all(len(uuids) == 1 for uuids in places.values())
    assert len(set().union(*places.values())) == 2
    assert not of(events, "failure")


def test_a_launch_sees_the_gpu_that_it_was_sent_to(events: list[dict[str, Any]]) -> None:
    """Telemetry asks NVML for the UUID; the launch asks CUDA."""
    launches = {launch["launch"]: launch for launch in of(events, "launch")}
    seen = 0
    for end in of(events, "launch_end"):
        if uuid := end["telemetry"].get("uuid"):
            assert uuid == launches[end["launch"]]["uuid"]
            seen += 1
    assert seen >= 2 * 2 * 6  # sides, GPUs, rounds


def test_no_launch_meets_another_process_on_its_gpu(events: list[dict[str, Any]], two: list[Gpu]) -> None:
    """Except those that are there without the run, such as the process of these tests."""
    uuids = {launch["launch"]: launch["uuid"] for launch in of(events, "launch")}
    there = {gpu.uuid: processes_on(gpu) for gpu in two}
    for end in of(events, "launch_end"):
        if (others := end["telemetry"].get("other_processes")) is not None:
            assert others <= there[uuids[end["launch"]]]


def processes_on(gpu: Gpu) -> int:
    """How many processes the driver lists; none in most containers."""
    command = ["nvidia-smi", f"--id={gpu.uuid}", "--query-compute-apps=pid", "--format=csv,noheader"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return sum(1 for line in listed.splitlines() if line.strip().isdigit())


@pytest.mark.timeout(3 * LAUNCH_S)
def test_two_preparations_that_begin_at_once_both_end(two: list[Gpu]) -> None:
    """NVML takes longer then. Where CUDA did not wait for it, a lock of libcuda stayed with NVML's thread; cuBLAS hung."""
    setting = {"timeout_s": LAUNCH_S, "timer": "cupti", "cache": "cold", "allow_fallback": False}
    targets = [{"id": case, **setting} for case in PREPARED]
    job = {"kind": "prepare", "root": str(ROOT), "cases": str(HUNDRED), "without": [], "targets": targets}
    with ExitStack() as ends:
        both = [ends.enter_context(warm_parent(CUDA_VISIBLE_DEVICES=gpu.uuid)) for gpu in two]
        for parent in both:
            parent.send("warm", root=str(ROOT), preload=[])
        assert not any(parent.next("warm")["touched"] for parent in both)
        for _ in range(3):
            for parent in both:
                parent.send("launch", job=job, fork=True)
            assert [parent.next("exit")["status"] for parent in both] == ["ok", "ok"]
