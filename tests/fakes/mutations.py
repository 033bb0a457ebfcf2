"""Results files as a hostile runner would leave them: whole ones, changed a little, so that many are nearly right."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from evenbench.runner.records import (
    Artifact,
    CeilingsEvent,
    Event,
    LaunchEnd,
    LaunchEvent,
    Look,
    Measurement,
    PlantRecord,
    Rejected,
    Resumed,
    SideInfo,
    Skip,
)
from tests import build
from tests.build import Case

Lines = list[str]
Mutation = Callable[[Lines, Random], Lines]

# Text that stands for a value in a line of JSON: at a bound, past it, of another type, made to hurt, or no JSON at all.
VALUES = (
    *("0", "-0", "-1", "1", "2", "5", "7", "99999", "100000", "1e15", "1000000000000000", "1000000000000001"),
    *("9223372036854775807", "9223372036854775808", "0.5", "1e-320", "1e308", "1e400", "9" * 5_000, "0" * 30),
    *("NaN", "Infinity", "-Infinity", "true", "false", "null", '""', "[]", "{}", "[null]", '{"a":1,"a":2}'),
    *('"base"', '"head"', '"control"', '"main"', '"same"', '"ok"', '"wrong"', '"skipped"', '"failed"', '"timeout"'),
    *('"<!-- evenbench -->"', '"</details>|`@org #1"', '"\\u202e\\u0000\\ud800"', '"a\\nb"', '"' + "x" * 5_000 + '"'),
    *("[" * 300 + "]" * 300, '{"a":' * 40 + "1" + "}" * 40, "[" + "1," * 3_000 + "1]", "nothing", "'"),
)
KEYS = ("event", "launch", "side", "case", "implementation", "round", "device_busy_ns", "index", "extra", "\\u0065vent")
TEXTS = ("", "a", "same", "**", "*[", "tag:x", "!a", "2026-11-29", "9999-12-31", "0001-01-01", "b" * 40, "</details>\n\n|`@a #1",
         "<!-- evenbench -->", "\u202e\x1b[2J\x00", "x" * 1_000, "host", "device-events", "warm", "skipped", "wrong", "cpu")  # fmt: skip
SAMPLES = (0, 1, 2, 31, 32, 20_000, 20_001, 10**9, 10**15)  # in bounds, however odd


def originals() -> tuple[bytes, ...]:
    """Whole files of every kind of run, with every kind of event. Small, so that many can be judged."""
    sides = [SideInfo(name=name, label=name, sha=build.BASE_SHA) for name in ("base", "head", "control")]
    return (
        build.text(_every_event()),
        build.text(build.events([Case("same"), Case("slow", head=21_000.0)], made=6, looks=[6])),
        build.text(
            build.events([Case("a/b[n=1]"), Case("a/c", implementations=("main", "other"))], sides=sides, made=6)
        ),
        build.text(build.events([Case("x", dies={"head": {0: "no", 3: "memory"}})], made=6, end=False)),
        build.text(build.events([Case("p")], made=6, plant=PlantRecord(case="p", fraction=0.05))),
        build.text(build.events([Case("one")], made=2, verb="run", sides=[sides[1]], rounds=2, looks=[2])),
        build.text(build.events([Case("s")], made=6, shard=build.shard(1, 3), confirms="run-0")),
    )


def _every_event() -> list[Event]:
    events = build.events([Case("a"), Case("b", base=None), Case("c", head=25_000.0)], made=6, end=False)
    measured = next(event for event in events if isinstance(event, Measurement))
    odd: Event = measured.model_copy(update={"rejected": [Rejected(index=1, reason="no record")], "retries": ["lost"]})
    events[events.index(measured)] = odd
    first = next(event for event in events if isinstance(event, LaunchEvent))
    again: list[Event] = [first.model_copy(update={"launch": 50, "round": 6}), odd.model_copy(update={"launch": 50})]
    return [
        *events[:3],
        CeilingsEvent(device="NVIDIA H200", uuid="GPU-1", rates={"memory/copy": 4.3e12}),
        *events[3:],
        Artifact(side="head", case="a", name="ptx", status="changed", diff="- mov\n+ add\n"),
        Look(rounds=8, open=[0, 1]),
        Resumed(round=6, at="2026-11-29T12:05:00Z"),
        *again,
        Skip(launch=50, side=first.side, case="c", reason="not now"),
        LaunchEnd(launch=50, status="timeout", telemetry={"sm_clock_mhz": 1_980.0, "throttle_reasons": "power"}),
        build.events([], made=0)[-1],
    ]


def mutated(original: bytes, random: Random) -> bytes:
    """The file with one to four changes; the same for the same state of `random`."""
    lines = original.decode().splitlines(keepends=True)
    for _ in range(random.choice((1, 1, 2, 4))):
        lines = random.choice(OF_LINES)(lines, random) or lines
    content = "".join(lines).encode("utf-8", "surrogatepass")
    return random.choice(OF_BYTES)(content, random) if random.random() < BYTES_TOO else content


BYTES_TOO = 0.2  # of all files; most of these are refused at once


def _another_value(lines: Lines, random: Random) -> Lines:
    """One value of a line, at any depth, is another text."""
    at, record = _picked(lines, random)
    holder, key = random.choice(_places(record))
    holder[key] = HOLE
    return [
        *lines[:at],
        json.dumps(record).replace(json.dumps(HOLE), random.choice(VALUES), 1) + "\n",
        *lines[at + 1 :],
    ]


HOLE = "\N{OBJECT REPLACEMENT CHARACTER}"


def _like_value(lines: Lines, random: Random) -> Lines:
    """One value of a line is another one of its type, which the format may well take."""
    at, record = _picked(lines, random)
    holder, key = random.choice(_places(record))
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int | float):
        holder[key] = random.choice((*SAMPLES, value + 1, -value, value / 3 if isinstance(value, float) else value * 3))
    elif isinstance(value, str):
        holder[key] = random.choice((*TEXTS, value + "x", value[:-1], value.upper()))
    elif isinstance(value, list):
        holder[key] = random.choice(([], value + value, value[:1], value[::-1], value * 400))
    else:
        holder[key] = random.choice(({}, None, {"sm_clock_mhz": 10**300, "x": None}, {"throttle_reasons": "a|b`"}))
    return [*lines[:at], _line(record), *lines[at + 1 :]]


def _another_key(lines: Lines, random: Random) -> Lines:
    """A key is gone, there under another name, or there twice."""
    at, record = _picked(lines, random)
    holders = [holder for holder, _ in _places(record) if isinstance(holder, dict)]
    holder = random.choice(holders)
    key = random.choice(list(holder))
    value = holder.pop(key)
    if random.random() < 1 / 2:
        holder[random.choice(KEYS)] = value
    line = json.dumps(record, separators=random.choice(((",", ":"), (", ", ": "), (" ,", " :"))))
    if random.random() < 1 / 3:
        line = f"{{{json.dumps(key)}:{json.dumps(value)},{line[1:]}"
    return [*lines[:at], line + "\n", *lines[at + 1 :]]


def _value_of_another(lines: Lines, random: Random) -> Lines:
    """A field takes its value from another line that has it."""
    at, record = _picked(lines, random)
    _, other = _picked(lines, random)
    shared = [key for key in record if key in other and key != "event"]
    if shared:
        key = random.choice(shared)
        record[key] = other[key]
    return [*lines[:at], _line(record), *lines[at + 1 :]]


def _odd_samples(lines: Lines, random: Random) -> Lines:
    """Samples of some launches, all within the format: what no clock would tell."""
    share, pool = random.random(), random.sample(SAMPLES, random.randint(1, 3))
    return [_with_samples(line, pool, random) if random.random() < share else line for line in lines]


def _with_samples(line: str, pool: Sequence[int], random: Random) -> str:
    if not line.startswith('{"event":"measurement"'):
        return line
    record = json.loads(line)
    number = random.choice((1, 2, 20))
    record["device_busy_ns"] = [random.choice(pool) for _ in range(number)]
    record["latency_ns"] = random.choice(([], record["device_busy_ns"], [random.choice(SAMPLES)] * number))
    record["n_kernels"] = random.choice((None, [], [1] * number, list(range(number))))
    record["tick_ns"] = random.choice((None, 1, 32, 10**9))
    return _line(record)


def _other_lines(lines: Lines, random: Random) -> Lines:
    """Lines are gone, there twice, or elsewhere."""
    first, second = (random.randrange(len(lines)) for _ in range(2))
    low, high = sorted((first, second))
    changed = list(lines)
    kind = random.randrange(5)
    if kind == 0:
        changed[first], changed[second] = changed[second], changed[first]
    elif kind == 1:
        del changed[first]
    elif kind == 2:
        changed.insert(second, lines[first])
    elif kind == 3:
        del changed[low : min(high, low + 20)]
    else:
        changed = [line for line in lines if random.random() < 0.9]
    return changed


def _rounds_gone(lines: Lines, random: Random) -> Lines:
    """Measurements are lost, as of launches that died."""
    share = random.random()
    return [line for line in lines if not line.startswith('{"event":"measurement"') or random.random() < share]


OF_LINES: Sequence[Mutation] = (
    _another_value,
    _like_value,
    _like_value,
    _another_key,
    _value_of_another,
    _odd_samples,
    _other_lines,
    _rounds_gone,
)


def _flipped(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 30))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def _spliced(content: bytes, random: Random) -> bytes:
    start, length, at = random.randrange(len(content)), random.randrange(1, 500), random.randrange(len(content))
    return content[:at] + content[start : start + length] + content[at + random.choice((0, length)) :]


def _noise(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content))
    return content[:at] + random.randbytes(random.randrange(1, 200)) + content[at:]


OF_BYTES: Sequence[Callable[[bytes, Random], bytes]] = (_flipped, _cut, _spliced, _noise)


def _picked(lines: Lines, random: Random) -> tuple[int, dict[str, Any]]:
    """A line that still is an object, and what it holds. Each kind of event as often, though most are measurements."""
    numbers = list(range(len(lines)))
    random.shuffle(numbers)
    wanted = random.choice(KINDS)
    numbers.sort(key=lambda number: not lines[number].startswith(f'{{"event":"{wanted}"'))
    for number in numbers:
        try:
            record = json.loads(lines[number])
        except ValueError:
            continue
        if isinstance(record, dict) and record:
            return number, record
    return 0, {"event": "end"}


KINDS = ("header", "side", "case", "launch", "measurement", "failure", "launch_end", "skip", "look", "resumed", "end")


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with each key or index in it, depth first."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [*((value, key) for key, _ in pairs), *(place for _, each in pairs[:50] for place in _places(each))]


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
