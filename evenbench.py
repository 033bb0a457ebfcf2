"""evenbench: one honest answer about which GPU kernels became slower or faster.

The name users import. Everything public lives in `runner` and is loaded when first used, so that importing this
costs nothing and needs neither torch nor CUDA.
"""

from __future__ import annotations

from runner import Bench, Case, Implementation, Work, __version__, case

__all__ = ["Bench", "Case", "Implementation", "Work", "__version__", "case"]
