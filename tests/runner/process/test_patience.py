"""A time limit does not count what nobody could use: pauses of the whole machine. Nor does it know the time of day."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from evenbench.runner.process.patience import HEARTBEAT_S, PAUSE_S, Patience, running_s
from tests.test_docs import ROOT


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_time_passes() -> None:
    clock = Clock()
    patience = Patience(3.5, clock)
    seen = []
    for _ in range(5):
        seen.append((patience.left(), patience.slice()))
        clock.now += 1.0
    assert seen == [(3.5, 1.0), (2.5, 1.0), (1.5, 1.0), (0.5, 0.5), (-0.5, 0.0)]
    assert patience.paused_s == 0


def test_a_pause_is_not_counted() -> None:
    clock = Clock()
    patience = Patience(3.0, clock)
    clock.now += 1.0
    assert patience.left() == 2.0
    clock.now += 3_600.0
    assert patience.left() == 2.0
    clock.now += HEARTBEAT_S + PAUSE_S  # a busy machine may be so late: it counts
    assert patience.left() == -1.0
    assert patience.paused_s == 3_600.0


def test_the_clock_goes_on_as_the_kernels_does() -> None:
    before = running_s()
    time.sleep(0.01)
    assert 0.01 <= running_s() - before < 60
    assert running_s() >= time.monotonic() - 1


WALL = ("time.time", "time.time_ns", "time.localtime", "time.gmtime")


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in (ROOT / "runner").rglob("*.py")}), ids=lambda folder: folder.name
)
def test_no_deadline_knows_the_time_of_day(folder: Path) -> None:
    """Nothing that measures asks for it as a number; the command line may, to show it."""
    calls = [
        f"{path.name}: {ast.unparse(node.func)}"
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WALL
    ]
    assert folder.name == "cli" or calls == []
