"""Records → the words and numbers that every format shows. Plain text, unescaped: whoever renders it escapes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from evenbench.runner.records import SideName

from .. import units
from ..compare.compare import headline
from ..compare.known_truth import changed, judged, kind_of, planted_change
from ..compare.report import headline as report_headline
from ..rows.outcome import (
    ComparedRow,
    Comparison,
    Facts,
    MeasuredRow,
    Report,
    SecondRun,
    SideFacts,
    SideModule,
    Verdict,
)
from ..rows.times import Times

TELLING = ("failed", "wrong", "regressed", "inconclusive")  # verdicts that a developer wants to see again
SHORT_SHA = 7  # digits of a commit id that people recognise
MODULES_SHOWN = 3  # of a side, below a table
COMMAND_PATTERNS = 3  # families named in the command that repeats a run
SAFE_WORD = re.compile(r"[A-Za-z0-9_./=,+-]+")  # what a shell takes as it is
WORKING_TREE = "working tree"  # label of a side for which no ref or directory was named
DIRTY = "uncommitted changes"
OF_CEILING = "the time that the device needs at the least, by its measured peaks, over the time that it took"

TIMERS: Mapping[str, str] = MappingProxyType(
    {
        "cupti": "CUPTI device-busy time",
        "cuda-events": "CUDA events around the call",
        "device-events": "device events around the call",
        "host": "host clock around the call",
    }
)


@dataclass(frozen=True)
class Cells:
    """One row of a comparison as text. `notes` may quote foreign text."""

    name: str
    base: str
    head: str
    change: str
    verdict: Verdict
    muted: bool
    planted: bool
    share: str
    rate: str
    rounds: str
    notes: tuple[str, ...]

    @property
    def called(self) -> str:
        """The verdict, and what makes it count otherwise."""
        marks = (" (muted)" if self.muted else "", " (planted)" if self.planted else "")
        return f"{self.verdict}{''.join(marks)}"


@dataclass(frozen=True)
class RunCells:
    """One row of a run as text. `notes` may quote foreign text."""

    case: str
    implementation: str
    time: str
    p10: str
    p90: str
    ratio: str
    rate: str
    share: str
    check: str
    notes: tuple[str, ...]


def title(outcome: Comparison | Report) -> str:
    """The headline, with the product's name."""
    return f"evenbench: {headline(outcome) if isinstance(outcome, Comparison) else report_headline(outcome)}"


def cells(row: ComparedRow) -> Cells:
    """A comparison's row."""
    base, head = units.times((row.base_ns, row.head_ns))
    slowed = f"slowed on purpose by {units.setting(row.planted)}" if row.planted else ""
    said = (slowed, row.reason, _second(row.second), *row.notes, row.muted, *row.warnings)
    return Cells(
        name=row.name,
        base=base,
        head=head,
        change=units.change(row.change, row.interval),
        verdict=row.verdict,
        muted=bool(row.muted),
        planted=bool(row.planted),
        share=_shares(row.base, row.head),
        rate=units.rate(row.head.tflops, row.head.bandwidth_tbs) if row.head else "",
        rounds=str(row.rounds) if row.rounds else units.NOTHING,
        notes=tuple(note for note in said if note),
    )


def run_cells(row: MeasuredRow) -> RunCells:
    """A run's row."""
    found = row.times
    time, p10, p90 = units.times((found.ns, *found.percentiles_ns) if found else (None, None, None))
    samples = units.count(found.samples * found.launches, "sample") if found else ""
    status = row.status if row.status != "ok" else row.check or "unchecked"
    return RunCells(
        case=row.case,
        implementation=row.implementation,
        time=time,
        p10=p10,
        p90=p90,
        ratio=units.ratio(row.ratio) if row.ratio is not None else "",
        rate=units.rate(found.tflops, found.bandwidth_tbs) if found else "",
        share=_shares(None, found),
        check=status,
        notes=tuple(note for note in (row.reason, samples, *row.notes, *row.warnings) if note),
    )


def facts(about: Facts) -> list[str]:
    """Device, software, timer, state of the cache and rounds, a few words each."""
    torch = sorted({version for side in about.sides for version in side.torch})
    parts = [
        ", ".join(about.devices),
        f"torch {' and '.join(torch)}" if torch else "",
        ", ".join(TIMERS.get(timer, timer) for timer in about.timers),
        f"{' and '.join(about.caches)} cache" if about.caches else "",
        rounds(about),
    ]
    return [part for part in parts if part]


