"""The file format: what is written comes back, and everything outside the format or its bounds is refused."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import Header, Measurement, SideInfo, Writer, dump, parse_event, read, reader
from evenbench.runner.records.reader import DEPTH_MAX, LINE_MAX
from tests import build
from tests.build import Case
from tests.fakes import mutations

GOLDEN = Path(__file__).parents[2] / "golden" / "results-1.0.jsonl"
UPDATE = os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1"
RUN = build.events([Case("norm/rms[cols=8192]"), Case("norm/new", base=None)], made=2)
MEASUREMENT = next(event for event in RUN if isinstance(event, Measurement))


def lines_of(*lines: str | bytes) -> io.BytesIO:
    return io.BytesIO(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))


def header_line(**changes: Any) -> str:
    return json.dumps(json.loads(dump(build.header())) | changes)


def measurement_line(**changes: Any) -> str:
    return json.dumps(json.loads(dump(MEASUREMENT)) | changes)


def refusal(*lines: str | bytes) -> str:
    with pytest.raises(UntrustedInput) as caught:
        read(lines_of(*lines))
    return str(caught.value)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Writer(path) as writer:
        for event in RUN:
            writer.write(event)
    with path.open("rb") as stream:
        found = read(stream)
    assert found.events == RUN
    assert not found.cut


@given(
    st.builds(
        lambda samples, name, reason: MEASUREMENT.model_copy(
            update={
                "device_busy_ns": samples,
                "latency_ns": samples,
                "n_kernels": None,
                "kernels": [MEASUREMENT.kernels[0].model_copy(update={"name": name})],
                "retries": [reason],
            }
        ),
        st.lists(st.integers(0, 10**15), min_size=1, max_size=30),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=1024),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=1024),
    )
)
def test_any_measurement_comes_back(measurement: Measurement) -> None:
    line = dump(measurement)
    assert "\n" not in line
    assert parse_event(line) == measurement


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("mine\n")
    with pytest.raises(UsageError, match="exists already"):
        Writer(path)
    assert path.read_text() == "mine\n"


def test_after_part_of_a_line_nothing_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may have room again, just when a launch on another GPU has something to say."""
    path, write = tmp_path / "results.jsonl", os.write
    room = [9, 0]  # bytes, at one call after the other; then as much as is wanted

    def on_a_full_disk(descriptor: int, data: bytes) -> int:
        if free := room.pop(0) if room else len(data):
            return write(descriptor, data[:free])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Writer(path) as writer:
        writer.write(RUN[0])
        monkeypatch.setattr(os, "write", on_a_full_disk)
        for event in RUN[1:3]:
            with pytest.raises(UsageError, match="cannot be written any more: No space left on device"):
                writer.write(event)
    with path.open("rb") as stream:
        found = read(stream)
    assert (found.events, found.cut) == (RUN[:1], True)


def test_resuming_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        Writer(tmp_path / "none.jsonl", resume=True)


