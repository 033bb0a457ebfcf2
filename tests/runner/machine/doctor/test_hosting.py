"""What `evenbench doctor --host` says of runner machines that are made up: files below a folder, commands from a table."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.cli.main import main
from evenbench.runner.errors import UsageError
from evenbench.runner.machine.doctor import Check, Host, Probes, examine_host
from evenbench.runner.machine.doctor.hosting import engine as engines
from evenbench.runner.machine.doctor.hosting import examine as hosting
from evenbench.runner.machine.doctor.hosting import gpu as gpus
from evenbench.runner.machine.doctor.hosting import runner as runners
from evenbench.runner.machine.doctor.hosting.runner import Hook, User
from evenbench.runner.machine.gpus import Gpu
from evenbench.runner.process.bounded import Finished
from evenbench.runner.sides.checkouts import owned_prefix
from tests.runner.machine.doctor.test_doctor import H200, ended, quiet
from tests.test_docs import ROOT, named, rows, section, text_of

ANOTHER = Gpu("GPU-00000000-1111-2222-3333-444444444444", "NVIDIA H200", "580.159.04")
HOST = ["Python", "git", "temp folder", "results folder", "clock", "CPU", "time"]
GPU = ["GPU", "GPU memory", "GPU use", "compute mode", "clocks", "persistence", "MIG", "ECC"]
MORE = ["driver", "GPU processes", "clock policy", "GPU counters"]
CONTAINERS = ["launcher", "images", "engine", "engine rights", "engine limits", "engine seccomp", "engine store"]
ACCESS = ["toolkit", "CDI", "leftovers"]
RUNNER = ["user", "credentials", "ephemeral", "job hooks"]
JIT_FILE = '{"AgentName":"box-0","PoolId":"1","Ephemeral":"True","ServerUrl":"https://x"}'  # as GitHub's API has it
SPEC = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
- name: GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc
- name: all
containerEdits:
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
"""
DENIED = ended(errors="sudo: a password is required\n", status=1)


def podman_info(**changed: Any) -> dict[str, Any]:
    """The parts of ``podman info --format json`` that matter, as podman 4.3.1 spells them."""
    host = {
        "cgroupManager": "systemd",
        "cgroupVersion": "v2",
        "cgroupControllers": ["cpu", "memory", "pids"],
        "security": {"rootless": True, "seccompEnabled": True, "selinuxEnabled": False},
    }
    return {
        "host": host | changed,
        "store": {"graphRoot": "/var/lib/evenbench/images-0/containers/storage"},
        "version": {"Version": "4.3.1"},
    }


def docker_info(**changed: Any) -> dict[str, Any]:
    """The parts of ``docker info --format '{{json .}}'`` that matter."""
    return {
        "ServerVersion": "28.3.3",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
        "MemoryLimit": True,
        "PidsLimit": True,
        "DockerRootDir": "/var/lib/docker",
        **changed,
    }


