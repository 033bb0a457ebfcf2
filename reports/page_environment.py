"""What a run was made with, as a page lists it. Pure; quotes foreign text, unescaped."""

from __future__ import annotations

import json

from . import describe, units
from .tables import Comparison, Facts, Report, SideFacts


def sides(facts: Facts) -> str:
    """Such as ``base 1234567 → head 89abcde (uncommitted changes)``."""
    return " → ".join(describe.named(side) for side in facts.sides)


def lines(outcome: Comparison | Report) -> list[tuple[str, list[str]]]:
    """Labels, and what they stand for; none without."""
    facts, header = outcome.facts, outcome.facts.header
    patterns = f": {', '.join(header.patterns)}" if header.patterns else ""
    found = [
        ("run", [f"{header.run_id}, evenbench {header.verb}, begun {header.started}"]),
        ("suite", [f"{header.suite}{patterns}"]),
        ("plan", [f"{units.count(header.rounds, 'round')}, looks after {_listed(header.looks)}, seed {header.seed}"]),
        *((side.name, _side(side)) for side in facts.sides),
        ("device", [*facts.devices, *facts.uuids]),
        ("driver", [*facts.drivers]),
        ("timer", [describe.TIMERS.get(timer, timer) for timer in facts.timers]),
        ("cache", [*facts.caches]),
        ("image", [header.image] if header.image else []),
        ("evenbench", [" ".join(filter(None, (header.harness.version, header.harness.sha)))]),
        ("judged by", _judged_by(outcome) if isinstance(outcome, Comparison) else []),
    ]
    return [(label, texts) for label, texts in found if texts]


def settings(facts: Facts) -> list[str]:
    """The settings of the run, as JSON in lines."""
    return json.dumps(facts.header.settings, indent=1, ensure_ascii=False).splitlines()


def _side(side: SideFacts) -> list[str]:
    commit = " ".join(filter(None, (side.sha or side.label, f"({describe.DIRTY})" if side.dirty else "")))
    label = side.label if side.sha and side.label not in (".", side.name) else ""
    software = [f"{name} {each}" for name, found in (("python", side.python), ("torch", side.torch)) for each in found]
    return [text for text in (commit, label, *software) if text]


def _judged_by(comparison: Comparison) -> list[str]:
    judge = comparison.judged_by
    bounds = {name: units.setting(getattr(judge, name)) for name in ("min_effect", "equivalence", "family_error")}
    return [
        ", ".join(f"{name} {value}" for name, value in bounds.items()),
        f"fail_on {', '.join(judge.fail_on) or 'never'}",
    ]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
