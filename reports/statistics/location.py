"""From the samples of a launch to its location, the one number that speaks for it. Pure, and vectorised over a run."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Samples = Sequence[int] | NDArray[np.integer]
Floats = NDArray[np.float64]

BLOCK_SAMPLES = 1 << 18  # sorted at once: 2 MiB, whatever the size of the run


@dataclass(frozen=True)
class Row:
    """The samples of one case and implementation on both sides.

    Attributes:
        key: any hashable; comes back in the judgement.
        rounds: (base, head) of each planned round, in nanoseconds; None for a round, or a side of it, without samples.
        tick_ns: the timer's tick; None where it has none.
        min_effect: the change, as a fraction, that a verdict must exceed.
    """

    key: Hashable
    rounds: Sequence[tuple[Samples | None, Samples | None] | None]
    tick_ns: int | None
    min_effect: float


def grouped_median(samples: Samples, tick_ns: int | None) -> float:
    """The location of one launch in ns: the median, interpolated inside the tick that it falls into.

    It is `statistics.median_grouped` of the samples snapped to the tick; without a tick, the plain median.
    Raises ValueError without samples.
    """
    block = np.asarray(samples, dtype=np.int64).reshape(1, -1)
    if not block.size:
        raise ValueError("no samples")
    return float(_grouped_medians(block, np.array([tick_ns or 0]))[0])


def _grouped_medians(block: NDArray[np.int64], ticks: NDArray[np.int64]) -> Floats:
    """The locations of launches with equally many samples, one launch a line; tick 0 stands for none."""
    n = block.shape[1]
    tick = np.maximum(ticks, 1)[:, np.newaxis]
    cells = np.sort((block + tick // 2) // tick, axis=1)  # in ticks, halves upwards
    lower, upper = cells[:, (n - 1) // 2], cells[:, n // 2]
    below = (cells < upper[:, np.newaxis]).sum(axis=1)
    at = (cells == upper[:, np.newaxis]).sum(axis=1)
    grouped = (upper - 0.5 + (n / 2 - below) / at) * tick[:, 0]
    return np.asarray(np.where(ticks > 0, grouped, lower / 2 + upper / 2), dtype=np.float64)


def grouped_medians(launches: Sequence[Samples], ticks: Sequence[int | None]) -> Floats:
    """The location of each launch, all of which have samples."""
    by_length: dict[int, list[int]] = {}
    for place, samples in enumerate(launches):
        by_length.setdefault(len(samples), []).append(place)
    found = np.empty(len(launches))
    for length, places in by_length.items():
        step = max(1, BLOCK_SAMPLES // length)
        for start in range(0, len(places), step):
            part = places[start : start + step]
            block = _block([launches[place] for place in part], length)
            found[part] = _grouped_medians(block, np.array([ticks[place] or 0 for place in part]))
    return found


def _block(launches: Sequence[Samples], length: int) -> NDArray[np.int64]:
    """Launches of one length, one a line. What is quick for lists is slow for arrays, and the other way round."""
    if isinstance(launches[0], np.ndarray):
        return np.stack(launches).astype(np.int64, copy=False)
    kinds = {each.typecode if isinstance(each, array) else "" for each in launches}
    if len(kinds) == 1 and (
        kind := kinds.pop()
    ):  # all are arrays of integers of one size: see `evenbench.reports.load.packed`
        return np.frombuffer(b"".join(launches), kind).reshape(-1, length).astype(np.int64)  # type: ignore[arg-type]
    return np.fromiter(chain.from_iterable(launches), np.int64, len(launches) * length).reshape(-1, length)


def locations(rows: Sequence[Row]) -> Floats:
    """The location of every launch in ns: an array of rows by rounds by (base, head).

    Both sides are NaN in a round that is not whole: one without samples, or with a location that is not above 0.
    """
    width = max([1, *(len(row.rounds) for row in rows)])
    places: list[int] = []
    launches: list[Samples] = []
    ticks: list[int | None] = []
    for r, row in enumerate(rows):
        for k, sides in enumerate(row.rounds):
            for side, samples in enumerate(sides or ()):
                if samples is not None and len(samples):
                    places.append((r * width + k) * 2 + side)
                    launches.append(samples)
                    ticks.append(row.tick_ns)
    flat = np.full(len(rows) * width * 2, np.nan)
    flat[places] = grouped_medians(launches, ticks)
    found = flat.reshape(len(rows), width, 2)
    found[~(found > 0).all(axis=2)] = np.nan
    return found


def side_medians(located: Floats) -> Floats:
    """The median location of each row's sides: rows by (base, head) from rows by launches by (base, head).

    NaN stands for no launch; a side without any has none.
    """
    ordered = np.sort(located, axis=1)  # NaN last
    counts = (~np.isnan(located)).sum(axis=1)
    middle = np.stack([(counts - 1) // 2, counts // 2], axis=1)  # of no launch: the last place, a NaN
    return np.asarray(np.take_along_axis(ordered, middle, axis=1).mean(axis=1), dtype=np.float64)
