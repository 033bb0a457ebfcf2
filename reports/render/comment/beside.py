"""Expectations and generated texts that changed → parts of a comment, of a terminal's text, of a page. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.text import Text

from evenbench.runner.records import Artifact

from ...rows import commitments
from ...rows.commitments import Changed
from ...rows.outcome import Expected
from ...text import preformatted, sanitise
from ...units import count
from . import markdown
from .markdown import Block

LINE_MAX = 600  # characters of an expectation's line: two names and a reason
DIFFS_MAX = 20  # texts whose diffs a format shows; of more it says how many
COMMENT_ROOM, SUMMARY_ROOM = 30_000, 400_000  # characters of all diffs: half of what there is room for
LINES_MIN = 6  # of a diff; fewer show nothing
TERMINAL_LINES = 60  # of one diff in a terminal
NOTES, DIFFS = 2, 5  # see `Block.goes`: a diff goes before anything else, the last one first
STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))  # how a line begins


def blocks(
    artifacts: Sequence[Artifact], expectations: Sequence[Expected] = (), room: int = COMMENT_ROOM
) -> list[Block]:
    """Markdown: a list of the expectations, and a folded diff for each text, which in all take so many characters."""
    found = []
    if lines := commitments.expectation_lines(expectations):
        rows = tuple(f"- {markdown.plain(line, LINE_MAX)}" for line in lines)
        found.append(Block("Expectations:\n\n", rows, "", NOTES, "expectation"))
    diffs: list[Block] = []
    named: list[str] = []
    changed, rest = _shown(artifacts)
    for each in changed:
        lines = [preformatted(line) for line in each.lines]
        kept = _fitting(lines, room)
        room -= sum(len(line) + 1 for line in lines[:kept])
        if kept < min(len(lines), LINES_MIN):
            named.append(f"{each.title}, without room for its diff")
        elif kept:
            cut = [f"… {count(len(lines) - kept, 'more line')}"] if kept < len(lines) else []
            diffs.append(_diff(each.title, [*lines[:kept], *cut], DIFFS + len(diffs)))
        else:
            named.append(each.title)
    if named := [*named, *rest]:
        found.append(Block("", tuple(f"- {markdown.plain(title)}" for title in named), "", NOTES, "artifact"))
    return [*found, *diffs]


def _fitting(lines: Sequence[str], room: int) -> int:
    """How many of the lines have room."""
    return bisect_right(list(accumulate(len(line) + 1 for line in lines)), room)


def terminal(
    artifacts: Sequence[Artifact], expectations: Sequence[Expected] = (), *, counted: bool = True
) -> Iterator[Text]:
    """Lines of a terminal: foreign text made visible, none of it wrapped. `counted`: also how many texts there were."""
    for line in commitments.expectation_lines(expectations):
        yield Text(sanitise(line))
    changed, rest = _shown(artifacts)
    for each in sorted(changed, key=lambda each: bool(each.lines)):  # those without a diff in a row
        yield Text(("\n" if each.lines else "") + sanitise(each.title), "bold")
        for line in each.lines[:TERMINAL_LINES]:
            shown = preformatted(line)
            yield Text(shown, next((style for start, style in STYLES if shown.startswith(start)), ""))
        if len(each.lines) > TERMINAL_LINES:
            yield Text(f"… {count(len(each.lines) - TERMINAL_LINES, 'more line')}, see report --format html", "dim")
    for text in rest:
        yield Text(text)
    if counted and (told := commitments.artifacts_line(artifacts)):
        yield Text(f"\n{told}" if changed else told, "dim")


def page(artifacts: Sequence[Artifact]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """What a page shows of each text, a title and lines made visible, not escaped; and lines below."""
    changed, rest = _shown(artifacts)
    shown = [(each.title, [preformatted(line) for line in each.lines]) for each in changed]
    return shown, [line for line in (*rest, commitments.artifacts_line(artifacts)) if line]


def _shown(artifacts: Sequence[Artifact]) -> tuple[list[Changed], list[str]]:
    changed = commitments.changed(artifacts)
    more = len(changed) - DIFFS_MAX
    return changed[:DIFFS_MAX], [f"{count(more, 'more artifact')} changed, new or stale"] if more > 0 else []


def _diff(title: str, lines: Sequence[str], goes: int) -> Block:
    before, after = markdown.folded(title)
    fence = markdown.fence(lines)
    return Block(f"{before}{fence}diff\n", tuple(lines), f"\n{fence}{after}", goes, "diff line")
