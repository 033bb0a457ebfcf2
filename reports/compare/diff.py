"""Two stored runs → `Comparison`: the verdicts of a comparison whose launches were not paired. Pure.

Everything but the statistics is as in `evenbench.reports.compare`. What lies between the two runs (another day, temperature, clocks,
driver state) is part of each change, and the comparison says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from evenbench.runner.errors import UntrustedInput
from evenbench.runner.records import JudgeSettings

from ..load.results import Launch, Results
from ..rows import notes
from ..rows.commitments import noted
from ..rows.outcome import ComparedRow, Comparison, Facts, Verdict
from ..rows.pair import TOO_FEW, Pair, counts_of, ended, mutes_of, order_of, pairs_of, row_of, verdict_of
from ..rows.run_facts import facts_of
from ..rows.side_row import SideRow, counted, differences, other_device, settled, tick
from ..statistics.decision import Judgement, Settings
from ..statistics.location import Floats, Samples
from ..statistics.unpaired import MIN_LAUNCHES, UnpairedRow, judge_unpaired, launch_locations, unpaired_mean
from ..units import count, setting
from .compare import LAUNCHES_MAX
from .stored import Stored, joined

MORE_LAUNCHES = f"too few launches: each side needs {MIN_LAUNCHES} to be judged; evenbench run makes one, with --rounds N as many as told"

DRIFT = (
    "another day, temperature, clocks, state of the driver or placement of buffers cannot be excluded: what drifted between "
    "the two runs is part of each change, and neither intervals nor verdicts can tell it apart"
)


def diff(base: Stored, head: Stored, today: date, judge_by: JudgeSettings | None = None) -> Comparison:
    """Head against base, each of a run of its own.

    Args:
        base, head: the sides.
        today: decides which mutes have ended.
        judge_by: thresholds in place of those in head's file.

    Raises:
        UsageError: they are one run, or different shards of one plan.
        UntrustedInput: there is more to judge than real runs could hold.
    """
    results = joined(base, head)
    settings = judge_by or results.header.judge
    mutes = mutes_of(settings)
    pairs = pairs_of(results, today, mutes, settings)
    images = _image_difference(base, head)
    verdicts = [_verdict(pair, base, head, results) or _unjudgeable(pair, images) for pair in pairs]
    open_pairs = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is None]
    rows = [_samples(pair) for pair in open_pairs]
    if len(rows) * max((len(side) for row in rows for side in (row.base, row.head)), default=0) > LAUNCHES_MAX:
        raise UntrustedInput(f"more than {LAUNCHES_MAX:,} launches of rows: no real run has as many")
    located = launch_locations(rows)
    # One look: how many launches a run made did not hang on what the other one showed.
    judgements = judge_unpaired(rows, Settings((1,), settings.equivalence, settings.family_error), located)
    launches = {id(launch.event): launch for launch in results.launches}
    compared = [row_of(pair, *verdict) for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is not None]
    compared += [_judged_row(*each, launches) for each in zip(open_pairs, judgements, located, strict=True)]
    compared = noted(compared, results.artifacts)
    facts = facts_of(
        results, [*notes.clocks(results.launches), *ended(mutes, today)], [judgement.rounds for judgement in judgements]
    )
    return Comparison(
        judged_by=settings,
        facts=_facts(facts, base, head, compared),
        rows=tuple(sorted(compared, key=order_of)),
        counts=counts_of(compared),
        muted=sum(1 for row in compared if row.muted),
        mean=unpaired_mean(rows, located),
        shuffled=None,  # shuffled labels would hide what differs between the runs, and so prove nothing
        artifacts=results.artifacts,
    )


def _verdict(pair: Pair, base: Stored, head: Stored, results: Results) -> tuple[Verdict, str] | None:
    """The verdict that the sides' states alone give. What a run did not select is neither new nor removed."""
    found = settled(pair.base, pair.head, results)
    lacking = base if pair.base.case is None else head if pair.head.case is None else None
    if found is None or lacking is None or found[0] not in ("new", "removed") or _selection(base) == _selection(head):
        return found
    return "skipped", f"not in {lacking.name}, which was measured with another suite, other patterns or as a shard"


