"""Launches in containers: one a side, alive for the run, with nothing of the host but the side's two volumes.

The side is made inside the sandbox as well. What comes back is the status and the output of its set-up, and the
messages of its launches; nothing is read from its file system.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import sleep
from types import TracebackType
from typing import Self

from .. import __version__
from ..errors import UnfitMachine, UsageError
from ..process.bounded import Finished, readable, run_bounded
from ..sides import Checkout, Side, Sides, SideSpec
from ..sides.checkouts import is_stale, owned_prefix
from ..sides.environments import SETUP_OUTPUT_MAX, SETUP_TIMEOUT_S, refuse_failed_setup
from ..sides.side import setup_of
from .host_settings import HostSettings, LauncherName
from .launcher import Launcher, LocalLauncher
from .sandbox import (
    CACHE,
    CASES_OWNER,
    ENVIRONMENT,
    LABEL,
    NO_NETWORK,
    ROOT,
    SIDE,
    SOURCE,
    Container,
    Engine,
    Limits,
    Mount,
    faults,
    run_arguments,
)
from .session import ParentSession, Started, kill_process_group

INSIDE: Sequence[str] = ("-P", "-m", "evenbench.runner.launchers.inside")  # run by the image's Python
ENGINE_S = 120.0  # for the engine's own work, on a busy host
PULL_S = 3600.0  # a stack of some gigabytes over a slow line
LOOK_S = 300.0  # the first start from an image on a cold disk
REASON_MAX = 500  # characters of the engine's last line
DOCTOR = "evenbench doctor --host says what this machine lacks"
OUTPUT_MAX = 256 << 10  # of the engine's own words: names of containers and volumes
SWEEPS = 4  # an engine's lists fail while another run removes what they list; that is over in a moment
SWEEP_PAUSE_S = 0.5  # before the second; before each later one as much more


def choose_launcher(asked: LauncherName | None, image: str, gpu: str, environ: Mapping[str, str]) -> Launcher:
    """The launcher of a run: what this machine demands, else what is asked for, else local.

    Args:
        asked: ``--launcher``.
        image: of base's suites.yaml; empty for none.
        gpu: UUID of the GPU that containers see where nothing is measured; empty for none.
        environ: holds the settings of this machine.

    Raises:
        UsageError: this machine demands another launcher, or does not allow the image.
        UnfitMachine: no such engine, or no such image.
    """
    host = HostSettings.read(environ)
    name = host.launcher_for(asked)
    if name == "local":
        return LocalLauncher(host.image)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = Limits.of_host(memory, os.cpu_count() or 1, host.memory)
    return ContainerLauncher(name, host.image_for(image), gpu, limits, setup_network=host.setup_network)


class ContainerLauncher:
    """Launches in docker's or podman's containers.

    Args:
        image: its reference. Its id is taken once, so that all sides run in the same one.
        gpu: UUID of the GPU that containers see where nothing is measured; empty for none.
        setup_network: of the engine, for set-ups alone.

    Raises:
        UnfitMachine: no such engine, or no such image.
    """

    def __init__(
        self, engine: Engine, image: str, gpu: str, limits: Limits, *, setup_network: str = NO_NETWORK
    ) -> None:
        self._engine: Engine = engine
        self._gpu = gpu
        self._limits = limits
        self._setup_network = setup_network
        self._prefix = f"{owned_prefix()}{secrets.token_hex(4)}-"
        self._numbers = itertools.count()
        if shutil.which(engine) is None:
            raise UnfitMachine(f"{engine} is not installed", "install it, or choose another --launcher")
        self._image_id = self._identify(image)
        self.image = image if "@" in image else f"{image}@{self._image_id}"

    def __enter__(self) -> Self:
        self._sweep(is_stale)
        self._prove()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sweep(lambda name: name.startswith(self._prefix))

    def prepare(self, sides: Sides, checkout: Checkout, spec: SideSpec, setup: str) -> Side:
        """Make a side in its volumes. No network, unless this machine grants one for set-ups.

        Raises:
            NothingMeasured: set-up failed.
            UsageError: an interpreter of this machine is asked for.
        """
        if spec.python:
            raise UsageError(
                f"--{spec.name}-python: the sandbox has the interpreter of its image alone", "use --launcher local"
            )
        command = setup_of(spec, setup)
        for volume in (self._volume(spec.name, SIDE), self._volume(spec.name, CACHE)):
            created = self._call("volume", "create", "--label", LABEL, volume)
            if created.status != 0:
                raise UnfitMachine(f"{self._engine} makes no volume: {_last_line(created)}", DOCTOR)
        mounts = [
            Mount(str(sides.source(checkout, with_git=bool(command))), SOURCE),
            *self._mounts(spec.name, making=True),
        ]
        if command:
            sides.say(f"{spec.name}: set-up: {command}")
        finished = self._run(
            self._container(f"{spec.name}-setup", ["setup", command], mounts, self._setup_network),
            SETUP_TIMEOUT_S,
            merge=True,
        )
        refuse_failed_setup(spec.name, command, finished, log=sides.say)
        python = Path(ENVIRONMENT) / "bin" / "python"
        return Side(spec.name, checkout, Path(ROOT), python, {}, Path(CACHE), private=Path(SIDE))

    def run_python(self, side: Side, arguments: Sequence[str], keep: int, timeout_s: float) -> Finished:
        """See `Launcher.run_python`."""
        container = self._container(f"{side.name}-python", ["python", *arguments], self._mounts(side.name))
        return self._run(container, timeout_s, keep=keep)

    def run_probes(self, device: str, gpu: str, timeout_s: float) -> Finished:
        """See `Launcher.run_probes`: in a container of its own."""
        return self._run(replace(self._container("ceilings", ["ceilings", device]), gpu=gpu), timeout_s)

    def root_of_cases(self, side: Side, owner: Side) -> Path:
        """See `Launcher.root_of_cases`."""
        return side.root if owner is side else Path(CASES_OWNER) / side.root.relative_to(SIDE)

    def open(self, side: Side, owner: Side, gpu: str) -> ParentSession:
        """Start the side's container with its warm parent."""
        mounts = self._mounts(side.name)
        if owner is not side:
            mounts.append(Mount(self._volume(owner.name, SIDE), CASES_OWNER))

        def start() -> Started:
            container = replace(self._container(f"{side.name}-launches", ["launches"], mounts), gpu=gpu)
            process = subprocess.Popen(
                run_arguments(self._engine, container),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

            def end() -> None:
                self._remove(container.name)
                kill_process_group(process)

            return Started(process, end)

        return ParentSession(side.root, start)

    def _prove(self) -> None:
        """Start the image once, without a side, and see that it is held as asked.

        Raises:
            UnfitMachine: it does not start, is not held, or has another version of evenbench.
        """
        finished = self._run(self._container("look", ["look"]), LOOK_S)
        try:
            seen = json.loads(finished.output) if finished.status == 0 else None
        except ValueError:
            seen = None
        if not isinstance(seen, dict):
            raise UnfitMachine(
                f"{self._engine} cannot start {self.image}: {_last_line(finished)}",
                f"it must be made from evenbench's image; {DOCTOR}",
            )
        if seen.get("version") != __version__:
            raise UnfitMachine(
                f"{self.image} holds evenbench {seen.get('version')}, this is {__version__}",
                "let both be of one version",
            )
        if wrong := faults(seen, self._limits):
            raise UnfitMachine(f"{self._engine} does not hold a container as it should: {'; '.join(wrong)}", DOCTOR)

    def _identify(self, image: str) -> str:
        """The id of an image, which is fetched where it is not there yet."""
        inspect = ("image", "inspect", "--format", "{{.Id}}", image)
        found = self._call(*inspect)
        if found.status != 0:
            pulled = self._call("pull", "--quiet", image, timeout_s=PULL_S)
            found = self._call(*inspect)
            if found.status != 0:
                reason = _last_line(pulled)
                raise UnfitMachine(f"{self._engine} has no image {image}: {reason}", f"{self._engine} pull {image}")
        return "sha256:" + found.output.decode().strip().removeprefix("sha256:")

    def _volume(self, side: str, purpose: str) -> str:
        return f"{self._prefix}{side}{purpose.replace('/', '-')}"

    def _mounts(self, side: str, *, making: bool = False) -> list[Mount]:
        return [
            Mount(self._volume(side, SIDE), SIDE, writable=making),
            Mount(self._volume(side, CACHE), CACHE, writable=True),
        ]

    def _container(
        self, purpose: str, arguments: Sequence[str], mounts: Sequence[Mount] = (), network: str = NO_NETWORK
    ) -> Container:
        name = f"{self._prefix}{purpose}-{next(self._numbers)}"
        return Container(name, self._image_id, (*INSIDE, *arguments), self._limits, mounts, self._gpu, network)

    def _run(
        self, container: Container, timeout_s: float, *, keep: int = SETUP_OUTPUT_MAX, merge: bool = False
    ) -> Finished:
        """Run a container to its end, which comes after so many seconds at the latest."""
        ended = False
        try:
            finished = run_bounded(
                run_arguments(self._engine, container),
                cwd=Path.cwd(),
                environment=os.environ,
                timeout_s=timeout_s,
                keep=keep,
                merge=merge,
            )
            ended = finished.status is not None
        finally:
            if not ended:
                self._remove(container.name)
        return finished

    def _call(self, *arguments: str, timeout_s: float = ENGINE_S) -> Finished:
        return run_bounded(
            [self._engine, *arguments], cwd=Path.cwd(), environment=os.environ, timeout_s=timeout_s, keep=OUTPUT_MAX
        )

    def _remove(self, container: str) -> Finished:
        return self._call("rm", "--force", container)  # also of one that is gone already

    def _sweep(self, ours: Callable[[str], bool]) -> None:
        """Remove the containers and volumes whose names are meant, as far as they are there."""
        for number in range(SWEEPS):
            sleep(number * SWEEP_PAUSE_S)
            if self._swept(ours):
                return

    def _swept(self, ours: Callable[[str], bool]) -> bool:
        """Once; whether the engine did all that it was asked for."""
        mine = ("--filter", f"label={LABEL}", "--format")
        lists = (self._call("ps", "--all", *mine, "{{.Names}}"), self._call("volume", "ls", *mine, "{{.Name}}"))
        containers, volumes = ([*filter(ours, each.output.decode("utf-8", "replace").split())] for each in lists)
        calls = [*lists, *map(self._remove, containers)]
        if volumes:
            calls.append(self._call("volume", "rm", "--force", *volumes))
        return all(call.status == 0 for call in calls)


def _last_line(finished: Finished) -> str:
    """What an engine said last of why it failed."""
    return (readable(finished.errors) or [f"exit status {finished.status}"])[-1][:REASON_MAX]
