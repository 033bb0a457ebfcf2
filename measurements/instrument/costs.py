"""What measuring costs, and what it must not depend on: the parts of the figures `cost`, `host-independence`, `leak`.

Each part is a process of its own, started by `measurements.instrument.instrument` through `measurements.parts`.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evenbench.runner.errors import MeasurementError
from evenbench.runner.timing.cache import NoSweep, make_sweep
from evenbench.runner.timing.cupti.timer import CuptiTimer
from evenbench.runner.timing.events import CudaEventTimer
from evenbench.runner.timing.protocol import BUFFER_BYTES, Counts
from measurements.instrument.peers import Call, ask, do_bench, missing, sampled
from measurements.instrument.timers import built
from measurements.parts import Found, serve

SAMPLES = 200
REPEATS = 5  # of what is timed by its wall time; the median counts
ADDED = 1 << 20  # floats: a kernel of 3 µs
THREE_KERNELS = "ops/silu_mul[dtype=float32,n=1048576]"
WARM_UP = Counts(warmup=3, samples=20)

DECODED = 100_000  # kernels
DECODED_A_CALL = 1_000
DECODE_BUFFER_BYTES = 64 << 20  # holds them all, so that nothing is decoded before it is asked for

LEAK_SEGMENTS, LEAK_SAMPLES, LEAK_KERNELS = 250, 200, 2  # 100,000 kernels
LEAK_SETTLED = 0.1  # of the segments: until then pools and caches fill

DELAYS_US = (0, 50, 100, 200)
DELAY_SIZES = (1 << 20, 1 << 23)  # floats: three kernels of 7 and of some 40 µs in all
DELAY_TURNS = 4  # all delays one after the other, this often, so that a drift meets them alike
DELAY_COUNTS = Counts(warmup=5, samples=50)
NS = 1e-3  # microseconds


def three_microseconds() -> Call:
    """A call of one kernel of about 3 µs on an H200, without an allocation, which nvbench would stumble over."""
    import torch

    x, y = torch.randn(ADDED, device="cuda"), torch.randn(ADDED, device="cuda")
    out = torch.empty_like(x)
    call = functools.partial(torch.add, x, y, out=out)
    call()
    torch.cuda.synchronize()
    return call


def wall_of(run: Callable[[], Any]) -> float:
    """Median wall time in milliseconds of `REPEATS` runs, after one more."""
    run()
    walls = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run()
        walls.append((time.perf_counter() - began) * 1e3)
    return statistics.median(walls)


def part_wall() -> Found:
    """200 cold samples by ours and by event pairs, do_bench with its defaults; ours last, as it loads CUPTI."""
    call, sweep, counts = three_microseconds(), make_sweep("cold", "cuda"), Counts(warmup=0, samples=SAMPLES)
    found: dict[str, Any] = {"walls": {}}
    if not missing("do_bench"):
        found["walls"]["do_bench (its defaults)"] = wall_of(lambda: do_bench([call]))
    events, timer = CudaEventTimer(), CuptiTimer()
    found["walls"]["event pairs, 200 samples"] = wall_of(lambda: sampled(events, sweep, call, counts))
    found["walls"]["evenbench, 200 samples"] = wall_of(lambda: sampled(timer, sweep, call, counts))
    found["kernel_us"] = median_us(sampled(timer, sweep, call, counts).segment.device_busy_ns)
    return found


def part_flashinfer() -> Found:
    """Wall time of flashinfer's CUPTI timer with its defaults."""
    return ask("flashinfer", lambda: [three_microseconds()])


def part_nvbench() -> Found:
    """Wall time of nvbench for one kernel."""
    return ask("nvbench", lambda: [three_microseconds()])


