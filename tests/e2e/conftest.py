"""Real repositories for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from evenbench.runner.errors import UnfitMachine
from evenbench.runner.launchers.container import choose_launcher
from tests.conftest import ON_CI
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
    """Variables of a machine that measures in podman's containers, from the real image. Skips where it cannot."""
    from tests.fakes.image import engine_path, image

    settings = {
        "PATH": engine_path(),
        "EVENBENCH_LAUNCHER": "podman",
        "EVENBENCH_IMAGE": image(),
        "EVENBENCH_MEMORY_GIB": "1",
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            with choose_launcher("podman", "", "", settings):
                return settings
    except UnfitMachine as error:
        (pytest.fail if ON_CI else pytest.skip)(f"no sandbox on this machine: {error.message}")
