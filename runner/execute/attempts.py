"""One launch of one side, with restarts: a crash or a hang costs the case that made it, and the rest goes on afresh.

What a launch sends is foreign. It becomes a record only through the records' own validation, and only for a case that
was asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import ValidationError

from ..launchers.launcher import Message, Session
from ..records import CaseEvent, Failure, LaunchEnd, LaunchEvent, Measurement, SideName, Skip, Writer
from ..records.fields import NAME_MAX, NS_MAX

TURN_S = 10.0  # a device opens in half a second; one that does not holds up no other GPU
STDERR_KEPT = 2_000  # characters of a dead launch's output in its failure record


PAUSED_MAX_S = 1e8  # three years
FACTS_MAX = 50  # of a launch's instrument, or of its device; it sends ten to twenty
Status: TypeAlias = Literal["ok", "crashed", "timeout", "interrupted"]
TOGETHER_MAX = 2  # launches in a row that die before their first case; then the cases are tried one by one
ALONE_MAX = 3  # that die so by themselves, in a row: then the others would as well


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
class LaunchRecorder:
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


class LaunchLoss(NamedTuple):
    """Why a launch gave nothing for a case: the kind of its failure, and a line of text."""

    kind: Literal["crashed", "timeout"]
    error: str


def run_targets(
    session: Session,
    recorder: LaunchRecorder,
    spec: LaunchSpec,
    job: Message,
    targets: Sequence[Message],
    accept: Callable[[int, Message], None],
    progress: Progress,
) -> dict[str, LaunchLoss]:
    """Launch until every target was tried. Returns the cases that no launch finished, and why.

    Args:
        job: the job without its targets.
        targets: one dict a case, in the order of measuring.
        accept: turns a message about a case into a record; raises ValueError for one that is malformed.
    """
    by_id = {target["id"]: target for target in targets}
    trials = Trials(list(by_id))
    lost: dict[str, LaunchLoss] = {}
    attempt = 0
    while ids := trials.next():
        asked = {**job, "targets": [by_id[case] for case in ids]}
        outcome = _attempt(session, recorder, spec, attempt, asked, accept, progress)
        given_up = trials.ended(outcome.status, outcome.finished, outcome.culprit, doubtful=outcome.doubtful)
        error = outcome.what_happened(spec.side)
        for case in given_up:
            recorder.fail(outcome.number, spec.side, case, outcome.kind, error, session.output_tail())
            lost[case] = LaunchLoss(outcome.kind, error)
        if not given_up and (outcome.status != "ok" or outcome.culprit):  # what it was in is tried again
            recorder.fail(outcome.number, spec.side, None, outcome.kind, error, session.output_tail())
        attempt += 1
    return lost


def _attempt(
    session: Session,
    recorder: LaunchRecorder,
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
    accept: Callable[[int, Message], None],
    outcome: Launched,
    recorder: LaunchRecorder,
    spec: LaunchSpec,
    message: Message,
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


@dataclass
class Launched:
    """How one launch went, as far as what it says can be believed.

    Args:
        order: ids of its cases.
        began_ns: when it was started, of `time.monotonic_ns`.
    """

    order: Sequence[str]
    began_ns: int
    number: int = -1
    finished: list[str] = field(default_factory=list)
    status: Status = "interrupted"
    culprit: str | None = None  # the case under way
    detail: str = ""
    paused_s: float = 0.0
    untold: bool = False  # its warm parent died before it: its last words may be lost
    killed: bool = False  # from outside, as by a system whose memory is used up, perhaps by others
    first_sample_ns: int = 0
    telemetry: dict[str, float | str | None] = field(default_factory=dict)

    @property
    def doubtful(self) -> bool:
        """Whether the case under way need not be what it died of, or in."""
        return self.untold or self.killed or self.paused_s > 0

    @property
    def kind(self) -> Literal["crashed", "timeout"]:
        """Of what it cost."""
        return "timeout" if self.status == "timeout" else "crashed"

    def take(self, message: Message) -> bool:
        """Take note of what concerns the launch itself; false for a message about its cases."""
        match message["event"]:
            case "begin":
                self._begun(message.get("case"))
            case "finish":
                self._ended(message.get("case"))
            case "first_sample":
                self.first_sample_ns = _since(self.began_ns, message)
            case "telemetry":
                self.telemetry = bounded_facts(message.get("values"))
            case "exit":
                self.status = _status(message)
                self.detail = str(message.get("detail", ""))
                self.paused_s = _seconds(message.get("paused_s"))
                self.untold = message.get("untold") is True
                self.killed = message.get("killed") is True
            case event:
                return event in ("machine", "done")
        return True

    def _begun(self, case: object) -> None:
        """Believed of the next case in order: a case may speak for others."""
        done = len(self.finished)
        if self.culprit is None and done < len(self.order) and case == self.order[done]:
            self.culprit = self.order[done]

    def _ended(self, case: object) -> None:
        """Believed of the case under way."""
        if self.culprit is not None and case == self.culprit:
            self.finished.append(self.culprit)
            self.culprit = None

    def end(self) -> LaunchEnd:
        """The `launch_end` line."""
        return LaunchEnd(
            launch=self.number,
            status=self.status,
            wall_ns=time.monotonic_ns() - self.began_ns,
            first_sample_ns=self.first_sample_ns,
            paused_s=self.paused_s,
            telemetry=self.telemetry,
        )

    def what_happened(self, side: str) -> str:
        """Why it gave nothing for a case, in a line."""
        if self.status == "ok":
            return f"its launch ended before it on {side}"
        if self.paused_s:
            return f"the launch stood still for {self.paused_s:.0f} s and died on {side}: {self.detail}"
        if self.kind == "timeout":
            return f"{self.detail or 'no progress'} on {side} (hint: raise timeout_s if the case may take that long)"
        return f"the launch died on {side}: {self.detail or 'no reason given'}"


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


def _since(began: int, message: Message) -> int:
    """Nanoseconds from the launch's start to a moment that it reports; 0 for a moment that cannot be."""
    at = message.get("at_ns")
    return at - began if isinstance(at, int) and began <= at <= time.monotonic_ns() else 0


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= PAUSED_MAX_S else 0.0


