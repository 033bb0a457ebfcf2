"""Attacks by way of the event: whose run is this, and which pull request may it write to?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.desk import SAME, Desk
from tests.fakes.github import REPOSITORY, Json, run_event

HEAD, NEXT = "b" * 40, "d" * 40


def left_alone(desk: Desk, event: dict[str, Any], text: str) -> None:
    """Nothing may be written, and nothing went wrong: `publish` says why, `resolve` ends with 8."""
    said = desk.publish(desk.results(SAME), event=event)
    assert (said.code, desk.fake.writes()) == (0, [])
    assert said.err.startswith("no comment: ")
    assert text in said.err
    again = desk.run("resolve", event)
    assert again.code == 8
    if again.out:
        assert json.loads(again.out)["number"] is None


def refused(desk: Desk, event: dict[str, Any], code: int, text: str) -> None:
    """Nothing may be written, and both verbs say why."""
    said = desk.publish(desk.results(SAME), event=event)
    assert (said.code, desk.fake.writes()) == (code, [])
    assert said.err.startswith("error: ")
    assert text in said.err
    assert said.err.count("\n") == 1
    again = desk.run("resolve", event)
    assert again.code == code
    if again.out:
        assert json.loads(again.out)["number"] is None


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/other.yml",
        ".github/workflows/benchmark.yml.yml",
        ".github/workflows/../workflows/benchmark.yml",
        "benchmark.yml",
        ".GitHub/workflows/benchmark.yml",
        ".github/workflows/other.yml@.github/workflows/benchmark.yml",
        ".github/workflows/other.yml@refs/heads/main",
        "@.github/workflows/benchmark.yml",
        "x/.github/workflows/benchmark.yml@main",
        "stranger/kernels/.github/workflows/benchmark.yml@main",
        " .github/workflows/benchmark.yml",
        ".github/workflows/benchmark.yml\n@main",
        "",
    ],
)
def test_wrong_workflow_path(desk: Desk, path: str) -> None:
    refused(desk, run_event(desk.fake, path=path), 5, "not of .github/workflows/benchmark.yml")
    assert desk.summary == ""  # its results were not even read


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "refs/pull/7/merge", "x@y"])
def test_any_ref_of_the_right_path_is_our_file(desk: Desk, ref: str) -> None:
    """GitHub says which ref a run's file came from; a pull request's own copy of it is what the design expects."""
    said = desk.publish(desk.results(SAME), path=f".github/workflows/benchmark.yml@{ref}")
    assert (said.code, len(desk.fake.bodies())) == (0, 1)


def test_a_workflow_of_the_same_name_in_a_fork_s_pull_request(desk: Desk) -> None:
    """`workflow_run` goes by name: a stranger can add a file of that name, but not at that path without it being ours."""
    desk.fake.open_pull(7, fork="stranger/kernels")
    event = run_event(desk.fake, path=".github/workflows/evil.yml", name="evenbench", display_title="evenbench")
    refused(desk, event, 5, "the run is of .github/workflows/evil.yml")


def test_a_run_in_the_fork_itself(desk: Desk) -> None:
    refused(desk, run_event(desk.fake, repository={"full_name": "stranger/kernels"}), 5, "a run of stranger/kernels")


def test_an_event_of_another_repository(desk: Desk) -> None:
    event = run_event(desk.fake) | {"repository": {"full_name": "stranger/kernels"}}
    refused(desk, event, 5, "the event is about stranger/kernels, not octo-org/kernels")


def test_the_same_commit_in_two_pull_requests(desk: Desk) -> None:
    """Of two branches: the event's own is meant. Of one branch: nobody can tell."""
    desk.fake.open_pull(8, branch="copy", fork="stranger/kernels")
    desk.publish(desk.results(SAME))
    assert (len(desk.fake.bodies(7)), len(desk.fake.bodies(8))) == (1, 0)
    event = run_event(desk.fake, 8, run=51)
    desk.publish(desk.results(SAME), event=event)
    assert (len(desk.fake.bodies(7)), len(desk.fake.bodies(8))) == (1, 1)


def test_two_pull_requests_of_one_branch(desk: Desk) -> None:
    desk.fake.open_pull(8, base_branch="release")
    said = desk.publish(desk.results(SAME))
    assert (said.code, len(desk.fake.checks), desk.fake.comments) == (0, 1, {})
    desk.fake.pulls[8]["state"] = "closed"
    assert desk.publish(desk.results(SAME)).code == 0


def test_a_stranger_s_branch_of_the_same_name(desk: Desk) -> None:
    desk.fake.open_pull(8, fork="stranger/kernels", head=HEAD)
    desk.publish(desk.results(SAME), event=run_event(desk.fake, 8))
    assert (len(desk.fake.bodies(7)), len(desk.fake.bodies(8))) == (0, 1)


def test_another_repository_of_the_same_owner(desk: Desk) -> None:
    """GitHub filters by owner and branch alone."""
    desk.fake.open_pull(8, fork="octo-org/other", head=HEAD)
    desk.publish(desk.results(SAME), event=run_event(desk.fake, 8))
    assert (len(desk.fake.bodies(7)), len(desk.fake.bodies(8))) == (0, 1)


