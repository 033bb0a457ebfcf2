"""Two runs whose launches are no pairs: the numbers of Welch's test, the verdicts, and what no input may break."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenbench.reports.statistics.paired import Judgement, Settings
from evenbench.reports.statistics.unpaired import (
    MIN_LAUNCHES,
    WITHIN_TICK,
    UnpairedRow,
    judge_unpaired,
    launch_locations,
    unpaired_mean,
)

ONE_LOOK = Settings(looks=(8,))
MIRRORED = {"regressed": "improved", "improved": "regressed"}


def noisy(
    key: object,
    ratio: float,
    launches: tuple[int, int] = (8, 12),
    *,
    noise: tuple[float, float] = (0.002, 0.006),
    min_effect: float = 0.005,
) -> UnpairedRow:
    """A row of 100 µs whose head takes `ratio` times as long; each launch has one sample."""
    random = np.random.default_rng([7, *(str(key).encode())])
    sides = [
        [[int(center * (1 + size * random.standard_normal()))] for _ in range(number)]
        for center, size, number in zip((100_000, ratio * 100_000), noise, launches, strict=True)
    ]
    return UnpairedRow(key, sides[0], sides[1], None, None, min_effect)


def flat(base: int, head: int, launches: tuple[int, int] = (8, 8), ticks: tuple[Any, Any] = (None, None)) -> Any:
    return UnpairedRow("a", [[base]] * launches[0], [[head]] * launches[1], *ticks, 0.005)


def one(row: UnpairedRow, settings: Settings = ONE_LOOK) -> Judgement:
    (answer,) = judge_unpaired([row], settings)
    return answer


def logs(row: UnpairedRow) -> tuple[list[float], list[float]]:
    """The log locations of base and head, of rows with one sample a launch and no tick."""
    base, head = ([math.log(samples[0]) for samples in side if samples is not None] for side in (row.base, row.head))
    return base, head


def welch(head: Any, base: Any, alternative: Any = "two-sided") -> Any:
    """Scipy's own test of log locations."""
    return stats.ttest_ind(np.asarray(head), np.asarray(base), equal_var=False, alternative=alternative)


# -------------------------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("launches", [(8, 8), (6, 24), (30, 7)])
@pytest.mark.parametrize("ratio", [0.97, 0.996, 1.0, 1.004, 1.02])
def test_without_a_smallest_effect_the_p_values_are_scipys(ratio: float, launches: tuple[int, int]) -> None:
    row = noisy("a", ratio, launches, min_effect=0.0)
    answer = one(row)
    base, head = logs(row)
    for p, alternative in ((answer.p_slower, "greater"), (answer.p_faster, "less")):
        expected = welch(head, base, alternative).pvalue
        assert p == pytest.approx(expected, rel=1e-9)
    interval = welch(head, base).confidence_interval(0.95)
    assert answer.interval == pytest.approx((math.expm1(interval.low), math.expm1(interval.high)), rel=1e-9)
    assert answer.change == pytest.approx(math.expm1(np.mean(head) - np.mean(base)), rel=1e-12)
    assert (answer.base_ns, answer.head_ns) == pytest.approx(
        (math.exp(np.median(base)), math.exp(np.median(head))), rel=1e-6
    )
    assert (answer.rounds, answer.warnings) == (min(launches), ())


@pytest.mark.parametrize("ratio", [0.97, 0.99, 1.0, 1.006, 1.012, 1.03])
def test_effect_equivalence_and_what_is_resolvable_are_shifted_tests(ratio: float) -> None:
    row = noisy("a", ratio)
    answer = one(row)
    base, head = map(np.array, logs(row))
    delta, epsilon = math.log1p(0.005), math.log1p(0.02)

    def p(shift: float, alternative: str) -> float:
        return float(welch(head - shift, base, alternative).pvalue)

    assert answer.p_slower == pytest.approx(p(delta, "greater"), rel=1e-9)
    assert answer.p_faster == pytest.approx(p(-delta, "less"), rel=1e-9)
    assert answer.p_equivalent == pytest.approx(max(p(epsilon, "less"), p(-epsilon, "greater")), rel=1e-9)
    found = welch(head, base)
    se = (head.mean() - base.mean()) / found.statistic
    assert answer.resolvable == pytest.approx(math.expm1(delta + stats.t.isf(0.01 / 2, found.df) * se), rel=1e-9)


