"""The scripts of docs/runner as processes: hooks as GitHub's runner starts them, with an engine that is made up."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from evenbench.cli.main import main
from tests.test_docs import ROOT

HERE = ROOT / "docs" / "runner"
SCRIPTS = sorted(path.name for path in HERE.glob("*.sh"))
# An engine that keeps containers and volumes with our label as files, and writes down what it was asked.
ENGINE = """#!/bin/sh
echo "$@" >>"$FAKE/asked"
case "$1 $2" in
"ps --all") [ "$4" = label=evenbench ] && ls "$FAKE/container" ;;
"volume ls") [ "$4" = label=evenbench ] && ls "$FAKE/volume" ;;
"rm --force") rm "$FAKE/container/$4" ;;
"volume rm") rm "$FAKE/volume/$4" ;;
*) exit 125 ;;
esac
"""


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass
class Machine:
    """A folder for everything: `bin` goes first on PATH, `tmp` is the temporary folder."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("container", "volume", "tmp", "runner/_work/_temp"):
            (self.folder / name).mkdir(parents=True)
        self.program("podman", ENGINE)
        self.program("evenbench", '#!/bin/sh\necho "$PWD: $@" >>"$FAKE/doctor"\n')
        self.environ = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "FAKE": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "RUNNER_TEMP": str(self.folder / "runner/_work/_temp"),
            "EVENBENCH_LAUNCHER": "podman",
        }

    def program(self, name: str, text: str) -> None:
        program(self.folder / "bin", name, text)

    def run(self, *words: str, **changed: str) -> subprocess.CompletedProcess[str]:
        environ = self.environ | changed
        return subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=60)

    def hook(self, name: str, **changed: str) -> subprocess.CompletedProcess[str]:
        """As GitHub's runner starts a hook."""
        return self.run("bash", "-e", str(HERE / name), **changed)

    def leave(self, what: str, *names: str) -> None:
        for name in names:
            (self.folder / what / name).touch()

    def left(self, what: str) -> list[str]:
        return sorted(path.name for path in (self.folder / what).iterdir())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_every_script_can_be_run_and_says_what_for() -> None:
    assert SCRIPTS == ["fresh-runner.sh", "job-completed.sh", "job-started.sh", "register-runner.sh", "sweep.sh"]
    for name in SCRIPTS:
        first, second, *_ = (HERE / name).read_text(encoding="utf-8").splitlines()
        assert (first, second[:2]) == ("#!/bin/sh", "# ")
        assert (HERE / name).stat().st_mode & stat.S_IXUSR


# -------------------------------------------------------------------------------------------------------------- sweeping


@pytest.mark.parametrize("hook", ["sweep.sh", "job-started.sh", "job-completed.sh"])
def test_what_a_killed_run_left_is_removed(machine: Machine, hook: str) -> None:
    machine.leave("container", "evenbench-4194305-ab-base", "evenbench-odd")
    machine.leave("volume", "evenbench-4194305-ab-base")
    done = machine.hook(hook)
    assert done.returncode == 0, done.stderr
    assert machine.left("container") == machine.left("volume") == []
    assert done.stdout.splitlines() == [
        "removing container evenbench-4194305-ab-base",
        "removing container evenbench-odd",
        "removing volume evenbench-4194305-ab-base",
    ]
    assert done.stderr == ""


