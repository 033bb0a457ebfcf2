"""`Results` → `Comparison`: every row with its verdict and reason, then what these amount to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date

import numpy as np

from evenbench.runner.config import Mute
from evenbench.runner.errors import UntrustedInput
from evenbench.runner.records import Artifact, JudgeSettings

from ..load.proofs import Proof, history_of, moment
from ..load.results import Launch, Results
from ..rows import commitments, notes
from ..rows.outcome import ComparedRow, Comparison, Control, Facts, Report, ShuffledLabels, row_name
from ..rows.pair import (
    Pair,
    counts_of,
    ended,
    mutes_of,
    order_of,
    pairs_of,
    row_of,
    samples_of,
    unjudgeable,
    verdict_of,
)
from ..rows.run_facts import facts_of
from ..rows.side_row import settled
from ..statistics.location import Floats, Row, locations
from ..statistics.paired import (
    MIN_ROUNDS,
    ONE_SIDED,
    Judgement,
    Settings,
    Shuffled,
    geometric_mean,
    judge,
    shuffled_labels,
)
from . import known_truth
from .expectations import expected

OFTEN = 3  # of 20 draws of shuffled labels: only 0.1 % of sound runs have a row flagged so often
LAUNCHES_MAX = 5_000_000  # rows × rounds: 200,000 rows of 24 rounds; what judging holds of each takes some 500 bytes
QUIET_WHERE_UNRELIABLE = frozenset({"regressed", "inconclusive"})  # conditions that rest on the statistics


def compare(
    results: Results,
    today: date,
    mutes: Sequence[Mute] | None = None,
    judge_by: JudgeSettings | None = None,
    proofs: Sequence[Proof] = (),
) -> Comparison:
    """Base against head, judged over all shards at once.

    Raises UntrustedInput where there is more to judge than a real run could hold.

    Args:
        results: of a comparison, complete or not.
        today: decides which mutes have ended.
        mutes: cases whose verdict is shown but does not count; None for those that the settings name.
        judge_by: thresholds in place of those in the file; looks and rounds always come from the file.
        proofs: what earlier runs proved, on any machine.
    """
    settings = judge_by or results.header.judge
    mutes = mutes_of(settings) if mutes is None else mutes
    how = Settings(tuple(results.header.looks), settings.equivalence, settings.family_error)
    pairs = pairs_of(results, today, mutes, settings)
    verdicts = [settled(pair.base, pair.head, results) or unjudgeable(pair) for pair in pairs]
    open_pairs = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is None]
    rows = [samples_of(pair) for pair in open_pairs]
    _refuse_too_much(rows)
    located = locations(rows)
    judgements = judge(rows, how, located)
    clocks = notes.clocks(results.launches)
    launches = {id(launch.event): launch for launch in results.launches}
    partial = not results.complete
    compared = [row_of(pair, *verdict) for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is not None]
    compared += [_judged_row(*each, launches, partial) for each in zip(open_pairs, judgements, located, strict=True)]
    expectations = expected(results)
    compared = commitments.noted(compared, results.artifacts, expectations)
    facts = facts_of(results, [*clocks, *ended(mutes, today)], [judgement.rounds for judgement in judgements])
    started = moment(facts.header.started)
    return Comparison(
        judged_by=settings,
        facts=facts,
        rows=tuple(sorted(compared, key=order_of)),
        counts=counts_of(compared),
        muted=sum(1 for row in compared if row.muted),
        mean=None if results.header.plant else geometric_mean(rows, located),
        shuffled=_shuffled(shuffled_labels(rows, how, results.header.seed, located=located), open_pairs, judgements),
        artifacts=results.artifacts,
        expectations=expectations,
        control=_control(results, today, settings, how),
        history=history_of(proofs, facts.uuids, started) if started is not None else None,
    )


def conditions_met(outcome: Comparison | Report, fail_on: Collection[str]) -> tuple[str, ...]:
    """Which of the conditions `fail_on` hold: regressed, failed, expectation, artifact, inconclusive. Muted rows never count.

    A run with a planted change has two more, that it was not found, and that another row was called changed; both hold
    unless `fail_on` is empty. Its own rows count for none of the others.
    Nor do regressed rows that a second run judged and did not call so.
    `failed` is about what fails or is wrong on head and not on base: rows, head as a whole, a case file of head that cannot
    be imported. Of a run of one side, all that fails or is wrong.
    """
    failed = _side_failed(outcome.facts)
    if isinstance(outcome, Report):
        met: set[str] = {
            "failed" if row.status == "wrong" else row.status for row in outcome.rows if row.case not in outcome.muted
        }
        met |= {"failed"} if failed else set()
        met |= {"artifact"} if _artifact_differs(outcome.artifacts, outcome.muted) else set()
        met |= {"expectation"} if commitments.unmet(outcome.expectations, outcome.muted) else set()
        return tuple(condition for condition in fail_on if condition in met)
    counted = [
        row
        for row in outcome.rows
        if not row.muted and not row.planted and not (row.second is not None and row.second.cleared)
    ]
    met = {row.verdict for row in counted if row.verdict not in ("failed", "wrong")}
    if failed or any(row.broken for row in counted):
        met.add("failed")
    muted_cases = {row.case for row in outcome.rows if row.muted}
    met |= {"artifact"} if _artifact_differs(outcome.artifacts, muted_cases) else set()
    met |= {"expectation"} if commitments.unmet(outcome.expectations, muted_cases) else set()
    if outcome.unreliable:
        met -= QUIET_WHERE_UNRELIABLE
    unproven = known_truth.unproven(outcome) if fail_on else ()
    return (*unproven, *(condition for condition in fail_on if condition in met))


def _side_failed(facts: Facts) -> bool:
    """Whether head, or a case file of it, failed as a whole and base's did not."""
    head, base = facts.side("head"), facts.side("base")
    if head is None or (base is not None and base.error):
        return False
    return bool(head.error or set(head.broken) - set(base.broken if base is not None else ()))


