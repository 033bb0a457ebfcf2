"""Runs whose truth is known, from the command to their proofs: an A/A run and a planted change, on the host timer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.repositories import SUITES, Repository, errors

pytestmark = pytest.mark.timing

CASES = """
    import numpy as np
    from evenbench import Bench, case

    @case("quick/sum", params={"size": [200_000, 300_000]}, device="cpu")
    def quick_sum(p, device):
        x = np.arange(float(p.size))
        return Bench(run=lambda: x.sum(), inputs={"x": x}, reference=lambda: x.sum())

    @case("quick/both", device="cpu")
    def both(p, device):
        x = np.arange(250_000.0)
        return Bench(
            implementations={"sum": lambda: x.sum(), "add": lambda: np.add.reduce(x)}, baseline="sum",
            inputs={"x": x}, reference=lambda: x.sum(),
        )
"""
PLANTED = "quick/sum[size=300000]"


@pytest.fixture
def quick(repository: Repository) -> Repository:
    """A repository with three quick cases."""
    suites = SUITES.replace("rounds: 6, max_rounds: 6", "rounds: 8, max_rounds: 24")  # more where the clock is uneven
    suites = suites.replace("min_effect: 0.05", "min_effect: 0.1")
    repository.commit({"cases/quick.py": CASES, "cases/suites.yaml": suites})
    return repository


def proof(repository: Repository, results: str) -> dict[str, Any]:
    done = repository.evenbench("report", results, "--format", "proof", "--fail-on", "never")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return dict(json.loads(line))


def test_a_planted_change_is_found_and_nothing_else(quick: Repository) -> None:
    done = quick.evenbench(
        "compare", "HEAD", "HEAD", "--plant", f"{PLANTED}=0.6", "--output", "out.jsonl", "--json", "out.json"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "both sides are the same code" not in done.stderr
    assert done.stdout.startswith("evenbench: planted change found; otherwise ")
    assert f"planted 60 % in {PLANTED}: found (+" in done.stdout
    data = json.loads((quick.path / "out.json").read_text())
    rows = {(row["case"], row["implementation"]): row for row in data["rows"]}
    assert rows[PLANTED, "main"]["verdict"] == "regressed"
    assert rows[PLANTED, "main"]["interval"][0] > 0.1
    assert [key for key, row in rows.items() if row["planted"]] == [(PLANTED, "main")]
    assert data["run"]["plant"] == {"case": PLANTED, "fraction": 0.6}
    assert data["kind"] == "planted"
    events = [json.loads(line) for line in (quick.path / "out.jsonl").read_text().splitlines()]
    assert {event["check"] for event in events if event["event"] == "measurement"} == {"passed"}
    found = proof(quick, "out.jsonl")
    assert (found["kind"], found["rows"], found["flagged"]) == ("planted", 3, 0)
    assert found["planted"]["case"] == PLANTED
    assert found["planted"]["found"] is True
    for event in events:
        if event["event"] == "measurement":  # as if nothing had been slowed
            event |= {key: [100_000] * len(event[key]) for key in ("device_busy_ns", "latency_ns")}
    (quick.path / "same.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    again = quick.evenbench("report", "same.jsonl")
    assert again.returncode == 1
    assert again.stdout.startswith("evenbench: planted change not found; otherwise 3 unchanged\n")
    assert f"planted 60 % in {PLANTED}: NOT found (0.00 %" in again.stdout
    assert again.stderr.splitlines() == ["fail_on: planted change not found"]
    assert proof(quick, "same.jsonl")["planted"]["found"] is False


def test_all_implementations_of_a_case_are_slowed(quick: Repository) -> None:
    done = quick.evenbench("compare", "HEAD", "HEAD", "quick/b*", "--plant", "quick/b*=1", "--output", "out.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("evenbench: planted change found; no other row\n")
    assert done.stdout.count("regressed (planted)") == 2


def test_an_a_a_run_knows_itself_and_is_cited_by_nobody_else(quick: Repository) -> None:
    done = quick.evenbench("compare", "HEAD", "HEAD", "quick/s*", "--output", "out.jsonl")
    assert done.returncode in (0, 1), done.stderr  # a false alarm is one in a hundred runs, were the clock quiet
    assert "note: both sides are the same code" in done.stderr  # before it is measured
    assert done.stdout.startswith("evenbench: A/A, ")
    said = " ".join(done.stdout.split())  # with an alarm to name, the line is broken
    assert "A/A: both sides are the same commit; what is called changed here is a false alarm: " in said
    found = proof(quick, "out.jsonl")
    assert (found["kind"], found["rows"], found["planted"]) == ("aa", 2, None)
    (quick.path / "proofs.jsonl").write_text(json.dumps(found) + "\n")
    cited = quick.evenbench("report", "out.jsonl", "--proofs", "proofs.jsonl", "--fail-on", "never")
    assert cited.returncode == 0, cited.stderr
    assert "nightly" not in cited.stdout  # no GPU, so no machine to name


def test_what_cannot_be_planted_or_proved_is_one_line(quick: Repository) -> None:
    head = quick.git("rev-parse", "HEAD")
    for arguments, code, said in (
        (["compare", "HEAD", "HEAD", "--plant", "quick/*"], 2, "matches 3 of the cases that head would run"),
        (
            ["compare", "HEAD", "HEAD", "--plant", "quick/none"],
            2,
            "matches 0 of the cases that head would run, not one",
        ),
        (["compare", "HEAD", "HEAD", "--plant", f"{PLANTED}=5%"], 2, "'5%' is no fraction over 0 to 1"),
        (["compare", "HEAD", "HEAD", "--plant", PLANTED], 2, "could not be found under min_effect 0.1"),
        (["compare", "HEAD", "HEAD", "--plant", PLANTED, "--confirm"], 2, "--plant with --confirm"),
        (["compare", "HEAD", "HEAD", "--proofs", "none.jsonl"], 2, "--proofs none.jsonl cannot be read"),
        (["compare", "HEAD", "HEAD", "--proofs", "cases/quick.py"], 5, "--proofs cases/quick.py: line 1: not JSON"),
    ):
        done = quick.evenbench(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        (error,) = errors(done)
        assert said in error
    assert quick.git("rev-parse", "HEAD") == head


def test_an_ordinary_run_has_no_proof(quick: Repository) -> None:
    done = quick.evenbench("compare", "HEAD~1", "HEAD", "quick/s*", "--cases-from", "head", "--output", "out.jsonl")
    assert done.returncode in (0, 1), done.stderr
    refused = quick.evenbench("report", "out.jsonl", "--format", "proof")
    assert refused.returncode == 2
    assert errors(refused)[0].startswith("error: an ordinary comparison proves nothing")
    assert refused.stdout == ""


def test_a_planted_run_is_taken_up_only_as_one(quick: Repository) -> None:
    arguments = ["compare", "HEAD", "HEAD", "quick/s*", "--output", "out.jsonl"]
    done = quick.evenbench(*arguments, "--plant", f"{PLANTED}=0.6")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (quick.path / "out.jsonl").read_text().splitlines(keepends=True)
    (quick.path / "out.jsonl").write_text("".join(lines[:-4]))  # as if it had been killed
    refused = quick.evenbench(*arguments, "--resume")
    assert refused.returncode == 2
    assert errors(refused)[0].startswith("error: --resume: plant was ")
    resumed = quick.evenbench(*arguments, "--plant", f"{PLANTED}=0.6", "--resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert resumed.stdout.startswith("evenbench: planted change found")
