"""The image, run as the sandbox runs it: as uid 10001, on a read-only root, without network or capabilities."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.image import engine_path, image
from tests.fakes.repositories import QUICK, SUITES, Repository

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first test builds the image

LOCKED = (
    "run", "--rm", "--network", "none", "--user", "10001:10001", "--read-only", "--read-only-tmpfs=false",
    "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "512",
    "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=2g",
)  # fmt: skip
DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"

# gcc and Python's headers at work: a C++ kernel and its Python module, made at run time.
COMPILES = """
import torch
x = torch.arange(64.0)
print(torch.equal(torch.compile(lambda t: torch.relu(t - 8) * 2)(x), torch.relu(x - 8) * 2))
"""
# What a file system of the image holds, and what it must not.
LOOK = """
import getpass, json, os, pathlib
site = next(pathlib.Path("/opt/evenbench/lib").iterdir()) / "site-packages"
print(json.dumps({
    "user": getpass.getuser(), "home": os.path.expanduser("~"), "uid": os.getuid(), "groups": os.getgroups(),
    "owners": [os.stat(folder).st_uid for folder in ("/side", "/cache", "/opt/evenbench")],
    "top": sorted(path.name for path in site.iterdir() if path.name in ("cases", "evenbench", "evenbench.py", "reports", "runner", "tests")),
    "left": [path for path in ("/etc/pip.conf", "/run/secrets/ca", "/src", "/wheel", "/root/.cache") if os.path.exists(path)]
            + os.listdir("/mnt"),
    "capabilities": [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")],
    "interfaces": sorted(os.listdir("/sys/class/net")),
}))
"""

Podman = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def podman() -> Podman:
    """Runs podman's command line with the engine that knows the image."""
    path = engine_path()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/usr/bin/env", f"PATH={path}", "podman", *arguments], capture_output=True, text=True, check=False
        )

    return run


def repository_of(tmp_path: Path) -> Repository:
    """A repository of another user than 10001, as a mounted checkout is."""
    folder = tmp_path / "repository"
    folder.mkdir()
    made = Repository(folder)
    made.git("init", "-q", "-b", "main")
    made.commit({"cases/quick.py": QUICK, "cases/suites.yaml": SUITES})
    return made


def test_the_default_command_finds_the_machine_fit(podman: Podman) -> None:
    done = podman(*LOCKED, image())
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {line[7:22].strip(): line for line in done.stdout.splitlines()}
    assert {"Python", "git", "temp folder", "results folder", "clock", "torch"} <= set(checks)
    assert "unfit" not in done.stdout
    assert f"fit    torch            {named('TORCH')}" in checks["torch"]


def test_it_lists_and_compares_what_is_mounted(podman: Podman, tmp_path: Path) -> None:
    folder = str(repository_of(tmp_path).path)
    mounted = (*LOCKED, "--volume", f"{folder}:/repository:ro")
    listed = podman(*mounted, image(), "list", "--in", "/repository", "--json")
    assert listed.returncode == 0, listed.stderr
    (case,) = json.loads(listed.stdout)["cases"]
    compared = podman(*mounted, image(), "compare", "/repository", "/repository", "--fail-on", "never")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert case["id"] in compared.stdout
    assert "host clock" in compared.stdout


def test_what_is_inside(podman: Podman) -> None:
    done = podman(*LOCKED, "--entrypoint", "python", image(), "-c", LOOK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "user": "evenbench",
        "home": "/home/evenbench",
        "uid": 10001,
        "groups": [10001],
        "owners": [10001, 10001, 0],
        "top": ["evenbench"],
        "left": [],
        "capabilities": ["0" * 16] * 5,
        "interfaces": ["lo"],
    }


def test_torch_compile_finds_its_compiler(podman: Podman) -> None:
    done = podman(*LOCKED, "--volume", "/cache", "--entrypoint", "python", image(), "-c", COMPILES)
    assert done.stdout == "True\n", done.stderr


def test_labels_say_what_the_dockerfile_names(podman: Podman) -> None:
    (inspected,) = json.loads(podman("image", "inspect", image()).stdout)
    labels, commit = inspected["Labels"], inspected["Labels"].get("org.opencontainers.image.revision", "")
    assert len(commit) == 40
    assert labels["org.opencontainers.image.version"] == "test"
    assert labels["evenbench.stack"] == image().rpartition(":")[2]
    for label, name in {
        "python": "PYTHON", "torch": "TORCH", "cuda": "CUDA",
        "cupti-python": "CUPTI_PYTHON", "cupti": "CUPTI", "driver": "DRIVER",
    }.items():  # fmt: skip
        assert labels[f"evenbench.{label}"] == named(name)
    config = inspected["Config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("10001:10001", ["evenbench"], ["doctor"])


def named(name: str) -> str:
    """A version that stands at the top of the Dockerfile."""
    lines = DOCKERFILE.read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"ARG {name}="))
