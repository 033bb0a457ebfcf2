"""argparse as this command line has it: complaints are errors like any other, and a verb's help says what it is for."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from evenbench.runner.errors import UsageError


class Verbs(argparse._SubParsersAction):  # type: ignore[type-arg]  # noqa: SLF001 - argparse has no public name for it
    """Verbs whose own help begins with what the list of verbs says of them."""

    def add_parser(self, name: str, **how: Any) -> Any:
        """As argparse does it."""
        return super().add_parser(name, **{"description": f"{how['help'][:1].upper()}{how['help'][1:]}.", **how})


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like any other: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(message, f"{self.prog} --help")

    def add_subparsers(self, **how: Any) -> Any:
        """As argparse does it, of `Verbs`."""
        return super().add_subparsers(action=Verbs, **how)
