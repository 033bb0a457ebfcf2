"""Shards of one plan: planned by earlier durations, measured apart, put together; a lost one named, a stranger refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.plan.balance import Share
from tests import build
from tests.build import Case
from tests.fakes.repositories import Repository, errors

CASES = """
    from evenbench import Bench, case

    @case("many/sum", params={"n": [1, 2, 3, 4, 5, 6]}, device="cpu", iterations=3)
    def many(p, device):
        return Bench(run=lambda: sum(range(p.n)), reference=lambda: sum(range(p.n)))
"""
SUITES = """
    version: 1
    defaults: {measure_ms: 1, warmup_ms: 0.1, rounds: 6, max_rounds: 6, cache: warm, ceilings: false}
    suites: {all: {include: ["**"], min_effect: 0.5, equivalence: 0.9}}
"""
IDS = [f"many/sum[n={n}]" for n in range(1, 7)]
SLOW = IDS[2]


def earlier(path: Path) -> None:
    """Results in which one case takes as long as all others together; another of them is not known."""
    events = build.events([Case(name) for name in IDS[:-1]])
    lines = []
    for event in events:
        data = event.model_dump(by_alias=True, mode="json")
        if data["event"] == "launch_end":
            data["wall_ns"] = 0
        if data["event"] == "measurement":
            data["wall_ns"] = 40_000 if data["case"] == SLOW else 10_000
        lines.append(json.dumps(data) + "\n")
    path.write_text("".join(lines))


def plan(repository: Repository, *words: str) -> list[dict[str, Any]]:
    done = repository.evenbench("plan", "--shards", "2", "--seed", "5", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["include"]
    return found


def measure(repository: Repository, shard: dict[str, Any], output: str) -> None:
    place = f"{shard['index']}/{shard['count']}"
    words = ["--shard", place, "--seed", str(shard["seed"]), "--share", shard["share"], "--fail-on", "never"]
    done = repository.evenbench("compare", "HEAD", "HEAD", *words, "--output", output)
    assert done.returncode == 0, done.stderr


def cases_of(path: Path) -> set[str]:
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return {event["case"] for event in events if event["event"] == "measurement"}


@pytest.fixture
def sharded(repository: Repository) -> Repository:
    repository.commit({"cases/quick.py": "", "cases/many.py": CASES, "cases/suites.yaml": SUITES})
    earlier(repository.path / "earlier.jsonl")
    return repository


def test_two_shards_are_the_whole_and_one_alone_says_what_is_missing(sharded: Repository) -> None:
    shards = plan(sharded, "--durations", "earlier.jsonl")
    assert shards == plan(sharded, "--durations", "earlier.jsonl")
    for shard in shards:
        measure(sharded, shard, f"{shard['index']}.jsonl")
    first, second = (cases_of(sharded.path / f"{index}.jsonl") for index in (0, 1))
    assert first | second == set(IDS)
    header = json.loads((sharded.path / "0.jsonl").read_text().splitlines()[0])
    assert header["shard"] == {"index": 0, "count": 2, "plan": Share.parse(shards[0]["share"]).plan}
    assert not first & second
    slow, others = (first, second) if SLOW in first else (second, first)
    assert slow - {IDS[-1]} == {SLOW}  # balanced, and the new case has its place too
    assert others - {IDS[-1]} == set(IDS[:-1]) - {SLOW}

    whole = sharded.evenbench("report", "1.jsonl", "0.jsonl", "--format", "json")
    assert whole.returncode == 0, whole.stderr
    found = json.loads(whole.stdout)
    assert sorted(row["case"] for row in found["rows"]) == IDS
    assert not found["facts"]["partial"]

    lost = sharded.evenbench("report", "0.jsonl", "--fail-on", "regressed")
    assert lost.returncode == 1
    assert lost.stderr == "fail_on: a shard is missing\n"
    assert lost.stdout.startswith("evenbench: partial: ")
    assert "partial: without shard 1 of 2 (counted from 0)" in lost.stdout
    assert all(case in lost.stdout for case in first)
    comment = sharded.evenbench("report", "0.jsonl", "--format", "comment", "--fail-on", "never")
    assert comment.returncode == 0
    assert "without shard 1 of 2" in comment.stdout
    killed = (sharded.path / "1.jsonl").read_text().splitlines(keepends=True)
    (sharded.path / "killed.jsonl").write_text("".join(killed[:-1]))
    half = sharded.evenbench("report", "0.jsonl", "killed.jsonl", "--fail-on", "regressed")
    assert (half.returncode, half.stderr) == (1, "fail_on: a shard did not come to its end\n")
    assert "partial: 1 of 2 shards did not come to the end" in half.stdout
    twice = sharded.evenbench("report", "0.jsonl", "0.jsonl")
    assert twice.returncode == 5
    assert "both are shard 0 of 2" in errors(twice)[0]


def test_shards_of_different_plans_are_refused(sharded: Repository) -> None:
    balanced = plan(sharded, "--durations", "earlier.jsonl")
    lines = (sharded.path / "earlier.jsonl").read_text().replace('"wall_ns": 40000', '"wall_ns": 10001')
    (sharded.path / "later.jsonl").write_text(lines)
    other = plan(sharded, "--durations", "later.jsonl")
    header = json.loads(lines.splitlines()[0])
    for shard in (balanced[0], other[1]):
        index = shard["index"]
        own = {"run_id": f"run{index}", "shard": {"index": index, "count": 2, "plan": Share.parse(shard["share"]).plan}}
        (sharded.path / f"{index}.jsonl").write_text(json.dumps(header | own) + "\n")
    mixed = sharded.evenbench("report", "0.jsonl", "1.jsonl")
    assert mixed.returncode == 5
    assert "are not shards of one run: they are of plans" in errors(mixed)[0]
    assert not mixed.stdout


def test_a_history_balances_too(sharded: Repository) -> None:
    pytest.importorskip("duckdb")
    sha = sharded.git("rev-parse", "HEAD")
    lines = (sharded.path / "earlier.jsonl").read_text().splitlines(keepends=True)
    header = json.loads(lines[0])
    for side in header["sides"]:
        side |= {"sha": sha, "dirty": False, "tree": ""}
    (sharded.path / "earlier.jsonl").write_text("".join([json.dumps(header) + "\n", *lines[1:]]))
    empty = sharded.evenbench("plan", "--shards", "2", "--seed", "5", "--durations", ".")
    assert "no durations are known yet" in empty.stderr
    assert "share" not in empty.stdout
    added = sharded.evenbench("history", "add", "earlier.jsonl", "--side", "base", "--dir", "history")
    assert added.returncode == 0, added.stderr
    shards = [Share.parse(shard["share"]) for shard in plan(sharded, "--durations", "history")]
    counts = Counter(next(n for n, share in enumerate(shards) if share.takes(case, 5)) for case in IDS[:-1])
    assert sorted(counts.values()) == [1, 4]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--share", "x"], "--share needs --shard"),
        (["--shard", "0/2", "--seed", "5", "--share", "x"], "--share is no share of a plan"),
    ],
)
def test_a_share_that_no_plan_printed_is_refused(words: list[str], said: str, sharded: Repository) -> None:
    done = sharded.evenbench("compare", "HEAD", "HEAD", *words)
    assert done.returncode == 2
    assert said in errors(done)[0]