@pytest.mark.parametrize("tail", ["", "x", '{"event":"end"', "x" * 70_000])
def test_resume_cuts_off_an_unfinished_line(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(build.text(RUN[:3]) + tail.encode())
    with Writer(path, resume=True) as writer:
        writer.cut_unfinished_line()
        writer.write(RUN[3])
    assert path.read_bytes() == build.text(RUN[:4])


def test_two_writers_of_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Writer(path), pytest.raises(UsageError, match="is being written by another run"):
        Writer(path, resume=True)
    Writer(path, resume=True).close()


def test_resume_of_a_file_without_one_whole_line_empties_it(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("{")
    with Writer(path, resume=True) as writer:
        writer.cut_unfinished_line()
    assert path.read_bytes() == b""


def test_a_line_that_was_cut_off_is_no_record() -> None:
    whole = build.text(RUN)
    for cut in (1, 10, len(dump(RUN[-1]))):
        found = read(io.BytesIO(whole[:-cut]))
        assert found.cut
        assert found.events == RUN[:-1]


def test_a_file_of_nothing_but_a_cut_line_is_refused() -> None:
    with pytest.raises(UntrustedInput, match="no header"):
        read(io.BytesIO(dump(RUN[0]).encode()))
    with pytest.raises(UntrustedInput, match="no header"):
        read(io.BytesIO(b""))


class TestRefused:
    """Everything that the format names as refused; each has a neighbour that is accepted."""

    def test_the_neighbour(self) -> None:
        assert len(read(lines_of(header_line(), measurement_line())).events) == 2

    @pytest.mark.parametrize("version", ["0.9", "2.0", "10.0"])
    def test_unknown_major_version(self, version: str) -> None:
        message = refusal(header_line(schema=f"evenbench.results/{version}"))
        assert f"schema version {version} is not known" in message

    @pytest.mark.parametrize(
        "schema",
        ["evenbench.results/1", "other/1.0", "evenbench.results/1.0.0", "", 1, None, ["evenbench.results/1.0"]],
    )
    def test_no_version(self, schema: Any) -> None:
        assert "not a results file" in refusal(header_line(schema=schema))

    @pytest.mark.parametrize("line", ["[]", "1", '"header"', "null", '{"event":"header"}'])
    def test_first_line_is_no_header(self, line: str) -> None:
        assert "line 1" in refusal(line)

    def test_first_line_is_another_event(self) -> None:
        assert "line 1" in refusal(measurement_line(schema="evenbench.results/1.0"))

    def test_second_header(self) -> None:
        assert "line 2: the first line, and only it" in refusal(header_line(), header_line())

    @pytest.mark.parametrize(
        "line", ['{"event":"end","event":"end"}', '{"event":"launch_end","telemetry":{"a":1,"a":2}}']
    )
    def test_duplicate_keys(self, line: str) -> None:
        assert "a key twice" in refusal(header_line(), line)

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
    def test_what_is_no_number(self, number: str) -> None:
        line = dump(RUN[-1]).replace("12.5", number)
        assert number in line
        assert f"{number} is not a number" in refusal(header_line(), line)

    def test_a_float_that_overflows(self) -> None:
        line = dump(RUN[-1]).replace("12.5", "1e999")
        assert "preparation_s" in refusal(header_line(), line)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("launch", True),
            ("device_busy_ns", [True]),
            ("tick_ns", False),
            ("coarse", 1),
            ("batch", 1.0),
            ("wall_ns", "1"),
        ],
    )
    def test_a_value_of_another_type(self, key: str, value: Any) -> None:
        assert key in refusal(header_line(), measurement_line(**{key: value}))

    @pytest.mark.parametrize("depth", [DEPTH_MAX, 200_000])
    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
    def test_deep_nesting(self, depth: int, opening: str, closing: str) -> None:
        line = '{"event":"launch_end","telemetry":' + opening * depth + "1" + closing * depth + "}"
        message = refusal(header_line(), line)
        assert "nested deeper" in message or "longer than" in message

    def test_brackets_in_text_are_no_nesting(self) -> None:
        line = measurement_line(retries=['[{"\\' * 100])
        assert read(lines_of(header_line(), line)).events[1] == parse_event(line)

    def test_long_line(self) -> None:
        padding = " " * (LINE_MAX - len(measurement_line()) - 1)
        assert len(read(lines_of(header_line(), measurement_line() + padding)).events) == 2
        assert "longer than" in refusal(header_line(), measurement_line() + padding + " ")

    def test_endless_line_is_not_read_to_its_end(self) -> None:
        class Endless(io.RawIOBase):
            read_bytes = 0

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int:
                self.read_bytes += len(buffer)
                buffer[:] = b" " * len(buffer)
                return len(buffer)

        endless = Endless()
        with pytest.raises(UntrustedInput, match="longer than"):
            read(io.BufferedReader(endless))
        assert endless.read_bytes < 2 * LINE_MAX

    def test_large_file_when_publishing(self) -> None:
        content = build.text(RUN)
        assert read(io.BytesIO(content), max_bytes=len(content)).events == RUN
        with pytest.raises(UntrustedInput, match="larger than"):
            read(io.BytesIO(content), max_bytes=len(content) - 1)

    def test_integers_of_thousands_of_digits(self) -> None:
        line = measurement_line().replace('"batch": 1,', f'"batch": {"9" * 5_000},')
        assert "9999" in line
        assert "line 2: not JSON" in refusal(header_line(), line)

    def test_bytes_that_are_no_text(self) -> None:
        assert "not UTF-8" in refusal(header_line(), b'{"event":"\xff"}')

    @pytest.mark.parametrize("line", ["", "{", "{} {}", "nothing", '{"event": "end",}'])
    def test_lines_that_are_no_json(self, line: str) -> None:
        assert "line 2" in refusal(header_line(), line)

    def test_unknown_key(self) -> None:
        assert "forged_median" in refusal(header_line(), measurement_line(forged_median=1))

    def test_unknown_event(self) -> None:
        assert "line 2" in refusal(header_line(), '{"event":"surprise"}')

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("device_busy_ns", []),
            ("device_busy_ns", [-1]),
            ("device_busy_ns", [10**15 + 1]),
            ("device_busy_ns", [1.5]),
            ("latency_ns", [1]),  # of 20 samples
            ("n_kernels", [2**63]),
            ("tick_ns", 0),
            ("batch", 0),
            ("launch", -1),
            ("launch", 10**6 + 1),
            ("case", ""),
            ("case", "a" * 161),
            ("case", "a\u0007b"),
            ("case", "a\nb"),
            ("case", "a|b"),
            ("case", "a\n"),
            ("implementation", "a b"),
            ("timing", "sundial"),
            ("cache", "tepid"),
            ("stop", "boredom"),
            ("inputs", "not hexadecimal"),
            ("retries", ["r"] * 11),
            ("rejected", [{"index": 0, "reason": "x" * 4_097}]),
        ],
    )  # fmt: skip
    def test_measurement_out_of_bounds(self, key: str, value: Any) -> None:
        assert "line 2" in refusal(header_line(), measurement_line(**{key: value}))

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("looks", []),
            ("looks", [16, 8]),
            ("looks", [8, 8]),
            ("looks", list(range(1, 10))),
            ("looks", [1_001]),
            ("rounds", 0),
            ("sides", []),
            ("sides", [{"name": "base", "label": "a"}, {"name": "base", "label": "b"}]),
            ("sides", [{"name": "other", "label": "a"}]),
            ("sides", [{"name": "base", "label": "a", "sha": "abc"}]),
            ("shard", {"index": 2, "count": 2}),
            ("seed", -1),
            ("verb", "guess"),
            ("suite", "a b"),
        ],
    )
    def test_header_out_of_bounds(self, key: str, value: Any) -> None:
        assert "line 1" in refusal(header_line(**{key: value}))

    @given(st.binary(max_size=200))
    def test_any_bytes_are_an_event_or_refused(self, content: bytes) -> None:
        try:
            found = read(io.BytesIO(build.text(RUN[:1]) + content))
        except UntrustedInput:
            return
        assert isinstance(found.events[0], Header)


