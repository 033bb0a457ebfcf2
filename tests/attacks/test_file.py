"""Attacks by way of the results file: what it is, what is in it. Each meets the reader as a publisher calls it."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evenbench.reports.compare.compare import compare
from evenbench.reports.load.results import FILES_AT_MOST, PUBLISH_MAX_BYTES, Results, load_files
from evenbench.reports.render.comment.comment import comment
from evenbench.reports.render.data.json import as_json
from evenbench.runner.errors import UntrustedInput
from evenbench.runner.records import Event, KernelRecord, Measurement, dump
from evenbench.runner.records.reader import LINE_MAX, MEAN_LINE_MIN
from tests import build
from tests.build import Case
from tests.fakes.desk import SAME, Desk
from tests.fakes.peak import peak_of

TODAY = date(2026, 11, 29)
RUN: Sequence[Event] = build.events([Case("norm/rms", head=21_000.0), Case("norm/layer")])
LINES: Sequence[bytes] = build.text(RUN).splitlines(keepends=True)
KINDS: Sequence[str] = [event.event for event in RUN]
MIB = 1 << 20


def read(path: Path) -> Results:
    return load_files([path], max_bytes=PUBLISH_MAX_BYTES)


def refusal(path: Path) -> str:
    with pytest.raises(UntrustedInput) as caught:
        read(path)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 1_500
    return message


def file_of(folder: Path, lines: Sequence[bytes]) -> Path:
    path = folder / "evenbench-0.results.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def with_line(folder: Path, kind: str, change: Callable[[bytes], bytes]) -> Path:
    """The run with the first line of a kind changed."""
    at = KINDS.index(kind)
    changed = change(LINES[at])
    assert changed != LINES[at]
    return file_of(folder, [*LINES[:at], changed, *LINES[at + 1 :]])


def replaced_by(line: bytes) -> Callable[[bytes], bytes]:
    return lambda _: line


def with_values(folder: Path, kind: str, values: Mapping[str, Any]) -> Path:
    return with_line(folder, kind, lambda line: json.dumps(json.loads(line) | values).encode() + b"\n")


def test_the_run_by_itself_is_taken(tmp_path: Path) -> None:
    assert read(file_of(tmp_path, LINES)).complete


class TestWhatItIs:
    """A results folder is unpacked from an artifact: anything may lie in it."""

    @pytest.fixture
    def place(self, desk: Desk) -> Path:
        folder = desk.folder / "results"
        folder.mkdir()
        return folder / "evenbench-0.results.jsonl"

    def refused(self, desk: Desk, reason: str) -> None:
        said = desk.publish(desk.folder / "results")
        assert said.code == 5, said
        assert said.err.startswith("error: ")
        assert reason in said.err
        [body] = desk.fake.bodies()
        assert "The results are not to be trusted" in body
        assert reason in body.replace("\u2060", "")  # what keeps digits from being taken for a number of GitHub's

    def test_a_symbolic_link_to_a_good_file(self, desk: Desk, place: Path) -> None:
        desk.results(SAME, name="good.txt").rename(desk.folder / "good.txt")
        place.symlink_to(desk.folder / "good.txt")
        self.refused(desk, "a symbolic link")

    def test_a_symbolic_link_to_a_secret(self, desk: Desk, place: Path) -> None:
        (desk.folder / "secret").write_text("hush\n")
        place.symlink_to(desk.folder / "secret")
        self.refused(desk, "a symbolic link")
        assert "hush" not in str(desk.fake.bodies()) + desk.summary

    def test_a_symbolic_link_to_a_folder_is_not_walked(self, desk: Desk, place: Path) -> None:
        desk.results(SAME, name="away/evenbench-0.results.jsonl")
        (place.parent / "away").rename(desk.folder / "away")
        (place.parent / "link").symlink_to(desk.folder / "away")
        assert desk.publish(place.parent).code == 0
        assert "measured nothing" in desk.fake.bodies()[0]

    def test_a_fifo_is_not_waited_for(self, desk: Desk, place: Path) -> None:
        os.mkfifo(place)
        self.refused(desk, "not a regular file")

    def test_a_directory_of_that_name_holds_none(self, desk: Desk, place: Path) -> None:
        place.mkdir()
        assert desk.publish(place.parent).code == 0
        assert "measured nothing" in desk.fake.bodies()[0]
        with pytest.raises(UntrustedInput, match="not a regular file"):
            read(place)

    def test_a_file_over_256_mib_is_not_read(self, desk: Desk, place: Path) -> None:
        place.write_bytes(b"".join(LINES))
        os.truncate(place, PUBLISH_MAX_BYTES + 1)  # sparse
        self.refused(desk, "larger than 268435456 bytes")

    def test_many_large_files_are_not_read(self, tmp_path: Path) -> None:
        files = [tmp_path / f"{number}.jsonl" for number in range(FILES_AT_MOST + 1)]
        for file in files:
            file.write_bytes(b"".join(LINES))
            os.truncate(file, PUBLISH_MAX_BYTES)
        with pytest.raises(UntrustedInput, match="too much to judge"):
            load_files(files, max_bytes=PUBLISH_MAX_BYTES)

    def test_a_thousand_and_one_files(self, desk: Desk, place: Path) -> None:
        for number in range(1_001):
            (place.parent / f"{number}.jsonl").touch()
        self.refused(desk, "more than 1,000 results files")


class TestItsText:
    """What no line may be, whatever it says."""

    def test_a_line_over_1_mib(self, tmp_path: Path) -> None:
        def padded(line: bytes) -> bytes:
            return line[:-1] + b" " * (LINE_MAX + 1 - len(line)) + b"\n"

        assert "longer than 1048576 bytes" in refusal(with_line(tmp_path, "measurement", padded))

    def test_zeros_without_an_end_of_line(self, tmp_path: Path) -> None:
        path = file_of(tmp_path, LINES[:3])
        os.truncate(path, PUBLISH_MAX_BYTES)
        assert "line 4: longer than" in refusal(path)

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
    @pytest.mark.parametrize(
        ("kind", "old"),
        [
            ("header", '"min_effect":0.005'),
            ("case", '"timeout_s":120.0'),
            ("measurement", '"wall_ns":10000000'),
            ("measurement", '"device_busy_ns":['),
            ("launch_end", '"telemetry":{'),
            ("end", '"measuring_s":30.25'),
        ],
    )
    def test_no_number(self, tmp_path: Path, kind: str, old: str, number: str) -> None:
        new = re.sub(r":[\d.]+$", f":{number}", old)
        new = new + f"{number}," if old.endswith("[") else new + f'"x":{number}' if old.endswith("{") else new
        assert "line" in refusal(with_line(tmp_path, kind, lambda line: line.replace(old.encode(), new.encode(), 1)))

    @pytest.mark.parametrize("kind", sorted({*KINDS}))
    def test_a_key_twice_at_any_depth(self, tmp_path: Path, kind: str) -> None:
        line = LINES[KINDS.index(kind)]
        for found in re.finditer(rb'[{,]("[a-z_]+":)', line):  # each key once more before itself
            twice = line[: found.start(1)] + found[1] + b"0," + line[found.start(1) :]
            assert "a key twice" in refusal(with_line(tmp_path, kind, replaced_by(twice)))

    @pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
    @pytest.mark.parametrize(
        ("kind", "place"), [("header", b'"settings":{'), ("launch_end", b'"telemetry":{'), ("measurement", b"{")]
    )
    def test_nesting_200_000_deep(
        self, tmp_path: Path, kind: str, place: bytes, opening: bytes, closing: bytes
    ) -> None:
        depth = 200_000 if opening == b"[" else 170_000  # as deep as a line may be long
        deep = place + b'"x":' + opening * depth + b"0" + closing * depth + (b"" if place.endswith(b":{") else b",")
        assert len(deep) < LINE_MAX + 200_000
        message = refusal(with_line(tmp_path, kind, lambda line: line.replace(place, deep, 1)))
        assert "nested deeper than 16" in message or "longer than" in message

    @pytest.mark.parametrize(
        ("kind", "key"),
        [("header", "seed"), ("case", "index"), ("launch", "launch"), ("measurement", "wall_ns"), ("end", "rounds")],
    )
    def test_an_integer_of_5_000_digits(self, tmp_path: Path, kind: str, key: str) -> None:
        def long(line: bytes) -> bytes:
            return re.sub(rb'("%s":)\d+' % key.encode(), rb"\g<1>" + b"9" * 5_000, line, count=1)

        assert "not JSON" in refusal(with_line(tmp_path, kind, long))

    @pytest.mark.parametrize("kind", sorted({*KINDS}))
    def test_a_boolean_for_any_number(self, tmp_path: Path, kind: str) -> None:
        line = json.loads(LINES[KINDS.index(kind)])
        for path, value in numbers_in(line):
            for lie in (True, False):
                forged = json.loads(json.dumps(line))
                holder = forged
                for step in path[:-1]:
                    holder = holder[step]
                holder[path[-1]] = lie
                message = refusal(with_line(tmp_path, kind, replaced_by(json.dumps(forged).encode() + b"\n")))
                assert "Input should be" in message, (path, value)

    @pytest.mark.parametrize("version", ["0.1", "2.0", "99.0", "1", "1.0.0", "1.x", "-1.0", "1.0\n"])
    def test_an_unknown_version(self, tmp_path: Path, version: str) -> None:
        message = refusal(with_values(tmp_path, "header", {"schema": f"evenbench.results/{version}"}))
        assert "is not known to this evenbench" in message or "not a results file" in message


def numbers_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Every number in a line, but settings, which are for people: of lists the first."""
    if isinstance(value, bool) or path[:1] == ("settings",):
        return []
    if isinstance(value, int | float):
        return [(path, value)]
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    return [found for key, each in inner for found in numbers_in(each, (*path, key))]


