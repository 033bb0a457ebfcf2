"""Measured ceilings → terminal and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from evenbench.runner.records import CeilingsEvent

from ... import units
from ...units import unit_of
from .lines import foreign, written
from .vendor import Stated, stated

TIMERS: Mapping[str | None, str] = {"cupti": "CUPTI device-busy time", "host": "the host's clock"}
SIZES = ((30, "GiB"), (20, "MiB"), (10, "KiB"))


def ceilings_table(event: CeilingsEvent, width: int, *, colour: bool = False) -> str:
    """All rates of a device, how repeatable they are, and what the vendor states; the curve; what is missing and why."""
    known = stated(event.device)
    timing = TIMERS.get(event.timing, event.timing or "an unknown timer")
    head = f"{event.device} · {timing} · measured {event.at or 'at an unknown time'}"
    parts: list[RenderableType] = [foreign(head), _rates(event, known)]  # the table has an empty line at both ends
    if event.curve:
        parts += [foreign("copy, by the bytes that it moves, read and written ones together")]
        parts += [foreign(" · ".join(_curve_point(size, rate) for size, rate in event.curve))]
    if event.skipped:
        parts += [Text(), foreign("not measured")]
        parts += [foreign(f"{key}: {reason}") for key, reason in event.skipped.items()]
    if known is not None:
        parts += [Text(), foreign(f"stated, not measured: {'; '.join(known.sources)}")]
    return written(parts, width, colour, wrap=True)


def ceilings_json(event: CeilingsEvent) -> dict[str, Any]:
    """The record, with what the vendor states beside it."""
    known = stated(event.device)
    rates = {key: rate for key in event.rates if known and (rate := known.rate(key))}
    return {
        **event.model_dump(mode="json", exclude={"event"}),
        "stated": {"rates": rates, "sources": list(known.sources) if known else []},
    }


def _rates(event: CeilingsEvent, known: Stated | None) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1))
    table.add_column("ceiling", no_wrap=True)
    columns = ("peak", "median", "spread") + (("stated", "of stated") if known else ())
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reached by")
    for key, rate in event.rates.items():
        median, spread = event.spread.get(key, (None, None))
        claim = known.rate(key) if known else None
        cells = (
            key,
            units.quantity(rate, unit_of(key)),
            units.NOTHING if median is None else units.quantity(median, unit_of(key)),
            units.NOTHING if spread is None else units.percent(spread, 1, plus=False),
            units.NOTHING if claim is None else units.quantity(claim, unit_of(key)),
            units.NOTHING if claim is None else units.share(rate / claim),
        )
        table.add_row(*map(foreign, cells[: len(columns) + 1]), foreign(event.shapes.get(key, "")))
    return table


def _curve_point(size: int, rate: float) -> str:
    power, unit = next(((power, unit) for power, unit in SIZES if size >= 1 << power), (0, "B"))
    return f"{size / (1 << power):g} {unit}: {units.quantity(rate, 'B/s')}"