@dataclass
class Box:
    """A runner machine made up. `answers`: what a command begins with → how it ends; the longest that fits counts."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    gpus: Sequence[Gpu] = (H200,)
    user: User = field(default_factory=lambda: User(1001, "evenbench-0", Path("/nowhere"), ("evenbench-0",)))
    room: int = 200 << 30
    answers: dict[str, Finished] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "tmp", "runner", "root"):
            (self.folder / name).mkdir()
        self.user = User(self.user.uid, self.user.name, self.folder / "home", self.user.groups)
        self.write("root/etc/cdi/nvidia.yaml", SPEC)
        self.write("root/proc/driver/nvidia/params", "EnableMSI: 1\nRmProfilingAdminOnly: 1\n")
        self.write("runner/.runner", JIT_FILE)
        self.environ |= {"EVENBENCH_LAUNCHER": "podman", "EVENBENCH_IMAGES": "ghcr.io/me/"}
        self.answers |= {
            "git": ended("git version 2.39.5\n"),
            "timedatectl": ended("yes\n"),
            "nvidia-smi": ended(f"{quiet(compute_mode='Exclusive_Process')}\n"),
            f"nvidia-smi --id={H200.uuid} --format=csv,noheader,nounits --query-compute-apps": ended(),
            f"nvidia-smi --id={H200.uuid} --format=csv,noheader,nounits --query-gpu": ended("700.00, 700.00, 1980\n"),
            "podman info": ended(json.dumps(podman_info())),
            "podman ps": ended(),
            "podman volume": ended(),
            "nvidia-ctk": ended("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f202b80\n"),
            "sudo": DENIED,
        }

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Finished:
        assert 0 < timeout_s <= 60
        command = " ".join(argv)
        self.asked.append(command)
        return self.answers[max((key for key in self.answers if command.startswith(key)), key=len)]

    def host(self) -> Host:
        def room(folder: Path) -> int:
            assert folder.is_absolute()
            return self.room

        probes = Probes(
            self.environ,
            gpus=lambda: list(self.gpus),
            device_files=list,
            run=self.run,
            temporary=lambda: str(self.folder / "tmp"),
            free_bytes=lambda _: 50 << 30,
            clock_step_ns=lambda: 40,
            load=lambda: (0.5, 16),
            pause=lambda _: None,
        )
        return Host(probes, user=lambda: self.user, room=room, root=self.folder / "root")

    def examined(self, gpu: str | None = None) -> dict[str, Check]:
        checks = examine_host(gpu, self.folder / "runner", self.host())
        named = {check.name: check for check in checks}
        assert len(named) == len(checks)
        return named


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


@pytest.fixture
def hooked(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """With hooks that the runner's user cannot change, whoever runs the test."""
    for name in runners.HOOKS:
        script = box.write(f"hooks/{name}.sh", "#!/bin/sh\n")
        script.chmod(0o755)
        box.environ[name] = str(script)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    return box


def states(checks: Mapping[str, Check], state: str) -> list[str]:
    return [name for name, check in checks.items() if check.state == state]


# -------------------------------------------------------------------------------------------------------- whole machines


def test_a_machine_as_the_documents_make_it_is_fit(hooked: Box) -> None:
    checks = hooked.examined()
    assert list(checks) == [*HOST, *GPU, *MORE, *CONTAINERS, *ACCESS, *RUNNER]
    assert states(checks, "fit") == list(checks)
    assert checks["driver"].read == "580.159.04"
    assert checks["clock policy"].read == "power limit 700.00 W of 700.00 W, SM up to 1980 MHz"
    assert checks["engine"].read == "podman 4.3.1"
    assert checks["engine store"].read == "/var/lib/evenbench/images-0/containers/storage: 200.0 GiB free"
    assert checks["CDI"].read == "/etc/cdi/nvidia.yaml, for driver 580.159.04"
    assert checks["user"].read == "evenbench-0 (1001)"
    assert checks["ephemeral"].read == "box-0"


