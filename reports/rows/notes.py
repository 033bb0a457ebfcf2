"""What helps a reader to judge a row: kernels, changed sources, tuning, modes, clocks. Pure; may quote foreign text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from evenbench.runner.records import SideName

from ..load.results import Launch, Placed
from ..units import count
from .outcome import Verdict, distinct
from .roofline import too_fast
from .side_row import SideRow
from .times import Times

KERNEL_NAME_MAX = 60  # of a kernel's name in a note; templated ones run to a thousand characters
CLOCK_KEY = "sm_clock_mhz"  # of a launch's telemetry: the median SM clock while it ran
THROTTLE_KEY = "throttle_reasons"  # of a launch's telemetry: clock-event reasons seen, as text, empty for none
CLOCK_DIFFERENCE = 0.01  # sides whose median clocks differ by more did not run on the same device state
MODE_GAP = (
    3.0  # a gap of this many times the wider cluster's range is a second mode; of 8 normal rounds 1 in 400 has one
)
MODE_MIN_GAP = 0.005  # and at least this change: smaller modes move no verdict
MODE_MIN_LAUNCHES = 2  # of the smaller cluster: one launch is an outlier
ABSURD_SHARE = 1e4  # of a ceiling: written short, since a file may claim what has hundreds of digits
SAME_KERNELS = "same kernels"
KERNELS_DIFFER = "kernels differ"
OF_KERNELS = (SAME_KERNELS, KERNELS_DIFFER)  # how a note on kernels begins
BUT_CODE = " (their code is not known)"  # names, grids, blocks, registers and shared memory are equal
RESULT_CHANGES: Mapping[str, str] = MappingProxyType(
    {
        "differs": "the result changes from call to call",
        "not-finite": "the result became infinite or NaN after some calls: declare a reset",
    }
)
DOUBT = ", so doubt it"  # of a change: what else could have made it?
DOUBT_UNLESS = ", so doubt it unless that changed"


def of_row(base: SideRow, head: SideRow, verdict: Verdict) -> list[str]:
    """The notes that follow from the two sides' records."""
    notes = []
    if base.placed and head.placed and (note := kernels(base.placed, head.placed)):
        doubtful = verdict in ("regressed", "improved") and note.startswith(SAME_KERNELS)
        notes.append(f"{note}{DOUBT if note == SAME_KERNELS else DOUBT_UNLESS}" if doubtful else note)
    if base.case and head.case and base.case.source != head.case.source:
        notes.append("case changed")
    if base.implementation and head.implementation and base.implementation.tuning != head.implementation.tuning:
        notes.append(
            f"tuning differs: {base.implementation.tuning or 'none'} on base, {head.implementation.tuning or 'none'} on head"
        )
    return [*notes, *of_side([base, head])]


def of_side(sides: Sequence[SideRow]) -> list[str]:
    """The notes that hold for a side by itself."""
    known = [side for side in sides if side.placed and side.case is not None]
    notes = []
    if any(side.case is not None and not side.case.inputs for side in known):
        notes.append("inputs unverified")
    if any(side.implementation is not None and side.implementation.check != "passed" for side in known):
        notes.append("unchecked")
    notes.extend(dict.fromkeys(side.case.fallback for side in known if side.case is not None and side.case.fallback))
    return [*notes, *_result_changes(known), *_left(known)]


def _result_changes(sides: Sequence[SideRow]) -> list[str]:
    """That calls do not repeat each other, of both sides or of one."""
    changes = {side.side: side.implementation.result_change for side in sides if side.implementation is not None}
    texts = {name: RESULT_CHANGES[change] for name, change in changes.items() if change}
    if len(texts) == len(sides) and len(set(texts.values())) == 1:
        return [*texts.values()][:1]
    return [f"on {name} {text}" for name, text in texts.items()]


def _left(sides: Sequence[SideRow]) -> list[str]:
    """What the case changed in its process, or left in it; it was kept from the cases after it."""
    told = {side.side: side.case.leaves for side in sides if side.case is not None and side.case.leaves}
    if len(told) == len(sides) and len(set(told.values())) == 1:
        return [f"the case {text}" for text in set(told.values())]
    return [f"on {side} the case {text}" for side, text in told.items()]


