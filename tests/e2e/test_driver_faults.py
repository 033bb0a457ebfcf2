"""Faults of the driver: signals, disks, a machine that sleeps, a clock that jumps, a GPU that is gone. Nothing measured is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ON_CI
from tests.fakes.processes import soon_gone
from tests.fakes.repositories import PATIENCE_S, SUITES, Repository, errors, events, wait_for_launches

SLOW = """
    import os, time
    from pathlib import Path
    from evenbench import Bench, case

    @case("slow/sleep", device="cpu", iterations=3, timeout_s=3)
    def sleep(p, device):
        Path({folder!r}, str(os.getpid())).touch()
        return Bench(run=lambda: time.sleep(0.05) or 1, reference=lambda: 1)
"""
OUT = "out.jsonl"
COMPARE = ("compare", "HEAD", "HEAD", "--output", OUT)


def descendants(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for parent in found:
        for thread in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def whole(repository: Repository, rounds: int = 6) -> None:
    """The run came to its end, and each side of each round has its samples, each once."""
    found = events(repository.path / OUT)
    assert found[-1]["event"] == "end"
    again = max((event["round"] for event in found if event["event"] == "resumed"), default=0)
    at = max((i for i, event in enumerate(found) if event["event"] == "resumed"), default=0)
    launches = {event["launch"]: event for event in found if event["event"] == "launch" and event["kind"] == "timed"}
    counted = [
        (launches[event["launch"]]["side"], launches[event["launch"]]["round"])
        for i, event in enumerate(found)
        if event["event"] == "measurement" and (i > at or launches[event["launch"]]["round"] < again)
    ]
    assert sorted(counted) == sorted((side, number) for side in ("base", "head") for number in range(rounds))


@pytest.fixture
def slow(repository: Repository) -> Iterator[tuple[Repository, Path]]:
    """A repository with one case that takes a while, and the folder of its launches' process ids."""
    folder = repository.path.parent / "launches"
    folder.mkdir()
    repository.commit({"cases/quick.py": "", "cases/slow.py": SLOW.format(folder=str(folder))})
    yield repository, folder
    assert soon_gone(folder)
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_cancelled_workflow_asks_three_times_and_is_obeyed_once(slow: tuple[Repository, Path]) -> None:
    """GitHub sends SIGINT, then SIGTERM, then kills: what cleans up is not interrupted itself."""
    repository, folder = slow
    with repository.start(*COMPARE) as process:
        wait_for_launches(repository.path / OUT, process, 3)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            time.sleep(0.05)
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "interrupted"
    assert "--resume --output" in error
    assert "Traceback" not in error
    assert soon_gone(folder)
    assert repository.git("worktree", "list").count("\n") == 0
    before = events(repository.path / OUT)
    assert repository.evenbench(*COMPARE, "--resume").returncode == 0
    assert events(repository.path / OUT)[: len(before)] == before
    whole(repository)


ENDING = """
import signal, sys
import evenbench.cli.main
from evenbench.__main__ import main

evenbench.cli.main.main = lambda: int(sys.argv[1])
main()
print(signal.getsignal(signal.SIGTERM) == signal.SIG_IGN, signal.getsignal(signal.SIGINT) == signal.SIG_IGN)
"""


