"""Checks of the GPU that only its host can make: driver, who else is on it, who may, and how its clocks are held.

All pure: from what was read to what it means.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...process.bounded import Finished, readable
from .check import Check, State, number, one_line, said

DRIVER_MIN = 580  # the first whose CUDA driver runs CUDA 13, that of the image's torch
POWER_SLACK_W = 1.0  # limits are reported in hundredths of a watt
PROCESSES_SHOWN = 4
EXCLUSIVE = "Exclusive_Process"


def driver(version: str) -> Check:
    """Whether the driver is new enough for the image."""
    should = f"at least {DRIVER_MIN}, for CUDA 13"
    major = re.match(r"\d{1,5}", version, re.ASCII)
    state: State = "fit" if major and int(major[0]) >= DRIVER_MIN else "unfit"
    return Check("driver", state, one_line(version) or "not told", should, "install a newer driver, then reboot")


def exclusive(compute_mode: Check) -> Check:
    """The doctor's check of the compute mode, stricter: on a machine that only measures, nobody shares the GPU."""
    if compute_mode.state != "fit":
        return compute_mode
    should = f"{EXCLUSIVE}: a second process is refused by the driver, instead of disturbing unseen"
    state: State = "fit" if compute_mode.read == EXCLUSIVE else "note"
    return replace(
        compute_mode, state=state, should=should, mend="nvidia-smi -c EXCLUSIVE_PROCESS, as root, at each boot"
    )


def processes(answer: Finished) -> Check:
    """Other users of the GPU, by name. On the host the list is whole, unlike in a container.

    Args:
        answer: of ``nvidia-smi --query-compute-apps=pid,process_name,used_memory``, without header and units.
    """
    should, mend = "none", "end it; nvidia-cuda-mps-server: echo quit | nvidia-cuda-mps-control, as root"
    if answer.status != 0:
        return Check("GPU processes", "unfit", f"cannot be read: {said(answer)}", should, "check nvidia-smi")
    found = [" ".join(line.split(", ")[:2]) for line in readable(answer.output)]
    if not found:
        return Check("GPU processes", "fit", "none", should, "")
    more = f" and {len(found) - PROCESSES_SHOWN} more" if len(found) > PROCESSES_SHOWN else ""
    return Check("GPU processes", "unfit", one_line(", ".join(found[:PROCESSES_SHOWN]) + more), should, mend)


def clock_policy(answer: Finished) -> Check:
    """How far clocks may go. Told, not demanded: both sides of a round meet the same clocks, and launches record them.

    Args:
        answer: of ``nvidia-smi --query-gpu=power.limit,power.default_limit,clocks.max.sm``, without header and units.
    """
    should = "the model's own power limit; clocks free, as users of the kernels have them: each launch records them"
    values = [one_line(value) for value in answer.output.decode("utf-8", "replace").split(",")]
    if answer.status != 0 or len(values) != 3:
        return Check("clock policy", "note", f"cannot be read: {said(answer)}", should, "")
    limit, usual = number(values[0]), number(values[1])
    read = f"power limit {values[0]} W of {values[1]} W, SM up to {values[2]} MHz"
    if limit is None or usual is None:
        return Check("clock policy", "note", read, should, "")
    lowered = limit < usual - POWER_SLACK_W
    return Check("clock policy", "note" if lowered else "fit", read, should, f"nvidia-smi -pl {usual:g}, as root")


def profiling(parameters: str | None) -> Check:
    """Whether hardware counters are closed to users; evenbench times by activity records, which need none.

    Args:
        parameters: ``/proc/driver/nvidia/params``; None where it cannot be read.
    """
    should = "for administrators only: evenbench needs no counters, and they tell one user what another runs"
    found = re.search(r"^RmProfilingAdminOnly: (\d)", parameters or "", re.MULTILINE | re.ASCII)
    if found is None:
        return Check("GPU counters", "note", "who may read them is not told", should, "")
    if found[1] != "0":
        return Check("GPU counters", "fit", "for administrators only", should, "")
    mend = "options nvidia NVreg_RestrictProfilingToAdminUsers=1 in /etc/modprobe.d/, then reboot"
    return Check("GPU counters", "note", "for every user", should, mend)
