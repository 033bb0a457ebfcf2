"""Foreign text in every place where a results file has room for it: what we write of it is read by GitHub's own Markdown
engine, and holds exactly our cells, our links, and nothing live."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.diff import diff
from evenbench.reports.compare.report import measured
from evenbench.reports.compare.stored import stored
from evenbench.reports.publish.events import State
from evenbench.reports.publish.outcome import (
    CheckText,
    Outcome,
    Stamp,
    accepted_check,
    check_text,
    footer,
    parse,
    state_comment,
    summary_of,
    turned_regressed,
    with_accepted,
)
from evenbench.reports.render import wording
from evenbench.reports.render.comment.comment import Links, comment, run_comment, summary
from evenbench.reports.render.comment.tables import BELOW, CHANGE, EMOJI, NOTE_MAX, PLANTED
from evenbench.reports.render.wording import Cells
from evenbench.reports.rows.outcome import Comparison
from evenbench.reports.text import JOINER, TEXT_MAX, sanitise
from evenbench.runner.records import End, Event, Input, JudgeSettings, KernelRecord, MuteRecord, SideInfo, WorkRecord
from tests import build
from tests.build import Case
from tests.fakes.desk import Desk
from tests.reports.render.comment.test_markdown import HOSTILE, Page, assert_dead, rendered, texts

TODAY = date(2026, 11, 29)
HEAD = "d" * 40
STAMP = Stamp(config="pr", state="done", head=HEAD, run=50, attempt=1, number=3)
OTHER = Stamp(config="pr", state="failed", head="e" * 40, run=99, attempt=9, number=9, verdict="regressed")
LINKS = Links(
    run="https://github.com/o/r/actions/runs/1",
    report="https://github.com/o/r/actions/runs/2",
    samples="https://github.com/o/r/actions/runs/1#artifacts",
    rerun="https://github.com/o/r/actions/runs/1/attempts/2",
    dispatch="https://github.com/o/r/actions/workflows/manual.yml",
    docs="https://github.com/o/r/blob/main/docs/reading.md",
)
ALL = "".join(HOSTILE)  # at once, as long as a line may be
OURS = {
    "!--", "h3", "p", "a", "code", "ul", "li", "details", "summary", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class Reading(Page):
    """A page, with the addresses of its links and the texts of its lists."""

    def __init__(self, source: str) -> None:
        self.addresses: list[str] = []
        self.items: list[str] = []
        self.open: list[str] = []
        super().__init__(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self.open.append(tag)
        if tag == "a":
            ((name, value),) = attrs
            assert name == "href"
            self.addresses.append(value or "")
        else:
            assert attrs in ([], [("align", "right")])
        if tag == "li":
            self.items.append("")

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        assert self.open.pop() == tag  # so that no part of ours is ended by a part of theirs

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if "li" in self.open:
            self.items[-1] += data


def read(text: str) -> Reading:
    """Parsed; nothing of it is unseen, or turns the direction of what is seen."""
    assert not {char for char in text if unicodedata.category(char)[0] == "C"} - {"\n", JOINER}
    page = Reading(rendered(text).source)
    assert page.open == []
    return page


def words(text: str) -> str:
    """As a reader sees it."""
    return " ".join(text.replace(JOINER, "").split())


def seen(text: str, limit: int | None = TEXT_MAX) -> str:
    """Foreign text as a reader shall see it."""
    return words(sanitise(text, limit))


def joined(notes: Sequence[str]) -> str:
    return "; ".join(filter(None, map(seen, notes)))


# -------------------------------------------------------------------------------------------------------- hostile results


@dataclass(frozen=True)
class Words:
    """Foreign text for each place; the same place always takes the same one."""

    taken: Sequence[str]

    def __call__(self, place: int) -> str:
        return self.taken[place % len(self.taken)]


def events(say: Words, **changes: Any) -> list[Event]:
    """A run with a row of nearly every verdict, and foreign text wherever a record has room for it."""
    bad = {"status": "failed", "kind": "setup", "implementations": []}
    work = WorkRecord(dtype=say(28), flops=10**6, bytes_read=10**6, bytes_written=10**6)
    cases = [
        Case("a/failed", head_case=bad | {"reason": say(0)}),
        Case("a/wrong[x=1]", head_case=bad | {"status": "wrong", "kind": "wrong", "reason": say(1)}),
        Case("a/slow", head=30_000.0, head_implementation={"tuning": say(2)}, head_measurement=_measurement(say)),
        Case("a/muted", head=30_000.0),
        Case("b/other", head_case={"inputs": [Input(name=say(3), shape=[1], dtype=say(4), sha="1" * 64)]}),
        Case("b/noisy", head=lambda number: 20_000 * (1 + 0.03 * (number % 3)), dies={"head": {1: say(5)}}),
        Case("b/fast", head=10_000.0, both_case={"fallback": say(6)}),
        Case("c/fixed", base_case=bad | {"reason": say(7)}),
        Case("c/new", base=None),
        Case("c/gone", head=None),
        Case("c/skipped", both_case={"status": "skipped", "reason": say(8), "implementations": []}),
        Case("d/same", head_implementation={"tuning": say(9)}, both_case={"fallback": say(27), "work": work}),
        Case("d/same[y=2]", implementations=("one", "two"), both_case={"fallback": say(27)}),
    ]
    values: dict[str, Any] = {
        "sides": [SideInfo(name="base", label=say(10)), SideInfo(name="head", label=say(11), sha="b" * 40)],
        "harness": build.header().harness.model_copy(update={"version": say(12)}),
        "launches": {side: {"device": say(13), "driver": say(14), "mig": say(15)} for side in ("base", "head")},
        "prepared": {"base": {"notes": [say(16)], "torch": say(17)}, "head": {"notes": [say(18)]}},
        "broken": {"head": {say(19): say(20) or "x"}},
        "ceilings": [build.CEILINGS.model_copy(update={"device": say(13)})],
        "telemetry": {"head": {"throttle_reasons": say(21)}},
        "judge": JudgeSettings(
            min_effect=0.005,
            equivalence=0.02,
            family_error=0.01,
            mute=[MuteRecord(match="a/muted", why=say(22), until="2027-03-01")],
        ),
    }
    found = build.events(cases, made=6, **(values | changes))
    return [each.model_copy(update={"changed": [say(23)]}) if isinstance(each, End) else each for each in found]


def _measurement(say: Words) -> dict[str, Any]:
    kernel = KernelRecord(name=say(24), grid=(1, 1, 1), block=(1, 1, 1), registers=1, code="1" * 64)
    return {"kernels": [kernel], "rejected": [{"index": 0, "reason": say(25)}], "retries": [say(26)]}


PLACES = 29
said = st.lists(texts, min_size=PLACES, max_size=PLACES).map(Words)
EVERY = [Words(HOSTILE[start : start + PLACES]) for start in range(0, len(HOSTILE), PLACES)]
WHOLE = Words([ALL])


def compared(say: Words) -> Comparison:
    return compare(build.of(events(say)), TODAY)


def in_cell(notes: Sequence[str]) -> str:
    short = [note for note in notes if not is_long(note)]
    return joined([*short, *([BELOW] if len(short) < len(notes) else [])])


def is_long(note: str) -> bool:
    return len(sanitise(note)) > NOTE_MAX


def expected_rows(found: Comparison, *, shares: bool = False) -> list[list[list[str]]]:
    """The cells of the table, and of the folded one, as a reader shall see them."""
    title = ["of ceiling"] if shares else []
    telling = [["case", "base", "head", CHANGE, "verdict", *title, "notes"]]
    for cells in (wording.cells(row) for row in found.rows if row.verdict != "unchanged"):
        emoji = PLANTED if cells.planted else EMOJI[cells.verdict]
        share = [cells.share] if shares else []
        telling.append([cells.name, *numbers(cells), f"{emoji} {cells.called}", *share, in_cell(cells.notes)])
    quiet = [wording.cells(row) for row in found.rows if row.verdict == "unchanged"]
    notes = [in_cell([note for note in cells.notes if note not in common(quiet)]) for cells in quiet]
    rows = [[cells.name, *numbers(cells), *([cells.share] if shares else [])] for cells in quiet]
    folded = [["case", "base", "head", CHANGE, *title], *rows]
    if any(notes):
        folded = [[*cells, note] for cells, note in zip(folded, ["notes", *notes], strict=True)]
    return [telling, folded]


def numbers(cells: Cells) -> list[str]:
    return [cells.base, cells.head, cells.change]


def common(quiet: Sequence[Cells]) -> list[str]:
    """The notes of all rows that did not change, of which there are several of one family."""
    first, *others = (cells.notes for cells in quiet)
    assert others
    return [note for note in first if all(note in each for each in others)]


def expected_lists(found: Comparison, *, shares: bool) -> list[str]:
    """What stands above and below the tables; of notes, to which rows they belong is left to other tests."""
    telling = [wording.cells(row) for row in found.rows if row.verdict != "unchanged"]
    quiet = [wording.cells(row) for row in found.rows if row.verdict == "unchanged"]
    own = [note for cells in quiet for note in cells.notes if note not in common(quiet) and is_long(note)]
    return [
        *(f"⚠️ {seen(warning)}" for warning in wording.warnings(found)),
        *(
            f": {seen(note)}"
            for note in dict.fromkeys(note for cells in telling for note in cells.notes if is_long(note))
        ),
        *(f"all of them: {seen(note)}" for note in common(quiet)),
        *(f": {seen(note)}" for note in dict.fromkeys(own)),
        *wording.reading(found, shares=shares),
    ]


def assert_ours(text: str, found: Comparison, *, shares: bool = False) -> None:
    page = read(text)
    expected = [[words(cell) for cell in row] for table in expected_rows(found, shares=shares) for row in table]
    assert [[words(cell) for cell in row] for row in page.rows] == expected
    assert page.tags.count("table") == 2
    assert page.tags.count("h3") == 1
    assert page.tags.count("details") == page.tags.count("summary") == 2
    assert set(page.addresses) == set(vars(LINKS).values())
    for item, end in zip(page.items, expected_lists(found, shares=shares), strict=True):
        assert words(item).endswith(words(end))
    assert_dead(page, OURS)


@settings(max_examples=40)
@given(said)
@example(WHOLE)
def test_a_comment_and_a_summary_hold_exactly_our_cells(say: Words) -> None:
    comparison = compared(say)
    text = comment(comparison, LINKS, name=STAMP.name)
    assert parse(text) == STAMP
    assert text.count("<!--") == 1
    assert_ours(text, comparison)
    whole = summary(comparison, LINKS)
    assert "<!--" not in whole
    assert_ours(whole, comparison, shares=True)


@pytest.mark.parametrize("say", EVERY)
def test_each_hostile_text_in_some_place(say: Words) -> None:
    comparison = compared(say)
    assert_ours(comment(comparison, LINKS), comparison)


@settings(max_examples=25)
@given(said, st.integers(1_000, 20_000))
@example(WHOLE, 9_000)
def test_a_comment_that_was_cut_is_as_sound(say: Words, budget: int) -> None:
    comparison = compared(say)
    page = read(comment(comparison, LINKS, name=STAMP.name, budget=budget))
    expected = [[words(cell) for cell in row] for table in expected_rows(comparison) for row in table]
    there = [[words(cell) for cell in row] for row in page.rows]
    assert there == [row for row in expected if row in there]
    assert set(page.addresses) <= set(vars(LINKS).values())
    assert_dead(page, OURS)


@settings(max_examples=25)
@given(said, said)
@example(WHOLE, WHOLE)
def test_a_comment_of_two_stored_runs(one: Words, two: Words) -> None:
    first = stored(one(0), build.of(events(one)), None)
    second = stored(two(0), build.of(events(two, run_id="run-2", started=two(1), image=two(2))), None)
    comparison = diff(first, second, TODAY)
    page = read(comment(comparison, LINKS))
    assert {len(row) for row in page.rows} == {6}
    rows = page.tags.count("tr") - page.tags.count("table")
    assert rows == len(comparison.rows) == len(page.rows) - page.tags.count("table")
    assert set(page.addresses) == set(vars(LINKS).values())
    assert_dead(page, OURS)


@settings(max_examples=25)
@given(said)
@example(WHOLE)
def test_a_comment_of_one_side(say: Words) -> None:
    sides = [SideInfo(name="head", label=say(11), sha="b" * 40)]
    report = measured(build.of(events(say, verb="run", sides=sides)))
    page = read(run_comment(report))
    assert page.tags.count("tr") == 1 + len(report.rows) == len(page.rows)
    assert [row[0] for row in page.rows] == ["case", *(row.case for row in report.rows)]
    assert [words(row[-1]) for row in page.rows[1:]] == [in_cell(wording.run_cells(row).notes) for row in report.rows]
    assert page.addresses == []
    assert_dead(page, OURS)


# ----------------------------------------------------------------------------------- what is said where there is no table


@given(st.sampled_from([each for each in get_args(State) if each != "done"]), texts)
@example("failed", ALL)
@example("failed", f"\n{OTHER.marker}\n")
def test_the_comment_of_a_state(state: State, reason: str) -> None:
    outcome = Outcome(state, reason)
    text = f"{STAMP.marker}\n{state_comment(outcome, HEAD, LINKS)}"
    assert parse(text) == STAMP
    page = read(text)
    sign = state_comment(outcome, "", Links()).split()[1]
    assert words(page.text) == words(f"{sign} evenbench: {outcome.title} head {HEAD[:7]} · this run {seen(reason)}")
    assert page.addresses == [LINKS.run]
    assert_dead(page, {"!--", "h3", "p", "a", "code"})
    assert "<!--" not in summary_of(outcome, LINKS, HEAD)


@given(texts, texts)
@example(ALL, ALL)
def test_the_words_of_a_check_run(reason: str, why: str) -> None:
    for state in (each for each in get_args(State) if each != "done"):
        found = check_text(Outcome(state, reason), LINKS, why)
        _assert_check(found, {"a", "p", "code"} if why else {"a", "p"})
        text = words(read(found.summary).text)
        assert seen(reason) in text
        assert not why or f"does not count: {seen(why)}." in text
    _assert_check(accepted_check(check_text(Outcome("failed", reason), LINKS), why), {"a", "p", "code"})


@settings(max_examples=25)
@given(said)
@example(WHOLE)
def test_the_words_of_a_check_run_of_a_table(say: Words) -> None:
    _assert_check(check_text(Outcome.of(compared(say)), LINKS), {"a", "p"})


def _assert_check(said: CheckText, tags: set[str]) -> None:
    page = read(said.summary)
    assert set(page.addresses) <= {LINKS.run}
    assert_dead(page, tags)
    assert said.title == sanitise(said.title)  # which GitHub shows as it is, on one line


@settings(max_examples=25)
@given(said, texts)
@example(WHOLE, "https://x.y/) [a](https://evil.example")
def test_the_extra_comment(say: Words, address: str) -> None:
    text = turned_regressed(Outcome.of(compared(say)), STAMP, address)
    page = read(text)
    assert page.addresses in ([], [address])
    assert page.addresses == [] or address.startswith("https://")
    assert parse(text) is None  # or it would be taken for the table's
    assert_dead(page, {"!--", "p", "a", "code"})


@given(texts, st.booleans())
@example(ALL, True)
def test_what_stands_below_a_table(text: str, fork: bool) -> None:
    page = read(footer(fork=fork, number=7, head=HEAD, workflow=text))
    assert page.tags == ["p", *(["p"] if fork else []), "code"]
    assert_dead(page, {"p", "code"})


@given(texts)
@example(ALL)
def test_who_accepted(by: str) -> None:
    body = with_accepted(f"{STAMP.marker}\n### table\n", by or "x")
    assert parse(body) == STAMP
    assert with_accepted(body, "") == f"{STAMP.marker}\n### table\n"
    assert_dead(read(body), {"!--", "p", "code", "h3"})


# ------------------------------------------------------------------------------------------------- as the publisher sends it


@pytest.mark.parametrize("marker", [STAMP.marker, OTHER.marker, "<!-- evenbench pr -->"])
@pytest.mark.parametrize("where", ["reason", "label", "file", "kernel"])
def test_our_marker_in_a_results_file(desk: Desk, marker: str, where: str) -> None:
    say: Callable[[str], str] = lambda place: f"\n{marker}\n" if place == where else "x"  # noqa: E731
    bad = {"status": "failed", "kind": "setup", "implementations": [], "reason": say("reason")}
    kernel = KernelRecord(name=say("kernel"), grid=(1, 1, 1), block=(1, 1, 1), registers=1, code="1" * 64)
    cases = [Case("a", head_case=bad), Case("b", head=30_000.0, head_measurement={"kernels": [kernel]})]
    sides = [SideInfo(name="base", label=say("label")), SideInfo(name="head", label="x", sha="b" * 40)]
    path = desk.write(build.events(cases, sides=sides, broken={"head": {say("file"): say("file")}}))
    for _ in range(2):  # the second finds what the first wrote
        assert desk.publish(path).code == 0
    (body,) = desk.fake.bodies()
    stamp = parse(body)
    assert stamp is not None
    assert (stamp.head, stamp.run, stamp.state) == ("b" * 40, 50, "done")
    assert body.count("<!--") == 1
