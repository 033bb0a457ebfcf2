"""The history from the command line: real results files in, tables, pages and an issue out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from evenbench.cli.main import main
from evenbench.runner.records import PlantRecord, SideInfo
from tests import build
from tests.build import NONE, Case
from tests.fakes.github import FakeGitHub
from tests.fakes.repositories import Repository

CASE = "norm/rms[cols=8192]"
STEP = 20  # the night from which on the case is slower
NIGHTS = 30
SAME = [SideInfo(name=name, label="main", sha=build.BASE_SHA) for name in ("base", "head")]


@dataclass(frozen=True)
class Desk:
    """A folder in which `evenbench history` is called."""

    folder: Path

    def __call__(
        self, *words: str, code: int = 0, variables: Mapping[str, str] = NONE
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "evenbench", "history", *words]
        root = str(Path(__file__).parents[2])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
        env = {**kept, "PYTHONPATH": root, "COLUMNS": "120", "OPENBLAS_NUM_THREADS": "1", **variables}
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def results(self, name: str, *cases: Case, **changes: object) -> str:
        """Write a results file."""
        (self.folder / name).write_bytes(build.text(build.events(cases, **changes)))  # type: ignore[arg-type]
        return name

    def night(self, number: int) -> str:
        """The results of main on a night."""
        sides = [SideInfo(name="head", label="main", sha=f"{number:040x}")]
        started = f"2026-01-{number + 1:02}T02:17:00Z"
        cases = Case(CASE, head=20_000.0 if number < STEP else 21_000.0), Case("b/c")
        return self.results(
            f"{number}.jsonl", *cases, verb="run", run_id=f"night-{number}", started=started, sides=sides
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a month of history in the folder `h`; nobody may add to it."""
    from evenbench.reports.history.rows import rows_of
    from evenbench.reports.history.store import add
    from evenbench.reports.load.results import load_file

    desk = Desk(tmp_path_factory.mktemp("nights"))
    for number in range(NIGHTS):
        add(desk.folder / "h", rows_of(load_file(desk.folder / desk.night(number)), "head"))
    return desk


def test_a_run_is_added_once(desk: Desk) -> None:
    name = desk.night(3)
    path = "h/runs/GPU-1/2026-01/20260104T021700Z-night-3-head.parquet"
    assert desk("add", name, "--dir", "h").stdout == f"added: {path}\n"
    before = (desk.folder / path).read_bytes()
    assert desk("add", name, "--dir", "h").stdout == f"there already, left as it is: {path}\n"
    assert (desk.folder / path).read_bytes() == before


def test_shards_are_one_run(desk: Desk) -> None:
    sides = [SideInfo(name="head", label="main", sha="a" * 40)]
    shards = [
        desk.results(f"{n}.jsonl", Case(f"a/{n}"), verb="run", run_id=f"run-{n}", shard=build.shard(n, 2), sides=sides)
        for n in range(2)
    ]
    assert "not complete" in desk("add", shards[0], "--dir", "h", code=2).stderr
    desk("add", *shards, "--dir", "h")
    shown = desk("show", "--dir", "h", "--json").stdout
    assert [row["case"] for row in json.loads(shown)["rows"]] == ["a/0", "a/1"]


def test_which_side_is_main_must_be_said_where_nobody_can_know(desk: Desk) -> None:
    name = desk.results("c.jsonl", Case(CASE))
    refused = desk("add", name, "--dir", "h", code=2)
    assert refused.stderr == "error: which side of the comparison is main? (hint: --side base, or --side head)\n"
    assert "-head.parquet" in desk("add", name, "--dir", "h", "--side", "head").stdout
    assert "-base.parquet" in desk("add", name, "--dir", "h", "--side", "base").stdout