def _artifact_differs(artifacts: Sequence[Artifact], muted_cases: Collection[str]) -> bool:
    return any(each.status != "equal" and each.side == "head" and each.case not in muted_cases for each in artifacts)


def headline(comparison: Comparison) -> str:
    """One line that counts the verdicts, such as ``2 regressed, 96 unchanged``; says first what forbids trusting it."""
    planted = Counter(row.verdict for row in comparison.rows if row.planted)
    numbers = {verdict: number - planted[verdict] for verdict, number in comparison.counts.items()}
    marks = {"regressed": _confirmed(comparison)}
    counts = ", ".join(f"{number:,} {verdict}{marks.get(verdict, '')}" for verdict, number in numbers.items() if number)
    said = [
        ", ".join(
            [
                counts or ("no other row" if planted else "nothing to compare"),
                *commitments.headline(comparison.artifacts, comparison.expectations),
            ]
        )
    ]
    if heading := known_truth.heading(comparison):
        said = [f"{heading};", *(["otherwise"] if planted and counts else []), *said]
    if comparison.muted:
        said.append(f"({comparison.muted:,} muted)")
    doubts = ["unreliable"] if comparison.unreliable else []
    doubts += ["partial"] if comparison.facts.partial else []
    return " ".join([f"{', '.join(doubts)}:", *said] if doubts else said)


def _confirmed(comparison: Comparison) -> str:
    """How many regressed rows a second run confirmed; empty without one."""
    seconds = [row.second for row in comparison.rows if row.second is not None]
    return f" ({sum(1 for second in seconds if second.confirmed):,} confirmed)" if seconds else ""


def _judged_row(
    pair: Pair, judgement: Judgement, located: Floats, launches: Mapping[int, Launch], partial: bool
) -> ComparedRow:
    whole = located[~np.isnan(located[:, 0])].tolist()
    more = notes.modes([base for base, _ in whole], [head for _, head in whole])
    extra = [more] if more else []
    if judgement.verdict in ("regressed", "improved") and not pair.on_host:
        extra.extend(notes.clocks(launches[id(each.launch)] for side in (pair.base, pair.head) for each in side.placed))
    verdict, reason = verdict_of(pair, judgement)
    warnings = [each for each in judgement.warnings if each != reason and not each.endswith(ONE_SIDED)]
    warnings += notes.lacking((pair.base, pair.head), partial=partial)  # says why, as `doubts` of rounds that died
    return row_of(pair, verdict, reason, judgement, extra, warnings)


def _refuse_too_much(rows: Sequence[Row]) -> None:
    if len(rows) * max((len(row.rounds) for row in rows), default=0) > LAUNCHES_MAX:
        raise UntrustedInput(f"more than {LAUNCHES_MAX:,} rounds of rows: no real run has as many")


def _control(results: Results, today: date, settings: JudgeSettings, how: Settings) -> Control | None:
    """Base against its second build, judged as a family of its own; None where the run had none."""
    if all(side.name != "control" for side in results.header.sides):
        return None
    pairs = pairs_of(results, today, (), settings, "control")
    pairs = [pair for pair in pairs if not (settled(pair.base, pair.head, results) or unjudgeable(pair))]
    judgements = judge([samples_of(pair) for pair in pairs], how)
    flagged = [pair for pair, found in zip(pairs, judgements, strict=True) if found.verdict in known_truth.CHANGED]
    judged = sum(1 for found in judgements if found.rounds >= MIN_ROUNDS)
    return Control(judged, tuple(row_name(*pair.key) for pair in flagged))


def _shuffled(shuffled: Shuffled, pairs: Sequence[Pair], judgements: Sequence[Judgement]) -> ShuffledLabels | None:
    judged = sum(1 for judgement in judgements if judgement.rounds >= MIN_ROUNDS)
    often = tuple(
        row_name(*pair.key) for pair, flagged in zip(pairs, shuffled.flagged, strict=True) if flagged >= OFTEN
    )
    return ShuffledLabels(shuffled.draws, judged, shuffled.total, often) if judged else None
