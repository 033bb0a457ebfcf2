"""The CUPTI timer over a stand-in for cupti-python that keeps ids and emits records as CUPTI does."""

from __future__ import annotations

import ctypes
import enum
import gc
import itertools
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from evenbench.runner.errors import AttributionForged, NoDeviceWork, OffThreadLaunch, RecordsLost, TimerUnavailable
from evenbench.runner.timing.cupti.driver import profiler_here
from evenbench.runner.timing.cupti.recorder import refuse_other_subscriber
from evenbench.runner.timing.cupti.timer import CuptiTimer, Recorder, probe
from evenbench.runner.timing.protocol import Counts, measure

MB = 1 << 20


class CuptiError(Exception):
    pass


class Kind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    EXTERNAL_CORRELATION = 39


class External(enum.IntEnum):
    CUSTOM0 = 4
    CUSTOM1 = 5


RUNTIME_CALLS = {
    "INVALID": 0,
    "cudaMalloc_v3020": 20,
    "cudaLaunchKernel_v7000": 211,
    "_RuntimeApiTraceCbid__cudaLaunchKernel_v13000": 212,
    "cudaLaunchHostFunc_v10000": 213,
    "cudaGraphLaunch_v10000": 214,
    "cudaGraphAddMemcpyNode_v10000": 215,
    "cudaMemcpyAsync_v3020": 41,
    "cudaMemsetAsync_v3020": 51,
    "SIZE": 999,
}
DRIVER_CALLS = {"cuInit": 1, "cuLaunchKernel": 307, "cu64MemcpyDtoD": 220, "cuMemsetD8_v2": 249}


class Record(SimpleNamespace):
    """Can be watched, unlike its base."""


