"""One side of a row: its time, and what follows from its records. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from statistics import median
from typing import Literal

from evenbench.runner.records import WorkRecord

from ..load.packed import Sampled
from ..statistics.location import grouped_medians
from .roofline import Need, Peaks


@dataclass(frozen=True)
class Times:
    """One side of a row. What few formats show is computed when it is asked for.

    Attributes:
        ns: median of the launch locations, device-busy time of one iteration.
        records: of its timed launches; at least one.
        tflops, bandwidth_tbs: the case's declared work over `ns`; None where it declares none.
        share: of the ceiling that binds, a fraction; None without ceilings.
        needs: the time of each resource at its ceiling, the one that binds first.
        work: as the case declares it; None where it does not.
        peaks: of the device that it ran on; None where they are not known.
    """

    ns: float
    records: tuple[Sampled, ...]
    tflops: float | None
    bandwidth_tbs: float | None
    share: float | None = None
    needs: tuple[Need, ...] = ()
    work: WorkRecord | None = None
    peaks: Peaks | None = None

    @property
    def launches(self) -> int:
        """Timed ones."""
        return len(self.records)

    @cached_property
    def percentiles_ns(self) -> tuple[float, float]:
        """p10 and p90 of all samples of all launches."""
        ordered = sorted(chain.from_iterable(record.device_busy_ns for record in self.records))
        return _quantile(ordered, 0.1), _quantile(ordered, 0.9)

    @cached_property
    def latency_ns(self) -> float | None:
        """As `ns`, of the time from the first start to the last end; None where the timer does not tell."""
        if all(record.latency_ns == record.device_busy_ns for record in self.records):
            return self.ns  # of the same launches as the judge took
        return self._median("latency_ns")

    @cached_property
    def uncounted_copy_ns(self) -> float | None:
        """As `ns`, of the copies that do not count; None without any."""
        return self._median("uncounted_copy_ns")

    @cached_property
    def samples(self) -> int:
        """In one launch, as most launches have it."""
        return _most_common(len(record.device_busy_ns) for record in self.records)

    @cached_property
    def n_kernels(self) -> int | None:
        """Of one iteration, as most have it; None where the timer cannot know."""
        known = [record.n_kernels for record in self.records if record.n_kernels]
        return _most_common(chain.from_iterable(known)) if known else None

    def _median(self, name: Literal["latency_ns", "uncounted_copy_ns"]) -> float | None:
        known = [record for record in self.records if getattr(record, name)]
        ticks = [record.tick_ns for record in known]
        located = grouped_medians([getattr(record, name) for record in known], ticks)
        return median(located.tolist()) if known else None


def _quantile(ordered: Sequence[int], fraction: float) -> float:
    """Between the two nearest samples, linearly, as numpy's default."""
    position = (len(ordered) - 1) * fraction
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _most_common(values: Iterable[int]) -> int:
    """The smallest of the most common ones, so that order does not matter."""
    seen = Counter(values)
    return min(seen, key=lambda value: (-seen[value], value))
