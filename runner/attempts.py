"""One launch of one side, with restarts: a crash or a hang costs the case under way, and the rest goes on afresh.

What a launch sends is foreign. It becomes a record only through the records' own validation, and only for a case that
was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import ValidationError

from .launch import Message, Session
from .records import Failure, LaunchEnd, LaunchEvent, SideName, Writer
from .records.fields import NAME_MAX, NS_MAX

STDERR_KEPT = 2_000  # characters of a dead launch's output in its failure record
FACTS_MAX = 50  # of a launch's instrument, or of its device; it sends ten to twenty
NS = 1_000_000_000

Status: TypeAlias = Literal["ok", "crashed", "timeout", "interrupted"]


class Progress(Protocol):
    """Told what is going on; shows it to whoever waits."""

    def stage(self, text: str) -> None:
        """A new part of the run began."""

    def launch(self, side: str, text: str, cases: int) -> None:
        """A launch of so many cases began; `text` says which."""

    def case(self, case_id: str) -> None:
        """A case began."""

    def launch_done(self) -> None:
        """The launch ended."""

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

    def begin(self, spec: LaunchSpec, attempt: int, targets: Sequence[Message], machine: Message) -> int:
        """Write the `launch` line and return its number."""
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
            )
        )
        return number

    def fail(self, number: int, side: SideName, case: str | None, kind: Any, error: str, stderr: str = "") -> None:
        """Write a `failure` line for a case, or for the whole launch."""
        self.writer.write(
            Failure(launch=number, side=side, case=case, kind=kind, error=error[:4_000], stderr=stderr[-STDERR_KEPT:])
        )


def bounded_facts(found: object) -> dict[str, float | str | None]:
    """What a launch says of its instrument or device, as far as a record can hold it: it is foreign."""
    if not isinstance(found, dict):
        return {}
    kept: dict[str, float | str | None] = {}
    for name, value in list(found.items())[:FACTS_MAX]:
        if isinstance(value, str):
            kept[_clean(name)] = _clean(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and -NS_MAX <= value <= NS_MAX:
            kept[_clean(name)] = value
        elif value is None:
            kept[_clean(name)] = None
    return kept


def _clean(text: str) -> str:
    """Bounded, and without the halves of characters that JSON can smuggle in and no file can hold."""
    return text[:NAME_MAX].encode("utf-8", "replace").decode()


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
    remaining = list(targets)
    lost: dict[str, Loss] = {}
    attempt = 0
    while remaining:
        outcome = _attempt(session, recorder, spec, attempt, {**job, "targets": remaining}, accept, progress)
        remaining = [target for target in remaining if target["id"] not in outcome.finished]
        if outcome.ok or not remaining:
            break
        known: set[str] = {target["id"] for target in remaining}
        culprits = known & {outcome.culprit}
        if not culprits and not outcome.finished and attempt > 0:
            culprits = known  # it died twice before any case: so it would again
        error = _what_happened(outcome, spec.side)
        for case in sorted(culprits):
            recorder.fail(outcome.number, spec.side, case, outcome.kind, error, session.output_tail())
        lost |= dict.fromkeys(culprits, Loss(outcome.kind, error))
        remaining = [target for target in remaining if target["id"] not in culprits]
        attempt += 1
    return lost


@dataclass
class _Outcome:
    """How one attempt went."""

    number: int = -1
    finished: set[str] = field(default_factory=set)
    ok: bool = False
    kind: Literal["crashed", "timeout"] = "crashed"
    culprit: str | None = None
    detail: str = ""
    first_sample_ns: int = 0
    telemetry: dict[str, float | str | None] = field(default_factory=dict)

    def end(self, status: Status, wall_ns: int) -> LaunchEnd:
        """The `launch_end` line."""
        return LaunchEnd(
            launch=self.number,
            status=status,
            wall_ns=wall_ns,
            first_sample_ns=self.first_sample_ns,
            telemetry=self.telemetry,
        )


def _attempt(
    session: Session,
    recorder: Recorder,
    spec: LaunchSpec,
    attempt: int,
    job: Message,
    accept: Callable[[int, Message], None],
    progress: Progress,
) -> _Outcome:
    targets = job["targets"]
    progress.launch(spec.side, spec.text, len(targets))
    outcome = _Outcome()
    began = time.monotonic_ns()
    status: Status = "interrupted"
    try:
        timeout = max(float(target["timeout_s"]) for target in targets)
        for message in session.launch(job, fork=spec.start == "fork", timeout_s=timeout):
            event = message["event"]
            if outcome.number < 0:
                outcome.number = recorder.begin(spec, attempt, targets, message if event == "machine" else {})
            if event == "begin":
                outcome.culprit = str(message.get("case"))
                progress.case(outcome.culprit)
            elif event == "finish":
                outcome.finished.add(str(message.get("case")))
                outcome.culprit = None
            elif event == "first_sample":
                outcome.first_sample_ns = _since(began, message)
            elif event == "telemetry":
                outcome.telemetry = bounded_facts(message.get("values"))
            elif event == "exit":
                status = _status(message)
                outcome.detail = str(message.get("detail", ""))
            elif event not in ("machine", "done"):
                _accept(accept, outcome, recorder, spec, message)
    finally:
        if outcome.number >= 0:
            recorder.writer.write(outcome.end(status, time.monotonic_ns() - began))
        progress.launch_done()
    outcome.ok = status == "ok"
    outcome.kind = "timeout" if status == "timeout" else "crashed"
    return outcome


def _accept(
    accept: Callable[[int, Message], None], outcome: _Outcome, recorder: Recorder, spec: LaunchSpec, message: Message
) -> None:
    try:
        accept(outcome.number, message)
    except (ValueError, KeyError, TypeError) as error:  # pydantic's ValidationError is a ValueError
        text = f"the launch sent a malformed message: {_first_line(error)}"
        recorder.fail(outcome.number, spec.side, outcome.culprit, "crashed", text)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:200]
    return str(error).partition("\n")[0][:200]


def _since(began: int, message: Message) -> int:
    """Nanoseconds from the launch's start to a moment that it reports; 0 for a moment that cannot be."""
    at = message.get("at_ns")
    return at - began if isinstance(at, int) and began <= at <= time.monotonic_ns() else 0


def _status(message: Message) -> Status:
    found = message.get("status")
    return found if found in ("ok", "timeout", "interrupted") else "crashed"


def _what_happened(outcome: _Outcome, side: str) -> str:
    if outcome.kind == "timeout":
        return f"{outcome.detail or 'no progress'} on {side} (hint: raise timeout_s if the case may take that long)"
    return f"the launch died on {side}: {outcome.detail or 'no reason given'}"
