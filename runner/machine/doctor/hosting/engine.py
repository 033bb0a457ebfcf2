"""Checks of the containers in which code of pull requests runs: engine, its rights and limits, GPU access, leftovers.

All pure: from the answers of engine and toolkit to checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import UsageError
from ....launchers.host_settings import IMAGE, IMAGES, LAUNCHER, HostSettings
from ....launchers.sandbox import LABEL
from ....process.bounded import Finished, readable
from ..check import Check, State, ending_of, one_line

ENGINES = ("docker", "podman")
STORE_MIN_GIB = 20.0  # the image unpacked, and for each side a copy, its environment and its compile caches
TOOLKIT_MIN = (1, 17, 8)  # the first without CVE-2025-23266, by which a container's image became root of the host
NEEDED_LIMITS = ("memory", "pids")  # without them a container may take the host with it
SHOWN = 4

RUNNER_DOC = "docs/runner.md"
INFO: Mapping[str, Sequence[str]] = {
    "docker": ("docker", "info", "--format", "{{json .}}"),
    "podman": ("podman", "info", "--format", "json"),
}
LISTS: Mapping[str, Sequence[str]] = {  # what may be left over → how an engine lists it, a name a line
    "container": ("ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}"),
    "volume": ("volume", "ls", "--filter", f"label={LABEL}", "--format", "{{.Name}}"),
}


@dataclass(frozen=True)
class Engine:
    """What an engine reports of itself.

    `rootless`: it runs with a user's rights; `remapped`: root of a container is another user outside. `missing`: the
    limits of `NEEDED_LIMITS` that it cannot set. `seccomp`: it filters the system calls of containers.
    """

    name: str
    version: str
    rootless: bool
    remapped: bool
    missing: tuple[str, ...]
    seccomp: bool
    store: Path | None


def read_engine(name: str, answer: Finished) -> Engine | None:
    """The answer of ``docker info`` or ``podman info`` as JSON; None where no engine answered."""
    try:
        info: Any = json.loads(answer.output)
        if answer.status != 0 or info.get("ServerErrors"):
            return None
        return _podman(info) if name == "podman" else _docker(info)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _podman(info: Any) -> Engine:
    host, security = info["host"], info["host"]["security"]
    missing = tuple(limit for limit in NEEDED_LIMITS if limit not in host["cgroupControllers"])
    if security["rootless"] and host["cgroupVersion"] != "v2":
        missing = NEEDED_LIMITS  # accepted, but not enforced
    return Engine(
        "podman",
        one_line(str(info["version"]["Version"])),
        bool(security["rootless"]),
        remapped=False,
        missing=missing,
        seccomp=bool(security["seccompEnabled"]),
        store=Path(info["store"]["graphRoot"]),
    )


def _docker(info: Any) -> Engine:
    options = {str(option).split(",")[0].removeprefix("name=") for option in info["SecurityOptions"] or ()}
    able = {"memory": bool(info["MemoryLimit"]), "pids": bool(info["PidsLimit"])}
    return Engine(
        "docker",
        one_line(str(info["ServerVersion"])),
        rootless="rootless" in options,
        remapped="userns" in options,
        missing=tuple(limit for limit in NEEDED_LIMITS if not able[limit]),
        seccomp="seccomp" in options,
        store=Path(info["DockerRootDir"]) if info.get("DockerRootDir") else None,
    )


def launcher(settings: Mapping[str, str]) -> Check:
    """Whether the host's settings start launches in containers."""
    should = f"one of {', '.join(ENGINES)}: otherwise code of pull requests runs as this user, with everything it can read and reach"
    fix = f"{LAUNCHER}=podman in the runner's settings"
    try:
        chosen = HostSettings.read(settings).launcher
    except UsageError as error:
        return Check("launcher", "unfit", one_line(error.message), should, fix)
    return Check("launcher", "fit" if chosen in ENGINES else "unfit", chosen or "not set", should, fix)


def images(settings: Mapping[str, str]) -> Check:
    """Whether the host restricts which images may run, so that no suites.yaml of a base can bring its own."""
    should = f"images in {IMAGE} and {IMAGES}, by digest or down to their owner"
    fix = f"{IMAGES}=ghcr.io/OWNER/ in the runner's settings"
    default, *prefixes = settings.get(IMAGE, "").strip(), *settings.get(IMAGES, "").replace(",", " ").split()
    listed = [*filter(None, [default]), *prefixes]
    if not listed:
        return Check("images", "unfit", "no image is allowed", should, fix)
    broad = [entry for entry in prefixes if re.fullmatch(r"[^/]*/+", entry)]
    moving = [
        entry for entry in listed if "@sha256:" not in entry and (entry == default or ":" in entry.split("/")[-1])
    ]
    if broad:
        return Check("images", "unfit", one_line(f"{', '.join(broad)}: a whole registry"), should, fix)
    if moving:
        return Check(
            "images", "note", one_line(f"{', '.join(moving)}: not by digest, so its contents may change"), should, fix
        )
    return Check("images", "fit", one_line(", ".join(listed)), should, fix)


