"""What a case changed is undone, what cannot be is told; libraries that a case imports begin as they always do."""

from __future__ import annotations

import builtins
import gc
import json
import locale
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evenbench.runner.worker.launch import restore
from evenbench.runner.worker.launch.restore import Guard, Left, Setting, read
from tests.test_docs import ROOT

CHANGES: Mapping[str, Callable[[], object]] = {
    "Python's own functions": lambda: vars(builtins).update(len=lambda _: 0, sorted=list),
    "working directory": lambda: os.chdir("/"),
    "environment": lambda: (os.environ.pop("PATH"), os.environ.update(NEW="1")),
    "umask": lambda: os.umask(0o777),
    "signal timers": lambda: signal.setitimer(signal.ITIMER_REAL, 60),
    "signal handlers": lambda: signal.signal(signal.SIGUSR1, lambda *_: None),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    "processors": lambda: os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]),
    "limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C"),
    "tracing": lambda: sys.setprofile(lambda *_: None),
    "garbage collection": gc.disable,
    "recursion limit": lambda: sys.setrecursionlimit(5_000),
    "switch interval": lambda: sys.setswitchinterval(0.1),
    "warnings as errors": lambda: warnings.simplefilter("error", BytesWarning),
    "numpy's error state": lambda: np.seterr(all="ignore"),
    "numpy's functions": lambda: setattr(np, "ones", list),
}


TORCH: Mapping[str, Callable[[Any], object]] = {
    "functions of torch.nn.functional": lambda torch: setattr(torch.nn.functional, "softmax", torch.sigmoid),
    "default dtype": lambda torch: torch.set_default_dtype(torch.float64),
    "default device": lambda torch: torch.set_default_device("meta"),
    "gradient mode": lambda torch: torch.set_grad_enabled(False),
    "autocast of cpu": lambda torch: torch.set_autocast_enabled("cpu", True),
    "torch's threads": lambda torch: torch.set_num_threads(torch.get_num_threads() + 1),
    "deterministic algorithms": lambda torch: torch.use_deterministic_algorithms(True),
    "matmul precision": lambda torch: torch.set_float32_matmul_precision("medium"),
    "cuDNN's tuning": lambda torch: setattr(torch.backends.cudnn, "benchmark", True),
}


SET_BY_TORCH = "TORCHINDUCTOR_CACHE_DIR"  # where it compiles, and where it is to be deterministic


def told_by(changes: Mapping[str, Callable[[], object]]) -> dict[str, Sequence[Left]]:
    """What a guard tells of each change, and when it is asked again."""
    guard = Guard("cpu")
    found: dict[str, Sequence[Left]] = {}
    for name, change in changes.items():
        change()
        found[name] = (guard.settle(), guard.settle())
    return found


def report(*, with_torch: bool) -> None:
    """To be run in a process of its own: pytest has timers and variables, too."""
    changes = dict(CHANGES)
    if with_torch:
        import torch

        changes |= {name: lambda change=change: change(torch) for name, change in TORCH.items()}  # type: ignore[misc]
    sys.stdout.write(json.dumps(told_by(changes)))


@pytest.mark.parametrize("with_torch", [False, True])
def test_a_change_is_undone_and_told_once(with_torch: bool) -> None:
    if with_torch:
        pytest.importorskip("torch")
    code = f"from tests.runner.worker.launch.test_restore import report; report(with_torch={with_torch})"
    own = {name: value for name, value in os.environ.items() if name != SET_BY_TORCH}  # by an earlier test, perhaps
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if len(os.sched_getaffinity(0)) == 1:
        del found["processors"]  # one has nothing to choose from
    with_it = {"deterministic algorithms": ["environment", "deterministic algorithms"]}
    assert found == {name: [[with_it.get(name, [name]), []], [[], []]] for name in found}
    assert len(found) >= len(CHANGES) - 1 + len(TORCH) * with_torch


def test_every_setting_is_tested() -> None:
    names = {setting.name for setting in (*restore.PROCESS, restore.NUMPY)}
    assert (names | {"numpy's functions"}) - set(CHANGES) == {"priority"}  # only root may undo that


