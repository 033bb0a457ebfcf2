"""What the tests of tampering share: one timed launch's measurement of a case, and the stack of correlation ids."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenbench.runner.case.declare import Bench, case
from evenbench.runner.process.channel import Channel
from evenbench.runner.worker.launch.instruments import Instruments
from evenbench.runner.worker.launch.measure import measure_case

SIZE = 1 << 20
SPIN_CYCLES = 500_000  # a few hundred microseconds at any clock: much longer than a kernel on SIZE floats
SAMPLES = 20

Message = dict[str, Any]


def measure(function: Callable[..., Bench], device: str = "cuda", timer: str = "cupti") -> Message:
    """The last message of a timed launch about a case: its measurement, or why there is none."""
    (point,) = case("tampering/case")(function).points
    implementation = {"samples": SAMPLES, "warmup": 3, "batch": 1, "check": "passed", "result": ""}
    target = {"id": point.id, "timeout_s": 60.0, "timing": timer, "cache": "warm", "mirrored": False, "precision": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            job = {**target, "implementations": {"main": implementation}}
            measure_case(point, job, device, Instruments(), Channel(descriptor))
        finally:
            os.close(descriptor)
        last: Message = json.loads(path.read_text().splitlines()[-1])
        return last


def refused(message: Message, kind: str, words: str) -> bool:
    """Whether the measurement failed for this reason; shows the message where not."""
    assert (message["event"], message.get("kind")) == ("failure", kind), message
    assert words in message["error"], message
    return True


def busy(message: Message) -> float:
    """The median of what was measured, in nanoseconds."""
    assert message["event"] == "measurement", message
    return float(statistics.median(message["device_busy_ns"]))


def negative(torch: Any, extra: Callable[[Any], object]) -> Callable[..., Bench]:
    """A case that negates, and does something else before."""

    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)

        def run() -> Any:
            extra(x)
            return x.neg()

        return Bench(run=run, inputs={"x": x}, reference=lambda: -x.double())

    return bench


class Ids:
    """The stack of correlation ids, as timed code can reach it."""

    def __init__(self) -> None:
        from cupti import cupti

        self._cupti = cupti
        self._custom0 = int(cupti.ExternalCorrelationKind.CUSTOM0)

    def push(self, identity: int) -> None:
        """Lay an id on top."""
        self._cupti.activity_push_external_correlation_id(self._custom0, identity)

    def pop(self) -> int:
        """Take the id off that is on top."""
        return int(self._cupti.activity_pop_external_correlation_id(self._custom0))