class TestItsFigures:
    """Every figure is computed from the raw samples."""

    @pytest.mark.parametrize("key", ["median_ns", "device_busy_ms", "location", "change", "verdict", "p10"])
    @pytest.mark.parametrize("kind", ["measurement", "case", "launch_end", "end"])
    def test_there_is_no_place_for_a_derived_one(self, tmp_path: Path, kind: str, key: str) -> None:
        assert key in refusal(with_values(tmp_path, kind, {key: 1}))

    def test_whatever_else_a_file_says_of_time_changes_no_figure(self) -> None:
        """A kernel's median, costs, wall times, telemetry, settings: for people only."""
        honest = compare(build.of(RUN), TODAY)
        forged = compare(build.of([forge(event) for event in RUN]), TODAY)
        figures = ("verdict", "change", "interval", "p_slower", "p_faster", "p_equivalent", "base_ns", "head_ns")
        assert [[getattr(row, name) for name in figures] for row in forged.rows] == [
            [getattr(row, name) for name in figures] for row in honest.rows
        ]
        assert honest.rows[0].verdict == "regressed"
        assert forged.shuffled == honest.shuffled
        assert forged.mean == honest.mean

    def test_figures_are_those_of_the_samples(self) -> None:
        changed = [
            event.model_copy(update={"device_busy_ns": [40_000] * 20})
            if isinstance(event, Measurement) and event.case == "norm/layer"
            else event
            for event in RUN
        ]
        row = next(row for row in compare(build.of(changed), TODAY).rows if row.case == "norm/layer")
        assert (row.base_ns, row.head_ns) == (40_000.0, 40_000.0)

    @pytest.mark.parametrize("samples", [[-1] * 20, [-(10**15)] * 20, [20_000] * 19 + [-20_000]])
    def test_negative_times(self, tmp_path: Path, samples: list[int]) -> None:
        assert "device_busy_ns" in refusal(with_values(tmp_path, "measurement", {"device_busy_ns": samples}))

    @pytest.mark.parametrize("side", [0, 1])
    @pytest.mark.parametrize("rounds", [1, 8])
    def test_times_of_zero_judge_nothing(self, tmp_path: Path, side: int, rounds: int) -> None:
        launches = [event.launch for event in RUN if event.event == "launch" and event.side == ("base", "head")[side]]
        zeros = [
            event.model_copy(update={"device_busy_ns": [0] * 20, "latency_ns": [0] * 20})
            if isinstance(event, Measurement) and event.launch in launches[:rounds]
            else event
            for event in RUN
        ]
        path = tmp_path / "results.jsonl"
        path.write_bytes(build.text(zeros))
        found = compare(read(path), TODAY)
        for row in found.rows:
            assert row.rounds == 8 - rounds
            assert row.verdict == ("inconclusive" if rounds == 8 else row.verdict)
        text = json.dumps(as_json(found), allow_nan=False) + comment(found)
        assert not re.search(r"\b(nan|inf|Infinity)\b", text, re.IGNORECASE)


