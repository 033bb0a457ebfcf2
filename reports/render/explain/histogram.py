"""Samples → a histogram in lines of text, for a terminal. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ... import units

BINS = 8  # lines between the tails
BAR = 30  # columns of the longest bar
EDGE_DIGITS = 2  # significant ones of a bin's width, in its edges


def bars(ordered: Sequence[int], tick: int) -> list[str]:
    """A line for each bin; none where all samples are equal.

    Args:
        ordered: samples in ns, ascending, at least one.
        tick: the grid that they sit on, in ns.
    """
    if ordered[0] == ordered[-1]:
        return []
    bins = histogram(ordered, tick)
    most = max(each.count for each in bins)
    labels = _labels(bins)
    width = max(map(len, labels))
    return [
        f"{label:>{width}}  {'█' * math.ceil(BAR * each.count / most):<{BAR}}  {each.count:,}"
        for label, each in zip(labels, bins, strict=True)
    ]


@dataclass(frozen=True)
class Bin:
    """How many samples lie from `low` up to, not including, `high`; None stands for any value."""

    low: int | None
    high: int | None
    count: int


def histogram(ordered: Sequence[int], tick: int, most: int = BINS) -> list[Bin]:
    """A few bins around the middle of the samples, and what lies beyond in one bin on either side.

    Args:
        ordered: samples in ns, ascending, at least one.
        tick: grid that they sit on, in ns; no bin is narrower, and none ends on the grid.
        most: bins between the tails.
    """
    last = len(ordered) - 1
    p10, p90 = ordered[last // 10], ordered[last - last // 10]
    low = max(ordered[0], p10 - (p90 - p10))
    high = min(ordered[-1], p90 + (p90 - p10))
    first = (low + tick // 2) // tick * tick - tick // 2
    step = tick * max(1, math.ceil((high + 1 - first) / (most * tick)))
    edges = [first + step * n for n in range(math.ceil((high + 1 - first) / step) + 1)]
    counts = Counter(min(len(edges) - 1, max(-1, (sample - first) // step)) for sample in ordered)
    inner = [Bin(*ends, counts[n]) for n, ends in enumerate(pairwise(edges))]
    tails = [Bin(None, first, counts[-1])], [Bin(edges[-1], None, counts[len(edges) - 1])]
    return [each for each in [*tails[0], *inner, *tails[1]] if each.count or each in inner]


def _labels(bins: Sequence[Bin]) -> list[str]:
    known = [each for each in bins if each.low is not None and each.high is not None]
    highest = max(each.high or 0 for each in known)
    step = min((each.high or 0) - (each.low or 0) for each in known)
    scale, unit = next((pair for pair in units.TIME_UNITS if highest >= pair[0]), units.TIME_UNITS[-1])
    decimals = max(0, EDGE_DIGITS - 1 - math.floor(math.log10(step / scale)))
    decimals = min(decimals, round(math.log10(scale)))  # a nanosecond is the smallest that is known

    def edge(value: int | None) -> str:
        return "" if value is None else f"{value / scale:.{decimals}f}"

    return [
        f"{'below ' if each.low is None else 'from ' if each.high is None else ''}"
        f"{'–'.join(filter(None, (edge(each.low), edge(each.high))))} {unit}"
        for each in bins
    ]
