"""`evenbench publish` and `resolve` against a GitHub that remembers: one comment, one check run, and what changes them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from evenbench.reports.publish.outcome import LABEL, parse
from tests.build import Case
from tests.fakes.desk import FAILED, SAME, SLOWER, SUITES, Desk
from tests.fakes.github import BOT, REPOSITORY, run_event

HEAD, NEXT = "b" * 40, "d" * 40
RUN_50 = "https://github.com/octo-org/kernels/actions/runs/50"
FAIL_ON = "compare: {fail_on: [%s]}\n"
DONE = ["check run created: success", "comment created"]


def states(desk: Desk) -> list[str]:
    return [stamp.state for body in desk.fake.bodies() if (stamp := parse(body)) is not None]


def checks(desk: Desk, head: str = HEAD) -> list[tuple[str, str | None]]:
    """Status and conclusion of the check runs on a commit."""
    found = [each for each in desk.fake.checks.values() if each["head_sha"] == head]
    assert {each["name"] for each in found} <= {"evenbench (pr)"}
    return [(each["status"], each["conclusion"]) for each in found]


def title(desk: Desk) -> str:
    (check,) = desk.fake.checks.values()
    return str(check["output"]["title"])


class TestOneComment:
    def test_from_queued_to_done(self, desk: Desk) -> None:
        for action, state, status in (("requested", "queued", "queued"), ("in_progress", "running", "in_progress")):
            assert desk.publish(action=action).code == 0
            assert states(desk) == [state]
            assert checks(desk) == [(status, None)]
            (body,) = desk.fake.bodies()
            assert "head `bbbbbbb`" in body
            assert f"[this run]({RUN_50})" in body
        said = desk.publish(desk.results(SAME))
        assert said.out.splitlines() == ["check run edited: success", "comment edited"]
        assert said.err == ""
        assert states(desk) == ["done"]
        assert checks(desk) == [("completed", "success")]
        (body,) = desk.fake.bodies()
        assert "### ⏱ evenbench: 1 unchanged\n" in body
        assert f"[this run]({RUN_50})" in body
        assert f"[raw samples]({RUN_50}#artifacts)" in body
        assert f"gh workflow run manual.yml -f pull_request=7 -f head_sha={HEAD}" in body
        assert "self-reported" not in body

    def test_the_second_push_edits_it(self, desk: Desk) -> None:
        assert desk.publish(desk.results(SAME)).out.splitlines() == DONE
        desk.fake.push(7, NEXT)
        said = desk.publish(desk.results(SAME, head=NEXT), run=51)
        assert said.out.splitlines() == ["check run created: success", "comment edited"]
        (body,) = desk.fake.bodies()
        assert "`ddddddd`" in body
        assert checks(desk) == checks(desk, NEXT) == [("completed", "success")]

    def test_again_changes_nothing(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        before = len(desk.fake.writes())
        said = desk.publish(desk.results(SAME))
        assert (said.code, said.out) == (0, "")
        assert len(desk.fake.writes()) == before

    def test_a_fork_s_figures_are_self_reported(self, desk: Desk) -> None:
        desk.fake.open_pull(7, fork="stranger/kernels")
        desk.publish(desk.results(SAME))
        (body,) = desk.fake.bodies()
        assert "A kernel shares a process with its timer, so these figures are self-reported" in body

    def test_each_suite_has_its_own(self, desk: Desk) -> None:
        suites = SUITES + "  full: {include: ['**']}\n"
        desk.publish(desk.results(SAME), suites=suites)
        full = desk.results(SAME, name="full.results.jsonl", suite="full")
        assert desk.publish(full, "--suite=full", suites=suites).code == 0
        assert [stamp.config for body in desk.fake.bodies() if (stamp := parse(body))] == ["pr", "full"]
        assert {each["name"] for each in desk.fake.checks.values()} == {"evenbench (pr)", "evenbench (full)"}

    def test_shards_and_folders(self, desk: Desk) -> None:
        from tests.build import shard

        desk.results(SAME, name="evenbench-0.results.jsonl", shard=shard(0, 2))
        desk.results(SLOWER, name="b/evenbench-1.results.jsonl", shard=shard(1, 2))
        (desk.folder / "results" / "notes.txt").write_text("x", encoding="utf-8")
        desk.publish(desk.folder / "results")
        assert "1 regressed, 1 unchanged" in desk.fake.bodies()[0]

    def test_a_folder_that_is_not_there_holds_no_results(self, desk: Desk) -> None:
        desk.publish(desk.folder / "nowhere")
        assert states(desk) == ["nothing"]

    def test_a_file_that_is_not_there(self, desk: Desk) -> None:
        said = desk.publish(desk.folder / "no.results.jsonl")
        assert (said.code, desk.fake.writes()) == (2, [])

    def test_the_job_summary_has_the_table_too(self, desk: Desk) -> None:
        desk.publish(action="requested")
        desk.publish(desk.results(SAME))
        assert desk.summary.count("### ") == 2
        assert "### ⏳ evenbench: queued" in desk.summary
        assert "### ⏱ evenbench: 1 unchanged" in desk.summary
        assert "<!--" not in desk.summary

    def test_a_full_job_summary_is_left_alone(self, desk: Desk) -> None:
        (desk.folder / "summary.md").write_bytes(b"x" * 1_023_900)
        said = desk.publish(desk.results(SAME))
        assert said.err == "the job summary has no room left\n"
        assert len(desk.summary) == 1_023_900


class TestStates:
    @pytest.mark.parametrize(
        ("conclusion", "state", "check", "text"),
        [
            ("success", "nothing", "neutral", "measured nothing"),
            ("skipped", "nothing", "neutral", "measured nothing"),
            ("cancelled", "failed", "failure", "was cancelled, or reached its time limit"),
            ("failure", "failed", "failure", "ended with failure and left no results"),
            ("timed_out", "failed", "failure", "ended with timed&#95;out"),
            ("action_required", "queued", None, "waits for a maintainer&#39;s approval"),
        ],
    )
    def test_a_first_comment_says_why_there_is_no_table(
        self, desk: Desk, conclusion: str, state: str, check: str | None, text: str
    ) -> None:
        assert desk.publish(conclusion=conclusion).code == 0
        assert states(desk) == [state]
        assert [each for _, each in checks(desk)] == [check]
        assert text in desk.fake.bodies()[0]
        assert HEAD[:7] in desk.fake.bodies()[0]
        assert RUN_50 in desk.fake.bodies()[0]

    def test_an_existing_comment_is_updated(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        desk.fake.push(7, NEXT)
        desk.publish(run=51, conclusion="failure")
        assert states(desk) == ["failed"]
        assert "unchanged" not in desk.fake.bodies()[0]

    @pytest.mark.parametrize("fail_on", ["never", "regressed", "failed"])
    def test_no_result_is_no_success(self, desk: Desk, fail_on: str) -> None:
        text = "compare: {fail_on: never}\n" if fail_on == "never" else FAIL_ON % fail_on
        desk.publish(conclusion="failure", suites=SUITES + text)
        assert checks(desk) == [("completed", "neutral" if fail_on == "never" else "failure")]

    def test_no_case_gave_a_number(self, desk: Desk) -> None:
        desk.publish(desk.results(FAILED))
        assert states(desk) == ["failed"]
        assert "❌\u00a0failed" in desk.fake.bodies()[0]
        assert checks(desk) == [("completed", "failure")]

    def test_nothing_in_common_is_nothing_to_compare(self, desk: Desk) -> None:
        desk.publish(desk.results(Case("norm/new", base=None)))
        assert states(desk) == ["nothing"]
        assert "🆕\u00a0new" in desk.fake.bodies()[0]
        assert checks(desk) == [("completed", "neutral")]

    def test_a_partial_run_is_no_success(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME, end=False), conclusion="failure")
        assert title(desk).startswith("partial: 1 unchanged")
        assert checks(desk) == [("completed", "failure")]

    def test_a_state_that_is_told(self, desk: Desk) -> None:
        desk.publish("--state=running")
        assert states(desk) == ["running"]
        desk.publish("--state=failed", "--reason=`set-up` failed | badly")
        assert "&#96;set-up&#96; failed &#124; badly" in desk.fake.bodies()[0]
        desk.publish("--state=done")
        assert "The run left no results" in desk.fake.bodies()[0]

    def test_another_run_that_measures_nothing_leaves_the_table(self, desk: Desk) -> None:
        """A label starts a run, too, and that one has nothing to tell of the kernels."""
        desk.publish(desk.results(SAME))
        before = desk.fake.bodies(), checks(desk)
        ways: list[dict[str, Any]] = [{"action": "requested"}, {"action": "in_progress"}, {}, {"conclusion": "failure"}]
        for more in ways:
            said = desk.publish(run=51, **more)
            assert said.out == "the table of this commit stays\n"
        assert (desk.fake.bodies(), checks(desk)) == before

    def test_the_same_run_once_more_shows_that_it_runs(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        desk.publish(action="requested", run_attempt=2)
        assert states(desk) == ["queued"]
        assert checks(desk) == [("completed", "success"), ("queued", None)]
        desk.publish(desk.results(SLOWER), run_attempt=2)
        assert checks(desk)[1] == ("completed", "failure")


class TestOrder:
    def test_an_older_run_never_writes_over_a_newer(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME), run=51)
        before = len(desk.fake.writes())
        said = desk.publish(desk.results(SLOWER), run=50)
        assert (said.code, said.out) == (0, "a newer run has written already\n")
        assert len(desk.fake.writes()) == before

    def test_an_earlier_attempt_or_state_does_not_either(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME), run_attempt=2)
        again: dict[str, Any] = {"run_attempt": 2}
        for more in ({}, again | {"action": "in_progress"}, again | {"action": "requested"}):
            assert desk.publish(**more).out == "a newer run has written already\n"
        assert states(desk) == ["done"]

    @pytest.mark.parametrize("state", ["closed", "open"])
    def test_closed_or_moved(self, desk: Desk, state: str) -> None:
        event = run_event(desk.fake)
        if state == "closed":
            desk.fake.pulls[7]["state"] = "closed"
        else:
            desk.fake.push(7, NEXT)
        said = desk.publish(desk.results(SAME), event=event)
        assert said.code == 0
        assert (
            said.err == f"no comment: #7 is {'closed' if state == 'closed' else 'at ddddddd by now, not at bbbbbbb'}\n"
        )
        assert desk.fake.writes() == []
        assert "1 unchanged" in desk.summary

    @pytest.mark.parametrize("path", ["check-runs$", "/comments$"])
    def test_a_push_between_two_calls(self, desk: Desk, path: str) -> None:
        """Seen before the next kind of write."""
        desk.fake.fail("GET", path, passes=True, first=lambda: desk.fake.push(7, NEXT))
        assert desk.publish(desk.results(SAME)).err.startswith("no comment: #7 is at ddddddd")
        assert desk.fake.bodies() == []

    def test_our_second_comments_go(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        (body,) = desk.fake.bodies()
        for _ in range(2):
            desk.fake.comment(7, BOT, body)
        desk.fake.comment(7, "stranger", body)
        said = desk.publish(desk.results(SAME))
        assert said.out.splitlines() == ["a second comment deleted"] * 2
        assert desk.fake.bodies() == desk.fake.bodies(author="stranger") == [body]

    def test_the_oldest_stays(self, desk: Desk) -> None:
        desk.publish(action="requested")
        (oldest,) = desk.fake.comments
        desk.fake.comment(7, BOT, desk.fake.bodies()[0])
        desk.publish(desk.results(SAME))
        assert list(desk.fake.comments) == [oldest]
        assert states(desk) == ["done"]


class TestTurns:
    def notes(self, desk: Desk) -> list[str]:
        return [body for body in desk.fake.bodies() if parse(body) is None]

    def test_a_turn_to_regressed_is_said(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        desk.fake.push(7, NEXT)
        desk.publish(action="requested", run=51)
        desk.publish(desk.results(SLOWER, head=NEXT), run=51)
        (note,) = self.notes(desk)
        table = next(iter(desk.fake.comments.values()))[1]["html_url"]
        assert note == (
            "<!-- evenbench note config=pr run=51.1 -->\n"
            f"🔴 evenbench: 1 regressed at `ddddddd`. [The table]({table}) is up to date.\n"
        )

    def test_not_where_the_comment_is_new(self, desk: Desk) -> None:
        desk.publish(desk.results(SLOWER))
        assert self.notes(desk) == []

    def test_an_edit_from_queued_notifies_nobody_either(self, desk: Desk) -> None:
        desk.publish(action="requested")
        desk.publish(desk.results(SLOWER))
        assert len(self.notes(desk)) == 1

    def test_once_as_long_as_it_stays(self, desk: Desk) -> None:
        desk.publish(action="requested")
        desk.publish(desk.results(SLOWER))
        desk.publish(desk.results(SLOWER))
        desk.fake.push(7, NEXT)
        desk.publish(action="requested", run=51)
        desk.publish(desk.results(SLOWER, head=NEXT), run=51)
        assert len(self.notes(desk)) == 1

    def test_a_muted_row_is_no_turn(self, desk: Desk) -> None:
        suites = SUITES + "mute: [{match: 'norm/*', why: being replaced, until: 2999-01-01}]\n"
        desk.publish(action="requested")
        desk.publish(desk.results(SLOWER), suites=suites)
        assert self.notes(desk) == []
        assert checks(desk) == [("completed", "success")]
        assert "(muted)" in desk.fake.bodies()[0]

    def test_a_crash_before_the_edit_does_not_say_it_twice(self, desk: Desk) -> None:
        desk.publish(action="requested")
        desk.fake.fail("PATCH", "/issues/comments/", 400, {"message": "no"})
        assert desk.publish(desk.results(SLOWER)).code == 6
        assert len(self.notes(desk)) == 1
        assert desk.publish(desk.results(SLOWER)).code == 0
        assert len(self.notes(desk)) == 1
        assert states(desk) == ["done"]


class TestJudge:
    def test_the_default_branch_judges(self, desk: Desk) -> None:
        """The file says that nothing fails."""
        from tests import build

        lax = build.header().judge.model_copy(update={"fail_on": [], "min_effect": 0.9})
        desk.publish(desk.results(SLOWER, judge=lax))
        assert title(desk) == "1 regressed"
        assert checks(desk) == [("completed", "failure")]

    @pytest.mark.parametrize(("fail_on", "conclusion"), [("regressed", "failure"), ("failed", "success")])
    def test_fail_on(self, desk: Desk, fail_on: str, conclusion: str) -> None:
        desk.publish(desk.results(SLOWER, SAME), suites=SUITES + FAIL_ON % fail_on)
        assert checks(desk) == [("completed", conclusion)]

    def test_another_head_is_not_trusted(self, desk: Desk) -> None:
        said = desk.publish(desk.results(SAME, head="c" * 40))
        assert said.code == 5
        assert said.err == "error: the results are of head cccccccccccc, not of bbbbbbbbbbbb\n"
        assert states(desk) == ["failed"]
        assert checks(desk) == [("completed", "failure")]
        assert "The results are not to be trusted" in desk.fake.bodies()[0]

    def test_another_suite_is_not_trusted(self, desk: Desk) -> None:
        said = desk.publish(desk.results(SAME, suite="host"))
        assert (said.code, states(desk)) == (5, ["failed"])
        assert "the results are of the suite host, not of pr" in said.err

    def test_a_run_of_one_side_is_no_comparison(self, desk: Desk) -> None:
        said = desk.publish(desk.results(SAME, verb="run"))
        assert (said.code, states(desk)) == (5, ["failed"])

    def test_without_a_configuration_the_defaults_judge(self, desk: Desk) -> None:
        said = desk.run("publish", run_event(desk.fake), desk.results(SLOWER))
        assert said.code == 0
        assert checks_of(desk, "evenbench (full)") == ["failure"]

    def test_a_configuration_that_is_not_there(self, desk: Desk) -> None:
        said = desk.run("publish", run_event(desk.fake), "--config=nowhere.yaml")
        assert (said.code, desk.fake.writes()) == (2, [])


def checks_of(desk: Desk, name: str) -> list[str]:
    return [each["conclusion"] for each in desk.fake.checks.values() if each["name"] == name]


class TestAccepted:
    def regressed(self, desk: Desk) -> None:
        desk.publish(desk.results(SLOWER))
        assert checks(desk) == [("completed", "failure")]

    def test_a_maintainer_accepts(self, desk: Desk) -> None:
        self.regressed(desk)
        desk.fake.label(7, LABEL, "ada", "write")
        said = desk.publish(run=51)
        assert said.out.splitlines() == ["check run edited: success", "comment edited"]
        assert checks(desk) == [("completed", "success")]
        assert title(desk) == "accepted by ada: 1 regressed"
        (body,) = desk.fake.bodies()
        assert body.splitlines()[1] == "✅ Accepted by `ada`."
        assert "🔴\N{NO-BREAK SPACE}regressed" in body
        before = len(desk.fake.writes())
        assert desk.publish(run=52).out == "the table of this commit stays\n"
        assert len(desk.fake.writes()) == before

    def test_measured_again_it_stays_accepted(self, desk: Desk) -> None:
        self.regressed(desk)
        desk.fake.label(7, LABEL, "ada", "admin")
        desk.publish(desk.results(SLOWER), run=51)
        assert checks(desk) == [("completed", "success")]
        assert "✅ Accepted by `ada`." in desk.fake.bodies()[0]

    def test_the_next_push_needs_it_anew(self, desk: Desk) -> None:
        self.regressed(desk)
        desk.fake.label(7, LABEL, "ada", "write")
        desk.publish(run=51)
        desk.fake.push(7, NEXT)
        desk.publish(desk.results(SLOWER, head=NEXT), run=52)
        assert checks(desk, NEXT) == [("completed", "failure")]
        summary = [each["output"]["summary"] for each in desk.fake.checks.values()][-1]
        assert "does not count: ada added it before this commit was pushed" in summary
        assert "Accepted" not in desk.fake.bodies()[0]
        desk.fake.label(7, LABEL, "ada")
        desk.publish(run=53)
        assert checks(desk, NEXT) == [("completed", "success")]

    def test_back_to_a_commit_that_was_there_before(self, desk: Desk) -> None:
        """Accepted for another commit, so not for this one."""
        desk.publish(desk.results(SLOWER), run=50)
        desk.fake.push(7, NEXT)
        desk.publish(desk.results(SLOWER, head=NEXT), run=51)
        desk.fake.label(7, LABEL, "ada", "write")
        desk.fake.push(7, HEAD)
        desk.publish(desk.results(SLOWER), run=52)
        assert checks(desk) == [("completed", "failure")]

    def test_a_force_push_after_the_label(self, desk: Desk) -> None:
        self.regressed(desk)
        desk.fake.label(7, LABEL, "ada", "write")
        desk.fake.push(7, HEAD, force=True)
        said = desk.publish(run=51)
        assert "added it before this commit was pushed" in said.out
        assert checks(desk) == [("completed", "failure")]

    @pytest.mark.parametrize("permission", ["read", "none", None])
    def test_who_may_not_write_accepts_nothing(self, desk: Desk, permission: str | None) -> None:
        self.regressed(desk)
        desk.fake.label(7, LABEL, "eve", permission)
        said = desk.publish(run=51)
        assert said.out == "the label does not count: eve may not write to this repository\n"
        assert checks(desk) == [("completed", "failure")]

    def test_a_label_that_nobody_put(self, desk: Desk) -> None:
        self.regressed(desk)
        desk.fake.pulls[7]["labels"].append({"name": LABEL})
        assert "it is not known who added it" in desk.publish(run=51).out
        assert checks(desk) == [("completed", "failure")]

    def test_another_label_is_none(self, desk: Desk) -> None:
        self.regressed(desk)
        desk.fake.label(7, "evenbench: Accepted!", "ada", "write")
        desk.publish(run=51)
        assert checks(desk) == [("completed", "failure")]

    def test_a_failed_run_cannot_be_accepted(self, desk: Desk) -> None:
        desk.publish(conclusion="failure")
        desk.fake.label(7, LABEL, "ada", "write")
        desk.publish(run=51, conclusion="failure")
        assert checks(desk) == [("completed", "failure")]


class TestOtherEvents:
    def dispatch(self, desk: Desk, *words: Any, **inputs: str) -> Any:
        data = {"repository": {"full_name": REPOSITORY}, "inputs": inputs, "workflow": ".github/workflows/manual.yml"}
        return desk.publish(*words, event=data)

    def test_dispatch_publishes_to_the_pull_request(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        said = self.dispatch(desk, desk.results(SLOWER), f"--head-sha={HEAD}", pull_request="7")
        assert said.out.splitlines() == ["check run edited: failure", "extra comment created", "comment edited"]
        assert "runs/99" in desk.fake.bodies()[0]

    def test_dispatch_for_a_head_that_moved_goes_to_the_summary(self, desk: Desk) -> None:
        desk.fake.push(7, NEXT)
        said = self.dispatch(desk, desk.results(SAME), pull_request="7", head_sha=HEAD)
        assert (said.code, said.err) == (0, "no comment: #7 is at ddddddd by now, not at bbbbbbb\n")
        assert desk.fake.writes() == []
        assert "1 unchanged" in desk.summary

    def test_a_pinned_head_that_moved_too(self, desk: Desk) -> None:
        desk.fake.push(7, NEXT)
        said = self.dispatch(desk, desk.results(SAME), f"--head-sha={HEAD}", pull_request="7")
        assert (said.code, said.err) == (0, "no comment: #7 is at ddddddd by now, not at bbbbbbb\n")
        assert desk.fake.writes() == []

    def test_two_refs_go_to_the_summary(self, desk: Desk) -> None:
        said = self.dispatch(desk, desk.results(SAME, head="e" * 40), base="main", head="x")
        assert (said.code, said.out) == (0, "no comment: no pull request was named\n")
        assert "1 unchanged" in desk.summary

    def test_the_suite_of_the_form(self, desk: Desk) -> None:
        suites = SUITES + "  full: {include: ['**']}\n"
        data = {"repository": {"full_name": REPOSITORY}, "inputs": {"pull_request": "7", "suite": "full"}}
        desk.publish(desk.results(SAME, suite="full"), event=data, suites=suites)
        assert [stamp.config for body in desk.fake.bodies() if (stamp := parse(body))] == ["full"]

    def test_a_merge_group_gets_a_check_alone(self, desk: Desk) -> None:
        here = {"full_name": REPOSITORY}
        more: dict[str, Any] = {
            "event": "merge_group",
            "head_branch": "gh-readonly-queue/main/pr-7-a",
            "head_repository": here,
        }
        event = run_event(desk.fake, None, head_sha=NEXT, **more)
        said = desk.publish(desk.results(SLOWER, head=NEXT), event=event)
        assert said.out == "check run created: failure\n"
        assert desk.fake.bodies() == []
        assert desk.publish(event=run_event(desk.fake, None, head_sha="e" * 40, **more)).code == 0
        assert checks(desk, "e" * 40) == [("completed", "neutral")]

    def test_a_job_of_a_pull_request_writes_its_summary_alone(self, desk: Desk) -> None:
        """A first pull request: the publisher is not on the default branch yet."""
        data = {"action": "opened", "repository": {"full_name": REPOSITORY}, "pull_request": desk.fake.pulls[7]}
        said = desk.publish(desk.results(SAME), event=data, token="read-token")
        assert (said.code, said.out) == (0, "no comment: a job that a pull request starts may not write\n")
        assert desk.fake.writes() == []
        assert "1 unchanged" in desk.summary

    def test_a_run_that_no_pull_request_started(self, desk: Desk) -> None:
        said = desk.publish(desk.results(SAME), event=run_event(desk.fake, event="push"))
        assert (said.code, desk.fake.writes()) == (0, [])


class TestRehearsal:
    def test_it_says_what_it_would_do_and_does_nothing(self, desk: Desk) -> None:
        said = desk.publish(desk.results(SLOWER), "--dry-run")
        assert said.code == 0
        assert desk.fake.writes() == []
        assert desk.summary == ""
        assert re.findall(r"^would .*$", said.out, re.MULTILINE) == [
            "would POST /repos/octo-org/kernels/check-runs",
            "would POST /repos/octo-org/kernels/issues/7/comments",
        ]
        assert "### ⏱ evenbench: 1 regressed" in said.out

    def test_an_edit_and_a_deletion(self, desk: Desk) -> None:
        desk.publish(desk.results(SAME))
        desk.fake.comment(7, BOT, desk.fake.bodies()[0])
        said = desk.publish(desk.results(SLOWER), "--dry-run", run=51)
        found = re.findall(r"^would (\w+) \S+/(\w+(?:-runs)?)/\d+", said.out, re.MULTILINE)
        assert found == [("PATCH", "check-runs"), ("POST", "issues"), ("PATCH", "comments"), ("DELETE", "comments")]


class TestResolve:
    def test_it_prints_one_line_of_json(self, desk: Desk) -> None:
        said = desk.run("resolve", run_event(desk.fake))
        assert said.code == 0
        assert said.out.count("\n") == 1
        assert json.loads(said.out) == {
            "event": "workflow_run", "number": 7, "head": HEAD, "base": "a" * 40, "reason": "", "why": "",
        }  # fmt: skip
        assert desk.fake.writes() == []

    def test_it_says_why_not(self, desk: Desk) -> None:
        event = run_event(desk.fake)
        desk.fake.pulls[7]["state"] = "closed"
        said = desk.run("resolve", event)
        assert (said.code, said.err) == (8, "error: #7 is closed\n")
        assert json.loads(said.out)["reason"] == "closed"

    def test_no_token(self, desk: Desk) -> None:
        said = desk.run("resolve", run_event(desk.fake), token="")
        assert said.code == 2
        assert said.err.startswith("error: GITHUB_TOKEN is not set (hint: ")

    def test_no_event(self, desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
        said = desk.run("resolve", run_event(desk.fake), "--event=nowhere.json")
        assert said.code == 0  # the last one that is named counts
        desk.patch.delenv("GITHUB_EVENT_PATH", raising=False)
        from evenbench.cli.main import main

        capsys.readouterr()
        assert main(["resolve"]) == 2
        assert capsys.readouterr().err.startswith("error: no event is named (hint: --event FILE")
        assert main(["resolve", "--event", str(desk.folder)]) == 2

    @pytest.mark.parametrize("status", [401, 500])
    def test_github_refuses(self, desk: Desk, status: int) -> None:
        desk.fake.fail("GET", "pulls", status, {"message": "Bad"}, times=9)
        said = desk.run("resolve", run_event(desk.fake))
        assert said.code == 6
        assert said.err.startswith(f"error: GitHub: GET /repos/octo-org/kernels/pulls: {status} Bad (hint: ")
