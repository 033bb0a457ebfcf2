"""The records of a run and their file, `results.jsonl`: one JSON object a line, each with ``event``.

Line 1 is the `Header`; then come sides, cases, launches with their measurements, in the order in which they happened;
the last line of a finished run is `End`. Samples are raw integer nanoseconds: whoever judges computes every median
itself. The reader takes the file for hostile bytes: what breaks the format or a bound is `UntrustedInput`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from .expectation import ExpectationEvent
from .fields import (
    CASES_MAX,
    COUNT_MAX,
    IMPLEMENTATIONS_MAX,
    ITEMS_MAX,
    KERNELS_MAX,
    ROUNDS_MAX,
    SAMPLES_MAX,
    CaseId,
    Count,
    Dimensions,
    FailureKind,
    Finite,
    Hash,
    Index,
    Name,
    Ns,
    Rate,
    RateKey,
    Round,
    Samples,
    ShortName,
    SideName,
    Size,
    Spread,
    Text,
    TimerName,
)
from .header import Header, Record


class SideEvent(Record):
    """A side is ready to launch, or is not, and why."""

    event: Literal["side"] = "side"
    side: SideName
    status: Literal["prepared", "failed"]
    error: Text = ""
    python: Name = ""
    torch: Name = ""
    start: Literal["fork", "plain", ""] = ""
    notes: Annotated[list[Text], Field(max_length=ITEMS_MAX)] = []


class ModuleOrigin(Record):
    """Where one of the project's own top-level modules came from.

    ``path`` is relative to the side's tree or folder where it lies there. ``digest`` is a SHA-256 over the names and
    contents of the ``files`` that were loaded of it.
    """

    name: Name
    path: Name
    version: Name = ""
    files: Annotated[int, Field(ge=1, le=COUNT_MAX)]
    digest: Hash = ""


class ModulesEvent(Record):
    """The project's own modules as the preparation launches of a side loaded them; since version 1.1."""

    event: Literal["modules"] = "modules"
    side: SideName
    modules: Annotated[list[ModuleOrigin], Field(max_length=ITEMS_MAX)]


class Input(Record):
    """Fingerprint of one input: the two sides must agree on it to be compared."""

    name: Name
    shape: Annotated[list[Count], Field(max_length=32)]
    dtype: Name
    sha: Hash


class WorkRecord(Record):
    """The least work of one iteration."""

    dtype: Name
    flops: Count = 0
    bytes_read: Count = 0
    bytes_written: Count = 0
    matrix: bool = False


class ImplementationRecord(Record):
    """One implementation as the preparation launch found it, with the counts that every later launch uses."""

    name: ShortName
    status: Literal["ok", "wrong", "failed", "skipped"]
    reason: Text = ""
    kind: FailureKind | None = None
    samples: Annotated[int, Field(ge=0, le=SAMPLES_MAX)] = 0
    warmup: Annotated[int, Field(ge=0, le=SAMPLES_MAX)] = 0
    batch: Annotated[int, Field(ge=1, le=10**9)] = 1
    cost_ns: Ns = 0
    check: Literal["passed", "unchecked", ""] = ""
    result: Hash = ""
    result_change: Literal["", "differs", "not-finite"] = ""
    """How the result changed from call to call, without a `reset`; since version 1.1."""
    tuning: Text = ""


class CaseEvent(Record):
    """One case of one side as its preparation launch found it; or a file that cannot be imported (then ``id`` is empty)."""

    event: Literal["case"] = "case"
    index: Index
    side: SideName
    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./=,+\[\]-]{0,160}$")] = ""
    file: Name
    line: Annotated[int, Field(ge=0, le=10**7)] = 0
    error: Text = ""
    title: Text = ""
    tags: Annotated[list[Name], Field(max_length=ITEMS_MAX)] = []
    status: Literal["ok", "wrong", "failed", "skipped"] = "ok"
    kind: FailureKind | None = None
    reason: Text = ""
    device: Name = ""
    timer: TimerName | None = None
    fallback: Text = ""
    cache: Literal["cold", "warm"] = "cold"
    timeout_s: Annotated[float, Field(gt=0, le=1e6)] = 120.0
    source: Hash = ""
    inputs: Annotated[list[Input], Field(max_length=ITEMS_MAX)] = []
    work: WorkRecord | None = None
    baseline: ShortName | None = None
    implementations: Annotated[list[ImplementationRecord], Field(max_length=IMPLEMENTATIONS_MAX)] = []
    leaves: Text = ""
    """What of its process it left otherwise than it was; it was undone, or the next case had a process of its own."""


