"""Whether a pull request is worth measuring."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.cli.main import main
from evenbench.runner.config import parse
from evenbench.runner.errors import ConfigError, UsageError
from evenbench.runner.plan.changed import changed, touched, worth_measuring
from tests.fakes.repositories import QUICK, Repository

SUITES = 'version: 1\npaths: ["src/**", "*.toml"]\n'


@pytest.mark.parametrize(
    ("path", "named", "not_named"),
    [
        ("src/**", ["src/a.py", "src/b/c.cu", "src/.hidden"], ["src", "xsrc/a.py", "lib/src/a.py"]),
        ("./src/**", ["src/a.py", "src/b/c.cu"], ["src", "lib/src/a.py"]),
        ("/src/**", ["src/a.py", "src/b/c.cu"], ["src", "lib/src/a.py"]),
        ("src/", ["src/a.py", "lib/src/a.py"], ["src", "xsrc/a.py"]),
        ("/src", ["src", "src/a.py"], ["lib/src/a.py"]),
        ("src/k/[ab].py", ["src/k/a.py", "src/k/b.py"], ["src/k/c.py", "src/k/[ab].py"]),
        ("**/kernels/*.cu", ["kernels/a.cu", "x/y/kernels/a.cu"], ["kernels/b/a.cu", "xkernels/a.cu"]),
        ("*.toml", ["pyproject.toml", "a/pyproject.toml"], ["toml"]),
        ("Dockerfile", ["Dockerfile", "a/Dockerfile"], ["Dockerfile.cpu"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("**", ["a", "a/b", "with\nnewline"], []),
    ],
)
def test_paths_name_files(path: str, named: list[str], not_named: list[str]) -> None:
    assert touched([path], [*named, *not_named]) == named


def test_a_later_pattern_takes_files_out_again() -> None:
    assert touched(["**", "!docs/**", "docs/api.md"], ["a.py", "docs/a.md", "docs/api.md"]) == ["a.py", "docs/api.md"]


@given(st.text("ab.", min_size=1, max_size=8), st.text("ab.*?", min_size=1, max_size=8))
def test_a_pattern_without_slashes_is_a_shell_pattern_at_any_depth(file: str, path: str) -> None:
    path = re.sub(r"\*+", "*", path)
    if path.strip("."):
        assert bool(touched([path], [file])) == fnmatchcase(file, path)
        assert len(touched([path], [file, f"x/y/{file}"])) != 1 or not fnmatchcase(file, path)


@given(st.lists(st.text("abc-_. /", min_size=1, max_size=9), max_size=5))
def test_a_plain_path_names_itself(files: list[str]) -> None:
    plain = [file for file in files if re.fullmatch(r"[abc](/?[abc_-])*", file)]
    assert set(touched(plain, plain)) == set(plain)


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        ("third_party/**", True), ("third_party/cutlass", True), ("third_party/cutlass/**", True),
        ("third_party/cutlass/include/**", True), ("./third_party/cutlass/include/a.h", True),
        ("/third_party/*/include", True), ("**/include/*.h", True), ("*.h", True), ("third_party", True),
        ("third_party/other/**", False), ("csrc/**", False), ("/cutlass", False), ("third_party/cut/**", False),
        ("!third_party/cutlass/docs/**", False),
    ],
)  # fmt: skip
def test_a_submodule_counts_where_any_of_its_files_could(path: str, reached: bool) -> None:
    assert bool(touched([path], ["third_party/cutlass"], {"third_party/cutlass"})) == reached


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{src,lib}/**", "has braces, which match nothing"), ("src\\\\**", "has a backslash"), ("src/[ab", "not closed"),
        ("../lib/**", "matches no file of the repository"), ("/", "matches no file"), ("!", "matches no file"),
        (" ", "matches no file"), ("#src", "matches no file"), ("a/../b", "matches no file"), (".", "matches no file"),
    ],
)  # fmt: skip
def test_what_would_match_nothing_is_refused(path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"paths.*{re.escape(reason)}"):
        parse(f'version: 1\npaths: ["{path}"]\n', "suites.yaml")


@pytest.mark.parametrize("ignore", ["none", "all", "dirty"])
def test_a_submodule_that_moves_is_a_change(tmp_path: Path, ignore: str) -> None:
    library = Repository.made(tmp_path / "library", {"include/a.h": "1"})
    made = Repository.made(tmp_path / "r", {"cases/quick.py": QUICK, "cases/suites.yaml": SUITES.replace("src", "lib")})
    made.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "lib/inner")
    made.git("config", "-f", ".gitmodules", "submodule.lib/inner.ignore", ignore)
    made.commit({"cases/suites.yaml": 'version: 1\npaths: ["lib/inner/include/**"]\n'})
    sha = library.commit({"include/a.h": "2"})
    made.git("update-index", "--cacheinfo", f"160000,{sha},lib/inner")
    made.git("commit", "-q", "-m", "bump")
    found = changed(made.path, "HEAD~1", "HEAD", "cases", from_merge_base=False, always=False)
    assert (found.measure, found.why) == (True, "1 of 1 changed file is named by `paths` of suites.yaml.")


def test_reasons_hold_no_word_of_the_author() -> None:
    assert worth_measuring(None, ["x"])[0]
    assert worth_measuring(parse("version: 1", "s"), [])[0]
    config = parse(SUITES, "s")
    assert worth_measuring(config, ["src/`$(id)`"]) == (
        True,
        "1 of 1 changed file is named by `paths` of suites.yaml.",
    )
    assert worth_measuring(config, ["@org", "y"]) == (
        False,
        "None of 2 changed files is named by `paths` of suites.yaml.",
    )
    assert worth_measuring(config, []) == (False, "None of 0 changed files is named by `paths` of suites.yaml.")


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    """main with cases, and a branch that left it before its last commit."""
    (tmp_path / "r").mkdir()
    repository = Repository(tmp_path / "r")
    repository.git("init", "-q", "-b", "main")
    repository.commit({"README": "before any case"})
    repository.commit({"cases/quick.py": QUICK, "cases/suites.yaml": SUITES, "src/a.py": "1", "README": "a"})
    repository.git("tag", "left")
    repository.commit({"src/a.py": "2"})
    repository.git("checkout", "-q", "-b", "feature", "left")
    return repository


def test_base_is_where_the_branch_left_it(made: Repository) -> None:
    head = made.commit({"README": "b"})
    found = changed(made.path, "main", "feature", "cases", from_merge_base=True, always=False)
    assert (found.base, found.head, found.measure) == (made.git("rev-parse", "left"), head, False)
    tip = changed(made.path, "main", "feature", "cases", from_merge_base=False, always=False)
    assert (tip.base, tip.measure) == (made.git("rev-parse", "main"), True)  # src/a.py differs from the tip
    assert changed(made.path, "main", "feature", "cases", from_merge_base=True, always=True).measure


def test_a_renamed_file_counts_by_both_names(made: Repository) -> None:
    made.git("mv", "src/a.py", "a.py")
    made.commit({})
    assert changed(made.path, "left", "feature", "cases", from_merge_base=True, always=False).measure


def test_head_cannot_say_what_is_worth_measuring(made: Repository) -> None:
    made.commit({"cases/suites.yaml": 'version: 1\npaths: ["nothing"]\n', "src/b.py": "1"})
    assert changed(made.path, "left", "feature", "cases", from_merge_base=True, always=False).measure


def test_first_adoption_runs_heads_cases_on_both_sides(made: Repository) -> None:
    first = changed(made.path, "left~1", "left", "cases", from_merge_base=True, always=False)
    assert (first.measure, first.cases_from) == (True, "head")
    assert changed(made.path, "left", "main", "cases", from_merge_base=True, always=False).cases_from == "own"
    none = changed(made.path, "left", "main", "benchmarks", from_merge_base=True, always=True)
    assert (none.measure, none.why) == (False, "Neither side has a folder benchmarks/.")


def test_a_branch_may_be_known_by_its_remote_only(made: Repository, tmp_path: Path) -> None:
    copy = Repository(tmp_path / "copy")
    made.git("clone", "-q", str(made.path), str(copy.path))
    copy.git("checkout", "-q", "--detach")
    copy.git("branch", "-q", "-D", "feature")
    assert changed(copy.path, "main", "feature", "cases", from_merge_base=True, always=True).head == made.git(
        "rev-parse", "feature"
    )


@pytest.mark.parametrize("ref", ["nowhere", "--output=x", "$(id)", ""])
def test_an_unknown_commit_is_an_error(made: Repository, ref: str) -> None:
    with pytest.raises(UsageError, match="unknown commit" if ref else "no commit was named"):
        changed(made.path, ref, "main", "cases", from_merge_base=True, always=False)


def test_histories_without_a_common_commit_are_an_error(made: Repository) -> None:
    made.git("checkout", "-q", "--orphan", "other")
    made.commit({})
    with pytest.raises(UsageError, match="share no commit"):
        changed(made.path, "main", "other", "cases", from_merge_base=True, always=False)


def test_a_wrong_suites_file_of_base_is_an_error(made: Repository) -> None:
    made.commit({"cases/suites.yaml": "version: 1\npath: []\n"})
    with pytest.raises(ConfigError, match="path: unknown key, in cases/suites.yaml of base"):
        changed(made.path, "feature", "main", "cases", from_merge_base=False, always=False)


def test_the_plan_of_a_workflow_is_one_line(made: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["plan", "--shards", "2", "--seed", "5", f"--in={made.path}"]
    assert main([*place, "--base=left", "--head=main", "--merge-base"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan == {
        "base": made.git("rev-parse", "left"),
        "head": made.git("rev-parse", "main"),
        "measure": True,
        "why": "1 of 1 changed file is named by `paths` of suites.yaml.",
        "cases_from": "own",
        "merge_base": True,
        "matrix": {"include": [{"index": 0, "count": 2, "seed": 5}, {"index": 1, "count": 2, "seed": 5}]},
    }
    assert main([*place, "--base=left"]) == 2
    assert "--base and --head go together" in capsys.readouterr().err
