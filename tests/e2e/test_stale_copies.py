"""Saved copies that no case gives any more, through the real command."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.fakes.repositories import Repository

CASES = """
    from evenbench import Bench, case

    @case("gen/k", params={"n": [1, 2]}, device="cpu", tags={"quick"})
    def kernel(p, device):
        return Bench(run=lambda: 0, artifacts={f"k_{p.n}.cu": f"int x = {p.n};"})

    @case("gen/plain", device="cpu")
    def plain(p, device):
        return Bench(run=lambda: 0)
"""
SUITES = """
    version: 1
    defaults: {measure_ms: 5, warmup_ms: 1, rounds: 6, max_rounds: 6, cache: warm}
    suites:
      pr: {include: ["**"]}
      quick: {include: ["tag:quick"]}
"""
COPY = "cases/gen/artifacts/k_2.cu"
TITLE = f"artifact stale: {COPY}, which no case gives any more"
ONE_CASE_LESS = CASES.replace("[1, 2]", "[1]")


@pytest.fixture
def generating(make_repository: Callable[[str], Repository]) -> Repository:
    """A repository in which a copy is saved for each of two texts, and head gives one of them no more."""
    made = make_repository("stale")
    made.commit({"cases/gen/k.py": CASES, "cases/suites.yaml": SUITES})
    saved = made.evenbench("run", "--artifacts-only", "--update-artifacts", CI="")
    assert saved.returncode == 0, saved.stderr
    assert (made.path / COPY).read_text() == "int x = 2;"
    made.commit({})
    made.write({"cases/gen/k.py": ONE_CASE_LESS})
    return made


def test_a_stale_copy_is_told_as_one_that_differs_is_and_removed_on_request(generating: Repository) -> None:
    told = generating.evenbench("run", "--artifacts-only", "--output", "out.jsonl", "--json", "out.json")
    assert told.returncode == 1, told.stderr
    assert told.stdout.splitlines()[0] == "evenbench: artifacts against their saved copies: 1 stale, 1 equal"
    assert TITLE in told.stdout
    assert (generating.path / COPY).exists()
    data = json.loads((generating.path / "out.json").read_text())
    assert data["artifacts"][1] == {"side": "head", "case": "", "name": COPY, "status": "stale", "diff": ""}
    again = generating.evenbench("report", "out.jsonl", "--fail-on", "artifact")
    assert (again.returncode, again.stdout) == (1, told.stdout)

    measured = generating.evenbench("run")
    assert measured.returncode == 0, measured.stderr  # only where it is asked for
    assert measured.stdout.splitlines()[0] == "evenbench: 2 measured, 1 artifact stale"

    removed = generating.evenbench("run", "--artifacts-only", "--update-artifacts", CI="")
    assert removed.returncode == 0, removed.stderr
    assert f"\nremoved, since no case gives it any more: {COPY}\n" in removed.stderr
    assert "as they should be" not in removed.stderr
    assert [each.name for each in (generating.path / COPY).parent.iterdir()] == ["k_1.cu"]
    clean = generating.evenbench("run", "--artifacts-only", "--update-artifacts", CI="")
    assert clean.stdout.splitlines()[0] == "evenbench: artifacts against their saved copies: 1 equal"
    assert "the saved copies of these texts are as they should be" in clean.stderr


def test_where_not_every_case_of_the_folder_told_its_texts_nothing_is_said_or_removed(generating: Repository) -> None:
    everything = ("run", "--artifacts-only", "--update-artifacts")
    skipped = ONE_CASE_LESS.replace('"gen/plain", ', '"gen/plain", skip=True, why="not here", ')
    failing = ONE_CASE_LESS.replace("return Bench(run=lambda: 0)\n", 'raise RuntimeError("no")\n')
    for files, arguments in (
        ({}, (*everything, "gen/k**")),
        ({}, (*everything, "--suite", "quick")),
        ({"cases/gen/k.py": skipped}, everything),
        ({"cases/gen/k.py": failing}, everything),
        ({"cases/gen/k.py": ONE_CASE_LESS, "cases/broken/b.py": "import nothing_of_this_name"}, everything),
    ):
        generating.write(files)
        done = generating.evenbench(*arguments, CI="")
        assert "artifacts against their saved copies: 1 equal\n" in done.stdout, done.stdout + done.stderr
        assert "stale" not in done.stdout
        assert "removed" not in done.stderr
        assert (generating.path / COPY).exists()


def test_a_folder_called_like_a_command_of_the_terminal_gives_none(generating: Repository) -> None:
    generating.write({"cases/\x1b[2J\n::error::/artifacts/a.cu": "text"})
    done = generating.evenbench("run", "--artifacts-only", "--update-artifacts", CI="")
    assert done.returncode == 0, done.stderr
    assert "any more: cases/\ufffd[2J\ufffd::error::/artifacts/a.cu\n" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_comparison_tells_those_of_each_side_and_fails_by_those_of_head(generating: Repository) -> None:
    generating.commit({})
    compare = ("compare", "HEAD~1", "HEAD", "--fail-on", "artifact")
    done = generating.evenbench(*compare, "--output", "out.jsonl")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].endswith(", 1 artifact stale")
    assert TITLE in done.stdout
    found = [json.loads(line) for line in (generating.path / "out.jsonl").read_text().splitlines()]
    sides = [each["side"] for each in found if each["event"] == "artifact" and each["status"] == "stale"]
    assert sides == ["head"]
    (generating.path / COPY).unlink()
    generating.commit({})
    mended = generating.evenbench(*compare)
    assert mended.returncode == 0, mended.stdout + mended.stderr
