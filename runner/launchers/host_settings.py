"""What the machine that measures decides, and nobody else: where launches run, and in which images.

Read from the environment of the driver, which its operator sets. Neither a workflow's inputs nor head's suites.yaml
reach it, or a pull request could ask to be measured outside of the sandbox, or in an image of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..errors import UsageError
from .sandbox import NO_NETWORK

LauncherName: TypeAlias = Literal["local", "docker", "podman"]

LAUNCHER, IMAGE, IMAGES = "EVENBENCH_LAUNCHER", "EVENBENCH_IMAGE", "EVENBENCH_IMAGES"
SETUP_NETWORK, MEMORY = "EVENBENCH_SETUP_NETWORK", "EVENBENCH_MEMORY_GIB"
GIB = 1 << 30
MEMORY_MIN_GIB, MEMORY_MAX_GIB = 0.25, 65_536.0  # less does not hold Python and numpy; more no machine has

# A reference as docker and podman know it: host and folders, then a tag or a digest or both. Never an option.
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<repository>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?/)?{_PART}(?:/{_PART})*)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?",
)
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class HostSettings:
    """The settings of this machine.

    Args:
        launcher: how launches must start; None where that is left to the command line.
        image: taken where suites.yaml of base names none, and allowed.
        images: allowed besides: a whole reference; or a repository, or a folder of them that ends with ``/``, whose
            images must then be named by digest.
        setup_network: a network of the engine that set-ups may use; `NO_NETWORK` for none.
        memory: bytes a container may use; None for a share of what there is.
    """

    launcher: LauncherName | None = None
    image: str = ""
    images: tuple[str, ...] = ()
    setup_network: str = NO_NETWORK
    memory: int | None = None

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> HostSettings:
        """The settings in the environment; empty variables count as not set.

        Raises:
            UsageError: a variable that says nothing sensible.
        """
        found = {name: environ.get(name, "").strip() for name in (LAUNCHER, IMAGE, IMAGES, SETUP_NETWORK, MEMORY)}
        launcher = next((name for name in get_args(LauncherName) if name == found[LAUNCHER]), None)
        if found[LAUNCHER] and launcher is None:
            raise UsageError(f"{LAUNCHER}={found[LAUNCHER]}: must be local, docker or podman")
        network = found[SETUP_NETWORK] or NO_NETWORK
        if not _NETWORK.fullmatch(network):
            raise UsageError(f"{SETUP_NETWORK}={network}: is no name of a network")
        return cls(
            launcher, found[IMAGE], tuple(found[IMAGES].replace(",", " ").split()), network, _memory(found[MEMORY])
        )

    def launcher_for(self, asked: LauncherName | None) -> LauncherName:
        """The launcher of a run.

        Raises:
            UsageError: another one is asked for than this machine demands.
        """
        if self.launcher is not None and asked not in (None, self.launcher):
            raise UsageError(
                f"--launcher {asked}: this machine measures with {self.launcher}", f"{LAUNCHER} of the machine says so"
            )
        return self.launcher or asked or "local"

    def image_for(self, wanted: str) -> str:
        """The image of a run, where base's suites.yaml wants one; empty: it wants none.

        Raises:
            UsageError: there is none, or this machine does not allow it.
        """
        image = wanted or self.image
        if not image:
            raise UsageError(
                "no image for the sandbox is named", f"set {IMAGE} on this machine, or `image` in base's suites.yaml"
            )
        if not _REFERENCE.fullmatch(image):
            raise UsageError(f"image: {image!r} is no image's name")
        if image != self.image and not any(allows(entry, image) for entry in self.images):
            raise UsageError(
                f"image {image} is not allowed on this machine",
                f"{IMAGES} of the machine lists what is; by repository only images named by digest",
            )
        return image


def allows(entry: str, image: str) -> bool:
    """Whether an entry of the allowed images stands for this image."""
    found = _REFERENCE.fullmatch(image)
    if image == entry or found is None:
        return image == entry
    repository = found["repository"]
    return found["digest"] is not None and (
        repository.startswith(entry) if entry.endswith("/") else repository == entry
    )


def _memory(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) or not MEMORY_MIN_GIB <= float(text) <= MEMORY_MAX_GIB:
        raise UsageError(f"{MEMORY}={text}: must be a number of GiB from {MEMORY_MIN_GIB:g} to {MEMORY_MAX_GIB:g}")
    return int(float(text) * GIB)
