"""Whom a launch that died costs: healthy cases never pay, and the launches are bounded whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.execute.attempts import ALONE_MAX, TOGETHER_MAX, Status, Trials


class End(NamedTuple):
    """How a launch of some cases ended: how many it finished, and whether it was in the next one."""

    status: Status
    finished: int
    in_next: bool
    doubtful: bool = False


def follow(cases: Sequence[str], launch: Callable[[Sequence[str]], End]) -> tuple[list[str], list[str]]:
    """Launch until all is settled. Returns each launch's cases, a word each, and those that were given up."""
    trials = Trials(cases)
    launched: list[str] = []
    lost: list[str] = []
    while order := trials.next():
        launched.append("".join(order))
        end = launch(order)
        under_way = order[end.finished] if end.in_next and end.finished < len(order) else None
        lost += trials.ended(end.status, order[: end.finished], under_way, doubtful=end.doubtful)
        assert len(launched) <= 6 * len(cases) + 2
    return launched, lost


def scripted(*ends: End) -> Callable[[Sequence[str]], End]:
    left = list(ends)
    return lambda order: left.pop(0) if left else End("ok", len(order), in_next=False)


def behaving(faults: Mapping[str, str]) -> Callable[[Sequence[str]], End]:
    """Cases that die or hang by themselves, or (`later`) kill whatever comes after them."""

    def launch(order: Sequence[str]) -> End:
        doomed = False
        for position, case in enumerate(order):
            fault = faults.get(case)
            if doomed or fault == "dies":
                return End("crashed", position, in_next=True)
            if fault == "hangs":
                return End("timeout", position, in_next=True)
            if fault == "parent":  # killed before it could tell of the last case
                told = position - 1 if position else 0
                return End("crashed", told, in_next=True, doubtful=True)
            doomed = fault == "later"
        return End("ok", len(order), in_next=False)

    return launch


@pytest.mark.parametrize(
    ("faults", "launched", "lost"),
    [
        ({}, ["abcd"], []),
        ({"a": "dies"}, ["abcd", "bcd"], ["a"]),
        ({"c": "dies"}, ["abcd", "c", "d"], ["c"]),
        ({"c": "hangs"}, ["abcd", "d"], ["c"]),
        ({"b": "later"}, ["abcd", "c", "d"], []),
        ({"b": "later", "d": "dies"}, ["abcd", "c", "d"], ["d"]),
        ({"b": "parent"}, ["abcd", "a", "bcd", "b", "cd"], ["b"]),
        (dict.fromkeys("abcd", "dies"), ["abcd", "bcd", "cd", "d"], list("abcd")),
    ],
)
def test_only_who_dies_by_itself_is_given_up(faults: dict[str, str], launched: list[str], lost: list[str]) -> None:
    assert follow("abcd", behaving(faults)) == (launched, lost)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["dies", "hangs", "later", "parent"])))
def test_healthy_cases_never_pay(faults: dict[str, str]) -> None:
    launched, lost = follow("abcdefgh", behaving(faults))
    assert set(lost) == {case for case, fault in faults.items() if fault != "later"}
    assert len(launched) <= 1 + 4 * len(faults)


silent = End("crashed", 0, in_next=False)


def test_launches_that_die_before_any_case_are_tried_together_then_one_by_one() -> None:
    assert follow("abc", scripted(silent)) == (["abc", "abc"], [])
    assert follow("abc", scripted(silent, silent)) == (["abc", "abc", "a", "bc"], [])
    assert follow("abc", scripted(silent, silent, silent)) == (["abc", "abc", "a", "b", "c"], ["a"])
    cases = "abcdefghij"
    launched, lost = follow(cases, lambda _: silent)
    assert launched == [cases] * TOGETHER_MAX + ["a", "b", "c"]
    assert len(launched) == TOGETHER_MAX + ALONE_MAX
    assert lost == list(cases)


def test_a_launch_that_hangs_before_any_case_is_not_waited_for_so_often() -> None:
    hung = End("timeout", 0, in_next=False)
    assert follow("abcdef", lambda _: hung) == (["abcdef", "abcdef", "a"], list("abcdef"))


def test_a_launch_that_left_early_goes_on_with_the_rest() -> None:
    assert follow("abc", scripted(End("ok", 1, in_next=False))) == (["abc", "bc"], [])


def test_a_case_in_which_its_launch_ends_well_is_no_better_than_one_in_which_it_dies() -> None:
    """It said that the launch is done."""
    early = End("ok", 0, in_next=True)
    assert follow("abc", scripted(early)) == (["abc", "bc"], ["a"])
    assert follow("abc", scripted(End("ok", 1, in_next=True), early)) == (["abc", "b", "c"], ["b"])


def test_what_died_while_the_machine_slept_is_tried_again_once() -> None:
    slept = End("timeout", 0, in_next=True, doubtful=True)
    assert follow("ab", scripted(slept)) == (["ab", "a", "b"], [])
    assert follow("ab", scripted(slept, slept)) == (["ab", "a", "b"], ["a"])


ends = st.builds(
    End, st.sampled_from(["ok", "crashed", "timeout"]), st.integers(0, 5), in_next=st.booleans(), doubtful=st.booleans()
)


@given(ends)
def test_what_happens_again_and_again_comes_to_an_end(end: End) -> None:
    follow("abcdef", lambda order: end._replace(finished=min(end.finished, len(order))))


@given(st.lists(ends, max_size=40))
def test_whatever_happens_the_launches_are_bounded_and_each_case_is_settled(script: list[End]) -> None:
    left = list(script)

    def launch(order: Sequence[str]) -> End:
        end = left.pop(0) if left else silent
        return end._replace(finished=min(end.finished, len(order)))

    launched, lost = follow("abcdef", launch)
    assert len(lost) == len(set(lost))
    assert set("".join(launched)) == set("abcdef")


class Unsearched(list[str]):
    """A list in which nothing is looked for: with 10,000 cases that takes longer than all the driver does besides."""

    def __contains__(self, value: object) -> bool:
        raise AssertionError("searched from its start for each case")


@pytest.mark.parametrize("status", ["ok", "timeout"])
def test_ends_of_large_launches_search_no_list(status: Status) -> None:
    trials = Trials(["a", "b", "c"])
    assert not trials.ended(status, Unsearched(["a", "b"]), None)
    assert trials.next() == ("c",)
