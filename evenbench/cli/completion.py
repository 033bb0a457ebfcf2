"""`evenbench --print-completion SHELL`: a script by which that shell completes words after `evenbench`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

SHELLS = ("bash", "zsh", "fish")
# A side is a commit, by any of a repository's names for it as git lists them, or a directory. Names come from strangers
# whom one fetched from, and bash expands words that it is offered: of `$(…)` in one, at Tab, it would run the inside.
PLAIN = "command grep -Ev '^-|[^[:alnum:]_./@+=,#-]'"
REFS = f"git rev-parse --symbolic --branches --tags --remotes 2>/dev/null | {PLAIN}"
SIDES: Mapping[str, str | Mapping[str, str]] = {
    "bash": "_evenbench_side_or_dir",  # shtab lets bash take what is found by a name with _dir for a file's name
    "zsh": "_evenbench_side",
    "fish": f"({REFS}; __fish_complete_directories)",
    "preamble": {
        "bash": f'_evenbench_side_or_dir() {{ compgen -W "$({REFS})" -- "$1"; compgen -d -- "$1"; }}',
        "zsh": f'_evenbench_side() {{ compadd -- ${{(f)"$({REFS})"}}; _files -/ }}',
    },
}
FILE = re.compile(r"FILE|RESULTS|PATH|^[AB]$")  # what an argument takes, by the name that its help gives it
FOLDER = re.compile(r"DIR")
SIDE = re.compile(r"^BASE|HEAD|REF")


class PrintCompletion(argparse.Action):
    """Prints the script and ends the command."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - argparse gives it
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Raises SystemExit."""
        print(script(parser, str(values)), end="")
        parser.exit()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one of `SHELLS`, which shtab makes of the parser."""
    import shtab  # here alone: no other command needs it

    _tell(parser, ((FILE, shtab.FILE), (FOLDER, shtab.DIRECTORY), (SIDE, SIDES)))
    return shtab.complete(parser, shell)


def _tell(parser: argparse.ArgumentParser, kinds: Sequence[tuple[re.Pattern[str], Mapping[str, Any]]]) -> None:
    """Say of each argument of a parser, and of its verbs, whether it takes files, folders or commits."""
    for action in parser._actions:  # noqa: SLF001 - argparse shows them nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for verb in action.choices.values():
                _tell(verb, kinds)
        for name, complete in kinds:
            if isinstance(action.metavar, str) and name.search(action.metavar):
                action.complete = complete  # type: ignore[attr-defined]  # where shtab looks for it
                break
