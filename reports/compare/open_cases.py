"""Which cases another look may still decide: what the driver asks between its rounds. Pure.

It judges what the file holds, so that the looks of a run follow from its file alone.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from ..load.results import Results
from ..statistics.paired import Settings, open_rows
from .compare import compare
from .expectations import outliers


class _Judged(NamedTuple):
    key: tuple[str, str]
    p_slower: float
    p_faster: float
    p_equivalent: float


def open_cases(results: Results, today: date) -> frozenset[str]:
    """The cases with a row that is still open (see `evenbench.reports.statistics.open_rows`). Muted rows decide nothing.

    A row that lost so many rounds that it cannot be judged is open too: more of them may save it. So is one on which
    launches failed without a side to blame; where one is to blame the row is decided.

    Args:
        results: of a comparison that is under way; or of a run, of which rows go on that missed their expectation.
        today: decides which mutes have ended.
    """
    header = results.header
    if header.verb == "run":
        return outliers(results)
    how = Settings(tuple(header.looks), header.judge.equivalence, header.judge.family_error)
    rows = compare(results, today).rows
    unclear = {row.case for row in rows if row.failures is not None and row.verdict == "inconclusive"}
    judged = [
        _Judged((row.case, row.implementation), row.p_slower, row.p_faster, row.p_equivalent)
        for row in rows
        if row.p_slower is not None
        and row.p_faster is not None
        and row.p_equivalent is not None
        and row.verdict != "fixed"
    ]
    left = set(open_rows(judged, how, shards=header.shard.count))
    muted = {row.case for row in rows if row.muted}
    return frozenset({row.key[0] for row in judged if row.key in left} | unclear) - muted
