"""A side of one stored run and a side of another → one `Results` with the one as base and the other as head. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from evenbench.runner.errors import NothingMeasured, UsageError
from evenbench.runner.records import End, LaunchEvent, SideInfo, SideName

from ..load.results import Failed, Launch, Placed, RecordedSkip, Results
from ..rows.outcome import distinct

HEAD_SHARDS = 1_000  # added to the numbers of head's shards: no run has as many, so none is taken for one of base


@dataclass(frozen=True)
class Stored:
    """One side of a stored run; `name` is what people call its file."""

    name: str
    results: Results
    side: SideName

    @property
    def torch(self) -> tuple[str, ...]:
        """Versions of torch that the side ran with."""
        return distinct(event.torch for event in self.results.prepared.get(self.side, ()))

    @property
    def drivers(self) -> tuple[str, ...]:
        """Drivers that its launches saw."""
        return distinct(each.event.driver for each in self.results.launches if each.event.side == self.side)


def stored(name: str, results: Results, side: SideName | None) -> Stored:
    """The side of a run that is meant: the only one of `evenbench run`; of a comparison `side`, or else head.

    Raises:
        UsageError: the run has no such side.
        NothingMeasured: it ended before its first timed launch.
    """
    names = [info.name for info in results.header.sides]
    chosen: SideName = side if side is not None and len(names) > 1 else "head"
    if chosen not in names:
        raise UsageError(f"{name} has no side {chosen}", f"it has {' and '.join(names)}")
    if not any(each.event.side == chosen and each.event.round is not None for each in results.launches):
        raise NothingMeasured(f"{name} has no timed launch of {chosen}", "its run ended before, so measure again")
    return Stored(name, results, chosen)


def joined(base: Stored, head: Stored) -> Results:
    """The two sides as those of one run, judged by the settings of head's.

    It has an end, which says only which side was edited while it was measured: whether both runs came to theirs is
    asked of them.

    Raises UsageError where they are one run, or different shards of one plan.
    """
    _refuse_one_run(base, head)
    b, h = _Relabelled.of(base, "base", 0), _Relabelled.of(head, "head", HEAD_SHARDS)
    header = head.results.header.model_copy(
        update={"verb": "compare", "plant": None, "sides": [_info(base, "base"), _info(head, "head")]}
    )
    measurements: dict[tuple[str, str], tuple[Placed, ...]] = dict(b.measurements)
    for key, placed in h.measurements.items():
        measurements[key] = measurements.get(key, ()) + placed
    edited = [
        f"{each.name}: {text}"
        for each in (base, head)
        for end in each.results.ends
        for text in end.changed
        if text.startswith(f"{each.side}:")
    ]
    sides: tuple[tuple[SideName, Stored], ...] = (("base", base), ("head", head))
    return Results(
        headers=(header,),
        prepared=MappingProxyType({name: each.results.prepared.get(each.side, ()) for name, each in sides}),
        modules=MappingProxyType({name: each.results.modules.get(each.side, ()) for name, each in sides}),
        cases=MappingProxyType({name: each.results.cases.get(each.side, {}) for name, each in sides}),
        broken=MappingProxyType({name: each.results.broken.get(each.side, ()) for name, each in sides}),
        names=MappingProxyType({**b.names, **h.names}),
        launches=b.launches + h.launches,
        measurements=MappingProxyType(measurements),
        failures=b.failures + h.failures,
        skips=b.skips + h.skips,
        artifacts=tuple(
            each.model_copy(update={"side": name})
            for name, side in sides
            for each in side.results.artifacts
            if each.side == side.side
        ),
        ceilings=base.results.ceilings + head.results.ceilings,
        expectations=(),
        ends=(End(at=head.results.header.started, rounds=0, changed=edited),),
        missing=(),
        cut=False,
    )


def _refuse_one_run(base: Stored, head: Stored) -> None:
    one, other = base.results.header, head.results.header
    if one.run_id == other.run_id:
        hint = "evenbench report compares its sides, in pairs" if len(one.sides) > 1 else "name the file of another run"
        raise UsageError(f"{base.name} and {head.name} are one run", hint)
    a, b = one.shard, other.shard
    if one.seed == other.seed and (a.count, a.plan) == (b.count, b.plan) and a.index != b.index:
        raise UsageError(
            f"{base.name} is shard {a.index} of {a.count}, {head.name} shard {b.index}: they have no case in common",
            "name the same shard of both; evenbench report puts shards of one run together",
        )


def _info(of: Stored, name: SideName) -> SideInfo:
    info = next(each for each in of.results.header.sides if each.name == of.side)
    which = f"{of.side} of " if len(of.results.header.sides) > 1 else ""
    return info.model_copy(update={"name": name, "label": f"{info.label}, {which}{of.name}"})


@dataclass(frozen=True)
class _Relabelled:
    """What refers to launches of one side, under that side's new name, and with shards numbered apart."""

    names: Mapping[tuple[int, int], str]
    launches: tuple[Launch, ...]
    measurements: Mapping[tuple[str, str], tuple[Placed, ...]]
    failures: tuple[Failed, ...]
    skips: tuple[RecordedSkip, ...]

    @classmethod
    def of(cls, source: Stored, name: SideName, first_shard: int) -> _Relabelled:
        results = source.results
        renamed: dict[int, LaunchEvent] = {
            id(each.event): each.event.model_copy(update={"side": name})
            for each in results.launches
            if each.event.side == source.side
        }
        measurements = {
            key: tuple(Placed(renamed[id(each.launch)], each.record) for each in placed if id(each.launch) in renamed)
            for key, placed in results.measurements.items()
        }
        return cls(
            names={(shard + first_shard, index): case for (shard, index), case in results.names.items()},
            launches=tuple(
                Launch(each.shard + first_shard, renamed[id(each.event)], each.end)
                for each in results.launches
                if id(each.event) in renamed
            ),
            measurements={key: placed for key, placed in measurements.items() if placed},
            failures=tuple(
                Failed(each.shard + first_shard, renamed[id(each.launch)], each.record)
                for each in results.failures
                if id(each.launch) in renamed
            ),
            skips=tuple(
                RecordedSkip(renamed[id(each.launch)], each.record)
                for each in results.skips
                if id(each.launch) in renamed
            ),
        )
