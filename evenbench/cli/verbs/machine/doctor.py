"""The verb doctor: whether this machine is fit to measure, or to be a GitHub runner."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evenbench.runner.errors import EXIT_OK, UnfitMachine, UsageError
from evenbench.runner.machine import doctor


def examine(options: argparse.Namespace) -> int:
    """Print what the doctor found."""
    if options.host and options.python is not None:
        raise UsageError("--host looks at no interpreter: torch and CUPTI are in the image", "leave --python out")
    if options.runner is not None and not options.host:
        raise UsageError("--runner belongs to --host", "evenbench doctor --host --runner DIR")
    if options.host:
        checks = doctor.examine_host(options.gpu, options.runner or Path.cwd())
    else:
        checks = doctor.examine(options.gpu, options.python)
    if options.json:
        print(json.dumps([check.as_dict() for check in checks], indent=1))
    else:
        for check in checks:
            print(check.line())
    unfit = [check for check in checks if check.state == "unfit"]
    if unfit:
        raise UnfitMachine(
            f"{len(unfit)} of {len(checks)} checks say unfit: {', '.join(check.name for check in unfit)}"
        )
    return EXIT_OK


def add_doctor_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `doctor`."""
    verb.add_argument("--gpu", metavar="INDEX|UUID", help="default: the first that is visible")
    verb.add_argument("--python", type=Path, metavar="PATH", help="interpreter whose torch and CUPTI are looked at")
    verb.add_argument(
        "--host", action="store_true", help="can this machine be GitHub's runner; asked as its user, in its environment"
    )
    verb.add_argument("--runner", type=Path, metavar="DIR", help="with --host: GitHub's runner; default: this folder")
    verb.add_argument("--json", action="store_true", help="as JSON")
