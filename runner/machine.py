"""The machine: its GPUs and the lock that keeps two runs off one of them."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UnfitMachine, UsageError

QUERY_S = 30.0  # nvidia-smi on a machine without persistence mode loads the driver first
COLUMNS = ("uuid", "name", "driver_version")  # of nvidia-smi, in the order of Gpu's fields
LOCK_WAIT_S = 3_600.0  # a full run of another job may hold the machine for about an hour
LOCK_POLL_S = 1.0
HOST = "host"  # name of the lock of a machine without GPUs
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


@contextlib.contextmanager
def machine_lock(
    name: str, waiting: Callable[[str], None], *, folder: Path | None = None, wait_s: float = LOCK_WAIT_S
) -> Iterator[None]:
    """Hold the host-wide lock of a GPU (by UUID) or of the host, so that no two runs disturb each other.

    Args:
        name: UUID, or `HOST`.
        waiting: told once, with a line of text, when another run holds it.
        folder: where lock files are; the temporary folder if left out.
        wait_s: seconds to wait for another run.

    Raises:
        UnfitMachine: another run has held it all that time, or the lock's file is not one that can be trusted.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"evenbench-{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
    descriptor = _open_lock(path)
    deadline = time.monotonic() + wait_s
    told = False
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    waiting(f"another run is measuring on {name}; waiting for it to end")
                    told = True
            if time.monotonic() > deadline:
                raise UnfitMachine(f"another run has held {name} for {wait_s:g} s", f"its lock is {path}")
            time.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """The lock file, never through a link; another user's file serves as well, since a lock needs no write."""
    problem = ""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        try:  # a pipe left there would block without O_NONBLOCK
            return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except OSError as error:
            problem = str(error.strerror)
            if not isinstance(error, PermissionError):
                break
    raise UnfitMachine(f"the lock {path} cannot be opened: {problem}", "remove it, or make it readable for this user")


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
