"""Change points of series whose truth is known."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.history.change_points import ALPHA, RUNS_MIN, SMALLEST, TOGETHER_MIN, Floats, steps
from evenbench.runner.errors import UsageError

NOISE = 0.003


def series(*levels: tuple[int, float], seed: int = 0, noise: float = NOISE) -> Floats:
    """Runs on each level (how many, time in ns), one after the other."""
    random = np.random.default_rng(seed)
    return np.concatenate([ns * np.exp(random.normal(0, noise, runs)) for runs, ns in levels])


@pytest.mark.parametrize("factor", [1.03, 1 / 1.03])
@pytest.mark.parametrize("before", [15, 40, 200])
def test_a_step_of_three_per_cent_is_found_once_its_level_has_five_runs(before: int, factor: float) -> None:
    times = series((before, 20_000), (RUNS_MIN, 20_000 * factor))
    assert steps(times[: before + 2]) == []  # two odd nights are no level
    (found,) = steps(times)
    assert found.index == before
    assert found.change == pytest.approx(factor - 1, abs=0.005)
    assert found.p < ALPHA


def test_several_steps_come_in_order() -> None:
    found = steps(series((40, 1000), (40, 1050), (40, 1020), (40, 1100)))
    assert [step.index for step in found] == [40, 80, 120]
    assert [round(step.change, 2) for step in found] == [0.05, -0.03, 0.08]


@pytest.mark.parametrize("times", [[], [1000.0], [1000.0] * 400, [1000.0] * 7 + [1100.0] * 7], ids=len)
def test_too_few_runs_and_a_clock_that_stands_still_have_none(times: list[float]) -> None:
    assert steps(times) == []


def test_equal_values_with_a_step_have_just_that() -> None:
    (found,) = steps([1000.0] * 20 + [1100.0] * 20)
    assert found.index == 20
    assert found.change == pytest.approx(0.1)


def test_odd_nights_are_no_step() -> None:
    times = series((200, 1000))
    for odd in (50, 51, 120, 180, 198, 199):
        times[odd] *= 1.15
    assert steps(times) == []


def test_noise_has_none_in_a_hundred_years_but_one() -> None:
    """What is promised of the nights together holds for a look at all of them."""
    assert sum(bool(steps(series((365, 1000), seed=seed, noise=0.008))) for seed in range(100)) <= 1


def test_what_is_smaller_than_asked_for_does_not_count() -> None:
    times = series((100, 1000), (100, 1006), noise=0.001)
    assert steps(times) == []
    assert [step.index for step in steps(times, smallest=0.004)] == [100]


def test_neighbours_that_resemble_each_other_say_less() -> None:
    """A walk that is let go every few nights goes up and down without a step anywhere."""
    random = np.random.default_rng(3)
    draws = random.normal(0, 1, 400)
    walk = np.empty(400)
    walk[0] = draws[0]
    for run in range(1, 400):
        walk[run] = 0.7 * walk[run - 1] + math.sqrt(1 - 0.49) * draws[run]
    assert steps(1000 * np.exp(0.004 * walk)) == []


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e9), st.integers(TOGETHER_MIN, 60))
def test_the_unit_of_time_does_not_matter_and_swapped_levels_mirror(seed: int, scale: float, runs: int) -> None:
    times = series((runs, 1000), (runs, 1040), seed=seed)
    found = steps(times)
    assert [step.index for step in steps(times * scale)] == [step.index for step in found]
    mirrored = steps(1 / times)
    assert [step.index for step in mirrored] == [step.index for step in found]
    for one, other in zip(found, mirrored, strict=True):
        assert (1 + one.change) * (1 + other.change) == pytest.approx(1)
        assert abs(one.change) >= SMALLEST - 1e-9


@given(st.lists(st.floats(1, 1e12), max_size=80))
def test_whatever_the_times_are_levels_have_their_runs(times: list[float]) -> None:
    found = [0, *(step.index for step in steps(times)), len(times)]
    assert all(later - earlier >= RUNS_MIN for earlier, later in pairwise(found) if len(found) > 2)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures.detection", None)
    with pytest.raises(UsageError, match="ruptures") as caught:
        steps([1000.0] * 40)
    assert "evenbench[history]" in caught.value.hint
