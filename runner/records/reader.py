"""Read `results.jsonl` as hostile bytes: everything outside the format or its bounds is `UntrustedInput`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from pydantic import TypeAdapter, ValidationError

from ..errors import UntrustedInput
from .events import EVENT_NAMES, CaseEvent, Event, Measurement
from .fields import SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME
from .header import Record

LINE_MAX = 1 << 20  # bytes of one line: 100,000 samples would not fit, ordinary ones take a few thousand
DEPTH_MAX = 16  # our own records nest five deep
EVENTS_MAX = 20_000_000  # lines of one file
MEAN_LINE_MIN = 256  # bytes, where bytes are bounded: real lines take 1,000, and each takes memory however short it is
SCHEMA_PATTERN = re.compile(re.escape(SCHEMA_NAME) + r"/(\d{1,4})\.(\d{1,4})")
KEY_END = re.compile(rb'"\s*:')


class Usual(NamedTuple):
    """A kind of event that files hold many of, none of whose fields takes any value or any key; the records in it."""

    validate_json: Callable[[bytes], Any]
    inner: Callable[[Any], Iterable[Record]]


USUAL: Mapping[bytes, Usual] = MappingProxyType(  # by the start of a line as we write it
    {
        b'{"event":"measurement"': Usual(
            TypeAdapter(Measurement).validator.validate_json, lambda event: (event, *event.kernels, *event.rejected)
        ),
        b'{"event":"case"': Usual(
            TypeAdapter(CaseEvent).validator.validate_json,
            lambda event: (event, *event.inputs, *event.implementations, *([event.work] if event.work else [])),
        ),
    }
)
_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


@dataclass(frozen=True)
class Lines:
    """What `read` found: the events in order, and whether the last line was cut off in the middle."""

    events: list[Event]
    cut: bool

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)


class Reading:
    """The events of a results file, one after the other, of which it keeps none.

    Args:
        stream: the file, opened for reading bytes.
        max_bytes: refuse a larger file (when publishing); None reads on.

    Attributes:
        cut: the last line was cut off in the middle; known once the events have been read.

    Raises:
        UntrustedInput: while they are read, with the number of the line that breaks the format.
    """

    def __init__(self, stream: BinaryIO, *, max_bytes: int | None = None) -> None:
        self._lines = _numbered_lines(stream, max_bytes)
        self.cut = False

    def __iter__(self) -> Iterator[Event]:
        newer = False
        empty = True
        for number, line in self._lines:
            if not line.endswith(b"\n"):
                self.cut = True  # a killed run was writing it: not a record
                break
            try:
                if number == 1:
                    newer = _newer_minor(line)
                event = parse_event(line, newer=newer)
            except UntrustedInput as error:
                raise UntrustedInput(f"line {number}: {error.message}", error.hint) from None
            if (number == 1) != (event is not None and event.event == "header"):
                raise UntrustedInput(f"line {number}: the first line, and only it, must be the header")
            if event is not None:
                empty = False
                yield event
        if empty:
            raise UntrustedInput("no header: the file is empty or its first line was cut off")


def read(stream: BinaryIO, *, max_bytes: int | None = None) -> Lines:
    """All events of a results file at once. Arguments and errors as of `Reading`."""
    reading = Reading(stream, max_bytes=max_bytes)
    return Lines([*reading], reading.cut)


def parse_event(line: bytes | str, *, newer: bool = False) -> Event | None:
    """One line as an event; None for an event of a newer minor version that this reader does not know.

    Raises:
        UntrustedInput: bad JSON, duplicate keys, NaN, infinities, deep nesting, unknown keys, values out of bounds.
    """
    event = _in_one_pass(line) if isinstance(line, bytes) and not newer else None
    return event if event is not None else _closely(line, newer=newer)


def _closely(line: bytes | str, *, newer: bool) -> Event | None:
    """`parse_event`, step by step."""
    value = strict_json(line)
    if newer and isinstance(value, dict) and isinstance(value.get("event"), str) and value["event"] not in EVENT_NAMES:
        return None
    try:
        return _ADAPTER.validate_python(value, extra="ignore" if newer else "forbid", by_alias=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UntrustedInput(printable(f"{place or 'event'}: {first['msg']}"[:500])) from None


def _in_one_pass(line: bytes) -> Event | None:
    """A line of a usual kind, parsed and validated at once; None where `parse_event` must look closer.

    pydantic's own parser takes the last of equal keys, so the keys that arrived are counted against the colons of the
    line, of which each key has one; texts may hold more. All else that `strict_json` refuses, no field lets in.
    """
    usual = USUAL.get(line[: line.find(b",")])
    if usual is None:
        return None
    try:
        event: Event = usual.validate_json(line)
    except ValidationError:
        return None  # `parse_event` tells why
    keys = 0
    for record in usual.inner(event):
        keys += len(record.model_fields_set)
        record.model_fields_set.clear()  # nobody asks for them, and a third of what a large run takes is theirs
    return event if keys == line.count(b":") or keys == len(KEY_END.findall(line)) else None


def _numbered_lines(stream: BinaryIO, max_bytes: int | None) -> Iterator[tuple[int, bytes]]:
    total = 0
    most = EVENTS_MAX if max_bytes is None else min(EVENTS_MAX, max_bytes // MEAN_LINE_MIN + 1)
    for number in range(1, most + 2):
        line = stream.readline(LINE_MAX + 1)
        if not line:
            return
        total += len(line)
        if len(line) > LINE_MAX:
            raise UntrustedInput(f"line {number}: longer than {LINE_MAX} bytes")
        if max_bytes is not None and total > max_bytes:
            raise UntrustedInput(f"larger than {max_bytes} bytes")
        if number > most:
            raise UntrustedInput(f"more than {most} lines")
        yield number, line


def _newer_minor(line: bytes) -> bool:
    value = strict_json(line)
    schema = value.get("schema") if isinstance(value, dict) else None
    match = SCHEMA_PATTERN.fullmatch(schema) if isinstance(schema, str) else None
    if match is None:
        raise UntrustedInput(f"not a results file: its first line must be a header with schema {SCHEMA_NAME}/…")
    if int(match[1]) != SCHEMA_MAJOR:
        raise UntrustedInput(
            f"schema version {match[1]}.{match[2]} is not known to this evenbench, which reads {SCHEMA_MAJOR}.x",
            "use the evenbench version that wrote the file, or one that reads it",
        )
    return int(match[2]) > SCHEMA_MINOR


def strict_json(line: bytes | str) -> Any:
    """One line of JSON. Raises UntrustedInput for what is none, duplicate keys, NaN, infinities, deep nesting."""
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        _check_depth(text)
        return _DECODER.decode(text)
    except UnicodeDecodeError:
        raise UntrustedInput("not UTF-8", "unpack it first if it is compressed") from None
    except (ValueError, RecursionError) as error:  # JSONDecodeError, an integer of thousands of digits
        raise UntrustedInput(printable(f"not JSON: {str(error)[:200]}")) from None


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the JSON parser recurses; brackets inside strings do not count."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    inside = False
    for token in re.finditer(r'\\.|["\[\]{}]', text):
        mark = token[0]
        if mark == '"':
            inside = not inside
        elif not inside and mark in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise UntrustedInput(f"nested deeper than {DEPTH_MAX}")
        elif not inside and mark in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise UntrustedInput("an object has a key twice")
    return result


def _no_constant(name: str) -> Any:
    raise UntrustedInput(f"{name} is not a number here")


def printable(text: str) -> str:
    """Text from a file, fit for a message: what a terminal would obey or hide becomes a replacement character."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
