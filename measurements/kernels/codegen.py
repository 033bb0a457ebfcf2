"""Generated kernels: results and times of the four schedules, their texts and machine code, and what was published.

`scripts/prove codegen` on a GPU; with --no-gpu only what a compiler tells of the saved texts.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from cases.codegen.passes import SCHEDULES
from evenbench.reports.statistics.location import grouped_median
from evenbench.runner.config import expectations
from measurements.figures import Events, Row, table
from measurements.instrument.launches import run_cli
from measurements.kernels.machine_code import MachineCode, compile_text
from measurements.parts import ROOT

LAUNCHES = 10
LIMIT_S = 300
WITHOUT_GPU = ("sm_80", "sm_90")
CASES = ROOT / "cases"
DENSE, BATCHED = "dense", "batch_matmul_nt"
BASELINE, PARTITIONING, PADDING, BOTH = SCHEDULES
VENDOR = "vendor"
GPUS: Mapping[str, str] = MappingProxyType(
    {"RTX 3090": "NVIDIA GeForce RTX 3090", "RTX 2080 Ti": "NVIDIA GeForce RTX 2080 Ti"}
)
# What bears a claim out. The published figures have a tolerance of 5 %.
TENFOLD = (5, 20)
TWO_AND_A_HALF = (1.8, 3.5)
NO_GAIN = (0, 1.05)
A_GAIN = (1.05, math.inf)
MORE = (1, math.inf)

CODE_HEAD = (
    "schedule",
    "characters",
    "lines",
    "compiled in, CPU",
    "registers",
    "spilled",
    "instructions",
    "predicated",
    "FFMA",
    "LDS",
    "branches",
)
TIME_HEAD = ("implementation", "busy, µs", "TFLOP/s", "speed-up", "of vendor", "check", *GPUS)
UNKNOWN = "–"

Texts = Mapping[str, str]  # schedule → text
Codes = Mapping[str, MachineCode]  # schedule → what became of it


class Verbs(Protocol):
    """What `ArgumentParser.add_subparsers` gives."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Another subcommand."""


@dataclass(frozen=True)
class Measured:
    """What a run found of a case.

    Args:
        flops: of one call.
        times_ns: implementation → median of its locations; those without one are absent.
        checks: implementation → `passed`, or what became of it.
    """

    flops: int
    times_ns: Mapping[str, float]
    checks: Mapping[str, str]

    def tflops(self, name: str) -> float:
        """The rate of an implementation; NaN where it was not measured."""
        return self.flops / self.times_ns[name] / 1e3 if name in self.times_ns else math.nan

    def gain(self, slow: str, fast: str) -> float:
        """How many times as fast the second is as the first."""
        return self.tflops(fast) / self.tflops(slow)


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommand to the grammar of scripts/prove."""
    verb = verbs.add_parser("codegen", parents=[common], help="generated kernels: results, times, texts, machine code")
    verb.add_argument("--launches", type=int, default=LAUNCHES)
    verb.add_argument("--no-gpu", action="store_true", help="only texts, compilation and machine code")
    verb.set_defaults(figure=codegen)


def codegen(options: argparse.Namespace) -> bool:
    """True where all eight kernels and the vendor's passed their checks; without a GPU where all texts compile."""
    texts = {name: saved_texts(name) for name in (DENSE, BATCHED)}
    if options.no_gpu:
        for architecture in WITHOUT_GPU:
            show_codes(texts, architecture)
        return True
    architecture = architecture_here()
    arguments = ["run", "codegen/*", "--suite", "codegen", "--in", ".", "--rounds", str(options.launches)]
    events = run_cli(arguments, options.out / "codegen", LIMIT_S)
    found = {name: measured(events, name) for name in texts}
    for name, of in found.items():
        print(f"\n{name}: medians of {options.launches} launches; on the RTX, published averages of TFLOP/s")
        table(TIME_HEAD, time_rows(of, published(name)))
    codes = show_codes(texts, architecture)
    print("\nWhat the publication claims")
    table(("claim", "published", "here", "reproduced"), claim_rows(found, texts, codes))
    return is_sound(events, found)


def show_codes(texts: Mapping[str, Texts], architecture: str) -> Mapping[str, Codes]:
    """Compile all texts for an architecture, and print what became of them."""
    codes = {name: compiled(of, architecture) for name, of in texts.items()}
    for name, of in texts.items():
        print(f"\n{name}: text and machine code for {architecture}")
        table(CODE_HEAD, code_rows(of, codes[name]))
    return codes


def is_sound(events: Events, found: Mapping[str, Measured]) -> bool:
    """Whether every implementation passed its check, and the texts that ran are the saved ones."""
    checks = [of.checks.get(name) for of in found.values() for name in (*SCHEDULES, VENDOR)]
    texts = [event["status"] for event in events if event["event"] == "artifact"]
    return set(checks) == {"passed"} and texts == ["equal"] * len(found) * len(SCHEDULES)


def architecture_here() -> str:
    """That of the GPU, such as `sm_90`."""
    try:
        from cuda.core import Device

        return f"sm_{Device().arch}"
    except Exception as error:  # noqa: BLE001 - whatever cuda-core raises, and it has many ways
        raise SystemExit(f"error: no GPU to ask: {error} (hint: --no-gpu compiles the texts all the same)") from None


def saved_texts(name: str) -> Texts:
    """The kernels of a workload, from their saved copies."""
    folder = CASES / "codegen" / "artifacts"
    return {schedule: (folder / f"{name}_{schedule}.cu").read_text(encoding="ascii") for schedule in SCHEDULES}


