"""Reads what a GitHub runner for code of pull requests depends on, for the checks beside this module.

Everything is read as the user, and in the environment, in which it is started: those of the runner's service, or the
answers mean nothing. docs/runner.md shows how.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ....process.bounded import Finished
from ....sides.checkouts import is_stale, stale_folders
from ...gpus import Gpu, choose_gpu
from ..check import Check, Probes
from ..gpu import gpu_checks
from ..host import host_checks
from . import engine as engines
from . import gpu as gpus
from . import runner as runners

FILE_MAX = 4 << 20  # bytes read of a file; a CDI specification of eight GPUs has some 100 kB
CDI_FOLDERS = ("etc/cdi", "run/cdi")  # written by hand, and by NVIDIA's nvidia-cdi-refresh.service


def _this_user() -> runners.User:
    user = os.geteuid()
    try:
        entry = pwd.getpwuid(user)
        name, home = entry.pw_name, entry.pw_dir
    except KeyError:  # a number without an entry, as `docker run --user` makes it
        name, home = str(user), os.environ.get("HOME", "/")
    groups = []
    for number in {os.getegid(), *os.getgroups()}:
        try:
            groups.append(grp.getgrgid(number).gr_name)
        except KeyError:
            groups.append(str(number))
    return runners.User(user, name, Path(home), tuple(sorted(groups)))


def _room(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


@dataclass(frozen=True)
class Host:
    """Where the answers come from, beside the doctor's `Probes`; tests pass their own.

    Attributes:
        user: whose rights and home are checked.
        room: free bytes of a folder, which need not be writable; raises OSError.
        root: where ``/proc``, ``/etc`` and ``/run`` are.
    """

    probes: Probes
    user: Callable[[], runners.User] = _this_user
    room: Callable[[Path], int] = _room
    root: Path = Path("/")

    def ask(self, *command: str) -> Finished:
        """How a program ended, and its output."""
        return self.probes.run(command, self.probes.environ, 20.0)  # seconds: a new engine reads its store first


def examine_host(gpu: str | None, folder: Path, host: Host | None = None) -> list[Check]:
    """Check everything that a runner depends on. torch and CUPTI are in the image, whose own doctor checks them.

    Args:
        gpu: ``--gpu``, as for the doctor; None: the first visible GPU.
        folder: the folder of GitHub's runner.
        host: where answers come from; default: this machine.

    Raises:
        UsageError: no such GPU.
    """
    host, folder = host or Host(Probes(os.environ)), folder.resolve()
    # GitHub's runner puts the lines of .env over the environment of its service, without quotes or comments.
    lines = (line.partition("=") for line in (_text(folder / ".env") or "").splitlines())
    settings = {**host.probes.environ, **{name: value for name, equals, value in lines if name and equals}}
    present = host.probes.gpus()
    chosen = choose_gpu(gpu, present, settings.get("CUDA_VISIBLE_DEVICES"))
    return [
        *host_checks(host.probes),
        runners.clock_sync(host.ask("timedatectl", "show", "--property=NTPSynchronized", "--value")),
        *(gpus.exclusive(check) if check.name == "compute mode" else check
          for check in gpu_checks(chosen, present, host.probes)),
        *(_gpu(chosen, host) if chosen else ()),
        *_containers(chosen, settings, host),
        *_runner(folder, settings, host),
    ]  # fmt: skip


def _gpu(gpu: Gpu, host: Host) -> list[Check]:
    smi = ("nvidia-smi", f"--id={gpu.uuid}", "--format=csv,noheader,nounits")
    return [
        gpus.driver(gpu.driver),
        gpus.processes(host.ask(*smi, "--query-compute-apps=pid,process_name,used_memory")),
        gpus.clock_policy(host.ask(*smi, "--query-gpu=power.limit,power.default_limit,clocks.max.sm")),
        gpus.profiling(_text(host.root / "proc/driver/nvidia/params")),
    ]


def _containers(gpu: Gpu | None, settings: Mapping[str, str], host: Host) -> list[Check]:
    name = settings.get("EVENBENCH_LAUNCHER", "")
    checks = [engines.launcher(settings), engines.images(settings)]
    folders = _stale(host)
    if name not in engines.ENGINES:
        return [*checks, engines.leftovers({}, folders, is_stale)]
    answer = host.ask(*engines.INFO[name])
    engine = engines.read_engine(name, answer)
    checks += engines.engine_checks(name, engine, answer, _free(engine, host))
    if gpu is not None:
        checks.append(engines.toolkit(host.ask("nvidia-ctk", "--version")))
    if gpu is not None and name == "podman":
        checks.append(engines.cdi(_cdi_specs(host.root), gpu.uuid, gpu.driver))
    if engine is not None:
        listed = {kind: host.ask(name, *words) for kind, words in engines.LISTS.items()}
        checks.append(engines.leftovers(listed, folders, is_stale))
    return checks


def _stale(host: Host) -> list[str]:
    """Folders of this user's killed runs; those of another user are for another runner to sweep."""
    try:
        folders = stale_folders(Path(host.probes.temporary()))
        return [path.name for path in folders if path.stat().st_uid == host.user().uid]
    except OSError:
        return []


def _free(engine: engines.Engine | None, host: Host) -> int | None:
    try:
        return host.room(engine.store) if engine and engine.store else None
    except OSError:
        return None


def _cdi_specs(root: Path) -> dict[str, str]:
    specs = {}
    for folder in CDI_FOLDERS:
        for path in sorted((root / folder).glob("*")):
            text = _text(path) if path.suffix in {".yaml", ".json"} else None
            if text is not None:
                specs[f"/{path.relative_to(root)}"] = text
    return specs


def _runner(folder: Path, settings: Mapping[str, str], host: Host) -> list[Check]:
    user = host.user()
    return [
        runners.account(user, host.ask("sudo", "-n", "true")),
        runners.credentials(_credential_files(user.home), settings),
        runners.ephemeral(_text(folder / ".runner"), folder, settings),
        runners.job_hooks([_hook(variable, settings.get(variable, "")) for variable in runners.HOOKS], folder),
    ]


def _credential_files(home: Path) -> list[str]:
    names = []
    for pattern in runners.CREDENTIAL_FILES:
        for path in sorted(home.glob(pattern)):
            name = path.relative_to(home).as_posix()
            if path.is_file() and runners.WITHOUT_SECRETS.get(name, "") in (_text(path) or ""):
                names.append(f"~/{name}")
    return names


def _hook(variable: str, path: str) -> runners.Hook:
    if not path.startswith("/"):
        return runners.Hook(variable, path)
    script = Path(path)
    places = {script, *script.parents, script.resolve(), *script.resolve().parents}
    return runners.Hook(
        variable,
        path,
        there=script.is_file(),
        executable=os.access(script, os.X_OK),
        replaceable=any(os.access(place, os.W_OK) for place in places),
    )


def _text(path: Path) -> str | None:
    """The beginning of a file; None where it cannot be read, or is a pipe, on which a read would wait."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(FILE_MAX).decode("utf-8", "replace")
    except OSError:
        return None
