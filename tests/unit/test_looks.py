"""Which cases another look may still decide, as the file of a run under way tells."""

from __future__ import annotations

from datetime import date

import pytest

from reports.looks import open_cases
from runner.records import JudgeSettings, MuteRecord
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


@pytest.mark.parametrize(("lost", "goes_on"), [(2, False), (3, True)])
def test_a_row_that_lost_too_many_rounds_goes_on_since_more_may_save_it(lost: int, goes_on: bool) -> None:
    case = Case("odd", dies={"head": dict.fromkeys(range(lost), "boom")})
    assert left(case) == ({"odd"} if goes_on else set())


def test_a_side_that_never_gave_a_number_does_not_go_on() -> None:
    assert left(Case("dead", dies={"head": dict.fromkeys(range(8), "boom")}), Case("new", base=None)) == set()


def test_muted_rows_decide_nothing() -> None:
    mute = MuteRecord(match="noisy", why="known", until="2027-01-01")
    judge = JudgeSettings(min_effect=0.005, equivalence=0.02, family_error=0.01, mute=[mute])
    assert left(NOISY, judge=judge) == set()


def test_one_open_implementation_keeps_its_case_going() -> None:
    both = Case("both", implementations=("one", "two"), head=restless)
    assert left(both) == {"both"}
