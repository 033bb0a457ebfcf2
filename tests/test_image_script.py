"""`scripts/image-test` over an engine that only notes its calls: it finds the real tools, and no failure looks like success."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "image-test"
PATIENCE_S = 60.0  # a script that calls itself never ends; one that works takes two seconds
TOOLS = ("podman", "buildah", "catatonit", "mmdebstrap", "runc", "apt-get")
IMAGE = "localhost/evenbench:cuda"
ENGINE = """#!/bin/sh
echo "{name} $*" >>'{calls}'
case "{name} $*" in
    '{hang}'*) touch '{hanging}'; exec sleep 60 ;;
esac
case "$*" in *Size*) echo 1000000 ;; esac
"""
SUDO = """#!/bin/sh
[ "$1" != -n ] || shift
exec "$@"
"""
SKIPS = """
import pytest

def test_runs():
    pass

def test_skips():
    pytest.skip("no engine here")

@pytest.mark.skip(reason="marked")
def test_is_marked():
    pass
"""


@dataclass(frozen=True)
class Bench:
    """A machine on which every tool that the script needs is a fake."""

    folder: Path

    def make(self, hang: str = "nothing") -> None:
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for name in TOOLS:
            text = ENGINE.format(name=name, calls=self.folder / "calls", hang=hang, hanging=self.folder / "hanging")
            write_program(tools / name, text)
        write_program(tools / "sudo", SUDO)

    def environment(self, *first: Path) -> dict[str, str]:
        """Variables with these folders first on PATH, then the fakes."""
        return os.environ | {
            "PATH": os.pathsep.join([*map(str, first), str(self.folder / "tools"), os.environ["PATH"]]),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "EVENBENCH_PYTHON": sys.executable,
            "EVENBENCH_IMAGE_STACK": "cuda",  # fetches no torch
            "EVENBENCH_TEST_IMAGE": "1",
        }

    def run(self, *words: str, first: tuple[Path, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
        """Run the script; the whole process group ends with it, whatever it left running."""
        with subprocess.Popen(
            [str(SCRIPT), *words], env=self.environment(*first) | more,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                out, error = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    @property
    def wrappers(self) -> Path:
        return self.folder / "cache" / "evenbench" / "image" / "bin"

    def calls(self, start: str) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(start)]


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.make()
    return made


def test_the_real_engine_is_found_behind_the_wrappers_of_earlier_calls(bench: Bench, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    for first in ((), (bench.wrappers,), (Path(f"{bench.wrappers}/"), linked)):
        if linked in first:  # the wrappers of another state folder, by another path
            linked.symlink_to(bench.wrappers.rename(tmp_path / "elsewhere"))
        done = bench.run("build", first=first)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [IMAGE, str(bench.wrappers)]
        for name in ("podman", "buildah"):
            assert f" {tmp_path}/tools/{name} " in (bench.wrappers / name).read_text()
    assert len(bench.calls("buildah bud ")) == 3
    assert len(bench.calls("podman info")) == 3
    assert bench.calls("apt-get install") == []


def test_an_engine_that_only_wrappers_stand_for_is_missing(bench: Bench) -> None:
    assert bench.run("build").returncode == 0
    (bench.folder / "tools" / "podman").unlink()
    path = os.pathsep.join(map(str, (bench.wrappers, bench.folder / "tools", without_podman(bench.folder / "system"))))
    done = bench.run("build", PATH=path, CI="")
    assert done.returncode == 77
    assert "podman" in done.stderr
    assert any("podman" in call for call in bench.calls("apt-get install"))


def without_podman(folder: Path) -> Path:
    """A folder with every program of this machine except podman."""
    folder.mkdir()
    for path in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in path.iterdir() if path.is_dir() else ():
            if program.name != "podman" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


def test_the_tests_of_the_image_know_it_and_may_skip_nothing(bench: Bench) -> None:
    """In the environment that scripts make, with a Python that notes how it is started."""
    scripts = bench.folder / "venv" / "bin"
    scripts.mkdir(parents=True)
    notes = bench.folder / "python"
    write_program(scripts / "python", f'#!/bin/sh\necho "$EVENBENCH_IMAGE_BUILT: $*" >>{notes}\nexit 5\n')
    (scripts.parent / ".stamp-test").write_text(stamp())
    done = bench.run(EVENBENCH_VENV=str(scripts.parent))
    assert done.returncode == 5, done.stderr  # the code of the tests
    (line,) = notes.read_text().splitlines()
    assert line == f"{IMAGE} {bench.wrappers}: -m pytest -q -n 0 --no-skips tests/e2e/test_image.py"
    assert len(bench.calls("buildah bud ")) == 1


def stamp() -> str:
    command = ["sh", "-euc", ". scripts/lib.sh; environment_stamp test"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("hang", ["podman info", "buildah bud"])
def test_an_interrupted_build_ends_by_its_signal(bench: Bench, hang: str, number: signal.Signals) -> None:
    """Not with 77, which skips tests: the tool that is interrupted has not shown that the machine cannot."""
    bench.make(hang=hang)
    with subprocess.Popen(
        [str(SCRIPT), "build"], env=bench.environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not (bench.folder / "hanging").exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            os.killpg(process.pid, number)  # as a terminal does
            assert process.wait(PATIENCE_S) == -number
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert not (bench.wrappers.parent / "pip.conf").exists()


def pytest_over(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest over a file with this text, with the hooks of all tests here."""
    (folder / "test_some.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        [*command, "--rootdir", str(folder), str(folder / "test_some.py")],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def test_a_skip_is_a_failure_where_nothing_may_be_skipped(tmp_path: Path) -> None:
    allowed = pytest_over(tmp_path, SKIPS)
    assert (allowed.returncode, "1 passed, 2 skipped" in allowed.stdout) == (0, True), allowed.stdout
    refused = pytest_over(tmp_path, SKIPS, "--no-skips")
    assert (refused.returncode, "1 failed, 1 passed, 1 error" in refused.stdout) == (1, True), refused.stdout
    for reason in ("no engine here", "marked"):
        assert f"{reason} (--no-skips" in refused.stdout


def test_a_file_that_is_skipped_whole_is_a_failure_too(tmp_path: Path) -> None:
    whole = "import pytest\npytest.skip('whole', allow_module_level=True)\n"
    assert "1 skipped" in pytest_over(tmp_path, whole).stdout
    refused = pytest_over(tmp_path, whole, "--no-skips")
    assert refused.returncode in (1, 2), refused.stdout  # 2: an error of collection
    assert "whole (--no-skips" in refused.stdout
