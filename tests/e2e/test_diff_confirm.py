"""What regressed, measured once more; and two stored runs against each other: the real command, a large planted change."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.repositories import PATIENCE_S, SUITES, Repository, errors

pytestmark = pytest.mark.timing

LIBRARY = "def work(x):\n    for _ in range({factor}):\n        x.sum()\n    return x.sum()\n"
# Twelve times the work while the file is there, which a set-up can remove.
FICKLE = "import os\n\nFACTOR = 48 if os.path.exists({path!r}) else 4\n\n\n" + LIBRARY.format(factor="FACTOR")
CASES = """
    import numpy as np
    import mylib
    from evenbench import Bench, case

    @case("lib/work", device="cpu")
    def work(p, device):
        x = np.random.standard_normal(100_000)
        return Bench(run=lambda: mylib.work(x), inputs={"x": x})

    @case("lib/work", params={"n": [2]}, device="cpu")
    def other(p, device):
        x = np.random.standard_normal(100_000)
        return Bench(run=lambda: x.sum(), inputs={"x": x})
"""
FIRST, SECOND = "out.results.jsonl", "out.confirm.results.jsonl"


@pytest.fixture
def slowed(make_repository: Callable[[str], Repository]) -> Repository:
    """A library whose second commit does twelve times the work on the same inputs."""
    made = make_repository("slowed")
    made.commit({"mylib.py": LIBRARY.format(factor=4), "cases/lib.py": CASES, "cases/suites.yaml": SUITES})
    made.commit({"mylib.py": LIBRARY.format(factor=48)})
    return made


def header(path: Path) -> Any:
    return json.loads(path.read_text().splitlines()[0])


def measured(path: Path) -> set[str]:
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return {event["case"] for event in events if event["event"] == "measurement"}


def test_a_real_regression_is_confirmed(slowed: Repository) -> None:
    done = slowed.evenbench("compare", "HEAD~1", "HEAD", "--confirm", "--output", FIRST, "--json", "../out.json")
    assert done.returncode == 1, done.stderr
    assert "1 regressed (1 confirmed)" in done.stdout.splitlines()[0]
    first, second = (header(slowed.path / name) for name in (FIRST, SECOND))
    assert second["confirms"] == first["run_id"]
    assert first["confirms"] == ""
    assert second["seed"] != first["seed"]
    assert second["patterns"] == ["id:lib/work"]
    assert measured(slowed.path / FIRST) == {"lib/work", "lib/work[n=2]"}
    assert measured(slowed.path / SECOND) == {"lib/work"}  # and not the one that begins alike
    rows = {row["case"]: row for row in json.loads((slowed.path.parent / "out.json").read_text())["rows"]}
    assert rows["lib/work"]["second_run"]["confirmed"]
    again = slowed.evenbench("report", SECOND, FIRST)
    assert (again.returncode, again.stdout) == (1, done.stdout)
    alone = slowed.evenbench("report", SECOND)
    assert "evenbench: 1 regressed\n" in alone.stdout
    in_the_way = slowed.evenbench("compare", "HEAD~1", "HEAD", "--confirm", "--output", "out.jsonl")
    assert in_the_way.returncode == 2
    assert "out.confirm.results.jsonl exists already" in errors(in_the_way)[0]
    assert not (slowed.path / "out.jsonl").exists()  # said before anything is measured


def test_what_the_second_run_does_not_bear_out_does_not_fail(
    make_repository: Callable[[str], Repository], tmp_path: Path
) -> None:
    made = make_repository("fickle")
    slow, once = tmp_path / "slow", tmp_path / "once"
    made.commit({"mylib.py": LIBRARY.format(factor=4), "cases/lib.py": CASES, "cases/suites.yaml": SUITES})
    made.commit({"mylib.py": FICKLE.format(path=str(slow))})
    setup = f"if [ -e '{once}' ]; then rm -f '{slow}'; else touch '{slow}' '{once}'; fi"
    done = made.evenbench("compare", "HEAD~1", "HEAD", "--confirm", "--output", FIRST, "--head-setup", setup)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "1 regressed (0 confirmed)" in done.stdout.splitlines()[0]
    assert "not confirmed: " in done.stdout
    assert made.evenbench("report", FIRST).returncode == 1
    assert made.evenbench("report", FIRST, SECOND).returncode == 0


def test_nothing_regressed_nothing_is_confirmed(repository: Repository) -> None:
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--confirm", "--output", FIRST)
    assert done.returncode == 0, done.stderr
    assert not (repository.path / SECOND).exists()
    assert "confirmed" not in done.stdout


def test_an_interrupted_second_run_leaves_the_first_whole(slowed: Repository) -> None:
    arguments = ("compare", "HEAD~1", "--confirm", "--output", FIRST)  # the working tree, in which both files lie
    with slowed.start(*arguments) as process:
        second = slowed.path / SECOND
        end = time.monotonic() + PATIENCE_S
        while not (second.exists() and '"kind":"timed"' in second.read_text()):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert f"the first run is whole, in {slowed.path / FIRST}" in error
    assert slowed.evenbench("report", FIRST).returncode == 1
    partial = slowed.evenbench("report", FIRST, SECOND)
    assert partial.returncode == 1
    assert "1 regressed (0 confirmed)" in partial.stdout.splitlines()[0]
    before = (slowed.path / FIRST).read_bytes()
    done = slowed.evenbench(*arguments, "--resume")
    assert done.returncode == 1, done.stderr
    assert "1 regressed (1 confirmed)" in done.stdout.splitlines()[0]
    assert (slowed.path / FIRST).read_bytes() == before
    complete = slowed.evenbench(*arguments, "--resume")
    assert (complete.returncode, len(errors(complete))) == (2, 1)


def test_stored_runs_against_each_other(slowed: Repository) -> None:
    for name, ref in (("a.jsonl", "HEAD~1"), ("b.jsonl", "HEAD")):
        done = slowed.evenbench("run", "--in", ref, "--rounds", "6", "--output", name)
        assert done.returncode == 0, done.stderr
    done = slowed.evenbench("diff", "a.jsonl", "b.jsonl")
    assert (done.returncode, errors(done)) == (1, [])
    assert "1 regressed" in done.stdout.splitlines()[0]
    assert "launches were not paired" in done.stdout
    assert slowed.evenbench("diff", "a.jsonl", "b.jsonl", "--fail-on", "never").returncode == 0
    back = slowed.evenbench("diff", "b.jsonl", "a.jsonl", "--format", "json")
    assert back.returncode == 0
    data = json.loads(back.stdout)
    assert {row["case"]: row["verdict"] for row in data["rows"]}["lib/work"] == "improved"
    assert "1 improved" in slowed.evenbench("diff", "b.jsonl", "a.jsonl", "--format", "comment").stdout
    config = "version: 1\nsuites: {pr: {include: ['**']}}\ncompare: {fail_on: [inconclusive]}\nmute: [{match: 'lib/*', why: known, until: 2999-01-01}]\n"
    (slowed.path / "other.yaml").write_text(config)
    otherwise = slowed.evenbench("diff", "a.jsonl", "b.jsonl", "--config", "other.yaml")
    assert (otherwise.returncode, "regressed (muted)" in otherwise.stdout) == (0, True)
    for arguments, code in ((("a.jsonl", "a.jsonl"), 2), (("a.jsonl", "none.jsonl"), 2), (("a.jsonl", "mylib.py"), 5)):
        bad = slowed.evenbench("diff", *arguments)
        assert (bad.returncode, len(errors(bad)), bad.stdout) == (code, 1, "")
