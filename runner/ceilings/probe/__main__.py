"""The process that measures ceilings: ``python -P …/runner/ceilings/probe/__main__.py cpu|cuda``. One JSON line on stdout.

It stands alone, since a device that fails takes its process along, and so that who asks need not import torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from runpy import run_path

if not __package__:  # started by its path: load the folder that it belongs to under the name that launches use
    run_path(str(Path(__file__).resolve().parents[2] / "worker" / "__main__.py"))["load_evenbench"]()
    __package__ = "evenbench.ceilings.probe"
    __import__(__package__)

from ...errors import EvenbenchError
from .benchmarker import Benchmarker
from .peaks import REPEATS, find
from .probes import Device

BEGAN = time.perf_counter()


def main() -> int:
    """Measure; what goes on is told on stderr, the answer on stdout. Exit code 0 where there is an answer."""
    parser = argparse.ArgumentParser(prog="evenbench.runner.ceilings.probe", description=__doc__)
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("--zeros", action="store_true", help="constant data, to show what they pretend")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--only", default="", help="beginning of the keys to measure; then without the curve")
    options = parser.parse_args()
    try:
        device = _open(options.device, zeros=options.zeros)
        peaks = find(device, Benchmarker(time.perf_counter), _tell, repeats=options.repeats, only=options.only)
    except EvenbenchError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps({**peaks.as_fields(), "timing": device.timing}) + "\n")
    return 0


def _open(kind: str, *, zeros: bool) -> Device:
    if kind == "cuda":
        from .cuda import CudaDevice

        return CudaDevice(zeros=zeros)
    from .host import HostDevice

    return HostDevice(zeros=zeros)


def _tell(text: str) -> None:
    sys.stderr.write(f"[{time.perf_counter() - BEGAN:5.1f} s] {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