def test_nights_whose_truth_is_known_leave_their_proof(desk: Desk) -> None:
    same = desk.results("same.jsonl", Case(CASE), sides=SAME, run_id="aa-1", started="2026-11-20T02:00:00Z")
    plant = PlantRecord(case=CASE, fraction=0.05)
    planted = desk.results(
        "planted.jsonl",
        Case(CASE, head=21_080.0),
        sides=SAME,
        plant=plant,
        run_id="p-1",
        started="2026-11-20T03:00:00Z",
    )
    assert desk("add", same, "--dir", "h").stdout.splitlines() == [
        "added: h/runs/GPU-1/2026-11/20261120T020000Z-aa-1-base.parquet",
        "added: h/proofs/GPU-1/2026-11/20261120T020000Z-aa-1-aa.jsonl",
    ]
    only = desk("add", planted, "--dir", "h").stdout
    assert only == "added: h/proofs/GPU-1/2026-11/20261120T030000Z-p-1-planted.jsonl\n"
    assert "slowed on purpose" in desk("add", planted, "--dir", "h", "--side", "head", code=2).stderr
    later = desk.results("later.jsonl", Case(CASE))
    command = [sys.executable, "-m", "evenbench", "report", later, "--proofs", "h"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    shown = subprocess.run(command, cwd=desk.folder, env=env, capture_output=True, text=True, check=True).stdout
    assert "this machine's nightly A/A" in shown
    assert "planted 5 %: found 1 of 1" in shown


def test_a_real_run_goes_in(make_repository: Callable[[str], Repository], desk: Desk) -> None:
    from tests.fakes.repositories import QUICK, SUITES

    made = make_repository("repository")
    made.commit({"cases/quick.py": QUICK, "cases/suites.yaml": SUITES})
    command = [sys.executable, "-m", "evenbench", "run", "--in", "main", "--rounds", "2"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(desk.folder)}
    out = ["--output", str(desk.folder / "r.jsonl")]
    subprocess.run([*command, *out], cwd=made.path, env=env, capture_output=True, check=True, timeout=120)
    assert desk("add", "r.jsonl", "--dir", "h").stdout.startswith("added: h/runs/no-gpu/")
    (row, *_) = json.loads(desk("show", "--dir", "h", "--json").stdout)["rows"]
    assert row["timer"] == "host"
    assert row["ns"] > 0


def test_old_commits_that_are_measured_later_come_before(
    make_repository: Callable[[str], Repository], desk: Desk
) -> None:
    """The order is git's; nights that were added without it are put in order as soon as it is there."""
    made = make_repository("main")
    commits = [made.commit({"n": str(number)}) for number in range(18)]

    def add(number: int, day: int, *words: str) -> str:
        name = desk.results(
            f"{number}.jsonl",
            Case(CASE, head=20_000.0 if number < 6 else 16_000.0),
            verb="run",
            run_id=f"run-{number}",
            started=f"2026-01-{day:02}T{number:02}:17:00Z",
            sides=[SideInfo(name="head", label="main", sha=commits[number])],
        )
        return desk("add", name, "--dir", "h", *words).stderr

    for number in range(6, 18):
        assert add(number, number) == ""
    for number in range(6):
        assert add(number, 20, "--repo", str(made.path)) == ""
    (change,) = json.loads(desk("detect", "--dir", "h", "--json").stdout)["changes"]
    assert (change["good"], change["bad"]) == (commits[5], commits[6])
    assert change["change"] == pytest.approx(-0.2, abs=0.01)


def test_why_the_order_is_not_known_is_said(make_repository: Callable[[str], Repository], desk: Desk) -> None:
    made = make_repository("main")
    made.commit({"n": "0"})
    made.commit({"n": "1"})
    name = desk.night(3)
    other = f"the order of commits is not known: {0:012x} is not a commit of {made.path.resolve()}\n"
    assert desk("add", name, "--dir", "h", "--repo", str(made.path)).stderr == other
    shallow = desk.folder / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{made.path}", str(shallow)], check=True)
    assert "is a shallow clone" in desk("add", name, "--dir", "h", "--repo", str(shallow)).stderr
    (shallow / ".git" / "HEAD").write_text("")
    assert "the order of commits is not known: git" in desk("add", name, "--dir", "h", "--repo", str(shallow)).stderr


def test_a_case_over_time(nights: Desk) -> None:
    text = nights("show", CASE, "--dir", "h").stdout
    assert text.splitlines()[0] == CASE
    assert "30 runs, 2026-01-01 to 2026-01-30" in text
    assert f"2026-01-{STEP + 1}" in text
    assert json.loads(nights("show", "rms", "--dir", "h", "--json").stdout)["case"] == CASE
    refused = nights("show", "c", "--dir", "h", code=2).stderr
    assert "is in the ids of 2 cases" in refused
    assert "is no case of the history" in nights("show", "nothing", "--dir", "h", code=2).stderr


def test_what_changed_is_found_told_once_and_becomes_one_issue(nights: Desk) -> None:
    found = json.loads(nights("detect", "--dir", "h", "--record", "--json").stdout)
    (change,) = found["changes"]
    assert (change["case"], change["good"], change["bad"]) == (CASE, f"{STEP - 1:040x}", f"{STEP:040x}")
    assert "no change points in 2 series" in nights("detect", "--dir", "h", "--new").stdout
    assert "1 change point in 2 series" in nights("detect", "--dir", "h").stdout
    assert "no change points" in nights("detect", "--dir", "h", "--since", "2026-01-25").stdout
    assert "no change points" in nights("detect", "--dir", "h", "--smallest", "0.2").stdout
    (nights.folder / "found.json").write_text(json.dumps(found))
    github = FakeGitHub("octo-org/kernels")
    with github.serving() as api:
        known = {"GITHUB_TOKEN": "write-token", "GITHUB_API_URL": api, "GITHUB_REPOSITORY": "octo-org/kernels"}
        rehearsed = nights("alert", "found.json", "--dry-run", variables=known).stdout
        assert rehearsed.startswith("would POST /repos/octo-org/kernels/issues")
        assert github.issues == []
        for _ in range(2):
            assert nights("alert", "found.json", variables=known).stdout == (
                "issue: https://github.com/octo-org/kernels/issues/1000\n"
            )
    (issue,) = github.issues
    assert issue["title"] == "evenbench: 1 change point on main, 1 slower"
    assert f"compare/{STEP - 1:040x}...{STEP:040x}" in issue["body"]


def test_pages_are_written(nights: Desk) -> None:
    done = nights("site", "--dir", "h", "--out", "site", "--repository", "octo-org/kernels")
    assert done.stderr == "4 pages: site/index.html\n"
    names = sorted(str(path.relative_to(nights.folder / "site")) for path in (nights.folder / "site").rglob("*.html"))
    assert len(names) == 4
    assert {"index.html", "machines.html"} < set(names)
    assert "https://github.com/octo-org/kernels/compare/" in (nights.folder / "site/index.html").read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "--dir", "nowhere"], 2, "nowhere holds no history"),
        (["detect", "--dir", "h", "--smallest", "0"], 2, "--smallest 0: must be above 0 and below 1"),
        (["detect", "--dir", "h", "--since", "soon"], 2, "'soon' is no time"),
        (["site", "--dir", "h", "--out", "0.jsonl"], 2, "cannot be made"),
        (["site", "--dir", "h", "--out", "s", "--repository", "a b"], 2, "--repository 'a b' is not OWNER/NAME"),
        (["alert", "missing.json"], 2, "missing.json cannot be read"),
        (["alert", "0.jsonl"], 5, "0.jsonl:"),
        (["add", "missing.jsonl", "--dir", "h"], 2, "no such file"),
        (["add", "0.jsonl", "--dir", "h", "--side", "base"], 2, "the run has no side base"),
        (["add", "0.jsonl", "--dir", "0.jsonl/h"], 2, "cannot be written"),
        (["add", "0.jsonl"], 2, "--dir"),
        ([], 2, "VERB"),
    ],
)
def test_mistakes_are_one_line(nights: Desk, words: list[str], code: int, said: str) -> None:
    done = nights(*words, code=code)
    assert said in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_the_figure_in_small(desk: Desk) -> None:
    """As scripts/prove history measures it; how quick it is, on a busy machine, is not judged here."""
    from measurements.size.history import quick, replay
    from measurements.size.made_history import made, write

    history = made(6, 260, 5)
    assert write(history, desk.folder / "data") == len(history.nights)
    assert all(seconds > 0 for seconds in quick(desk.folder).values())
    replayed = replay(history)
    assert replayed.found_soon >= 5
    assert replayed.found_ever == 6
    assert replayed.false == 0


