"""The only place that escapes and budgets. What passes through here means nothing to a terminal, to GitHub or to HTML.

GitHub reads a comment three times: as Markdown (formulas included), as HTML, and then for mentions, references, commit
ids and addresses in what is left as text. So characters that Markdown or HTML could read become entities, and whatever the third
pass looks for is broken by an invisible word joiner. Text in code spans escapes the third pass altogether.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...text import JOINER, TEXT_MAX, sanitise

NO_BREAK = "\u00a0"  # a space at which no line ends
COMMENT_BUDGET = 60_000  # characters; GitHub refuses 65,536, and counts some characters twice
SUMMARY_BUDGET = 1_000 * 1024  # bytes of a job summary; GitHub drops a larger one whole
PIPE = "¦"  # in code spans of a table, where no escape of "|" is read alike by all engines

# Read by Markdown or HTML wherever they stand; "$" starts a formula, ":" may end an emoji's name or a scheme.
ENTITIES = str.maketrans({char: f"&#{ord(char)};" for char in "&<>|`*_[]()~!\\$#+=\"'{}^"})
# What GitHub looks for in text: @name, #1, GH-1, KEY-1, :emoji:, scheme:, www., and commit ids.
LIVE = re.compile(
    r"(?<=[@#])|(?=@)|(?<=[A-Za-z]-)(?=\d)|(?<=:)(?=\S)|(?<=\bwww)(?=\.)|(?<=[0-9a-f]{6})(?=[0-9a-f])", re.IGNORECASE
)
LINE_START = re.compile(r"^(?:[-+>=]|\d+(?=[.)]))")  # begins a list, quote or heading where a line begins
URL = re.compile(r"https://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+")
MARKER_NAME = re.compile(r"[^A-Za-z0-9_.=/ -]")


@dataclass(frozen=True)
class Block:
    """A part of a comment whose rows may go when it does not fit.

    Attributes:
        before, after: what stands around the rows; goes with the last of them.
        rows: whole lines, the most important first.
        goes: blocks with a higher number lose rows first.
        noun: what a row is called where it is told how many are missing; empty where that is not told.
    """

    before: str
    rows: tuple[str, ...]
    after: str
    goes: int
    noun: str = "row"


def fence(lines: Sequence[str]) -> str:
    """What begins and ends a block of code that none of these lines can end."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    return "`" * max(3, longest + 1)


def plain(text: str, limit: int | None = TEXT_MAX) -> str:
    """Foreign text as Markdown prose that nothing in it can end or bring to life."""
    clean = sanitise(text, limit)
    broken = LIVE.sub(JOINER, clean)
    escaped = broken.translate(ENTITIES)
    return LINE_START.sub(lambda match: JOINER + match[0], escaped)


def cell(text: str, limit: int | None = TEXT_MAX) -> str:
    """Foreign text as one cell of a table."""
    return plain(text, limit)


def code(text: str, limit: int | None = TEXT_MAX) -> str:
    """Foreign text as a code span that is also safe in a table; "|" shows as "¦"."""
    clean = sanitise(text, limit).replace("|", PIPE).replace("<!--", f"<!{JOINER}--")
    if not clean:
        return ""
    longest = max((len(run) for run in re.findall("`+", clean)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if clean[0] == "`" or clean[-1] == "`" else ""
    return f"{fence}{pad}{clean}{pad}{fence}"


def whole(text: str, width: int | None = None) -> str:
    """Markdown whose lines do not end before they have `width` characters; None for one that has one line."""
    words = text.split(" ")
    written = words[0]
    length = len(written)
    for word in words[1:]:
        together = width is None or length < width
        length = length + 1 + len(word) if together else len(word)
        written += f"{NO_BREAK if together else ' '}{word}"
    return written


def link(text: str, url: str) -> str:
    """A link of ours; only the text where the address is not plainly https."""
    return f"[{plain(text)}]({url})" if URL.fullmatch(url) else plain(text)


def marker(name: str) -> str:
    """A hidden line by which a comment is found again."""
    return f"<!-- evenbench {MARKER_NAME.sub('', name)} -->".replace("---", "-")


def folded(summary: str) -> tuple[str, str]:
    """What stands before and after the body, which is Markdown, of a folded part; `summary` is foreign text.

    The blank lines let GitHub read the body as such.
    """
    return f"<details><summary>{plain(summary)}</summary>\n\n", "\n\n</details>"


def table(head: Sequence[str], align: Sequence[str]) -> str:
    """The first two lines of a table; `align` holds ``---``, ``--:`` and the like."""
    return f"{row(head)}\n{row(align, '')}"


def row(cells: Sequence[str], space: str = " ") -> str:
    """One line of a table, of cells that are Markdown already."""
    return f"|{space}" + f"{space}|{space}".join(cells) + f"{space}|"


def fit(blocks: Sequence[Block], budget: int, where: str = "") -> list[str]:
    """The blocks' texts, in all at most `budget` long: rows go from the bottom, of the blocks that go first.

    Args:
        blocks: in the order in which they stand.
        budget: characters, the two line breaks between blocks included.
        where: Markdown that says where all rows are.
    """
    kept = [len(block.rows) for block in blocks]
    over = sum(len(_written(block, count, where)) + 2 for block, count in zip(blocks, kept, strict=True)) - budget
    for n in sorted(range(len(blocks)), key=lambda n: -blocks[n].goes):
        while over > 0 and kept[n]:
            before = len(_written(blocks[n], kept[n], where))
            kept[n] = _fewer(blocks[n], kept[n], over + len(_missing(blocks[n], len(blocks[n].rows), where)) + 2)
            over -= before - len(_written(blocks[n], kept[n], where))
    return [_written(block, count, where) for block, count in zip(blocks, kept, strict=True)]


def _fewer(block: Block, kept: int, too_much: int) -> int:
    """How many rows to keep so that at least `too_much` characters go."""
    while kept and too_much > 0:
        kept -= 1
        too_much -= len(block.rows[kept]) + 1
    return kept


def _written(block: Block, kept: int, where: str) -> str:
    missing = len(block.rows) - kept
    note = _missing(block, missing, where) if missing else ""
    if not kept:
        return note
    body = block.before + "\n".join(block.rows[:kept]) + block.after
    return f"{body}\n\n{note}" if note else body


def _missing(block: Block, rows: int, where: str) -> str:
    if not block.noun:
        return ""
    return f"{rows:,} {block.noun}{'' if rows == 1 else 's'} not shown{f' ({where})' if where else ''}"
