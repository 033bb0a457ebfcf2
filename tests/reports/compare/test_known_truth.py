"""Runs whose truth is known: how they are told from others, their proofs as lines, and what these amount to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare, conditions_met, headline
from evenbench.reports.compare.known_truth import PROVING, kind_of, planted_change, proof_line, proof_of
from evenbench.reports.load.proofs import (
    LINE_MAX,
    NAMES_MAX,
    PROOFS_MAX,
    Planted,
    Proof,
    ProofHistory,
    dump,
    history_of,
    moment,
    read,
)
from evenbench.reports.render import wording
from evenbench.reports.render.data.json import as_json
from evenbench.reports.rows.outcome import Comparison, Control
from evenbench.runner.config import Mute
from evenbench.runner.errors import NothingMeasured, UntrustedInput, UsageError
from evenbench.runner.records import PlantRecord, SideInfo
from tests import build
from tests.build import Case

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
TODAY = date(2026, 11, 29)
SAME = [SideInfo(name=name, label="main", sha=build.BASE_SHA) for name in ("base", "head")]
ALL = ("regressed", "failed", "inconclusive")
SLOWED = Case("norm/rms[cols=8192]", head=21_080.0)


def compared(*cases: Case, proofs: Sequence[Proof] = (), **options: Any) -> Comparison:
    return compare(build.results(cases, **options), TODAY, (), proofs=proofs)


def planted(*cases: Case, case: str = "norm/rms", fraction: float = 0.05, **options: Any) -> Comparison:
    return compared(*cases, plant=PlantRecord(case=case, fraction=fraction), **options)


class TestKind:
    def test_one_clean_commit_on_both_sides_is_a_a(self) -> None:
        found = compared(Case("a"), Case("b"), sides=SAME)
        assert kind_of(found) == "aa"
        assert headline(found) == "A/A, 0 false alarms; 2 unchanged"
        assert wording.proved(found) == [
            "A/A: both sides are the same commit; what is called changed here is a false alarm: 0 of 2 rows"
        ]
        assert conditions_met(found, ALL) == ()

    @pytest.mark.parametrize(
        ("base", "head"),
        [
            ({}, {"sha": build.HEAD_SHA}),
            ({"dirty": True, "tree": "1"}, {}),
            ({}, {"dirty": True, "tree": "1"}),
            ({"sha": "", "tree": "1"}, {"sha": "", "tree": "1"}),  # a directory without git
            ({}, {"tree": "1"}),
            ({}, {"setup": "pip install --config-settings fast ."}),
            ({}, {"setup": ""}),  # none, where base has that of suites.yaml
            ({"python": "/one/python"}, {"python": "/other/python"}),
        ],
    )
    def test_sides_that_differ_are_none(self, base: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        sides = [one.model_copy(update=dict(more)) for one, more in zip(SAME, (base, head), strict=True)]
        found = compared(Case("a"), sides=sides)
        assert kind_of(found) == "ordinary"
        assert headline(found) == "1 unchanged"
        assert wording.proved(found) == []

    def test_the_same_interpreter_for_both_is_a_a(self) -> None:
        sides = [one.model_copy(update={"python": "/one/python"}) for one in SAME]
        assert kind_of(compared(Case("a"), sides=sides)) == "aa"

    def test_what_a_a_calls_changed_is_a_false_alarm(self) -> None:
        found = compared(Case("a"), Case("b", head=22_000.0), Case("c", head=18_000.0), sides=SAME)
        assert headline(found) == "A/A, 2 false alarms; 1 regressed, 1 improved, 1 unchanged"
        assert wording.proved(found)[0].endswith("false alarm: 2 of 3 rows")
        assert conditions_met(found, ALL) == ("regressed",)

    def test_a_planted_run_of_one_commit_is_planted(self) -> None:
        assert kind_of(planted(SLOWED, sides=SAME)) == "planted"


class TestPlanted:
    def test_found(self) -> None:
        found = planted(SLOWED, Case("a"))
        assert headline(found) == "planted change found; otherwise 1 unchanged"
        assert wording.proved(found) == ["planted 5 % in norm/rms[cols=8192]: found (+5.5 % [5.2, 5.7])"]
        assert wording.mean(found) == ""
        assert conditions_met(found, ALL) == ()
        cells = wording.cells(found.rows[0])
        assert (cells.called, cells.notes[0]) == ("regressed (planted)", "slowed on purpose by 5 %")

    def test_found_alone(self) -> None:
        assert headline(planted(SLOWED)) == "planted change found; no other row"

    def test_not_found(self) -> None:
        found = planted(Case("norm/rms"), Case("a"))
        assert headline(found) == "planted change not found; otherwise 1 unchanged"
        assert wording.proved(found) == ["planted 5 % in norm/rms: NOT found (−0.1 % [−0.3, 0.2])"]
        assert conditions_met(found, ALL) == ("planted change not found",)
        assert conditions_met(found, ()) == ()

    def test_a_slow_down_of_another_row_is_told_apart(self) -> None:
        found = planted(SLOWED, Case("a", head=22_000.0), Case("b", head=18_000.0))
        assert headline(found) == "planted change found; otherwise 1 regressed, 1 improved"
        assert conditions_met(found, ["failed"]) == ("2 other rows called changed",)

    def test_every_implementation_must_be_found(self) -> None:
        whole = planted(replace(SLOWED, implementations=("one", "two")))
        outcome = planted_change(whole)
        assert outcome is not None
        assert (outcome.cases, outcome.found) == ((SLOWED.id,), True)
        first, second = whole.rows
        half = planted_change(replace(whole, rows=(first, replace(second, verdict="inconclusive"))))
        assert half is not None
        assert not half.found
        assert half.row is not None
        assert half.row.implementation == second.implementation

    def test_a_case_that_was_not_measured_is_not_found(self) -> None:
        found = planted(Case("a"))
        assert headline(found) == "planted change not measured; 1 unchanged"
        assert wording.proved(found) == ["planted 5 % in norm/rms: NOT measured"]
        assert conditions_met(found, ALL) == ("planted change not measured",)

    def test_a_shard_may_lack_it(self) -> None:
        found = planted(Case("a"), shard=build.shard(0, 2))
        assert headline(found) == "partial: planted change not measured; 1 unchanged"
        assert conditions_met(found, ALL) == ()

    def test_a_pattern_that_covers_a_regression_hides_nothing(self) -> None:
        """A header that no run of ours writes: two cases cannot be the one."""
        found = planted(SLOWED, Case("a", head=30_000.0), case="**")
        assert headline(found) == "planted change not found; no other row"
        assert conditions_met(found, ALL) == ("planted change not found",)

    def test_a_muted_one_is_found_all_the_same(self) -> None:
        results = build.results([SLOWED], plant=PlantRecord(case="norm/rms", fraction=0.05))
        found = compare(results, TODAY, [Mute(match="norm/*", why="old", until=date(2027, 1, 1))])
        assert headline(found) == "planted change found; no other row (1 muted)"

    def test_the_command_that_repeats_it_plants_it_again(self) -> None:
        assert wording.command(planted(SLOWED)).endswith(" --plant 'norm/rms[cols=8192]=0.05'")

    def test_as_json(self) -> None:
        data = json.loads(json.dumps(as_json(planted(SLOWED, Case("a"), proofs=build.proofs(2)))))
        assert data["kind"] == "planted"
        assert data["planted"] == {
            "asked": "norm/rms", "cases": ["norm/rms[cols=8192]"], "fraction": 0.05, "found": True,
        }  # fmt: skip
        assert [row["planted"] for row in data["rows"]] == [0.05, 0.0]
        assert data["history"] == {
            "nights": 2,
            "aa": {"rows": 200, "flagged": 0},
            "control": {"rows": 0, "flagged": 0},
            "planted": [{"fraction": 0.05, "found": 2, "runs": 2}],
        }


class TestProof:
    def test_of_an_a_a_run(self) -> None:
        found = proof_of(compared(Case("a"), Case("b", head=22_000.0), sides=SAME))
        assert found == Proof(
            kind="aa",
            at="2026-11-29T12:00:00Z",
            run_id="run-1",
            uuids=["GPU-1"],
            devices=["NVIDIA H200"],
            drivers=["580.159.04"],
            harness="0.1.0",
            rows=2,
            flagged=1,
            names=["b"],
        )

    def test_of_a_planted_run(self) -> None:
        found = proof_of(planted(SLOWED, Case("a"), Case("b", base=None)))
        assert (found.kind, found.rows, found.flagged, found.names) == ("planted", 1, 0, [])
        assert found.planted is not None
        assert (found.planted.case, found.planted.fraction, found.planted.found) == (SLOWED.id, 0.05, True)
        assert found.planted.change == pytest.approx(0.054, abs=0.003)

    def test_is_one_line_with_a_version(self) -> None:
        line = proof_line(planted(SLOWED))
        assert line.count("\n") == 1
        assert line.startswith('{"schema":"evenbench.proof/1.0","kind":"planted","at":"2026-11-29T12:00:00Z"')
        assert read([line]) == [proof_of(planted(SLOWED))]

    def test_names_the_first_of_many(self) -> None:
        many = [Case(f"case/{number}", head=22_000.0) for number in range(NAMES_MAX + 1)]
        found = proof_of(compared(*many, sides=SAME))
        assert (found.flagged, len(found.names)) == (NAMES_MAX + 1, NAMES_MAX)

    @pytest.mark.parametrize(
        ("found", "error", "said"),
        [
            (lambda: compared(Case("a")), UsageError, "an ordinary comparison"),
            (lambda: compared(Case("a"), sides=SAME, end=False), UsageError, "did not come to its end"),
            (lambda: compared(Case("a"), sides=SAME, confirms="run-0"), UsageError, "they were chosen"),
            (lambda: compared(Case("a", base=None), sides=SAME), NothingMeasured, "no row was judged"),
            (lambda: planted(Case("a")), NothingMeasured, "names 0 cases"),
            (lambda: planted(Case("a"), Case("b"), case="*"), NothingMeasured, "names 2 cases"),
            (lambda: compared(Case("a"), sides=SAME, started="yesterday"), UntrustedInput, "at is out of its bounds"),
        ],
    )
    def test_of_what_proves_nothing(self, found: Any, error: type[Exception], said: str) -> None:
        with pytest.raises(error, match=said):
            proof_of(found())

    def test_the_refusal_says_which_runs_have_one(self) -> None:
        with pytest.raises(UsageError) as caught:
            proof_of(compared(Case("a")))
        assert caught.value.hint == PROVING


LINE = dump(build.proofs(1)[0])
PLANTED = dump(build.proofs(1)[1])


def changed(line: str = LINE, **changes: Any) -> str:
    return json.dumps(json.loads(line) | changes)


class TestControl:
    def test_an_ordinary_run_with_a_control_side_proves_that_one(self) -> None:
        ordinary = compared(Case("a", head=22_000.0), Case("b"))
        found = replace(ordinary, control=Control(40, ("b",)))
        assert kind_of(found) == "control"
        assert headline(found) == "unreliable: 1 regressed, 1 unchanged"
        proof = proof_of(found)
        assert (proof.kind, proof.rows, proof.flagged, proof.names, proof.planted) == ("control", 40, 1, ["b"], None)
        assert read([proof_line(found)]) == [proof]

    def test_its_rows_count_beside_those_of_an_a_a_run(self) -> None:
        found = replace(compared(Case("a"), sides=SAME), control=Control(40, ("b",)))
        proof = proof_of(found)
        assert (proof.kind, proof.rows, proof.flagged, proof.names) == ("aa", 41, 1, ["b"])


class TestRead:
    def test_what_was_written(self) -> None:
        proofs = build.proofs(3)
        lines = [dump(proof) + "\n" for proof in proofs]
        assert read(lines) == read(line.encode() for line in lines) == proofs
        assert read([]) == []

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("", "not JSON"),
            ("[]", "not a proof: its schema must be evenbench.proof/"),
            ('{"schema": "evenbench.results/1.0"}', "not a proof: its schema"),
            (
                changed(schema="evenbench.proof/2.0"),
                "schema version 2.0 is not known to this evenbench, which reads 1.x",
            ),
            (changed(more=1), "more: Extra inputs"),
            (changed(rows=True), "rows: Input should be a valid integer"),
            (changed(rows=-1), "rows: Input should be greater"),
            (changed(flagged=101), "more rows are flagged than were judged"),
            (changed(names=["a"]), "more named than flagged"),
            (changed(at="2026-11-29"), "at: Value error, must be a time with its zone"),
            (changed(at="0001-01-01T00:00:00+14:00"), "at: Value error, must be a time with its zone"),
            (changed(kind="planted"), "planted belongs to the kind of that name"),
            (changed(PLANTED, kind="aa"), "planted belongs to the kind of that name"),
            (changed(PLANTED, planted={"case": "a b"}), "planted.case"),
            (LINE[:-1] + ',"rows":1}', "a key twice"),
            (LINE.replace('"rows":100', '"rows":NaN'), "NaN is not a number"),
            (LINE + " " * LINE_MAX, "longer than 65,536 bytes"),
        ],
    )
    def test_a_line_that_is_none_is_named(self, line: str, said: str) -> None:
        with pytest.raises(UntrustedInput) as caught:
            read([LINE, line])
        assert caught.value.message.startswith("line 2: ")
        assert said in caught.value.message
        assert len(caught.value.message) < 600

    def test_a_newer_minor_version_may_know_more(self) -> None:
        (found,) = read([changed(schema="evenbench.proof/1.1", more=[1])])
        assert found.rows == 100
        with pytest.raises(UntrustedInput, match="rows"):
            read([changed(schema="evenbench.proof/1.1", rows="100")])

    def test_too_many_lines(self) -> None:
        with pytest.raises(UntrustedInput, match="more than 100,000 lines"):
            read(LINE for _ in range(PROOFS_MAX + 1))

    @given(st.binary(max_size=300))
    def test_any_bytes_are_refused_in_words(self, content: bytes) -> None:
        with pytest.raises(UntrustedInput):
            read([content])

    @given(st.text(max_size=40))
    def test_a_moment_is_utc_or_none(self, text: str) -> None:
        found = moment(text)
        assert found is None or found.tzinfo is UTC


class TestHistory:
    def test_thirty_nights(self) -> None:
        found = history_of(build.proofs(), ["GPU-1", "GPU-2"], NOW)
        assert found == ProofHistory(nights=30, aa=(3_000, 0), control=(0, 0), planted={0.05: (30, 30)})

    def test_is_told_in_the_footer(self) -> None:
        shown = compared(
            Case("a"), proofs=[*build.proofs(28), *build.proofs(1, kind="control", planted=None, run_id="c")]
        )
        assert wording.nightly(shown) == [
            "this machine's nightly A/A, last 28 nights: 0 of 2,800 rows",
            "this machine's control sides, last 30 days: 0 of 100 rows",
            "planted 5 %: found 28 of 28",
        ]

    def test_false_alarms_and_what_was_missed_are_told(self) -> None:
        missed = Planted(case="a", fraction=0.02, found=False, change=None, interval=None)
        proofs = [
            *build.proofs(2),
            *[proof.model_copy(update={"run_id": "bad", "flagged": 3}) for proof in build.proofs(1)[:1]],
            *[proof.model_copy(update={"run_id": "miss", "planted": missed}) for proof in build.proofs(1)[1:]],
        ]
        assert wording.nightly(compared(Case("a"), proofs=proofs)) == [
            "this machine's nightly A/A, last 2 nights: 3 of 300 rows",
            "planted 2 %: found 0 of 1",
            "planted 5 %: found 2 of 2",
        ]

    def test_the_last_thirty_days_before_the_run_count(self) -> None:
        edges = [NOW - timedelta(days=30, seconds=1), NOW - timedelta(days=30), NOW - timedelta(seconds=1), NOW]
        proofs = [
            proof.model_copy(update={"at": at.isoformat(), "run_id": f"run-{number}", "rows": 10**number})
            for number, at in enumerate(edges)
            for proof in build.proofs(1)[:1]
        ]
        found = history_of(proofs, ["GPU-1"], NOW)
        assert found is not None
        assert (found.nights, found.aa) == (2, (110, 0))

    @pytest.mark.parametrize("uuids", [["GPU-2"], ["GPU-1", "GPU-2"], []])
    def test_another_machine_proves_nothing_here(self, uuids: list[str]) -> None:
        assert history_of(build.proofs(uuids=uuids), ["GPU-1"], NOW) is None
        assert wording.nightly(compared(Case("a"), proofs=build.proofs(uuids=uuids))) == []

    def test_a_run_told_twice_counts_once(self) -> None:
        proofs = build.proofs(3)
        assert history_of([*proofs, *proofs], ["GPU-1"], NOW) == history_of(proofs, ["GPU-1"], NOW)

    @pytest.mark.parametrize("started", ["", "today", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"])
    def test_a_run_without_a_time_of_ours_cites_nothing(self, started: str) -> None:
        assert compared(Case("a"), proofs=build.proofs(), started=started).history is None

    @given(st.lists(st.integers(0, 80), max_size=30))
    def test_every_night_counts_once(self, nights: list[int]) -> None:
        proofs = [
            proof.model_copy(update={"at": (NOW - timedelta(days=night, hours=1)).isoformat(), "run_id": f"r{number}"})
            for number, night in enumerate(nights)
            for proof in build.proofs(1)[:1]
        ]
        kept = [night for night in nights if night < 30]
        found = history_of(proofs, ["GPU-1"], NOW)
        expected = ProofHistory(len(set(kept)), (100 * len(kept), 0), (0, 0), {}) if kept else None
        assert found == expected


def test_thousands_of_proofs() -> None:
    lines = [dump(proof) for proof in build.proofs(2_500)]
    found = history_of(read(lines), ["GPU-1"], NOW)
    assert found is not None
    assert found.nights == 30
