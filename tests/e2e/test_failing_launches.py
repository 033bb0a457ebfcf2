"""Launches that fail in rounds: the real command, real processes, and the exit code that a pull request sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.repositories import QUICK, Repository

# A case of which some launches of a side fail; `{deed}` runs with `n`, how often the side's case was made, from 0: the
# preparation. The file that counts is named by `{side}`, so that the sides count apart.
FLAKY = """
    import os, signal
    from pathlib import Path
    from evenbench import Bench, case

    COUNTER = Path({nest!r}) / "{side}"

    @case("flaky/sum", device="cpu", tags={{"pr"}})
    def flaky_sum(p, device):
        with COUNTER.open("a") as file:
            file.write("x")
        n = COUNTER.stat().st_size - 1
        {deed}
        return Bench(run=lambda: sum(range(1000)))
"""
NOTHING = "pass"
DIES = "n % 4 and os.abort()"  # in three of four
SEGFAULTS = "n % 4 and os.kill(os.getpid(), signal.SIGSEGV)"
RAISES = "if n % 4: raise RuntimeError('illegal memory access')"
RAISES_IN_HALF = "if n % 2: raise RuntimeError('illegal memory access')"
ONCE = "if n == 3: raise RuntimeError('illegal memory access')"
KILLED_AT_FIRST = "n % 2 and os.kill(os.getpid(), signal.SIGKILL)"  # and works when it is tried again


def compared(repository: Repository, base: str, head: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the row of the flaky case."""
    nest = repository.path.parent / "nest"
    nest.mkdir()
    for side, deed in (("base", base), ("head", head)):
        repository.commit({"cases/flaky.py": FLAKY.format(nest=str(nest), side=side, deed=deed)})
    done = repository.evenbench(
        "compare", "HEAD~1", "HEAD", "--seed", "3", "--output", "out.jsonl", "--json", "out.json", *arguments
    )
    assert "Traceback" not in done.stderr, done.stderr
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    return done.returncode, rows["flaky/sum"]


@pytest.mark.parametrize("deed", [DIES, SEGFAULTS, RAISES])
def test_a_head_that_dies_in_most_launches_is_failed_and_blocks(repository: Repository, deed: str) -> None:
    code, row = compared(repository, NOTHING, deed)
    assert (code, row["verdict"], row["broken_by_head"]) == (1, "failed", True)
    assert row["failed_launches"]["head"]["failed"] >= 2
    assert row["failed_launches"]["base"]["failed"] == 0
    report = repository.evenbench("report", "out.jsonl")
    assert report.returncode == 1
    assert "fail_on: failed" in report.stderr


def test_it_blocks_where_no_other_row_was_measured(repository: Repository) -> None:
    code, row = compared(repository, NOTHING, RAISES, "flaky/*")
    assert (code, row["verdict"]) == (1, "failed")


def test_a_broken_base_does_not_block(repository: Repository) -> None:
    code, row = compared(repository, RAISES, NOTHING)
    assert (code, row["verdict"], row["broken_by_head"]) == (0, "fixed", False)


def test_both_sides_alike_are_inconclusive(repository: Repository) -> None:
    code, row = compared(repository, RAISES_IN_HALF, RAISES_IN_HALF, "--fail-on", "failed")
    assert (code, row["verdict"]) == (0, "inconclusive")
    assert row["reason"].startswith(
        "head failed in 3 of 6 launches, base in 3 of 6: RuntimeError: illegal memory access"
    )


def test_one_launch_of_head_is_inconclusive(repository: Repository) -> None:
    code, row = compared(repository, NOTHING, ONCE, "--fail-on", "failed")
    assert (code, row["verdict"]) == (0, "inconclusive")
    assert row["reason"].startswith("head failed in 1 of 6 launches, base in 0 of 6: ")


def test_a_launch_that_somebody_killed_does_not_count(repository: Repository) -> None:
    """As a system whose memory others use up: the case is tried again alone, and no round is lost."""
    code, row = compared(repository, NOTHING, KILLED_AT_FIRST, "--fail-on", "failed")
    assert code == 0
    assert row["failed_launches"] is None
    assert (row["verdict"], row["rounds"]) != ("failed", 0)
    events = [json.loads(line) for line in (repository.path / "out.jsonl").read_text().splitlines()]
    assert any(event["event"] == "failure" and event["case"] is None for event in events)


@pytest.mark.parametrize(("deed", "code"), [(NOTHING, 0), (RAISES, 1)])
def test_run(repository: Repository, deed: str, code: int) -> None:
    """Of one side: whatever fails."""
    (repository.path.parent / "nest").mkdir()
    nest = str(repository.path.parent / "nest")
    repository.commit(
        {
            "cases/flaky.py": FLAKY.format(nest=nest, side="head", deed=deed),
            "cases/more.py": QUICK.replace("quick/", "more/"),
        }
    )
    done = repository.evenbench("run", "--output", "out.jsonl")
    assert done.returncode == code, done.stderr
    assert ("fail_on: failed" in done.stderr) == bool(code)
    assert repository.evenbench("report", "out.jsonl").returncode == code
