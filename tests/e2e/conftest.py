"""Real repositories for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@pytest.fixture(scope="session")
def host() -> Mapping[str, str]:
    """Variables of a machine that measures in podman's containers."""
    import os
    return {k: os.environ[k] for k in ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "EVENBENCH_IMAGE")} | {"EVENBENCH_LAUNCHER": "podman", "EVENBENCH_MEMORY_GIB": "1"}
