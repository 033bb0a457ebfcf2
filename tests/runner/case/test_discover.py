"""Loading a cases directory: what is found, in which order, and what a broken file costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evenbench.runner.case.discover import PACKAGE, BrokenFile, load, points_of
from evenbench.runner.errors import CaseError

Write = Callable[..., Path]
HEADER = "from evenbench import Bench, case\n\n\n"


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """`write(**{"folder/name.py": text})` makes a cases directory; the modules it loads are forgotten afterwards."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "cases" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "cases"

    yield make
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def declare(name: str, extra: str = "", function: str = "f") -> str:
    """Three lines that declare one case."""
    return f'@case("{name}"{extra})\ndef {function}(p, device):\n    return Bench(run=lambda: 1)\n\n\n'


def test_cases_come_by_file_then_declaration_then_grid(write: Write) -> None:
    directory = write(
        {
            "zoo.py": HEADER + declare("z/b", function="b") + declare("z/a", function="a"),
            "ops/add.py": HEADER + declare("add", ', params={"n": [2, 1], "d": ["x"]}'),
            "ops/deeper/mul.py": HEADER + declare("mul"),
        }
    )
    found = load(directory)
    assert found.broken == []
    assert [(case.file, case.line, case.name) for case in found.cases] == [
        ("ops/add.py", 4, "add"),
        ("ops/deeper/mul.py", 4, "mul"),
        ("zoo.py", 4, "z/b"),
        ("zoo.py", 9, "z/a"),
    ]
    assert [point.id for point in points_of(found)] == ["add[d=x,n=2]", "add[d=x,n=1]", "mul", "z/b", "z/a"]
    assert [point.id for point in points_of(load(directory))] == [point.id for point in points_of(found)]


def test_hidden_folders_caches_and_artifacts_are_left_out(write: Write) -> None:
    broken = "raise RuntimeError\n"
    directory = write(
        {
            ".hidden/a.py": broken,
            "__pycache__/a.py": broken,
            "artifacts/a.py": broken,
            "ops/artifacts/a.py": broken,
            ".secret.py": broken,
            "notes.txt": broken,
            "good.py": HEADER + declare("good"),
        }
    )
    found = load(directory)
    assert [case.name for case in found.cases] == ["good"]
    assert found.broken == []


def test_an_empty_directory_is_empty_and_a_missing_one_an_error(write: Write, tmp_path: Path) -> None:
    found = load(write({"notes.txt": ""}))
    assert (found.cases, found.broken) == ([], [])
    with pytest.raises(CaseError, match=r"no cases directory at .*nowhere"):
        load(tmp_path / "nowhere")


def test_files_import_each_other_relatively(write: Write) -> None:
    directory = write(
        {
            "__init__.py": "SIZE = 7\n",
            "Able.py": HEADER + "from . import SIZE\n" + declare("able", ', params={"n": [SIZE]}'),
            "ops/__init__.py": HEADER + "from .. import SIZE\n" + declare("inside", ', params={"n": [SIZE]}'),
            "ops/one.py": HEADER + "from ._shared import N\nfrom ..Able import f as able\n" + declare("one"),
            "ops/_shared.py": "N = 3\n",
        }
    )
    found = load(directory)
    assert found.broken == []
    assert [point.id for point in points_of(found)] == ["able[n=7]", "inside[n=7]", "one"]


def test_a_case_counts_once_and_where_it_is_declared(write: Write) -> None:
    """Also when the user's code imports the file a second time, under its public name."""
    directory = write(
        {
            "a.py": "from .b import f\nfrom .b import f as again\nfrom cases_of_mine.b import f as copy\n",
            "b.py": HEADER + declare("b"),
        }
    )
    (directory.parent / "cases_of_mine").symlink_to(directory)
    sys.path.insert(0, str(directory.parent))
    try:
        found = load(directory)
    finally:
        sys.path.remove(str(directory.parent))
        for name in ("cases_of_mine", "cases_of_mine.b"):
            del sys.modules[name]
    assert found.broken == []
    assert [(case.file, case.name) for case in found.cases] == [("b.py", "b")]


