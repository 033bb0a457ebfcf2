"""How far from the truth a timer reads: kernels that spin for a known time, and real ones beside Nsight Compute.

The figure `bias` of scripts/prove. Its parts run in processes of their own (`measurements.parts`), since two tools that use
CUPTI cannot share one, and what Triton's timers read must not suffer from ours.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NamedTuple

from evenbench.reports.statistics.location import grouped_median
from evenbench.runner.timing.cache import make_sweep
from evenbench.runner.timing.cupti.timer import CuptiTimer
from evenbench.runner.timing.protocol import Counts
from measurements.figures import Row, table
from measurements.instrument.peers import PEERS, Call, ask, sampled
from measurements.instrument.spin import Spin
from measurements.instrument.timers import NCU_CALLS, built, profile, profiled, profiled_kernels, split_calls
from measurements.parts import Found, Part, run_part, serve

LENGTHS_US = (2, 5, 20, 100)
FULL = 0  # blocks: one on each multiprocessor
GRIDS: Mapping[int, str] = MappingProxyType({1: "1 block", FULL: "full grid"})
SPINS = tuple((blocks, length) for blocks in GRIDS for length in LENGTHS_US)
REAL = (  # over 10 µs, and each at most two kernels, since Nsight Compute empties the cache between kernels as well
    "ops/add[dtype=float32,n=16777216]",
    "ops/rms_norm[cols=4096,dtype=bfloat16,rows=4096]",
    "ops/layer_norm[cols=8192,dtype=bfloat16,rows=4096]",
    "ops/softmax[cols=4096,dtype=bfloat16,rows=4096]",
    "ops/sdpa[batch=8,dim=64,dtype=bfloat16,heads=16,length=1024]",
    "ops/matmul[dtype=bfloat16,n=4096]",
)
COUNTS = Counts(warmup=20, samples=200)
NS = 1e-3  # microseconds
SLOPE_MAX = 0.005
DISTANCE_MAX = 0.02
OURS, NCU = "evenbench", "Nsight Compute"
OWN_PROCESS = ("flashinfer", "nvbench")
LIMITS_S: Mapping[str, float] = MappingProxyType(
    {
        "ours": 60,
        "triton": 60,
        "ncu": 120,
        "flashinfer": 60,
        "nvbench": 90,
    }  # seconds are usual, tens for the last three
)


class Fit(NamedTuple):
    """A straight line through readings over true times: the rest is scatter. In microseconds."""

    slope: float
    constant: float


def fit(readings: Mapping[float, float]) -> Fit:
    """Least squares through time → reading. Raises ValueError under two times."""
    line = statistics.linear_regression(list(readings), list(readings.values()))
    return Fit(line.slope, line.intercept)


def bias(out: Path) -> bool:
    """Measure, print both tables. True where ours has slope 1 and stands within 2 % of Nsight Compute."""
    parts = {name: run_part(__name__, name, out / "bias", limit) for name, limit in LIMITS_S.items()}
    spins, notes = readings_of(parts)
    lines, straight = offset_lines(spins)
    print("\nKernels that spin for a known time: by how many µs each timer reads more; the line through its readings.")
    table(("timer", "grid", *(f"{length} µs" for length in LENGTHS_US), "slope", "constant, µs"), lines)
    print("\n".join(["", *notes]))
    real, close = distance_lines(parts["ours"].found, parts["ncu"].found)
    if real:
        print(f"\nReal kernels, µs, by ours, by ours after zeroing a buffer instead of reading one, and by {NCU}, less")
        print("what it reads more a kernel than ours does where the kernels spin.")
        table(("case", "kernels", "ours", "write flush", NCU, "less offset", "ours off by", "write flush off by"), real)
    peers, rows = peer_lines(parts)
    if peers:
        print("\nThe same kernels by other timers, µs.")
        table(("case", *peers), rows)
    return straight and close


def readings_of(parts: Mapping[str, Part]) -> tuple[dict[str, list[float]], list[str]]:
    """Timer → readings of `SPINS`, and a line for each timer or part that gave none."""
    spins: dict[str, list[float]] = {}
    notes: list[str] = []
    for name, part in parts.items():
        if part.missing:
            notes.append(f"Without {part.missing}")
        for timer, answer in part.found.get("spin", {}).items():
            if "medians" in answer:
                spins[timer] = answer["medians"]
            else:
                notes.append(f"Without {timer}: {answer['missing']}")
        if "how" in part.found and name == "ours":
            notes.append(f"Spinning kernel: {part.found['how']}.")
    return spins, notes


def offset_lines(spins: Mapping[str, Sequence[float]]) -> tuple[list[Row], bool]:
    """A row for each timer and grid, and whether ours has slope 1."""
    lines: list[Row] = []
    slopes: list[float] = []
    for timer, medians in spins.items():
        for blocks, grid in GRIDS.items():
            reading = {float(length): us for (b, length), us in zip(SPINS, medians, strict=True) if b == blocks}
            slope, constant = fit(reading)
            offsets = (f"{us - length:+.2f}" for length, us in reading.items())
            lines.append((timer, grid, *offsets, f"{slope:.4f}", f"{constant:+.2f}"))
            if timer == OURS:
                slopes.append(slope)
    return lines, bool(slopes) and all(abs(slope - 1) <= SLOPE_MAX for slope in slopes)


def distance_lines(ours: Found, ncu: Found) -> tuple[list[Row], bool]:
    """A row for each real kernel, and whether ours stands close to Nsight Compute on all of them."""
    if not ours or not ncu:
        return [], False
    pairs = zip(ncu["spin"][NCU]["medians"], ours["spin"][OURS]["medians"], strict=True)
    offset = statistics.median(theirs - us for theirs, us in pairs)
    lines: list[Row] = []
    distances: list[float] = []
    for case, read, write, profiled_us, kernels in zip(
        REAL, ours["read"], ours["write"], ncu["real"], ncu["kernels"], strict=True
    ):
        true = profiled_us - offset * kernels
        distances.append(read / true - 1)
        figures = (f"{us:.2f}" for us in (read, write, profiled_us, true))
        lines.append((f"`{case}`", kernels, *figures, f"{distances[-1]:+.1%}", f"{write / true - 1:+.1%}"))
    return lines, all(abs(distance) <= DISTANCE_MAX for distance in distances)


def peer_lines(parts: Mapping[str, Part]) -> tuple[list[str], list[Row]]:
    """The peers that timed the real kernels, and a row for each kernel."""
    answers = {name: answer for part in parts.values() for name, answer in part.found.get("peers", {}).items()}
    medians = {name: answer["medians"] for name, answer in answers.items() if "medians" in answer}
    columns = zip(*medians.values(), strict=True)
    return list(medians), [
        (f"`{case}`", *(f"{us:.2f}" for us in row)) for case, row in zip(REAL, columns, strict=bool(medians))
    ]


def spin_calls() -> tuple[list[Call], str]:
    """The calls of `SPINS`, and how their kernel was loaded."""
    import torch

    spin = Spin()
    full = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return [spin.call(length * 1_000, blocks or full) for blocks, length in SPINS], spin.how


def part_ours() -> Found:
    """Our timer: the spinning kernels, and the real ones after either cache step."""
    calls, how = spin_calls()
    timer, sweep = CuptiTimer(), make_sweep("cold", "cuda")
    spins = [location(timer, sweep, call) for call in calls]
    write = write_flush(sweep.nbytes)
    real = [(location(timer, sweep, one.call), location(timer, write, one.call)) for one in built(REAL)]
    return {
        "how": how,
        "spin": {OURS: {"medians": spins}},
        "read": [read for read, _ in real],
        "write": [written for _, written in real],
    }


def location(timer: CuptiTimer, prepare: Call, call: Call) -> float:
    """The location of one launch, in microseconds."""
    segment = sampled(timer, prepare, call, COUNTS).segment
    return grouped_median(segment.device_busy_ns, timer.tick_ns) * NS


def write_flush(nbytes: int) -> Call:
    """The cache step of other harnesses: zero a buffer of as many bytes as ours reads."""
    import torch

    return torch.empty(nbytes, dtype=torch.int8, device="cuda").zero_


def part_triton() -> Found:
    """Timers that need no CUPTI, in one process."""
    return asked([name for name in PEERS if name not in OWN_PROCESS])


def part_flashinfer() -> Found:
    """Its timer registers CUPTI's callbacks, of which a process has one set."""
    return asked(["flashinfer"])


