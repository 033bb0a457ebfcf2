"""Checks of the GPU: present, ours alone, allowed to compute, not held back, sound.

What cannot be read about its other users counts as unfit. The list of processes is not used: in a container it is empty
on a busy GPU too, so memory in use and utilisation decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...words import count
from ...worker.launch.telemetry import IDLE, limits
from ..gpus import HIDDEN, QUERY_S, Gpu
from .check import Check, Probes, State, ending_of, number, one_line

MEMORY_MAX_MIB = 1_024  # drivers before 510 count their own reserve as used, about 600 MiB of a large GPU
UTILISATION_MAX = 5  # percent: the queries of a monitoring agent stay below, another user's work does not
READINGS = 3  # the driver's window for utilisation may be as short as 1/6 s; the busiest reading counts

MEMORY, UTILISATION, MODE = "memory.used", "utilization.gpu", "compute_mode"
CLOCK, CLOCK_MAX = "clocks.sm", "clocks.max.sm"
REASONS = "clocks_throttle_reasons.active"  # the older spelling, which newer drivers accept as well
PERSISTENCE, MIG, ECC = "persistence_mode", "mig.mode.current", "ecc.errors.uncorrected.volatile.total"
FIELDS = (MEMORY, UTILISATION, MODE, CLOCK, CLOCK_MAX, REASONS, PERSISTENCE, MIG, ECC)

VISIBLE_FIX = "check nvidia-smi; a container needs --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
TENANT_FIX = (
    "end other programs that use this GPU (a container does not see them, its host does), or choose another with --gpu"
)


def gpu_checks(chosen: Gpu | None, present: Sequence[Gpu], probes: Probes, *, readings: int = READINGS) -> list[Check]:
    """Whether the chosen GPU can be measured on; without one, whether that is intended.

    Args:
        readings: how often its state is read.
    """
    if chosen is None:
        return [_no_gpu(present, probes)]
    read = one_line(f"{chosen.name}, driver {chosen.driver}, {chosen.uuid}")
    return [Check("GPU", "fit", read, "an NVIDIA GPU", ""), *_state_checks(chosen, probes, readings)]


def _no_gpu(present: Sequence[Gpu], probes: Probes) -> Check:
    should = "an NVIDIA GPU, for cases that run on one; cases on the host need none"
    files = probes.device_files()
    if present or (files and probes.environ.get("CUDA_VISIBLE_DEVICES") in ("", HIDDEN)):
        return Check("GPU", "note", "hidden by CUDA_VISIBLE_DEVICES", should, "unset it, or name one with --gpu")
    if files:
        return Check("GPU", "unfit", f"{', '.join(files)}, but no driver answers", should, VISIBLE_FIX)
    return Check("GPU", "note", "not found", should, VISIBLE_FIX)


def _state_checks(gpu: Gpu, probes: Probes, turns: int) -> list[Check]:
    readings, problem = _readings(gpu, probes, turns)
    if not readings:
        return [Check("GPU state", "unfit", f"cannot be read: {problem}", "readable with nvidia-smi", VISIBLE_FIX)]
    last = readings[-1]
    return [
        _at_most("GPU memory", "MiB used", [reading[MEMORY] for reading in readings], MEMORY_MAX_MIB),
        _at_most("GPU use", "% busy", [reading[UTILISATION] for reading in readings], UTILISATION_MAX),
        _compute_mode(last[MODE]),
        _clocks(last),
        _persistence(last[PERSISTENCE]),
        _mig(last[MIG]),
        _ecc(last[ECC]),
    ]


def _readings(gpu: Gpu, probes: Probes, turns: int) -> tuple[list[Mapping[str, str]], str]:
    """The GPU's state, read a few times, or why it cannot be read: one failed reading voids the others."""
    command = ["nvidia-smi", f"--id={gpu.uuid}", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    readings: list[Mapping[str, str]] = []
    for turn in range(turns):
        if turn:
            probes.pause(0.4)  # seconds: the driver updates utilisation a few times a second
        answer = probes.run(command, probes.environ, QUERY_S)
        values = [one_line(value) for value in answer.output.decode("utf-8", "replace").split(",")]
        if answer.status != 0 or len(values) != len(FIELDS):
            return [], ending_of(answer)
        readings.append(dict(zip(FIELDS, values, strict=True)))
    return readings, ""


def _at_most(name: str, unit: str, texts: Sequence[str], limit: int) -> Check:
    """Fit where the greatest of the readings is within the limit; one that is not a number counts as unfit."""
    should = f"at most {limit} {unit}"
    most = 0.0
    for text in texts:
        value = number(text)
        if value is None:
            return Check(name, "unfit", f"cannot be read: {text}", should, f"{VISIBLE_FIX}; turn MIG off")
        most = max(most, value)
    return Check(name, "fit" if most <= limit else "unfit", f"{most:g} {unit}", should, TENANT_FIX)


def _compute_mode(mode: str) -> Check:
    state: State = "fit" if mode in {"Default", "Exclusive_Process"} else "unfit"  # there is one launch at a time
    return Check("compute mode", state, mode, "Default", "nvidia-smi -c DEFAULT, as root")


def _clocks(reading: Mapping[str, str]) -> Check:
    should, fix = "free", "undo fixed clocks (nvidia-smi -rgc, -rac); check power and cooling"
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reading[REASONS]) is None:
        return Check("clocks", "note", f"the reasons for throttling cannot be read: {reading[REASONS]}", should, "")
    reasons = int(reading[REASONS], 16)
    causes = limits(reasons)
    read = f"SM at {reading[CLOCK]} of {reading[CLOCK_MAX]} MHz"
    if causes:
        return Check("clocks", "note", f"{read}, limited by {', '.join(causes)}", should, fix)
    return Check("clocks", "fit", f"{read}, idle" if reasons & IDLE else f"{read}, not limited", should, fix)


def _persistence(mode: str) -> Check:
    should = "Enabled: keeps the driver and its clocks loaded between launches"
    return Check("persistence", "fit" if mode == "Enabled" else "note", mode, should, "nvidia-smi -pm 1, as root")


def _mig(mode: str) -> Check:
    whole = mode in {"Disabled", "[N/A]", "[Not Supported]"}  # models that cannot be split have no such mode
    should = "Disabled: slices share power and clocks with their neighbours"
    return Check("MIG", "fit" if whole else "note", mode, should, "nvidia-smi -mig 0, as root")


def _ecc(text: str) -> Check:
    should, fix = "0 uncorrected errors since the driver was loaded", "reset the GPU; replace it if they come back"
    errors = number(text)
    if errors is None:
        return Check("ECC", "note", f"no error count: {text}", should, "")  # off, or a model without it
    return Check("ECC", "unfit" if errors else "fit", count(int(errors), "uncorrected error"), should, fix)
