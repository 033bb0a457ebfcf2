"""Activity records → one entry per iteration: busy time, latency, copies, kernels. Pure.

A record belongs to an iteration because the launch that made it carried the iteration's correlation id; time stamps
decide nothing about that. They are only checked: a reading that cannot be true is rejected with its reason, and a call
that cannot be attributed at all is an error.

Records are plain tuples, since one is built per record while the instrument's buffers are decoded.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ... import words
from ...errors import AttributionForged, NoDeviceWork, OffThreadLaunch, RecordsLost
from ..protocol import Segment

Shape: TypeAlias = tuple[int, int, int]
Identity: TypeAlias = tuple[str, Shape, Shape, int, int]
Kernel: TypeAlias = tuple[int, int, int, str, Shape, Shape, int, int, int, int]
"""correlation, start, end; name, grid, block, registers per thread, bytes of shared memory; graph and node, or 0"""
Copy: TypeAlias = tuple[int, int, int]
"""correlation, start, end: a copy or a memset"""
Launch: TypeAlias = tuple[int, bool, int, int, int]
"""correlation, whether work on the device must follow (a kernel or graph; else a copy or memset), start, end, thread"""

CLOCK_SLACK_NS = 1_000_000  # device stamps are mapped to the host's clock within microseconds; a stale one is far off
TICK_CANDIDATES = (1024, 512, 256, 128, 64, 32, 16, 8)  # under 8 the scatter hides a grid
TICK_SCATTER_NS = 2  # durations lie within this around the grid
TICK_SHARE = 0.95
TICK_MAX_DURATIONS = 500  # more tell no more
TICK_MIN_DURATIONS = 20  # by chance, 20 durations look like a grid of 8 once in some thousand times
GRAPH_MIN_REPLAYS = 3  # of fewer none can be called the odd one out

OFF_THREAD_HINT = (
    "launch on the thread that makes the call: drive a backward node through backward_of(out), or wrap the call in "
    "torch.autograd.set_multithreading_enabled(False)"
)
COPIES_HINT = "if the copies are the work, set count_copies=True on the Bench"
FORGED_HINT = "leave CUSTOM0 correlation ids alone in timed code; CUSTOM1 and CUSTOM2 are free"


class Iteration(NamedTuple):
    """The correlation ids that iteration `i` ran under, and when its preparation ended on the instrument's clock."""

    i: int
    run: int
    prepare: int
    guard: int  # lies under `run` on the stack: only code that popped `run` can launch under it
    prepared: int


@dataclass
class Records:
    """What the instrument left behind of one block. `lost` is None where its drop counter cannot be read."""

    kernels: list[Kernel] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    external: list[tuple[int, int]] = field(default_factory=list)  # correlation, external id
    launches: list[Launch] = field(default_factory=list)
    lost: int | None = 0


class _Work(NamedTuple):
    """Device work that ran under one id."""

    kernels: list[Kernel]
    copies: list[Copy]
    launches: list[Launch]

    def spans(self) -> list[tuple[int, int]]:
        """Start and end of every record, kernels first."""
        return [(kernel[1], kernel[2]) for kernel in self.kernels] + [(copy[1], copy[2]) for copy in self.copies]


