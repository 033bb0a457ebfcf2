"""The sandbox, from inside and from outside: what hostile code in a container can do, and what it cannot."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.launchers.sandbox import LABEL
from evenbench.runner.sides.checkouts import owned_prefix
from tests.fakes.repositories import QUICK, SUITES, Repository

pytestmark = pytest.mark.timeout(600)

PATIENCE_S = 400.0  # a hung command fails its test
LAUNCHES = "launches"  # in the name of the container that holds a side's launches
GONE_S = 30.0  # a container whose driver was killed is gone well within this, on a busy machine too
Host = Mapping[str, str]  # variables of a machine that measures in containers


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str


def evenbench(repository: Repository, host: Host, *arguments: str, **more: str) -> Ended:
    """Run a command that writes ``out.jsonl`` in the sandbox. It leaves no container and no volume behind."""
    with repository.start(*arguments, "--output", "out.jsonl", **{**host, **more}) as process:
        try:
            out, error = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert left(host, process.pid) == [], error
    return Ended(process.returncode, out, error)


def run(repository: Repository, host: Host, *arguments: str, **more: str) -> dict[str, Any]:
    """Run head's cases in the sandbox. Returns the outcome of each by id: ``ok``, or what went wrong."""
    ended = evenbench(repository, host, "run", *arguments, **more)
    found = outcomes(repository)
    failed = any(outcome != "ok" for outcome in found.values())
    assert ended.code in ((1, 4) if failed else (0, 4)), ended  # 1: fail_on names failed by default
    return found


def outcomes(repository: Repository, side: str = "head") -> dict[str, Any]:
    """What the results file says of each case of a side."""
    found = {
        event["id"]: "ok" if event["status"] == "ok" else event["reason"]
        for event in events(repository)
        if event["event"] == "case" and event["side"] == side
    }
    for event in events(repository):
        if event["event"] == "failure" and event["side"] == side and event["case"]:
            found[event["case"]] = event["error"]
    return found


def events(repository: Repository) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (repository.path / "out.jsonl").read_text().splitlines()]


def suites(*lines: str) -> str:
    """A suites.yaml with more lines."""
    return SUITES + "".join(f"    {line}\n" for line in lines)


def podman(host: Host, *words: str) -> list[str]:
    """The words that podman answers."""
    answer = subprocess.run(["podman", *words], env={**os.environ, **host}, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def left(host: Host, driver: int) -> list[str]:
    """The containers and volumes of a driver: other tests have theirs at the same time."""
    ours = ("--filter", f"label={LABEL}", "--format")
    names = [*podman(host, "ps", "--all", *ours, "{{.Names}}"), *podman(host, "volume", "ls", *ours, "{{.Name}}")]
    return [name for name in names if name.startswith(f"evenbench-{driver}-")]


def wait_until(condition: Callable[[], object], seconds: float = GONE_S) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)


# ---------------------------------------------------------------------------------------------------- the straight line

SLOWER = QUICK.replace("x.sum()", "(x * 1.0).sum() + (x * 2.0).sum() * 0", 1)


@pytest.mark.timing
def test_a_comparison_in_the_sandbox_gives_the_same_kind_of_table(repository: Repository, host: Host) -> None:
    repository.commit({"cases/quick.py": QUICK, "lib.py": "FACTOR = 2\n"})
    repository.commit({"cases/quick.py": SLOWER})
    ended = evenbench(repository, host, "compare", "HEAD~1", "HEAD", "--json", "out.json")
    assert ended.code == 1, ended
    assert "quick/sum" in ended.out
    [row] = json.loads((repository.path / "out.json").read_text())["rows"]
    assert row["verdict"] == "regressed"
    header, *rest = events(repository)
    assert re.fullmatch(re.escape(host["EVENBENCH_IMAGE"]) + "@sha256:[0-9a-f]{64}", header["image"])
    assert [event["python"] for event in rest if event["event"] == "side"] == ["/side/env/bin/python"] * 2


