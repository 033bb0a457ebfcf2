"""Logarithmic axes in a chart's pixels. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high` over `pixels`; one that goes `down` has its high end at pixel 0."""

    low: float
    high: float
    pixels: float
    down: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        fraction = math.log(value / self.low) / math.log(self.high / self.low)
        return self.pixels * (1 - fraction if self.down else fraction)

    def value(self, pixel: float) -> float:
        """The value at a pixel."""
        fraction = pixel / self.pixels
        return self.low * math.exp((1 - fraction if self.down else fraction) * math.log(self.high / self.low))


def log_axis(values: Sequence[float], pixels: float, *, after: float = 0.0, down: bool = False) -> Axis:
    """An axis that holds these values with some room at both ends; `after`, a fraction of it, is left free behind them."""
    low, high = min(values) / 2, max(values) * 2
    return Axis(low, low * math.exp(math.log(high / low) / (1 - after)), pixels, down)
