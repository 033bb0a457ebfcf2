"""The expectations of a run: read from the side's tree, told in its file, and what is odd about them."""

from __future__ import annotations

import difflib
import platform
from collections.abc import Collection, Sequence
from pathlib import Path

from ..config.expectations import FILE, Expectation, parse
from ..records import ExpectationEvent
from ..sides import Checkout, side_config_text

CPUINFO = Path("/proc/cpuinfo")
MODEL = "model name"  # of x86; other CPUs have none
ODD_MAX = 5  # unknown cases that are named


def expectations_of(checkouts: Sequence[Checkout], cases: str) -> tuple[Expectation, ...]:
    """Those of base's cases directory where it has some, so that a change cannot loosen its own judge; else of head's.

    Raises ConfigError.
    """
    for checkout in checkouts:
        text = side_config_text(checkout, cases, FILE)
        if text is not None:
            return parse(text, f"{cases}/{FILE} of {checkout.name}")
    return ()


def events_of(expectations: Sequence[Expectation], cases: Collection[str]) -> list[ExpectationEvent]:
    """An `expectation` line for each that is about one of these cases."""
    return [ExpectationEvent(**vars(each)) for each in expectations if each.case in cases]


def unknown_cases(expectations: Sequence[Expectation], known: Collection[str]) -> list[str]:
    """A line for each case that expectations are about and that is not there: it was renamed, or never was."""
    strangers = list(dict.fromkeys(each.case for each in expectations if each.case not in known))
    lines = []
    for case in strangers[:ODD_MAX]:
        near = difflib.get_close_matches(case, list(known), 1)
        lines.append(f"{FILE}: there is no case {case}" + (f"; did you mean {near[0]}?" if near else ""))
    more = len(strangers) - ODD_MAX
    return [*lines, f"{FILE}: nor {more} more"] if more > 0 else lines


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """The model of this machine's CPU, by which expectations of cases on the CPU are found; never empty."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2] for line in lines if line.startswith(MODEL))
    return " ".join(next(named, "").split()) or platform.machine() or "cpu"
