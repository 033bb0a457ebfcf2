"""Is this machine fit to measure, and how to fix what is not: `evenbench doctor`, and the checks before every run.

`check` is one answer, and where answers come from. `host`, `gpu` and `stack` (torch, NVML, CUPTI) check whether the
machine can measure; the folder `hosting`, whether it can be a GitHub runner for code of pull requests.
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

__all__ = ["Check", "Host", "Probes", "check_before_run", "examine", "examine_host"]


def examine(gpu: str | None, python: Path | None, probes: Probes | None = None) -> list[Check]:
    """Check everything that a measurement depends on. A machine without a GPU is fit for the host timer, with a note.

    Args:
        gpu: ``--gpu``: an index, a UUID or the beginning of one; None: the first visible GPU.
        python: the interpreter whose torch and CUPTI are tried; None: our own.
        probes: where answers come from; default: this machine.

    Raises:
        UsageError: no such GPU, or no such interpreter.
    """
    probes = probes or Probes(os.environ)
    interpreter = given_python("--python", str(python)) if python else Path(sys.executable)
    present = probes.gpus()
    chosen = choose_gpu(gpu, present, probes.environ.get("CUDA_VISIBLE_DEVICES"))
    return [  # the GPU's other users before our own process uses it
        *host_checks(probes),
        *gpu_checks(chosen, present, probes),
        *stack_checks(chosen, interpreter, probes, inherit=python is None),
    ]


def check_before_run(
    gpu: Gpu | None, present: Sequence[Gpu], probes: Probes | None = None, *, go_on: bool = False
) -> list[str]:
    """The checks of the GPU, before anything is measured on it. Takes about half a second, more on a busy one.

    Args:
        gpu: the GPU of the run; None on a machine without, which is fit for host cases.
        present: all GPUs of the machine.
        go_on: ``--ignore-unfit``: report what is not fit instead of ending the run.

    Returns:
        With `go_on`, a line for each unfit check; else nothing.

    Raises:
        UnfitMachine: a check reports unfit; the hint is the fix.
    """
    probes = probes or Probes(os.environ)
    unfit = _unfit(gpu, present, probes)
    if unfit and gpu is not None:
        probes.pause(1.0)  # utilisation is an average over up to a second: work that has just ended still shows in it
        unfit = _unfit(gpu, present, probes)
    problems = [f"{check.name}: {check.read} (should be {check.should})" for check in unfit]
    if problems and not go_on:
        fixes = "; ".join(dict.fromkeys(check.fix for check in unfit if check.fix))
        raise UnfitMachine(f"this machine is not fit: {'; '.join(problems)}", f"{fixes}; or --ignore-unfit")
    return [f"measured although unfit: {text}" for text in problems]


def _unfit(gpu: Gpu | None, present: Sequence[Gpu], probes: Probes) -> list[Check]:
    # Two readings in half a second find another user; the doctor itself takes more time.
    return [check for check in gpu_checks(gpu, present, probes, readings=2) if check.state == "unfit"]
