"""What became of an expectation: the record that formats render."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["worse", "better", "missing", "flaky", "met", "skipped"]
UNMET: Sequence[Outcome] = ("worse", "better", "missing")  # what `fail_on: expectation` is about


@dataclass(frozen=True)
class Expected:
    """An expectation held against what was measured.

    Attributes:
        device: the model that it holds for; of a skipped one, that of the run.
        outcome: met; flaky, met in a later attempt; worse or better than expected; missing, no number to hold against
            it; skipped.
        value, rtol, atol: as committed; met where |attempt - value| is at most `tolerance`. None where skipped.
        attempts: the figure of each, in the metric's unit; None where it gave none.
        reason: why it is missing or skipped; may quote foreign text.
        measured, by: when and by what the value was measured.
    """

    case: str
    implementation: str
    device: str
    outcome: Outcome
    metric: str = ""
    value: float | None = None
    rtol: float | None = None
    atol: float | None = None
    attempts: tuple[float | None, ...] = ()
    reason: str = ""
    measured: str = ""
    by: str = ""

    @property
    def tolerance(self) -> float:
        """How far off the value a figure may be, in the metric's unit; 0 for a skipped one."""
        return (self.atol or 0.0) + (self.rtol or 0.0) * (self.value or 0.0)
