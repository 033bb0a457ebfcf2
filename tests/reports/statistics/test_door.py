"""What the statistics package is for somebody who wants its judgement alone: the example of its door, run."""

from __future__ import annotations

import textwrap

import pytest

import evenbench.reports.statistics as door


def test_the_example_of_the_door() -> None:
    _, _, example = (door.__doc__ or "").partition("::\n")
    *statements, shown = textwrap.dedent(example).strip().splitlines()
    scope: dict[str, object] = {}
    exec("\n".join(statements), scope)
    verdict, change, interval = eval(shown, scope)
    assert verdict == "regressed"
    assert change == pytest.approx(58_032 / 55_016 - 1, abs=1e-3)  # medians lie within a tick
    assert interval[0] <= change <= interval[1]


def test_the_rows_of_the_door_differ_from_round_to_round() -> None:
    rounds = [([1_000 + n % 3], [1_000 + (n + 1) % 3]) for n in range(8)]
    [judgement] = door.judge([door.Row("same", rounds, tick_ns=None, min_effect=0.005)], door.Settings())
    assert judgement.verdict == "unchanged"
