"""What a comparison and a report say, as frozen records of raw numbers for any format to render.

Also what became of an expectation, and what a second run says of a row that the first one called regressed.

Times are nanoseconds, changes fractions (above 0: head is slower), rates 10¹² operations or bytes a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evenbench.runner.records import Artifact, Header, JudgeSettings, SideName

from ..load.proofs import ProofHistory
from ..statistics.failures import Failures
from ..statistics.paired import GeometricMean
from .times import Times

Verdict = Literal[
    "failed",
    "wrong",
    "regressed",
    "incomparable",
    "inconclusive",
    "improved",
    "fixed",
    "new",
    "removed",
    "skipped",
    "unchanged",
]

MAIN = "main"  # the implementation of a case that has only one

# Both orders name every verdict: a table's rows, what needs a reader first on top; a headline's counts.
TABLE_ORDER: tuple[Verdict, ...] = (
    "failed", "wrong", "regressed", "incomparable", "inconclusive", "improved", "fixed", "new", "removed", "skipped", "unchanged",
)  # fmt: skip
HEADLINE_ORDER: tuple[Verdict, ...] = (
    "failed", "wrong", "regressed", "improved", "fixed", "new", "removed", "skipped", "unchanged", "inconclusive", "incomparable",
)  # fmt: skip


CLEARING = ("unchanged", "improved", "inconclusive")  # verdicts of a judged row that do not bear the first one out
Outcome: TypeAlias = Literal["worse", "better", "missing", "flaky", "met", "skipped"]
UNMET: Sequence[Outcome] = ("worse", "better", "missing")  # what `fail_on: expectation` is about


@dataclass(frozen=True)
class ComparedRow:
    """What a comparison says about one case and implementation.

    Attributes:
        case, implementation: the row's key.
        verdict: see `Verdict`.
        reason: why, where the verdict alone does not say it; may quote foreign text.
        base, head: the sides' times; None where a side has none.
        change, interval: paired estimate and its 95 % interval; None where nothing was compared.
        resolvable: the slow-down that these rounds could have shown.
        p_slower, p_faster, p_equivalent: as judged, None where not.
        min_effect: the change that a verdict must exceed.
        rounds: whole rounds used.
        timing: the published name of the timer.
        cache: cold or warm.
        notes: what helps to read the row; may quote foreign text.
        warnings: what makes its numbers doubtful; may quote foreign text.
        muted: why its verdict does not count; empty where it does.
        planted: the fraction of its time by which head was slowed on purpose; 0 where it was not.
        second: what a second run said of it; None without one.
        failures: in how many launches each side failed on it; None where none did.
        broken: whether it fails, or is wrong, on head and not on base.
    """

    case: str
    implementation: str
    verdict: Verdict
    reason: str
    base: Times | None
    head: Times | None
    change: float | None
    interval: tuple[float, float] | None
    resolvable: float | None
    p_slower: float | None
    p_faster: float | None
    p_equivalent: float | None
    min_effect: float
    rounds: int
    timing: str
    cache: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    muted: str
    planted: float = 0.0
    second: SecondRun | None = None
    failures: Failures | None = None
    broken: bool = False

    @property
    def measured(self) -> bool:
        """Whether both sides gave a number that something follows from."""
        counted = self.failures is not None and self.base is not None and self.head is not None
        return self.change is not None or counted

    @property
    def name(self) -> str:
        """The case, and the implementation where it is not `main`."""
        return row_name(self.case, self.implementation)

    @property
    def family(self) -> str:
        """What stands before the first slash of the case's name."""
        return family(self.case)

    @property
    def base_ns(self) -> float | None:
        """Base's time; None where there is none."""
        return None if self.base is None else self.base.ns

    @property
    def head_ns(self) -> float | None:
        """Head's time; None where there is none."""
        return None if self.head is None else self.head.ns


@dataclass(frozen=True)
class SideModule:
    """A top-level module of the project's own, and where a side loaded it from; see `evenbench.runner.records.ModuleOrigin`."""

    name: str
    path: str
    version: str
    files: int
    digest: str


