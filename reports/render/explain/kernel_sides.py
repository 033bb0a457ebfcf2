"""The kernels of two sides next to each other, as lines of text. Pure; quotes foreign text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from evenbench.runner.records import SideName

from ... import units
from ...load.results import Placed
from ...rows.side_row import SideRow

NAMES_MAX = 12  # kernels of a row that are shown; a case with more is a model, not a kernel
HASH_DIGITS = 8  # of a hash of the code: enough to see that two differ


class KernelShape(NamedTuple):
    """What makes two kernels of one name the same."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int
    shared_memory: int
    code: str

    def words(self) -> str:
        """How it was launched."""
        parts = [
            f"grid {dimensions(self.grid)}",
            f"block {dimensions(self.block)}",
            units.count(self.registers, "register"),
            f"{self.shared_memory:,} B shared",
            f"code {self.code[:HASH_DIGITS]}" if self.code else "",
        ]
        return " · ".join(part for part in parts if part)


@dataclass(frozen=True)
class KernelUse:
    """A kernel on one side: how often a call runs it, how long it takes, in how many of the side's launches."""

    a_call: float
    median_ns: float | None
    launches: int
    of: int

    @property
    def spent_ns(self) -> float:
        """Of a call; 0 where it is not known."""
        return self.a_call * (self.median_ns or 0)

    @property
    def some(self) -> str:
        """In how many launches, where not in all."""
        return f" in {self.launches} of {self.of} launches" if self.launches < self.of else ""


def kernel_lines(base: SideRow, head: SideRow) -> list[str]:
    """A line for each kernel's name, below it how base and head ran it: in one line where both ran it alike."""
    seen = {side.side: _seen(side.placed) for side in (base, head)}
    spent: dict[str, float] = {}
    for found in seen.values():
        for (name, _), each in found.items():
            spent[name] = max(spent.get(name, 0.0), each.spent_ns)
    names = sorted(spent, key=lambda name: (-spent[name], name))
    lines = []
    for name in names[:NAMES_MAX]:
        shapes = sorted({shape for found in seen.values() for other, shape in found if other == name})
        lines.append(name)
        for shape in shapes:
            lines += _shape_lines(shape, {side: found.get((name, shape)) for side, found in seen.items()})
    if len(names) > NAMES_MAX:
        lines.append(f"and {units.count(len(names) - NAMES_MAX, 'more kernel')}")
    return lines


def dimensions(shape: Sequence[int]) -> str:
    """Such as ``132×1×1``."""
    return "×".join(map(str, shape))


def _shape_lines(shape: KernelShape, sides: Mapping[SideName, KernelUse | None]) -> list[str]:
    base, head = sides["base"], sides["head"]
    if base is None or head is None:
        side, one = ("base", base) if base is not None else ("head", head)
        return (
            [f"  {side} only{one.some}: {one.a_call:.3g} × {units.time(one.median_ns)} · {shape.words()}"]
            if one
            else []
        )
    times = units.times((base.median_ns, head.median_ns))
    change = ""
    if base.median_ns and head.median_ns:
        change = f" ({units.percent(head.median_ns / base.median_ns - 1)})"
    ran = f"base{base.some} {base.a_call:.3g} × {times[0]}, head{head.some} {head.a_call:.3g} × {times[1]}{change}"
    return [f"  {ran} · {shape.words()}"]


def _seen(placed: Sequence[Placed]) -> dict[tuple[str, KernelShape], KernelUse]:
    samples = sum(len(each.record.device_busy_ns) for each in placed)
    counts: dict[tuple[str, KernelShape], int] = {}
    medians: dict[tuple[str, KernelShape], list[int]] = {}
    launches: dict[tuple[str, KernelShape], set[int]] = {}
    for each in placed:
        for kernel in each.record.kernels:
            shape = KernelShape(
                tuple(kernel.grid), tuple(kernel.block), kernel.registers, kernel.shared_memory, kernel.code
            )
            key = (kernel.name, shape)
            counts[key] = counts.get(key, 0) + kernel.count
            medians.setdefault(key, []).extend([kernel.median_ns] if kernel.median_ns else [])
            launches.setdefault(key, set()).add(each.launch.launch)
    return {
        key: KernelUse(count / samples, median(medians[key]) if medians[key] else None, len(launches[key]), len(placed))
        for key, count in counts.items()
    }