class TestInOnePass:
    """Lines of the usual kinds are read in one pass, which may take nothing that the careful way refuses."""

    USUAL = tuple(dump(event).encode() + b"\n" for event in RUN if event.event in ("measurement", "case"))

    @staticmethod
    def carefully(line: bytes) -> Any:
        try:
            return reader._closely(line, newer=False)
        except UntrustedInput:
            return None

    def test_usual_lines_take_it(self) -> None:
        for line in self.USUAL:
            assert reader._in_one_pass(line) == self.carefully(line) != None  # noqa: E711 - the last of a chain
        others = [dump(event).encode() for event in RUN if event.event not in ("measurement", "case")]
        assert [reader._in_one_pass(line) for line in others] == [None] * len(others)

    def test_colons_in_texts_do_not_stop_it(self) -> None:
        kernel = MEASUREMENT.kernels[0].model_copy(update={"name": "void at::native::f<a::b>(c : d)"})
        line = dump(MEASUREMENT.model_copy(update={"kernels": [kernel]})).encode()
        assert reader._in_one_pass(line) == self.carefully(line) != None  # noqa: E711 - as above

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"launch":0', b'"launch":1,"launch":0'),
            (b'"launch":0', b'"launch" : 1,"launch":0'),
            (b'"launch":0', b'"launch"\t:1,"launch"\r:0'),
            (b'"launch":0', b'"l\\u0061unch":1,"launch":0'),
            (b'"name":"rms_kernel"', b'"name":"a::b","name" :"rms_kernel"'),
            (b'"batch":1,', b'"batch":1,"batch" :1,'),
            (b'"retries":[]', b'"retries":["\\":"],"batch" :1'),
            (b'"shared_memory":0', b'"shared_memory":0,"shared_memory" :0'),
        ],
    )
    def test_a_key_that_comes_twice_is_seen(self, old: bytes, new: bytes) -> None:
        line = dump(MEASUREMENT).encode()
        assert old in line
        hostile = line.replace(old, new)
        assert reader._in_one_pass(hostile) is None
        with pytest.raises(UntrustedInput, match="a key twice"):
            parse_event(hostile)

    @given(st.integers(0, 2**32), st.sampled_from(USUAL))
    def test_what_it_takes_the_careful_way_takes_as_the_same(self, seed: int, line: bytes) -> None:
        for hostile in mutations.mutated(line, Random(seed)).splitlines(keepends=True):
            found = reader._in_one_pass(hostile)
            assert found is None or found == self.carefully(hostile)


