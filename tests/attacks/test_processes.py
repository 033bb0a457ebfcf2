"""Attacks by what a case's process does: to its driver, to the log, to this machine. The real command, in real processes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.processes import soon_gone
from tests.fakes.repositories import PATIENCE_S, QUICK, SUITES, Repository, errors

EVENBENCH = str(Path(sys.executable).with_name("evenbench"))
FAST = SUITES.replace("rounds: 6, max_rounds: 6", "rounds: 6, max_rounds: 6, timeout_s: 3")
HEADER = """
    import ctypes, json, os, signal, subprocess, sys, time
    from pathlib import Path
    from evenbench import Bench, case

    HERE = Path({folder!r})
"""
COMMANDS = (
    "::add-mask::quick",
    "::error::pwned",
    "::set-output name=plan::pwned",
    "##[error]pwned",
    "  ::warning::pwned",
)


def attack(folder: Path, body: str) -> str:
    """A case file; `HERE` is a folder of the test's."""
    return HEADER.format(folder=str(folder)) + body


@pytest.fixture
def nest(tmp_path: Path) -> Path:
    """Where cases leave notes for the test."""
    (tmp_path / "nest").mkdir()
    return tmp_path / "nest"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.made(tmp_path / "repository", {"cases/quick.py": QUICK, "cases/suites.yaml": FAST})