def side(about: SideFacts | None) -> tuple[str, str]:
    """A side's short commit id, or its label where it has none; and what else there is to say of it."""
    if about is None:
        return "", ""
    short = about.sha[:SHORT_SHA] or about.label
    label = about.label.removeprefix("./")  # a directory, which may say no more than which side it is
    more = (label if about.sha and label not in (".", about.name) else "", DIRTY if about.dirty else "")
    return short, ", ".join(part for part in more if part)


def named(about: SideFacts) -> str:
    """A side by its name, such as ``base 1234567 (main)``; a directory that is called as its side needs no second word."""
    short, more = side(about)
    return f"{about.name}{f' {short}' if short != about.name else ''}{f' ({more})' if more else ''}"


def shuffled(comparison: Comparison) -> str:
    """What the run proved about itself; empty where no row was judged."""
    found = comparison.shuffled
    if found is None:
        return ""
    return f"{found.draws} × {units.count(found.rows, 'row')} with shuffled labels: {found.flagged:,} flagged"


def proved(comparison: Comparison) -> list[str]:
    """What a run whose truth is known came to; nothing of an ordinary one. May quote foreign text."""
    if (planted := planted_change(comparison)) is not None:
        change = f" ({units.change(row.change, row.interval)})" if (row := planted.row) is not None else ""
        where = ", ".join(planted.cases) or planted.asked
        outcome = planted.outcome.replace("not", "NOT")
        return [f"planted {units.setting(planted.fraction)} in {where}: {outcome}{change}"]
    if kind_of(comparison) == "aa":
        rows = units.count(len(judged(comparison.rows)), "row")
        alarms = f"{len(changed(comparison.rows)):,} of {rows}"
        return [f"A/A: both sides are the same commit; what is called changed here is a false alarm: {alarms}"]
    return []


def nightly(comparison: Comparison) -> list[str]:
    """What earlier runs proved about this machine; nothing where none is known."""
    found = comparison.history
    if found is None:
        return []
    said = []
    for name, days, (rows, flagged) in (
        ("nightly A/A", units.count(found.nights, "night"), found.aa),
        ("control sides", "30 days", found.control),
    ):
        if rows:
            said.append(f"this machine's {name}, last {days}: {flagged:,} of {units.count(rows, 'row')}")
    for fraction, (hits, runs) in found.planted.items():
        said.append(f"planted {units.setting(fraction)}: found {hits:,} of {runs:,}")
    return said


def mean(comparison: Comparison) -> str:
    """The geometric mean of the change; empty where no row was judged."""
    found = comparison.mean
    if found is None:
        return ""
    return f"geometric mean of the change over {units.count(found.rows, 'row')}: {units.change(found.change, found.interval)}"


def warnings(comparison: Comparison) -> list[str]:
    """What forbids to trust the table as it stands, then what is to be known of the run. May quote foreign text."""
    found = [
        f"unreliable: edited while it was measured, so its rounds are not of one code: {text}"
        for text in comparison.facts.changed
    ]
    if comparison.shuffled is not None and comparison.shuffled.often:
        names = ", ".join(comparison.shuffled.often)
        found.append(
            f"unreliable: with shuffled labels these rows were flagged too often, so no verdict counts: {names}"
        )
    if comparison.control is not None and comparison.control.flagged:
        names = ", ".join(comparison.control.flagged)
        found.append(
            f"unreliable: base was called changed against a second build of itself, so no verdict counts: {names}"
        )
    return [*found, *comparison.facts.notes]


def control(comparison: Comparison) -> str:
    """What the control side shows; empty without one."""
    found = comparison.control
    if found is None:
        return ""
    return f"control, base against a second build of itself: {len(found.flagged):,} of {units.count(found.rows, 'row')} flagged"


