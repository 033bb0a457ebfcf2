"""Recorded launches of `tests/data` as arrays, and how those of a new run are packed into such a file.

A pool holds rounds of two launches of the same cases. It is all that the proof of the verdicts draws from.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measurements.parts import ROOT

DATA = ROOT / "tests" / "data"
NEW = "verdicts_h200.json.gz"  # what `scripts/prove collect` leaves
SCHEMA = "verdicts/1"
SAMPLES = 20  # of a launch, which is what a comparison takes by default; longer recordings are cut to their first
MIN_SAMPLES = 10  # and the least that it takes; a round with fewer is left out
ROUNDS_MIN = 16  # two runs of the first look that share no launch
GZIP_LEVEL = 9
SIDES = ("base", "head")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Side = Mapping[str, Sequence[int]]  # case → samples of a launch, in nanoseconds
Rounds = Sequence[Mapping[str, Side]]  # of each round its launches: `base` and `head`


@dataclass(frozen=True)
class Pool:
    """Rounds as they were measured, in their order.

    Args:
        name: what the tables call it.
        cases: names, in the order of the first axis of `samples`.
        samples: nanoseconds, cases by rounds by the two launches of a round (base, head) by iterations.
        planted: case → what was done to it in head; every other case is the same on both sides.
    """

    name: str
    cases: tuple[str, ...]
    samples: Integers
    tick_ns: int | None
    planted: Mapping[str, str] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """How many there are."""
        return int(self.samples.shape[1])

    def only(self, cases: Sequence[str]) -> Pool:
        """The same rounds with some of the cases."""
        kept = [self.cases.index(case) for case in cases]
        planted = {case: how for case, how in self.planted.items() if case in cases}
        return Pool(self.name, tuple(cases), self.samples[kept], self.tick_ns, planted)

    @property
    def untouched(self) -> Pool:
        """The cases that are the same on both sides."""
        return self.only([case for case in self.cases if case not in self.planted])


def slowed(samples: Integers, factor: float, tick_ns: int | None, random: np.random.Generator) -> Integers:
    """Samples as a clock of this tick would have read them, had each taken `factor` times as long.

    What a clock with a tick has read may have lasted half a tick more or less, which is drawn; else a change by less
    than a tick would be read as none, or as a whole one, each time.
    """
    tick = tick_ns or 1
    lasted = samples + tick * (random.random(samples.shape) - 0.5)
    return np.asarray(tick * np.rint(lasted * factor / tick), dtype=np.int64)


def pools(folder: Path = DATA) -> list[Pool]:
    """All recordings that are there: the paired launches of a whole suite first."""
    found = [
        _from_rounds("100 cases, 16 rounds", _read(folder / "rounds_h200.json.gz")),
        _from_launches("8 kernels, 80 launches", _read(folder / "aa_h200.json.gz")),
    ]
    if (folder / NEW).is_file():
        data = _read(folder / NEW)
        if data["schema"] != SCHEMA:
            raise ValueError(f"{NEW}: schema {data['schema']!r}, not {SCHEMA!r} (hint: collect it anew)")
        found += [_from_rounds(f"{NEW}: {name}", {**data, **run}) for name, run in data["runs"].items()]
    for pool in found:
        if pool.rounds < ROUNDS_MIN:
            raise ValueError(f"{pool.name}: {pool.rounds} rounds, at least {ROUNDS_MIN} needed (hint: collect more)")
    return found


def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _from_rounds(name: str, data: Mapping[str, Any]) -> Pool:
    cases, samples = dense(data["rounds"])
    return Pool(name, cases, samples, data["tick_ns"], data["planted"])


def _from_launches(name: str, data: Mapping[str, Any]) -> Pool:
    """Launches of the same code one after the other; two neighbours make a round."""
    sides = [launch["busy_ns"] for launch in data["launches"]]
    rounds = [{"base": one, "head": other} for one, other in zip(sides[::2], sides[1::2], strict=True)]
    cases, samples = dense(rounds)
    return Pool(name, cases, samples, data["tick_ns"])


def dense(rounds: Rounds) -> tuple[tuple[str, ...], Integers]:
    """The cases, sorted, and the samples of the rounds as an array.

    Rounds in which a case is missing or has fewer than MIN_SAMPLES samples are left out. All launches are cut to as
    many samples as the shortest of the rest has, at most SAMPLES. Raises ValueError where no round is whole.
    """
    cases = tuple(sorted({case for each in rounds for side in each.values() for case in side}))
    rows = [[each.get(side, {}) for side in SIDES] for each in rounds]
    whole = [
        launches
        for launches in rows
        if all(len(launch.get(case, ())) >= MIN_SAMPLES for launch in launches for case in cases)
    ]
    if not whole:
        raise ValueError(f"of {len(rounds)} rounds none has all of {len(cases)} cases on both sides")
    shortest = min(len(launch[case]) for launches in whole for launch in launches for case in cases)
    n = min(SAMPLES, shortest)
    samples = [[[launch[case][:n] for launch in launches] for launches in whole] for case in cases]
    return cases, np.array(samples, dtype=np.int64)


def rounds_of(events: Sequence[Mapping[str, Any]]) -> list[dict[str, dict[str, list[int]]]]:
    """The samples of a finished comparison: of each round both launches, by case."""
    launches = {event["launch"]: event for event in events if event["event"] == "launch"}
    rounds: dict[int, dict[str, dict[str, list[int]]]] = {}
    for event in events:
        if event["event"] == "measurement":
            launch = launches[event["launch"]]
            sides = rounds.setdefault(launch["round"], {})
            sides.setdefault(launch["side"], {})[event["case"]] = event["device_busy_ns"]
    return [rounds[number] for number in sorted(rounds)]


def pack(path: Path, facts: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]]) -> int:
    """Write a file that `pools` reads. Returns its size in bytes.

    Args:
        facts: of the machine; with `tick_ns`.
        runs: name → `how`, `planted` and `rounds` of a comparison.
    """
    text = json.dumps({"schema": SCHEMA, **facts, "runs": runs}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), GZIP_LEVEL, mtime=0))
    return path.stat().st_size
