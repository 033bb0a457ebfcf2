"""What NVML sees of the device during a launch: clocks, power, temperature, limits, other users, memory errors.

A thread of the launch reads it about ten times a second, and in more detail after each case. It never touches CUDA, and
its calls into the driver let go of Python's lock, so that it costs the timed call nothing but rare microseconds on the
host. Without NVML a launch goes on, and says why it saw nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Values: TypeAlias = dict[str, float | str]

PERIOD_S = 0.1  # NVML's own readings change a few times a second; ten readings cost about 10 ms of a second's wall time
OPEN_WAIT_S = 30.0  # opening NVML takes 10 to 30 ms, several times that beside others; a silent driver is broken
STOP_WAIT_S = 1.0  # a driver that does not answer is left behind
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"  # the driver of the run puts the GPU's UUID there
UUID_STARTS = ("GPU-", "MIG-")
MIB = 1 << 20
TEXT_MAX = 200  # characters of a driver's message

IDLE = 0x01  # bits of nvmlClocksEventReasons (nvml.h): this one is no fault, those below hold clocks down
CLOCK_LIMITS = (
    (0x02, "application clocks"),
    (0x04, "power cap"),
    (0x08, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "temperature (software)"),
    (0x40, "temperature (hardware)"),
    (0x80, "power brake"),
    (0x100, "display clocks"),
)
COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")  # of nvmlComputeMode_t, in order


def limits(reasons: int) -> list[str]:
    """What holds the clocks down, from NVML's bits of clock-event reasons; empty where nothing does."""
    return [name for bit, name in CLOCK_LIMITS if reasons & bit]


class DeviceReading(NamedTuple):
    """The device at one moment; None where NVML does not say."""

    sm_mhz: int | None
    memory_mhz: int | None
    power_mw: int | None
    temperature_c: int | None
    reasons: int | None
    took_ns: int


class Usage(NamedTuple):
    """Who uses the device at one moment; None where NVML does not say. A container may see no process at all."""

    memory_used: int | None
    processes: dict[int, int | None] | None  # pid → bytes
    ecc_errors: int | None


@dataclass
class _Gathered:
    """What the thread has gathered."""

    readings: list[DeviceReading] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    facts: Values = field(default_factory=dict)


