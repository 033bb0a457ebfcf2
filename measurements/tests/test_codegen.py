"""The figures about generated kernels: what of them can be wrong without a GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cases.codegen.passes import SCHEDULES
from measurements import figures as prove_figures
from measurements.kernels import codegen as prove_codegen
from measurements.kernels import machine_code
from measurements.kernels.codegen import BATCHED, DENSE, Measured
from measurements.kernels.machine_code import Instructions, MachineCode

ROOT = Path(__file__).parents[2]
ALL = (*SCHEDULES, "vendor")
NVDISASM = """	.headerflags	@"EF_CUDA_SM90"
.text.dense:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P1 BRA `(.L_x_1) ;
        /*0020*/                   LDS.128 R4, [R2] ;
        /*0030*/               @P0 FFMA R7, R4, R5, R7 ;
        /*0040*/             @!UP2 UIADD3 UR4, UR4, 0x1, URZ ;
.L_x_1:
        /*0050*/                   EXIT ;
        /*0060*/                   BRA `(.L_x_1);
"""
CUOBJDUMP = """		Function : dense
        /*0000*/                   LDC R1, c[0x0][0x28] ;             /* 0x00000a00ff017b82 */
                                                                      /* 0x000fe20000000800 */
        /*0010*/              @!P1 BRA 0x50 ;                         /* 0x0000000000009947 */
        /*0020*/                   LDS.128 R4, [R2] ;                 /* 0x0000000000009947 */
        /*0030*/               @P0 FFMA R7, R4, R5, R7 ;              /* 0x0000000000009947 */
        /*0040*/             @!UP2 UIADD3 UR4, UR4, 0x1, URZ ;        /* 0x0000000000009947 */
        /*0050*/                   EXIT ;                             /* 0x000000000000794d */
        /*0060*/                   BRA 0x60;                          /* 0x0000000000007947 */