def test_a_tick_is_of_its_own_side() -> None:
    answer = one(flat(32_000, 64_000, (8, 16), ticks=(32, 320)))
    v = [(tick / (math.sqrt(12) * median)) ** 2 / n for tick, median, n in ((32, 32_000, 8), (320, 64_000, 16))]
    freedom = sum(v) ** 2 / (v[0] ** 2 / 7 + v[1] ** 2 / 15)
    half = stats.t.isf(0.025, freedom) * math.sqrt(sum(v))
    assert answer.interval == pytest.approx((2 * math.exp(-half) - 1, 2 * math.exp(half) - 1), rel=1e-9)
    assert answer.warnings == (WITHIN_TICK,)
    assert answer.verdict == "regressed"


def test_only_one_side_within_its_tick_is_no_warning() -> None:
    moving = noisy("a", 1.0, (8, 8))
    answer = one(replace(moving, base=[[100_000]] * 8, base_tick_ns=32))
    assert answer.warnings == ()


def test_equal_times_are_unchanged() -> None:
    answer = one(flat(10_000, 10_000, ticks=(32, 32)))
    assert (answer.verdict, answer.change) == ("unchanged", 0.0)
    low, high = answer.interval or (1.0, 1.0)
    assert low < 0 < high


def test_verdicts_of_a_family_are_those_of_holm() -> None:
    rows = [noisy(n, ratio) for n, ratio in enumerate([1.0, 1.012, 1.018, 0.97, 1.05, 0.999])]
    rows.append(noisy(6, 1.01, noise=(0.02, 0.03)))
    answers = judge_unpaired(rows, ONE_LOOK)
    left, expected = 2 * len(rows), {row.key: "" for row in rows}
    hypotheses = [(a.p_slower, a.key, "regressed") for a in answers] + [
        (a.p_faster, a.key, "improved") for a in answers
    ]
    for p, key, verdict in sorted(hypotheses, key=lambda each: each[0]):
        if p > 0.01 / left:
            break
        expected[key] = verdict
        left -= 1
    assert [a.verdict for a in answers if a.verdict in MIRRORED] == [each for each in expected.values() if each]
    assert {answer.verdict for answer in answers} == {"regressed", "improved", "unchanged", "inconclusive"}


# ----------------------------------------------------------------------------------------------------------- few launches


@pytest.mark.parametrize("launches", [(5, 30), (30, 5), (1, 1)])
def test_too_few_launches_are_not_judged(launches: tuple[int, int]) -> None:
    sound = noisy("b", 1.05)
    few, among = judge_unpaired([flat(1000, 2000, launches), sound], ONE_LOOK)
    assert few.verdict == "inconclusive"
    assert few.change == pytest.approx(1.0)
    assert (few.interval, few.resolvable) == (None, None)
    assert (few.p_slower, few.p_faster, few.p_equivalent) == (1.0, 1.0, 1.0)
    assert few.warnings == (
        f"too few launches: {launches[0]} of base and {launches[1]} of head, at least 6 of each needed",
    )
    assert among == one(sound)  # and Holm does not count them


def test_a_side_without_launches_has_no_change() -> None:
    answer = one(flat(1000, 2000, (8, 0)))
    assert (answer.change, answer.base_ns, answer.head_ns, answer.rounds) == (None, None, None, 0)


def test_launches_without_samples_or_time_are_dropped() -> None:
    row = replace(noisy("a", 1.02, (8, 8)), base_tick_ns=32)
    holes = replace(row, base=[None, *row.base[:4], [], [0], [15], *row.base[4:], None])
    answer = one(holes)
    assert answer.warnings == ("2 of 10 launches of base dropped: a time is not above 0",)
    assert replace(answer, warnings=()) == one(row)


def test_no_rows() -> None:
    assert judge_unpaired([], ONE_LOOK) == []
    assert unpaired_mean([]) is None
    assert launch_locations([]).shape == (0, 1, 2)


# --------------------------------------------------------------------------------------------------------- geometric mean


def test_mean_of_whole_runs_is_welchs_on_the_launches_means() -> None:
    rows = [noisy(n, 1.01, (9, 14)) for n in range(5)]
    base, head = (np.mean([logs(row)[side] for row in rows], axis=0) for side in (0, 1))
    interval = welch(head, base).confidence_interval(0.95)
    found = unpaired_mean(rows)
    assert found is not None
    assert found.rows == 5
    assert found.change == pytest.approx(math.expm1(head.mean() - base.mean()), rel=1e-9)
    assert found.interval == pytest.approx((math.expm1(interval.low), math.expm1(interval.high)), rel=1e-9)


