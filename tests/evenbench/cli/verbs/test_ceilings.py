"""`evenbench ceilings`, over a process that answers what the test says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evenbench.cli.main import main
from evenbench.cli.verbs.machine import ceilings
from evenbench.reports.render.terminal import vendor
from evenbench.reports.render.terminal.ceilings import ceilings_json, ceilings_table
from evenbench.reports.units import unit_of
from evenbench.runner.ceilings import keys
from evenbench.runner.launchers.launcher import LocalLauncher
from evenbench.runner.machine.gpus import Gpu
from evenbench.runner.process.bounded import Finished
from evenbench.runner.records import CeilingsEvent

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "terminal-ceilings.txt"
H200 = CeilingsEvent(
    device="NVIDIA H200",
    uuid="GPU-1",
    rates={
        "compute/float32": 6.2e13, "compute/int32": 1.6e13, "matrix/bfloat16/library": 7.9e14, "matrix/bfloat16": 7.9e14,
        "memory/copy": 4.3e12, "launch": 2.1e5,
    },
    curve=[(8192, 4e9), (1 << 20, 5e11), (1 << 30, 4.3e12)],
    spread={"compute/float32": (6.1e13, 0.012), "memory/copy": (4.29e12, 0.004)},
    shapes={"compute/float32": "8 × 256 threads", "matrix/bfloat16": "library: torch.matmul 8192³"},
    skipped={"matrix/float8_e4m3fn/library": "this torch has no product of float8 matrices"},
    timing="cupti",
    software={"driver": "580"},
    at="2026-11-30T00:00:00+00:00",
)  # fmt: skip


def test_the_table() -> None:
    found = ceilings_table(H200, 120)
    if os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_a_model_that_nobody_states_anything_about_has_no_such_columns() -> None:
    found = ceilings_table(H200.model_copy(update={"device": "NVIDIA H4000"}), 120)
    assert "stated" not in found
    assert "62.0 TFLOP/s" in found


def test_foreign_text_in_a_table_is_made_harmless() -> None:
    found = ceilings_table(H200.model_copy(update={"device": "bad\x1b[31m\nname", "skipped": {"launch": "a\rb"}}), 120)
    assert "\x1b" not in found
    assert "\r" not in found


def test_json_holds_the_record_and_what_is_stated() -> None:
    found = ceilings_json(H200)
    stated = found.pop("stated")
    assert CeilingsEvent.model_validate_json(json.dumps(found)) == H200
    assert stated["rates"]["matrix/bfloat16/library"] == stated["rates"]["matrix/bfloat16"] == 989.4e12
    assert stated["rates"]["memory/copy"] == 4.8e12
    assert "launch" not in stated["rates"]
    assert ceilings_json(H200.model_copy(update={"device": "x"}))["stated"] == {"rates": {}, "sources": []}


def test_what_vendors_state_has_a_source_and_a_key() -> None:
    for model in vendor.STATED.values():
        assert model.sources
        assert all(source.startswith("https://") for source in model.sources)
        for key, rate in model.rates.items():
            assert key == "memory" or key.split("/")[0] in ("compute", "matrix")
            assert 1e11 < rate < 1e16


@pytest.mark.parametrize(
    ("key", "unit"),
    [("compute/float32", "FLOP/s"), ("matrix/int8/mma", "OP/s"), ("compute/int32", "OP/s"), ("memory/read", "B/s"), ("launch", "/s")],
)  # fmt: skip
def test_units(key: str, unit: str) -> None:
    assert unit_of(key) == unit


class Machine:
    """A machine with one GPU, or none, whose probes answer at once."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str]] = []
        self.gpus = [Gpu("GPU-1", "NVIDIA H200", "580")]
        self.answer: dict[str, Any] = {"rates": {"memory/copy": 4.3e12}, "timing": "cupti"}
        monkeypatch.chdir(folder)
        monkeypatch.setenv("EVENBENCH_CACHE", str(folder / "kept"))
        monkeypatch.setattr("tempfile.tempdir", None)
        monkeypatch.setattr(ceilings, "gpus", lambda: self.gpus)
        monkeypatch.setattr("evenbench.runner.machine.doctor.check_before_run", lambda *_, **__: [])
        monkeypatch.setattr(keys, "max_clocks", lambda _: {})
        monkeypatch.setattr(LocalLauncher, "run_probes", lambda _, *asked: self._run(*asked))
        monkeypatch.setattr("evenbench.runner.ceilings.obtain.probe_here", self._run)

    def _run(self, device: str, gpu: str, timeout_s: float) -> Finished:
        self.asked.append((device, gpu))
        return Finished(0, json.dumps(self.answer).encode(), b"", truncated=False)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_measured_once_then_kept(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ceilings"]) == 0
    first = capsys.readouterr()
    assert "4.30 TB/s" in first.out
    assert "measuring the peaks of NVIDIA H200" in first.err
    assert main(["ceilings", "--json"]) == 0
    second = capsys.readouterr()
    assert json.loads(second.out)["rates"] == {"memory/copy": 4.3e12}
    assert second.err == ""
    assert machine.asked == [("cuda", "GPU-1")]
    main(["ceilings", "--no-cache"])
    main(["ceilings", "--refresh"])
    assert len(machine.asked) == 3


def test_what_cannot_be_kept_is_shown_and_told(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kept").write_text("no folder", encoding="utf-8")
    for _ in range(2):
        assert main(["ceilings"]) == 0
        said = capsys.readouterr()
        assert "4.30 TB/s" in said.out
        assert "cannot be written, so they are not kept; EVENBENCH_CACHE names" in said.err
    assert len(machine.asked) == 2


def test_the_cpu_is_measured_where_it_is_asked_for_or_there_is_no_gpu(machine: Machine) -> None:
    assert main(["ceilings", "--device", "cpu"]) == 0
    machine.gpus = []
    assert main(["ceilings", "--no-cache"]) == 0
    assert machine.asked == [("cpu", ""), ("cpu", "")]


def test_a_spread_that_is_too_large_is_noted(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.answer["spread"] = {"memory/copy": [4e12, 0.2], "launch": [1.0, 0.05]}
    main(["ceilings"])
    assert "note: memory/copy differed by more than 10% between repetitions" in capsys.readouterr().err


def test_a_picture_is_drawn_of_it(machine: Machine) -> None:
    pytest.importorskip("vl_convert")
    machine.answer["rates"]["compute/float32"] = 6e13
    assert main(["ceilings", "--plot", "out.svg"]) == 0
    assert "<svg" in Path("out.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--device", "tpu"], 2, "invalid choice"),
        (["--device", "cpu", "--gpu", "0"], 2, "--gpu with --device cpu"),
        (["--refresh", "--no-cache"], 2, "--refresh with --no-cache"),
        (["--results", "x.jsonl"], 2, "--results needs --plot"),
        (["--results", "x.jsonl", "--plot", "x.svg"], 2, "--results x.jsonl: no such file"),
        (["--plot", "x.jpg"], 2, "neither .svg nor .png"),
        (["--plot", "none/x.svg"], 2, "none/x.svg cannot be written: No such file or directory (hint: name another"),
        (["--gpu", "9"], 2, "does not name one GPU"),
    ],
)
def test_what_contradicts_itself_is_refused_before_measuring(
    machine: Machine, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main(["ceilings", *words]) == code
    assert said in capsys.readouterr().err
    assert machine.asked == []


def test_no_gpu_is_an_unfit_machine(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.gpus = []
    assert main(["ceilings", "--device", "cuda"]) == 3
    assert "no NVIDIA GPU that answers" in capsys.readouterr().err
