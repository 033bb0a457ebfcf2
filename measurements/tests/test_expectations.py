"""The figures of expectations, from commands that only say what they would have found."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.config.expectations import FILE, Expectation, dump, parse
from measurements.kernels import expectations as prove_expectations
from measurements.parts import ROOT

FOUND = Expectation("NVIDIA H200", "codegen/dense[B=1]", "baseline", "tflops", 10.0, 0.02, 0.0, "2026-11-30", "x")


@pytest.mark.parametrize(("slowed", "fine"), [(1, True), (0, False)])
def test_two_runs_must_pass_and_the_slowed_one_must_not(
    slowed: int, fine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options: list[Sequence[str]] = []

    def run(command: Sequence[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        options.append(command[3:])
        if "expect" in command:
            known = parse((cwd / "cases" / FILE).read_text(), FILE)
            (cwd / "cases" / FILE).write_text(dump([*known, FOUND]))
            return subprocess.CompletedProcess(command, 0)
        planted = "--plant" in command
        row = {"case": FOUND.case, "implementation": "baseline", "metric": "tflops"}
        told = row | {"attempts": [9.0, None] if planted else [10.01], "outcome": "worse" if planted else "met"}
        Path(command[command.index("--json") + 1]).write_text(json.dumps({"expectations": [told]}))
        return subprocess.CompletedProcess(command, slowed if planted else 0)

    monkeypatch.setattr(subprocess, "run", run)
    before = (ROOT / "cases" / FILE).read_text()
    outcome = prove_expectations.expectations(
        argparse.Namespace(out=tmp_path, suite="codegen", slowed="codegen/dense**")
    )
    assert outcome is fine
    assert (ROOT / "cases" / FILE).read_text() == before
    shown = capsys.readouterr().out
    assert "| `codegen/dense[B=1]` baseline | tflops | 10 | 2% | 10.01: met | 10.01: met | 9, –: worse |" in shown
    assert ("ended with 0, not 1" in shown) is not fine
    assert [words[0] for words in options] == ["expect", "run", "run", "run"]
    assert options[-1][options[-1].index("--plant") + 1] == "codegen/dense**=0.1"
