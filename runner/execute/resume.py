"""Take up an interrupted run: what its file holds, and whether this run is still the same one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ..errors import UntrustedInput, UsageError
from ..records import CaseEvent, End, Header, LaunchEnd, LaunchEvent, Look, Measurement, Reading, Resumed, SideInfo
from ..records.fields import RESUMES_MAX
from .chains import ROUNDS_AHEAD
from .rounds import Taken

# What must be equal for the rounds of one run to be compared with those of another.
SAME = (
    "verb",
    "sides",
    "harness",
    "image",
    "suite",
    "patterns",
    "cases_from",
    "rounds",
    "looks",
    "shard",
    "plant",
    "confirms",
    "judge",
    "settings",
)


def take_up(path: Path, wanted: Header, seed: int | None) -> tuple[Header, Taken | None]:
    """The header of the interrupted run, and what it had done; None when it had not begun to measure.

    Args:
        path: its results file.
        wanted: the header of the run as asked for now. Its seed, id and start are the interrupted run's in any case.
        seed: what was asked for in so many words; None where nothing was.

    Raises:
        UsageError: no such file, the run is complete, was resumed too often, or differs from what is asked for now.
        UntrustedInput: the file is broken before its last line.
    """
    try:
        with path.open("rb") as file:
            events = [event for event in Reading(file) if not isinstance(event, Measurement)]  # which are nearly all
    except UntrustedInput as error:
        raise UsageError(f"--resume: {path}: {error.message}", "begin anew with another --output") from None
    except OSError as error:
        raise UsageError(
            f"--resume: {path} cannot be read: {error.strerror}", "leave --resume out to begin anew"
        ) from None
    header = events[0]
    assert isinstance(header, Header)  # noqa: S101 - the reader sees to it
    if any(isinstance(event, End) for event in events):
        raise UsageError(f"--resume: the run in {path} is complete", "evenbench report shows it")
    for name in SAME:
        then, now = getattr(header, name), getattr(wanted, name)
        if then != now:
            raise UsageError(f"--resume: {_difference(name, then, now)}", "begin anew with another --output")
    if seed is not None and seed != header.seed:
        raise UsageError(
            f"--resume: seed was {header.seed}, and is {seed} now", "leave --seed out to go on with that run"
        )
    cases = [event for event in events if isinstance(event, CaseEvent)]
    launches = [event for event in events if isinstance(event, LaunchEvent)]
    if not any(launch.kind == "timed" for launch in launches):
        return header, None
    if sum(isinstance(event, Resumed) for event in events) >= RESUMES_MAX:  # no report would take one more
        raise UsageError(
            f"--resume: the run in {path} was resumed {RESUMES_MAX} times",
            "evenbench report shows what it has; begin anew with another --output",
        )
    ids = {event.index: event.id for event in cases}
    ran = {ids[index]: launch.uuid for launch in launches for index in launch.order if launch.uuid and index in ids}
    looks = [event for event in events if isinstance(event, Look)]
    return header, Taken(
        cases,
        _whole_rounds(launches, looks),
        1 + max(launch.launch for launch in launches),  # a lower number may be missing: several GPUs write at once
        {look.rounds: [ids[i] for i in look.open if i in ids] for look in looks},
        ran,
        _measuring_s(launches, [event for event in events if isinstance(event, LaunchEnd)]),
    )


def _whole_rounds(launches: Sequence[LaunchEvent], looks: Sequence[Look]) -> int:
    """How many rounds are whole on every GPU: the last one begun is made again, on several with those they may be ahead.

    At a look all were whole.
    """
    begun = max(launch.round for launch in launches if launch.round is not None)
    ahead = ROUNDS_AHEAD if len({launch.uuid for launch in launches}) > 1 else 0
    return max(begun - ahead, 0, *(look.rounds for look in looks))


def _measuring_s(launches: Sequence[LaunchEvent], ends: Sequence[LaunchEnd]) -> float:
    """Seconds that timed launches took: those of the busiest GPU, since several work at once."""
    gpus = {launch.launch: launch.uuid for launch in launches if launch.kind == "timed"}
    took = dict.fromkeys(gpus.values(), 0.0)
    for end in ends:
        if end.launch in gpus:
            took[gpus[end.launch]] += end.wall_ns * 1e-9
    return max(took.values(), default=0.0)


def same_gpus(path: Path, uuids: Collection[str]) -> None:
    """Refuse to go on without a GPU of the interrupted run.

    Raises:
        UsageError: naming both.
    """
    with path.open("rb") as file:
        used = {event.uuid for event in Reading(file) if isinstance(event, LaunchEvent) and event.uuid}
    if used - set(uuids):
        now = f"this one is {', '.join(sorted(uuids)) or 'none'}"
        raise UsageError(
            f"--resume: the run was made on GPU {', '.join(sorted(used))}, {now}",
            "begin anew with another --output, or choose the same with --gpu or --gpus",
        )


def cut_to_header(path: Path) -> None:
    """Drop everything but the header: nothing was measured, so nothing is lost."""
    with path.open("rb+") as file:
        file.readline()
        file.truncate(file.tell())


def _difference(name: str, then: object, now: object) -> str:
    """One line that says what is not the same any more."""
    if isinstance(then, Sequence) and isinstance(now, Sequence) and not isinstance(then, str) and len(then) == len(now):
        pairs = [(a, b) for a, b in zip(then, now, strict=True) if a != b]
        then, now = pairs[0]
    while isinstance(then, dict) and isinstance(now, dict):
        key = next(key for key in {**then, **now} if then.get(key) != now.get(key))
        name, then, now = f"{name}.{key}", then.get(key), now.get(key)
    return f"{name} was {_short(then)}, and is {_short(now)} now"


def _short(value: object) -> str:
    if isinstance(value, SideInfo):
        state = f"{value.sha[:12]}{' with changes' if value.dirty else ''} {value.tree[:12]}".strip()
        return f"{value.name} at {state}"
    return str(value)[:200]
