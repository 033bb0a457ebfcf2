"""`Results` → what lies behind each number, as text for a terminal: `evenbench run CASE --explain`. Pure.

What a kernel engineer asks when a number looks odd: which kernels ran and how they were launched, how the samples
spread, what lies between the kernels, what was thrown away, and what state the device was in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from statistics import median
from types import MappingProxyType
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evenbench.runner.records import CaseEvent, KernelRecord, LaunchEvent, SideName

from ... import units
from ...load.packed import Sampled
from ...load.results import Results
from ...rows.outcome import distinct, row_name
from ...rows.side_row import SideRow, SideRows, times
from ...rows.times import Times
from ...statistics.location import grouped_median
from ...text import sanitise
from ..terminal.lines import foreign, written
from ..wording import TIMERS
from . import evidence
from .histogram import bars

Line: TypeAlias = tuple[str, str | RenderableType]  # a label, and foreign text or what is rendered already

INDICES_MAX = 5  # samples named beside a reason for rejecting them
ERRORS_MAX = 3  # lost rounds that are quoted
NO_TIME = "one number a call: this timer sees neither kernels nor gaps nor copies"
STOPS: Mapping[str, str] = MappingProxyType(
    {"count": "at the planned count", "timeout": "by the time limit", "precision": "at the precision asked for"}
)


def explain(results: Results, width: int = 120, *, colour: bool = False, cases: Collection[str] | None = None) -> str:
    """Everything that the records hold on each case and implementation, side by side where there are several.

    Args:
        results: of any run, complete or not.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.
        cases: to explain; None for all.
    """
    sides = SideRows(results)
    names: list[SideName] = [side.name for side in results.header.sides]
    keys = [key for key in sides.keys(names) if cases is None or key[0] in cases]
    rows = [(key, sides.row(name, key)) for key in keys for name in names]
    parts: list[RenderableType] = []
    for key, row in rows:
        if row.status != "absent":
            title = row_name(*key) + (f" on {row.side}" if len(names) > 1 else "")
            parts += [*([Text()] if parts else []), Text(sanitise(title), "bold"), _row(row, results)]
    return written(parts or [Text("nothing was measured")], width, colour)


def explained(row: SideRow, results: Results, width: int) -> str:
    """The same of one row, without its name."""
    return written([_row(row, results)], width, colour=False)


def _row(row: SideRow, results: Results) -> RenderableType:
    """Labels and what they stand for, in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    found = times(row)
    lines: list[Line] = [("case", _case(row.case))]
    judged = row.alone() if results.header.verb == "run" else row  # a comparison weighs both sides
    if judged.status != row.status:
        lines.append((judged.status, judged.reason))
    lines += _failed(row) if found is None else _measured(row, found, results)
    for label, text in lines:
        if text:
            table.add_row(Text(f"  {label}", "dim"), foreign(text) if isinstance(text, str) else text)
    return table


def _case(case: CaseEvent | None) -> str:
    return evidence.joined(case.title, f"{case.file}:{case.line}") if case is not None else ""


def _failed(row: SideRow) -> list[Line]:
    return [(row.status if row.status != "ok" else "failed", row.reason or "not measured"), ("lost", _losses(row))]


def _measured(row: SideRow, found: Times, results: Results) -> list[Line]:
    records = [each.record for each in row.placed]
    launches = [each.launch for each in row.placed]
    return [
        ("device", _device(row, launches)),
        ("timer", _timer(row, records)),
        ("proof", evidence.proof(row, results)),
        ("samples", _samples(row, records)),
        ("rejected", _rejected(records)),
        ("retries", "; ".join(dict.fromkeys(chain.from_iterable(record.retries for record in records)))),
        ("lost", _losses(row)),
        ("busy", _busy(records, found)),
        ("launches", _launches(records)),
        ("latency", _latency(records, found)),
        ("copies", _copies(records, found)),
        ("kernels", _kernels(records, found)),
        ("rate", units.rate(found.tflops, found.bandwidth_tbs)),
        ("ceiling", evidence.ceiling(row, found)),
        ("clocks", evidence.clocks(row, results)),
        ("others", evidence.others(row, results)),
        ("inputs", _inputs(row.case)),
        ("check", ", ".join(distinct(record.check for record in records))),
    ]


def _device(row: SideRow, launches: Sequence[LaunchEvent]) -> str:
    """A case on the host names its CPU, never the GPU that its launches had beside it."""
    started = Counter("a plain start" if launch.start == "plain" else launch.start for launch in launches)
    by = ", ".join(f"{units.count(n, 'launch')} by {how}" for how, n in started.items())
    if row.on_host:
        return evidence.joined(", ".join(distinct(launch.cpu for launch in launches)) or evidence.HOST, by)
    seen = {f"{launch.device} {launch.mig}".strip() for launch in launches}
    drivers = distinct(launch.driver for launch in launches)
    return evidence.joined(
        ", ".join(sorted(seen)),
        ", ".join(distinct(launch.uuid for launch in launches)),
        f"driver {', '.join(drivers)}" if drivers else "",
        by,
    )


def _timer(row: SideRow, records: Sequence[Sampled]) -> str:
    names = distinct(record.timing for record in records)
    ticks = sorted({record.tick_ns for record in records if record.tick_ns})
    return evidence.joined(
        ", ".join(TIMERS.get(name, name) for name in names),
        row.case.fallback if row.case is not None else "",
        f"time stamps in steps of {', '.join(map(str, ticks))} ns" if ticks else "",
        f"{' and '.join(distinct(record.cache for record in records))} cache before each sample",
    )


