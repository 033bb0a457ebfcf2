"""gpu-benchmark.yml as a hostile workflow calls it: whatever the event and the inputs, run by act.

The caller is a file of the pull request, so a stranger wrote every input. What `evenbench` itself does with values is
tested elsewhere: here a small program stands in for it, which notes that it ran and writes the file it was to write.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.act import ROOT, Done
from tests.fakes.node import payload
from tests.fakes.stage import ADOPTER, Stage, staging

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FORK = "stranger/kernels"
SECRET = "the runner's secret"
RUN = 700
FILE = "evenbench-0.results.jsonl"
SHARE = f"{'0' * 16}.{'A' * 683}.{'0' * 8}"
OF_PULL_REQUESTS = (
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_target",
)
OF_OTHERS = ("issue_comment", "workflow_run", "push", "repository_dispatch", "merge_group", "schedule")
EVENTS = (*OF_PULL_REQUESTS, *OF_OTHERS, "workflow_dispatch")
WITHOUT_APPROVAL = (
    "merge_group",
    "schedule",
    "workflow_dispatch",
)  # and pull requests of the repository's own branches
# JSON is YAML. The inputs come from the event's payload, so that any text arrives as it is.
CALLER = {
    "name": "stranger",
    "on": dict.fromkeys(EVENTS)
    | {"schedule": [{"cron": "17 2 * * *"}], "workflow_run": {"workflows": ["evenbench"], "types": ["completed"]}},
    "permissions": {},
    "jobs": {
        "call": {
            "permissions": {"contents": "read"},
            "uses": "evenbench/evenbench/.github/workflows/gpu-benchmark.yml@main",
            "with": {name: f"${{{{ github.event.call.{name} }}}}" for name in ("plan", "name", "cases")}
            | {"confirm": "${{ github.event.call.confirm == 'yes' }}"},
        }
    },
}
EVENBENCH = r"""#!/bin/bash
for word; do case $word in --output=*) results=${word#--output=} ;; esac; done
printf '%s\n' "$@" >>"$FAKE_LOG/evenbench"
echo measured >"$results" && echo confirmed >"${results/.results./.confirm.results.}"
"""


@dataclass
class Caller:
    """A repository with a workflow of a stranger; `base` and `head` are commits, and `other` is one nobody looked at."""

    stage: Stage
    secret: Path
    base: str
    head: str
    other: str
    runs: list[Done] = field(default_factory=list)

    def plan(self, **changes: Any) -> dict[str, Any]:
        """What `evenbench plan` prints for head, with changes."""
        return {
            "base": self.base,
            "head": self.head,
            "measure": True,
            "why": "It was asked for.",
            "cases_from": "own",
            "merge_base": True,
            "matrix": {"include": shards(1)},
        } | changes

    def call(
        self, event: str = "pull_request", repository: str | None = FORK, plan: object = None, **inputs: str
    ) -> Done:
        """Run the stranger's workflow at head. A plan that is no text is given as JSON; None is the plan of head."""
        data = self.payload(event, repository)
        text = plan if isinstance(plan, str) else json.dumps(self.plan() if plan is None else plan)
        data["call"] = {"plan": text, "name": "evenbench", "cases": "cases"} | inputs
        return self.start(event, data)

    def start(self, event: str, data: Mapping[str, Any]) -> Done:
        """Run the stranger's workflow on an event as it is."""
        done = self.stage.actions.run(event, "stranger.yml", data, ref="refs/heads/run", run=RUN)
        self.runs.append(done)
        return done

    def payload(self, event: str, repository: str | None) -> dict[str, Any]:
        """A real payload; the head of its pull request, where it has one, is a commit of that repository."""
        known = "pull_request" if event == "pull_request_target" else event
        data: dict[str, Any] = {"repository": payload("workflow_dispatch")["repository"]}
        if event != "schedule":
            data = payload(known)
        data["repository"].update(full_name=ADOPTER, default_branch="main")
        if event == "push":
            data["after"] = self.head
        if event in OF_PULL_REQUESTS:
            data["pull_request"]["head"].update(sha=self.head, repo=repository and {"full_name": repository})
        return data

    @property
    def artifacts(self) -> dict[str, str]:
        return {name: path.read_text() for name, path in self.stage.actions.artifacts(RUN).items()}

    @property
    def commands(self) -> list[str]:
        """What `evenbench` was started with."""
        log = self.stage.actions.folder / "log" / "evenbench"
        return log.read_text().splitlines() if log.exists() else []

    def forget(self) -> None:
        """Empty the logs and the artifacts."""
        for name in ("log", "artifacts"):
            shutil.rmtree(self.stage.actions.folder / name)
            (self.stage.actions.folder / name).mkdir()

    def assert_nothing_ran(self) -> None:
        """No commit was fetched, nothing was measured, and nothing left the machine."""
        text = self.runs[-1].text
        assert self.stage.actions.checkouts == [], text
        assert self.commands == [], text
        assert self.artifacts == {}, text
        assert self.runs[-1].code != 0, text


def shards(count: int, **more: object) -> list[dict[str, object]]:
    return [{"index": index, "count": count, "seed": 5} | more for index in range(count)]


@pytest.fixture
def caller(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[Caller]:
    tool("jq")
    with staging(tmp_path, tool("act")) as make:
        stage = make(ADOPTER)
        secret = tmp_path / "secret"
        secret.write_text(SECRET)
        (stage.actions.programs / "evenbench").write_text(EVENBENCH)
        (stage.actions.programs / "evenbench").chmod(0o755)
        git = stage.repository.git
        base = git("rev-parse", "main")
        other = stage.propose({"cases/other.py": "# nobody looked at this"}, number=8, branch="other", fork=FORK)
        git("checkout", "-q", "--detach", "main")
        (stage.repository.path / "x-0.results.jsonl").symlink_to(secret)
        head = stage.repository.commit({".github/workflows/stranger.yml": json.dumps(CALLER)})
        git("update-ref", "refs/heads/run", head)
        git("checkout", "-q", "main")
        yield Caller(stage, secret, base, head, other)


def waited(done: Done) -> bool:
    """Whether the job that waits for approval was in the run."""
    return "Approve code from outside" in done.text and (done.ran("Approve code") or done.failed("Approve code"))


@pytest.mark.parametrize("repository", [ADOPTER, FORK, None], ids=["own branch", "fork", "deleted fork"])
@pytest.mark.parametrize("event", OF_PULL_REQUESTS)
def test_code_of_a_pull_request_waits_but_for_an_own_branch(caller: Caller, event: str, repository: str | None) -> None:
    assert_waits(caller, event, repository, waits=(event, repository) != ("pull_request", ADOPTER))


@pytest.mark.parametrize("event", [event for event in EVENTS if event not in OF_PULL_REQUESTS])
def test_an_event_that_is_not_listed_waits(caller: Caller, event: str) -> None:
    assert_waits(caller, event, None, waits=event not in WITHOUT_APPROVAL)


def assert_waits(caller: Caller, event: str, repository: str | None, *, waits: bool) -> None:
    approved = caller.call(event, repository)
    assert approved.code == 0, approved.text
    assert caller.artifacts == {FILE: "measured\n"}
    assert waited(approved) == waits, approved.text
    if waits:
        assert f"Approve code from outside, commit {caller.head}" in approved.text  # what a reviewer sees
    caller.forget()
    caller.stage.actions.refuse_approval()
    refused = caller.call(event, repository)
    assert waited(refused) == waits, refused.text
    if waits:
        caller.assert_nothing_ran()
    else:
        assert caller.artifacts == {FILE: "measured\n"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if: needs.check.outputs.approval != 'not required'", "if: false"),
        (
            "      - name: Show the commits to approve\n",
            "      - run: exit 1\n      - name: Show the commits to approve\n",
        ),
    ],
    ids=["approval was skipped", "the check failed after its outputs"],
)
@pytest.mark.parametrize("repository", [ADOPTER, FORK])
def test_measuring_rests_on_how_the_jobs_before_ended(caller: Caller, repository: str, old: str, new: str) -> None:
    file = caller.stage.actions.source / ".github/workflows/gpu-benchmark.yml"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    done = caller.call("pull_request", repository)
    measured = repository == ADOPTER and new == "if: false"  # such a run has no need of approval
    assert bool(caller.commands) == measured, done.text
    assert bool(caller.stage.actions.checkouts) == measured


@pytest.mark.parametrize("event", [event for event in EVENTS if event != "workflow_dispatch"])
def test_the_plan_cannot_name_another_head(caller: Caller, event: str) -> None:
    done = caller.call(event, ADOPTER, caller.plan(head=caller.other))
    caller.assert_nothing_ran()
    assert not waited(done)
    assert "Head is not the commit of the event" in done.says("Check the request")


def test_nor_the_commit_of_the_run_where_the_pull_request_has_another(caller: Caller) -> None:
    data = caller.payload("pull_request", ADOPTER)
    data["pull_request"]["head"]["sha"] = caller.other
    data["call"] = {"plan": json.dumps(caller.plan()), "name": "evenbench", "cases": "cases"}
    caller.start("pull_request", data)
    caller.assert_nothing_ran()


@pytest.mark.parametrize("changes", [{"pull_request": None}, {"pull_request": {}}, {"pull_request": {"head": None}}])
def test_a_pull_request_without_a_head_measures_nothing(caller: Caller, changes: dict[str, Any]) -> None:
    data = caller.payload("pull_request_review", ADOPTER) | changes
    data["call"] = {"plan": json.dumps(caller.plan()), "name": "evenbench", "cases": "cases"}
    caller.start("pull_request_review", data)
    caller.assert_nothing_ran()


def test_a_form_may_name_any_commit(caller: Caller) -> None:
    done = caller.call("workflow_dispatch", plan=caller.plan(head=caller.other))
    assert done.code == 0, done.text
    assert f"head {ADOPTER} {caller.other}" in caller.stage.actions.checkouts


NAMES = {
    "a folder of head": "head/x",
    "a folder of head from the results": "../head/x",
    "the folder above": "../x",
    "a second line": "x\nSECRET\n",
    "a first line": "SECRET\nx",
    "a last newline": "x\n",
    "empty": "",
    "upper case": "Evenbench",
    "letters beyond ASCII": "évenbench",
    "a pattern": "*",
    "an absolute path": "/SECRET",
    "a blank": "a b",
    "an expression": "${{ github.token }}",
    "a command": "$(touch pwned)",
    "too long": "a" * 65,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_the_name_of_the_artifacts_is_no_path(caller: Caller, name: str) -> None:
    caller.call(name=name.replace("SECRET", str(caller.secret)), confirm="yes")
    caller.assert_nothing_ran()
    assert list(caller.stage.actions.folder.rglob("pwned")) == []


@pytest.mark.parametrize("cases", ["", "/etc", "../secret", "cases/../../x", "..", "a\nb", "cases\n"])
def test_the_folder_of_the_cases_is_in_the_repository(caller: Caller, cases: str) -> None:
    caller.call(cases=cases)
    caller.assert_nothing_ran()


@pytest.mark.parametrize("cases", [".", "benchmarks/cases", "my cases", "a..b", "-cases"])
def test_a_folder_in_the_repository_may_have_any_name(caller: Caller, cases: str) -> None:
    done = caller.call(cases=cases)
    assert done.code == 0, done.text
    assert f"--cases={cases}" in caller.commands


COMMITS = [
    "main",
    "HEAD",
    "refs/pull/8/head",
    "",
    "a" * 41,
    "a" * 39,
    "A" * 40,
    "g" * 40,
    "a" * 40 + "\n",
    "--upload-pack=touch pwned",
    "${{ github.token }}",
    "$(touch pwned)",
    None,
    7,
]


@pytest.mark.parametrize("side", ["base", "head"])
@pytest.mark.parametrize("commit", COMMITS, ids=repr)
def test_base_and_head_are_full_commit_ids(caller: Caller, side: str, commit: object) -> None:
    """By a form, so that the event binds nothing."""
    done = caller.call("workflow_dispatch", plan=caller.plan(**{side: commit}))
    caller.assert_nothing_ran()
    assert "Base and head must be full commit ids." in done.says("Check the request")
    assert list(caller.stage.actions.folder.rglob("pwned")) == []


def matrix(*entries: object, **more: object) -> dict[str, object]:
    return {"matrix": {"include": list(entries)} | more}


ONE = {"index": 0, "count": 1, "seed": 5}
CHANGES: dict[str, dict[str, object]] = {
    "another key": {"extra": 1},
    "measure is a text": {"measure": "true"},
    "merge_base is a text": {"merge_base": "true"},
    "merge_base is null": {"merge_base": None},
    "why is a number": {"why": 1},
    "cases_from is elsewhere": {"cases_from": "../x"},
    "cases_from is a list": {"cases_from": ["own"]},
    "no matrix": {"matrix": None},
    "a matrix of another key": matrix(ONE, runner=["x"]),
    "a matrix to exclude from": matrix(ONE, exclude=[]),
    "shards that are an object": {"matrix": {"include": {"0": ONE}}},
    "no shard": matrix(),
    "17 shards": matrix(*shards(17)),
    "a shard that is a text": matrix("0"),
    "a shard of another key": matrix(ONE | {"labels": "x"}),
    "a shard without a seed": matrix({"index": 0, "count": 1}),
    "an index out of range": matrix(ONE | {"index": 1}),
    "a negative index": matrix(ONE | {"index": -1}),
    "an index that is no whole number": matrix(ONE | {"index": 0.5}),
    "an index that is a text": matrix(ONE | {"index": "0"}),
    "an index that is a boolean": matrix(ONE | {"index": False}),
    "an index twice": matrix(*[ONE | {"count": 2}] * 2),
    "a count of more shards": matrix(ONE | {"count": 2}),
    "two seeds": matrix(ONE | {"count": 2}, {"index": 1, "count": 2, "seed": 6}),
    "a negative seed": matrix(ONE | {"seed": -5}),
    "a seed that is a text": matrix(ONE | {"seed": "5 --output=pwned"}),
    "a seed of 16 digits": matrix(ONE | {"seed": 10**15}),
    "a share that is no share": matrix(ONE | {"share": "--output=pwned"}),
    "a share with a second line": matrix(ONE | {"share": SHARE + "\nx"}),
    "a share that is a number": matrix(ONE | {"share": 5}),
    "a share for one of two": matrix(ONE | {"count": 2, "share": SHARE}, {"index": 1, "count": 2, "seed": 5}),
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=list(CHANGES))
def test_a_plan_has_one_shape(caller: Caller, changes: dict[str, object]) -> None:
    caller.call(plan=caller.plan(**changes))
    caller.assert_nothing_ran()


@pytest.mark.parametrize("count", [0, 17])
def test_a_plan_has_1_to_16_shards(caller: Caller, count: int) -> None:
    done = caller.call(plan=caller.plan(matrix={"include": shards(count)}))
    caller.assert_nothing_ran()
    assert "There must be 1 to 16 shards." in done.says("Check the request")


@pytest.mark.parametrize("key", ["base", "head", "measure", "why", "cases_from", "matrix"])
def test_a_plan_lacks_no_key(caller: Caller, key: str) -> None:
    plan = caller.plan()
    del plan[key]
    done = caller.call(plan=plan)
    caller.assert_nothing_ran()
    assert "does not have the keys" in done.says("Check the request")


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "null", "[]", "5", '"plan"', "{}", "${{ github.token }}", "PLAN PLAN", "PLAN}", "NaN", "[" * 20_000],
    ids=lambda text: text[:20],
)
def test_a_plan_is_one_json_object(caller: Caller, text: str) -> None:
    caller.call(plan=text.replace("PLAN", json.dumps(caller.plan())))
    caller.assert_nothing_ran()