def test_a_machine_that_nobody_prepared(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.environ.clear()
    (tmp_path / "runner/.runner").unlink()
    box.answers["sudo"] = ended()
    checks = box.examined()
    assert states(checks, "unfit") == ["launcher", "images", "user", "job hooks"]
    assert states(checks, "note") == ["ephemeral"]  # it takes no job yet
    assert not any(command.startswith(engines.ENGINES) for command in box.asked)
    for check in checks.values():
        assert check.fix or check.state == "fit"


def test_a_machine_without_a_gpu_is_asked_nothing_of_one(hooked: Box) -> None:
    hooked.gpus = ()
    checks = hooked.examined()
    assert list(checks) == [*HOST, "GPU", *CONTAINERS, "leftovers", *RUNNER]
    assert states(checks, "note") == ["GPU"]
    assert not states(checks, "unfit")
    assert not any(command.startswith("nvidia") for command in hooked.asked)


def test_docker_needs_no_cdi(hooked: Box) -> None:
    hooked.environ["EVENBENCH_LAUNCHER"] = "docker"
    hooked.answers |= {name: ended() for name in ("docker ps", "docker volume")}
    hooked.answers["docker info"] = ended(json.dumps(docker_info()))
    checks = hooked.examined()
    assert list(checks) == [*HOST, *GPU, *MORE, *CONTAINERS, "toolkit", "leftovers", *RUNNER]
    assert states(checks, "note") == ["engine rights"]
    assert not states(checks, "unfit")


def test_the_runners_own_settings_go_over_those_of_its_service(hooked: Box) -> None:
    hooked.gpus = (H200, ANOTHER)
    hooked.environ["CUDA_VISIBLE_DEVICES"] = ANOTHER.uuid
    hooked.write(
        "runner/.env", f"EVENBENCH_LAUNCHER=local\n\nno line\n=x\nCUDA_VISIBLE_DEVICES={H200.uuid}\nHF_TOKEN=a=b\n"
    )
    checks = hooked.examined()
    assert checks["GPU"].read.endswith(H200.uuid)
    assert checks["launcher"].read == "local"
    assert checks["credentials"].read == "$HF_TOKEN"


def test_pipes_in_place_of_files_are_not_waited_for(hooked: Box) -> None:
    for name in (
        "runner/.runner",
        "runner/.env",
        "home/.npmrc",
        "root/etc/cdi/x.yaml",
        "root/proc/driver/nvidia/params",
    ):
        (hooked.folder / name).unlink(missing_ok=True)
        os.mkfifo(hooked.folder / name)
    checks = hooked.examined()
    assert states(checks, "note") == ["GPU counters", "ephemeral"]
    assert not states(checks, "unfit")


def test_a_gpu_that_is_not_there_is_a_usage_error(box: Box) -> None:
    with pytest.raises(UsageError, match="--gpu 3"):
        box.examined("3")


def test_an_engine_that_does_not_answer_is_the_one_fault(hooked: Box) -> None:
    hooked.answers["podman info"] = ended(errors="podman: No such file or directory\n", status=127)
    checks = hooked.examined()
    assert states(checks, "unfit") == ["engine"]
    assert checks["engine"].read == "podman: status 127: podman: No such file or directory"
    assert "leftovers" not in checks


def test_foreign_text_cannot_reach_the_terminal_as_it_is(hooked: Box) -> None:
    escape = "\x1b]0;title\x07\r"
    info = podman_info() | {"version": {"Version": escape}, "store": {"graphRoot": f"/{escape}"}}
    hooked.answers |= {
        "podman info": ended(json.dumps(info)),
        "podman ps": ended(f"{DEAD}{escape}\n"),
        f"nvidia-smi --id={H200.uuid} --format=csv,noheader,nounits --query-compute-apps": ended(f"1, {escape}, 3\n"),
        f"nvidia-smi --id={H200.uuid} --format=csv,noheader,nounits --query-gpu": ended(f"{escape}, 1, 2\n"),
        "nvidia-ctk": ended(escape),
        "timedatectl": ended(escape),
    }
    hooked.environ |= {
        "EVENBENCH_IMAGES": f"a/{escape}",
        "ACTIONS_RUNNER_HOOK_JOB_STARTED": escape,
        f"TOKEN{escape}": "x",
    }
    hooked.write("runner/.runner", json.dumps({"agentName": escape}))
    for check in hooked.examined().values():
        assert check.line().isprintable()


# --------------------------------------------------------------------------------------------------------------- the GPU


@pytest.mark.parametrize(
    ("version", "state"),
    [("580.65.06", "fit"), ("590.10", "fit"), ("579.99", "unfit"), ("", "unfit"), ("R580", "unfit"), ("1000.1", "fit")],
)
def test_the_driver_must_run_cuda_13(version: str, state: str) -> None:
    assert gpus.driver(version).state == state


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        ("Exclusive_Process", "fit", "fit"),
        ("Default", "fit", "note"),
        ("Prohibited", "unfit", "unfit"),
        ("[N/A]", "unfit", "unfit"),
    ],
)
def test_a_runner_wants_the_gpu_for_itself(mode: str, before: Any, after: str) -> None:
    assert gpus.exclusive(Check("compute mode", before, mode, "Default", "fix")).state == after


