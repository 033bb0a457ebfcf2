"""Starts the process that measures ceilings, with this interpreter and its libraries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..process.bounded import Finished, run_bounded

ANSWER_MAX = 1 << 20  # bytes of its answer: a hundred times the longest
PROGRAM = Path(__file__).resolve().parent.parent / "ceilings" / "probe" / "__main__.py"


def probe_here(device: str, gpu: str, timeout_s: float) -> Finished:
    """Measure a device, to the end.

    Args:
        device: ``cpu`` or ``cuda``.
        gpu: UUID of the GPU that the process sees; empty for none.
    """
    return run_bounded(
        [sys.executable, "-P", str(PROGRAM), device],
        cwd=Path.cwd(),
        environment={**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
        timeout_s=timeout_s,
        keep=ANSWER_MAX,
    )
