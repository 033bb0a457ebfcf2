"""Attacks by way of a results file that is nearly right; `scripts/prove fuzz` makes 100,000 of them in one run."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from evenbench.reports.load.results import load_file
from tests.fakes import mutations
from tests.fakes.fuzz import fuzz

TIMES, SEED = 2_000, 7


@pytest.mark.slow
def test_mutated_files_are_refused_or_shown_and_nothing_else_comes_out(tmp_path: Path) -> None:
    outcomes = fuzz(TIMES, SEED, tmp_path / "results.jsonl")
    assert outcomes.total() == TIMES
    assert outcomes["refused"] > TIMES / 3  # the changes do harm
    assert outcomes["judged"] > TIMES / 6  # and leave enough that comes further than the reader
    assert outcomes["measured"] > TIMES / 60


@pytest.mark.parametrize("number", range(len(mutations.originals())))
def test_the_originals_are_whole(tmp_path: Path, number: int) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(mutations.originals()[number])
    assert load_file(path).cases


def test_the_same_seed_makes_the_same_file() -> None:
    original = mutations.originals()[0]
    assert mutations.mutated(original, Random("1/2")) == mutations.mutated(original, Random("1/2")) != original


def test_a_bug_is_not_taken_for_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise KeyError("a bug")

    monkeypatch.setattr("tests.fakes.fuzz.compare", broken)
    with pytest.raises(KeyError, match="a bug") as caught:
        fuzz(50, SEED, tmp_path / "results.jsonl")
    assert "of seed 7" in caught.value.__notes__[0]
    with pytest.raises(KeyError):  # and the file that found it is left behind
        broken(load_file(tmp_path / "results.jsonl"))
