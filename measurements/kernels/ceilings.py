"""What a device reaches, whether processes agree on it, what constant data pretend: the figure `ceilings`."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evenbench.reports import units
from evenbench.reports.render.terminal.vendor import stated
from evenbench.reports.units import unit_of
from evenbench.runner.launchers.probes import PROGRAM
from measurements.figures import table
from measurements.parts import ROOT, fresh

PROCESSES = 5
LIMIT_S = 600.0
WALL_S, KEPT_S = 60.0, 0.5  # all probes and the curve; an answer that is kept
AGREE = 0.02  # of processes, on a GPU
HOSTS = ("launch",)  # ceilings of a GPU that its host sets
LEAST: Mapping[str, float] = MappingProxyType(  # on an H200
    {"memory/copy": 4.2e12, "matrix/bfloat16/library": 770e12, "compute/float32": 0.9 * 67e12}
)
H200 = "NVIDIA H200"
KEPT_TIMES = 5  # the median of so many
STREAM_VALUES = 1 << 25  # float64: 256 MiB an array, of which there are three
STREAM_TIMES = 10

Answer = Mapping[str, Any]


def add_to(verbs: Any, common: argparse.ArgumentParser) -> None:
    """The figure's grammar."""
    verb = verbs.add_parser("ceilings", parents=[common], help="peaks: how repeatable, beside zeros, beside STREAM")
    verb.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    verb.add_argument("--times", type=int, default=PROCESSES, help=f"processes; default: {PROCESSES}")
    verb.add_argument("--only", default="", metavar="KEY", help="beginning of the ceilings to measure, and no more")
    verb.set_defaults(figure=prove_ceilings)


def prove_ceilings(asked: argparse.Namespace) -> bool:
    """Measure in so many processes, and once on zeros. True where all that is promised of this device was met."""
    folder = fresh(asked.out / "ceilings")
    environment = {**os.environ, "EVENBENCH_CACHE": str(folder / "kept")}
    only = ("--only", asked.only)
    answers, walls = [], []
    for number in range(asked.times):
        out = folder / f"{number}.json"
        if number or asked.only:
            answer, wall = probed(asked.device, out, *only)
        else:  # the command's own, which keeps its answer
            answer, wall = commanded(environment, asked.device, out)
        print(f"process {number + 1} of {asked.times}: {wall:.0f} s", flush=True)
        answers.append(answer)
        walls.append(wall)
    zeros, _ = probed(asked.device, folder / "zeros.json", "--zeros", "--repeats", "1", *only)
    name = device_name(asked.device)
    rates_table(answers, zeros, name)
    if asked.only:
        return all(spread <= AGREE for spread in spreads_of(answers).values())
    curve_table(answers[0])
    for key, reason in answers[0]["skipped"].items():
        print(f"\nnot measured: {key}: {reason}", end="")
    print()
    if asked.device == "cpu":
        stream_table(answers[0])
    kept = kept_answer_s(asked.device, environment)
    return verdict(answers, walls, kept, name, gpu=asked.device == "cuda")


def probed(device: str, out: Path, *options: str) -> tuple[Answer, float]:
    """One process of probes: its answer, and the seconds that it took. Ends this one where it fails."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", str(PROGRAM), device, *options], capture_output=True, check=False, timeout=LIMIT_S
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"error: the probes ended with code {done.returncode}:\n{done.stderr.decode()[-2_000:]}")
    out.write_bytes(done.stdout)
    out.with_suffix(".log").write_bytes(done.stderr)  # what took how long
    answer: Answer = json.loads(done.stdout)
    return answer, wall


def device_name(device: str) -> str:
    """As `evenbench ceilings` would name it."""
    from evenbench.runner.ceilings.obtain import key_of
    from evenbench.runner.machine.gpus import choose_gpu, gpus

    gpu = choose_gpu(None, gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")) if device == "cuda" else None
    return key_of(gpu, "").name


def rates_table(answers: Sequence[Answer], zeros: Answer, name: str) -> None:
    """Each ceiling: by the first process, by all, on zeros, as stated."""
    known = stated(name)
    rows = []
    for key, rate in answers[0]["rates"].items():
        others = [answer["rates"][key] for answer in answers if key in answer["rates"]]
        claim = known.rate(key) if known else None
        on_zeros = zeros["rates"].get(key)
        rows.append(
            (
                f"`{key}`",
                units.quantity(rate, unit_of(key)),
                f"{answers[0]['spread'][key][1]:.1%}",
                f"{apart(others):.1%}",
                f"{on_zeros / statistics.median(others) - 1:+.1%}" if on_zeros else units.NOTHING,
                f"{rate / claim:.0%} of {units.quantity(claim, unit_of(key))}" if claim else units.NOTHING,
                answers[0]["shapes"][key],
            )
        )
    head = ("ceiling", "peak", "its five repeats", f"{len(answers)} processes", "on zeros", "stated", "reached by")
    table(head, rows)


def apart(rates: Sequence[float]) -> float:
    """The range of what processes said, over its median."""
    return (max(rates) - min(rates)) / statistics.median(rates)


def curve_table(answer: Answer) -> None:
    """Bandwidth by the bytes that a copy moves."""
    rows = [(f"{size >> 10:,} KiB", units.quantity(rate, "B/s")) for size, rate in answer["curve"]]
    table(("copy of", "bandwidth"), rows)


def stream_table(answer: Answer) -> None:
    """McCalpin's four kernels in numpy on one thread, best of ten, beside the ceilings of memory."""
    import numpy as np

    a, b, c = (np.random.default_rng(seed).standard_normal(STREAM_VALUES) for seed in range(3))

    def triad() -> None:
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)

    kernels: Mapping[str, tuple[int, Callable[[], object]]] = {
        "copy, c = a": (2, lambda: np.copyto(c, a)),
        "scale, b = 3 c": (2, lambda: np.multiply(c, 3.0, out=b)),
        "add, c = a + b": (3, lambda: np.add(a, b, out=c)),
        "triad, a = b + 3 c, in numpy's two passes": (5, triad),
    }
    rows = [(name, units.quantity(arrays * a.nbytes / best_s(run), "B/s")) for name, (arrays, run) in kernels.items()]
    rows += [(f"`memory/{way}`", units.quantity(answer["rates"][f"memory/{way}"], "B/s")) for way in ("copy", "read")]
    table(("STREAM in numpy, 256 MiB an array", "best of ten"), rows)