def compiled(texts: Texts, architecture: str) -> Codes:
    """Each text once, though two schedules may share one."""
    codes = {text: compile_text(text, architecture) for text in dict.fromkeys(texts.values())}
    return {schedule: codes[text] for schedule, text in texts.items()}


def measured(events: Events, name: str) -> Measured:
    """What the events of a run say of the case of a workload."""
    (case,) = (event for event in events if event["event"] == "case" and event["id"].startswith(f"codegen/{name}["))
    locations: dict[str, list[float]] = {}
    for event in events:
        if event["event"] == "measurement" and event["case"] == case["id"]:
            location = grouped_median(event["device_busy_ns"], event["tick_ns"])
            locations.setdefault(event["implementation"], []).append(location)
    return Measured(
        flops=case["work"]["flops"],
        times_ns={implementation: statistics.median(values) for implementation, values in locations.items()},
        checks={
            each["name"]: each["check"] if each["status"] == "ok" else f"{each['status']}: {each['reason']}"
            for each in case["implementations"]
        },
    )


def published(name: str) -> Mapping[str, Mapping[str, float]]:
    """GPU → schedule → TFLOP/s, as the cases' expectations have them."""
    text = (CASES / expectations.FILE).read_text(encoding="utf-8")
    known = [
        each
        for each in expectations.parse(text, expectations.FILE)
        if each.case.startswith(f"codegen/{name}[") and each.metric == "tflops"
    ]
    return {
        short: {each.implementation: each.value for each in known if each.device == gpu} for short, gpu in GPUS.items()
    }


def code_rows(texts: Texts, codes: Codes) -> list[Row]:
    """A row for each schedule."""
    rows: list[Row] = []
    for schedule, text in texts.items():
        code, counts = codes[schedule], codes[schedule].instructions
        told = (
            (counts.total, counts.predicated, counts.ffma, counts.lds, counts.branches)
            if counts is not None
            else (UNKNOWN,) * 5
        )
        spilled = UNKNOWN if code.spilled is None else f"{code.spilled} B" if code.spilled else "none"
        registers = UNKNOWN if code.registers is None else code.registers
        rows.append((schedule, len(text), text.count("\n"), f"{code.compile_s:.2f} s", registers, spilled, *told))
    return rows


def time_rows(of: Measured, known: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """A row for each implementation, the published figures beside it."""
    rows: list[Row] = []
    for name in (*SCHEDULES, VENDOR):
        figures: Row = (UNKNOWN,) * 4
        if name in of.times_ns:
            vendor = of.gain(VENDOR, name)
            share = UNKNOWN if math.isnan(vendor) else f"{vendor:.0%}"
            figures = (
                f"{of.times_ns[name] / 1e3:.1f}",
                f"{of.tflops(name):.2f}",
                times_as_fast(of.gain(BASELINE, name)),
                share,
            )
        older = [f"{known[gpu][name]:g}" if name in known[gpu] else UNKNOWN for gpu in known]
        rows.append((name, *figures, of.checks.get(name, UNKNOWN), *older))
    return rows


def claim_rows(found: Mapping[str, Measured], texts: Mapping[str, Texts], codes: Mapping[str, Codes]) -> list[Row]:
    """Each claim: what was published, what was found here, and whether that bears it out."""
    dense, batched, text, code = found[DENSE], found[BATCHED], texts[DENSE], codes[DENSE]
    partitioning, padding = dense.tflops(PARTITIONING), dense.tflops(PADDING)
    better = PARTITIONING if partitioning > padding else PADDING
    same = texts[BATCHED][PARTITIONING] == texts[BATCHED][BASELINE]

    def gains(claim: str, name: str, slow: str, fast: str, bounds: tuple[float, float]) -> Row:
        here = (dense if name == DENSE else batched).gain(slow, fast)
        known = published(name)
        older = [
            f"{known[gpu][fast] / known[gpu][slow]:.2f} × ({gpu})" for gpu in known if {slow, fast} <= known[gpu].keys()
        ]
        return claim, ", ".join(older) or UNKNOWN, times_as_fast(here), said(here, bounds)

    def grows(claim: str, there: float, before: float) -> Row:
        return claim, "yes", f"{there / before:.2f} ×", said(there / before, MORE)

    return [
        gains("dense: partitioning alone, about tenfold", DENSE, BASELINE, PARTITIONING, TENFOLD),
        gains("dense: padding alone, about tenfold", DENSE, BASELINE, PADDING, TENFOLD),
        gains(f"dense: both gain nothing over {better}", DENSE, better, BOTH, NO_GAIN),
        gains("dense: partitioning can beat padding", DENSE, PADDING, PARTITIONING, A_GAIN),
        grows("dense: partitioning lengthens the text", len(text[PARTITIONING]), len(text[BASELINE])),
        grows("dense: and its compilation", code[PARTITIONING].compile_s, code[BASELINE].compile_s),
        ("batched: partitioning cannot help", "yes", "same text" if same else "another text", "yes" if same else "no"),
        gains("batched: padding, about 2.5 times", BATCHED, BASELINE, PADDING, TWO_AND_A_HALF),
    ]


def times_as_fast(gain: float) -> str:
    """A quotient of rates."""
    return UNKNOWN if math.isnan(gain) else f"{gain:.2f} ×"


def said(found: float, bounds: tuple[float, float]) -> str:
    """Whether a figure bears a claim out."""
    if math.isnan(found):
        return "not measured"
    return "yes" if bounds[0] <= found <= bounds[1] else "no"
