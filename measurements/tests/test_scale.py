"""The figures about size and several GPUs: what of them can be wrong on a small machine without a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from measurements.size import scale as prove_scale
from measurements.size import two_gpus as prove_two_gpus


def found(**values: float) -> dict[str, Any]:
    usual = {"processor_s": 1.0, "wall_s": 2.0, "resident_mb": 100.0, "tries": 1_000, "launch_ms": 1.0, "characters": 9}
    return usual | values


@pytest.mark.parametrize(
    ("part", "values", "kept"),
    [
        ("measure", {}, True),
        ("measure", {"processor_s": 16.0}, False),  # no more than 2 ms each, but not linear
        ("measure", {"processor_s": 21.0}, False),
        ("measure", {"resident_mb": 501.0}, False),
        ("report", {"processor_s": 30.5}, False),
        ("comment", {"resident_mb": 501.0}, False),
        ("comment", {"characters": 60_001}, False),
    ],
)
def test_every_limit_of_a_run_counts(part: str, values: dict[str, float], kept: bool) -> None:
    small: dict[str, Any] = {name: found() for name in ("measure", "plan", "report", "comment")}
    large = {name: found(processor_s=10.0, tries=10_000) for name in small}
    assert prove_scale._show_runs({1_000: small, 10_000: large | {part: large[part] | values}}) is kept


def test_two_gpus_are_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prove_two_gpus, "gpus", list)
    with pytest.raises(SystemExit, match="this machine has 0 GPUs"):
        prove_two_gpus.two_gpus(argparse.Namespace(out=tmp_path, launches=2))


def test_the_time_of_a_launch_is_told_in_parts() -> None:
    events: list[dict[str, Any]] = []
    for number, (wall, first) in enumerate([(3.0, 0.5), (2.0, 0.4), (9.0, 0.6)]):
        events += [
            {"event": "launch", "kind": "timed", "launch": number},
            {"event": "measurement", "launch": number, "wall_ns": 500_000_000},
            {"event": "measurement", "launch": number, "wall_ns": 700_000_000},
            {"event": "launch_end", "launch": number, "wall_ns": int(wall * 1e9), "first_sample_ns": int(first * 1e9)},
        ]
    assert prove_two_gpus._parts(events) == pytest.approx(
        {"to its first sample": 0.5, "sampling": 1.2, "between cases, and its end": 1.3}
    )


def test_cases_that_ran_on_two_gpus_are_found() -> None:
    launches = [{"event": "launch", "kind": "timed", "round": 0, "launch": n, "uuid": f"GPU-{n % 2}"} for n in range(4)]
    measured = [
        {"event": "measurement", "case": case, "launch": n} for case, n in (("a", 0), ("a", 2), ("b", 1), ("b", 2))
    ]
    assert prove_two_gpus._on_several([*launches, *measured]) == ["b"]
