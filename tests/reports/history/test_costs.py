"""What cases take of a launch: their own time and an even part of the rest, the median over launches, the newest run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenbench.reports.history.durations import durations
from evenbench.reports.history.rows import costs, of_cases
from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import Event, LaunchEnd, Measurement
from tests import build
from tests.build import Case

OWN = {"a": 100, "b": 300}
CASES = [Case("a", implementations=("x", "y")), Case("b")]


def timed(event: Event, slower: int = 1) -> Event:
    """Launches of 1,000 ns, in which `a` takes 100 for each of two implementations and `b` 300; the last one dawdles."""
    if isinstance(event, LaunchEnd):
        return event.model_copy(update={"wall_ns": 1_000 * slower})
    if isinstance(event, Measurement):
        return event.model_copy(update={"wall_ns": OWN[event.case] * slower})
    return event


def test_a_row_takes_its_own_time_and_an_even_part_of_what_is_left() -> None:
    found = costs(build.of([timed(event) for event in build.events(CASES)]))
    rest = (1_000 - 100 - 100 - 300) / 3
    assert found == {("a", "x"): 100 + rest, ("a", "y"): 100 + rest, ("b", "main"): 300 + rest}
    assert of_cases(found) == {"a": 200 + 2 * rest, "b": 300 + rest}


def test_one_odd_launch_moves_nothing() -> None:
    events = [timed(event) for event in build.events(CASES)]
    last = max(event.launch for event in events if isinstance(event, LaunchEnd))
    odd = [
        event.model_copy(update={"wall_ns": 10**9}) if isinstance(event, LaunchEnd) and event.launch == last else event
        for event in events
    ]
    assert costs(build.of(odd)) == costs(build.of(events))


def test_a_launch_without_an_end_or_with_an_odd_clock_has_no_rest() -> None:
    events = [timed(event) for event in build.events(CASES)]
    endless = [event for event in events if not isinstance(event, LaunchEnd)]
    short = [event.model_copy(update={"wall_ns": 1}) if isinstance(event, LaunchEnd) else event for event in events]
    for each in (endless, short):
        assert costs(build.of(each)) == {("a", "x"): 100, ("a", "y"): 100, ("b", "main"): 300}


def write(path: Path, started: str, slower: int, cases: list[Case]) -> Path:
    lines = []
    for event in build.events(cases):
        data = timed(event, slower).model_dump(by_alias=True, mode="json")
        lines.append(json.dumps(data | ({"started": started} if data["event"] == "header" else {})) + "\n")
    path.write_text("".join(lines))
    return path


def test_the_newest_run_that_knows_a_case_tells_in_whatever_order(tmp_path: Path) -> None:
    old = write(tmp_path / "old.jsonl", "2026-11-01T00:00:00+00:00", 1, CASES)
    new = write(tmp_path / "new.jsonl", "2026-11-02T00:00:00+00:00", 2, CASES[1:])
    found = durations([new, old])
    assert found == durations([old, new])
    assert found["b"] == 2_000
    assert found["a"] == durations([old])["a"]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        durations([tmp_path / "nothing"])
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(UntrustedInput):
        durations([tmp_path / "bad.jsonl"])
    assert durations([tmp_path]) == {}  # a history that holds nothing yet
