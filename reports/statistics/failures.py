"""In how many launches of a row each side failed, and what follows for its verdict. Pure.

Launches that die are not missing at random: a row's remaining launches say nothing about those that died. So with x of n
launches of head and y of m of base that failed on the row, head is to blame where x ≥ 2 and y = 0, or where Fisher's exact
test, one-sided, gives p ≤ 1 %::

    p = P(X ≥ x),  X hypergeometric: the x + y failures drawn from n + m launches, those of head counted

Base is to blame where y ≥ 2 and x = 0. Anything else with a failure of head is unclear, and then the row is never called
`unchanged`. Launches that were lost with their machine are not counted (`evenbench.reports.rows.losses`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from ..units import count

FAILURES_MIN = 2  # of one side, none of the other: a single one may be an accident
BLAME_P = 0.01  # of Fisher's exact test, for one row
ROUNDING = 1 + 1e-9  # a p of just BLAME_P is enough, however it was rounded

Blame = Literal["head", "base", "unclear", ""]
Judged = TypeVar("Judged", bound=str)


@dataclass(frozen=True)
class Failures:
    """`head` of `head_launches` launches of head failed on a row, and `base` of `base_launches` of base."""

    base: int
    base_launches: int
    head: int
    head_launches: int

    @property
    def p(self) -> float:
        """The chance that head has at least as many of the failures if the sides fail alike."""
        return fisher(self.head, self.head_launches, self.base, self.base_launches)

    @property
    def blame(self) -> Blame:
        """Which side the row's failures are the fault of; empty where head never failed and base at most once."""
        if self.head >= FAILURES_MIN and (not self.base or self.p <= BLAME_P * ROUNDING):
            return "head"
        if self.head:
            return "unclear"
        return "base" if self.base >= FAILURES_MIN else ""

    @property
    def text(self) -> str:
        """The counts in words."""
        head = f"head failed in {self.head} of {count(self.head_launches, 'launch')}"
        return f"{head}, base in {self.base} of {self.base_launches}" if self.base_launches else head


def fisher(head: int, head_launches: int, base: int, base_launches: int) -> float:
    """The p of Fisher's exact test that head does not fail more often than base."""
    from scipy.stats import hypergeom  # slow to import, and only asked where both sides failed

    launches = head_launches + base_launches
    return float(hypergeom.sf(head - 1, launches, head + base, head_launches))


def weighed(verdict: Judged, failures: Failures | None) -> Judged | Literal["failed", "fixed", "inconclusive"]:
    """The verdict of a row whose launches' times alone say `verdict`. Failures never hide that head is slower."""
    blame = failures.blame if failures is not None else ""
    if blame == "head":
        return "failed"
    if not blame or verdict == "regressed":
        return verdict
    return "fixed" if blame == "base" else "inconclusive"
