"""Lines between processes: whole ones come through, endless ones do not fill the memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.launchers.session import _Tail
from evenbench.runner.process.channel import COMMAND_MAX, LINE_MAX, Channel, LineBuffer, parsed_command


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_come_through_however_they_were_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"unfinished"
    buffer, seen = LineBuffer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        seen += buffer.feed(stream[:size])
        stream = stream[size:]
    assert seen == lines


def test_an_endless_line_is_dropped_and_told_once() -> None:
    buffer = LineBuffer()
    piece = b"x" * (LINE_MAX // 2 + 1)
    assert buffer.feed(piece) == []
    assert buffer.feed(piece) == []
    assert buffer.feed(piece) == []
    assert buffer.feed(b"\nnext\n") == [None, b"next"]
    assert buffer.feed(b"y" * (LINE_MAX + 1) + b"\nnext\n") == [None, b"next"]


def test_a_channel_writes_one_message_a_line() -> None:
    read_end, write_end = os.pipe()
    Channel(write_end).send({"event": "begin", "case": "a\nb"})
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        [line] = stream.read().splitlines()
    assert json.loads(line) == {"event": "begin", "case": "a\nb"}


@given(st.lists(st.binary(min_size=1, max_size=30)), st.integers(1, 40))
def test_the_tail_is_the_end_of_everything(chunks: list[bytes], limit: int) -> None:
    tail = _Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
    assert tail.text() == b"".join(chunks)[-limit:].decode("utf-8", "replace")
    assert sum(map(len, tail._chunks)) < limit + 30
    tail.clear()
    assert tail.text() == ""


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"\xff\x00",
        b"[1]",
        b"0" * 32 + b" {}",
        b'{"event": "measurement"}',
        b'{"command": ["warm"]}',
        b'{"command": "leave", "nonce": "1"}',
        b'{"command": "launch", "nonce": "1", "job": {}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_command_is_nobodys(line: bytes) -> None:
    assert parsed_command(line) is None


def test_a_command_is_taken_with_all_that_it_brings() -> None:
    command = {"command": "launch", "nonce": "1", "job": {"targets": []}, "fork": True}
    assert parsed_command(json.dumps(command).encode()) == command


def test_commands_may_be_longer_than_messages() -> None:
    buffer = LineBuffer(COMMAND_MAX)
    line = b"x" * (LINE_MAX + 1)
    assert buffer.feed(line + b"\n") == [line]


def test_a_warm_parent_outlives_garbage_on_its_stdin(tmp_path: Path) -> None:
    """A launch of the same user can write there."""
    worker = Path(__file__).parents[3] / "runner" / "worker" / "__main__.py"
    forged = b'0000 {"event": "exit"}\n\xff\x00 garbage\n{"command": "launch"}\n'
    warm = json.dumps({"command": "warm", "root": str(tmp_path), "preload": ["json"], "nonce": "n"}).encode()
    ended = subprocess.run(
        [sys.executable, "-P", str(worker), "parent"], input=forged + warm + b"\n", capture_output=True, check=True
    )
    (line,) = ended.stdout.splitlines()
    assert line.startswith(b"n ")
    assert json.loads(line[2:])["error"] == ""
