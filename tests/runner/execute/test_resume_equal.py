"""A run that was interrupted anywhere and taken up again gives the verdicts of one that was not, on equal data.

Sessions stand in for processes: what they measure depends on side, round and case alone. The driver, its file and the
judge are the real ones.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbench.reports.compare.compare import compare
from evenbench.reports.compare.open_cases import open_cases
from evenbench.reports.load.results import load_files
from evenbench.reports.render.data.json import as_json
from evenbench.runner.config import parse, resolve
from evenbench.runner.execute import preparation, rounds
from evenbench.runner.execute.attempts import LaunchSpec, run_targets
from evenbench.runner.execute.chains import Chain
from evenbench.runner.execute.execute import end_of, execute
from evenbench.runner.execute.resume import _whole_rounds, cut_to_header, take_up
from evenbench.runner.execute.rounds import Run
from evenbench.runner.launchers.launcher import Message
from evenbench.runner.machine.gpus import Gpu
from evenbench.runner.plan.plan import Plan
from evenbench.runner.plan.selection import Crew
from evenbench.runner.records import Header, LaunchEvent, Look, SideName, Writer
from evenbench.runner.sides import Checkout, Side
from tests import build

DAY = date(2026, 11, 30)
SUITES = "version: 1\ndefaults: {rounds: 6, max_rounds: 12, cache: warm, ceilings: false}\n"
SETTINGS = resolve(parse(SUITES, "suites.yaml"), None)
SLOWER: Mapping[str, float] = {"x/same": 1.0, "x/slower": 1.1, "x/dies": 1.0, "y/noisy": 1.01}
SPREAD: Mapping[str, float] = {"x/same": 0.001, "x/slower": 0.001, "x/dies": 0.001, "y/noisy": 0.05}
SIDES: Sequence[SideName] = ("base", "head")
GPUS = ("GPU-0", "GPU-1")


class Shown:
    """Told what is going on, as whoever waits is; knows so which round it is on each GPU."""

    def __init__(self) -> None:
        self.rounds = dict.fromkeys(("", *GPUS), 0)

    def launch(self, side: str, text: str, cases: int, gpu: str = "") -> None:
        if text.startswith("round "):
            self.rounds[gpu] = int(text.split()[1]) - 1

    def stage(self, text: str) -> None:
        pass

    def case(self, case_id: str, gpu: str = "") -> None:
        pass

    def launch_done(self, seen: object, gpu: str = "") -> None:
        pass

    def more(self, launches: int) -> None:
        pass


class Session:
    """What a side's processes would say."""

    def __init__(self, side: SideName, shown: Shown, gpu: str) -> None:
        self._side, self._shown, self._gpu = side, shown, gpu
        self._died = False

    def warm(self, preload: Sequence[str]) -> Message:
        return {"event": "warm", "torch": "2", "error": "", "touched": False}

    def abandon(self) -> None:
        pass

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        if job["kind"] == "discover":
            for case in SLOWER:
                common = {"event": "point", "file": "x.py", "line": 1, "on_cpu": not self._gpu, "source": "0"}
                yield common | {"id": case}
        for target in job.get("targets", ()):
            case = target["id"]
            yield {"event": "begin", "case": case, "timeout_s": 1.0}
            if job["kind"] == "prepare":
                one = {"name": "main", "status": "ok", "cost_ns": 10**6, "batch": 1, "check": "passed", "result": "0"}
                yield {
                    "event": "case", "id": case, "device": "cpu", "timer": "host", "fallback": "", "cache": "warm",
                    "status": "ok", "inputs": [], "work": None, "baseline": None, "implementations": [one],
                }  # fmt: skip
            elif case == "x/dies" and self._shown.rounds[self._gpu] == 2 and self._side == "head" and not self._died:
                self._died = True  # the others of this round are measured in further launches
                yield {"event": "exit", "status": "crashed", "detail": "killed", "case": case}
                return
            else:
                yield self._measured(case, target)
            yield {"event": "finish", "case": case}
        yield {"event": "exit", "status": "ok", "detail": "", "case": None}

    def _measured(self, case: str, target: Message) -> Message:
        source = random.Random(f"{self._side}{self._shown.rounds[self._gpu]}{case}")
        middle = 50_000 * source.gauss(SLOWER[case] if self._side == "head" else 1.0, SPREAD[case])
        samples = [max(1, int(source.gauss(middle, 50))) for _ in range(target["implementations"]["main"]["samples"])]
        return {
            "event": "measurement", "case": case, "implementation": "main", "timing": "host", "cache": "warm",
            "device_busy_ns": samples, "latency_ns": samples, "stop": "count", "check": "passed", "source": "0",
        }  # fmt: skip

    def output_tail(self) -> str:
        return ""


def header() -> Header:
    return build.header(seed=3, rounds=6, looks=list(SETTINGS.looks), suite=SETTINGS.suite, settings=SETTINGS.as_dict())


def crew(name: SideName, shown: Shown, gpu: str) -> Crew:
    root = Path("/side")
    side = Side(name, Checkout(name, root, "", False, "", "directory", "x"), root, root, MappingProxyType({}), root)
    session: Any = Session(name, shown, gpu)
    return Crew(side, session, "/side/cases")


