"""The proof of the verdicts: what of it can be wrong, and a small version of it on the recorded launches."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from evenbench.reports.statistics.paired import Settings, judge
from evenbench.runner.plan.plan import Plan
from measurements.verdicts import figures_of_verdicts as prove_verdicts_figure
from measurements.verdicts import noise as prove_verdicts_noise
from measurements.verdicts import on_gpu as prove_verdicts_gpu
from measurements.verdicts import recorded
from measurements.verdicts import recorded_launches as prove_verdicts
from measurements.verdicts import speed as prove_verdicts_speed
from measurements.verdicts import tables as prove_verdicts_tables
from measurements.verdicts.draws import Drawn, as_measured, drawing, joined, labels, looked_at, runs_of, some_rounds
from measurements.verdicts.recorded import Pool, pools
from measurements.verdicts.recorded_launches import (
    FACTORS,
    SAME,
    TALLY,
    Found,
    found_in,
    in_kernel,
    looks_within,
    runs_with,
)
from measurements.verdicts.rivals import RIVALS, called

ROOT = Path(__file__).parents[2]
FEW = 3  # runs of a small proof


def small_pool(cases: int = 3, rounds: int = 24, spread: int = 20) -> Pool:
    """Rounds of which every sample is told apart: case, round and launch can be read from it."""
    random = np.random.default_rng(1)
    names = tuple(f"case {number}" for number in range(cases))
    level = 100_000 * (1 + np.arange(cases))[:, np.newaxis, np.newaxis, np.newaxis]
    return Pool("small", names, level + random.integers(-spread, spread + 1, (cases, rounds, 2, 20)), None)


@pytest.fixture(scope="module")
def suite() -> Pool:
    """16 rounds of a hundred cases, five of them slowed in head."""
    return pools()[0]


@pytest.fixture(scope="module")
def kernels() -> Pool:
    """80 launches of the same eight kernels."""
    return pools()[1]


@pytest.fixture(scope="module")
def collected() -> list[Pool]:
    """60 rounds of twelve cases of this project, the same on both sides; 48 of six that are slowed in the kernel."""
    return pools()[2:]


# ------------------------------------------------------------------------------------------------------------ recordings


def test_recordings_are_whole(suite: Pool, kernels: Pool) -> None:
    assert suite.samples.shape == (100, 16, 2, 20)
    assert kernels.samples.shape == (8, 40, 2, 20)
    assert (suite.tick_ns, kernels.tick_ns) == (32, 32)
    assert sorted(suite.planted) == ["add_3", "gemm_3", "rms_4", "softmax_2", "sum_5"]
    assert len(suite.untouched.cases) == 95
    assert not set(suite.untouched.cases) & set(suite.planted)
    raw = json.loads(gzip.decompress((recorded.DATA / "aa_h200.json.gz").read_bytes()))
    at = kernels.cases.index("rms")
    assert kernels.samples[at, 7, 1].tolist() == raw["launches"][15]["busy_ns"]["rms"][:20]
    assert suite.only(["tr_3"]).samples[0].tolist() == suite.samples[suite.cases.index("tr_3")].tolist()


def test_what_was_collected_is_whole(collected: list[Pool]) -> None:
    same, planted = collected
    assert same.cases == tuple(sorted(prove_verdicts_gpu.AA_CASES))
    assert same.samples.shape == (12, prove_verdicts_gpu.AA_ROUNDS, 2, 20)
    assert same.planted == {}
    assert planted.samples.shape == (6, prove_verdicts_gpu.PLANTED_ROUNDS, 2, 20)
    assert set(planted.planted) == set(planted.cases)
    assert (recorded.DATA / recorded.NEW).stat().st_size <= prove_verdicts_gpu.PACKED_MAX


def test_rounds_that_lack_something_are_left_out_and_the_rest_cut_to_one_length() -> None:
    def launch(samples: int, *cases: str) -> dict[str, list[int]]:
        return {case: list(range(samples)) for case in cases}

    rounds: list[dict[str, dict[str, list[int]]]] = [
        {"base": launch(30, "b", "a"), "head": launch(25, "a", "b")},
        {"base": launch(30, "a", "b"), "head": launch(30, "a")},
        {"base": launch(30, "a", "b")},
        {"base": launch(9, "a", "b"), "head": launch(30, "a", "b")},
        {"base": launch(12, "a", "b"), "head": launch(30, "a", "b")},
    ]
    cases, samples = recorded.dense(rounds)
    assert cases == ("a", "b")
    assert samples.tolist() == np.broadcast_to(np.arange(12), (2, 2, 2, 12)).tolist()
    assert recorded.dense(rounds[:1])[1].shape == (2, 1, 2, 20)
    with pytest.raises(ValueError, match="of 3 rounds none has all of 2 cases"):
        recorded.dense(rounds[1:4])


def events(rounds: int, value: int = 1000) -> list[dict[str, Any]]:
    """What a comparison of one case leaves, rounds in turned order of sides."""
    found: list[dict[str, Any]] = [
        {"event": "side", "side": "base", "torch": "2.11"},
        {"event": "launch", "launch": 0, "side": "base", "kind": "preparation", "round": None},
    ]
    for number in range(rounds):
        for slot, side in enumerate(("base", "head") if number % 2 else ("head", "base")):
            launch = 1 + 2 * number + slot
            named = {"launch": launch, "side": side, "round": number, "device": "NVIDIA H200", "driver": "580"}
            found.append({"event": "launch", "kind": "timed", **named})
            samples = [value + 100 * number + (side == "head")] * 20
            case = "planted/add[more=0.05,n=8]"
            measured = {"case": case, "implementation": "main", "device_busy_ns": samples, "tick_ns": 32}
            found.append({"event": "measurement", "launch": launch, **measured})
    return found


def test_what_is_collected_comes_back_as_pools(tmp_path: Path) -> None:
    for name in ("aa_h200.json.gz", "rounds_h200.json.gz"):
        (tmp_path / name).symlink_to(recorded.DATA / name)
    assert [pool.name for pool in pools(tmp_path)] == ["100 cases, 16 rounds", "8 kernels, 80 launches"]
    made = events(16)
    runs = {
        "aa": prove_verdicts_gpu.run_of(made, "same", {}),
        "planted": prove_verdicts_gpu.run_of(made, "more", prove_verdicts_gpu.grown(made)),
    }
    facts = prove_verdicts_gpu.facts_of(made)
    assert facts == {"device": "NVIDIA H200", "driver": "580", "torch": "2.11", "tick_ns": 32}
    path = tmp_path / recorded.NEW
    assert recorded.pack(path, facts, runs) == path.stat().st_size
    same, planted = pools(tmp_path)[2:]
    assert same.name == "verdicts_h200.json.gz: aa"
    assert (same.planted, planted.planted) == ({}, {"planted/add[more=0.05,n=8]": "5% more work"})
    assert same.samples[0, :, :, 0].tolist() == [[1000 + 100 * n, 1001 + 100 * n] for n in range(16)]
    assert planted.untouched.cases == ()
    recorded.pack(path, facts, {"aa": prove_verdicts_gpu.run_of(events(15), "same", {})})
    with pytest.raises(ValueError, match="15 rounds, at least 16 needed"):
        pools(tmp_path)
    path.write_bytes(gzip.compress(b'{"schema": "verdicts/2"}'))
    with pytest.raises(ValueError, match="schema 'verdicts/2', not 'verdicts/1'"):
        pools(tmp_path)


# ----------------------------------------------------------------------------------------------------------------- draws


def test_labels_are_those_of_a_plan() -> None:
    plan = Plan(("base", "head"), 5, 8)
    assert labels(8, 5).tolist() == [plan.side_order(number).index("base") for number in range(8)]
    seen = {tuple(labels(4, seed).tolist()) for seed in range(40)}
    assert seen == {(a, 1 - a, b, 1 - b) for a in (0, 1) for b in (0, 1)}  # base head head base or its mirror


def test_a_drawing_gives_all_cases_the_same_rounds_and_labels() -> None:
    pool = small_pool()
    rounds = np.array([3, 4, 9])
    drawn = drawing(pool, rounds, np.random.default_rng(2), 7)
    assert drawn.keys == (("case 0", 7), ("case 1", 7), ("case 2", 7))
    base = (drawn.samples[:, :, 0] == pool.samples[:, rounds, 1]).all(axis=2).astype(int)
    assert (base == base[0]).all()
    for row in range(3):
        for at, number in enumerate(rounds):
            sides = [pool.samples[row, number, launch].tolist() for launch in (base[row, at], 1 - base[row, at])]
            assert drawn.samples[row, at].tolist() == sides


def test_runs_share_no_round_and_keep_their_order() -> None:
    pool = small_pool()
    one, other = some_rounds(pool, 12, np.random.default_rng(0), 2)
    assert sorted([*one, *other]) == list(range(24))
    assert sorted(one) == one.tolist()
    with pytest.raises(ValueError, match="small: has 24 rounds, not 2 × 13"):
        some_rounds(pool, 13, np.random.default_rng(0), 2)


@pytest.mark.parametrize(("cases", "rows"), [(3, 99), (8, 96), (12, 96), (95, 95), (100, 100), (300, 300)])
def test_a_run_has_about_a_hundred_rows(cases: int, rows: int) -> None:
    (drawn,) = runs_of(small_pool(cases, 8), 8, np.random.default_rng(0))
    assert len(drawn) == len(set(drawn.keys)) == rows


def test_parts_are_joined_with_as_many_samples_as_all_have() -> None:
    pool = small_pool()
    short = Pool("short", ("other",), pool.samples[:1, :, :, :12], None)
    whole = joined([as_measured(pool, np.arange(8)), as_measured(short, np.arange(8), -1)])
    assert whole.samples.shape == (4, 8, 2, 12)
    assert whole.keys[-1] == ("other", -1)


def test_planting_slows_the_chosen_rows_of_head_alone() -> None:
    drawn = as_measured(small_pool(), np.arange(8))
    slow = drawn.planted(np.array([1]), 1.02, np.random.default_rng(0))
    assert slow.samples[1, :, 1] == pytest.approx(drawn.samples[1, :, 1] * 1.02, abs=1.02)
    assert (slow.samples[[0, 2]] == drawn.samples[[0, 2]]).all()
    assert (slow.samples[:, :, 0] == drawn.samples[:, :, 0]).all()
    part = slow.part(np.array([2, 1]), 3)
    assert part.keys == (("case 2", 0), ("case 1", 0))
    assert part.samples.tolist() == slow.samples[[2, 1], :3].tolist()


def test_longer_samples_are_read_by_the_same_clock() -> None:
    """A kernel of 33 ticks that takes 2 % longer is read as 33 or 34, and on average as 33.66."""
    read = recorded.slowed(np.full(20_000, 33 * 32), 1.02, 32, np.random.default_rng(0))
    assert set(read.tolist()) == {33 * 32, 34 * 32}
    assert read.mean() / 32 == pytest.approx(33.66, abs=0.01)
    assert (
        recorded.slowed(np.full(4, 1000), 1.0, 32, np.random.default_rng(0)).tolist() != [1000] * 4
    )  # not on the grid
    assert recorded.slowed(np.full(100, 992), 1.0, 32, np.random.default_rng(0)).tolist() == [992] * 100


def test_rows_go_on_only_while_they_are_open() -> None:
    random = np.random.default_rng(4)
    still = 100_000 + random.integers(-100, 100, (1, 24, 2, 20))
    noisy = np.rint(100_000 * np.exp(random.normal(0, 0.06, (1, 24, 2, 1))) + np.zeros(20)).astype(np.int64)
    slow = still.copy()
    slow[:, :, 1] += 10_000
    drawn = Drawn.of((("same", 0), ("noisy", 0), ("slow", 0)), np.concatenate([still, noisy, slow]), None)
    ended = looked_at(drawn, (8, 16, 24))
    assert [each.verdict for each in ended.judgements] == ["unchanged", "inconclusive", "regressed"]
    assert ended.rounds.tolist() == [8, 24, 8]
    assert ended.covers(0.0).tolist() == [True, True, False]
    assert ended.covers(0.1).tolist() == [False, False, True]
    assert ended.ns.tolist() == [each.base_ns for each in ended.judgements]
    assert ended.are("regressed", "unchanged").tolist() == [True, False, True]
    assert list(ended.judgements)[1] == judge(drawn.rows, Settings())[1]


def test_two_modes_are_those_that_the_report_notes() -> None:
    samples = np.full((2, 8, 2, 20), 100_000)
    samples[0, 4:, 0] += 5_000
    ended = looked_at(Drawn.of((("two", 0), ("one", 0)), samples, None), (8,))
    assert ended.two_modes.tolist() == [True, False]


# ----------------------------------------------------------------------------------------------------------------- noise


def test_noises_are_what_they_are_called() -> None:
    random = np.random.default_rng(0)
    drift = prove_verdicts_noise.drift(random, 2, 48)
    assert drift.shape == (2, 48)
    assert np.expm1(drift[:, [0, -1]]).tolist() == [[0.0, pytest.approx(0.05)]] * 2
    assert prove_verdicts_noise.period_four(random, 1, 6).tolist() == [[0.01, -0.01, -0.01, 0.01, 0.01, -0.01]]
    modes = np.expm1(prove_verdicts_noise.modes(0.25)(random, 100, 100))
    assert {round(value, 9) for value in modes.ravel().tolist()} == {0.0, 0.05}
    assert (modes > 0).mean() == pytest.approx(0.25, abs=0.02)
    assert np.abs(prove_verdicts_noise.heavy_tails(random, 100, 100)).max() > 0.03  # ten times its scale
    assert prove_verdicts_noise.plain(random, 100, 100).std() == pytest.approx(0.003, rel=0.05)


@pytest.mark.parametrize("kind", prove_verdicts_noise.KINDS)
def test_simulated_runs_have_equal_sides(kind: str) -> None:
    drawn = prove_verdicts_noise.simulated(kind, 8, np.random.default_rng(1))
    assert drawn.samples.shape == (100, 8, 2, 20)
    base, head = (side.mean() for side in drawn.sides)
    assert head / base == pytest.approx(1, abs=0.03)


def test_a_fixed_order_would_take_period_four_for_a_change() -> None:
    """Why the order of sides is drawn for each pair of rounds."""
    logs = prove_verdicts_noise.period_four(np.random.default_rng(0), 1, 16).reshape(8, 2)
    always = np.array([0, 1] * 4)
    assert np.ptp(logs[np.arange(8), 1 - always] - logs[np.arange(8), always]) == 0


# --------------------------------------------------------------------------------------------------------------- figures


def rows_of(**columns: list[Any]) -> np.ndarray[Any, Any]:
    found = np.zeros(len(next(iter(columns.values()))), TALLY)
    for name, values in columns.items():
        found[name] = values
    return found


def test_runs_with_a_flagged_row_are_counted_once() -> None:
    rows = rows_of(run=[0, 0, 1, 2, 2], flagged=[1, 1, 0, 0, 1])
    assert runs_with(rows, rows["flagged"]) == (2, 3)


def found_with(flagged: int, slow_found: float, covered: float, unchanged: float) -> Found:
    """60 runs of 100 untouched rows, and 1,000 slowed ones."""

    def first(share: float, of: int) -> list[bool]:
        return [number < share * of for number in range(of)]

    same = rows_of(
        run=[number // 100 for number in range(6_000)],
        flagged=[number < flagged for number in range(6_000)],
        covered=first(covered, 6_000),
        unchanged=first(unchanged, 6_000),
    )
    slow = rows_of(regressed=first(slow_found, 1_000), long=[True] * 1_000)
    return Found("made up", (8, 16, 24), {SAME: same, **dict.fromkeys(FACTORS, slow)}, {}, {})


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (found_with(0, 1.0, 0.95, 0.99), [True] * 6),
        (found_with(1, 0.97, 0.95, 0.95), [False, False, True, False, True, True]),
        (found_with(0, 0.94, 0.92, 0.94), [True, True, False, False, False, False]),
        (found_with(0, 1.0, 0.98, 1.0), [True, True, True, True, False, True]),
    ],
)
def test_targets_are_kept_or_not(found: Found, kept: list[bool]) -> None:
    lines = prove_verdicts_figure.target_lines([found])
    assert [line[3] for line in lines] == kept
    assert lines[0][1:3] == (f"{int(found.late[SAME]['flagged'].sum())} of 6,000", "0 of 2,000")
    assert lines[2][0] == "+2% found, kernels of 3 µs and more"


def test_shares_say_of_how_many() -> None:
    assert prove_verdicts_tables.share(np.array([True, False, True, True])) == "75.0% of 4"
    assert prove_verdicts_tables.share(np.array([], dtype=bool)) == ""
    assert [looks_within(rounds) for rounds in (7, 8, 20, 24, 60)] == [(), (8,), (8, 16), (8, 16, 24), (8, 16, 24)]


# ------------------------------------------------------------------------------------------------------- the proof, small


@pytest.fixture(scope="module")
def small_proof(suite: Pool, kernels: Pool, collected: list[Pool]) -> list[Found]:
    return [found_in(pool, 1, FEW) for pool in (suite.untouched, kernels, collected[0])]


def test_no_untouched_row_is_flagged_and_nearly_all_are_unchanged(small_proof: list[Found]) -> None:
    for found in small_proof:
        rows = found.late[SAME]
        assert len(rows) == FEW * (95 if found.name == "100 cases, 16 rounds" else 96)
        assert runs_with(rows, rows["flagged"]) == (0, FEW)
        assert rows["unchanged"].mean() >= 0.95
        assert 0.93 <= rows["covered"].mean() <= 0.99
        assert rows["rounds"].mean() < 12


def test_slowed_rows_are_found(small_proof: list[Found]) -> None:
    rows = {factor: np.concatenate([found.late[factor] for found in small_proof]) for factor in FACTORS}
    found = {factor: float(each["regressed"][each["long"]].mean()) for factor, each in rows.items()}
    assert found[1.05] == 1
    assert found[1.03] >= 0.95
    assert found[1.01] < found[1.02] < found[1.03]
    assert all(len(each) == 3 * FEW * 10 for each in rows.values())


def test_other_rules_flag_untouched_rows_of_the_same_samples(small_proof: list[Found]) -> None:
    flagged = {
        name: np.mean(np.concatenate([called(rival, *found.samples[SAME]) != 0 for found in small_proof]))
        for name, rival in RIVALS.items()
    }
    assert flagged["benchstat, a run is an iteration"] > 0.1
    assert flagged["Google Benchmark's compare.py, one launch"] > 0.1
    assert 0.4 < flagged["any ratio below 1"] < 0.6
    assert flagged["github-action-benchmark, 200 %"] == flagged["asv continuous, factor 1.1"] == 0


def test_kernels_slowed_from_within_are_found_where_the_change_is_large_enough(suite: Pool) -> None:
    cases = {each.case: each for each in in_kernel(suite, suite.untouched, 1, FEW)}
    assert cases["gemm_3"].rows["regressed"].all()
    assert cases["gemm_3"].rows["agrees"].all()
    assert not cases["rms_4"].rows["regressed"].any()  # slower by 0.9 %, of which 8 rounds can show 0.5 or nothing
    assert cases["gemm_3"].change == pytest.approx(0.0384, abs=0.0005)
    assert {len(each.rows) for each in cases.values()} == {2 * FEW}
    assert cases["add_3"].how == "5 % more elements in head"


def test_kernels_slowed_from_within_are_found_by_both_of_two_runs(collected: list[Pool]) -> None:
    same, planted = collected
    for each in in_kernel(planted, same, 1, FEW):
        assert each.rows["regressed"].all(), each.case
        assert each.rows["agrees"].all()
        assert each.change > 0.02


def test_iterations_are_no_unit_and_launches_are(kernels: Pool) -> None:
    found = prove_verdicts.by_unit(kernels, 1, 60)
    assert found.iterations.mean() > 0.1
    assert max(found.launches.mean(), found.rounds.mean()) < 0.025


def test_what_varies_between_rounds_cancels_within_them(suite: Pool) -> None:
    first, second, *_ = prove_verdicts.spreads(suite.untouched)
    assert first.rounds >= second.rounds
    (transpose,) = (each for each in prove_verdicts.spreads(suite) if each.case == "tr_5")
    assert transpose.rounds == pytest.approx(0.0323, abs=0.0001)
    assert transpose.sides == pytest.approx(0.0020, abs=0.0001)


def test_two_runs_on_one_change_mostly_agree(kernels: Pool) -> None:
    agreed = prove_verdicts.agreeing(kernels, 1, 2, 1.05)
    assert agreed.shape == (20,)
    assert agreed.mean() >= 0.9


def test_rounds_as_they_ran_raise_no_alarm(suite: Pool, kernels: Pool) -> None:
    for pool, rows in ((suite, 2 * 95), (kernels, 5 * 8)):
        seen = prove_verdicts.as_recorded(pool)
        assert len(seen) == rows
        assert not seen["flagged"].any()


def test_the_figure_prints_every_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_verdicts_figure, "ProcessPoolExecutor", InThisProcess)
    monkeypatch.setattr(prove_verdicts_figure, "UNIT_DRAWS", 2)
    assert prove_verdicts_figure.verdicts(argparse.Namespace(runs=1)) is False  # too few runs to keep the targets
    text = capsys.readouterr().out
    assert text.count(" --- |\n") == 13
    assert "| runs with such a row | 0 of 3 | 0 of 50 | short of it |" in text
    assert all(f"\n| {name} | " in text for name in (*RIVALS, *prove_verdicts_noise.KINDS, "evenbench, one look"))
    assert "nan" not in text


class InThisProcess:
    """A pool of processes that is none."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Any, *arguments: Any) -> Iterator[Any]:
        return map(function, *arguments)


def test_judging_is_timed_on_rows_of_noise() -> None:
    found = prove_verdicts_speed.part_judge(rows=50)
    assert found["rows"] == 50
    assert found["flagged"] == 0
    assert min(found["judge_s"], found["shuffled_s"], found["resident_gb"]) > 0
