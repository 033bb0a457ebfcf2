"""What all tests share: GPU tests that say why they are skipped, tools that CI may not lack, steady hypothesis runs."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.fakes.desk import Desk

ON_CI = os.environ.get("CI") == "true"

# No deadline: an example's wall time says nothing on a shared machine. In CI the same examples every time.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if ON_CI else "here")


@pytest.fixture(scope="session", autouse=True)
def _no_ceilings_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is kept for this machine would change tables, and no test measures it but those that are about it."""
    os.environ["EVENBENCH_CACHE"] = str(tmp_path_factory.mktemp("kept"))
    os.environ["EVENBENCH_CEILINGS"] = "kept"


@pytest.fixture(scope="session", autouse=True)
def _locks_of_this_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests run side by side, and wait for nobody on this machine but the runs that they start."""
    os.environ["EVENBENCH_LOCKS"] = str(tmp_path_factory.mktemp("locks"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail each test that is skipped, with the reason")


def _skip_is_failure(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason} (--no-skips: a skip is a failure)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With `--no-skips`, fail a test that is skipped."""
    report = yield
    _skip_is_failure(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """With `--no-skips`, fail a module that is skipped whole."""
    report = yield
    _skip_is_failure(report, collector.config)
    return report


def pytest_configure() -> None:
    """CI installs torch; without it, `importorskip` would skip in silence what CI is there to run."""
    if ON_CI and importlib.util.find_spec("torch") is None:
        raise pytest.UsageError("CI=true and torch is not installed (hint: scripts/test installs it)")


@cache
def why_no_gpu() -> str:
    """The reason why GPU tests cannot run here; empty where they can."""
    try:
        ctypes.CDLL("libcuda.so.1")  # quick, where importing torch takes seconds
    except OSError:
        return "no NVIDIA driver on this machine (libcuda.so.1)"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build without CUDA"
    return "" if torch.cuda.is_available() else "torch sees no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where there is none, with the reason."""
    for item in items:
        if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """`tool(name)` is the path of a program; a missing one skips the test, but fails it in CI."""

    def find(name: str) -> str:
        beside_python = Path(sys.executable).parent / name
        path = str(beside_python) if beside_python.exists() else shutil.which(name)
        if path is None:
            (pytest.fail if ON_CI else pytest.skip)(f"{name} is not installed")
        return path

    return find


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A publisher's desk before a fake GitHub with one pull request; nothing has to wait."""
    from tests.fakes.desk import Desk
    from tests.fakes.github import FakeGitHub

    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    fake = FakeGitHub()
    fake.open_pull(7)
    with fake.serving() as address:
        yield Desk(tmp_path, fake, address, capsys, monkeypatch, slept)