def test_closed(desk: Desk) -> None:
    event = run_event(desk.fake)
    desk.fake.pulls[7]["state"] = "closed"
    left_alone(desk, event, "#7 is closed")


def test_other_base_repository(desk: Desk) -> None:
    desk.fake.pulls[7]["base"]["repo"]["full_name"] = "upstream/kernels"
    left_alone(desk, run_event(desk.fake), "#7 is for another repository")


def test_head_moved_before_the_first_call(desk: Desk) -> None:
    event = run_event(desk.fake)
    desk.fake.push(7, NEXT)
    left_alone(desk, event, "#7 is at ddddddd by now, not at bbbbbbb")


def test_head_moved_between_list_and_pull_request(desk: Desk) -> None:
    def push() -> None:
        desk.fake.push(7, NEXT)

    desk.fake.fail("GET", "pulls/7$", passes=True, first=push)
    said = desk.publish(desk.results(SAME))
    assert (said.code, desk.fake.writes()) == (0, [])


def test_closed_between_two_calls(desk: Desk) -> None:
    def close() -> None:
        desk.fake.pulls[7]["state"] = "closed"

    desk.fake.fail("GET", "check-runs$", passes=True, first=close)
    said = desk.publish(desk.results(SAME))
    assert (said.code, desk.fake.bodies()) == (0, [])


@pytest.mark.parametrize("when", ["before the event", "after the event"])
def test_deleted_fork(desk: Desk, when: str) -> None:
    desk.fake.open_pull(7, fork="stranger/kernels")
    event = run_event(desk.fake)
    if when == "before the event":
        event["workflow_run"]["head_repository"] = None
    desk.fake.pulls[7]["head"]["repo"] = None
    left_alone(desk, event, "was deleted")


def test_no_pull_request_has_this_head(desk: Desk) -> None:
    event = run_event(desk.fake)
    desk.fake.pulls.clear()
    left_alone(desk, event, "no pull request has the head bbbbbbb")


@pytest.mark.parametrize("claimed", [[], [{"number": 8, "head": {"sha": HEAD}}], "8"])
def test_pull_requests_of_the_payload_are_not_looked_at(desk: Desk, claimed: Json) -> None:
    desk.fake.open_pull(8, branch="other", head=HEAD)
    desk.publish(desk.results(SAME), pull_requests=claimed)
    assert (len(desk.fake.bodies(7)), len(desk.fake.bodies(8))) == (1, 0)


def test_the_file_names_no_pull_request(desk: Desk) -> None:
    """Whatever its texts say, they choose nothing."""
    desk.fake.open_pull(8, branch="other", head=HEAD)
    desk.publish(desk.results(SAME, run_id="8", patterns=["pull_request=8", "#8"]))
    assert (len(desk.fake.bodies(7)), len(desk.fake.bodies(8))) == (1, 0)


@pytest.mark.parametrize(
    "branch", ["$(id)", "`id`", "a;id", "main&state=all&head=octo-org:other", "ä/#?%2F", "x" * 244]
)
def test_branch_names_are_only_names(desk: Desk, branch: str) -> None:
    desk.fake.open_pull(7, branch=branch, fork="stranger/kernels")
    desk.fake.open_pull(8, branch="other")
    assert desk.publish(desk.results(SAME)).code == 0
    (query,) = [each.query for each in desk.fake.requests if each.path.endswith("/pulls")]
    assert query["head"] == f"stranger:{branch}"


@pytest.mark.parametrize(
    "inputs",
    [
        {"pull_request": "$(id)"},
        {"pull_request": "7; id"},
        {"pull_request": "7/../8"},
        {"pull_request": "-7"},
        {"pull_request": "0"},
        {"pull_request": "\u0667"},
        {"pull_request": "9" * 30},
        {"pull_request": "7\n8"},
        {"pull_request": "7", "head_sha": "main"},
        {"pull_request": "7", "head_sha": HEAD[:7]},
        {"pull_request": "7", "head_sha": f"{HEAD}\n"[:41] + "x"},
        {"pull_request": "7", "head_sha": "$(id)" + "0" * 35},
        {"pull_request": "7", "suite": "$(id)"},
    ],
)
def test_inputs_of_a_form_are_only_values(desk: Desk, inputs: dict[str, str]) -> None:
    event = {"repository": {"full_name": REPOSITORY}, "inputs": inputs}
    said = desk.publish(desk.results(SAME), event=event)
    assert (said.code, desk.fake.writes()) == (2, [])
    assert said.err.count("\n") == 1


def test_a_payload_without_end(desk: Desk) -> None:
    path = desk.folder / "deep.json"
    path.write_text("[" * 200_000, encoding="utf-8")
    from evenbench.cli.main import main

    desk.patch.setenv("GITHUB_TOKEN", "x")
    assert main(["resolve", f"--event={path}"]) == 2
