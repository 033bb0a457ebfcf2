"""How launches start: one interface, whatever holds the processes.

A `Launcher` makes sides ready and opens one `Session` a side. A session holds the side's warm parent; `launch` starts
one launch in it and yields its messages. `LocalLauncher` has plain processes, `evenbench.runner.launchers.container` containers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ..process.bounded import Finished
from ..sides import Checkout, Side, Sides, SideSpec
from ..sides.side import run_python
from .probes import probe_here
from .session import Message, ParentSession, Started, kill_process_group

__all__ = ["Launcher", "LocalLauncher", "Message", "Session"]


class Session(Protocol):
    """One side's launches."""

    def warm(self, preload: Sequence[str]) -> Message:
        """Import torch and `preload` in the parent; returns its `warm` message."""

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        """Start a launch and yield its messages; the last is always `exit`.

        `timeout_s` is the longest deadline of one case: longer silence is a dead parent.
        """

    def output_tail(self) -> str:
        """The end of what the last launch printed."""

    def close(self) -> None:
        """End the parent and whatever it started."""

    def abandon(self) -> None:
        """End the launch under way in another thread, which then raises `Abandoned`; none follows."""


class Launcher(Protocol):
    """Where a run's sides live. A context: what it made for them is gone when it is left."""

    image: str
    """The container image, by what it holds; empty for none."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def prepare(self, sides: Sides, checkout: Checkout, spec: SideSpec, setup: str) -> Side:
        """Make a side ready to launch; see `evenbench.runner.sides.prepare`."""

    def run_python(self, side: Side, arguments: Sequence[str], keep: int, timeout_s: float) -> Finished:
        """Run a side's Python to its end; `keep` bytes of its output are kept."""

    def run_probes(self, device: str, gpu: str, timeout_s: float) -> Finished:
        """Run the process that measures a device's ceilings to its end, without a side; see `evenbench.runner.launchers.probes`."""

    def root_of_cases(self, side: Side, owner: Side) -> Path:
        """Where the processes of a side find the tree of `owner`, whose cases they run."""

    def open(self, side: Side, owner: Side, gpu: str) -> Session:
        """A session for a side on a GPU (its UUID, or empty), which runs the cases of `owner`: most often of itself."""


class LocalLauncher:
    """Launches as plain processes of this machine: for one's own code, not for a stranger's.

    Args:
        image: the container image that this machine is itself, where it says so.
    """

    def __init__(self, image: str = "") -> None:
        self.image = image

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def prepare(self, sides: Sides, checkout: Checkout, spec: SideSpec, setup: str) -> Side:
        """See `Launcher.prepare`."""
        return sides.prepare(checkout, spec, setup)

    def run_python(self, side: Side, arguments: Sequence[str], keep: int, timeout_s: float) -> Finished:
        """See `Launcher.run_python`."""
        return run_python(side, arguments, keep, timeout_s)

    def run_probes(self, device: str, gpu: str, timeout_s: float) -> Finished:
        """See `Launcher.run_probes`."""
        return probe_here(device, gpu, timeout_s)

    def root_of_cases(self, side: Side, owner: Side) -> Path:  # noqa: ARG002 - all see the same files
        """See `Launcher.root_of_cases`."""
        return owner.root

    def open(self, side: Side, owner: Side, gpu: str) -> ParentSession:  # noqa: ARG002 - as above
        """Start the side's warm parent."""
        environment = dict(side.environment)
        if gpu:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        worker = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"

        def start() -> Started:
            process = subprocess.Popen(
                [str(side.python), "-P", str(worker)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=side.root,
                start_new_session=True,
            )
            return Started(process, lambda: kill_process_group(process))

        return ParentSession(side.root, start)