@pytest.mark.parametrize("length", [65_537, 100_000])
def test_a_plan_is_bounded(caller: Caller, length: int) -> None:
    done = caller.call(plan=json.dumps(caller.plan(why="x" * length)))
    caller.assert_nothing_ran()
    assert "longer than 65,536" in done.says("Check the request")


def test_a_plan_gives_the_runner_no_commands(caller: Caller) -> None:
    command = "\n::set-output name=approval::not required\n::error::pwned"
    for plan in (command, json.dumps(command), caller.plan(why=7, **{command: command}), caller.plan(head=command)):
        done = caller.call(plan=plan)
        caller.assert_nothing_ran()
        assert "pwned" not in done.text


def test_an_older_plan_and_one_of_many_shards_are_understood(caller: Caller) -> None:
    older = caller.plan()
    del older["merge_base"]
    assert caller.call(plan=older).code == 0
    assert f"base {ADOPTER} {caller.base}" in caller.stage.actions.checkouts
    caller.forget()
    done = caller.call(plan=caller.plan(why="é" * 1_000, matrix={"include": shards(16, share=SHARE)}), confirm="yes")
    assert done.code == 0, done.text
    assert len(caller.artifacts) == 2 * 16
    assert f"merge-base {ADOPTER} {caller.base}" in caller.stage.actions.checkouts
    assert {word for word in caller.commands if word.startswith(("--shard=", "--share=", "--seed="))} == {
        *(f"--shard={index}/16" for index in range(16)),
        f"--share={SHARE}",
        "--seed=5",
    }


