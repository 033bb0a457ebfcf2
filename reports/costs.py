"""`Results` → what each row, or each case, takes of a launch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from .load import Results
from .rows import Key


def costs(results: Results) -> dict[Key, float]:
    """What each row takes of a launch in ns, the median over launches: its own time and an even part of what is left.

    What is left of a launch is its start, and the set-up and checks of its cases.
    """
    launches: dict[int, list[tuple[Key, int]]] = {}
    for key, placed in results.measurements.items():
        for launch, record in placed:
            launches.setdefault(id(launch), []).append((key, record.wall_ns))
    walls = {id(each.event): each.end.wall_ns for each in results.launches if each.end is not None}
    rows: dict[Key, list[float]] = {}
    for launch_id, measured in launches.items():
        rest = max(0, walls.get(launch_id, 0) - sum(wall for _, wall in measured)) / len(measured)
        for key, wall in measured:
            rows.setdefault(key, []).append(wall + rest)
    return {key: median(taken) for key, taken in rows.items()}


def of_cases(rows: Mapping[Key, float]) -> dict[str, float]:
    """The sum over the implementations of each case."""
    found: dict[str, float] = {}
    for (case, _), taken in rows.items():
        found[case] = found.get(case, 0.0) + taken
    return found
