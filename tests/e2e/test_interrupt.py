"""A run that is killed loses nothing that it measured, and is taken up again; Ctrl-C ends everything it started."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.fakes.processes import soon_gone
from tests.fakes.repositories import PATIENCE_S, SUITES, Repository, errors, events, wait_for_launches

# A launch leaves its process id behind, and takes long enough to be met alive.
SLOW = """
    import os, time
    from pathlib import Path
    from evenbench import Bench, case

    @case("slow/sleep", device="cpu", iterations=3)
    def sleep(p, device):
        Path({folder!r}, str(os.getpid())).touch()
        return Bench(run=lambda: time.sleep(0.05) or 1, reference=lambda: 1)
"""

COMMAND = ("compare", "HEAD", "HEAD", "--output", "out.jsonl")


@pytest.fixture
def slow(repository: Repository) -> tuple[Repository, Path]:
    """A repository whose second case takes a while, and the folder of its launches' process ids."""
    folder = repository.path.parent / "launches"
    folder.mkdir()
    repository.commit({"cases/slow.py": SLOW.format(folder=str(folder))})
    return repository, folder


def killed(repository: Repository, launches: int) -> Path:
    """The results file of a comparison that was killed after so many launches."""
    output = repository.path / "out.jsonl"
    with repository.start(*COMMAND) as process:
        wait_for_launches(output, process, launches)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    return output


def test_killed_driver_loses_nothing_and_is_resumed(slow: tuple[Repository, Path]) -> None:
    repository, folder = slow
    output = killed(repository, 6)
    assert soon_gone(folder)
    before = events(output)
    assert not any(event["event"] == "end" for event in before)
    partial = repository.evenbench("report", "out.jsonl")
    assert "partial" in partial.stdout
    assert (partial.returncode, "fail_on: the run did not come to its end" in partial.stderr) == (1, True)
    refused = repository.evenbench(*COMMAND)
    assert refused.returncode == 2
    assert "--resume" in errors(refused)[0]
    with output.open("a") as file:  # what a kill in the middle of a write leaves
        file.write('{"event":"measurement","lau')
    done = repository.evenbench(*COMMAND, "--resume")
    assert done.returncode == 0, done.stderr
    after = events(output)
    assert after[: len(before)] == before  # nothing measured was lost
    resumed = next(event for event in after if event["event"] == "resumed")
    timed = [event for event in after if event["event"] == "launch" and event["kind"] == "timed"]
    assert {launch["round"] for launch in timed} == set(range(6))
    assert 1 <= resumed["round"] <= 3
    assert after[-1]["event"] == "end"
    assert "2 unchanged" in done.stdout or "inconclusive" in done.stdout
    report = json.loads(repository.evenbench("report", "out.jsonl", "--format", "json").stdout)
    assert {row["rounds"] for row in report["rows"]} == {6}
    complete = repository.evenbench(*COMMAND, "--resume")
    assert complete.returncode == 2
    assert "is complete" in errors(complete)[0]
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_run_is_not_resumed_more_often_than_a_report_takes(slow: tuple[Repository, Path]) -> None:
    """Else it would measure to its end, and nobody could read it."""
    repository, _ = slow
    output = killed(repository, 1)
    whole = events(output)
    resumed = {"event": "resumed", "round": 0, "at": "2026-11-30T00:00:00+00:00"}
    output.write_text("".join(f"{json.dumps(event)}\n" for event in [*whole, *[resumed] * 100]))
    done = repository.evenbench(*COMMAND, "--resume")
    assert done.returncode == 2
    assert errors(done)[0].startswith(
        f"error: --resume: the run in {output} was resumed 100 times (hint: evenbench report"
    )
    assert "partial" in repository.evenbench("report", "out.jsonl").stdout


def test_resume_refuses_another_run(slow: tuple[Repository, Path]) -> None:
    repository, _ = slow
    output = killed(repository, 2)
    before = output.read_bytes()
    for arguments, message in (
        (["HEAD~1", "HEAD"], "sides was base at"),
        (["HEAD", "HEAD", "--rounds", "7"], "rounds was 6, and is 7 now"),
        (["HEAD", "HEAD", "slow/*"], "patterns was"),
        (["HEAD", "HEAD", "--measure-ms", "20"], "measure_ms"),
    ):
        done = repository.evenbench("compare", *arguments, "--output", "out.jsonl", "--resume")
        assert done.returncode == 2, done.stderr
        assert message in errors(done)[0]
        assert output.read_bytes() == before


