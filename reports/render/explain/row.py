"""Why a row of a comparison has its verdict: `evenbench report RESULTS --explain CASE`. Pure.

Everything that the verdict rests on, for whoever doubts it: each launch where it ran, the differences of the rounds, the
tests and what they had to meet, and what is known of the device, the kernels and the inputs on both sides.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evenbench.runner.config import select
from evenbench.runner.errors import UsageError
from evenbench.runner.records import CaseEvent

from ... import units
from ...load.results import Results
from ...rows import notes
from ...rows.outcome import ComparedRow, Comparison, distinct
from ...rows.side_row import SideRow, SideRows
from ...statistics.decision import EQUIVALENT_P
from ...text import sanitise
from .. import wording
from ..terminal.lines import written
from ..terminal.terminal import STYLES
from . import evidence, reasons
from .kernel_sides import HASH_DIGITS, dimensions, kernel_lines
from .row_rounds import RowRounds
from .text_plot import plot

Line: TypeAlias = tuple[str, RenderableType]  # a label, and what it stands for

ROWS_MAX = 20  # that are explained at once; a pattern that takes more asks for a table
NEAR_MAX = 3  # ids that an unknown one may have meant
TRIED_MAX = 5_000  # ids that it is held against
NEAR = 0.4  # how alike they must be, of 1: an id is long, and its parameters may all be missing
INDENT = 13  # columns before what is said: a margin, the longest label, a gap
WIDTH_MIN = 20  # of a plot, however narrow the terminal: its labels and a few rounds
NONE = "none declared"
TESTS = ("that head is", "p", "at most", "shown", "because of")  # columns of a row's tests
STDERR_LINES = 8  # the last ones that a launch printed before it died, or the innermost calls where it told its stack
STACK = "(most recent call first)"  # Python's faulthandler, of each thread; the main one comes last


def why(
    results: Results, comparison: Comparison, rows: Sequence[ComparedRow], width: int = 120, *, colour: bool = False
) -> str:
    """Rows of a comparison explained, one after the other.

    Args:
        results: of a comparison, complete or not.
        comparison: what was made of them.
        rows: some of its rows; of many the first.
        width: of the terminal, in columns.
        colour: whether to write ANSI colours.
    """
    sides, family = SideRows(results), reasons.family_of(comparison)
    doubts = [each for each in wording.warnings(comparison) if comparison.unreliable and each.startswith("unreliable")]
    parts: list[RenderableType] = [Text(sanitise(f"! {doubt}"), "yellow") for doubt in doubts]
    for row in rows[:ROWS_MAX]:
        key = (row.case, row.implementation)
        rounds = RowRounds(sides.row("base", key), sides.row("head", key), results)
        lines = _drawn(told(row, comparison, family, rounds), row, comparison, family, rounds, width)
        parts += [*([Text()] if parts else []), _title(row), _grid(lines)]
    if len(rows) > ROWS_MAX:
        parts += [Text(), Text(f"and {units.count(len(rows) - ROWS_MAX, 'more row')}: name fewer cases", "dim")]
    return written(parts, width, colour)


def chosen_rows(results: Results, comparison: Comparison, pattern: str) -> list[ComparedRow]:
    """The rows that a pattern takes: one by its name, or all of the cases.

    Raises UsageError where it takes none; the hint names near ones.
    """
    if named := [row for row in comparison.rows if row.name == pattern]:
        return named
    cases = set(chosen(results, [row.case for row in comparison.rows], pattern))
    return [row for row in comparison.rows if row.case in cases]


def chosen(results: Results, cases: Iterable[str], pattern: str) -> list[str]:
    """The cases that a pattern takes, in their order.

    Raises UsageError where it takes none; the hint names near ones.
    """
    known = list(dict.fromkeys(cases))
    tags = {id: event.tags for found in results.cases.values() for id, event in found.items()}
    taken = [case for case in known if case == pattern or select((pattern,), case, tags.get(case, ()))]
    if not taken:
        inside = [case for case in known if pattern.lower() in case.lower()]
        close = list(dict.fromkeys([*inside, *difflib.get_close_matches(pattern, known[:TRIED_MAX], NEAR_MAX, NEAR)]))
        hint = f"did you mean {', '.join(close[:NEAR_MAX])}?" if close else "the table names all cases"
        raise UsageError(f"--explain {sanitise(pattern)}: takes none of {units.count(len(known), 'case')}", hint)
    return taken


def _title(row: ComparedRow) -> Text:
    return Text.assemble((sanitise(row.name), "bold"), ": ", (wording.cells(row).called, STYLES[row.verdict]))


def told(
    row: ComparedRow, comparison: Comparison, family: reasons.Family, rounds: RowRounds
) -> list[tuple[str, tuple[str, ...]]]:
    """All that can be said of a row in words, in order: labels, each with its lines; no lines where there is nothing to say.

    Lines may quote foreign text; spaces before one are its margin. The launches and the tests stand elsewhere.
    """
    base, head, results = rounds.base, rounds.head, rounds.results
    return [
        ("because", _one(reasons.because(row, comparison, family))),
        ("otherwise", _one(reasons.otherwise(row, comparison, family))),
        ("muted", _one(row.muted.removeprefix("muted "))),
        ("case", _both(_case(base.case), _case(head.case))),
        ("base", _one(_state(base, row, paired=comparison.facts.paired))),
        ("head", _one(_state(head, row, paired=comparison.facts.paired))),
        ("printed", tuple(_printed(rounds))),
        ("rounds", _one(rounds.dropped())),
        ("change", (*_one(_estimate(row)), *rounds.differences())),
        ("timer", _both(_timer(base), _timer(head))),
        ("modes", _one(rounds.modes())),
        ("clocks", _both(*(evidence.clocks(side, results) if side.placed else "" for side in (base, head)))),
        ("others", _both(evidence.others(base, results), evidence.others(head, results))),
        ("kernels", (*_kernel_note(row), *kernel_lines(base, head))),
        ("inputs", _both(_inputs(base.case), _inputs(head.case))),
        ("work", _both(_work(base.case), _work(head.case))),
        (
            "ceiling",
            _both(*(evidence.ceiling(side, its) if its else "" for side, its in ((base, row.base), (head, row.head)))),
        ),
        ("notes", tuple(_notes(row, rounds))),
    ]


def told_of_two_runs(
    row: ComparedRow, comparison: Comparison, family: reasons.Family, rounds: RowRounds
) -> list[tuple[str, tuple[str, ...]]]:
    """As `told`, of a row of two stored runs: their launches make no rounds."""
    change = f"{units.change(row.change, row.interval)}: from the means of the sides' launches, which were not paired"
    of_rounds = {"otherwise": (), "rounds": (), "modes": (), "change": _one(change if row.change is not None else "")}
    return [(label, of_rounds.get(label, lines)) for label, lines in told(row, comparison, family, rounds)]


def _drawn(
    lines: Sequence[tuple[str, tuple[str, ...]]],
    row: ComparedRow,
    comparison: Comparison,
    family: reasons.Family,
    rounds: RowRounds,
    width: int,
) -> list[Line]:
    """The lines for a terminal, with the launches before the rounds and the tests before the timer."""
    found: list[Line] = []
    for label, texts in lines:
        if label == "rounds":
            found.append(("launches", Text("\n".join(plot(rounds.marks(), max(WIDTH_MIN, width - INDENT))))))
        if label == "timer":
            found.append(("tests", _table(row, comparison, family)))
        found.append((label, Text("\n".join(map(clean, texts)))))
    return found


def clean(line: str) -> str:
    """A line of foreign text as one of visible text, with its margin."""
    return line[: len(line) - len(line.lstrip(" "))] + sanitise(line)


def _grid(lines: Sequence[Line]) -> RenderableType:
    """Labels and what they stand for, in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=INDENT - 2)
    table.add_column(overflow="fold")
    for label, text in lines:
        if text:
            table.add_row(Text(f"  {label}", "dim"), text)
    return table


