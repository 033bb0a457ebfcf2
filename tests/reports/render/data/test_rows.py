"""CSV, Parquet and github-action-benchmark's JSON. Golden files: `EVENBENCH_UPDATE_GOLDEN=1` writes them anew."""

from __future__ import annotations

import builtins
import csv
import io
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evenbench.cli.main import main
from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.report import measured
from evenbench.reports.render.charts.vega import library
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.data.parquet import as_parquet
from evenbench.reports.render.data.rows import COMPARED, MEASURED, as_csv, columns, custom_smaller_is_better, rows
from evenbench.reports.rows.outcome import Comparison, Report
from evenbench.runner.errors import UsageError
from tests import build
from tests.build import Case
from tests.reports.render.page.test_page import RUN
from tests.reports.render.test_render import MIXED, golden

TODAY = date(2026, 11, 29)
DOCS = (Path(__file__).parents[4] / "docs" / "exchange.md").read_text(encoding="utf-8")


def compared() -> Comparison:
    return compare(build.results(MIXED), TODAY)


def ran() -> Report:
    return measured(build.results(RUN, made=2, verb="run"))


@pytest.fixture(params=["compared", "ran"])
def outcome(request: pytest.FixtureRequest) -> Comparison | Report:
    return compared() if request.param == "compared" else ran()


def rounded(text: str) -> str:
    """Numbers with nine digits: the last ones are those of the machine."""
    return re.sub(r"\d+\.\d{6,}(e-\d+)?|\d\.?\d*e-\d+", lambda found: f"{float(found[0]):.9g}", text)


def test_golden_csv() -> None:
    golden("exchange-comparison.csv", rounded(as_csv(compared())))
    golden("exchange-run.csv", rounded(as_csv(ran())))


def test_golden_benchmarks() -> None:
    golden("exchange-comparison.json", rounded(custom_smaller_is_better(compared())))
    golden("exchange-run.json", rounded(custom_smaller_is_better(ran())))


def test_no_row_is_a_line_of_columns_and_an_empty_list() -> None:
    nothing = compare(build.results([]), TODAY)
    assert as_csv(nothing) == ",".join(COMPARED) + "\n"
    assert json.loads(custom_smaller_is_better(nothing)) == []


def test_numbers_are_those_of_the_json(outcome: Comparison | Report) -> None:
    for flat, row in zip(rows(outcome), as_json(outcome)["rows"], strict=True):
        assert flat.keys() == columns(outcome).keys()
        times = row.get("times") or {}
        assert {name: flat[name] for name in times} == times
        for side in ("base", "head"):
            assert all(flat[f"{side}_{name}"] == value for name, value in (row.get(side) or {}).items())
        if row.get("interval"):
            assert (flat["interval_low"], flat["interval_high"]) == row["interval"]
        for name in flat.keys() & row.keys() - {"notes", "reason"}:
            assert flat[name] == (row[name] or None if isinstance(row[name], str) else row[name])


def test_benchmarks_leave_out_what_has_no_time() -> None:
    comparison = compared()
    found = json.loads(custom_smaller_is_better(comparison))
    assert [each["name"] for each in found] == [row.name for row in comparison.rows if row.head is not None]
    assert [each["value"] for each in found] == [row.head.ns / 1_000 for row in comparison.rows if row.head is not None]
    assert {each["unit"] for each in found} == {"µs"}


def test_parquet_holds_the_rows(tmp_path: Path, outcome: Comparison | Report) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "rows.parquet"
    path.write_bytes(as_parquet(outcome))
    with duckdb.connect() as connection:
        read = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
        assert [(each[0], str(each[1])) for each in read.description] == list(columns(outcome).items())
        assert [dict(zip(columns(outcome), each, strict=True)) for each in read.fetchall()] == rows(outcome)


def test_parquet_of_no_row_has_the_columns(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "rows.parquet"
    path.write_bytes(as_parquet(compare(build.results([]), TODAY)))
    with duckdb.connect() as connection:
        assert connection.execute("SELECT count(*) FROM read_parquet(?)", [str(path)]).fetchone() == (0,)


def test_every_column_is_documented() -> None:
    told = set(re.findall(r"`([a-z0-9_]+)`", DOCS))
    sides = {name.removeprefix(side) for name in COMPARED for side in ("base_", "head_")} - {"sha"}
    assert {name for name in {*COMPARED, *MEASURED} if name.removeprefix("base_") not in sides} <= told
    assert sides & {*MEASURED} <= told


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def imported(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == package:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", imported)


@pytest.mark.parametrize(
    ("package", "make", "extra"),
    [("duckdb", lambda: as_parquet(compared()), "history"), ("vl_convert", library, "html")],
)
def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, package: str, make: Any, extra: str) -> None:
    without(monkeypatch, package)
    with pytest.raises(UsageError) as caught:
        make()
    assert re.fullmatch(rf"--format \w+ needs [\w-]+ \(hint: pip install 'evenbench\[{extra}\]'\)", str(caught.value))


class TestCommand:
    @pytest.fixture
    def results(self, tmp_path: Path) -> str:
        path = tmp_path / "r.jsonl"
        path.write_bytes(build.text(build.events([Case("norm/rms"), Case("norm/softmax")])))
        return str(path)

    def test_to_a_file_and_to_stdout_the_same(self, results: str, tmp_path: Path, capfdbinary: Any) -> None:
        for shown in ("csv", "customSmallerIsBetter", "json", "term", "comment"):
            assert main(["report", results, "--format", shown]) == 0
            printed = capfdbinary.readouterr().out
            assert main(["report", results, "--format", shown, "--out", str(tmp_path / "out")]) == 0
            assert (tmp_path / "out").read_bytes() == printed != b""
            assert capfdbinary.readouterr().out == b""

    def test_an_explanation_to_a_file(self, results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["report", results, "--explain", "norm/rms", "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out").read_text(encoding="utf-8").startswith("norm/rms: unchanged\n")
        assert capsys.readouterr().out == ""

    def test_the_exit_code_is_the_tables(self, tmp_path: Path) -> None:
        path = tmp_path / "r.jsonl"
        path.write_bytes(build.text(build.events([Case("norm/rms", head=30_000.0)])))
        out = ["--format", "csv", "--out", str(tmp_path / "out.csv")]
        assert main(["report", str(path), *out]) == 1
        assert main(["report", str(path), *out, "--fail-on", "never"]) == 0
        (row,) = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(encoding="utf-8")))
        assert row["verdict"] == "regressed"

    def test_a_file_that_cannot_be_written(
        self, results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["report", results, "--format", "csv", "--out", str(tmp_path / "no" / "x.csv")]) == 2
        assert capsys.readouterr().err == f"error: {tmp_path}/no/x.csv cannot be written: No such file or directory\n"

    def test_a_terminal_gets_no_parquet(
        self, results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert main(["report", results, "--format", "parquet"]) == 2
        assert "no text for a terminal (hint: name a file: --out rows.parquet)" in capsys.readouterr().err
