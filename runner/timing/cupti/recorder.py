"""CUPTI's side of the timer: what it records, the buffers it fills, the stack of ids, and why it may refuse."""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import TimerUnavailable
from ..no_gc import no_collection
from ..protocol import BUFFER_BYTES
from .attribution import Records
from .driver import DRIVER_FIX, profiler_here, torch_profiler_records

ANY_NUMBER_OF_RECORDS = 0  # most records a buffer may hold; a small number swaps buffers inside the timed call
FORCED = 1  # flush buffers that are not full as well
NO_ID = 0  # never drawn; stands for an empty stack
UNWIND_MAX = 10_000  # ids that a call may have left behind; keeps a broken stack from hanging the launch

RECORD_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "EXTERNAL_CORRELATION", "RUNTIME", "DRIVER")
API_CALL = re.compile(r"(?:^|__)cu(?:da|64)?(Launch(?!HostFunc)|GraphLaunch|Memcpy|Memset)")
"""Calls that reach the device. Some members carry a private prefix (`__cudaLaunchKernel`)."""
RECORDED_CALLS = frozenset(("Launch", "GraphLaunch"))  # a copy may leave no record: one of no bytes, say

PROFILER_FIX = "CUPTI serves one tool in a process: run without nsys, ncu or torch.profiler"
FIXES: Mapping[str, str] = {
    "MULTIPLE_SUBSCRIBERS": PROFILER_FIX,
    "PRIVILEGES": "allow profiling to all users (NVreg_RestrictProfilingToAdminUsers=0), or run as root",
    "NOT_INITIALIZED": DRIVER_FIX,
    "DRIVER IS NOT FOUND": DRIVER_FIX,
}
OTHER_FIX = "check that cupti-python, nvidia-cuda-cupti and the driver fit each other, or use --timer cuda-events"


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
        self._recorded_calls = {
            self._kinds[name]: {call for call, what in calls.items() if what in RECORDED_CALLS}
            for name, calls in (("RUNTIME", runtime), ("DRIVER", driver))
        }
        api.activity_register_callbacks(self._requested, self._completed)

    def enable(self, buffer_bytes: int) -> None:
        """Switch the records on; of API calls only those that reach the device, whose records carry the ids."""
        if torch_profiler_records():
            raise TimerUnavailable("torch.profiler records in this process, and CUPTI serves one tool", PROFILER_FIX)
        self._buffer_bytes = buffer_bytes
        try:
            for kind in self._kinds.values():
                self._api.activity_enable(kind)
        except self._api.cuptiError as error:
            self.disable()
            raise refusal("CUPTI will not record", error) from error
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

    def refuse_taken_over(self) -> None:
        """Where no record came: whether another tool has CUPTI by now. Raises TimerUnavailable.

        torch.profiler stays subscribed after its end.
        """
        self.disable()
        refuse_other_subscriber(self._api)
        self.enable(self._buffer_bytes)

    def take(self) -> Records:
        """Everything recorded since the last call, and how many records were dropped meanwhile. Drain first."""
        with no_collection():
            self._api.activity_flush_all(FORCED)
        records, self._records = self._records, Records()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise TimerUnavailable(f"CUPTI's records cannot be read: {failure!r}", OTHER_FIX) from failure
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
        kinds, custom0, recorded_calls = self._kinds, self._custom0, self._recorded_calls
        kernel, external = kinds["CONCURRENT_KERNEL"], kinds["EXTERNAL_CORRELATION"]
        copies = (kinds["MEMCPY"], kinds["MEMSET"])
        add_kernel, add_copy = self._records.kernels.append, self._records.copies.append
        add_external, add_launch = self._records.external.append, self._records.launches.append
        for a in activities:
            kind = a.kind
            if kind == external:
                if a.external_kind == custom0:
                    add_external((a.correlation_id, a.external_id))
            elif kind in recorded_calls:
                if a.return_value == 0:  # a refused launch leaves no record
                    add_launch((a.correlation_id, a.cbid in recorded_calls[kind], a.start, a.end, a.thread_id))
            elif kind == kernel:
                grid, block = (a.grid_x, a.grid_y, a.grid_z), (a.block_x, a.block_y, a.block_z)
                shared_memory = a.static_shared_memory + a.dynamic_shared_memory
                what = (a.name, grid, block, a.registers_per_thread, shared_memory)
                add_kernel((a.correlation_id, a.start, a.end, *what, a.graph_id, a.graph_node_id))
            elif kind in copies:
                add_copy((a.correlation_id, a.start, a.end))


def refusal(what: str, error: Exception) -> TimerUnavailable:
    """The error for something that CUPTI refused, with its fix, and the profiler that may be why."""
    word = next((word for word in FIXES if word in str(error).upper()), "")
    profiler = profiler_here() if word == "MULTIPLE_SUBSCRIBERS" else ""
    message = f"{what}: {error}" + (f"; {profiler} holds it" if profiler else "")
    return TimerUnavailable(message, FIXES.get(word, OTHER_FIX))


@functools.cache
def recorder_here() -> Recorder:
    """The recorder of this process: CUPTI takes its callbacks once, so there is one, made when first asked for."""
    try:
        api = importlib.import_module("cupti.cupti")
    except (ImportError, OSError, RuntimeError) as error:
        raise TimerUnavailable(
            f"cupti-python cannot be loaded: {error}", "pip install 'evenbench[cuda]', or use --timer cuda-events"
        ) from error
    try:
        refuse_other_subscriber(api)
        return Recorder(api)
    except (api.cuptiError, RuntimeError) as error:  # importing succeeds without a driver; the first call fails
        raise refusal("CUPTI takes no callbacks", error) from error


def refuse_other_subscriber(api: Any) -> None:
    """CUPTI serves one tool at a time, and says by refusing a subscription that another was there first.

    To be asked while nothing is recorded: what is recorded then would not come. Raises TimerUnavailable, naming the
    tool where it shows.
    """
    try:
        api.unsubscribe(api.subscribe(_ignore, None))
    except api.cuptiError as error:
        if "MULTIPLE_SUBSCRIBERS" in str(error).upper():
            raise refusal("another tool is subscribed to CUPTI", error) from error


def _ignore(*_: object) -> None:
    """A callback that is never enabled."""


def _api_calls(api: Any, *spellings: str) -> dict[int, str]:
    """Number of every traced API call, and what it does on the device (empty: nothing).

    Args:
        spellings: names of the enum; cupti-python 13.0 and 13.4 write it differently.
    """
    members = next((getattr(api, name).__members__ for name in spellings if hasattr(api, name)), None)
    if members is None:
        raise TimerUnavailable(
            f"this cupti-python has no {spellings[0]}: it is none of the versions known here",
            "install a cupti-python from 13.0.1 to 13.4.0",
        )
    calls: dict[int, str] = {}
    for name, member in members.items():
        if name not in {"INVALID", "SIZE", "FORCE_INT"}:
            found = API_CALL.search(name)
            calls[int(member)] = found[1] if found else calls.get(int(member), "")
    return calls
