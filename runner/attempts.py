"""One launch of one side, with restarts: a crash or a hang costs the case that made it, and the rest goes on afresh.

What a launch sends is foreign. It becomes a record only through the records' own validation, and only for a case that
was asked for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import ValidationError

from .blame import Trials
from .launch import Message, Session
from .launched import Launched, bounded_facts
from .records import Failure, LaunchEvent, SideName, Writer

TURN_S = 10.0  # a device opens in half a second; one that does not holds up no other GPU
STDERR_KEPT = 2_000  # characters of a dead launch's output in its failure record


class Progress(Protocol):
    """Told what is going on; shows it to whoever waits. `gpu` is the UUID of a launch's GPU, empty without one.

    On several GPUs launches go on at once, a thread each.
    """

    def stage(self, text: str) -> None:
        """A new part of the run began."""

    def launch(self, side: str, text: str, cases: int, gpu: str = "") -> None:
        """A launch of so many cases began; `text` says which."""

    def case(self, case_id: str, gpu: str = "") -> None:
        """A case began."""

    def launch_done(self, seen: Mapping[str, float | str | None], gpu: str = "") -> None:
        """The launch ended, and saw this of the device: its telemetry, empty without a device."""

    def more(self, launches: int) -> None:
        """The run goes on for at most so many launches."""


@dataclass(frozen=True)
class LaunchSpec:
    """What a launch is, apart from its cases."""

    side: SideName
    kind: Literal["preparation", "timed"]
    start: Literal["fork", "plain"]
    round: int | None = None
    rounds: int = 1
    slot: int = 0
    mirrored: bool = False
    in_turn: bool = False  # opens its device while no other that says so does: two at once take a driver longer
    only_texts: bool = False  # a preparation that ends where the cases have told what they generate
    uuid: str = ""
    driver: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return "preparation" if self.round is None else f"round {self.round + 1} of {self.rounds}"


@dataclass
class Recorder:
    """Numbers the launches of a run and writes what comes of them."""

    writer: Writer
    indices: dict[tuple[str, str], int] = field(default_factory=dict)  # (side, case id) → index of its `case` line
    launches: int = 0
    cpu: str = ""  # model of this machine's CPU
    numbering: threading.Lock = field(default_factory=threading.Lock)  # several GPUs launch at once
    opening: threading.Lock = field(default_factory=threading.Lock)  # held by a launch until its device is open

    def begin(self, spec: LaunchSpec, attempt: int, targets: Sequence[Message], machine: Message) -> int:
        """Write the `launch` line and return its number."""
        with self.numbering:
            number = self.launches
            self.launches += 1
        order = [self.indices[spec.side, target["id"]] for target in targets] if spec.kind == "timed" else []
        self.writer.write(
            LaunchEvent(
                launch=number,
                side=spec.side,
                kind=spec.kind,
                round=spec.round,
                slot=spec.slot,
                attempt=attempt,
                start=spec.start,
                order=order,
                device=str(machine.get("device", ""))[:200],
                uuid=str(machine.get("uuid") or spec.uuid)[:200],
                driver=spec.driver,
                mirrored=spec.mirrored,
                instrument=bounded_facts(machine.get("instrument")),
                cpu=self.cpu,
            )
        )
        return number

    def fail(self, number: int, side: SideName, case: str | None, kind: Any, error: str, stderr: str = "") -> None:
        """Write a `failure` line for a case, or for the whole launch."""
        self.writer.write(
            Failure(launch=number, side=side, case=case, kind=kind, error=error[:4_000], stderr=stderr[-STDERR_KEPT:])
        )


class Loss(NamedTuple):
    """Why a launch gave nothing for a case: the kind of its failure, and a line of text."""

    kind: Literal["crashed", "timeout"]
    error: str


def run_targets(
    session: Session,
    recorder: Recorder,
    spec: LaunchSpec,
    job: Message,
    targets: Sequence[Message],
    accept: Callable[[int, Message], None],
    progress: Progress,
) -> dict[str, Loss]:
    """Launch until every target was tried. Returns the cases that no launch finished, and why.

    Args:
        job: the job without its targets.
        targets: one dict a case, in the order of measuring.
        accept: turns a message about a case into a record; raises ValueError for one that is malformed.
    """
    by_id = {target["id"]: target for target in targets}
    trials = Trials(list(by_id))
    lost: dict[str, Loss] = {}
    attempt = 0
    while ids := trials.next():
        asked = {**job, "targets": [by_id[case] for case in ids]}
        outcome = _attempt(session, recorder, spec, attempt, asked, accept, progress)
        given_up = trials.ended(outcome.status, outcome.finished, outcome.culprit, doubtful=outcome.doubtful)
        error = outcome.what_happened(spec.side)
        for case in given_up:
            recorder.fail(outcome.number, spec.side, case, outcome.kind, error, session.output_tail())
            lost[case] = Loss(outcome.kind, error)
        if not given_up and (outcome.status != "ok" or outcome.culprit):  # what it was in is tried again
            recorder.fail(outcome.number, spec.side, None, outcome.kind, error, session.output_tail())
        attempt += 1
    return lost


def _attempt(
    session: Session,
    recorder: Recorder,
    spec: LaunchSpec,
    attempt: int,
    job: Message,
    accept: Callable[[int, Message], None],
    progress: Progress,
) -> Launched:
    targets = job["targets"]
    progress.launch(spec.side, spec.text, len(targets), spec.uuid)
    outcome = Launched([target["id"] for target in targets], time.monotonic_ns())
    turn = contextlib.ExitStack()
    try:
        timeout = max(float(target["timeout_s"]) for target in targets)
        if spec.in_turn and recorder.opening.acquire(timeout=TURN_S):
            turn.callback(recorder.opening.release)
        for message in session.launch(job, fork=spec.start == "fork", timeout_s=timeout):
            turn.close()  # its first message comes once the device is open
            if outcome.number < 0:
                machine = message if message["event"] == "machine" else {}
                outcome.number = recorder.begin(spec, attempt, targets, machine)
            if not outcome.take(message):
                _accept(accept, outcome, recorder, spec, message)
            elif message["event"] == "begin" and outcome.culprit:
                progress.case(outcome.culprit, spec.uuid)
    finally:
        turn.close()
        if outcome.number >= 0:
            recorder.writer.write(outcome.end())
        progress.launch_done(outcome.telemetry, spec.uuid)
    return outcome


def _accept(
    accept: Callable[[int, Message], None], outcome: Launched, recorder: Recorder, spec: LaunchSpec, message: Message
) -> None:
    try:
        if message.get("case", message.get("id")) != outcome.culprit:
            raise ValueError("about a case that is not under way")
        accept(outcome.number, message)
    except (ValueError, KeyError, TypeError) as error:  # pydantic's ValidationError is a ValueError
        text = f"the launch sent a malformed message: {_first_line(error)}"
        recorder.fail(outcome.number, spec.side, outcome.culprit, "crashed", text)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:200]
    return str(error).partition("\n")[0][:200]