class FakeCupti:
    """Records wait in a buffer until they are flushed; one that is too small drops them."""

    ActivityKind = Kind
    ExternalCorrelationKind = External
    cuptiError = CuptiError  # noqa: N815 (its real name)

    def __init__(self, *, old_names: bool = False, refuses: str = "", record_bytes: int = 100) -> None:
        runtime = enum.IntEnum("Runtime", RUNTIME_CALLS)  # type: ignore[misc]
        driver = enum.IntEnum("Driver", DRIVER_CALLS)  # type: ignore[misc]
        names = ("runtime_api_trace_cbid", "driver_api_trace_cbid")
        for name, calls in zip(
            names if old_names else ("RuntimeApiTraceCbid", "DriverApiTraceCbid"), (runtime, driver), strict=True
        ):
            setattr(self, name, calls)
        self.refuses = refuses
        self.record_bytes = record_bytes
        self.enabled: set[int] = set()
        self.calls_off: dict[str, set[int]] = {"runtime": set(), "driver": set()}
        self.stacks: dict[int, list[int]] = {4: [], 5: []}
        self.waiting: list[Any] = []
        self.dropped = 0
        self.correlation = 0
        self.now = 10_000_000
        self.registered = 0
        self.subscriber = ""  # who holds CUPTI, by the error that it gives

    def subscribe(self, callback: object, userdata: object) -> int:
        assert not self.enabled, "what is recorded now would not come"
        if self.subscriber:
            raise CuptiError(self.subscriber)
        return 7

    def unsubscribe(self, handle: int) -> None:
        assert handle == 7

    def activity_register_callbacks(self, requested: Callable[[], Any], completed: Callable[[list[Any]], None]) -> None:
        self.registered += 1
        self.requested, self.completed = requested, completed

    def activity_enable(self, kind: int) -> None:
        if self.refuses:
            raise CuptiError(self.refuses)
        self.enabled.add(kind)
        for off in self.calls_off.values():
            off.clear()

    def activity_disable(self, kind: int) -> None:
        self.enabled.discard(kind)

    def activity_enable_runtime_api(self, call: int, enable: int) -> None:
        assert enable == 0
        self.calls_off["runtime"].add(call)

    def activity_enable_driver_api(self, call: int, enable: int) -> None:
        if call == 1:
            raise CuptiError("CUPTI_ERROR_INVALID_PARAMETER")
        self.calls_off["driver"].add(call)

    def activity_push_external_correlation_id(self, kind: int, identity: int) -> None:
        self.stacks[kind].append(identity)

    def activity_pop_external_correlation_id(self, kind: int) -> int:
        if not self.stacks[kind]:
            raise CuptiError("CUPTI_ERROR_QUEUE_EMPTY")
        return self.stacks[kind].pop()

    def activity_get_num_dropped_records(self, context: int, stream: int, address: int) -> None:
        ctypes.c_size_t.from_address(address).value = self.dropped
        self.dropped = 0

    def activity_flush_all(self, flag: int) -> None:
        waiting, self.waiting = self.waiting, []
        if waiting:
            self.completed(waiting)

    def get_timestamp(self) -> int:
        self.now += 10
        return self.now

    def emit(self, kind: Kind, **fields: Any) -> None:
        if kind not in self.enabled:
            return
        size, most = self.requested()
        assert most == 0
        if size < self.record_bytes:
            self.dropped += 1
        else:
            self.waiting.append(Record(kind=int(kind), **fields))

    def launch(
        self, ns: int = 1_000, *, name: str = "k", call: int = 211, with_id: bool = True, copy: bool = False
    ) -> int:
        self.correlation += 1
        for kind, stack in self.stacks.items():
            if stack and with_id:
                self.emit(
                    Kind.EXTERNAL_CORRELATION,
                    external_kind=kind,
                    external_id=stack[-1],
                    correlation_id=self.correlation,
                )
        self.emit(
            Kind.RUNTIME,
            cbid=call,
            correlation_id=self.correlation,
            start=self.now,
            end=self.now + 10,
            thread_id=1,
            return_value=0,
        )
        times = {"correlation_id": self.correlation, "start": self.now, "end": self.now + ns}
        self.now += ns + 100
        if copy:
            self.emit(Kind.MEMCPY, **times)
            return self.correlation
        shape = {f"{what}_{axis}": 1 for what in ("grid", "block") for axis in "xyz"}
        sizes = {"registers_per_thread": 8, "static_shared_memory": 16, "dynamic_shared_memory": 32}
        graph = {"graph_id": 0, "graph_node_id": 0}
        self.emit(Kind.CONCURRENT_KERNEL, name=name, **times, **shape, **sizes, **graph)
        return self.correlation


@pytest.fixture
def api() -> FakeCupti:
    return FakeCupti()


def timer_over(api: FakeCupti, *, count_copies: bool = False) -> CuptiTimer:
    timer = CuptiTimer(Recorder(api), lambda: None)
    timer.open(count_copies, MB)
    return timer


def sweep(api: FakeCupti) -> Callable[[], object]:
    return lambda: api.launch(5_000, name="sweep")


def nothing() -> None:
    return None


def test_kernels_lead_back_to_their_iteration_and_preparation_stays_out(api: FakeCupti) -> None:
    timer = timer_over(api)
    api.launch(name="between the blocks", with_id=False)
    for i in range(3):
        timer.iterate(i, sweep(api), lambda i=i: [api.launch(1_000 + i), api.launch(2_000, name="l")])  # type: ignore[misc]
    segment = timer.collect()
    assert segment.indices == [0, 1, 2]
    assert segment.device_busy_ns == [3_000, 3_001, 3_002]
    assert segment.latency_ns == [3_100, 3_101, 3_102]
    assert segment.n_kernels == [2, 2, 2]
    shape = {"grid": [1, 1, 1], "block": [1, 1, 1], "registers": 8, "shared_memory": 48, "count": 3}
    assert segment.kernels == [
        {"name": "k", **shape, "median_ns": 1_001},
        {"name": "l", **shape, "median_ns": 2_000},
    ]
    assert timer.collect().indices == []
    assert api.stacks == {4: [], 5: []}


