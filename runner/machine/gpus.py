"""The machine's GPUs, and which of them a run uses."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
from dataclasses import dataclass
from typing import Any

from ..errors import UnfitMachine, UsageError
from ..words import count

QUERY_S = 30.0  # nvidia-smi on a machine without persistence mode loads the driver first
COLUMNS = ("uuid", "name", "driver_version")  # of nvidia-smi, in the order of Gpu's fields
HIDDEN = "-1"  # in CUDA_VISIBLE_DEVICES: no GPU from here on, see the CUDA programming guide


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU: UUID, model, driver version."""

    uuid: str
    name: str
    driver: str


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs of this machine, in the driver's order; empty where there are none or no driver answers."""
    if importlib.util.find_spec("pynvml") is not None:
        return _from_nvml(importlib.import_module("pynvml"))
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(COLUMNS)}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=QUERY_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return _from_csv(answer.stdout)


def choose_gpu(name: str | None, present: list[Gpu], visible: str | None) -> Gpu | None:
    """The GPU to measure on: the named one, else the first visible one; None on a machine without a GPU.

    Args:
        name: ``--gpu``: an index in the driver's order, or a UUID or the beginning of one; None: not given.
        present: all GPUs of the machine.
        visible: CUDA_VISIBLE_DEVICES, where it is set.

    Raises:
        UsageError: no such GPU.
    """
    text = name if name is not None else (visible or "").split(",")[0].strip()
    if name is None and text == HIDDEN:
        text = ""
    if not present or (name is None and visible is not None and not text):
        if name is not None:
            raise UsageError(f"--gpu {name}: this machine has no NVIDIA GPU that answers")
        return None
    if not text:
        return present[0]
    matches = [gpu for gpu in present if gpu.uuid.startswith(text)]
    if re.fullmatch(r"\d{1,3}", text) and int(text) < len(present):
        matches = [present[int(text)]]
    if len(matches) != 1:
        names = ", ".join(f"{index}: {gpu.name} {gpu.uuid}" for index, gpu in enumerate(present))
        source = "--gpu" if name is not None else "CUDA_VISIBLE_DEVICES"
        raise UsageError(f"{source} {text} does not name one GPU", f"this machine has {names}")
    return matches[0]


def refuse_lost(gpu: Gpu | None) -> None:
    """Raises `UnfitMachine` when a run's GPU no longer answers. Called after a launch that returned nothing."""
    if gpu is not None and gpu.uuid not in {present.uuid for present in gpus()}:
        raise UnfitMachine(
            f"{gpu.name} {gpu.uuid} no longer answers",
            "run evenbench doctor until it does, then continue with --resume",
        )


def choose_gpus(selection: str, present: list[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs of ``--gpus``, in the driver's order of the visible ones, or in the order of the list.

    Args:
        selection: ``all`` visible ones, how many of them, or a list separated by commas: indices in the driver's order,
            UUIDs or the beginnings of some.
        present: all GPUs of the machine.
        visible: CUDA_VISIBLE_DEVICES, where it is set.

    Raises:
        UsageError: no such GPUs, or one is named twice.
    """
    number = int(selection) if re.fullmatch(r"\d{1,3}", selection) else None
    if selection == "all" or number is not None:
        usable = present if visible is None else _visible(present, visible)
        if not usable or number == 0 or (number or 0) > len(usable):
            raise UsageError(
                f"--gpus {selection}: this machine has {count(len(usable), 'visible NVIDIA GPU')}",
                "run evenbench doctor for details",
            )
        return usable if number is None else usable[:number]
    chosen = _named(selection, present)
    if not chosen:
        raise UsageError(f"--gpus {selection}: names no GPU", "name all, a number, or UUIDs")
    if len(set(chosen)) < len(chosen):
        raise UsageError(f"--gpus {selection}: names a GPU twice", "name each GPU once")
    return chosen


def _named(names: str, present: list[Gpu]) -> list[Gpu]:
    """The GPUs of a list separated by commas; empty on a machine without a GPU that is named."""
    chosen = []
    for name in names.split(","):
        gpu = choose_gpu(name.strip(), present, None) if name.strip() else None
        if gpu is not None:
            chosen.append(gpu)
    return chosen


def _visible(present: list[Gpu], visible: str) -> list[Gpu]:
    """The GPUs of CUDA_VISIBLE_DEVICES; none from an index of -1 on, see the CUDA programming guide."""
    gpus_in_order: dict[Gpu, None] = {}
    for name in visible.split(","):
        if name.strip() == HIDDEN:
            break
        gpu = choose_gpu(None, present, name.strip()) if name.strip() else None
        if gpu is not None:
            gpus_in_order[gpu] = None
    return list(gpus_in_order)


def _from_csv(text: str) -> list[Gpu]:
    """The GPUs of a table of `COLUMNS`; other lines of nvidia-smi, such as that it found none, are skipped."""
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()]
    return [Gpu(*row) for row in rows if len(row) == len(COLUMNS) and row[0].startswith("GPU-")]


def _from_nvml(nvml: Any) -> list[Gpu]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return [Gpu(nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle), driver) for handle in handles]
    except nvml.NVMLError:  # a GPU fell off the bus: the order of the others would not be the driver's
        return []
    finally:
        nvml.nvmlShutdown()