def _samples(row: SideRow, records: Sequence[Sampled]) -> str:
    kept = sum(len(record.device_busy_ns) for record in records)
    batches = sorted({record.batch for record in records if record.batch > 1})
    stops = Counter(record.stop for record in records)
    warmup = row.implementation.warmup if row.implementation is not None else 0
    parts = [
        f"{kept:,} kept",
        f"{warmup:,} for warm-up in each launch" if warmup else "",
        f"each the mean of {', '.join(f'{batch:,}' for batch in batches)} calls" if batches else "",
        *(
            f"stopped {STOPS[stop]}" + (f" in {units.count(n, 'launch')}" if len(stops) > 1 else "")
            for stop, n in stops.items()
        ),
        "a long call: p10 and p90 are coarse" if any(record.coarse for record in records) else "",
    ]
    return ", ".join(part for part in parts if part)


def _rejected(records: Sequence[Sampled]) -> str:
    by_reason: dict[str, list[int]] = {}
    for rejected in chain.from_iterable(record.rejected for record in records):
        by_reason.setdefault(rejected.reason, []).append(rejected.index)  # of several launches: the same may come twice
    return "; ".join(
        f"{len(indices):,} × {reason} (sample {', '.join(map(str, indices[:INDICES_MAX]))}"
        f"{', …' if len(indices) > INDICES_MAX else ''})"
        for reason, indices in by_reason.items()
    )


def _losses(row: SideRow) -> str:
    return "; ".join(f"round {loss.round + 1}: {loss.error}" for loss in row.losses[:ERRORS_MAX])


def _busy(records: Sequence[Sampled], found: Times) -> RenderableType:
    samples = sorted(chain.from_iterable(record.device_busy_ns for record in records))
    middle, p10, p90, low, high = units.times((found.ns, *found.percentiles_ns, samples[0], samples[-1]))
    tick = max((record.tick_ns for record in records if record.tick_ns), default=1)
    headline = f"median {middle} · p10 {p10} · p90 {p90} · {low} to {high}"
    return Text("\n".join([headline, *bars(samples, tick)]))


def _launches(records: Sequence[Sampled]) -> str:
    """The location of each launch, where there are several."""
    if len(records) == 1:
        return ""
    return " ".join(units.times([grouped_median(record.device_busy_ns, record.tick_ns) for record in records]))


def _latency(records: Sequence[Sampled], found: Times) -> str:
    if all(record.n_kernels is None for record in records):
        return NO_TIME
    pairs = [
        pair
        for record in records
        if record.latency_ns
        for pair in zip(record.latency_ns, record.device_busy_ns, strict=True)
    ]
    if not pairs or found.latency_ns is None:
        return ""
    gap = median(latency - busy for latency, busy in pairs)
    latency, written_gap = units.time(found.latency_ns), units.time(gap)
    share = f", {units.percent(gap / found.latency_ns, plus=False)} of it" if found.latency_ns > 0 else ""
    return (
        f"median {latency} from first start to last end; gaps between kernels {written_gap}{share}, not counted as busy"
    )


def _copies(records: Sequence[Sampled], found: Times) -> str:
    if all(record.n_kernels is None for record in records):
        return ""
    if not found.uncounted_copy_ns:
        return "none beside what is counted"
    return f"{units.time(found.uncounted_copy_ns)} a call in copies and memsets, not counted as busy"


def _kernels(records: Sequence[Sampled], found: Times) -> RenderableType:
    kernels = [(record, kernel) for record in records for kernel in record.kernels]
    if not kernels:
        return "" if found.n_kernels is None else Text("none")
    samples = sum(len(record.device_busy_ns) for record in records)
    merged: dict[tuple[object, ...], list[KernelRecord]] = {}
    for _, kernel in kernels:
        key = (kernel.name, *kernel.grid, *kernel.block, kernel.registers, kernel.shared_memory, kernel.code)
        merged.setdefault(key, []).append(kernel)
    lines = [(each[0], sum(k.count for k in each), _middle(k.median_ns for k in each)) for each in merged.values()]
    total = sum(count * (ns or 0) for _, count, ns in lines)
    lines.sort(key=lambda line: (-(line[2] or 0) * line[1], line[0].name))
    table = Table.grid(padding=(0, 2, 0, 0))
    for title in ("a call", "median", "share", "grid", "block", "registers", "shared"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("kernel", overflow="fold")
    table.add_row(*(Text(str(column.header), "dim") for column in table.columns))
    written_times = units.times([ns for *_, ns in lines])
    for (kernel, count, ns), time in zip(lines, written_times, strict=True):
        share = units.percent(count * ns / total, plus=False) if ns and total else units.NOTHING
        shape = [
            _dimensions(kernel.grid),
            _dimensions(kernel.block),
            f"{kernel.registers:,}",
            f"{kernel.shared_memory:,} B",
        ]
        cells = [f"{count / samples:.3g}", time, share, *shape, sanitise(kernel.name)]
        table.add_row(*map(Text, cells))
    return Group(Text(_varying(records)), table)


def _varying(records: Sequence[Sampled]) -> str:
    counts = Counter(chain.from_iterable(record.n_kernels or () for record in records))
    if len(counts) == 1:
        return f"{units.count(next(iter(counts)), 'kernel')} a call"
    return "kernels a call: " + ", ".join(
        f"{n:,} in {units.count(seen, 'sample')}" for n, seen in sorted(counts.items())
    )


def _dimensions(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def _middle(values: Iterable[int]) -> float | None:
    known = [value for value in values if value > 0]
    return median(known) if known else None


def _inputs(case: CaseEvent | None) -> str:
    if case is None:
        return ""
    return ", ".join(f"{each.name} {each.dtype} {_dimensions(each.shape) or 'scalar'}" for each in case.inputs)
