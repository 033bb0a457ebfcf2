"""The runner measures. This is the public API for case authors.

In a launch this folder is loaded under the name `evenbench`, from its files; elsewhere `evenbench/__init__.py` re-exports it.
Only the standard library is imported here; the helpers and the instruments behind them when first asked for.
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
