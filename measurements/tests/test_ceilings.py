"""The figure `ceilings`: what it holds against its targets, over probes that answer what the test says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from measurements.figures import parser
from measurements.kernels import ceilings as prove_ceilings
from measurements.kernels import ceilings_ops as prove_ceilings_ops
from measurements.kernels.ceilings import apart

GOOD = {"memory/copy": 4.3e12, "matrix/bfloat16/library": 790e12, "compute/float32": 62e12}


def answer(rates: Mapping[str, float]) -> dict[str, Any]:
    return {
        "rates": dict(rates), "spread": {key: [rate, 0.01] for key, rate in rates.items()}, "timing": "cupti",
        "shapes": dict.fromkeys(rates, "one"), "skipped": {"launch": "none"}, "curve": [[8192, 4e9]],
    }  # fmt: skip


def prove(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *processes: Mapping[str, float],
    wall: float = 50,
    kept: float = 0.4,
) -> bool:
    answers = iter([*processes, GOOD])  # the last is that on zeros
    for way in ("probed", "commanded"):
        monkeypatch.setattr(prove_ceilings, way, lambda *_: (answer(next(answers)), wall))
    monkeypatch.setattr(prove_ceilings, "device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(prove_ceilings, "kept_answer_s", lambda *_: kept)
    asked = argparse.Namespace(device="cuda", times=len(processes), out=tmp_path, only="")
    return prove_ceilings.prove_ceilings(asked)


def test_processes_apart() -> None:
    assert apart([10.0, 12.0, 11.0]) == pytest.approx(2 / 11)
    assert apart([10.0]) == 0


def test_all_targets_met(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(monkeypatch, tmp_path, GOOD, {key: rate * 1.01 for key, rate in GOOD.items()})
    out = capsys.readouterr().out
    assert "| `memory/copy` | 4.30 TB/s | 1.0% | 1.0% | -0.5% | 90% of 4.80 TB/s | one |" in out
    assert "not measured: launch: none" in out
    assert "NO" not in out


@pytest.mark.parametrize("key", GOOD)
def test_a_rate_below_its_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str) -> None:
    assert not prove(monkeypatch, tmp_path, GOOD | {key: GOOD[key] * 0.9})
    assert not prove(monkeypatch, tmp_path, {other: rate for other, rate in GOOD.items() if other != key})


def test_processes_that_disagree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not prove(monkeypatch, tmp_path, GOOD, GOOD | {"memory/copy": 4.4e12})


def test_what_the_host_sets_has_a_row_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not prove(monkeypatch, tmp_path, GOOD | {"launch": 2e5}, GOOD | {"launch": 1.9e5})
    out = capsys.readouterr().out
    assert "| processes agree, worst: memory/copy | 0.0% | 2% | yes |" in out
    assert "| the same of launch, which is the host's | 5.1% | 2% | NO |" in out


def test_what_takes_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not prove(monkeypatch, tmp_path, GOOD, wall=61)
    assert not prove(monkeypatch, tmp_path, GOOD, kept=0.6)


@pytest.mark.parametrize("options", [(), ("--ignore-unfit",)], ids=["fit", "unfit"])
def test_shares_are_measured_beside_another_tenant_only_on_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Every command that looks at the machine first gets the option; the tests on a GPU need it, as they hold memory there."""
    commands: list[Sequence[str]] = []

    def evenbench(arguments: Sequence[str], log: Path, where: Path = tmp_path) -> None:
        commands.append(arguments)
        if "--json" in arguments:
            Path(arguments[arguments.index("--json") + 1]).write_text('{"rows": []}')

    monkeypatch.setattr(prove_ceilings_ops, "evenbench", evenbench)
    monkeypatch.setattr(prove_ceilings_ops, "load_file", lambda _: None)
    monkeypatch.setattr(prove_ceilings_ops, "explain", lambda _: "")
    asked = parser().parse_args(["ceilings-ops", "ops/add", "--out", str(tmp_path), *options])
    assert not asked.figure(asked)  # no rows
    measuring = [command for command in commands if command[0] in ("ceilings", "run")]
    assert [command[0] for command in measuring] == ["ceilings", "run", "run"]
    assert ["--ignore-unfit" in command for command in measuring] == [bool(options)] * 3
    assert "ops/add" in measuring[1]