def lacking(sides: Sequence[SideRow], *, partial: bool) -> list[str]:
    """Which side has no samples of a round that the other has, and no failure; `partial` for a run without an end."""
    begun = set().union(*(side.samples for side in sides))
    found = []
    for side in sides:
        if number := len(begun - side.samples.keys() - {loss.round for loss in side.losses}):
            why = "the run was interrupted" if partial else "no reason given"
            found.append(f"{side.side} lacks {number} of {count(len(begun), 'round')}: {why}")
    return found


def doubts(sides: Sequence[SideRow], *, counted: bool = False) -> list[str]:
    """What makes the numbers of a row doubtful; `counted` where its reason names the launches that failed."""
    found = []
    for side in sides:
        if side.losses and side.placed and not (counted and len(side.failed) == len(side.losses)):
            rounds = len({loss.round for loss in side.losses})
            found.append(f"{side.side} lost {rounds} of {rounds + len(side.placed)} rounds: {side.losses[0].error}")
        records = list(map(attrgetter("record"), side.placed))
        if rejected := list(chain.from_iterable(map(attrgetter("rejected"), records))):
            found.append(f"{side.side}: {count(len(rejected), 'sample')} rejected: {rejected[0].reason}")
        if retried := sum(1 for retries in map(attrgetter("retries"), records) if retries):
            found.append(f"{side.side}: records were lost and measured again in {count(retried, 'launch')}")
        if any(each.stop == "timeout" for each in side.common):
            found.append(f"{side.side}: stopped by the time limit")
    if any(each.coarse for side in sides for each in side.common):
        compared = len(sides) > 1  # then no percentiles are shown
        found.append("calls over 10 ms: few samples a launch" if compared else "long call: p10 and p90 are coarse")
    return found


def impossible(sides: Mapping[str, Times | None]) -> list[str]:
    """That a time is shorter than the device needs for the work as declared. `sides` by name; that of a run has none."""
    found = {name: side for name, side in sides.items() if side is not None and too_fast(side.share)}
    if not found:
        return []
    by_text: dict[str, list[str]] = {}
    for name, side in found.items():
        by_text.setdefault(_multiple(side.share), []).append(name)
    said = ", ".join(f"{text} on {' and '.join(names)}" if names != [""] else text for text, names in by_text.items())
    causes = ["its work is claimed too large", "the timing is wrong"]
    if any(side.peaks is not None and not side.peaks.uuid for side in found.values()):
        causes.append("it does better than numpy, which reached this ceiling")  # of a CPU
    if any(side.needs[0].unsteady for side in found.values()):
        causes.append("the ceiling is too low: it varied while it was measured")
    return [f"share of ceiling {said}: {', or '.join(causes)}"]


def _multiple(share: float | None) -> str:
    return "" if share is None else f"{share:.2f}" if share < ABSURD_SHARE else f"{share:.0e}"


def kernels(base: Sequence[Placed], head: Sequence[Placed]) -> str:
    """Whether both sides ran the same kernels, and what differs when not; empty where the timer cannot know."""
    one, other = _kernels(base), _kernels(head)
    if not (one or other) or any(all(each.record.n_kernels is None for each in side) for side in (base, head)):
        return ""
    if one != other:
        return f"{KERNELS_DIFFER}: {_kernel_difference(one, other)}"
    a, b = (_counts(side) for side in (base, head))
    if a != b:
        return f"{KERNELS_DIFFER}: {_listed(a)} a call on base, {_listed(b)} on head"
    return SAME_KERNELS if all(kernel.code for kernel in one) else f"{SAME_KERNELS}{BUT_CODE}"


class _Kernel(NamedTuple):
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int
    shared: int
    code: str


_KERNEL = attrgetter("name", "grid", "block", "registers", "shared_memory", "code")


def _kernels(placed: Sequence[Placed]) -> frozenset[_Kernel]:
    """The distinct kernels of a side."""
    found = set(map(_KERNEL, chain.from_iterable(map(attrgetter("record.kernels"), placed))))
    return frozenset(map(_Kernel._make, found))


def _kernel_difference(base: frozenset[_Kernel], head: frozenset[_Kernel]) -> str:
    gone, come = sorted(base - head), sorted(head - base)
    names = [kernel.name for kernel in come]
    for kernel in gone:
        if kernel.name in names:
            other = come[names.index(kernel.name)]
            for what in ("grid", "block", "registers", "shared", "code"):
                a, b = getattr(kernel, what), getattr(other, what)
                if a != b:
                    values = "" if what == "code" else f" {_dimensions(a)} → {_dimensions(b)}"
                    return f"{what}{values} of {_short(kernel.name)}"
    return f"{_short(gone[0].name) if gone else 'none'} → {_short(come[0].name) if come else 'none'}"


