"""What fields of records may hold: the version, the bounds, and the constrained types made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

SCHEMA_NAME = "evenbench.results"
SCHEMA_MAJOR, SCHEMA_MINOR = 1, 1
SCHEMA = f"{SCHEMA_NAME}/{SCHEMA_MAJOR}.{SCHEMA_MINOR}"

# Bounds: wide enough for every real run, narrow enough that a hostile file cannot exhaust who reads it.
CASES_MAX = 100_000  # case lines of one file
ROUNDS_MAX = 1_000  # rounds of one run
SAMPLES_MAX = 100_000  # samples of one measurement
KERNELS_MAX = 1_000  # distinct kernels of one measurement
IMPLEMENTATIONS_MAX = 100  # of one case
LOOKS_MAX = 8  # looks of one plan
RESUMES_MAX = 100  # of one run: a reader looks at each through what was measured before
PLANT_MAX = 1.0  # of a case's time: whether more than twice is found needs no proof
NS_MAX = 10**15  # eleven days: longer than any run
COUNT_MAX = 2**63 - 1  # bytes, flops: what a 64-bit counter holds
TEXT_MAX = 4_096  # an error message
NAME_MAX = 1_024  # a kernel name
ARTIFACTS_MAX = 10_000  # generated texts of one side
ITEMS_MAX = 1_000  # short lists: inputs, notes, retries
RATE_MAX = 1e24  # operations a second: far above any device

ID_REGEX = r"^[A-Za-z0-9_./=,+\[\]-]{1,160}$"
CaseId = Annotated[str, StringConstraints(pattern=ID_REGEX)]
ShortName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./+-]{1,160}$")]
Text = Annotated[str, StringConstraints(max_length=TEXT_MAX)]
Name = Annotated[str, StringConstraints(max_length=NAME_MAX)]
Sha = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{0,64}$")]
Ns = Annotated[int, Field(ge=0, le=NS_MAX)]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Index = Annotated[int, Field(ge=0, lt=CASES_MAX)]
Round = Annotated[int, Field(ge=0, lt=ROUNDS_MAX)]
Samples = Annotated[list[Ns], Field(max_length=SAMPLES_MAX)]
# Strict mode takes no JSON array for a tuple; what is in it stays strict.
Dimensions = Annotated[tuple[Count, Count, Count], Field(strict=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
RateKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+(/[a-z0-9_]+){0,2}$", max_length=80)]
Rate = Annotated[float, Field(gt=0, le=RATE_MAX, allow_inf_nan=False)]
Spread = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=COUNT_MAX)]

SideName = Literal["base", "head", "control"]
TimerName = Literal["cupti", "device-events", "cuda-events", "host"]
FailureKind = Literal[
    "setup",
    "compile",
    "runtime",
    "timeout",
    "crashed",
    "out-of-memory",
    "timer",
    "attribution",
    "records-lost",
    "wrong",
]
