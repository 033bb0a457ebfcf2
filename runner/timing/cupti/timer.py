"""The CUPTI timer: reads from the device's own records when it executed the kernels of an iteration.

Every iteration runs under a correlation id of its own, which each launch inside carries into its record. The `recorder`
makes CUPTI emit the records and copies them out; what they mean is `attribution`'s affair; this module watches the ids.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from ...errors import AttributionForged, MeasurementError, NoDeviceWork, TimerUnavailable
from ..protocol import BUFFER_BYTES, Segment
from .attribution import FORGED_HINT, Iteration, attribute, tick_of
from .demangle import readable
from .recorder import OTHER_FIX, Recorder, recorder_here

__all__ = ["OTHER_FIX", "CuptiTimer", "Recorder", "probe"]

ID_BITS = 63  # of 64 unsigned ones, so that they survive any signed detour


class CuptiTimer:
    """Busy time and latency of the device by CUPTI activity records.

    `tick_ns` is told by the self-test, else estimated from the first block that has enough different durations.

    Args:
        recorder: CUPTI's side; the one of this process if left out.
        synchronize: waits until the device is idle; torch's if left out.

    Raises:
        TimerUnavailable: no CUDA device, or CUPTI cannot be loaded or used; says why, and what to do.
    """

    name = "cupti"

    def __init__(self, recorder: Recorder | None = None, synchronize: Callable[[], object] | None = None) -> None:
        self.tick_ns: int | None = None
        self._synchronize = synchronize or _torch_synchronize()
        self._recorder = recorder or recorder_here()
        # A generator of its own: a case seeds Python's, and could then foresee the ids.
        self._draw = random.Random(secrets.randbits(128)).getrandbits
        self._count_copies = False
        self._opened = False
        self._pending: list[Iteration] = []
        self._began = 0

    def open(self, count_copies: bool, buffer_bytes: int) -> None:
        """Make CUPTI record. Raises TimerUnavailable where it will not."""
        self.close()
        self._count_copies = count_copies
        self._recorder.enable(buffer_bytes)
        self._opened = True

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        """Prepare, drain, run under an id of its own, drain. Returns the wall time of it all.

        Raises:
            AttributionForged: the stack of ids is not what it was before the call.
        """
        if not self._pending:
            self._begin_block()
        draw, push, pop, synchronize = self._draw, self._recorder.push, self._recorder.pop, self._synchronize
        run_id, prepare_id, guard_id = draw(ID_BITS) or 1, draw(ID_BITS) or 1, draw(ID_BITS) or 1
        began = time.perf_counter_ns()
        try:
            push(prepare_id)
            prepare()
            intact = pop() == prepare_id
            prepared = self._recorder.timestamp()
            synchronize()
            push(guard_id)
            push(run_id)
            run()
            intact = pop() == run_id and pop() == guard_id and intact
            synchronize()
            if not intact:
                raise AttributionForged(
                    f"the call of iteration {i} left the stack of correlation ids changed", FORGED_HINT
                )
        except BaseException:
            self._recorder.unwind()
            self._pending = []
            raise
        self._pending.append(Iteration(i, run_id, prepare_id, guard_id, prepared))
        return time.perf_counter_ns() - began

    def collect(self) -> Segment:
        """Drain, decode, attribute everything iterated since the last call. Raises what `attribute` does."""
        iterations, self._pending = self._pending, []
        if not iterations:
            return Segment([], [], [], [], [])
        self._synchronize()
        window = (self._began, self._recorder.timestamp())
        records = self._recorder.take()
        if self.tick_ns is None:
            self.tick_ns = tick_of(kernel[2] - kernel[1] for kernel in records.kernels)
        try:
            segment = attribute(records, iterations, window, self._count_copies)
        except NoDeviceWork:
            self._recorder.refuse_taken_over()
            raise
        kernels = [{**kernel, "name": readable(kernel["name"])} for kernel in segment.kernels]
        return replace(segment, kernels=kernels)

    def close(self) -> None:
        """Stop recording."""
        self._pending = []
        if self._opened:
            self._opened = False
            self._recorder.disable()

    def _begin_block(self) -> None:
        """Throw away what ran between the blocks: it carries no id and is none of this timer's business."""
        if not self._opened:
            raise RuntimeError("open the timer before iterating")
        self._synchronize()
        self._recorder.take()
        self._began = self._recorder.timestamp()


def probe(timer: CuptiTimer | None = None, launch: Callable[[], object] | None = None) -> None:
    """Time one launch the whole way to its record. Raises TimerUnavailable with cause and fix."""
    timer = timer or CuptiTimer()
    launch = launch or _torch_launch()
    timer.open(count_copies=False, buffer_bytes=BUFFER_BYTES)
    try:
        timer.iterate(0, launch, launch)
        segment = timer.collect()
    except TimerUnavailable:
        raise
    except MeasurementError as error:
        raise TimerUnavailable(f"CUPTI cannot time a launch: {error.message}", OTHER_FIX) from error
    finally:
        timer.close()
    if segment.rejected or segment.lost:
        why = segment.rejected[0][1] if segment.rejected else f"{segment.lost} of its records were lost"
        raise TimerUnavailable(f"CUPTI cannot time a launch: {why}", OTHER_FIX)


def _torch_synchronize() -> Callable[[], object]:
    import torch

    if not torch.cuda.is_available():
        raise TimerUnavailable("torch sees no CUDA device", 'use timer "host" on a CPU')
    return torch.cuda.synchronize


def _torch_launch() -> Callable[[], object]:
    import torch

    x = torch.zeros(1, device="cuda")
    return lambda: x.add_(1)
