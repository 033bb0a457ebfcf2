"""Declared work and a device's measured peaks → the time that each resource needs, and the share of the slowest. Pure.

The slowest resource binds: no program does the work in less time than it needs at its peak. So a share above `TOO_FAST`
is an error in the case's `work` or in the timing, and no good kernel.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from evenbench.runner.records import CeilingsEvent, LaunchEvent, WorkRecord

from ..load.packed import Sampled

TOO_FAST = 1.03  # a peak is repeatable within 2 %, a time within 1 %; what exceeds both is not noise
UNSTEADY = 0.10  # of a peak's repetitions: an idle GPU repeats within 2 %, an idle CPU within a few
HOST = "cpu"  # what a launch of CPU cases calls its device
COPY, READ, WRITE = "memory/copy", "memory/read", "memory/write"
NS = 1e9

Curve = Sequence[tuple[int, float]]  # bytes moved → bytes a second, sizes ascending


@dataclass(frozen=True)
class Peaks:
    """What a device was measured to reach.

    Attributes:
        device, uuid: which one.
        rates: key → operations or bytes a second; only those that are finite and above 0.
        curve: of a copy, by the bytes that it moves.
        unsteady: keys whose peak differed by more than `UNSTEADY` from repetition to repetition.
    """

    device: str
    uuid: str
    rates: Mapping[str, float]
    curve: Curve
    unsteady: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Need:
    """The time that a resource needs for one iteration's work at its peak.

    Attributes:
        resource: the peaks that it is made of, as keys of `Peaks.rates`.
        kind: of resource.
        rate: operations or bytes a second, at this size of work.
        ns: the time.
        small: the work is too small for the peak of large buffers; `rate` is that of the curve.
        unsteady: the peak may be higher than it was measured.
    """

    resource: tuple[str, ...]
    kind: Literal["arithmetic", "memory"]
    rate: float
    ns: float
    small: bool = False
    unsteady: bool = False


def peaks_of(ceilings: CeilingsEvent) -> Peaks:
    """The usable ones of a machine's statement."""
    curve: dict[int, float] = {}
    for size, rate in ceilings.curve:
        if size > 0 and usable(rate):
            curve.setdefault(size, rate)
    rates = {key: rate for key, rate in ceilings.rates.items() if usable(rate)}
    unsteady = frozenset(key for key, (_, spread) in ceilings.spread.items() if not spread <= UNSTEADY)
    return Peaks(ceilings.device, ceilings.uuid, MappingProxyType(rates), tuple(sorted(curve.items())), unsteady)


def usable(rate: float) -> bool:
    """Whether a rate can be one."""
    return math.isfinite(rate) and rate > 0


def peaks_for(launch: LaunchEvent, known: Iterable[Peaks], *, on_host: bool = False) -> Peaks | None:
    """Those of the device that a launch ran on, of the processor for a case `on_host` in it; None where not known.

    A GPU is known by its UUID. Processors have none: of several machines' statements none is taken.
    """
    on_host = on_host or launch.device == HOST
    fitting = [peaks for peaks in known if peaks.uuid == ("" if on_host else launch.uuid)]
    if not fitting or (on_host and any(each != fitting[0] for each in fitting)):
        return None
    return fitting[-1]


def ceiling_at(curve: Curve, moved: float) -> float | None:
    """The bandwidth of a copy that moves so many bytes; None without points.

    Linear in log₂ of the bytes between two points, exact at a point, that of the nearest end beyond both ends.
    """
    if not curve:
        return None
    sizes = [size for size, _ in curve]
    at = bisect_left(sizes, moved)
    if at == len(curve):
        return curve[-1][1]
    size, rate = curve[at]
    if at == 0 or size == moved:
        return rate
    before, slower = curve[at - 1]
    between = math.log2(size) - math.log2(before)
    part = (
        (math.log2(moved) - math.log2(before)) / between if between else 1.0
    )  # of sizes that floats do not tell apart
    return slower + (rate - slower) * part


def needs(work: WorkRecord, peaks: Peaks, *, cold: bool = True) -> tuple[Need, ...]:
    """The time of each resource that has a peak for its part of the work, slowest first; the first one binds.

    Args:
        work: of one iteration.
        peaks: of the device that did it.
        cold: whether every iteration finds its data in memory. Where it may lie in a cache, memory does not take part.
    """
    found = [need for need in (_arithmetic(work, peaks), _memory(work, peaks) if cold else None) if need is not None]
    known = [replace(need, unsteady=not peaks.unsteady.isdisjoint(need.resource)) for need in found]
    return tuple(sorted(known, key=lambda need: -need.ns))


def is_cold(records: Iterable[Sampled]) -> bool:
    """Whether each call found its data in memory: of a batch on the host's clock only the first does."""
    return all(record.cache == "cold" and record.batch == 1 for record in records)


def share(found: Sequence[Need], busy_ns: float) -> float | None:
    """The binding resource's time over the time that was measured; None where nothing binds."""
    return found[0].ns / busy_ns if found and busy_ns > 0 and math.isfinite(found[0].ns / busy_ns) else None


def too_fast(of_ceiling: float | None) -> bool:
    """Whether the work as claimed cannot be done in the time as measured."""
    return of_ceiling is not None and of_ceiling > TOO_FAST


def _arithmetic(work: WorkRecord, peaks: Peaks) -> Need | None:
    """What matrix units may do, either unit may do: the faster one is the ceiling."""
    dtype = work.dtype.removeprefix("torch.")
    keys = [f"{unit}/{dtype}" for unit in (("compute", "matrix") if work.matrix else ("compute",))]
    key = max((key for key in keys if key in peaks.rates), key=lambda key: peaks.rates[key], default=None)
    if key is None or not work.flops:
        return None
    return _need((key,), "arithmetic", work.flops, work.flops / peaks.rates[key])


def _memory(work: WorkRecord, peaks: Peaks) -> Need | None:
    """As a copy of what is both read and written, then reading or writing the rest: each part at the peak measured for it.

    The copy's peak alone would be too low for what hardly writes, and reading's too high for what does.
    """
    moved = work.bytes_read + work.bytes_written
    both = 2 * min(work.bytes_read, work.bytes_written)
    rest = READ if work.bytes_read > work.bytes_written else WRITE
    parts = {key: size for key, size in ((COPY, both), (rest, moved - both)) if size}
    if not parts or any(key not in peaks.rates for key in parts):
        return None
    seconds = sum(size / peaks.rates[key] for key, size in parts.items())
    reached = _reached(moved, peaks)
    if not usable(reached):
        return None
    return _need(tuple(parts), "memory", moved, seconds / reached, small=reached != 1)


def _reached(moved: int, peaks: Peaks) -> float:
    """The fraction of the peak of large buffers that a copy of this size reaches; reading and writing are taken to reach as much."""
    at = ceiling_at(peaks.curve, moved)
    if at is None or moved >= peaks.curve[-1][0] or COPY not in peaks.rates:
        return 1.0
    return at / peaks.rates[COPY]


def _need(
    resource: tuple[str, ...],
    kind: Literal["arithmetic", "memory"],
    amount: int,
    seconds: float,
    *,
    small: bool = False,
) -> Need | None:
    """None where a hostile rate leaves no number."""
    if not usable(seconds) or not usable(seconds * NS) or not usable(amount / seconds):
        return None
    return Need(resource, kind, amount / seconds, seconds * NS, small)
