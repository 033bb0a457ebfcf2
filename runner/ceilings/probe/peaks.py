"""From a probed device to its peaks: rank the shapes of each target, measure the best, five times over. Pure."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import curve
from .benchmarker import RANKING_SAMPLES, Benchmarker, Probe, retarget
from .probes import Device, PeakTarget

REPEATS = 5  # of the whole: what differs between them is how repeatable a ceiling is
WINDOWS_MOST = 64  # of one launch of a small working set: their mean, and no more records than a timer holds
WINDOWS_FIRST = 8  # tell how long one takes
REASON_KEPT = 300  # characters of an error
MATRIX_WAYS = ("mma", "library")


@dataclass
class FoundPeaks:
    """What was found, by key; `repeats` holds a peak for each repetition, of which the highest is the ceiling."""

    repeats: dict[str, list[float]] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    curve: list[tuple[int, float]] = field(default_factory=list)

    def as_fields(self) -> dict[str, object]:
        """As the fields of a `ceilings` record; the higher of two ways to multiply matrices stands for both."""
        rates = {key: max(repeats) for key, repeats in self.repeats.items()}
        spread = {key: spread_of(repeats) for key, repeats in self.repeats.items()}
        shapes = dict(self.shapes)
        for dtype in dict.fromkeys(key.split("/")[1] for key in rates if key.startswith("matrix/")):
            ways = [key for way in MATRIX_WAYS if (key := f"matrix/{dtype}/{way}") in rates]
            best, both = max(ways, key=lambda key: rates[key]), f"matrix/{dtype}"
            rates[both], spread[both] = rates[best], spread[best]
            shapes[both] = f"{best.rsplit('/', 1)[1]}: {shapes[best]}"
        return {
            "rates": rates,
            "curve": [list(point) for point in self.curve],
            "spread": {key: list(pair) for key, pair in spread.items()},
            "shapes": shapes,
            "skipped": dict(self.skipped),
        }


@dataclass(frozen=True)
class _Chosen:
    key: str
    probe: Probe
    iterations: int
    rest_s: float


def spread_of(repeats: Sequence[float]) -> tuple[float, float]:
    """The median of the repeated peaks, and their range over it."""
    median = statistics.median(repeats)
    return median, (max(repeats) - min(repeats)) / median


def find(
    device: Device,
    bench: Benchmarker,
    tell: Callable[[str], None],
    *,
    repeats: int = REPEATS,
    only: str = "",
    rest: Callable[[float], object] = time.sleep,
) -> FoundPeaks:
    """Measure everything that a device offers. What it does not, or what fails, stands in `skipped` with its reason.

    Args:
        tell: told in a line what is measured now.
        repeats: how often every peak is measured.
        only: beginning of the keys to measure; then without the curve.
        rest: waits for so many seconds.
    """
    found = FoundPeaks()
    offered = [target for target in device.targets() if target.key.startswith(only)]
    for target in (target for target in offered if target.at_once):
        if chosen := _choose(target, bench, found, tell, warm=True):
            for _ in range(repeats):
                _measure(chosen, bench, found, warm=False)
    targets: list[_Chosen] = []
    for target in (target for target in offered if not target.at_once):
        if chosen := _choose(target, bench, found, tell, warm=not targets):
            targets.append(chosen)
    for repeat in range(repeats):
        tell(f"peaks, {repeat + 1} of {repeats}")
        for index, chosen in enumerate(targets):
            if chosen.rest_s:
                rest(chosen.rest_s)
            _measure(chosen, bench, found, warm=index == 0)  # the device is warm for those that follow at once
    found.repeats = {target.key: found.repeats[target.key] for target in offered if target.key in found.repeats}
    if not only:
        tell("bandwidth of small working sets")
        found.curve = curve.points(
            (size, rate)
            for size in curve.sizes(device.window_cap)
            if (rate := _windows(device, size, bench, found)) is not None
        )
    return found


def _choose(
    target: PeakTarget, bench: Benchmarker, found: FoundPeaks, tell: Callable[[str], None], *, warm: bool
) -> _Chosen | None:
    """The fastest shape of a target; None where none works. It is the device that gets warm, so the first one pays."""
    tell(target.key)
    try:
        shapes = target.shapes()
        first = shapes[0].probe
        iterations = bench.warm(first) if warm else bench.rank(first, 1)[1]
        ranked = []
        for shape in shapes:
            rate, iterations = bench.rank(shape.probe, iterations)
            ranked.append((rate, iterations, shape))
    except Exception as error:  # noqa: BLE001 - whatever a driver, library or device throws costs this key alone
        found.skipped[target.key] = reason_of(error)
        return None
    _, iterations, best = max(ranked, key=lambda entry: entry[0])
    found.shapes[target.key] = best.name
    return _Chosen(target.key, best.probe, iterations, target.rest_s)


def _measure(chosen: _Chosen, bench: Benchmarker, found: FoundPeaks, *, warm: bool) -> None:
    """One more peak of a key; one that failed, or is no rate, takes the key out."""
    if chosen.key in found.skipped:
        return
    try:
        if warm:
            bench.warm(chosen.probe)
        rate = bench.sample_at(chosen.probe, chosen.iterations)
        reason = "" if math.isfinite(rate) and rate > 0 else "the timer reads no time"
    except Exception as error:  # noqa: BLE001 - as above
        reason = reason_of(error)
    if reason:
        found.skipped[chosen.key] = reason
        found.repeats.pop(chosen.key, None)
        found.shapes.pop(chosen.key, None)
    else:
        found.repeats.setdefault(chosen.key, []).append(rate)


def _windows(device: Device, size: int, bench: Benchmarker, found: FoundPeaks) -> float | None:
    """The bandwidth at which the fastest shape copies so many bytes; None where none does it."""
    try:
        ranked = [_window(shape.probe) for shape in device.window(size)]
        _, iterations, best = min(ranked, key=lambda entry: entry[0])
        return bench.sample_at(best, iterations)
    except Exception as error:  # noqa: BLE001 - as above
        found.skipped["memory/curve"] = f"{size} bytes: {reason_of(error)}"
        return None


def _window(probe: Probe) -> tuple[float, int, Probe]:
    """The seconds of a copy, good enough to order shapes by, and how many to make in a sample.

    Few, other than of the peaks: each copy is a launch of its own, so more of them have no smaller cost.
    """
    probe.sample(WINDOWS_FIRST)
    took = min(probe.sample(WINDOWS_FIRST) for _ in range(RANKING_SAMPLES))
    return took, min(WINDOWS_MOST, retarget(WINDOWS_FIRST, took)), probe


def reason_of(error: Exception) -> str:
    """Why something was skipped, in a line."""
    text = " ".join((getattr(error, "message", "") or str(error)).split()) or type(error).__name__
    return text[:REASON_KEPT]
