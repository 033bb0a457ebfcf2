"""Files become results, or are refused: kind of file, lines that refer to nothing, shards that do not belong together."""

from __future__ import annotations

import gzip
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenbench.reports.load.lines import gather
from evenbench.reports.load.results import load_file, load_files, merge
from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import (
    Artifact,
    CaseEvent,
    CeilingsEvent,
    End,
    Event,
    Failure,
    JudgeSettings,
    LaunchEnd,
    LaunchEvent,
    Lines,
    Measurement,
    Resumed,
    SideInfo,
    Skip,
)
from tests import build
from tests.build import Case

CASES = [Case("norm/rms[cols=8192]"), Case("norm/softmax")]


def written(folder: Path, events: Sequence[Event], name: str = "results.jsonl") -> Path:
    path = folder / name
    path.write_bytes(build.text(events))
    return path


def refusal(folder: Path, events: Sequence[Event]) -> str:
    with pytest.raises(UntrustedInput) as caught:
        load_file(written(folder, events))
    return str(caught.value)


def changed(events: Sequence[Event], at: int, **values: Any) -> list[Event]:
    """The events with one of them changed, past the bounds of its own line."""
    return [event.model_copy(update=values) if n == at else event for n, event in enumerate(events)]


def first(events: Sequence[Event], kind: str) -> int:
    return next(n for n, event in enumerate(events) if event.event == kind)


def test_a_whole_run(tmp_path: Path) -> None:
    results = load_file(written(tmp_path, build.events(CASES)))
    assert results.complete
    assert not results.cut
    assert results.notes == ()
    assert set(results.cases["base"]) == {"norm/rms[cols=8192]", "norm/softmax"}
    assert [launch.event.launch for launch in results.launches] == list(range(16))
    assert {key: len(placed) for key, placed in results.measurements.items()} == {
        ("norm/rms[cols=8192]", "main"): 16,
        ("norm/softmax", "main"): 16,
    }
    one = results.measurements["norm/softmax", "main"][3]
    assert one.launch.launch == one.record.launch


def test_results_of_a_file_equal_those_of_its_events(tmp_path: Path) -> None:
    events = build.events(CASES)
    found, expected = load_file(written(tmp_path, events)), build.of(events)
    assert replace(found, measurements={}) == replace(expected, measurements={})
    assert found.measurements.keys() == expected.measurements.keys()  # their records: tests/reports/load/test_packed.py


class TestFiles:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"none\.jsonl: no such file"):
            load_file(tmp_path / "none.jsonl")

    def test_no_file_given(self) -> None:
        with pytest.raises(UsageError, match="no results file"):
            load_files([])

    def test_symbolic_link(self, tmp_path: Path) -> None:
        target = written(tmp_path, build.events(CASES))
        link = tmp_path / "link.jsonl"
        link.symlink_to(target)
        with pytest.raises(UntrustedInput, match="symbolic link"):
            load_file(link)

    def test_fifo_is_not_waited_for(self, tmp_path: Path) -> None:
        path = tmp_path / "fifo"
        os.mkfifo(path)
        with pytest.raises(UntrustedInput, match="not a regular file"):
            load_file(path)

    def test_compressed(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl.gz"
        path.write_bytes(gzip.compress(build.text(build.events(CASES))))
        with pytest.raises(UntrustedInput, match="line 1: not UTF-8") as error:
            load_file(path)
        assert error.value.hint == "unpack it first if it is compressed"

    @pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/"])
    def test_device_and_directory(self, path: str) -> None:
        with pytest.raises(UntrustedInput, match="not a regular file") as error:
            load_file(Path(path))
        assert "write their results into .evenbench/" in str(error.value.hint)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_unreadable(self, tmp_path: Path) -> None:
        path = written(tmp_path, build.events(CASES))
        path.chmod(0)
        with pytest.raises(UsageError, match="cannot be read"):
            load_file(path)
        path.chmod(stat.S_IRUSR)

    def test_path_through_a_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, build.events(CASES))
        with pytest.raises(UsageError, match="cannot be read"):
            load_file(path / "results.jsonl")

    def test_large_file_when_publishing(self, tmp_path: Path) -> None:
        path = written(tmp_path, build.events(CASES))
        size = path.stat().st_size
        assert load_file(path, max_bytes=size).complete
        with pytest.raises(UntrustedInput, match="larger than"):
            load_file(path, max_bytes=size - 1)

    def test_files_are_closed(self, tmp_path: Path) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        load_file(written(tmp_path, build.events(CASES)))
        for bad in (tmp_path, Path("/dev/null")):
            with pytest.raises(UntrustedInput):
                load_file(bad)
        assert len(list(Path("/proc/self/fd").iterdir())) == before

    def test_what_a_message_quotes_stays_on_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        line = json.dumps({"event": "\n\u001b[2J\u202e"})
        path.write_bytes(build.text(build.events(CASES)[:1]) + line.encode() + b"\n")
        with pytest.raises(UntrustedInput) as caught:
            load_file(path)
        assert str(caught.value).isprintable()


