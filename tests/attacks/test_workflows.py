"""What no workflow file of ours, and none that `evenbench init` writes, may hold, and what each must."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenbench.starter.files import Source, files_of
from tests.fakes.act import OWN, ROOT
from tests.fakes.stage import ADOPTER, Stage, staging

WORKFLOWS = ROOT / ".github" / "workflows"
FILES = sorted(path.name for path in WORKFLOWS.iterdir())
TRIGGERS = {
    "benchmark.yml": {"pull_request", "merge_group", "workflow_call"},
    "ci.yml": {"pull_request", "push", "merge_group"},
    "gpu-benchmark.yml": {"workflow_call"},
    "image.yml": {"push", "workflow_dispatch"},
    "manual.yml": {"workflow_dispatch", "workflow_call"},
    "nightly.yml": {"schedule"},
    "publish.yml": {"workflow_run", "workflow_call"},
    # written by init
    "evenbench.yml": {"pull_request", "merge_group"},
    "evenbench-manual.yml": {"workflow_dispatch"},
    "evenbench-publish.yml": {"workflow_run"},
}
# The jobs that may write, and what.
WRITERS = {
    ("image.yml", "build"): {"packages", "id-token", "attestations"},
    ("image.yml", "bump"): {"contents", "pull-requests"},
    ("nightly.yml", "history"): {"contents"},
    ("nightly.yml", "alert"): {"issues"},
    ("nightly.yml", "pages"): {"pages", "id-token"},
    ("publish.yml", "publish"): {"pull-requests", "checks"},
    ("manual.yml", "publish"): {"pull-requests", "checks"},
    ("evenbench-publish.yml", "publish"): {"pull-requests", "checks"},
    ("evenbench-manual.yml", "compare"): {"pull-requests", "checks"},
}
# The jobs in which a step is given the token, by the verb that uses it; a download of another run's artifact needs it too.
TOKENS = {
    ("publish.yml", "publish"),
    ("nightly.yml", "history"),
    ("nightly.yml", "alert"),
    ("manual.yml", "plan"),
    ("manual.yml", "publish"),
    ("image.yml", "build"),
    ("image.yml", "bump"),
}
GPU = "evenbench/evenbench/.github/workflows/gpu-benchmark.yml@main"
SOURCE = Source("evenbench/evenbench", "a" * 40)
LINES = 15  # of substance in a file that an adopter keeps
HOSTED = "ubuntu-24.04"

Workflow = dict[str, Any]


def adopters() -> dict[str, str]:
    """The workflow files that `evenbench init` writes, by their names."""
    return {name.rpartition("/")[2]: text for name, text in files_of("cases", SOURCE).items() if "/workflows/" in name}


def text_of(name: str) -> str:
    return adopters()[name] if name in adopters() else (WORKFLOWS / name).read_text(encoding="utf-8")


def read(name: str) -> Workflow:
    """A workflow; YAML 1.1 reads the key `on` as true, so it is named back."""
    data: dict[Any, Any] = yaml.safe_load(text_of(name))
    return {"on" if key is True else key: value for key, value in data.items()}


def jobs(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from read(name)["jobs"].items()


def steps(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for job_id, job in jobs(name):
        for step in job.get("steps", []):
            yield job_id, step


def strings(value: object) -> Iterator[str]:
    """Every text in a tree, keys too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from strings(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


ALL = [*FILES, *adopters()]


@pytest.fixture
def make_stage(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[Callable[[str], Stage]]:
    with staging(tmp_path, tool("act")) as make:
        yield make


def test_every_file_is_looked_at() -> None:
    assert set(ALL) == set(TRIGGERS)


@pytest.mark.parametrize("name", ALL)
def test_triggers_are_those_allowed(name: str) -> None:
    assert set(read(name)["on"]) == TRIGGERS[name]


@pytest.mark.parametrize("name", ALL)
def test_no_filter_by_paths_leaves_a_required_check_waiting(name: str) -> None:
    for trigger in read(name)["on"].values():
        assert not {"paths", "paths-ignore"} & set(trigger if isinstance(trigger, dict) else ())


@pytest.mark.parametrize("name", ALL)
def test_only_one_file_names_the_gpu_machines(name: str) -> None:
    machines = {json.dumps(job["runs-on"]) for _, job in jobs(name) if "runs-on" in job}
    if name == "gpu-benchmark.yml":
        assert machines == {json.dumps(HOSTED), json.dumps({"group": "evenbench-gpu", "labels": "gpu"})}
    else:
        assert machines <= {json.dumps(HOSTED)}


def test_the_gpu_job_is_called_at_the_default_branch_alone() -> None:
    calls = [(name, job["uses"]) for name in ALL for _, job in jobs(name) if "gpu-benchmark" in job.get("uses", "")]
    assert {name for name, _ in calls} == {"benchmark.yml", "manual.yml", "nightly.yml"}
    assert {uses for _, uses in calls} == {GPU}


@pytest.mark.parametrize("name", ALL)
def test_approval_never_holds_the_gpu(name: str) -> None:
    for job_id, job in jobs(name):
        assert not ("environment" in job and "concurrency" in job), job_id
        assert "environment" not in job or job["runs-on"] == HOSTED, job_id


def test_the_gpu_job_needs_the_check_and_waits_for_its_lock() -> None:
    """Who must be approved, and what may be measured: tests/attacks/test_gpu_workflow.py runs it."""
    found = dict(jobs("gpu-benchmark.yml"))
    assert found["approve"]["environment"]
    assert found["approve"]["needs"] == "check"
    assert found["measure"]["needs"] == ["check", "approve"]
    assert found["measure"]["concurrency"]["queue"] == "max"
    assert found["measure"]["concurrency"]["group"].startswith("gpu-")


@pytest.mark.parametrize("name", ALL)
def test_everything_from_elsewhere_is_pinned(name: str) -> None:
    used = [
        entry["uses"]
        for entry in [*(step for _, step in steps(name)), *(job for _, job in jobs(name))]
        if "uses" in entry
    ]
    for uses in used:
        assert uses == GPU or re.fullmatch(
            r"(actions/[\w-]+|evenbench/evenbench/\.github/workflows/[\w-]+\.yml)@[0-9a-f]{40}", uses
        )


@pytest.mark.parametrize("name", ALL)
def test_permissions_are_the_least(name: str) -> None:
    whole = read(name)["permissions"]
    assert whole in ({}, {"contents": "read"})
    for job_id, job in jobs(name):
        permissions = job.get("permissions", whole)
        assert isinstance(permissions, dict), job_id
        writes = {key for key, value in permissions.items() if value != "read"}
        assert writes == WRITERS.get((name, job_id), set()), job_id


@pytest.mark.parametrize("name", ALL)
def test_no_secret_and_the_token_only_where_it_is_used(name: str) -> None:
    assert "secrets" not in " ".join(strings(read(name)))
    for job_id, job in jobs(name):
        has_token = re.search(r"github\.token|GITHUB_TOKEN", " ".join(strings(job))) is not None
        assert has_token == ((name, job_id) in TOKENS), job_id


@pytest.mark.parametrize("name", ALL)
def test_no_shell_text_is_made_by_expressions(name: str) -> None:
    for job_id, step in steps(name):
        assert "${{" not in step.get("run", ""), job_id


@pytest.mark.parametrize("name", ALL)
def test_no_checkout_keeps_credentials(name: str) -> None:
    for job_id, step in steps(name):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, job_id


@pytest.mark.parametrize("name", ALL)
def test_no_job_of_a_container_gets_the_hosts_socket(name: str) -> None:
    for job_id, job in jobs(name):
        assert not {"container", "services"} & set(job), job_id


@pytest.mark.parametrize("name", ALL)
def test_no_job_runs_for_ever(name: str) -> None:
    for job_id, job in jobs(name):
        assert "uses" in job or 0 < job["timeout-minutes"] <= 240, job_id


def test_the_writing_job_of_a_pull_request_checks_out_none_of_its_code() -> None:
    refs = [
        step["with"].get("ref")
        for _, step in steps("publish.yml")
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert refs == ["${{ job.workflow_sha }}", "${{ github.event.repository.default_branch }}"]
    assert not re.search(r"head_sha|head\.|pull_requests", " ".join(strings(read("publish.yml")["jobs"])))


def test_no_artifact_is_unpacked() -> None:
    for name in FILES:
        for job_id, step in steps(name):
            if step.get("uses", "").startswith("actions/download-artifact@"):
                assert step["with"]["skip-decompress"] is True, (name, job_id)
            if step.get("uses", "").startswith("actions/upload-artifact@"):
                assert step["with"]["archive"] is False, (name, job_id)


def test_no_input_of_the_gpu_job_chooses_what_the_host_decides() -> None:
    inputs = set(read("gpu-benchmark.yml")["on"]["workflow_call"]["inputs"])
    assert inputs == {"plan", "cases", "suite", "pattern", "rounds", "control", "confirm", "plant", "name"}
    assert "EVENBENCH_" not in text_of("gpu-benchmark.yml")  # launcher and allowed images: variables of the host
    assert "GITHUB_ENV" not in text_of("gpu-benchmark.yml")


def test_words_of_measured_code_give_the_runner_no_commands() -> None:
    (compare,) = (step for _, step in steps("gpu-benchmark.yml") if "evenbench compare" in step.get("run", ""))
    lines = compare["run"].splitlines()
    assert lines[0] == "token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' ')"
    assert lines[1] == 'echo "::stop-commands::$token"'
    assert lines[2] == "trap 'echo \"::$token::\"' EXIT"
    assert lines[3].startswith("evenbench compare ")


def test_each_value_given_to_compare_stays_a_value() -> None:
    """`--name="$VALUE"` in one word, or behind `--`: a value that begins with a dash cannot become an option."""
    (compare,) = (step["run"] for _, step in steps("gpu-benchmark.yml") if "evenbench compare" in step.get("run", ""))
    command = compare.replace("\\\n", " ").splitlines()[3]
    options, _, positional = command.partition(" -- ")
    for name in re.findall(r"\$(\w+)", options):
        assert re.search(rf'--[\w-]+="\${name}', options), name
    assert positional.strip() == '"./$BASE_FOLDER" ./head ${PATTERN:+"$PATTERN"}'


@pytest.mark.parametrize("name", adopters())
def test_what_an_adopter_keeps_is_short_and_only_calls(name: str) -> None:
    lines = [line for line in text_of(name).splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) <= LINES
    for _, job in jobs(name):
        assert job["uses"].startswith("evenbench/evenbench/.github/workflows/")
        assert "steps" not in job


def test_adopters_file_passes_the_linters(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """As a maintainer would hold them: zizmor, actionlint and the schema, without settings of ours."""
    for name, text in adopters().items():
        path = tmp_path / ".github" / "workflows" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    files = [str(path) for path in sorted((tmp_path / ".github/workflows").iterdir())]
    for command in (
        [tool("zizmor"), "--offline", "-q", "--strict-collection", "."],
        # It asks for the key `cache-mode`, which has no use here: no job has a cache.
        [tool("actionlint"), "-ignore", "no explicit cache access limit"],
        [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_branch_may_be_named_like_a_command(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage(ADOPTER)
    branch = "$(touch${IFS}pwned)`touch${IFS}pwned`;touch${IFS}pwned"
    head = stage.propose({"README.md": "1"}, branch=branch, fork="stranger/kernels")
    planned = stage.benchmark(600, action="opened")
    assert planned.code == 0, planned.text
    told = stage.publish(600, "completed", "success")
    assert told.code == 0, told.text
    assert head[:7] in stage.github.bodies()[0]
    assert list(stage.actions.folder.rglob("pwned")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"base": "$(touch pwned)", "head": "main"}, "unknown commit: '$(touch pwned)'"),
        ({"base": "--output=pwned", "head": "main"}, "unknown commit: '--output=pwned'"),
        ({"base": "main", "head": 'main"; touch pwned; "'}, "unknown commit"),
        ({}, "no commit was named"),
        ({"pull_request": "7; touch pwned"}, "is not the number of a pull request"),
        ({"pull_request": "7", "head_sha": "$(touch pwned)"}, "is not a full commit id"),
        ({"base": "main", "head": "main", "pattern": "--output=pwned"}, "selects none of 1 case"),
        ({"base": "main", "head": "main", "pattern": "$(touch pwned)"}, "selects none of 1 case"),
        ({"base": "main", "head": "main", "suite": "--output=pwned"}, "--output=pwned"),
        ({"base": "main", "head": "main", "rounds": "8 --output=pwned"}, "invalid int value"),
        ({"base": "main", "head": "main", "rounds": "$(touch pwned)"}, "invalid int value"),
    ],
    ids=str,
)
def test_what_is_written_into_the_form_stays_a_value(
    make_stage: Callable[[str], Stage], inputs: dict[str, str], said: str
) -> None:
    stage = make_stage(OWN)
    stage.propose({"README.md": "1"})
    done = stage.dispatch(610, inputs)
    assert done.code != 0
    assert said in done.text, done.text
    assert list(stage.actions.folder.rglob("*pwned*")) == []
