"""Whom a launch that died costs: the order in which cases are tried, and which of them are given up. Pure.

A launch dies in one case, which may not be what killed it: an earlier one may have left a thread that does so later, or
a later one killed the warm parent before that could tell of it; or the system killed the launch, whose memory others had
used up. So a case that dies after others, with its parent, or by SIGKILL is tried once more, alone in a fresh launch. If it dies there too, it is given up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .launched import Status

TOGETHER_MAX = 2  # launches in a row that die before their first case; then the cases are tried one by one
ALONE_MAX = 3  # that die so by themselves, in a row: then the others would as well


class Trials:
    """The cases that are still to be launched.

    Each launch ends with a case finished, given up, or made a suspect, which it is once. Of launches that end with none
    of it there are two in a row at most. So n cases take at most 6 n + 2 launches, and 1 where nothing dies; each that
    dies by itself costs two more.

    Args:
        cases: ids in the order of measuring.
    """

    def __init__(self, cases: Sequence[str]) -> None:
        self._left = list(cases)
        self._suspects: set[str] = set()
        self._alone = False  # the first of those left is tried by itself
        self._silent = 0

    def next(self) -> Sequence[str]:
        """The cases of the next launch, in order; empty when none is left."""
        return tuple(self._left[:1] if self._alone or self._silent >= TOGETHER_MAX else self._left)

    def ended(
        self,
        status: Status,
        finished: Collection[str],
        under_way: str | None,
        *,
        doubtful: bool = False,
    ) -> Sequence[str]:
        """Take note of how that launch ended. Returns the cases that are given up.

        Args:
            status: how it ended; whether it ended well is no matter where a case was under way.
            finished: the cases that it had finished.
            under_way: the case that it was in.
            doubtful: it may have died of something else, such as a machine that was suspended.
        """
        first = self.next()[:1]
        self._alone = False
        done = frozenset(finished)
        self._left = [case for case in self._left if case not in done]
        if finished or under_way in self._left:
            self._silent = 0
            return self._died_in(under_way, doubtful=doubtful or (bool(finished) and status != "timeout"))
        self._silent += 1
        if self._silent <= TOGETHER_MAX:
            return ()
        hopeless = status == "timeout" or self._silent >= TOGETHER_MAX + ALONE_MAX
        return self._give_up(self._left if hopeless else first)

    def _died_in(self, case: str | None, *, doubtful: bool) -> Sequence[str]:
        if case is None or case not in self._left:
            return ()  # it left early, or died between two cases
        if doubtful and case not in self._suspects:
            self._suspects.add(case)
            self._alone = True
            self._left.remove(case)
            self._left.insert(0, case)
            return ()
        return self._give_up([case])

    def _give_up(self, cases: Sequence[str]) -> Sequence[str]:
        given_up = frozenset(cases)
        self._left = [case for case in self._left if case not in given_up]
        return tuple(cases)
