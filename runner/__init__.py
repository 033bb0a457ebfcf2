"""The runner measures. This is the public API for case authors.

In a launch this folder is loaded under the name `evenbench`, from its files; elsewhere `evenbench.py` re-exports it.
Only the standard library is imported here.
"""

from __future__ import annotations

from .case import Bench, Case, Implementation, Work, case

__version__ = "0.1.0"

__all__ = ["Bench", "Case", "Implementation", "Work", "__version__", "case"]
