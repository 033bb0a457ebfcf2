"""What the comparison says: exact values, and the verdicts on real launches of an H200."""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

from evenbench.reports.statistics import location
from evenbench.reports.statistics.paired import (
    MIN_ROUNDS,
    Judgement,
    Row,
    Settings,
    _swap_half,
    geometric_mean,
    grouped_median,
    judge,
    locations,
    open_rows,
    shuffled_labels,
)

DATA = Path(__file__).parents[2] / "data"
ONE_LOOK = Settings(looks=(16,))


def read(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


@pytest.fixture(scope="module")
def aa() -> Any:
    """80 launches of the same eight kernels."""
    return read("aa_h200.json.gz")


@pytest.fixture(scope="module")
def real_rows() -> list[Row]:
    """16 rounds of 100 cases, five of them slowed down in head."""
    data = read("rounds_h200.json.gz")
    rounds = data["rounds"]
    names = sorted(rounds[0]["base"])
    return [Row(name, [(r["base"][name], r["head"][name]) for r in rounds], data["tick_ns"], 0.005) for name in names]


def noisy(key: object, ratio: float, rounds: int = 8, *, noise: float = 0.002, min_effect: float = 0.005) -> Row:
    """A row of 100 µs whose head takes `ratio` times as long; rounds differ by `noise`."""
    random = np.random.default_rng(7)
    base = 100_000 * (1 + noise * random.standard_normal((rounds, 9)))
    head = ratio * 100_000 * (1 + noise * random.standard_normal((rounds, 9)))
    return Row(key, list(zip(base.astype(int), head.astype(int), strict=True)), 32, min_effect)


def flat(key: object, base: int, head: int, rounds: int = 8, tick_ns: int | None = None) -> Row:
    return Row(key, [([base], [head])] * rounds, tick_ns, 0.005)


def one(row: Row, settings: Settings = ONE_LOOK) -> Judgement:
    (answer,) = judge([row], settings)
    return answer


# ------------------------------------------------------------------------------------------------------------- locations


def test_grouped_median_is_that_of_the_standard_library_on_snapped_samples(aa: Any) -> None:
    for launch in aa["launches"]:
        for samples in launch["busy_ns"].values():
            snapped = [(value + 16) // 32 * 32 for value in samples]
            assert grouped_median(samples, 32) == pytest.approx(statistics.median_grouped(snapped, 32), rel=1e-14)


@pytest.mark.parametrize(
    ("samples", "tick", "location"),
    [
        ([64], 32, 64.0),
        ([63, 65, 64, 96], 32, 48 + 2 / 3 * 32),  # three of four in one tick: its lower two thirds
        ([64, 96], 32, 80.0),
        ([1, 2, 3, 10], None, 2.5),
        ([1, 2, 3, 10], 1, 2.5),
        ([5, 1, 5], None, 5.0),
        ([15], 32, 0.0),
        ([16], 32, 32.0),
    ],
)
def test_grouped_median_by_hand(samples: list[int], tick: int | None, location: float) -> None:
    assert grouped_median(samples, tick) == pytest.approx(location, rel=1e-14)
    assert grouped_median(np.array(samples[::-1]), tick) == pytest.approx(location, rel=1e-14)


def test_a_launch_without_samples_has_no_location() -> None:
    with pytest.raises(ValueError, match="no samples"):
        grouped_median([], 32)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_locations_come_in_place_whatever_the_lengths_ticks_and_blocks(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "BLOCK_SAMPLES", block)
    random = np.random.default_rng(0)
    rows = [
        Row(n, [(random.integers(900, 1100, 1 + (n + k) % 4), [1000 + n] * 3) for k in range(5)], tick, 0.005)
        for n, tick in enumerate([32, None, 1, 10])
    ]
    found = locations(rows)
    assert found.shape == (4, 5, 2)
    for n, row in enumerate(rows):
        for k, sides in enumerate(row.rounds):
            assert sides is not None
            assert found[n, k].tolist() == [grouped_median(side, row.tick_ns) for side in sides if side is not None]


def test_a_round_is_whole_or_nothing() -> None:
    rounds = [([5], [6]), None, ([5], None), (None, [6]), ([5], []), ([0], [6]), ([5], [-3])]
    found = locations([Row("a", rounds, None, 0.005), Row("shorter", rounds[:1], None, 0.005)])
    assert np.isnan(found[:, :, 0]).tolist() == np.isnan(found[:, :, 1]).tolist() == [[False] + [True] * 6] * 2


# -------------------------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("looks", [(8,), (8, 16, 24)])
@pytest.mark.parametrize("ratio", [0.97, 0.996, 1.0, 1.004, 1.012, 1.021])
def test_numbers_are_those_of_the_t_tests(ratio: float, looks: tuple[int, ...]) -> None:
    row = noisy("a", ratio, 12)
    answer = one(row, Settings(looks=looks))
    sides = locations([row])[0]
    d = np.log(sides[:, 1]) - np.log(sides[:, 0])

    def p(mean: float, alternative: Literal["less", "greater"]) -> float:
        raw = stats.ttest_1samp(d, mean, alternative=alternative).pvalue
        return min(1.0, float(raw) * len(looks))

    se = float(stats.sem(d))
    delta, epsilon = math.log(1.005), math.log(1.02)
    first_step = 0.005 / len(looks)

    def near(value: Any) -> Any:
        return pytest.approx(value, rel=1e-9, abs=1e-15)

    assert answer.change == near(math.exp(d.mean()) - 1)
    assert answer.interval == near(tuple(np.exp(stats.t.interval(0.95, 11, d.mean(), se)) - 1))
    assert answer.p_slower == near(p(delta, "greater"))
    assert answer.p_faster == near(p(-delta, "less"))
    assert answer.p_equivalent == near(max(p(epsilon, "less"), p(-epsilon, "greater")))
    assert answer.resolvable == near(math.exp(delta + stats.t.isf(first_step, 11) * se) - 1)
    assert (answer.base_ns, answer.head_ns) == pytest.approx(np.median(sides, axis=0))
    assert (answer.rounds, answer.warnings) == (12, ())


def test_resolvable_is_the_change_that_the_first_step_of_holm_rejects() -> None:
    rows = [noisy(n, 1.0) for n in range(50)]
    answer = judge(rows, Settings())[0]
    assert answer.interval is not None
    assert answer.resolvable is not None
    se = (math.log1p(answer.interval[1]) - math.log1p(answer.interval[0])) / 2 / stats.t.isf(0.025, 7)
    p = 3 * stats.t.sf((math.log1p(answer.resolvable) - math.log(1.005)) / se, 7)
    assert p == pytest.approx(0.01 / (2 * 50))


def test_holm_steps_down_and_never_past_a_failure() -> None:
    rows = [noisy("a", 1.012, noise=0.01), noisy("b", 1.012, noise=0.01)]
    p = judge(rows, ONE_LOOK)[0].p_slower

    def verdicts(family_error: float) -> set[str]:
        return {answer.verdict for answer in judge(rows, replace(ONE_LOOK, family_error=family_error))}

    assert verdicts(4.001 * p) == {"regressed"}
    assert verdicts(3.999 * p) == {"unchanged"}  # the second would pass at a third


def test_each_row_has_its_own_smallest_effect() -> None:
    answers = judge([noisy("any", 1.03, min_effect=0.005), noisy("large", 1.03, min_effect=0.05)], ONE_LOOK)
    assert [answer.verdict for answer in answers] == ["regressed", "inconclusive"]
    assert answers[0].change == answers[1].change


def test_equal_samples_are_unchanged_within_the_tick() -> None:
    answer = one(flat("a", 9600, 9600, tick_ns=32), Settings())
    se = 32 / (math.sqrt(12) * 9600) / math.sqrt(8)
    high = math.expm1(stats.t.isf(0.025, 7) * se)
    assert (answer.verdict, answer.change) == ("unchanged", 0.0)
    assert answer.interval == pytest.approx((-high / (1 + high), high))
    assert answer.warnings == ("the rounds differ by less than the timer can tell; its tick sets the interval",)


@pytest.mark.parametrize(("base", "head", "verdict"), [(1000, 1050, "regressed"), (1050, 1000, "improved")])
def test_rounds_without_spread_still_tell_sides_apart(base: int, head: int, verdict: str) -> None:
    answer = one(flat("a", base, head), Settings())
    half = stats.t.isf(0.025, 7) / (math.sqrt(12) * 1000) / math.sqrt(8)  # a tick of 1 ns, of the faster side
    d = math.log(head / base)
    assert answer.verdict == verdict
    assert answer.change == pytest.approx(head / base - 1)
    assert answer.interval == pytest.approx((math.expm1(d - half), math.expm1(d + half)))


def test_thousands_of_rounds_and_one_sample_a_launch() -> None:
    random = np.random.default_rng(3)
    samples = random.integers(95_000, 105_001, (5000, 2, 1))
    answer = one(Row("a", [(base, head) for base, head in samples], None, 0.005))
    assert (answer.verdict, answer.rounds) == ("unchanged", 5000)
    assert answer.interval is not None
    assert answer.interval[0] < answer.change < answer.interval[1]  # type: ignore[operator]  # a judged row has one


def test_absurd_samples_have_finite_answers() -> None:
    rounds = [([1], [10**18]), ([10**18], [1])] * 3
    rows = [Row(n, rounds, None, 0.005) for n in range(1000)]
    answer = judge(rows, Settings(family_error=1e-9))[-1]
    assert (answer.verdict, answer.change) == ("inconclusive", 0.0)
    assert answer.resolvable is not None
    assert answer.interval is not None
    assert np.isfinite([answer.resolvable, *answer.interval]).all()


def test_nothing_to_judge() -> None:
    assert judge([], Settings()) == []
    assert shuffled_labels([], Settings(), 1).flagged == ()
    assert geometric_mean([]) is None
    with pytest.raises(ValueError, match="looks"):
        Settings(looks=())


# -------------------------------------------------------------------------------------------------------- rounds missing


def test_under_six_whole_rounds_nothing_is_judged() -> None:
    answer = one(flat("a", 1000, 2000, MIN_ROUNDS - 1))
    assert (answer.verdict, answer.interval, answer.resolvable) == ("inconclusive", None, None)
    assert (answer.p_slower, answer.p_faster, answer.p_equivalent) == (1.0, 1.0, 1.0)
    assert answer.change == pytest.approx(1.0)
    assert (answer.base_ns, answer.head_ns) == (1000.0, 2000.0)
    assert (answer.rounds, answer.warnings) == (5, ("too few rounds: 5 whole, at least 6 needed",))
    assert one(flat("a", 1000, 2000, MIN_ROUNDS)).verdict == "regressed"


@pytest.mark.parametrize("rounds", [[], [None] * 8, [([5], None)] * 8, [([0], [5])] * 8])
def test_without_a_whole_round_there_is_no_change(rounds: list[Any]) -> None:
    answer = one(Row("a", rounds, 32, 0.005))
    assert (answer.change, answer.base_ns, answer.head_ns, answer.rounds) == (None, None, None, 0)
    assert answer.verdict == "inconclusive"


def test_dropped_rounds_are_counted_and_rounds_never_reached_are_not() -> None:
    row = noisy("a", 1.03)
    broken = replace(row, rounds=[None, (row.rounds[0][0], None), *row.rounds[1:], None, None])  # type: ignore[index]  # noisy rounds are whole
    answer = one(broken)
    assert (answer.rounds, answer.warnings) == (7, ("2 of 9 rounds dropped: samples of a side are missing",))
    assert one(replace(row, rounds=[*row.rounds, None, None])).warnings == ()
    zero = replace(row, rounds=[([0], [5]), *row.rounds[1:]])
    assert one(zero).warnings == ("1 of 8 rounds dropped: a time is not above 0",)
    assert one(replace(zero, rounds=zero.rounds[:1])).warnings[1:] == ("1 of 1 round dropped: a time is not above 0",)
    rest = one(replace(row, rounds=row.rounds[1:]))
    assert answer.p_slower == pytest.approx(rest.p_slower)
    assert answer.interval == pytest.approx(rest.interval)


def test_rows_without_enough_rounds_do_not_count_in_the_family() -> None:
    row = noisy("a", 1.012, noise=0.006)
    alone = one(row)
    assert alone.verdict == "regressed"
    assert judge([row, *(flat(n, 1000, 1000, 5) for n in range(500))], ONE_LOOK)[0] == alone
    assert judge([row, *(noisy(n, 1.0) for n in range(500))], ONE_LOOK)[0].verdict == "unchanged"


# ---------------------------------------------------------------------------------------------------------- real launches


def test_verdicts_on_real_rounds(real_rows: list[Row]) -> None:
    answers = judge(real_rows, ONE_LOOK)
    changed = {answer.key: answer.verdict for answer in answers if answer.verdict != "unchanged"}
    assert changed == dict.fromkeys(["add_3", "gemm_3", "softmax_2"], "regressed")
    assert len(answers) == 100
    changes = {answer.key: answer.change for answer in answers}
    assert [changes["rms_4"], changes["sum_5"]] == pytest.approx([0.009, 0.011], abs=0.0005)


def test_shuffled_labels_of_real_rounds_flag_nothing(real_rows: list[Row]) -> None:
    shuffled = shuffled_labels(real_rows, ONE_LOOK, seed=1)
    assert (shuffled.flagged, shuffled.total, shuffled.draws) == ((0,) * 100, 0, 20)


def test_random_pairs_of_identical_launches_raise_no_alarm_and_planted_changes_do(aa: Any) -> None:
    launches = [{case: np.array(samples) for case, samples in run["busy_ns"].items()} for run in aa["launches"]]
    verdicts = Counter[str]()
    for seed in range(250):
        order = np.random.default_rng(seed).permutation(len(launches))[:48].reshape(24, 2)
        pairs = {case: [(launches[b][case], launches[h][case]) for b, h in order] for case in launches[0]}
        rows = [Row(case, rounds, 32, 0.005) for case, rounds in pairs.items()]
        verdicts.update(answer.verdict for answer in judge(rows, Settings()))
        slow = [
            Row(case, [(base, (head * 1.05).astype(int)) for base, head in rounds], 32, 0.005)
            for case, rounds in pairs.items()
        ]
        found = {answer.key for answer in judge(slow, Settings()) if answer.verdict == "regressed"}
        assert found >= set(launches[0]) - {"tiny"}  # a kernel of one microsecond
    assert verdicts["regressed"] == verdicts["improved"] == 0
    assert verdicts["unchanged"] >= 0.95 * 2000


# ------------------------------------------------------------------------------------------------------ looks and shuffles


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ({}, True),
        ({"p_slower": 1.0e-6}, False),
        ({"p_slower": 1.1e-6}, True),
        ({"p_faster": 1.0e-6}, False),
        ({"p_equivalent": 0.05}, False),
        ({"p_equivalent": 0.051}, True),
        ({"p_equivalent": 0.05, "p_slower": 0.151}, False),  # 0.05 before the factor of three looks
        ({"p_equivalent": 0.05, "p_slower": 0.149}, True),
        ({"p_equivalent": 0.05, "p_faster": 0.149}, True),
    ],
)
def test_a_row_goes_on_until_it_is_clear(change: dict[str, float], goes_on: bool) -> None:
    judgement = replace(one(noisy("a", 1.0)), **{"p_slower": 1.0, "p_faster": 1.0, "p_equivalent": 1.0, **change})  # type: ignore[arg-type]  # floats
    assert open_rows([judgement], Settings()) == (["a"] if goes_on else [])


