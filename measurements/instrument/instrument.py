"""The figures about the instrument: subcommands of scripts/prove. Each prints its tables last.

This module says what each figure promises and how it is shown; `bias`, `costs` and `launches` measure.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from measurements import all_gpu as prove_all
from measurements.figures import Row, table
from measurements.instrument import bias as prove_bias
from measurements.instrument import launches as prove_launches
from measurements.parts import Found, Part, run_part

COST_LIMITS_S: Mapping[str, float] = MappingProxyType(
    {"wall": 60, "decode": 60, "span": 60, "flashinfer": 60, "nvbench": 60}
)
DELAYS_LIMIT_S = 60
LEAK_LIMIT_S = 120
WALL_MAX_MS = 40
RECORDS_MIN = 1e6  # a second
BUSY_MAX = 0.01
RESIDENT_MAX = 0.02
REPEAT_LAUNCHES = 20
MIB = 1 << 20
COSTS = "measurements.instrument.costs"  # started, not imported: it loads CUPTI
OURS = "evenbench, 200 samples"  # as `costs` names it

Figure = Callable[[argparse.Namespace], bool]


class Verbs(Protocol):
    """What `ArgumentParser.add_subparsers` gives."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Another subcommand."""


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommands to the grammar of scripts/prove."""
    for name, (figure, text) in FIGURES.items():
        verb = verbs.add_parser(name, parents=[common], help=text)
        verb.set_defaults(figure=figure)
        if name == "repeat":
            verb.add_argument("--launches", type=int, default=REPEAT_LAUNCHES)
        if name == "gpu-all":
            verb.add_argument("--only", nargs="*", metavar="STEP", help=f"of {', '.join(prove_all.STEPS)}")
            verb.add_argument("--budget", type=float, default=prove_all.BUDGET_S, metavar="S", help="seconds for all")


def bias(options: argparse.Namespace) -> bool:
    """Kernels that spin for a known time, and real ones beside Nsight Compute."""
    return prove_bias.bias(options.out)


def repeat(options: argparse.Namespace) -> bool:
    """The spread of locations between fresh launches."""
    return prove_launches.repeat(options.out, options.launches)


def unprivileged(options: argparse.Namespace) -> bool:
    """As another user without capabilities."""
    return prove_launches.unprivileged(options.out)


def everything(options: argparse.Namespace) -> bool:
    """All figures that need a GPU."""
    return prove_all.run_all(options.out, options.only, options.budget)


def cost(options: argparse.Namespace) -> bool:
    """What measuring costs. True where 200 samples, the start of a launch and decoding are as quick as promised."""
    parts = {name: run_part(COSTS, name, options.out / "cost", limit) for name, limit in COST_LIMITS_S.items()}
    try:
        start, in_time = prove_launches.start(options.out)
    except SystemExit as error:
        start, in_time = str(error), False
    walls, quick = wall_lines(parts)
    others, decoded = cost_lines(parts["decode"], parts["span"])
    kernel = parts["wall"].found.get("kernel_us")
    print(f"\nWall time for 200 cold samples of one kernel of {kernel:.2f} µs" if kernel else "")
    table(("timer", "wall time, ms", "times ours"), walls)
    table(("cost", "value"), [("launch start to first sample", start), *others])
    print("".join(f"\nWithout {part.missing}" for part in parts.values() if part.missing))
    return quick and decoded and in_time


def wall_lines(parts: Mapping[str, Part]) -> tuple[list[Row], bool]:
    """A row for each timer, and whether ours takes at most 40 ms."""
    walls: dict[str, float] = dict(parts["wall"].found.get("walls", {}))
    for name in ("flashinfer", "nvbench"):
        if "wall_s" in parts[name].found:
            walls[f"{name} (its defaults)"] = parts[name].found["wall_s"] * 1e3
    ours = walls.get(OURS)
    rows: list[Row] = [(name, f"{wall:.1f}", f"{wall / ours:.1f}" if ours else "") for name, wall in walls.items()]
    rows += [
        (name, parts[name].found["missing"], "") for name in ("flashinfer", "nvbench") if "missing" in parts[name].found
    ]
    return rows, ours is not None and ours <= WALL_MAX_MS


def cost_lines(decode: Part, span: Part) -> tuple[list[Row], bool]:
    """Rows about decoding and tracing, and whether decoding is as quick as promised."""
    rows: list[Row] = []
    rate = 0.0
    found = decode.found
    if found:
        kernels = found["kernels"]
        rows.append((f"`collect` of {kernels:,} kernels", f"{found['collect_s']:.3f} s"))
        rate = kernels / found["collect_s"]
        if "take_s" in found:
            rate = found["records"] / found["read_s"]
            rows.append((f"of it CUPTI's flush, with {found['records']:,} records", f"{found['take_s']:.3f} s"))
            rows.append(("of that reading them, in our callback", f"{found['read_s']:.3f} s"))
        rows.append(("records read a second", f"{rate / 1e6:.2f} M"))
    if span.found:
        plain, traced = span.found["untraced"], span.found["traced"]
        for what, key in (("on the host", "host_us"), ("on the device, between events", "device_us")):
            added = traced[key] - plain[key]
            rows.append((f"a three-kernel call {what}", f"{plain[key]:.1f} µs, traced {added:+.1f} µs"))
    return rows, rate >= RECORDS_MIN


def host_independence(options: argparse.Namespace) -> bool:
    """Delays between the launches of a call, and two ways to start a launch."""
    part = run_part(COSTS, "delays", options.out / "host-independence", DELAYS_LIMIT_S)
    try:
        equal = prove_launches.forked_and_plain(options.out)
    except SystemExit as error:
        print(error)
        equal = False
    rows, steady = delay_lines(part.found)
    table(("floats, three kernels", "delay, µs", "busy, µs", "latency, µs", "busy moves by"), rows)
    print(f"\nWithout {part.missing}" if part.missing else "")
    return equal and steady


def delay_lines(found: Found) -> tuple[list[Row], bool]:
    """A row for each size and delay, and whether busy time stays within 1 % while latency grows with the delay."""
    rows: list[Row] = []
    steady = bool(found)
    for size, lines in found.items():
        _, prompt, prompt_latency = lines[0]
        for delay, busy, latency in lines:
            moved = busy / prompt - 1
            rows.append((size, delay, f"{busy:.2f}", f"{latency:.2f}", f"{moved:+.2%}" if delay else ""))
            steady = steady and abs(moved) <= BUSY_MAX and (not delay or latency > prompt_latency)
    return rows, steady


def leak(options: argparse.Namespace) -> bool:
    """100,000 kernels in one process."""
    part = run_part(COSTS, "leak", options.out / "leak", LEAK_LIMIT_S)
    if part.missing:
        print(f"\nWithout {part.missing}")
        return False
    rows, sound = leak_lines(part.found)
    table(("100,000 kernels in one process", "value"), rows)
    return sound


def leak_lines(found: Found) -> tuple[list[Row], bool]:
    """What became of memory and samples; whether memory is flat and every sample accounted for."""
    resident: Sequence[int] = found["resident"]
    growth = resident[-1] / resident[0] - 1
    per_kernel = (statistics.fmean(resident[-5:]) - statistics.fmean(resident[:5])) / max(1, found["kernels"])
    segments = len(found["failed"])
    accounted = found["kept"] + found["rejected"] == found["asked"] and not segments
    rows: list[Row] = [
        ("kernels in kept samples", f"{found['kernels']:,}"),
        ("samples asked for, kept, rejected", f"{found['asked']:,}, {found['kept']:,}, {found['rejected']:,}"),
        ("segments measured again for lost records", found["retries"]),
        ("segments failed", f"{segments} {'; '.join(sorted(set(found['failed'])))[:300]}".strip()),
        ("resident memory after a tenth, at the end", f"{resident[0] / MIB:.0f} MiB, {resident[-1] / MIB:.0f} MiB"),
        ("growth", f"{growth:+.2%}, {per_kernel:.1f} bytes a kernel"),
    ]
    return rows, accounted and abs(growth) <= RESIDENT_MAX


FIGURES: Mapping[str, tuple[Figure, str]] = MappingProxyType(
    {
        "bias": (bias, "timers beside kernels of a known time, and beside Nsight Compute"),
        "repeat": (repeat, "how much locations vary between fresh launches"),
        "cost": (cost, "wall time of 200 samples, start of a launch, decoding, tracing"),
        "host-independence": (host_independence, "delays between launches of a call; forked and plain starts"),
        "leak": (leak, "100,000 kernels in one process: memory, and every sample accounted for"),
        "unprivileged": (unprivileged, "as user 10001 without capabilities; needs root and setpriv"),
        "gpu-all": (everything, "all of them, each with a time limit, tables at the end"),
    }
)
