"""The measuring commands as far as the default run goes: their grammar, and the commands that the page names.

Their own tests are in measurements/tests: `python -m pytest measurements`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from measurements.figures import parser

ROOT = Path(__file__).parents[1]


def figures() -> set[str]:
    [verbs] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return set(verbs.choices)


def test_every_command_of_the_page_is_a_figure() -> None:
    page = (ROOT / "docs/measurements.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^    scripts/prove ([a-z-]+)", page, re.MULTILINE))
    assert named
    assert named <= figures()


def test_every_figure_has_a_help() -> None:
    assert {"self", "timers", "verdicts", "scale", "faults"} <= figures()
    assert "FIGURE" in parser().format_help()
