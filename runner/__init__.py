"""The runner measures: discover → plan → execute → results.jsonl. It is also the public API for case authors.

In a launch this folder is loaded under the name `evenbench`, from its files; elsewhere `evenbench` re-exports it. Only the
standard library is imported here, and all imports inside are relative. The folders in the order of the line::

    `case`       what an author writes, and how it is found
    `config`     suites.yaml and options → settings
    `plan`       a request → which cases run, in which order, on which machine
    `sides`      a git ref or directory → a checkout with its Python environment
    `launchers`  how launches start: as processes, or in containers
    `worker`     the launch side: the warm parent, and what a launch does
    `timing`     one measurement, and one module an instrument
    `execute`    prepared sides → rounds of launches → results.jsonl
    `records`    the lines of that file: everything that measuring and judging share

Beside the line: `artifacts` (generated texts), `ceilings` (what a device reaches), `machine` (GPUs, locks, the doctor),
`process` (child processes, pipes, time limits), `errors` (every error and its exit code) and `words`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .case.declare import Bench, Case, Implementation, Work, case

if TYPE_CHECKING:
    from .worker.launch.helpers import Timing, backward_of, bench_kernel

__version__ = "0.1.0"

__all__ = [
    "Bench",
    "Case",
    "Implementation",
    "Timing",
    "Work",
    "__version__",
    "backward_of",
    "bench_kernel",
    "case",
]


def __getattr__(name: str) -> Any:
    if name in {"Timing", "backward_of", "bench_kernel"}:
        from .worker.launch import helpers

        return getattr(helpers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
