"""Which rounds are made and which cases go on: the driver's loop, with a judge and launches that are made up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from evenbench.runner.config import parse, resolve
from evenbench.runner.execute.chains import Chain, Lanes
from evenbench.runner.execute.rounds import CaseTable, Rounds, Run, Taken
from evenbench.runner.machine.gpus import Gpu
from evenbench.runner.plan.plan import Plan
from evenbench.runner.records import Look

CASES = ("a", "b", "c")


class Watched(Rounds):
    """Notes the open cases of every round instead of making it."""

    made: list[tuple[int, str]]

    def make(self, number: int, chain: Chain, mine: Callable[[str], bool]) -> int:
        assert all(map(mine, self._open))
        self.made.append((number, "".join(sorted(self._open))))
        return 2


def rounds_of(
    looks: Sequence[int], verb: Literal["run", "compare"] = "compare", taken: Taken | None = None, common: str = "abc"
) -> tuple[Any, list[Any]]:
    settings = resolve(parse("version: 1\n", "suites.yaml"), None)
    plan = Plan(("base", "head"), 1, looks[0])
    run = Run(verb, plan, settings, looks=looks, patterns=(), preload=(), gpu=None, taken=taken)
    written: list[Any] = []
    recorder: Any = SimpleNamespace(
        writer=SimpleNamespace(write=written.append), indices={("base", name): i for i, name in enumerate(CASES)}
    )
    progress: Any = SimpleNamespace(stage=lambda text: None, more=lambda launches: None)
    rounds: Any = Watched(
        run, Lanes([Chain(None, [])], {}), CaseTable({}, frozenset(common), frozenset()), {}, {}, recorder, progress
    )
    rounds.made = []
    return rounds, written


def judge_of(*answers: str) -> Any:
    """Gives one answer after the other; asked more often, it fails."""
    left = list(answers)
    return lambda: left.pop(0)


def in_time() -> bool:
    return True


def test_only_open_cases_go_on_and_the_file_says_which() -> None:
    rounds, written = rounds_of((2, 4, 5))
    assert rounds.make_all(judge_of("bc", "c"), in_time) == 5
    assert rounds.made == [(0, "abc"), (1, "abc"), (2, "bc"), (3, "bc"), (4, "c")]
    assert written == [Look(rounds=2, open=[1, 2]), Look(rounds=4, open=[2])]


def test_a_run_ends_with_the_look_that_leaves_nothing_open() -> None:
    rounds, written = rounds_of((2, 4, 6))
    assert rounds.make_all(judge_of(""), in_time) == 2
    assert written == [Look(rounds=2, open=[])]
    assert not rounds.out_of_budget


def test_the_judge_cannot_bring_back_what_was_settled_or_is_unknown() -> None:
    rounds, _ = rounds_of((1, 2, 3), common="ab")
    assert rounds.make_all(judge_of("acz", "ab"), in_time) == 3
    assert rounds.made == [(0, "ab"), (1, "a"), (2, "a")]


@pytest.mark.parametrize(("verb", "common", "made"), [("run", "abc", 3), ("compare", "abc", 3), ("compare", "", 1)])
def test_without_a_judge_the_first_look_is_the_last(verb: Any, common: str, made: int) -> None:
    rounds, written = rounds_of((3, 6), verb, common=common)
    assert rounds.make_all(None, in_time) == made
    assert written == []


def test_the_budget_ends_escalation_but_never_the_first_look() -> None:
    clock = iter([True, False])
    rounds, _ = rounds_of((3, 6))
    assert rounds.make_all(judge_of("abc"), lambda: next(clock)) == 4  # asked before rounds 3 and 4 only
    assert rounds.out_of_budget


@pytest.mark.parametrize(
    ("done", "looks", "made"),
    [
        (1, {}, [(1, "abc"), (2, "b"), (3, "b")]),
        (2, {}, [(2, "b"), (3, "b")]),  # killed before the look was written: it is made now
        (3, {2: ["c", "x"]}, [(3, "c")]),
        (4, {2: ["c"], 4: []}, []),
    ],
)
def test_a_run_that_is_taken_up_goes_on_with_the_cases_that_were_open(
    done: int, looks: dict[int, Collection[str]], made: list[tuple[int, str]]
) -> None:
    rounds, _ = rounds_of((2, 4), taken=Taken((), done, 0, looks))
    assert rounds.make_all(judge_of("b"), in_time) == 4
    assert rounds.made == made


@pytest.mark.parametrize(
    ("host", "made"),
    [
        ("", {"GPU-0": [0, 1, 2], "GPU-1": [0, 1, 2]}),  # no chain waits for the other between rounds
        ("c", {"GPU-0": [0, 0, 1, 1, 2, 2], "GPU-1": [0, 1, 2]}),
    ],
)
def test_chains_wait_for_each_other_only_where_cases_of_the_host_do(host: str, made: dict[str, list[int]]) -> None:
    rounds, _ = rounds_of((3,))
    chains = [Chain(Gpu(f"GPU-{number}", "H200", "580"), []) for number in range(2)]
    rounds._lanes = Lanes(chains, {"a": 0, "b": 1}, frozenset(host))
    began: dict[str, list[int]] = {"GPU-0": [], "GPU-1": []}
    on_host: list[list[list[int]]] = []

    def make(number: int, chain: Chain, mine: Callable[[str], bool]) -> int:
        began[chain.uuid].append(number)
        if mine("c"):
            on_host.append([list(numbers) for numbers in began.values()])
        return 2

    rounds.make = make
    assert rounds.make_all(judge_of("abc"), in_time) == 3
    assert began == made
    assert rounds.measured == 2 * sum(map(len, made.values()))
    if host:
        assert on_host == [[sorted([*range(n + 1)] * 2), [*range(n + 1)]] for n in range(3)]


def test_the_first_round_that_chains_begin_together_goes_in_turn() -> None:
    rounds, _ = rounds_of((2, 4))
    first: list[tuple[int, int]] = []

    def make(number: int, chain: Chain, mine: Callable[[str], bool]) -> int:
        first.append((number, rounds._first))
        return 1

    rounds.make = make
    rounds.make_all(judge_of("a"), in_time)
    assert first == [(0, 0), (1, 0), (2, 2), (3, 2)]


def test_progress_is_told_how_many_launches_a_look_may_take() -> None:
    """Of each round one a side, and one more a side where cases on the host start otherwise than those on the device."""
    rounds, _ = rounds_of((2, 4))
    told: list[int] = []
    rounds._progress = SimpleNamespace(stage=lambda text: None, more=told.append)
    event = {"a": SimpleNamespace(device="cuda"), "b": SimpleNamespace(device="cpu")}
    rounds._table = CaseTable(cast("Any", {"base": event, "head": event}), frozenset("ab"), frozenset())
    rounds._open = frozenset("ab")
    rounds._forkable = {"base": True, "head": True}
    rounds.make_all(judge_of("b"), in_time)
    assert told == [2 * 4, 2 * 2]
