"""The line protocol with a warm parent that may be anything: scripts stand in for it, over real pipes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.launchers import session
from evenbench.runner.launchers.session import ParentSession, Started, kill_process_group

PRELUDE = """
import json, os, sys, time
def commands():
    for line in sys.stdin:
        yield json.loads(line)
def say(nonce, **message):
    sys.stdout.write(nonce + " " + json.dumps(message) + "\\n")
    sys.stdout.flush()
"""
JOB: dict[str, Any] = {"kind": "measure", "targets": [{"id": "a", "timeout_s": 0.2}, {"id": "b", "timeout_s": 60.0}]}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.3)
    monkeypatch.setattr(session, "STALL_S", 0.3)


@contextlib.contextmanager
def opened(script: str, tmp_path: Path) -> Iterator[tuple[ParentSession, list[subprocess.Popen[bytes]]]]:
    """A session whose parents run a script; and all that were started."""
    file = tmp_path / "parent.py"
    file.write_text(PRELUDE + textwrap.dedent(script))
    started: list[subprocess.Popen[bytes]] = []

    def start() -> Started:
        process = subprocess.Popen(
            [sys.executable, str(file), str(len(started))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return Started(process, lambda: kill_process_group(process))

    with contextlib.closing(ParentSession(tmp_path, start)) as found:
        yield found, started
    assert all(process.poll() is not None for process in started)


def launch(found: ParentSession, job: dict[str, Any] = JOB) -> list[dict[str, Any]]:
    return list(found.launch(job, fork=False, timeout_s=60.0))


def crashed(case: str | None) -> dict[str, Any]:
    return {
        "event": "exit", "status": "crashed", "detail": "the side's warm parent died or fell silent", "case": case,
        "untold": True,
    }  # fmt: skip


def test_messages_come_through_to_the_exit_and_forged_lines_do_not(tmp_path: Path) -> None:
    script = """
        for command in commands():
            say("0" * 32, event="measurement")
            sys.stdout.write('{"event": "measurement"}\\n\\n \\n')
            say(command["nonce"], event="begin", case="a")
            say(command["nonce"][::-1], event="exit")
            say(command["nonce"], event="exit", status="ok")
            say(command["nonce"], event="too late")
    """
    with opened(script, tmp_path) as (found, started):
        expected = [{"event": "begin", "case": "a"}, {"event": "exit", "status": "ok"}]
        assert launch(found) == launch(found) == expected
        assert len(started) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        "sys.stdout.write(nonce + ' no json\\n')",
        "sys.stdout.write(nonce + ' [1]\\n')",
        "sys.stdout.write(nonce + ' {\"event\": 1}\\n')",
        "sys.stdout.write(nonce + ' ' + '[' * 100_000 + '\\n')",
        "sys.stdout.write('x' * (3 << 20))",
        "sys.exit()",
        "os.close(1)",
    ],
)
def test_garbage_costs_the_launch_alone(garbage: str, tmp_path: Path) -> None:
    """The next launch has a parent of its own."""
    script = f"""
        for command in commands():
            nonce = command["nonce"]
            say(nonce, event="begin", case="b")
            if sys.argv[1] == "0":
                {garbage}
                sys.stdout.flush()
                time.sleep(600)
            say(nonce, event="exit", status="ok")
    """
    with opened(script, tmp_path) as (found, started):
        assert launch(found) == [{"event": "begin", "case": "b"}, crashed("b")]
        assert launch(found)[-1] == {"event": "exit", "status": "ok"}
        assert len(started) == 2


def test_silence_inside_a_case_ends_with_the_deadline_of_that_case(tmp_path: Path) -> None:
    script = """
        for command in commands():
            say(command["nonce"], event="begin", case="a")
            time.sleep(600)
    """
    with opened(script, tmp_path) as (found, _):
        began = time.monotonic()
        assert launch(found)[-1] == crashed("a")
        assert time.monotonic() - began < 30  # case b would have 60 s, and a launch before its first case 300


def test_between_cases_nobody_is_to_blame(tmp_path: Path) -> None:
    script = """
        for command in commands():
            say(command["nonce"], event="begin", case="a")
            say(command["nonce"], event="finish", case="a")
            sys.exit()
    """
    with opened(script, tmp_path) as (found, _):
        assert launch(found)[-1] == crashed(None)


@pytest.mark.parametrize(
    ("limit", "flood"),
    [
        ("LINES_MAX", "'x\\n' * 1_000"),
        ("BYTES_MAX", "'x' * 100_000 + '\\n'"),
        ("LINES_MAX", 'nonce + \' {"event": "e"}\\n\''),
    ],
)
def test_a_flood_ends_the_launch(limit: str, flood: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, limit, 10_000)
    script = f"""
        for command in commands():
            nonce = command["nonce"]
            while sys.argv[1] == "0":
                sys.stdout.write({flood})
            say(nonce, event="exit", status="ok")
    """
    with opened(script, tmp_path) as (found, _):
        messages = launch(found)
        assert messages[-1] == crashed(None)
        assert len(messages) <= 10_001
        assert launch(found) == [{"event": "exit", "status": "ok"}]


def test_a_flood_between_launches_waits_in_the_pipe(tmp_path: Path) -> None:
    """It fills neither memory nor time, and the session ends all the same."""
    script = """
        while True:
            sys.stdout.write("x" * 1_000 + "\\n")
    """
    with opened(script, tmp_path) as (found, _):
        time.sleep(0.5)
        assert found._messages.qsize() <= session.QUEUED_MAX


def test_a_parent_that_reads_no_more_commands_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "START_DEADLINE_S", 0.2)
    large = {**JOB, "more": "x" * (1 << 20)}  # more than a pipe holds
    with opened("time.sleep(600)", tmp_path) as (found, started):
        assert launch(found, large) == [crashed(None)]
        assert len(started) == 2


def test_a_parent_that_was_stopped_is_given_up_long_before_any_deadline(tmp_path: Path) -> None:
    script = """
        import signal
        for command in commands():
            if sys.argv[1] == "0":
                os.kill(os.getpid(), signal.SIGSTOP)
            say(command["nonce"], event="exit", status="ok")
    """
    with opened(script, tmp_path) as (found, _):
        began = time.monotonic()
        assert launch(found) == [crashed(None)]
        assert time.monotonic() - began < 100  # where a launch before its first case has 300
        assert launch(found) == [{"event": "exit", "status": "ok"}]


def test_a_parent_that_dies_while_it_warms_is_started_again_and_warmed(tmp_path: Path) -> None:
    script = """
        for command in commands():
            if sys.argv[1] == "0":
                sys.exit("no such thing")
            say(command["nonce"], event=command["command"], preload=command.get("preload"))
    """
    with opened(script, tmp_path) as (found, started):
        message = found.warm(["lib"])
        assert message["touched"] is True
        assert "the warm parent died: no such thing" in message["error"]
        assert len(started) == 2


def test_what_a_launch_prints_is_kept_from_its_end(tmp_path: Path) -> None:
    script = """
        for command in commands():
            sys.stderr.write("x" * 1_000_000 + "the end")
            sys.stderr.flush()
            time.sleep(0.2)
            say(command["nonce"], event="exit")
    """
    with opened(script, tmp_path) as (found, _):
        launch(found)
        assert found.output_tail().endswith("xxxthe end")
        assert len(found.output_tail()) == session.OUTPUT_KEPT


def test_a_session_that_is_abandoned_ends_its_launch_and_starts_no_parent_again(tmp_path: Path) -> None:
    script = """
        for command in commands():
            say(command["nonce"], event="begin", case="b")
            time.sleep(600)
    """
    with opened(script, tmp_path) as (found, started):
        messages = found.launch(JOB, fork=False, timeout_s=60.0)
        assert next(messages) == {"event": "begin", "case": "b"}
        found.abandon()
        with pytest.raises(session.Abandoned):
            next(messages)
        assert len(started) == 1
