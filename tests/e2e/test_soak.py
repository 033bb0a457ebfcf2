"""The soak and its accounts, for some seconds: random faults, in a case and of the driver, cost who makes them alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from measurements.faults.fault_cases import FAULTS, HEALTHY, drawn
from measurements.faults.injected import Chaos, _most
from tests.test_docs import ROOT

DONE = ("kill the parent", "harm later", "leave a thread", "fork", "raise", "clear variables", "garbage")
KILLED = 7  # the seed of a run whose driver is killed


def test_random_faults_cost_nobody_else(tmp_path: Path) -> None:
    outcome = Chaos(tmp_path.resolve(), ["", "", *DONE]).run(6, seed=1)
    assert outcome.wrong == []
    assert set(outcome.faults) == set(DONE)
    assert outcome.healthy == len(HEALTHY) * 12
    assert outcome.again > 0


def test_the_accounts_find_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left over: were it not found, no soak would say so."""
    monkeypatch.setattr("measurements.faults.injected.GONE_S", 0.2)
    chaos = Chaos(tmp_path.resolve(), ["", "", "abort"])
    with subprocess.Popen(["sleep", "60"], env={"HERE": str(tmp_path.resolve())}) as left:
        (tmp_path / "tmp" / "left").touch()
        try:
            found = chaos._leftovers(set())
        finally:
            left.kill()
    assert found[0] == f"process {left.pid} is left"
    assert "left is left" in found


@pytest.mark.parametrize("seed", range(3))
def test_faults_are_drawn_as_many_as_asked_for(seed: int) -> None:
    found = drawn(500, 1_000, seed)
    assert found == drawn(500, 1_000, seed)
    assert found[:2] == ["", ""]
    assert (len(found), sum(1 for each in found if each)) == (1_002, 500)
    assert set(found) == {"", *FAULTS}


def test_a_soak_ends_by_itself_with_a_summary() -> None:
    command = [str(ROOT / "scripts" / "soak"), "--minutes", "0", "--seed", str(KILLED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = done.stdout.splitlines()
    assert re.fullmatch(rf"seed {KILLED}: 8 faults in \d+ launches; SIGKILL; \d+ s: held", first)
    assert re.fullmatch(
        r"1 runs, 2 commands, \d+ launches, 8 faults of \d kinds, \d+ measurements of .*: all held", last
    )


def test_one_look_at_many_files_is_no_leak_and_files_that_stay_are() -> None:
    assert _most([11, 11, 18, 11, 12, 12]) == 12
    assert _most([11, 12, 13, 14]) == 13
    assert _most([7]) == 7
