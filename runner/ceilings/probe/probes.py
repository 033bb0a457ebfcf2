"""What a probed device offers: for every key the shapes that may reach its peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...errors import MeasurementError
from .benchmarker import Probe

BUFFER_BYTES = 512 << 20  # of each of two: many times the largest cache
PEAKS_VERSION = 3  # counts changes of probes that change what they reach: an older peak is measured anew


class Unsupported(MeasurementError):
    """This device, or its software, cannot be probed for that; the message says why."""


@dataclass(frozen=True)
class Shape:
    """One way to launch a probe: how it is called in the table, and the probe."""

    name: str
    probe: Probe


@dataclass(frozen=True)
class PeakTarget:
    """One peak: its key, and what makes its shapes. Making them may raise; the key is then skipped, with the reason.

    Args:
        rest_s: seconds that the device rests before a peak. Where power limits the clocks, the peak is what a rested
            device reaches, as in the samples of a case; else it would depend on what was measured before.
        at_once: all its peaks are measured before any other target, one after the other: while nothing is recorded yet.
    """

    key: str
    shapes: Callable[[], Sequence[Shape]]
    rest_s: float = 0.0
    at_once: bool = False


class Device(Protocol):
    """What `peaks.find` measures."""

    @property
    def timing(self) -> str:
        """The name of the timer."""

    window_cap: int
    """The largest working set, in bytes."""

    def targets(self) -> Sequence[PeakTarget]:
        """All of them, in the order in which they are measured, but for those that are measured at once."""

    def window(self, nbytes: int) -> Sequence[Shape]:
        """Copies that move so many bytes in an iteration, of data that no cache holds."""
