"""expectations.yaml, read strictly; figures held against launches; what launches amount to; and how all of it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare, conditions_met, headline
from evenbench.reports.compare.expectations import expected, outliers
from evenbench.reports.compare.open_cases import open_cases
from evenbench.reports.compare.proposals import propose
from evenbench.reports.compare.report import headline as run_headline
from evenbench.reports.compare.report import measured
from evenbench.reports.load.results import Results
from evenbench.reports.render.comment.comment import comment, run_comment, summary
from evenbench.reports.render.data.json import as_json
from evenbench.reports.render.page.page import page
from evenbench.reports.render.terminal.terminal import run_table, terminal
from evenbench.runner.config import FAIL_ON
from evenbench.runner.config.expectations import METRICS, Expectation, dump, heading_of, parse
from evenbench.runner.errors import ConfigError, UntrustedInput, UsageError
from evenbench.runner.plan.expectations import cpu_model, events_of, expectations_of, unknown_cases
from evenbench.runner.records import Artifact, Event, ExpectationEvent, MuteRecord, PlantRecord, SideInfo
from evenbench.runner.sides import Checkout
from tests import build
from tests.build import Case
from tests.reports.render.test_render import golden

TODAY = date(2026, 11, 29)
ROOT = Path(__file__).parents[3]
FIGURE = "{value: 1, rtol: 0.1, measured: 2026-11-30, by: me}"
FLOPS = 134_217_728  # of a fabricated case


def file(figure: str = FIGURE, metric: str = "tflops", case_id: str = "a/b[n=1]") -> str:
    return f'version: 1\ndevices:\n  NVIDIA H200:\n    "{case_id}":\n      main:\n        {metric}: {figure}\n'


class TestFile:
    def test_what_is_written_is_read(self) -> None:
        (found,) = parse(file("{value: 11.2, rtol: 0.05, atol: 1, measured: 2022, by: a  b}"), "f")
        assert found == Expectation("NVIDIA H200", "a/b[n=1]", "main", "tflops", 11.2, 0.05, 1.0, "2022", "a b")
        assert parse("version: 1", "f") == ()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "version: is required, in f"),
            ("version: 2", "version: must be 1, not 2, in f"),
            ("version: 1\ndevice: {}", "device: unknown key, in f (hint: did you mean 'devices'?)"),
            (file(metric="tflop"), "].main.tflop: unknown key, in f (hint: did you mean 'tflops'?)"),
            (file("{valeu: 1}"), "].main.tflops.valeu: unknown key, in f (hint: did you mean 'value'?)"),
            (file("{value: 1, rtol: 0.1, by: me}"), "].main.tflops.measured: is required, in f"),
            (file(FIGURE.replace("1,", "0,", 1)), ".value: must be at least 1e-12, not 0, in f"),
            (file(FIGURE.replace("1,", ".nan,", 1)), ".value: must be"),
            (file(FIGURE.replace("1,", "true,", 1)), ".value: must be a number, not True, in f"),
            (file(FIGURE.replace("0.1", "1")), ".rtol: must be under 1, not 1, in f"),
            (file(FIGURE.replace("2026-11-30", "2026-13")), ".measured: must be a day, month or year such as"),
            (file(FIGURE.replace("2026-11-30", "yesterday")), ".measured: must be a day, month or year such as"),
            (file(FIGURE.replace("by: me", 'by: "a\\u202e"')), ".by: must be plain text on one line"),
            (file(FIGURE.replace("by: me", "by: ' '")), ".by: must be plain text on one line"),
            (file().replace("NVIDIA H200", '" "'), "must be plain text on one line"),
            (file(case_id="a/*"), "['a/*']: must be the whole id of one case"),
            (file(case_id="tag:pr"), "['tag:pr']: must be the whole id of one case"),
            (file(f"{FIGURE}\n        tflops: {FIGURE}"), "f:7:9: the key 'tflops' stands here twice"),
            ("version: 1\ndevices: !!python/object:os.system {}", "the tag"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_path(self, text: str, said: str) -> None:
        with pytest.raises(ConfigError) as refused:
            parse(text, "f")
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)

    @given(st.text(max_size=300))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            parse(text, "f")
        except ConfigError as error:
            told = str(error)
        else:
            told = "f"
        assert "f" in told

    @given(
        st.lists(
            st.builds(
                Expectation,
                device=st.sampled_from(["NVIDIA H200", "no", "1", "a: b", "AMD EPYC #2", "é", 'say "x"']),
                case=st.from_regex(r"[a-z0-9]{1,5}/[a-z.-]{1,5}(\[n=[0-9]{1,3}\])?", fullmatch=True),
                implementation=st.from_regex(r"[A-Za-z0-9_./+-]{1,8}", fullmatch=True),
                metric=st.sampled_from(METRICS),
                value=st.floats(1e-12, 1e12),
                rtol=st.floats(0, 0.99),
                atol=st.floats(0, 1e12),
                measured=st.sampled_from(["2022", "2022-08", "2026-11-30"]),
                by=st.from_regex(r"[ -~]{1,20}", fullmatch=True).map(lambda text: " ".join(text.split()) or "x"),
            ),
            unique_by=lambda each: (each.device, each.case, each.implementation, each.metric),
            max_size=6,
        )
    )
    def test_what_is_dumped_is_read_back(self, expectations: list[Expectation]) -> None:
        text = dump(expectations, "# one\n\n# two\n")
        assert heading_of(text) == "# one\n\n# two\n"
        found = parse(text, "f")
        assert sorted(found, key=repr) == sorted(expectations, key=repr)
        assert dump(found, "# one\n\n# two\n") == text

    def test_our_own_file_is_as_expect_would_write_it(self) -> None:
        text = (ROOT / "cases/expectations.yaml").read_text()
        found = parse(text, "f")
        assert dump(found, heading_of(text)) == text
        dense = {(each.device, each.implementation): each.value for each in found if "dense" in each.case}
        assert dense["NVIDIA GeForce RTX 2080 Ti", "baseline"] == 0.42  # the asserted figure, not the one in words
        assert len(found) == 11 + 10  # published, and of an H200
        published = [each for each in found if "published" in each.by]
        assert {(each.rtol, each.atol) for each in published} == {(0.05, 0.05)}
        assert {each.device for each in found if each not in published} == {"NVIDIA H200"}

    def test_a_case_that_is_not_there_is_told_with_the_one_that_is_meant(self) -> None:
        found = parse(file(case_id="a/b[n=2]"), "f")
        assert unknown_cases(found, ["a/b[n=1]"]) == [
            "expectations.yaml: there is no case a/b[n=2]; did you mean a/b[n=1]?"
        ]
        assert unknown_cases(found, ["a/b[n=2]"]) == []
        assert events_of(found, ["a/b[n=1]"]) == []
        assert [event.case for event in events_of(found, ["a/b[n=2]"])] == ["a/b[n=2]"]

    def test_bases_file_goes_first_so_that_a_change_cannot_loosen_its_own_judge(self, tmp_path: Path) -> None:
        sides = []
        for name in ("base", "head"):
            (tmp_path / name / "cases").mkdir(parents=True)
            sides.append(Checkout(name, tmp_path / name, "", False, "", "directory", name))
        assert expectations_of(sides, "cases") == ()
        (tmp_path / "head/cases/expectations.yaml").write_text(file())
        assert [each.value for each in expectations_of(sides, "cases")] == [1.0]
        (tmp_path / "base/cases/expectations.yaml").write_text(file(FIGURE.replace("1,", "2,", 1)))
        assert [each.value for each in expectations_of(sides, "cases")] == [2.0]
        (tmp_path / "base/cases/expectations.yaml").write_text(file(metric="tflop"))
        with pytest.raises(ConfigError, match=r"in cases/expectations\.yaml of base"):
            expectations_of(sides, "cases")

    def test_the_file_in_the_documentation_is_one(self) -> None:
        text = (ROOT / "docs/expectations.md").read_text()
        found = parse(text.partition("```yaml\n")[2].partition("```")[0], "docs")
        assert [(each.device, each.metric, each.atol) for each in found] == [
            ("NVIDIA H200", "bandwidth_tbs", 0.0),
            ("AMD EPYC 9354 32-Core Processor", "device_busy_ms", 0.001),
        ]

    def test_the_model_of_a_cpu(self, tmp_path: Path) -> None:
        (tmp_path / "x86").write_text("processor : 0\nmodel name\t: AMD  EPYC 9\nmodel name\t: other\n")
        assert cpu_model(tmp_path / "x86") == "AMD EPYC 9"
        assert cpu_model(tmp_path / "none") != ""


def expectation(value: float, **changes: Any) -> ExpectationEvent:
    values: dict[str, Any] = {
        "device": "NVIDIA H200", "case": "k", "implementation": "main", "metric": "tflops", "rtol": 0.05,
        "measured": "2026-11-01", "by": "evenbench 0.1.0, 10 launches",
    }  # fmt: skip
    return ExpectationEvent(**(values | {"value": value} | changes))


def run_of(case: Case, *more: Event, made: int = 1, rounds: int = 1, **changes: Any) -> Results:
    """A run of one side, whose looks allow three attempts."""
    head = [SideInfo(name="head", label="x", sha=build.HEAD_SHA)]
    looks = [rounds, 2 * rounds, 3 * rounds]
    events = build.events([case], made=made, verb="run", sides=head, rounds=rounds, looks=looks, **changes)
    return build.of([*events[:-1], *more, events[-1]])


def at(*tflops: float) -> Case:
    """A case that reaches these rates, round by round."""
    return Case("k", base=None, head=lambda round_index: FLOPS / tflops[round_index] / 1e3)


class TestJudging:
    @pytest.mark.parametrize(
        ("rates", "outcome", "attempts"),
        [
            ((10.0,), "met", 1),
            ((9.6,), "met", 1),
            ((10.4,), "met", 1),
            ((9.0, 10.0), "flaky", 2),
            ((9.0, 11.0, 10.1), "flaky", 3),
            ((9.0, 9.0, 9.1), "worse", 3),
            ((11.0, 11.0, 11.1), "better", 3),
            ((8.0, 11.0, 8.0), "worse", 3),
            ((10.0, 5.0, 5.0), "met", 1),  # the others were made for another row of the case
        ],
    )
    def test_two_sided_and_in_three_attempts(self, rates: tuple[float, ...], outcome: str, attempts: int) -> None:
        results = run_of(at(*rates), expectation(10.0), made=len(rates))
        (found,) = expected(results)
        assert (found.outcome, len(found.attempts)) == (outcome, attempts)
        assert found.attempts[0] == pytest.approx(rates[0], rel=0.01)
        assert outliers(results) == ({"k"} if outcome in ("worse", "better") else set())
        assert open_cases(results, TODAY) == outliers(results)
        met = conditions_met(measured(results), FAIL_ON)
        assert met == (("expectation",) if outcome in ("worse", "better") else ())

    def test_both_tolerances_count_and_the_edge_is_in(self) -> None:
        """Twice what is expected, and tolerances that come to just that: halves and quarters are exact."""
        case = Case("k", base=None)
        (known,) = expected(run_of(case, expectation(1.0, metric="device_busy_ms")))
        (took,) = known.attempts
        assert took is not None
        half, quarter = took / 2, took / 4
        for rtol, atol, outcome in (
            (0.0, half, "met"),
            (0.5, quarter, "met"),
            (0.0, 0.999 * half, "worse"),
            (0.5, 0.999 * quarter, "worse"),
        ):
            event = expectation(half, metric="device_busy_ms", rtol=rtol, atol=atol)
            (found,) = expected(run_of(case, event))
            assert found.outcome == outcome, (rtol, atol)

    @pytest.mark.parametrize(("value", "outcome"), [(0.01, "worse"), (0.02, "met"), (0.04, "better")])
    def test_less_time_is_better(self, value: float, outcome: str) -> None:
        results = run_of(Case("k", base=None), expectation(value, metric="device_busy_ms"))
        assert expected(results)[0].outcome == outcome

    def test_bytes_a_second(self) -> None:
        results = run_of(Case("k", base=None), expectation(6.71, metric="bandwidth_tbs"))
        assert expected(results)[0].outcome == "met"

    def test_an_attempt_is_as_many_rounds_as_were_planned(self) -> None:
        rates = (10.0, 1.0, 10.1, 3.0, 3.0, 3.0)
        results = run_of(at(*rates), expectation(10.0), made=6, rounds=3)
        (found,) = expected(results)
        assert found.outcome == "met"
        assert len(found.attempts) == 1

    def test_another_model_is_skipped_with_the_reason(self) -> None:
        events = [expectation(1.0, device=name) for name in ("NVIDIA B", "NVIDIA A")]
        results = run_of(Case("k", base=None), *events)
        (found,) = expected(results)
        assert (found.outcome, found.reason) == ("skipped", "no figure for NVIDIA H200, only for NVIDIA A and NVIDIA B")
        assert conditions_met(measured(results), FAIL_ON) == ()
        assert "1 expectation skipped: no figure for NVIDIA H200" in run_table(measured(results))

    @pytest.mark.parametrize("device", ["cpu", "NVIDIA H200"])  # which a launch opens for other cases
    def test_a_case_on_the_cpu_has_the_model_of_the_cpu(self, device: str) -> None:
        on_cpu = {"head": {"device": device, "cpu": "AMD EPYC"}}
        case = Case("k", base=None, both_case={"device": "cpu", "timer": "host"}, head_measurement={"timing": "host"})
        events = [expectation(6.71, device="AMD EPYC"), expectation(1.0)]
        (found,) = expected(run_of(case, *events, launches=on_cpu))
        assert (found.device, found.outcome) == ("AMD EPYC", "met")

    @pytest.mark.parametrize(
        ("case", "changes", "outcome", "reason"),
        [
            (Case("k", base=None, dies={"head": {0: "boom"}}), {}, "missing", "runtime: boom"),
            (Case("k", base=None), {"implementation": "other"}, "missing", "the case has no implementation other"),
            (
                Case("k", base=None, both_case={"work": None}),
                {},
                "missing",
                "the case declares no work that gives tflops",
            ),
            (
                Case("k", base=None, both_case={"status": "skipped", "reason": "no cutlass"}),
                {},
                "skipped",
                "no cutlass",
            ),
        ],
    )
    def test_without_a_number_there_is_a_reason(
        self, case: Case, changes: dict[str, Any], outcome: str, reason: str
    ) -> None:
        results = run_of(case, expectation(1.0, **changes))
        (found,) = expected(results)
        assert (found.outcome, found.reason) == (outcome, reason)
        assert outliers(results) == frozenset()  # another attempt would not help
        met = conditions_met(measured(results), ["expectation"])
        assert met == (("expectation",) if outcome == "missing" else ())

    def test_a_muted_case_does_not_count(self) -> None:
        mute = MuteRecord(match="k", why="new board", until="2026-11-29")
        judge = build.header().judge.model_copy(
            update={"mute": [mute], "fail_on": ["expectation", "artifact", "failed"]}
        )
        artifact = Artifact(side="head", case="k", name="k.cu", status="new")
        results = run_of(at(1.0), expectation(10.0), artifact, judge=judge)
        assert conditions_met(measured(results, TODAY), judge.fail_on) == ()
        assert conditions_met(measured(results, date(2026, 11, 30)), judge.fail_on) == ("expectation", "artifact")

    def test_in_a_comparison_all_launches_of_head_are_one_attempt(self) -> None:
        events = build.events([Case("k"), Case("slow", head=30_000.0)], made=16)
        wanted = [expectation(6.71), expectation(6.71, case="slow")]
        results = build.of([*events[:-1], *wanted, events[-1]])
        found = compare(results, TODAY)
        assert [(each.case, each.outcome, len(each.attempts)) for each in found.expectations] == [
            ("k", "met", 1),
            ("slow", "worse", 1),
        ]
        assert conditions_met(found, ["expectation"]) == ("expectation",)
        assert headline(found) == "1 regressed, 1 unchanged, 1 expectation not met"
        notes = {row.case: row.notes for row in found.rows}
        assert "as expected" in notes["k"]
        assert "worse than expected" in notes["slow"]

    def test_what_was_slowed_on_purpose_is_not_held_against_them(self) -> None:
        plant = PlantRecord(case="k", fraction=0.05)
        events = build.events([Case("k", head=30_000.0)], plant=plant)
        results = build.of([*events[:-1], expectation(6.71), events[-1]])
        (found,) = expected(results)
        assert (found.outcome, found.reason) == ("skipped", "slowed on purpose")
        alone = measured(run_of(Case("k", base=None, head=30_000.0), expectation(6.71), plant=plant))
        assert [each.outcome for each in alone.expectations] == ["worse"]  # that is what it was slowed for
        assert alone.rows[0].notes[:2] == ("slowed on purpose by 5 %", "worse than expected")

    @pytest.mark.parametrize("twice", [expectation(1.0), Artifact(side="head", case="k", name="k.cu", status="new")])
    def test_a_file_says_it_once_and_of_a_case_that_is_there(self, twice: Event) -> None:
        with pytest.raises(UntrustedInput, match="comes twice"):
            run_of(Case("k"), twice, twice)
        with pytest.raises(UntrustedInput, match="gone is not known on head"):
            run_of(Case("k"), twice.model_copy(update={"case": "gone"}))

    def test_a_file_says_once_that_a_copy_is_stale(self) -> None:
        stale = Artifact(side="head", case="", name="cases/artifacts/old.cu", status="stale")
        with pytest.raises(UntrustedInput, match=r"artifact cases/artifacts/old\.cu comes twice"):
            run_of(Case("k"), stale, stale)


DIFF = "\n".join(  # noqa: FLY002 - a line of it a line here
    [
        "--- saved/gemm.cu",
        "+++ generated/gemm.cu",
        "@@ -1,3 +1,3 @@",
        " for (int i = 0; i < 8; ++i)",
        "-\tif (i < n) y[i] = x[i];",
        "+\ty[i] = x[i];  // ``` </details> <!-- evenbench config=x --> @me \x1b[31m",
        "\\ No newline at end of file",
    ]
)


@pytest.fixture
def shown() -> Results:
    """A run in which a text changed, another is new, an expectation is flaky and one is missed."""
    case = Case("k", base=None, head=lambda n: FLOPS / (9.0, 10.0, 10.0)[n] / 1e3, implementations=("a", "b"))
    return run_of(
        case,
        Artifact(side="head", case="k", name="gemm.cu", status="changed", diff=DIFF),
        Artifact(side="head", case="k", name="new.cu", status="new"),
        Artifact(side="head", case="k", name="same.cu", status="equal"),
        expectation(10.0, implementation="a"),
        expectation(30.0, implementation="b"),
        expectation(30.0, implementation="c", device="NVIDIA A"),
        made=3,
    )


class TestShown:
    def test_in_a_terminal(self, shown: Results) -> None:
        text = run_table(measured(shown), 120)
        golden("terminal-beside.txt", text)
        assert "artifact changed" in text
        assert "\n+   y[i] = x[i];" in text
        assert "\x1b" not in text

    def test_in_a_comment(self, shown: Results) -> None:
        text = run_comment(measured(shown))
        golden("comment-beside.md", text)
        assert text.count("\n</details>\n") == 1  # not the one in the diff, which is code
        assert "<!-- evenbench" not in text
        assert "\n````diff\n" in text  # longer than any run of backticks in it

    def test_the_times_stand_beside_it(self, shown: Results) -> None:
        report = measured(shown)
        assert [row.times is not None for row in report.rows] == [True, True]
        assert report.rows[0].notes[:3] == ("artifact changed", "artifact new", "as expected, flaky")
        assert run_headline(report) == "2 measured, 1 artifact changed, 1 artifact new, 1 expectation not met, 1 flaky"
        assert conditions_met(report, FAIL_ON) == ("expectation", "artifact")

    def test_as_json(self, shown: Results) -> None:
        found = as_json(measured(shown))
        json.dumps(found)
        assert [(each["name"], each["status"]) for each in found["artifacts"]] == [
            ("gemm.cu", "changed"), ("new.cu", "new"), ("same.cu", "equal"),
        ]  # fmt: skip
        assert found["artifacts"][0]["diff"] == DIFF
        first, second, third = found["expectations"]
        assert (first["outcome"], len(first["attempts"]), first["value"]) == ("flaky", 2, 10.0)
        assert (second["outcome"], len(second["attempts"])) == ("worse", 3)
        assert (third["outcome"], third["value"], third["attempts"]) == ("skipped", None, ())

    def test_a_comparison_shows_the_diff_and_keeps_its_verdict(self) -> None:
        events = build.events([Case("k")])
        base = Artifact(side="base", case="k", name="gemm.cu", status="changed", diff="no")
        changed = Artifact(side="head", case="k", name="gemm.cu", status="changed", diff=DIFF)
        found = compare(build.of([*events[:-1], base, changed, events[-1]]), TODAY)
        assert found.rows[0].verdict == "unchanged"
        assert found.rows[0].change is not None
        assert found.rows[0].notes[-2:] == ("artifact changed", "artifact changed on base")
        for text in (terminal(found), comment(found), summary(found)):
            assert "1 unchanged, 1 artifact changed" in text
            assert "\n-   if (i < n) y[i] = x[i];" in text
            assert "\nno\n" not in text

    def test_a_stale_copy_is_told_in_every_format(self) -> None:
        stale = Artifact(side="head", case="", name="cases/artifacts/old`x`.cu", status="stale")
        elsewhere = Artifact(side="base", case="", name="cases/artifacts/older.cu", status="stale")
        events = build.events([Case("k")])
        results = build.of([*events[:-1], elsewhere, stale, events[-1]])
        found = compare(results, TODAY)
        title = "artifact stale: cases/artifacts/old`x`.cu, which no case gives any more"
        assert headline(found) == "1 unchanged, 1 artifact stale"
        assert f"\n{title}\n" in terminal(found)
        assert "artifacts against their saved copies: 1 stale\n" in terminal(found)
        assert "\n- artifact stale: cases/artifacts/old&#96;x&#96;.cu, which no case gives any more\n" in comment(found)
        assert f'<p class="below">{title}</p>' in page(results, found, "function vegaEmbed() {}")
        assert [each["name"] for each in as_json(found)["artifacts"]] == [elsewhere.name, stale.name]
        for text in (terminal(found), comment(found)):
            assert "older.cu" not in text
        assert not any("artifact" in note for note in found.rows[0].notes)
        assert conditions_met(found, FAIL_ON) == ("artifact",)
        only_base = build.of([*events[:-1], elsewhere, events[-1]])
        assert conditions_met(compare(only_base, TODAY), FAIL_ON) == ()

    def test_of_many_long_diffs_a_comment_shows_what_it_has_room_for(self) -> None:
        diff = "\n".join(f"+{n} {'x' * 90}" for n in range(600))
        many = [Artifact(side="head", case="k", name=f"{n}.cu", status="changed", diff=diff) for n in range(30)]
        report = measured(run_of(Case("k", base=None), *many))
        text = run_comment(report)
        assert len(text) <= 60_000
        assert "| `k` |" in text  # the table stays
        assert "10 more artifacts changed, new or stale" in text
        assert "287 more lines" in text
        assert "19.cu of k, without room for its diff" in text
        assert text.count("```diff") == text.count("\n```\n\n</details>") == 1
        assert run_table(report).count("540 more lines") == 20

    def test_of_many_that_are_met_only_their_number_is_told(self) -> None:
        names = [f"i{n}" for n in range(30)]
        case = Case("k", base=None, implementations=names)
        text = run_table(measured(run_of(case, *(expectation(6.71, implementation=name) for name in names))))
        assert "30 expectations met in the first attempt" in text
        assert "k · i7: as expected" not in text


def propose_from(*runs: Results, known: Sequence[Expectation] = (), patterns: Sequence[str] = ()) -> Any:
    return propose(runs, patterns, known, TODAY)


class TestProposals:
    def test_the_median_of_launches_and_a_tolerance_from_their_spread(self) -> None:
        found = propose_from(run_of(at(10.0, 10.1, 9.9, 10.0, 10.0), made=5, rounds=5))
        (only,) = found.expectations
        assert (only.device, only.case, only.implementation, only.metric) == ("NVIDIA H200", "k", "main", "tflops")
        assert only.value == pytest.approx(10.0, rel=0.005)
        assert only.rtol in (0.02, 0.03)  # twice one per cent, and the noise of a fabricated launch
        assert only.measured == "2026-11-29"
        assert only.by == "evenbench 0.1.0, cupti, cold cache, commit bbbbbbb, driver 580.159.04, 5 launches"
        assert parse(dump(found.expectations), "f") == found.expectations

    def test_launches_of_several_runs_are_taken_together(self) -> None:
        runs = [run_of(at(rate), run_id=f"r{n}") for n, rate in enumerate((10.0, 10.0, 12.0))]
        (only,) = propose_from(*runs).expectations
        assert only.value == pytest.approx(10.0, rel=0.005)
        assert 0.39 <= only.rtol <= 0.43  # twice a fifth
        assert only.by.endswith("3 launches")

    def test_a_run_counts_once(self) -> None:
        with pytest.raises(UsageError, match="is named twice"):
            propose_from(*[run_of(at(10.0, 10.0), made=2)] * 2)

    def test_few_launches_tell_no_spread(self) -> None:
        found = propose_from(run_of(at(10.0, 10.0), made=2))
        assert (found.expectations, found.proposed) == ((), 0)
        assert found.left_out == ("k: tflops: launches with a figure: 2, at least 3 are needed",)

    def test_what_is_known_stays_and_keeps_its_metric_and_place(self) -> None:
        other = Expectation("NVIDIA A", "k", "main", "tflops", 1.0, 0.1, 0.0, "2022", "x")
        here = Expectation("NVIDIA H200", "k", "main", "device_busy_ms", 1.0, 0.1, 0.5, "2022", "x")
        found = propose_from(run_of(at(10.0, 10.0, 10.0), made=3), known=[here, other])
        first, second = found.expectations
        assert second == other
        assert (first.metric, first.atol, first.rtol) == ("device_busy_ms", 0.0, 0.02)
        assert first.value == pytest.approx(FLOPS / 10.0 / 1e9, rel=0.005)

    @pytest.mark.parametrize(
        ("work", "metric"),
        [({"flops": 0}, "bandwidth_tbs"), ({"flops": 0, "bytes_read": 0, "bytes_written": 0}, "device_busy_ms")],
    )
    def test_the_metric_follows_from_the_work(self, work: dict[str, int], metric: str) -> None:
        declared = build.events([Case("k")])[3].work.model_copy(update=work)  # type: ignore[union-attr]
        found = propose_from(run_of(Case("k", base=None, both_case={"work": declared}), made=3))
        assert [each.metric for each in found.expectations] == [metric]

    def test_patterns_choose_the_cases(self) -> None:
        results = run_of(at(10.0, 10.0, 10.0), made=3)
        assert propose_from(results, patterns=["other/*"]).proposed == 0
        assert propose_from(results, patterns=["k*"]).proposed == 1

    def test_rows_without_a_number_are_named(self) -> None:
        found = propose_from(
            run_of(Case("k", base=None, both_case={"status": "failed", "kind": "setup", "reason": "boom"}))
        )
        assert found.left_out == ("k: failed: setup: boom",)

    def test_a_run_that_was_slowed_on_purpose_is_refused(self) -> None:
        results = build.results([Case("k")], plant=PlantRecord(case="k", fraction=0.05))
        with pytest.raises(UsageError, match="slowed on purpose"):
            propose_from(results)
