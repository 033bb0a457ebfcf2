"""The most memory that a command holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KIB = 1024  # the unit of ru_maxrss on Linux
SCRIPT = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak_of(*words: str | Path) -> tuple[int, subprocess.CompletedProcess[str]]:
    """Run `evenbench` with these words; its peak in bytes, and how it ended."""
    command = [sys.executable, "-c", SCRIPT, sys.executable, "-m", "evenbench", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    error, _, peak = done.stderr.rstrip("\n").rpartition("\n")
    return int(peak) * KIB, subprocess.CompletedProcess(command, done.returncode, done.stdout, error)