class TestLinesThatReferToNothing:
    EVENTS = build.events(CASES, made=2)

    def test_side_that_the_header_lacks(self, tmp_path: Path) -> None:
        at = first(self.EVENTS, "side")
        assert "side control is not in the header" in refusal(tmp_path, changed(self.EVENTS, at, side="control"))

    @pytest.mark.parametrize("index", [1, 100])
    def test_case_index_that_is_not_next(self, tmp_path: Path, index: int) -> None:
        assert "where 0 is next" in refusal(tmp_path, changed(self.EVENTS, first(self.EVENTS, "case"), index=index))

    def test_case_twice_on_a_side(self, tmp_path: Path) -> None:
        at = first(self.EVENTS, "case")
        assert "comes twice on base" in refusal(tmp_path, changed(self.EVENTS, at + 1, id="norm/rms[cols=8192]"))

    def test_case_without_id_or_error(self, tmp_path: Path) -> None:
        assert "neither the id" in refusal(tmp_path, changed(self.EVENTS, first(self.EVENTS, "case"), id=""))

    def test_implementation_twice_in_a_case(self, tmp_path: Path) -> None:
        events = build.events([Case("a", implementations=("x", "x"))], made=0)
        assert "names an implementation twice" in refusal(tmp_path, events)

    def test_launch_twice(self, tmp_path: Path) -> None:
        at = [n for n, event in enumerate(self.EVENTS) if event.event == "launch"][1]
        assert "launch 0 begins twice" in refusal(tmp_path, changed(self.EVENTS, at, launch=0))

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"round": 24}, "round 24 of at most 24"),
            ({"round": None}, "a timed launch has a round"),
            ({"kind": "preparation"}, "a timed launch has a round"),
            ({"order": [4]}, "no line before it describes"),
        ],
    )
    def test_launch_beyond_the_plan(self, tmp_path: Path, values: dict[str, Any], message: str) -> None:
        assert message in refusal(tmp_path, changed(self.EVENTS, first(self.EVENTS, "launch"), **values))

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"launch": 99}, "launch 99 is not known"),
            ({"case": "norm/other"}, "norm/other, implementation main, is not known on base"),
            ({"implementation": "fast"}, "implementation fast, is not known on base"),
        ],
    )
    def test_measurement_of_nothing(self, tmp_path: Path, values: dict[str, Any], message: str) -> None:
        assert message in refusal(tmp_path, changed(self.EVENTS, first(self.EVENTS, "measurement"), **values))

    def test_measurement_of_a_case_of_the_other_side_only(self, tmp_path: Path) -> None:
        events = build.events([Case("a", base=None), Case("b")], made=1)
        at = next(n for n, e in enumerate(events) if isinstance(e, Measurement) and e.launch == 0)
        assert "a, implementation main, is not known on base" in refusal(tmp_path, changed(events, at, case="a"))

    def test_measurement_in_a_preparation_launch(self, tmp_path: Path) -> None:
        at = first(self.EVENTS, "launch")
        assert "launch 0 is not timed" in refusal(tmp_path, changed(self.EVENTS, at, kind="preparation", round=None))

    def test_measurement_twice(self, tmp_path: Path) -> None:
        at = first(self.EVENTS, "measurement")
        events = [*self.EVENTS[: at + 1], *self.EVENTS[at:]]
        assert "is measured twice" in refusal(tmp_path, events)

    def test_measurement_twice_in_a_round_by_another_launch(self, tmp_path: Path) -> None:
        at = first(self.EVENTS, "launch_end")
        launch, measurement = self.EVENTS[first(self.EVENTS, "launch")], self.EVENTS[first(self.EVENTS, "measurement")]
        again = [each.model_copy(update={"launch": 99}) for each in (launch, measurement)]
        assert "is measured twice" in refusal(tmp_path, [*self.EVENTS[: at + 1], *again, *self.EVENTS[at + 1 :]])

    @pytest.mark.parametrize(
        "record",
        [Failure(launch=0, side="head", kind="crashed", error="x"), Skip(launch=0, side="head", case="a", reason="x")],
    )
    def test_failure_and_skip_of_another_side(self, tmp_path: Path, record: Event) -> None:
        assert "is not of side head" in refusal(tmp_path, [*self.EVENTS[:-1], record])

    def test_launch_end(self, tmp_path: Path) -> None:
        for number, message in ((99, "launch 99 is not known"), (0, "launch 0 ends twice")):
            assert message in refusal(tmp_path, [*self.EVENTS[:-1], LaunchEnd(launch=number, status="ok")])

    def test_line_after_the_end(self, tmp_path: Path) -> None:
        assert "a line after the end" in refusal(tmp_path, [*self.EVENTS, End(at="now", rounds=1)])


