"""docs/security.md names tests that exist; docs/setup.md and docs/scale.md name what the workflows use; the lock is whole."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

from evenbench.reports.publish.outcome import LABEL
from evenbench.runner import __version__
from tests.conftest import ON_CI
from tests.test_docs import ROOT, rows, section, text_of
from tests.test_repository import tracked

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(name: str) -> frozenset[str]:
    """The tests of a file, those in classes too."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def table() -> list[tuple[str, ...]]:
    return rows(section(text_of("docs/security.md"), "## Attacks, defences, tests"))[1:]


def test_every_row_names_tests_that_exist() -> None:
    assert len(table()) > 15
    for attack, defence, tests in table():
        named = NAMED.findall(tests)
        assert defence, attack
        assert named, attack
        assert re.sub(r"[`, ]|<br>", "", NAMED.sub("", tests)) == "", attack  # nothing but names
        for file, name in named:
            assert name in names_in(file), f"{attack}: {file}::{name}"


def test_every_file_of_attacks_is_in_the_table() -> None:
    named = {file for *_, tests in table() for file, _ in NAMED.findall(tests)}
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert there <= named


# ---------------------------------------------------------------------------- names that stand on GitHub and in our files


def test_the_settings_that_setup_asks_for_are_those_that_the_workflows_use() -> None:
    text = text_of("docs/setup.md")
    gpu = yaml.safe_load(text_of(".github/workflows/gpu-benchmark.yml"))["jobs"]
    called = re.findall(r"uses: (evenbench/evenbench/\S+)@(\w+)", text_of(".github/workflows/benchmark.yml"))
    assert [f"{workflow}@refs/heads/{branch}" for workflow, branch in called] == re.findall(
        r"`(\S+/gpu-benchmark\.yml@\S+)`", text
    )
    assert f"`{gpu['measure']['runs-on']['group']}`" in text
    assert f"--labels {gpu['measure']['runs-on']['labels']} --runnergroup {gpu['measure']['runs-on']['group']}" in text
    assert f"`{gpu['approve']['environment']}`" in text
    assert f"`{LABEL}`" in text
    assert "**evenbench (pr)**" in text  # as tests/e2e/test_workflows.py finds it
    fields = set(
        re.findall(
            r"^ +(\w+): \{(?:type: boolean, )?description:", text_of(".github/workflows/manual.yml"), re.MULTILINE
        )
    )
    told = {name for cell, *_ in rows(section(text, "## 6. By hand"))[1:] for name in re.findall(r"`(\w+)`", cell)}
    assert told == fields


def test_the_scale_set_answers_to_the_gpu_job() -> None:
    values = yaml.safe_load(text_of("docs/scale-values.yaml"))
    asked = yaml.safe_load(text_of(".github/workflows/gpu-benchmark.yml"))["jobs"]["measure"]["runs-on"]
    assert (values["runnerGroup"], values["runnerScaleSetName"]) == (asked["group"], asked["labels"])
    spec = values["template"]["spec"]
    (runner,) = spec["containers"]
    assert runner["resources"]["limits"] == runner["resources"]["requests"]
    assert runner["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert runner["securityContext"]["allowPrivilegeEscalation"] is False


# ------------------------------------------------------------------------------------------- what hosted machines install


def test_what_hosted_machines_install_is_locked_and_whole() -> None:
    locked = re.findall(
        r"^([a-z0-9-]+)==\S+ \\\n(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+",
        text_of(".github/requirements.txt"),
        re.MULTILINE,
    )
    assert locked == re.findall(r"^([a-z0-9-]+)", text_of(".github/requirements.txt"), re.MULTILINE)
    wanted = tomllib.loads(text_of("pyproject.toml"))
    for requirement in [*wanted["project"]["dependencies"], *wanted["build-system"]["requires"]]:
        assert re.match(r"[A-Za-z0-9-]+", requirement)[0].lower() in locked  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.skipif(not ON_CI, reason="downloads some 60 MB")
def test_hosted_machines_can_install_it(tmp_path: Path) -> None:
    variables = {"RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(tmp_path / "path")}
    env = {name: value for name, value in os.environ.items() if name != "EVENBENCH_VENV"} | variables
    copy = tmp_path / "source"
    for path in tracked():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name in ("runner", "reports"):
        (copy / "evenbench" / name).symlink_to(f"../{name}")
    done = subprocess.run([str(copy / ".github" / "install")], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"evenbench {__version__}\n"
    assert (tmp_path / "path").read_text() == f"{tmp_path}/evenbench/bin\n"