@pytest.mark.parametrize("old_names", [False, True])
def test_only_calls_that_reach_the_device_are_traced(old_names: bool) -> None:
    api = FakeCupti(old_names=old_names)
    timer = timer_over(api)
    assert api.enabled == set(Kind)
    assert api.calls_off == {"runtime": {20, 213, 215}, "driver": set()}
    timer.close()
    assert api.enabled == set()


def test_ids_are_drawn_anew_for_every_iteration(api: FakeCupti) -> None:
    timer = timer_over(api)
    seen: list[int] = []

    def call() -> None:
        seen.append(api.stacks[4][-1])
        api.launch()

    for i in range(50):
        timer.iterate(i, call, call)
    assert len(set(seen)) == 100
    assert len({after - before for before, after in itertools.pairwise(seen)}) == 99


def test_two_opens_register_the_callbacks_once(api: FakeCupti) -> None:
    timer = timer_over(api)
    for count_copies in (False, True):
        timer.open(count_copies, MB)
        timer.iterate(0, nothing, api.launch)
        assert timer.collect().indices == [0]
    assert api.registered == 1


def test_a_custom1_id_is_the_calls_own_affair(api: FakeCupti) -> None:
    timer = timer_over(api)

    def call() -> None:
        api.activity_push_external_correlation_id(5, 77)
        api.launch()
        api.activity_pop_external_correlation_id(5)

    timer.iterate(0, nothing, call)
    assert timer.collect().indices == [0]


def pop(api: FakeCupti) -> None:
    api.launch()
    api.activity_pop_external_correlation_id(4)


def push(api: FakeCupti) -> None:
    api.activity_push_external_correlation_id(4, 77)
    api.launch()


def pop_twice_and_push_one(api: FakeCupti) -> None:
    api.launch()
    api.activity_pop_external_correlation_id(4)
    api.activity_push_external_correlation_id(4, api.activity_pop_external_correlation_id(4))


@pytest.mark.parametrize(
    ("tamper", "in_preparation"),
    [(pop, False), (push, False), (pop_twice_and_push_one, False), (pop, True), (push, True)],
)
def test_a_stack_left_changed_is_forged_at_once(
    api: FakeCupti, tamper: Callable[[FakeCupti], None], in_preparation: bool
) -> None:
    timer = timer_over(api)
    calls = (lambda: tamper(api), api.launch)
    with pytest.raises(AttributionForged, match=r"iteration 5 .*CUSTOM1"):
        timer.iterate(5, *(calls if in_preparation else reversed(calls)))
    assert api.stacks[4] == []


def hide_under_own_id(api: FakeCupti) -> None:
    api.launch()
    api.activity_push_external_correlation_id(4, 77)
    api.launch()
    api.activity_pop_external_correlation_id(4)


def hide_under_what_lies_below(api: FakeCupti) -> None:
    api.launch()
    identity = api.activity_pop_external_correlation_id(4)
    api.launch()
    api.activity_push_external_correlation_id(4, identity)


@pytest.mark.parametrize("hide", [hide_under_own_id, hide_under_what_lies_below])
def test_kernels_hidden_by_a_stack_put_back_are_found_in_the_records(
    api: FakeCupti, hide: Callable[[FakeCupti], None]
) -> None:
    timer = timer_over(api)
    timer.iterate(0, sweep(api), lambda: hide(api))
    with pytest.raises(AttributionForged):
        timer.collect()


def test_a_call_that_raises_leaves_no_id_and_no_record_behind(api: FakeCupti) -> None:
    timer = timer_over(api)

    def call() -> None:
        api.launch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        timer.iterate(0, sweep(api), call)
    assert api.stacks[4] == []
    timer.iterate(1, sweep(api), api.launch)
    assert timer.collect().indices == [1]


