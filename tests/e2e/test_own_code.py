"""Each side runs its own code, or the run ends: the real command, real environments and installs, the host timer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.repositories import Repository

ROOT = Path(__file__).parents[2]
SITE = sysconfig.get_path("purelib")
SUITES = """
    version: 1
    {extra}
    defaults: {{measure_ms: 2, warmup_ms: 0, rounds: 6, max_rounds: 6, cache: warm}}
    suites: {{pr: {{include: ["**"], min_effect: 0.05, equivalence: 0.2}}}}
"""
CASE = """
    {top}
    from evenbench import Bench, case

    @case("loop", device="cpu")
    def loop(p, device):
        {inner}
        return Bench(run=lambda: {call})
"""
PROJECT = """
    [build-system]
    requires = ["setuptools"]
    build-backend = "setuptools.build_meta"
    [project]
    name = "mylib"
    version = "1.0"
"""
PIP = "pip install --no-deps --no-build-isolation --no-index --quiet ."


def library(n: int) -> str:
    return f"def work():\n    return sum(i * i for i in range({n}))\n"


class World:
    """An environment that holds evenbench, and a repository whose head does ten times the work of its base."""

    def __init__(self, path: Path) -> None:
        self.environment = path / "outer"
        venv.EnvBuilder(symlinks=True, with_pip=False).create(self.environment)
        self.python = self.environment / "bin" / "python"
        self.site = Path(sysconfig.get_path("purelib", "venv", {"base": str(self.environment)}))
        (self.site / "outer.pth").write_text(f"{SITE}\n{ROOT}\n")  # evenbench and its dependencies, which no side sees
        for pattern in ("pip", "pip-*", "setuptools", "setuptools-*", "_distutils_hack", "numpy", "numpy.libs"):
            for found in Path(SITE).glob(pattern):
                (self.site / found.name).symlink_to(found)
        self.repository = Repository.made(path / "repository", {".gitignore": ".evenbench\n"})

    def commit(self, package: str = "src/mylib/__init__.py", *, setup: str = "", case: str = "", **extra: str) -> None:
        """Base and head."""
        lines = "\n    ".join(
            [*(f"{name}: {value}" for name, value in extra.items()), *([f"setup: {setup}"] * bool(setup))]
        )
        files = {
            "cases/suites.yaml": SUITES.format(extra=lines),
            "cases/loop.py": case or CASE.format(top="import mylib", inner="pass", call="mylib.work()"),
            "pyproject.toml": PROJECT,
        }
        self.repository.commit({**files, package: library(2_000)})
        self.repository.commit({package: library(20_000)})

    def install(self) -> None:
        """Base's library into the outer environment, as a developer has it."""
        shutil.copytree(self.repository.path / "src/mylib", self.site / "mylib")
        information = self.site / "mylib-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
        (information / "RECORD").write_text("mylib/__init__.py,,\n")
        (information / "INSTALLER").write_text("pip\n")

    def compare(self, *sides: str, **variables: str) -> tuple[int, str, list[dict[str, Any]]]:
        """Exit code, stderr, and the rows of the comparison."""
        temporary = self.repository.path.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        done = subprocess.run(
            [self.python, "-P", "-m", "evenbench", "compare", *(sides or ("HEAD~1", "HEAD")), "--json", "out.json"],
            cwd=self.repository.path, capture_output=True, text=True, check=False, timeout=120,
            env={
                **os.environ, "TMPDIR": str(temporary), "EVENBENCH_LOCKS": str(temporary),
                "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}", **variables,
            },
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        out = self.repository.path / "out.json"
        return done.returncode, done.stderr, json.loads(out.read_text())["rows"] if out.exists() else []

    def refused(self, *sides: str, **variables: str) -> str:
        """The last line of a run that ends with exit 4."""
        code, errors, _ = self.compare(*sides, **variables)
        assert code == 4, errors
        return errors.splitlines()[-1]

    def regressed(self, **variables: str) -> None:
        """Each side ran its own code."""
        code, errors, rows = self.compare(**variables)
        assert (code, [row["verdict"] for row in rows]) == (1, ["regressed"]), errors


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_library_beside_evenbench_is_not_compared_with_itself(world: World) -> None:
    world.commit()
    world.install()
    line = world.refused()
    assert f"both load mylib from {world.site.resolve()}/mylib/__init__.py" in line
    assert "(hint: let `setup` install the library into each side" in line


def test_neither_where_a_case_imports_it_while_it_runs(world: World) -> None:
    inner = "import importlib"
    world.commit(case=CASE.format(top="", inner=inner, call="importlib.import_module('mylib').work()"))
    world.install()
    assert "both load mylib from" in world.refused()


def test_neither_where_the_warm_parent_imports_it(world: World) -> None:
    world.commit(preload="[mylib]")
    world.install()
    assert "both load mylib from" in world.refused()


def test_a_shared_library_of_others_is_fine(world: World) -> None:
    world.commit("mylib/__init__.py", preload="[numpy]")
    world.regressed()


def test_a_wheel_that_pip_takes_for_installed(world: World) -> None:
    wheel = "python -m pip wheel -q --no-deps --no-build-isolation --no-index -w dist . && pip install -q --no-deps --no-index dist/*.whl"
    world.commit(setup=wheel)
    world.install()
    line = world.refused()
    assert "both load mylib from" in line
    assert "--force-reinstall" in line


@pytest.mark.parametrize("pip", ["pip3", f"pip3.{sys.version_info[1]}", "python -m pip"])
def test_every_name_of_pip_installs_into_the_side(world: World, pip: str) -> None:
    world.commit(setup=PIP.replace("pip", pip, 1))
    world.regressed()
    assert not (world.site / "mylib").exists()


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ("global", "user = true"),
        ("install", "target = {shared}"),
        ("global", "prefix = {shared}"),
        ("install", "require-virtualenv = true"),
    ],
)
def test_no_setting_of_pip_leads_past_the_side(world: World, tmp_path: Path, setting: str, section: str) -> None:
    world.commit(setup=PIP)
    shared = tmp_path / "shared"
    config = tmp_path / "home/.config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"[{section}]\n{setting.format(shared=shared)}\n")
    name, _, value = setting.format(shared=shared).partition(" = ")
    home = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": ""}
    world.regressed(**home, **{f"PIP_{name.upper().replace('-', '_')}": value})
    assert not shared.exists()