def test_a_set_up_installs_a_library_into_its_own_side(repository: Repository, host: Host) -> None:
    """Without network: the image brings the build backend, and pip."""
    library = {
        "setup.py": "from setuptools import setup\nsetup(name='lib', version='1', py_modules=['lib'], package_dir={'': 'src'})\n",
        "cases/lib_case.py": """
            import lib
            from evenbench import Bench, case

            @case("lib/where")
            def where(p, device):
                assert lib.__file__.startswith("/side/env/"), lib.__file__
                return Bench(run=lambda: lib.work(), reference=lambda: lib.VERSION)
        """,
        "cases/suites.yaml": suites("setup: pip install --quiet --no-deps --no-build-isolation .", "preload: [lib]"),
    }
    repository.commit({**library, "src/lib.py": "VERSION = 1\ndef work():\n    return 1\n"})
    repository.commit({"src/lib.py": "VERSION = 2\ndef work():\n    return 2\n"})
    ended = evenbench(repository, host, "compare", "HEAD~1", "HEAD")
    assert ended.code in (0, 1), ended
    assert outcomes(repository, "base") == outcomes(repository) == {"lib/where": "ok", "quick/sum": "ok"}
    sides = [event for event in events(repository) if event["event"] == "side"]
    assert [(side["start"], side["notes"]) for side in sides] == [("fork", [])] * 2  # and so `preload` was imported


def test_a_set_up_that_fails_is_told_and_leaves_nothing(repository: Repository, host: Host) -> None:
    ended = evenbench(repository, host, "compare", "HEAD", "HEAD", "--head-setup", "echo it broke; exit 7")
    assert ended.code == 4
    assert "error: set-up of head failed with exit status 7: it broke (hint: the command was: echo" in ended.error


def test_a_library_of_others_may_be_preloaded_and_a_copy_of_ones_own_may_not(
    repository: Repository, host: Host
) -> None:
    repository.commit({"cases/suites.yaml": suites("preload: [numpy]")})
    ended = evenbench(repository, host, "compare", "HEAD", "HEAD")
    assert ended.code == 0, ended
    # A project that the image holds as well, and that no set-up puts into the sides.
    repository.commit({"pyproject.toml": "[project]\nname = 'numpy'\n"})
    (repository.path / "out.jsonl").unlink()
    ended = evenbench(repository, host, "compare", "HEAD", "HEAD")
    assert ended.code == 4
    assert "both load numpy from /opt/evenbench/" in ended.error


def test_cases_of_head_run_on_both_sides(repository: Repository, host: Host) -> None:
    repository.commit({"lib.py": "SIDE = 'base'\n", "cases/quick.py": ""})
    case = """
        import lib
        from evenbench import Bench, case

        @case("own/side", device="cpu")
        def own(p, device):
            return Bench(run=lambda: lib.SIDE)
    """
    repository.commit({"lib.py": "SIDE = 'head'\n", "cases/own.py": case})
    ended = evenbench(repository, host, "compare", "HEAD~1", "HEAD", "--cases-from", "head")
    assert ended.code in (0, 1), ended
    assert outcomes(repository, "base") == outcomes(repository) == {"own/side": "ok"}
    results = {e["side"]: e["implementations"][0]["result"] for e in events(repository) if e["event"] == "case"}
    assert results["base"] != results["head"]


def test_cases_are_listed_in_the_sandbox_too(repository: Repository, host: Host) -> None:
    spy = "    import os\n    assert os.getuid() == 10001\n"
    repository.write({"cases/quick.py": spy + QUICK})
    done = repository.evenbench("list", **host)
    assert done.stdout == "quick/sum\n", done.stderr


# ---------------------------------------------------------------------------------------------------------- from inside


