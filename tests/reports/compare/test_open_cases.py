"""Which cases another look may still decide, as the file of a run under way tells."""

from __future__ import annotations

from datetime import date

import pytest

from evenbench.reports.compare.open_cases import open_cases
from evenbench.runner.records import JudgeSettings, MuteRecord, SideName
from tests import build
from tests.build import Case

TODAY = date(2026, 11, 29)
SETTLED, CHANGED = Case("settled"), Case("changed", head=22_000.0)


def restless(round_index: int) -> float:
    return 20_000.0 * (1.1 if round_index % 2 else 0.9)


NOISY = Case("noisy", head=restless)


def left(*cases: Case, **options: object) -> frozenset[str]:
    return open_cases(build.results(cases, end=False, **options), TODAY)


def test_what_is_settled_stops_and_what_is_not_goes_on() -> None:
    assert left(SETTLED, CHANGED, NOISY) == {"noisy"}


@pytest.mark.parametrize(
    ("head", "base", "goes_on"),
    [
        (0, 1, False),
        (0, 2, False),
        (0, 3, False),
        (1, 0, True),
        (1, 1, True),
        (2, 0, False),
        (2, 1, True),
        (3, 3, True),
    ],
)
def test_a_row_goes_on_until_its_failures_are_clear(head: int, base: int, goes_on: bool) -> None:
    """Also where too few rounds are left: more may save it. Once a side is to blame, no launch is spent on it."""
    dies: dict[SideName, dict[int, str]] = {
        "head": dict.fromkeys(range(head), "boom"),
        "base": dict.fromkeys(range(base), "boom"),
    }
    assert left(Case("odd", dies=dies)) == ({"odd"} if goes_on else set())


def test_a_slow_down_that_is_clear_does_not_go_on_for_one_failure() -> None:
    assert left(Case("slow", head=22_000.0, dies={"head": {2: "boom"}})) == set()


def test_a_side_that_never_gave_a_number_does_not_go_on() -> None:
    assert left(Case("dead", dies={"head": dict.fromkeys(range(8), "boom")}), Case("new", base=None)) == set()


def test_muted_rows_decide_nothing() -> None:
    mute = MuteRecord(match="noisy", why="known", until="2027-01-01")
    judge = JudgeSettings(min_effect=0.005, equivalence=0.02, family_error=0.01, mute=[mute])
    assert left(NOISY, judge=judge) == set()


def test_one_open_implementation_keeps_its_case_going() -> None:
    both = Case("both", implementations=("one", "two"), head=restless)
    assert left(both) == {"both"}