@pytest.mark.parametrize(("code", "ignored"), [(130, "True True"), (0, "False False")])
def test_an_interpreter_that_ends_is_not_killed_by_the_last_of_them(code: int, ignored: str) -> None:
    """As it ends it would give our handlers up, and the next signal its own effect."""
    command = [sys.executable, "-c", ENDING, str(code)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ignored


def test_a_run_under_nohup_outlives_its_terminal(slow: tuple[Repository, Path]) -> None:
    repository, _ = slow
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(repository.path.parent)}
    command = ["nohup", str(Path(sys.executable).with_name("evenbench")), *COMPARE]
    with subprocess.Popen(
        command, cwd=repository.path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        wait_for_launches(repository.path / OUT, process, 1)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out
    whole(repository)


def test_a_machine_that_sleeps_costs_no_case(slow: tuple[Repository, Path]) -> None:
    """All processes stand still for longer than a case may take, the one that watches deadlines among them."""
    repository, _ = slow
    with repository.start(*COMPARE) as process:
        wait_for_launches(repository.path / OUT, process, 3)
        stopped = descendants(process.pid)
        for each in stopped:
            os.kill(each, signal.SIGSTOP)
        time.sleep(6)
        for each in reversed(stopped):
            os.kill(each, signal.SIGCONT)
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, error
    whole(repository)
    assert not [event for event in events(repository.path / OUT) if event["event"] == "failure"]
    assert max(event["paused_s"] for event in events(repository.path / OUT) if event["event"] == "launch_end") > 4


JUMPS = """
    import itertools, sys, time
    ahead = itertools.count(0, 86_400 * 365 // 50)
    real = time.time
    time.time = lambda: real() + next(ahead) * (-1) ** next(ahead)
    from evenbench.__main__ import main
    sys.exit(main())
"""


def test_a_clock_that_jumps_moves_no_deadline(slow: tuple[Repository, Path]) -> None:
    """By years, forth and back, each time the driver asks."""
    repository, _ = slow
    repository.write({"../jumps.py": JUMPS})
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(repository.path.parent)}
    command = [sys.executable, str(repository.path.parent / "jumps.py"), *COMPARE]
    done = subprocess.run(
        command, cwd=repository.path, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    whole(repository)


@pytest.mark.parametrize("place", ["file/out.jsonl", "folder", "/proc/out.jsonl", "/dev/full"])
def test_an_output_that_cannot_be_written_is_refused_before_measuring(repository: Repository, place: str) -> None:
    repository.write({"file": "no folder"})
    (repository.path / "folder").mkdir()
    done = repository.evenbench("run", "--output", place)
    assert done.returncode == 2, done.stderr
    assert len(errors(done)) == 1
    assert place.rpartition("/")[0] in errors(done)[0]
    assert "Traceback" not in done.stderr
    assert "measuring" not in done.stderr


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system; where that needs more rights than the tests have, says so and skips."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        (pytest.fail if ON_CI else pytest.skip)("no rights to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_was_full_has_room_again(slow: tuple[Repository, Path], disk: Path) -> None:
    repository, _ = slow
    output = repository.path / "out.jsonl"
    output.symlink_to(disk / "out.jsonl")
    full = repository.evenbench(*COMPARE[:-1], str(disk / "out.jsonl"))
    assert full.returncode == 2, full.stderr
    assert "--resume" in errors(full)[0]
    before = events(repository.path / OUT)
    assert any(event["event"] == "measurement" for event in before)
    subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
    done = repository.evenbench(*COMPARE[:-1], str(disk / "out.jsonl"), "--resume")
    assert done.returncode == 0, done.stderr
    assert events(repository.path / OUT)[: len(before)] == before
    whole(repository)


LOSES = """
    import os
    from pathlib import Path
    from evenbench import Bench, case

    HERE = Path({folder!r})

    @case("gpu/loses", device="cpu")
    def loses(p, device):
        (HERE / str(len(list(HERE.iterdir())))).touch()
        if len(list(HERE.iterdir())) == 6:  # two preparations, three timed launches, then this
            Path({gpus!r}).write_text("")
        if not Path({gpus!r}).read_text():
            raise RuntimeError("CUDA error: device is lost")
        return Bench(run=lambda: 1, reference=lambda: 1)
"""
UUID = "GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc"


def test_a_gpu_that_is_gone_ends_the_run_and_resume_goes_on(repository: Repository) -> None:
    """A driver that lists GPUs, until it does not."""
    root = repository.path.parent
    (root / "launches").mkdir()
    gpus, program = root / "gpus", root / "bin" / "nvidia-smi"
    gpus.write_text(f"{UUID}, NVIDIA H200, 580.159.04\n")
    repository.write({"../bin/nvidia-smi": f'#!/bin/sh\n[ "$1" = -q ] || cat {gpus}\n'})
    program.chmod(0o755)
    loses = LOSES.format(folder=str(root / "launches"), gpus=str(gpus))
    repository.commit({"cases/quick.py": "", "cases/gpu.py": loses, "cases/suites.yaml": SUITES})
    hide = "import sys\nsys.modules['pynvml'] = sys.modules['torch'] = None\n"  # and torch, to be quick
    repository.write({"../bin/sitecustomize.py": hide})
    env = {
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(root / "bin"),
        "CUDA_VISIBLE_DEVICES": UUID,
    }
    lost = repository.evenbench(*COMPARE, "--ignore-unfit", **env)
    assert lost.returncode == 3, lost.stderr
    hint = "run evenbench doctor until it does, then continue with --resume"
    assert errors(lost) == [f"error: NVIDIA H200 {UUID} no longer answers (hint: {hint})"]
    before = events(repository.path / OUT)
    assert sum(1 for event in before if event["event"] == "measurement") == 3
    assert before[-1]["event"] != "end"
    gpus.write_text(f"{UUID}, NVIDIA H200, 580.159.04\n")
    done = repository.evenbench(*COMPARE, "--ignore-unfit", "--resume", **env)
    assert done.returncode == 0, done.stderr
    assert events(repository.path / OUT)[: len(before)] == before
    whole(repository)
