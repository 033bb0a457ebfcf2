"""Rows → a Parquet file, through DuckDB."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evenbench.runner.errors import UsageError

from ...rows.outcome import Comparison, Report
from .rows import columns, rows


def as_parquet(outcome: Comparison | Report) -> bytes:
    """The rows as a Parquet file. Raises UsageError where the package that writes it is missing."""
    try:
        import duckdb
    except ImportError:
        raise UsageError("--format parquet needs duckdb", "pip install 'evenbench[history]'") from None
    kinds = columns(outcome)
    declared = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
    values = [list(row.values()) for row in rows(outcome)]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows ({declared})")
        if values:
            connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(kinds))})", values)  # noqa: S608 - only question marks
        path = Path(folder) / "rows.parquet"
        connection.table("rows").write_parquet(str(path))
        return path.read_bytes()
