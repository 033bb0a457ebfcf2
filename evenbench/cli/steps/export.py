"""What `evenbench report` makes for a file: a page, and what other tools take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenbench.runner.errors import UsageError

from . import console

if TYPE_CHECKING:
    from evenbench.reports.load.results import Results
    from evenbench.reports.rows.outcome import Comparison, Report

FORMATS = ("html", "csv", "parquet", "customSmallerIsBetter")


def exported(shown: str, results: Results, outcome: Comparison | Report) -> bytes:
    """The outcome in one of `FORMATS`. Raises UsageError where the package that it needs is missing."""
    from evenbench.reports.render.charts.vega import library
    from evenbench.reports.render.data.parquet import as_parquet
    from evenbench.reports.render.data.rows import as_csv, custom_smaller_is_better
    from evenbench.reports.render.page.page import page

    match shown:
        case "html":
            return page(results, outcome, library()).encode()
        case "csv":
            return as_csv(outcome).encode()
        case "parquet":
            return as_parquet(outcome)
    return custom_smaller_is_better(outcome).encode()


def deliver(answer: str | bytes, out: Path | None) -> None:
    """Write an answer to a file, or to stdout: bytes as they are, whatever the terminal takes. Raises UsageError."""
    if out is not None:
        try:
            out.write_bytes(answer if isinstance(answer, bytes) else answer.encode())
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror}") from None
    else:
        console.answer(answer)
