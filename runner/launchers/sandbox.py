"""The sandbox: limits and paths → the argument list for docker or podman. Pure.

What measured code can reach is written here and nowhere else. A container may write to `CACHE`, to its ``/tmp`` and
``/dev/shm``, while its side is made also to `SIDE`, and to nothing else; what it says leaves it by stdout and stderr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Engine: TypeAlias = Literal["docker", "podman"]

SOURCE = "/src"  # the checkout, read-only, while the side is made
SIDE = "/side"  # what is made of it: the copy and its environment
CACHE = "/cache"  # compile and tuning caches, and the home of its user
CASES_OWNER = "/owner"  # the side whose cases run here, where it is another
ROOT = f"{SIDE}/src"
ENVIRONMENT = f"{SIDE}/env"
IMAGE_PYTHON = "/opt/evenbench/bin/python"  # the interpreter that the image's evenbench is installed for
LABEL = "evenbench"  # on all that we make, so that it can be found and swept

USER = "10001:10001"  # of the image; owns nothing on the host
NO_NETWORK = "none"
PIDS_MAX = 512  # threads count: torch, the driver and two compile jobs a CPU of `THREADS_MAX` need about half
THREADS_MAX = 16  # of OpenMP, and of compile jobs: as many as the host has CPUs would use up PIDS_MAX on a large one
SHM = "1g"  # torch's worker processes pass tensors through it
TMP = "8g"  # compilers keep intermediate files there; counts as memory, so it is bounded by that as well
FILES_MAX = 16_384  # podman would ask for a million, which a host that may not raise its own limit refuses
PROCESSES_MAX = 16_384  # of the user on the whole host: what is left where cgroups cannot hold PIDS_MAX; see above
MEMORY_SHARE = 0.75  # of the host's memory: a hog must leave the driver and the other sides alive

PROXIES: Sequence[str] = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Mount:
    """A named volume, or a folder of the host, and where the container sees it."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Limits:
    """What a container may use of the host.

    Args:
        memory: bytes, swap and temporary files included.
        threads: of OpenMP and of compile jobs.
    """

    memory: int
    threads: int

    @classmethod
    def of_host(cls, memory: int, cpus: int, granted: int | None = None) -> Limits:
        """What was granted of a host's memory, else a share of it; and no more threads than serve."""
        return cls(memory=granted or int(memory * MEMORY_SHARE), threads=max(1, min(cpus, THREADS_MAX)))


@dataclass(frozen=True)
class Container:
    """One container.

    Args:
        name: by which the driver ends it.
        image: its id or digest; must be on the host already.
        arguments: what the image's Python runs.
        mounts: volumes and folders.
        gpu: UUID of the one GPU it sees; empty for none.
        network: of the engine's networks; `NO_NETWORK` for none.
    """

    name: str
    image: str
    arguments: Sequence[str]
    limits: Limits
    mounts: Sequence[Mount] = ()
    gpu: str = ""
    network: str = NO_NETWORK


def run_arguments(engine: Engine, container: Container) -> list[str]:
    """The command that runs a container in the foreground, its stdin and stdout ours, until its program ends."""
    return [
        engine, "run", "--rm", "--interactive", "--init", "--pull", "never",
        "--name", container.name, "--label", LABEL,
        *_isolation(engine, container),
        *_limits(container.limits),
        *_gpu(engine, container.gpu),
        *(word for mount in container.mounts for word in ("--volume", _volume(mount))),
        *(word for item in _variables(engine, container).items() for word in ("--env", "=".join(item))),
        "--entrypoint", IMAGE_PYTHON, container.image, *container.arguments,
    ]  # fmt: skip


def _isolation(engine: Engine, container: Container) -> list[str]:
    extra = []
    if engine == "podman":
        extra.append("--read-only-tmpfs=false")  # it would add writable places to a read-only container
        if container.network == NO_NETWORK:
            extra.append("--http-proxy=false")  # addresses of proxies hold passwords
    return [
        "--network", container.network,
        "--user", USER,
        "--read-only", *extra,
        "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges",
        "--no-healthcheck",  # nothing but the launch runs while it is measured
        "--log-driver", "none",  # the engine would keep on disk all that a launch prints
        "--stop-timeout", "0",  # what we end is foreign: it is killed, not asked
    ]  # fmt: skip


def _limits(limits: Limits) -> list[str]:
    memory = f"{limits.memory}b"
    return [
        "--pids-limit", str(PIDS_MAX),
        "--memory", memory, "--memory-swap", memory,  # both together: no swap
        "--shm-size", SHM,
        "--ulimit", "core=0",
        "--ulimit", f"nofile={FILES_MAX}:{FILES_MAX}",
        "--ulimit", f"nproc={PROCESSES_MAX}:{PROCESSES_MAX}",
        "--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={TMP}",  # noqa: S108 - the container's own
    ]  # fmt: skip


def _gpu(engine: Engine, uuid: str) -> list[str]:
    if not uuid:
        return []
    return ["--gpus", f"device={uuid}"] if engine == "docker" else ["--device", f"nvidia.com/gpu={uuid}"]


def _volume(mount: Mount) -> str:
    options = "" if mount.writable else ":ro"
    return f"{mount.source}:{mount.target}{options}"


def _variables(engine: Engine, container: Container) -> dict[str, str]:
    threads = str(container.limits.threads)
    found = {
        "HOME": f"{CACHE}/home",
        "TMPDIR": "/tmp",  # noqa: S108 - the container's own
        "OMP_NUM_THREADS": threads,
        "TORCHINDUCTOR_COMPILE_THREADS": threads,
        "MAX_JOBS": threads,  # of torch's extensions, built in a set-up
        "CMAKE_BUILD_PARALLEL_LEVEL": threads,
    }
    if engine == "docker" and container.network == NO_NETWORK:  # the client's own settings may add them
        found |= {name: "" for proxy in PROXIES for name in (proxy, proxy.lower())}
    if container.gpu:
        found["CUDA_VISIBLE_DEVICES"] = container.gpu
    return found


def faults(seen: Mapping[str, object], limits: Limits) -> list[str]:
    """Where a container is not what was asked for: an engine may lack the means for a limit, and start it all the same.

    Args:
        seen: from inside, by `evenbench.runner.launchers.inside.look`, before any foreign code.
    """
    memory, processes = seen.get("memory"), seen.get("processes")
    held = {
        f"it runs as {seen.get('user')}": seen.get("user") == USER,
        "it has capabilities": seen.get("capabilities") == 0,
        "it may gain privileges": seen.get("no_new_privileges") is True,
        "system calls are not filtered": seen.get("seccomp") is True,
        "its root can be written to": seen.get("read_only") is True,
        f"it has the network {seen.get('interfaces')}": seen.get("interfaces") == ["lo"],
        f"memory is limited to {memory}": isinstance(memory, int) and memory <= limits.memory,
        f"processes are limited to {processes}": isinstance(processes, int) and processes <= PIDS_MAX,
    }
    return [fault for fault, holds in held.items() if not holds]