class CeilingsEvent(Record):
    """Peak rates that a device was measured to reach, the machine's own statement; keys as in docs/results.md.

    ``rates`` in operations, bytes or launches a second; ``curve``, bandwidth of a copy over the bytes it moves;
    ``spread``, the median of the repeated peaks and their relative range; ``shapes``, what was launched to reach the
    peak; ``skipped``, why a rate is missing; ``software``, driver, libraries and clocks that the rates hold for.
    """

    event: Literal["ceilings"] = "ceilings"
    device: Name
    uuid: Name
    rates: Annotated[dict[RateKey, Rate], Field(max_length=ITEMS_MAX)]
    curve: Annotated[list[Annotated[tuple[Size, Rate], Field(strict=False)]], Field(max_length=ITEMS_MAX)] = []
    spread: Annotated[
        dict[RateKey, Annotated[tuple[Rate, Spread], Field(strict=False)]], Field(max_length=ITEMS_MAX)
    ] = {}
    shapes: Annotated[dict[RateKey, Text], Field(max_length=ITEMS_MAX)] = {}
    skipped: Annotated[dict[RateKey, Text], Field(max_length=ITEMS_MAX)] = {}
    timing: TimerName | None = None
    software: Annotated[dict[Name, Name], Field(max_length=ITEMS_MAX)] = {}
    at: Name = ""


class LaunchEvent(Record):
    """One fresh process of one side begins. `order` holds indices of `case` lines."""

    event: Literal["launch"] = "launch"
    launch: Annotated[int, Field(ge=0, le=10**6)]
    side: SideName
    kind: Literal["preparation", "timed"]
    round: Round | None = None
    slot: Annotated[int, Field(ge=0, le=10)] = 0
    attempt: Annotated[int, Field(ge=0, le=CASES_MAX)] = 0
    start: Literal["fork", "plain"]
    order: Annotated[list[Index], Field(max_length=CASES_MAX)] = []
    device: Name = ""
    uuid: Name = ""
    mig: Name = ""
    driver: Name = ""
    mirrored: bool = False
    instrument: dict[Name, Finite | Name | None] = {}
    cpu: Name = ""


class KernelRecord(Record):
    """A distinct kernel of a measurement.

    `count` per iteration may vary, so it is the sum over all samples; `median_ns` is of one run of the kernel, 0 where it
    is not known.
    """

    name: Name
    grid: Dimensions = (0, 0, 0)
    block: Dimensions = (0, 0, 0)
    registers: Count = 0
    shared_memory: Count = 0
    code: Hash = ""
    count: Count = 0
    median_ns: Ns = 0


class Rejected(Record):
    """A sample that failed validation: its iteration and why."""

    index: Count
    reason: Text


class Measurement(Record):
    """The samples of one implementation of one case in one launch."""

    event: Literal["measurement"] = "measurement"
    launch: Annotated[int, Field(ge=0, le=10**6)]
    case: CaseId
    implementation: ShortName = "main"
    timing: TimerName
    device_busy_ns: Annotated[Samples, Field(min_length=1)]
    latency_ns: Samples
    n_kernels: Annotated[list[Count], Field(max_length=SAMPLES_MAX)] | None = None
    uncounted_copy_ns: Samples = []
    kernels: Annotated[list[KernelRecord], Field(max_length=KERNELS_MAX)] = []
    tick_ns: Annotated[int, Field(ge=1, le=10**9)] | None = None
    batch: Annotated[int, Field(ge=1, le=10**9)] = 1
    cache: Literal["cold", "warm"]
    stop: Literal["count", "timeout", "precision"]
    coarse: bool = False
    rejected: Annotated[list[Rejected], Field(max_length=ITEMS_MAX)] = []
    retries: Annotated[list[Text], Field(max_length=10)] = []
    check: Literal["passed", "unchecked"] = "unchecked"
    inputs: Hash = ""
    """One hash over the inputs as timed; empty where the case declares none."""
    source: Hash = ""
    wall_ns: Ns = 0

    @model_validator(mode="after")
    def _equal_lengths(self) -> Measurement:
        samples = len(self.device_busy_ns)
        for values in (self.latency_ns, self.n_kernels, self.uncounted_copy_ns):
            if values and len(values) != samples:
                raise ValueError("samples, latencies, kernel counts and copies differ in number")
        return self


