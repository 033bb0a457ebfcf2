"""Real repositories for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.repositories import QUICK, SUITES, Repository


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[[str], Repository]:
    """Makes empty repositories."""

    def make(name: str) -> Repository:
        path = tmp_path / name
        path.mkdir()
        repository = Repository(path)
        repository.git("init", "-q", "-b", "main")
        return repository

    return make


@pytest.fixture
def repository(make_repository: Callable[[str], Repository]) -> Repository:
    """A repository with one quick case, committed twice."""
    made = make_repository("repository")
    made.commit({"cases/quick.py": QUICK, "cases/suites.yaml": SUITES})
    made.commit({})
    return made
