"""The machine: its GPUs, and which of them a run is to use."""

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
HIDDEN = "-1"  # in CUDA_VISIBLE_DEVICES: none from here on, as the CUDA guide has it


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


def choose_gpu(wanted: str | None, found: list[Gpu], visible: str | None) -> Gpu | None:
    """The GPU to measure on: the one asked for, else the first that is visible; None on a machine without any.

    Args:
        wanted: ``--gpu``: an index of the driver's order, or a UUID or the beginning of one.
        visible: CUDA_VISIBLE_DEVICES, where it is set.

    Raises:
        UsageError: no such GPU.
    """
    text = wanted if wanted is not None else (visible or "").split(",")[0].strip()
    if wanted is None and text == HIDDEN:
        text = ""
    if not found or (wanted is None and visible is not None and not text):
        if wanted is not None:
            raise UsageError(f"--gpu {wanted}: this machine has no NVIDIA GPU that answers")
        return None
    if not text:
        return found[0]
    matches = [gpu for gpu in found if gpu.uuid.startswith(text)]
    if re.fullmatch(r"\d{1,3}", text) and int(text) < len(found):
        matches = [found[int(text)]]
    if len(matches) != 1:
        names = ", ".join(f"{index}: {gpu.name} {gpu.uuid}" for index, gpu in enumerate(found))
        source = "--gpu" if wanted is not None else "CUDA_VISIBLE_DEVICES"
        raise UsageError(f"no single GPU is meant by {source} {text}", f"this machine has {names}")
    return matches[0]


def refuse_lost(gpu: Gpu | None) -> None:
    """Raises `UnfitMachine` when the GPU of a run does not answer any more. To be asked where nothing came of a launch."""
    if gpu is not None and gpu.uuid not in {each.uuid for each in gpus()}:
        raise UnfitMachine(
            f"{gpu.name} {gpu.uuid} does not answer any more",
            "evenbench doctor says when it does; then go on with --resume",
        )


def choose_gpus(wanted: str, found: list[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs of ``--gpus``, in the driver's order of what is visible, or as they are listed.

    Args:
        wanted: ``all`` that are visible, how many of them, or a list: indices of the driver's order, UUIDs or the
            beginnings of some, with commas between them.
        visible: CUDA_VISIBLE_DEVICES, where it is set.

    Raises:
        UsageError: no such GPUs, or one is named twice.
    """
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    number = int(wanted) if re.fullmatch(r"\d{1,3}", wanted) else None
    if wanted == "all" or number is not None:
        seen = found if visible is None else _visible(found, visible)
        if not seen or number == 0 or (number or 0) > len(seen):
            which = "that is visible and answers" if len(seen) == 1 else "that are visible and answer"
            raise UsageError(
                f"--gpus {wanted}: this machine has {count(len(seen), 'NVIDIA GPU')} {which}",
                "evenbench doctor says more",
            )
        return seen if number is None else seen[:number]
    chosen = [gpu for name in names if (gpu := choose_gpu(name, found, None)) is not None]
    if not chosen or len(set(chosen)) < len(chosen):
        raise UsageError(f"--gpus {wanted}: names {'a GPU twice' if chosen else 'no GPU'}", "all, a number, or UUIDs")
    return chosen


def _visible(found: list[Gpu], visible: str) -> list[Gpu]:
    """Those of CUDA_VISIBLE_DEVICES; after an index of -1 there are none, as the CUDA guide has it."""
    names = [name.strip() for name in visible.split(",") if name.strip()]
    names = names[: names.index(HIDDEN)] if HIDDEN in names else names
    return list(dict.fromkeys(gpu for name in names if (gpu := choose_gpu(None, found, name)) is not None))


def _from_csv(text: str) -> list[Gpu]:
    """The GPUs of a table of `COLUMNS`; what else nvidia-smi says, such as that it found none, is no row."""
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
    except nvml.NVMLError:  # one that fell off the bus: the order of the others would not be the driver's
        return []
    finally:
        nvml.nvmlShutdown()
