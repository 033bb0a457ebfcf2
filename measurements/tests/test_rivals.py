"""The rules of other tools in our reading of them: exact answers on samples made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from measurements.verdicts import rivals
from measurements.verdicts.rivals import RIVALS, Rival, called

Samples = NDArray[np.int64]


def one_row(*launches: list[int]) -> Samples:
    return np.array([launches], dtype=np.int64)


def steady(time: int, launches: int = 8, iterations: int = 20) -> Samples:
    """Launches around a time, each as wide as the others: means lie at `time`, iterations up to 4 off."""
    offsets = np.resize([-4, -2, 0, 2, 4], iterations)
    return time + np.tile(offsets, (1, launches, 1))


def said(rule: rivals.Rule, base: Samples, head: Samples) -> int:
    (answer,) = rule(base, head).tolist()
    return int(answer)


def runs(*means: int) -> Samples:
    return one_row(*([mean - 5, mean + 5] for mean in means))


def test_benchstat_compares_one_number_a_launch_by_their_ranks() -> None:
    base = runs(100, 104, 108, 112, 116)
    assert said(rivals.benchstat, base, base + 100) == 1  # p = 2 / 252
    assert said(rivals.benchstat, base + 100, base) == -1
    assert said(rivals.benchstat, base, base + 1) == 0
    assert said(rivals.benchstat, runs(100, 101, 102), runs(200, 201, 202)) == 0  # p = 2 / 20: three are too few


def test_iterations_taken_for_runs_make_any_difference_of_two_launches_a_change() -> None:
    assert said(rivals.u_test, one_row([100, 101, 102, 103, 104, 105]), one_row([106, 107, 108, 109, 110, 111])) == 1
    assert said(rivals.u_test, one_row([106, 107, 108, 109, 110, 111]), one_row([100, 101, 102, 103, 104, 105])) == -1
    assert said(rivals.u_test, one_row([100, 102, 104, 106]), one_row([101, 103, 105, 107])) == 0


@pytest.mark.parametrize(("head", "answer"), [(1000, 0), (1005, 0), (1015, 1), (985, -1), (1100, 1)])
def test_criterion_wants_the_whole_interval_beyond_one_per_cent(head: int, answer: int) -> None:
    assert said(rivals.criterion, steady(1000), steady(head)) == answer


def test_criterion_says_nothing_of_a_wide_interval() -> None:
    base, head = one_row([900, 1000, 1100, 1000]), one_row([920, 1020, 1120, 1020])
    assert said(rivals.criterion, base, head) == 0


def test_criterion_tells_samples_without_spread_apart() -> None:
    base = np.full((1, 2, 10), 1000)
    assert [said(rivals.criterion, base, base + more) for more in (0, 5, 20)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("head", "default", "tight"), [(1100, 0, 0), (1101, 0, 1), (2000, 0, 1), (2001, 1, 1), (400, 0, 0)]
)
def test_github_action_benchmark_alerts_above_a_quotient(head: int, default: int, tight: int) -> None:
    assert said(rivals.github_action_benchmark, steady(1000), steady(head)) == default
    assert said(rivals.github_action_benchmark_tight, steady(1000), steady(head)) == tight


@pytest.mark.parametrize(("head", "answer"), [(1090, 0), (1110, 1), (905, -1), (915, 0)])
def test_asv_wants_a_factor_and_a_rank_test(head: int, answer: int) -> None:
    assert said(rivals.asv_continuous, steady(1000), steady(head)) == answer


def test_asv_says_nothing_of_few_samples() -> None:
    assert said(rivals.asv_continuous, one_row([100, 101]), one_row([200, 201])) == 0


def test_nvbench_wants_more_than_the_smaller_noise() -> None:
    base, quiet = one_row([90, 110, 90, 110]), one_row([104, 106, 104, 106])  # noise of 11.5 % and of 1.1 %
    assert said(rivals.nvbench_compare, base, quiet) == 1  # 5 %
    assert said(rivals.nvbench_compare, base, base + 10) == 0  # 10 % under 11.5 / 1.1
    assert said(rivals.nvbench_compare, base, base + 11) == 1  # 11 % over 11.5 / 1.11
    assert said(rivals.nvbench_compare, base, base - 20) == -1


def test_any_ratio_is_a_regression_once_the_mean_is_longer() -> None:
    assert [said(rivals.any_ratio, steady(1000), steady(time)) for time in (999, 1000, 1001)] == [0, 0, 1]


def test_rows_are_answered_in_order_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    base = np.concatenate([steady(1000)] * 5)
    head = np.concatenate([steady(time) for time in (1000, 1030, 970, 2500, 1001)])
    whole = {name: called(rival, base, head).tolist() for name, rival in RIVALS.items()}
    monkeypatch.setattr(rivals, "ROWS_AT_ONCE", 2)
    assert {name: called(rival, base, head).tolist() for name, rival in RIVALS.items()} == whole
    assert whole["Criterion with 1 %"] == [0, 1, -1, 1, 0]
    assert whole["any ratio below 1"] == [0, 1, 0, 1, 1]


def test_a_rival_of_one_launch_sees_the_first() -> None:
    base, head = steady(1000, launches=3), steady(1000, launches=3)
    head[:, 1:] += 500
    assert called(Rival(rivals.any_ratio, "mean"), base, head).tolist() == [1]
    assert called(Rival(rivals.any_ratio, "mean", 1), base, head).tolist() == [0]


@pytest.mark.parametrize("rule", [rivals.benchstat, rivals.u_test])
def test_rank_tests_mirror_when_sides_are_swapped(rule: rivals.Rule) -> None:
    random = np.random.default_rng(3)
    base = random.integers(900, 1100, (50, 8, 20))
    head = base + random.integers(0, 40, (50, 8, 20)) * random.choice([-1, 0, 1], (50, 1, 1))
    answer = rule(base, head)
    assert (rule(head, base) == -answer).all()
    assert set(answer.tolist()) == {-1, 0, 1}
