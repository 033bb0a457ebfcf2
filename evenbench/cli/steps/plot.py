"""`--plot FILE`: a device's peaks with the cases that ran on it, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evenbench.runner.errors import UsageError
from evenbench.runner.records import CeilingsEvent

from .console import say


def plot_results(path: Path, results: Sequence[Path]) -> None:
    """The peaks that stand in a run's files, with its rows; head's of two sides. Raises UsageError, UntrustedInput."""
    from evenbench.reports.compare.report import measured
    from evenbench.reports.load.results import load_runs
    from evenbench.reports.render.charts.picture import check_plot, write_plot
    from evenbench.reports.render.charts.roofline import charted

    check_plot(path)
    run, _ = load_runs(results)
    found = charted(measured(run))
    if found is None:
        raise UsageError(
            "--plot: the results hold no measured peaks of the device that their rows ran on",
            "evenbench ceilings --plot FILE --results RESULTS measures them and draws these rows",
        )
    write_plot(path, *found)


def plot_ceilings(path: Path, ceilings: CeilingsEvent, results: Sequence[Path] = ()) -> None:
    """A device's peaks, with the rows of results files that ran on it. Raises UsageError, UntrustedInput."""
    from evenbench.reports.compare.report import measured
    from evenbench.reports.load.results import load_runs
    from evenbench.reports.render.charts.picture import write_plot
    from evenbench.reports.render.charts.roofline import points
    from evenbench.reports.rows.roofline import peaks_of

    peaks = peaks_of(ceilings)
    cases = []
    if results:
        run, _ = load_runs(results)
        cases = points(measured(replace(run, ceilings=(ceilings,))), peaks)
        if not cases:
            needed = "it must have run on this device, from a cold cache, and its case declare its work"
            say(f"note: no row of {', '.join(map(str, results))} can be drawn: {needed}")
    write_plot(path, peaks, cases)
