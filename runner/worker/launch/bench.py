"""A case as it stands inside a launch: built, its implementations made, its result within reach."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...case import check
from ...case.declare import Bench, GridPoint, Implementation
from ...errors import (
    EvenbenchError,
    InputsChanged,
    MeasurementError,
    OutOfMemory,
    RuntimeFailure,
    SetupError,
    WrongResult,
)

MAIN = "main"  # name of the implementation of a case that has one
ERROR_MAX = 2_000  # characters of an error's line; the records take twice as many

Call = Callable[[], Any]


class NotMeasured(Exception):
    """A case or implementation that is not measured here, and why."""


def one_line(error: BaseException) -> str:
    """An exception as one bounded line: its type, unless it is one of ours, and its message."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - a message is foreign code too
        text = "its message cannot be made"
    if not isinstance(error, EvenbenchError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:ERROR_MAX].encode("utf-8", "replace").decode()  # no record holds halves of characters


def classified(error: Exception, otherwise: type[MeasurementError]) -> MeasurementError:
    """A foreign exception as one of ours: out of memory is told apart, the rest is `otherwise`."""
    if isinstance(error, MeasurementError):
        return error
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return OutOfMemory(one_line(error), "a smaller size, or a device with more memory")
    return otherwise(one_line(error))


class Runnable:
    """One implementation, made: the call to time, what restores its inputs, and the last result of the call."""

    def __init__(self, name: str, run: Call, reset: Call | None, outputs: Mapping[str, Any] | None) -> None:
        self.name = name
        self._run = run
        self._reset = reset
        self._outputs = outputs
        self._last: Any = None

    @property
    def resets(self) -> bool:
        """Whether every call must be preceded by a reset."""
        return self._reset is not None

    def call(self) -> None:
        """The timed call; keeps its result for the check after the last sample."""
        self._last = self._run()

    def restore(self) -> None:
        """Let go of the last result and restore what the call overwrites; never timed."""
        self._last = None
        if self._reset is not None:
            self._reset()

    @property
    def result(self) -> Any:
        """What the last call made: its return value, or the declared outputs where it returned None."""
        if self._last is None and self._outputs:
            values = dict(self._outputs)
            return next(iter(values.values())) if len(values) == 1 else values
        return self._last


@dataclass(frozen=True)
class Opened:
    """A case built on a device."""

    point: GridPoint
    bench: Bench
    device: str

    @property
    def names(self) -> list[str]:
        """The implementations, in the order of the case."""
        return list(self.bench.implementations) if self.bench.implementations else [MAIN]

    def make(self, name: str) -> Runnable:
        """Make one implementation.

        Raises:
            Skipped: something it needs is missing, and it is not the baseline.
            SetupError: making it failed.
        """
        bench = self.bench
        if bench.run is not None:
            return Runnable(MAIN, bench.run, bench.reset, bench.outputs)
        assert bench.implementations is not None  # noqa: S101 - a Bench has one or the other
        found = bench.implementations[name]
        if not isinstance(found, Implementation):
            return Runnable(name, found, bench.reset, bench.outputs)
        try:
            require(found.requires)
            made = found.make()
        except (NotMeasured, ImportError) as error:
            if name == bench.baseline:
                raise SetupError(f"the baseline {name!r} cannot be made: {one_line(error)}") from None
            raise NotMeasured(one_line(error) if isinstance(error, ImportError) else str(error)) from None
        except Exception as error:
            raise classified(error, SetupError) from error
        match made:
            case (run, reset):
                pass
            case _:
                run, reset = made, bench.reset
        if not callable(run) or not (reset is None or callable(reset)):
            raise SetupError(
                f"make of implementation {name!r} must return run or (run, reset), not {type(made).__name__}"
            )
        return Runnable(name, run, reset, bench.outputs)

    def inputs_checksum(self) -> str:
        """One checksum over all declared inputs; empty where the case declares none."""
        return check.checksum(dict(self.bench.inputs)) if self.bench.inputs else ""

    def checked_call(self, runnable: Runnable, reference: Any, inputs: str) -> None:
        """Call once, outside any timing, and hold the result against the reference.

        Raises:
            WrongResult: the result is wrong, or an output was left unwritten.
            InputsChanged: the call wrote to a shared input.
            MeasurementError: the call raised.
        """
        check.poison(self.bench.outputs)
        runnable.restore()
        try:
            runnable.call()
            synchronize(self.device)
        except Exception as error:
            raise classified(error, RuntimeFailure) from error
        missed = check.unwritten(self.bench.outputs)
        if missed:
            raise WrongResult(f"outputs left (partly) unwritten: {', '.join(missed)}")
        if self.bench.reference is not None:
            case = self.point.case
            check.check_result(runnable.result, reference, case.rtol, case.atol)
        self.refuse_changed_inputs(inputs)

    def refuse_changed_inputs(self, before: str, who: str = "the call") -> None:
        """Raises `InputsChanged` when the declared inputs no longer have the checksum `before`."""
        if self.inputs_checksum() != before:
            raise InputsChanged(
                f"{who} changed its inputs",
                "work on a private copy and restore it in reset=, or leave it out of inputs=",
            )

    def reference(self) -> Any:
        """The right result; None without a reference."""
        if self.bench.reference is None:
            return None
        before = self.inputs_checksum()
        try:
            result = self.bench.reference()
        except Exception as error:
            failure = classified(error, SetupError)
            failure.message = f"the reference raised: {failure.message}"
            raise failure from error
        self.refuse_changed_inputs(before, "the reference")
        return result

    def refuse_borrowed_reference(self, reference: Any) -> None:
        """Raises `SetupError` when the reference lies in the outputs: it would be compared with itself."""
        if self.bench.outputs and reference is not None:
            before = check.checksum(reference)
            check.poison(self.bench.outputs)
            if check.checksum(reference) != before:
                raise SetupError(
                    "the reference lies in outputs=, so that it would be compared with itself",
                    "let it return a value of its own",
                )


def require(modules: Sequence[str]) -> None:
    """Raises `NotMeasured` naming the first module that cannot be found."""
    for name in modules:
        try:
            found = importlib.util.find_spec(name) is not None
        except ImportError:  # a parent package is missing
            found = False
        if not found:
            raise NotMeasured(f"requires {name}, which is not installed")


def open_case(point: GridPoint, device: str) -> Opened:
    """Seed everything from the id and build the case on a device.

    Raises:
        Skipped: the case says so, or needs a module that is missing.
        SetupError, OutOfMemory: its function raised or returned no Bench.
    """
    case = point.case
    if case.skip:
        raise NotMeasured(case.why)
    require(case.requires)
    try:
        bench = _built(point, device)
    except Exception as error:
        raise classified(error, SetupError) from error
    if not isinstance(bench, Bench):
        raise SetupError(f"the case function returned {type(bench).__name__}, not a Bench", "return Bench(run=…)")
    return Opened(point, bench, device)


def _built(point: GridPoint, device: str) -> Any:
    """What the case function returns, with the random generators seeded from the id.

    A generator of a library that the function itself imports is seeded only then, so the function is called again.
    """
    before = _generators()
    check.seed_everything(point.seed)
    bench = point.case.function(point.params, device)
    if _generators() != before:
        check.seed_everything(point.seed)
        bench = point.case.function(point.params, device)
    return bench


def _generators() -> set[str]:
    return {"numpy", "torch"} & set(sys.modules)


def synchronize(device: str) -> None:
    """Wait until the device is idle; a CPU always is."""
    if device != "cpu":
        import torch

        torch.accelerator.synchronize()
