"""Inside a container of the sandbox: make the side of the checkout that is mounted there, and start its processes.

Run by the image's Python as ``python -P -m runner.sides.inside COMMAND …``; each command ends in another program, so
that nothing of ours stands between the container's streams and that program.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..sandbox import CACHE, ENVIRONMENT, ROOT, SOURCE
from .environments import make_environment, shared_paths, side_variables

PYTHON = Path(ENVIRONMENT) / "bin" / "python"


def main(arguments: Sequence[str]) -> None:
    """`version`, `setup COMMAND`, `python ARGUMENT…` or `launches`."""
    match arguments:
        case ["version"]:
            sys.stdout.write(f"{__version__}\n")
        case ["setup", command]:
            make_side(with_pip=bool(command))
            if command:
                _become(Path("/bin/sh"), "-c", command)
        case ["python", *rest]:
            _become(PYTHON, *rest)
        case ["launches"]:
            worker = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"
            _become(PYTHON, "-P", str(worker), "alone")
        case _:
            sys.exit(f"unknown command: {' '.join(arguments)}")


def make_side(*, with_pip: bool) -> None:
    """A writable copy of the checkout, and an environment that also sees the image's packages."""
    root = Path(ROOT)
    shutil.copytree(SOURCE, root, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    make_environment(Path(ENVIRONMENT), shared_paths(os.environ, root, root), with_pip=with_pip)


def _become(program: Path, *arguments: str) -> None:
    """Turn into another program, in the side's tree and with the side's variables."""
    variables = side_variables(os.environ, PYTHON, Path(CACHE))
    Path(variables["HOME"]).mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    os.execve(program, [str(program), *arguments], variables)  # noqa: S606 - no shell on purpose


if __name__ == "__main__":
    main(sys.argv[1:])