def inside(body: str, name: str = "inside/case", **keywords: Any) -> str:
    """A case file whose case runs a body; what it raises stands in the results."""
    indented = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    options = "".join(f", {key}={value!r}" for key, value in keywords.items())
    return (
        "import errno, os, signal, socket, subprocess, sys, time\nfrom pathlib import Path\n"
        "from evenbench import Bench, case\n\n"
        f'@case("{name}", device="cpu"{options})\ndef body(p, device):\n{indented}\n    return Bench(run=lambda: 1)\n'
    )


IDENTITY = """
status = dict(line.split(":\\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
assert (os.getuid(), os.getgid(), os.getgroups()) == (10001, 10001, [10001]), status
assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}, status
assert status["NoNewPrivs"] == "1", status
assert status["Seccomp"] == "2", status
import getpass, pwd
assert pwd.getpwuid(10001).pw_name == getpass.getuser()
"""
SIDE = """
written = []
for folder in ("/", "/side", "/side/src", "/side/env", "/side/src/cases", "/opt/evenbench", "/etc", "/usr", "/home/evenbench", "/run",
               "/var", "/proc/sys", "/sys/fs/cgroup"):
    for attempt in (lambda path: path.write_text("x"), lambda path: path.mkdir(), lambda path: path.symlink_to("/")):
        try:
            attempt(Path(folder) / "mark")
            written.append(folder)
        except OSError:
            pass
for path in (Path(__file__), Path("/side/src/lib.py"), Path("/etc/passwd"), Path(sys.executable)):
    try:
        path.open("r+b").close()
        written.append(path)
    except OSError as error:
        assert error.errno in (errno.EROFS, errno.EACCES, errno.ETXTBSY), error
    try:
        os.chmod(path, 0o777)
        written.append(path)
    except OSError:
        pass
assert not written, written
"""
NETWORK = """
assert [name for _, name in socket.if_nameindex()] == ["lo"], socket.if_nameindex()
for address in {addresses!r}:
    try:
        socket.create_connection((address, {port}), timeout=3).close()
        raise AssertionError(f"reached {{address}}")
    except OSError:
        pass
try:
    socket.getaddrinfo("localhost.example", 80)
    raise AssertionError("names are resolved")
except socket.gaierror:
    pass
"""
CONNECT = (
    """python3 -c "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=3)" """.strip()
)
SECRETS = """
import glob
seen = b"".join(Path(f).read_bytes() for f in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
                if os.access(f, os.R_OK))
assert b"PATH=" in seen
assert b"hush" not in seen, seen
assert not [name for name in os.environ if name.startswith(("GITHUB_", "ACTIONS_", "RUNNER_", "EVENBENCH_IM"))], os.environ
assert not os.path.exists({tree!r})
found = [path for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/secrets",
                           "/root/.docker", "/github", "/side/src/.git", "/src")
         if os.access(path, os.R_OK) and not (os.path.isdir(path) and not os.listdir(path))]
assert not found, found
mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] == {kind!r}]
assert {{target for target in mounted if not target.startswith(("/etc/", "/run/"))}} <= {{"/side", "/cache"}}, mounted
"""


def test_who_a_launch_is(repository: Repository, host: Host) -> None:
    repository.commit({"cases/quick.py": "", "cases/inside.py": inside(IDENTITY)})
    assert run(repository, host) == {"inside/case": "ok"}


def test_a_launch_cannot_write_to_its_side(repository: Repository, host: Host) -> None:
    repository.commit({"cases/quick.py": "", "lib.py": "X = 1\n", "cases/inside.py": inside(SIDE)})
    assert run(repository, host) == {"inside/case": "ok"}


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of this machine that answers, on all its addresses."""
    with socket.create_server(("", 0)) as server:
        server.settimeout(0.2)
        done = threading.Event()

        def answer() -> None:
            while not done.is_set():
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    continue

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        done.set()
        thread.join()


def own_addresses() -> list[str]:
    """Of this machine, the loopback's included."""
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False)
    return ["127.0.0.1", *(word for word in listed.stdout.split() if "." in word)]