def reading(comparison: Comparison, *, shares: bool = True) -> list[str]:
    """How to read what the table holds: one sentence each; none about verdicts where no row was judged, nor of hidden `shares`."""
    said = []
    if any(row.base or row.head for row in comparison.rows):
        said.append("base, head: the median over launches of each launch's (grouped) median time")
    if any(row.change is not None for row in comparison.rows):
        estimate = (
            "the paired estimate over whole rounds"
            if comparison.facts.paired
            else "from the means of the sides' launches, which were not paired (Welch's t on log times)"
        )
        said.append(f"change: {estimate}, above 0 where head is slower, with its 95 % interval")
    if shares and any(_shares(row.base, row.head) for row in comparison.rows):
        said.append(f"of ceiling, base → head: {OF_CEILING}")
    if any(row.second is not None for row in comparison.rows):
        said.append(
            "confirmed: a second, independent run of the regressed rows alone calls the row regressed too; "
            "not confirmed: it judged the row and does not, so the row does not count for fail_on"
        )
    judged = [row for row in comparison.rows if row.interval is not None]
    if not judged:
        return said
    judge = comparison.judged_by
    chance, equal = units.setting(judge.family_error), units.setting(judge.equivalence)
    effects = sorted({row.min_effect for row in judged})
    effect = units.setting(effects[-1])
    if len(effects) > 1:
        effect = f"{units.setting(effects[0])} to {effect} (by case)"
    said += [
        f"regressed, improved: a change beyond {effect}; the chance of any false one in the whole run is {chance}",
        f"unchanged: shown to lie within ± {equal}, which need not be 0; inconclusive: neither was shown",
    ]
    if any(row.verdict == "inconclusive" for row in judged):
        said.append(
            "The interval is for this row alone; a verdict must hold for all rows of the run together, "
            f"so a row can stay inconclusive although its interval lies clear of ± {effect}."
        )
    return said


def spent(about: Facts) -> str:
    """The time that preparation and measuring took; empty where no shard came to its end."""
    if about.preparation_s is None or about.measuring_s is None:
        return ""
    return f"preparation {units.seconds(about.preparation_s)}, measuring {units.seconds(about.measuring_s)}"


def command(comparison: Comparison) -> str:
    """The command that repeats the run, for the families that changed; empty where a side has no name to give.

    A head that is the working tree needs no name.
    """
    words = []
    sides: tuple[SideName, ...] = ("base", "head")
    for name in sides:
        about = comparison.facts.side(name)
        if about is None:
            return ""
        if name == "head" and about.label == WORKING_TREE and (about.dirty or not about.sha):
            continue
        word = about.sha[:SHORT_SHA] or about.label
        if about.dirty or not SAFE_WORD.fullmatch(word) or word.startswith("-"):
            return ""
        words.append(word)
    end = "" if len(words) == len(sides) else "*"  # without it a pattern would be taken for the head
    telling = [row for row in comparison.rows if row.verdict in TELLING and not row.muted]
    families = list(dict.fromkeys(row.case.partition("[")[0].partition("/") for row in telling))
    patterns = list(dict.fromkeys(f"'{first}/**'" if slash else f"'{first}{end}'" for first, slash, _ in families))
    suite = f"--suite {comparison.facts.header.suite}"
    planted = planted_change(comparison)
    plant = [f"--plant '{case}={planted.fraction:g}'" for case in planted.cases[:1]] if planted else []
    narrowed = patterns if 0 < len(patterns) <= COMMAND_PATTERNS else [suite]
    return " ".join(["evenbench compare", *words, *narrowed, *plant])


def rounds(about: Facts) -> str:
    """Such as ``8 to 24 rounds``; empty where none was made."""
    if about.rounds is None:
        return ""
    low, high = about.rounds
    if not about.paired:
        return f"at least {low} {'launch' if low == 1 else 'launches'} a side"
    return units.count(high, "round") if low == high else f"{low} to {high} rounds"


def _second(found: SecondRun | None) -> str:
    """What a second run said of a row. May quote foreign text."""
    if found is None:
        return ""
    change = units.change(found.change, found.interval)
    if found.confirmed:
        return f"confirmed: {change}"
    said = ", ".join(part for part in (found.verdict, change if found.change is not None else "") if part)
    if found.cleared:
        return f"not confirmed: {said}"
    return f"neither confirmed nor cleared by the second run: {'; '.join(part for part in (said, found.doubt) if part)}"


def _shares(base: Times | None, head: Times | None) -> str:
    found: Sequence[float] = [side.share for side in (base, head) if side is not None and side.share is not None]
    return " → ".join(dict.fromkeys(units.share(share) for share in found))


def module(origin: SideModule) -> str:
    """Where a module of the project came from."""
    name = " ".join(filter(None, (origin.name, origin.version)))
    return f"{name} from {origin.path} ({units.count(origin.files, 'file')}, {origin.digest[:SHORT_SHA]})"


def modules(about: Facts) -> str:
    """Where the sides loaded the project's modules from, in a line; empty where none was loaded or it is not known."""
    parts = []
    for side in about.sides:
        shown = [module(origin) for origin in side.modules[:MODULES_SHOWN]]
        more = len(side.modules) - len(shown)
        if more:
            shown.append(f"{more} more")
        if shown:
            parts.append(f"{side.name} loads {', '.join(shown)}")
    return "; ".join(parts)
