"""Several GPUs of one machine at once: cases shared, each on one GPU throughout, locks, resuming; on a machine made up.

Launches there run on the host's clock and hold a lock of the GPU that they are told to see: two on one GPU at once, or
anything beside a case of the host, would fail their case.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.repositories import PATIENCE_S, Repository, errors
from tests.fakes.several_gpus import DRIVER, NAME, UUIDS, machine

# Without torch or anything else that takes long to import, whatever is installed beside us.
BARE = getattr(sys, "_base_executable", sys.executable)
ROUNDS = 6
CASES = """
    import fcntl, os, time
    from pathlib import Path
    from evenbench import Bench, case

    FOLDER = Path({folder!r})
    UUIDS = {uuids!r}
    HELD = []

    def alone(uuids):
        "Only this launch is on these GPUs, until it ends."
        if not HELD:
            for uuid in uuids:
                HELD.append(open(FOLDER / uuid, "a"))
                fcntl.flock(HELD[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)

    @case("device/work", params={{"n": [1, 2, 3, 4, 5]}}, iterations=3, timeout_s=60.0)
    def work(p, device):
        mine = os.environ["CUDA_VISIBLE_DEVICES"]
        alone([mine])
        (FOLDER / ("began-" + mine)).touch()
        while not all((FOLDER / ("began-" + uuid)).exists() for uuid in UUIDS):
            time.sleep(0.01)  # for a launch on the other GPU, which never comes if one waits for the other
        (FOLDER / ("pid-" + str(os.getpid()))).touch()
        while (FOLDER / "gate").exists():
            time.sleep(0.01)
        return Bench(run=lambda: 1, reference=lambda: 1)

    @case("host/work", device="cpu", iterations=3)
    def host(p, device):
        alone(UUIDS)
        return Bench(run=lambda: 1, reference=lambda: 1)
"""
SUITES = """
    version: 1
    defaults: {measure_ms: 1, warmup_ms: 0.1, rounds: 6, max_rounds: 6, cache: warm, ceilings: false}
    suites: {all: {include: ["**"], min_effect: 0.5, equivalence: 0.9}}
"""


class Bed:
    """A repository on a machine with two GPUs."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.folder = repository.path.parent / "held"
        self.folder.mkdir()
        self.variables = dict(machine(repository.path.parent / "machine"))
        cases = CASES.format(folder=str(self.folder), uuids=list(UUIDS))
        repository.commit({"cases/work.py": cases, "cases/suites.yaml": SUITES})

    def words(self, *more: str) -> list[str]:
        python = ["--base-python", BARE, "--head-python", BARE]
        return ["compare", "HEAD", "HEAD", *python, "--fail-on", "never", "--output", "out.jsonl", *more]

    def compare(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.repository.evenbench(*self.words(*more), **self.variables)

    def start(self, *more: str) -> subprocess.Popen[str]:
        return self.repository.start(*self.words(*more), **self.variables)

    def events(self, name: str = "out.jsonl") -> list[dict[str, Any]]:
        lines = (self.repository.path / name).read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait(self, process: subprocess.Popen[str], until: Callable[[], bool]) -> None:
        """For what the run will do, while it goes on."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def pids(self) -> list[int]:
        """Of all launches so far that hold a GPU."""
        return [int(path.name.removeprefix("pid-")) for path in self.folder.glob("pid-*")]

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if not is_zombie(pid)]


def is_zombie(pid: int) -> bool:
    """Or gone altogether."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def timed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == "launch" and event["kind"] == "timed"]


def gpus_of_cases(events: list[dict[str, Any]]) -> Mapping[str, set[str]]:
    """The GPUs that each case was measured on."""
    launches = {event["launch"]: event for event in events if event["event"] == "launch"}
    found: dict[str, set[str]] = {}
    for event in events:
        if event["event"] == "measurement":
            found.setdefault(event["case"], set()).add(launches[event["launch"]]["uuid"])
    return found


@pytest.fixture
def bed(make_repository: Callable[[str], Repository]) -> Bed:
    return Bed(make_repository("repository"))


def test_cases_are_shared_each_on_one_gpu_and_both_at_once(bed: Bed) -> None:
    done = bed.compare("--gpus", "all", "--seed", "7", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    events = bed.events()
    assert not [event for event in events if event["event"] == "failure"]
    rows = json.loads((bed.repository.path / "out.json").read_text())["rows"]
    assert {row["rounds"] for row in rows} == {ROUNDS}
    assert len(rows) == 6
    places = gpus_of_cases(events)
    assert all(len(uuids) == 1 for uuids in places.values())
    device = [uuid for case, uuids in places.items() if case.startswith("device/") for uuid in uuids]
    assert sorted(map(device.count, UUIDS)) == [2, 3]
    numbers = [event["launch"] for event in events if event["event"] == "launch"]
    assert sorted(numbers) == list(range(len(numbers)))
    again = bed.repository.evenbench("report", "out.jsonl", "--fail-on", "never")
    assert again.stdout == done.stdout
    why = bed.repository.evenbench("report", "out.jsonl", "--format", "explain", "--fail-on", "never")
    assert "  device" in why.stdout
    assert not [name for name in (*UUIDS, NAME, DRIVER) if name in why.stdout]  # all of it ran on the host


def test_they_are_shared_by_what_they_took(bed: Bed) -> None:
    """One takes as long as all others together."""
    words = ["run", "--in", "HEAD", "--python", BARE, "--rounds", "1"]
    done = bed.repository.evenbench(*words, "--gpus", "all", "--output", "out.jsonl", **bed.variables)
    assert done.returncode == 0, done.stderr
    lines = [json.dumps(slowed(event)) + "\n" for event in bed.events()]
    (bed.repository.path / "earlier.jsonl").write_text("".join(lines))
    words += ["--gpus", ",".join(UUIDS), "--durations", "earlier.jsonl", "--output", "balanced.jsonl"]
    done = bed.repository.evenbench(*words, **bed.variables)
    assert done.returncode == 0, done.stderr
    assert "balanced by the durations of 6 cases" in done.stderr
    places = {
        case: uuids for case, uuids in gpus_of_cases(bed.events("balanced.jsonl")).items() if case.startswith("device/")
    }
    assert [case for case, uuids in places.items() if uuids == places["device/work[n=3]"]] == ["device/work[n=3]"]


def slowed(event: dict[str, Any]) -> dict[str, Any]:
    if event["event"] == "launch_end":
        return {**event, "wall_ns": 0}
    if event["event"] == "measurement":
        return {**event, "wall_ns": 40 if event["case"] == "device/work[n=3]" else 10}
    return event


def test_a_killed_run_goes_on_with_each_case_on_its_gpu(bed: Bed) -> None:
    words = ["run", "--in", "HEAD", "--python", BARE, "--rounds", "4", "--output", "out.jsonl"]
    output = bed.repository.path / "out.jsonl"
    with bed.repository.start(*words, "--gpus", "2", **bed.variables) as process:
        bed.wait(process, lambda: output.exists() and len(timed(bed.events())) >= 5)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    before = bed.events()
    places = gpus_of_cases(before)
    assert len(places) == 6
    one = bed.repository.evenbench(*words, "--gpus", "1", "--resume", **bed.variables)
    assert one.returncode == 2
    assert f"--resume: the run was made on GPU {', '.join(UUIDS)}, this one is {UUIDS[0]}" in errors(one)[0]
    turned = ",".join(reversed(UUIDS))  # the file says which GPU had which case
    done = bed.repository.evenbench(*words, "--gpus", turned, "--resume", **bed.variables)
    assert done.returncode == 0, done.stderr
    after = bed.events()
    assert after[: len(before)] == before
    assert gpus_of_cases(after) == places
    report = json.loads(bed.repository.evenbench("report", "out.jsonl", "--format", "json").stdout)
    assert {row["times"]["launches"] for row in report["rows"]} == {4}


def test_an_interruption_ends_the_launches_on_all_gpus(bed: Bed) -> None:
    with bed.start("--gpus", "all") as process:
        bed.wait(process, lambda: len(bed.pids()) >= 4)
        (bed.folder / "gate").touch()
        bed.wait(process, lambda: len(bed.alive()) == 2)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    deadline = time.monotonic() + PATIENCE_S
    while bed.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert bed.alive() == []
    assert bed.repository.evenbench("report", "out.jsonl", "--fail-on", "never").returncode in (0, 4)


def test_each_gpu_has_a_lock_and_who_holds_it_is_said(bed: Bed) -> None:
    run = ["run", "--in", "HEAD", "--python", BARE, "--rounds", "1", "--gpu", "1", "--output", "second.jsonl"]
    gate = bed.folder / "gate"
    gate.touch()
    with bed.start("--gpus", "all") as first:
        bed.wait(first, lambda: len(bed.alive()) == 2)
        refused = bed.repository.evenbench(*run, "--no-wait", **bed.variables)
        with bed.repository.start(*run, **bed.variables) as second:
            assert second.stderr is not None
            waiting = second.stderr.readline()
            gate.unlink()
            first.communicate(timeout=PATIENCE_S)
            _, rest = second.communicate(timeout=PATIENCE_S)
    holder = f"another run is measuring on {UUIDS[1]}: process {first.pid}, evenbench compare HEAD HEAD, since 20"
    output = f"results in {bed.repository.path / 'out.jsonl'}"
    assert (refused.returncode, first.returncode, second.returncode) == (3, 0, 0), rest
    assert not refused.stdout
    (line,) = errors(refused)
    assert line.startswith(f"error: {holder}")
    assert line.endswith(f"{output} (hint: run without --no-wait to wait for it)")
    assert waiting.startswith(holder)
    assert waiting.endswith(f"{output}; waiting for it to end\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "3"], "--gpus 3: this machine has 2 visible NVIDIA GPUs"),
        (["--gpus", "2", "--durations", "x.jsonl"], "--durations x.jsonl: no such file"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str, bed: Bed) -> None:
    done = bed.compare(*words)
    assert done.returncode == 2
    assert said in errors(done)[0]
    assert not (bed.repository.path / "out.jsonl").exists()
