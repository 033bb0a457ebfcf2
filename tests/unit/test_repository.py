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

ROOT = Path(__file__).parents[2]

# Modules that do no I/O. The import rules in pyproject.toml name them by wildcard, so that they may come one by one.
PURE = (
    "runner/plan.py",
    "runner/sandbox.py",
    "runner/timing/attribution.py",
    "runner/timing/protocol.py",
    "reports/compare.py",
    "reports/markdown.py",
    "reports/render.py",
    "reports/roofline.py",
    "reports/statistics.py",
)
# What a launch loads in an environment that may have none of our dependencies.
LAUNCH_SIDE = ("runner/case.py", "runner/check.py", "runner/discover.py", "runner/errors.py", "runner/worker.py")

# Longer than the 300 and 40 lines aimed at: a limit that stops growth, not one to write against.
MAX_MODULE_LINES = 350
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


def test_no_file_names_a_package_registry() -> None:
    hosts = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("debian", "org")]
    hosts += [("crates", "io"), ("pypi", "nvidia.com"), ("download", "pytorch.org"), ("ubuntu", "com")]
    pattern = re.compile(rb"(?i)\b(" + rb"|".join(re.escape(".".join(host)).encode() for host in hosts) + rb")\b")
    assert pattern.search(b"see https://" + b".".join([b"files", b"pythonhosted", b"org"]))
    assert [by_name(path) for path in tracked() if pattern.search(path.read_bytes())] == []


@pytest.mark.parametrize("path", sources("runner", "reports", "cases", "evenbench.py"), ids=by_name)
def test_module_is_safe_and_short(path: Path) -> None:
    tree = tree_of(path)
    found = [f"line {line}: imports {name}" for name, line in imports(tree) if name.split(".")[0] in UNSAFE_MODULES]
    found += [f"line {line}: calls {name}" for name, line in calls(tree) if name in UNSAFE_CALLS]
    if path.relative_to(ROOT).parts[0] in {"runner", "reports"}:
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
    # The one place where runner meets reports, and the start of a launch, which gives the folder its other name.
    allowed = {
        ("runner/cli/ceilings.py", "reports"),
        ("runner/cli/confirm.py", "reports"),
        ("runner/cli/diff.py", "reports"),
        ("runner/cli/expect.py", "reports"),
        ("runner/cli/export.py", "reports"),
        ("runner/cli/github.py", "reports"),
        ("runner/cli/history.py", "reports"),
        ("runner/cli/judge.py", "reports"),
        ("runner/cli/measure.py", "reports"),
        ("runner/cli/plot.py", "reports"),
        ("runner/cli/progress.py", "reports"),
        ("runner/cli/requests.py", "reports"),
        ("runner/cli/run.py", "reports"),
        ("runner/cli/watch.py", "reports"),
        ("runner/worker/__main__.py", "evenbench"),
    }
    found = [
        f"{by_name(path)}:{line}: {name}"
        for path in sources("runner")
        for name, line in imports(tree_of(path))
        if (own := name.split(".")[0]) in {"runner", "reports", "evenbench"} and (by_name(path), own) not in allowed
    ]
    assert found == []


def test_launch_side_loads_without_any_dependency() -> None:
    """Importing costs the standard library alone: `-S` leaves site-packages away, `-I` the working directory."""
    names = [by_name(path).removesuffix(".py") for path in sources("runner") if path.stem != "__main__"]
    heads = tuple(head.removesuffix(".py") for head in (*LAUNCH_SIDE, "runner/timing"))
    dotted_names = [n.removesuffix("/__init__").replace("/", ".") for n in names if n.startswith(heads)]
    assert "runner.errors" in dotted_names
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfor m in {dotted_names!r}: __import__(m)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pure_modules_do_no_io() -> None:
    """Their imports are import-linter's to check; builtins that do I/O are looked for here."""
    found = [
        f"{by_name(path)}:{line}: {name}"
        for path in sources("runner", "reports")
        if by_name(path) in PURE
        for name, line in calls(tree_of(path))
        if name in IO_CALLS
    ]
    assert found == []


# A file of the skeleton below, a line that its rule forbids, and the import that is then reported.
FORBIDDEN_IMPORTS = [
    *((name, "import socket", "socket") for name in PURE),
    *((name, "def f():\n    from ..records import x" if "/timing/" in name else "from . import records", "pydantic")
      for name in (*LAUNCH_SIDE, "runner/timing/cupti.py")),
    ("reports/load.py", "def f():\n    from runner.machine import probe", "runner.machine"),
    ("reports/load.py", "import torch", "torch"),
    ("runner/config.py", "import cupti", "cupti"),
    ("runner/execute.py", "from reports import compare", "reports.compare"),
]  # fmt: skip
ALLOWED_IMPORTS = [
    ("reports/load.py", "from runner import config, errors, records"),
    ("runner/cli/judge.py", "from reports import compare, load"),
    ("runner/config.py", "import yaml"),
    ("runner/machine.py", "import torch, os"),
    ("runner/worker.py", "import cupti, torch, numpy, os"),
    ("runner/timing/cupti.py", "import cupti"),
    ("runner/timing/cache.py", "def f():\n    import torch"),
    ("runner/ceilings/probes.py", "import torch"),
    ("runner/records.py", "import pydantic"),
]


def lint_skeleton(root: Path, tool: Callable[[str], str], lines: list[tuple[str, str]]) -> tuple[int, str]:
    """import-linter, under this repository's rules, over a tree of DESIGN's modules that hold only `lines`."""
    text: dict[str, str] = dict.fromkeys(
        ["runner/__init__.py", "runner/timing/__init__.py", "runner/ceilings/__init__.py", "reports/__init__.py"], ""
    )
    for name, line in [*((name, "") for name in (*PURE, *LAUNCH_SIDE)), *lines]:
        text[name] = text.get(name, "") + line + "\n"
    text["pyproject.toml"] = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, body in text.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(body)
    command = [tool("lint-imports"), "--no-cache"]
    env = {"PATH": os.environ["PATH"], "COLUMNS": "200"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_import_rules_let_the_design_pass(tmp_path: Path, tool: Callable[[str], str]) -> None:
    code, output = lint_skeleton(tmp_path, tool, ALLOWED_IMPORTS)
    assert code == 0, output


def test_import_rules_bite_in_every_module_they_are_for(tmp_path: Path, tool: Callable[[str], str]) -> None:
    code, output = lint_skeleton(tmp_path, tool, [*ALLOWED_IMPORTS, *((n, line) for n, line, _ in FORBIDDEN_IMPORTS)])
    assert code == 1, output
    missing = [
        f"{importer} -> {imported}"
        for name, _, imported in FORBIDDEN_IMPORTS
        for importer in [name.removesuffix(".py").replace("/", ".")]
        if not re.search(rf"{importer} -> (runner\.records .*\n\s+runner\.records -> )?{imported} ", output)
    ]
    assert missing == [], output


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    """Built from a copy, since setuptools writes beside the sources; without a network."""
    parts = [path for path in tracked() if path.relative_to(ROOT).parts[0] in {"runner", "reports", "evenbench.py"}]
    copy = tmp_path / "copy"
    for path in [*parts, *(ROOT / name for name in ("LICENSE", "README.md", "pyproject.toml"))]:
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "-w", tmp_path, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {by_name(path) for path in parts}