class Telemetry:
    """Watches one device from a thread, from `start` until `stop`.

    Args:
        nvml: the module `pynvml` or one that looks like it; None where there is none, and then nothing is seen.
        device: UUID of the GPU.
        note: why there is no `nvml`.
        period_s: seconds between two readings.
    """

    def __init__(self, nvml: Any, device: str, *, note: str = "", period_s: float = PERIOD_S) -> None:
        self._nvml = nvml
        self._device = device
        self._note = note
        self._period_s = period_s
        self._seen = _Gathered()
        self._first = threading.Event()
        self._wake = threading.Event()
        self._stopping = False
        self._unopened = False
        self._thread = threading.Thread(target=self._watch, name="evenbench-telemetry", daemon=True)

    def start(self) -> None:
        """Begin to watch; returns at once."""
        if self._nvml is not None:
            self._thread.start()

    def await_first(self, wait_s: float = OPEN_WAIT_S) -> None:
        """Wait for the first reading. Call it before this process opens the device: what is in use by then is others'.

        And the driver cannot do both at once: where CUDA opens the device while NVML is opened, a lock of libcuda stays
        with NVML's thread, and the next cuInit of another thread, such as cuBLAS's first, waits for ever (580.159).
        """
        if self._nvml is not None:
            self._unopened = self._first.wait(wait_s)
            if not self._unopened:
                self._note = f"NVML gave no reading within {wait_s:g} s"

    def mark(self) -> None:
        """A case is done: look once more, and at other users too. Returns at once."""
        self._wake.set()

    def stop(self) -> Values:
        """End the watch and sum it up in flat numbers and texts; what NVML did not say is left out, never 0."""
        if self._nvml is None:
            return {"note": self._note} if self._note else {}
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_WAIT_S)
        seen = self._seen
        values: Values = {"note": self._note} if self._note else {}
        values |= seen.facts
        values |= _of_readings(list(seen.readings))
        values |= _of_usages(list(seen.usages), os.getpid(), first_is_of_others=self._unopened)
        return values

    def _watch(self) -> None:
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self._seen.facts["note"] = f"NVML cannot be opened: {str(error)[:TEXT_MAX]}"
            self._first.set()
            return
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(self._device)
            self._seen.facts |= self._facts(handle)
            self._look(handle, closely=True)
            self._first.set()
            while not self._stopping:
                closely = self._wake.wait(self._period_s)
                self._wake.clear()
                self._look(handle, closely=closely)
        except nvml.NVMLError as error:
            self._seen.facts["note"] = f"NVML does not know {self._device}: {str(error)[:TEXT_MAX]}"
        finally:
            self._first.set()
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _look(self, handle: Any, *, closely: bool) -> None:
        if closely:
            self._seen.usages.append(self._usage(handle))
        self._seen.readings.append(self._reading(handle))

    def _reading(self, handle: Any) -> DeviceReading:
        nvml, began = self._nvml, time.perf_counter_ns()
        return DeviceReading(
            sm_mhz=self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            memory_mhz=self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            power_mw=self._ask("nvmlDeviceGetPowerUsage", handle),
            temperature_c=self._ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            reasons=self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle),
            took_ns=time.perf_counter_ns() - began,
        )

    def _usage(self, handle: Any) -> Usage:
        nvml = self._nvml
        # The second form of the memory query leaves out what the driver keeps for itself, as nvidia-smi does.
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2)
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        counted = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        return Usage(
            memory_used=None if memory is None else int(memory.used),
            processes=None if processes is None else {each.pid: each.usedGpuMemory for each in processes},
            ecc_errors=self._ask("nvmlDeviceGetTotalEccErrors", handle, *counted),
        )

    def _facts(self, handle: Any) -> Values:
        """What does not change during a launch."""
        facts: Values = {}
        if uuid := self._ask("nvmlDeviceGetUUID", handle):
            facts["uuid"] = str(uuid)[:TEXT_MAX]
        mode = self._ask("nvmlDeviceGetComputeMode", handle)
        if mode is not None:
            facts["compute_mode"] = COMPUTE_MODES[mode] if mode < len(COMPUTE_MODES) else str(mode)
        mig = self._ask("nvmlDeviceGetMigMode", handle)  # current and pending; models that cannot be split have none
        if mig is not None:
            facts["mig"] = "enabled" if mig[0] else "disabled"
        return facts

    def _ask(self, name: str, *arguments: Any) -> Any:
        """One question to NVML; None where this device, driver or module has no answer."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def start(device: str, environment: Mapping[str, str] | None = None) -> Telemetry:
    """Watch the device of a launch, or nothing where it is none that NVML knows.

    Args:
        device: torch's word for it, such as ``cuda`` or ``cpu``.
        environment: variables of this process; its own if left out.
    """
    if device != "cuda":
        return Telemetry(None, "")
    visible = (os.environ if environment is None else environment).get(VISIBLE_VARIABLE, "").split(",")[0].strip()
    if not visible.startswith(UUID_STARTS):  # an index would be CUDA's, whose order is not NVML's
        return Telemetry(None, "", note="nothing was seen of the device: its UUID is not known")
    try:
        nvml = importlib.import_module("pynvml")  # torch, where it finds one, has imported it already
    except ImportError:
        return Telemetry(None, "", note="nothing was seen of the device: pynvml is not installed")
    telemetry = Telemetry(nvml, visible)
    telemetry.start()
    return telemetry


def _of_readings(readings: Sequence[DeviceReading]) -> Values:
    values: Values = {"samples": len(readings)}
    if not readings:
        return values
    # An idle device lowers its clocks, which says nothing about those that the samples ran at.
    busy = [each for each in readings if each.reasons is None or not each.reasons & IDLE] or readings
    clocks = [each.sm_mhz for each in busy if each.sm_mhz is not None]
    if clocks:
        values |= {
            "sm_clock_mhz": statistics.median(clocks),
            "sm_clock_min_mhz": min(clocks),
            "sm_clock_max_mhz": max(clocks),
        }
    memory = [each.memory_mhz for each in busy if each.memory_mhz is not None]
    values |= _median_and_max("memory_clock", "mhz", memory, with_max=False)
    watts = [each.power_mw / 1_000 for each in busy if each.power_mw is not None]
    values |= _median_and_max("power", "w", watts)
    degrees = [each.temperature_c for each in readings if each.temperature_c is not None]
    values |= _median_and_max("temperature", "c", degrees)
    known = [each.reasons for each in readings if each.reasons is not None]
    if known:
        union = 0
        for reasons in known:
            union |= reasons
        values["throttle_reasons"] = ", ".join(limits(union))
        values["throttled_samples"] = sum(1 for reasons in known if limits(reasons))
    values["reading_us"] = statistics.median(each.took_ns for each in readings) / 1_000
    return values


def _median_and_max(name: str, unit: str, numbers: Sequence[float], *, with_max: bool = True) -> Values:
    if not numbers:
        return {}
    middle: Values = {f"{name}_{unit}": statistics.median(numbers)}
    return middle | ({f"{name}_max_{unit}": max(numbers)} if with_max else {})


def _of_usages(usages: Sequence[Usage], pid: int, *, first_is_of_others: bool) -> Values:
    """Other users and memory errors. A list of processes counts only where it holds our own process.

    Args:
        pid: of this process.
        first_is_of_others: the first was taken before this process opened the device.
    """
    values: Values = {}
    others = [
        max(0, usage.memory_used - own)
        for usage in usages
        if usage.memory_used is not None and usage.processes and (own := usage.processes.get(pid)) is not None
    ]
    if first_is_of_others and usages and usages[0].memory_used is not None:
        others.append(usages[0].memory_used)
    if others:
        values["memory_used_by_others_mib"] = math.ceil(max(others) / MIB)
    if any(usage.processes and pid in usage.processes for usage in usages):
        values["other_processes"] = max(len(set(usage.processes or ()) - {pid}) for usage in usages)
    errors = [usage.ecc_errors for usage in usages if usage.ecc_errors is not None]
    if errors:
        values["ecc_errors"] = max(errors)
    return values
