"""The CUPTI timer proves itself, before the first case of a launch is timed by it.

In the preparation launch it reads kernels whose length is known, shows that its drop counter counts, and says which
versions met; every timed launch repeats the reading in short. What was found goes into the results file.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ...errors import MeasurementError, NoDeviceWork, RecordsLost, TimerUnavailable
from ...words import count
from ..protocol import BUFFER_BYTES, Segment
from .attribution import tick_of
from .driver import driver_version, profiler_here, torch_spinner
from .timer import OTHER_FIX, CuptiTimer, probe

Spin: TypeAlias = Callable[[int], object]
Facts: TypeAlias = dict[str, float | str | None]

SHORT_NS, LONG_NS = 20_000, 220_000  # half a percent of their difference is 1 µs, the coarsest tick of %globaltimer
REPEATS, CANARY_REPEATS = 10, 2  # of each length
LADDER_NS = range(
    2_000, 7_200, 130
)  # 40 lengths, none a multiple of a power of two apart: their durations tell the tick
SLOPE_ERROR, CANARY_SLOPE_ERROR = 0.005, 0.02  # few readings on a coarse tick scatter by more
CONSTANT_MAX_NS = 2_000  # launch and drain of a block: 690 on an H200
READINGS = 3  # clocks that come up from idle, or a neighbour, may spoil the first
RAMP_NS = 5_000_000  # spinning before another reading, so that clocks come up

TOO_SMALL_BYTES = 8  # a buffer that holds no record
DROP_ATTEMPTS = 3  # a larger buffer may still be in CUPTI's hands at the first

ENCODED_VERSION = 10_000  # what counts lower is no version of this form
PROC_MAPS = Path("/proc/self/maps")


@dataclass(frozen=True)
class SpinReading:
    """Medians that the timer read for the two lengths, in nanoseconds."""

    short_ns: float
    long_ns: float
    tick_ns: int | None = None
    """The grid that readings sit on; None where it could not be told."""

    @property
    def constant_ns(self) -> float:
        """What a reading has over the length of the kernel."""
        return self.short_ns - SHORT_NS

    @property
    def slope(self) -> float:
        """Nanoseconds read for each nanosecond that passed."""
        return (self.long_ns - self.short_ns) / (LONG_NS - SHORT_NS)

    def fault(self, slope_error: float) -> str:
        """What is wrong with it; empty where nothing is."""
        read = f"kernels of {SHORT_NS / 1_000:g} and {LONG_NS / 1_000:g} µs read {self.short_ns / 1_000:.2f} and "
        read += f"{self.long_ns / 1_000:.2f} µs"
        if abs(self.slope - 1) > slope_error:
            return f"{read}, which is not {(LONG_NS - SHORT_NS) / 1_000:g} µs more within {slope_error:.1%}"
        if abs(self.constant_ns) >= CONSTANT_MAX_NS:
            return f"{read}, which is {CONSTANT_MAX_NS / 1_000:g} µs off or more"
        return ""


@dataclass(frozen=True)
class Versions:
    """What met in this process; empty where it cannot be read."""

    cupti_python: str
    libcupti: str
    cuda_driver: str

    @property
    def fix(self) -> str:
        """What to do where CUPTI does not work: the two that must fit come first."""
        ours, theirs = self.cupti_python.split(".")[:2], self.libcupti.split(".")[:2]
        if not self.cupti_python or not self.libcupti or ours == theirs:
            return OTHER_FIX
        return (
            f"cupti-python {self.cupti_python} runs with libcupti {self.libcupti}: install nvidia-cuda-cupti "
            f"{'.'.join(ours)}, or use --timer cuda-events"
        )

    def refuse_broken(self) -> None:
        """Raises TimerUnavailable for versions known not to work together.

        Within one major version the fields read here lie in the same places of a record, so only the self-test can
        tell; across two the library's functions differ.
        """
        ours, theirs = self.cupti_python.split(".")[0], self.libcupti.split(".")[0]
        if ours and theirs and ours != theirs:
            raise TimerUnavailable(
                f"cupti-python {self.cupti_python} cannot work with libcupti {self.libcupti}", self.fix
            )


def verify(
    timer: CuptiTimer | None = None, spin: Spin | None = None, read_versions: Callable[[], Versions] | None = None
) -> Facts:
    """The self-test, in well under half a second.

    Returns:
        `constant_ns` and `slope` of the readings, `tick_ns` of the time stamps, `drop_counter` (live or unreadable),
        `cupti_python`, `libcupti`, `cuda_driver`, `profiler` (one that shows, though CUPTI works) and `spent_ms`.

    Raises:
        TimerUnavailable: what was read, and the fix.
    """
    timer = timer or CuptiTimer()
    versions = (read_versions or versions_here)()
    versions.refuse_broken()
    try:
        spin = spin or torch_spinner()
        began = time.perf_counter_ns()  # the device's context, which that made, is none of the test's cost
        probe(timer, lambda: spin(SHORT_NS))
        drop_counter = _prove_drop_counter(timer, spin)
        reading = _prove_clock(timer, spin, REPEATS, SLOPE_ERROR)
    except MeasurementError as error:
        raise _unproven(error, versions) from error
    return {
        **_facts(reading, began),
        "drop_counter": drop_counter,
        "cupti_python": versions.cupti_python,
        "libcupti": versions.libcupti,
        "cuda_driver": versions.cuda_driver,
        "profiler": profiler_here(),
    }


def canary(timer: CuptiTimer | None = None, spin: Spin | None = None) -> Facts:
    """The self-test in short, for a timed launch: a few milliseconds. Raises as `verify` does."""
    timer = timer or CuptiTimer()
    try:
        spin = spin or torch_spinner()
        began = time.perf_counter_ns()
        reading = _prove_clock(timer, spin, CANARY_REPEATS, CANARY_SLOPE_ERROR)
    except MeasurementError as error:
        raise _unproven(error, versions_here()) from error
    return _facts(reading, began)


def versions_here() -> Versions:
    """The versions of this process. To be asked once CUPTI was used, which loads libcupti."""
    try:
        cupti_python = importlib.metadata.version("cupti-python")
    except importlib.metadata.PackageNotFoundError:
        cupti_python = ""
    return Versions(cupti_python, _libcupti_version(), driver_version())


def spelled(version: int) -> str:
    """A version as libcupti counts it, for people: ``13.4.1`` for 130401; empty before 13.0, which counted 28."""
    if version < ENCODED_VERSION:
        return ""
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"


def _facts(reading: SpinReading, began: int) -> Facts:
    spent_ms = (time.perf_counter_ns() - began) / 1e6
    return {
        "timer": "cupti",
        "constant_ns": reading.constant_ns,
        "slope": round(reading.slope, 6),
        "tick_ns": reading.tick_ns,
        "spent_ms": round(spent_ms, 1),
    }


def _unproven(error: MeasurementError, versions: Versions) -> TimerUnavailable:
    """An error of the self-test. A fix that names no cause, or is meant for a case, gives way to the versions."""
    known = isinstance(error, TimerUnavailable) and error.hint not in ("", OTHER_FIX)
    hint = error.hint if known else versions.fix
    return TimerUnavailable(f"the self-test of CUPTI failed: {error.message}", hint)


def _prove_drop_counter(timer: CuptiTimer, spin: Spin) -> str:
    """Cause a drop, and see it counted. An unreadable counter is told: a short count is then an error."""
    for _ in range(DROP_ATTEMPTS):
        timer.open(count_copies=False, buffer_bytes=TOO_SMALL_BYTES)
        try:
            lost = _spin_block(timer, spin, [SHORT_NS]).lost
        except RecordsLost:  # nothing recorded, and nobody counts
            return "unreadable"
        except NoDeviceWork:  # nothing recorded, nothing counted
            continue
        finally:
            timer.close()
        if lost:
            return "live"
    raise TimerUnavailable(
        f"a buffer of {TOO_SMALL_BYTES} bytes holds no record, yet CUPTI counted none as dropped, so that losses "
        "would go unseen",
        OTHER_FIX,
    )


def _prove_clock(timer: CuptiTimer, spin: Spin, repeats: int, slope_error: float) -> SpinReading:
    lengths = [SHORT_NS, LONG_NS] * repeats
    timer.open(count_copies=False, buffer_bytes=BUFFER_BYTES)
    try:
        _spin_block(timer, spin, [SHORT_NS])  # the first launch of a kernel loads it; buffers too small go back
        for _ in range(READINGS):
            segment = _spin_block(timer, spin, lengths)
            fault = _incomplete(segment, len(lengths))
            if not fault:
                busy = segment.device_busy_ns
                ladder = _spin_block(timer, spin, LADDER_NS)
                tick_ns = tick_of(ladder.device_busy_ns)
                reading = SpinReading(statistics.median(busy[::2]), statistics.median(busy[1::2]), tick_ns)
                fault = reading.fault(slope_error)
                if not fault:
                    return reading
            spin(RAMP_NS)
        raise TimerUnavailable(fault, OTHER_FIX)
    finally:
        timer.close()


def _incomplete(segment: Segment, launches: int) -> str:
    """Why a block cannot be read; empty where every launch gave one kernel."""
    if segment.lost:
        return f"CUPTI lost {count(segment.lost, 'record')} of {count(launches, 'launch')}"
    if segment.rejected:
        return f"{len(segment.rejected)} of {launches} readings are bad: {segment.rejected[0][1]}"
    if segment.n_kernels != [1] * launches:
        return f"{launches} launches of one kernel gave {segment.n_kernels} kernels"
    return ""


def _spin_block(timer: CuptiTimer, spin: Spin, lengths: Sequence[int]) -> Segment:
    for i, ns in enumerate(lengths):
        timer.iterate(i, _nothing, lambda ns=ns: spin(ns))  # type: ignore[misc] # ns is bound at once
    return timer.collect()


def _nothing() -> None:
    """No preparation."""


def _libcupti_version() -> str:
    """The version of the libcupti that cupti-python calls; there may be another, which torch loaded."""
    path = _libcupti_path()
    version = ctypes.c_uint32(0)
    try:
        status = ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(version)) if path else 1
    except (OSError, AttributeError):
        return ""
    return "" if status else spelled(version.value)


def _libcupti_path() -> str:
    """The file that cupti-python's functions lie in, or the only libcupti there is; empty where it cannot be told."""
    try:
        mappings = PROC_MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    try:
        functions = importlib.import_module("cupti._internal.cupti")._inspect_function_pointers()  # noqa: SLF001
        address = next((address for address in functions.values() if address), 0)
    except (ImportError, AttributeError, RuntimeError):  # private, so it may go; a RuntimeError where nothing is loaded
        address = 0
    paths: set[str] = set()
    for mapping in mappings:
        if "libcupti" in mapping:
            bounds, *_, path = mapping.split(maxsplit=5)
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            if low <= address < high:
                return path
            paths.add(path)
    return paths.pop() if len(paths) == 1 else ""
