"""What a repository calls its own, and when a run ends because a side does not run its own code. Pure but for files."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.errors import NothingMeasured
from evenbench.runner.execute.origins import ModuleOrigins, Project
from evenbench.runner.records import ModuleOrigin, SideName
from evenbench.runner.sides import Checkout, Side
from evenbench.runner.worker.launch import origins

BOTH: tuple[SideName, SideName] = ("base", "head")


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    root.mkdir(exist_ok=True)
    return root


class TestProject:
    @pytest.mark.parametrize(
        ("files", "names"),
        [
            (["mylib/__init__.py", "mylib/ops.py"], ["mylib"]),
            (["src/mylib/__init__.py", "tools.py", "setup.py", "conftest.py"], ["mylib", "tools"]),
            (["python/mylib/__init__.py"], ["mylib"]),
            (["google/ours/__init__.py", "google/one.py"], ["google.one", "google.ours"]),
            (["triton/kernel.cu", "docs/page.md", "a-b/c.py", ".hidden/x.py"], []),
        ],
    )
    def test_modules_of_a_tree(self, tmp_path: Path, files: list[str], names: list[str]) -> None:
        found = Project.of(tree(tmp_path, dict.fromkeys(files, ""))).names
        # `src` and `python` are folders of modules as well, so what lies in them has a second name.
        assert [name for name in found if not name.startswith(("src.", "python."))] == names

    @pytest.mark.parametrize(
        ("file", "text", "names"),
        [
            ("pyproject.toml", '[project]\nname = "my-lib"\n', ["my-lib"]),
            ("pyproject.toml", '[tool.poetry]\nname = "mylib"\n', ["mylib"]),
            ("pyproject.toml", "[project", []),
            ("pyproject.toml", "project = 3\n", []),
            ("setup.cfg", "[metadata]\nname = mylib\n", ["mylib"]),
            ("setup.cfg", "name = mylib\n", []),
            ("setup.py", "setup(\n    name='mylib', version=read())\n", ["mylib"]),
        ],
    )
    def test_names_of_its_distributions(self, tmp_path: Path, file: str, text: str, names: list[str]) -> None:
        assert Project.of(tree(tmp_path, {file: text})).distributions == names

    def test_folders_that_setuptools_is_given(self, tmp_path: Path) -> None:
        text = '[tool.setuptools.packages.find]\nwhere = ["lib"]\n[tool.setuptools.package-dir]\n"" = "code"\n'
        files = {"pyproject.toml": text, "lib/one/__init__.py": "", "code/two.py": ""}
        assert {"one", "two"} <= set(Project.of(tree(tmp_path, files)).names)


def side(name: SideName, folder: Path, root: Path | None = None) -> Side:
    root = tree(root or folder / name / "tree", {"mylib/__init__.py": ""})
    checkout = Checkout(name, root, "", dirty=False, tree="", kind="directory", label=name)
    return Side(name, checkout, root, Path(sys.executable), {}, folder / name / "cache")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return tree(tmp_path / "repo", {".git/HEAD": "", "mylib/__init__.py": ""})


@pytest.fixture
def both(tmp_path: Path, repo: Path) -> ModuleOrigins:
    return ModuleOrigins([side("base", tmp_path), side("head", tmp_path)], repo)


def report(**modules: object) -> dict[str, Any]:
    return {"event": "modules", "modules": {name.replace("__", "."): str(path) for name, path in modules.items()}}


class TestModuleOrigins:
    def test_one_file_behind_both_sides_ends_the_run(self, both: ModuleOrigins) -> None:
        both.take("base", report(mylib="/opt/lib/site-packages/mylib/__init__.py"))
        with pytest.raises(NothingMeasured) as ended:
            both.take("head", report(mylib="/opt/lib/site-packages/mylib/__init__.py"))
        assert ended.value.message == (
            "nothing would be compared: head and base both load mylib from /opt/lib/site-packages/mylib/__init__.py"
        )
        assert "pip install --no-deps --force-reinstall ." in ended.value.hint
        assert ended.value.exit_code == 4

    def test_a_part_of_a_library_that_both_share_is_enough(self, both: ModuleOrigins, tmp_path: Path) -> None:
        for name in BOTH:
            both.take(name, report(mylib=tmp_path / name / "tree/mylib/__init__.py"))
        both.take("base", report(mylib___C="/opt/mylib/_C.so"))
        with pytest.raises(NothingMeasured, match=r"both load mylib._C from /opt/mylib/_C.so"):
            both.take("head", report(mylib___C="/opt/mylib/_C.so"))

    def test_each_its_own_is_fine_and_recorded(self, both: ModuleOrigins, tmp_path: Path) -> None:
        digest = "ab" * 32
        places: dict[SideName, str] = {"base": "tree", "head": "env/lib/python3.12/site-packages"}
        for name, place in places.items():
            folder = tmp_path / name / place / "mylib"
            message = report(mylib=folder / "__init__.py", mylib__ops=folder / "ops.py")
            both.take(name, message | {"versions": {"mylib": "1.2"}, "digests": {"mylib": digest}})
        assert both.record("base").modules == [
            ModuleOrigin(name="mylib", path="./mylib", version="1.2", files=2, digest=digest)
        ]
        assert both.record("head").modules[0].path == "env/lib/python3.12/site-packages/mylib"

    def test_the_other_sides_tree_is_no_place_to_load_from(self, both: ModuleOrigins, tmp_path: Path) -> None:
        with pytest.raises(NothingMeasured, match="base does not run its own code: it loads helper from"):
            both.take("base", report(helper=tmp_path / "head/tree/helper.py"))

    def test_neither_is_the_users_checkout(self, both: ModuleOrigins, repo: Path) -> None:
        with pytest.raises(NothingMeasured, match="head does not run its own code: it loads mylib from"):
            both.take("head", report(mylib=repo / "mylib/__init__.py"))

    def test_an_environment_in_the_checkout_may_be_shared(self, both: ModuleOrigins, repo: Path) -> None:
        both.take("head", report(numpy=repo / ".venv/lib/python3.12/site-packages/numpy/__init__.py"))

    def test_a_side_measured_in_place_loads_from_its_checkout(self, tmp_path: Path, repo: Path) -> None:
        origins_of_both = ModuleOrigins([side("base", tmp_path), side("head", tmp_path, root=repo)], repo)
        origins_of_both.take("head", report(mylib=repo / "mylib/__init__.py"))
        with pytest.raises(NothingMeasured, match="base does not run its own code"):
            origins_of_both.take("base", report(mylib=repo / "mylib/__init__.py"))

    def test_one_tree_compared_with_itself_shares_its_files(self, tmp_path: Path, repo: Path) -> None:
        same = ModuleOrigins([side("base", tmp_path, root=repo), side("head", tmp_path, root=repo)], repo)
        for name in BOTH:
            same.take(name, report(mylib=repo / "mylib/__init__.py"))

    def test_one_path_in_two_containers_is_two_files(self, tmp_path: Path, repo: Path) -> None:
        sides = []
        for name in BOTH:
            local = side(name, tmp_path)
            sides.append(
                Side(name, local.checkout, Path("/side/tree"), local.python, {}, Path("/cache"), private=Path("/side"))
            )
        apart = ModuleOrigins(sides, repo)
        for name in BOTH:
            apart.take(name, report(mylib="/side/env/lib/site-packages/mylib/__init__.py"))
        apart.take("base", report(other="/opt/image/mylib.py"))
        with pytest.raises(NothingMeasured, match="/opt/image/mylib.py"):
            apart.take("head", report(other="/opt/image/mylib.py"))

    @pytest.mark.parametrize("modules", [None, 3, [], {"a": 3}, {"a": None}, {"\ud800": "/x"}])
    def test_foreign_words_are_taken_as_they_come(self, both: ModuleOrigins, modules: object) -> None:
        both.take("base", {"event": "modules", "modules": modules, "versions": modules, "digests": {"a": "no digest"}})
        both.record("base").model_dump_json()


class TestReport:
    QUESTION: Mapping[str, Any] = {"names": ["ownlib"], "distributions": [], "foreign": []}

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in [name for name in sys.modules if name.partition(".")[0] in {"ownlib", "ownlib_c"}]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(tmp_path / "lib")
        return tree(
            tmp_path / "lib", {"ownlib/__init__.py": "__version__ = '3'", "ownlib/ops.py": "", "ownlib_c.py": ""}
        )

    def test_modules_of_the_project_and_no_others(self, place: Path) -> None:
        __import__("ownlib.ops")
        __import__("ownlib_c")
        message = origins.report(self.QUESTION, "/cases", hashed=True)
        assert message["modules"] == {
            "ownlib": str(place / "ownlib/__init__.py"),
            "ownlib.ops": str(place / "ownlib/ops.py"),
        }
        assert message["versions"] == {"ownlib": "3"}
        before = message["digests"]["ownlib"]
        (place / "ownlib/ops.py").write_text("X = 1")
        assert origins.report(self.QUESTION, "/cases", hashed=True)["digests"]["ownlib"] != before
        assert "digests" not in origins.report(self.QUESTION, "/cases", hashed=False)

    def test_what_is_installed_of_the_project_has_other_names_too(self, place: Path) -> None:
        __import__("ownlib_c")
        tree(place, {
            "own_dist-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: own-dist\nVersion: 2.0\n",
            "own_dist-2.0.dist-info/RECORD": "ownlib_c.py,,\nown_dist-2.0.dist-info/METADATA,,\n__editable__.x.pth,,\n",
        })  # fmt: skip
        message = origins.report({**self.QUESTION, "distributions": ["own-dist", "absent"]}, "/cases", hashed=False)
        assert message["modules"]["ownlib_c"] == str(place / "ownlib_c.py")
        assert message["versions"]["ownlib_c"] == "2.0"

    def test_links_are_followed(self, place: Path) -> None:
        (place / "real.py").write_text("")
        (place / "ownlib/linked.py").symlink_to(place / "real.py")
        __import__("ownlib.linked")
        modules = origins.report(self.QUESTION, "/cases", hashed=False)["modules"]
        assert modules["ownlib.linked"] == str(place / "real.py")

    def test_what_lies_in_a_foreign_folder_counts_whatever_its_name(self, place: Path) -> None:
        __import__("ownlib_c")
        question = {**self.QUESTION, "names": [], "foreign": [str(place)]}
        assert list(origins.report(question, "/cases", hashed=False)["modules"]) == ["ownlib_c"]
        assert origins.report(question, str(place), hashed=False)["modules"] == {}  # as cases

    def test_a_library_that_is_loaded_without_a_module_is_reported_too(self, tmp_path: Path) -> None:
        for number, folder in enumerate(("lib/site-packages/loaded", "other/checkout", "lib/site-packages/stranger")):
            path = tmp_path / folder / f"_kernels{number}.so"
            path.parent.mkdir(parents=True)
            shutil.copy(str(importlib.import_module("numpy._core._multiarray_umath").__file__), path)
            ctypes.CDLL(str(path))
        question = {"names": ["loaded"], "distributions": [], "foreign": [str(tmp_path / "other")]}
        assert origins.report(question, "/cases", hashed=False)["modules"] == {
            "loaded._kernels0.so": str(tmp_path / "lib/site-packages/loaded/_kernels0.so"),
            "_kernels1.so": str(tmp_path / "other/checkout/_kernels1.so"),
        }

    def test_the_interpreter_lies_in_no_foreign_folder(self) -> None:
        question = {**self.QUESTION, "foreign": [str(Path(os.__file__).resolve().parent), "/"]}
        assert "os" not in origins.report(question, "/cases", hashed=False)["modules"]
