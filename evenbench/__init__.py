"""evenbench: one honest answer about which GPU kernels became slower or faster.

The name users import. Everything public lives in `runner` and is loaded when first used, so that importing this
costs nothing and needs neither torch nor CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import runner
from .runner import Bench, Case, Implementation, Work, __version__, case

if TYPE_CHECKING:
    from .runner import Timing, backward_of, bench_kernel

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
    """What runner loads when first asked for."""
    if name in __all__:
        return getattr(runner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
