"""One chain of launches a GPU: chains run side by side, and what one of them does never overlaps with itself.

A case stays on one chain for all its rounds, so no verdict mixes GPUs. Cases on the host have the host to themselves.
Chains keep no step, and begin one after the other: in step, all would open their devices at the same moment, which a
driver takes nearly twice as long for.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ..machine.gpus import Gpu
from ..plan.selection import Crew
from ..records import SideName

Made = TypeVar("Made")
ROUNDS_AHEAD = 1  # of a chain: as many are made again when an interrupted run goes on


@dataclass(frozen=True)
class Chain:
    """The launches on one GPU, or on a machine without: each side's session there."""

    gpu: Gpu | None
    crews: Sequence[Crew]

    @property
    def uuid(self) -> str:
        """Of its GPU; empty without one."""
        return self.gpu.uuid if self.gpu else ""

    def crew(self, side: SideName) -> Crew:
        """The crew of a side."""
        return next(crew for crew in self.crews if crew.name == side)

    @property
    def driver(self) -> str:
        """Version of the driver; empty without a GPU."""
        return self.gpu.driver if self.gpu else ""


@dataclass(frozen=True)
class Lanes:
    """Which chain runs which cases.

    Args:
        chains: at least one.
        parts: chain, counted from 0, of each case on a device; with one chain it may be empty.
        host: cases on the host, which several chains do not share.
        host_at: the chain that runs these.
    """

    chains: Sequence[Chain]
    parts: Mapping[str, int]
    host: frozenset[str] = frozenset()
    host_at: int = 0

    @property
    def meet(self) -> bool:
        """Whether chains must wait for each other after each round: where cases of the host are measured beside them."""
        return len(self.chains) > 1 and bool(self.host)

    def each(self, work: Callable[[Chain, Callable[[str], bool]], Made]) -> list[Made]:
        """Do the work of every chain at once, then that of the host's cases.

        Args:
            work: given a chain, and what says whether a case is one to do now.
        """
        if len(self.chains) == 1:
            return [work(self.chains[0], lambda _: True)]
        numbers = {id(chain): number for number, chain in enumerate(self.chains)}
        made = self.each_chain(lambda chain: work(chain, lambda case_id: self.parts.get(case_id) == numbers[id(chain)]))
        return [*made, work(self.chains[self.host_at], self.host.__contains__)] if self.host else made

    def each_chain(self, work: Callable[[Chain], Made]) -> list[Made]:
        """Do the work of every chain at once; what came of it, in the order of the chains."""
        return together([partial(work, chain) for chain in self.chains], self._abandon)

    def number(self, case_id: str) -> int:
        """Where the case runs: its chain, or -1 for the host of several chains."""
        return 0 if len(self.chains) == 1 else self.parts.get(case_id, -1)

    def _abandon(self) -> None:
        for chain in self.chains:
            for crew in chain.crews:
                crew.session.abandon()


class Pace:
    """Lets chains make their rounds at their own pace, none further ahead of another than `ROUNDS_AHEAD`.

    Args:
        chains: how many there are.
        first: number of the first round.
        in_time: whether another round may begin; asked once a round, so that all make the same ones.
    """

    def __init__(self, chains: int, first: int, in_time: Callable[[], bool]) -> None:
        self._begun = dict.fromkeys(range(chains), first - 1.0)
        self._in_time = in_time
        self._allowed: dict[int, bool] = {}
        self._moved = threading.Condition()

    @contextlib.contextmanager
    def of(self, chain: int) -> Iterator[Callable[[int], bool]]:
        """Within it, what a chain calls before each round: waits for the others, and is false where time is over.

        A chain that leaves it, by an error too, keeps nobody waiting.
        """
        try:
            yield lambda number: self._begin(chain, number)
        finally:
            self._move(chain, math.inf)

    def _begin(self, chain: int, number: int) -> bool:
        with self._moved:
            self._moved.wait_for(lambda: min(self._begun.values(), default=number) >= number - ROUNDS_AHEAD)
            if number not in self._allowed:
                self._allowed[number] = self._in_time()
            if self._allowed[number]:
                self._begun[chain] = number
                self._moved.notify_all()
            return self._allowed[number]

    def _move(self, chain: int, number: float) -> None:
        with self._moved:
            self._begun[chain] = number
            self._moved.notify_all()


def together(tasks: Sequence[Callable[[], Made]], abandon: Callable[[], None]) -> list[Made]:
    """Do tasks at once, each in a thread of its own; what they returned, in their order.

    The first that fails, or an interruption, ends all: `abandon` must make the others fail soon.
    """
    if len(tasks) == 1:
        return [tasks[0]()]
    with ThreadPoolExecutor(len(tasks), thread_name_prefix="evenbench-chain") as pool:
        try:
            futures = [pool.submit(task) for task in tasks]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                if error := future.exception():
                    raise error
        except BaseException:
            abandon()
            raise
        return [future.result() for future in futures]
