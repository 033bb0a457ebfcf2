"""Chains of launches side by side: which cases each gets, that all run at once, and that an error ends all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from evenbench.runner.execute.chains import Chain, Lanes, Pace, together
from evenbench.runner.machine.gpus import Gpu

CASES = ("a", "b", "c", "h")


def chain(number: int, abandoned: list[int] | None = None) -> Chain:
    session: Any = SimpleNamespace(abandon=lambda: (abandoned or []).append(number))
    crew: Any = SimpleNamespace(name="base", session=session)
    return Chain(Gpu(f"GPU-{number}", "H200", "580"), [crew])


def taken(chain: Chain, mine: Callable[[str], bool]) -> tuple[str, str]:
    return chain.uuid, "".join(filter(mine, CASES))


def test_one_chain_takes_all() -> None:
    assert Lanes([chain(0)], {}).each(taken) == [("GPU-0", "abch")]
    assert Lanes([Chain(None, [])], {}).each(taken) == [("", "abch")]


@pytest.mark.parametrize(("at", "uuid"), [(0, "GPU-0"), (1, "GPU-1")])
def test_chains_take_their_parts_and_one_of_them_the_hosts_cases(at: int, uuid: str) -> None:
    lanes = Lanes([chain(0), chain(1)], {"a": 0, "b": 1, "c": 0}, frozenset("h"), at)
    assert lanes.each(taken) == [("GPU-0", "ac"), ("GPU-1", "b"), (uuid, "h")]
    assert [lanes.number(case) for case in CASES] == [0, 1, 0, -1]


def test_the_hosts_cases_wait_for_all_chains() -> None:
    running: set[str] = set()

    def work(chain: Chain, mine: Callable[[str], bool]) -> None:
        if mine("h"):
            assert not running
            return
        running.add(chain.uuid)
        both.wait(timeout=60)
        running.remove(chain.uuid)

    both = threading.Barrier(2)
    Lanes([chain(0), chain(1)], {}, frozenset("h")).each(work)


def test_a_chain_is_a_round_ahead_at_most() -> None:
    pace = Pace(2, 3, lambda: True)
    with pace.of(1) as slow:
        with pace.of(0) as quick, ThreadPoolExecutor(1) as pool:
            assert quick(3)  # the other has not begun
            waits = pool.submit(quick, 4)
            assert not waits.done()
            assert slow(3)
            assert waits.result(20)
            waits = pool.submit(quick, 5)
            time.sleep(0.05)
            assert not waits.done()
            assert slow(4)
            assert waits.result(20)
        assert all(slow(number) for number in range(5, 20))  # one that is done keeps nobody waiting


def test_a_chain_that_fails_keeps_nobody_waiting() -> None:
    pace = Pace(2, 0, lambda: True)

    def fails() -> None:
        with pace.of(1):
            raise ZeroDivisionError

    with pace.of(0) as other:
        with pytest.raises(ZeroDivisionError):
            fails()
        assert all(other(number) for number in range(5))


def test_whether_there_is_time_is_asked_once_a_round() -> None:
    answers = [True, False]
    pace = Pace(2, 8, lambda: answers.pop(0))
    with pace.of(0) as one, pace.of(1) as other:
        assert one(8)
        assert other(8)
        assert not one(9)
        assert not other(9)


def test_tasks_run_at_once_and_answer_in_their_order() -> None:
    met = threading.Barrier(3)
    assert together([lambda n=n: (met.wait(timeout=60), n)[1] for n in range(3)], pytest.fail) == [0, 1, 2]  # type: ignore[misc]


def test_a_single_task_stays_in_this_thread() -> None:
    assert together([threading.current_thread], pytest.fail) == [threading.current_thread()]


def test_an_error_ends_all_and_is_told() -> None:
    gone = threading.Event()

    def waits() -> None:
        assert gone.wait(timeout=60)
        raise RuntimeError("what ends with the others says nothing")

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        together([waits, fails], gone.set)


def test_an_interruption_before_all_have_begun_ends_those_that_have() -> None:
    gone = threading.Event()

    class Interrupted(list[Callable[[], bool]]):
        def __iter__(self) -> Iterator[Callable[[], bool]]:
            yield self[0]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together(Interrupted([lambda: gone.wait(timeout=10)] * 2), gone.set)
    assert gone.is_set()


def test_all_sessions_are_abandoned() -> None:
    abandoned: list[int] = [-1]

    def work(chain: Chain, mine: Callable[[str], bool]) -> None:
        if chain.uuid == "GPU-1":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Lanes([chain(0, abandoned), chain(1, abandoned)], {}).each(work)
    assert abandoned == [-1, 0, 1]
