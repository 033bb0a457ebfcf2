"""Random faults injected into a real run on the host timer: the run, what was done to it, and whether it held.

One case, `chaos`, does a fault each time it is called, the next of a list drawn from a seed; it stands among healthy
cases. The driver may be stopped, ended or killed meanwhile; it is then taken up with --resume.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from evenbench.reports.load.results import Results, load_file
from evenbench.runner.execute.rounds import LOST_ALLOWED, ROUNDS_TO_JUDGE
from evenbench.runner.records import Failure
from measurements.faults.fault_cases import CHAOS, EFFECTS, FAULTS, HEALTHY, ITERATIONS, case_file, suites_file

ROOT = Path(__file__).resolve().parents[2]
SIDES = ("base", "head")
POLL_S = 0.1
GONE_S = 10.0  # a process that was to end is gone well within this
STOPPED_S = 5.0  # longer than the case's time limit and what counts as a pause
LIMIT_A_LAUNCH_S = 30.0  # far more than one takes: a run that hangs ends all the same
SET_UP_LINES = 40  # of the results file; by then all is open that stays open
DEATHS = ("crashed", "timeout")
SPARE_DESCRIPTORS = 4  # a driver opens files for moments

Blow: TypeAlias = Literal["none", "stop", "SIGINT", "SIGTERM", "SIGKILL"]


@dataclass
class Outcome:
    """What became of a run, and what is wrong with that: nothing, if it held."""

    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)  # done, by name
    launches: int = 0  # processes, those made again included
    planned: int = 0  # timed launches
    healthy: int = 0  # measurements of healthy cases
    again: int = 0  # launches that took up what another left
    blows: list[Blow] = field(default_factory=list)  # that hit the driver
    commands: int = 0  # of the driver: the first, and each that resumed it
    descriptors: tuple[int, int] = (0, 0)  # most of the driver, in the first quarter and the second half of its time
    memory_mb: tuple[float, float] = (0.0, 0.0)  # the same
    wall_s: float = 0.0

    def effects(self) -> Counter[str]:
        """How many faults were of each effect."""
        return Counter(
            {effect: sum(n for name, n in self.faults.items() if FAULTS[name][0] == effect) for effect in EFFECTS}
        )


def _most(looks: Sequence[int]) -> int:
    """The highest that two looks in a row reach: one may fall on the moment in which a process gets its pipes."""
    return max((min(pair) for pair in pairwise(looks)), default=looks[0])


class Chaos:
    """A repository with the cases, in a folder of its own, and the runs in it.

    Args:
        folder: an empty one.
        faults: what chaos does, call by call.
    """

    def __init__(self, folder: Path, faults: Sequence[str]) -> None:
        self._folder = folder
        self._faults = faults
        self._nest, self._temporary, self._repository = (folder / name for name in ("nest", "tmp", "repository"))
        for each in (self._nest, self._temporary, self._repository / "cases"):
            each.mkdir(parents=True)
        (self._repository / "cases" / "chaos.py").write_text(case_file(str(self._nest), faults), encoding="utf-8")
        self._git("init", "-q", "-b", "main")

    def run(self, rounds: int, seed: int, blows: Sequence[Blow] = ()) -> Outcome:
        """Compare the repository with itself, with blows to the driver at random moments; then look what is left."""
        (self._repository / "cases" / "suites.yaml").write_text(suites_file(rounds), encoding="utf-8")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "chaos")
        outcome = Outcome(planned=2 * rounds)
        files = self._files()
        began = time.monotonic()
        moments = random.Random(seed)
        left = list(blows)
        code, resume = 130, False
        while code not in (0, 1) and not outcome.wrong:
            blow = left.pop(0) if left else "none"
            code = self._command(rounds, seed, blow, moments, outcome, resume=resume)
            resume = True
            expected = {"SIGINT": (0, 130), "SIGTERM": (0, 130), "SIGKILL": (0, -9)}.get(blow, (0,))
            if code not in expected:
                outcome.wrong.append(f"exit code {code} after {blow}: {self._said()}")
        outcome.wall_s = time.monotonic() - began
        if not outcome.wrong:
            self._judge(load_file(self._output), rounds, outcome)
        outcome.wrong += self._leftovers(files)
        return outcome

    @property
    def _output(self) -> Path:
        return self._repository / "out.jsonl"

    def _command(
        self, rounds: int, seed: int, blow: Blow, moments: random.Random, outcome: Outcome, *, resume: bool
    ) -> int:
        """One command, which is struck once; its exit code."""
        outcome.commands += 1
        words = ["compare", "HEAD", "HEAD", "--seed", str(seed), "--output", "out.jsonl", "--fail-on", "never"]
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self._temporary),
            "EVENBENCH_LOCKS": str(self._temporary),
            "CUDA_VISIBLE_DEVICES": "",
        }
        with (self._folder / "said.txt").open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evenbench", *words, *(["--resume"] if resume else [])],
                cwd=self._repository, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
        deadline = time.monotonic() + LIMIT_A_LAUNCH_S * 2 * rounds
        strike_at = self._lines() + moments.randint(8, 60) if blow != "none" else 0
        seen: list[tuple[int, float]] = []
        while process.poll() is None:
            if self._lines() > SET_UP_LINES:
                with contextlib.suppress(OSError):
                    files = sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())
                    seen.append((files, _resident_mb(process.pid)))
            if strike_at and self._lines() >= strike_at:
                strike_at = 0
                outcome.blows.append(blow)
                strike(process, blow)
            if time.monotonic() > deadline:
                process.kill()
                outcome.wrong.append("the run hung")
            time.sleep(POLL_S)
        if blow == "none" and not resume and (quarter := len(seen) // 4):
            first, last = seen[:quarter], seen[-quarter:]
            later = [files for files, _ in seen[len(seen) // 2 :]]  # at last a driver judges, and its launches are gone
            outcome.descriptors = (_most([files for files, _ in first]), _most(later))
            outcome.memory_mb = (max(memory for _, memory in first), max(memory for _, memory in last))
            if outcome.descriptors[1] > outcome.descriptors[0] + SPARE_DESCRIPTORS:
                outcome.wrong.append("the driver had {} files open, and {} in the end".format(*outcome.descriptors))
        return process.returncode

    def _judge(self, results: Results, rounds: int, outcome: Outcome) -> None:
        """Hold the results against what chaos did."""
        done = {int(path.name.removeprefix("done-")) for path in self._nest.glob("done-*")}
        outcome.faults = Counter(self._faults[number] for number in done if self._faults[number])
        timed = [launch for launch in results.launches if launch.event.round is not None]
        outcome.launches, outcome.again = len(results.launches), sum(1 for each in timed if each.event.attempt)
        for name in HEALTHY:
            placed = results.measurements.get((f"healthy/{name}", "main"), ())
            outcome.healthy += len(placed)
            counted = Counter((each.launch.side, each.launch.round) for each in placed)
            if counted != Counter((side, number) for side in SIDES for number in range(rounds)):
                outcome.wrong.append(f"healthy/{name} has {len(placed)} measurements of {2 * rounds}")
            if any(len(each.record.device_busy_ns) != ITERATIONS for each in placed):
                outcome.wrong.append(f"healthy/{name} has not its full count of samples everywhere")
        failures = [failed.record for failed in results.failures]
        if strange := {record.case for record in failures} - {CHAOS, None}:
            outcome.wrong.append(f"failures of {', '.join(map(str, strange))}")
        self._judge_chaos(results, failures, rounds, outcome)

    def _judge_chaos(self, results: Results, failures: Sequence[Failure], rounds: int, outcome: Outcome) -> None:
        measured = {(e.launch.side, e.launch.round) for e in results.measurements.get((CHAOS, "main"), ())}
        lost = {(each.launch.side, each.launch.round) for each in results.failures if each.record.case == CHAOS}
        deaths = sum(1 for each in results.failures if each.record.case == CHAOS and each.record.kind in DEATHS)
        if deaths > max(LOST_ALLOWED, rounds - ROUNDS_TO_JUDGE):
            return  # it was not launched any more
        if missing := {(side, number) for side in SIDES for number in range(rounds)} - measured - lost:
            outcome.wrong.append(f"chaos has neither samples nor a reason in {len(missing)} launches")
        if outcome.commands > 1:
            return  # what was made again did some faults twice
        ends = Counter(launch.end.status for launch in results.launches if launch.end is not None)
        effects = outcome.effects()
        told = Counter(record.kind for record in failures)
        if not effects["dies"] <= ends["crashed"] <= effects["dies"] + effects["may die"]:
            outcome.wrong.append(f"{effects['dies']} faults kill a launch, {ends['crashed']} launches died")
        if ends["timeout"] != effects["hangs"]:
            outcome.wrong.append(f"{effects['hangs']} faults hang, {ends['timeout']} launches hung")
        if told["crashed"] != ends["crashed"] or told["timeout"] != ends["timeout"]:
            outcome.wrong.append(f"{ends['crashed']} launches died and {ends['timeout']} hung, told of {dict(told)}")
        if told["runtime"] + told["setup"] + told["out-of-memory"] != effects["fails"]:
            outcome.wrong.append(f"{effects['fails']} faults raise, told of {dict(told)}")

    def _leftovers(self, before: set[str]) -> list[str]:
        """Processes and files that are still there."""
        deadline = time.monotonic() + GONE_S
        while (alive := self._processes()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        found = [f"process {pid} is left" for pid in alive]
        return found + [f"{name} is left" for name in sorted(self._files() - before)]

    def _processes(self) -> list[str]:
        """Processes of the run, by the folder that they name, and those that left a file of their number."""
        children = {path.name.removeprefix("child-") for path in self._nest.glob("child-*")}
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and int(entry.name) != os.getpid():
                    named = str(self._folder).encode() in (entry / "environ").read_bytes()
                    if named or (entry.name in children and _is_ours(entry)):
                        found.append(entry.name)
        return found

    def _files(self) -> set[str]:
        """What lies in the temporary folder, without the lock, and in the repository, without results."""
        kept = {path.name for path in self._temporary.iterdir() if not path.name.endswith(".lock")}
        return (
            kept | {path.name for path in self._repository.iterdir() if path != self._output} | set(self._worktrees())
        )

    def _worktrees(self) -> list[str]:
        return self._git("worktree", "list", "--porcelain").split("\n\n")[1:]

    def _lines(self) -> int:
        with contextlib.suppress(OSError):
            return self._output.read_bytes().count(b"\n") if self._output.stat().st_size < 1 << 16 else 1 << 16
        return 0

    def _said(self) -> str:
        lines = (self._folder / "said.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(lines[-3:])[-300:]

    def _git(self, *words: str) -> str:
        identity = ["-c", "user.name=chaos", "-c", "user.email=chaos@example.invalid", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, *words]
        return subprocess.run(command, cwd=self._repository, check=True, capture_output=True, text=True).stdout.strip()


def strike(process: subprocess.Popen[bytes], blow: Blow) -> None:
    """Do something to a driver and, where it sleeps, to all below it."""
    if blow != "stop":
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(getattr(signal, blow))
        return
    below = descendants(process.pid)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for each in below if number == signal.SIGSTOP else reversed(below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)
        if number == signal.SIGSTOP:
            time.sleep(STOPPED_S)


def descendants(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for parent in found:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found


def _is_ours(entry: Path) -> bool:
    """Whether a process is not another one that was given the same number since."""
    with contextlib.suppress(OSError):
        return b"worker" in (entry / "cmdline").read_bytes()
    return False


def _resident_mb(process: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return 0.0
