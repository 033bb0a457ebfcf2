"""What launches said of their instrument and of their device, in words. Pure; quotes foreign text."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import TypeAlias

from ... import units
from ...load.results import Results
from ...rows.notes import CLOCK_KEY, THROTTLE_KEY
from ...rows.outcome import distinct
from ...rows.roofline import TOO_FAST, Need, is_cold, too_fast
from ...rows.side_row import SideRow
from ...rows.times import Times
from ...units import unit_of

Values: TypeAlias = dict[str, float | str | None]

HOST = "cpu"
TOLD = ("timer", "tick_ns", "spent_ms")  # facts of the instrument that stand elsewhere, or that nobody asks for


def proof(row: SideRow, results: Results) -> str:
    """What the instrument found out about itself, in the preparation launch and shorter in each timed one."""
    if row.case is None or row.case.timer != "cupti":
        return ""
    facts: Values = {}
    for launch in results.launches:
        if launch.event.side == row.side:
            facts |= launch.event.instrument
    return joined(
        *(_fact(name, value) for name, value in facts.items() if name not in TOLD and value not in (None, ""))
    )


def ceiling(row: SideRow, found: Times) -> str:
    """What the resources need at their peaks for the work that is declared, the one that binds first; empty without peaks."""
    if row.peaks is None or row.case is None:
        return ""
    if row.case.work is None:
        return "none: the case declares no work"
    if found.share is None:
        warm = "" if is_cold(found.records) else "its data may lie in a cache, "
        return f"none: {warm}no peak was measured for this work"
    first, *others = (_need(need) for need in found.needs)
    moved = row.case.work.bytes_read + row.case.work.bytes_written
    cached = "memory takes no part: the data may lie in a cache" if moved and not is_cold(found.records) else ""
    told = joined(f"bound by {first}, {units.share(found.share)} of the time", *others, cached)
    return f"{told}; more than {TOO_FAST:g} times the ceiling cannot be" if too_fast(found.share) else told


def _need(need: Need) -> str:
    """Such as ``memory/copy at 4.21 TB/s: at least 15.9 µs``."""
    rate = units.quantity(need.rate, unit_of(need.resource[0]))
    small = " (what a copy of so few bytes reaches)" if need.small else ""
    return f"{' and '.join(need.resource)} at {rate}{small}: at least {units.time(need.ns)}"


def clocks(row: SideRow, results: Results) -> str:
    """Clocks, power, temperature and what held the clocks back, over all timed launches; empty for a host case."""
    seen = _telemetry(row, results)
    if row.on_host:
        return ""
    if not any(CLOCK_KEY in values for values in seen):
        return ", ".join(distinct(str(values.get("note") or "") for values in seen)) or "not recorded"
    low, high = _numbers(seen, "sm_clock_min_mhz"), _numbers(seen, "sm_clock_max_mhz")
    parts = [
        f"SM {median(_numbers(seen, CLOCK_KEY)):g} MHz" + (f" ({min(low):g} to {max(high):g})" if low and high else "")
    ]
    for name, words in (("memory_clock_mhz", "memory {:g} MHz"), ("power_w", "{:.0f} W"), ("temperature_c", "{:g} °C")):
        if numbers := _numbers(seen, name):
            parts.append(words.format(median(numbers)))
    held = [str(values[THROTTLE_KEY] or "") for values in seen if THROTTLE_KEY in values]
    if held:
        limits = [each for each in held if each]
        which = f" in {len(limits):,} of {len(held):,} launches" if limits and len(held) > 1 else ""
        parts.append(f"held back by {'; '.join(distinct(limits)) or 'nothing'}{which}")
    parts.append(units.count(round(sum(_numbers(seen, "samples"))), "reading"))
    return ", ".join(parts)


def others(row: SideRow, results: Results) -> str:
    """Other users of the device and its memory errors, the most that any launch saw."""
    seen = _telemetry(row, results)
    memory = _numbers(seen, "memory_used_by_others_mib")
    processes = _numbers(seen, "other_processes")
    errors = _numbers(seen, "ecc_errors")
    return joined(
        f"up to {max(memory):,.0f} MiB in use by others" if memory else "",
        f"other processes: {max(processes):,.0f}" if processes else "",
        f"uncorrected memory errors: {max(errors):,.0f}" if errors else "",
    )


def _fact(name: str, value: float | str | None) -> str:
    number = isinstance(value, int | float)
    unit = next((unit for unit in ("ns", "us", "ms") if number and name.endswith(f"_{unit}")), "")
    words = name.removesuffix(f"_{unit}").replace("_", " ")
    return f"{words} {f'{value:.6g}' if number else value} {unit}".rstrip()


def _telemetry(row: SideRow, results: Results) -> list[Values]:
    if row.on_host:
        return []  # the state of a device that the case does not use
    ends = {id(launch.event): launch.end for launch in results.launches}
    found = [ends.get(id(each.launch)) for each in row.placed]
    return [end.telemetry for end in found if end is not None and end.telemetry]


def _numbers(seen: Iterable[Values], name: str) -> list[float]:
    return [value for values in seen if isinstance(value := values.get(name), int | float)]


def joined(*parts: str) -> str:
    """The parts that say something, in a row."""
    return " · ".join(part for part in parts if part)
