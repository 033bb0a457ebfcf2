"""From a run to the history's file, and back to series, change points and what of them is new."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.history import store as history_store
from evenbench.reports.history.changes import (
    Change,
    changes_of,
    detect,
    dump,
    new_ones,
    read_changes,
    read_detected,
    since,
)
from evenbench.reports.history.rows import COLUMNS, SCHEMA, rows_of
from evenbench.reports.history.series import Series, SeriesKey, SeriesPoint, all_series, overview, rows_like, series_of
from evenbench.reports.history.store import (
    add,
    add_found,
    add_positions,
    add_proof,
    connection,
    found_lines,
    opened,
    proofs_in,
    safe,
)
from evenbench.reports.history.text import detected_json
from evenbench.runner.errors import NothingMeasured, UntrustedInput, UsageError
from evenbench.runner.records import Measurement, PlantRecord, SideInfo
from tests import build
from tests.build import Case

START = datetime(2026, 1, 1, 2, tzinfo=UTC)
RMS = Case("norm/rms[cols=8192]")


def night(number: int, *cases: Case, launches: Mapping[str, Any] | None = None, **changes: Any) -> Any:
    """The rows of main on a night."""
    commit = SideInfo(name="head", label="main", sha=f"{number:040x}")
    values: dict[str, Any] = {
        "verb": "run",
        "run_id": f"night-{number}",
        "started": (START + timedelta(days=number)).isoformat(),
        "sides": [commit],
        "launches": {"head": launches or {}},
    }
    return rows_of(build.results(cases or (RMS,), **(values | changes)), "head")


def place(**changes: str) -> SeriesKey:
    values = dict.fromkeys((*SeriesKey.__dataclass_fields__,), "") | {
        "case": "a",
        "implementation": "main",
        "device": "NVIDIA H200",
        "uuid": "GPU-1",
    }
    return SeriesKey(**(values | changes))


def made(times: Sequence[float], *, first: int = 0, **changes: str) -> Series:
    """A series of these times, a night each."""
    points = [
        SeriesPoint(
            START + timedelta(days=first + n), f"run-{first + n}", f"{first + n:040x}", ns, ns * 0.99, ns * 1.01
        )
        for n, ns in enumerate(times)
    ]
    return Series(place(**changes), tuple(points))


def level(*levels: tuple[int, float]) -> list[float]:
    """Times that go up and down by 0.1 % about each level."""
    return [ns * (1 + 0.001 * (-1) ** n) for runs, ns in levels for n in range(runs)]


class TestRows:
    def test_a_row_says_what_was_measured_where_and_with_what(self) -> None:
        run = night(3)
        assert (run.run_id, run.side, run.machine, run.commit) == ("night-3", "head", "GPU-1", f"{3:040x}")
        (row,) = run.rows
        assert set(row) == set(COLUMNS)
        expected = {
            "schema": SCHEMA,
            "started": "2026-01-04T02:00:00",
            "commit": f"{3:040x}",
            "device": "NVIDIA H200",
            "driver": "580.159.04",
            "torch": "2.13.0",
            "case": RMS.id,
            "implementation": "main",
            "timer": "cupti",
            "cache": "cold",
            "status": "ok",
            "tick_ns": 32,
            "n_kernels": 1,
            "dtype": "bfloat16",
        }
        assert {key: row[key] for key in expected} == expected
        assert len(row["launches_ns"]) == 8
        assert sorted(row["launches_ns"])[3] <= row["ns"] <= sorted(row["launches_ns"])[4]
        assert row["low_ns"] <= row["ns"] <= row["high_ns"]

    def test_a_row_without_a_number_says_why(self) -> None:
        broken = Case("a", head_case={"status": "failed", "kind": "setup", "reason": "no such table"})
        row = next(row for row in night(0, broken, RMS).rows if row["case"] == "a")
        assert (row["status"], row["reason"]) == ("failed", "setup: no such table")
        assert "ns" not in row

    def test_each_implementation_has_a_row(self) -> None:
        rows = night(0, Case("a", implementations=("slow", "fast"))).rows
        assert [(row["case"], row["implementation"]) for row in rows] == [("a", "slow"), ("a", "fast")]

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"end": False}, "not complete"),
            ({"sides": [SideInfo(name="head", label=".", sha="a" * 40, dirty=True, tree="1")]}, "no commit"),
            ({"sides": [SideInfo(name="head", label=".", tree="1")]}, "no commit"),
            ({"sides": [SideInfo(name="base", label="main", sha="a" * 40)], "verb": "compare"}, "no side head"),
            ({"confirms": "run-0"}, "second run"),
            ({"plant": PlantRecord(case="norm/*", fraction=0.05)}, "slowed on purpose"),
        ],
    )
    def test_what_is_no_sample_of_main_is_refused(self, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(UsageError, match=said):
            night(0, **changes)

    def test_a_run_without_a_number_or_a_time_is_refused(self) -> None:
        with pytest.raises(NothingMeasured):
            night(0, Case("a", head_case={"status": "failed", "kind": "setup", "reason": "x"}))
        with pytest.raises(UntrustedInput, match="started"):
            night(0, started="yesterday")


class TestStore:
    def test_a_run_is_one_file_that_is_never_written_again(self, tmp_path: Path) -> None:
        path, new = add(tmp_path, night(3))
        assert new
        assert path == tmp_path / "runs/GPU-1/2026-01/20260104T020000Z-night-3-head.parquet"
        before = path.read_bytes()
        assert add(tmp_path, night(3, Case("other"))) == (path, False)
        assert path.read_bytes() == before
        assert sorted(each.name for each in path.parent.iterdir()) == [path.name]

    def test_columns_keep_their_names_and_types(self, tmp_path: Path) -> None:
        path, _ = add(tmp_path, night(3))
        with connection() as duck:
            found = duck.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
        assert {name: kind for name, kind, *_ in found} == dict(COLUMNS)

    def test_a_folder_may_be_called_anything(self, tmp_path: Path) -> None:
        folder = tmp_path / "a [b]*?' \" {c}"
        add(folder, night(1))
        with opened(folder) as duck:
            assert rows_like(duck, RMS.id) == [RMS.id]

    @given(st.text(max_size=200), st.text(max_size=200))
    def test_foreign_names_stay_in_their_folder_and_apart(self, one: str, other: str) -> None:
        assert "/" not in safe(one)
        assert safe(one) not in ("", ".", "..")
        assert (safe(one) == safe(other)) == (one == other)

    def test_a_run_id_leads_nowhere_else(self, tmp_path: Path) -> None:
        path, _ = add(tmp_path / "history", night(1, run_id="../../../../evil", launches={"uuid": "../../evil"}))
        assert path.resolve().is_relative_to(tmp_path / "history" / "runs")
        assert [each.name for each in tmp_path.iterdir()] == ["history"]

    def test_an_empty_folder_is_no_history(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="holds no history"), opened(tmp_path):
            pass

    def test_a_file_that_is_no_parquet_is_named(self, tmp_path: Path) -> None:
        path, _ = add(tmp_path, night(1))
        path.write_bytes(b"nothing of the kind")
        with pytest.raises(UntrustedInput, match=path.name), opened(tmp_path):
            pass

    def test_another_major_version_is_refused(self, tmp_path: Path) -> None:
        run = night(1)
        add(tmp_path, replace(run, rows=tuple({**row, "schema": "evenbench.history/2.0"} for row in run.rows)))
        with pytest.raises(UntrustedInput, match=r"evenbench\.history/2\.0"), opened(tmp_path):
            pass

    def test_a_newer_minor_version_may_have_more_columns(self, tmp_path: Path) -> None:
        path, _ = add(tmp_path, night(1))
        newer = path.with_name("20260105T020000Z-newer-head.parquet")
        with connection() as duck:
            duck.execute(
                f"COPY (SELECT * REPLACE ('evenbench.history/1.7' AS schema, 'newer' AS run_id), 1 AS extra "
                f"FROM '{path}') TO '{newer}' (FORMAT parquet)"
            )
        with opened(tmp_path) as duck:
            (series,) = series_of(duck, RMS.id)
        assert {point.run_id for point in series.points} == {"night-1", "newer"}

    def test_the_index_says_what_the_files_say(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history_store, "INDEX_STEP", 3)
        paths = []
        for number in range(9):
            paths.append(add(tmp_path, night(number, RMS, Case("a")))[0])
            with opened(tmp_path) as duck:
                (series,) = series_of(duck, RMS.id)
            assert [point.run_id for point in series.points] == [f"night-{each}" for each in range(number + 1)]
        index = list((tmp_path / ".index").glob("*.parquet"))
        assert len(index) == 1
        assert (tmp_path / ".index" / ".gitignore").read_text() == "*\n"
        paths[2].unlink()  # a run that somebody took out
        with opened(tmp_path) as duck:
            (series,) = series_of(duck, RMS.id)
        assert "night-2" not in {point.run_id for point in series.points}
        for broken in (tmp_path / ".index").glob("*.json"):
            broken.write_text("[")
        with opened(tmp_path) as duck:
            assert len(series_of(duck, RMS.id)[0].points) == 8

    def test_an_index_that_is_read_is_not_removed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another reader makes a newer one meanwhile; once nobody reads, one index is left."""
        monkeypatch.setattr(history_store, "INDEX_STEP", 3)
        for number in range(5):
            add(tmp_path, night(number))
        with opened(tmp_path) as first:
            (before,) = (tmp_path / ".index").glob("*.parquet")
            for number in range(5, 10):
                add(tmp_path, night(number))
            with opened(tmp_path) as second:
                assert len(series_of(second, RMS.id)[0].points) == 10
            assert before.exists()
            assert len(series_of(first, RMS.id)[0].points) == 5
        with opened(tmp_path):
            pass
        assert len(list((tmp_path / ".index").glob("*.parquet"))) == 1
        assert not before.exists()

    def test_an_index_of_an_older_version_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It lacks columns that the files have."""
        monkeypatch.setattr(history_store, "INDEX_STEP", 1)
        files = [add(tmp_path, night(number))[0].relative_to(tmp_path).as_posix() for number in range(2)]
        (tmp_path / ".index").mkdir()
        for name in ("0123456789abcdef", "1.1-0123456789abcdef"):
            (tmp_path / ".index" / f"{name}.json").write_text(json.dumps(files))
            (tmp_path / ".index" / f"{name}.parquet").write_bytes(b"of another version")
        for _ in range(2):
            with opened(tmp_path) as duck:
                assert len(series_of(duck, RMS.id)[0].points) == 2
        assert [file.name[:4] for file in (tmp_path / ".index").glob("*.parquet")] == ["1.2-"]

    def test_proofs_are_kept_by_machine_and_read_back(self, tmp_path: Path) -> None:
        proofs = build.proofs(3) + build.proofs(2, uuids=["GPU-2"])
        kept = [add_proof(tmp_path, proof) for proof in proofs]
        assert all(new for _, new in kept)
        assert kept[0][0] == tmp_path / "proofs/GPU-1/2026-11/20261129T020000Z-aa-0-aa.jsonl"
        assert add_proof(tmp_path, proofs[0]) == (kept[0][0], False)
        assert sorted(map(repr, proofs_in(tmp_path))) == sorted(map(repr, proofs))
        kept[0][0].write_text("{}\n")
        with pytest.raises(UntrustedInput, match="aa-0-aa.jsonl: line 1"):
            proofs_in(tmp_path)

    def test_a_missing_library_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "duckdb", None)
        with pytest.raises(UsageError, match="duckdb") as caught:
            add(tmp_path, night(1))
        assert "evenbench[history]" in caught.value.hint


class TestSeries:
    @pytest.mark.parametrize(
        "other",
        [
            {"launches": {"uuid": "GPU-2"}},
            {"launches": {"driver": "590.1"}},
            {"launches": {"device": "NVIDIA H100"}},
            {"launches": {"mig": "1g.18gb"}},
            {"image": "ghcr.io/me/image@sha256:1"},
            {"prepared": {"head": {"torch": "2.14.0"}}},
        ],
    )
    def test_another_machine_or_stack_is_another_series(self, tmp_path: Path, other: dict[str, Any]) -> None:
        for number in (0, 2):
            add(tmp_path, night(number))
            add(tmp_path, night(number + 1, **other))
        with opened(tmp_path) as duck:
            found = series_of(duck, RMS.id)
        runs = [[point.run_id for point in series.points] for series in found]
        assert runs == [["night-0", "night-2"], ["night-1", "night-3"]]  # the one measured last at the end

    def test_all_series_are_those_of_each_case(self, tmp_path: Path) -> None:
        cases = [RMS, Case("a", implementations=("x", "y")), Case("b", head=1_000.0)]
        for number in range(4):
            add(tmp_path, night(number, *cases, launches={"uuid": f"GPU-{number % 2}"}))
        with opened(tmp_path) as duck:
            whole = all_series(duck)
            assert whole == [series for case in sorted(each.id for each in cases) for series in series_of(duck, case)]
        assert len(whole) == 8
        assert {len(series.points) for series in whole} == {2}

    def test_the_overview_shows_the_newest_series(self, tmp_path: Path) -> None:
        add(tmp_path, night(0, launches={"uuid": "GPU-2"}))
        for number in range(1, 80, 4):
            add(tmp_path, night(number, Case(RMS.id, head=20_000.0 if number < 60 else 22_000.0)))
        with opened(tmp_path) as duck:
            (glance,) = overview(duck)
            assert rows_like(duck, "rms[") == [RMS.id]
            assert rows_like(duck, "no such") == []
        assert (glance.place.uuid, glance.runs, glance.last) == ("GPU-1", 20, START + timedelta(days=77))
        assert glance.ns == pytest.approx(22_000, rel=0.01)
        assert glance.before_ns == pytest.approx(20_000, rel=0.01)
        assert len(glance.all_ns) == 20

    def test_a_text_in_a_case_means_nothing_to_the_database(self, tmp_path: Path) -> None:
        add(tmp_path, night(1))
        with opened(tmp_path) as duck:
            assert rows_like(duck, "' OR 1=1 --") == []
            assert rows_like(duck, "%") == []


class TestChanges:
    def test_a_change_names_the_commits_between(self) -> None:
        (change,) = changes_of(made(level((30, 1000), (20, 1030))))
        assert (change.good, change.bad) == (f"{29:040x}", f"{30:040x}")
        assert (change.at, change.run_id) == ("2026-01-31T02:00:00+00:00", "run-30")
        assert change.change == pytest.approx(0.03, abs=1e-3)
        assert [change.before_ns, change.after_ns] == pytest.approx([1000, 1030], rel=2e-3)
        assert change.slower

    def test_a_machine_that_changes_with_the_level_is_no_change(self) -> None:
        series = [made(level((40, 1000))), made(level((40, 1100)), first=40, driver="590.1")]
        found = detect(series)
        assert found.changes == ()
        assert (found.series, round(found.years, 2)) == (2, 0.21)

    def test_that_all_rows_changed_at_once_is_said(self) -> None:
        together = [made(level((30, 1000), (20, 1100)), case=name) for name in "abc"]
        alone = made(level((40, 1000), (10, 1100)), case="d")
        found = detect([*together, alone])
        said = {change.case: found.suspicious(change) for change in found.changes}
        assert said["d"] == ""
        assert {said[name] for name in "abc"} == {
            "3 of 4 rows of this machine changed in this run: look at the machine first"
        }

    def test_what_was_told_is_not_new_though_it_moved_by_a_run(self) -> None:
        early = changes_of(made(level((30, 1000), (6, 1030))))
        series = made([*level((30, 1000)), 1012.0, *level((40, 1030)), *level((20, 990))])
        later = changes_of(series)
        assert [change.slower for change in later] == [True, False]
        assert [change.slower for change in new_ones(later, early, [series])] == [False]
        assert new_ones(later, [], [series]) == later
        assert new_ones(later, later, [series]) == []
        elsewhere = replace(series, place=place(driver="590.1"))
        assert len(new_ones(changes_of(elsewhere), early, [elsewhere])) == 2

    def test_since_takes_days_and_times(self) -> None:
        changes = changes_of(made(level((30, 1000), (20, 1030))))
        assert since(changes, "2026-01-31") == changes == since(changes, "2026-01-31T02:00:00Z")
        assert since(changes, "2026-02-01") == []
        with pytest.raises(UsageError, match="is no time"):
            since(changes, "last week")

    def test_lines_and_json_are_read_back(self, tmp_path: Path) -> None:
        found = detect([made(level((30, 1000), (20, 1030)))])
        changes = list(found.changes)
        path = add_found(tmp_path, [dump(change) for change in changes], START)
        assert path is not None
        assert add_found(tmp_path, [], START) is None
        assert read_changes(found_lines(tmp_path)) == changes
        assert read_detected(json.dumps(detected_json(changes, found)).encode()) == (changes, [""])
        path.write_text('{"schema": "evenbench.change/1.0"}\n')
        with pytest.raises(UntrustedInput, match="jsonl: case: Field required"):
            read_changes(found_lines(tmp_path))

    @pytest.mark.parametrize(
        "data", [b"", b"[]", b"{}", b'{"schema": "evenbench.changes/1.0", "changes": [1]}', b"\xff", b"[" * 9_999]
    )
    def test_what_detect_did_not_print_is_refused(self, data: bytes) -> None:
        with pytest.raises(UntrustedInput):
            read_detected(data)

    def test_a_change_holds_only_what_it_may(self) -> None:
        (change,) = changes_of(made(level((30, 1000), (20, 1030))))
        for name, wrong in (("case", "a b"), ("good", "HEAD"), ("change", float("nan")), ("more", 1)):
            with pytest.raises(UntrustedInput):
                read_changes([(Path("x"), json.dumps({**change.model_dump(by_alias=True), name: wrong}).encode())])
        assert isinstance(change, Change)


class TestOrder:
    """Runs are in the order of their commits, whenever they were measured."""

    def series(self, folder: Path, runs: Sequence[tuple[int, int, float, int | None]], **changes: Any) -> list[Series]:
        """Runs of (day, commit, ns, position)."""
        for day, number, ns, position in runs:
            results = build.results(
                (replace(RMS, head=ns),),
                verb="run",
                run_id=f"run-{day}-{number}",
                started=(START + timedelta(hours=day)).isoformat(),
                sides=[SideInfo(name="head", label="main", sha=f"{number:040x}")],
                launches={"head": changes},
            )
            add(folder, rows_of(results, "head", position))
        with opened(folder) as duck:
            return all_series(duck)

    @staticmethod
    def commits(series: Series) -> list[int]:
        return [int(point.commit, 16) for point in series.points]

    def test_of_positions_that_are_known(self, tmp_path: Path) -> None:
        (series,) = self.series(
            tmp_path, [(0, 5, 20e3, 5), (1, 6, 20e3, 6), (2, 1, 30e3, 1), (3, 2, 30e3, 2), (4, 6, 20e3, 6)]
        )
        assert self.commits(series) == [1, 2, 5, 6, 6]
        assert [at for at, _ in series.drawn] == sorted(at for at, _ in series.drawn)
        assert (series.first, series.last) == (START, START + timedelta(hours=4))

    def test_else_of_the_time_when_a_commit_was_first_measured(self, tmp_path: Path) -> None:
        (series,) = self.series(tmp_path, [(0, 1, 30e3, None), (1, 2, 30e3, 2), (2, 1, 30e3, None), (3, 3, 20e3, 3)])
        assert self.commits(series) == [1, 1, 2, 3]

    def test_a_commit_that_git_does_not_know_was_the_newest_of_its_time(self, tmp_path: Path) -> None:
        """Not one without a position turns all others around."""
        runs = [
            (0, 5, 20e3, 5),
            (1, 6, 20e3, 6),
            (2, 99, 20e3, None),
            (3, 7, 20e3, 7),
            (4, 1, 20e3, 1),
            (5, 98, 20e3, None),
        ]
        (series,) = self.series(tmp_path, runs)
        assert self.commits(series) == [1, 5, 6, 99, 7, 98]

    def test_a_position_known_of_one_run_holds_for_all_of_its_commit(self, tmp_path: Path) -> None:
        (series,) = self.series(tmp_path, [(0, 5, 20e3, 5), (1, 1, 20e3, None), (2, 5, 20e3, None), (3, 1, 20e3, 1)])
        assert self.commits(series) == [1, 1, 5, 5]

    def test_positions_of_older_files_are_learned(self, tmp_path: Path) -> None:
        self.series(tmp_path, [(0, 5, 20e3, None), (1, 6, 20e3, None), (2, 7, 20e3, 7), (3, 1, 20e3, None)])
        line = {f"{number:040x}": number for number in range(1, 7)}
        path = add_positions(tmp_path, line, START)
        assert path is not None
        assert path.read_text().splitlines() == [
            json.dumps({"schema": "evenbench.order/1.0", "commit": f"{n:040x}", "position": n}, separators=(",", ":"))
            for n in (1, 5, 6)
        ]
        assert add_positions(tmp_path, line, START) is None
        with opened(tmp_path) as duck:
            (series,) = all_series(duck)
        assert self.commits(series) == [1, 5, 6, 7]
        path.write_text('{"schema": "evenbench.order/1.0", "commit": "HEAD", "position": 1}\n')
        with pytest.raises(UntrustedInput, match=path.name), opened(tmp_path):
            pass

    def test_the_newest_series_is_that_of_the_newest_commit(self, tmp_path: Path) -> None:
        """Though an old one was measured later, on another machine."""
        self.series(tmp_path, [(0, 5, 20e3, 5), (1, 6, 21e3, 6)])
        self.series(tmp_path, [(2, 1, 30e3, 1)], uuid="GPU-2")
        with opened(tmp_path) as duck:
            (glance,) = overview(duck)
            series = series_of(duck, RMS.id)
        assert glance.place.uuid == "GPU-1"
        assert glance.ns == pytest.approx(21e3, rel=0.001)
        assert [each.place.uuid for each in series] == ["GPU-2", "GPU-1"]

    def test_old_commits_added_later_make_no_change_run_backwards(self, tmp_path: Path) -> None:
        nights = [(day, 20 + day, 16e3 * (1 + 0.001 * (-1) ** day), 20 + day) for day in range(12)]
        filled = [(12 + n, n, 20e3 * (1 + 0.001 * (-1) ** n), n) for n in range(8)]
        (series,) = self.series(tmp_path, [*nights, *filled])
        (change,) = changes_of(series)
        assert (change.slower, int(change.good, 16), int(change.bad, 16)) == (False, 7, 20)

    def test_the_overview_ends_with_the_newest_commit(self, tmp_path: Path) -> None:
        self.series(tmp_path, [(0, 5, 20e3, 5), (1, 6, 21e3, 6), (2, 1, 30e3, 1)])
        with opened(tmp_path) as duck:
            (glance,) = overview(duck)
        assert glance.ns == pytest.approx(21e3, rel=0.001)
        assert glance.all_ns == pytest.approx([30e3, 20e3, 21e3], rel=0.001)

    def test_no_change_between_two_runs_of_one_commit(self) -> None:
        jump = made(level((12, 20e3), (12, 26e3)))
        assert len(changes_of(jump)) == 1
        same = replace(jump, points=tuple(point._replace(commit="a" * 40) for point in jump.points))
        assert changes_of(same) == []

    @pytest.mark.parametrize("first", [1030.0, 1016.0, 1008.0, 1000.0])
    def test_a_change_is_where_its_commit_begins_whatever_its_first_run(self, first: float) -> None:
        """Many runs of the new commit, the first of which may be as quick as before."""
        times = level((20, 1000), (20, 1030))
        times[20] = first
        series = made(times)
        points = [point._replace(commit="b" * 40) if n >= 20 else point for n, point in enumerate(series.points)]
        (change,) = changes_of(replace(series, points=tuple(points)))
        assert (change.good, change.bad) == (f"{19:040x}", "b" * 40)
        assert [change.before_ns, change.after_ns] == pytest.approx([1000, 1030], rel=2e-3)

    def test_a_jump_within_a_commit_spoils_no_other_change(self) -> None:
        """The machine became slower while one commit was measured, then a commit did."""
        series = made(level((20, 1000), (20, 1100), (20, 1200)))
        points = [point._replace(commit="b" * 40) if 10 <= n < 30 else point for n, point in enumerate(series.points)]
        (change,) = changes_of(replace(series, points=tuple(points)))
        assert (change.good, change.bad) == (f"{39:040x}", f"{40:040x}")
        assert [change.before_ns, change.after_ns] == pytest.approx([1100, 1200], rel=2e-3)

    def test_commits_between_those_that_were_told_are_no_new_change(self) -> None:
        """A bisection: the change is narrowed down, however many runs it took."""
        nights = made(level((20, 1000), (20, 1030)))
        told = changes_of(nights)
        between = made(level((12, 1000), (10, 1030)), first=100).points
        series = replace(nights, points=(*nights.points[:20], *between, *nights.points[20:]))
        (change,) = changes_of(series)
        assert (change.good, change.bad) == (between[11].commit, between[12].commit)
        assert new_ones([change], told, [series]) == []

    def test_what_was_told_before_a_series_named_cpu_and_python_is_not_new(self) -> None:
        series = made(level((20, 1000), (20, 1030)), cpu="AMD EPYC 7763", python="3.12.4", timer="host")
        (change,) = changes_of(series)
        old = json.loads(dump(change)) | {"schema": "evenbench.change/1.0"}
        del old["cpu"], old["python"]
        told = read_changes([(Path("x"), json.dumps(old).encode())])
        assert new_ones([change], told, [series]) == []
        assert new_ones([change], [told[0].model_copy(update={"schema_": "evenbench.change/1.1"})], [series]) == [
            change
        ]


class TestHostSeries:
    """Of rows that the host's clock timed, the models of CPU and Python tell series apart; of others they do not."""

    @staticmethod
    def nights(folder: Path, timing: str, **other: Any) -> list[Series]:
        """Two nights each of a row of that timer, the second with something else."""
        for number, changes in enumerate(({}, other, {}, other)):
            values = {
                "launches": {"head": {"cpu": "AMD EPYC 7763"}},
                "prepared": {"head": {"python": "3.12.4"}},
            } | changes
            events = build.events(
                [RMS],
                verb="run",
                run_id=f"night-{number}",
                started=f"2026-01-0{number + 1}T02:00:00Z",
                sides=[SideInfo(name="head", label="main", sha=f"{number:040x}")],
                **values,
            )
            timed = [
                event.model_copy(update={"timing": timing}) if isinstance(event, Measurement) else event
                for event in events
            ]
            add(folder, rows_of(build.of(timed), "head"))
        with opened(folder) as duck:
            return all_series(duck)

    @pytest.mark.parametrize(
        "other",
        [
            {"launches": {"head": {"cpu": "AMD EPYC 9V74"}}},
            {"prepared": {"head": {"python": "3.13.0"}}},
        ],
        ids=["cpu", "python"],
    )
    @pytest.mark.parametrize(("timing", "expected"), [("host", 2), ("cupti", 1)])
    def test_another_is_another_series(self, tmp_path: Path, timing: str, expected: int, other: dict[str, Any]) -> None:
        series = self.nights(tmp_path, timing, **other)
        assert [len(each.points) for each in series] == [4 // expected] * expected
        assert {bool(each.place.cpu and each.place.python) for each in series} == {timing == "host"}


class TestCpu:
    def test_the_model_of_the_cpu_is_part_of_the_place_of_a_row_on_the_host(self, tmp_path: Path) -> None:
        for number in range(4):
            model = "EPYC 9V74" if number >= 2 else "EPYC 7763"
            add(
                tmp_path,
                night(
                    number,
                    replace(RMS, both_case={"timer": "host"}, head_measurement={"timing": "host"}),
                    launches={"cpu": model},
                ),
            )
        with opened(tmp_path) as duck:
            found = all_series(duck)
        assert [(series.place.cpu, len(series.points)) for series in found] == [("EPYC 7763", 2), ("EPYC 9V74", 2)]

    def test_of_a_row_on_a_gpu_it_is_not(self, tmp_path: Path) -> None:
        for number in range(2):
            add(tmp_path, night(number, launches={"cpu": f"model {number}"}))
        with opened(tmp_path) as duck:
            (series,) = all_series(duck)
        assert (series.place.cpu, len(series.points)) == ("", 2)