REPLACED = {
    "a link": 'ln -sf "$SECRET" "$results"',
    "a hard link": 'ln -f "$SECRET" "$results"',
    "a second file that is a link": 'ln -sf "$SECRET" "${results/.results./.confirm.results.}"',
    "a link to nothing yet": 'ln -sf "$SECRET-later" "$results"',
    "a folder": 'rm "$results"; mkdir "$results"',
    "a FIFO": 'rm "$results"; mkfifo "$results"',
    "a folder elsewhere": 'mv results elsewhere; ln -s elsewhere results; ln -sf "$SECRET" "$results"',
    "a folder elsewhere with plain files": "mv results elsewhere; ln -s elsewhere results",
}


@pytest.mark.parametrize("command", REPLACED.values(), ids=list(REPLACED))
@pytest.mark.parametrize("fails", [False, True])
def test_a_launch_cannot_put_another_file_in_place_of_the_results(caller: Caller, command: str, fails: bool) -> None:
    program = caller.stage.actions.programs / "evenbench"
    end = "exit 70" if fails else ""
    program.write_text(f"{EVENBENCH}SECRET={caller.secret}\n{command}\n{end}\n")
    done = caller.call(confirm="yes")
    assert done.code != 0
    assert caller.commands  # it was measured
    assert caller.artifacts == {}


