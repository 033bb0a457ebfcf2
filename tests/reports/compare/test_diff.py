"""Two stored runs against each other: which verdicts, what the sides' runs have to do with them, what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from evenbench.reports.compare.compare import compare, conditions_met
from evenbench.reports.compare.diff import diff
from evenbench.reports.compare.known_truth import kind_of
from evenbench.reports.compare.stored import joined, stored
from evenbench.reports.load.results import Results
from evenbench.reports.render import wording
from evenbench.reports.render.comment.comment import comment
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.terminal.terminal import terminal
from evenbench.reports.rows.outcome import ComparedRow, Comparison
from evenbench.reports.statistics.location import grouped_median
from evenbench.runner.errors import NothingMeasured, UntrustedInput, UsageError
from evenbench.runner.records import Artifact, End, Harness, JudgeSettings, MuteRecord, PlantRecord, SideInfo, SideName
from tests import build
from tests.build import Case

GOLDEN = Path(__file__).parents[2] / "golden"
TODAY = date(2026, 11, 29)
ONE_SIDE = [SideInfo(name="head", label="feature", sha="d" * 40)]
SLOW = Case("slow", head=22_000.0)
GPU_2: Any = {"head": {"uuid": "GPU-2"}}
NO_TICK: dict[str, Any] = {"head_measurement": {"tick_ns": None}}


def run(*cases: Case, run_id: str, **options: Any) -> Results:
    """What `evenbench run --rounds 8` stores: one side, head."""
    return build.results(cases, run_id=run_id, **({"verb": "run", "sides": ONE_SIDE} | options))


def pair(*cases: Case, run_id: str, **options: Any) -> Results:
    """What `evenbench compare` stores."""
    return build.results(cases, run_id=run_id, **options)


def between(a: Results, b: Results, side: SideName | None = None, **how: Any) -> Comparison:
    return diff(stored("a.jsonl", a, side), stored("b.jsonl", b, side), TODAY, **how)


def rows(comparison: Comparison) -> dict[str, ComparedRow]:
    return {row.case: row for row in comparison.rows}


# -------------------------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(("a", "b"), [(run, run), (run, pair), (pair, run), (pair, pair)])
def test_heads_of_two_runs_are_compared(a: Callable[..., Results], b: Callable[..., Results]) -> None:
    found = between(a(Case("x"), Case("y"), run_id="1"), b(Case("x", head=21_000.0), Case("y"), run_id="2"))
    by_case = rows(found)
    assert {case: row.verdict for case, row in by_case.items()} == {"x": "regressed", "y": "unchanged"}
    assert by_case["x"].change == pytest.approx(0.05, abs=0.005)
    assert by_case["x"].interval is not None
    assert [by_case["x"].base_ns, by_case["x"].head_ns] == pytest.approx([20_000, 21_000], rel=0.01)
    assert (by_case["x"].rounds, found.facts.paired, found.shuffled) == (8, False, None)
    assert found.mean is not None


def test_swapping_the_runs_mirrors_the_verdicts() -> None:
    a, b = run(Case("x"), Case("y"), run_id="1"), run(SLOW, Case("x", head=19_000.0), Case("y"), run_id="2")
    there, back = between(a, b), between(b, a)
    mirrored = {"regressed": "improved", "improved": "regressed", "new": "removed", "removed": "new"}
    assert {case: mirrored.get(row.verdict, row.verdict) for case, row in rows(there).items()} == {
        case: row.verdict for case, row in rows(back).items()
    }
    assert (rows(there)["x"].verdict, rows(there)["slow"].verdict) == ("improved", "new")


def test_the_side_that_is_meant() -> None:
    a, b = pair(Case("x", base=20_000.0, head=30_000.0), run_id="1"), pair(Case("x", base=21_000.0), run_id="2")
    assert rows(between(a, b, "base"))["x"].verdict == "regressed"
    assert rows(between(a, b, "head"))["x"].verdict == rows(between(a, b))["x"].verdict == "improved"
    assert rows(between(a, run(Case("x"), run_id="3"), "base"))["x"].verdict == "unchanged"  # a run has only head


def test_the_larger_number_of_launches_is_told() -> None:
    few, more = run(Case("x"), run_id="1", made=6), run(Case("x"), run_id="2", made=24, rounds=24)
    row = rows(between(few, more))["x"]
    assert row.rounds == 6
    assert "6 launches of base, 24 of head" in row.notes
    assert (row.base and row.base.launches, row.head and row.head.launches) == (6, 24)


def test_too_few_launches_are_inconclusive_and_say_how_to_get_more() -> None:
    found = between(run(SLOW, run_id="1"), run(SLOW, run_id="2", made=1, rounds=1))
    (row,) = found.rows
    assert (row.verdict, row.interval) == ("inconclusive", None)
    assert row.reason == "too few launches: 8 of base and 1 of head, at least 6 of each needed"
    assert row.notes == ("same kernels",)  # the numbers of launches stand in the reason
    assert any(note.startswith("too few launches: each side needs 6") for note in found.facts.notes)
    assert found.mean is None


def test_a_side_whose_launches_died_is_failed() -> None:
    dies: Any = {"head": dict.fromkeys(range(3), "out of registers")}
    (row,) = between(run(Case("x"), run_id="1"), run(Case("x", dies=dies), run_id="2")).rows
    said = "head failed in 3 of 8 launches, base in 0 of 8: out of registers"
    assert (row.verdict, row.reason, row.broken) == ("failed", said, True)
    (row,) = between(run(Case("x", dies=dies), run_id="1"), run(Case("x"), run_id="2")).rows
    said = "head failed in 0 of 8 launches, base in 3 of 8: out of registers"
    assert (row.verdict, row.reason, row.broken) == ("fixed", said, False)
    (row,) = between(run(Case("x", dies=dies), run_id="1"), run(Case("x", dies=dies), run_id="2")).rows
    said = "head failed in 3 of 8 launches, base in 3 of 8: out of registers"
    assert (row.verdict, row.reason, row.broken) == ("inconclusive", said, False)


def test_errors_of_each_run_are_those_of_its_side() -> None:
    bad: Any = {"head_case": {"status": "failed", "reason": "no triton", "kind": "setup", "implementations": []}}
    (row,) = between(run(Case("x"), run_id="1"), run(Case("x", **bad), run_id="2")).rows
    assert (row.verdict, row.reason) == ("failed", "head: setup: no triton")
    (row,) = between(run(Case("x", **bad), run_id="1"), run(Case("x"), run_id="2")).rows
    assert (row.verdict, row.reason) == ("fixed", "base: setup: no triton")
    gone = run(Case("y"), run_id="2", broken={"head": {"cases/x.py": "SyntaxError"}})
    found = rows(between(run(Case("x"), Case("y"), run_id="1"), gone))
    assert (found["x"].verdict, found["x"].reason) == ("failed", "head: cases/x.py cannot be imported: SyntaxError")


# ----------------------------------------------------------------------------------------------------------- comparability


@pytest.mark.parametrize(
    ("b", "why"),
    [
        (run(Case("x"), run_id="2", launches=GPU_2), "GPU differs: GPU-1 on base, GPU-2 on head"),
        (
            run(Case("x"), run_id="2", launches={"head": {"uuid": "GPU-2", "device": "NVIDIA B200"}}),
            "GPU differs: NVIDIA H200 on base, NVIDIA B200 on head",
        ),
        (
            run(Case("x", head_measurement={"timing": "cuda-events"}), run_id="2"),
            "timer differs: cupti on base, cuda-events on head",
        ),
        (run(Case("x", head_measurement={"cache": "warm"}), run_id="2"), "cache differs: cold on base, warm on head"),
        (run(Case("x", head_case={"work": None}), run_id="2"), "work differs: declared on base, none on head"),
        (
            run(Case("x", head_case={"inputs": []}), run_id="2"),
            "input x differs: bfloat16 4096×8192 on base, missing on head",
        ),
        (run(Case("x"), run_id="2", image="ghcr.io/me/b"), "image differs: none on base, ghcr.io/me/b on head"),
    ],
)
def test_what_cannot_be_compared(b: Results, why: str) -> None:
    (row,) = between(run(Case("x"), run_id="1"), b).rows
    assert (row.verdict, row.reason, row.change) == ("incomparable", why, None)


def test_calls_in_a_sample_that_differ() -> None:
    """Of a batch only the first call meets a cold cache; one commit came to -20 % so, at 1 call against 2."""
    differ = "calls in a sample differ: 1 on base, 3 on head"
    for cache, verdict in (("cold", "incomparable"), ("warm", "unchanged")):
        one, three = (
            run(Case("x", head_measurement={"batch": batch, "cache": cache}), run_id=str(batch)) for batch in (1, 3)
        )
        (row,) = between(one, three).rows
        assert row.verdict == verdict
        assert differ in (row.warnings if cache == "warm" else row.reason)


@pytest.mark.parametrize("differing", [{"suite": "full"}, {"patterns": ["x"]}, {"shard": build.shard(0, 2)}])
def test_what_the_other_run_did_not_select_is_skipped(differing: dict[str, Any]) -> None:
    a, b = run(Case("x"), Case("y"), run_id="1"), run(Case("x"), run_id="2", **differing)
    found = rows(between(a, b))["y"]
    assert (found.verdict, found.reason) == (
        "skipped",
        "not in b.jsonl, which was measured with another suite, other patterns or as a shard",
    )
    back = rows(between(b, a))["y"]
    assert (back.verdict, back.reason[:14]) == ("skipped", "not in a.jsonl")


def test_what_a_run_of_the_same_selection_lacks_is_new_or_removed() -> None:
    a, b = run(Case("x"), Case("y"), run_id="1"), run(Case("x"), Case("z"), run_id="2")
    assert {case: row.verdict for case, row in rows(between(a, b)).items()} == {
        "x": "unchanged",
        "y": "removed",
        "z": "new",
    }


# -------------------------------------------------------------------------------------------------- what holds for the runs


def test_settings_are_heads() -> None:
    strict = JudgeSettings(min_effect=0.005, equivalence=0.02, family_error=0.01)
    loose = JudgeSettings(
        min_effect=0.2,
        equivalence=0.5,
        family_error=0.01,
        fail_on=["inconclusive"],
        mute=[MuteRecord(match="x", why="known", until="2027-01-01")],
    )
    a, b = run(Case("x"), run_id="1", judge=strict), run(Case("x", head=22_000.0), run_id="2", judge=loose)
    found = between(a, b)
    assert (found.rows[0].verdict, found.rows[0].muted) == ("unchanged", "muted until 2027-01-01: known")
    assert found.judged_by == loose
    assert between(b, a).rows[0].verdict == "improved"
    given = between(a, b, judge_by=strict)
    assert (given.rows[0].verdict, conditions_met(given, ["regressed"])) == ("regressed", ("regressed",))


def test_the_looks_of_the_runs_are_none_of_its_own() -> None:
    one, three = (run(Case("x", head=20_150.0), run_id="2", looks=looks) for looks in ([8], [8, 16, 24]))
    a = run(Case("x"), run_id="1")
    assert between(a, one).rows[0].p_slower == between(a, three).rows[0].p_slower


def test_it_says_what_it_cannot_exclude() -> None:
    a = run(Case("x"), run_id="1", started="2026-11-01T08:00:00Z", launches={"head": {"driver": "570.1"}})
    b = run(
        Case("x"),
        run_id="2",
        started="2026-11-02T09:00:00Z",
        prepared={"head": {"torch": "2.14.0"}},
        harness=Harness(version="0.2.0"),
    )
    notes = between(a, b).facts.notes
    assert "run 1 of 2026-11-01T08:00:00Z" in notes[0]
    assert "run 2 of 2026-11-02T09:00:00Z" in notes[0]
    assert all(word in notes[1] for word in ("another day", "temperature", "driver", "placement", "cannot be excluded"))
    assert "driver differs: 570.1 on base, 580.159.04 on head" in notes
    assert "torch differs: 2.13.0 on base, 2.14.0 on head" in notes
    assert "evenbench differs: 0.1.0 on base, 0.2.0 on head" in notes
    same = between(run(Case("x"), run_id="1"), run(Case("x"), run_id="2")).facts.notes
    assert len(same) == 2


def test_host_timed_rows_may_be_of_two_machines() -> None:
    host: Any = {"head_case": {"device": "cpu", "timer": "host"}, "head_measurement": {"timing": "host"}}
    found = between(run(Case("x", **host), run_id="1"), run(Case("x", **host), run_id="2"))
    assert any("of two machines" in note for note in found.facts.notes)


def test_partial_runs_and_edited_sides_are_told_by_name() -> None:
    a, b = run(Case("x"), run_id="1", end=False), run(Case("x"), run_id="2")
    found = between(a, b)
    assert found.facts.partial
    assert "a.jsonl: partial: the run did not come to the end" in found.facts.notes
    assert wording.title(found) == "evenbench: partial: 1 unchanged"
    edited = replace(a, ends=(End(at="x", rounds=8, changed=["head: mylib.py", "base: other.py"]),))
    found = between(edited, b)
    assert found.facts.changed == ("a.jsonl: head: mylib.py",)
    assert found.unreliable


def test_two_runs_of_one_commit_are_no_aa_run() -> None:
    a, b = run(Case("x"), run_id="1"), run(SLOW, Case("x", head=22_000.0), run_id="2")
    assert kind_of(between(a, b)) == "ordinary"
    assert "false alarm" not in wording.title(between(a, b))


def test_a_planted_change_of_either_run_is_told() -> None:
    planted = pair(Case("x"), run_id="1", plant=PlantRecord(case="x", fraction=0.05))
    other = pair(Case("x"), run_id="2")
    for found, name in ((between(planted, other), "a.jsonl"), (between(other, planted), "b.jsonl")):
        assert f"{name}: x was slowed on purpose by 5 %" in found.facts.notes
        assert found.rows[0].planted == 0
    assert not any("on purpose" in note for note in between(planted, other, "base").facts.notes)


def test_the_sides_name_their_files() -> None:
    found = between(pair(Case("x"), run_id="1"), run(Case("x"), run_id="2"))
    labels = [side.label for side in found.facts.sides]
    assert labels == ["feature, head of a.jsonl", "feature, b.jsonl"]
    assert [side.sha for side in found.facts.sides] == [build.HEAD_SHA, "d" * 40]


def test_artifacts_keep_their_side() -> None:
    b = replace(
        pair(Case("x"), run_id="2"),
        artifacts=(
            Artifact(side="base", case="x", name="ptx", status="changed"),
            Artifact(side="head", case="x", name="ptx", status="equal"),
        ),
    )
    found = between(pair(Case("x"), run_id="1"), b, "base")
    assert [(each.side, each.status) for each in found.artifacts] == [("head", "changed")]


def test_every_format_shows_it() -> None:
    found = between(run(Case("x"), run_id="1"), run(Case("x", head=22_000.0), run_id="2"))
    text, markdown, data = terminal(found, 160), comment(found), as_json(found)
    for shown in (text, markdown):
        assert "not paired" in shown
        assert "regressed" in shown
        assert "at least 8 launches a side" in shown
        assert "whole rounds" not in shown
    assert next(line for line in text.splitlines() if line.startswith(" case")).split()[-2:] == ["launches", "notes"]
    assert markdown.startswith("<!-- evenbench diff pr -->")
    assert data["facts"]["paired"] is False
    assert data["rows"][0]["verdict"] == "regressed"


# Hostile text in whatever the files say of themselves, and every verdict that only two runs can give.
HOSTILE = "<b>@all</b> [x](http://x) | `a`\n\x1b[31m"


@pytest.mark.parametrize(
    ("name", "render"), [("terminal-diff.txt", lambda found: terminal(found, 120)), ("comment-diff.md", comment)]
)
def test_golden(name: str, render: Callable[[Comparison], str]) -> None:
    a = run(
        Case("norm/rms"), Case("gone"), Case("gemm/fp8"), run_id="1", started=HOSTILE, patterns=["**"], image=HOSTILE
    )
    b = run(
        Case("norm/rms", head=21_000.0), Case("gemm/fp8", head_case={"work": None}), Case("gone"),
        run_id="2", launches={"head": {"driver": HOSTILE}}, made=9, image=HOSTILE, end=False,
    )  # fmt: skip
    text = render(diff(stored(HOSTILE, a, None), stored("b.jsonl", b, None), TODAY))
    path = GOLDEN / name
    if os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------------- refusals


def test_one_run_is_not_compared_with_itself() -> None:
    with pytest.raises(UsageError, match=r"a\.jsonl and b\.jsonl are one run \(hint: name the file of another run\)"):
        between(run(Case("x"), run_id="1"), run(Case("x"), run_id="1"))
    both = build.results([Case("x")])
    with pytest.raises(UsageError, match=r"are one run \(hint: evenbench report compares its sides, in pairs\)"):
        between(both, both)


def test_different_shards_have_no_case_in_common() -> None:
    a, b = (run(Case("x"), run_id=str(n), shard=build.shard(n, 2)) for n in (0, 1))
    with pytest.raises(UsageError, match=r"a\.jsonl is shard 0 of 2, b\.jsonl shard 1"):
        between(a, b)
    same = run(Case("x"), run_id="3", shard=build.shard(0, 2))
    assert between(a, same).rows[0].verdict == "unchanged"


def test_a_side_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"a\.jsonl has no side control .hint: it has base and head"):
        stored("a.jsonl", pair(Case("x"), run_id="1"), "control")


def test_a_run_that_was_interrupted_before_its_first_launch() -> None:
    with pytest.raises(NothingMeasured, match=r"a\.jsonl has no timed launch of head"):
        stored("a.jsonl", run(Case("x"), run_id="1", made=0), None)


def test_more_than_a_real_run_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbench.reports.compare.diff.LAUNCHES_MAX", 7)
    with pytest.raises(UntrustedInput, match="more than 7 launches of rows"):
        between(run(Case("x"), run_id="1"), run(Case("x"), run_id="2"))


def test_the_two_joined_stay_apart() -> None:
    """Numbers of launches and indices of cases are the same in both files; nothing of one is taken for the other."""
    dies: Any = {"head": {0: "bang"}}
    a = run(Case("x", dies=dies), Case("y"), run_id="1")
    b = run(Case("z"), Case("x"), run_id="2")
    results = joined(stored("a", a, None), stored("b", b, None))
    assert {each.launch.side for each in results.measurements["x", "main"]} == {"base", "head"}
    assert {each.event.side for each in results.launches} == {"base", "head"}
    assert len(results.names) == 4
    assert [each.launch.side for each in results.failures] == ["base"]
    assert compare(results, TODAY).counts  # it is a run as any other


def test_a_tick_is_that_of_its_own_run() -> None:
    ticking, smooth = run(Case("x"), run_id="1"), run(Case("x", **NO_TICK), run_id="2")
    (row,) = between(ticking, smooth).rows
    for ns, results, tick in ((row.base_ns, ticking, 32), (row.head_ns, smooth, None)):
        placed = results.measurements["x", "main"]
        assert ns == pytest.approx(median(grouped_median(each.record.device_busy_ns, tick) for each in placed))
