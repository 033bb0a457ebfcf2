"""What rich draws → lines of text, for every table of the terminal. Light: an answer that is kept imports no more."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType
from rich.text import Text

from ...text import sanitise


def foreign(text: str) -> Text:
    """Foreign text: no control characters, and none of rich's own markup."""
    return Text(sanitise(text))


def written(parts: Iterable[RenderableType], width: int, colour: bool, *, wrap: bool = False) -> str:
    """The parts one below the other, without spaces at the ends of lines.

    Args:
        wrap: lines that are wider than the console are broken; else they are so on purpose.
    """
    file = StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    for part in parts:
        console.print(part, soft_wrap=not wrap)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
