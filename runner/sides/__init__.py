"""A git ref or a directory → a side: a checkout together with the Python environment that runs it.

`side` prepares one; `checkouts` makes worktrees and copies, `trees` lists and hashes files, `environments` makes the
virtual environment, `git` runs git safely.
"""

from __future__ import annotations

from .checkouts import Checkout, SideSpec, check_out, release, side_config_text
from .side import Side, Sides, prepare, shared_preload
from .trees import code_stamps, copy_tree, edited_since

__all__ = [
    "Checkout",
    "Side",
    "SideSpec",
    "Sides",
    "check_out",
    "code_stamps",
    "copy_tree",
    "edited_since",
    "prepare",
    "release",
    "shared_preload",
    "side_config_text",
]
