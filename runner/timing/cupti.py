"""The CUPTI timer: reads from the device's own records when it executed the kernels of an iteration.

Every iteration runs under a correlation id of its own, which each launch inside carries into its record. What the
records then mean is `attribution`'s affair; this module makes CUPTI emit them, copies them out, and watches the ids.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import random
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import AttributionForged, TimerUnavailable
from .attribution import FORGED_HINT, Iteration, Records, attribute, tick_of
from .protocol import BUFFER_BYTES, Segment

ANY_NUMBER_OF_RECORDS = 0  # most records a buffer may hold; a small number swaps buffers inside the timed call
FORCED = 1  # flush buffers that are not full as well
ID_BITS = 63  # of 64 unsigned ones, so that they survive any signed detour
NO_ID = 0  # never drawn; stands for an empty stack
UNWIND_MAX = 10_000  # ids that a call may have left behind; keeps a broken stack from hanging the launch

RECORD_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "EXTERNAL_CORRELATION", "RUNTIME", "DRIVER")
API_CALL = re.compile(r"(?:^|__)cu(?:da|64)?(Launch(?!HostFunc)|GraphLaunch|Memcpy|Memset)")
"""Calls that reach the device. Some members carry a private prefix (`__cudaLaunchKernel`)."""

MENDS: Mapping[str, str] = {
    "MULTIPLE_SUBSCRIBERS": "another profiler holds CUPTI in this process: run without nsys, ncu or torch.profiler",
    "PRIVILEGES": "allow profiling to all users (NVreg_RestrictProfilingToAdminUsers=0), or run as root",
    "NOT_INITIALIZED": "check that the NVIDIA driver is loaded and visible in this container",
}
OTHER_MEND = "check that cupti-python, nvidia-cuda-cupti and the driver fit each other, or use --timer cuda-events"


class CuptiTimer:
    """Busy time and latency of the device by CUPTI activity records.

    `tick_ns` is estimated from the first block that has enough time stamps.

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
        self._recorder = recorder or _recorder()
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
        iteration = Iteration(i, draw(ID_BITS) or 1, draw(ID_BITS) or 1, draw(ID_BITS) or 1)
        began = time.perf_counter_ns()
        try:
            push(iteration.prepare)
            prepare()
            intact = pop() == iteration.prepare
            synchronize()
            push(iteration.guard)
            push(iteration.run)
            run()
            intact = pop() == iteration.run and pop() == iteration.guard and intact
            synchronize()
            if not intact:
                raise AttributionForged(
                    f"the call of iteration {i} left the stack of correlation ids changed", FORGED_HINT
                )
        except BaseException:
            self._recorder.unwind()
            self._pending = []
            raise
        self._pending.append(iteration)
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
            self.tick_ns = tick_of(stamp for kernel in records.kernels for stamp in (kernel[1], kernel[2]))
        return attribute(records, iterations, window, self._count_copies)

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


def probe() -> None:
    """Try the whole way to the first record. Raises TimerUnavailable with cause and mend."""
    timer = CuptiTimer()
    timer.open(count_copies=False, buffer_bytes=BUFFER_BYTES)
    timer.close()


