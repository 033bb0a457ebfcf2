"""What stands beside the times: generated texts that changed, and expectations, in words. Plain text, unescaped. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from evenbench.runner.records import Artifact, SideName

from ..units import count
from .outcome import UNMET, ComparedRow, Expected, Outcome, row_name

MET_MAX = 20  # lines of expectations that are met; of more it says how many
TOLD: Sequence[Literal["changed", "new", "stale"]] = ("changed", "new", "stale")  # artifacts that need a reader
DIGITS = 4  # of a figure beside what was expected
UNITS: Mapping[str, str] = MappingProxyType(
    {"tflops": "TFLOP/s", "bandwidth_tbs": "TB/s", "device_busy_ms": "ms"}
)  # by metric
WORDS: Mapping[Outcome, str] = MappingProxyType(
    {
        "worse": "worse than expected",
        "better": "better than expected",
        "missing": "expectation not met",
        "flaky": "as expected, flaky",
        "met": "as expected",
    }
)
ORDER: Sequence[Outcome] = (*UNMET, "flaky", "met")


@dataclass(frozen=True)
class Changed:
    """A text that is not as it was saved, or a stale copy: what to call it, and the lines of its diff. Foreign text."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Notes:
    """The notes that texts and expectations give to rows, sorted once."""

    artifacts: Mapping[str, tuple[str, ...]]
    expectations: Mapping[tuple[str, str], tuple[str, ...]]

    @classmethod
    def of(cls, artifacts: Sequence[Artifact], expectations: Sequence[Expected]) -> Notes:
        """From what a run tells: ``artifact changed`` for a case, ``worse than expected`` for a row, and the like."""
        by_case: dict[str, Counter[tuple[bool, str, str]]] = {}
        for each in artifacts:
            if each.status != "equal":
                key = (each.side != "head", each.status, each.side)
                by_case.setdefault(each.case, Counter())[key] += 1
        by_row: dict[tuple[str, str], dict[str, None]] = {}
        for told in expectations:
            if told.outcome != "skipped":
                by_row.setdefault((told.case, told.implementation), {})[WORDS[told.outcome]] = None
        return cls(
            {case: tuple(_artifacts(*key, seen[key]) for key in sorted(seen)) for case, seen in by_case.items()},
            {key: tuple(words) for key, words in by_row.items()},
        )

    def row(self, case: str, implementation: str) -> tuple[str, ...]:
        """Those of a row; most have none."""
        return self.artifacts.get(case, ()) + self.expectations.get((case, implementation), ())


def _artifacts(_elsewhere: bool, status: str, side: str, number: int) -> str:
    said = "artifact" if number == 1 else f"{number} artifacts"
    return f"{said} {status}{'' if side == 'head' else f' on {side}'}"


def noted(
    rows: Iterable[ComparedRow], artifacts: Sequence[Artifact], expectations: Sequence[Expected] = ()
) -> list[ComparedRow]:
    """The rows of a comparison, with what is to be noted of their texts and expectations."""
    notes = Notes.of(artifacts, expectations)
    found = ((row, notes.row(row.case, row.implementation)) for row in rows)
    return [replace(row, notes=(*row.notes, *more)) if more else row for row, more in found]


def changed(artifacts: Sequence[Artifact]) -> list[Changed]:
    """Those of head that need a reader, in order."""
    return [
        Changed(_title(each), tuple(each.diff.split("\n")) if each.diff else ())
        for each in artifacts
        if each.side == "head" and each.status != "equal"
    ]


def _title(each: Artifact) -> str:
    said = f"artifact {each.status}: {each.name}"
    return f"{said}, which no case gives any more" if each.status == "stale" else f"{said} of {each.case}"


def artifacts_line(artifacts: Sequence[Artifact], side: SideName = "head") -> str:
    """How many texts were held against their saved copies, and how many copies are stale; empty where there are none."""
    seen = Counter(each.status for each in artifacts if each.side == side)
    statuses: Sequence[Literal["changed", "new", "stale", "equal"]] = (*TOLD, "equal")
    told = ", ".join(f"{seen[status]:,} {status}" for status in statuses if seen[status])
    return f"artifacts against their saved copies: {told}" if told else ""


def headline(artifacts: Sequence[Artifact], expectations: Sequence[Expected] = ()) -> list[str]:
    """What a headline says of them: only what needs a reader."""
    statuses = Counter(each.status for each in artifacts if each.side == "head")
    said = [f"{count(statuses[status], 'artifact')} {status}" for status in TOLD if statuses[status]]
    outcomes = Counter(each.outcome for each in expectations)
    unmet = sum(outcomes[outcome] for outcome in UNMET)
    if unmet:
        said.append(f"{count(unmet, 'expectation')} not met")
    return [*said, *([f"{outcomes['flaky']:,} flaky"] if outcomes["flaky"] else [])]


def expectation_lines(expectations: Sequence[Expected]) -> list[str]:
    """A line for each that was judged, what needs a reader first, and how many were skipped, and why. May quote foreign text."""
    judged = [each for outcome in ORDER for each in expectations if each.outcome == outcome]
    met = [each for each in judged if each.outcome == "met"]
    quiet = len(met) > MET_MAX
    lines = [_line(each) for each in judged if not (quiet and each.outcome == "met")]
    if quiet:
        lines.append(f"{count(len(met), 'expectation')} met in the first attempt")
    skipped = Counter(each.reason for each in expectations if each.outcome == "skipped")
    return [*lines, *(f"{count(number, 'expectation')} skipped: {reason}" for reason, number in skipped.items())]


def unmet(expectations: Sequence[Expected], muted: Collection[str] = ()) -> bool:
    """Whether one that counts is not met."""
    return any(each.outcome in UNMET and each.case not in muted for each in expectations)


def _line(each: Expected) -> str:
    unit = UNITS.get(each.metric, "")
    figures = ", ".join("none" if value is None else f"{value:.{DIGITS}g}" for value in each.attempts)
    tries = f" in {len(each.attempts)} attempts" if len(each.attempts) > 1 else ""
    wanted = f"expected {each.value or 0:.{DIGITS}g} ± {each.tolerance:.2g} {unit}"
    said = f"{row_name(each.case, each.implementation)}: {WORDS[each.outcome]}: "
    said += f"{figures} {unit}{tries}, {wanted}" if any(value is not None for value in each.attempts) else wanted
    why = f"; {each.reason}" if each.reason else ""
    source = f" ({each.measured}, {each.by})" if each.outcome in UNMET else ""
    return f"{said}{why}{source}"
