"""Limits and paths → arguments of docker and podman. `EVENBENCH_UPDATE_GOLDEN=1` writes the golden files anew."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.launchers.host_settings import IMAGE, IMAGES, LAUNCHER, MEMORY, SETUP_NETWORK
from evenbench.runner.launchers.sandbox import (
    CACHE,
    FILES_MAX,
    MEMORY_SHARE,
    PIDS_MAX,
    SHM,
    SIDE,
    SOURCE,
    THREADS_MAX,
    TMP,
    USER,
    Container,
    Engine,
    Limits,
    Mount,
    faults,
    run_arguments,
)
from tests.test_docs import rows, section, text_of
from tests.test_security_docs import names_in

GOLDEN = Path(__file__).parents[2] / "golden"
ENGINES: tuple[Engine, ...] = get_args(Engine)
LIMITS = Limits(memory=64 << 30, threads=16)
IMAGE_ID = "sha256:" + "1" * 64
LAUNCHES = Container(
    name="evenbench-1-0123abcd-4567cdef-head-launches-3",
    image=IMAGE_ID,
    arguments=("-P", "-m", "evenbench.runner.launchers.inside", "launches"),
    limits=LIMITS,
    mounts=(Mount("v-head-side", SIDE), Mount("v-head-cache", CACHE, writable=True)),
    gpu="GPU-01234567-89ab-cdef-0123-456789abcdef",
)
SETUP = Container(
    name="evenbench-1-0123abcd-4567cdef-head-setup-2",
    image=IMAGE_ID,
    arguments=("-P", "-m", "evenbench.runner.launchers.inside", "setup", "pip install --no-deps . && echo $HOME"),
    limits=LIMITS,
    mounts=(Mount("/tmp/e/head-source", SOURCE), Mount("v-head-side", SIDE, writable=True)),
    network="bridge",
)
SEEN = {
    "user": USER,
    "capabilities": 0,
    "no_new_privileges": True,
    "seccomp": True,
    "read_only": True,
    "interfaces": ["lo"],
    "memory": LIMITS.memory,
    "processes": PIDS_MAX,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "container"), [("launches", LAUNCHES), ("setup", SETUP)])
def test_arguments(engine: Engine, name: str, container: Container) -> None:
    text = "".join(f"{word}\n" for word in run_arguments(engine, container))
    path = GOLDEN / f"sandbox-{engine}-{name}.txt"
    if os.environ.get("EVENBENCH_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("engine", ENGINES)
@given(words=st.lists(st.text(min_size=1), max_size=5), gpu=st.booleans(), network=st.sampled_from(["none", "bridge"]))
def test_whatever_runs_inside_the_container_is_held(engine: Engine, words: list[str], gpu: bool, network: str) -> None:
    container = Container("name", IMAGE_ID, words, LIMITS, LAUNCHES.mounts, LAUNCHES.gpu if gpu else "", network)
    arguments = run_arguments(engine, container)
    options = arguments[: arguments.index(IMAGE_ID)]
    assert arguments == [*options, IMAGE_ID, *words]  # foreign words come last, where they are no options
    for option, value in (
        ("--user", USER),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--network", network),
        ("--pids-limit", str(PIDS_MAX)),
        ("--memory", f"{LIMITS.memory}b"),
        ("--memory-swap", f"{LIMITS.memory}b"),
        ("--log-driver", "none"),
        ("--pull", "never"),
    ):
        assert [options[i + 1] for i, word in enumerate(options) if word == option] == [value]
    assert "--read-only" in options
    assert not {"--privileged", "--cap-add", "--device-cgroup-rule", "--pid", "--ipc", "--userns"} & {*options}
    assert [word for word in options if word.startswith("v-")] == ["v-head-side:/side:ro", "v-head-cache:/cache"]


@given(st.integers(1 << 20, 1 << 45), st.integers(1, 1_000))
def test_a_host_keeps_part_of_its_memory_and_threads_fit_the_process_limit(memory: int, cpus: int) -> None:
    limits = Limits.of_host(memory, cpus)
    assert memory // 2 < limits.memory < memory
    assert 1 <= limits.threads <= min(cpus, THREADS_MAX)
    assert Limits.of_host(memory, cpus, granted=7) == Limits(7, limits.threads)


def test_a_container_that_is_held_has_no_fault() -> None:
    assert faults(SEEN, LIMITS) == []
    assert faults(SEEN | {"memory": LIMITS.memory - 4_096, "processes": 100}, LIMITS) == []


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("user", "0:0", "it runs as 0:0"),
        ("capabilities", 0xA80425FB, "it has capabilities"),
        ("no_new_privileges", False, "it may gain privileges"),
        ("seccomp", False, "system calls are not filtered"),
        ("read_only", False, "its root can be written to"),
        ("interfaces", ["lo", "eth0"], "it has the network ['lo', 'eth0']"),
        ("memory", None, "memory is limited to None"),
        ("memory", LIMITS.memory + 1, f"memory is limited to {LIMITS.memory + 1}"),
        ("processes", None, "processes are limited to None"),
        ("processes", PIDS_MAX + 1, f"processes are limited to {PIDS_MAX + 1}"),
    ],
)
def test_what_does_not_hold_is_told(name: str, value: object, fault: str) -> None:
    assert faults(SEEN | {name: value}, LIMITS) == [fault]


@pytest.mark.parametrize("name", SEEN)
def test_what_is_not_known_does_not_hold(name: str) -> None:
    assert len(faults({key: value for key, value in SEEN.items() if key != name}, LIMITS)) == 1


def test_the_page_names_the_limits_and_tests_that_exist() -> None:
    text = text_of("docs/sandbox.md")
    listed = {name: value for name, value, *_ in rows(section(text, "## Limits"))[1:]}
    assert listed == {
        "processes and threads of a container": str(PIDS_MAX),
        "threads of OpenMP, compile jobs": str(THREADS_MAX),
        "share of the machine's memory": str(MEMORY_SHARE),
        "shared memory": SHM,
        "temporary files": TMP,
        "open files": str(FILES_MAX),
    }
    named = {
        name for row in rows(section(text, "## What is contained"))[1:] for name in re.findall(r"`(test_\w+)`", row[-1])
    }
    assert len(named) > 10
    assert named <= names_in("tests/e2e/test_sandbox.py")


def test_the_page_names_every_setting() -> None:
    section_text = section(text_of("docs/sandbox.md"), "## What the machine decides")
    assert {row[0] for row in rows(section_text)[1:]} == {
        f"`{name}`" for name in (LAUNCHER, IMAGE, IMAGES, SETUP_NETWORK, MEMORY)
    }
