"""A second run of what regressed: what it measures, what it settles, and how both are shown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evenbench.cli.steps.arguments import split_sides
from evenbench.cli.steps.confirm import first_is_whole, second_file, second_run, with_room_for_second
from evenbench.reports.compare.compare import compare, conditions_met
from evenbench.reports.compare.confirm import confirmed, to_confirm
from evenbench.reports.load.results import load_runs
from evenbench.reports.publish.outcome import Outcome as States
from evenbench.reports.render import wording
from evenbench.reports.render.comment.comment import comment
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.terminal.terminal import terminal
from evenbench.reports.rows.outcome import Comparison, SecondRun
from evenbench.runner.config import select
from evenbench.runner.errors import NothingMeasured, UntrustedInput, UsageError
from evenbench.runner.execute.execute import RunOutcome
from evenbench.runner.execute.measuring import Done
from evenbench.runner.plan.plan import SEED_BITS, second_seed
from evenbench.runner.plan.request import Request
from evenbench.runner.plan.selection import may_hold
from evenbench.runner.records import End, MuteRecord, PlantRecord, SideInfo
from evenbench.runner.sides import SideSpec
from tests import build
from tests.build import Case

GOLDEN = Path(__file__).parents[2] / "golden"
TODAY = date(2026, 11, 29)
SLOW = Case("slow", head=20_600.0)
SLOWER = Case("slower[n=1]", head=24_000.0)
SAME = Case("same")
NOISY = Case("slow", head=lambda number: 20_000.0 * (1 + 0.04 * (number % 3)))


def judged(*cases: Case, **options: Any) -> Comparison:
    return compare(build.results(cases, **({"looks": [8]} | options)), TODAY)


def second(*cases: Case, **options: Any) -> Comparison:
    return judged(*cases, **({"run_id": "run-2", "confirms": "run-1", "seed": 8} | options))


def fires(comparison: Comparison) -> bool:
    return conditions_met(comparison, ["regressed"]) == ("regressed",)


def of_slow(comparison: Comparison) -> SecondRun | None:
    return next(row.second for row in comparison.rows if row.case == "slow")


# ----------------------------------------------------------------------------------------------------------- what to repeat


def test_regressed_cases_are_repeated_the_largest_change_first() -> None:
    several = Case("several", head=21_500.0, implementations=("one", "two"))
    assert to_confirm(judged(SAME, SLOW, SLOWER, several)) == ["slower[n=1]", "several", "slow"]
    assert to_confirm(judged(SAME, Case("fast", head=18_000.0))) == []


def test_what_does_not_count_is_not_repeated() -> None:
    judge = build.header().judge
    mute = [MuteRecord(match="slow", why="known", until="2027-01-01")]
    assert to_confirm(judged(SLOW, SLOWER, judge=judge.model_copy(update={"mute": mute}))) == ["slower[n=1]"]
    assert to_confirm(judged(SLOW, SLOWER, plant=PlantRecord(case="slow", fraction=0.05))) == ["slower[n=1]"]
    edited = judged(SLOW)
    assert to_confirm(replace(edited, facts=replace(edited.facts, changed=("head: a.py",)))) == []


def test_no_more_cases_are_repeated_than_a_file_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbench.reports.compare.confirm.CASES_MAX", 1)
    assert to_confirm(judged(SLOW, SLOWER)) == ["slower[n=1]"]


@pytest.mark.parametrize("case", ["norm/rms", "norm/rms[cols=4096,dtype=bfloat16]", "a[n=1]"])
def test_an_id_as_a_pattern_takes_that_case_alone(case: str) -> None:
    pattern = f"id:{case}"
    others = {
        "norm/rms",
        "norm/rms[cols=4096,dtype=bfloat16]",
        "norm/rms[cols=4096]",
        "a",
        "a[n=1]",
        "a[n=11]",
        "a[n=1",
    }
    assert [each for each in sorted(others | {case}) if select((pattern,), each, {case, pattern})] == [case]
    assert split_sides([pattern]) == (None, [pattern])
    folder = case.partition("/")[0]
    assert may_hold(f"{folder}/file.py", [pattern])
    assert "/" not in case or not may_hold("other/file.py", [pattern])


def test_the_second_seed_is_another_one_and_always_the_same() -> None:
    seeds = [second_seed(seed) for seed in range(1000)]
    assert len({*seeds, *range(1000)}) == 2000
    assert seeds == [second_seed(seed) for seed in range(1000)]
    assert all(0 <= seed < 1 << SEED_BITS for seed in seeds)


# ---------------------------------------------------------------------------------------------------------- what it settles


@pytest.mark.parametrize(
    ("again", "verdict", "is_confirmed", "is_cleared"),
    [
        (SLOW, "regressed", True, False),
        (Case("slow"), "unchanged", False, True),
        (Case("slow", head=19_000.0), "improved", False, True),
        (NOISY, "inconclusive", False, True),
        (Case("slow", head=None), "removed", False, False),
        (Case("slow", base=None), "new", False, False),
        (Case("slow", head_case={"work": None}), "incomparable", False, False),
        (
            Case("slow", head_case={"status": "failed", "reason": "no triton", "kind": "setup", "implementations": []}),
            "failed",
            False,
            False,
        ),
        (
            Case(
                "slow", head_case={"status": "wrong", "reason": "3 of 9 differ", "kind": "wrong", "implementations": []}
            ),
            "wrong",
            False,
            False,
        ),
        (
            Case("slow", both_case={"status": "skipped", "reason": "no flash_attn", "implementations": []}),
            "skipped",
            False,
            False,
        ),
        (SAME, "", False, False),
    ],
)
def test_only_a_judged_row_clears_a_regressed_one(
    again: Case, verdict: str, is_confirmed: bool, is_cleared: bool
) -> None:
    found = confirmed(judged(SLOW, SAME), [second(again)])
    row = of_slow(found)
    assert row is not None
    assert (row.verdict, row.confirmed, row.cleared) == (verdict, is_confirmed, is_cleared)
    assert fires(found) != is_cleared
    assert States.of(found).verdict == ("fine" if is_cleared else "regressed")  # what a pull request is told
    assert wording.title(found) == f"evenbench: 1 regressed ({int(is_confirmed)} confirmed), 1 unchanged"
    assert all(each.second is None for each in found.rows if each.case != "slow")


def test_any_row_that_is_not_cleared_fires() -> None:
    first = judged(SLOW, SLOWER)
    one = confirmed(first, [second(Case("slow"), SLOWER)])
    assert wording.title(one) == "evenbench: 2 regressed (1 confirmed)"
    assert fires(one)
    assert not fires(confirmed(first, [second(Case("slow"), Case("slower[n=1]"))]))
    assert fires(confirmed(first, [second(Case("slow"))]))  # the other one was not measured


def test_without_a_second_run_nothing_is_said() -> None:
    first = judged(SLOW)
    assert confirmed(first, []) == first
    assert wording.title(first) == "evenbench: 1 regressed"


def test_too_few_rounds_clear_nothing() -> None:
    found = confirmed(judged(SLOW), [second(Case("slow"), made=5)])
    row = of_slow(found)
    assert row is not None
    assert (row.verdict, row.cleared) == ("inconclusive", False)
    assert row.doubt.startswith("too few rounds: 5 whole")
    assert fires(found)


@pytest.mark.parametrize(
    ("options", "doubt"),
    [
        ({"end": False}, "it did not come to its end"),
        (
            {
                "sides": [
                    SideInfo(name="base", label="main", sha="a" * 40),
                    SideInfo(name="head", label="x", sha="f" * 40),
                ]
            },
            "it is of other code or another machine: head differs",
        ),
        (
            {
                "sides": [
                    SideInfo(name="base", label="main", sha="a" * 40, tree="1" * 64, dirty=True),
                    build.header().sides[1],
                ]
            },
            "it is of other code or another machine: base differs",
        ),
        ({"cases_from": "head"}, "it is of other code or another machine: cases_from differs"),
        (
            {"launches": {"base": {"uuid": "GPU-2"}, "head": {"uuid": "GPU-2"}}},
            "it is of other code or another machine: GPU differs",
        ),
    ],
)
@pytest.mark.parametrize("again", [Case("slow"), SLOW])
def test_a_doubtful_second_run_settles_nothing(again: Case, options: dict[str, Any], doubt: str) -> None:
    found = confirmed(judged(SLOW), [second(again, **options)])
    row = of_slow(found)
    assert row is not None
    assert (row.doubt, row.confirmed, row.cleared) == (doubt, False, False)
    assert fires(found)


def test_an_unreliable_second_run_settles_nothing() -> None:
    results = build.results([Case("slow")], run_id="run-2", confirms="run-1", looks=[8])
    edited = replace(results, ends=(End(at="x", rounds=8, changed=["head: a.py"]),))
    found = confirmed(judged(SLOW), [compare(edited, TODAY)])
    row = of_slow(found)
    assert row is not None
    assert row.doubt == "it is unreliable"
    assert fires(found)


def test_other_names_for_the_same_code_are_no_doubt() -> None:
    sides = [SideInfo(name=side.name, label="another name", sha=side.sha) for side in build.header().sides]
    control = SideInfo(name="control", label="main", sha=build.BASE_SHA)
    first = judged(SLOW)
    header = first.facts.header.model_copy(update={"sides": [*first.facts.header.sides, control]})
    first = replace(first, facts=replace(first.facts, header=header))
    assert not fires(confirmed(first, [second(Case("slow"), sides=sides)]))


# ------------------------------------------------------------------------------------------------------------- how it shows


def test_every_format_shows_both() -> None:
    found = confirmed(judged(SLOW, SLOWER, SAME), [second(SLOW, Case("slower[n=1]"), end=True)])
    for shown in (terminal(found, 200), comment(found)):
        assert "2 regressed (1 confirmed)" in shown or "2 regressed &#40;1 confirmed&#41;" in shown
        assert "not confirmed: unchanged" in shown
        assert "confirmed: a second, independent run" in shown
    assert "confirmed: +3." in terminal(found, 200)
    data = as_json(found)
    again = {row["case"]: row["second_run"] for row in data["rows"]}
    assert (again["slow"]["verdict"], again["slow"]["confirmed"], again["slow"]["cleared"]) == (
        "regressed",
        True,
        False,
    )
    assert (again["slower[n=1]"]["confirmed"], again["slower[n=1]"]["cleared"]) == (False, True)
    assert again["same"] is None
    (run,) = data["second_runs"]
    assert (run["run"]["run_id"], run["run"]["confirms"]) == ("run-2", "run-1")
    assert as_json(judged(SLOW))["second_runs"] == []


def test_notes_of_the_second_run_are_told_once() -> None:
    told: Any = {"base": {"notes": ["somebody else uses the GPU"]}}
    found = confirmed(judged(SLOW), [second(SLOW, prepared=told)])
    assert "second run: base: somebody else uses the GPU" in found.facts.notes
    found = confirmed(judged(SLOW, prepared=told), [second(SLOW, prepared=told)])
    assert not any(note.startswith("second run") for note in found.facts.notes)


@pytest.mark.parametrize(
    ("name", "render"),
    [("terminal-confirmed.txt", lambda found: terminal(found, 120)), ("comment-confirmed.md", comment)],
)
def test_golden(name: str, render: Callable[[Comparison], str]) -> None:
    hostile = {"status": "failed", "reason": "<b>@all</b> [x](http://x) | `a`", "kind": "setup", "implementations": []}
    first = judged(SLOW, SLOWER, SAME, Case("norm/rms", head=21_000.0), Case("norm/layer", head=22_000.0))
    again = second(SLOW, Case("slower[n=1]"), Case("norm/rms", head_case=hostile), seed=9)
    text = render(confirmed(first, [again]))
    path = GOLDEN / name
    if os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------ stored files


def stored(path: Path, *cases: Case, **options: Any) -> Path:
    path.write_bytes(build.text(build.events(cases, **options)))
    return path


def test_files_are_told_apart_by_their_headers(tmp_path: Path) -> None:
    first = stored(tmp_path / "a", SLOW)
    again = stored(tmp_path / "b", SLOW, run_id="run-2", seed=8, confirms="run-1", patterns=["id:slow"])
    for given in ([first, again], [again, first]):
        results, seconds = load_runs(given)
        assert results.header.run_id == "run-1"
        assert [each.header.run_id for each in seconds] == ["run-2"]
    assert load_runs([first])[1] == ()
    alone, none = load_runs([again])
    assert (alone.header.run_id, none) == ("run-2", ())


def test_each_shard_has_a_second_run_of_its_own(tmp_path: Path) -> None:
    shards = [
        stored(tmp_path / f"s{n}", Case(f"slow{n}", head=21_000.0), shard=build.shard(n, 2), run_id=f"run-{n}")
        for n in (0, 1)
    ]
    again = [
        stored(tmp_path / f"c{n}", Case(f"slow{n}", head=21_000.0), run_id=f"again-{n}", confirms=f"run-{n}")
        for n in (0, 1)
    ]
    results, seconds = load_runs([*again, *shards])
    found = confirmed(compare(results, TODAY), [compare(each, TODAY) for each in seconds])
    assert wording.title(found) == "evenbench: 2 regressed (2 confirmed)"
    results, seconds = load_runs([*shards, again[1]])
    found = confirmed(compare(results, TODAY), [compare(each, TODAY) for each in seconds])
    assert wording.title(found) == "evenbench: 2 regressed (1 confirmed)"


def test_second_runs_that_belong_to_no_file_or_twice_are_refused(tmp_path: Path) -> None:
    first = stored(tmp_path / "a", SLOW)
    other, one, two = (
        stored(tmp_path / name, SLOW, run_id=f"run-{name}", confirms=of)
        for name, of in (("o", "x"), ("b", "run-1"), ("c", "run-1"))
    )
    with pytest.raises(UntrustedInput, match="o confirms a run that is not here: x"):
        load_runs([first, other])
    with pytest.raises(UntrustedInput, match=r"b and \S*c confirm the same run"):
        load_runs([first, one, two])
    with pytest.raises(UsageError, match="no results file"):
        load_runs([])


# ------------------------------------------------------------------------------------------------------- compare --confirm


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("a.results.jsonl", "a.confirm.results.jsonl"),
        ("a.jsonl", "a.confirm.results.jsonl"),
        ("a", "a.confirm.results.jsonl"),
        ("a.b.results.jsonl", "a.b.confirm.results.jsonl"),
    ],
)
def test_the_second_file_stands_beside_the_first(first: str, expected: str) -> None:
    assert second_file(Path("out") / first) == Path("out") / expected


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    specs = [SideSpec("base", "main"), SideSpec("head", None), SideSpec("control", "main")]
    return Request("compare", tmp_path, specs, tmp_path / "a.jsonl", seed=7, shard=(1, 4), patterns=["*"])


def measuring(asked: list[Request], then: Callable[[Request], None] = lambda _: None) -> Any:
    """A stand-in for measuring, which remembers what it was asked for."""

    def measure(request: Request) -> Done:
        asked.append(request)
        then(request)
        return argparse.Namespace(output=request.output, outcome=RunOutcome())  # type: ignore[return-value]  # nobody looks

    return measure


def test_the_second_run_measures_just_what_regressed(request_: Request) -> None:
    request = with_room_for_second(replace(request_, plant=PlantRecord(case="p", fraction=0.1)))
    stored(request.output, SLOW, SLOWER, SAME, shard=build.shard(1, 4))
    asked: list[Request] = []
    found = second_run(request, measuring(asked, lambda again: again.output.touch()))
    (again,) = asked
    assert found == [again.output] == [request.output.with_name("a.confirm.results.jsonl")]
    assert again.patterns == ["id:slower[n=1]", "id:slow"]
    assert (again.seed, again.shard, again.plant, again.resume) == (second_seed(7), (0, 1), None, False)
    assert (again.confirms, again.beside, request.beside) == ("run-1", (request.output,), (again.output,))
    assert [spec.name for spec in again.specs] == ["base", "head"]


def test_nothing_regressed_nothing_is_measured(request_: Request) -> None:
    stored(request_.output, SAME)
    asked: list[Request] = []
    assert second_run(request_, measuring(asked)) == []
    assert asked == []


def test_what_goes_wrong_costs_the_second_run_alone(request_: Request, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Request) -> None:
        raise NothingMeasured("set-up failed")

    stored(request_.output, SLOW)
    before = request_.output.read_bytes()
    assert second_run(request_, measuring([], fail)) == []
    assert "error: the second run: set-up failed" in capsys.readouterr().err
    assert request_.output.read_bytes() == before


def test_what_was_interrupted_is_gone_on_with(request_: Request) -> None:
    again = replace(request_, resume=True)
    assert not first_is_whole(again)
    stored(request_.output, SLOW, end=False)
    assert not first_is_whole(again)
    stored(request_.output, SLOW)
    assert first_is_whole(again)
    assert not first_is_whole(request_)
    partial = second_file(request_.output)
    stored(partial, SLOW, end=False, confirms="run-1")
    asked: list[Request] = []
    second_run(with_room_for_second(again), measuring(asked))
    assert asked[0].resume


def test_a_second_file_that_is_in_the_way_is_refused(request_: Request) -> None:
    stored(second_file(request_.output), SLOW, confirms="run-1")
    with pytest.raises(UsageError, match=r"a\.confirm\.results\.jsonl exists already"):
        with_room_for_second(request_)
    with pytest.raises(UsageError, match="is complete"):
        with_room_for_second(replace(request_, resume=True))