def test_work_of_another_thread_and_no_work_at_all_have_their_own_errors(api: FakeCupti) -> None:
    timer = timer_over(api)
    timer.iterate(0, nothing, lambda: [api.launch(), api.launch(name="engine", with_id=False)])
    with pytest.raises(OffThreadLaunch, match="kernel engine"):
        timer.collect()
    timer.iterate(0, sweep(api), nothing)
    with pytest.raises(NoDeviceWork):
        timer.collect()
    timer.iterate(0, sweep(api), lambda: api.launch(call=41, copy=True))
    with pytest.raises(NoDeviceWork, match="count_copies=True"):
        timer.collect()


def test_copies_count_where_told(api: FakeCupti) -> None:
    timer = timer_over(api, count_copies=True)
    timer.iterate(0, nothing, lambda: api.launch(300, call=41, copy=True))
    assert timer.collect().device_busy_ns == [300]


def test_a_buffer_too_small_is_noticed_and_larger_ones_follow(api: FakeCupti) -> None:
    timer = CuptiTimer(Recorder(api), lambda: None)
    measured = measure(
        timer,
        sweep(api),
        api.launch,
        Counts(1, 10),
        deadline_ns=None,
        clock=lambda: 0,
        buffer_bytes=api.record_bytes // 4,
    )
    assert [retry.buffer_bytes for retry in measured.retries] == [25]
    assert measured.segment.indices == list(range(10))
    with pytest.raises(RecordsLost):
        measure(timer, sweep(api), api.launch, Counts(1, 10), deadline_ns=None, clock=lambda: 0, buffer_bytes=1)


def test_a_counter_that_cannot_be_read_makes_missing_work_lost_work(api: FakeCupti) -> None:
    def unreadable(context: int, stream: int, address: int) -> None:
        raise CuptiError

    api.activity_get_num_dropped_records = unreadable  # type: ignore[method-assign]
    timer = timer_over(api)
    timer.iterate(0, nothing, api.launch)
    assert timer.collect().indices == [0]
    timer.iterate(0, nothing, nothing)
    with pytest.raises(RecordsLost, match="cannot be excluded"):
        timer.collect()


def test_an_error_while_decoding_is_not_lost_in_the_callback(api: FakeCupti) -> None:
    timer = timer_over(api)
    timer.iterate(0, nothing, api.launch)
    api.waiting.append(SimpleNamespace(kind=int(Kind.CONCURRENT_KERNEL)))
    with pytest.raises(TimerUnavailable, match="AttributeError"):
        timer.collect()


@pytest.mark.parametrize(
    ("status", "mend"),
    [
        ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "without nsys"),
        ("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("CUPTI_ERROR_UNKNOWN", "fit each other"),
    ],
)
def test_a_refusal_names_its_cause_and_its_mend(status: str, mend: str) -> None:
    with pytest.raises(TimerUnavailable, match=f"{status}.*hint: .*{mend}"):
        timer_over(FakeCupti(refuses=status))


def test_the_tick_comes_from_the_first_block_with_enough_different_durations(api: FakeCupti) -> None:
    timer = timer_over(api)
    api.now -= api.now % 32
    assert timer.tick_ns is None
    for i in range(60):
        timer.iterate(i, nothing, lambda i=i: api.launch(32 * (31 + i % 37)))  # type: ignore[misc]
        api.now += -api.now % 32
    timer.collect()
    assert timer.tick_ns == 32


def test_iterating_before_opening_is_a_mistake_of_ours(api: FakeCupti) -> None:
    with pytest.raises(RuntimeError, match="open the timer"):
        CuptiTimer(Recorder(api), lambda: None).iterate(0, nothing, nothing)


def test_a_kernel_hidden_under_the_preparations_id_is_found(api: FakeCupti) -> None:
    timer = timer_over(api)
    learnt: list[int] = []

    def reset() -> None:
        learnt.append(api.stacks[4][-1])
        api.launch(name="reset")

    def hide() -> None:
        api.launch()
        api.activity_push_external_correlation_id(4, learnt[-1])
        api.launch(name="hidden")
        api.activity_pop_external_correlation_id(4)

    timer.iterate(0, reset, api.launch)
    assert timer.collect().indices == [0]
    timer.iterate(0, reset, hide)
    with pytest.raises(AttributionForged, match="after preparation ended"):
        timer.collect()


