"""Medians of seven kernels by three instruments, side by side. Started by `scripts/prove timers`.

Nsight Compute has to start the process that it looks into, so this script starts itself under it (`--under-ncu`).
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from evenbench.runner.case.discover import load, points_of
from evenbench.runner.timing.cache import make_sweep
from evenbench.runner.timing.cupti.timer import CuptiTimer
from evenbench.runner.timing.protocol import Counts, measure
from evenbench.runner.worker.launch.bench import MAIN, Runnable, open_case

KERNELS = (
    "ops/add[dtype=float32,n=1048576]",
    "ops/rms_norm[cols=4096,dtype=bfloat16,rows=4096]",
    "ops/softmax[cols=4096,dtype=bfloat16,rows=4096]",
    "ops/sum[dtype=float32,n=67108864]",
    "ops/sdpa[batch=8,dim=64,dtype=bfloat16,heads=16,length=1024]",
    "ops/matmul[dtype=bfloat16,n=4096]",
    "ops/silu_mul[dtype=float32,n=1048576]",  # three kernels
)
COUNTS = Counts(warmup=20, samples=200)
NCU_CALLS = 20
NCU_WARMUP = 3
NCU_OFFSET_US = 0.95  # a kernel, by which Nsight Compute reads more than CUPTI, from kernels that spin for a known time
NCU_TIMEOUT_S = 400
METRIC = "gpu__time_duration.sum"
NANOSECONDS = ("ns", "nsecond")  # base unit of the metric; its spelling depends on the version


@dataclass
class Line:
    """One kernel: medians in microseconds, wall time of each method in seconds."""

    case: str
    n_kernels: int = 0
    ours: float = 0.0
    ours_s: float = 0.0
    do_bench: float = 0.0
    do_bench_s: float = 0.0
    ncu: float | None = None
    ncu_kernels: int | None = None


class Profiled(NamedTuple):
    """One kernel as Nsight Compute saw it."""

    name: str
    us: float


def main() -> int:
    """Measure with each instrument, print the table; under Nsight Compute, only make the calls."""
    parser = argparse.ArgumentParser(prog="scripts/prove timers")
    parser.add_argument("--out", type=Path, default=Path("out/prove/timers"))
    parser.add_argument("--under-ncu", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.under_ncu:
        make_profiled_calls()
        return 0
    import torch

    if not torch.cuda.is_available():
        print("error: torch sees no CUDA device", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [Line(case) for case in KERNELS]
    by_do_bench(lines)  # first, while nothing in this process has touched CUPTI
    by_ours(lines)
    torch.cuda.empty_cache()
    began = time.perf_counter()
    missing = by_ncu(lines, options.out)
    ncu_s = time.perf_counter() - began
    (options.out / "timers.json").write_text(json.dumps([asdict(line) for line in lines], indent=1), encoding="utf-8")
    show(lines, torch.cuda.get_device_name(), missing, ncu_s)
    return 0


def built(cases: Sequence[str] = KERNELS) -> Iterator[Runnable]:
    """Cases of this project in their order, each built when its turn comes."""
    points = {point.id: point for point in points_of(load(Path(__file__).resolve().parents[2] / "cases"))}
    for case in cases:
        yield open_case(points[case], "cuda").make(MAIN)


def by_do_bench(lines: Sequence[Line]) -> None:
    """The medians of `triton.testing.do_bench`, with its own warm-up, counts and cache step."""
    from triton.testing import do_bench

    for line, runnable in zip(lines, built(), strict=True):
        began = time.perf_counter()
        line.do_bench = do_bench(runnable.call, return_mode="median") * 1e3
        line.do_bench_s = time.perf_counter() - began


def by_ours(lines: Sequence[Line]) -> None:
    """The medians of our timer, as a launch takes them: cold by a read sweep before every sample."""
    timer, sweep = CuptiTimer(), make_sweep("cold", "cuda")
    for line, runnable in zip(lines, built(), strict=True):

        def prepare(runnable: Runnable = runnable) -> None:
            runnable.restore()
            sweep()

        began = time.perf_counter()
        measured = measure(timer, prepare, runnable.call, COUNTS, deadline_ns=None, clock=time.perf_counter_ns)
        line.ours_s = time.perf_counter() - began
        line.ours = statistics.median(measured.segment.device_busy_ns) / 1e3
        line.n_kernels = statistics.mode(measured.segment.n_kernels or [0])


def by_ncu(lines: Sequence[Line], out: Path) -> str:
    """The medians of Nsight Compute, which empties the cache before every kernel. Returns why there are none."""
    try:
        text = profiled([sys.executable, "-m", "measurements.instrument.timers", "--under-ncu"], out / "ncu.csv")
        calls = split_calls(profiled_kernels(text), len(lines) * NCU_CALLS)
    except ValueError as error:
        return str(error)
    for number, line in enumerate(lines):
        own = calls[number * NCU_CALLS : (number + 1) * NCU_CALLS]
        line.ncu = statistics.median(sum(kernel.us for kernel in call) for call in own)
        line.ncu_kernels = statistics.mode(len(call) for call in own)
    return ""


def profiled(program: Sequence[str], log: Path) -> str:
    """What Nsight Compute writes about a program, as raw CSV. Raises ValueError where it does not get that far."""
    ncu = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if ncu is None:
        raise ValueError("ncu is not installed here")
    log.unlink(missing_ok=True)
    command = [ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--metrics", METRIC, "--log-file", str(log), "--force-overwrite"]
    try:
        done = subprocess.run(
            [*command, *program], check=False, capture_output=True, text=True, timeout=NCU_TIMEOUT_S
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(f"ncu took over {NCU_TIMEOUT_S} s") from None
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if done.returncode != 0:
        said = f"{text}\n{done.stdout}\n{done.stderr}"[-1_500:].strip()
        raise ValueError(f"ncu ended with code {done.returncode}: {said}")
    return text


def make_profiled_calls() -> None:
    """What runs under Nsight Compute."""
    profile(runnable.call for runnable in built())


def profile(calls: Iterable[Callable[[], object]]) -> None:
    """Each call so many times, a marker kernel before each, which tells them apart in Nsight Compute's output."""
    import torch

    for call in calls:
        for _ in range(NCU_WARMUP):
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for _ in range(NCU_CALLS):
            torch.cuda._sleep(1)  # noqa: SLF001 - a kernel that no case launches
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def profiled_kernels(text: str) -> list[Profiled]:
    """The kernels in Nsight Compute's raw CSV page, in the order of their launches. Raises ValueError."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"ncu profiled nothing: {text[-500:].strip()}")
    table = csv.DictReader(line for line in lines[start:] if line.startswith('"'))
    unit = next(table)[METRIC]  # the row below the names holds the units
    if unit not in NANOSECONDS:
        raise ValueError(f"ncu gives times in the unknown unit {unit!r}")
    return [Profiled(row["Kernel Name"], float(row[METRIC].replace(",", "")) / 1e3) for row in table]


def split_calls(kernels: Sequence[Profiled], expected: int) -> list[list[Profiled]]:
    """The kernels of each call: the first one of all is the marker, which stands before every call."""
    calls: list[list[Profiled]] = []
    for kernel in kernels:
        if kernel.name == kernels[0].name:
            calls.append([])
        else:
            calls[-1].append(kernel)
    if len(calls) != expected or not all(calls):
        raise ValueError(f"ncu saw {len(calls)} calls, {sum(map(bool, calls))} of them with kernels, not {expected}")
    return calls


def show(lines: Sequence[Line], device: str, missing: str, ncu_s: float) -> None:
    """Print the table and how to read it."""
    print(f"\n{device}: median µs of {COUNTS.samples} samples (ours), of do_bench's own number, of {NCU_CALLS} (ncu)\n")
    print(
        "| case | kernels | ours | do_bench | ncu | ours/do_bench | ours/ncu | ours/(ncu − offset) | s ours | s do_bench |"
    )
    print("| --- |" + " --: |" * 9)
    for line in lines:
        ncu, of_ncu, of_corrected = "", "", ""
        if line.ncu is not None and line.ncu_kernels is not None:
            ncu = f"{line.ncu:.2f}" + (f" ({line.ncu_kernels} kernels)" if line.ncu_kernels != line.n_kernels else "")
            of_ncu = f"{line.ours / line.ncu:.3f}"
            of_corrected = f"{line.ours / (line.ncu - NCU_OFFSET_US * line.ncu_kernels):.3f}"
        medians = f"{line.n_kernels} | {line.ours:.2f} | {line.do_bench:.2f} | {ncu}"
        ratios = f"{line.ours / line.do_bench:.3f} | {of_ncu} | {of_corrected}"
        print(f"| `{line.case}` | {medians} | {ratios} | {line.ours_s:.2f} | {line.do_bench_s:.2f} |")
    print(f"\nWall time of ncu: {ncu_s:.1f} s for all." if not missing else f"\nWithout Nsight Compute: {missing}")
    print(
        f"ncu stands about {NCU_OFFSET_US} µs a kernel above CUPTI, whatever the kernel's length (offset), and empties the\n"
        "cache before every kernel, also between those of one call, which then find nothing of each other's results."
    )


if __name__ == "__main__":
    sys.exit(main())