class TestPartial:
    def test_without_its_end(self, tmp_path: Path) -> None:
        results = load_file(written(tmp_path, build.events(CASES, end=False)))
        assert not results.complete
        assert results.notes == ("partial: the run did not come to the end: ",) or results.notes[0].startswith(
            "partial: the run"
        )

    def test_cut_in_a_line(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        path.write_bytes(build.text(build.events(CASES))[:-5])
        results = load_file(path)
        assert results.cut
        assert results.notes == ("partial: the run did not come to the end, the last line is cut off",)


class TestResumed:
    def test_rounds_made_again_replace_those_before(self) -> None:
        events = build.events([Case("a")], made=3, end=False)
        again = [
            event.model_copy(update={"launch": event.launch + 10})
            for event in events
            if isinstance(event, LaunchEvent | Measurement | LaunchEnd) and event.launch >= 4
        ]
        results = build.of([*events, Resumed(round=2, at="now"), *again, End(at="now", rounds=3)])
        placed = results.measurements["a", "main"]
        assert sorted((each.launch.side, each.launch.round, each.record.launch) for each in placed) == [
            ("base", 0, 0), ("base", 1, 3), ("base", 2, 15), ("head", 0, 1), ("head", 1, 2), ("head", 2, 14),
        ]  # fmt: skip
        assert [launch.event.launch for launch in results.launches] == [0, 1, 2, 3, 14, 15]
        assert results.complete

    def test_failures_and_skips_of_those_rounds_go_too(self) -> None:
        events = build.events([Case("a", dies={"head": {0: "early", 2: "late"}})], made=3, end=False)
        skip = Skip(launch=4, side="head", case="a", reason="late")
        assert [each.record.error for each in build.of(events).failures] == ["early", "late"]
        results = build.of([*events, skip, Resumed(round=2, at="now")])
        assert [each.record.error for each in results.failures] == ["early"]
        assert results.skips == ()

    def test_measurements_of_rounds_that_stay_may_not_come_again(self) -> None:
        events = build.events([Case("a")], made=2, end=False)
        launch, measurement = (events[first(events, kind)] for kind in ("launch", "measurement"))
        again = [each.model_copy(update={"launch": 99}) for each in (launch, measurement)]
        with pytest.raises(UntrustedInput, match="measured twice"):
            build.of([*events, Resumed(round=1, at="now"), *again])
        assert build.of([*events, Resumed(round=0, at="now"), *again]).launches[0].event.launch == 99


class TestShards:
    def shards(self, folder: Path, *changes: dict[str, Any]) -> list[Path]:
        made = []
        for index, change in enumerate(changes):
            cases = change.pop("cases", [Case(f"shard{index}/a")])
            options: dict[str, Any] = {"shard": build.shard(index, len(changes)), "run_id": f"run-{index}"} | change
            made.append(written(folder, build.events(cases, **options), f"{index}.jsonl"))
        return made

    def test_merge_in_any_order(self, tmp_path: Path) -> None:
        paths = self.shards(tmp_path, {}, {"started": "later"}, {})
        results = load_files([paths[2], paths[0], paths[1]])
        assert results == load_files(paths)
        assert results.complete
        assert set(results.cases["head"]) == {"shard0/a", "shard1/a", "shard2/a"}
        assert [header.shard.index for header in results.headers] == [0, 1, 2]
        assert {launch.shard for launch in results.launches} == {0, 1, 2}
        assert results.names[2, 1] == "shard2/a"

    def test_missing_shard_is_noted(self, tmp_path: Path) -> None:
        paths = self.shards(tmp_path, {}, {}, {})
        results = load_files([paths[0], paths[2]])
        assert not results.complete
        assert results.missing == (1,)
        assert results.notes == ("partial: without shard 1 of 3 (counted from 0)",)

    def test_one_of_several_alone(self, tmp_path: Path) -> None:
        assert load_file(self.shards(tmp_path, {}, {})[1]).missing == (0,)

    def test_unfinished_shard_is_noted(self, tmp_path: Path) -> None:
        results = load_files(self.shards(tmp_path, {}, {"end": False}))
        assert results.notes == ("partial: 1 of 2 shards did not come to the end",)

    def test_the_same_stale_copy_in_all_shards_counts_once(self) -> None:
        stale = Artifact(side="head", case="", name="cases/artifacts/old.cu", status="stale")
        found = []
        for index in range(2):
            *events, end = build.events([Case(f"shard{index}/a")], shard=build.shard(index, 2))
            own = Artifact(side="head", case=f"shard{index}/a", name="a.cu", status="new")
            found.append(gather(Lines([*events, own, stale, end], cut=False)))
        assert [each.case for each in merge(found).artifacts] == ["shard0/a", "", "shard1/a"]

    def test_the_same_broken_file_in_all_shards_counts_once(self, tmp_path: Path) -> None:
        broken = {"broken": {"head": {"cases/bad.py": "SyntaxError"}}}
        results = load_files(self.shards(tmp_path, dict(broken), dict(broken)))
        assert [event.file for event in results.broken["head"]] == ["cases/bad.py"]
        assert results.broken["base"] == ()

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("seed", 8),
            ("looks", [8]),
            ("rounds", 9),
            ("suite", "full"),
            ("image", "other"),
            ("patterns", ["norm/*"]),
            ("cases_from", "head"),
            ("judge", JudgeSettings(min_effect=0.5, equivalence=0.02, family_error=0.01)),
            (
                "sides",
                [SideInfo(name="base", label="main", sha="a" * 40), SideInfo(name="head", label="f", sha="d" * 40)],
            ),
        ],
    )
    def test_of_different_runs(self, tmp_path: Path, key: str, value: Any) -> None:
        with pytest.raises(UntrustedInput, match=f"not shards of one run: they differ in {key}"):
            load_files(self.shards(tmp_path, {}, {key: value}))

    def test_of_different_counts(self, tmp_path: Path) -> None:
        paths = self.shards(tmp_path, {}, {"shard": build.shard(1, 3)})
        with pytest.raises(UntrustedInput, match="of 2 shards and of 3 shards"):
            load_files(paths)

    def test_the_same_one_twice(self, tmp_path: Path) -> None:
        path = self.shards(tmp_path, {}, {})[0]
        with pytest.raises(UntrustedInput, match=r"both are shard 0 of 2.*each once"):
            load_files([path, path])

    def test_case_in_two_shards(self, tmp_path: Path) -> None:
        with pytest.raises(UntrustedInput, match="a is in two shards.* give each its own --share"):
            load_files(self.shards(tmp_path, {"cases": [Case("a")]}, {"cases": [Case("a")]}))


def test_ceilings_are_kept() -> None:
    events = build.events(CASES)
    ceilings = CeilingsEvent(device="NVIDIA H200", uuid="GPU-1", rates={"memory/copy": 4.3e12})
    assert build.of([*events[:3], ceilings, *events[3:]]).ceilings == (ceilings,)


def test_case_lines_are_frozen() -> None:
    event = next(iter(build.results(CASES).cases["base"].values()))
    assert isinstance(event, CaseEvent)
    with pytest.raises(ValueError, match="frozen"):
        event.id = "other"
