"""The image, built from the real Dockerfile once per machine, and the podman that knows it.

`scripts/image-test` and `scripts/test` build it before their tests and name it in `EVENBENCH_IMAGE_BUILT`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "scripts" / "image-test"
CANNOT = 77  # what it ends with where the machine cannot build images
PATIENCE_S = 1800.0  # for a first build; later ones take seconds


@cache
def _build() -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"EVENBENCH_PYTHON": sys.executable}
    command = [str(BUILD), "build"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )  # fmt: skip


def _built() -> tuple[str, str]:
    """The image's name and the folder of its podman. Skips the test where the machine cannot; in CI that fails."""
    if built := os.environ.get("EVENBENCH_IMAGE_BUILT"):
        name, folder = built.split()
        return name, folder
    done = _build()
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    name, folder = done.stdout.split()
    return name, folder


def image() -> str:
    """Its name, for the podman of `engine_path`."""
    return _built()[0]


def engine_path() -> str:
    """PATH with the podman that knows the image first."""
    return os.pathsep.join([_built()[1], os.environ["PATH"]])
