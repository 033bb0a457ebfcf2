"""How long judging a large run takes, and how much memory: the figure `judge-speed` of scripts/prove. Needs no GPU."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time

import numpy as np

from evenbench.reports.statistics.paired import Row, Settings, judge, shuffled_labels
from measurements.figures import table
from measurements.parts import Found, run_part, serve

ROWS, ROUNDS, SAMPLES = 10_000, 24, 60
TIME_NS, SD_NS, TICK_NS = 20_000, 100, 32
LIMIT_S = 300
JUDGE_MAX_S, WHOLE_MAX_S, RESIDENT_MAX_GB = 20.0, 60.0, 1.0
GB = 1e9
KIB = 1024  # the unit of ru_maxrss on Linux


def judge_speed(options: argparse.Namespace) -> bool:
    """In a process of its own, whose memory is that of judging alone. True where it is quick and small enough."""
    part = run_part(__name__, "judge", options.out / "judge-speed", LIMIT_S)
    if part.missing:
        print(f"\nWithout {part.missing}")
        return False
    found = part.found
    whole = found["judge_s"] + found["shuffled_s"]
    print(f"\n{ROWS:,} rows × {ROUNDS} rounds × 2 sides × {SAMPLES} samples, on {found['cores']} cores.")
    table(
        ("judging", "value", "at most"),
        [
            ("verdicts of all rows", f"{found['judge_s']:.1f} s", f"{JUDGE_MAX_S:.0f} s"),
            ("with 20 draws of shuffled labels", f"{whole:.1f} s", f"{WHOLE_MAX_S:.0f} s"),
            ("peak resident memory, samples included", f"{found['resident_gb']:.2f} GB", f"{RESIDENT_MAX_GB:.0f} GB"),
        ],
    )
    return bool(found["judge_s"] <= JUDGE_MAX_S and whole <= WHOLE_MAX_S and found["resident_gb"] <= RESIDENT_MAX_GB)


def part_judge(rows: int = ROWS) -> Found:
    """Time and peak memory of judging rows of noise."""
    random = np.random.default_rng(0)
    shape = (rows, ROUNDS, 2, SAMPLES)
    samples = random.standard_normal(shape, dtype=np.float32)
    samples *= SD_NS
    samples += TIME_NS
    whole = samples.astype(np.int64)
    del samples
    run = [Row(number, [(base, head) for base, head in rounds], TICK_NS, 0.005) for number, rounds in enumerate(whole)]
    settings = Settings()
    began = time.perf_counter()
    answers = judge(run, settings)
    judged = time.perf_counter()
    shuffled = shuffled_labels(run, settings, seed=0)
    ended = time.perf_counter()
    return {
        "rows": len(answers),
        "flagged": sum(each.verdict in ("regressed", "improved") for each in answers) + shuffled.total,
        "judge_s": judged - began,
        "shuffled_s": ended - judged,
        "resident_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / GB,
        "cores": len(os.sched_getaffinity(0)),
    }


if __name__ == "__main__":
    sys.exit(serve({"judge": part_judge}))