@pytest.mark.parametrize("whole", [True, False])
def test_commits_measured_later_stand_where_they_belong(
    make_repository: Callable[[str], Repository], desk: Desk, whole: bool
) -> None:
    """Twelve nights of newer, faster commits; then, on one day, eight older ones, by a repository that knows their order."""
    made = make_repository("repository")
    commits = [made.commit({}) for _ in range(20)]
    repo = made.path
    if not whole:  # nobody knows the order then
        repo = desk.folder / "shallow"
        made.git("clone", "-q", "--depth=1", f"file://{made.path}", str(repo))
    for turn, number in enumerate([*range(8, 20), *range(8)]):
        results = desk.results(
            f"{number}.jsonl",
            Case(CASE, head=(20_000.0 if number < 8 else 16_000.0) * (1 + 0.001 * (-1) ** number)),
            verb="run",
            run_id=f"run-{turn}",
            started=f"2026-01-{turn + 1:02}T02:17:00Z",
            sides=[SideInfo(name="head", label="main", sha=commits[number])],
        )
        folder = str(desk.folder / "h")
        assert main(["history", "add", str(desk.folder / results), "--dir", folder, "--repo", str(repo)]) == 0
    (change,) = json.loads(desk("detect", "--dir", "h", "--json").stdout)["changes"]
    if whole:
        assert (change["good"], change["bad"]) == (commits[7], commits[8])
        assert change["change"] < 0
    else:
        assert (change["good"], change["bad"]) == (commits[19], commits[0])
