"""The warm parent that tests drive by hand ends with its test, and its launch and pipes with it."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from tests.fakes.parents import END_S, Parent, warm_parent
from tests.fakes.processes import soon_gone

ROOT = Path(__file__).parents[1]
CASES = """
from evenbench import Bench, case


@case("slow/start", device="cpu")
def start(p, device):
    import os, time
    from pathlib import Path

    Path(os.environ["STARTED"], str(os.getpid())).touch()
    time.sleep(60)
    return Bench(run=lambda: None)
"""


def launch(parent: Parent, cases: Path, started: Path) -> None:
    """Start a launch and wait until its case is being built."""
    target = {"id": "slow/start", "timeout_s": 60, "timer": "host", "cache": "warm", "allow_fallback": False}
    job = {"kind": "prepare", "root": str(cases), "cases": str(cases), "without": [], "targets": [target]}
    parent.send("launch", job=job, fork=True)
    assert parent.next("begin")["case"] == "slow/start"
    deadline = time.monotonic() + END_S
    while not list(started.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.parametrize("fails", [False, True], ids=["passes", "fails"])
def test_nothing_of_a_warm_parent_is_left(tmp_path: Path, fails: bool) -> None:
    """A pipe that is left open is a ResourceWarning when it is collected, and here warnings are errors."""
    cases, started = tmp_path / "cases", tmp_path / "started"
    cases.mkdir()
    started.mkdir()
    (cases / "slow.py").write_text(CASES)
    try:
        with warm_parent(STARTED=str(started)) as parent:
            parent.send("warm", root=str(ROOT), preload=[])
            assert parent.next("warm")["touched"] is False
            launch(parent, cases, started)
            if fails:
                raise InterruptedError
    except InterruptedError:
        assert fails
    assert parent.process.returncode == 1  # a launch was under way
    assert soon_gone(started)
    assert len(list(started.iterdir())) == 1
    assert parent.process.stdin is not None
    assert parent.process.stdout is not None
    assert parent.process.stdin.closed
    assert parent.process.stdout.closed
    del parent
    gc.collect()


def test_a_parent_that_ends_early_says_so() -> None:
    with warm_parent() as parent:
        assert parent.process.stdin is not None
        parent.process.stdin.close()
        with pytest.raises(AssertionError, match="ended with 0 before it sent 'warm'"):
            parent.next("warm")
