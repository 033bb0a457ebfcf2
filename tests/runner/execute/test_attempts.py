"""What a launch says is believed in order only; what it measured before it died is kept, once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenbench.runner.execute import attempts
from evenbench.runner.execute.attempts import Launched, LaunchLoss, LaunchRecorder, LaunchSpec, record_of, run_targets
from evenbench.runner.launchers.launcher import Message
from evenbench.runner.records import CaseEvent, Failure, LaunchEnd, LaunchEvent, Writer, read

SPEC = LaunchSpec(side="head", kind="timed", start="plain", round=0)
QUIET: Any = SimpleNamespace(launch=lambda *_: None, case=lambda *_: None, launch_done=lambda *_: None)


def begin(case: str) -> Message:
    return {"event": "begin", "case": case, "timeout_s": 1.0}


def finish(case: str) -> Message:
    return {"event": "finish", "case": case}


def sample(case: str) -> Message:
    return {"event": "measurement", "case": case}


def end(status: str = "ok", **more: Any) -> Message:
    return {"event": "exit", "status": status, "detail": "killed", "case": None, **more}


class Session:
    """Says what a test has written down, launch by launch, and goes on well after that."""

    def __init__(self, *launches: Sequence[Message]) -> None:
        self.launches = list(launches)
        self.asked: list[str] = []

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        ids = [target["id"] for target in job["targets"]]
        self.asked.append("".join(ids))
        well = [message for case in ids for message in (begin(case), sample(case), finish(case))]
        yield from self.launches.pop(0) if self.launches else [*well, end()]

    def output_tail(self) -> str:
        return "its last words"


def ran(
    tmp_path: Path, *launches: Sequence[Message], cases: str = "abc"
) -> tuple[Session, dict[str, LaunchLoss], list[Any], list[str]]:
    """The session, what was lost, the events of the file, and what was accepted: a launch's number and case each."""
    session: Any = Session(*launches)
    accepted: list[str] = []
    with Writer(tmp_path / "out.jsonl") as writer:
        recorder = LaunchRecorder(writer, {("head", case): index for index, case in enumerate(cases)})
        targets = [{"id": case, "timeout_s": 1.0} for case in cases]
        lost = run_targets(
            session, recorder, SPEC, {}, targets, lambda n, message: accepted.append(f"{n}{message['case']}"), QUIET
        )
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    header = (Path(__file__).parents[2] / "golden" / "results-1.0.jsonl").read_bytes().splitlines(keepends=True)[0]
    (tmp_path / "whole.jsonl").write_bytes(header + b"".join(lines))
    with (tmp_path / "whole.jsonl").open("rb") as file:
        events = read(file).events[1:]
    return session, lost, list(events), accepted


def failures(events: Sequence[Any]) -> list[tuple[int, str | None, str]]:
    return [(each.launch, each.case, each.kind) for each in events if isinstance(each, Failure)]


def test_a_launch_without_faults_is_one(tmp_path: Path) -> None:
    session, lost, events, accepted = ran(tmp_path)
    assert (session.asked, lost, accepted, failures(events)) == (["abc"], {}, ["0a", "0b", "0c"], [])
    assert [type(event) for event in events] == [LaunchEvent, LaunchEnd]


def test_progress_is_told_which_gpu_a_launch_is_on(tmp_path: Path) -> None:
    """Launches on several GPUs go on at once."""
    told: list[tuple[object, ...]] = []
    progress: Any = SimpleNamespace(
        launch=lambda *words: told.append(words),
        case=lambda *words: told.append(words),
        launch_done=lambda *words: told.append(words),
    )
    session: Any = Session()
    with Writer(tmp_path / "out.jsonl") as writer:
        recorder = LaunchRecorder(writer, {("head", "a"): 0})
        targets = [{"id": "a", "timeout_s": 1.0}]
        run_targets(session, recorder, replace(SPEC, uuid="GPU-1"), {}, targets, lambda *_: None, progress)
    assert told == [("head", "round 1 of 1", 1, "GPU-1"), ("a", "GPU-1"), ({}, "GPU-1")]


class Opening(Session):
    """Opens its device with the first message, as long as a test lets it, and counts how many do at once."""

    def __init__(self, may_open: threading.Event, opening: list[int]) -> None:
        super().__init__()
        self.may_open, self.opening = may_open, opening

    def launch(self, job: Message, *, fork: bool, timeout_s: float) -> Iterator[Message]:
        self.opening.append(self.opening[-1] + 1)
        self.may_open.wait(20)
        self.opening.append(self.opening[-1] - 1)
        yield {"event": "machine"}
        yield from super().launch(job, fork=fork, timeout_s=timeout_s)


