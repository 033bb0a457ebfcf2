"""Fabricates runs: events as a driver would write them, with samples drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from evenbench.reports.load.lines import gather
from evenbench.reports.load.proofs import Planted, Proof
from evenbench.reports.load.results import Results, merge
from evenbench.runner.records import (
    CaseEvent,
    CeilingsEvent,
    End,
    Event,
    Failure,
    Harness,
    Header,
    ImplementationRecord,
    Input,
    JudgeSettings,
    KernelRecord,
    LaunchEnd,
    LaunchEvent,
    Lines,
    Measurement,
    Shard,
    SideEvent,
    SideInfo,
    SideName,
    WorkRecord,
    dump,
)

BASE_SHA, HEAD_SHA = "a" * 40, "b" * 40
SAMPLES = 20  # of a launch
NOISE = 0.002  # of a launch's location; the samples inside a launch vary as much
Data = Mapping[str, Any]
NONE: Mapping[Any, Any] = MappingProxyType({})
# Round numbers near an H200's, so that what they bind is computed by hand.
CEILINGS = CeilingsEvent(
    device="NVIDIA H200",
    uuid="GPU-1",
    rates={
        "compute/float32": 6e13,
        "compute/bfloat16": 1.2e14,
        "matrix/bfloat16": 8e14,
        "matrix/bfloat16/library": 8e14,
        "matrix/bfloat16/mma": 6e14,
        "memory/copy": 4e12,
        "memory/read": 4.5e12,
        "memory/write": 4.2e12,
        "launch": 4e5,
    },
    curve=[(1 << 13, 1e10), (1 << 20, 1e12), (1 << 24, 3e12), (1 << 27, 4e12)],
)


@dataclass(frozen=True)
class Case:
    """One case of a fabricated run.

    `base`, `head`, and `control` where the run has that side, are times in ns, of a round where they are callable; None where the side lacks the case. The other
    fields override what the side's `case` line, implementation, launches' measurements say; `dies` names rounds in which
    the case fails on a side.
    """

    id: str
    base: float | Callable[[int], float] | None = 20_000.0
    head: float | Callable[[int], float] | None = 20_000.0
    control: float | Callable[[int], float] | None = 20_000.0
    implementations: Sequence[str] = ("main",)
    both_case: Data = field(default_factory=dict)
    base_case: Data = field(default_factory=dict)
    head_case: Data = field(default_factory=dict)
    base_implementation: Data = field(default_factory=dict)
    head_implementation: Data = field(default_factory=dict)
    base_measurement: Data = field(default_factory=dict)
    head_measurement: Data = field(default_factory=dict)
    dies: Mapping[SideName, Mapping[int, str]] = field(default_factory=dict)


def header(**changes: Any) -> Header:
    """The header of a comparison of eight rounds."""
    values: dict[str, Any] = {
        "verb": "compare",
        "run_id": "run-1",
        "started": "2026-11-29T12:00:00Z",
        "sides": [
            SideInfo(name="base", label="main", sha=BASE_SHA),
            SideInfo(name="head", label="feature", sha=HEAD_SHA),
        ],
        "harness": Harness(version="0.1.0", sha="c" * 40),
        "suite": "pr",
        "seed": 7,
        "rounds": 8,
        "looks": [8, 16, 24],
        "judge": JudgeSettings(min_effect=0.005, equivalence=0.02, family_error=0.01),
    }
    return Header(**(values | changes))


def events(
    cases: Sequence[Case],
    *,
    made: int = 8,
    end: bool = True,
    prepared: Mapping[SideName, Data] = NONE,
    launches: Mapping[SideName, Data] = NONE,
    broken: Mapping[SideName, Mapping[str, str]] = NONE,
    telemetry: Mapping[SideName, Data] = NONE,
    ceilings: Sequence[CeilingsEvent] = (),
    **changes: Any,
) -> list[Event]:
    """All events of a run of `made` rounds. `changes` are of the header; the mappings override by side."""
    head_line = header(**changes)
    found: list[Event] = [head_line]
    names: list[SideName] = [side.name for side in head_line.sides]
    for name in names:
        side: dict[str, Any] = {
            "side": name,
            "status": "prepared",
            "python": "3.11.9",
            "torch": "2.13.0",
            "start": "fork",
        }
        found.append(SideEvent(**(side | dict(prepared.get(name, {})))))
    found.extend(ceilings)
    index = 0
    indices: dict[tuple[SideName, str], int] = {}
    for name in names:
        for file, error in broken.get(name, {}).items():
            found.append(CaseEvent(index=index, side=name, file=file, error=error))
            index += 1
        for case in cases:
            if getattr(case, name) is not None:
                indices[name, case.id] = index
                found.append(_case_event(case, name, index))
                index += 1
    number = 0
    for round_index in range(made):
        order = names if round_index % 4 in (0, 3) else names[::-1]
        for slot, name in enumerate(order):
            present = [case for case in cases if (name, case.id) in indices]
            found.append(
                _launch(
                    number,
                    name,
                    round_index,
                    slot,
                    [indices[name, case.id] for case in present],
                    launches.get(name, {}),
                )
            )
            for case in present:
                found.extend(_outcomes(case, name, number, round_index))
            found.append(LaunchEnd(launch=number, status="ok", wall_ns=10**9, telemetry=dict(telemetry.get(name, {}))))
            number += 1
    if end:
        found.append(End(at="2026-11-29T12:10:00Z", rounds=made, preparation_s=12.5, measuring_s=30.25))
    return found


def proofs(nights: int = 30, **changes: Any) -> list[Proof]:
    """Of an A/A run and a planted one each night before the fabricated run, on its GPU. `changes` are of all of them."""
    found = []
    for night in range(nights):
        at = datetime(2026, 11, 29, 2, tzinfo=UTC) - timedelta(days=night)
        common: dict[str, Any] = {
            "at": at.isoformat(),
            "uuids": ["GPU-1"],
            "devices": ["NVIDIA H200"],
            "drivers": ["580.159.04"],
            "harness": "0.1.0",
            "rows": 100,
            "flagged": 0,
            "names": [],
        }
        planted = Planted(case="norm/rms", fraction=0.05, found=True, change=0.054, interval=(0.051, 0.057))
        found.append(Proof(**(common | {"kind": "aa", "run_id": f"aa-{night}"} | changes)))
        values = common | {"kind": "planted", "run_id": f"planted-{night}", "planted": planted}
        found.append(Proof(**(values | changes)))
    return found


def results(cases: Sequence[Case], **options: Any) -> Results:
    """The results of a fabricated run."""
    return of(events(cases, **options))


def of(found: Sequence[Event], *, cut: bool = False) -> Results:
    """The results that these events make."""
    return merge([gather(Lines(list(found), cut))])


def text(found: Sequence[Event]) -> bytes:
    """The events as a file."""
    return "".join(dump(event) + "\n" for event in found).encode()


def shard(index: int, count: int) -> Shard:
    """One of `count` shards."""
    return Shard(index=index, count=count)


def _case_event(case: Case, side: SideName, index: int) -> CaseEvent:
    override = case.base_case if side == "base" else case.head_case
    implementation = case.base_implementation if side == "base" else case.head_implementation
    values: dict[str, Any] = {
        "index": index,
        "side": side,
        "id": case.id,
        "file": "cases/ops/norm.py",
        "line": 10,
        "device": "cuda",
        "timer": "cupti",
        "source": "5" * 64,
        "inputs": [Input(name="x", shape=[4096, 8192], dtype="bfloat16", sha="1" * 64)],
        "work": WorkRecord(dtype="bfloat16", flops=134_217_728, bytes_read=67_108_864, bytes_written=67_108_864),
        "implementations": [_implementation(name, implementation) for name in case.implementations],
    }
    return CaseEvent(**(values | dict(case.both_case) | dict(override)))


def _implementation(name: str, override: Data) -> ImplementationRecord:
    values: dict[str, Any] = {"name": name, "status": "ok", "samples": SAMPLES, "warmup": 5, "check": "passed"}
    return ImplementationRecord(**(values | dict(override)))


def _launch(number: int, side: SideName, round_index: int, slot: int, order: list[int], override: Data) -> LaunchEvent:
    values: dict[str, Any] = {
        "launch": number,
        "side": side,
        "kind": "timed",
        "round": round_index,
        "slot": slot,
        "start": "fork",
        "order": order,
        "device": "NVIDIA H200",
        "uuid": "GPU-1",
        "driver": "580.159.04",
    }
    return LaunchEvent(**(values | dict(override)))


def _outcomes(case: Case, side: SideName, launch: int, round_index: int) -> list[Event]:
    died = case.dies.get(side, {}).get(round_index)
    if died is not None:
        return [Failure(launch=launch, side=side, case=case.id, kind="runtime", error=died)]
    record = _case_event(case, side, 0)
    if record.status != "ok":
        return []
    override = case.base_measurement if side == "base" else case.head_measurement
    where = getattr(case, side)
    ok = [each.name for each in record.implementations if each.status == "ok"]
    return [
        _measurement(case.id, name, launch, _samples(where, case.id, name, side, round_index), override) for name in ok
    ]


def _samples(where: float | Callable[[int], float] | None, *key: Any) -> list[int]:
    drawn = random.Random("/".join(str(part) for part in key))
    center = where(key[-1]) if callable(where) else where
    assert center is not None
    located = center * (1 + drawn.gauss(0, NOISE))
    return [max(1, round(located * (1 + drawn.gauss(0, NOISE)))) for _ in range(SAMPLES)]


def _measurement(case: str, implementation: str, launch: int, samples: list[int], override: Data) -> Measurement:
    values: dict[str, Any] = {
        "launch": launch,
        "case": case,
        "implementation": implementation,
        "timing": "cupti",
        "device_busy_ns": samples,
        "latency_ns": [value + 500 for value in samples],
        "n_kernels": [1] * len(samples),
        "uncounted_copy_ns": [],
        "kernels": [
            KernelRecord(
                name="rms_kernel", grid=(132, 1, 1), block=(256, 1, 1), registers=32, code="9" * 64, count=len(samples)
            )
        ],
        "tick_ns": 32,
        "cache": "cold",
        "stop": "count",
        "check": "passed",
        "inputs": "1" * 64,
        "source": "5" * 64,
        "wall_ns": 10**7,
    }
    return Measurement(**(values | dict(override)))
