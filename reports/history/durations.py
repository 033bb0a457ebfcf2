"""What each case takes of a launch, out of the files of earlier runs: by it cases are spread over machines and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evenbench.runner.errors import UsageError

from ..load.proofs import moment
from ..load.results import load_file
from . import store as history_store
from .rows import costs, of_cases

LONG_AGO = datetime.fromtimestamp(0, UTC)


def durations(paths: Sequence[Path]) -> dict[str, float]:
    """Nanoseconds of a launch for each case that is known; where several files know one, the newest holds.

    Args:
        paths: results files, whole or not, and directories of `evenbench history`, which may be empty still.

    Raises:
        UsageError: no such path, or DuckDB is missing for a history.
        UntrustedInput: a file is not what it says.
    """
    found: list[tuple[datetime, dict[str, float]]] = []
    for path in paths:
        if path.is_dir():
            found += history_store.durations_in(path)
        elif path.exists():
            results = load_file(path)
            found.append((moment(results.header.started) or LONG_AGO, of_cases(costs(results))))
        else:
            raise UsageError(f"--durations {path}: no such file", "name results files, or the directory of a history")
    newest: dict[str, float] = {}
    for _, known in sorted(found, key=lambda each: each[0]):
        newest |= known
    return newest
