"""Measuring a request, with progress on stderr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenbench.runner.execute import measuring
from evenbench.runner.plan.request import Request

from .console import ProgressConsole, changing, say
from .progress import ConsoleProgress


def open_cases(path: Path) -> Collection[str]:
    """The cases of a run under way that another look may still decide, as its file tells."""
    from evenbench.reports.compare.open_cases import open_cases as judge
    from evenbench.reports.load.results import load_files

    return judge(load_files([path]), datetime.now(UTC).date())


def measure(request: Request, judge: Callable[[Path], Collection[str]] | None = open_cases) -> measuring.Done:
    """Measure, with progress on stderr; says how an interrupted run can be taken up. Without a judge no case goes on."""
    console = ProgressConsole(stderr=True)

    @contextlib.contextmanager
    def progress(launches: int) -> Any:
        with ConsoleProgress(console, launches, live=changing()) as shown:
            yield shown

    try:
        done = measuring.measure(request, progress, say, judge)
    except KeyboardInterrupt:
        if request.output.exists():
            first = request.beside[0] if request.confirms else request.output
            whole = f"the first run is whole, in {first}; " if request.confirms else ""
            say(
                f"{whole}what was measured is in {request.output}; go on with the same command and --resume --output {first}"
            )
        raise
    for pattern in done.outcome.unmatched:
        say(f"note: the pattern {pattern!r} selects no case")
    return done
