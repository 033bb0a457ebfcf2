"""results.jsonl → `Results`, or `UntrustedInput`: checks what no single line can show, and joins the lines by case.

A file may hold one shard of a run; `load_files` merges shards that agree on everything they are judged by.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from evenbench.runner.errors import UntrustedInput, UsageError
from evenbench.runner.records import (
    Artifact,
    CaseEvent,
    CeilingsEvent,
    End,
    ExpectationEvent,
    Failure,
    Header,
    LaunchEnd,
    LaunchEvent,
    ModulesEvent,
    SideEvent,
    SideName,
    Skip,
)

from ..units import count
from .file import read_file
from .lines import Gathered
from .packed import Sampled

PUBLISH_MAX_BYTES = 256 << 20  # of one file when publishing; pass it as `max_bytes`
FILES_AT_MOST = 4  # as large files together: who reads them holds a little more than their size


class Placed(NamedTuple):
    """A measurement and the timed launch it was made in."""

    launch: LaunchEvent
    record: Sampled


class Failed(NamedTuple):
    """A failure and the launch it happened in."""

    shard: int
    launch: LaunchEvent
    record: Failure


class RecordedSkip(NamedTuple):
    """A skip and the launch that recorded it."""

    launch: LaunchEvent
    record: Skip


class Launch(NamedTuple):
    """A launch that still counts, and its end; None where the run was cut off in it."""

    shard: int
    event: LaunchEvent
    end: LaunchEnd | None


@dataclass(frozen=True)
class Results:
    """A run, as far as it went. What a resumed run measured again is left out.

    Attributes:
        headers: one a shard, in the order of the shards; they agree on everything but run_id, start and shard.
        prepared: the last `side` lines of each shard, by side.
        modules: the last `modules` lines of each shard, by side: where the project's modules came from.
        cases: by side and id.
        broken: case files that could not be imported, by side.
        names: ids by shard and index of the `case` line; empty for a broken file.
        launches: in order, shard after shard.
        measurements: by (case, implementation), in order.
        failures, skips, artifacts, ceilings, expectations: in order.
        ends: of the shards that have one.
        missing: indices of the shards that were not given.
        cut: a file ended in the middle of a line.
    """

    headers: tuple[Header, ...]
    prepared: Mapping[SideName, tuple[SideEvent, ...]]
    modules: Mapping[SideName, tuple[ModulesEvent, ...]]
    cases: Mapping[SideName, Mapping[str, CaseEvent]]
    broken: Mapping[SideName, tuple[CaseEvent, ...]]
    names: Mapping[tuple[int, int], str]
    launches: tuple[Launch, ...]
    measurements: Mapping[tuple[str, str], tuple[Placed, ...]]
    failures: tuple[Failed, ...]
    skips: tuple[RecordedSkip, ...]
    artifacts: tuple[Artifact, ...]
    ceilings: tuple[CeilingsEvent, ...]
    expectations: tuple[ExpectationEvent, ...]
    ends: tuple[End, ...]
    missing: tuple[int, ...]
    cut: bool

    @property
    def header(self) -> Header:
        """The header of the first shard."""
        return self.headers[0]

    @property
    def complete(self) -> bool:
        """Whether all shards are here and each ran to its end."""
        return not self.missing and len(self.ends) == len(self.headers)

    @property
    def complete_shards(self) -> bool:
        """Whether each shard that is here ran to its end."""
        return len(self.ends) == len(self.headers)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing, a sentence each."""
        notes = []
        if unfinished := len(self.headers) - len(self.ends):
            which = "the run" if len(self.headers) == 1 else f"{unfinished} of {len(self.headers)} shards"
            cut = ", the last line is cut off" if self.cut else ""
            notes.append(f"partial: {which} did not come to the end{cut}")
        if self.missing:
            names = ", ".join(str(index) for index in self.missing)
            notes.append(f"partial: without shard {names} of {self.header.shard.count} (counted from 0)")
        return tuple(notes)


def load_file(path: Path, *, max_bytes: int | None = None) -> Results:
    """Read the results in one file.

    Args:
        path: a regular file; symbolic links are not followed.
        max_bytes: refuse a larger file, and more than four times as much in several; None for no limit.

    Raises:
        UsageError: the file is not there, or may not be read.
        UntrustedInput: it is not a regular file, or not what it says.
    """
    return load_files([path], max_bytes=max_bytes)


def load_files(paths: Sequence[Path], *, max_bytes: int | None = None) -> Results:
    """Read the results of one run from the files of its shards, in any order; some may be missing.

    Raises:
        UsageError: no path; or as `load_file`.
        UntrustedInput: the files are not shards of one run; or as `load_file`.
    """
    if not paths:
        raise UsageError("no results file given")
    with _no_collection():
        return _joined(_loaded(paths, max_bytes))


def load_runs(paths: Sequence[Path], *, max_bytes: int | None = None) -> tuple[Results, tuple[Results, ...]]:
    """Read a run from the files of its shards, as `load_files`, and the second runs that measured its regressed rows again.

    A second run that is given alone is a run as any other.

    Raises:
        UsageError: no path; or as `load_file`.
        UntrustedInput: a second run of a run that is not given, or two of the same; or as `load_files`.
    """
    if not paths:
        raise UsageError("no results file given")
    with _no_collection():
        files = _loaded(paths, max_bytes)
        firsts = [(path, shard) for path, shard in files if not shard.header.confirms]
        seconds = [(path, shard) for path, shard in files if shard.header.confirms]
        if not firsts:
            firsts, seconds = seconds, []
        results = _joined(firsts)
        confirmed = {header.run_id: "" for header in results.headers}
        for path, second in seconds:
            first = second.header.confirms
            if first not in confirmed:
                raise UntrustedInput(f"{path} confirms a run that is not here: {first}", "name that run's file too")
            if confirmed[first]:
                raise UntrustedInput(f"{confirmed[first]} and {path} confirm the same run", "name one of them")
            confirmed[first] = str(path)
        return results, tuple(merge([second]) for _, second in seconds)