def _dimensions(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else "×".join(str(each) for each in value)


def _short(name: str) -> str:
    return name if len(name) <= KERNEL_NAME_MAX else name[: KERNEL_NAME_MAX - 1] + "…"


def _counts(placed: Sequence[Placed]) -> frozenset[int]:
    return frozenset().union(*(each.record.n_kernels or () for each in placed))


def _listed(values: Iterable[int]) -> str:
    ordered = sorted(values)
    return f"{ordered[0]}" if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}" if ordered else "unknown"


def modes(base: Sequence[float], head: Sequence[float]) -> str:
    """Whether the launch locations of a side fall into two clusters, such as ``2 modes, 5:3 against 4:4``; empty if not.

    A side without clusters of its own is parted where the other one is.
    """
    of_base, of_head = _mode_edge(base), _mode_edge(head)
    if of_base is None and of_head is None:
        return ""
    said = " against ".join((_parted(base, of_base or of_head), _parted(head, of_head or of_base)))
    return f"2 modes, {said} (fast to slow launches, base against head)"


def _parted(values: Sequence[float], edge: float | None) -> str:
    fast = sum(1 for value in values if value < (edge or 0))
    return f"{fast}:{len(values) - fast}"


def _mode_edge(values: Sequence[float]) -> float | None:
    """What parts the two clusters of one side; None where there is one."""
    ordered = sorted(values)
    for at in range(MODE_MIN_LAUNCHES, len(ordered) - MODE_MIN_LAUNCHES + 1):
        gap = ordered[at] - ordered[at - 1]
        wider = max(ordered[at - 1] - ordered[0], ordered[-1] - ordered[at])
        if gap > MODE_GAP * wider and gap > MODE_MIN_GAP * ordered[at - 1]:
            return (ordered[at] + ordered[at - 1]) / 2
    return None


def clocks(launches: Iterable[Launch]) -> tuple[str, ...]:
    """How the clocks differed between the sides' timed launches, and what held them back; empty where nothing did."""
    launches = list(launches)
    notes = []
    timed = {
        side: [each for each in launches if each.event.side == side and each.event.round is not None] for side in _PAIR
    }
    speeds = {side: _clock(found) for side, found in timed.items()}
    base, head = speeds["base"], speeds["head"]
    if base and head and max(base, head) / min(base, head) - 1 > CLOCK_DIFFERENCE:
        notes.append(f"SM clock {base:.0f} MHz on base, {head:.0f} MHz on head")
    if any(throttles(found) for found in timed.values()):
        notes.append("throttling: " + ", ".join(f"{_held(timed[side])} on {side}" for side in _PAIR))
    return tuple(notes)


def throttled(launches: Sequence[Launch]) -> tuple[str, ...]:
    """What held the clocks back in timed launches of any side, and in how many; empty where nothing did."""
    timed = [each for each in launches if each.event.round is not None]
    held = [reasons for each in timed if (reasons := throttles([each]))]
    if not held:
        return ()
    return (
        f"clocks were held back in {len(held)} of {count(len(timed), 'launch')}: {', '.join(distinct(chain(*held)))}",
    )


_PAIR: tuple[SideName, SideName] = ("base", "head")


def _clock(launches: Sequence[Launch]) -> float | None:
    found = [each.end.telemetry.get(CLOCK_KEY) for each in launches if each.end is not None]
    numbers = [value for value in found if isinstance(value, float | int)]
    return median(numbers) if numbers else None


def _held(launches: Sequence[Launch]) -> str:
    """What held the clocks back in these launches, and in how many where not in all."""
    held = sum(1 for each in launches if throttles([each]))
    some = f" in {held} of {len(launches)} launches" if held < len(launches) else ""
    return f"{', '.join(throttles(launches))}{some}" if held else "none"


def throttles(launches: Sequence[Launch]) -> tuple[str, ...]:
    """What held the clocks back in any of these launches."""
    return distinct(str(each.end.telemetry.get(THROTTLE_KEY) or "") for each in launches if each.end is not None)