class Failure(Record):
    """A case, implementation, or whole launch that gave no number, and why."""

    event: Literal["failure"] = "failure"
    launch: Annotated[int, Field(ge=0, le=10**6)]
    side: SideName
    case: CaseId | None = None
    implementation: ShortName | None = None
    kind: FailureKind
    error: Text
    stderr: Text = ""


class Skip(Record):
    """A case or implementation that was not measured on purpose."""

    event: Literal["skip"] = "skip"
    launch: Annotated[int, Field(ge=0, le=10**6)]
    side: SideName
    case: CaseId
    implementation: ShortName | None = None
    reason: Text


class Artifact(Record):
    """A generated text held against its saved copy; or a stale copy, which no case gives any more.

    A stale one has no ``case``, and as its ``name`` the path in the side's tree.
    """

    event: Literal["artifact"] = "artifact"
    side: SideName
    case: CaseId | Literal[""]
    name: Name
    status: Literal["equal", "changed", "new", "stale"]
    diff: Annotated[str, StringConstraints(max_length=65_536)] = ""

    @model_validator(mode="after")
    def _stale_is_of_no_case(self) -> Artifact:
        if (self.status == "stale") != (self.case == ""):
            raise ValueError("a stale copy is of no case, and any other text of one")
        return self


class LaunchEnd(Record):
    """A launch ended; what was seen of the device meanwhile."""

    event: Literal["launch_end"] = "launch_end"
    launch: Annotated[int, Field(ge=0, le=10**6)]
    status: Literal["ok", "crashed", "timeout", "interrupted"]
    wall_ns: Ns = 0
    first_sample_ns: Ns = 0
    paused_s: Annotated[float, Field(ge=0, le=1e8)] = 0.0
    """How long all stood still, as on a machine that was suspended."""
    telemetry: dict[Name, Finite | Name | None] = {}


class Resumed(Record):
    """The run went on after an interruption; rounds from `round` on are newer than this line."""

    event: Literal["resumed"] = "resumed"
    round: Round
    at: Name


class Look(Record):
    """After so many rounds the rows were judged; the cases `open` (indices of their `case` lines) went on."""

    event: Literal["look"] = "look"
    rounds: Round
    open: Annotated[list[Annotated[int, Field(ge=0, le=10**7)]], Field(max_length=CASES_MAX)]


class End(Record):
    """The run is complete."""

    event: Literal["end"] = "end"
    at: Name
    rounds: Annotated[int, Field(ge=0, le=ROUNDS_MAX)]
    changed: Annotated[list[Text], Field(max_length=3)] = []
    """Sides whose code was edited while it was measured in place, and which files."""
    out_of_budget: bool = False
    """Rows that were still open did not go on for lack of time."""
    preparation_s: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    measuring_s: Annotated[float, Field(ge=0, le=1e9)] = 0.0


Event = Annotated[
    Header
    | SideEvent
    | ModulesEvent
    | CaseEvent
    | CeilingsEvent
    | ExpectationEvent
    | LaunchEvent
    | Measurement
    | Failure
    | Skip
    | Artifact
    | LaunchEnd
    | Look
    | Resumed
    | End,
    Field(discriminator="event"),
]
EVENT_NAMES = frozenset(
    (
        "header",
        "side",
        "modules",
        "case",
        "ceilings",
        "expectation",
        "launch",
        "measurement",
        "failure",
        "skip",
        "artifact",
        "launch_end",
        "look",
        "resumed",
        "end",
    )
)
