"""Public timers, each asked in its own usual way for the median of a call. Times in microseconds."""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evenbench.runner.timing.cache import make_sweep
from evenbench.runner.timing.events import CudaEventTimer
from evenbench.runner.timing.protocol import Counts, Measured, measure

NS, MS, S = 1e-3, 1e3, 1e6  # microseconds
EVENT_COUNTS = Counts(warmup=10, samples=200)
NVBENCH_LIMIT_S = "2"  # a call; it goes on to 15 s where its noise stays over 0.5 %, as that of short kernels does
NVBENCH_TAGS = ("nv/cold/time/gpu/median", "nv/cold/time/gpu/mean")  # the first that its version has

Call = Callable[[], object]
Peer = Callable[[Sequence[Call]], list[float]]


def missing(name: str) -> str:
    """Why a peer cannot be asked; empty where its module is there. Loads no more than the package around it."""
    module = MODULES[name]
    try:
        found = importlib.util.find_spec(module) is not None
    except ImportError:  # the package around it is missing
        found = False
    return "" if found else f"{module} is not installed"


def ask(name: str, calls: Callable[[], Sequence[Call]]) -> dict[str, Any]:
    """The medians of a peer for the calls, made only if it is there, and its wall time; or in a line why there are none."""
    if reason := missing(name):
        return {"missing": reason}
    try:
        made = calls()
        began = time.perf_counter()
        medians = PEERS[name](made)
    except Exception as error:  # noqa: BLE001 - foreign timers may raise anything, and the others go on
        return {"missing": f"{type(error).__name__}: {error}"[:300]}
    return {"medians": medians, "wall_s": time.perf_counter() - began}


def do_bench(calls: Sequence[Call]) -> list[float]:
    """`triton.testing.do_bench`: events around the call, after a cache step that writes."""
    from triton.testing import do_bench

    return [do_bench(call, return_mode="median") * MS for call in calls]


def do_bench_cudagraph(calls: Sequence[Call]) -> list[float]:
    """`triton.testing.do_bench_cudagraph`: many calls in a graph, without a cache step."""
    from triton.testing import do_bench_cudagraph

    return [do_bench_cudagraph(call, return_mode="median") * MS for call in calls]


def event_pairs(calls: Sequence[Call]) -> list[float]:
    """One pair of events around every call, cold by our read sweep, the device drained before."""
    timer, sweep = CudaEventTimer(), make_sweep("cold", "cuda")
    measured = [sampled(timer, sweep, call, EVENT_COUNTS) for call in calls]
    return [statistics.median(one.segment.latency_ns) * NS for one in measured]


def flashinfer(calls: Sequence[Call]) -> list[float]:
    """The CUPTI timer of flashinfer: the span of the kernels that were launched between two host time stamps."""
    timed = importlib.import_module("flashinfer.testing").bench_gpu_time_with_cupti
    return [statistics.median(timed(fn=call)) * MS for call in calls]


def nvbench(calls: Sequence[Call]) -> list[float]:
    """The harness nvbench (`cuda.bench`): cold GPU time, behind a kernel that blocks until the call is launched."""
    import torch

    bench = importlib.import_module("cuda.bench")

    def benchmark(state: Any) -> None:
        call = calls[state.get_int64("call")]

        def launcher(launch: Any) -> None:
            with torch.cuda.stream(torch.cuda.ExternalStream(launch.get_stream().addressof())):
                call()

        state.exec(launcher, batched=False)

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        bench.register(benchmark).add_int64_axis("call", list(range(len(calls))))
        bench.run_all_benchmarks(["nvbench", "--json", str(report), "--timeout", NVBENCH_LIMIT_S, "--devices", "0"])
        return nvbench_times(json.loads(report.read_text(encoding="utf-8")), len(calls))


def nvbench_times(report: Mapping[str, Any], expected: int) -> list[float]:
    """The times in nvbench's JSON, in the order of the axis `call`. Raises ValueError where some are missing."""
    times: dict[int, float] = {}
    for state in (state for benchmark in report["benchmarks"] for state in benchmark["states"]):
        number = next(int(axis["value"]) for axis in state["axis_values"] if axis["name"] == "call")
        summaries = {summary["tag"]: summary for summary in state.get("summaries") or ()}
        tag = next((tag for tag in NVBENCH_TAGS if tag in summaries), None)
        if tag is not None:
            value = next(entry["value"] for entry in summaries[tag]["data"] if entry["name"] == "value")
            times[number] = float(value) * S
    if sorted(times) != list(range(expected)):
        raise ValueError(f"nvbench gave times for {len(times)} of {expected} calls")
    return [times[number] for number in range(expected)]


def sampled(timer: Any, prepare: Callable[[], object], call: Call, counts: Counts, **more: Any) -> Measured:
    """One measurement by a timer of ours, without a deadline."""
    return measure(timer, prepare, call, counts, deadline_ns=None, clock=time.perf_counter_ns, **more)


MODULES: Mapping[str, str] = MappingProxyType(
    {
        "do_bench": "triton.testing",
        "do_bench_cudagraph": "triton.testing",
        "event pair a call": "torch",
        "flashinfer": "flashinfer.testing",
        "nvbench": "cuda.bench",
    }
)
PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "do_bench": do_bench,
        "event pair a call": event_pairs,
        "do_bench_cudagraph": do_bench_cudagraph,  # after these: a capture that fails spoils what follows
        "flashinfer": flashinfer,
        "nvbench": nvbench,
    }
)
