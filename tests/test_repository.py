"""Rules of this repository that no public linter knows."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What a launch loads in an environment that may have none of our dependencies.
LAUNCH_SIDE = ("runner/case", "runner/errors", "runner/process", "runner/timing", "runner/worker")

OURS = ("evenbench", "reports", "runner")  # the folders of the package
MAX_FOLDER_MODULES = 12  # beside its door
MAX_MODULE_LINES = 500  # a module is one idea; this stops growth, it is no goal
MAX_FUNCTION_LINES = 50

READ_ONLY = {"Mapping", "Sequence", "Collection", "Set", "AbstractSet", "MappingProxyType", "frozenset", "tuple"}
MUTABLE_CALLS = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"}
MEND = "use a tuple, a frozenset or MappingProxyType, or annotate it as Mapping, Sequence or AbstractSet"
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "torch.load"}
IO_CALLS = {"open", "print", "input", "breakpoint", "__import__"}


def tracked() -> list[Path]:
    """Tracked files and new ones that are not ignored, so that a rule holds before the first commit."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(path for name in names if name and (path := ROOT / name).is_file())


def sources(*folders: str) -> list[Path]:
    """The Python files below these top-level folders."""
    return [path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The dotted names that are called, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node.lineno


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The modules that are imported absolutely, anywhere, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


def is_mutable(value: ast.expr) -> bool:
    """Whether an expression builds a container that can be changed."""
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in MUTABLE_CALLS


def read_only(annotation: ast.expr) -> bool:
    """Whether an annotation is a read-only type, which mypy then enforces; `Final[…]` is looked through."""
    if isinstance(annotation, ast.Subscript):
        if dotted(annotation.value).rpartition(".")[2] == "Final":
            return read_only(annotation.slice)
        annotation = annotation.value
    return dotted(annotation).rpartition(".")[2] in READ_ONLY


def mutable_globals(tree: ast.Module) -> Iterator[int]:
    """Lines that make a changeable module global, or rebind one."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                pass  # by convention a list
            case ast.Assign(value=value) if is_mutable(value):
                yield node.lineno
            case ast.AnnAssign(value=ast.expr() as value) if is_mutable(value) and not read_only(node.annotation):
                yield node.lineno
    yield from (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


MEASURING = [path for path in sources("measurements") if path.relative_to(ROOT).parts[1] != "tests"]


def test_no_file_names_a_package_registry() -> None:
    hosts = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("debian", "org")]
    hosts += [("crates", "io"), ("pypi", "nvidia.com"), ("download", "pytorch.org"), ("ubuntu", "com")]
    pattern = re.compile(rb"(?i)\b(" + rb"|".join(re.escape(".".join(host)).encode() for host in hosts) + rb")\b")
    assert pattern.search(b"see https://" + b".".join([b"files", b"pythonhosted", b"org"]))
    assert [by_name(path) for path in tracked() if pattern.search(path.read_bytes())] == []


@pytest.mark.parametrize("path", [*sources(*OURS, "cases"), *MEASURING], ids=by_name)
def test_module_is_safe_and_short(path: Path) -> None:
    tree = tree_of(path)
    found = [f"line {line}: imports {name}" for name, line in imports(tree) if name.split(".")[0] in UNSAFE_MODULES]
    found += [f"line {line}: calls {name}" for name, line in calls(tree) if name in UNSAFE_CALLS]
    if path.relative_to(ROOT).parts[0] in OURS:
        found += [f"line {line}: a mutable module global: {MEND}" for line in mutable_globals(tree)]
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > MAX_MODULE_LINES:
        found.append(f"{lines} lines, over {MAX_MODULE_LINES}: it holds two ideas")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > MAX_FUNCTION_LINES:
            found.append(f"line {node.lineno}: {node.name} has {length(node)} lines, over {MAX_FUNCTION_LINES}")
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("A = []\nB = {}\nC = {1}\nD = [x for x in y]\nE = collections.defaultdict(list)", [1, 2, 3, 4, 5]),
        ("A: dict[str, int] = {}\nB: Final = {}\nC: Final[list[int]] = [1]", [1, 2, 3]),
        ("A = (1,)\nB = frozenset({1})\nC = MappingProxyType({})\n__all__ = ['x']", []),
        ("A: Mapping[str, int] = {}\nB: Final[Sequence[int]] = [1]\nC: typing.Mapping[str, int] = {}", []),
        ("A = None\ndef f():\n    global A\n    A = 1", [3]),
        ("def f():\n    a = []\nclass C:\n    b: list = field(default_factory=list)", []),
    ],
)
def test_mutable_globals_are_found(source: str, lines: list[int]) -> None:
    assert list(mutable_globals(ast.parse(source))) == lines


def test_runner_imports_its_own_modules_relatively() -> None:
    """A launch loads the folder under the name `evenbench`; there `runner` and `reports` belong to the user."""
    found = [
        f"{by_name(path)}:{line}: {name}"
        for path in sources("runner")
        for name, line in imports(tree_of(path))
        if name.split(".")[0] in OURS and by_name(path) != "runner/worker/__main__.py"  # gives the folder that name
    ]
    assert found == []


def test_the_package_has_one_name() -> None:
    """`runner` and `reports` are imported as parts of evenbench: they may be a user's names."""
    found = [
        f"{by_name(path)}:{line}: {name}"
        for path in sources(*OURS, "measurements", "tests")
        for name, line in imports(tree_of(path))
        if name.split(".")[0] in {"runner", "reports"}
    ]
    assert found == []


def test_launch_side_loads_without_any_dependency() -> None:
    """Importing costs the standard library alone: `-S` leaves site-packages away, `-I` the working directory."""
    names = [by_name(path).removesuffix(".py") for path in sources("runner") if path.stem != "__main__"]
    modules = [f"evenbench.{n.removesuffix('/__init__').replace('/', '.')}" for n in names if n.startswith(LAUNCH_SIDE)]
    assert "evenbench.runner.errors" in modules
    assert "evenbench.runner.timing.cupti.timer" in modules
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfor m in {modules!r}: __import__(m)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------------ the rooms


def folders() -> dict[Path, list[str]]:
    """The folders of the package, each with the names of its modules and packages."""
    found: dict[Path, list[str]] = {}
    for path in sources(*OURS, "measurements"):
        if path.relative_to(ROOT).parts[1] in {"cases", "tests"}:  # no packages
            continue
        found.setdefault(path.parent, [])
        if path.name != "__init__.py":
            found[path.parent].append(path.stem)
        elif path.parent.parent != ROOT:
            found.setdefault(path.parent.parent, []).append(path.parent.name)
    return found


def test_the_product_does_not_import_what_measures_it() -> None:
    found = [
        by_name(path)
        for path in sources(*OURS)
        for name, _ in imports(tree_of(path))
        if name.startswith("measurements")
    ]
    assert found == []


FOLDERS = folders()


@pytest.mark.parametrize("folder", sorted(FOLDERS), ids=by_name)
def test_a_folder_is_small_and_its_door_names_what_is_in_it(folder: Path) -> None:
    """A stranger reads the doors: what goes in, what comes out, and in which order to read the files."""
    modules = [name for name in FOLDERS[folder] if (folder / f"{name}.py").exists() and name != "__main__"]
    assert len(modules) <= MAX_FOLDER_MODULES, f"{len(modules)} modules: what stages are in there?"
    door = ast.get_docstring(tree_of(folder / "__init__.py")) or ""
    assert [name for name in FOLDERS[folder] if f"`{name}`" not in door and name != "__main__"] == []


# What each import rule of pyproject.toml refuses: a module, a line in it, and the import that is then reported.
PURE = (
    "reports/compare/compare.py",
    "reports/render/comment/markdown.py",
    "reports/rows/roofline.py",
    "reports/statistics/paired.py",
    "reports/text.py",
    "reports/units.py",
    "runner/case/declare.py",
    "runner/launchers/sandbox.py",
    "runner/plan/plan.py",
    "runner/timing/cupti/attribution.py",
    "runner/timing/protocol.py",
)
FORBIDDEN_IMPORTS = [
    *((name, "import socket", "socket") for name in PURE),
    ("runner/case/check.py", "from .. import records", "evenbench.runner.records"),
    ("runner/errors.py", "import yaml", "yaml"),
    ("runner/process/channel.py", "import rich", "rich"),
    ("runner/timing/cupti/timer.py", "def f():\n    import scipy", "scipy"),
    ("runner/worker/launch/jobs.py", "import pydantic", "pydantic"),
    ("reports/load/results.py", "def f():\n    from evenbench.runner.machine import gpus", "evenbench.runner.machine.gpus"),
    ("reports/load/results.py", "import torch", "torch"),
    ("runner/config/keys.py", "import cupti", "cupti"),
    ("runner/machine/locks.py", "import torch", "torch"),
    ("runner/execute/execute.py", "from evenbench.reports.compare import compare", "evenbench.reports.compare.compare"),
    ("runner/sides/git.py", "from ..launchers import launcher", "evenbench.runner.launchers.launcher"),
    ("reports/rows/times.py", "from ..render import wording", "evenbench.reports.render.wording"),
    ("reports/compare/diff.py", "from evenbench.cli.steps import show", "evenbench.cli.steps.show"),
    ("evenbench/cli/steps/show.py", "from ..verbs.judge import report", ".steps -> .verbs"),
]  # fmt: skip


def test_import_rules_bite_in_every_module_they_are_for(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """import-linter, under this repository's rules, over a copy of the package with a line more in some modules."""
    copy_of_package(tmp_path)
    for name, line, _ in FORBIDDEN_IMPORTS:
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    command = [tool("lint-imports"), "--no-cache"]
    env = {"PATH": os.environ["PATH"], "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    reported = [
        imported if "->" in imported else f"evenbench.{dotted_name(name)} -> {imported} "
        for name, _, imported in FORBIDDEN_IMPORTS
    ]
    missing = [line for line in reported if line not in done.stdout]
    assert missing == [], done.stdout


def dotted_name(file: str) -> str:
    """The module of a file, below `evenbench`."""
    return file.removeprefix("evenbench/").removesuffix(".py").replace("/", ".")


def copy_of_package(target: Path) -> list[Path]:
    """The package's files and what builds it, copied; the files of the package."""
    parts = [path for path in tracked() if path.relative_to(ROOT).parts[0] in OURS]
    for path in [*parts, *(ROOT / name for name in ("LICENSE", "README.md", "pyproject.toml"))]:
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for name in ("runner", "reports"):
        (target / "evenbench" / name).symlink_to(f"../{name}")
    return parts


@pytest.mark.slow
def test_wheel_holds_every_file_under_one_name(tmp_path: Path) -> None:
    """Built from a copy, since setuptools writes beside the sources; without a network."""
    copy = tmp_path / "copy"
    parts = copy_of_package(copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "-w", tmp_path, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {f"evenbench/{by_name(path).removeprefix('evenbench/')}" for path in parts}
