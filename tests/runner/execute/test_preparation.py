"""From what a side's process says to the cases that are measured: its messages are foreign."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from evenbench.runner.config import Config, RunSettings, resolve
from evenbench.runner.errors import CaseError, NothingMeasured, UsageError
from evenbench.runner.execute.attempts import LaunchRecorder, LaunchSpec
from evenbench.runner.execute.preparation import fix_counts, prepare
from evenbench.runner.launchers.launcher import Message
from evenbench.runner.plan.plan import Plan
from evenbench.runner.plan.selection import (
    Broken,
    Crew,
    DiscoveredCase,
    SideCases,
    choose,
    discover,
    may_hold,
    refuse_broken,
    unmatched,
)
from evenbench.runner.records import CaseEvent, ImplementationRecord, SideName, Writer
from evenbench.runner.sides import Checkout, Side

PLAN = Plan(("base", "head"), seed=1, rounds=6)
DIED = {"event": "exit", "status": "crashed", "detail": "exit status 3", "case": None}
WELL = {"event": "exit", "status": "ok", "detail": "", "case": None}


class Session:
    """Answers one launch after the other with prepared messages, and keeps what was asked."""

    def __init__(self, *launches: Sequence[Message]) -> None:
        self.launches = list(launches)
        self.jobs: list[Message] = []

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        self.jobs.append(job)
        yield from self.launches.pop(0)

    def warm(self, preload: Sequence[str]) -> Message:
        raise AssertionError

    def output_tail(self) -> str:
        return ""

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        raise AssertionError


def crew(session: Session) -> Crew:
    root = Path("/side")
    side = Side("head", Checkout("head", root, "", False, "", "directory", "x"), root, root, MappingProxyType({}), root)
    return Crew(side, session, "/side/cases")


def point(case_id: str = "a/b", **more: Any) -> Message:
    return {"event": "point", "id": case_id, "file": "a.py", "line": 1, "on_cpu": True, "source": "0", **more}


def found(*ids: str, broken: Sequence[Broken] = ()) -> SideCases:
    return SideCases({case_id: DiscoveredCase.model_validate(point(case_id)) for case_id in ids}, broken)


def settings(**keys: Any) -> RunSettings:
    return resolve(Config.default(), None, keys)


def test_cases_and_broken_files_are_found() -> None:
    broken = {"event": "broken", "file": "b.py", "error": "b.py:1: ImportError"}
    seen = discover(crew(Session([point(), broken, {"event": "done"}, WELL])))
    assert list(seen.points) == ["a/b"]
    assert [each.file for each in seen.broken] == ["b.py"]
    assert seen.deadly == []


def test_a_deadly_file_is_named_and_left_out_of_the_next_launch() -> None:
    begun = {"event": "begin", "case": "killer.py", "timeout_s": 1}
    session = Session([begun, DIED], [point(), WELL])
    seen = discover(crew(session))
    assert [job["without"] for job in session.jobs] == [[], ["killer.py"]]
    assert list(seen.points) == ["a/b"]
    assert [each.error for each in seen.broken] == ["killer.py: its import ended the process: exit status 3"]
    assert seen.deadly == ["killer.py"]


def test_discovery_that_dies_without_a_reason_died_all_the_same() -> None:
    silent = {"event": "exit", "status": "crashed", "detail": "", "case": None}
    (broken,) = discover(crew(Session([silent]))).broken
    assert broken.error == "its import ended the process: no reason given"


def test_discovery_that_dies_before_any_file_is_not_tried_for_ever() -> None:
    seen = discover(crew(Session([DIED])))
    assert [each.error for each in seen.broken] == ["its import ended the process: exit status 3"]


@pytest.mark.parametrize(
    "message",
    [
        point("a b"),
        point("x" * 161),
        point(line="first"),
        point(extra=1),
        {"event": "point"},
        {"event": "broken", "file": 3, "error": "x"},
    ],
)
def test_a_malformed_message_costs_itself(message: Message) -> None:
    seen = discover(crew(Session([message, point(), WELL])))
    assert list(seen.points) == ["a/b"]
    assert "malformed" in seen.broken[0].error


def test_too_many_cases_are_refused_not_cut_off() -> None:
    many = [point(f"a/{number}") for number in range(20_001)]
    with pytest.raises(UsageError, match="more than 20000 cases"):
        discover(crew(Session([*many, WELL])))


def test_patterns_narrow_the_suite() -> None:
    sides: dict[SideName, SideCases] = {"base": found("a/b", "a/c"), "head": found("a/b", "a/d")}
    assert choose(sides, settings(), ["a/b"], PLAN) == {"base": ["a/b"], "head": ["a/b"]}
    assert choose(sides, settings(), [], PLAN) == {"base": ["a/b", "a/c"], "head": ["a/b", "a/d"]}
    assert unmatched(sides, ["a/b", "z/*"]) == ["z/*"]


def test_what_selects_nothing_says_whether_another_suite_would() -> None:
    sides: dict[SideName, SideCases] = {"head": found("a/b", "c/d")}
    with pytest.raises(UsageError, match=r"z/\*: selects none of 2 cases"):
        choose(sides, settings(), ["z/*"], PLAN)
    with pytest.raises(UsageError, match=r"c/\*: selects none of the cases of suite 'full', but 1 outside it"):
        choose(sides, settings(include=("a/*",)), ["c/*"], PLAN)


def test_sides_without_a_common_case() -> None:
    sides: dict[SideName, SideCases] = {"base": found("a/b"), "head": found("c/d")}
    with pytest.raises(NothingMeasured, match="no case in common: base has a/b, head has c/d"):
        choose(sides, settings(), [], PLAN)
    why = Broken(event="broken", file="x.py", error="x.py:1: ImportError")
    sides["head"] = found("c/d", broken=[why])
    assert choose(sides, settings(), [], PLAN) == {"base": ["a/b"], "head": ["c/d"]}  # the table says why


def test_shards_take_each_case_once() -> None:
    sides: dict[SideName, SideCases] = {"base": found(*(f"a/{n}" for n in range(40)))}
    taken = [choose(sides, settings(), [], Plan(("base",), 7, 6, (index, 3)))["base"] for index in range(3)]
    assert sorted(itertools.chain.from_iterable(taken)) == sorted(sides["base"].points)
    assert all(taken)


def test_only_what_no_side_can_import_is_hopeless() -> None:
    broken = Broken(event="broken", file="x.py", error="x.py:1: ImportError")
    sides: dict[SideName, SideCases] = {"base": found("a/b", broken=[broken]), "head": found("a/b")}
    assert refuse_broken(sides, []) == []
    sides["head"] = found("a/b", broken=[broken])
    assert refuse_broken(sides, []) == ["x.py:1: ImportError"]
    with pytest.raises(CaseError, match=r"no case file can be imported: x\.py:1: ImportError"):
        refuse_broken({"head": found(broken=[broken])}, [])


@pytest.mark.parametrize(
    ("file", "patterns", "held"),
    [
        ("ops/gemm.py", ["host/**"], False),
        ("ops/gemm.py", ["ops/*"], True),
        ("ops/gemm.py", ["**"], True),
        ("ops/gemm.py", ["tag:pr"], True),
        ("ops/gemm.py", [], True),
        ("gemm.py", ["host/**"], True),
        ("ops/gemm.py", ["host/**", "ops/add"], True),
    ],
)
def test_a_broken_file_counts_where_its_folder_may_hold_what_is_wanted(
    file: str, patterns: list[str], held: bool
) -> None:
    assert may_hold(file, patterns) is held


def prepared(side: SideName, **batches: int) -> dict[str, CaseEvent]:
    made = [
        ImplementationRecord(name=name, status="ok", batch=batch, cost_ns=10_000_000) for name, batch in batches.items()
    ]
    return {"a/b": CaseEvent(index=0, side=side, id="a/b", file="a.py", implementations=made)}


def test_no_side_is_batched_where_one_needs_a_reset() -> None:
    sides: dict[SideName, SideCases] = {"base": found("a/b"), "head": found("a/b")}
    events = fix_counts(
        {"base": prepared("base", main=19), "head": prepared("head", main=1)}, sides, settings(), verb="compare"
    )
    assert [event.implementations[0].batch for event in events] == [1, 1]
    assert [event.index for event in events] == [0, 1]


def test_implementations_of_a_case_are_batched_alike() -> None:
    sides: dict[SideName, SideCases] = {"head": found("a/b")}
    [event] = fix_counts({"head": prepared("head", pure=30, in_place=1)}, sides, settings(), verb="run")
    assert [one.batch for one in event.implementations] == [1, 1]


def test_both_sides_draw_by_the_larger_cost() -> None:
    sides: dict[SideName, SideCases] = {"base": found("a/b"), "head": found("a/b")}
    slow = {"a/b": prepared("head", main=1)["a/b"].model_copy(deep=True)}
    events = fix_counts({"base": prepared("base", main=1), "head": slow}, sides, settings(), verb="compare")
    assert len({event.implementations[0].samples for event in events}) == 1


@pytest.mark.parametrize("text", ["longer", 3, None])
def test_a_case_whose_text_is_not_kept_fails(text: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its saved copy would look like one that no case gives any more, and be removed."""
    monkeypatch.setattr("evenbench.runner.artifacts.texts.ALL_TEXTS_MAX", 6)
    launch = [
        message
        for case_id, given in {"a/a": "short", "a/b": text}.items()
        for message in (
            {"event": "begin", "case": case_id},
            {"event": "artifact", "case": case_id, "name": f"{case_id[2:]}.cu", "text": given},
            {"event": "case", "id": case_id, "status": "ok", "device": "cpu"},
            {"event": "finish", "case": case_id},
        )
    ]
    side = crew(Session([{"event": "machine"}, *launch, WELL]))
    quiet: Any = SimpleNamespace(launch=lambda *_: None, case=lambda *_: None, launch_done=lambda *_: None)
    spec = LaunchSpec(side="head", kind="preparation", start="plain", only_texts=True)
    with Writer(tmp_path / "out.jsonl") as writer:
        events = prepare(side, found("a/a", "a/b"), ["a/a", "a/b"], settings(), LaunchRecorder(writer), spec, quiet)
    assert [(each.status, each.kind) for each in events.values()] == [("ok", None), ("failed", "setup")]
    assert (events["a/b"].reason or "").startswith("artifact 'b.cu' is ")
    assert [each.name for each in side.texts] == ["a.cu"]