def test_results_of_an_earlier_job_are_not_uploaded(caller: Caller) -> None:
    """A machine that keeps its workspace from job to job still has them when the first step refuses the values."""
    file = caller.stage.actions.source / ".github/workflows/gpu-benchmark.yml"
    before, first, after = file.read_text().partition("      - name: Check the values\n")
    earlier = "      - run: mkdir results && touch results/Old-0.results.jsonl results/Old-0.confirm.results.jsonl\n"
    file.write_text(f"{before}{earlier}{first}{after}")
    caller.call(name="Old", confirm="yes")
    caller.assert_nothing_ran()


def test_results_are_in_a_folder_of_their_own(caller: Caller) -> None:
    assert caller.call().code == 0
    assert f"--output=results/{FILE}" in caller.commands
    assert {line.split()[0] for line in caller.stage.actions.checkouts} == {"merge-base", "head"}


def test_what_was_measured_before_a_failure_is_uploaded(caller: Caller) -> None:
    program = caller.stage.actions.programs / "evenbench"
    program.write_text(f"{EVENBENCH}exit 70\n")
    assert caller.call(confirm="yes").code != 0
    assert sorted(caller.artifacts) == ["evenbench-0.confirm.results.jsonl", FILE]


@pytest.mark.parametrize(
    "changes",
    [
        {"NAME": "head/x"},
        {"NAME": "x\n/etc/passwd"},
        {"BASE": "main"},
        {"HEAD": "--upload-pack=x"},
        {"HEAD": "a" * 40 + "\n"},
        {"SHARD": "x/1"},
        {"SHARD": "0/1/../.."},
        {"CASES": "../x"},
    ],
    ids=str,
)
def test_the_gpu_job_checks_for_itself_too(tmp_path: Path, changes: dict[str, str]) -> None:
    """Its first step, by itself: nothing of it rests on the job before."""
    measure = yaml.safe_load((ROOT / ".github/workflows/gpu-benchmark.yml").read_text())["jobs"]["measure"]
    first = measure["steps"][0]
    good = {"NAME": "evenbench", "BASE": "a" * 40, "HEAD": "b" * 64, "CASES": "cases", "SHARD": "0/1"}
    assert {*good, "LC_ALL"} == set(first["env"])
    for values, ends_well in ((good, True), (good | changes, False)):
        done = subprocess.run(
            ["bash", "-e", "-c", first["run"]], cwd=tmp_path, env=values | {"LC_ALL": "C"}, check=False
        )
        assert (done.returncode == 0) == ends_well


def test_a_link_that_an_earlier_job_left_is_not_followed(tmp_path: Path) -> None:
    measure = yaml.safe_load((ROOT / ".github/workflows/gpu-benchmark.yml").read_text())["jobs"]["measure"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (tmp_path / "results").symlink_to(elsewhere)
    good = {"NAME": "evenbench", "BASE": "a" * 40, "HEAD": "b" * 40, "CASES": "cases", "SHARD": "0/1"}
    subprocess.run(["bash", "-e", "-c", measure["steps"][0]["run"]], cwd=tmp_path, env=good, check=True)
    assert not (tmp_path / "results").is_symlink()
    assert (elsewhere / "kept").exists()


def test_no_job_but_the_first_reads_the_plan() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/gpu-benchmark.yml").read_text())["jobs"]
    assert [name for name, job in jobs.items() if re.search(r"inputs\.plan\b", json.dumps(job))] == ["check"]