def test_each_other_process_on_the_gpu_is_named() -> None:
    check = gpus.processes(ended("411, /usr/bin/python3, 512\n9, nvidia-cuda-mps-server, 28\n"))
    assert (check.state, check.read) == ("unfit", "411 /usr/bin/python3, 9 nvidia-cuda-mps-server")
    many = gpus.processes(ended("".join(f"{number}, p, 1\n" for number in range(6))))
    assert many.read == "0 p, 1 p, 2 p, 3 p and 2 more"
    assert gpus.processes(ended()).state == "fit"
    assert gpus.processes(ended(status=15)).state == "unfit"


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("700.00, 700.00, 1980", "fit"),
        ("699.50, 700.00, 1980", "fit"),
        ("500.00, 700.00, 1980", "note"),
        ("[N/A], [N/A], 1980", "note"),
        ("700.00, 700.00", "note"),
    ],
)
def test_clocks_are_told_and_never_demanded(answer: str, state: str) -> None:
    check = gpus.clock_policy(ended(f"{answer}\n"))
    assert check.state == state
    assert "free clocks" in check.should


@pytest.mark.parametrize(
    ("text", "state", "read"),
    [
        ("RmProfilingAdminOnly: 1\n", "fit", "for administrators only"),
        ("A: 1\nRmProfilingAdminOnly: 0\nB: 1\n", "note", "for every user"),
        ("XRmProfilingAdminOnly: 0\n", "note", "who may read them is not reported"),
        (None, "note", "who may read them is not reported"),
    ],
)
def test_counters_may_stay_closed(text: str | None, state: str, read: str) -> None:
    check = gpus.profiling(text)
    assert (check.state, check.read) == (state, read)


# ------------------------------------------------------------------------------------------------------------ containers


@pytest.mark.parametrize(
    ("chosen", "state"), [("docker", "fit"), ("podman", "fit"), ("local", "unfit"), ("", "unfit"), ("Podman", "unfit")]
)
def test_launches_start_in_containers(chosen: str, state: str) -> None:
    assert engines.launcher({"EVENBENCH_LAUNCHER": chosen}).state == state
    assert engines.launcher({}).state == "unfit"


DIGEST = f"@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "images", "state"),
    [
        ("", "ghcr.io/me/", "fit"),
        ("", f"ghcr.io/me/a ghcr.io/you/b{DIGEST}", "fit"),
        ("", "ghcr.io/me/,ghcr.io/you/", "fit"),
        ("", "localhost:5000/me/a", "fit"),
        (f"ghcr.io/me/a{DIGEST}", "", "fit"),
        ("", "", "unfit"),
        ("", " , ", "unfit"),
        ("", "ghcr.io/", "unfit"),
        ("", "ghcr.io/me/ /", "unfit"),
        ("", "ghcr.io/me/a:1", "note"),
        ("ghcr.io/me/a:1", "ghcr.io/me/", "note"),
        ("ghcr.io/me/a", "", "note"),
    ],
)
def test_images_are_named_by_digest_or_down_to_their_owner(image: str, images: str, state: str) -> None:
    assert engines.images({"EVENBENCH_IMAGE": image, "EVENBENCH_IMAGES": images}).state == state


def judged(name: str, info: Any, free: int | None = 20 << 30) -> dict[str, Check]:
    answer = ended(json.dumps(info))
    return {check.name: check for check in engines.engine_checks(name, engines.read_engine(name, answer), answer, free)}


