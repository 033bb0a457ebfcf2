"""The history's directory: one immutable Parquet file a run, proofs beside them, and an index that only saves time.

    runs/MACHINE/YYYY-MM/TIME-RUN-SIDE.parquet    what `evenbench.reports.history.rows` keeps of a run
    proofs/MACHINE/YYYY-MM/TIME-RUN-KIND.jsonl    one line of `evenbench.reports.load.proofs`
    found/TIME-HASH.jsonl                         change points that were told already, see `evenbench.reports.history.changes`
    order/TIME-HASH.jsonl                         positions of commits whose runs do not have them
    .index/                                       all runs in one file; made again when it is missing

No file is ever written twice, so machines that write at once, to a branch or to a bucket, have no conflicts.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import Record
from evenbench.runner.records.fields import Sha
from evenbench.runner.records.reader import strict_json

from ..load.proofs import LINE_MAX, Proof, dump, moment, read
from ..text import sanitise
from .rows import COLUMNS, MAJOR, MINOR, NAME, NEWER, RunRows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INSTALL = "pip install 'evenbench[history]'"
NO_MACHINE = "no-gpu"  # folder of runs without a GPU
UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
NAME_MAX = 80  # characters of a foreign name in a path
INDEX_STEP = 32  # run files that are read one by one before they are put into the index: some 20 ms
INDEX_GROUP = 8_192  # rows of the index that are read at once: a case is in one or two of such groups
GITIGNORE = "*\n"
INDEX = f"{MAJOR}.{MINOR}-"  # begins the names of an index that has all columns of ours


class CommitPosition(Record):
    """Where a commit is on its branch, counted from the first one."""

    schema_: Annotated[Literal["evenbench.order/1.0"], Field(alias="schema")] = "evenbench.order/1.0"
    commit: Sha
    position: Annotated[int, Field(ge=1, le=1 << 40)]


@contextmanager
def connection() -> Iterator[DuckDBPyConnection]:
    """A DuckDB in memory, which loads nothing from a network. Its complaints about files are UntrustedInput.

    Raises:
        UsageError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise UsageError("the history needs duckdb, which is missing", INSTALL) from None
    try:
        with duckdb.connect(
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        ) as opened:
            yield opened
    except duckdb.Error as error:
        first = sanitise(str(error).partition("\n")[0], 300)
        raise UntrustedInput(f"the history cannot be read: {first}", "remove the file that it names") from None


def add(folder: Path, run: RunRows) -> tuple[Path, bool]:
    """Put a run into the history. Returns its file, and whether it is new: a run that is there already stays as it is.

    Raises:
        UsageError: it cannot be written.
    """
    name = f"{_stamp(run.started)}-{safe(run.run_id)}-{run.side}.parquet"
    path = folder / "runs" / safe(run.machine or NO_MACHINE) / f"{run.started:%Y-%m}" / name
    if path.exists():
        return path, False
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
    with _writing(path) as draft, connection() as duck, tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        lines.writelines(json.dumps({**dict.fromkeys(COLUMNS), **row}) + "\n" for row in run.rows)
        lines.flush()
        source = f"read_json(?, format = 'newline_delimited', columns = {{{columns}}})"
        duck.execute(f"COPY (FROM {source}) TO {_text(draft)} (FORMAT parquet, COMPRESSION zstd)", [lines.name])
    return path, True


def add_proof(folder: Path, proof: Proof) -> tuple[Path, bool]:
    """Keep a proof, for the machine that it is about. Returns as `add`. Raises UsageError."""
    at = moment(proof.at) or datetime.fromtimestamp(0, UTC)
    machine = safe(", ".join(proof.uuids) or NO_MACHINE)
    path = folder / "proofs" / machine / f"{at:%Y-%m}" / f"{_stamp(at)}-{safe(proof.run_id)}-{proof.kind}.jsonl"
    if path.exists():
        return path, False
    with _writing(path) as draft:
        draft.write_text(dump(proof) + "\n", encoding="utf-8")
    return path, True


def add_found(folder: Path, lines: Sequence[str], now: datetime) -> Path | None:
    """Keep the lines of what was found; None where there are none. Raises UsageError."""
    return _add_lines(folder / "found", lines, now)


