"""Records → the words and numbers that every format shows. Plain text, unescaped: whoever renders it escapes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from runner.records import SideName

from . import units
from .compare import headline
from .measured import headline as report_headline
from .tables import ComparedRow, Comparison, Facts, MeasuredRow, Report, SideFacts, Times, Verdict

TELLING = ("failed", "wrong", "regressed", "inconclusive")  # verdicts that a developer wants to see again
SHORT_SHA = 7  # digits of a commit id that people recognise
COMMAND_PATTERNS = 3  # families named in the command that repeats a run
SAFE_WORD = re.compile(r"[A-Za-z0-9_./=,+-]+")  # what a shell takes as it is
WORKING_TREE = "working tree"  # label of a side for which no ref or directory was named
DIRTY = "uncommitted changes"

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
    share: str
    rate: str
    rounds: str
    notes: tuple[str, ...]


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
    said = (row.reason, *row.notes, row.muted, *row.warnings)
    return Cells(
        name=row.name,
        base=base,
        head=head,
        change=units.change(row.change, row.interval),
        verdict=row.verdict,
        muted=bool(row.muted),
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
        _rounds(about.rounds),
    ]
    return [part for part in parts if part]


def side(about: SideFacts | None) -> tuple[str, str]:
    """A side's short commit id, or its label where it has none; and what else there is to say of it."""
    if about is None:
        return "", ""
    short = about.sha[:SHORT_SHA] or about.label
    more = (about.label if about.sha else "", DIRTY if about.dirty else "")
    return short, ", ".join(part for part in more if part)


def shuffled(comparison: Comparison) -> str:
    """What the run proved about itself; empty where no row was judged."""
    found = comparison.shuffled
    if found is None:
        return ""
    return f"{found.draws} × {units.count(found.rows, 'row')} with shuffled labels: {found.flagged:,} flagged"


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
    return [*found, *comparison.facts.notes]


def reading(comparison: Comparison) -> list[str]:
    """How to read what the table holds: one sentence each; none about verdicts where no row was judged."""
    said = []
    if any(row.base or row.head for row in comparison.rows):
        said.append("base, head: the median over launches of each launch's (grouped) median time")
    if any(row.change is not None for row in comparison.rows):
        said.append(
            "change: the paired estimate over whole rounds, above 0 where head is slower, with its 95 % interval"
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
    return " ".join(["evenbench compare", *words, *(patterns if 0 < len(patterns) <= COMMAND_PATTERNS else [suite])])


def _rounds(rounds: tuple[int, int] | None) -> str:
    if rounds is None:
        return ""
    low, high = rounds
    return units.count(high, "round") if low == high else f"{low} to {high} rounds"


def _shares(base: Times | None, head: Times | None) -> str:
    found: Sequence[float] = [side.share for side in (base, head) if side is not None and side.share is not None]
    return " → ".join(units.share(share) for share in found)