ROOTED = {"rootless": False, "seccompEnabled": True}
LAX = {"rootless": True, "seccompEnabled": False}


@pytest.mark.parametrize(
    ("name", "info", "other"),
    [
        ("podman", podman_info(), {}),
        ("podman", podman_info(security=ROOTED), {"engine rights": "note"}),
        ("podman", podman_info(security=LAX), {"engine seccomp": "unfit"}),
        ("podman", podman_info(cgroupControllers=["cpu", "memory"]), {"engine limits": "unfit"}),
        ("podman", podman_info(cgroupControllers=[]), {"engine limits": "unfit"}),
        # Rootless podman takes limits on cgroup v1, and does not keep them; root's podman does.
        ("podman", podman_info(cgroupVersion="v1"), {"engine limits": "unfit"}),
        ("podman", podman_info(cgroupVersion="v1", security=ROOTED), {"engine rights": "note"}),
        ("docker", docker_info(), {"engine rights": "note"}),
        ("docker", docker_info(SecurityOptions=["name=rootless", "name=seccomp,profile=builtin"]), {}),
        ("docker", docker_info(SecurityOptions=["name=userns", "name=seccomp"]), {"engine rights": "note"}),
        ("docker", docker_info(SecurityOptions=None), {"engine rights": "note", "engine seccomp": "unfit"}),
        ("docker", docker_info(PidsLimit=False), {"engine rights": "note", "engine limits": "unfit"}),
        ("docker", docker_info(DockerRootDir=""), {"engine rights": "note", "engine store": "note"}),
    ],
)
def test_what_engines_tell_of_themselves(name: str, info: Any, other: dict[str, str]) -> None:
    checks = judged(name, info)
    assert list(checks) == CONTAINERS[2:]
    assert {check.name: check.state for check in checks.values() if check.state != "fit"} == other


def test_what_a_rooted_engine_means_is_said() -> None:
    read = judged("docker", docker_info())["engine rights"].read
    assert read == "runs as root, and this user may request anything of it: as good as root"


def test_the_store_of_the_engine_needs_room() -> None:
    assert judged("podman", podman_info())["engine store"].state == "fit"
    assert judged("podman", podman_info(), (20 << 30) - 1)["engine store"].state == "unfit"
    assert judged("podman", podman_info(), None)["engine store"].state == "note"


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=9),
        lambda e: (
            st.lists(e) | st.dictionaries(st.sampled_from(["host", "store", "version", "security", "ServerVersion"]), e)
        ),
    )
)
def test_any_other_answer_of_an_engine_is_none(answer: Any) -> None:
    for name in engines.ENGINES:
        assert engines.read_engine(name, ended(json.dumps(answer))) is None


@pytest.mark.parametrize(
    "answer",
    [
        ended(json.dumps(docker_info(ServerErrors=["Cannot connect to the Docker daemon"]))),
        ended(json.dumps(docker_info()), status=1),
        ended("[" * 100_000),
        ended(status=None),
    ],
)
def test_an_answer_with_errors_is_none(answer: Finished) -> None:
    assert engines.read_engine("docker", answer) is None


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("1.17.8", "fit"),
        ("1.18.0", "fit"),
        ("2.0.0", "fit"),
        ("1.17.7", "unfit"),
        ("1.9.99", "unfit"),
        ("1.18", "unfit"),
    ],
)
def test_the_toolkit_is_one_without_known_escapes(version: str, state: str) -> None:
    assert engines.toolkit(ended(f"NVIDIA Container Toolkit CLI version {version}\ncommit: 5\n")).state == state


def test_a_toolkit_that_is_not_there() -> None:
    check = engines.toolkit(ended(errors="nvidia-ctk: No such file or directory\n", status=127))
    assert (check.state, check.read) == ("unfit", "status 127: nvidia-ctk: No such file or directory")


