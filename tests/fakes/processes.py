"""Processes that leave files of their number in a folder: which of them still run."""

from __future__ import annotations

import time
from pathlib import Path

GONE_S = 10.0  # they die with their launch or driver, within a moment


def alive(folder: Path) -> list[int]:
    """Those that still run; files of other names are passed over."""
    found = []
    for entry in folder.iterdir():
        try:
            state = Path("/proc", entry.name, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(int(entry.name))
    return found


def soon_gone(folder: Path) -> bool:
    """Whether all of them end within a moment."""
    deadline = time.monotonic() + GONE_S
    while alive(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(folder)
