"""Expectations and generated texts on a real GPU, through the real command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.repositories import Repository

pytestmark = pytest.mark.gpu

CASES = """
    import torch
    from evenbench import Bench, Work, case

    @case("gpu/add", params={"n": [1 << 22]}, tags={"pr"})
    def add(p, device):
        x = torch.randn(p.n, device=device)
        return Bench(
            run=lambda: x + x, inputs={"x": x}, reference=lambda: x * 2,
            work=Work(dtype="float32", flops=p.n, bytes_read=x.nbytes, bytes_written=x.nbytes),
            artifacts={"where.txt": device + "\\n"},
        )
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    path = tmp_path / "repository"
    path.mkdir()
    made = Repository(path)
    made.git("init", "-q", "-b", "main")
    made.commit({"cases/add.py": CASES})
    return made


def outcomes(path: Path) -> list[str]:
    return [each["outcome"] for each in json.loads(path.read_text())["expectations"]]


def test_what_ten_launches_amount_to_is_met_twice_and_a_tenth_slower_is_not(repository: Repository) -> None:
    import torch

    gpu = {"CUDA_VISIBLE_DEVICES": "0"}
    proposed = repository.evenbench("expect", "--write", "--ignore-unfit", **gpu)  # this process may hold memory there
    assert proposed.returncode == 0, proposed.stderr
    name = torch.cuda.get_device_properties(0).name
    assert f"{name}:" in (repository.path / "cases/expectations.yaml").read_text()
    for number in range(2):
        met = repository.evenbench(
            "run", "--ignore-unfit", "--fail-on", "expectation", "--json", f"{number}.json", **gpu
        )
        assert met.returncode == 0, met.stdout
        assert outcomes(repository.path / f"{number}.json")[0] in ("met", "flaky")
    slowed = repository.evenbench(
        "run", "--ignore-unfit", "--plant", "gpu/add**=0.1", "--fail-on", "expectation", "--json", "slow.json", **gpu
    )
    assert slowed.returncode == 1, slowed.stdout
    assert outcomes(repository.path / "slow.json") == ["worse"]
    elsewhere = repository.evenbench("run", "--timer", "host", "--json", "cpu.json", CUDA_VISIBLE_DEVICES="")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert outcomes(repository.path / "cpu.json") == ["skipped"]


def test_texts_are_asked_for_off_the_gpu_and_looked_at_on_it(repository: Repository) -> None:
    gpu = {"CUDA_VISIBLE_DEVICES": "0", "CI": ""}
    saved = repository.evenbench("run", "--artifacts-only", "--update-artifacts", **gpu)
    assert saved.returncode == 0, saved.stderr
    assert (repository.path / "cases/artifacts/where.txt").read_text() == "cpu\n"
    measured = repository.evenbench("run", "--ignore-unfit", "--json", "out.json", **gpu)
    assert measured.returncode == 0, measured.stderr
    data = json.loads((repository.path / "out.json").read_text())
    assert [(each["name"], each["status"]) for each in data["artifacts"]] == [("where.txt", "changed")]
    assert data["artifacts"][0]["diff"].splitlines()[-2:] == ["-cpu", "+cuda"]
    assert data["rows"][0]["times"]["device_busy_ms"] > 0
