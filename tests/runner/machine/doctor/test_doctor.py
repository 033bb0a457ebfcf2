"""What the doctor says of machines that are made up, and that it tries torch and CUPTI where launches would."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import load_files
from evenbench.runner.errors import UnfitMachine, UsageError
from evenbench.runner.execute import measuring
from evenbench.runner.execute.attempts import Progress
from evenbench.runner.machine import doctor
from evenbench.runner.machine.doctor import Check, Probes, check_before_run, examine
from evenbench.runner.machine.doctor.check import one_line
from evenbench.runner.machine.doctor.gpu import FIELDS
from evenbench.runner.machine.gpus import Gpu
from evenbench.runner.plan.request import Request
from evenbench.runner.process.bounded import Finished
from evenbench.runner.sides import SideSpec
from tests.fakes.repositories import QUICK, SUITES, Repository

H200 = Gpu("GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc", "NVIDIA H200", "580.159.04")
QUIET = "0, 0, Default, 1980, 1980, 0x0000000000000001, Enabled, Disabled, 0"  # as an idle H200 answers
WORKS = (
    {"python": "3.12.3"},
    {"torch": "2.11.0+cu130", "cuda": "13.0"},
    {"device": "NVIDIA H200"},
    {"nvml": "13.580.159.04"},
    {"cupti_error": ""},
    {
        "selftest_error": "",
        "timer": "cupti",
        "constant_ns": "690.0",
        "slope": "1.0003",
        "tick_ns": "32",
        "drop_counter": "live",
        "cupti_python": "13.4.0",
        "libcupti": "13.4.0",
        "cuda_driver": "13.0",
        "spent_ms": "31.5",
    },
)


def quiet(**changed: str) -> str:
    values = dict(zip(FIELDS, QUIET.split(", "), strict=True))
    spelled = {name: next(f for f in FIELDS if f.replace(".", "_") == name) for name in changed}
    return ", ".join((values | {spelled[name]: value for name, value in changed.items()}).values())


def ended(output: str = "", errors: str = "", status: int | None = 0) -> Finished:
    return Finished(status, output.encode(), errors.encode(), truncated=False)


def trial(*facts: Mapping[str, str], errors: str = "", status: int | None = 0) -> Finished:
    return ended("".join(f"\n{json.dumps(fact)}\n" for fact in facts), errors, status)


@dataclass
class Machine:
    """A machine made up: `smi` are the answers of nvidia-smi in turn, the last one again and again."""

    gpus: Sequence[Gpu] = (H200,)
    smi: Sequence[str | Finished] = (QUIET,)
    tried: Finished = field(default_factory=lambda: trial(*WORKS))
    git: Finished = field(default_factory=lambda: ended("git version 2.39.5\n"))
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[str] = ()
    step_ns: int = 40
    load: tuple[float, int] = (0.5, 16)
    free: int = 50 << 30
    ran: list[tuple[Sequence[str], Mapping[str, str]]] = field(default_factory=list)
    paused: int = 0

    def run(self, argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Finished:
        assert 0 < timeout_s <= 600
        self.ran.append((argv, environment))
        if argv[0] == "git":
            return self.git
        if argv[0] != "nvidia-smi":
            return self.tried
        turn = sum(argv[0] == "nvidia-smi" for argv, _ in self.ran) - 1
        answer = self.smi[min(turn, len(self.smi) - 1)]
        return answer if isinstance(answer, Finished) else ended(f"{answer}\n")

    def pause(self, seconds: float) -> None:
        self.paused += 1

    def free_bytes(self, folder: Path) -> int:
        return self.free

    def probes(self, **changed: Any) -> Probes:
        given: dict[str, Any] = {
            "environ": self.environ,
            "gpus": lambda: list(self.gpus),
            "device_files": lambda: list(self.files),
            "run": self.run,
            "temporary": lambda: "/tmp",
            "free_bytes": self.free_bytes,
            "clock_step_ns": lambda: self.step_ns,
            "load": lambda: self.load,
            "pause": self.pause,
        }
        return Probes(**(given | changed))

    def examined(self, gpu: str | None = None, **changed: Any) -> dict[str, Check]:
        checks = examine(gpu, None, self.probes(**changed))
        named = {check.name: check for check in checks}
        assert len(named) == len(checks)
        return named


def states(checks: Mapping[str, Check], state: str) -> list[str]:
    return [name for name, check in checks.items() if check.state == state]


HOST = ["Python", "git", "temp folder", "results folder", "clock", "CPU"]
STACK = ["torch", "NVML", "CUPTI", "CUPTI self-test"]
STATE = ["GPU memory", "GPU use", "compute mode", "clocks", "persistence", "MIG", "ECC"]


def test_a_quiet_h200_is_fit() -> None:
    machine = Machine()
    checks = machine.examined()
    assert states(checks, "fit") == [*HOST, "GPU", *STATE, *STACK] == list(checks)
    assert checks["GPU"].read == f"NVIDIA H200, driver 580.159.04, {H200.uuid}"
    assert checks["GPU memory"].read == "0 MiB used"
    assert checks["clocks"].read == "SM at 1980 of 1980 MHz, idle"
    assert checks["ECC"].read == "0 uncorrected errors"
    assert checks["torch"].read == f"2.11.0+cu130 on NVIDIA H200; Python 3.12.3 at {sys.executable}"
    assert machine.paused == 2


def test_the_gpu_is_read_before_our_own_process_uses_it() -> None:
    machine = Machine(environ={"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0"})
    machine.examined()
    programs = [argv[0] for argv, _ in machine.ran]
    assert programs == ["git", "nvidia-smi", "nvidia-smi", "nvidia-smi", sys.executable]
    assert f"--id={H200.uuid}" in machine.ran[1][0]
    argv, environment = machine.ran[-1]
    assert argv[1] == "-P"
    assert argv[-1].endswith("runner/worker/__main__.py")
    assert environment == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": H200.uuid}


def test_a_machine_without_a_gpu_is_fit_for_the_host_timer() -> None:
    machine = Machine(gpus=(), tried=trial({"python": "3.11.7"}, {"torch": "2.13.0+cpu", "cuda": ""}))
    checks = machine.examined()
    assert list(checks) == [*HOST, "GPU", "torch"]
    assert states(checks, "note") == ["GPU"]
    assert not states(checks, "unfit")
    assert checks["GPU"].read == "not found"
    assert checks["GPU"].should == "an NVIDIA GPU, for cases that run on one; cases on the host need none"
    argv, environment = machine.ran[-1]
    assert not argv[-1].endswith("__main__.py")  # CUPTI is not tried
    assert "CUDA_VISIBLE_DEVICES" not in environment


def test_a_device_without_a_driver_that_answers_is_unfit() -> None:
    checks = Machine(gpus=(), files=["/dev/nvidia0"]).examined()
    assert states(checks, "unfit") == ["GPU"]
    assert checks["GPU"].read == "/dev/nvidia0, but no driver answers"


@pytest.mark.parametrize("gpus", [(H200,), ()])
def test_a_hidden_gpu_is_a_note(gpus: Sequence[Gpu]) -> None:
    checks = Machine(gpus, environ={"CUDA_VISIBLE_DEVICES": ""}, files=["/dev/nvidia0"]).examined()
    assert (checks["GPU"].state, checks["GPU"].read) == ("note", "hidden by CUDA_VISIBLE_DEVICES")
    assert not states(checks, "unfit")


def test_a_gpu_or_an_interpreter_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--gpu 3"):
        Machine().examined("3")
    with pytest.raises(UsageError, match="--python: no such interpreter"):
        examine(None, tmp_path / "python", Machine().probes())


@pytest.mark.parametrize(
    ("memory", "use", "unfit"),
    [("1024", "5", []), ("1025", "5", ["GPU memory"]), ("1024", "6", ["GPU use"]), ("9000", "99", STATE[:2])],
)
def test_a_busy_card_is_unfit(memory: str, use: str, unfit: list[str]) -> None:
    checks = Machine(smi=[quiet(memory_used=memory, utilization_gpu=use)]).examined()
    assert states(checks, "unfit") == unfit


def test_the_busiest_reading_counts() -> None:
    checks = Machine(smi=[QUIET, quiet(utilization_gpu="40", memory_used="2000"), QUIET]).examined()
    assert states(checks, "unfit") == STATE[:2]
    assert (checks["GPU memory"].read, checks["GPU use"].read) == ("2000 MiB used", "40 % busy")
    assert checks["GPU use"].should == "at most 5 % busy"
    assert "--gpu" in checks["GPU use"].fix


@pytest.mark.parametrize("unread", ["[N/A]", "[Unknown Error]", "", "-1", "nan", "1e3", "٣"])
def test_other_users_that_cannot_be_read_are_unfit(unread: str) -> None:
    checks = Machine(smi=[QUIET, quiet(memory_used=unread, utilization_gpu=unread), QUIET]).examined()
    assert states(checks, "unfit") == STATE[:2]
    assert checks["GPU use"].read.rstrip() == f"cannot be read: {unread}".rstrip()


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (ended(errors="nvidia-smi: No such file or directory", status=127), "status 127: nvidia-smi: No such file"),
        (
            ended("Unable to determine the device handle\n", status=15),
            "status 15: Unable to determine the device handle",
        ),
        (ended(status=None), "no answer in time"),
        (ended("1, 2, 3\n"), "1, 2, 3"),
        (ended(), "no answer"),
    ],
)
def test_a_gpu_whose_state_cannot_be_read_is_unfit(answer: Finished, read: str) -> None:
    checks = Machine(smi=[QUIET, answer]).examined()
    assert list(checks) == [*HOST, "GPU", "GPU state", *STACK]
    assert states(checks, "unfit") == ["GPU state"]
    assert checks["GPU state"].read.startswith(f"cannot be read: {read}")
    assert "--gpus all" in checks["GPU state"].fix


@pytest.mark.parametrize(
    ("changed", "name", "state"),
    [
        ({"compute_mode": "Prohibited"}, "compute mode", "unfit"),
        ({"compute_mode": "[N/A]"}, "compute mode", "unfit"),
        ({"compute_mode": "Exclusive_Process"}, "compute mode", "fit"),
        ({"persistence_mode": "Disabled"}, "persistence", "note"),
        ({"mig_mode_current": "Enabled"}, "MIG", "note"),
        ({"mig_mode_current": "[N/A]"}, "MIG", "fit"),
        ({"ecc_errors_uncorrected_volatile_total": "2"}, "ECC", "unfit"),
        ({"ecc_errors_uncorrected_volatile_total": "[N/A]"}, "ECC", "note"),
        ({"clocks_throttle_reasons_active": "[N/A]"}, "clocks", "note"),
        ({"clocks_throttle_reasons_active": "0x0000000000000000"}, "clocks", "fit"),
    ],
)
def test_the_state_of_the_gpu(changed: dict[str, str], name: str, state: str) -> None:
    checks = Machine(smi=[quiet(**changed)]).examined()
    assert checks[name].state == state
    assert set(states(checks, "fit")) >= set(checks) - {name}


def test_clocks_that_are_held_back_are_noted_with_the_reasons() -> None:
    checks = Machine(smi=[quiet(clocks_sm="1200", clocks_throttle_reasons_active="0x0000000000000045")]).examined()
    assert checks["clocks"].read == "SM at 1200 of 1980 MHz, limited by power cap, temperature (hardware)"
    assert states(checks, "note") == ["clocks"]


@pytest.mark.parametrize(
    ("tried", "read"),
    [
        (
            trial(
                WORKS[0], {"torch_error": "ModuleNotFoundError: No module named 'torch'"}, {"cupti_error": "no torch"}
            ),
            "ModuleNotFoundError: No module named 'torch'",
        ),
        (
            trial(WORKS[0], {"torch": "2.13.0+cpu", "cuda": ""}, {"cupti_error": "x"}),
            "2.13.0+cpu is a build without CUDA",
        ),
        (
            trial(*WORKS[:2], {"cupti_error": "x"}, errors="UserWarning: The NVIDIA driver is too old\n"),
            "2.11.0+cu130 cannot use the GPU: UserWarning: The NVIDIA driver is too old",
        ),
        (
            trial(*WORKS[:2], {"torch_error": "AcceleratorError: no kernel image"}),
            "2.11.0+cu130 cannot use the GPU: AcceleratorError: no kernel image",
        ),
        (trial(WORKS[0], status=None), "no answer in time"),
        (trial(*WORKS[:2], status=None), "2.11.0+cu130 cannot use the GPU: no answer in time"),
        (ended(errors="python: not found\n", status=127), "status 127: python: not found"),
    ],
)
def test_a_torch_that_does_not_work_is_unfit_and_so_is_cupti(tried: Finished, read: str) -> None:
    checks = Machine(tried=tried).examined()
    assert states(checks, "unfit") == ["torch", "CUPTI"]
    assert checks["torch"].read.startswith(f"{read}; Python ")
    assert checks["torch"].fix
    assert (checks["CUPTI"].read, checks["CUPTI"].fix) == ("not tried: torch does not work", "fix torch first")


def test_without_a_gpu_a_missing_torch_is_a_note() -> None:
    checks = Machine(gpus=(), tried=trial(WORKS[0], {"torch_error": "ModuleNotFoundError: torch"})).examined()
    assert states(checks, "note") == ["GPU", "torch"]
    assert not states(checks, "unfit")


def test_an_nvml_that_does_not_answer_is_a_note() -> None:
    checks = Machine(
        tried=trial(*WORKS[:3], {"nvml_error": "ModuleNotFoundError: No module named 'pynvml'"}, *WORKS[4:])
    ).examined()
    assert states(checks, "note") == ["NVML"]
    assert checks["NVML"].read == "ModuleNotFoundError: No module named 'pynvml'"
    assert "nvidia-ml-py" in checks["NVML"].fix


def before_run(machine: Machine, **options: Any) -> list[str]:
    gpu = machine.gpus[0] if machine.gpus else None
    return check_before_run(gpu, machine.gpus, machine.probes(), **options)


def test_the_self_test_is_told_with_what_it_read() -> None:
    assert Machine().examined()["CUPTI self-test"].read == (
        "slope 1.0003; constant 690.0 ns; time stamps in steps of 32 ns; drop counter live; cupti-python 13.4.0; "
        "libcupti 13.4.0; CUDA driver 13.0; took 31.5 ms"
    )


@pytest.mark.parametrize(
    ("said", "state", "read", "fix"),
    [
        ({"selftest_error": "kernels read wrong", "selftest_fix": "fix it"}, "unfit", "kernels read wrong", "fix it"),
        (
            {"selftest_error": "", "slope": "1.0", "profiler": "Nsight"},
            "note",
            "slope 1.0; another profiler: Nsight",
            "end the",
        ),
        ({"selftest_error": "", "drop_counter": "unreadable"}, "note", "drop counter unreadable", "cupti-python"),
    ],
)
def test_a_self_test_that_fails_or_doubts(said: dict[str, str], state: str, read: str, fix: str) -> None:
    check = Machine(tried=trial(*WORKS[:5], said)).examined()["CUPTI self-test"]
    assert (check.state, check.read) == (state, read)
    assert fix in check.fix


def test_a_self_test_that_takes_its_process_down() -> None:
    died = trial(*WORKS[:5], errors="Fatal Python error: Segmentation fault\n", status=-11)
    checks = Machine(tried=died).examined()
    assert states(checks, "unfit") == ["CUPTI self-test"]
    assert "Segmentation fault" in checks["CUPTI self-test"].read


def test_a_quiet_gpu_costs_a_run_two_readings() -> None:
    machine = Machine()
    assert before_run(machine) == []
    assert [argv[0] for argv, _ in machine.ran] == ["nvidia-smi"] * 2
    assert machine.paused == 1


def test_what_is_but_a_note_lets_a_run_begin() -> None:
    held = quiet(clocks_throttle_reasons_active="0x4", persistence_mode="Disabled", mig_mode_current="Enabled")
    assert before_run(Machine(smi=[held])) == []
    assert before_run(Machine(gpus=())) == []


def test_work_that_has_just_ended_fades() -> None:
    machine = Machine(smi=[quiet(utilization_gpu="40"), QUIET])
    assert before_run(machine) == []
    assert len(machine.ran) == 4


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (quiet(utilization_gpu="40"), "GPU use: 40 % busy (should be at most 5 % busy)"),
        (quiet(compute_mode="Prohibited"), "compute mode: Prohibited (should be Default)"),
        (quiet(ecc_errors_uncorrected_volatile_total="1"), "ECC: 1 uncorrected error (should be 0 uncorrected errors"),
    ],
)
def test_a_run_on_an_unfit_gpu_ends_before_it_begins(answer: str, read: str) -> None:
    with pytest.raises(UnfitMachine) as caught:
        before_run(Machine(smi=[answer]))
    assert caught.value.exit_code == 3
    assert str(caught.value).startswith(f"this machine is not fit: {read}")
    assert caught.value.hint.endswith("; or --ignore-unfit")
    assert "\n" not in str(caught.value)
    (said,) = before_run(Machine(smi=[answer]), go_on=True)
    assert said.startswith(f"measured although unfit: {read}")


def test_several_things_that_are_not_fit_are_one_line_with_each_fix_once() -> None:
    with pytest.raises(UnfitMachine) as caught:
        before_run(Machine(smi=[quiet(utilization_gpu="40", memory_used="9000", compute_mode="Prohibited")]))
    assert [part.partition(":")[0] for part in caught.value.message.split(": ", 1)[1].split("; ")] == [
        "GPU memory",
        "GPU use",
        "compute mode",
    ]
    assert caught.value.hint.count("end other programs that use this GPU") == 1
    assert "nvidia-smi -c DEFAULT" in caught.value.hint


def run_on(machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Path:
    """A run of one quick case, on the host of the machine made up; returns its results file."""
    repository = Repository(folder / "repository")
    repository.path.mkdir()
    repository.git("init", "-q", "-b", "main")
    repository.commit({"cases/quick.py": QUICK, "cases/suites.yaml": SUITES})
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # a machine lock of its own
    monkeypatch.setattr(measuring, "gpus", lambda: list(machine.gpus))
    monkeypatch.setattr(doctor, "Probes", lambda environ: machine.probes())
    shown = SimpleNamespace(**dict.fromkeys(("stage", "launch", "case", "launch_done", "more"), lambda *_: None))
    output = folder / "out.jsonl"
    request = Request("run", repository.path, [SideSpec("head", None)], output, **options)
    measuring.measure(request, lambda _: contextlib.nullcontext(cast("Progress", shown)), lambda _: None)
    return output


def test_a_run_on_an_unfit_machine_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnfitMachine):
        run_on(Machine(gpus=(), files=["/dev/nvidia0"]), tmp_path, monkeypatch)
    assert not (tmp_path / "out.jsonl").exists()


def test_ignored_unfitness_stands_in_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = run_on(Machine(gpus=(), files=["/dev/nvidia0"]), tmp_path, monkeypatch, ignore_unfit=True)
    (note,) = measured(load_files([output])).facts.notes
    assert note.startswith("head: measured although unfit: GPU: /dev/nvidia0, but no driver answers")


def test_a_driver_that_does_not_answer_ends_a_run_too() -> None:
    machine = Machine(gpus=(), files=["/dev/nvidia0"])
    with pytest.raises(UnfitMachine, match="/dev/nvidia0, but no driver answers"):
        before_run(machine)
    assert machine.paused == 0


def test_cupti_fails_with_its_mend() -> None:
    failure = {"cupti_error": "CUPTI will not record:\nprivileges", "cupti_fix": "run as root"}
    checks = Machine(tried=trial(*WORKS[:3], failure)).examined()
    assert states(checks, "unfit") == ["CUPTI"]
    assert checks["CUPTI"].line() == (
        "unfit  CUPTI            CUPTI will not record: privileges  (should be able to record as this user; fix: run as root)"
    )


def test_cupti_takes_its_process_down() -> None:
    checks = Machine(tried=trial(*WORKS[:3], errors="Fatal Python error: Segmentation fault\n", status=-11)).examined()
    assert states(checks, "unfit") == ["CUPTI"]
    assert checks["CUPTI"].read == (
        "the process that tried it died: status -11: Fatal Python error: Segmentation fault"
    )
    assert "cupti-python" in checks["CUPTI"].fix


def test_what_torch_prints_in_between_is_no_answer() -> None:
    noise = f"loading{json.dumps({'torch': 'x'})}\n[1]\n{'[' * 100_000}\n"
    checks = Machine(tried=ended(noise + trial(*WORKS).output.decode() + '"done"\n{')).examined()
    assert not states(checks, "unfit")


def test_what_is_wrong_with_the_host() -> None:
    def refuse(folder: Path) -> int:
        raise PermissionError(13, "Permission denied", str(folder))

    machine = Machine(step_ns=1_001, load=(8.01, 16), git=ended(errors="git: No such file\n", status=127))
    checks = machine.examined(free_bytes=refuse)
    assert states(checks, "unfit") == ["temp folder", "results folder", "clock"]
    assert states(checks, "note") == ["git", "CPU"]
    assert checks["temp folder"].read == "cannot be written: [Errno 13] Permission denied: '/tmp'"
    assert checks["CPU"].read == "load 8.01 on 16 CPUs"
    assert not states(Machine(step_ns=1_000, load=(8.0, 16)).examined(), "note")


def test_room_is_needed() -> None:
    assert not states(Machine(free=2 << 30).examined(), "unfit")
    checks = Machine(free=(2 << 30) - 1).examined()
    assert states(checks, "unfit") == ["temp folder", "results folder"]


def test_no_folder_for_temporary_files_and_no_load() -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    def unknown() -> tuple[float, int]:
        raise OSError("Load averages are unobtainable")

    checks = Machine().examined(temporary=nowhere, load=unknown)
    assert states(checks, "unfit") == ["temp folder"]
    assert (checks["CPU"].state, checks["CPU"].read) == (
        "note",
        "the load cannot be read: Load averages are unobtainable",
    )


def test_the_shape_of_the_json() -> None:
    texts = [check.as_dict() for check in Machine(smi=[ended(status=9)], load=(99, 2)).examined().values()]
    assert json.loads(json.dumps(texts)) == texts
    for text in texts:
        assert list(text) == ["name", "state", "read", "should", "fix"]
        assert all(isinstance(value, str) for value in text.values())
        assert text["state"] in {"fit", "unfit", "note"}
        assert text["fix"] or text["state"] != "unfit"


def test_lines_are_aligned_and_name_the_mend_only_where_one_is_needed() -> None:
    assert Check("GPU", "fit", "x", "y", "z").line() == "fit    GPU              x"
    assert Check("results folder", "note", "x", "y", "").line() == "note   results folder   x  (should be y)"
    assert Check("MIG", "unfit", "x", "y", "z").line() == "unfit  MIG              x  (should be y; fix: z)"
    assert one_line("a\x1b[2J\n\tb\u202e  c") == "a [2J b c"
    assert len(one_line("x" * 10_000)) == 300


def test_foreign_text_cannot_reach_the_terminal_as_it_is() -> None:
    escape = "\x1b]0;title\x07\r"
    hostile = Gpu(H200.uuid, f"H200{escape}", f"580{escape}")
    machine = Machine(
        gpus=[hostile],
        smi=[quiet(compute_mode=escape, persistence_mode=escape, mig_mode_current=escape)],
        tried=trial(*({name: value + escape for name, value in fact.items()} for fact in WORKS)),
        git=ended(escape),
    )
    for check in machine.examined().values():
        assert check.line().isprintable()


def test_pythonpath_is_for_our_own_interpreter(tmp_path: Path) -> None:
    machine = Machine(environ={"PYTHONPATH": "/ours", "PATH": "/bin"})
    machine.examined()
    assert machine.ran[-1][1]["PYTHONPATH"] == "/ours"
    named = tmp_path / "python"
    named.symlink_to(sys.executable)
    examine(None, named, machine.probes())
    assert machine.ran[-1][0][0] == str(named)
    assert "PYTHONPATH" not in machine.ran[-1][1]


FAKE_TORCH = """
print('{"not": "an answer"', flush=True)
__version__ = "9.9"
class version:
    cuda = "13.0"
