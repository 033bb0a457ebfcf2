"""The locks that keep two runs apart, with real processes: waited for, refused, told of, free after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from evenbench.runner.errors import UnfitMachine, UsageError
from evenbench.runner.machine import locks
from evenbench.runner.machine.locks import machine_locks

FIRST, SECOND = "GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc", "GPU-6d99aaaa-0000-1111-2222-333344445555"
HOLDER = """
import sys
from pathlib import Path
from evenbench.runner.machine.locks import machine_locks
with machine_locks([sys.argv[1]], print, description="evenbench compare a b", output="/tmp/r.jsonl", folder=Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
    Path(sys.argv[2], "leaving").touch()
"""


@contextmanager
def another_run(name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its stdin is closed."""
    command = [sys.executable, "-c", HOLDER, name, str(folder)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def no_wait(line: str) -> None:
    raise AssertionError(line)


def held(names: Sequence[str], folder: Path) -> AbstractContextManager[None]:
    return machine_locks(names, no_wait, folder=folder)


def lock_of(name: str, folder: Path) -> Path:
    return folder / f"evenbench-{name}.lock"


def test_a_lock_that_another_process_holds_is_waited_for_and_its_holder_is_named(tmp_path: Path) -> None:
    told: list[str] = []
    with another_run(FIRST, tmp_path) as other:
        stdin = other.stdin
        assert stdin is not None

        def waiting(line: str) -> None:
            told.append(line)
            assert not (tmp_path / "leaving").exists()
            threading.Timer(1.5, stdin.close).start()  # longer than one poll: told once all the same

        since = json.loads(lock_of(FIRST, tmp_path).read_text())["since"]
        with machine_locks([FIRST], waiting, folder=tmp_path):
            assert (tmp_path / "leaving").exists()
    held_by = f"process {other.pid}, evenbench compare a b, since {since}, results in /tmp/r.jsonl"
    assert told == [f"another run is measuring on {FIRST}: {held_by}; waiting for it to end"]


def test_who_does_not_wait_ends_at_once_and_is_told_the_same(tmp_path: Path) -> None:
    with (
        another_run(FIRST, tmp_path) as other,
        pytest.raises(UnfitMachine, match=f"{FIRST}: process {other.pid}, .* --no-wait") as caught,
        machine_locks([SECOND, FIRST], no_wait, wait=False, folder=tmp_path),
    ):
        pass
    assert "\n" not in str(caught.value)
    with held([SECOND], tmp_path):  # what it had taken already is free again
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with another_run(FIRST, tmp_path) as other:
        other.kill()
        other.wait()
        assert json.loads(lock_of(FIRST, tmp_path).read_text())["pid"] == other.pid  # what it left says nothing
        with held([FIRST], tmp_path):
            assert not (tmp_path / "leaving").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        '{"pid": "1"}',
        '{"pid": true, "start": null}',
        '{"pid": 999999999, "start": 1}',
        '{"pid": 1, "start": -1}',  # another process of that number
        '{"pid": 999999999}',
        "[" * 10_000,
        "\xff",
    ],
)
def test_a_holder_that_is_not_known_is_not_named(text: str, tmp_path: Path) -> None:
    with another_run(FIRST, tmp_path):
        lock_of(FIRST, tmp_path).write_text(text, encoding="latin-1")
        with pytest.raises(UnfitMachine) as caught, machine_locks([FIRST], no_wait, wait=False, folder=tmp_path):
            pass
    assert caught.value.message == f"another run is measuring on {FIRST}"


def test_what_a_holder_wrote_is_text_and_bounded(tmp_path: Path) -> None:
    with another_run(FIRST, tmp_path):
        lock = lock_of(FIRST, tmp_path)
        lock.write_text(json.dumps({**json.loads(lock.read_text()), "what": "\x1b[2J\n" + "x" * 5_000}))
        with pytest.raises(UnfitMachine) as caught, machine_locks([FIRST], no_wait, wait=False, folder=tmp_path):
            pass
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1_500


def test_waiting_ends(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        another_run(FIRST, tmp_path),
        pytest.raises(UnfitMachine, match=f"another run is measuring on {FIRST}: .*, for over 0 s"),
        machine_locks([FIRST], told.append, folder=tmp_path, wait_s=0),
    ):
        pass
    assert len(told) == 1


def test_locks_of_two_gpus_are_two_and_one_is_free_again(tmp_path: Path) -> None:
    with held([FIRST], tmp_path), held([SECOND], tmp_path):
        assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ZeroDivisionError), held([FIRST], tmp_path):
        raise ZeroDivisionError
    with held([SECOND, FIRST, FIRST], tmp_path):
        pass
    assert lock_of(FIRST, tmp_path).read_bytes() == b""  # a run that has ended is no holder