def test_a_row_stops_as_changed_only_where_holm_must_reject_it() -> None:
    blank = replace(one(noisy("a", 1.0)), p_slower=1.0, p_faster=1.0, p_equivalent=1.0)
    clear = replace(blank, key="clear", p_slower=0.9e-6)
    assert open_rows([clear, blank], Settings()) == ["a"]
    assert open_rows([clear, *[blank] * 9999], Settings())[0] == "clear"  # 0.01 / 20,000 is less
    assert open_rows([clear, *[blank] * 999], Settings(), shards=5) == ["a"] * 999
    assert open_rows([clear, *[blank] * 999], Settings(), shards=6)[0] == "clear"


def test_more_looks_than_p_can_take_leave_no_hint() -> None:
    judgement = replace(one(noisy("a", 1.0)), p_slower=1.0, p_faster=1.0, p_equivalent=0.0)
    assert open_rows([judgement], Settings(looks=tuple(range(8, 48)))) == []


def test_too_few_rounds_go_on() -> None:
    assert open_rows([one(flat("a", 1000, 2000, 5))], Settings()) == ["a"]


def test_half_of_each_rows_whole_rounds_are_swapped() -> None:
    located = np.arange(1.0, 61.0).reshape(3, 10, 2)
    located[1, [0, 4, 5]] = np.nan  # 7 whole
    located[2, 6:] = np.nan
    before = located.copy()
    seen = set()
    for seed in range(30):
        after = _swap_half(located, np.random.default_rng(seed).permutation(10))
        swapped = after[:, :, 0] == located[:, :, 1]
        assert swapped.sum(axis=1).tolist() == [5, 3, 3]
        np.testing.assert_array_equal(np.where(swapped[:, :, np.newaxis], after[:, :, ::-1], after), before)
        seen.add(tuple(np.flatnonzero(swapped[0])))
    assert len(seen) > 20