def test_a_launch_cannot_reach_the_network(repository: Repository, host: Host, listener: int) -> None:
    addresses = own_addresses()
    socket.create_connection(("127.0.0.1", listener), timeout=5).close()  # from outside it answers
    body = NETWORK.format(addresses=addresses, port=listener)
    repository.commit({"cases/quick.py": "", "cases/inside.py": inside(body)})
    assert run(repository, host) == {"inside/case": "ok"}
    repository.commit({"cases/suites.yaml": suites(f"setup: {CONNECT} {listener}")})
    (repository.path / "out.jsonl").unlink()
    ended = evenbench(repository, host, "run")
    assert ended.code == 4
    assert "set-up of head failed" in ended.error


def test_a_set_up_has_the_network_that_the_machine_grants(repository: Repository, host: Host, listener: int) -> None:
    granted = {**host, "EVENBENCH_SETUP_NETWORK": "host"}
    body = "assert [name for _, name in socket.if_nameindex()] == ['lo'], socket.if_nameindex()"
    set_up = suites(f"setup: {CONNECT} {listener}")
    repository.commit({"cases/quick.py": "", "cases/suites.yaml": set_up, "cases/inside.py": inside(body)})
    assert run(repository, granted) == {"inside/case": "ok"}


def test_a_launch_sees_no_token_and_nothing_of_the_machine(repository: Repository, host: Host, tmp_path: Path) -> None:
    kind = next(line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == "/")
    body = SECRETS.format(tree=str(repository.path), kind=kind)
    repository.commit({"cases/quick.py": "", "cases/inside.py": inside(body)})
    tokens = {
        "GITHUB_TOKEN": "hush",
        "ACTIONS_RUNTIME_TOKEN": "hush",
        "GITHUB_ENV": "/hush",
        "HTTPS_PROXY": "http://u:hush@x",
    }
    assert run(repository, host, **tokens) == {"inside/case": "ok"}


POISON = """
me, other = {me!r}, {other!r}
writable = [Path(folder) for folder, _, _ in os.walk("/") if not folder.startswith("/proc") and os.access(folder, os.W_OK)]
assert {{Path("/dev/shm"), Path("/tmp"), Path("/cache"), Path(os.environ["HOME"])}} <= {{*writable}}, writable
assert not [folder for folder in writable if (folder / other).exists()], "the other side was here"
assert "@" + other not in Path("/proc/net/unix").read_text(), "the other side listens here"
for folder in map(Path, ("/cache", "/tmp", "/dev/shm") if Path("/cache/marked").exists() else ()):
    assert (folder / me).exists(), "this side's own mark is not found again: this shows nothing"
for folder in writable:
    if not (folder / me).exists():
        (folder / me).touch()
if os.fork() == 0:
    os.setsid()
    quiet = socket.socket(socket.AF_UNIX)
    quiet.bind("\\0" + me)
    time.sleep(600)
Path("/cache/marked").touch()
"""


def test_head_cannot_poison_base(repository: Repository, host: Host) -> None:
    """Head leaves a mark wherever it may write, and a process; base, whose launches follow, looks for them."""
    files = {"cases/quick.py": "", "cases/suites.yaml": SUITES}
    repository.commit({**files, "cases/inside.py": inside(POISON.format(me="mark-of-base", other="mark-of-head"))})
    repository.commit({"cases/inside.py": inside(POISON.format(me="mark-of-head", other="mark-of-base"))})
    ended = evenbench(repository, host, "compare", "HEAD~1", "HEAD")
    assert ended.code in (0, 1), ended
    assert outcomes(repository, "base") == outcomes(repository) == {"inside/case": "ok"}


# ------------------------------------------------------------------------------------------------------------ contained

