"""Numbers as people read them. Pure; the raw ones go into JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenbench.runner.words import count as count  # noqa: PLC0414 - it is one of these

SPACE = " "  # between number and unit; a plain one, since narrow ones break columns in some fonts
MINUS = "−"
NOTHING = "–"  # stands where a number is missing: missing is never 0
TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
RATE_PREFIXES = (
    (0.1, 1.0, "T"),
    (1e-4, 1e-3, "G"),
    (0.0, 1e-6, "M"),
)  # lowest rate in tera, scale, prefix: from a tenth of the unit on: a GPU's rates stay in one
DIGITS = 3  # significant; one more where two times would read the same
ABSURD_PERCENT = 1e6  # no change of a kernel: written short, since a broken clock can make hundreds of digits
INTEGERS = ("int8", "int32")  # dtypes whose operations are no floating-point ones
FINE_HALF_WIDTH = 0.0005  # an interval narrower than ± 0.05 % needs a second decimal to be seen


def times(values_ns: Sequence[float | None]) -> tuple[str, ...]:
    """Times in one unit, that of the largest, so that a reader can compare the numbers."""
    known = [value for value in values_ns if value is not None]
    if not known:
        return tuple(NOTHING for _ in values_ns)
    scale, unit = next((pair for pair in TIME_UNITS if max(known) >= pair[0]), TIME_UNITS[-1])
    written = [_significant(value / scale, DIGITS) for value in known]
    if len(set(written)) < len(set(known)):
        written = [_significant(value / scale, DIGITS + 1) for value in known]
    texts = iter(written)
    return tuple(NOTHING if value is None else f"{next(texts)}{SPACE}{unit}" for value in values_ns)


def time(value_ns: float | None) -> str:
    """One time, such as ``20.1 µs``."""
    return times([value_ns])[0]


def seconds(value: float) -> str:
    """Wall-clock seconds of a run, such as ``12.3 s`` or ``3 min 20 s``."""
    if value < 100:
        return f"{value:.1f}{SPACE}s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes}{SPACE}min {rest}{SPACE}s"


def percent(fraction: float, decimals: int = 1, *, plus: bool = True) -> str:
    """A change, such as ``+3.1 %``; no sign where it rounds to 0."""
    return f"{_signed(fraction, decimals, plus=plus)}{SPACE}%"


def setting(fraction: float) -> str:
    """A threshold as it was set, such as ``0.5 %``."""
    return f"{fraction * 100:g}{SPACE}%"


def change(fraction: float | None, interval: tuple[float, float] | None) -> str:
    """A change with its interval, such as ``+3.1 % [2.8, 3.4]``."""
    if fraction is None:
        return NOTHING
    if interval is None:
        return percent(fraction)
    low, high = interval
    decimals = 2 if (high - low) / 2 < FINE_HALF_WIDTH else 1
    ends = f"[{_signed(low, decimals, plus=False)}, {_signed(high, decimals, plus=False)}]"
    return f"{percent(fraction, decimals)} {ends}"


def share(fraction: float) -> str:
    """A share of a ceiling, such as ``83 %``."""
    return percent(fraction, 0, plus=False)


def rate(tflops: float | None, bandwidth_tbs: float | None) -> str:
    """The rates that are known, such as ``312 TFLOP/s · 2.1 TB/s``."""
    parts = []
    if tflops:
        parts.append(_scaled(tflops, "FLOP/s"))
    if bandwidth_tbs:
        parts.append(_scaled(bandwidth_tbs, "B/s"))
    return " · ".join(parts)


def quantity(value: float, unit: str) -> str:
    """A rate in its unit, such as ``4.31 TB/s``."""
    return _scaled(value / 1e12, unit)


def _scaled(tera: float, unit: str) -> str:
    scale, prefix = next((scale, prefix) for lowest, scale, prefix in RATE_PREFIXES if tera >= lowest)
    return f"{_significant(tera / scale, DIGITS)}{SPACE}{prefix}{unit}"


def ratio(value: float) -> str:
    """A multiple, such as ``1.03 ×``."""
    return f"{_significant(value, DIGITS)}{SPACE}×"


def _signed(fraction: float, decimals: int, *, plus: bool) -> str:
    size = abs(fraction) * 100
    text = f"{size:.{decimals}f}" if size < ABSURD_PERCENT else f"{size:.0e}"
    if not text.strip("0."):
        return text
    return (MINUS if fraction < 0 else "+" if plus else "") + text


def _significant(value: float, digits: int) -> str:
    """Plainly written, never with an exponent: significant digits after the point, all of them before it."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = digits - 1 - math.floor(math.log10(abs(rounded))) if rounded else decimals
    return f"{rounded:.{max(0, decimals)}f}"


def unit_of(key: str) -> str:
    """What a rate counts, a second."""
    if key.startswith("memory/"):
        return "B/s"
    if key == "launch":
        return "/s"
    return "OP/s" if any(part in INTEGERS for part in key.split("/")) else "FLOP/s"
