"""Every fault of a case ends in a record and a clear line, and costs that case alone: the real command, real processes.

One run holds all of them, each beside healthy cases that check what they find: a changed environment, a thread that
runs, a launch that dies under them. `docs/reliability.md` lists the faults.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fakes.repositories import SUITES, Repository

COMMON = """
    import ctypes, locale, os, random, resource, signal, subprocess, sys, threading, time, warnings
    from pathlib import Path
    from evenbench import Bench, case

    HERE = Path({nest!r})

    def first(name):
        \"\"\"Whether this launch is the first that has the case: the preparation.\"\"\"
        try:
            (HERE / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def burn():
        while True:
            pass

    def exhaust():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
        return [bytearray(1 << 26) for _ in range(1_000)]

    def ticking():
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def sleeper():
        if os.fork() == 0:
            os.setsid()
            (HERE / f"child-{os.getpid()}").touch()
            time.sleep(600)

    def flood():
        for _ in range(200):
            os.write(1, b"water" * 200_000)

    def babble():
        for descriptor in range(3, 40):
            try:
                os.write(descriptor, b"\\xff\\x00 garbage\\n")
            except OSError:
                pass
        time.sleep(600)

    def leave():
        for descriptor in range(3, 40):
            try:
                os.write(descriptor, b'{"event":"done"}\\n')
            except OSError:
                pass
        os._exit(0)

    def deaf():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.close(2)

    STATE = lambda: (os.getcwd(), dict(os.environ), signal.getsignal(signal.SIGINT), signal.getitimer(signal.ITIMER_REAL),
                     os.umask(0o22), sys.getprofile(), resource.getrlimit(resource.RLIMIT_AS), locale.setlocale(locale.LC_ALL),
                     os.sched_getaffinity(0), os.fstat(1).st_ino, os.fstat(2).st_ino)
    BEFORE = STATE()
"""
HEALTHY = """
    @case("healthy/{name}", device="cpu")
    def healthy_{name}(p, device):
        if STATE() != BEFORE:
            raise RuntimeError([pair for pair in zip(STATE(), BEFORE) if pair[0] != pair[1]])
        if Path("/proc/self/oom_score_adj").read_text().strip() != "1000":
            raise RuntimeError("where memory runs out, another process would go first")
        warnings.warn("no error")
        before = time.process_time()
        time.sleep(0.05)
        if time.process_time() - before > 0.03:
            raise RuntimeError("somebody else is running")
        return Bench(run=lambda: 1, reference=lambda: 1)
"""
FAULTY = """
    @case("bad/{name}", device="cpu", timeout_s={timeout_s})
    def bad_{name}(p, device):
        if {always} or not first({name!r}):
            {deed}
        return Bench(run=lambda: 1, reference=lambda: 1)
"""


class Fault(NamedTuple):
    """What a case does, what its row says then, what it leaves; empty: nothing. `later`: only in the timed launch."""

    deed: str
    reason: str = ""
    leaves: str = ""
    later: bool = False
    timeout_s: float = 60.0


DEADLY: Mapping[str, Fault] = {
    "segfault": Fault("ctypes.string_at(0)", "SIGSEGV", later=True),
    "abort": Fault("os.abort()", "SIGABRT"),
    "exit": Fault("os._exit(3)", "exit status 3", later=True),
    "system_exit": Fault("sys.exit(4)", "exit status"),
    "killed": Fault("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", later=True),
    "closes": Fault("os.closerange(3, 300)", "exit status", later=True),
    "babbles": Fault("babble()", "no message of ours", later=True),
    "leaves": Fault("leave()", "its launch ended before it", later=True),
    "sleeps": Fault("time.sleep(600)", "no progress within 1 s", later=True, timeout_s=1),
    "holds": Fault("ctypes.PyDLL(None).sleep(600)", "no progress within 1 s", timeout_s=1),
}
RAISING: Mapping[str, Fault] = {
    "memory": Fault("exhaust()", "MemoryError", "limits"),
    "raises": Fault("1 / 0", "ZeroDivisionError", later=True),
}
HARMLESS: Mapping[str, Fault] = {
    "moves": Fault("os.chdir('/')", leaves="working directory"),
    "sets": Fault("os.environ.clear(); os.environ['MORE'] = '1'", leaves="environment"),
    "ticks": Fault("ticking()", leaves="signal timers, signal handlers"),
    "blocks": Fault("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])", leaves="blocked signals"),
    "masks": Fault("os.umask(0o777)", leaves="umask"),
    "profiles": Fault("sys.setprofile(lambda *_: None)", leaves="tracing"),
    "pins": Fault("os.sched_setaffinity(0, [0])", leaves="processors"),
    "warns": Fault("warnings.simplefilter('error')", leaves="warnings as errors"),
    "deaf": Fault("deaf()", leaves="standard streams"),
    "seeds": Fault("random.seed(0)"),
    "floods": Fault("flood()"),
    "forks": Fault("sleeper()"),
    "idles": Fault("threading.Thread(target=time.sleep, args=[600], daemon=True).start()"),
    "burns": Fault("threading.Thread(target=burn, daemon=True).start()", leaves="left 1 thread running"),
    "opens": Fault(
        "HELD.extend(os.open('/dev/null', os.O_RDONLY) for _ in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4))",
        leaves="files open",
    ),
}
ALL = {**DEADLY, **RAISING, **HARMLESS}


class Ran(NamedTuple):
    """What the run left behind."""

    rows: Mapping[str, Mapping[str, Any]]
    events: list[dict[str, Any]]
    stderr: str
    nest: Path
    size: int


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("faults")
    for name in ("repository", "nest"):
        (root / name).mkdir()
    repository = Repository(root / "repository")
    parts = [COMMON.replace("{nest!r}", repr(str(root / "nest"))), "    HELD = []\n"]
    for name, fault in ALL.items():
        parts.append(FAULTY.format(name=name, deed=fault.deed, always=not fault.later, timeout_s=fault.timeout_s))
        parts.append(HEALTHY.format(name=f"after_{name}"))
    repository.git("init", "-q", "-b", "main")
    repository.commit({"cases/all.py": "".join(parts), "cases/suites.yaml": SUITES})
    done = repository.evenbench("run", "--seed", "1", "--output", "out.jsonl", "--json", "out.json")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    output = repository.path / "out.jsonl"
    events = [json.loads(line) for line in output.read_text().splitlines()]
    return Ran(rows, events, done.stderr, root / "nest", output.stat().st_size)


@pytest.mark.parametrize("name", ALL)
def test_a_fault_costs_its_own_row(ran: Ran, name: str) -> None:
    row = ran.rows[f"bad/{name}"]
    assert row["status"] == ("failed" if ALL[name].reason else "ok"), row
    assert ALL[name].reason in row["reason"]


def test_healthy_cases_pay_nothing_and_meet_nothing(ran: Ran) -> None:
    healthy = {name: row["reason"] for name, row in ran.rows.items() if name.startswith("healthy/")}
    assert healthy == {f"healthy/after_{name}": "" for name in ALL}
    prepared = [e for e in ran.events if e["event"] == "case" and e["id"] in healthy]
    planned = {e["id"]: e["implementations"][0]["samples"] for e in prepared}
    counts = {e["case"]: len(e["device_busy_ns"]) for e in ran.events if e["event"] == "measurement"}
    assert {name: counts.get(name) for name in healthy} == {name: planned[name] for name in healthy}


def test_each_failure_is_of_the_case_that_made_it(ran: Ran) -> None:
    failed = {event["case"] for event in ran.events if event["event"] == "failure"} - {None}
    assert failed == {f"bad/{name}" for name, fault in ALL.items() if fault.reason and (fault.later or name in DEADLY)}


@pytest.mark.parametrize("name", ALL)
def test_what_a_case_left_is_told(ran: Ran, name: str) -> None:
    (told,) = [event["leaves"] for event in ran.events if event["event"] == "case" and event["id"] == f"bad/{name}"]
    assert (ALL[name].leaves in told) if ALL[name].leaves else told == ""


def test_launches_that_died_are_few_and_named(ran: Ran) -> None:
    ends = [event["status"] for event in ran.events if event["event"] == "launch_end"]
    deadly = [fault for fault in DEADLY.values() if "progress" not in fault.reason and "ended" not in fault.reason]
    assert ends.count("timeout") == sum(1 for fault in DEADLY.values() if "progress" in fault.reason)
    assert len(deadly) <= ends.count("crashed") <= 2 * len(deadly)  # each once more, first in a fresh launch
    again = [event["error"] for event in ran.events if event["event"] == "failure" and event["case"] is None]
    assert sum(1 for error in again if "died" in error) == ends.count("crashed") - len(deadly)


@pytest.mark.parametrize("name", ["segfault", "sleeps", "holds"])
def test_a_launch_that_dies_or_hangs_tells_where_it_was(ran: Ran, name: str) -> None:
    """The innermost calls first, of the case's own file, also where C holds Python's lock."""
    failed = [event for event in ran.events if event["event"] == "failure" and event["case"] == f"bad/{name}"]
    told = [event["stderr"].rpartition("(most recent call first):\n") for event in failed]
    assert told
    assert all(marker for _, marker, _ in told)
    inner = [stack.splitlines()[:3] for _, _, stack in told]
    assert all(any(re.search(r'File ".*/cases/all\.py", line \d+ in ', line) for line in lines) for lines in inner), (
        inner
    )


def test_no_process_and_no_flood_is_left(ran: Ran) -> None:
    children = [int(entry.name.removeprefix("child-")) for entry in ran.nest.glob("child-*")]
    assert len(children) == 2  # of the preparation and of the timed launch
    deadline = time.monotonic() + 10
    while (left := [pid for pid in children if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    assert "water" not in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.size < 1 << 20