ALONE = """
others = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
assert len(others) <= 3, others  # the container's first process, the warm parent, this launch
"""
FORK_BOMB = """
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError as error:
        assert error.errno == errno.EAGAIN, error
"""
FORKS_COUNTED = """
children = 0
try:
    while children < 5_000:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        children += 1
except BlockingIOError:
    pass
assert 100 < children < 512, children
"""
HANG = """
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
time.sleep(600)
"""
STOPS_ITS_PARENT = (
    "time.sleep(0.5)  # it is told of this case before\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)"
)
KILLS_ITS_PARENT = "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)"


def first_and_next(first: str, **keywords: Any) -> dict[str, str]:
    """A hostile case file, and one that looks around after it. A case that dies takes its launch with it: the rest follows
    in a fresh one."""
    return {
        "cases/quick.py": "",
        "cases/a_first.py": inside(first, "first/case", **keywords),
        "cases/b_next.py": inside(ALONE, "next/case"),
    }


def test_a_fork_bomb_is_contained(repository: Repository, host: Host) -> None:
    repository.commit(first_and_next(FORK_BOMB, timeout_s=3.0))
    found = run(repository, host)
    assert "no progress within 3 s" in found["first/case"]
    assert found["next/case"] == "ok"


def test_processes_are_counted(repository: Repository, host: Host) -> None:
    """What a launch leaves behind is gone when the next begins, though it left the launch's process group."""
    repository.commit(first_and_next(FORKS_COUNTED))
    found = run(repository, host, "first/*")
    assert found == {"first/case": "ok"}
    (repository.path / "out.jsonl").unlink()
    assert run(repository, host, "--rounds", "2", "first/*") == {"first/case": "ok"}


def test_a_hang_is_killed_with_its_children(repository: Repository, host: Host) -> None:
    repository.commit(first_and_next(HANG, timeout_s=2.0))
    found = run(repository, host)
    assert "no progress within 2 s" in found["first/case"]
    assert found["next/case"] == "ok"


@pytest.mark.parametrize(
    "hog",
    [
        "x = []\nfor _ in range(64):\n    x.append(b'x' * (1 << 26))",
        "with open('/tmp/hog', 'wb') as f:\n    for _ in range(64):\n        f.write(b'x' * (1 << 26))",
    ],
    ids=["memory", "temporary files"],
)
def test_a_memory_hog_is_contained(repository: Repository, host: Host, hog: str) -> None:
    """It wants 4 GiB where there is one."""
    repository.commit(first_and_next(hog))
    found = run(repository, host)
    assert "killed by SIGKILL" in found["first/case"] or "MemoryError" in found["first/case"], found
    assert found["next/case"] == "ok"


FLOOD = """
for _ in range(1_000):
    sys.stdout.write("x" * 50_000 + "\\n")
    sys.stderr.write("y" * 50_000 + "\\n")
raise RuntimeError("that was 100 MB")
"""


def test_100_mb_of_output_are_cut(repository: Repository, host: Host) -> None:
    repository.commit(first_and_next(FLOOD))
    ended = evenbench(repository, host, "run")
    assert ended.code == 1, ended.error[-2_000:]
    assert "that was 100 MB" in outcomes(repository)["first/case"]
    assert outcomes(repository)["next/case"] == "ok"
    assert len(ended.out + ended.error) < 20_000
    assert (repository.path / "out.jsonl").stat().st_size < 1 << 20


RECORDS = """
import json
time.sleep(0.5)  # the driver is told of this case before
forged = {"event": "measurement", "launch": 1, "case": "next/case", "implementation": "main", "timing": "host",
          "device_busy_ns": [1] * 20, "latency_ns": [1] * 20, "cache": "warm", "stop": "count"}
done = {"event": "exit", "status": "ok", "detail": "", "case": None}
ways = [f"/proc/{os.getppid()}/fd/{name}" for name in os.listdir(f"/proc/{os.getppid()}/fd")]
reached = 0
for way in ways + [f"/proc/self/fd/{number}" for number in range(3, 40)]:
    try:
        if not os.readlink(way).startswith("pipe:"):
            continue
        with open(way, "wb", buffering=0) as stream:
            WRITE
            reached += 1
    except OSError:
        pass
assert reached, "no stream could be reached: this shows nothing"
time.sleep(1.0)  # what it breaks shows while this case is under way
"""
FORGED = RECORDS.replace(
    "WRITE", 'stream.write(b"".join((nonce + json.dumps(line).encode() + b"\\n") for line in (forged, done) '
    'for nonce in (b"", b"0" * 32 + b" ")))'
)  # fmt: skip
GARBAGE = RECORDS.replace("WRITE", 'stream.write(b"\\xff\\x00 garbage " * 300_000)')