def union_length(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of the union of closed intervals: what overlaps counts once, gaps do not count."""
    total = 0
    reach: int | None = None
    for start, end in sorted(intervals):
        if reach is None or start > reach:
            total += end - start
            reach = end
        elif end > reach:
            total += end - reach
            reach = end
    return total


def attribute(
    records: Records, iterations: Sequence[Iteration], window: tuple[int, int], count_copies: bool
) -> Segment:
    """Lead every record back to its iteration and sum up each one.

    Args:
        records: everything recorded between the block's first preparation and its last drain.
        iterations: what was iterated, in order.
        window: the host's time stamps, on the instrument's clock, before the first and after the last iteration.
        count_copies: whether copies and memsets belong to the busy time.

    Returns:
        The block's samples. Where records were lost it holds their number and nothing else: measure again.

    Raises:
        AttributionForged, OffThreadLaunch, NoDeviceWork: see `evenbench.runner.errors`.
        RecordsLost: work is missing and the drop counter cannot be read, so that losses cannot be excluded.
    """
    if records.lost:
        return Segment([], [], [], [], [], lost=records.lost)
    works = _by_id(records, iterations, count_copies)
    nodes = _graph_nodes(works[it.run] for it in iterations)
    began: list[int | None] = [_began(works[it.prepare], works[it.run]) for it in iterations]
    samples: list[tuple[int, int, int, int, int]] = []
    rejected: list[tuple[int, str]] = []
    durations: dict[Identity, list[int]] = defaultdict(list)
    for iteration, next_began in zip(iterations, [*began[1:], None], strict=True):
        run, prepared = works[iteration.run], works[iteration.prepare]
        _check_work(iteration.i, run, records.lost, count_copies)
        _check_preparation(iteration, prepared)
        short = _missing(run) or _missing(prepared) or _missing_nodes(run, nodes)
        if short and records.lost is None:
            raise _cannot_tell(f"iteration {iteration.i}: {short}")
        reason = _unbelievable(run, prepared, window, next_began) or short or _untraced(prepared)
        if reason:
            rejected.append((iteration.i, reason))
            continue
        for kernel in run.kernels:
            durations[kernel[3:8]].append(kernel[2] - kernel[1])
        samples.append((iteration.i, *_times(run, count_copies), len(run.kernels)))
    return Segment(
        indices=[sample[0] for sample in samples],
        device_busy_ns=[sample[1] for sample in samples],
        latency_ns=[sample[2] for sample in samples],
        n_kernels=[sample[4] for sample in samples],
        uncounted_copy_ns=[sample[3] for sample in samples],
        kernels=[_describe(identity, found) for identity, found in durations.items()],
        rejected=rejected,
    )


def tick_of(durations: Iterable[int]) -> int | None:
    """The grid that the durations of kernels sit on, in nanoseconds; 1 where there is none, None where too few tell.

    Durations, since the time stamps themselves drift across their grid within milliseconds: they are mapped to the
    host's clock. They scatter by a nanosecond or two, so that their common divisor is always 1: the largest step wins
    that nearly all of them are near a multiple of.
    """
    distinct = set(itertools.islice(durations, TICK_MAX_DURATIONS))
    if len(distinct) < TICK_MIN_DURATIONS:
        return None
    for tick in TICK_CANDIDATES:
        near = sum(1 for duration in distinct if min(duration % tick, -duration % tick) <= TICK_SCATTER_NS)
        if near >= TICK_SHARE * len(distinct):
            return tick
    return 1


def _by_id(records: Records, iterations: Sequence[Iteration], count_copies: bool) -> dict[int, _Work]:
    """The records under each of our ids. Raises where device work runs under none of them, or under a guard."""
    owner = dict(records.external)
    works = {i: _Work([], [], []) for it in iterations for i in (it.run, it.prepare)}
    guards = {it.guard for it in iterations}
    for kernel in records.kernels:
        if kernel[0] not in owner:
            raise _unowned(f"kernel {kernel[3]}", records.lost)
        works[_own(owner[kernel[0]], works, guards, f"kernel {kernel[3]}")].kernels.append(kernel)
    for copy in records.copies:
        if copy[0] in owner:
            works[_own(owner[copy[0]], works, guards, "a copy")].copies.append(copy)
        elif count_copies:
            raise _unowned("a copy", records.lost)
    for launch in records.launches:
        if owner.get(launch[0]) in works:
            works[owner[launch[0]]].launches.append(launch)
    return works


def _own(external: int, works: dict[int, _Work], guards: set[int], what: str) -> int:
    if external in guards:
        raise AttributionForged(f"{what} was launched after the call had popped its correlation id", FORGED_HINT)
    if external not in works:
        raise AttributionForged(f"{what} runs under a correlation id that the call pushed itself", FORGED_HINT)
    return external


def _unowned(what: str, lost: int | None) -> OffThreadLaunch | RecordsLost:
    if lost is None:
        return _cannot_tell(f"{what} carries no correlation id")
    return OffThreadLaunch(f"{what} carries no correlation id: a thread of its own launched it", OFF_THREAD_HINT)


def _cannot_tell(message: str) -> RecordsLost:
    return RecordsLost(
        f"{message}, and the counter of dropped records cannot be read, so that losses cannot be excluded",
        "use a cupti-python that provides activity_get_num_dropped_records",
    )


def _check_work(i: int, run: _Work, lost: int | None, count_copies: bool) -> None:
    """Every iteration must have reached the device with something that counts."""
    if run.kernels or (count_copies and run.copies):
        return
    if lost is None:
        raise _cannot_tell(f"iteration {i} has no device work")
    if run.copies:
        raise NoDeviceWork(f"iteration {i} does nothing on the device but copy", COPIES_HINT)
    if not any(launch[1] for launch in run.launches):
        raise NoDeviceWork(
            f"iteration {i} launched nothing on the device", 'time host code in a case with device="cpu"'
        )


def _check_preparation(iteration: Iteration, prepared: _Work) -> None:
    """Foreign code may read preparation's id in its `reset`; what it launches under it later would not count."""
    if any(start > iteration.prepared for _, _, start, _, _ in prepared.launches):
        raise AttributionForged(
            f"iteration {iteration.i} launches under its preparation's correlation id after preparation ended",
            FORGED_HINT,
        )


def _began(*works: _Work) -> int | None:
    """Earliest stamp on the device; a stamp of 0 says nothing."""
    return min((start for work in works for start, _ in work.spans() if start > 0), default=None)


def _unbelievable(run: _Work, prepared: _Work, window: tuple[int, int], next_began: int | None) -> str:
    """Why these readings cannot be true; empty where they can."""
    opened, closed = window
    earliest, latest = opened - CLOCK_SLACK_NS, closed + CLOCK_SLACK_NS
    for start, end in run.spans():
        if start <= 0:
            return "a record has no start"
        if end < start:
            return "a record ends before it starts"
        if start < earliest or end > latest:
            return "a record lies outside the segment"
        if next_began is not None and end > next_began:
            return "a record ends after the next iteration began"
    began = _began(run)
    if began is not None and any(end > began for _, end in prepared.spans()):
        return "preparation's work runs during the call"
    return ""


def _missing(work: _Work) -> str:
    """How many launches have no record of their work; empty where all have one.

    A runtime call makes a driver call inside: that one, traced with an id of its own, has no record and needs none.
    """
    recorded = {record[0] for record in (*work.kernels, *work.copies)}
    missing = [launch for launch in work.launches if launch[1] and launch[0] not in recorded]
    if not missing:
        return ""
    outer = defaultdict(list)
    for correlation, _, start, end, thread in work.launches:
        if correlation in recorded:
            outer[thread].append((start, end))
    bare = sum(not any(s <= start and end <= e for s, e in outer[thread]) for _, _, start, end, thread in missing)
    return (
        f"{bare} of {words.count(len(work.launches), 'launch')} {'has' if bare == 1 else 'have'} no kernel record"
        if bare
        else ""
    )


def _untraced(prepared: _Work) -> str:
    """How many kernels of preparation no traced call launched: when they were launched cannot be told."""
    launched = {launch[0] for launch in prepared.launches}
    untraced = sum(kernel[0] not in launched for kernel in prepared.kernels)
    return f"preparation has {words.count(untraced, 'kernel')} that no traced call launched" if untraced else ""


def _replays(run: _Work) -> dict[tuple[int, int], set[int]]:
    """Of every graph replay, named by graph and correlation, the nodes that ran a kernel."""
    replays: dict[tuple[int, int], set[int]] = defaultdict(set)
    for kernel in run.kernels:
        if kernel[9]:
            replays[kernel[8], kernel[0]].add(kernel[9])
    return replays


def _graph_nodes(runs: Iterable[_Work]) -> dict[int, set[int]]:
    """Of every graph the nodes that all of its replays but one at most have: conditional ones are left out."""
    replays, seen = Counter[int](), Counter[tuple[int, int]]()
    for run in runs:
        for (graph, _), nodes in _replays(run).items():
            replays[graph] += 1
            seen.update((graph, node) for node in nodes)
    expected: dict[int, set[int]] = defaultdict(set)
    for (graph, node), count in seen.items():
        if replays[graph] >= GRAPH_MIN_REPLAYS and count >= replays[graph] - 1:
            expected[graph].add(node)
    return expected


def _missing_nodes(run: _Work, expected: dict[int, set[int]]) -> str:
    """How many nodes of a replayed graph have no record; empty where all have one."""
    missing = sum(len(expected.get(graph, set()) - nodes) for (graph, _), nodes in _replays(run).items())
    return (
        f"{words.count(missing, 'node')} of a replayed graph {'has' if missing == 1 else 'have'} no kernel record"
        if missing
        else ""
    )


def _times(run: _Work, count_copies: bool) -> tuple[int, int, int]:
    """Busy time, latency and uncounted copies of one iteration."""
    spans = run.spans()
    counted, copies = (spans, []) if count_copies else (spans[: len(run.kernels)], spans[len(run.kernels) :])
    latency = max(end for _, end in counted) - min(start for start, _ in counted)
    return union_length(counted), latency, union_length(copies)


def _describe(identity: Identity, durations: list[int]) -> dict[str, Any]:
    """A distinct kernel for the results file. Its `code` stays empty: CUPTI's records hold no hash of the code."""
    name, grid, block, registers, shared_memory = identity
    return {
        "name": name,
        "grid": list(grid),
        "block": list(block),
        "registers": registers,
        "shared_memory": shared_memory,
        "count": len(durations),
        "median_ns": statistics.median_low(durations),
    }