def _joined(shards: list[tuple[Path, Gathered]]) -> Results:
    shards.sort(key=lambda shard: shard[1].header.shard.index)
    for (path, shard), (other_path, other) in pairwise(shards):
        if different := _difference(shard.header, other.header):
            same = shard.header.shard.index == other.header.shard.index
            hint = "the files of one run, each once; `evenbench diff A B` compares two runs" if same else ""
            raise UntrustedInput(f"{path} and {other_path} are not shards of one run: {different}", hint)
    return merge([shard for _, shard in shards])


def _loaded(paths: Sequence[Path], max_bytes: int | None) -> list[tuple[Path, Gathered]]:
    """Each file by itself. Raises UntrustedInput where they are too large together."""
    if max_bytes is not None:
        total = sum(path.lstat().st_size for path in paths if path.is_file())
        if total > FILES_AT_MOST * max_bytes:
            raise UntrustedInput(f"{count(len(paths), 'file')} of {total} bytes together, which is too much to judge")
    return [(path, read_file(path, max_bytes)) for path in paths]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's search for cycles: records form none, and among millions it would last longer than all the rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()  # and never look through them again: they go when nothing refers to them
    finally:
        if was_enabled:
            gc.enable()


def _difference(a: Header, b: Header) -> str:
    """Why two headers are not of two shards of one run; empty where they are."""
    if a.shard.index == b.shard.index:
        return f"both are shard {a.shard.index} of {a.shard.count}"
    if a.shard.count != b.shard.count:
        return f"they are of {count(a.shard.count, 'shard')} and of {count(b.shard.count, 'shard')}"
    if a.shard.plan != b.shard.plan:
        return f"they are of plans {a.shard.plan or 'without durations'} and {b.shard.plan or 'without durations'}"
    own = {"run_id", "started", "shard"}
    differing = sorted(name for name in type(a).model_fields.keys() - own if getattr(a, name) != getattr(b, name))
    return f"they differ in {', '.join(name.rstrip('_') for name in differing)}" if differing else ""


def merge(shards: Sequence[Gathered]) -> Results:
    """The results of shards that belong together, in the order of their indices.

    Raises:
        UntrustedInput: a case is in two of them.
    """
    sides = [side.name for side in shards[0].header.sides]
    cases, broken = _cases(shards, sides)
    measurements: dict[tuple[str, str], tuple[Placed, ...]] = {}
    names: dict[tuple[int, int], str] = {}
    launches: list[Launch] = []
    failures: list[Failed] = []
    skips: list[RecordedSkip] = []
    artifacts: dict[Artifact, None] = {}  # a stale copy in a folder without cases is in every shard
    for shard in shards:
        index = shard.header.shard.index
        for key, records in shard.measurements.items():
            placed = tuple(Placed(shard.launches[record.launch], record) for record in records)
            measurements[key] = measurements.get(key, ()) + placed
        names.update({(index, case.index): case.id for case in shard.cases})
        launches += [Launch(index, launch, shard.launch_ends.get(launch.launch)) for launch in shard.launches.values()]
        failures += [Failed(index, shard.launches[failure.launch], failure) for failure in shard.failures]
        skips += [RecordedSkip(shard.launches[skip.launch], skip) for skip in shard.skips]
        artifacts |= dict.fromkeys(shard.artifacts)
    prepared = {side: tuple(shard.sides[side] for shard in shards if side in shard.sides) for side in sides}
    modules = {side: tuple(shard.modules[side] for shard in shards if side in shard.modules) for side in sides}
    given = {shard.header.shard.index for shard in shards}
    return Results(
        headers=tuple(shard.header for shard in shards),
        prepared=MappingProxyType(prepared),
        modules=MappingProxyType(modules),
        cases=MappingProxyType({side: MappingProxyType(by_id) for side, by_id in cases.items()}),
        broken=MappingProxyType({side: tuple(by_file.values()) for side, by_file in broken.items()}),
        names=MappingProxyType(names),
        launches=tuple(launches),
        measurements=MappingProxyType(measurements),
        failures=tuple(failures),
        skips=tuple(skips),
        artifacts=tuple(artifacts),
        ceilings=tuple(chain.from_iterable(shard.ceilings for shard in shards)),
        expectations=tuple(chain.from_iterable(shard.expectations for shard in shards)),
        ends=tuple(shard.end for shard in shards if shard.end is not None),
        missing=tuple(index for index in range(shards[0].header.shard.count) if index not in given),
        cut=any(shard.cut for shard in shards),
    )


_CasesBySide = dict[SideName, dict[str, CaseEvent]]


def _cases(shards: Sequence[Gathered], sides: Sequence[SideName]) -> tuple[_CasesBySide, _CasesBySide]:
    """The cases of each side by id, and its broken case files by path. Raises UntrustedInput."""
    cases: _CasesBySide = {side: {} for side in sides}
    broken: _CasesBySide = {side: {} for side in sides}
    for case in chain.from_iterable(shard.cases for shard in shards):
        if not case.id:
            broken[case.side].setdefault(case.file, case)  # every shard sees the same files
        elif case.id in cases[case.side]:
            raise UntrustedInput(
                f"{case.id} is in two shards", "give each its own --share, as evenbench plan printed it"
            )
        else:
            cases[case.side][case.id] = case
    return cases, broken
