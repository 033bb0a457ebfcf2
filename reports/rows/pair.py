"""Rows on two sides before they are judged, and what a judgement makes of them: what all comparisons share. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from types import MappingProxyType

from evenbench.runner.config import Mute, muted, select
from evenbench.runner.records import JudgeSettings, PlantRecord, SideName

from ..load.results import Results
from ..statistics.decision import Judgement
from ..statistics.failures import Failures, weighed
from ..statistics.location import Row
from ..statistics.paired import MIN_ROUNDS
from ..units import percent
from . import notes
from .losses import SKIPPED, WRONG
from .outcome import HEADLINE_ORDER, MAIN, TABLE_ORDER, ComparedRow, Verdict, distinct
from .side_row import Key, SideRow, SideRows, counted, differences, failures_of, other_device, tick, times, unreadable

TOO_FEW = "too few "  # how the judge's warning about rounds or launches begins


@dataclass(frozen=True)
class Pair:
    """A row before it is judged. `hidden` is whether base may have it in a file that cannot be imported there."""

    key: Key
    base: SideRow
    head: SideRow
    min_effect: float
    muted: str
    planted: float = 0.0
    hidden: bool = False

    @property
    def failures(self) -> Failures | None:
        """In how many launches each side failed on the row; None where none did."""
        return failures_of(self.base, self.head)

    @property
    def on_host(self) -> bool:
        """Whether it uses no device, whose clocks then say nothing of it."""
        return self.base.on_host or self.head.on_host


def pairs_of(
    results: Results, today: date, mutes: Sequence[Mute], settings: JudgeSettings, other: SideName = "head"
) -> list[Pair]:
    """All rows of base and head, or of base and another side in its place, with what holds for each."""
    sides = SideRows(results)
    pairs = []
    for key in sides.keys(("base", other)):
        effects = [effect for pattern, effect in settings.min_effects if select((pattern,), key[0], ())]
        mute = muted(mutes, key[0], today)
        why = f"muted until {mute.until.isoformat()}: {mute.why}" if mute is not None else ""
        min_effect = effects[-1] if effects else settings.min_effect
        head = sides.row(other, key)
        base = sides.row("base", key)
        hidden = base.case is None and bool(unreadable(results, "base", head))
        pairs.append(Pair(key, base, head, min_effect, why, _planted(results.header.plant, head), hidden))
    return pairs


def _planted(plant: PlantRecord | None, head: SideRow) -> float:
    """The fraction by which a row was slowed on purpose."""
    case = head.case
    return plant.fraction if plant and case and select((plant.case,), case.id, case.tags) else 0.0


def mutes_of(settings: JudgeSettings) -> list[Mute]:
    """Those that a results file holds."""
    return [Mute(mute.match, mute.why, date.fromisoformat(mute.until)) for mute in settings.mute]


def ended(mutes: Sequence[Mute], today: date) -> list[str]:
    """A note on each mute that does not hold any more."""
    return [
        f"the mute of {mute.match} ended on {mute.until.isoformat()}: {mute.why}"
        for mute in mutes
        if mute.until < today
    ]


def unjudgeable(pair: Pair) -> tuple[Verdict, str] | None:
    """Why the samples of a row on both sides decide nothing: base fails, it was skipped, or what was measured differs."""
    whole = len(pair.base.samples.keys() & pair.head.samples.keys())
    failures = pair.failures
    if whole < MIN_ROUNDS and failures is not None and failures.blame == "base":
        return "fixed", counted(failures, pair.base)
    skipped = [next((loss for loss in side.losses if loss.kind == SKIPPED), None) for side in (pair.head, pair.base)]
    if whole < MIN_ROUNDS and failures is None and any(skipped):
        said = [(side, loss) for side, loss in zip(("head", "base"), skipped, strict=True) if loss is not None]
        if len({loss.error for _, loss in said}) < len(said):
            return "skipped", f"both sides: {said[0][1].error}"
        return "skipped", "; ".join(f"{side}, round {loss.round + 1}: {loss.error}" for side, loss in said)
    found = differences(pair.base, pair.head) or other_device(pair.base, pair.head)
    return ("incomparable", "; ".join(found)) if found else None


def samples_of(pair: Pair) -> Row:
    """The samples of both sides, round by round."""
    base, head = pair.base.samples, pair.head.samples
    begun = base.keys() | head.keys()
    rounds = [
        (base.get(number), head.get(number)) if number in begun else None
        for number in range(max(begun, default=-1) + 1)
    ]
    return Row(pair.key, rounds, tick((pair.base, pair.head)), pair.min_effect)


def verdict_of(pair: Pair, judgement: Judgement) -> tuple[Verdict, str]:
    """What a judged row is called once the launches that failed on it are counted, and why."""
    failures = pair.failures
    verdict = weighed(judgement.verdict, failures)
    if failures is not None and failures.blame and verdict != "regressed":
        return verdict, counted(failures, pair.head, pair.base)
    return verdict, reason_of(judgement)


def broken_by_head(pair: Pair, verdict: Verdict) -> bool:
    """Whether a row fails, or is wrong, on head and not on base: what `failed` of `fail_on` counts."""
    base, head = pair.base, pair.head
    if verdict not in ("failed", "wrong") or base.bad or pair.hidden:
        return False
    if head.case is None:  # what hides it is on head
        return True
    alike = [loss for loss in base.failed if verdict == "failed" or loss.kind == WRONG]
    if not alike:
        return True
    always = head.bad and not head.losses  # in preparation: any launch would have failed
    launches = base.launches if always else head.launches
    failed = launches if always else len({loss.round for loss in head.failed})
    return Failures(len({loss.round for loss in alike}), base.launches, failed, launches).blame == "head"


def reason_of(judgement: Judgement) -> str:
    """Why the times of a row are inconclusive; empty where they are not."""
    if judgement.verdict != "inconclusive":
        return ""
    few = next((warning for warning in judgement.warnings if warning.startswith(TOO_FEW)), "")
    if few or judgement.resolvable is None:
        return few
    return (
        f"a change would have to exceed {percent(judgement.resolvable, plus=False)} to be called at this noise; "
        "more rounds or a quieter machine lower that"
    )


def row_of(
    pair: Pair,
    verdict: Verdict,
    reason: str,
    judgement: Judgement | None = None,
    extra: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> ComparedRow:
    """The row as it is shown; `extra` are notes beyond those that follow from the records."""
    sides = (pair.base, pair.head)
    failures = pair.failures
    counts = failures is not None and failures.text in reason
    common = list(chain.from_iterable(side.common for side in sides))
    base = times(pair.base, judgement.base_ns if judgement else None)
    head = times(pair.head, judgement.head_ns if judgement else None)
    return ComparedRow(
        case=pair.key[0],
        implementation=pair.key[1],
        verdict=verdict,
        reason=reason,
        base=base,
        head=head,
        change=judgement.change if judgement else None,
        interval=judgement.interval if judgement else None,
        resolvable=judgement.resolvable if judgement else None,
        p_slower=judgement.p_slower if judgement else None,
        p_faster=judgement.p_faster if judgement else None,
        p_equivalent=judgement.p_equivalent if judgement else None,
        min_effect=pair.min_effect,
        rounds=judgement.rounds if judgement else 0,
        timing=", ".join(distinct(each.timing for each in common)),
        cache=", ".join(distinct(each.cache for each in common)),
        notes=(*notes.of_row(pair.base, pair.head, verdict), *extra),
        warnings=(*notes.impossible({"base": base, "head": head}), *warnings, *notes.doubts(sides, counted=counts)),
        muted=pair.muted,
        planted=pair.planted,
        failures=failures,
        broken=broken_by_head(pair, verdict),
    )


def order_of(row: ComparedRow) -> tuple[int, float, str, bool, str]:
    """By which rows are sorted."""
    size = abs(row.change) if row.change is not None and row.verdict in ("regressed", "improved") else 0.0
    return TABLE_ORDER.index(row.verdict), -size, row.case, row.implementation != MAIN, row.implementation


def counts_of(rows: Sequence[ComparedRow]) -> Mapping[Verdict, int]:
    """How many rows have each verdict that occurs, as a headline orders them."""
    found = Counter(row.verdict for row in rows)
    return MappingProxyType({verdict: found[verdict] for verdict in HEADLINE_ORDER if found[verdict]})