class TestNewerMinorVersion:
    NEWER = header_line(schema="evenbench.results/1.2", new_key=1)

    def test_unknown_keys_are_skipped(self) -> None:
        found = read(lines_of(self.NEWER, measurement_line(new_key={"a": 1})))
        assert found.events[1] == MEASUREMENT

    def test_unknown_events_are_skipped(self) -> None:
        found = read(lines_of(self.NEWER, '{"event":"power","watts":[1]}', measurement_line()))
        assert [event.event for event in found.events] == ["header", "measurement"]

    def test_known_keys_are_still_held_to_their_bounds(self) -> None:
        assert "device_busy_ns" in refusal(self.NEWER, measurement_line(device_busy_ns=[-1]))

    def test_strictness_of_the_text_stays(self) -> None:
        assert "a key twice" in refusal(self.NEWER, '{"event":"power","event":"power"}')


class TestShippedVersions:
    """Files that an earlier evenbench wrote can be read for ever."""

    @pytest.mark.skipif(not UPDATE, reason="only EVENBENCH_UPDATE_GOLDEN=1 writes, and only what was never released")
    def test_write(self) -> None:
        GOLDEN.write_bytes(
            build.text(build.events([Case("norm/rms[cols=8192]"), Case("norm/slow", head=21_000.0)], made=6))
        )

    def test_1_0(self) -> None:
        with GOLDEN.open("rb") as stream:
            found = read(stream)
        kinds = [event.event for event in found.events]
        assert kinds[:3] == ["header", "side", "side"]
        assert kinds.count("case") == 4
        assert kinds.count("launch") == kinds.count("launch_end") == 12
        assert kinds.count("measurement") == 24
        assert kinds[-1] == "end"

    def test_1_0_is_written_again_with_nothing_but_what_is_new(self) -> None:
        for line in GOLDEN.read_text().splitlines():
            event = parse_event(line)
            assert event is not None
            assert without_newer(json.loads(dump(event))) == json.loads(line)


@pytest.mark.parametrize(
    ("base", "head", "same"),
    [
        ({}, {}, True),
        ({"exact": False}, {}, False),
        ({}, {"exact": False}, False),
        ({}, {"dirty": True}, False),
        ({}, {"setup": "make"}, False),
        ({}, {"sha": "c" * 40}, False),
    ],
)
def test_one_commit_and_nothing_else_on_both_sides_is_the_same_code(
    base: dict[str, Any], head: dict[str, Any], same: bool
) -> None:
    sides = [SideInfo(name="base", label="main", sha="a" * 40), SideInfo(name="head", label="main", sha="a" * 40)]
    sides = [side.model_copy(update=changes) for side, changes in zip(sides, (base, head), strict=True)]
    assert build.header(sides=sides).same_code == same


def without_newer(event: dict[str, Any]) -> dict[str, Any]:
    """An event without the fields that 1.1 brought, which hold what they stand for where nobody said it."""
    for side in event.get("sides", ()):
        assert side.pop("exact") is True
    for implementation in event.get("implementations", ()):
        assert implementation.pop("result_change") == ""
    return event


def test_messages_are_short() -> None:
    assert len(refusal(header_line(), measurement_line(**{"x" * 5_000: 1}))) < 1_000
    assert len(refusal(header_line(), measurement_line(case="y" * 5_000))) < 1_000
    assert len(refusal(header_line(), '{"event":"' + "z" * 5_000 + '"}')) < 1_000
