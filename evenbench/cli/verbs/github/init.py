"""The verb init: writes what a repository needs, and says what to do next."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath

from evenbench.runner.errors import EXIT_OK

from ....starter.files import Source, installed_source, write
from ...steps.console import say


def init(options: argparse.Namespace) -> int:
    """Write the files; what exists stays."""
    source = Source.parse(options.uses) if options.uses else installed_source()
    done = write(options.target, options.cases, source, force=options.force)
    for name in done.written:
        print(f"wrote {name}")
    for name in done.kept:
        print(f"kept  {name}, which was there already (--force overwrites it)")
    if done.left_out:
        say(
            f"not written, since it is not known here which commit of evenbench they shall use: {', '.join(done.left_out)}"
        )
        say("  (hint: the same command with --uses OWNER/REPOSITORY@COMMIT writes them too)")
    folder = PurePosixPath(options.cases)
    cases = "" if folder == PurePosixPath("cases") else f" --cases {folder}"
    print(
        f"\nNext:\n  evenbench run{cases}           measures the example\n"
        f"  put a case of your own beside it in {folder}/, and commit\n"
        f"  evenbench compare main{cases}  measures main against what you change from then on\n"
        "Pull requests: docs/setup.md of evenbench walks through GitHub's settings."
    )
    return EXIT_OK


def add_init_arguments(verb: argparse.ArgumentParser) -> None:
    """The arguments of `init`."""
    verb.add_argument(
        "--dir", dest="target", type=Path, default=Path(), metavar="DIR", help="the repository, instead of this one"
    )
    verb.add_argument(
        "--cases", default="cases", metavar="DIR", help="cases directory, relative to the repository; default: cases"
    )
    verb.add_argument("--force", action="store_true", help="overwrite files that exist")
    verb.add_argument(
        "--uses",
        metavar="OWNER/REPOSITORY@COMMIT",
        help="whose workflows are called; default: where this one comes from",
    )