def test_no_record_outlives_its_block(api: FakeCupti) -> None:
    timer = timer_over(api)
    names: list[weakref.ref[object]] = []
    emit = api.emit

    def watched(kind: Kind, **fields: Any) -> None:
        emit(kind, **fields)
        names.extend(weakref.ref(record) for record in api.waiting[-1:])

    api.emit = watched  # type: ignore[method-assign]
    for i in range(5):
        timer.iterate(i, sweep(api), api.launch)
    timer.collect()
    gc.collect()
    assert len(names) >= 10 * 3
    assert [name() for name in names if name() is not None] == []


def test_the_probe_times_one_launch(api: FakeCupti) -> None:
    launches: list[int] = []
    probe(CuptiTimer(Recorder(api), lambda: None), lambda: launches.append(api.launch()))
    assert len(launches) == 2  # one in preparation, one that is timed
    assert api.enabled == set()


def test_a_probe_without_a_record_says_so(api: FakeCupti) -> None:
    with pytest.raises(TimerUnavailable, match="CUPTI cannot time a launch: .*launched nothing"):
        probe(CuptiTimer(Recorder(api), lambda: None), nothing)
    assert api.enabled == set()


def test_a_probe_whose_records_are_lost_says_so(api: FakeCupti) -> None:
    api.record_bytes = 10 * MB
    with pytest.raises(TimerUnavailable, match="CUPTI cannot time a launch: .* lost"):
        probe(CuptiTimer(Recorder(api), lambda: None), api.launch)


def test_a_cupti_python_with_other_names_is_refused(api: FakeCupti) -> None:
    del api.RuntimeApiTraceCbid  # type: ignore[attr-defined]
    with pytest.raises(TimerUnavailable, match=r"RuntimeApiTraceCbid.*13\.0\.1 to 13\.4\.0"):
        Recorder(api)


def test_another_subscriber_is_refused_by_name(api: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_other_subscriber(api)
    api.subscriber = "ERROR_UNKNOWN (999)"  # says nothing about others
    refuse_other_subscriber(api)
    api.subscriber = "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/nvidia/nsight-systems/libToolsInjection64.so")
    with pytest.raises(TimerUnavailable, match=r"MULTIPLE_SUB.*Nsight Systems \(CUDA_INJECTION64_PATH.*without nsys"):
        refuse_other_subscriber(api)


def test_who_subscribed_since_the_last_call_is_refused_as_well(api: FakeCupti) -> None:
    """torch.profiler stays subscribed after its end."""
    timer = timer_over(api)
    timer.iterate(0, nothing, api.launch)
    assert timer.collect().n_kernels == [1]
    api.subscriber = "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"
    timer.iterate(1, nothing, nothing)  # its records go to the other
    with pytest.raises(TimerUnavailable, match=r"another tool is subscribed.*torch\.profiler"):
        timer.collect()


def test_torchs_profiler_is_refused_by_name(api: FakeCupti) -> None:
    torch = pytest.importorskip("torch")
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(TimerUnavailable, match=r"torch\.profiler records"),
    ):
        timer_over(api)
    timer_over(api).close()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ""),
        ({"CUDA_INJECTION64_PATH": "/x/ncu/lib.so"}, "Nsight Compute (CUDA_INJECTION64_PATH=/x/ncu/lib.so)"),
        ({"NVTX_INJECTION64_PATH": "/x/mine.so"}, "a tool (NVTX_INJECTION64_PATH=/x/mine.so)"),
        ({"NSYS_PROFILING_SESSION_ID": "1"}, "Nsight Systems"),
    ],
)
def test_a_profiler_shows_in_the_environment(environ: dict[str, str], expected: str) -> None:
    assert profiler_here(environ) == expected
