"""Checks of the GPU that only its host can make: driver, other users, who may use it, clock policy.

All pure: from readings to checks.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ....process.bounded import Finished, readable
from ..check import Check, State, ending_of, number, one_line

DRIVER_MIN = 580  # the first whose CUDA driver runs CUDA 13, that of the image's torch
PROCESSES_SHOWN = 4
EXCLUSIVE = "Exclusive_Process"


def driver(version: str) -> Check:
    """Whether the driver is new enough for the image."""
    should = f"at least {DRIVER_MIN}, for CUDA 13"
    major = re.match(r"\d{1,5}", version, re.ASCII)
    state: State = "fit" if major and int(major[0]) >= DRIVER_MIN else "unfit"
    return Check("driver", state, one_line(version) or "not reported", should, "install a newer driver, then reboot")


def exclusive(compute_mode: Check) -> Check:
    """The doctor's check of the compute mode, made stricter: a machine that only measures shares its GPU with nobody."""
    if compute_mode.state != "fit":
        return compute_mode
    should = f"{EXCLUSIVE}: the driver refuses a second process, which would disturb unnoticed"
    state: State = "fit" if compute_mode.read == EXCLUSIVE else "note"
    return replace(
        compute_mode, state=state, should=should, fix="nvidia-smi -c EXCLUSIVE_PROCESS, as root, at each boot"
    )


def processes(answer: Finished) -> Check:
    """Other users of the GPU, by name. On the host the list is complete, unlike in a container.

    Args:
        answer: of ``nvidia-smi --query-compute-apps=pid,process_name,used_memory``, without header and units.
    """
    should, fix = "none", "end it; nvidia-cuda-mps-server: echo quit | nvidia-cuda-mps-control, as root"
    if answer.status != 0:
        return Check("GPU processes", "unfit", f"cannot be read: {ending_of(answer)}", should, "check nvidia-smi")
    names = [" ".join(line.split(", ")[:2]) for line in readable(answer.output)]
    if not names:
        return Check("GPU processes", "fit", "none", should, "")
    more = f" and {len(names) - PROCESSES_SHOWN} more" if len(names) > PROCESSES_SHOWN else ""
    return Check("GPU processes", "unfit", one_line(", ".join(names[:PROCESSES_SHOWN]) + more), should, fix)


def clock_policy(answer: Finished) -> Check:
    """How far clocks may go. A note at most: both sides of a round meet the same clocks, and launches record them.

    Args:
        answer: of ``nvidia-smi --query-gpu=power.limit,power.default_limit,clocks.max.sm``, without header and units.
    """
    should = "the model's default power limit and free clocks, as users of the kernels have them"
    values = [one_line(value) for value in answer.output.decode("utf-8", "replace").split(",")]
    if answer.status != 0 or len(values) != 3:
        return Check("clock policy", "note", f"cannot be read: {ending_of(answer)}", should, "")
    limit, usual = number(values[0]), number(values[1])
    read = f"power limit {values[0]} W of {values[1]} W, SM up to {values[2]} MHz"
    if limit is None or usual is None:
        return Check("clock policy", "note", read, should, "")
    lowered = limit < usual - 1.0  # limits are reported in hundredths of a watt
    return Check("clock policy", "note" if lowered else "fit", read, should, f"nvidia-smi -pl {usual:g}, as root")


def profiling(parameters: str | None) -> Check:
    """Whether hardware counters are closed to users; evenbench times by activity records, which need none.

    Args:
        parameters: ``/proc/driver/nvidia/params``; None where it cannot be read.
    """
    should = "for administrators only: evenbench needs no counters, and they show one user what another runs"
    match = re.search(r"^RmProfilingAdminOnly: (\d)", parameters or "", re.MULTILINE | re.ASCII)
    if match is None:
        return Check("GPU counters", "note", "who may read them is not reported", should, "")
    if match[1] != "0":
        return Check("GPU counters", "fit", "for administrators only", should, "")
    fix = "options nvidia NVreg_RestrictProfilingToAdminUsers=1 in /etc/modprobe.d/, then reboot"
    return Check("GPU counters", "note", "for every user", should, fix)