def part_decode() -> Found:
    """How fast records are read: what `collect` takes for 100,000 kernels that ran before, all of it and its `take`."""
    import torch

    x = torch.ones(64, device="cuda")

    def call() -> None:
        for _ in range(DECODED_A_CALL):
            x.neg_()

    timer = CuptiTimer()
    sampled(timer, nothing, x.neg_, WARM_UP)
    taken = watch_take(timer)
    timer.open(count_copies=False, buffer_bytes=DECODE_BUFFER_BYTES)
    for i in range(DECODED // DECODED_A_CALL):
        timer.iterate(i, nothing, call)
    began = time.perf_counter()
    segment = timer.collect()
    whole = time.perf_counter() - began
    timer.close()
    found = {"kernels": sum(segment.n_kernels or ()), "collect_s": whole, "rejected": len(segment.rejected)}
    return found | (taken[-1] if taken else {})


def watch_take(timer: CuptiTimer) -> list[dict[str, float]]:
    """Records of every `take` of a timer from now on; seconds of all of it, and of our callback inside it."""
    taken: list[dict[str, float]] = []
    recorder: Any = timer._recorder  # noqa: SLF001 - how long these parts of it take is what is looked for
    take, copy = recorder.take, recorder._copy  # noqa: SLF001
    spent = [0.0]

    def copied(activities: list[Any]) -> None:
        began = time.perf_counter()
        copy(activities)
        spent[0] += time.perf_counter() - began

    def watched() -> Any:
        began, spent[0] = time.perf_counter(), 0.0
        records = take()
        seconds = time.perf_counter() - began
        lists = (records.kernels, records.copies, records.external, records.launches)
        taken.append({"take_s": seconds, "read_s": spent[0], "records": sum(len(kind) for kind in lists)})
        return records

    recorder.take, recorder._copy = watched, copied  # noqa: SLF001
    return taken


def part_span() -> Found:
    """A three-kernel call with and without tracing: on the device between events, and on the host."""
    import torch

    runnable = next(built([THREE_KERNELS]))
    sweep, timer = make_sweep("cold", "cuda"), CuptiTimer()
    spans: list[Any] = []
    hosts: list[int] = []

    def call() -> None:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        began = time.perf_counter_ns()
        runnable.call()
        hosts.append(time.perf_counter_ns() - began)
        end.record()
        spans.append((start, end))

    def prepare() -> None:
        runnable.restore()
        sweep()

    def untraced() -> None:
        for _ in range(SAMPLES):
            prepare()
            torch.cuda.synchronize()
            call()
            torch.cuda.synchronize()

    def traced() -> None:
        timer.open(count_copies=False, buffer_bytes=BUFFER_BYTES)
        for i in range(SAMPLES):
            timer.iterate(i, prepare, call)
        timer.collect()
        timer.close()

    found: dict[str, Any] = {}
    for name, run in (("warm up", untraced), ("untraced", untraced), ("warm up, traced", traced), ("traced", traced)):
        spans.clear()
        hosts.clear()
        run()
        torch.cuda.synchronize()
        device = statistics.median(start.elapsed_time(end) for start, end in spans) * 1e3
        found[name] = {"host_us": median_us(hosts), "device_us": device}
    return found


def part_delays() -> Found:
    """Busy time and latency of three-kernel calls whose host waits between their launches."""
    timer, sweep = CuptiTimer(), make_sweep("cold", "cuda")
    found: dict[str, Any] = {}
    for size in DELAY_SIZES:
        call = three_kernels(size)
        busy: dict[int, list[int]] = {delay: [] for delay in DELAYS_US}
        latency: dict[int, list[int]] = {delay: [] for delay in DELAYS_US}
        for delay in DELAYS_US * DELAY_TURNS:
            segment = sampled(timer, sweep, functools.partial(call, delay), DELAY_COUNTS).segment
            busy[delay] += segment.device_busy_ns
            latency[delay] += segment.latency_ns
        found[str(size)] = [[delay, median_us(busy[delay]), median_us(latency[delay])] for delay in DELAYS_US]
    return found


def three_kernels(size: int) -> Callable[[int], object]:
    """SiLU, multiply, add on vectors of `size` floats, the host waiting so many microseconds before the latter two."""
    import torch

    x, gate, bias = (torch.randn(size, device="cuda") for _ in range(3))

    def call(delay_us: int) -> object:
        out = torch.nn.functional.silu(x)
        keep_host_busy(delay_us)
        out = out * gate
        keep_host_busy(delay_us)
        return out + bias

    return call


def median_us(samples_ns: Sequence[int]) -> float:
    """The median in microseconds."""
    return statistics.median(samples_ns) * NS


def keep_host_busy(us: int) -> None:
    """Not a sleep, which takes 50 µs longer than asked."""
    until = time.perf_counter_ns() + us * 1_000
    while us and time.perf_counter_ns() < until:
        pass


def part_leak() -> Found:
    """100,000 kernels in many segments: resident memory on the way, and what became of every sample."""
    import torch

    x = torch.ones(1 << 16, device="cuda")

    def call() -> None:
        for _ in range(LEAK_KERNELS):
            x.neg_()

    timer, step, counts = CuptiTimer(), NoSweep(), Counts(warmup=0, samples=LEAK_SAMPLES)
    found: dict[str, Any] = {"kept": 0, "kernels": 0, "rejected": 0, "retries": 0, "failed": [], "resident": []}
    for _ in range(LEAK_SEGMENTS):
        try:
            measured = sampled(timer, step, call, counts)
        except MeasurementError as error:
            found["failed"].append(str(error)[:200])
            continue
        segment = measured.segment
        found["kept"] += len(segment.indices)
        found["kernels"] += sum(segment.n_kernels or ())
        found["rejected"] += len(segment.rejected)
        found["retries"] += len(measured.retries)
        found["resident"].append(resident_bytes())
    settled = int(LEAK_SETTLED * len(found["resident"]))
    return found | {"resident": found["resident"][settled:], "asked": LEAK_SEGMENTS * LEAK_SAMPLES}


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def nothing() -> None:
    """No preparation."""


if __name__ == "__main__":
    sys.exit(
        serve(
            {
                "wall": part_wall,
                "flashinfer": part_flashinfer,
                "nvbench": part_nvbench,
                "decode": part_decode,
                "span": part_span,
                "delays": part_delays,
                "leak": part_leak,
            }
        )
    )
