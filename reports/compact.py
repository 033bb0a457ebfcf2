"""Measurements in little memory: of a large file they are nearly all, and a list of integers takes four times its numbers."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar, cast

from runner.records import Measurement

Value = TypeVar("Value", bound=Hashable)
SAMPLES = ("device_busy_ns", "latency_ns", "uncounted_copy_ns", "n_kernels")
TEXTS = ("case", "implementation", "inputs", "source")
LISTS = ("uncounted_copy_ns", "kernels", "rejected", "retries")  # which are mostly empty
NOTHING: Sequence[Any] = ()
NOBODY: frozenset[str] = frozenset()


class Compactor:
    """Lets the measurements of one file share what is equal in them."""

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}

    def once(self, value: Value) -> Value:
        """The first of all equal values."""
        return cast("Value", self._seen.setdefault(value, value))

    def pack(self, event: Measurement) -> None:
        """Hold the samples of a record as arrays of 64-bit integers, and what is equal to another's only once.

        Whoever reads the record finds sequences of the same numbers.
        """
        once = self._seen.setdefault
        fields = event.__dict__
        busy, latency, copies, counts = map(fields.__getitem__, SAMPLES)
        fields["device_busy_ns"] = packed = array("q", busy)
        fields["latency_ns"] = packed if latency == busy else array("q", latency)
        if copies:
            fields["uncounted_copy_ns"] = array("q", copies)
        if counts is not None:
            fields["n_kernels"] = once(known := tuple(counts), known)
        fields["kernels"] = [once(tuple(kernel.__dict__.values()), kernel) for kernel in event.kernels]
        object.__setattr__(event, "__pydantic_fields_set__", NOBODY)  # of what was set: nobody asks
        for name in TEXTS:
            fields[name] = once(fields[name], fields[name])
        for name in LISTS:
            fields[name] = fields[name] or NOTHING