def _status(message: Message) -> Status:
    found = message.get("status")
    return found if found in ("ok", "timeout", "interrupted") else "crashed"


class Trials:
    """The cases that are still to be launched.

    Each launch ends with a case finished, given up, or made a suspect, which it is once. Of launches that end with none
    of it there are two in a row at most. So n cases take at most 6 n + 2 launches, and 1 where nothing dies; each that
    dies by itself costs two more.

    Args:
        cases: ids in the order of measuring.
    """

    def __init__(self, cases: Sequence[str]) -> None:
        self._left = list(cases)
        self._suspects: set[str] = set()
        self._alone = False  # the first of those left is tried by itself
        self._silent = 0

    def next(self) -> Sequence[str]:
        """The cases of the next launch, in order; empty when none is left."""
        return tuple(self._left[:1] if self._alone or self._silent >= TOGETHER_MAX else self._left)

    def ended(
        self,
        status: Status,
        finished: Collection[str],
        under_way: str | None,
        *,
        doubtful: bool = False,
    ) -> Sequence[str]:
        """Take note of how that launch ended. Returns the cases that are given up.

        Args:
            status: how it ended; whether it ended well is no matter where a case was under way.
            finished: the cases that it had finished.
            under_way: the case that it was in.
            doubtful: it may have died of something else, such as a machine that was suspended.
        """
        first = self.next()[:1]
        self._alone = False
        done = frozenset(finished)
        self._left = [case for case in self._left if case not in done]
        if finished or under_way in self._left:
            self._silent = 0
            return self._died_in(under_way, doubtful=doubtful or (bool(finished) and status != "timeout"))
        self._silent += 1
        if self._silent <= TOGETHER_MAX:
            return ()
        hopeless = status == "timeout" or self._silent >= TOGETHER_MAX + ALONE_MAX
        return self._give_up(self._left if hopeless else first)

    def _died_in(self, case: str | None, *, doubtful: bool) -> Sequence[str]:
        if case is None or case not in self._left:
            return ()  # it left early, or died between two cases
        if doubtful and case not in self._suspects:
            self._suspects.add(case)
            self._alone = True
            self._left.remove(case)
            self._left.insert(0, case)
            return ()
        return self._give_up([case])

    def _give_up(self, cases: Sequence[str]) -> Sequence[str]:
        given_up = frozenset(cases)
        self._left = [case for case in self._left if case not in given_up]
        return tuple(cases)


def target_of(case: CaseEvent, *, mirrored: bool, precision: float) -> Message:
    """What a launch is asked of a case: of the implementations that worked, the counts that all sides share.

    Args:
        mirrored: whether implementations come in the turned order.
        precision: at which sampling may stop early; 0 for never.
    """
    return {
        "id": case.id,
        "timeout_s": case.timeout_s,
        "timing": case.timer,
        "cache": case.cache,
        "mirrored": mirrored,
        "precision": precision,
        "implementations": {
            one.name: {
                "samples": one.samples,
                "warmup": one.warmup,
                "batch": one.batch,
                "check": one.check or "unchecked",
                "result": one.result,
            }
            for one in case.implementations
            if one.status == "ok"
        },
    }


def record_of(
    side: SideName, launch: int, message: Message, cases: Mapping[str, CaseEvent]
) -> Measurement | Failure | Skip:
    """A launch's message as a record, held against what was asked of it. Raises ValueError for anything else."""
    case = cases.get(str(message.get("case")))
    if case is None:
        raise ValueError("about a case that was not asked for")
    names = {one.name for one in case.implementations}
    if message.get("implementation", next(iter(names), None)) not in names:
        raise ValueError("about an implementation that was not asked for")
    if message["event"] == "measurement":
        inputs = (
            hashlib.sha256(str(message.get("inputs", "")).encode()).hexdigest()[:16] if message.get("inputs") else ""
        )
        record = Measurement.model_validate({**message, "launch": launch, "inputs": inputs})
        if record.timing != case.timer or record.cache != case.cache:
            raise ValueError("timed otherwise than it was prepared")
        return record
    fields: dict[str, Any] = {**message, "launch": launch, "side": side}
    if message["event"] == "failure":
        return Failure.model_validate(fields)
    if message["event"] == "skip":
        return Skip.model_validate(fields)
    raise ValueError(f"of unknown kind {message['event']!r}")
