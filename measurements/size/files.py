"""The figures about results files: `load`, how long a large one takes to become a comment, and `fuzz`, what hostile ones do.

Both need no GPU.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np

from evenbench.reports.compare.compare import compare
from evenbench.reports.load.results import PUBLISH_MAX_BYTES, load_files
from evenbench.reports.render.comment.comment import comment
from evenbench.runner.records import Event, LaunchEvent, Measurement, dump
from measurements.figures import seconds, table
from measurements.instrument.instrument import Verbs
from measurements.parts import Found, run_part, serve
from tests import build
from tests.build import Case
from tests.fakes.fuzz import fuzz

CASES, ROUNDS, SAMPLES = 5_000, 8, 20
RUNS = 3  # of each of which the middle one counts: the machine is shared
LOAD_MAX_S, LOAD_MAX_GB = 5.0, 1.0
TIMES, SEED = 100_000, 1
FUZZ_MAX_GB = 0.5
WRITE_LIMIT_S, LOAD_LIMIT_S = 120, 120
RESULTS = "results.jsonl"
GB, KIB = 1e9, 1024  # the unit of ru_maxrss on Linux


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommands to the grammar of scripts/prove."""
    verb = verbs.add_parser("load", parents=[common], help="from a large results file to the comment; no GPU")
    verb.set_defaults(figure=load)
    verb = verbs.add_parser("fuzz", parents=[common], help="hostile results files; no GPU")
    verb.set_defaults(figure=hostile)
    verb.add_argument("--times", type=int, default=TIMES)
    verb.add_argument("--seed", type=int, default=SEED)


def load(options: argparse.Namespace) -> bool:
    """A file of 5,000 cases, judged by processes of their own. True where they are quick and small enough."""
    out = options.out / "load"
    written = run_part(__name__, "write", out, WRITE_LIMIT_S)
    parts = [run_part(__name__, "load", out, LOAD_LIMIT_S) for _ in range(RUNS)]
    if missing := [part.missing for part in (written, *parts) if part.missing]:
        print(f"\nWithout {missing[0]}")
        return False
    runs = [part.found for part in parts]
    whole = statistics.median(run["whole_s"] for run in runs)
    resident = max(run["resident_gb"] for run in runs)
    lines, size = written.found["lines"], written.found["bytes"] / 1e6
    print(f"\n{CASES:,} cases × {ROUNDS} rounds × 2 sides × {SAMPLES} samples: {lines:,} lines, {size:.0f} MB.")
    print(f"The middle one of {RUNS} runs, on {runs[0]['cores']} cores.")
    steps = [
        (step, seconds(statistics.median(run[step] for run in runs)), "") for step in ("load", "compare", "comment")
    ]
    table(
        ("results file to comment", "value", "at most"),
        [
            *steps,
            ("together, wall time", seconds(whole), seconds(LOAD_MAX_S)),
            ("the same, processor time", seconds(statistics.median(run["processor_s"] for run in runs)), ""),
            ("peak resident memory", f"{resident:.2f} GB", f"{LOAD_MAX_GB:.0f} GB"),
            ("characters of the comment", f"{runs[0]['characters']:,}", "60,000"),
        ],
    )
    return bool(whole <= LOAD_MAX_S and resident <= LOAD_MAX_GB)


def hostile(options: argparse.Namespace) -> bool:
    """So many mutated files in this process. True where each was refused or shown, in little memory."""
    (out := options.out / "fuzz").mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    outcomes = fuzz(options.times, options.seed, out / RESULTS)
    wall, resident = time.perf_counter() - began, _resident_gb()
    table(
        (f"{options.times:,} mutated results files, seed {options.seed}", "value"),
        [
            ("refused as untrusted", f"{outcomes['refused']:,}"),
            ("judged and shown", f"{outcomes['judged']:,}"),
            ("of one side, measured and shown", f"{outcomes['measured']:,}"),
            ("other errors, warnings included", options.times - outcomes.total()),
            ("peak resident memory, at most 0.5 GB", f"{resident:.2f} GB"),
            ("wall time", f"{wall:.0f} s"),
        ],
    )
    return outcomes.total() == options.times and resident <= FUZZ_MAX_GB


def part_write() -> Found:
    """The large file: one line of each kind as a real run writes it, again and again with other samples."""
    path = _file()
    lines = 0
    with path.open("w", encoding="utf-8") as file:
        for event in large_run(CASES, ROUNDS):
            file.write(dump(event) + "\n")
            lines += 1
    return {"lines": lines, "bytes": path.stat().st_size}


def large_run(cases: int, rounds: int) -> Iterator[Event]:
    """The events of a run of so many cases. Every 100th is 5 % slower on head."""
    random = np.random.default_rng(0)
    small = build.events([Case("norm/rms[cols=8192]")], made=rounds)
    names = [f"norm/family{number % 50}[cols={number},dtype=bfloat16,rows=4096]" for number in range(cases)]
    for event in small:
        if event.event == "case":
            first = event.index * cases
            yield from (event.model_copy(update={"index": first + n, "id": name}) for n, name in enumerate(names))
        elif isinstance(event, LaunchEvent):
            first = 0 if event.side == "base" else cases
            slow = event.side == "head"
            yield event.model_copy(update={"order": list(range(first, first + cases))})
        elif isinstance(event, Measurement):
            around = 20_000 * random.normal(1, 0.002, cases)
            around[::100] *= 1.05 if slow else 1.0
            samples = (around[:, np.newaxis] * random.normal(1, 0.002, (cases, SAMPLES))).astype(int).tolist()
            for name, found in zip(names, samples, strict=True):
                latency = [value + 500 for value in found]
                yield event.model_copy(update={"case": name, "device_busy_ns": found, "latency_ns": latency})
        else:
            yield event


def part_load() -> Found:
    """Time and peak memory from the file to the comment."""
    began, processor = time.perf_counter(), time.process_time()
    results = load_files([_file()], max_bytes=PUBLISH_MAX_BYTES)
    loaded = time.perf_counter()
    comparison = compare(results, date(2026, 11, 29))
    judged = time.perf_counter()
    text = comment(comparison)
    ended = time.perf_counter()
    return {
        "load": loaded - began,
        "compare": judged - loaded,
        "comment": ended - judged,
        "whole_s": ended - began,
        "processor_s": time.process_time() - processor,
        "characters": len(text),
        "cores": len(os.sched_getaffinity(0)),
        "resident_gb": _resident_gb(),
    }


def _file() -> Path:
    """The large file, in the folder that parts answer into."""
    return Path(sys.argv[-1]).with_name(RESULTS)


def _resident_gb() -> float:
    """The most that this process held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / GB


if __name__ == "__main__":
    sys.exit(serve({"write": part_write, "load": part_load}))