def test_a_set_up_that_changes_what_both_share_ends_the_run(world: World) -> None:
    world.commit("mylib/__init__.py", setup=f"touch {world.site}/extra.py")
    assert f"set-up of base changed what both sides share: {world.site}/extra.py" in world.refused()


def test_a_set_up_ends_at_its_first_line_that_fails(world: World) -> None:
    world.commit("mylib/__init__.py", setup="|\n      false\n      python -c pass")
    assert "set-up of base failed with exit status 1" in world.refused()


@pytest.mark.parametrize("place", ["{checkout}", "{checkout}/../other"])
def test_a_path_in_a_case_leads_to_no_other_checkout(world: World, place: str) -> None:
    place = place.format(checkout=world.repository.path)
    top = f"import sys; sys.path.insert(0, {place!r}); import helper, mylib"
    world.commit("mylib/__init__.py", case=CASE.format(top=top, inner="pass", call="mylib.work()"))
    other = world.repository.path.parent / "other"
    other.mkdir()
    for folder in (other, world.repository.path):
        (folder / "helper.py").write_text("")
    if place.endswith("other"):  # which belongs to nobody
        world.commit(
            "mylib/__init__.py",
            case=CASE.format(
                top=f"import sys; sys.path.append({place!r}); import helper, mylib", inner="pass", call="mylib.work()"
            ),
        )
        world.regressed()
    else:
        assert f"does not run its own code: it loads helper from {place}/helper.py" in world.refused()


def test_one_directory_compared_with_itself_is_allowed(world: World) -> None:
    world.commit("mylib/__init__.py")
    code, errors, rows = world.compare(".", ".")
    assert code == 0, errors
    assert [row["case"] for row in rows] == ["loop"]


def test_a_working_tree_with_an_ignored_file_is_not_its_commit(world: World) -> None:
    """A tuned file that git ignores makes head ten times slower: a change, and no false alarm of an A/A run."""
    library = """
        from pathlib import Path
        TUNED = Path(__file__).with_name("tuned.txt")

        def work():
            return sum(i * i for i in range(int(TUNED.read_text()) if TUNED.exists() else 2_000))
    """
    world.commit("mylib/__init__.py")
    world.repository.commit({"mylib/__init__.py": library, ".gitignore": ".evenbench\ntuned.txt\nout.json\n"})
    (world.repository.path / "mylib/tuned.txt").write_text("20000")
    assert world.repository.git("status", "--porcelain") == ""
    code, errors, rows = world.compare("HEAD")
    assert (code, [row["verdict"] for row in rows]) == (1, ["regressed"]), errors
    assert "A/A" not in errors


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="mounting needs root and unshare")
def test_a_temporary_folder_mounted_noexec_is_refused(world: World, tmp_path: Path) -> None:
    world.commit("mylib/__init__.py", setup="pip --version")
    folder = tmp_path / "noexec"
    folder.mkdir()
    script = (
        f"mount -t tmpfs -o noexec,size=50m tmpfs {folder} || exit 99; cd {world.repository.path}; "
        f"TMPDIR={folder} {world.python} -P -m evenbench compare HEAD~1 HEAD; echo code $?; "
        f"TMPDIR={folder} {world.python} -P -m evenbench doctor"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=100
    )
    if done.returncode == 99:
        pytest.skip("this machine mounts nothing")
    assert "code 2" in done.stdout
    assert f"error: {folder} is mounted noexec" in done.stderr
    assert f"unfit  temp folder      {folder} is mounted noexec" in done.stdout
