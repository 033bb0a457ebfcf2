"""Base and head swapped in a whole run: every answer is the mirror image, through all of `compare`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.rows.notes import clocks, modes
from evenbench.reports.rows.outcome import ComparedRow, Comparison, Verdict
from evenbench.runner.records import Event, Header, Input, KernelRecord, Measurement, WorkRecord
from tests import build
from tests.build import Case

TODAY = date(2026, 11, 29)
SWAP: Mapping[str, str] = {"base": "head", "head": "base", "control": "control"}

# Verdicts that the samples give are mirrored one to one; so are those of both sides together.
EXACT: Mapping[Verdict, Verdict] = {
    "regressed": "improved",
    "improved": "regressed",
    "unchanged": "unchanged",
    "inconclusive": "inconclusive",
    "incomparable": "incomparable",
    "new": "removed",
}
# What became of a side by itself weighs more on head, which a change may have broken.
BY_SIDE: Mapping[Verdict, set[Verdict]] = {
    "fixed": {"failed", "wrong"},
    "failed": {"fixed", "failed", "wrong", "removed", "skipped"},
    "wrong": {"fixed", "failed", "wrong", "removed", "skipped"},
    "skipped": {"skipped", "failed", "wrong", "removed"},
    "removed": {"new", "failed", "wrong", "skipped"},
}
BAD = {"status": "failed", "kind": "setup", "reason": "boom", "implementations": []}
WRONG = {"status": "wrong", "kind": "wrong", "reason": "3 of 9 differ", "implementations": []}
SKIPPED = {"status": "skipped", "reason": "needs flash_attn", "implementations": []}
KERNEL = KernelRecord(name="rms_kernel", grid=(132, 1, 1), block=(256, 1, 1), registers=32, code="9" * 64)
ZERO = {"device_busy_ns": [0] * 20, "latency_ns": [0] * 20, "tick_ns": None}


def swapped(events: Sequence[Event]) -> list[Event]:
    """The same run with its sides named the other way round."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, Header):
            turned = [side.model_copy(update={"name": SWAP[side.name]}) for side in event.sides]
            found.append(event.model_copy(update={"sides": sorted(turned, key=lambda side: side.name)}))
        elif (side := getattr(event, "side", None)) is not None:
            found.append(event.model_copy(update={"side": SWAP[side]}))
        else:
            found.append(event)
    return found


def both(cases: Sequence[Case], **options: Any) -> tuple[Comparison, Comparison]:
    """A run's comparison, and that of the run with its sides swapped."""
    events = build.events(cases, **options)
    return compare(build.of(events), TODAY), compare(build.of(swapped(events)), TODAY)


def words(text: str, *, turn: bool = False) -> Counter[str]:
    """What a text says, whatever the order in which it names the sides."""
    found = [word.strip(",;:()") for word in text.replace(":", " ").split()]
    return Counter(SWAP.get(word, word) if turn else word for word in found)


def counts(row: ComparedRow) -> tuple[int, ...]:
    """In how many launches each side failed: head's first."""
    found = row.failures
    return (found.head, found.head_launches, found.base, found.base_launches) if found is not None else (0, 0, 0, 0)


def assert_failures_mirrored(one: ComparedRow, other: ComparedRow) -> None:
    """The counts are mirrored. What follows from them is not: failures of head take good news away, never bad."""
    assert counts(one) == counts(other)[2:] + counts(other)[:2]
    for row in (one, other):
        if counts(row)[0]:
            assert row.verdict not in ("unchanged", "improved", "fixed")


def assert_mirrored(one: ComparedRow, other: ComparedRow) -> None:
    if one.failures is not None or other.failures is not None:
        assert_failures_mirrored(one, other)
        return
    if one.verdict in EXACT:
        assert other.verdict == EXACT[one.verdict]
        assert words(other.reason) == words(one.reason, turn=True)
    else:
        assert other.verdict in BY_SIDE[one.verdict]
    assert (one.base_ns, one.head_ns) == (other.head_ns, other.base_ns)
    for mine, its in (("p_slower", "p_faster"), ("p_faster", "p_slower"), ("p_equivalent",) * 2, ("resolvable",) * 2):
        expected = getattr(other, its)
        assert getattr(one, mine) == (None if expected is None else pytest.approx(expected, rel=1e-6))
    assert (one.rounds, one.min_effect, one.muted) == (other.rounds, other.min_effect, other.muted)
    assert (one.change is None, one.interval is None) == (other.change is None, other.interval is None)
    if one.change is not None and other.change is not None:
        assert (1 + one.change) * (1 + other.change) == pytest.approx(1, rel=1e-9)
    if one.interval is not None and other.interval is not None:
        for low, high in zip(one.interval, reversed(other.interval), strict=True):
            assert (1 + low) * (1 + high) == pytest.approx(1, rel=1e-9)
    for texts in ("notes", "warnings"):
        said, mirrored = (Counter[str](), Counter[str]())
        for text in getattr(one, texts):
            said += words(text, turn=True)
        for text in getattr(other, texts):
            mirrored += words(text)
        assert mirrored == said


