"""One answer of the doctor, `Check`, and where answers come from: `Probes`."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ...process.bounded import Finished, readable, run_bounded
from ...timing.host import clock_resolution_ns
from ..gpus import Gpu, gpus

OUTPUT_MAX = 64 << 10  # bytes kept of the end of a program's output
TEXT_MAX = 300  # characters of that output in one check

State = Literal["fit", "unfit", "note"]


@dataclass(frozen=True)
class Check:
    """One property of the machine: what was read, what it should be, and how to fix it where it is not.

    An `unfit` check keeps the machine from measuring; a `note` is worth knowing and does not.
    """

    name: str
    state: State
    read: str
    should: str
    fix: str

    def as_dict(self) -> dict[str, str]:
        """The check for JSON."""
        return asdict(self)

    def line(self) -> str:
        """The check as one line for a terminal; what it should be only where it is not fit."""
        line = f"{self.state:<5}  {self.name:<15}  {self.read}"  # the longest name is "CUPTI self-test"
        if self.state == "fit":
            return line
        fix = f"; fix: {self.fix}" if self.fix else ""
        return f"{line}  (should be {self.should}{fix})"


def _run(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Finished:
    try:
        return run_bounded(argv, cwd=Path("/"), environment=environment, timeout_s=timeout_s, keep=OUTPUT_MAX)
    except OSError as error:
        return Finished(127, b"", f"{argv[0]}: {error.strerror}".encode(), truncated=False)  # 127, as a shell has it


def _device_files() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))


def _free_bytes(folder: Path) -> int:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"evenbench")
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def _noexec(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def _load() -> tuple[float, int]:
    return os.getloadavg()[0], os.cpu_count() or 1


@dataclass(frozen=True)
class Probes:
    """Where the answers come from; tests pass their own.

    Attributes:
        device_files: those of NVIDIA GPUs; present even where no driver answers.
        run: runs a program, given its arguments, environment and time limit in seconds.
        free_bytes: free space of a folder, after a write into it; raises OSError where that fails.
        noexec: whether a folder's file system runs no programs; raises OSError.
        load: the load average of the last minute and the number of CPUs; raises OSError.
    """

    environ: Mapping[str, str]
    gpus: Callable[[], list[Gpu]] = gpus
    device_files: Callable[[], list[str]] = _device_files
    run: Callable[[Sequence[str], Mapping[str, str], float], Finished] = _run
    temporary: Callable[[], str] = tempfile.gettempdir
    free_bytes: Callable[[Path], int] = _free_bytes
    noexec: Callable[[Path], bool] = _noexec
    clock_step_ns: Callable[[], int] = clock_resolution_ns
    load: Callable[[], tuple[float, int]] = _load
    pause: Callable[[float], None] = time.sleep


def ending_of(answer: Finished) -> str:
    """How a program ended, where it failed, and the last line of its output."""
    lines = readable(answer.output if answer.status == 0 else answer.errors or answer.output)
    ending = {None: "no answer in time", 0: ""}.get(answer.status, f"status {answer.status}")
    return one_line(": ".join(filter(None, (ending, lines[-1] if lines else "")))) or "no answer"


def number(text: str) -> float | None:
    """A plain non-negative decimal number; None for anything else, such as ``[N/A]``."""
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text, re.ASCII) else None


def one_line(text: str) -> str:
    """Foreign text as one bounded line without what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:TEXT_MAX]
