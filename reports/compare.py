"""`Results` → `Comparison`: every row with its verdict and reason, then what these amount to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

import numpy as np

from runner.config import Mute, muted, select
from runner.errors import UntrustedInput
from runner.records import JudgeSettings

from . import notes
from .facts import facts_of
from .load import Results
from .location import Floats, Row, locations
from .rows import Key, SideRow, Sides, differences, settled, tick, times
from .statistics import MIN_ROUNDS, ONE_SIDED, Judgement, Settings, Shuffled, geometric_mean, judge, shuffled_labels
from .tables import (
    HEADLINE_ORDER,
    MAIN,
    TABLE_ORDER,
    ComparedRow,
    Comparison,
    Report,
    ShuffledLabels,
    Verdict,
    distinct,
    row_name,
)
from .units import count, percent

OFTEN = 3  # of 20 draws of shuffled labels: only 0.1 % of sound runs have a row flagged so often
LAUNCHES_MAX = 5_000_000  # rows × rounds: 200,000 rows of 24 rounds; what judging holds of each takes some 500 bytes
TOO_FEW = "too few rounds"  # how the judge's warning about them begins
QUIET_WHERE_UNRELIABLE = frozenset({"regressed", "inconclusive"})  # conditions that rest on the statistics


@dataclass(frozen=True)
class _Pair:
    """A row before it is judged."""

    key: Key
    base: SideRow
    head: SideRow
    min_effect: float
    muted: str


def compare(
    results: Results, today: date, mutes: Sequence[Mute] | None = None, judge_by: JudgeSettings | None = None
) -> Comparison:
    """Base against head, judged over all shards at once.

    Raises UntrustedInput where there is more to judge than a real run could hold.

    Args:
        results: of a comparison, complete or not.
        today: decides which mutes have ended.
        mutes: cases whose verdict is shown but does not count; None for those that the settings name.
        judge_by: thresholds in place of those in the file; looks and rounds always come from the file.
    """
    settings = judge_by or results.header.judge
    if mutes is None:
        mutes = [Mute(mute.match, mute.why, date.fromisoformat(mute.until)) for mute in settings.mute]
    how = Settings(tuple(results.header.looks), settings.equivalence, settings.family_error)
    pairs = _pairs(results, today, mutes, settings)
    verdicts = [settled(pair.base, pair.head, results) or _unjudgeable(pair) for pair in pairs]
    open_pairs = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is None]
    rows = [_samples(pair) for pair in open_pairs]
    _refuse_too_much(rows)
    located = locations(rows)
    judgements = judge(rows, how, located)
    clocks = notes.clocks(results.launches)
    partial = not results.complete
    compared = [_row(pair, *verdict) for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is not None]
    compared += [_judged_row(*each, clocks, partial) for each in zip(open_pairs, judgements, located, strict=True)]
    found = Counter(row.verdict for row in compared)
    ended = [
        f"the mute of {mute.match} ended on {mute.until.isoformat()}: {mute.why}"
        for mute in mutes
        if mute.until < today
    ]
    return Comparison(
        judged_by=settings,
        facts=facts_of(results, [*clocks, *ended], [judgement.rounds for judgement in judgements]),
        rows=tuple(sorted(compared, key=_order)),
        counts=MappingProxyType({verdict: found[verdict] for verdict in HEADLINE_ORDER if found[verdict]}),
        muted=sum(1 for row in compared if row.muted),
        mean=geometric_mean(rows, located),
        shuffled=_shuffled(shuffled_labels(rows, how, results.header.seed, located=located), open_pairs, judgements),
        artifacts=results.artifacts,
    )


def conditions_met(outcome: Comparison | Report, fail_on: Collection[str]) -> tuple[str, ...]:
    """Which of the conditions `fail_on` hold: regressed, failed, expectation, artifact, inconclusive. Muted rows never count.

    `failed` covers wrong results, a side that could not be prepared, and a case file of head that cannot be imported.
    """
    if isinstance(outcome, Report):
        met: set[str] = {"failed" if row.status == "wrong" else row.status for row in outcome.rows}
        return tuple(condition for condition in fail_on if condition in met)
    counted = [row for row in outcome.rows if not row.muted]
    met = {"failed" if row.verdict == "wrong" else row.verdict for row in counted}
    if any(side.error or (side.broken and side.name == "head") for side in outcome.facts.sides):
        met.add("failed")
    muted_cases = {row.case for row in outcome.rows if row.muted}
    if any(
        each.status != "equal" and each.side == "head" and each.case not in muted_cases for each in outcome.artifacts
    ):
        met.add("artifact")
    if outcome.unreliable:
        met -= QUIET_WHERE_UNRELIABLE
    return tuple(condition for condition in fail_on if condition in met)


def headline(comparison: Comparison) -> str:
    """One line that counts the verdicts, such as ``2 regressed, 96 unchanged``; says first what forbids trusting it."""
    counts = ", ".join(f"{number:,} {verdict}" for verdict, number in comparison.counts.items())
    said = [counts or "nothing to compare"]
    if comparison.muted:
        said.append(f"({comparison.muted:,} muted)")
    doubts = ["unreliable"] if comparison.unreliable else []
    doubts += ["partial"] if comparison.facts.partial else []
    return " ".join([f"{', '.join(doubts)}:", *said] if doubts else said)


def _pairs(results: Results, today: date, mutes: Sequence[Mute], settings: JudgeSettings) -> list[_Pair]:
    sides = Sides(results)
    pairs = []
    for key in sides.keys(("base", "head")):
        effects = [effect for pattern, effect in settings.min_effects if select((pattern,), key[0], ())]
        mute = muted(mutes, key[0], today)
        why = f"muted until {mute.until.isoformat()}: {mute.why}" if mute is not None else ""
        min_effect = effects[-1] if effects else settings.min_effect
        pairs.append(_Pair(key, sides.row("base", key), sides.row("head", key), min_effect, why))
    return pairs


def _unjudgeable(pair: _Pair) -> tuple[Verdict, str] | None:
    """Why the samples of a row on both sides decide nothing: launches died, or what was measured differs."""
    rounds = [{each.launch.round for each in side.placed} for side in (pair.base, pair.head)]
    whole = len(rounds[0] & rounds[1])
    lost = next((side for side in (pair.head, pair.base) if side.losses), None)
    if lost is not None and whole < MIN_ROUNDS:
        died = count(len({loss.round for loss in lost.losses}), "round")
        return "failed", f"{lost.side} died in {died}, {whole} whole ones are left: {lost.losses[0].error}"
    found = differences(pair.base, pair.head)
    return ("incomparable", "; ".join(found)) if found else None


def _samples(pair: _Pair) -> Row:
    base, head = (
        {each.launch.round: each.record.device_busy_ns for each in side.placed} for side in (pair.base, pair.head)
    )
    last = max((number for number in (*base, *head) if number is not None), default=-1)
    rounds = [
        (base.get(number), head.get(number)) if number in base or number in head else None for number in range(last + 1)
    ]
    return Row(pair.key, rounds, tick((pair.base, pair.head)), pair.min_effect)


def _judged_row(
    pair: _Pair, judgement: Judgement, located: Floats, clocks: Sequence[str], partial: bool
) -> ComparedRow:
    whole = located[~np.isnan(located[:, 0])].tolist()
    more = notes.modes([base for base, _ in whole], [head for _, head in whole])
    extra = [more] if more else []
    if judgement.verdict in ("regressed", "improved"):
        extra.extend(clocks)
    reason = _reason(judgement)
    warnings = [each for each in judgement.warnings if each != reason and not each.endswith(ONE_SIDED)]
    warnings += notes.lacking((pair.base, pair.head), partial=partial)  # says why, as `doubts` of rounds that died
    return _row(pair, judgement.verdict, reason, judgement, extra, warnings)


def _reason(judgement: Judgement) -> str:
    if judgement.verdict != "inconclusive":
        return ""
    few = next((warning for warning in judgement.warnings if warning.startswith(TOO_FEW)), "")
    if few or judgement.resolvable is None:
        return few
    return (
        f"a change would have to exceed {percent(judgement.resolvable, plus=False)} to be called at this noise; "
        "more rounds or a quieter machine lower that"
    )


def _refuse_too_much(rows: Sequence[Row]) -> None:
    if len(rows) * max((len(row.rounds) for row in rows), default=0) > LAUNCHES_MAX:
        raise UntrustedInput(f"more than {LAUNCHES_MAX:,} rounds of rows: no real run has as many")


def _row(
    pair: _Pair,
    verdict: Verdict,
    reason: str,
    judgement: Judgement | None = None,
    extra: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> ComparedRow:
    sides = (pair.base, pair.head)
    records = [each.record for side in sides for each in side.placed]
    return ComparedRow(
        case=pair.key[0],
        implementation=pair.key[1],
        verdict=verdict,
        reason=reason,
        base=times(pair.base, judgement.base_ns if judgement else None),
        head=times(pair.head, judgement.head_ns if judgement else None),
        change=judgement.change if judgement else None,
        interval=judgement.interval if judgement else None,
        resolvable=judgement.resolvable if judgement else None,
        p_slower=judgement.p_slower if judgement else None,
        p_faster=judgement.p_faster if judgement else None,
        p_equivalent=judgement.p_equivalent if judgement else None,
        min_effect=pair.min_effect,
        rounds=judgement.rounds if judgement else 0,
        timing=", ".join(distinct(record.timing for record in records)),
        cache=", ".join(distinct(record.cache for record in records)),
        notes=(*notes.of_row(pair.base, pair.head, verdict), *extra),
        warnings=(*warnings, *notes.doubts(sides)),
        muted=pair.muted,
    )


def _order(row: ComparedRow) -> tuple[int, float, str, bool, str]:
    size = abs(row.change) if row.change is not None and row.verdict in ("regressed", "improved") else 0.0
    return TABLE_ORDER.index(row.verdict), -size, row.case, row.implementation != MAIN, row.implementation


def _shuffled(shuffled: Shuffled, pairs: Sequence[_Pair], judgements: Sequence[Judgement]) -> ShuffledLabels | None:
    judged = sum(1 for judgement in judgements if judgement.rounds >= MIN_ROUNDS)
    often = tuple(
        row_name(*pair.key) for pair, flagged in zip(pairs, shuffled.flagged, strict=True) if flagged >= OFTEN
    )
    return ShuffledLabels(shuffled.draws, judged, shuffled.total, often) if judged else None