def test_cases_made_by_a_helper_are_found(write: Write) -> None:
    helper = HEADER + "def make(name):\n    @case(name)\n    def f(p, device):\n        return Bench(run=lambda: 1)\n"
    directory = write(
        {
            "_helper.py": helper + "    return f\n",
            "use.py": "from ._helper import make\none = make('one')\ntwo = make('two')\n",
        }
    )
    assert [(case.file, case.name) for case in load(directory).cases] == [("_helper.py", "one"), ("_helper.py", "two")]


BROKEN = {
    "value.py": ("\n\nraise ValueError('two\\nlines')\n", "value.py:3: ValueError: two lines"),
    "deep.py": ("def f():\n    return 1 / 0\n\n\nf()\n", "deep.py:2: ZeroDivisionError: division by zero"),
    "library.py": ("import json\n\njson.loads('{')\n", "library.py:3: JSONDecodeError: Expecting"),
    "missing.py": ("import no_such_package\n", "missing.py:1: ModuleNotFoundError: No module named 'no_such_package'"),
    "leave.py": ("import sys\nsys.exit(3)\n", "leave.py:2: SystemExit: 3"),
    "syntax.py": ("x = 1\ndef f(:\n", "syntax.py:2: SyntaxError: "),
    "v2.rms.py": ("", "v2.rms.py:1: ImportError: a dot in the name"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_costs_only_itself(write: Write, name: str) -> None:
    text, error = BROKEN[name]
    found = load(write({name: text, "good.py": HEADER + declare("good"), "ops/good.py": HEADER + declare("ops/good")}))
    assert [case.name for case in found.cases] == ["good", "ops/good"]
    [broken] = found.broken
    assert broken.file == name
    assert broken.error.startswith(error)
    assert "\n" not in broken.error
    assert not broken.usage


def test_files_that_need_a_broken_one_name_their_own_line(write: Write) -> None:
    found = load(write({"__init__.py": "1 / 0\n", "b.py": "x = 1\nfrom . import c\n", "c.py": "1 / 0\n", "d.py": ""}))
    assert found.broken == [
        BrokenFile("__init__.py", "__init__.py:1: ZeroDivisionError: division by zero"),
        BrokenFile("b.py", "b.py:2: ZeroDivisionError: division by zero"),
        BrokenFile("c.py", "c.py:1: ZeroDivisionError: division by zero"),
    ]


def test_a_malformed_case_is_a_usage_error(write: Write) -> None:
    found = load(
        write(
            {
                "ops/bad.py": HEADER + declare("bad", ", colour='red'"),
                "work.py": "from evenbench import Work\n\nWork(dtype='float32', flops=-1)\n",
            }
        )
    )
    assert found.cases == []
    assert [(broken.file, broken.usage) for broken in found.broken] == [("ops/bad.py", True), ("work.py", True)]
    assert found.broken[0].error.startswith("ops/bad.py:4: unknown keyword 'colour' of @case (hint: ")
    assert found.broken[1].error == "work.py:3: Work(flops=…) must be a whole number of 0 or more, not -1"


def test_an_interrupt_is_not_swallowed(write: Write) -> None:
    directory = write({"a.py": "raise KeyboardInterrupt\n"})
    with pytest.raises(KeyboardInterrupt):
        load(directory)


def test_duplicate_ids_name_both_places(write: Write) -> None:
    directory = write(
        {
            "a.py": HEADER + declare("x/y", ', params={"n": [1, 2]}'),
            "b.py": HEADER + "\n" + declare("x/y", ', params={"n": [2, 3]}'),
        }
    )
    with pytest.raises(CaseError) as caught:
        load(directory)
    assert caught.value.message == "case id 'x/y[n=2]' is declared twice: a.py:4 and b.py:5"
    with pytest.raises(CaseError, match=r"'z' is declared twice: a.py:4 and a.py:9"):
        load(write({"a.py": HEADER + declare("z", function="f") + declare("z", function="g"), "b.py": ""}))


def test_lazy_attributes_are_not_woken(write: Write) -> None:
    text = (
        "class Lazy:\n    @property\n    def __class__(self):\n        raise RuntimeError('woken')\n\n\nlazy = Lazy()\n"
    )
    found = load(write({"a.py": text + HEADER + declare("a")}))
    assert found.broken == []
    assert [case.name for case in found.cases] == ["a"]