"""


@pytest.mark.parametrize("listing", [NVDISASM, CUOBJDUMP], ids=["nvdisasm", "cuobjdump"])
def test_instructions_are_counted_in_either_listing(listing: str) -> None:
    assert machine_code.counted(listing) == Instructions(total=7, predicated=3, ffma=1, lds=1, branches=2)


def events(times_us: Mapping[str, Mapping[str, float]], check: str = "passed") -> list[dict[str, Any]]:
    """A run of two launches, of which one was slower."""
    made: list[dict[str, Any]] = []
    for name, times in times_us.items():
        case = f"codegen/{name}[a=1]"
        found = [{"name": each, "status": "ok", "check": check, "reason": ""} for each in times]
        made.append({"event": "case", "id": case, "work": {"flops": 10**9}, "implementations": found})
        for implementation, time in times.items():
            for factor in (1.0, 1.2):
                busy = [int(time * factor * 1e3)] * 3
                made.append(
                    {"event": "measurement", "case": case, "implementation": implementation}
                    | {"device_busy_ns": busy, "tick_ns": 1}
                )
        made += [{"event": "artifact", "status": "equal"}] * 4
    return made


TIMES = dict(zip(ALL, (1000.0, 100.0, 80.0, 80.0, 40.0), strict=True))
BATCHED_TIMES = dict(zip(ALL, (250.0, 250.0, 100.0, 100.0, 50.0), strict=True))


def test_a_run_becomes_rows_with_rates_and_what_was_published() -> None:
    found = prove_codegen.measured(events({DENSE: TIMES}), DENSE)
    rows = prove_codegen.time_rows(found, prove_codegen.published(DENSE))
    assert len(prove_codegen.TIME_HEAD) == len(rows[0])
    assert rows[0] == ("baseline", "1100.0", "0.91", "1.00 ×", "4%", "passed", "0.98", "0.42")
    assert rows[2] == ("local_padding", "88.0", "11.36", "12.50 ×", "50%", "passed", "11.6", "5.27")
    assert rows[4] == ("vendor", "44.0", "22.73", "25.00 ×", "100%", "passed", "–", "–")


def test_the_published_figures_are_those_of_the_publication() -> None:
    assert prove_codegen.published(DENSE) == {
        "RTX 3090": dict(zip(SCHEDULES, (0.98, 11.2, 11.6, 11.0), strict=True)),
        "RTX 2080 Ti": {"baseline": 0.42, "loop_partitioning": 5.98, "local_padding": 5.27},
    }
    assert prove_codegen.published(BATCHED) == {
        "RTX 3090": {"baseline": 3.5, "local_padding": 8.7},
        "RTX 2080 Ti": {"baseline": 1.8, "local_padding": 5.5},
    }


def claims(dense: Mapping[str, float], batched: Mapping[str, float]) -> dict[str, tuple[object, ...]]:
    made = events({DENSE: dense, BATCHED: batched})
    found = {name: prove_codegen.measured(made, name) for name in (DENSE, BATCHED)}
    texts = {name: prove_codegen.saved_texts(name) for name in (DENSE, BATCHED)}
    code = {
        schedule: MachineCode(1.0 + index, 100, 0, None) for index, schedule in enumerate(SCHEDULES)
    }  # partitioning compiles twice as long
    return {str(row[0]): row[1:] for row in prove_codegen.claim_rows(found, texts, {DENSE: code, BATCHED: code})}


def test_each_claim_is_held_against_its_figure() -> None:
    found = claims(TIMES, BATCHED_TIMES)
    assert found["dense: partitioning alone, about tenfold"] == (
        "11.43 × (RTX 3090), 14.24 × (RTX 2080 Ti)", "10.00 ×", "yes",
    )  # fmt: skip
    assert found["dense: both gain nothing over local_padding"] == ("0.95 × (RTX 3090)", "1.00 ×", "yes")
    assert found["dense: partitioning can beat padding"][1:] == ("0.80 ×", "no")
    assert found["dense: partitioning lengthens the text"] == ("yes", "3.02 ×", "yes")
    assert found["dense: and its compilation"] == ("yes", "2.00 ×", "yes")
    assert found["batched: partitioning cannot help"] == ("yes", "same text", "yes")
    assert found["batched: padding, about 2.5 times"] == (
        "2.49 × (RTX 3090), 3.06 × (RTX 2080 Ti)", "2.50 ×", "yes",
    )  # fmt: skip


def test_what_does_not_reproduce_or_was_not_measured_says_so() -> None:
    found = claims(dict.fromkeys(ALL, 100.0) | {"loop_partitioning": 90.0, "padding_and_partitioning": 50.0}, {})
    assert found["dense: padding alone, about tenfold"][1:] == ("1.00 ×", "no")
    assert found["dense: both gain nothing over loop_partitioning"][1:] == ("1.80 ×", "no")
    assert found["dense: partitioning can beat padding"][1:] == ("1.11 ×", "yes")
    assert found["batched: padding, about 2.5 times"][1:] == ("–", "not measured")


def test_only_a_run_that_checked_everything_is_sound() -> None:
    both = {DENSE: TIMES, BATCHED: BATCHED_TIMES}

    def sound(made: list[dict[str, Any]]) -> bool:
        return prove_codegen.is_sound(made, {name: prove_codegen.measured(made, name) for name in both})

    assert sound(events(both))
    assert not sound(events(both, check="unchecked"))
    assert not sound(events({**both, BATCHED: {name: BATCHED_TIMES[name] for name in SCHEDULES}}))
    changed = events(both)
    changed[-1]["status"] = "changed"
    assert not sound(changed)


def test_a_row_without_disassembler_or_times_has_dashes() -> None:
    texts = dict.fromkeys(SCHEDULES, "a\nb\n")
    code = MachineCode(0.5, 128, 16, None)
    (row, *_) = prove_codegen.code_rows(texts, dict.fromkeys(SCHEDULES, code))
    assert row == ("baseline", 4, 2, "0.50 s", 128, "16 B", *["–"] * 5)
    assert len(row) == len(prove_codegen.CODE_HEAD)
    counted = MachineCode(0.5, 128, 0, Instructions(900, 100, 256, 64, 2))
    (row, *_) = prove_codegen.code_rows(texts, dict.fromkeys(SCHEDULES, counted))
    assert row[5:] == ("none", 900, 100, 256, 64, 2)
    nothing = Measured(1, {}, {"baseline": "failed: no GPU"})
    assert prove_codegen.time_rows(nothing, {}) == [
        ("baseline", *["–"] * 4, "failed: no GPU"), *((name, *["–"] * 5) for name in ALL[1:]),
    ]  # fmt: skip
    assert math.isnan(nothing.gain("baseline", "vendor"))


def test_the_whole_figure_prints_its_tables_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []
    both = {DENSE: dict(TIMES), BATCHED: dict(BATCHED_TIMES)}

    def run_cli(arguments: list[str], folder: Path, limit_s: float) -> list[dict[str, Any]]:
        ran.append(arguments)
        assert folder == tmp_path / "codegen"
        return events(both)

    monkeypatch.setattr(prove_codegen, "run_cli", run_cli)
    monkeypatch.setattr(prove_codegen, "architecture_here", lambda: "sm_90")
    monkeypatch.setattr(prove_codegen, "compile_text", lambda text, arch: MachineCode(len(text) / 1e4, 128, 0, None))
    options = prove_figures.parser().parse_args(["codegen", "--launches", "12", "--out", str(tmp_path)])
    assert options.figure(options) is True
    assert ran == [["run", "codegen/*", "--suite", "codegen", "--in", ".", "--rounds", "12"]]
    printed = capsys.readouterr().out
    titles = [line for line in printed.splitlines() if line and not line.startswith("|")]
    assert titles == [
        "dense: medians of 12 launches; on the RTX, published averages of TFLOP/s",
        "batch_matmul_nt: medians of 12 launches; on the RTX, published averages of TFLOP/s",
        "dense: text and machine code for sm_90",
        "batch_matmul_nt: text and machine code for sm_90",
        "What the publication claims",
    ]
    assert "| batched: padding, about 2.5 times | 2.49 × (RTX 3090), 3.06 × (RTX 2080 Ti) | 2.50 × | yes |" in printed
    del both[BATCHED]["vendor"]
    assert options.figure(options) is False


def test_the_figure_has_a_place_in_the_measurements() -> None:
    options = prove_figures.parser().parse_args(["codegen", "--no-gpu"])
    assert (options.figure, options.launches) == (prove_codegen.codegen, 10)
    text = (ROOT / "docs/measurements.md").read_text(encoding="utf-8")
    assert re.search(r"^    scripts/prove codegen\n", text, re.MULTILINE)
