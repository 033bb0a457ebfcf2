"""A git ref or a directory → a side: a checkout together with the Python environment that runs it.

`side` prepares one; `checkouts` makes worktrees and copies, `trees` lists and hashes files, `environments` makes the
virtual environment, `git` runs git safely.
"""

from __future__ import annotations

from .checkouts import Checkout, SideSpec, check_out, release, side_config_text
from .side import Side, Sides, check_preload, prepare
from .trees import code_stamps, copy_tree, edited_since

__all__ = [
    "Checkout",
    "Side",
    "SideSpec",
    "Sides",
    "check_out",
    "check_preload",
    "code_stamps",
    "copy_tree",
    "edited_since",
    "prepare",
    "release",
    "side_config_text",
]