def _one(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _both(base: str, head: str) -> tuple[str, ...]:
    """What holds for each side: once where it is the same, or where only one has it."""
    if base == head or not base or not head:
        return _one(base or head)
    return f"base: {base}", f"head: {head}"


def _case(case: CaseEvent | None) -> str:
    return evidence.joined(case.title, f"{case.file}:{case.line}") if case is not None else ""


def _state(side: SideRow, row: ComparedRow, *, paired: bool) -> str:
    """What became of a side."""
    if side.status == "absent":
        return f"has no {'such case' if side.case is None else 'such implementation'}"
    if not side.placed:
        return f"{side.status}: {side.reason}" if side.status != "ok" else "ready, but not measured"
    found = row.base if side.side == "base" else row.head
    checks = " and ".join(
        f"check {check}" if check == "passed" else check
        for check in distinct(each.record.check for each in side.placed)
    )
    if found is None:  # never so of a side with measurements
        return ""
    number = row.rounds if paired and row.change is not None else found.launches
    launches = units.count(number, "launch")
    return (
        f"{units.time(found.ns)}, the median of {launches} with {units.count(found.samples, 'sample')} each; {checks}"
    )


def _printed(rounds: RowRounds) -> list[str]:
    """The end of what the row's first launch that died had printed, of head first."""
    for side in (rounds.head, rounds.base):
        case = side.case
        if case is None or not (side.bad or side.losses):
            continue
        for failed in rounds.results.failures:
            mine = failed.record.case == case.id or (failed.record.case is None and case.index in failed.launch.order)
            if failed.launch.side == side.side and mine and failed.record.stderr:
                return [f"on {side.side}, at last:", *(f"  {line}" for line in _told(failed.record.stderr))]
    return []


def _told(stderr: str) -> list[str]:
    lines = [line for line in stderr.splitlines() if line.strip()]
    stack = max((number for number, line in enumerate(lines) if STACK in line), default=None)
    return lines[-STDERR_LINES:] if stack is None else lines[stack : stack + STDERR_LINES]


def _estimate(row: ComparedRow) -> str:
    if row.change is None:
        return ""
    rounds = units.count(row.rounds, "whole round")
    interval = " and its 95 % interval" if row.interval is not None else ""
    return f"{units.change(row.change, row.interval)}: the mean of {rounds}{interval}"


def _kernel_note(row: ComparedRow) -> list[str]:
    return [note for note in row.notes if note.startswith(notes.OF_KERNELS)]


def _notes(row: ComparedRow, rounds: RowRounds) -> list[str]:
    """What the table says of the row and does not stand in another line."""
    told = (row.reason, row.muted, rounds.modes(), *_kernel_note(row))
    return [note for note in wording.cells(row).notes if note not in told]


def tests(row: ComparedRow, comparison: Comparison, family: reasons.Family) -> list[tuple[str, ...]]:
    """The three tests of a judged row, a cell for each of `TESTS`: what each p had to be at most, and whether it was."""
    if row.p_slower is None or row.p_faster is None or row.p_equivalent is None or row.interval is None:
        return []
    effect, equal = units.setting(row.min_effect), units.setting(comparison.judged_by.equivalence)
    error, steps = units.setting(family.error), len(family.ps)
    found = []
    for way, p in (("slower", row.p_slower), ("faster", row.p_faster)):
        step = family.step(p)
        holm = f"{error} / {steps - step:,}: Holm's step {step + 1:,} of {steps:,}"
        found.append((*_test(f"{way} by more than {effect}", p, family.bound(p)), holm))
    return [*found, (*_test(f"within ± {equal} of base", row.p_equivalent, EQUIVALENT_P), "this row alone")]


def looks(row: ComparedRow, comparison: Comparison) -> str:
    """How often the rounds were looked at, which every p counts."""
    planned = comparison.facts.header.looks
    rounds = ", ".join(map(str, planned))
    if len(planned) == 1:
        return f"one look at the data was planned, after {rounds} rounds; {row.rounds} count"
    return f"{len(planned)} looks at the data were planned, after {rounds} rounds, so each p counts {len(planned)} times; {row.rounds} rounds count"


def _test(what: str, p: float, bound: float) -> tuple[str, ...]:
    return what, reasons.p_value(p), reasons.p_value(bound), "yes" if p <= bound else "no"


def _table(row: ComparedRow, comparison: Comparison, family: reasons.Family) -> RenderableType:
    found = tests(row, comparison, family)
    if not found:
        return ""
    table = Table.grid(padding=(0, 2, 0, 0))
    for title in TESTS:
        table.add_column(title, justify="right" if title in ("p", "at most") else "left")
    for style, cells in (("dim", TESTS), *(("", each) for each in found)):
        table.add_row(*(Text(cell, style) for cell in cells))
    return Group(table, Text(looks(row, comparison)))


def _timer(side: SideRow) -> str:
    records = [each.record for each in side.placed]
    names = distinct(record.timing for record in records)
    ticks = sorted({record.tick_ns for record in records if record.tick_ns})
    caches = distinct(record.cache for record in records)
    return evidence.joined(
        ", ".join(wording.TIMERS.get(name, name) for name in names),
        f"time stamps in steps of {', '.join(map(str, ticks))} ns" if ticks else "",
        f"{' and '.join(caches)} cache" if caches else "",
    )


def _inputs(case: CaseEvent | None) -> str:
    if case is None:
        return ""
    told = [
        f"{each.name} {each.dtype} {dimensions(each.shape) or 'scalar'} ({each.sha[:HASH_DIGITS]})"
        for each in case.inputs
    ]
    return ", ".join(told) or NONE


def _work(case: CaseEvent | None) -> str:
    if case is None:
        return ""
    work = case.work
    if work is None:
        return NONE
    moved = f"{work.bytes_read:,} B read, {work.bytes_written:,} B written"
    return f"{work.dtype}: {work.flops:,} operations, {moved}"
