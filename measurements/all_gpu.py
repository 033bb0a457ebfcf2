"""All figures that need a GPU, one after the other: `scripts/prove gpu-all`. Each has a time limit of its own.

What a step prints stands in `DIR/STEP.txt`, all tables together in `DIR/all.md`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from measurements.parts import run_logged

TWENTY_CASES = (
    "ops/cross_entropy",
    "ops/layer_norm",
    "ops/rms_norm",
    "ops/rotary",
    "ops/sdpa",
    "ops/softmax",
    "ops/transpose[dtype=float32,n=2048]",
    "ops/transpose[dtype=float32,n=4096]",
)

BUDGET_S = 540.0  # in all, however long the steps may take by themselves
TAIL = 1_500  # characters of a figure that printed no table
LEAD = 2  # lines before a table: what it shows, and an empty one


class Step(NamedTuple):
    """Arguments of scripts/prove, and after how many seconds the step is given up."""

    arguments: tuple[str, ...]
    limit_s: float


# What is quick and what others read from comes first: a machine that is taken away early has then shown most.
STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "self": Step(("self",), 120),
        "start": Step(("start",), 20),
        "self-20": Step(("self", *TWENTY_CASES), 90),
        "repeat": Step(("repeat",), 120),
        "bias": Step(("bias",), 240),
        "cost": Step(("cost",), 180),
        "host-independence": Step(("host-independence",), 180),
        "leak": Step(("leak",), 90),
        "timers": Step(("timers",), 120),
        "planted": Step(("planted",), 240),
        "unprivileged": Step(("unprivileged",), 150),
    }
)


def run_all(out: Path, only: Sequence[str] | None, budget_s: float = BUDGET_S) -> bool:
    """Run the steps within a time for all; prints how each went, and all tables at the end. True where all held."""
    if unknown := set(only or ()) - set(STEPS):
        raise SystemExit(f"error: no step {', '.join(sorted(unknown))} (hint: {', '.join(STEPS)})")
    out.mkdir(parents=True, exist_ok=True)
    outcomes: list[tuple[str, float, str]] = []
    started = time.perf_counter()
    for name in only or STEPS:
        step = STEPS[name]
        folder = out / "self-20" if name == "self-20" else out
        command = [sys.executable, "-m", "measurements", *step.arguments, "--out", str(folder)]
        began = time.perf_counter()
        limit = min(step.limit_s, max(1.0, started + budget_s - began))
        reason = run_logged(command, out / f"{name}.txt", round(limit, 1))
        wall = time.perf_counter() - began
        outcomes.append((name, wall, reason))
        print(f"{name}: {wall:.0f} s, {reason or 'held'}", flush=True)
    texts = {name: (out / f"{name}.txt").read_text(encoding="utf-8", errors="replace") for name, _, _ in outcomes}
    summary = "".join(f"## {name}\n\n{tables_of(text)}\n\n" for name, text in texts.items())
    summary += "## all\n\n| step | wall time | outcome |\n| --- | --: | --- |\n"
    for name, wall, reason in outcomes:
        summary += f"| {name} | {wall:.0f} s | {reason.partition(':')[0] or 'held'} |\n"
    summary += f"\n{sum(wall for _, wall, _ in outcomes):.0f} s in all\n"
    (out / "all.md").write_text(summary, encoding="utf-8")
    print(f"\n{summary}", flush=True)
    return not any(reason for _, _, reason in outcomes)


def tables_of(text: str) -> str:
    """What a figure printed from its first table on, with the lines above; the end of it where it printed none."""
    lines = text.strip().splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("|")), None)
    if first is None:
        return text.strip()[-TAIL:]
    return "\n".join(lines[max(0, first - LEAD) :]).strip()
