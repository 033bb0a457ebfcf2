"""Checks of the GPU: present, ours alone, allowed to compute, not held back, sound.

What cannot be read about its other users counts as unfit. The list of processes is not asked for: in a container it is
empty on a busy card too, so memory in use and utilisation decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...words import count
from ...worker.launch.telemetry import IDLE, limits
from ..gpus import HIDDEN, QUERY_S, Gpu
from .check import Check, Probes, State, number, one_line, said

MEMORY_MAX_MIB = 1_024  # drivers before 510 count their own reserve as used, about 600 MiB of a large GPU
UTILISATION_MAX = 5  # percent: queries of a monitoring agent stay below, a tenant's work does not
READINGS = 3  # the driver's window for utilisation may be as short as 1/6 s; the busiest reading counts
READING_PAUSE_S = 0.4

MEMORY, UTILISATION, MODE = "memory.used", "utilization.gpu", "compute_mode"
CLOCK, CLOCK_MAX = "clocks.sm", "clocks.max.sm"
REASONS = "clocks_throttle_reasons.active"  # the older spelling, which newer drivers take as well
PERSISTENCE, MIG, ECC = "persistence_mode", "mig.mode.current", "ecc.errors.uncorrected.volatile.total"
FIELDS = (MEMORY, UTILISATION, MODE, CLOCK, CLOCK_MAX, REASONS, PERSISTENCE, MIG, ECC)

VISIBLE_MEND = "check nvidia-smi; a container needs --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
TENANT_MEND = "end what else uses this GPU (from a container, only the host sees it), or choose another with --gpu"


def gpu_checks(chosen: Gpu | None, found: Sequence[Gpu], probes: Probes, *, readings: int = READINGS) -> list[Check]:
    """Whether the chosen GPU can be measured on; without one, whether that is as it should be.

    Args:
        readings: how often its state is read.
    """
    if chosen is None:
        return [_no_gpu(found, probes)]
    read = one_line(f"{chosen.name}, driver {chosen.driver}, {chosen.uuid}")
    return [Check("GPU", "fit", read, "an NVIDIA GPU", ""), *_state_checks(chosen, probes, readings)]


def _no_gpu(found: Sequence[Gpu], probes: Probes) -> Check:
    should = "an NVIDIA GPU, for cases on one; the host timer needs none"
    files = probes.device_files()
    if found or (files and probes.environ.get("CUDA_VISIBLE_DEVICES") in ("", HIDDEN)):
        return Check("GPU", "note", "hidden by CUDA_VISIBLE_DEVICES", should, "unset it, or name one with --gpu")
    if files:
        return Check("GPU", "unfit", f"{', '.join(files)} without a driver that answers", should, VISIBLE_MEND)
    return Check("GPU", "note", "none", should, VISIBLE_MEND)


def _state_checks(gpu: Gpu, probes: Probes, turns: int) -> list[Check]:
    readings, problem = _readings(gpu, probes, turns)
    if not readings:
        return [Check("GPU state", "unfit", f"cannot be read: {problem}", "readable with nvidia-smi", VISIBLE_MEND)]
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
    """The GPU's state, read a few times, or why it cannot be: one failed reading voids the others."""
    command = ["nvidia-smi", f"--id={gpu.uuid}", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    readings: list[Mapping[str, str]] = []
    for turn in range(turns):
        if turn:
            probes.pause(READING_PAUSE_S)
        answer = probes.run(command, probes.environ, QUERY_S)
        values = [one_line(value) for value in answer.output.decode("utf-8", "replace").split(",")]
        if answer.status != 0 or len(values) != len(FIELDS):
            return [], said(answer)
        readings.append(dict(zip(FIELDS, values, strict=True)))
    return readings, ""


def _at_most(name: str, unit: str, texts: Sequence[str], limit: int) -> Check:
    """Fit where the greatest of the readings is within the limit; any that is no number counts as unfit."""
    should = f"at most {limit} {unit}"
    numbers = [read for text in texts if (read := number(text)) is not None]
    if len(numbers) < len(texts):
        unread = next(text for text in texts if number(text) is None)
        return Check(name, "unfit", f"cannot be read: {unread}", should, f"{VISIBLE_MEND}; turn MIG off")
    most = max(numbers)
    return Check(name, "fit" if most <= limit else "unfit", f"{most:g} {unit}", should, TENANT_MEND)


def _compute_mode(mode: str) -> Check:
    state: State = "fit" if mode in {"Default", "Exclusive_Process"} else "unfit"  # there is one launch at a time
    return Check("compute mode", state, mode, "Default", "nvidia-smi -c DEFAULT, as root")


def _clocks(reading: Mapping[str, str]) -> Check:
    should, mend = "held back by nothing", "undo fixed clocks (nvidia-smi -rgc, -rac), see to power and cooling"
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reading[REASONS]) is None:
        return Check("clocks", "note", f"what holds them back cannot be read: {reading[REASONS]}", should, "")
    reasons = int(reading[REASONS], 16)
    held = limits(reasons)
    causes = ", ".join(held) or ("nothing but idleness" if reasons & IDLE else "nothing")
    read = f"SM at {reading[CLOCK]} of {reading[CLOCK_MAX]} MHz, held back by {causes}"
    return Check("clocks", "note" if held else "fit", read, should, mend)


def _persistence(mode: str) -> Check:
    should = "Enabled: the driver, and its clocks, stay between launches"
    return Check("persistence", "fit" if mode == "Enabled" else "note", mode, should, "nvidia-smi -pm 1, as root")


def _mig(mode: str) -> Check:
    whole = mode in {"Disabled", "[N/A]", "[Not Supported]"}  # models that cannot be split have no such mode
    should = "Disabled: slices share power and clocks with their neighbours"
    return Check("MIG", "fit" if whole else "note", mode, should, "nvidia-smi -mig 0, as root")


def _ecc(text: str) -> Check:
    should, mend = "0 uncorrected errors since the driver was loaded", "reset the GPU; replace it if they come again"
    errors = number(text)
    if errors is None:
        return Check("ECC", "note", f"no count of errors: {text}", should, "")  # off, or a model without it
    return Check("ECC", "unfit" if errors else "fit", count(int(errors), "uncorrected error"), should, mend)
