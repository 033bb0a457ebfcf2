"""Cases spread over shards and GPUs: each in exactly one, loads even within the bound of the rule, the same everywhere."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.errors import ConfigError, UsageError
from evenbench.runner.plan.balance import BUCKETS, Share, balanced, bucket_of, parts_of, shares
from evenbench.runner.plan.plan import Plan, shard_matrix

seeds = st.integers(0, 2**48 - 1)
ids = st.text("abcxyz/", min_size=1, max_size=8)
known = st.dictionaries(ids, st.floats(1, 1e12), min_size=1, max_size=60)
OUTPUT_MAX = 1 << 20  # bytes of a workflow's output, which GitHub counts as UTF-16
LARGE = 10_000


@given(st.lists(st.floats(0, 1e9), max_size=60), st.integers(1, 9))
def test_no_part_is_heavier_than_the_rule_allows(loads: list[float], count: int) -> None:
    parts = balanced(loads, count)
    sums = [sum(load for load, part in zip(loads, parts, strict=True) if part == index) for index in range(count)]
    bound = sum(loads) / count + (1 - 1 / count) * max(loads, default=0)
    assert max(sums) <= bound * (1 + 1e-9)
    assert len(parts) == len(loads)


def test_the_greatest_comes_first() -> None:
    """Graham's example: taken as they come these loads end at 11, by the greatest first at 9, the least possible."""
    assert balanced([3, 3, 2, 2, 2], 2) == [0, 1, 0, 1, 0]
    assert balanced([5, 5, 4, 4, 3, 3, 3], 3) == [0, 1, 2, 2, 0, 1, 0]
    assert balanced([], 3) == []


@given(known, st.lists(ids), st.integers(1, 9), seeds)
def test_each_case_has_exactly_one_shard_known_or_not(
    durations: dict[str, float], more: list[str], count: int, seed: int
) -> None:
    plans = [
        Plan(("base", "head"), seed, 6, (n, count), share) for n, share in enumerate(shares(durations, count, seed))
    ]
    for case_id in [*durations, *more]:
        assert sum(plan.takes(case_id) for plan in plans) == 1


@given(known, st.integers(2, 9), seeds)
def test_shards_are_even_as_far_as_cases_do_not_share_a_bucket(
    durations: dict[str, float], count: int, seed: int
) -> None:
    buckets: Counter[int] = Counter()
    for case_id, taken in durations.items():
        buckets[bucket_of(case_id, seed)] += taken  # type: ignore[assignment]  # a counter of floats
    loads = [
        sum(taken for case_id, taken in durations.items() if share.takes(case_id, seed))
        for share in shares(durations, count, seed)
    ]
    bound = sum(durations.values()) / count + (1 - 1 / count) * max(buckets.values())
    assert max(loads) <= bound * (1 + 1e-9)


@given(known, st.integers(2, 9), seeds)
def test_a_plan_follows_from_durations_and_seed_in_whatever_order(
    durations: dict[str, float], count: int, seed: int
) -> None:
    turned = dict(reversed(durations.items()))
    assert shares(durations, count, seed) == shares(turned, count, seed)
    assert len({share.plan for share in shares(durations, count, seed)}) == 1


def test_plans_that_differ_have_other_ids() -> None:
    durations = {f"case{n}": float(n + 1) for n in range(20)}
    slower = durations | {"case0": 1_000.0}
    plans = {
        shares(*plan)[0].plan for plan in ((durations, 2, 7), (durations, 3, 7), (durations, 2, 8), (slower, 2, 7))
    }
    assert len(plans) == 4


@given(known, st.integers(1, 9), seeds)
def test_a_share_is_one_word_that_reads_back(durations: dict[str, float], count: int, seed: int) -> None:
    for share in shares(durations, count, seed):
        assert Share.parse(share.word) == share
        assert share.word.replace(".", "").replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "word",
    [
        "",
        "0123456789abcdef",
        "0123456789abcdef.",
        "0123456789abcdef.AAAA",
        f"0123456789abcdeg.{'A' * 683}",
        f"0123456789ABCDEF.{'A' * 683}",
        f"123.{'A' * 683}",
        f"0123456789abcdef.{'A' * 682}!",
        f"0123456789abcdef.{'A' * 800}",
        f"+123456789abcdef.{'A' * 683}",
    ],
)
def test_what_no_plan_printed_is_no_share(word: str) -> None:
    digits = hashlib.sha256(word.encode()).hexdigest()[:8]
    for said in (word, f"{word}.{digits}"):  # the digits alone make it none
        with pytest.raises(UsageError, match="no share of a plan"):
            Share.parse(said)


@given(st.integers(0, 708), st.sampled_from("Ab0_."))
def test_a_share_with_another_letter_is_none(place: int, letter: str) -> None:
    word = shares({"a": 1.0}, 2, 5)[0].word
    other = f"{word[:place]}{letter}{word[place + 1 :]}"
    if other != word:
        with pytest.raises(UsageError, match="no share of a plan"):
            Share.parse(other)


def test_unknown_cases_are_dealt_evenly() -> None:
    sizes = [len(share.buckets) for share in shares({"a": 1.0}, 4, 5)]
    assert sum(sizes) == BUCKETS
    assert max(sizes) - min(sizes) <= 2


def test_the_matrix_carries_shares_within_what_github_takes() -> None:
    durations = {f"family/case[n={n}]": float(n) for n in range(1, LARGE)}
    matrix = shard_matrix(256, 5, durations)
    assert len(json.dumps({"include": matrix})) * 2 < OUTPUT_MAX
    assert [entry["index"] for entry in matrix] == list(range(256))
    assert len({str(entry["share"]).partition(".")[0] for entry in matrix}) == 1
    with pytest.raises(ConfigError, match="--shards 257: must be 1 to 256"):
        shard_matrix(257, 5, durations)
    assert "share" not in shard_matrix(1, 5, durations)[0]
    assert "share" not in shard_matrix(3, 5, {})[0]


@given(known, st.lists(ids), st.integers(1, 5))
def test_cases_on_gpus_are_dealt_alike_whatever_their_order(
    durations: dict[str, float], more: list[str], count: int
) -> None:
    cases = sorted({*durations, *more})
    parts = parts_of(cases, durations, count)
    assert parts == parts_of(reversed(cases), durations, count)
    assert sorted(parts) == cases
    assert set(parts.values()) <= set(range(count))


def test_without_durations_gpus_get_equally_many_cases() -> None:
    counts = Counter(parts_of([f"case{n}" for n in range(100)], {}, 3).values())
    assert sorted(counts.values()) == [33, 33, 34]


def test_a_case_of_unknown_duration_counts_as_a_middling_one() -> None:
    parts = parts_of(["long", "a", "b", "c", "new"], {"long": 9.0, "a": 2.0, "b": 3.0, "c": 1.0}, 2)
    assert Counter(parts.values()) == {parts["long"]: 1, parts["a"]: 4}  # 9 against 2 + 3 + 1 + 2.5
