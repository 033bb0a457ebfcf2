"""The image's files agree: versions stand in the Dockerfile once, and locks, scripts and documents follow it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from evenbench.runner.sides.environments import CACHES

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STACKS = ("cpu", "cuda", "cuda-devel")
LOCKS = (".github/requirements.txt", *(f"scripts/stacks/{name}.txt" for name in STACKS))
REQUIREMENT = re.compile(r"([a-z0-9-]+)==(\S+)(?: ; .+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def named(name: str) -> str:
    """What the block at the Dockerfile's top says of one version."""
    (value,) = re.findall(rf"^ARG {name}=(\S+)$", DOCKERFILE.partition("\nFROM ")[0], re.MULTILINE)
    return str(value)


@cache
def locked(name: str) -> dict[str, str]:
    """The versions of a lock; every line of it is one of a requirement, or a comment."""
    text = re.sub(r"^ *#.*\n", "", text_of(name), flags=re.MULTILINE)
    assert REQUIREMENT.sub("", text).strip() == "", name
    return {found[1]: found[2] for found in REQUIREMENT.finditer(text)}


def wanted(name: str) -> Iterator[str]:
    """The names in an input file, and in those that it takes in."""
    for line in text_of(f"scripts/stacks/{name}.in").splitlines():
        if line.startswith("-r "):
            yield from wanted(line.removeprefix("-r ").removesuffix(".in"))
        elif line and not line.startswith("#"):
            yield re.split(r"[\[<>=]", line)[0]


def test_the_dockerfile_names_each_version_once() -> None:
    names = ("PYTHON", "CUDA", "TORCH", "CUPTI_PYTHON", "CUPTI", "DRIVER")
    assert re.findall(r"^ARG (\w+)=", DOCKERFILE.partition("\nFROM ")[0], re.MULTILINE) == [*names, "BASE_IMAGE"]
    for name in names:
        assert len(re.findall(rf"(?<![\d.]){re.escape(named(name))}(?![\d.])", DOCKERFILE)) == 1, name


def test_the_base_is_pinned_by_digest() -> None:
    froms = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"debian:[a-z]+-slim@sha256:[0-9a-f]{64}", froms[0])
    assert set(froms[1:]) == {"${BASE_IMAGE}", "stack"}
    assert named("BASE_IMAGE") == "pinned"
    assert f"FROM {froms[0]} AS pinned" in DOCKERFILE  # in a FROM, where dependabot finds and renews it


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_hashes_and_no_address(name: str) -> None:
    assert locked(name)
    assert "://" not in text_of(name)
    assert not re.search(r"^ *-(?!-hash)", text_of(name), re.MULTILINE)


@pytest.mark.parametrize("name", STACKS)
def test_a_lock_follows_its_input_and_the_dockerfile(name: str) -> None:
    versions = locked(f"scripts/stacks/{name}.txt")
    assert set(wanted(name)) <= set(versions)
    assert versions["torch"] == named("TORCH") + ("+cpu" if name == "cpu" else "")
    if name != "cpu":
        assert versions["cupti-python"] == named("CUPTI_PYTHON")
        assert versions["nvidia-cuda-cupti"] == named("CUPTI")
        assert versions["nvidia-cuda-runtime"].startswith(named("CUDA") + ".")


def test_nvcc_is_of_torchs_cuda_and_all_else_the_same() -> None:
    small, large = locked("scripts/stacks/cuda.txt"), locked("scripts/stacks/cuda-devel.txt")
    assert small.items() < large.items()
    assert large["nvidia-cuda-nvcc"].startswith(named("CUDA") + ".")


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_and_the_light_base_over_it_share_their_versions(name: str) -> None:
    base, stack = locked(".github/requirements.txt"), locked(f"scripts/stacks/{name}.txt")
    shared = base.keys() & stack.keys()
    assert "jinja2" in shared
    assert {key: base[key] for key in shared} == {key: stack[key] for key in shared}, (
        "scripts/lock brings them together"
    )


def test_the_light_base_is_that_of_the_project() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    asked = {re.split(r"[\[<>=]", line)[0] for line in project["dependencies"]}
    assert asked | {"setuptools"} <= set(locked(".github/requirements.txt"))
    extra = {re.split(r"[\[<>=]", line)[0] for line in project["optional-dependencies"]["cuda"]}
    assert set(wanted("cuda")) == extra


def test_scripts_take_torch_from_the_dockerfile() -> None:
    said = subprocess.run(
        ["sh", "-euc", ". scripts/lib.sh; echo $TORCH"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"torch=={named('TORCH')}\n"
    for name in ("scripts/lib.sh", "scripts/lock", "scripts/image-test", ".github/workflows/image.yml"):
        for version in (named("TORCH"), named("CUPTI_PYTHON"), named("CUPTI"), named("DRIVER")):
            assert version not in text_of(name), name


def test_every_cache_has_its_place_in_the_image() -> None:
    caches = set(CACHES) - {"EVENBENCH_PYCACHE"}  # of launches, not of a compiler
    assert set(re.findall(r"(\w+)=/cache/\w+", DOCKERFILE)) == caches


def test_the_build_sees_only_what_it_copies() -> None:
    lines = [line for line in text_of(".dockerignore").splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert lines[-1] == "**/__pycache__"
    seen = {line.removeprefix("!") for line in lines[1:-1]}
    copied = {
        word.rstrip("/").replace("${STACK}.txt", "").rstrip("/")
        for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
        if not line.startswith("--from=")  # from an earlier stage, not from the context
        for word in line.split()[:-1]
    }
    assert {word for word in copied if word != "scripts/stacks/check.py"} == seen