def test_a_clean_machine_is_swept_without_a_word(machine: Machine) -> None:
    done = machine.hook("job-completed.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_containers_of_a_runner_that_is_at_work_stay(machine: Machine) -> None:
    """Told by a process that lives and is another user's; here we are the other user."""
    machine.program("id", "#!/bin/sh\necho 424242\n")
    name = f"evenbench-{os.getpid()}-ab-base"
    machine.leave("container", name, "evenbench-4194305-ab-base")
    machine.leave("volume", name)
    assert machine.hook("sweep.sh").returncode == 0
    assert machine.left("container") == machine.left("volume") == [name]


def test_our_own_run_that_outlived_its_job_is_swept(machine: Machine) -> None:
    machine.leave("container", f"evenbench-{os.getpid()}-ab-base")
    assert machine.hook("job-completed.sh").returncode == 0
    assert machine.left("container") == []


def test_folders_of_killed_runs_are_removed_whatever_their_modes(machine: Machine) -> None:
    kept = machine.folder / "kept"
    (kept / "inner").mkdir(parents=True)
    temporary = machine.folder / "tmp"
    closed = temporary / "evenbench-1-ab-x" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (closed / "link").symlink_to(kept)
    closed.chmod(0)
    closed.parent.chmod(0o500)
    (temporary / "evenbench-GPU-1.lock").touch()  # a lock, which others may hold
    (temporary / "evenbench-link").symlink_to(kept)
    (temporary / "other").mkdir()
    assert machine.hook("sweep.sh").returncode == 0
    assert machine.left("tmp") == ["evenbench-GPU-1.lock", "evenbench-link", "other"]
    assert (kept / "inner").is_dir()


@pytest.mark.parametrize("launcher", ["", "local", "rm -rf /"])
def test_without_an_engine_only_folders_are_swept(machine: Machine, launcher: str) -> None:
    (machine.folder / "tmp/evenbench-1-ab-x").mkdir()
    assert machine.hook("sweep.sh", EVENBENCH_LAUNCHER=launcher).returncode == 0
    assert machine.left("tmp") == []
    assert not (machine.folder / "asked").exists()


@pytest.mark.parametrize("hook", ["job-started.sh", "job-completed.sh"])
@pytest.mark.parametrize(
    "engine",
    [
        "#!/bin/sh\necho 'no daemon' >&2\nexit 125\n",
        ENGINE.replace("volume ls", "x"),
        ENGINE.replace("rm --force", "x"),
    ],
)
def test_an_engine_that_fails_fails_the_job(machine: Machine, hook: str, engine: str) -> None:
    machine.program("podman", engine)
    machine.leave("container", "evenbench-4194305-ab-base")
    assert machine.hook(hook).returncode != 0
    assert not (machine.folder / "doctor").exists()


# ---------------------------------------------------------------------------------------------------------- before a job


def test_a_fit_machine_takes_the_job_without_a_word(machine: Machine) -> None:
    done = machine.hook("job-started.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    runner = machine.folder / "runner"
    assert (machine.folder / "doctor").read_text() == f"{runner}/_work/_temp: doctor --host --runner {runner}\n"


def test_an_unfit_machine_says_why_and_no_more(machine: Machine) -> None:
    unfit = "echo 'fit    git   secret'\necho 'unfit  GPU   busy'\necho 'note   CPU   load'\necho 'error: 1 of 3' >&2\nexit 3\n"
    machine.program("evenbench", f"#!/bin/sh\n{unfit}")
    done = machine.hook("job-started.sh")
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == ["error: 1 of 3", "unfit  GPU   busy"]


def test_the_real_doctor_refuses_a_machine_without_hooks(machine: Machine) -> None:
    command = f'#!/bin/sh\nexec "{sys.executable}" -m evenbench "$@"\n'
    machine.program("evenbench", command)
    done = machine.hook("job-started.sh", PYTHONPATH=str(ROOT), EVENBENCH_LAUNCHER="")
    assert done.returncode == 1
    assert "unfit  job hooks" in done.stdout
    assert "\nfit " not in f"\n{done.stdout}"


def test_the_hooks_pass_the_doctors_own_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As installed, but for who owns them: a user that may write them, as the one of this test, is refused."""
    for name in ("started", "completed"):
        shutil.copy(HERE / f"job-{name}.sh", tmp_path)
    (tmp_path / "runner").mkdir()
    environ = {f"ACTIONS_RUNNER_HOOK_JOB_{n.upper()}": f"{tmp_path}/job-{n}.sh" for n in ("started", "completed")}
    (tmp_path / "runner/.env").write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    assert main(["doctor", "--host", "--json", "--runner", str(tmp_path / "runner")]) == 3
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    faults = [f"{name}: {path} can be changed by this user" for name, path in environ.items()]
    assert checks["job hooks"]["read"] == "; ".join(faults)[:300]


# -------------------------------------------------------------------------------------------------- a runner for each job


def test_a_runner_is_made_anew(machine: Machine) -> None:
    state = machine.folder / "state"
    (state / "runner-0/.local/bin").mkdir(parents=True)
    (state / "runner-0/.local/bin/evenbench").touch()  # what a job before could have left
    (machine.folder / "tmp/left").mkdir()
    (machine.folder / "tmp/evenbench-GPU-1.lock").touch()  # another runner's run may hold it
    (machine.folder / "tmp/evenbench-no-lock.lock").mkdir()
    runner = program(machine.folder, "run.sh", "#!/bin/sh\n")
    with tarfile.open(state / "actions-runner.tar.gz", "w:gz") as archive:
        archive.add(runner, "./run.sh")
    for name in ("systemctl", "chown"):
        machine.program(name, f'#!/bin/sh\necho "{name} $@" >>"$FAKE/root"\n')
    machine.program("id", f'#!/bin/sh\n[ "$2" = evenbench-0 ] && echo {os.getuid()}\n')
    done = machine.run(str(HERE / "fresh-runner.sh"), "0", EVENBENCH_STATE=str(state))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    home = state / "runner-0"
    assert [path.relative_to(home).as_posix() for path in sorted(home.rglob("*"))] == ["runner", "runner/run.sh"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert os.access(home / "runner/run.sh", os.X_OK)
    assert machine.left("tmp") == ["evenbench-GPU-1.lock"]
    assert (machine.folder / "root").read_text().splitlines() == [
        f"systemctl restart user@{os.getuid()}.service",
        f"chown -R evenbench-0: {home}",
    ]


def test_without_such_a_user_nothing_is_removed(machine: Machine) -> None:
    (machine.folder / "tmp/kept").mkdir()
    done = machine.run(str(HERE / "fresh-runner.sh"), "no-such", EVENBENCH_STATE=str(machine.folder))
    assert done.returncode != 0
    assert machine.left("tmp") == ["kept"]


@dataclass
class GitHub:
    """What was asked of GitHub's API, and what it answers."""

    url: str = ""
    status: int = 201
    answer: bytes = b""
    asked: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def github() -> Iterator[GitHub]:
    made = GitHub(
        answer=json.dumps({"runner": {"id": 23}, "encoded_jit_config": base64.b64encode(b"{}").decode()}).encode()
    )

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.asked.append((self.path, dict(self.headers), body))
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(made.answer)))
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def registered(machine: Machine, github: GitHub) -> tuple[subprocess.CompletedProcess[str], Path]:
    config = machine.folder / "config"
    config.mkdir()
    (config / "github.conf").write_text(f"ORGANISATION=me\nRUNNER_GROUP=7\nLABELS='[\"gpu\"]'\nAPI={github.url}\n")
    (config / "token").write_text("github_pat_x\n")
    real = shutil.which("curl")
    machine.program("curl", f'#!/bin/sh\necho "$@" >>"$FAKE/commands"\nexec {real} "$@"\n')
    places = {"EVENBENCH_CONFIG": str(config), "EVENBENCH_REGISTERED": str(machine.folder / "run")}
    return machine.run(str(HERE / "register-runner.sh"), "3", **places), machine.folder / "run/runner-3.env"


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


