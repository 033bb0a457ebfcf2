"""What holds of every comparison, whatever its samples."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenbench.reports.statistics.paired import MIN_ROUNDS, Judgement, Row, Settings, grouped_median, judge

MIRRORED = {"regressed": "improved", "improved": "regressed"}


@st.composite
def launches(draw: st.DrawFn, centre: int, spread: float) -> list[int]:
    """Samples of one launch around `centre` ns; some launches are broken."""
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from([[], [0], [-5, 3]]))
    factors = draw(st.lists(st.floats(1 - spread, 1 + spread), min_size=1, max_size=5))
    return [round(centre * factor) for factor in factors]


@st.composite
def rows(draw: st.DrawFn, key: int = 0) -> Row:
    centre = draw(st.integers(20, 10**6))
    ratio = draw(st.sampled_from([0.5, 0.95, 0.99, 1.0, 1.005, 1.02, 1.1, 3.0]))
    spread = draw(st.sampled_from([0.0, 0.001, 0.01, 0.2]))
    sides = st.tuples(launches(centre, spread), launches(round(centre * ratio), spread))
    rounds = draw(st.lists(st.one_of(sides, sides, sides, st.none()), min_size=0, max_size=14))
    return Row(key, rounds, draw(st.sampled_from([None, 1, 32])), draw(st.sampled_from([0.0, 0.005, 0.05])))


runs = st.integers(0, 6).flatmap(lambda n: st.tuples(*(rows(key) for key in range(n)))).map(list)
all_settings = st.builds(
    Settings,
    looks=st.sampled_from([(8,), (8, 16), (8, 16, 24)]),
    equivalence=st.sampled_from([0.005, 0.02, 0.1]),
    family_error=st.sampled_from([0.001, 0.01, 0.2]),
)


def numbers(judgement: Judgement) -> list[float]:
    """All numbers of a judgement, in one list; NaN for None."""
    interval = judgement.interval or (math.nan, math.nan)
    single = (judgement.change, judgement.resolvable, judgement.base_ns, judgement.head_ns)
    p = (judgement.p_slower, judgement.p_faster, judgement.p_equivalent)
    return [math.nan if value is None else value for value in chain(single, interval, p, (judgement.rounds,))]


def near(expected: list[float]) -> object:
    return pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50), st.integers(1, 1000))
def test_grouped_median_agrees_with_the_standard_library(samples: list[int], tick: int) -> None:
    snapped = [(value + tick // 2) // tick * tick for value in samples]
    assert grouped_median(samples, tick) == pytest.approx(statistics.median_grouped(snapped, tick), rel=1e-12)
    assert grouped_median(samples, None) == statistics.median(samples)


@given(runs, all_settings)
def test_answers_are_well_formed(run: list[Row], settings: Settings) -> None:
    answers = judge(run, settings)
    assert [answer.key for answer in answers] == [row.key for row in run]
    for answer in answers:
        judged = answer.rounds >= MIN_ROUNDS
        assert (answer.interval is not None) == (answer.resolvable is not None) == judged
        assert (answer.change is not None) == (answer.base_ns is not None) == (answer.rounds > 0)
        assert all(0 <= p <= 1 for p in (answer.p_slower, answer.p_faster, answer.p_equivalent))
        if judged:
            assert np.isfinite(numbers(answer)).all()
            low, high = answer.interval or (0, 0)
            assert low <= (answer.change or 0) <= high
        else:
            assert answer.verdict == "inconclusive"


@given(runs, all_settings)
def test_verdicts_are_those_of_holm_step_by_step(run: list[Row], settings: Settings) -> None:
    answers = judge(run, settings)
    judged = [answer for answer in answers if answer.rounds >= MIN_ROUNDS]
    hypotheses = [(a.p_slower, a.key, "regressed") for a in judged] + [(a.p_faster, a.key, "improved") for a in judged]
    expected = {a.key: "unchanged" if a.p_equivalent <= 0.05 else "inconclusive" for a in answers}
    left = len(hypotheses)
    for p, key, verdict in sorted(hypotheses, key=lambda hypothesis: hypothesis[0]):
        if p > settings.family_error / left:
            break
        expected[key] = verdict
        left -= 1
    assert {answer.key: answer.verdict for answer in answers} == expected


@given(runs, all_settings)
def test_swapping_the_sides_mirrors_every_answer(run: list[Row], settings: Settings) -> None:
    swapped = [replace(row, rounds=[sides and (sides[1], sides[0]) for sides in row.rounds]) for row in run]
    for there, back in zip(judge(run, settings), judge(swapped, settings), strict=True):
        assert back.verdict == MIRRORED.get(there.verdict, there.verdict)
        assert (back.p_slower, back.p_faster, back.p_equivalent) == (there.p_faster, there.p_slower, there.p_equivalent)
        assert (back.base_ns, back.head_ns, back.rounds) == (there.head_ns, there.base_ns, there.rounds)
        assert (back.resolvable, back.warnings) == (there.resolvable, there.warnings)
        if there.change is not None and back.change is not None:
            low, high = sorted((there.change, back.change))  # from the larger one, which has lost no digits
            assert low == pytest.approx(1 / (1 + high) - 1, abs=1e-12)
        if there.interval is not None and there.interval[0] > -0.999 and there.interval[1] < 999:
            assert np.log1p(back.interval or (0, 0)) == pytest.approx(-np.log1p(there.interval[::-1]), abs=1e-9)


@given(runs, all_settings, st.randoms(use_true_random=False))
def test_the_order_of_rounds_does_not_matter(run: list[Row], settings: Settings, random: object) -> None:
    permuted = [replace(row, rounds=random.sample(row.rounds, len(row.rounds))) for row in run]  # type: ignore[attr-defined]  # hypothesis has no public name for it
    for one, other in zip(judge(run, settings), judge(permuted, settings), strict=True):
        assert numbers(other) == near(numbers(one))


@given(runs, all_settings)
def test_the_order_of_rows_does_not_matter(run: list[Row], settings: Settings) -> None:
    assert judge(run[::-1], settings) == judge(run, settings)[::-1]


@given(rows(), all_settings, st.integers(2, 50))
def test_a_longer_unit_changes_only_the_times(row: Row, settings: Settings, factor: int) -> None:
    assume(row.tick_ns is not None)
    rounds = [sides and tuple([value * factor for value in side or ()] for side in sides) for sides in row.rounds]
    longer = Row(row.key, rounds, (row.tick_ns or 1) * factor, row.min_effect)  # type: ignore[arg-type]  # pairs
    (one,), (other,) = judge([row], settings), judge([longer], settings)
    scaled = replace(one, base_ns=one.base_ns and one.base_ns * factor, head_ns=one.head_ns and one.head_ns * factor)
    assert numbers(other) == near(numbers(scaled))


@given(runs, rows(99), all_settings)
def test_other_rows_move_only_the_family(run: list[Row], row: Row, settings: Settings) -> None:
    (alone,), among = judge([row], settings), judge([*run, row], settings)[-1]
    assert numbers(replace(among, resolvable=None)) == near(numbers(replace(alone, resolvable=None)))
    assert among.verdict == alone.verdict or alone.verdict in MIRRORED  # a larger family only takes flags away