class Recorder:
    """CUPTI's side: switches records on and off, copies them out of the buffers, keeps the stack of ids."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._records = Records()
        self._failure: BaseException | None = None
        self._buffer_bytes = BUFFER_BYTES
        self._kinds = {name: int(api.ActivityKind[name]) for name in RECORD_KINDS}
        self._custom0 = int(api.ExternalCorrelationKind.CUSTOM0)
        self._push, self._pop = api.activity_push_external_correlation_id, api.activity_pop_external_correlation_id
        runtime = _api_calls(api, "RuntimeApiTraceCbid", "runtime_api_trace_cbid")
        driver = _api_calls(api, "DriverApiTraceCbid", "driver_api_trace_cbid")
        self._filters = ((api.activity_enable_runtime_api, runtime), (api.activity_enable_driver_api, driver))
        self._kernel_launches = {
            self._kinds[name]: {call for call, what in calls.items() if what == "Launch"}
            for name, calls in (("RUNTIME", runtime), ("DRIVER", driver))
        }
        api.activity_register_callbacks(self._requested, self._completed)

    def enable(self, buffer_bytes: int) -> None:
        """Switch the records on; of API calls only those that reach the device, whose records carry the ids."""
        self._buffer_bytes = buffer_bytes
        try:
            for kind in self._kinds.values():
                self._api.activity_enable(kind)
        except self._api.cuptiError as error:
            self.disable()
            mend = next((mend for word, mend in MENDS.items() if word in str(error).upper()), OTHER_MEND)
            raise TimerUnavailable(f"CUPTI will not record: {error}", mend) from error
        for switch, calls in self._filters:  # enabling a kind switched all of its calls on again
            for call, what in calls.items():
                if not what:
                    self._switch_off(switch, call)

    def _switch_off(self, switch: Callable[[int, int], object], call: int) -> None:
        try:
            switch(call, 0)
        except self._api.cuptiError:  # a call that this libcupti does not know makes no records either
            return

    def disable(self) -> None:
        """Switch the records off, as far as they were on."""
        for kind in self._kinds.values():
            try:
                self._api.activity_disable(kind)
            except self._api.cuptiError:  # after a failed CUDA call everything fails; the call's own error counts
                return

    def take(self) -> Records:
        """Everything recorded since the last call, and how many records were dropped meanwhile. Drain first."""
        self._api.activity_flush_all(FORCED)
        records, self._records = self._records, Records()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise TimerUnavailable(f"CUPTI's records cannot be read: {failure!r}", OTHER_MEND) from failure
        records.lost = self._dropped()
        return records

    def _dropped(self) -> int | None:
        """Records dropped since the last call; None where CUPTI will not say."""
        dropped = ctypes.c_size_t(0)
        try:
            self._api.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
        except (AttributeError, self._api.cuptiError):
            return None
        return dropped.value

    def timestamp(self) -> int:
        """Now, on the clock of the records."""
        return int(self._api.get_timestamp())

    def push(self, identity: int) -> None:
        """Launches of this thread carry this id from now on."""
        self._push(self._custom0, identity)

    def pop(self) -> int:
        """Take the id off that is on top; NO_ID where there is none."""
        try:
            return int(self._pop(self._custom0))
        except self._api.cuptiError:
            return NO_ID

    def unwind(self) -> None:
        """Take all ids off, after a call that ended in the middle."""
        for _ in range(UNWIND_MAX):
            if self.pop() == NO_ID:
                return

    def _requested(self) -> tuple[int, int]:
        return self._buffer_bytes, ANY_NUMBER_OF_RECORDS

    def _completed(self, activities: list[Any]) -> None:
        """Copy the fields out at once: the records die with their buffer. An error must not get lost in CUPTI."""
        try:
            self._copy(activities)
        except Exception as error:  # noqa: BLE001 (whatever it is: `take` reports it)
            self._failure = error

    def _copy(self, activities: list[Any]) -> None:
        kinds, custom0, kernel_launches = self._kinds, self._custom0, self._kernel_launches
        kernel, external = kinds["CONCURRENT_KERNEL"], kinds["EXTERNAL_CORRELATION"]
        copies = (kinds["MEMCPY"], kinds["MEMSET"])
        add_kernel, add_copy = self._records.kernels.append, self._records.copies.append
        add_external, add_launch = self._records.external.append, self._records.launches.append
        for a in activities:
            kind = a.kind
            if kind == external:
                if a.external_kind == custom0:
                    add_external((a.correlation_id, a.external_id))
            elif kind in kernel_launches:
                if a.return_value == 0:  # a refused launch leaves no record
                    add_launch((a.correlation_id, a.cbid in kernel_launches[kind], a.start, a.end, a.thread_id))
            elif kind == kernel:
                grid, block = (a.grid_x, a.grid_y, a.grid_z), (a.block_x, a.block_y, a.block_z)
                shared_memory = a.static_shared_memory + a.dynamic_shared_memory
                add_kernel(
                    (a.correlation_id, a.start, a.end, a.name, grid, block, a.registers_per_thread, shared_memory)
                )
            elif kind in copies:
                add_copy((a.correlation_id, a.start, a.end))


def _torch_synchronize() -> Callable[[], object]:
    import torch

    if not torch.cuda.is_available():
        raise TimerUnavailable("torch sees no CUDA device", 'use timer "host" on a CPU')
    return torch.cuda.synchronize


@functools.cache
def _recorder() -> Recorder:
    """The recorder of this process: CUPTI takes its callbacks once, so there is one, made when first asked for."""
    try:
        api = importlib.import_module("cupti.cupti")
    except (ImportError, OSError, RuntimeError) as error:
        raise TimerUnavailable(
            f"cupti-python cannot be loaded: {error}", "pip install 'evenbench[cuda]', or use --timer cuda-events"
        ) from error
    try:
        return Recorder(api)
    except api.cuptiError as error:  # importing succeeds without a driver; the first call fails
        raise TimerUnavailable(f"CUPTI takes no callbacks: {error}", OTHER_MEND) from error


def _api_calls(api: Any, *spellings: str) -> dict[int, str]:
    """Number of every traced API call, and what it does on the device (empty: nothing).

    Args:
        spellings: names of the enum; cupti-python 13.0 and 13.4 write it differently.
    """
    members = next(getattr(api, name).__members__ for name in spellings if hasattr(api, name))
    calls: dict[int, str] = {}
    for name, member in members.items():
        if name not in {"INVALID", "SIZE", "FORCE_INT"}:
            found = API_CALL.search(name)
            calls[int(member)] = found[1] if found else calls.get(int(member), "")
    return calls