def add_positions(folder: Path, line: Mapping[str, int], now: datetime) -> Path | None:
    """Keep the positions of commits whose runs lack them, such as those of older files; None where there are none.

    Args:
        folder: of the history.
        line: positions of the commits of main.
        now: names the file.

    Raises:
        UsageError: it cannot be written.
        UntrustedInput: as `opened`.
    """
    with opened(folder) as duck:
        lacking = duck.execute(
            'SELECT runs."commit" FROM runs LEFT JOIN positions ON runs."commit" = positions."commit" GROUP BY ALL '
            'HAVING max(runs."position") IS NULL AND max(positions."position") IS NULL ORDER BY ALL'
        ).fetchall()
    lines = []
    for (commit,) in lacking:
        if commit in line:
            lines.append(CommitPosition(commit=commit, position=line[commit]).model_dump_json(by_alias=True))
    return _add_lines(folder / "order", lines, now)


def _add_lines(folder: Path, lines: Sequence[str], now: datetime) -> Path | None:
    if not lines:
        return None
    text = "".join(f"{line}\n" for line in lines)
    path = folder / f"{_stamp(now)}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
    if not path.exists():
        with _writing(path) as draft:
            draft.write_text(text, encoding="utf-8")
    return path


def _positions(folder: Path) -> dict[str, int]:
    """The positions of commits whose runs lack them; what was learned last holds. Raises UntrustedInput."""
    positions = {}
    for path in sorted((folder / "order").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                known = CommitPosition.model_validate(strict_json(line), by_alias=True)
            except (UntrustedInput, ValidationError):
                raise UntrustedInput(f"{path}: a line is not the position of a commit", "remove the file") from None
            positions[known.commit] = known.position
    return positions


def found_lines(folder: Path) -> list[tuple[Path, bytes]]:
    """The lines of all change points that were told, each with its file."""
    files = sorted((folder / "found").glob("*.jsonl"))
    return [(file, line) for file in files for line in file.read_bytes().splitlines() if line.strip()]


def proofs_in(folder: Path) -> list[Proof]:
    """The proofs of all machines.

    Raises:
        UsageError: a file cannot be read.
        UntrustedInput: it holds anything else; names the file.
    """
    found = []
    for path in sorted((folder / "proofs").glob("*/*/*.jsonl")):
        try:
            with path.open("rb") as file:
                found += read(iter(lambda: file.readline(LINE_MAX + 1), b""))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        except UntrustedInput as error:
            raise UntrustedInput(f"{path}: {error.message}", error.hint) from None
    return found


@contextmanager
def opened(folder: Path) -> Iterator[DuckDBPyConnection]:
    """A DuckDB in which `runs` is all that the history holds, with the columns of `COLUMNS`.

    `positions` is what is known of the order of commits besides.

    Raises:
        UsageError: there is no history, or DuckDB is missing.
        UntrustedInput: a file is none of the history's, or of another major version.
    """
    files = _run_files(folder)
    if not files:
        raise UsageError(f"{folder} holds no history", "evenbench history add RESULTS --side … --dir DIR begins one")
    positions = _positions(folder)
    with _reading(folder), connection() as duck:
        duck.execute('CREATE TEMP TABLE positions ("commit" VARCHAR, "position" BIGINT)')
        duck.execute("INSERT INTO positions SELECT unnest($1), unnest($2)", [[*positions], [*positions.values()]])
        indexed, index = _index(folder, files)
        new = sorted(set(files) - set(indexed))
        _view(duck, folder, new, index)
        if len(new) > INDEX_STEP:
            _check_versions(duck)
            if (made := _write_index(duck, folder, files)) is not None:
                _view(duck, folder, [], made)
        elif new:
            _check_versions(duck)
        yield duck


def _view(duck: DuckDBPyConnection, folder: Path, files: Sequence[str], index: Path | None) -> None:
    columns = ", ".join(_column(name, kind) for name, kind in COLUMNS.items())
    newer = ", ".join(f'CAST(NULL AS {COLUMNS[name]}) AS "{name}"' for name in NEWER)  # what older files may lack
    sources = [_quoted(index)] if index is not None else []
    if files:
        sources.append(f"[{', '.join(_quoted(folder / file) for file in files)}]")
    parts = [
        f"SELECT {columns} FROM (FROM read_parquet({source}, union_by_name = true) UNION ALL BY NAME "  # noqa: S608 - our own paths, quoted
        f"(SELECT {newer} WHERE false))"
        for source in sources
    ]
    duck.execute(f"CREATE OR REPLACE TEMP VIEW runs AS {' UNION ALL '.join(parts)}")


def _column(name: str, kind: str) -> str:
    """A column; texts are never null. A call would hide `case` from the index's order, and `schema` from its check."""
    return (
        f'coalesce("{name}", \'\') AS "{name}"' if kind == "VARCHAR" and name not in ("case", "schema") else f'"{name}"'
    )


def _check_versions(duck: DuckDBPyConnection) -> None:
    known = re.compile(re.escape(NAME) + rf"/{MAJOR}\.\d{{1,4}}")
    for (schema,) in duck.execute("SELECT DISTINCT schema FROM runs").fetchall():
        if known.fullmatch(schema or "") is None:
            raise UntrustedInput(
                f"the history has files of {sanitise(str(schema), 100)}, which this evenbench cannot read",
                f"it reads {NAME}/{MAJOR}.x",
            )


def durations_in(folder: Path) -> list[tuple[datetime, dict[str, float]]]:
    """What cases took of a launch in ns, by the run that tells it; none where the history is empty still.

    Raises:
        UsageError: DuckDB is missing.
        UntrustedInput: as `opened`.
    """
    if not (folder / "runs").is_dir():
        return []
    with opened(folder) as duck:
        newest = (
            'SELECT started, "case", sum(cost_ns) FROM runs WHERE cost_ns > 0 GROUP BY started, run_id, side, "case" '
            'QUALIFY row_number() OVER (PARTITION BY "case" ORDER BY started DESC, run_id, side) = 1'
        )
        found: dict[datetime, dict[str, float]] = {}
        for started, case, taken in duck.execute(newest).fetchall():
            found.setdefault(started.replace(tzinfo=UTC), {})[case] = taken
    return [*found.items()]


def _index(folder: Path, files: Sequence[str]) -> tuple[list[str], Path | None]:
    """The run files that the largest index holds, and its file; nothing where there is none that is whole.

    An index with a file that is not among `files` is of no use: somebody took a run out.
    """
    best: tuple[list[str], Path | None] = [], None
    for listing in (folder / ".index").glob(f"{INDEX}*.json"):
        table = listing.with_suffix(".parquet")
        try:
            held = json.loads(listing.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if table.exists() and isinstance(held, list) and len(held) > len(best[0]) and {*map(str, held)} <= {*files}:
            best = [str(file) for file in held], table
    return best


def _write_index(duck: DuckDBPyConnection, folder: Path, files: Sequence[str]) -> Path | None:
    """Put all runs into one file, sorted by case; None where the folder cannot be written."""
    place = folder / ".index"
    table = place / f"{INDEX}{hashlib.sha256(chr(10).join(files).encode()).hexdigest()[:16]}.parquet"
    try:
        place.mkdir(exist_ok=True)
        (place / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
        with _writing(table) as draft:
            duck.execute(
                f'COPY (FROM runs ORDER BY "case", implementation, started) TO {_text(draft)} '
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {INDEX_GROUP})"
            )
        with _writing(table.with_suffix(".json")) as draft:
            draft.write_text(json.dumps(files), encoding="utf-8")
    except (OSError, UsageError):
        return None
    return table


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Hold a lock while the index is read or made; then, if nobody else does, remove all but the best index.

    Where a folder cannot be locked, as on some network shares, nothing is removed.
    """
    try:
        lock = os.open(folder / "runs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{folder / 'runs'} cannot be read: {error.strerror}") from None
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield
        with suppress(OSError):  # somebody reads one, or the folder cannot be locked or written
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_old_indexes(folder)
    finally:
        os.close(lock)


def _remove_old_indexes(folder: Path) -> None:
    """Leave the best index, that of most runs. Raises OSError."""
    _, best = _index(folder, _run_files(folder))
    for file in (folder / ".index").glob("*"):
        if file.name != ".gitignore" and best is not None and file.stem != best.stem:
            file.unlink(missing_ok=True)


def _run_files(folder: Path) -> list[str]:
    """The runs' files, relative to the history's folder."""
    return sorted(path.relative_to(folder).as_posix() for path in (folder / "runs").glob("*/*/*.parquet"))


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """A draft beside `path` that becomes it once it is whole. Raises UsageError."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # of several machines, too, on a shared disk
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):  # it is gone, or never was
            draft.unlink()


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def safe(name: str) -> str:
    """A foreign name as a part of a path; two names never share one."""
    clean = UNSAFE.sub("-", name)[:NAME_MAX]
    return clean if name and clean == name else f"{clean}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _text(path: Path) -> str:
    """A path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def _quoted(path: Path) -> str:
    """A path that is read: no sign in it stands for others."""
    return _text(Path(escape(str(path))))