class cuda:
    is_available = staticmethod(lambda: True)
    get_device_name = staticmethod(lambda: "Pretended")
    synchronize = staticmethod(lambda: None)
class ones:
    def __init__(self, *shape, device):
        assert device == "cuda"
    def item(self):
        return 1.0
"""


def tried_for_real(folder: Path) -> dict[str, Check]:
    """With our own interpreter, which finds what is in a folder before anything else."""
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    machine = Machine(environ={name: value for name, value in environ.items() if name != "CUDA_VISIBLE_DEVICES"})
    real = Probes(environ).run

    def run(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Finished:
        ours = argv[0] == sys.executable
        return real(argv, environment, timeout_s) if ours else machine.run(argv, environment, timeout_s)

    return machine.examined(run=run)


def test_the_trial_reaches_cupti_through_the_code_of_launches(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    (tmp_path / "cupti.py").write_text("raise ImportError('libcupti.so.13 is missing')\n")
    (tmp_path / "evenbench.py").write_text("raise SystemExit('the wrong evenbench')\n")
    checks = tried_for_real(tmp_path)
    assert checks["torch"].read.startswith("9.9 on Pretended; Python ")
    assert checks["CUPTI"].read == "cupti-python cannot be loaded: libcupti.so.13 is missing"
    assert "evenbench[cuda]" in checks["CUPTI"].fix
    assert "torch" not in sys.modules or sys.modules["torch"].__version__ != "9.9"


def test_a_torch_that_kills_its_process_is_reported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nos.write(2, b'corrupt library')\nos.abort()\n")
    checks = tried_for_real(tmp_path)
    assert checks["torch"].read.startswith("status -6: corrupt library; Python 3.")
    assert states(checks, "unfit") == ["torch", "CUPTI"]


def test_this_machine_is_examined_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    checks = examine(None, None, Probes(os.environ, gpus=list, device_files=list))
    assert [check.name for check in checks] == [*HOST, "GPU", "torch"]
    assert capfd.readouterr() == ("", "")


def test_a_program_that_is_not_there_is_an_answer() -> None:
    answer = Probes({}).run(["/nowhere/nvidia-smi"], {}, 5.0)
    assert (answer.status, answer.errors) == (127, b"/nowhere/nvidia-smi: No such file or directory")


@pytest.mark.gpu
def test_the_gpu_at_hand_is_examined() -> None:
    checks = {check.name: check for check in examine(None, None)}
    assert list(checks) == [*HOST, "GPU", *STATE, *STACK]
    assert [checks[name].state for name in ("GPU", "compute mode", "torch")] == ["fit", "fit", "fit"]
