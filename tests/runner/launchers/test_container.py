"""The container launcher before a fake engine: what is asked of it, in which order, and what its refusals come to."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner import __version__
from evenbench.runner.errors import NothingMeasured, UnfitMachine, UsageError
from evenbench.runner.launchers import container
from evenbench.runner.launchers.container import ContainerLauncher, choose_launcher
from evenbench.runner.launchers.launcher import LocalLauncher
from evenbench.runner.launchers.sandbox import PIDS_MAX, USER, Limits
from evenbench.runner.sides import Sides, SideSpec
from evenbench.runner.sides.checkouts import owned_prefix

ID = "1" * 64
LIMITS = Limits(1 << 30, 2)
SEEN = {
    "version": __version__,
    "user": USER,
    "capabilities": 0,
    "no_new_privileges": True,
    "seccomp": True,
    "read_only": True,
    "interfaces": ["lo"],
    "memory": 1 << 30,
    "processes": PIDS_MAX,
}
# Answers with the first entry of its table whose words all stand in the arguments: exit status, stdout, stderr, seconds.
ENGINE = """#!/usr/bin/env python3
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
with (here / "log").open("a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
for words, status, out, error, seconds in json.loads((here / "table").read_text()):
    if all(word in sys.argv for word in words):
        sys.stdout.write(out)
        sys.stderr.write(error)
        sys.stdout.flush()
        time.sleep(seconds)
        sys.exit(status)
"""
Answer = tuple[list[str], int, str, str, float]


class Fake:
    """A fake podman: what it answers, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "podman").write_text(ENGINE)
        (folder / "podman").chmod(0o755)
        self.answer()

    def answer(self, *first: Answer, seen: Mapping[str, Any] = SEEN) -> None:
        """Goes before what a sound engine answers."""
        table = [*first, (["inspect"], 0, f"{ID}\n", "", 0), (["look"], 0, json.dumps(seen), "", 0)]
        (self.folder / "table").write_text(json.dumps(table))

    def asked(self, *words: str) -> list[list[str]]:
        """The calls in whose arguments all these words stand."""
        log = self.folder / "log"
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [call for call in calls if all(word in call for word in words)]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Fake(folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A plain directory with a file that only its owner may read."""
    folder = tmp_path / "tree"
    (folder / "cases").mkdir(parents=True)
    (folder / "cases" / "one.py").write_text("X = 1\n")
    (folder / "cases" / "one.py").chmod(0o600)
    (folder / "cases").chmod(0o700)
    return folder


def launcher(image: str = "ours") -> ContainerLauncher:
    return ContainerLauncher("podman", image, "", LIMITS)


def prepared(found: ContainerLauncher, tree: Path, tmp_path: Path, setup: str, look: Callable[[], None]) -> None:
    """Make a side of a directory, and look while its scratch folder is there."""
    with Sides(tree, tmp_path / "scratch") as sides:
        spec = SideSpec("head", str(tree))
        found.prepare(sides, sides.check_out(spec), spec, setup)
        look()


def test_local_is_what_holds_where_nothing_is_said() -> None:
    assert isinstance(choose_launcher(None, "", "", {}), LocalLauncher)
    assert choose_launcher(None, f"ghcr.io/evil/it@sha256:{ID}", "", {"EVENBENCH_IMAGE": "us"}).image == "us"


def test_an_engine_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnfitMachine, match="podman is not installed"):
        launcher()


def test_an_image_by_tag_is_recorded_with_its_id_and_run_by_it(engine: Fake) -> None:
    found = launcher("localhost/ours:1.0")
    assert found.image == f"localhost/ours:1.0@sha256:{ID}"
    with found:
        pass
    [run] = engine.asked("run")
    assert f"sha256:{ID}" in run
    assert "localhost/ours:1.0" not in run
    assert not engine.asked("pull")


def test_an_image_that_is_missing_is_fetched(engine: Fake) -> None:
    engine.answer((["inspect"], 1, "", "no such image", 0), (["pull"], 1, "", "denied: who are you", 0))
    with pytest.raises(UnfitMachine, match="podman has no image ours: denied: who are you .*podman pull ours"):
        launcher()
    assert engine.asked("pull") == [["pull", "--quiet", "ours"]]


def test_an_engine_that_cannot_start_it(engine: Fake) -> None:
    engine.answer((["look"], 127, "", "Error: init binary not found on the host", 0))
    with (
        pytest.raises(UnfitMachine, match="podman cannot start ours@sha256:1+: Error: init binary not found"),
        launcher(),
    ):
        pass


@pytest.mark.parametrize("answer", ["", "no json", "[]", "null"])
def test_an_image_that_answers_nonsense(engine: Fake, answer: str) -> None:
    engine.answer((["look"], 0, answer, "", 0))
    with pytest.raises(UnfitMachine, match="cannot start"), launcher():
        pass


def test_an_image_of_another_version(engine: Fake) -> None:
    engine.answer(seen=SEEN | {"version": "99.0"})
    with pytest.raises(UnfitMachine, match=f"holds evenbench 99.0, this is {__version__}"), launcher():
        pass


def test_an_engine_that_does_not_hold_its_limits(engine: Fake) -> None:
    engine.answer(seen=SEEN | {"processes": None, "capabilities": 1})
    match = "does not hold a container as it should: it has capabilities; processes are limited to None"
    with pytest.raises(UnfitMachine, match=match), launcher():
        pass


def test_what_killed_runs_left_is_swept_and_nothing_else(engine: Fake) -> None:
    dead = owned_prefix().replace(f"-{os.getpid()}-", f"-{(1 << 22) + 1}-", 1)  # no process has such a number
    alive = owned_prefix()
    elsewhere = "evenbench-1-00000000-"
    listed = "".join(f"{name}\n" for name in (f"{dead}head-1", f"{alive}head-1", f"{elsewhere}head-1", "database"))
    engine.answer((["ps"], 0, listed, "", 0), (["volume", "ls"], 0, listed, "", 0))
    with launcher():
        assert engine.asked("rm", "--force") == [
            ["rm", "--force", f"{dead}head-1"],
            ["volume", "rm", "--force", f"{dead}head-1"],
        ]


def test_what_is_left_is_swept_again_where_the_engine_failed(engine: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lists do while another run removes what they list."""
    ours = f"{owned_prefix()}head-side\n"
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:  # before the second time
            engine.answer((["volume", "ls"], 0, ours, "", 0))

    engine.answer((["volume", "ls"], 125, "", "Error: no such volume", 0))
    monkeypatch.setattr("evenbench.runner.launchers.container.sleep", pause)
    launcher()._sweep(lambda name: name in ours)
    assert pauses == [0, container.SWEEP_PAUSE_S]
    assert engine.asked("volume", "rm") == [["volume", "rm", "--force", ours.strip()]]


def test_an_engine_that_always_fails_is_not_asked_for_ever(engine: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.answer((["volume", "ls"], 125, "", "Error: no such volume", 0))
    monkeypatch.setattr("evenbench.runner.launchers.container.sleep", lambda _: None)
    launcher()._sweep(lambda _: True)
    assert len(engine.asked("volume", "ls")) == container.SWEEPS


def test_the_side_is_made_in_its_volumes_and_both_are_gone_at_the_end(
    engine: Fake, repository: Path, tmp_path: Path
) -> None:
    def look() -> None:
        source = next(tmp_path.glob("scratch/evenbench-*/head-source"))
        assert oct((source / "cases" / "one.py").stat().st_mode) == "0o100644"
        assert oct((source / "cases").stat().st_mode) == "0o40755"
        [run] = engine.asked("run", "setup")
        assert run[-2:] == ["setup", "make it"]
        volumes = [word for before, word in itertools.pairwise(run) if before == "--volume"]
        assert volumes[0] == f"{source}:/src:ro"
        created = [call[-1] for call in engine.asked("volume", "create")]
        assert volumes[1:] == [f"{created[0]}:/side", f"{created[1]}:/cache"]
        assert run[run.index("--network") + 1] == "none"
        ours = "".join(f"{name}\n" for name in created)
        engine.answer((["volume", "ls"], 0, ours, "", 0))

    with launcher() as found:
        prepared(found, repository, tmp_path, "make it", look)
    [created, removed] = [[call[-1] for call in engine.asked("create")], engine.asked("volume", "rm")]
    assert removed == [["volume", "rm", "--force", *created]]


def test_an_engine_whose_storage_is_full(engine: Fake, repository: Path, tmp_path: Path) -> None:
    engine.answer((["create"], 125, "", "no space left on device", 0))
    with launcher() as found, pytest.raises(UnfitMachine, match="podman makes no volume: no space left"):
        prepared(found, repository, tmp_path, "make it", lambda: None)


def test_a_set_up_that_fails(engine: Fake, repository: Path, tmp_path: Path) -> None:
    engine.answer((["setup"], 3, "no compiler\n", "", 0))
    with (
        launcher() as found,
        pytest.raises(NothingMeasured, match="set-up of head failed with exit status 3: no compiler"),
    ):
        prepared(found, repository, tmp_path, "make it", lambda: None)


def test_a_set_up_that_takes_too_long_is_ended_by_name(
    engine: Fake, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "SETUP_TIMEOUT_S", 0.5)
    engine.answer((["setup"], 0, "compiling\n", "", 600))
    with launcher() as found, pytest.raises(NothingMeasured, match="set-up of head ran longer"):
        prepared(found, repository, tmp_path, "make it", lambda: None)
    [run] = engine.asked("run", "setup")
    assert ["rm", "--force", run[run.index("--name") + 1]] in engine.asked("rm")


def test_an_interpreter_of_this_machine_is_refused(engine: Fake, repository: Path, tmp_path: Path) -> None:
    with launcher() as found, Sides(repository, tmp_path / "scratch") as sides:
        spec = SideSpec("head", str(repository), python="/usr/bin/python3")
        with pytest.raises(UsageError, match="--head-python: the sandbox has the interpreter of its image alone"):
            found.prepare(sides, sides.check_out(spec), spec, "")


def test_ceilings_are_measured_in_a_container_without_a_side(engine: Fake) -> None:
    engine.answer((["ceilings"], 0, '{"rates": {}}\n', "memory/copy\n", 0))
    with launcher() as found:
        finished = found.run_probes("cuda", "GPU-7", 60)
    assert (finished.status, finished.output) == (0, b'{"rates": {}}\n')
    [run] = engine.asked("run", "ceilings")
    assert run[-5:] == ["-P", "-m", "evenbench.runner.launchers.inside", "ceilings", "cuda"]
    assert "--volume" not in run
    assert "nvidia.com/gpu=GPU-7" in run
    assert run[run.index("--network") + 1] == "none"