@pytest.mark.parametrize("body", [FORGED, GARBAGE], ids=["forged", "garbage"])
def test_what_is_no_record_costs_its_own_launch(repository: Repository, host: Host, body: str) -> None:
    repository.commit(first_and_next(body))
    found = run(repository, host)
    assert found["next/case"] == "ok"
    assert '"device_busy_ns":[1,1,1' not in (repository.path / "out.jsonl").read_text()


PAST_ITS_PARENT = """
import json
stream = f"/proc/{os.getppid()}/fd/3"  # where the warm parent writes what it relays to the driver
assert os.readlink(stream).startswith("pipe:"), os.readlink(stream)
with open(stream, "wb", buffering=0) as records:
    for message in ({"event": "failure", "case": "next/case", "kind": "runtime", "error": "forged"},
                    {"event": "finish", "case": "next/case"}, {"event": "exit", "status": "ok"}):
        records.write(b"0" * 32 + b" " + json.dumps(message).encode() + b"\\n")
"""


def test_forged_lines_past_the_warm_parent_are_nobodys(repository: Repository, host: Host) -> None:
    """They lack the nonce of the launch, and what is true comes through beside them."""
    repository.commit(first_and_next(PAST_ITS_PARENT))
    assert run(repository, host) == {"first/case": "ok", "next/case": "ok"}


@pytest.mark.parametrize("body", [KILLS_ITS_PARENT, STOPS_ITS_PARENT], ids=["killed", "stopped"])
def test_a_launch_that_ends_its_parent_costs_itself(repository: Repository, host: Host, body: str) -> None:
    repository.commit(first_and_next(body, timeout_s=2.0))
    found = run(repository, host)
    assert "died" in found["first/case"]
    assert found["next/case"] == "ok"


# ----------------------------------------------------------------------------------------------------------- the driver

SLEEPS = "time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_no_container_outlives_its_driver(repository: Repository, host: Host, number: signal.Signals) -> None:
    repository.commit({"cases/quick.py": "", "cases/inside.py": inside(SLEEPS)})
    with repository.start("run", "--output", "out.jsonl", **host) as driver:
        wait_until(lambda: f"-head-{LAUNCHES}" in " ".join(left(host, driver.pid)), 60)
        driver.send_signal(number)
        driver.communicate(timeout=60)
    wait_until(lambda: not [name for name in left(host, driver.pid) if LAUNCHES in name])
    assert number == signal.SIGKILL or not left(host, driver.pid)
    repository.commit({"cases/inside.py": QUICK})
    (repository.path / "out.jsonl").unlink()
    assert run(repository, host) == {"quick/sum": "ok"}
    assert left(host, driver.pid) == []  # swept by the next run