def test_shuffled_labels_cancel_a_change_and_show_a_pattern() -> None:
    pattern = Row("pattern", [([1000], [1100])] * 3 + [([1100], [1000])] * 3, None, 0.005)
    rows = [noisy("changed", 1.5), flat("short", 1000, 2000, 5), pattern]
    shuffled = shuffled_labels(rows, ONE_LOOK, seed=5, draws=400)
    changed, short, flagged = shuffled.flagged
    assert (changed, short) == (0, 0)
    assert 20 <= flagged <= 60  # one draw in ten undoes the pattern
    assert shuffled.total == flagged
    assert shuffled == shuffled_labels(rows, ONE_LOOK, seed=5, draws=400, located=locations(rows))
    assert shuffled != shuffled_labels(rows, ONE_LOOK, seed=6, draws=400)


# --------------------------------------------------------------------------------------------------------- geometric mean


def test_geometric_mean_is_the_t_interval_of_the_rounds_means(real_rows: list[Row]) -> None:
    sides = np.log(locations(real_rows))
    means = (sides[:, :, 1] - sides[:, :, 0]).mean(axis=0)
    interval = np.expm1(stats.t.interval(0.95, 15, means.mean(), stats.sem(means)))
    answer = geometric_mean(real_rows)
    assert answer is not None
    assert answer.change == pytest.approx(math.expm1(means.mean()))
    assert answer.interval == pytest.approx(tuple(interval))
    assert answer.rows == 100