@needs_curl
def test_a_runner_is_registered_for_one_job(machine: Machine, github: GitHub) -> None:
    done, file = registered(machine, github)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert file.read_text() == "ACTIONS_RUNNER_INPUT_JITCONFIG=e30=\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    ((path, headers, body),) = github.asked
    assert path == "/orgs/me/actions/runners/generate-jitconfig"
    assert headers["Authorization"] == "Bearer github_pat_x"
    wanted = json.loads(body)
    assert wanted.pop("name").startswith(f"{socket.gethostname()}-3-")
    assert wanted == {"runner_group_id": 7, "labels": ["gpu"], "work_folder": "_work"}
    assert "github_pat_x" not in (machine.folder / "commands").read_text()


@needs_curl
@pytest.mark.parametrize(("status", "answer"), [(401, b'{"message": "Bad credentials"}'), (201, b"{}"), (201, b"")])
def test_what_is_no_registration_starts_nothing(machine: Machine, github: GitHub, status: int, answer: bytes) -> None:
    github.status, github.answer = status, answer
    done, file = registered(machine, github)
    assert done.returncode != 0
    assert not file.exists() or file.read_text() == ""
    assert "github_pat_x" not in done.stdout + done.stderr


# ----------------------------------------------------------------------------------------------------------------- units


def unit(name: str) -> dict[str, list[tuple[str, str]]]:
    """Section → its settings in order."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            current.append((key, value))
    return sections


def test_the_unit_looks_before_it_registers_and_serves_without_root() -> None:
    service = unit("evenbench-runner@.service")["Service"]
    steps = [value for key, value in service if key in {"ExecStartPre", "ExecStart"}]
    assert [Path(step.split()[0].lstrip("+")).name for step in steps] == [
        "rm", "fresh-runner.sh", "sweep.sh", "evenbench", "register-runner.sh", "run.sh",
    ]  # fmt: skip
    assert [step.startswith("+") for step in steps] == [True, True, False, False, True, False]
    assert ("User", "evenbench-%i") in service
    installed = {Path(step.split()[0].lstrip("+")).name for step in steps if "/usr/local/lib/evenbench/" in step}
    assert installed <= set(SCRIPTS)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.service")))
def test_systemd_understands_the_units(name: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", HERE / name], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if name.replace("@", "@i") in line or name in line]
    assert [line for line in complaints if "is not executable" not in line] == []
