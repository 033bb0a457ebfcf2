"""The physics check: a case whose `work` claims twice its bytes is told in every table, beside ceilings that are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evenbench.reports.rows.roofline import TOO_FAST
from evenbench.runner.ceilings.keys import host_key
from evenbench.runner.ceilings.store import user_store
from evenbench.runner.records import CeilingsEvent
from tests.fakes.repositories import SUITES, Repository

pytestmark = pytest.mark.timing

CALL_NS = 500_000  # each call lasts that long, by the clock
MOVED = 4_000_000  # bytes, half of them read: 8 GB/s
CEILING = 12e9  # bytes a second: the honest case reaches two thirds of it
CASES = f"""
    import time
    import numpy as np
    from evenbench import Bench, Work, case

    ONE = np.ones(1)

    def spin():
        end = time.perf_counter_ns() + {CALL_NS}
        while time.perf_counter_ns() < end:
            pass
        return ONE

    @case("claims/work", params={{"times": [1, 2]}}, device="cpu", tags={{"pr"}})
    def claims(p, device):
        moved = p.times * {MOVED // 2}
        return Bench(run=spin, reference=lambda: ONE, work=Work(dtype="float64", bytes_read=moved, bytes_written=moved))
"""
SAID = "its work is claimed too large, or the timing is wrong"
NUMPY = "it does better than numpy, which reached this ceiling"
HONEST, TWICE = "claims/work[times=1]", "claims/work[times=2]"


@pytest.fixture
def claiming(
    make_repository: Callable[[str], Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Repository:
    key = host_key()
    event = CeilingsEvent(
        device=key.name,
        uuid="",
        rates={"memory/copy": CEILING},
        timing="host",
        software=dict(key.software),
        at="2026-11-29T12:00:00+00:00",
    )
    monkeypatch.setenv("EVENBENCH_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv("EVENBENCH_CEILINGS", raising=False)
    user_store({"EVENBENCH_CACHE": str(tmp_path / "kept")}).add(key, event)
    made = make_repository("claiming")
    made.commit({"cases/claims.py": CASES, "cases/suites.yaml": SUITES.replace("cache: warm", "cache: cold")})
    return made


def test_a_run_tells_which_claim_cannot_be(claiming: Repository) -> None:
    done = claiming.evenbench("run", "--output", "run.jsonl", "--json", "run.json", "--explain")
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((claiming.path / "run.json").read_text())["rows"]}
    shares = {case: row["times"]["share_of_ceiling"] for case, row in rows.items()}
    assert shares[TWICE] > TOO_FAST
    assert shares[HONEST] == pytest.approx(shares[TWICE] / 2, rel=0.2)
    assert rows[HONEST]["warnings"] == []
    assert rows[TWICE]["warnings"] == [f"share of ceiling {shares[TWICE]:.2f}: {SAID}, or {NUMPY}"]
    words = " ".join(done.stdout.split())
    assert words.count(SAID) == 1
    assert words.count("bound by memory/copy at 12.0 GB/s: at least ") == 2
    drawn = claiming.evenbench("report", "run.jsonl", "--plot", "run.svg", "--format", "comment")
    assert drawn.returncode == 0, drawn.stderr
    assert SAID in drawn.stdout
    assert "2 rows" in (claiming.path / "run.svg").read_text(encoding="utf-8")


def test_so_does_a_comparison(claiming: Repository) -> None:
    done = claiming.evenbench("compare", "HEAD", "--output", "out.jsonl", "--json", "out.json", "--comment", "out.md")
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((claiming.path / "out.json").read_text())["rows"]}
    assert [SAID in " ".join(rows[case]["warnings"]) for case in (HONEST, TWICE)] == [False, True]
    assert rows[TWICE]["base"]["share_of_ceiling"] > TOO_FAST
    assert rows[TWICE]["verdict"] in ("unchanged", "inconclusive")  # a claim changes no verdict
    assert SAID in (claiming.path / "out.md").read_text(encoding="utf-8")
    assert SAID in " ".join(done.stdout.split())
    why = claiming.evenbench("report", "out.jsonl", "--explain", TWICE)
    assert "more than 1.03 times the ceiling cannot be" in " ".join(why.stdout.split())


def test_without_ceilings_there_is_no_share(claiming: Repository) -> None:
    done = claiming.evenbench("run", "--no-ceilings", "--output", "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert "ceiling" not in done.stdout
    drawn = claiming.evenbench("report", "run.jsonl", "--plot", "run.svg")
    assert drawn.returncode == 2
    assert "error: --plot: the results hold no measured peaks" in drawn.stderr
