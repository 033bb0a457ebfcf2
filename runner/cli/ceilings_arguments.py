"""The grammar of ceilings: the verb's own, and what runs are told about them. Nothing is done here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from ..host_settings import LauncherName


def add_to_ceilings(verb: argparse.ArgumentParser) -> None:
    """The options of the verb `ceilings`."""
    verb.add_argument("--device", choices=("cpu", "cuda"), help="default: a GPU where there is one")
    verb.add_argument("--gpu", metavar="INDEX|UUID", help="default: the first that is visible")
    verb.add_argument("--json", action="store_true", help="as JSON")
    verb.add_argument("--plot", type=Path, metavar="FILE", help="also draw them: .svg or .png")
    verb.add_argument(
        "--results", type=Path, action="append", default=[], metavar="RESULTS", help="with --plot: draw these rows too"
    )
    verb.add_argument("--refresh", action="store_true", help="measure anew, and keep that instead")
    verb.add_argument("--no-cache", action="store_true", help="measure anew; neither read nor keep anything")
    verb.add_argument(
        "--launcher", choices=get_args(LauncherName), help="where they are measured; default: as this machine demands"
    )
    verb.add_argument("--ignore-unfit", action="store_true", help="measure where the machine is not fit")


def add_to_run(verb: argparse.ArgumentParser) -> None:
    """The option of every verb that measures."""
    verb.add_argument(
        "--no-ceilings",
        dest="ceilings",
        action="store_const",
        const=False,
        help="neither measure what the GPU reaches nor show shares of it",
    )