def test_killed_before_the_first_round_begins_anew(repository: Repository) -> None:
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl")
    assert done.returncode == 0, done.stderr
    output = repository.path / "out.jsonl"
    lines = output.read_text().splitlines(keepends=True)
    first_timed = next(i for i, line in enumerate(lines) if '"kind":"timed"' in line)
    output.write_text("".join(lines[: first_timed - 1]))
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl", "--resume")
    assert done.returncode == 0, done.stderr
    assert events(output)[-1]["event"] == "end"
    assert not any(event["event"] == "resumed" for event in events(output))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_children_keeps_the_file_and_says_how_to_go_on(
    slow: tuple[Repository, Path], number: signal.Signals
) -> None:
    repository, folder = slow
    output = repository.path / "out.jsonl"
    with repository.start("compare", "HEAD", "HEAD", "--output", "out.jsonl") as process:
        wait_for_launches(output, process, 3)
        process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "--resume --output" in error
    assert "Traceback" not in error
    assert soon_gone(folder)
    assert any(event["event"] == "measurement" for event in events(output))
    assert repository.git("worktree", "list").count("\n") == 0
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl", "--resume")
    assert done.returncode == 0, done.stderr


def test_two_runs_do_not_measure_at_once(slow: tuple[Repository, Path]) -> None:
    repository, _ = slow
    output = repository.path / "out.jsonl"
    with repository.start("compare", "HEAD", "HEAD", "--output", "out.jsonl") as first:
        wait_for_launches(output, first, 1)
        second = repository.evenbench("run", "quick/*", "--output", "second.jsonl")
        assert first.poll() is not None or first.wait(PATIENCE_S) == 0
        first.communicate()
    assert second.returncode == 0
    assert "another run is measuring on host" in second.stderr
    ended = events(output)[-1]
    began = next(event for event in events(repository.path / "second.jsonl") if event["event"] == "end")
    assert ended["at"] <= began["at"]


def test_worktrees_of_killed_runs_are_pruned(slow: tuple[Repository, Path]) -> None:
    repository, _ = slow
    with repository.start("compare", "HEAD~1", "HEAD", "--output", "out.jsonl") as process:
        wait_for_launches(repository.path / "out.jsonl", process, 1)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert repository.git("worktree", "list").count("\n") == 2
    repository.write({"cases/suites.yaml": SUITES})
    done = repository.evenbench("run", "quick/*", "--output", "other.jsonl")
    assert done.returncode == 0, done.stderr
    assert repository.git("worktree", "list").count("\n") == 0


def test_resuming_a_run_that_still_writes_harms_nothing(slow: tuple[Repository, Path]) -> None:
    repository, _ = slow
    command = ["compare", "HEAD", "HEAD", "--output", "out.jsonl"]
    with repository.start(*command) as first:
        wait_for_launches(repository.path / "out.jsonl", first, 1)
        second = repository.evenbench(*command, "--resume")
        first.communicate(timeout=PATIENCE_S)
    assert second.returncode == 2
    assert "is complete" in errors(second)[0]  # it waited for the machine, and found nothing left to do
    assert first.returncode == 0
    assert repository.evenbench("report", "out.jsonl").returncode == 0


def test_a_file_without_a_header_cannot_be_resumed_and_says_so(repository: Repository) -> None:
    repository.write({"out.jsonl": '{"event":"hea'})
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl", "--resume")
    assert done.returncode == 2
    assert "begin anew with another --output" in errors(done)[0]


@pytest.mark.parametrize("after_s", [0.15, 0.3, 0.6, 1.2])
def test_ctrl_c_at_any_moment_is_one_line(repository: Repository, after_s: float) -> None:
    with repository.start("compare", "HEAD", "HEAD", "--output", "out.jsonl") as process:
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_S)
    if after_s > 0.2:  # before, the interpreter itself may not have come so far
        assert process.returncode == 130
        assert "Traceback" not in error
        assert error.splitlines()[-1] == "interrupted"
    assert repository.git("worktree", "list").count("\n") == 0