@pytest.mark.parametrize(("in_turn", "turn_s", "most"), [(True, 20.0, 1), (False, 20.0, 2), (True, 0.01, 2)])
def test_launches_that_go_in_turn_open_their_devices_one_after_the_other(
    in_turn: bool, turn_s: float, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that does not get its open holds up the others for no longer than a turn."""
    monkeypatch.setattr(attempts, "TURN_S", turn_s)
    may_open, opening = threading.Event(), [0]
    with Writer(tmp_path / "out.jsonl") as writer:
        recorder = LaunchRecorder(writer, {("head", "a"): 0})
        spec = replace(SPEC, in_turn=in_turn)
        targets = [{"id": "a", "timeout_s": 1.0}]

        def launched() -> dict[str, LaunchLoss]:
            session: Any = Opening(may_open, opening)
            return run_targets(session, recorder, spec, {}, targets, lambda *_: None, QUIET)

        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(launched) for _ in range(2)]
            deadline = time.monotonic() + (20 if most > 1 else 0.2)
            while max(opening) < 2 and time.monotonic() < deadline:
                time.sleep(0.001)
            may_open.set()
            assert [future.result(30) for future in both] == [{}, {}]
    assert max(opening) == most
    assert not recorder.opening.locked()


def test_a_case_that_dies_after_others_is_tried_alone_and_blamed_if_it_dies_again(tmp_path: Path) -> None:
    died = [begin("a"), sample("a"), finish("a"), begin("b"), end("crashed")]
    session, lost, events, accepted = ran(tmp_path, died, [begin("b"), end("crashed")])
    assert session.asked == ["abc", "b", "c"]
    assert lost == {"b": LaunchLoss("crashed", "the launch died on head: killed")}
    assert failures(events) == [(0, None, "crashed"), (1, "b", "crashed")]
    assert accepted == ["0a", "2c"]
    assert [event.attempt for event in events if isinstance(event, LaunchEvent)] == [0, 1, 2]
    assert {event.stderr for event in events if isinstance(event, Failure)} == {"its last words"}


def test_a_healthy_case_that_met_an_earlier_ones_harm_is_not_blamed(tmp_path: Path) -> None:
    died = [begin("a"), sample("a"), finish("a"), begin("b"), sample("b"), end("crashed")]
    session, lost, events, accepted = ran(tmp_path, died)
    assert (session.asked, lost) == (["abc", "b", "c"], {})
    assert failures(events) == [(0, None, "crashed")]
    assert accepted == ["0a", "0b", "1b", "2c"]


def test_who_dies_with_its_parent_need_not_be_the_one(tmp_path: Path) -> None:
    """The parent's last lines are lost: `a` had long finished."""
    session, lost, *_ = ran(tmp_path, [begin("a"), sample("a"), end("crashed", untold=True)])
    assert (session.asked, lost) == (["abc", "a", "bc"], {})


def test_who_was_killed_from_outside_is_tried_again(tmp_path: Path) -> None:
    """By a system without memory, say, which others may have used up; not twice, nor where it ended by itself."""
    killed = [begin("a"), sample("a"), end("crashed", killed=True)]
    session, lost, events, _ = ran(tmp_path, killed)
    assert (session.asked, lost) == (["abc", "a", "bc"], {})
    assert failures(events) == [(0, None, "crashed")]
    (tmp_path / "out.jsonl").unlink()
    session, lost, *_ = ran(tmp_path, killed, killed)
    assert (session.asked, list(lost)) == (["abc", "a", "bc"], ["a"])
    (tmp_path / "out.jsonl").unlink()
    session, lost, *_ = ran(tmp_path, [begin("a"), sample("a"), end("crashed", killed=False)])
    assert (session.asked, list(lost)) == (["abc", "bc"], ["a"])


def test_who_timed_out_while_all_stood_still_is_tried_again(tmp_path: Path) -> None:
    session, lost, events, _ = ran(tmp_path, [begin("a"), end("timeout", paused_s=60.5)])
    assert (session.asked, lost) == (["abc", "a", "bc"], {})
    assert [event.paused_s for event in events if isinstance(event, LaunchEnd)] == [60.5, 0.0, 0.0]
    (told,) = [event.error for event in events if isinstance(event, Failure)]
    assert told == "the launch stood still for 60 s and died on head: killed"


def test_a_launch_that_left_early_goes_on_afresh_and_nobody_is_blamed(tmp_path: Path) -> None:
    left = [begin("a"), sample("a"), finish("a"), {"event": "done"}, end()]
    session, lost, events, _ = ran(tmp_path, left)
    assert (session.asked, lost, failures(events)) == (["abc", "bc"], {}, [])


@pytest.mark.parametrize(
    "forged",
    [
        [begin("c")],  # not the next
        [finish("c"), finish("b")],
        [{"event": "begin"}, {"event": "finish", "case": ["a"]}],
    ],
)
def test_a_case_cannot_put_itself_into_anothers_place(tmp_path: Path, forged: list[Message]) -> None:
    session, lost, *_ = ran(tmp_path, [begin("a"), *forged, end("crashed")])
    assert session.asked == ["abc", "bc"]
    assert list(lost) == ["a"]


def test_what_is_said_of_a_case_that_is_not_under_way_is_no_record(tmp_path: Path) -> None:
    first = [sample("a"), begin("a"), sample("b"), sample("a"), finish("a"), sample("a"), {"event": "done"}, end()]
    _, _, events, accepted = ran(tmp_path, first, cases="a")
    assert accepted == ["0a"]
    assert failures(events) == [(0, None, "crashed"), (0, "a", "crashed"), (0, None, "crashed")]


@pytest.mark.parametrize("value", [-1, 1e300, float("nan"), "1", None, True])
def test_a_pause_that_cannot_be_is_none(value: object) -> None:
    launched = Launched(["a"], 0)
    launched.take(end(paused_s=value))
    assert launched.paused_s == 0.0
    assert not launched.untold


@pytest.mark.parametrize("event", ["measurement", "failure", "skip"])
def test_a_message_about_a_case_without_implementations_is_malformed(event: str) -> None:
    case = CaseEvent(index=0, side="head", id="a", file="a.py")
    with pytest.raises(ValueError, match="an implementation that was not asked for"):
        record_of("head", 0, {"event": event, "case": "a", "kind": "crashed", "error": "x"}, {"a": case})
