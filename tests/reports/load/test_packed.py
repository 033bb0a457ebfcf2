"""Measurements of a file in little memory: the same numbers, shared where they are equal, and judged as before."""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from evenbench.reports.compare.compare import compare
from evenbench.reports.load.lines import gather
from evenbench.reports.load.packed import Compactor, Sampled
from evenbench.reports.load.results import load_file
from evenbench.reports.render.comment.comment import comment
from evenbench.reports.statistics.location import Row, grouped_median, grouped_medians, locations
from evenbench.runner.records import Event, Lines, Measurement, Reading, dump
from tests import build
from tests.build import Case

CASES = [Case("a"), Case("b", head=22_000.0)]


def stream(events: Sequence[Event]) -> io.BytesIO:
    return io.BytesIO("".join(dump(event) + "\n" for event in events).encode())


def test_a_file_holds_the_same_numbers_as_its_events() -> None:
    events = build.events(CASES)
    read, given = gather(Reading(stream(events))), gather(Lines(list(events), cut=False))
    assert read.measurements.keys() == given.measurements.keys()
    for key, records in read.measurements.items():
        for one, other in zip(records, given.measurements[key], strict=True):
            assert one == other
    measured = [event for event in events if isinstance(event, Measurement)]
    found = [(key, one) for key, records in read.measurements.items() for one in records]
    assert len(found) == len(measured)
    by_place = {(event.case, event.implementation, event.launch): event for event in measured}
    for key, one in found:
        event = by_place[(*key, one.launch)]
        for name in Sampled._fields:
            a, b = getattr(one, name), getattr(event, name)
            assert (list(a) if isinstance(b, list) else a) == b, name
        assert isinstance(one.device_busy_ns, array)
        assert isinstance(event.device_busy_ns, list), "events that others hold stay as they are"


def test_every_field_is_kept_but_those_that_stand_elsewhere() -> None:
    assert set(Measurement.model_fields) - set(Sampled._fields) == {"event", "case", "implementation", "source"}


@pytest.mark.parametrize(("highest", "bytes_each"), [(2**31 - 1, 4), (2**31, 8)])
def test_integers_of_any_size_come_back(highest: int, bytes_each: int) -> None:
    event = next(event for event in build.events(CASES) if isinstance(event, Measurement))
    values = [0, 1, highest]
    changed = event.model_copy(update={"device_busy_ns": values, "latency_ns": values, "n_kernels": None})
    packed = Compactor().packed(changed, 0)
    assert list(packed.device_busy_ns) == values
    assert isinstance(packed.device_busy_ns, array)
    assert packed.device_busy_ns.itemsize == bytes_each
    assert packed.latency_ns is packed.device_busy_ns


def test_what_is_equal_is_there_once() -> None:
    read = gather(Reading(stream(build.events(CASES))))
    first, second = read.measurements["a", "main"][:2]
    for name in ("inputs", "n_kernels", "kernels", "rejected"):
        assert getattr(first, name) is getattr(second, name), name
    same = [record for record in read.measurements["a", "main"] if record.latency_ns == record.device_busy_ns]
    assert all(record.latency_ns is record.device_busy_ns for record in same)


def test_a_file_is_judged_as_its_events_are(tmp_path: Path) -> None:
    events = build.events(CASES)
    path = tmp_path / "results.jsonl"
    path.write_bytes(stream(events).getvalue())
    today = date(2026, 11, 29)
    assert comment(compare(load_file(path), today)) == comment(compare(build.of(events), today))


@pytest.mark.parametrize("tick", [None, 32])
def test_locations_of_arrays_are_those_of_lists(tick: int | None) -> None:
    samples = [[1_000 + 7 * n * k % 97 for n in range(1, 21)] for k in range(1, 5)]
    packed = [array("i", each) for each in samples]
    wide = [array("q", each) for each in samples]
    expected = [grouped_median(each, tick) for each in samples]
    assert grouped_medians(samples, [tick] * 4).tolist() == expected
    assert grouped_medians(packed, [tick] * 4).tolist() == expected
    assert grouped_medians(wide, [tick] * 4).tolist() == expected
    assert grouped_medians([*packed[:2], *wide[2:]], [tick] * 4).tolist() == expected
    mixed = locations([Row("x", [(samples[0], packed[1]), (packed[2], samples[3])], tick, 0.005)])
    assert mixed.reshape(-1).tolist() == expected
