"""The workflow files, ours and an adopter's, run by act on real payloads: plan, measure, artifact, publish, comment.

act keeps to neither permissions nor environments nor concurrency; tests/attacks/test_workflows.py holds the files
themselves to those.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from evenbench.runner.config import select
from tests.fakes.act import OWN, ROOT, Done
from tests.fakes.stage import ADOPTER, SUITES, Stage, cases, staging

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FORK = "stranger/kernels"


@pytest.fixture
def make_stage(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[Callable[[str], Stage]]:
    with staging(tmp_path, tool("act")) as make:
        yield make


@pytest.mark.parametrize("name", [ADOPTER, OWN])
def test_a_pull_request_has_one_comment_that_follows_its_pushes(make_stage: Callable[[str], Stage], name: str) -> None:
    stage = make_stage(name)
    github = stage.github
    first = stage.propose({"cases/note.txt": "1"})

    well(stage.publish(100, "requested"))
    (queued,) = github.bodies()
    assert "queued" in queued
    measured = well(stage.benchmark(100, action="opened"))
    assert measured.ran("Approve") is False
    assert "1 unchanged" in measured.text  # in the summary of the run
    assert list(stage.actions.artifacts(100)) == ["evenbench-0.results.jsonl"]
    assert github.writes() == [call for call in github.writes() if call.startswith(("POST", "PATCH"))]
    well(stage.publish(100, "completed", "success"))
    (table,) = github.bodies()
    assert "1 unchanged" in table
    assert f"base `{stage.repository.git('rev-parse', 'main')[:7]}` (merge-base) → head `{first[:7]}` · " in table
    assert conclusions(stage, first) == ["success"]

    second = stage.propose({"cases/ops.py": cases(repeats=16)})
    well(stage.publish(101, "requested"))
    well(stage.benchmark(101))
    well(stage.publish(101, "in_progress"))
    assert "measuring" in github.bodies()[0]
    well(stage.publish(101, "completed", "success"))
    edited, turned = github.bodies()
    assert "1 regressed" in edited
    assert second[:7] in edited
    assert "regressed" in turned  # an edit notifies nobody
    assert conclusions(stage, second) == ["failure"]

    assert {check["name"] for check in github.checks.values()} == {"evenbench (pr)"}  # what branch protection requires

    labelled = stage.benchmark(102, action="labeled")
    assert labelled.code == 0
    assert "Job succeeded" not in labelled.text  # nothing is planned and nothing measured
    assert stage.actions.artifacts(102) == {}
    well(stage.publish(102, "completed", "skipped"))
    assert github.bodies()[0] == edited  # some other label
    github.label(7, "evenbench: accepted", "maintainer", "write")
    well(stage.publish(103, "requested"))
    well(stage.publish(103, "completed", "skipped"))
    assert conclusions(stage, second) == ["success"]
    assert "Accepted by `maintainer`" in github.bodies()[0]
    assert len(github.bodies()) == 2


def well(done: Done) -> Done:
    """A run that ended well."""
    assert done.code == 0, done.text
    return done


def conclusions(stage: Stage, sha: str) -> list[str]:
    return [check["conclusion"] for check in stage.github.checks.values() if check["head_sha"] == sha]


# Runs when it is imported, and when it is measured: shouts at the runner, and looks for tokens wherever it may look.
SPY = """
    import os, subprocess, sys
    from pathlib import Path

    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        print("::add-mask::regressed\\n::error::pwned\\n::set-output name=plan::pwned", file=stream, flush=True)
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        if name in os.environ:
            Path(os.environ[name]).write_text("EVIL=1")
    root = Path.cwd()
    for parent in (root, *root.parents[:3]):
        for file in (parent / ".git/config", parent / "event.json"):
            if file.is_file():
                print(file.read_text(), file=sys.stderr)
    raise RuntimeError("environment: " + " ".join(f"{k}={v}" for k, v in os.environ.items()))