def engine_checks(name: str, engine: Engine | None, answer: Finished, free_bytes: int | None) -> list[Check]:
    """Whether the engine answers this user, what an escape would gain, and whether its limits are enforced.

    Args:
        engine: what it reports; None where it does not answer.
        answer: from which that was read.
        free_bytes: free space where it stores images and volumes; None where that cannot be read.
    """
    should = "answers this user"
    if engine is None:
        fix = f"start {name}, and let this user reach it: {RUNNER_DOC}, step 4"
        return [Check("engine", "unfit", f"{name}: {ending_of(answer)}", should, fix)]
    return [
        Check("engine", "fit", f"{name} {engine.version}", should, ""),
        _rights(engine),
        _limits(engine),
        _seccomp(engine),
        _store(engine, free_bytes),
    ]


def _rights(engine: Engine) -> Check:
    should = "rootless: code that breaks out of a container has the rights of this user at most"
    if engine.rootless:
        return Check("engine rights", "fit", "rootless", should, "")
    root = "runs as root, and this user may request anything of it: as good as root"
    read = f"{root} (containers are remapped)" if engine.remapped else root
    return Check("engine rights", "note", read, should, f"rootless podman: {RUNNER_DOC}, step 4")


def _limits(engine: Engine) -> Check:
    should = "enforced limits of memory and processes"
    if not engine.missing:
        return Check("engine limits", "fit", ", ".join(NEEDED_LIMITS), should, "")
    fix = "cgroup v2 with memory and pids delegated to this user (loginctl enable-linger, XDG_RUNTIME_DIR in its settings)"
    return Check("engine limits", "unfit", f"cannot limit {' and '.join(engine.missing)}", should, fix)


def _seccomp(engine: Engine) -> Check:
    should, fix = "on: it keeps containers from rare system calls, where kernels are weak", "turn it on again"
    return Check("engine seccomp", "fit" if engine.seccomp else "unfit", "on" if engine.seccomp else "off", should, fix)


def _store(engine: Engine, free_bytes: int | None) -> Check:
    should = f"{STORE_MIN_GIB:g} GiB free for the image, copies and caches"
    if free_bytes is None or engine.store is None:
        return Check("engine store", "note", f"room cannot be read: {engine.store or 'no folder told'}", should, "")
    free = free_bytes / (1 << 30)
    state: State = "fit" if free >= STORE_MIN_GIB else "unfit"
    fix = f"make room: {engine.name} system prune"
    return Check("engine store", state, one_line(f"{engine.store}: {free:.1f} GiB free"), should, fix)


def toolkit(answer: Finished) -> Check:
    """NVIDIA's container toolkit, which gives containers the GPU: present, and without known escapes.

    Args:
        answer: of ``nvidia-ctk --version``.
    """
    should = f"at least {'.'.join(map(str, TOOLKIT_MIN))}: older ones let an image become root of the host"
    fix = f"install nvidia-container-toolkit: {RUNNER_DOC}, step 3"
    match = re.search(r"\b(\d{1,4})\.(\d{1,4})\.(\d{1,4})", answer.output.decode("utf-8", "replace"), re.ASCII)
    if answer.status != 0 or match is None:
        return Check("toolkit", "unfit", ending_of(answer), should, fix)
    version = tuple(map(int, match.groups()))
    return Check("toolkit", "fit" if version >= TOOLKIT_MIN else "unfit", match[0], should, fix)


def cdi(specs: Mapping[str, str], uuid: str, driver: str) -> Check:
    """Whether podman finds the GPU: a CDI specification that names it, made for the driver that is loaded.

    Args:
        specs: path → text of the specifications, YAML or JSON.
    """
    should = f"names {uuid}, for driver {driver}"
    fix = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, as root, after each change of the driver"
    ours = {path: text for path, text in specs.items() if re.search(r"nvidia\.com/gpu\b", text)}
    if not ours:
        return Check("CDI", "unfit", "no specification for nvidia.com/gpu", should, fix)
    naming = [path for path, text in ours.items() if re.search(rf"\bname\"?: *\"?{re.escape(uuid)}\b", text)]
    if not naming:
        return Check("CDI", "unfit", one_line(f"{', '.join(ours)}: does not name this GPU"), should, fix)
    libraries = set()
    for path in naming:
        libraries.update(re.findall(r"libcuda\.so\.(\d+\.[\d.]*\d)", ours[path]))
    stale = bool(libraries) and driver not in libraries
    read = ", ".join(naming)
    if libraries:
        read += f", for driver {min(libraries)}"
    return Check("CDI", "unfit" if stale else "fit", one_line(read), should, fix)


def leftovers(listed: Mapping[str, Finished], folders: Sequence[str], stale: Callable[[str], bool]) -> Check:
    """Containers, volumes and folders of runs that were killed.

    Args:
        listed: kind → the engine's list of names, one a line; also those of a run in progress.
        folders: evenbench's folders in the temporary folder whose process is gone.
        stale: whether the process in a name is gone.
    """
    should, fix = "none", "run the hook's sweep.sh as this user"
    failed = [f"{kind} cannot be listed: {ending_of(answer)}" for kind, answer in listed.items() if answer.status != 0]
    if failed:
        return Check("leftovers", "unfit", "; ".join(failed), should, fix)
    names: list[str] = []
    for kind, answer in listed.items():
        names += [f"{kind} {one_line(name)}" for name in readable(answer.output) if stale(name)]
    names += [f"folder {one_line(folder)}" for folder in folders]
    if not names:
        return Check("leftovers", "fit", "none", should, "")
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    state: State = "unfit" if any(name.startswith("container ") for name in names) else "note"
    return Check("leftovers", state, ", ".join(names[:SHOWN]) + more, should, fix)