def measure(path: Path, gpus: Sequence[str], *, resume: bool) -> None:
    """What `evenbench.runner.execute.measuring` does between its sides and the file's last line; on the host where there is no GPU."""
    with Writer(path, resume=resume) as writer:
        taken = None
        if resume:
            writer.cut_unfinished_line()
            _, taken = take_up(path, header(), None)
            if taken is None:
                cut_to_header(path)
        else:
            writer.write(header())
        shown = Shown()
        plan = Plan(tuple(SIDES), 3, 6)
        found: list[Gpu | None] = [Gpu(uuid, "H200", "580") for uuid in gpus] or [None]
        run = Run("compare", plan, SETTINGS, SETTINGS.looks, (), (), found[0], taken)
        chains = [Chain(gpu, [crew(name, shown, gpu.uuid if gpu else "") for name in SIDES]) for gpu in found]
        outcome = execute(run, chains, writer, shown, lambda: open_cases(load_files([path]), DAY))
        writer.write(end_of(outcome))


def rows(path: Path) -> list[dict[str, Any]]:
    """All that is published of them."""
    return list(as_json(compare(load_files([path]), DAY))["rows"])


@pytest.fixture(scope="module", params=[(), GPUS], ids=["host", "two GPUs"])
def gpus(request: pytest.FixtureRequest) -> Sequence[str]:
    return tuple(request.param)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, gpus: Sequence[str]) -> Path:
    path = tmp_path_factory.mktemp("whole") / "out.jsonl"
    measure(path, gpus, resume=False)
    return path


def test_launches_that_begin_together_open_their_devices_in_turn(
    tmp_path: Path, gpus: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[LaunchSpec] = []

    def watched(session: Any, recorder: Any, spec: LaunchSpec, *rest: Any) -> Any:
        specs.append(spec)
        return run_targets(session, recorder, spec, *rest)

    for module in (rounds, preparation):
        monkeypatch.setattr(module, "run_targets", watched)
    measure(tmp_path / "out.jsonl", gpus, resume=False)
    in_turn = {(spec.kind, spec.round) for spec in specs if spec.in_turn}
    assert in_turn == {("preparation", None), ("timed", 0), ("timed", 6)}  # after a look, too
    assert {spec.round for spec in specs if not spec.in_turn} == {1, 2, 3, 4, 5, 7, 8, 9, 10, 11}


@pytest.mark.parametrize(
    ("begun", "looks", "whole"),
    [
        ({"GPU-0": 3}, [], 3),  # the last round begun is made again
        ({"GPU-0": 0}, [], 0),
        ({"GPU-0": 3, "GPU-1": 3}, [], 2),  # the other may have been a round behind
        ({"GPU-0": 0, "GPU-1": 0}, [], 0),
        ({"GPU-0": 6, "GPU-1": 5}, [6], 6),  # at a look all had made all
    ],
)
def test_rounds_are_whole_when_all_gpus_have_made_them(
    begun: Mapping[str, int], looks: Sequence[int], whole: int
) -> None:
    launches = [
        LaunchEvent(launch=0, side="base", kind="timed", start="fork", round=number, uuid=uuid)
        for uuid, last in begun.items()
        for number in range(last + 1)
    ]
    assert _whole_rounds(launches, [Look(rounds=each, open=[]) for each in looks]) == whole


def test_the_time_of_an_interrupted_part_counts(tmp_path: Path, whole: Path, gpus: Sequence[str]) -> None:
    """On several GPUs that of the one which took longest."""
    events = [json.loads(line) for line in whole.read_text(encoding="utf-8").splitlines()]
    launches = [event for event in events if event["event"] == "launch" and event["kind"] == "timed"]
    timed = {event["launch"] for event in launches}
    longest = max(Counter(event["uuid"] for event in launches).values())
    for event in events:
        if event["event"] == "launch_end":
            event["wall_ns"] = 1_000_000_000 if event["launch"] in timed else 10**12
    path = tmp_path / "out.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events[:-1]), encoding="utf-8")
    _, taken = take_up(path, header(), None)
    assert taken is not None
    assert taken.measuring_s == pytest.approx(longest)
    measure(path, gpus, resume=True)
    assert longest <= load_files([path]).ends[0].measuring_s < longest + 60


def test_the_run_has_all_kinds_of_rows(whole: Path, gpus: Sequence[str]) -> None:
    found = {row["case"]: (row["verdict"], row["rounds"]) for row in rows(whole)}
    assert found["x/same"] == ("unchanged", 6)
    assert found["x/slower"][0] == "regressed"
    assert found["y/noisy"] == ("inconclusive", 12)  # and so the looks are part of it
    # On its GPU it is the first of the launch that dies, so it is not tried again and loses a round.
    assert found["x/dies"] == (("inconclusive", 11) if gpus else ("unchanged", 6))


@pytest.fixture(scope="module")
def resumed(
    tmp_path_factory: pytest.TempPathFactory, whole: Path, gpus: Sequence[str]
) -> Callable[[Sequence[float]], list[dict[str, Any]]]:
    """The rows of the run, cut off at shares of its length and taken up again, once after the other."""
    folder = tmp_path_factory.mktemp("resumed")

    def cut(shares: Sequence[float]) -> list[dict[str, Any]]:
        path = folder / "out.jsonl"
        path.write_bytes(whole.read_bytes())
        for share in shares:
            data = path.read_bytes()
            least = data.index(b"\n") + 1  # without a header there is no run
            path.write_bytes(data[: least + int(share * (len(data.rstrip()) - least))])
            measure(path, gpus, resume=True)
        return rows(path)

    return cut


@settings(max_examples=20)
@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=2))
def test_resumed_and_uninterrupted_runs_give_equal_rows(
    resumed: Callable[[Sequence[float]], list[dict[str, Any]]], whole: Path, shares: list[float]
) -> None:
    assert resumed(shares) == rows(whole)
