"""The records of a run, their version, writer and strict reader: everything that measuring and judging share.

`header` is fixed before anything is measured; `events` are the lines of results.jsonl, `expectation` one of their parts;
`fields` has the version and every bound. `writer` appends lines; `reader` reads them as hostile bytes.
"""

from __future__ import annotations

from .events import (
    Artifact,
    CaseEvent,
    CeilingsEvent,
    End,
    Event,
    Failure,
    ImplementationRecord,
    Input,
    KernelRecord,
    LaunchEnd,
    LaunchEvent,
    Look,
    Measurement,
    ModuleOrigin,
    ModulesEvent,
    Rejected,
    Resumed,
    SideEvent,
    Skip,
    WorkRecord,
)
from .expectation import ExpectationEvent
from .fields import SCHEMA, SideName
from .header import Harness, Header, JudgeSettings, MuteRecord, PlantRecord, Record, Shard, SideInfo
from .reader import Lines, Reading, parse_event, read
from .writer import Writer, dump

__all__ = [
    "SCHEMA",
    "Artifact",
    "CaseEvent",
    "CeilingsEvent",
    "End",
    "Event",
    "ExpectationEvent",
    "Failure",
    "Harness",
    "Header",
    "ImplementationRecord",
    "Input",
    "JudgeSettings",
    "KernelRecord",
    "LaunchEnd",
    "LaunchEvent",
    "Lines",
    "Look",
    "Measurement",
    "ModuleOrigin",
    "ModulesEvent",
    "MuteRecord",
    "PlantRecord",
    "Reading",
    "Record",
    "Rejected",
    "Resumed",
    "Shard",
    "SideEvent",
    "SideInfo",
    "SideName",
    "Skip",
    "WorkRecord",
    "Writer",
    "dump",
    "parse_event",
    "read",
]
