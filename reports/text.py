"""Foreign text as one line or one block of visible characters: the only place that cleans it, for every output. Pure."""

from __future__ import annotations

import unicodedata

JOINER = "\u2060"  # WORD JOINER: no width, no line break; taken out of foreign text, so only ours are left


TEXT_MAX = 300  # characters of foreign text shown in a cell or line; the results file has all of it


REPLACEMENT = "\ufffd"


TAB = 4  # columns


def sanitise(text: str, limit: int | None = None) -> str:
    """One line of visible text: no control, format, bidirectional or unassigned characters, single spaces, shortened."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(_visible(char) for char in text)
    text = " ".join(text.split())
    return text if limit is None or len(text) <= limit else text[: limit - 1].rstrip() + "…"


def preformatted(text: str) -> str:
    """One line of foreign text whose spaces count: visible, tabs as spaces, and no marker of ours in it."""
    return "".join(map(_visible, text.expandtabs(TAB))).replace("<!--", f"<!{JOINER}--")


def _visible(char: str) -> str:
    category = unicodedata.category(char)
    if char.isspace() or category in ("Zl", "Zp"):
        return " "
    if category == "Cf":  # bidirectional overrides, zero-width characters
        return ""
    return REPLACEMENT if category[0] == "C" else char