@pytest.mark.parametrize(
    ("specs", "state", "read"),
    [
        ({"/etc/cdi/nvidia.yaml": SPEC}, "fit", "/etc/cdi/nvidia.yaml, for driver 580.159.04"),
        (
            {"/run/cdi/n.json": f'{{"kind": "nvidia.com/gpu", "devices": [{{"name": "{H200.uuid}"}}]}}'},
            "fit",
            "/run/cdi/n.json",
        ),
        ({}, "unfit", "no specification for nvidia.com/gpu"),
        ({"/etc/cdi/other.yaml": "kind: vendor.com/net"}, "unfit", "no specification for nvidia.com/gpu"),
        (
            {"/etc/cdi/n.yaml": SPEC.replace(H200.uuid, ANOTHER.uuid)},
            "unfit",
            "/etc/cdi/n.yaml: does not name this GPU",
        ),
        (
            {"/etc/cdi/n.yaml": SPEC.replace(H200.uuid, f"{H200.uuid}0")},
            "unfit",
            "/etc/cdi/n.yaml: does not name this GPU",
        ),
        ({"/etc/cdi/n.yaml": SPEC.replace("580.159", "570.86")}, "unfit", "/etc/cdi/n.yaml, for driver 570.86.04"),
    ],
)
def test_the_gpu_is_in_a_cdi_specification_of_this_driver(specs: dict[str, str], state: str, read: str) -> None:
    check = engines.cdi(specs, H200.uuid, H200.driver)
    assert (check.state, check.read) == (state, read)


def test_both_folders_of_specifications_are_read(hooked: Box) -> None:
    (hooked.folder / "root/etc/cdi/nvidia.yaml").rename(hooked.folder / "root/etc/cdi/nvidia.bak")
    assert hooked.examined()["CDI"].state == "unfit"
    hooked.write("root/run/cdi/nvidia.yaml", SPEC)
    assert hooked.examined()["CDI"].read == "/run/cdi/nvidia.yaml, for driver 580.159.04"


DEAD = owned_prefix().replace(str(os.getpid()), "4194305")  # above what Linux gives to a process


def test_leftovers_are_named(hooked: Box) -> None:
    hooked.user = User(os.geteuid(), hooked.user.name, hooked.user.home, hooked.user.groups)
    (hooked.folder / "tmp" / f"{DEAD}x").mkdir()
    (hooked.folder / "tmp" / f"{owned_prefix()}x").mkdir()  # of a run that lives, as the next two
    hooked.answers["podman ps"] = ended(f"{owned_prefix()}base-1\n")
    hooked.answers["podman volume"] = ended(f"{DEAD}head-side\n{owned_prefix()}head-side\n")
    check = hooked.examined()["leftovers"]
    assert (check.state, check.read) == ("note", f"volume {DEAD}head-side, folder {DEAD}x")
    hooked.answers["podman ps"] = ended(f"{DEAD}base-1\n")
    check = hooked.examined()["leftovers"]
    assert (check.state, check.read) == ("unfit", f"container {DEAD}base-1, volume {DEAD}head-side, folder {DEAD}x")
    hooked.answers["podman ps"] = ended(status=125, errors="boom\n")
    assert hooked.examined()["leftovers"].read == "container cannot be listed: status 125: boom"


def test_folders_of_another_user_are_another_runners(hooked: Box) -> None:
    (hooked.folder / "tmp" / f"{DEAD}x").mkdir()
    hooked.user = User(os.geteuid() + 1, "evenbench-1", hooked.user.home, ())
    assert hooked.examined()["leftovers"].state == "fit"


# ---------------------------------------------------------------------------------------------------------------- runner