@pytest.mark.parametrize(
    "deed", ["time.perf_counter_ns = lambda: 0", "builtins.__import__ = None", "del builtins.getattr"]
)
def test_a_function_that_a_case_replaced_is_itself_again(deed: str) -> None:
    code = f"""
import builtins, time
from evenbench.runner.worker.launch.restore import Guard
guard, own = Guard("cpu"), (time.perf_counter_ns, __import__, getattr)
{deed}
left = guard.settle()
assert (time.perf_counter_ns, __import__, getattr) == own
assert left == (["Python's own functions"], []), left
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    guard = Guard("cpu")
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert guard.settle() == Left(["working directory"], [])


def test_what_cannot_be_undone_ends_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "here")
        guard = Guard("cpu")
        os.chdir("/")
        (tmp_path / "here").rmdir()
        left = guard.settle()
    assert left == Left(["working directory"], ["its working directory cannot be undone"])
    assert left.text == "changed working directory; its working directory cannot be undone"


STREAMS = """
import io, os, sys
from evenbench.runner.worker.launch.restore import Guard
guard = Guard("cpu")
{deed}
left = guard.settle()
print("out", flush=True)
sys.stderr.write(" ".join(left.changed + left.unfit))
"""


@pytest.mark.parametrize(
    "deed",
    [
        "os.close(1)",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)",
        "sys.stdout.close()",
        "sys.stderr.close(); os.open('/etc/passwd', os.O_RDONLY)",
        "sys.stdin.close()",
        "sys.stdout = None",
    ],
)
def test_standard_streams_are_put_back(deed: str) -> None:
    command = [sys.executable, "-c", STREAMS.format(deed=deed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("out\n", "standard streams")


class TestThreads:
    def test_one_that_runs_is_told_until_it_stops(self) -> None:
        guard = Guard("cpu")
        stop = threading.Event()

        def burn() -> None:
            while not stop.is_set():
                pass

        thread = threading.Thread(target=burn, daemon=True)
        thread.start()
        assert guard.settle().unfit == ["left 1 thread running"]
        stop.set()
        thread.join()
        assert guard.settle() == Left([], [])

    def test_one_that_sleeps_disturbs_nobody_until_it_wakes(self) -> None:
        guard = Guard("cpu")
        wake, stop = threading.Event(), threading.Event()

        def later() -> None:
            wake.wait()
            while not stop.is_set():
                pass

        thread = threading.Thread(target=later, daemon=True)
        thread.start()
        assert guard.settle() == Left([], [])
        wake.set()
        time.sleep(0.05)
        assert guard.settle().unfit == ["left 1 thread running"]
        stop.set()
        thread.join()


class TestLeftovers:
    def test_open_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        guard = Guard("cpu")
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]
        monkeypatch.setattr(restore, "DESCRIPTORS_SHARE", 30 / resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        (told,) = guard.settle().unfit
        assert told.endswith("files open")
        for descriptor in held:
            os.close(descriptor)

    def test_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        guard = Guard("cpu")
        monkeypatch.setattr(guard, "_free", 64 << 20)
        guard._resident = restore._resident()
        held = bytearray(b"x" * (256 << 20))
        (told,) = guard.settle().unfit
        assert told.startswith("left ")
        assert told.endswith("MiB of memory in use")
        del held
        assert guard.settle() == Left([], [])  # its peak says nothing any more


LATE = """
import sys
from evenbench.runner.worker.launch.restore import Guard
guard = Guard("cpu")
import numpy
numpy.seterr(all="raise")
first = guard.settle()
print(first.changed, numpy.geterr()["divide"], guard.settle().text)
"""


def test_a_library_that_a_case_imports_is_left_as_it_begins() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == '["numpy\'s error state"] warn \n'


def test_a_module_that_is_only_called_torch_has_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert list(restore.torch_settings("cpu")) == []


def test_what_cannot_be_read_differs_from_any_value() -> None:
    assert read(Setting("x", lambda: 1 // 0, print)) is ZeroDivisionError


class TestTorch:
    def test_inference_mode_cannot_be_left(self) -> None:
        torch = pytest.importorskip("torch")
        guard = Guard("cpu")
        mode = torch.inference_mode()
        mode.__enter__()
        left = guard.settle()
        mode.__exit__(None, None, None)
        assert left.unfit == ["its inference mode cannot be undone"]

    def test_what_torch_begins_with_is_as_the_table_says(self) -> None:
        pytest.importorskip("torch")
        found = {one.name: (one.begins, read(one)) for one in restore.torch_settings("cpu") if one.begins is not None}
        assert [name for name, (begins, now) in found.items() if begins != now] == []


class Cuda:
    """As much of torch as the guard asks of a CUDA device."""

    def __init__(self) -> None:
        self.used, self.reserved, self.allocated = 2 << 30, 1 << 30, 1 << 28
        self.error: Exception | None = None
        self.accelerator = SimpleNamespace(synchronize=self.ask)
        self.cuda = SimpleNamespace(
            mem_get_info=self.info,
            memory_reserved=lambda: self.reserved,
            empty_cache=self.give_back,
            memory_allocated=lambda: self.allocated,
        )

    def give_back(self) -> None:
        self.used -= self.reserved - self.allocated
        self.reserved = self.allocated

    def info(self) -> tuple[int, int]:
        self.ask()
        return (100 << 30) - self.used, 100 << 30

    def ask(self) -> None:
        if self.error:
            raise self.error


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    fake = Cuda()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def test_a_broken_device_is_told_in_a_line(cuda: Cuda) -> None:
    assert restore.torch_is_broken("cuda") == ""
    cuda.error = RuntimeError("CUDA error: an illegal memory access\nwas encountered")
    told = "left the device broken: RuntimeError: CUDA error: an illegal memory access was encountered"
    assert restore.torch_is_broken("cuda") == told
    assert restore.torch_is_broken("cpu") == ""
    assert restore.memory_left("cuda", 0) == 0


def test_device_memory_counts_where_no_later_case_can_use_it(cuda: Cuda) -> None:
    before = restore.memory_held("cuda")
    cuda.used += 50 << 30
    cuda.reserved += 50 << 30  # freed, and kept by torch for whoever asks next
    assert restore.memory_left("cuda", before) == 0
    cuda.allocated += 6 << 30
    assert restore.memory_left("cuda", before) == 6 << 30
    cuda.allocated -= 2 << 30  # below the bound
    assert restore.memory_left("cuda", before) == 0
    cuda.used += 7 << 30  # beside torch
    assert restore.memory_left("cuda", before) == 11 << 30
    assert restore.memory_left("cpu", before) == 0


def test_what_torch_keeps_of_a_full_device_is_given_back(cuda: Cuda) -> None:
    before = restore.memory_held("cuda")
    cuda.used, cuda.reserved = 99 << 30, 98 << 30
    assert restore.memory_left("cuda", before) == 0
    assert cuda.used < 2 << 30
