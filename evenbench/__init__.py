"""evenbench: one honest answer about which GPU kernels became slower or faster.

What a case author imports: `Bench`, `Case`, `Implementation`, `Work`, `case`, and the helpers `bench_kernel` and
`backward_of`. They live in `runner` and are loaded when first used, so importing this needs neither torch nor CUDA.

The whole line, left to right; `runner` goes up to the file, `reports` goes on from it::

    discover → plan → execute → results.jsonl → load → compare → render → publish

The rest of the package, from the top down::

    `cli`      the command line: words → options → a call → an exit code
    `starter`  what `evenbench init` writes into a repository
    `reports`  judges a results file and publishes the verdict; never runs foreign code
    `runner`   measures, and writes the results file; foreign code runs in its launches alone

Imports point downward only. `reports` and `runner` are links to the folders beside this one.
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
    """Return what runner loads on first use."""
    if name in __all__:
        return getattr(runner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