@pytest.mark.parametrize("row", [noisy("a", 1.01), flat("a", 1000, 1010), flat("a", 1000, 990, tick_ns=32)])
def test_the_geometric_mean_of_one_row_is_that_row(row: Row) -> None:
    judgement = one(row)
    answer = geometric_mean([row, flat("short", 1000, 2000, 5)])
    assert answer is not None
    assert answer.rows == 1
    assert answer.change == pytest.approx(judgement.change)
    assert answer.interval == pytest.approx(judgement.interval)


def test_rows_that_stopped_early_weigh_as_much_and_do_not_shift_the_rounds() -> None:
    rows = [noisy("went on", 1.5, 16), noisy("stopped", 1.0, 8)]
    logs = [np.log(locations([row])[0]) for row in rows]
    d = [sides[:, 1] - sides[:, 0] for sides in logs]
    mean = (d[0].mean() + d[1].mean()) / 2
    parts = [(values - values.mean()) / math.sqrt(len(values) * (len(values) - 1)) for values in d]
    se = math.sqrt(sum((parts[0][k] + (parts[1][k] if k < 8 else 0)) ** 2 for k in range(16))) / 2
    half = stats.t.isf(0.025, 7) * se
    answer = geometric_mean(rows)
    assert answer is not None
    assert answer.change == pytest.approx(math.expm1(mean))
    assert answer.interval == pytest.approx((math.expm1(mean - half), math.expm1(mean + half)))