def forge(event: Event) -> Event:
    """An event with every number that is no sample, count or index made a lie."""
    match event.event:
        case "measurement":
            kernel = KernelRecord(name="rms_kernel", grid=(132, 1, 1), block=(256, 1, 1), registers=32, code="9" * 64)
            lies: dict[str, Any] = {
                "kernels": [kernel.model_copy(update={"median_ns": 1, "count": 10**9})],
                "wall_ns": 1,
                "latency_ns": [1] * 20,
                "uncounted_copy_ns": [10**15] * 20,
            }
        case "case":
            lies = {
                "implementations": [
                    each.model_copy(update={"cost_ns": 1, "samples": 1}) for each in event.implementations
                ]
            }
        case "launch_end":
            lies = {"wall_ns": 1, "first_sample_ns": 10**15}
        case "end":
            lies = {"preparation_s": 0.0, "measuring_s": 1e9}
        case "header":
            lies = {"settings": {"min_effect": 0.9, "median": 1}}
        case _:
            lies = {}
    return event.model_copy(update=lies)


class TestItsSize:
    """Within the bytes that a file may have, as much as fits."""

    @pytest.mark.slow
    def test_a_million_cases(self, tmp_path: Path) -> None:
        lines = [
            LINES[0],
            *(b'{"event":"case","index":%d,"side":"base","id":"c%d","file":""}\n' % (n, n) for n in range(1_000_000)),
        ]
        peak, done = peak_of("report", file_of(tmp_path, lines))
        assert (done.returncode, done.stdout) == (5, "")
        assert "line 100002: case.index: Input should be less than 100000" in done.stderr
        assert peak < 600 * MIB

    def test_more_lines_than_a_run_has(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (
            PUBLISH_MAX_BYTES // MEAN_LINE_MIN == 1 << 20
        )  # of lines this short they take half a gigabyte; fewer do here
        monkeypatch.setattr("evenbench.runner.records.reader.MEAN_LINE_MIN", PUBLISH_MAX_BYTES // 999)
        line = b'{"event":"skip","launch":0,"side":"base","case":"a","reason":""}\n'
        before = LINES[: KINDS.index("measurement")]
        assert read(file_of(tmp_path, [*before, line * (1_000 - len(before))])).skips
        assert "more than 1000 lines" in refusal(file_of(tmp_path, [*before, line * (1_001 - len(before))]))

    def test_a_run_that_is_resumed_for_ever(self, tmp_path: Path) -> None:
        """Each time, what was measured so far is looked through."""
        line = b'{"event":"resumed","round":8,"at":""}\n'
        assert "resumed more than 100 times" in refusal(file_of(tmp_path, [*LINES[:-1], line * 50_000]))

    @pytest.mark.parametrize(
        ("kind", "values"),
        [
            ("launch", {"launch": 10**6 + 1}),
            ("launch", {"order": [10**5]}),
            ("launch", {"round": 1_000}),
            ("measurement", {"device_busy_ns": [1] * 100_001}),
            ("measurement", {"kernels": [{"name": "k"}] * 1_001}),
            ("header", {"rounds": 1_001}),
            ("header", {"looks": list(range(1, 10))}),
            ("header", {"patterns": ["a"] * 1_001}),
            ("header", {"image": "x" * 1_025}),
        ],
    )
    def test_past_a_bound(self, tmp_path: Path, kind: str, values: dict[str, Any]) -> None:
        assert "line" in refusal(with_values(tmp_path, kind, values))


class TestItsNames:
    """Ids are joined, sorted, matched and shown: their characters are few."""

    @pytest.mark.parametrize(
        "id",
        ["a\nb", "a\u0000b", "a\u001b[2Jb", "a\u202eb", "a\u200bb", "a b", "a|b", "a`b", "<a>", "a\\b", "é", "a" * 161],
    )
    @pytest.mark.parametrize("kind", ["case", "measurement"])
    def test_ids_of_other_characters(self, tmp_path: Path, kind: str, id: str) -> None:
        key = "id" if kind == "case" else "case"
        assert f"{kind}.{key}" in refusal(with_values(tmp_path, kind, {key: id}))

    @pytest.mark.parametrize("name", ["a b", "a\u0007b", "", "x" * 161, "a::b"])
    def test_names_of_implementations(self, tmp_path: Path, name: str) -> None:
        implementation = {"name": name, "status": "ok"}
        assert "implementations.0.name" in refusal(with_values(tmp_path, "case", {"implementations": [implementation]}))

    def test_control_characters_elsewhere_are_not_shown(self, tmp_path: Path) -> None:
        hostile = "a\u001b[2J\u202e\u0000\r\n\u0085b"
        for kind, values in (
            ("side", {"notes": [hostile], "torch": hostile}),
            ("launch", {"device": hostile, "driver": hostile}),
            ("end", {"changed": [hostile]}),
        ):
            text = comment(compare(read(with_values(tmp_path, kind, values)), TODAY))
            assert not {char for char in text if unicodedata.category(char) == "Cc"} - {"\n"}
            assert "\u202e" not in text


def test_no_event_is_forgotten() -> None:
    """The lines that are attacked above are of the kinds that a run writes."""
    assert {"header", "side", "case", "launch", "measurement", "launch_end", "end"} == set(KINDS)
    assert all(dump(event).encode() + b"\n" == line for event, line in zip(RUN, LINES, strict=True))