@pytest.mark.parametrize(
    ("uid", "groups", "sudo", "read"),
    [
        (1001, ("evenbench-0", "docker", "video"), DENIED, ""),
        (0, ("root",), ended(), "is root"),
        (1001, ("sudo", "lxd"), DENIED, "is in lxd, sudo"),
        (1001, ("wheel",), ended(), "may use sudo without a password and is in wheel"),
        (1001, (), ended(errors="sudo: not found", status=127), ""),
    ],
)
def test_the_runners_user_cannot_become_root(uid: int, groups: tuple[str, ...], sudo: Finished, read: str) -> None:
    check = runners.account(User(uid, "u", Path("/home/u"), groups), sudo)
    assert (check.state, check.read) == ("unfit" if read else "fit", f"u ({uid}): {read}" if read else f"u ({uid})")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (".ssh/id_ed25519", "key", True),
        (".ssh/known_hosts", "host", False),
        (".git-credentials", "x", True),
        (".config/gh/hosts.yml", "x", True),
        (".aws/credentials", "x", True),
        (".kube/config", "x", True),
        (".docker/config.json", '{"auths": {"ghcr.io": {"auth": "eDp5"}}}', True),
        (".docker/config.json", '{"proxies": {}}', False),
        (".npmrc", "//registry/:_authToken=x", True),
        (".npmrc", "fund=false", False),
        (".config/pip/pip.conf", "x", False),
    ],
)
def test_credentials_in_the_home_are_found_and_not_told(hooked: Box, name: str, text: str, found: bool) -> None:
    hooked.write(f"home/{name}", text)
    check = hooked.examined()["credentials"]
    assert (check.state, check.read) == (("unfit", f"~/{name}") if found else ("fit", "none found"))


def test_credentials_in_the_environment_are_named_and_not_told() -> None:
    environ = {
        "GH_TOKEN": "abc", "AWS_SECRET_ACCESS_KEY": "def", "my_api_key": "ghi", "EMPTY_TOKEN": "", "PATH": "/bin",
        "GITHUB_TOKEN": "x", "ACTIONS_RUNTIME_TOKEN": "x", "ACTIONS_RUNNER_INPUT_JITCONFIG": "x",
    }  # fmt: skip
    check = runners.credentials([], environ)
    assert (check.state, check.read) == ("unfit", "$AWS_SECRET_ACCESS_KEY, $GH_TOKEN, $my_api_key")
    assert runners.credentials([f"~/{n}" for n in range(6)], {}).read == "~/0, ~/1, ~/2, ~/3 and 2 more"


@pytest.mark.parametrize(
    ("text", "state", "read"),
    [
        (JIT_FILE, "fit", "box-0"),
        ('\ufeff{"agentId": 7, "agentName": "box", "ephemeral": true}', "fit", "box"),  # as config.sh writes it
        ('{"agentName": "box", "ephemeral": false}', "unfit", "box runs one job after another"),
        ('{"agentName": "box"}', "unfit", "box runs one job after another"),
        ("{}", "unfit", "a runner runs one job after another"),
        ("[]", "unfit", "/r/.runner cannot be read"),
        ("[" * 100_000, "unfit", "/r/.runner cannot be read"),
        ("", "unfit", "/r/.runner cannot be read"),
        (None, "note", "no runner is registered in /r"),
    ],
)
def test_a_runner_takes_one_job(text: str | None, state: str, read: str) -> None:
    check = runners.ephemeral(text, Path("/r"), {})
    assert (check.state, check.read) == (state, read)


def test_a_registration_that_is_not_written_yet() -> None:
    assert runners.ephemeral(None, Path("/r"), {"ACTIONS_RUNNER_INPUT_JITCONFIG": "e30="}).state == "fit"


WELL = Hook(runners.HOOKS[0], "/usr/local/lib/evenbench/job-started.sh", there=True, executable=True)


