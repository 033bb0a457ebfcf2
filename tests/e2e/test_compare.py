"""The straight line: two sides in, one table out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.repositories import QUICK, SUITES, Repository, errors

pytestmark = pytest.mark.timing

# Work that scales by a factor on the same inputs, so that a planted change is the only one.
LIBRARY = "FACTOR = {factor}\n\n\ndef work(x):\n    for _ in range(FACTOR):\n        x.sum()\n    return x.sum()\n"
CASES = """
    import numpy as np
    import mylib
    from evenbench import Bench, Work, case

    @case("lib/work", device="cpu", tags={"pr"})
    def work(p, device):
        \"\"\"The work of the library.\"\"\"
        x = np.random.standard_normal(500_000)
        return Bench(
            run=lambda: mylib.work(x), inputs={"x": x}, reference=lambda: x.sum(),
            work=Work(dtype="float64", flops=x.size, bytes_read=x.nbytes),
        )

    @case("lib/other", params={"size": [300_000]}, device="cpu", tags={"pr"})
    def other(p, device):
        x = np.random.standard_normal(p.size)
        return Bench(run=lambda: np.cumsum(x), inputs={"x": x}, reference=lambda: np.cumsum(x))
"""


@pytest.fixture
def slowed(make_repository: Callable[[str], Repository]) -> Repository:
    """A library whose second commit does several times the work on the same inputs."""
    made = make_repository("slowed")
    suites = SUITES.replace("rounds: 6, max_rounds: 6", "rounds: 8, max_rounds: 8").replace(
        "cache: warm", "cache: cold"
    )
    made.commit({"mylib.py": LIBRARY.format(factor=4), "cases/lib.py": CASES, "cases/suites.yaml": suites})
    made.commit({"mylib.py": LIBRARY.format(factor=16)})
    return made


def test_slower_case_alone_is_regressed(slowed: Repository) -> None:
    done = slowed.evenbench(
        "compare", "HEAD~1", "HEAD", "--seed", "7", "--output", "out.jsonl", "--comment", "out.md", "--json", "out.json"
    )
    assert done.returncode == 1, done.stderr
    assert "the same code" not in done.stderr
    assert "1 regressed" in done.stdout.splitlines()[0]
    data = json.loads((slowed.path / "out.json").read_text())
    verdicts = {row["case"]: row["verdict"] for row in data["rows"]}
    assert verdicts["lib/work"] == "regressed"
    assert verdicts["lib/other[size=300000]"] in ("unchanged", "inconclusive")
    assert "1 regressed" in (slowed.path / "out.md").read_text()
    assert slowed.git("worktree", "list").count("\n") == 0  # nothing is left behind
    again = slowed.evenbench("report", "out.jsonl")
    assert again.returncode == 1
    assert again.stdout == done.stdout
    forgiving = slowed.evenbench("report", "out.jsonl", "--fail-on", "never")
    assert forgiving.returncode == 0
    swapped = slowed.evenbench("compare", "HEAD", "HEAD~1", "--seed", "7", "--output", "swapped.jsonl")
    assert swapped.returncode == 0
    assert "1 improved" in swapped.stdout.splitlines()[0]


def test_working_tree_is_the_default_head(slowed: Repository) -> None:
    slowed.write({"mylib.py": LIBRARY.format(factor=60)})
    done = slowed.evenbench("compare", "HEAD", "lib/work", "--output", "out.jsonl")
    assert errors(done) == ["error: head: unknown ref or directory: 'lib/work'"] or "unknown ref" in done.stderr
    done = slowed.evenbench("compare", "HEAD", "lib/w*", "--output", "out.jsonl")
    assert done.returncode == 1, done.stderr
    header = json.loads((slowed.path / "out.jsonl").read_text().splitlines()[0])
    base, head = header["sides"]
    assert not base["dirty"]
    assert head["dirty"]
    assert head["tree"]
    assert header["patterns"] == ["lib/w*"]


def test_directories_without_git(tmp_path: Path, slowed: Repository) -> None:
    outside = Repository(tmp_path / "outside")
    for side, factor in (("a", 4), ("b", 24)):
        outside.write(
            {
                f"{side}/mylib.py": LIBRARY.format(factor=factor),
                f"{side}/cases/lib.py": CASES,
                f"{side}/cases/suites.yaml": SUITES,
            }
        )
    done = outside.evenbench("compare", "./a", "./b", "lib/w*", "--output", "out.jsonl")
    assert done.returncode == 1, done.stderr
    assert "1 regressed" in done.stdout.splitlines()[0]


def test_run_shows_times_and_rates(slowed: Repository) -> None:
    done = slowed.evenbench("run", "--output", "run.jsonl", "--json", "run.json")
    assert done.returncode == 0, done.stderr
    assert "lib/work" in done.stdout
    rows = {row["case"]: row for row in json.loads((slowed.path / "run.json").read_text())["rows"]}
    assert rows["lib/work"]["status"] == "ok"
    assert rows["lib/work"]["check"] == "passed"
    events = [json.loads(line) for line in (slowed.path / "run.jsonl").read_text().splitlines()]
    launches = [event for event in events if event["event"] == "launch"]
    assert [launch["kind"] for launch in launches] == ["preparation", "timed"]
    assert launches[-1]["start"] == "plain"  # the host timer never forks


def test_order_of_launches_is_mirrored_and_seeded(repository: Repository) -> None:
    orders = []
    for output in ("one.jsonl", "two.jsonl"):
        done = repository.evenbench("compare", "HEAD~1", "HEAD", "--seed", "3", "--output", output)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in (repository.path / output).read_text().splitlines()]
        timed = [event for event in events if event["event"] == "launch" and event["kind"] == "timed"]
        orders.append([(launch["round"], launch["side"]) for launch in timed])
    assert orders[0] == orders[1]
    sides = [side for _, side in orders[0]]
    for pair in range(3):
        a, b, c, d = sides[4 * pair : 4 * pair + 4]
        assert (a, b) == (d, c)
        assert a != b


def test_new_and_removed_cases(repository: Repository) -> None:
    renamed = QUICK.replace("quick/sum", "quick/total").replace("quick_sum", "quick_total")
    repository.commit({"cases/gone.py": QUICK.replace("quick/sum", "old/sum")})
    repository.commit({"cases/gone.py": "", "cases/added.py": renamed})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((repository.path / "out.json").read_text())["rows"]
    assert {row["case"]: row["verdict"] for row in rows}["quick/total"] == "new"
    assert {row["case"]: row["verdict"] for row in rows}["old/sum"] == "removed"


def test_list_names_ids_and_broken_files(repository: Repository) -> None:
    repository.write({"cases/broken.py": "import no_such_module\n"})
    done = repository.evenbench("list")
    assert done.returncode == 0
    assert done.stdout == "quick/sum\n"
    assert "broken.py:1: ModuleNotFoundError: No module named 'no_such_module'" in done.stderr


def test_shards_share_the_cases_and_merge(slowed: Repository) -> None:
    plan = json.loads(slowed.evenbench("plan", "--shards", "2", "--seed", "1").stdout)
    measured = []
    for shard in plan["include"]:
        output = f"shard-{shard['index']}.jsonl"
        place = f"{shard['index']}/{shard['count']}"
        done = slowed.evenbench(
            "compare", "HEAD~1", "HEAD", "--shard", place, "--seed", str(shard["seed"]), "--output", output
        )
        assert done.returncode in (0, 1, 4), done.stderr
        if (slowed.path / output).exists():
            events = [json.loads(line) for line in (slowed.path / output).read_text().splitlines()]
            measured += sorted({event["case"] for event in events if event["event"] == "measurement"})
    assert sorted(measured) == ["lib/other[size=300000]", "lib/work"]
    merged = slowed.evenbench("report", *(str(path.name) for path in sorted(slowed.path.glob("shard-*.jsonl"))))
    assert "1 regressed" in merged.stdout.splitlines()[0]
