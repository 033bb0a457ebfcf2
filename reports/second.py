"""What a second run says of a row that the first one called regressed: a record, and what follows from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

CLEARING = ("unchanged", "improved", "inconclusive")  # verdicts of a judged row that do not bear the first one out


@dataclass(frozen=True)
class SecondRun:
    """A row in the second run.

    Attributes:
        verdict: what it was called there; empty where the second run lacks the row.
        change, interval: estimated there; None where there is none.
        doubt: why the second run settles nothing about the row; empty where it does. May quote foreign text.
    """

    verdict: str
    change: float | None
    interval: tuple[float, float] | None
    doubt: str

    @property
    def confirmed(self) -> bool:
        """Whether the row regressed there too."""
        return self.verdict == "regressed" and not self.doubt

    @property
    def cleared(self) -> bool:
        """Whether the row was judged there and not called regressed, so that it does not count for `fail_on`."""
        return self.verdict in CLEARING and not self.doubt
