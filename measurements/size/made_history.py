"""A history that is made: two years of nights of 500 cases, with steps, drifts, machine changes, gaps and odd nights.

What was planted is known, so `scripts/prove history` can count what `evenbench history detect` finds and what it invents.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenbench.reports.history.rows import COLUMNS, QUARTILES, SCHEMA
from evenbench.reports.history.store import connection

BEGAN = datetime(2027, 1, 1, 2, 17)  # noqa: DTZ001 - UTC, as the column has it
LAUNCHES = 8
NOISE, NOISE_SPREAD = 0.003, 0.5  # of a night, the median of all cases and how far they lie apart (log); a launch on an
NOISE_RANGE = (0.001, 0.01)  # H200 varies by 0.2 to 0.7 %, so the median of eight by 0.1 to 0.3 %
NEIGHBOURS = 0.3  # correlation of one night with the next
FREEDOM = 5  # of Student's t: a night far off is more frequent than a normal distribution has it
ODD, ODD_RANGE = 0.01, (0.02, 0.10)  # share of nights that are slower for a reason of their own, and by how much
STEP = 0.03
DRIFT, DRIFT_RUNS = 0.04, 90
DRIFTING = 0.1  # share of cases with a drift
GAP_NIGHTS = 0.03  # share of nights without a run
OUTAGE = (300, 321)  # nights in a row without one
CLEAR = 20  # runs on either side of a planted step that nothing else touches: the series must exist to be changed
LEVEL_CHANGE = 0.02  # by how much another machine, driver or image moves each case, either way, at most
# Nights from which on the place is another: two machines, a new driver on each, three images.
PLACES: Sequence[tuple[int, Mapping[str, str]]] = (
    (0, {"uuid": "GPU-1", "driver": "580.1", "image": "sha256:1"}),
    (150, {"uuid": "GPU-1", "driver": "580.1", "image": "sha256:2"}),
    (290, {"uuid": "GPU-1", "driver": "590.1", "image": "sha256:2"}),
    (430, {"uuid": "GPU-2", "driver": "590.1", "image": "sha256:2"}),
    (600, {"uuid": "GPU-2", "driver": "590.1", "image": "sha256:3"}),
)


@dataclass(frozen=True)
class Planted:
    """What was done to a case on purpose, by index of the run: the step's first, and the drift's first and last."""

    step: int
    change: float
    drift: tuple[int, int] | None


@dataclass(frozen=True)
class Made:
    """A history as numbers.

    Attributes:
        nights: of each run, counted from `BEGAN`.
        places: of each run, an index into `PLACES`.
        times: cases by runs, ns.
        planted: of each case.
    """

    nights: NDArray[np.int64]
    places: NDArray[np.int64]
    times: NDArray[np.float64]
    planted: tuple[Planted, ...]

    def pieces(self) -> Iterator[tuple[int, int]]:
        """First run of each place, and the first of the next."""
        edges = [0, *(np.flatnonzero(np.diff(self.places)) + 1).tolist(), len(self.nights)]
        yield from pairwise(edges)


def made(cases: int, nights: int, seed: int) -> Made:
    """Draw a history."""
    random = np.random.default_rng(seed)
    taken = random.random(nights) >= GAP_NIGHTS
    taken[OUTAGE[0] : OUTAGE[1]] = False
    days = np.flatnonzero(taken)
    places = np.searchsorted([night for night, _ in PLACES], days, side="right") - 1
    bare = Made(days, places, np.empty((0, 0)), ())
    pieces = [piece for piece in bare.pieces() if piece[1] - piece[0] > 2 * CLEAR]
    drawn = [_case(random, places, pieces) for _ in range(cases)]
    return Made(days, places, np.array([times for times, _ in drawn]), tuple(planted for _, planted in drawn))


def _case(
    random: np.random.Generator, places: NDArray[np.int64], pieces: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.float64], Planted]:
    runs = len(places)
    noise = float(np.clip(NOISE * math.exp(random.normal(0, NOISE_SPREAD)), *NOISE_RANGE))
    logs = np.full(runs, math.log(1_000 * 10 ** random.uniform(0.3, 2.5)))
    logs += noise * _wander(random, runs)
    odd = random.random(runs) < ODD
    logs[odd] += random.uniform(*ODD_RANGE, odd.sum())
    logs += random.uniform(-LEVEL_CHANGE, LEVEL_CHANGE, len(PLACES))[places]
    drift = None
    if random.random() < DRIFTING:
        start, end = pieces[int(random.integers(len(pieces)))]
        first = int(random.integers(start, end))
        drift = first, min(first + DRIFT_RUNS, runs)
        logs += DRIFT * np.clip((np.arange(runs) - first) / DRIFT_RUNS, 0, 1)
    free = [
        run
        for start, end in pieces
        for run in range(start + CLEAR, end - CLEAR)
        if drift is None or not drift[0] - CLEAR <= run <= drift[1] + CLEAR
    ]
    step, change = int(free[random.integers(len(free))]), STEP * (1 if random.random() < 0.5 else -1)
    logs[step:] += math.log1p(change)
    return np.exp(logs), Planted(step, change, drift)


def _wander(random: np.random.Generator, runs: int) -> NDArray[np.float64]:
    """Noise of variance 1 whose neighbours resemble each other."""
    draws = random.standard_t(FREEDOM, runs) / math.sqrt(FREEDOM / (FREEDOM - 2))
    for run in range(1, runs):
        draws[run] = NEIGHBOURS * draws[run - 1] + math.sqrt(1 - NEIGHBOURS**2) * draws[run]
    return np.asarray(draws, dtype=np.float64)


def name_of(case: int) -> str:
    """Id of a made case."""
    return f"family{case % 20:02}/op[n={case:04}]"


def commit_of(night: int) -> str:
    """The commit that a night measured."""
    return hashlib.sha1(str(night).encode(), usedforsecurity=False).hexdigest()


def write(history: Made, folder: Path) -> int:
    """Write it as `evenbench history add` would, a file a run. Returns how many files."""
    random = np.random.default_rng(0)
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
    with connection() as duck, tempfile.TemporaryDirectory() as scratch:
        for run, night in enumerate(history.nights.tolist()):
            started = BEGAN + timedelta(days=night)
            place = dict(PLACES[history.places[run]][1])
            launches = history.times[:, run : run + 1] * (1 + random.normal(0, 0.004, (len(history.times), LAUNCHES)))
            lines = Path(scratch, "rows.jsonl")
            with lines.open("w", encoding="utf-8") as file:
                low, high = np.quantile(launches, QUARTILES, axis=1).tolist()
                for case, ns in enumerate(history.times[:, run].tolist()):
                    spread = {"low_ns": low[case], "high_ns": high[case], "launches_ns": launches[case].tolist()}
                    row = {**_row(case, night, ns), **spread}
                    file.write(json.dumps({**dict.fromkeys(COLUMNS), **row, **place, "started": started.isoformat()}))
                    file.write("\n")
            path = (
                folder / "runs" / place["uuid"] / f"{started:%Y-%m}" / f"{started:%Y%m%dT%H%M%SZ}-{night}-head.parquet"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            source = f"read_json(?, format = 'newline_delimited', columns = {{{columns}}})"
            duck.execute(f"COPY (FROM {source}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)", [str(lines)])
    return len(history.nights)


def _row(case: int, night: int, ns: float) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "run_id": str(night),
        "side": "head",
        "commit": commit_of(night),
        "suite": "full",
        "harness": "0.1.0",
        "device": "NVIDIA H200",
        "mig": "",
        "torch": "2.13.0",
        "python": "3.12.3",
        "case": name_of(case),
        "implementation": "main",
        "status": "ok",
        "reason": "",
        "timer": "cupti",
        "cache": "cold",
        "tick_ns": 32,
        "ns": ns,
        "latency_ns": ns + 500,
        "n_kernels": 1,
        "dtype": "bfloat16",
        "flops": 1_000_000,
        "bytes_read": 100_000,
        "bytes_written": 100_000,
        "inputs": f"{case:064x}",
        "source": f"{case:064x}",
    }
