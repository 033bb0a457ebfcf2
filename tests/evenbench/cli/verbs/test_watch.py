"""What is shown of a run that has not ended, and how its end is noticed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from evenbench.cli.verbs.judge.watch import QUIET_S, age, given_up, state_of, written
from evenbench.reports.compare.report import headline, measured, so_far
from evenbench.runner.records import Writer
from tests import build
from tests.build import Case


def test_a_file_counts_from_its_first_whole_line(tmp_path: Path) -> None:
    there, empty, half = tmp_path / "there", tmp_path / "empty", tmp_path / "half"
    there.write_bytes(b"{}\n{")
    empty.write_bytes(b"")
    half.write_bytes(b"{")
    assert state_of([there, empty, half, tmp_path / "none"]) == (4, 0, 0, 0)
    os.mkfifo(tmp_path / "pipe")
    assert state_of([tmp_path, tmp_path / "pipe"]) == (1, 1)  # whoever reads them refuses them
    with there.open("ab") as file:
        file.write(b"}\n")
    assert state_of([there]) == (6,)


def test_a_run_that_writes_holds_its_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Writer(path):
        assert written(path)
    assert not written(path)
    with Writer(path, resume=True):  # looking has left nothing behind
        assert written(path)


def test_the_age_is_that_of_the_newest_line(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    new.touch()
    now = time.time()
    os.utime(old, (now - 100, now - 100))
    os.utime(new, (now + 100, now + 100))  # a clock that is not ours
    assert age([old]) >= 99
    assert age([old, new]) == 0


def test_files_are_given_up_that_are_old_and_that_nobody_holds(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    long_ago = time.time() - QUIET_S - 60
    with Writer(path):
        os.utime(path, (long_ago, long_ago))
        assert not given_up([path])  # a launch may take its time
    assert given_up([path])
    path.touch()
    assert not given_up([path])  # its run may be about to go on


def test_rows_whose_turn_has_not_come_are_not_failed() -> None:
    events = build.events([Case("a"), Case("b")], made=1, verb="run")
    begun = [each for each in events if getattr(each, "case", "a") != "b" and each.event != "end"]
    found = measured(build.of(begun))
    shown = so_far(found)
    assert [(row.case, row.status, row.reason) for row in found.rows] == [
        ("a", "ok", ""),
        ("b", "failed", "not measured"),
    ]
    assert [row.case for row in shown.rows] == ["a"]
    assert headline(found) == "partial: 1 failed, 1 measured"
    assert headline(shown) == "partial: 1 measured"