def best_s(run: Callable[[], object]) -> float:
    """The shortest of several calls, in seconds."""
    taken = []
    for _ in range(STREAM_TIMES):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def commanded(environment: Mapping[str, str], device: str, out: Path) -> tuple[Answer, float]:
    """`evenbench ceilings`: its answer, and the seconds of the whole process. Ends this one where it fails."""
    command = [sys.executable, "-m", "evenbench", "ceilings", "--device", device, "--ignore-unfit", "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT_S)
    wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"error: evenbench ceilings ended with code {done.returncode}: {done.stderr.decode()}")
    out.write_bytes(done.stdout)
    answer: Answer = json.loads(done.stdout)
    return answer, wall


def kept_answer_s(device: str, environment: Mapping[str, str]) -> float:
    """Seconds of `evenbench ceilings` where the answer is kept, the whole process. Its modules are compiled, as installed."""
    out = Path(environment["EVENBENCH_CACHE"], "again.json")
    compiled = {**environment, "PYTHONDONTWRITEBYTECODE": ""}
    commanded(compiled, device, out)
    return statistics.median(commanded(compiled, device, out)[1] for _ in range(KEPT_TIMES))


def spreads_of(answers: Sequence[Answer]) -> Mapping[str, float]:
    """How far processes are apart, for each ceiling that all found."""
    shared = [key for key in answers[0]["rates"] if all(key in answer["rates"] for answer in answers)]
    return {key: apart([answer["rates"][key] for answer in answers]) for key in shared}


def verdict(answers: Sequence[Answer], walls: Sequence[float], kept: float, name: str, *, gpu: bool) -> bool:
    """What is promised, and whether it holds. Nothing of a CPU, whose peaks are those of whoever else runs on it."""
    rates = answers[0]["rates"]
    spreads = dict(spreads_of(answers))
    host = {key: spreads.pop(key) for key in HOSTS if key in spreads and gpu}
    worst = max(spreads, key=lambda key: spreads[key])
    rows: list[tuple[str, str, str, bool]] = [
        ("all probes and the curve, longest", f"{max(walls):.0f} s", f"{WALL_S:.0f} s", max(walls) <= WALL_S),
        ("a kept answer, whole process, median", f"{kept:.2f} s", f"{KEPT_S} s", kept <= KEPT_S),
        (f"processes agree, worst: {worst}", f"{spreads[worst]:.1%}", f"{AGREE:.0%}", spreads[worst] <= AGREE),
        *(
            (f"the same of {key}, which is the host's", f"{s:.1%}", f"{AGREE:.0%}", s <= AGREE)
            for key, s in host.items()
        ),
    ]
    for key, least in LEAST.items() if name == H200 else ():
        rate = rates.get(key, 0.0)
        target = f"≥ {units.quantity(least, unit_of(key))}"
        rows.append((key, units.quantity(rate, unit_of(key)) if rate else units.NOTHING, target, rate >= least))
    met = {True: "yes", False: "NO"} if gpu else {True: units.NOTHING, False: units.NOTHING}
    head = (f"{name}, by {answers[0]['timing']}", "measured", "target of a GPU", "met")
    table(head, [(*row[:3], met[row[3]]) for row in rows])
    return all(row[3] for row in rows) or not gpu
