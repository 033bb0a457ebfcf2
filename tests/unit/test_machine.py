"""Which GPU is meant, what nvidia-smi and NVML say of them, and the lock that keeps two runs apart."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.errors import UnfitMachine, UsageError
from runner.machine import Gpu, _from_csv, _from_nvml, choose_gpu, machine_lock

FIRST = Gpu("GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc", "NVIDIA H200", "580.159.04")
SECOND = Gpu("GPU-6d99aaaa-0000-1111-2222-333344445555", "NVIDIA H200", "580.159.04")
BOTH = [FIRST, SECOND]

HOLDER = """
import sys
from pathlib import Path
from runner.machine import machine_lock
with machine_lock(sys.argv[1], print, folder=Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
    Path(sys.argv[2], "leaving").touch()
"""


@pytest.mark.parametrize(
    ("wanted", "visible", "meant"),
    [
        (None, None, FIRST),
        (None, "1", SECOND),
        (None, "1,0", SECOND),
        (None, " 1 , 0", SECOND),
        (None, SECOND.uuid, SECOND),
        (None, "GPU-6d99", SECOND),
        (None, "", None),
        (None, "-1", None),
        ("0", None, FIRST),
        ("1", "0", SECOND),  # what was asked for wins
        ("1", "", SECOND),
        ("GPU-6d78", None, FIRST),
        (FIRST.uuid, "1", FIRST),
    ],
)
def test_the_gpu_that_is_meant(wanted: str | None, visible: str | None, meant: Gpu | None) -> None:
    assert choose_gpu(wanted, BOTH, visible) == meant


@pytest.mark.parametrize(
    ("wanted", "visible", "said"),
    [
        ("2", None, "no single GPU is meant by --gpu 2"),
        ("-1", None, "no single GPU is meant by --gpu -1"),
        ("GPU-6d", None, "no single GPU is meant by --gpu GPU-6d"),
        ("h200", None, "no single GPU is meant by --gpu h200"),
        (None, "7", "no single GPU is meant by CUDA_VISIBLE_DEVICES 7"),
        (None, "MIG-1234", "no single GPU is meant by CUDA_VISIBLE_DEVICES MIG-1234"),
    ],
)
def test_no_gpu_or_several_are_meant(wanted: str | None, visible: str | None, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_gpu(wanted, BOTH, visible)
    assert caught.value.message == said
    assert caught.value.hint == f"this machine has 0: NVIDIA H200 {FIRST.uuid}, 1: NVIDIA H200 {SECOND.uuid}"


@pytest.mark.parametrize("visible", [None, "", "0"])
def test_a_machine_without_gpus(visible: str | None) -> None:
    assert choose_gpu(None, [], visible) is None
    with pytest.raises(UsageError, match="--gpu 0: this machine has no NVIDIA GPU"):
        choose_gpu("0", [], visible)


def test_the_table_of_nvidia_smi() -> None:
    rows = "".join(f"{gpu.uuid}, {gpu.name}, {gpu.driver}\n" for gpu in BOTH)
    assert _from_csv(rows) == BOTH


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "Failed, to initialize, NVML\n", "GPU-1, NVIDIA H200\n", "GPU-1, a, b, c\n"]
)
def test_what_is_no_row_is_no_gpu(text: str) -> None:
    assert _from_csv(text) == []


class FakeNvml:
    """Two GPUs; `broken` names the call that fails."""

    class NVMLError(Exception):
        pass

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.opened = 0

    def answer(self, call: str) -> None:
        if call == self.broken:
            raise self.NVMLError(call)

    def nvmlInit(self) -> None:  # noqa: N802
        self.answer("init")
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return FIRST.driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(BOTH)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        self.answer(f"handle {index}")
        return BOTH[index]

    def nvmlDeviceGetUUID(self, handle: Gpu) -> str:  # noqa: N802
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Gpu) -> str:  # noqa: N802
        return handle.name


@pytest.mark.parametrize(("broken", "found"), [("", BOTH), ("init", []), ("handle 1", [])])
def test_what_nvml_says(broken: str, found: list[Gpu]) -> None:
    nvml = FakeNvml(broken)
    assert _from_nvml(nvml) == found
    assert nvml.opened == 0


@contextmanager
def another_run(name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its stdin is closed."""
    command = [sys.executable, "-c", HOLDER, name, str(folder)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def no_wait(line: str) -> None:
    raise AssertionError(line)


def test_a_lock_that_another_process_holds_is_waited_for(tmp_path: Path) -> None:
    told: list[str] = []
    with another_run(FIRST.uuid, tmp_path) as other:
        stdin = other.stdin
        assert stdin is not None

        def waiting(line: str) -> None:
            told.append(line)
            assert not (tmp_path / "leaving").exists()
            threading.Timer(1.5, stdin.close).start()  # longer than one poll: told once all the same

        with machine_lock(FIRST.uuid, waiting, folder=tmp_path):
            assert (tmp_path / "leaving").exists()
    assert told == [f"another run is measuring on {FIRST.uuid}; waiting for it to end"]


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with another_run(FIRST.uuid, tmp_path) as other:
        other.kill()
        other.wait()
        with machine_lock(FIRST.uuid, no_wait, folder=tmp_path):
            assert not (tmp_path / "leaving").exists()


def test_waiting_ends(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        another_run(FIRST.uuid, tmp_path),
        pytest.raises(UnfitMachine, match=f"another run has held {FIRST.uuid} for 0 s"),
        machine_lock(FIRST.uuid, told.append, folder=tmp_path, wait_s=0),
    ):
        pass
    assert len(told) == 1


def test_locks_of_two_gpus_are_two_and_one_is_free_again(tmp_path: Path) -> None:
    with machine_lock(FIRST.uuid, no_wait, folder=tmp_path), machine_lock(SECOND.uuid, no_wait, folder=tmp_path):
        assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ZeroDivisionError), machine_lock(FIRST.uuid, no_wait, folder=tmp_path):
        raise ZeroDivisionError
    with machine_lock(FIRST.uuid, no_wait, folder=tmp_path):
        pass


def test_a_name_stays_in_its_folder(tmp_path: Path) -> None:
    with machine_lock("../a b", no_wait, folder=tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["evenbench-___a_b.lock"]


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "evenbench-host.lock").symlink_to(target)
    with pytest.raises(UnfitMachine, match=r"evenbench-host\.lock cannot be opened"):
        machine_lock("host", no_wait, folder=tmp_path).__enter__()
    assert not target.exists()


def test_a_pipe_left_in_the_place_of_a_lock_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "evenbench-host.lock", 0o400)
    with machine_lock("host", no_wait, folder=tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_read_only_lock_of_another_user_serves(tmp_path: Path) -> None:
    lock = tmp_path / "evenbench-host.lock"
    lock.touch(0o444)
    with machine_lock("host", no_wait, folder=tmp_path):
        pass
    lock.chmod(0)
    with pytest.raises(UnfitMachine, match="make it readable"):
        machine_lock("host", no_wait, folder=tmp_path).__enter__()
