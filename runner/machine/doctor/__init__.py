"""Is this machine fit to measure, and how to fix what is not: `evenbench doctor`, and the look before every run.

`check` is one answer, and where answers come from. `host`, `gpu` and `stack` (torch, NVML, CUPTI) ask whether it can
measure; `hosting`, with `hosting_engine`, `hosting_gpu` and `hosting_runner`, whether it can be a GitHub runner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import UnfitMachine
from ...sides.environments import given_python
from ..gpus import Gpu, choose_gpu
from .check import Check, Probes
from .gpu import gpu_checks
from .host import host_checks
from .hosting import Host, examine_host
from .stack import stack_checks

__all__ = ["Check", "Host", "Probes", "examine", "examine_host", "look_before_run"]

RUN_READINGS = 2  # before a run: half a second finds a tenant; the doctor takes its time
FADE_S = 1.0  # utilisation is an average over up to a second: work that has just ended still shows in it


def examine(gpu: str | None, python: Path | None, probes: Probes | None = None) -> list[Check]:
    """Look at all that a measurement stands on. A machine without a GPU is fit for the host timer, with a note.

    Args:
        gpu: ``--gpu``: an index, a UUID or the beginning of one; None for the first visible.
        python: the interpreter whose torch and CUPTI are tried; None for our own.
        probes: where answers come from; this machine if left out.

    Raises:
        UsageError: no such GPU, or no such interpreter.
    """
    probes = probes or Probes(os.environ)
    interpreter = given_python("--python", str(python)) if python else Path(sys.executable)
    found = probes.gpus()
    chosen = choose_gpu(gpu, found, probes.environ.get("CUDA_VISIBLE_DEVICES"))
    return [  # the GPU's other users before our own process uses it
        *host_checks(probes),
        *gpu_checks(chosen, found, probes),
        *stack_checks(chosen, interpreter, probes, inherit=python is None),
    ]


def look_before_run(
    gpu: Gpu | None, found: Sequence[Gpu], probes: Probes | None = None, *, go_on: bool = False
) -> list[str]:
    """The checks of the GPU, before anything is measured on it. Takes about half a second, more on a busy one.

    Args:
        gpu: the GPU of the run; None on a machine without, which is fit for host cases.
        found: all GPUs.
        go_on: ``--ignore-unfit``: say what is not fit instead of ending the run.

    Returns:
        With `go_on`, a line for each unfit check; else nothing.

    Raises:
        UnfitMachine: a check reports unfit; the hint is the fix.
    """
    probes = probes or Probes(os.environ)
    unfit = _unfit(gpu, found, probes)
    if unfit and gpu is not None:
        probes.pause(FADE_S)
        unfit = _unfit(gpu, found, probes)
    said = [f"{check.name}: {check.read} (should be {check.should})" for check in unfit]
    if said and not go_on:
        mends = "; ".join(dict.fromkeys(check.mend for check in unfit if check.mend))
        raise UnfitMachine(f"this machine is not fit: {'; '.join(said)}", f"{mends}; or --ignore-unfit")
    return [f"measured although unfit: {text}" for text in said]


def _unfit(gpu: Gpu | None, found: Sequence[Gpu], probes: Probes) -> list[Check]:
    return [check for check in gpu_checks(gpu, found, probes, readings=RUN_READINGS) if check.state == "unfit"]