def part_nvbench() -> Found:
    """It takes over the whole process, and waits for ever for a call that allocates, as the real ones do."""
    return {"spin": {"nvbench": ask("nvbench", lambda: spin_calls()[0])}}


def asked(names: Sequence[str]) -> Found:
    """What these peers say of the spinning kernels and of the real ones."""
    return {
        "spin": {name: ask(name, lambda: spin_calls()[0]) for name in names},
        "peers": {name: ask(name, lambda: [one.call for one in built(REAL)]) for name in names},
    }


def part_ncu() -> Found:
    """Nsight Compute, which starts this script once more."""
    with TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "measurements.instrument.bias", "profiled", str(Path(folder, "unused.json"))]
        text = profiled(program, Path(folder, "ncu.csv"))
    calls = split_calls(profiled_kernels(text), (len(SPINS) + len(REAL)) * NCU_CALLS)
    groups = [calls[start : start + NCU_CALLS] for start in range(0, len(calls), NCU_CALLS)]
    medians = [statistics.median(sum(kernel.us for kernel in call) for call in group) for group in groups]
    kernels = [statistics.mode(len(call) for call in group) for group in groups]
    spins = len(SPINS)
    return {"spin": {NCU: {"medians": medians[:spins]}}, "real": medians[spins:], "kernels": kernels[spins:]}


def part_profiled() -> Found:
    """What runs under Nsight Compute."""
    profile(spin_calls()[0])
    profile(runnable.call for runnable in built(REAL))
    return {}


if __name__ == "__main__":
    sys.exit(
        serve(
            {
                "ours": part_ours,
                "triton": part_triton,
                "ncu": part_ncu,
                "flashinfer": part_flashinfer,
                "nvbench": part_nvbench,
                "profiled": part_profiled,
            }
        )
    )
