"""`Results` → `Comparison`: every row with its verdict and reason. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

from runner.config import Mute, muted, select
from runner.records import Header, JudgeSettings

from . import notes
from .facts import facts_of
from .load import Results
from .location import Floats, Row, locations
from .rows import Key, SideRow, Sides, differences, settled, tick, times
from .statistics import Judgement, Settings, Shuffled, geometric_mean, judge, shuffled_labels
from .tables import HEADLINE_ORDER, TABLE_ORDER, ComparedRow, Comparison, ShuffledLabels, Verdict
from .units import count, percent

OFTEN = 3  # of 20 draws of shuffled labels: 0.1 % of sound rows are flagged so often
MIN_EFFECT_PLACES = 6  # a printed threshold never shows binary rounding


def compare(results: Results, today: date, mutes: Sequence[Mute] = (), judge_by: JudgeSettings | None = None) -> Comparison:
    """Base against head, judged over all shards at once.

    Args:
        results: of a comparison; whether it is complete is noted, not required.
        today: decides which mutes have ended.
        mutes: cases whose verdict is shown but does not count.
        judge_by: thresholds in place of those in the file; looks and rounds always come from the file.
    """
    settings = judge_by or results.header.judge
    sides = Sides(results)
    pairs = {key: (sides.row("base", key), sides.row("head", key)) for key in sides.keys(("base", "head"))}
    verdicts = {key: settled(*pair, results) or _incomparable(*pair) for key, pair in pairs.items()}
    judged = [key for key in pairs if verdicts[key] is None]
    rows = [_samples(key, *pairs[key], settings) for key in judged]
    located = locations(rows)
    how = Settings(tuple(results.header.looks), settings.equivalence, settings.family_error)
    judgements = dict(zip(judged, judge(rows, how, located), strict=True))
    places = {key: n for n, key in enumerate(judged)}
    clock_notes = notes.clocks(results.launches)
    finished = []
    for key, (base, head) in pairs.items():
        shown = _Shown(key, base, head, _min_effect(settings, key[0]), _muted(mutes, key[0], today))
        verdict = verdicts[key]
        if verdict is not None:
            finished.append(_settled_row(shown, *verdict))
        else:
            finished.append(_judged_row(shown, judgements[key], located[places[key]], clock_notes))
    ordered = tuple(sorted(finished, key=_order))
    found = Counter(row.verdict for row in ordered)
    shuffled = shuffled_labels(rows, how, results.header.seed, located=located) if rows else None
    return Comparison(
        facts=facts_of(results, [*clock_notes, *_ended(mutes, today)], [j.rounds for j in judgements.values()]),
        rows=ordered,
        counts=MappingProxyType({verdict: found[verdict] for verdict in HEADLINE_ORDER if found[verdict]}),
        muted=sum(1 for row in ordered if row.muted),
        mean=geometric_mean(rows, located) if rows else None,
        shuffled=None if shuffled is None else _shuffled(shuffled, judged),
    )
