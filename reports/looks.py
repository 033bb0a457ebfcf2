"""Which cases another look may still decide: what the driver asks between its rounds. Pure.

It judges what the file holds, so that the looks of a run follow from its file alone.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from .compare import compare
from .load import Results
from .statistics import Settings, open_rows


class _Judged(NamedTuple):
    key: tuple[str, str]
    p_slower: float
    p_faster: float
    p_equivalent: float
    muted: bool


def open_cases(results: Results, today: date) -> frozenset[str]:
    """The cases with a row that is still open (see `reports.statistics.open_rows`). Muted rows decide nothing.

    Args:
        results: of a comparison that is under way.
        today: decides which mutes have ended.
    """
    header = results.header
    how = Settings(tuple(header.looks), header.judge.equivalence, header.judge.family_error)
    judged = [
        _Judged((row.case, row.implementation), row.p_slower, row.p_faster, row.p_equivalent, bool(row.muted))
        for row in compare(results, today).rows
        if row.p_slower is not None and row.p_faster is not None and row.p_equivalent is not None
    ]
    left = set(open_rows(judged, how, shards=header.shard.count))
    return frozenset(row.key[0] for row in judged if row.key in left and not row.muted)