FACTORS = st.sampled_from([0.5, 0.97, 0.99, 0.9951, 1.0, 1.0049, 1.01, 1.03, 2.0])
ROUNDS = st.sets(st.integers(0, 7), max_size=4)
INPUTS = st.lists(
    st.builds(Input, name=st.sampled_from("xyz"), shape=st.just([8]), dtype=st.just("int8"), sha=st.sampled_from(["1" * 16, "2" * 16])),
    max_size=3, unique_by=lambda each: each.name,
)  # fmt: skip
MEASURED = st.fixed_dictionaries(
    {},
    optional={
        "timing": st.sampled_from(["cupti", "host"]),
        "cache": st.sampled_from(["cold", "warm"]),
        "inputs": st.sampled_from(["1" * 64, "2" * 64]),
        "kernels": st.sampled_from(
            [[], [KERNEL], [KERNEL.model_copy(update={"registers": 40})], [KERNEL, KERNEL.model_copy(update={"name": "b"})]]
        ),
        "n_kernels": st.sampled_from([None, [1] * 20, [1] * 10 + [2] * 10]),
        "retries": st.just(["lost"]),
    },
)  # fmt: skip
SELDOM = st.sampled_from([False, False, False, False, True])
TOLD = st.one_of(
    st.just({}),
    st.just({}),
    st.just({}),
    st.sampled_from([BAD, WRONG, SKIPPED, {}, {}, {}, {"source": "6" * 64}, {"work": None}]),
    st.builds(lambda inputs: {"inputs": inputs}, INPUTS),
    st.builds(lambda flops: {"work": WorkRecord(dtype="int8", flops=flops)}, st.integers(1, 2)),
)


@st.composite
def cases(draw: st.DrawFn, number: int) -> Case:
    """A case of any state on both sides, of any difference between them."""
    base, factor, slow = draw(st.sampled_from([900.0, 20_000.0])), draw(FACTORS), draw(st.sampled_from([0.0, 0.05]))
    missing = draw(st.sampled_from(["", "", "", "", "", "", "base", "head"]))

    def time(number: int) -> float:
        return base * factor * (1 + slow * (number % 3))

    died: dict[Any, Any] = {side: dict.fromkeys(draw(ROUNDS), "boom") for side in ("base", "head") if draw(SELDOM)}
    return Case(
        f"c{number}",
        base=None if missing == "base" else base,
        head=None if missing == "head" else time,
        base_case=draw(TOLD),
        head_case=draw(TOLD),
        base_measurement=draw(MEASURED) if draw(SELDOM) else {},
        head_measurement=draw(st.one_of(MEASURED, st.just(ZERO))) if draw(SELDOM) else {},
        head_implementation=draw(st.sampled_from([{}, {"tuning": "BLOCK=64"}, {"check": "unchecked"}])),
        dies=died,
    )


RUNS = st.integers(1, 4).flatmap(lambda n: st.tuples(*(cases(number) for number in range(n))))
TELEMETRY = st.fixed_dictionaries(
    {
        side: st.sampled_from([{}, {"sm_clock_mhz": 1980.0}, {"sm_clock_mhz": 1700.0, "throttle_reasons": "power cap"}])
        for side in ("base", "head")
    }
)


@given(RUNS, TELEMETRY, st.sampled_from([5, 8]), st.booleans())
def test_every_row_is_mirrored(run: tuple[Case, ...], telemetry: Any, made: int, end: bool) -> None:
    one, other = both(run, telemetry=telemetry, made=made, end=end)
    rows = {row.name: row for row in other.rows}
    assert [row.name for row in one.rows] != [] or not rows
    assert {row.name for row in one.rows} == set(rows)
    for row in one.rows:
        assert_mirrored(row, rows[row.name])
    if any(row.failures is not None for row in one.rows):
        return  # which rows are judged, and so the family, depends on the side that failed
    assert one.shuffled == other.shuffled
    assert (one.mean is None) == (other.mean is None)
    if one.mean is not None and other.mean is not None:
        assert (1 + one.mean.change) * (1 + other.mean.change) == pytest.approx(1, rel=1e-9)
        assert (1 + one.mean.interval[0]) * (1 + other.mean.interval[1]) == pytest.approx(1, rel=1e-9)
    assert one.facts.rounds == other.facts.rounds


