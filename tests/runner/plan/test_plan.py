"""The plan: everything follows from the seed, and drift cancels."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.errors import ConfigError
from evenbench.runner.plan.plan import Plan, shard_matrix, shard_of

seeds = st.integers(0, 2**48 - 1)


@given(seeds, st.integers(0, 50))
def test_a_pair_of_rounds_is_mirrored(seed: int, pair: int) -> None:
    plan = Plan(("base", "head"), seed, 100)
    first, second = plan.side_order(2 * pair), plan.side_order(2 * pair + 1)
    assert first == second[::-1]
    assert sorted(first) == ["base", "head"]


@given(seeds)
def test_three_sides_are_mirrored_too(seed: int) -> None:
    plan = Plan(("base", "head", "control"), seed, 8)
    assert plan.side_order(4) == plan.side_order(5)[::-1]


def test_the_coin_falls_both_ways() -> None:
    firsts = Counter(Plan(("base", "head"), seed, 2).side_order(0)[0] for seed in range(1_000))
    assert 400 < firsts["base"] < 600


@given(seeds, st.integers(0, 99), st.sets(st.text("abc", min_size=1, max_size=4)), st.sets(st.text("xyz", min_size=1)))
def test_cases_are_shuffled_and_what_one_side_lacks_comes_last(
    seed: int, number: int, common: set[str], extra: set[str]
) -> None:
    plan = Plan(("base", "head"), seed, 100)
    order = plan.case_order(number, common, extra)
    assert set(order[: len(common)]) == common
    assert set(order[len(common) :]) == extra
    assert order == plan.case_order(number, reversed(sorted(common)), sorted(extra))  # noqa: C413 - another order in


def test_orders_differ_between_rounds_and_seeds() -> None:
    ids = [f"c{n}" for n in range(20)]
    plan = Plan(("base", "head"), 1, 8)
    assert plan.case_order(0, ids) != plan.case_order(1, ids)
    assert plan.case_order(0, ids) != Plan(("base", "head"), 2, 8).case_order(0, ids)


def test_the_plan_of_a_seed_never_changes() -> None:
    """Files tell their plan by the seed, so another order from the same seed would be another format."""
    plan = Plan(("base", "head"), 42, 8)
    assert [plan.side_order(number)[0] for number in range(8)] == EXPECTED_FIRSTS
    assert plan.case_order(0, "abcdef") == EXPECTED_CASES


def test_implementations_are_mirrored_in_every_second_round() -> None:
    plan = Plan(("base", "head"), 1, 4)
    assert [plan.mirrored(number) for number in range(4)] == [False, True, False, True]


@given(seeds, st.integers(1, 50), st.text(min_size=1))
def test_each_case_has_one_shard(seed: int, count: int, case_id: str) -> None:
    taken = [index for index in range(count) if Plan(("base",), seed, 6, (index, count)).takes(case_id)]
    assert taken == [shard_of(case_id, count, seed)]


def test_the_matrix_of_shards() -> None:
    assert shard_matrix(2, 7) == [{"index": 0, "count": 2, "seed": 7}, {"index": 1, "count": 2, "seed": 7}]
    for count in (0, 1_001):
        with pytest.raises(ConfigError, match="must be 1 to 1000"):
            shard_matrix(count, 7)


EXPECTED_FIRSTS = ["head", "base", "base", "head", "base", "head", "head", "base"]
EXPECTED_CASES = ["b", "f", "e", "d", "a", "c"]