@pytest.mark.parametrize(
    ("hook", "fault"),
    [
        (WELL, ""),
        (Hook("A", ""), "A: not set"),
        (Hook("A", "started.sh"), "A: started.sh is not an absolute path"),
        (Hook("A", "/x/started", there=True, executable=True), "A: /x/started: GitHub's runner chooses the shell"),
        (Hook("A", "/x/a.sh"), "A: /x/a.sh does not exist"),
        (Hook("A", "/x/a.sh", there=True), "A: /x/a.sh cannot be executed"),
        (Hook("A", "/r/a.sh", there=True, executable=True), "A: /r/a.sh is in the runner's own folder"),
        (Hook("A", "/x/a.sh", there=True, executable=True, replaceable=True), "A: /x/a.sh can be changed by this user"),
    ],
)
def test_hooks_are_scripts_that_no_job_can_change(hook: Hook, fault: str) -> None:
    check = runners.job_hooks([WELL, hook], Path("/r"))
    assert check.state == ("unfit" if fault else "fit")
    assert check.read.startswith(fault)


def test_hooks_are_looked_at_where_they_are(hooked: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Path(hooked.environ[runners.HOOKS[0]])
    started.chmod(0o644)
    assert hooked.examined()["job hooks"].read == f"{runners.HOOKS[0]}: {started} cannot be executed"
    started.unlink()
    assert hooked.examined()["job hooks"].read == f"{runners.HOOKS[0]}: {started} does not exist"
    target = hooked.write("hooks/elsewhere/real.sh", "")
    target.chmod(0o755)
    started.symlink_to(target)
    assert hooked.examined()["job hooks"].state == "fit"
    writable = {target.parent.resolve()}
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path in writable if mode == os.W_OK else real(path, mode))
    assert hooked.examined()["job hooks"].read == f"{runners.HOOKS[0]}: {started} can be changed by this user"


@pytest.mark.parametrize(
    ("answer", "state"),
    [(ended("yes\n"), "fit"), (ended("no\n"), "note"), (ended("maybe\n"), "note"), (ended(status=127), "note")],
)
def test_the_clock_follows_a_time_server(answer: Finished, state: str) -> None:
    assert runners.clock_sync(answer).state == state


# ----------------------------------------------------------------------------------------------------------- the command


def test_the_command_tells_this_machine_and_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBENCH_LAUNCHER", "")
    assert main(["doctor", "--host", "--runner", str(tmp_path), "--json"]) == 3
    out, err = capsys.readouterr()
    checks = {check["name"]: check for check in json.loads(out)}
    assert checks["launcher"]["state"] == checks["job hooks"]["state"] == "unfit"
    assert checks["ephemeral"]["read"] == f"no runner is registered in {tmp_path}"
    assert err.startswith("error: ")
    assert "torch" not in checks


@pytest.mark.parametrize("words", [["--host", "--python", sys.executable], ["--runner", "."]])
def test_words_that_do_not_go_together(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *words]) == 2
    assert "(hint: " in capsys.readouterr().err


def test_mends_name_steps_that_the_document_has() -> None:
    text = (ROOT / "docs/runner.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\d+)\. ", text, re.MULTILINE)
    sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (engines, gpus, runners)]
    steps = set(re.findall(r"step (\d+)", "".join(sources)))
    assert steps
    assert steps <= set(headings)


def test_every_check_is_explained_and_no_other() -> None:
    text = section(text_of("docs/runner.md"), "## What the doctor looks at")
    told = [name for row in rows(text)[1:] for name in named(row[0])]
    assert sorted(told) == sorted([*HOST, *GPU, *MORE, *CONTAINERS, *ACCESS, *RUNNER])


def test_names_fit_their_column() -> None:
    names = [*HOST, *GPU, *MORE, *CONTAINERS, *ACCESS, *RUNNER]
    assert max(map(len, names)) <= 15


def test_a_user_may_be_a_number_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `docker run --user` makes it."""
    monkeypatch.setattr(os, "geteuid", lambda: 987_654)
    monkeypatch.setattr(os, "getegid", lambda: 987_655)
    monkeypatch.setattr(os, "getgroups", list)
    monkeypatch.setenv("HOME", "/home/nobody")
    assert hosting._this_user() == User(987_654, "987654", Path("/home/nobody"), ("987655",))
