"""Rows that are still open go on, others stop: by the real command on the host timer, and taken up after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.repositories import QUICK, Repository

pytestmark = pytest.mark.timing

# Each launch draws its own amount of work, so wildly that no number of rounds settles this row.
RESTLESS = """
    import os, random
    import numpy as np
    from evenbench import Bench, case

    @case("restless/sum", device="cpu")
    def restless(p, device):
        x, y = np.arange(1000.0), np.arange(20_000 * 2.0 ** random.Random(os.getpid()).uniform(0, 6))
        return Bench(run=lambda: (y.sum(), x.sum())[1], inputs={"x": x}, reference=lambda: x.sum())
"""
# So wide a range counts as unchanged that any six rounds settle the other one.
SUITES = """
    version: 1
    defaults: {measure_ms: 10, warmup_ms: 1, rounds: 6, max_rounds: 9, cache: warm}
    suites: {pr: {include: ["**"], min_effect: 0.2, equivalence: 0.9}}
"""
COMMAND = ("compare", "HEAD", "HEAD", "--output", "out.jsonl", "--fail-on", "never")


@pytest.fixture
def restless(repository: Repository) -> Repository:
    repository.commit({"cases/quick.py": QUICK, "cases/restless.py": RESTLESS, "cases/suites.yaml": SUITES})
    return repository


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rounds_of(repository: Repository, output: str) -> dict[str, int]:
    report = json.loads(repository.evenbench("report", output, "--format", "json", "--fail-on", "never").stdout)
    return {row["case"]: row["rounds"] for row in report["rows"]}


def test_only_open_rows_go_on_and_a_resumed_run_comes_to_the_same_end(restless: Repository) -> None:
    done = restless.evenbench(*COMMAND)
    assert done.returncode == 0, done.stderr
    assert rounds_of(restless, "out.jsonl") == {"quick/sum": 6, "restless/sum": 9}
    output = restless.path / "out.jsonl"
    written = events(output)
    (look,) = (event for event in written if event["event"] == "look")
    names = {event["index"]: event["id"] for event in written if event["event"] == "case"}
    assert (look["rounds"], [names[index] for index in look["open"]]) == (6, ["restless/sum"])

    lines = output.read_text().splitlines(keepends=True)
    killed = next(n for n, event in enumerate(written) if event["event"] == "launch" and event["round"] == 7)
    output.write_text("".join(lines[: killed + 1]))
    done = restless.evenbench(*COMMAND, "--resume")
    assert done.returncode == 0, done.stderr
    assert rounds_of(restless, "out.jsonl") == {"quick/sum": 6, "restless/sum": 9}
    after = events(output)
    assert [event["round"] for event in after if event["event"] == "resumed"] == [7]
    assert sum(event["event"] == "look" for event in after) == 1  # what was open then is not judged again


def test_who_asks_for_so_many_rounds_gets_just_those_and_a_spent_budget_is_told(restless: Repository) -> None:
    done = restless.evenbench(*COMMAND, "--rounds", "6")
    assert done.returncode == 0, done.stderr
    assert rounds_of(restless, "out.jsonl") == {"quick/sum": 6, "restless/sum": 6}
    (restless.path / "out.jsonl").unlink()
    done = restless.evenbench(*COMMAND, "--budget-s", "1")  # gone before the first look
    assert done.returncode == 0, done.stderr
    assert rounds_of(restless, "out.jsonl") == {"quick/sum": 6, "restless/sum": 6}
    assert events(restless.path / "out.jsonl")[-1]["out_of_budget"] is True
    assert "budget" in done.stdout