def test_a_container_that_a_killed_run_left_is_swept(repository: Repository, host: Host) -> None:
    """As a stopped warm parent leaves it: it never reads the end of its commands."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    alive = f"{owned_prefix()}head"
    stale = alive.replace(str(os.getpid()), str(gone.pid), 1)
    options = ("--detach", "--rm", "--label", LABEL, "--network", "none", "--stop-timeout", "0")
    ulimits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
    for name in (stale, alive):
        podman(host, "run", *options, *ulimits, "--name", name, "--entrypoint", "sleep", host["EVENBENCH_IMAGE"], "600")
    try:
        assert run(repository, host) == {"quick/sum": "ok"}
        assert left(host, gone.pid) == []
        assert left(host, os.getpid()) == [alive]
    finally:
        podman(host, "rm", "--force", "--ignore", alive, stale)


# --------------------------------------------------------------------------------------------------------------- docker


@pytest.fixture
def docker(host: Host, tool: Callable[[str], str]) -> Iterator[Host]:
    """A machine that measures with docker's client; podman plays the daemon."""
    tool("docker")
    with tempfile.TemporaryDirectory(prefix="evb") as folder:  # short: a socket's path holds some 100 characters
        address = f"unix://{folder}/socket"
        command = ["podman", "system", "service", "--time", "0", address]
        with subprocess.Popen(command, env={**os.environ, **host}, stderr=subprocess.DEVNULL) as service:
            try:
                wait_until(Path(folder, "socket").exists)
                yield {**host, "EVENBENCH_LAUNCHER": "docker", "DOCKER_HOST": address}
            finally:
                service.terminate()


def test_docker_holds_the_same(repository: Repository, docker: Host) -> None:
    repository.commit({**first_and_next(HANG, timeout_s=2.0), "cases/c_inside.py": inside(IDENTITY, "inside/case")})
    found = run(repository, docker)
    assert "no progress within 2 s" in found.pop("first/case")
    assert found == {"next/case": "ok", "inside/case": "ok"}


def test_no_container_of_docker_outlives_its_driver(repository: Repository, docker: Host) -> None:
    test_no_container_outlives_its_driver(repository, docker, signal.SIGKILL)


# ------------------------------------------------------------------------------------------------------------ the stack

COMPILES = """
    import os
    import torch
    from evenbench import Bench, case

    @case("torch/compiled", device="cpu", rtol=1e-5, atol=1e-6, timeout_s=300)
    def compiled(p, device):
        x = torch.arange(10_000, dtype=torch.float32)
        function = torch.compile(lambda x: torch.nn.functional.gelu(x * 0.001).sum())
        function(x)
        assert any(name.endswith(".so") for _, _, files in os.walk("/cache/inductor") for name in files)
        return Bench(run=lambda: function(x), inputs={"x": x},
                     reference=lambda: torch.nn.functional.gelu(x * 0.001).sum())
"""


def test_torch_compiles_as_the_user_of_the_image(repository: Repository, host: Host) -> None:
    repository.commit({"cases/quick.py": "", "cases/compiled.py": COMPILES})
    assert run(repository, {**host, "EVENBENCH_MEMORY_GIB": "4"}) == {"torch/compiled": "ok"}


# -------------------------------------------------------------------------------------------------- what the host decides


def test_only_images_that_the_machine_allows(repository: Repository, host: Host) -> None:
    repository.commit({"cases/suites.yaml": suites(f"image: ghcr.io/evil/image@sha256:{'0' * 64}")})
    done = repository.evenbench(
        "compare", "HEAD", "HEAD", **{**host, "EVENBENCH_IMAGES": "ghcr.io/evil/image2,ghcr.io/me/"}
    )
    assert done.returncode == 2
    assert "is not allowed on this machine" in done.stderr


def test_the_command_line_cannot_leave_the_sandbox(repository: Repository, host: Host) -> None:
    done = repository.evenbench("compare", "HEAD", "HEAD", "--launcher", "local", **host)
    assert done.returncode == 2
    assert "this machine measures with podman" in done.stderr


def test_an_image_of_another_version_is_refused(
    repository: Repository, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenbench.runner.errors import UnfitMachine
    from evenbench.runner.launchers import container
    from evenbench.runner.launchers.sandbox import Limits

    for name, value in host.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(container, "__version__", "99.0")
    with (
        pytest.raises(UnfitMachine, match="this is 99.0"),
        container.ContainerLauncher("podman", host["EVENBENCH_IMAGE"], "", Limits(1 << 30, 2)),
    ):
        pass