def measured(
    repository: Repository, *words: str, **variables: str
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """The rows of one measured checkout, by case, and how the command ended."""
    done = repository.evenbench("run", *words, "--output", "out.jsonl", "--json", "out.json", **variables)
    assert done.returncode in (0, 1), done.stderr  # 1: a case of it failed
    rows = json.loads((repository.path / "out.json").read_text())["rows"]
    return {row["case"]: row for row in rows}, done


@pytest.mark.parametrize(
    "deed",
    [
        "time.sleep(600)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT)] and time.sleep(600)",
        "next(n for n in iter(int, 1) if n)",
    ],
)
def test_a_hang_costs_its_own_row(repository: Repository, nest: Path, deed: str) -> None:
    hangs = f"""
    @case("bad/hangs", device="cpu", timeout_s=1)
    def hangs(p, device):
        (HERE / str(os.getpid())).touch()
        return Bench(run=lambda: {deed})
    """
    repository.commit({"cases/bad.py": attack(nest, hangs)})
    rows, _ = measured(repository)
    assert rows["bad/hangs"]["status"] == "failed"
    assert "timeout" in rows["bad/hangs"]["reason"]
    assert rows["quick/sum"]["status"] == "ok"
    assert soon_gone(nest)


BOMB = """
    @case("bad/bomb", device="cpu")
    def bomb(p, device):
        for _ in range(6):  # 64 processes, each in a session of its own: no signal to a group reaches them
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            (HERE / str(os.getpid())).touch()
        if os.getsid(0) != SESSION:
            time.sleep(600)
        return Bench(run=lambda: 1)

    SESSION = os.getsid(0)
"""


def test_a_fork_bomb_ends_with_its_launch(repository: Repository, nest: Path) -> None:
    """Capped, so that this machine survives the test; in a container the limit on processes caps it."""
    repository.commit({"cases/bad.py": attack(nest, BOMB)})
    rows, _ = measured(repository)
    assert rows["quick/sum"]["status"] == "ok"
    assert len(list(nest.iterdir())) > 100  # of preparation and one timed launch
    assert soon_gone(nest)


def test_a_daemon_of_one_launch_does_not_meet_the_next(repository: Repository, nest: Path) -> None:
    """One that leaves its group and its parent, as daemons do, would disturb what is measured after it."""
    daemon = """
    @case("bad/daemon", device="cpu")
    def daemon(p, device):
        met = [entry.name for entry in HERE.iterdir() if Path("/proc", entry.name).exists()]
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                (HERE / str(os.getpid())).touch()
                time.sleep(600)
            os._exit(0)
        os.wait()
        while len(list(HERE.iterdir())) == BEFORE:
            time.sleep(0.01)
        if met:
            raise RuntimeError("met a daemon")
        return Bench(run=lambda: 1)

    BEFORE = len(list(HERE.iterdir()))
    """
    repository.commit({"cases/bad.py": attack(nest, daemon)})
    rows, _ = measured(repository, "--rounds", "3")
    assert rows["bad/daemon"]["status"] == "ok", rows["bad/daemon"]
    assert len(list(nest.iterdir())) == 4
    assert soon_gone(nest)


def test_100_mb_of_output(repository: Repository, nest: Path) -> None:
    """Of all that a case prints, the log gets nothing, and the file the end of it where the case fails."""
    floods = """
    @case("bad/floods", device="cpu")
    def floods(p, device):
        for descriptor in (1, 2):
            for _ in range(50):
                os.write(descriptor, b"\\x1b[31m" + b"water" * 200_000 + b"\\n")
        return Bench(run=lambda: 1 / p.zero)
    """
    repository.commit({"cases/bad.py": attack(nest, floods.replace('"cpu")', '"cpu", params={"zero": [0]})'))})
    rows, done = measured(repository)
    assert rows["bad/floods[zero=0]"]["status"] == "failed"
    assert rows["quick/sum"]["status"] == "ok"
    assert "water" not in done.stdout + done.stderr
    assert (repository.path / "out.jsonl").stat().st_size < 200_000


class TestLog:
    """What a step's log holds, GitHub's runner reads for commands."""

    BAD = """
    TEXT = {text!r}

    @case("bad/prints", device="cpu")
    def prints(p, device):
        print(TEXT)
        os.write(2, TEXT.encode())
        return Bench(run=lambda: 1)

    @case("bad/raises", device="cpu")
    def raises(p, device):
        raise RuntimeError(TEXT)
    """

    def commands(self, text: str) -> list[str]:
        """Lines that the runner would obey."""
        return [line for line in re.split(r"[\r\n]", text) if line.lstrip().startswith("::") or "##[" in line]

    def logs(self, repository: Repository, nest: Path, *words: str) -> str:
        text = "\n".join(["", *COMMANDS, "x" * 40 + " " + " ".join(COMMANDS) * 20, "\r::error::pwned"])
        repository.write({"cases/bad.py": attack(nest, self.BAD.format(text=text))})
        repository.write({"cases/worse.py": f"raise ImportError({text!r})\n"})
        repository.commit({})
        done = repository.evenbench(*words, GITHUB_ACTIONS="true", COLUMNS="60")
        assert "pwned" in done.stdout + done.stderr, done  # a row says why it failed
        return done.stdout + done.stderr

    @pytest.mark.parametrize("words", [["run"], ["compare", "HEAD", "HEAD"], ["list"], ["-v", "run", "no/such*"]])
    def test_a_case_gives_the_runner_no_commands(self, repository: Repository, nest: Path, words: list[str]) -> None:
        assert self.commands(self.logs(repository, nest, *words)) == []

    def test_nor_does_a_set_up(self, repository: Repository) -> None:
        script = "; ".join(f"echo '{command}'" for command in COMMANDS)
        done = repository.evenbench("compare", "HEAD", "HEAD", f"--head-setup={script}; exit 3", GITHUB_ACTIONS="true")
        assert done.returncode == 4
        assert "pwned" in done.stderr
        assert self.commands(done.stdout + done.stderr) == []

    def test_nor_does_a_results_file(self, repository: Repository) -> None:
        hostile = json.dumps({"event": "header", "schema": "##[error]pwned"})
        repository.write({"out.jsonl": hostile + "\n"})
        done = repository.evenbench("report", "./::error::pwned.jsonl", "out.jsonl", GITHUB_ACTIONS="true")
        assert done.returncode in (2, 5)
        assert self.commands(done.stdout + done.stderr) == []

    def test_a_file_takes_the_answer_as_it_is(self, repository: Repository) -> None:
        """Only what is read as a log changes: not what is redirected."""
        name = "##[group]"
        with (repository.path / "answer.txt").open("w") as file:
            command = [EVENBENCH, "report", name]
            subprocess.run(command, check=False, stderr=file, env={**os.environ, "GITHUB_ACTIONS": "true"})
        assert name in (repository.path / "answer.txt").read_text()


def test_the_environment_of_launches_and_set_ups_holds_no_token(repository: Repository, nest: Path) -> None:
    dump = """
    @case("bad/dumps", device="cpu")
    def dumps(p, device):
        (HERE / f"launch-{os.getpid()}").write_text(json.dumps(dict(os.environ)))
        for process in {os.getpid(), os.getppid()}:  # and what the system tells of this process and its warm parent
            seen = Path(f"/proc/{process}/environ").read_bytes() + Path(f"/proc/{process}/cmdline").read_bytes()
            (HERE / f"proc-{process}-{os.getpid()}").write_bytes(seen)
        return Bench(run=lambda: 1)
    """
    repository.commit(
        {"cases/bad.py": attack(nest, dump), "cases/suites.yaml": f"    setup: env > {nest}/set-up-$$\n" + FAST}
    )
    tokens = {
        name: f"hush-{number}"
        for number, name in enumerate(
            (
                *("GITHUB_TOKEN", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GH_TOKEN"),
                *("ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"),
                *("ACTIONS_CACHE_URL", "ACTIONS_RUNNER_INPUT_JITCONFIG", "RUNNER_TOKEN", "INPUT_TOKEN"),
                *("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SYSTEM_ACCESSTOKEN", "PGPASSWORD", "my_api_key", "DEPLOY_KEY"),
            )
        )
    }
    tokens["FRIENDLY"] = "ghs_" + "hush" * 9
    done = repository.evenbench("compare", "HEAD", "HEAD", "bad/*", "--rounds", "6", **tokens)
    assert done.returncode == 0, done.stderr
    seen = {entry.name: entry.read_text(errors="replace") for entry in nest.iterdir()}
    assert {name.partition("-")[0] for name in seen} == {"launch", "proc", "set"}
    assert [name for name, text in seen.items() if "hush" in text] == []
    assert all("PATH" in text for name, text in seen.items() if name.startswith(("launch", "set")))


FORGES = """
    FORGED = {record!r}

    @case("bad/forges", device="cpu")
    def forges(p, device):
        for descriptor in range(3, 40):
            for nonce in (b"", b"0" * 32 + b" "):
                try:
                    os.write(descriptor, nonce + json.dumps(FORGED).encode() + b"\\n")
                except OSError:
                    pass
        return Bench(run=lambda: 1)
"""
SAMPLES = {
    "event": "measurement", "launch": 1, "implementation": "main", "timing": "host", "device_busy_ns": [1] * 20,
    "latency_ns": [1] * 20, "cache": "warm", "stop": "count",
}  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        {**SAMPLES, "case": "quick/sum"},
        {**SAMPLES, "case": "no/such"},
        {"event": "exit", "status": "ok", "detail": "", "case": None},
        {"event": "end", "at": "", "rounds": 1},
        {"event": "case", "index": 0, "side": "head", "id": "no/such", "file": ""},
        {"event": "begin", "case": "quick/sum", "timeout_s": 1e9},  # as if that were under way
        {"event": "done"},  # as if the launch had left
    ],
    ids=lambda value: f"{value['event']}-{value.get('case')}" if isinstance(value, dict) else "",
)
def test_a_case_cannot_speak_for_another(repository: Repository, nest: Path, record: dict[str, Any]) -> None:
    """Nobody gets numbers that it made, nobody pays for it, and the file stays whole."""
    repository.commit({"cases/bad.py": attack(nest, FORGES.format(record=record))})
    done = repository.evenbench("run", "--output", "out.jsonl", "--json", "out.json")
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert set(rows) == {"quick/sum", "bad/forges"}, done.stderr
    assert rows["quick/sum"]["status"] == "ok", rows["quick/sum"]
    assert rows["quick/sum"]["times"]["device_busy_ms"] > 1e-5
    lines = [json.loads(line) for line in (repository.path / "out.jsonl").read_text().splitlines()]
    assert not any(line.get("device_busy_ns") == SAMPLES["device_busy_ns"] for line in lines)
    assert not any("no/such" in line.values() for line in lines)
    assert [line["event"] for line in lines].count("end") == 1
    assert repository.evenbench("report", "out.jsonl").returncode in (0, 1, 4)