"""


def test_a_forks_run_never_sees_a_token_that_may_write(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(OWN)
    head = stage.propose({"cases/spy.py": SPY, "cases/ops.py": cases(repeats=5)}, fork=FORK)
    measured = well(stage.benchmark(200, action="opened"))
    assert measured.ran("Approve code from outside")  # waits on GitHub for whom the environment names
    assert stage.github.requests == []  # nothing of it speaks with GitHub's API
    (results,) = stage.actions.artifacts(200).values()
    text = results.read_text()
    assert "environment: " in text  # the spy ran
    assert "write-token" not in text + measured.text
    assert "read-token" not in text
    assert "GITHUB_TOKEN" not in text
    assert not [line for line in measured.text.splitlines() if "pwned" in line and "::" in line and " | " not in line]

    well(stage.publish(200, "completed", "success"))
    (comment,) = stage.github.bodies()
    assert head[:7] in comment
    assert "self-reported" in comment
    assert {request.token for request in stage.github.requests} == {"write-token"}
    assert [line for line in stage.actions.checkouts if head in line] == [  # publish.yml checks out none of its code
        f"repository {OWN} {head}",
        f"head {OWN} {head}",
    ]


def test_where_nothing_is_to_be_measured_the_check_is_neutral(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(ADOPTER)
    head = stage.propose({"README.md": "a typo less"})
    planned = well(stage.benchmark(300, action="opened"))
    assert planned.ran("Plan")
    assert not planned.ran("Measure, shard")
    assert "None of 1 changed file is named by `paths` of suites.yaml." in planned.text
    well(stage.publish(300, "completed", "success"))
    assert conclusions(stage, head) == ["neutral"]
    assert "nothing to measure" in stage.github.bodies()[0]


def test_shards_are_measured_apart_and_put_together(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(ADOPTER)
    file = ".github/workflows/evenbench.yml"
    caller = (stage.repository.path / file).read_text().replace("{cases: cases}", "{cases: cases, shards: 2}")
    more = cases().replace("ops/softmax", "ops/{}").replace("def softmax", "def {}")
    stage.propose({file: caller, **{f"cases/{name}.py": more.replace("{}", name) for name in "abcdefgh"}})
    well(stage.benchmark(305, action="opened"))
    assert list(stage.actions.artifacts(305)) == ["evenbench-0.results.jsonl", "evenbench-1.results.jsonl"]
    well(stage.publish(305, "completed", "success"))
    assert "8 new" in stage.github.bodies()[0]


def test_a_run_that_fails_is_said_with_its_reason(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(ADOPTER)
    head = stage.propose({"cases/ops.py": "import nosuchmodule\n"})
    measured = stage.benchmark(310, action="opened")
    assert "nosuchmodule" in measured.says("Measure, shard")
    well(stage.publish(310, "completed", "success" if measured.code == 0 else "failure"))
    assert conclusions(stage, head) == ["failure"]
    assert "nosuchmodule" in stage.github.bodies()[0]


def test_the_first_pull_request_has_its_table_in_the_summary(make_stage: Callable[[str], Stage]) -> None:
    """There is no publisher on the default branch yet, and base has no cases."""
    stage = make_stage(ADOPTER)
    whole = {"cases/ops.py": cases(), "cases/suites.yaml": SUITES}
    stage.repository.commit({"cases/ops.py": "", "cases/suites.yaml": "", "README.md": "before"})
    stage.propose(whole)
    measured = well(stage.benchmark(320, action="opened"))
    assert "1 unchanged" in measured.text
    header = json.loads(stage.actions.artifacts(320)["evenbench-0.results.jsonl"].read_text().splitlines()[0])
    assert header["cases_from"] == "head"


def test_the_merge_queue_gets_a_check_and_no_comment(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(ADOPTER)
    head = stage.propose({"cases/note.txt": "1"})
    well(stage.queue(330, head))
    done = stage.publish(
        330, "completed", "success", event="merge_group", head_branch="gh-readonly-queue/main/pr-7", head_sha=head
    )
    assert done.code == 0, done.text
    assert conclusions(stage, head) == ["success"]
    assert stage.github.bodies() == []


def test_by_hand_a_pull_request_is_pinned_measured_and_told(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(ADOPTER)
    head = stage.propose({"cases/note.txt": "1"}, fork=FORK)
    asked = {"pull_request": "7", "pattern": "ops/*", "rounds": "6", "control": "true", "head_sha": head}
    well(stage.dispatch(400, asked))
    (comment,) = stage.github.bodies()
    assert head[:7] in comment
    header = json.loads(stage.actions.artifacts(400)["evenbench-0.results.jsonl"].read_text().splitlines()[0])
    assert header["patterns"] == ["ops/*"]
    assert [side["name"] for side in header["sides"]] == ["base", "head", "control"]
    stage.propose({"cases/note.txt": "2"}, fork=FORK)
    moved = stage.dispatch(401, asked)
    assert moved.code != 0
    assert stage.actions.artifacts(401) == {}
    assert stage.github.bodies() == [comment]


def test_by_hand_two_refs_are_told_in_the_summary(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(OWN)
    head = stage.propose({"cases/note.txt": "1"}, branch="faster")
    done = well(stage.dispatch(410, {"base": "main", "head": "faster"}))
    assert "1 unchanged" in done.text
    assert f"head {OWN} {head}" in stage.actions.checkouts
    assert stage.github.writes() == []


def test_every_night_main_proves_itself(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(OWN)
    well(stage.night(500))
    proofs = [json.loads(line) for line in stage.actions.artifacts(500)["proofs.jsonl"].read_text().splitlines()]
    assert [proof["kind"] for proof in proofs] == ["aa", "planted"]
    assert proofs[1]["planted"]["case"] == "ops/softmax[cols=4096]"


def test_every_night_is_kept_in_a_branch_and_what_changed_becomes_an_issue(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(OWN)
    git = stage.repository.git
    keep_nights(stage, 30)
    night = well(stage.night(510))
    assert night.ran("Pages")
    files = git("ls-tree", "-r", "--name-only", "evenbench-history").splitlines()
    assert len([file for file in files if file.startswith("runs/")]) == 31
    assert len([file for file in files if file.startswith("proofs/no-gpu/")]) == 2
    (told,) = [file for file in files if file.startswith("found/")]
    assert json.loads(git("show", f"evenbench-history:{told}"))["case"] == "norm/rms"
    (issue,) = stage.github.issues
    assert issue["title"] == "evenbench: 1 change point on main, 1 slower"
    assert "norm/rms" in issue["body"]
    well(stage.night(511))
    assert len(stage.github.issues) == 1  # nothing new
    assert git("rev-list", "--count", "evenbench-history") == "3"


def keep_nights(stage: Stage, nights: int) -> None:
    """A branch of history, in which one case became slower."""
    from evenbench.reports.history.rows import rows_of
    from evenbench.reports.history.store import add
    from evenbench.runner.records import SideInfo
    from tests import build

    folder = stage.actions.folder / "nights"
    for night in range(nights):
        case = build.Case("norm/rms", head=20_000.0 if night < nights // 2 else 22_000.0)
        sides = [SideInfo(name="head", label="main", sha=f"{night:040x}")]
        started = f"2026-01-{night + 1:02}T02:17:00Z"
        run = build.results([case], verb="run", run_id=f"night-{night}", started=started, sides=sides)
        add(folder, rows_of(run, "head"))
    git = stage.repository.git
    git("checkout", "-q", "--orphan", "evenbench-history")
    git("--work-tree", str(folder), "add", "--all")
    git("commit", "-q", "-m", "Nights")
    git("checkout", "-q", "-f", "main")


def test_the_nights_planted_change_is_in_exactly_one_of_our_cases(tool: Callable[[str], str]) -> None:
    pytest.importorskip("torch")
    jobs = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]
    asked = jobs["planted"]["with"]
    command = [tool("evenbench"), "list", "--suite", asked["suite"], asked["plant"]]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(found) == 1
    assert select((asked["pattern"],), found[0], ())