@pytest.mark.parametrize(
    ("case", "verdicts"),
    [
        (Case("a", head=20_600.0), ("regressed", "improved")),
        (Case("a"), ("unchanged", "unchanged")),
        (Case("a", head=lambda n: 20_000 * (1 + 0.05 * (n % 3))), ("inconclusive", "inconclusive")),
        (Case("a", head_measurement={"timing": "host"}), ("incomparable", "incomparable")),
        (Case("a", base=None), ("new", "removed")),
        (Case("a", head_case=BAD), ("failed", "fixed")),
        (Case("a", head_case=WRONG), ("wrong", "fixed")),
        (Case("a", head_case=WRONG, base_case=BAD), ("wrong", "failed")),
        (Case("a", head_case=SKIPPED), ("skipped", "skipped")),
        (Case("a", dies={"head": dict.fromkeys(range(3), "x")}), ("failed", "fixed")),
        (Case("a", dies={"head": {0: "x"}, "base": {1: "x"}}), ("inconclusive", "inconclusive")),
        (Case("a", dies={"head": {0: "x"}}), ("inconclusive", "unchanged")),
        (Case("a", dies={"head": dict.fromkeys(range(8), "x")}), ("failed", "fixed")),
    ],
)
def test_each_verdict_has_its_mirror_image(case: Case, verdicts: tuple[Verdict, Verdict]) -> None:
    one, other = both([case])
    assert (one.rows[0].verdict, other.rows[0].verdict) == verdicts
    assert_mirrored(one.rows[0], other.rows[0])


def test_reasons_name_each_side_with_its_own_value() -> None:
    differing = Case(
        "a",
        head_measurement={"cache": "warm", "kernels": [KERNEL.model_copy(update={"grid": (66, 2, 1)})]},
        dies={"base": {0: "boom"}},
    )
    one, other = (found.rows[0] for found in both([differing]))
    assert one.reason == "cache differs: cold on base, warm on head"
    assert other.reason == "cache differs: warm on base, cold on head"
    assert one.notes == ("kernels differ: grid 132×1×1 → 66×2×1 of rms_kernel",)
    assert other.notes == ("kernels differ: grid 66×2×1 → 132×1×1 of rms_kernel",)
    assert one.warnings == ("base lost 1 of 8 rounds: boom",)
    assert other.warnings == ("head lost 1 of 8 rounds: boom",)


def test_both_sides_that_died_are_named() -> None:
    case = Case("a", dies={"base": {0: "out of luck"}, "head": {1: "boom", 2: "boom"}})
    one, other = (found.rows[0] for found in both([case]))
    assert one.reason == "head failed in 2 of 8 launches, base in 1 of 8: boom"
    assert other.reason == "head failed in 1 of 8 launches, base in 2 of 8: out of luck"


@given(
    st.lists(st.sampled_from([20_000.0, 20_010.0, 21_000.0, 22_500.0]), min_size=6, max_size=12),
    st.lists(st.sampled_from([20_000.0, 20_010.0, 21_000.0, 22_500.0]), min_size=6, max_size=12),
)
def test_modes_are_mirrored(base: list[float], head: list[float]) -> None:
    turned = re.sub(r"(\d+:\d+) against (\d+:\d+)", r"\2 against \1", modes(base, head))
    assert modes(head, base) == turned


@pytest.mark.parametrize("fast", [1980.0, 1999.7, 1999.8, 2000.0, 2100.0])
def test_clocks_are_mirrored(fast: float) -> None:
    def said(base: float, head: float) -> bool:
        telemetry: Any = {"base": {"sm_clock_mhz": base}, "head": {"sm_clock_mhz": head}}
        return clocks(build.results([Case("a")], telemetry=telemetry).launches) != ()

    assert said(1980.0, fast) is said(fast, 1980.0)


def test_a_run_keeps_its_measurements_when_swapped() -> None:
    """The swap itself: nothing is lost in it, and twice gives the run again."""
    events = build.events([Case("a"), Case("b", base=None)])
    assert swapped(swapped(events)) == events
    assert sum(isinstance(event, Measurement) for event in swapped(events)) == 24