def test_locks_are_taken_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that name the same GPUs otherwise would wait for each other for ever."""
    taken: list[str] = []

    def take(name: str, path: Path, *_: object) -> int:
        taken.append(name)
        return os.open(path, os.O_RDWR | os.O_CREAT)

    monkeypatch.setattr(locks, "_take", take)
    for names in ([FIRST, SECOND], [SECOND, FIRST]):
        with held(names, tmp_path):
            pass
    assert taken == [FIRST, SECOND] * 2


def test_a_name_stays_in_its_folder(tmp_path: Path) -> None:
    with held(["../a b"], tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["evenbench-___a_b.lock"]


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    target = tmp_path / "target"
    lock_of("host", tmp_path).symlink_to(target)
    with pytest.raises(UnfitMachine, match=r"evenbench-host\.lock cannot be opened"):
        held(["host"], tmp_path).__enter__()
    assert not target.exists()


def test_a_pipe_left_in_the_place_of_a_lock_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(lock_of("host", tmp_path), 0o400)
    with pytest.raises(UnfitMachine, match="cannot be opened: it is not a plain file with one name"):
        held(["host"], tmp_path).__enter__()


def test_a_hard_link_to_a_file_of_ours_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    target.chmod(0o600)
    lock_of("host", tmp_path).hardlink_to(target)
    with pytest.raises(UnfitMachine, match="cannot be opened: it is not a plain file with one name"):
        held(["host"], tmp_path).__enter__()
    assert target.read_text() == "kept"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_lock_serves_all_users_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with held(["host"], tmp_path):
            assert lock_of("host", tmp_path).stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_lock_that_is_removed_while_it_is_waited_for_is_made_anew(tmp_path: Path) -> None:
    """What was waited for is then no file that a third run would find."""
    with another_run(FIRST, tmp_path) as other:

        def waiting(_line: str) -> None:
            lock_of(FIRST, tmp_path).unlink()

        with machine_locks([FIRST], waiting, folder=tmp_path):
            assert other.poll() is None
            with pytest.raises(UnfitMachine, match=f"measuring on {FIRST}: process {os.getpid()}"):
                machine_locks([FIRST], no_wait, folder=tmp_path, wait=False).__enter__()


def test_a_lock_that_is_removed_as_it_is_taken_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = locks._locked, [True]

    def locked(descriptor: int) -> bool:
        taken = real(descriptor)
        if left:
            left.pop()
            lock_of(FIRST, tmp_path).unlink()
        return taken

    monkeypatch.setattr(locks, "_locked", locked)
    with held([FIRST], tmp_path):
        assert json.loads(lock_of(FIRST, tmp_path).read_text())["pid"] == os.getpid()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_read_only_lock_of_another_user_serves(tmp_path: Path) -> None:
    lock = lock_of("host", tmp_path)
    lock.touch(0o444)
    with held(["host"], tmp_path):
        pass
    lock.chmod(0)
    with pytest.raises(UnfitMachine, match="make it readable"):
        held(["host"], tmp_path).__enter__()


def test_runs_meet_whatever_their_temporary_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENBENCH_LOCKS", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "mine"))
    with (
        another_run(FIRST, tmp_path),
        pytest.raises(UnfitMachine, match=rf"another run is measuring on {FIRST}"),
        machine_locks([FIRST], no_wait, wait=False),
    ):
        pass
    monkeypatch.setenv("EVENBENCH_LOCKS", "")
    assert locks._folder() == Path("/tmp")
    monkeypatch.setenv("EVENBENCH_LOCKS", str(tmp_path / "absent"))
    with (
        pytest.raises(UnfitMachine, match=r"cannot be opened: No such file") as raised,
        machine_locks(["host"], no_wait),
    ):
        pass
    assert "EVENBENCH_LOCKS" in raised.value.hint


@pytest.mark.parametrize("folder", ["locks", "./locks", "~/locks", "lo\ncks"])
def test_a_folder_that_is_another_in_each_working_directory_is_refused(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(parents=True)
    monkeypatch.setenv("EVENBENCH_LOCKS", folder)
    with pytest.raises(UsageError) as raised, machine_locks(["host"], no_wait):
        pass
    said = str(raised.value)
    assert said.startswith(f"EVENBENCH_LOCKS={Path(folder)}: must be an absolute path".replace("\n", "\ufffd"))
    assert "the same for all runs of the machine" in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.rglob("*.lock"))
