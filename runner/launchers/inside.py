"""Inside a container of the sandbox: make the side of the checkout that is mounted there, and start its processes.

Run by the image's Python as ``python -P -m evenbench.runner.launchers.inside COMMAND …``; each command ends in another program, so
that nothing of ours stands between the container's streams and that program.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..sides.environments import make_environment, shared_paths, side_variables
from .sandbox import CACHE, ENVIRONMENT, ROOT, SOURCE

CGROUP = Path("/sys/fs/cgroup")
SECCOMP_FILTER = "2"  # SECCOMP_MODE_FILTER of linux/seccomp.h
PYTHON = Path(ENVIRONMENT) / "bin" / "python"


def main(arguments: Sequence[str]) -> None:
    """`look`, `setup COMMAND`, `python ARGUMENT…`, `ceilings DEVICE` or `launches`."""
    match arguments:
        case ["look"]:
            sys.stdout.write(f"{json.dumps(look())}\n")
        case ["setup", command]:
            make_side(with_pip=bool(command))
            if command:
                _become(Path("/bin/sh"), "-e", "-c", command)
        case ["python", *rest]:
            _become(PYTHON, *rest)
        case ["ceilings", device]:
            probes = Path(__file__).resolve().parent.parent / "ceilings" / "probe" / "__main__.py"
            os.execv(sys.executable, [sys.executable, "-P", str(probes), device])  # noqa: S606 - as below; there is no side
        case ["launches"]:
            worker = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"
            _become(PYTHON, "-P", str(worker), "alone")
        case _:
            sys.exit(f"unknown command: {' '.join(arguments)}")


def look() -> dict[str, Any]:
    """What holds this process, as far as it can see; see `evenbench.runner.launchers.sandbox.faults`."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {
        "version": __version__,
        "user": f"{os.getuid()}:{os.getgid()}",
        "capabilities": max(int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")),
        "no_new_privileges": status.get("NoNewPrivs") == "1",
        "seccomp": status.get("Seccomp") == SECCOMP_FILTER,
        "read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "memory": _limit("memory.max", "memory/memory.limit_in_bytes"),
        "processes": _limit("pids.max", "pids/pids.max"),
    }


def _limit(*files: str) -> int | None:
    """A limit of this container's cgroup, of version 2 or 1; None for none."""
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            return int((CGROUP / file).read_text(encoding="ascii"))
    return None


def make_side(*, with_pip: bool) -> None:
    """A writable copy of the checkout, and an environment that also sees the image's packages."""
    root = Path(ROOT)
    linked = Path(SOURCE, ".git").is_file()  # to a repository that is not here
    shutil.copytree(SOURCE, root, symlinks=True, ignore=shutil.ignore_patterns(".git") if linked else None)
    make_environment(Path(ENVIRONMENT), shared_paths(os.environ, root, root), with_pip=with_pip)


def _become(program: Path, *arguments: str) -> None:
    """Turn into another program, in the side's tree and with the side's variables."""
    variables = side_variables(os.environ, PYTHON, Path(CACHE))
    Path(variables["HOME"]).mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    os.execve(program, [str(program), *arguments], variables)  # noqa: S606 - no shell on purpose


if __name__ == "__main__":
    main(sys.argv[1:])
