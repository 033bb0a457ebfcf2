"""What a device's peaks depend on, read without using it: driver, maximum clocks, versions of libraries."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..machine.gpus import QUERY_S, Gpu
from .probe.probes import PEAKS_VERSION
from .store import Key

CLOCKS = ("sm", "memory")
CPU_INFO = Path("/proc/cpuinfo")
CPU_CLOCK = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")  # kHz; virtual machines have no such file


def gpu_key(gpu: Gpu, image: str) -> Key:
    """The key of a GPU.

    Args:
        image: digest of the image in which the probes run; empty where they run with this interpreter's libraries.
    """
    software = {"image": image} if image else versions(["torch", "cuda-core", "nvidia-cuda-nvrtc", "cupti-python"])
    return Key(
        gpu.name, gpu.uuid, {"probes": str(PEAKS_VERSION), "driver": gpu.driver, **max_clocks(gpu.uuid), **software}
    )


def host_key() -> Key:
    """The key of this machine's CPU, as far as this process may use it."""
    software = {"probes": str(PEAKS_VERSION), "cpus": str(len(os.sched_getaffinity(0))), **versions(["numpy"])}
    with contextlib.suppress(OSError, ValueError):
        software["clock"] = f"{int(CPU_CLOCK.read_text(encoding='ascii')) // 1000} MHz"
    return Key(cpu_name(), "", software)


def cpu_name(path: Path = CPU_INFO) -> str:
    """The CPU's model, as the operating system names it."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = (line.partition(":") for line in lines)
    model = next((value.strip() for name, _, value in fields if name.strip() == "model name"), "")
    return model or platform.machine() or "CPU"


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of those packages that are installed for this interpreter."""
    installed = {}
    for package in packages:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def max_clocks(uuid: str) -> dict[str, str]:
    """The highest clocks of a GPU; empty where the driver does not report them."""
    if importlib.util.find_spec("pynvml") is not None:
        return _from_nvml(uuid)
    query = ",".join(f"clocks.max.{clock}" for clock in CLOCKS)
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--id={uuid}", f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=QUERY_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in answer.stdout.split(",")]
    return _named([int(value) if value.isdigit() else 0 for value in values])


def _from_nvml(uuid: str) -> dict[str, str]:
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return {}
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        kinds = (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
        return _named([int(nvml.nvmlDeviceGetMaxClockInfo(handle, kind)) for kind in kinds])
    except nvml.NVMLError:
        return {}
    finally:
        nvml.nvmlShutdown()


def _named(megahertz: Sequence[int]) -> dict[str, str]:
    if len(megahertz) != len(CLOCKS):
        return {}
    return {f"{clock} clock": f"{value} MHz" for clock, value in zip(CLOCKS, megahertz, strict=True) if value}