@pytest.mark.parametrize("victim", ["os.getpid()", "os.getppid()"])
def test_a_killed_worker(repository: Repository, nest: Path, victim: str) -> None:
    """The launch itself, or the warm parent above it: from outside, or by a case."""
    kills = f"""
    @case("bad/kills", device="cpu")
    def kills(p, device):
        os.kill({victim}, signal.SIGKILL)
        time.sleep(60)
        return Bench(run=lambda: 1)
    """
    repository.commit({"cases/bad.py": attack(nest, kills)})
    rows, _ = measured(repository)
    assert rows["bad/kills"]["status"] == "failed"
    assert rows["quick/sum"]["status"] == "ok"


def test_a_killed_driver_leaves_no_process_behind(repository: Repository, nest: Path) -> None:
    """Not even those that left their launch's group; what it had measured can be reported."""
    stays = """
    @case("bad/stays", device="cpu", timeout_s=60)
    def stays(p, device):
        if os.fork() == 0:
            os.setsid()
            (HERE / str(os.getpid())).touch()
            time.sleep(600)
        (HERE / str(os.getpid())).touch()
        return Bench(run=lambda: time.sleep(30))
    """
    repository.commit({"cases/bad.py": attack(nest, stays)})
    with repository.start("run", "bad/*", "--output", "out.jsonl") as process:
        deadline = time.monotonic() + PATIENCE_S
        while len(list(nest.iterdir())) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert soon_gone(nest)
    report = repository.evenbench("report", "out.jsonl", "--fail-on", "never")
    assert report.returncode in (0, 4), report.stderr
    assert "partial" in report.stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many bytes; where that needs more rights than the tests have, says so and skips."""
    mounted: list[Path] = []

    def make(size: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            refuse = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            refuse("no rights to mount a small file system")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(repository: Repository, small_disk: Callable[[int], Path]) -> None:
    output = small_disk(8_192) / "out.jsonl"
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", str(output))
    assert done.returncode == 2, done
    assert "cannot be written any more" in errors(done)[0]
    assert "Traceback" not in done.stderr
    report = repository.evenbench("report", str(output))  # what was written before is whole
    assert "partial" in report.stdout, report
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_file_that_may_not_grow(repository: Repository) -> None:
    """The same where nobody may mount: by the limit on the size of files."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))

    temporary = repository.path.parent / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [EVENBENCH, "run", "--output", "out.jsonl"],
        cwd=repository.path,
        env={**os.environ, "TMPDIR": str(temporary), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2, 4), done.stderr


def test_a_launch_that_fills_the_disk(repository: Repository, nest: Path, small_disk: Callable[[int], Path]) -> None:
    """Temporary files of a case go with its run, and a full disk is an error of that case."""
    fills = """
    @case("bad/fills", device="cpu")
    def fills(p, device):
        import tempfile
        with open(os.path.join(tempfile.gettempdir(), "filled"), "wb") as file:
            while True:
                file.write(b"x" * 65536)
    """
    repository.commit({"cases/bad.py": attack(nest, fills)})
    rows, _ = measured(repository, TMPDIR=str(small_disk(64 << 20)))
    assert rows["bad/fills"]["status"] == "failed"
    assert "No space left" in rows["bad/fills"]["reason"]
