"""Measurements in little memory: of a large file they are nearly all, and a list of integers needs four times the memory of its numbers."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from evenbench.runner.records import KernelRecord, Measurement, Rejected

Value = TypeVar("Value", bound=Hashable)


class Sampled(NamedTuple):
    """What is judged of a measurement: its fields of the same names, as sequences of the same numbers.

    Its row is the key under which it is stored; its source hash is not used.
    """

    launch: int
    timing: str
    device_busy_ns: Sequence[int]
    latency_ns: Sequence[int]
    n_kernels: Sequence[int] | None
    uncounted_copy_ns: Sequence[int]
    kernels: Sequence[KernelRecord]
    tick_ns: int | None
    batch: int
    cache: str
    stop: str
    coarse: bool
    rejected: Sequence[Rejected]
    retries: Sequence[str]
    check: str
    inputs: str
    wall_ns: int


class Compactor:
    """Lets the measurements of one file share what is equal in them."""

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}

    def once(self, value: Value) -> Value:
        """The first of all equal values."""
        return cast("Value", self._seen.setdefault(value, value))

    def packed(self, event: Measurement, launch: int) -> Sampled:
        """A record with its samples as arrays, and what is equal to another's only once.

        Args:
            launch: the number of its launch, as that launch's own line has it.
        """
        once = self._seen.setdefault
        busy, latency, counts = event.device_busy_ns, event.latency_ns, event.n_kernels
        samples = _integers(busy)
        kernels = tuple([once(tuple(kernel.__dict__.values()), kernel) for kernel in event.kernels])
        return Sampled(
            launch=launch,
            timing=event.timing,
            device_busy_ns=samples,
            latency_ns=samples if latency == busy else _integers(latency),
            n_kernels=None if counts is None else self.once(tuple(counts)),
            uncounted_copy_ns=_integers(event.uncounted_copy_ns) if event.uncounted_copy_ns else (),
            kernels=once(("kernels", *map(id, kernels)), kernels),
            tick_ns=once(event.tick_ns, event.tick_ns),
            batch=once(event.batch, event.batch),
            cache=event.cache,
            stop=event.stop,
            coarse=event.coarse,
            rejected=tuple(event.rejected),
            retries=tuple(event.retries),
            check=event.check,
            inputs=once(event.inputs, event.inputs),
            wall_ns=event.wall_ns,
        )


def _integers(values: Sequence[int]) -> array[int]:
    """Of 32 bits where they fit, as most times below two seconds do; else of 64."""
    try:
        return array("i", values)
    except OverflowError:
        return array("q", values)