def _selection(of: Stored) -> object:
    """What decides which cases a run takes."""
    header = of.results.header
    shard = (header.seed, header.shard.plan, of.results.missing) if of.results.missing else ()
    return header.suite, header.settings.get("include"), header.patterns, header.shard.count if shard else 1, shard


def _unjudgeable(pair: Pair, images: Sequence[str]) -> tuple[Verdict, str] | None:
    """Why the samples of a row on both sides decide nothing: base fails, or what was measured differs."""
    failures = pair.failures
    if failures is not None and failures.blame == "base" and len(pair.base.placed) < MIN_LAUNCHES:
        return "fixed", counted(failures, pair.base)
    found = (*(differences(pair.base, pair.head) or other_device(pair.base, pair.head)), *images)
    if not found and any(each.cache == "cold" for each in pair.head.common):
        found = tuple(f"{each}; only the first one meets a cold cache" for each in _batches(pair))
    return ("incomparable", "; ".join(found)) if found else None


def _image_difference(base: Stored, head: Stored) -> tuple[str, ...]:
    one, other = base.results.header.image, head.results.header.image
    return () if one == other else (f"image differs: {one or 'none'} on base, {other or 'none'} on head",)


def _samples(pair: Pair) -> UnpairedRow:
    base, head = (_by_round(side) for side in (pair.base, pair.head))
    return UnpairedRow(pair.key, base, head, tick((pair.base,)), tick((pair.head,)), pair.min_effect)


def _by_round(side: SideRow) -> list[Samples | None]:
    """The samples of each launch, at the place of its round, so that rows of one launch stand together."""
    return [side.samples.get(number) for number in range(max(side.samples, default=-1) + 1)]


def _judged_row(pair: Pair, judgement: Judgement, located: Floats, launches: Mapping[int, Launch]) -> ComparedRow:
    base, head = (located[:, n][~np.isnan(located[:, n])].tolist() for n in (0, 1))
    uneven = judgement.interval is not None and len(base) != len(head)  # else the reason says it
    extra = [f"{count(len(base), 'launch')} of base, {len(head)} of head"] if uneven else []
    if modes := notes.modes(base, head):
        extra.append(modes)
    if judgement.verdict in ("regressed", "improved") and not pair.on_host:
        extra.extend(notes.clocks(launches[id(each.launch)] for side in (pair.base, pair.head) for each in side.placed))
    verdict, reason = verdict_of(pair, judgement)
    warnings = [warning for warning in judgement.warnings if warning != reason]
    return row_of(pair, verdict, reason, judgement, extra, [*warnings, *_batches(pair)])


def _batches(pair: Pair) -> list[str]:
    """That a sample of one side is of more calls than one of the other: each run counts anew what its clock needs."""
    one, other = (sorted({each.record.batch for each in side.placed}) for side in (pair.base, pair.head))
    if one == other:
        return []
    said = [", ".join(str(number) for number in side) for side in (one, other)]
    return [f"calls in a sample differ: {said[0]} on base, {said[1]} on head"]


def _facts(facts: Facts, base: Stored, head: Stored, rows: Sequence[ComparedRow]) -> Facts:
    """The facts of both runs, with what comes of their being two."""
    both = (base, head)
    runs = [f"{each.results.header.run_id} of {each.results.header.started}" for each in both]
    said = [f"launches were not paired: base is of run {runs[0]}, head of run {runs[1]}", DRIFT]
    for what, one, other in (
        ("driver", *(", ".join(each.drivers) for each in both)),
        ("torch", *(", ".join(each.torch) for each in both)),
        ("evenbench", *(each.results.header.harness.version for each in both)),
    ):
        if one != other:
            said.append(f"{what} differs: {one or 'none'} on base, {other or 'none'} on head")
    if any("host" in row.timing for row in rows):
        said.append("the files do not name the machine, so what the host's clock timed may be of two machines")
    if any(row.reason.startswith(TOO_FEW) for row in rows):
        said.append(MORE_LAUNCHES)
    for each in both:
        plant = each.results.header.plant
        if plant is not None and each.side == "head":
            said.append(f"{each.name}: {plant.case} was slowed on purpose by {setting(plant.fraction)}")
        said.extend(f"{each.name}: {note}" for note in each.results.notes)
    return replace(
        facts,
        paired=False,
        partial=not all(each.results.complete for each in both),
        preparation_s=None,
        measuring_s=None,
        notes=(*said, *facts.notes),
    )
