"""The parts of a figure, each in a process of its own with a time limit: one that fails does not lose the others."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenbench.runner.process.bounded import readable, run_bounded

ROOT = Path(__file__).resolve().parents[1]
OUTPUT_KEPT = 1 << 20
REASON_LINES = 1
REASON_MAX = 300

Found = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """What a part found, or in a line why it found nothing."""

    found: Found = field(default_factory=dict)
    missing: str = ""


def run_part(module: str, name: str, out: Path, limit_s: float) -> Part:
    """Run part `name` of a module, which answers in `out`/`name`.json; its output goes beside it.

    Args:
        module: by its full name, `__name__` where the parts are the caller's own.
        name: a part that the module serves.
        out: folder of the answer and the log.
        limit_s: after so many seconds the part is given up.
    """
    out.mkdir(parents=True, exist_ok=True)
    answer = out / f"{name}.json"
    answer.unlink(missing_ok=True)
    reason = run_logged([sys.executable, "-m", module, name, str(answer)], out / f"{name}.log", limit_s)
    if reason:
        return Part(missing=f"{name}: {reason}")
    try:
        return Part(json.loads(answer.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        return Part(missing=f"{name}: left no answer ({error})")


def run_logged(
    command: Sequence[str], log: Path, limit_s: float, *, cwd: Path = ROOT, environment: Mapping[str, str] = os.environ
) -> str:
    """Run a command, its output into `log`. Returns why it is no success; empty where it is one."""
    done = run_bounded(
        command, cwd=cwd, environment=environment, timeout_s=limit_s, keep=OUTPUT_KEPT, merge=True
    )  # fmt: skip
    log.write_bytes(done.output)
    last = " | ".join(readable(done.output)[-REASON_LINES:])[-REASON_MAX:]
    if done.status is None:
        return f"took over {limit_s:g} s: {last}"
    return f"ended with code {done.status}: {last}" if done.status else ""


def serve(parts: Mapping[str, Callable[[], Found]]) -> int:
    """The other end of `run_part`: what a module of parts does when it is started."""
    name, answer = sys.argv[1:]
    Path(answer).write_text(json.dumps(parts[name](), indent=1), encoding="utf-8")
    return 0


def fresh(folder: Path) -> Path:
    """An empty folder in the place of whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
