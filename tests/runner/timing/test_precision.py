"""The interval of the median by order statistics, against tables and scipy; when it ends a measurement."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from evenbench.runner.timing.precision import EXACT_MAX, half_width, interval_rank, is_precise


@pytest.mark.parametrize(
    ("count", "rank"),
    [(0, 0), (1, 0), (5, 0), (6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (30, 10), (40, 14), (100, 40)],
)
def test_ranks_are_those_of_the_tables(count: int, rank: int) -> None:
    assert interval_rank(count) == rank


@given(st.integers(6, EXACT_MAX))
def test_the_rank_is_the_largest_that_covers_the_median_95_times_in_100(count: int) -> None:
    rank = interval_rank(count)
    assert 1 - 2 * binom.cdf(rank - 1, count, 0.5) >= 0.95
    assert 1 - 2 * binom.cdf(rank, count, 0.5) < 0.95


@given(st.integers(EXACT_MAX + 1, 100_000))
def test_beyond_a_thousand_the_rank_is_right_within_one(count: int) -> None:
    assert abs(interval_rank(count) - int(binom.ppf(0.025, count, 0.5))) <= 1


def test_the_half_width_is_relative_to_the_median() -> None:
    samples = list(range(991, 1_011))  # 20 samples: 6th and 15th, median 1000.5
    assert half_width(samples) == (1_005 - 996) / 2 / 1_000.5
    assert half_width(samples, grid=32) == (1_005 - 996 + 32) / 2 / 1_000.5


def test_equal_readings_are_as_good_as_their_grid() -> None:
    assert half_width([1_000] * 20) == 0
    assert half_width([1_000] * 20, grid=32) == 0.016
    assert is_precise([1_000] * 20, 0.017, grid=32)
    assert not is_precise([1_000] * 20, 0.016, grid=32)


def test_too_few_samples_have_no_interval() -> None:
    assert half_width([]) == math.inf
    assert half_width([7] * 5) == math.inf
    assert half_width([7] * 6) == 0
    assert half_width([0] * 20) == math.inf


def test_fewer_than_ten_samples_are_never_precise() -> None:
    assert not is_precise([1_000] * 9, 0.5)
    assert is_precise([1_000] * 10, 0.5)


@given(st.lists(st.integers(1, 10**9), min_size=6, max_size=200), st.integers(1, 1_000))
def test_neither_order_nor_unit_matters(samples: list[int], factor: int) -> None:
    width = half_width(samples)
    assert half_width(samples[::-1]) == width
    assert half_width([ns * factor for ns in samples]) == pytest.approx(width)
