"""A second build of base beside it: what is called changed there is a false alarm, and the run is not to be trusted."""

from __future__ import annotations

from datetime import date

import pytest

from evenbench.reports.compare.compare import compare, conditions_met, headline
from evenbench.reports.render import wording
from evenbench.reports.render.comment.comment import comment
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.terminal.terminal import terminal
from evenbench.reports.rows.outcome import Comparison, Control
from evenbench.runner.records import SideInfo
from tests import build
from tests.build import Case

SIDES = [
    SideInfo(name="base", label="main", sha=build.BASE_SHA),
    SideInfo(name="head", label="feature", sha=build.HEAD_SHA),
    SideInfo(name="control", label="main", sha=build.BASE_SHA),
]
SLOWER = 20_600.0


def judged(*cases: Case) -> Comparison:
    return compare(build.results(cases, sides=SIDES), date(2026, 11, 29))


def test_a_quiet_control_is_told_and_changes_nothing() -> None:
    found = judged(Case("a", head=SLOWER), Case("b"), Case("c", control=None))
    assert found.control == Control(rows=2, flagged=())
    assert headline(found) == "1 regressed, 2 unchanged"
    assert conditions_met(found, ("regressed",)) == ("regressed",)
    line = "control, base against a second build of itself: 0 of 2 rows flagged"
    assert wording.control(found) == line
    assert line in comment(found)
    assert line in terminal(found, 160, colour=False)
    assert as_json(found)["control"] == {"rows": 2, "flagged": ()}


@pytest.mark.parametrize("control", [SLOWER, 19_400.0])
def test_a_control_that_is_called_changed_makes_the_run_unreliable(control: float) -> None:
    found = judged(Case("a", head=SLOWER), Case("b", control=control))
    assert found.control == Control(rows=2, flagged=("b",))
    assert found.unreliable
    assert headline(found) == "unreliable: 1 regressed, 1 unchanged"
    assert conditions_met(found, ("regressed", "failed")) == ()
    assert (
        "unreliable: base was called changed against a second build of itself, so no verdict counts: b"
        in wording.warnings(found)
    )


def test_the_control_is_a_family_of_its_own() -> None:
    with_control = judged(Case("a", head=SLOWER), Case("b"))
    without = compare(build.results([Case("a", head=SLOWER), Case("b")]), date(2026, 11, 29))
    # Launch numbers differ, since a round has one more; nothing that is judged does.
    assert [(row.case, row.verdict, row.change, row.p_slower) for row in with_control.rows] == [
        (row.case, row.verdict, row.change, row.p_slower) for row in without.rows
    ]
    assert without.control is None
    assert wording.control(without) == ""


def test_a_control_side_that_could_not_be_prepared_says_nothing() -> None:
    found = judged(Case("a", control=None))
    assert found.control == Control(rows=0, flagged=())
    assert not found.unreliable
