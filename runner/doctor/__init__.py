"""Is this machine fit to measure, and how to mend what is not: `evenbench doctor`.

`check` holds what is said and where answers come from; `host`, `gpu` and `stack` look. Nothing here is privileged or
prints, every question has a time limit, and torch is imported in another process only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..machine import choose_gpu
from ..sides.environments import given_python
from .check import Check, Probes
from .gpu import gpu_checks
from .host import host_checks
from .stack import stack_checks

__all__ = ["Check", "Probes", "examine"]


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