@dataclass(frozen=True)
class SideFacts:
    """One side of a run: what it was made from, and with what. `broken` are its case files that cannot be imported."""

    name: SideName
    label: str
    sha: str
    dirty: bool
    python: tuple[str, ...]
    torch: tuple[str, ...]
    error: str
    broken: tuple[str, ...]
    notes: tuple[str, ...]
    modules: tuple[SideModule, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What holds for a run as a whole.

    Attributes:
        header: of the first shard.
        sides: in the header's order.
        devices, uuids, drivers, timers, caches: the distinct ones seen, sorted; uuids are those of GPUs.
        rounds: the fewest and the most whole rounds of a judged row; None without one.
        preparation_s, measuring_s: summed over shards; None where no shard came to its end.
        partial: the run did not come to its end, or shards are missing.
        missing: indices of the shards that are.
        changed: sides whose code was edited while it was measured, and which files; foreign text.
        notes: a sentence each; may quote foreign text.
        paired: base and head were measured in the rounds of one run; else in two runs, and `rounds` counts launches.
    """

    header: Header
    sides: tuple[SideFacts, ...]
    devices: tuple[str, ...]
    uuids: tuple[str, ...]
    drivers: tuple[str, ...]
    timers: tuple[str, ...]
    caches: tuple[str, ...]
    rounds: tuple[int, int] | None
    preparation_s: float | None
    measuring_s: float | None
    partial: bool
    changed: tuple[str, ...]
    notes: tuple[str, ...]
    paired: bool = True
    missing: tuple[int, ...] = ()

    def side(self, name: SideName) -> SideFacts | None:
        """The side of that name; None where the run had none."""
        return next((side for side in self.sides if side.name == name), None)


@dataclass(frozen=True)
class ShuffledLabels:
    """`draws` judgements of `rows` rows with shuffled labels flagged `flagged` in all, `often` rows too often."""

    draws: int
    rows: int
    flagged: int
    often: tuple[str, ...]


@dataclass(frozen=True)
class Control:
    """Base held against a second build of itself: of `rows` judged rows those `flagged` were called changed, falsely."""

    rows: int
    flagged: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Base against head.

    Attributes:
        judged_by: the thresholds.
        facts: what holds for the run as a whole.
        rows: in `TABLE_ORDER`, the largest change first, then by name.
        counts: of each verdict that occurs, in `HEADLINE_ORDER`.
        muted: rows whose verdict does not count.
        mean: geometric mean of the change over the judged rows; None where one of them was slowed on purpose.
        shuffled: what shuffled labels gave; None where no row was judged.
        artifacts, expectations: generated texts held against their saved copies, committed figures against head's times.
        history: what earlier runs proved about this machine; None where nothing is known.
        seconds: facts of the runs that measured the regressed rows again.
        control: base against a second build of itself; None where the run had no such side.
    """

    judged_by: JudgeSettings
    facts: Facts
    rows: tuple[ComparedRow, ...]
    counts: Mapping[Verdict, int]
    muted: int
    mean: GeometricMean | None
    shuffled: ShuffledLabels | None
    artifacts: tuple[Artifact, ...] = ()
    expectations: tuple[Expected, ...] = ()
    history: ProofHistory | None = None
    seconds: tuple[Facts, ...] = ()
    control: Control | None = None

    @property
    def unreliable(self) -> bool:
        """Whether the run's own proofs failed (shuffled labels, the control side), or a side was edited."""
        unsound = (self.shuffled is not None and self.shuffled.often) or (self.control and self.control.flagged)
        return bool(self.facts.changed or unsound)


@dataclass(frozen=True)
class MeasuredRow:
    """What a run of one side says about one case and implementation.

    Attributes:
        status: ok, wrong, failed or skipped.
        reason: why it is not ok; may quote foreign text.
        times: None where it is not ok.
        ratio: its time over that of the case's baseline; None without one.
        baseline: whether it is the baseline.
        check: passed, unchecked, or empty where it was not run.
    """

    case: str
    implementation: str
    status: Literal["ok", "wrong", "failed", "skipped"]
    reason: str
    times: Times | None
    ratio: float | None
    baseline: bool
    check: str
    timing: str
    cache: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def family(self) -> str:
        """What stands before the first slash of the case's name."""
        return family(self.case)


@dataclass(frozen=True)
class Report:
    """A run of one side: its rows by case, in the order in which the case lists its implementations.

    Attributes:
        artifacts: generated texts held against their saved copies.
        expectations: committed figures held against what was measured.
        muted: the cases that do not count for ``fail_on``.
    """

    facts: Facts
    rows: tuple[MeasuredRow, ...]
    counts: Mapping[str, int]
    artifacts: tuple[Artifact, ...] = ()
    expectations: tuple[Expected, ...] = ()
    muted: frozenset[str] = frozenset()


def family(case: str) -> str:
    """What stands before the first slash of a case's name; all of the name where there is none."""
    return case.partition("[")[0].partition("/")[0]


def row_name(case: str, implementation: str) -> str:
    """What a row is called: its case, and the implementation where it is not the only one."""
    return case if implementation == MAIN else f"{case} · {implementation}"


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """The distinct values that are not empty, sorted."""
    return tuple(sorted(set(values) - {""}))


@dataclass(frozen=True)
class SecondRun:
    """A row in the second run.

    Attributes:
        verdict: what it was called there; empty where the second run lacks the row.
        change, interval: estimated there; None where there is none.
        doubt: why the second run settles nothing about the row; empty where it does. May quote foreign text.
    """

    verdict: str
    change: float | None
    interval: tuple[float, float] | None
    doubt: str

    @property
    def confirmed(self) -> bool:
        """Whether the row regressed there too."""
        return self.verdict == "regressed" and not self.doubt

    @property
    def cleared(self) -> bool:
        """Whether the row was judged there and not called regressed, so that it does not count for `fail_on`."""
        return self.verdict in CLEARING and not self.doubt


@dataclass(frozen=True)
class Expected:
    """An expectation held against what was measured.

    Attributes:
        device: the model that it holds for; of a skipped one, that of the run.
        outcome: met; flaky, met in a later attempt; worse or better than expected; missing, no number to hold against
            it; skipped.
        value, rtol, atol: as committed; met where |attempt - value| is at most `tolerance`. None where skipped.
        attempts: the figure of each, in the metric's unit; None where it gave none.
        reason: why it is missing or skipped; may quote foreign text.
        measured, by: when and by what the value was measured.
    """

    case: str
    implementation: str
    device: str
    outcome: Outcome
    metric: str = ""
    value: float | None = None
    rtol: float | None = None
    atol: float | None = None
    attempts: tuple[float | None, ...] = ()
    reason: str = ""
    measured: str = ""
    by: str = ""

    @property
    def tolerance(self) -> float:
        """How far off the value a figure may be, in the metric's unit; 0 for a skipped one."""
        return (self.atol or 0.0) + (self.rtol or 0.0) * (self.value or 0.0)