def test_mean_of_one_row_is_the_row() -> None:
    row = noisy("a", 1.03)
    found, answer = unpaired_mean([row, flat(10, 20, (3, 8))]), one(row)
    assert found is not None
    assert (found.change, *found.interval) == pytest.approx((answer.change, *(answer.interval or ())), rel=1e-9)


# ------------------------------------------------------------------------------------------------------------ sanity, any


def test_intervals_cover_and_unchanged_rows_are_not_flagged() -> None:
    random = np.random.default_rng(1)
    rows = []
    for n in range(3_000):
        base = [[round(value)] for value in random.lognormal(math.log(20_000), 0.004, 8)]
        head = [[round(value)] for value in random.lognormal(math.log(20_000 * 1.004), 0.012, 16)]
        rows.append(UnpairedRow(n, base, head, None, None, 0.005))
    answers = judge_unpaired(rows, ONE_LOOK)
    covered = np.mean([a.interval is not None and a.interval[0] <= 0.004 <= a.interval[1] for a in answers])
    assert covered == pytest.approx(0.95, abs=0.012)  # three standard errors
    assert {answer.verdict for answer in answers} <= {"unchanged", "inconclusive"}


times = st.lists(st.integers(-5, 10**7), max_size=4)
sides = st.lists(st.none() | times, max_size=12)
ticks = st.none() | st.integers(1, 1000)
rows = st.builds(UnpairedRow, st.just(0), sides, sides, ticks, ticks, st.sampled_from([0.0, 0.005, 1.0]))
runs = st.lists(rows, max_size=5).map(lambda found: [replace(row, key=n) for n, row in enumerate(found)])
all_settings = st.builds(
    Settings, st.just((8,)), st.sampled_from([0.005, 0.02, 1.0]), st.sampled_from([1e-9, 0.01, 0.5])
)


def numbers(answer: Judgement) -> list[float]:
    return [x for x in np.hstack([[] if v is None else v for v in astuple(answer)[2:10]]).tolist() if x is not None]


@given(runs, all_settings)
def test_answers_are_well_formed(run: list[UnpairedRow], settings: Settings) -> None:
    answers = judge_unpaired(run, settings)
    assert [answer.key for answer in answers] == [row.key for row in run]
    for answer in answers:
        judged = answer.rounds >= MIN_LAUNCHES
        assert (answer.interval is not None) == (answer.resolvable is not None) == judged
        assert (answer.change is not None) == (answer.base_ns is not None) == (answer.rounds > 0)
        assert all(0 <= p <= 1 for p in (answer.p_slower, answer.p_faster, answer.p_equivalent))
        assert np.isfinite(numbers(answer)).all()
        if answer.interval is not None:
            assert answer.interval[0] <= (answer.change or 0) <= answer.interval[1]
        else:
            assert answer.verdict == "inconclusive"
    mean = unpaired_mean(run)
    assert (mean is None) == all(answer.interval is None for answer in answers)
    if mean is not None:
        assert mean.interval[0] <= mean.change <= mean.interval[1]


@given(runs, all_settings)
def test_swapping_the_sides_mirrors_every_answer(run: list[UnpairedRow], settings: Settings) -> None:
    swapped = [
        replace(row, base=row.head, head=row.base, base_tick_ns=row.head_tick_ns, head_tick_ns=row.base_tick_ns)
        for row in run
    ]
    for there, back in zip(judge_unpaired(run, settings), judge_unpaired(swapped, settings), strict=True):
        assert back.verdict == MIRRORED.get(there.verdict, there.verdict)
        assert (back.p_slower, back.p_faster, back.p_equivalent) == (there.p_faster, there.p_slower, there.p_equivalent)
        assert (back.resolvable, len(back.warnings)) == (there.resolvable, len(there.warnings))
        assert (back.base_ns, back.head_ns, back.rounds) == (there.head_ns, there.base_ns, there.rounds)
        if there.change is not None and back.change is not None:
            low, high = sorted((there.change, back.change))
            assert low == pytest.approx(1 / (1 + high) - 1, abs=1e-12)


@given(runs, all_settings, st.randoms(use_true_random=False))
def test_the_order_of_launches_does_not_matter(run: list[UnpairedRow], settings: Settings, random: Any) -> None:
    def mixed(side: Sequence[Any]) -> list[Any]:
        return list(random.sample(side, len(side)))

    permuted = [replace(row, base=mixed(row.base), head=mixed(row.head)) for row in run]
    for there, other in zip(judge_unpaired(run, settings), judge_unpaired(permuted, settings), strict=True):
        assert numbers(other) == pytest.approx(numbers(there), rel=1e-6, abs=1e-9)
