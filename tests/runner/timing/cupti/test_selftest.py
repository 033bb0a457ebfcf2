"""The CUPTI timer's self-test over a stand-in for cupti-python: what it proves, and what it refuses."""

from __future__ import annotations

import ctypes
import importlib
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.errors import TimerUnavailable
from evenbench.runner.execute.attempts import LaunchRecorder, LaunchSpec
from evenbench.runner.records.events import LaunchEvent
from evenbench.runner.timing.cupti import selftest
from evenbench.runner.timing.cupti import timer as cupti
from evenbench.runner.timing.cupti.driver import SPIN_PTX, Spinner, driver_version
from evenbench.runner.timing.cupti.selftest import (
    LONG_NS,
    RAMP_NS,
    SHORT_NS,
    SpinReading,
    Versions,
    canary,
    spelled,
    verify,
)
from evenbench.runner.timing.cupti.timer import OTHER_FIX, CuptiTimer
from evenbench.runner.timing.protocol import BUFFER_BYTES
from evenbench.runner.worker.launch.instruments import Instruments
from tests.runner.timing.cupti.test_timer import CuptiError, FakeCupti

OFFSET_NS = 690
FITTING = Versions("13.4.0", "13.4.1", "13.0")
SKEWED = Versions("13.4.0", "13.0.1", "13.0")


@pytest.fixture
def api() -> FakeCupti:
    return FakeCupti()


def timer_over(api: FakeCupti) -> CuptiTimer:
    return CuptiTimer(cupti.Recorder(api), lambda: None)


def spinner(api: FakeCupti, offset_ns: int = OFFSET_NS, slope: float = 1.0) -> Callable[[int], object]:
    return lambda ns: api.launch(int(slope * ns) + offset_ns, call=211)


def verified(api: FakeCupti, spin: Callable[[int], object], versions: Versions = FITTING) -> selftest.Facts:
    return verify(timer_over(api), spin, lambda: versions)


def test_a_true_timer_is_proven_and_says_what_it_found(api: FakeCupti) -> None:
    facts = verified(api, spinner(api))
    assert facts.pop("spent_ms") is not None
    assert facts == {
        "timer": "cupti",
        "constant_ns": OFFSET_NS,
        "slope": 1.0,
        "tick_ns": facts["tick_ns"],
        "drop_counter": "live",
        "cupti_python": "13.4.0",
        "libcupti": "13.4.1",
        "cuda_driver": "13.0",
        "profiler": "",
    }
    assert api.enabled == set()
    assert api.registered == 1


def test_cupti_is_as_before_after_the_self_test(api: FakeCupti) -> None:
    timer = timer_over(api)
    verify(timer, spinner(api), lambda: FITTING)
    timer.open(False, BUFFER_BYTES)
    timer.iterate(0, lambda: None, lambda: api.launch(1_234))
    segment = timer.collect()
    assert (segment.device_busy_ns, segment.lost, api.stacks) == ([1_234], 0, {4: [], 5: []})


@pytest.mark.parametrize(
    ("offset_ns", "slope", "fault"),
    [
        (OFFSET_NS, 1.006, "not 200 µs more within 0.5%"),
        (OFFSET_NS, 0.994, "not 200 µs more within 0.5%"),
        (2_000, 1.0, "2 µs off or more"),
        (-2_000, 1.0, "2 µs off or more"),
    ],
)
def test_a_timer_that_reads_wrong_is_refused_with_what_it_read(
    api: FakeCupti, offset_ns: int, slope: float, fault: str
) -> None:
    read = f"{(slope * SHORT_NS + offset_ns) / 1_000:.2f}"
    with pytest.raises(TimerUnavailable, match=rf"kernels of 20 and 220 µs read {read} and .*{fault}"):
        verified(api, spinner(api, offset_ns, slope))
    assert api.enabled == set()


def test_what_is_just_within_bounds_passes(api: FakeCupti) -> None:
    assert verified(api, spinner(api, 1_880, 1.0049))["slope"] == pytest.approx(1.0049)


def test_single_disturbed_readings_do_not_matter(api: FakeCupti) -> None:
    rng = random.Random(1)
    facts = verified(api, lambda ns: api.launch(ns + OFFSET_NS + (50_000 if rng.random() < 0.2 else 0)))
    assert facts["constant_ns"] == OFFSET_NS


def test_clocks_may_come_up_first(api: FakeCupti) -> None:
    ramped: list[int] = []

    def spin(ns: int) -> None:
        ramped.extend([ns] if ns == RAMP_NS else [])
        api.launch(ns + (OFFSET_NS if ramped else 4_000))

    assert verified(api, spin)["constant_ns"] == OFFSET_NS
    assert len(ramped) == 1


def test_the_grid_of_the_readings_is_found_by_both_forms(api: FakeCupti) -> None:
    def spin(ns: int) -> object:
        return api.launch(32 * ((ns + OFFSET_NS) // 32), call=211)

    assert verified(api, spin)["tick_ns"] == 32
    assert canary(timer_over(api), spin)["tick_ns"] == 32


def test_a_coarse_tick_of_the_devices_clock_does_not_fail_it(api: FakeCupti) -> None:
    rng = random.Random(1)
    # A kernel that begins inside a tick of 1 µs spins up to that much too short.
    facts = verified(api, lambda ns: api.launch(ns + OFFSET_NS - rng.randrange(1_000)))
    assert abs(float(facts["slope"] or 0) - 1) < 0.005


def test_a_drop_counter_that_counts_nothing_is_refused(api: FakeCupti) -> None:
    def silent(context: int, stream: int, address: int) -> None:
        ctypes.c_size_t.from_address(address).value = 0

    api.activity_get_num_dropped_records = silent  # type: ignore[method-assign]
    with pytest.raises(TimerUnavailable, match="counted none as dropped, so that losses would go unseen"):
        verified(api, spinner(api))
    assert api.enabled == set()


def test_an_unreadable_drop_counter_is_told(api: FakeCupti) -> None:
    def unreadable(context: int, stream: int, address: int) -> None:
        raise CuptiError

    api.activity_get_num_dropped_records = unreadable  # type: ignore[method-assign]
    assert verified(api, spinner(api))["drop_counter"] == "unreadable"


def test_a_large_buffer_still_in_cuptis_hands_is_waited_out(api: FakeCupti) -> None:
    held = [BUFFER_BYTES]
    requested: Any = None

    def emit_into_what_is_held(kind: Any, **fields: Any) -> None:
        nonlocal requested
        if api.requested() == (selftest.TOO_SMALL_BYTES, 0) and held:
            requested, api.requested = api.requested, lambda: (held[0], 0)
        emit(kind, **fields)

    def flush(flag: int) -> None:
        nonlocal requested
        if requested is not None:
            api.requested, requested = requested, None
            held.clear()
        flush_all(flag)

    emit, flush_all = api.emit, api.activity_flush_all
    api.emit, api.activity_flush_all = emit_into_what_is_held, flush  # type: ignore[method-assign]
    assert verified(api, spinner(api))["drop_counter"] == "live"
    assert held == []


def test_a_cupti_that_records_nothing_names_the_versions_that_do_not_fit(api: FakeCupti) -> None:
    with pytest.raises(
        TimerUnavailable, match=r"launched nothing.*hint: cupti-python 13\.4\.0 runs with libcupti 13\.0\.1"
    ):
        verified(api, lambda ns: None, SKEWED)


def test_versions_that_differ_but_work_are_told_not_refused(api: FakeCupti) -> None:
    assert verified(api, spinner(api), SKEWED)["libcupti"] == "13.0.1"


@pytest.mark.parametrize(
    ("ours", "theirs", "broken"),
    [
        ("13.4.0", "13.4.1", False),
        ("13.0.1", "13.4.1", False),
        ("13.4.0", "", False),
        ("", "13.4.1", False),
        ("13.4.0", "14.0.0", True),
    ],
)
def test_only_another_major_version_is_known_to_break(ours: str, theirs: str, broken: bool) -> None:
    versions = Versions(ours, theirs, "13.0")
    if not broken:
        versions.refuse_broken()
        return
    with pytest.raises(TimerUnavailable, match=r"13\.4\.0 cannot work with libcupti 14\.0\.0.*nvidia-cuda-cupti 13\.4"):
        versions.refuse_broken()


def test_a_mend_names_versions_only_where_they_differ() -> None:
    assert FITTING.fix == Versions("", "13.0.1", "").fix == OTHER_FIX
    assert "install nvidia-cuda-cupti 13.4" in SKEWED.fix


@pytest.mark.parametrize(("counted", "text"), [(130_401, "13.4.1"), (130_001, "13.0.1"), (28, ""), (0, "")])
def test_libcuptis_version_is_spelled_out(counted: int, text: str) -> None:
    assert spelled(counted) == text


def test_a_reading_knows_its_constant_and_slope() -> None:
    reading = SpinReading(SHORT_NS + 700, LONG_NS + 900)
    assert reading.constant_ns == 700
    assert reading.slope == pytest.approx(1.001)


def test_the_canary_is_short_and_finds_a_broken_timer(api: FakeCupti) -> None:
    launches: list[int] = []

    def spin(ns: int) -> None:
        launches.append(ns)
        api.launch(ns + OFFSET_NS)

    facts = canary(timer_over(api), spin)
    assert (facts["constant_ns"], facts["slope"]) == (OFFSET_NS, 1.0)
    assert sum(launches) < 1_000_000
    with pytest.raises(TimerUnavailable, match="self-test of CUPTI failed: iteration 0 launched nothing"):
        canary(timer_over(FakeCupti()), spinner(api))
    with pytest.raises(TimerUnavailable, match=r"within 2\.0%"):
        canary(timer_over(api), spinner(api, slope=1.03))


# --------------------------------------------------------------------------------------------------- versions, driver


@pytest.mark.parametrize("used", [0, 1])
def test_the_libcupti_that_is_called_is_found_among_two(
    used: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f0000000000-7f0000001000 r-xp 00000000 08:01 1  /torch/lib/libcupti.so.13\n"
        "7f0000002000-7f0000003000 r-xp 00000000 08:01 2  /own lib/libcupti.so.13\n"
        "7f0000004000-7f0000005000 r-xp 00000000 08:01 3  /lib/libc.so.6\n"
        "7f0000006000-7f0000007000 rw-p 00000000 00:00 0\n"
    )
    address = (0x7F0000000100, 0x7F0000002100)[used]
    internal = types.SimpleNamespace(_inspect_function_pointers=lambda: {"a": 0, "b": address})
    monkeypatch.setattr(selftest, "PROC_MAPS", maps)
    monkeypatch.setattr(importlib, "import_module", lambda name: internal)
    expected = ("/torch/lib/libcupti.so.13", "/own lib/libcupti.so.13")[used]
    assert selftest._libcupti_path() == expected
    internal._inspect_function_pointers = lambda: {"a": 0}
    assert selftest._libcupti_path() == ""  # two, and nothing to tell them apart
    maps.write_text(maps.read_text().replace("/own lib", "/torch/lib"))
    assert selftest._libcupti_path() == "/torch/lib/libcupti.so.13"


def test_versions_are_empty_where_there_is_no_cupti() -> None:
    assert selftest.versions_here().libcupti == ""


class FakeCuda:
    """libcuda: notes what it is asked to launch, or refuses."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.loaded = b""
        self.spun: list[tuple[int, int | None]] = []

    def _status(self, name: str) -> int:
        return 222 if name == self.refused else 0

    def cuModuleLoadData(self, module: Any, image: Any) -> int:  # noqa: N802
        self.loaded = image.value
        return self._status("cuModuleLoadData")

    def cuModuleGetFunction(self, function: Any, module: Any, name: Any) -> int:  # noqa: N802
        assert name.value == b"spin"
        return self._status("cuModuleGetFunction")

    def cuLaunchKernel(self, function: Any, *arguments: Any) -> int:  # noqa: N802
        *sizes, stream, parameters, extra = arguments
        assert [size.value for size in sizes] == [1, 1, 1, 1, 1, 1, 0]
        assert extra is None
        self.spun.append((ctypes.c_uint64.from_address(parameters[0]).value, stream.value))
        return self._status("cuLaunchKernel")

    def cuGetErrorName(self, status: Any, text: Any) -> int:  # noqa: N802
        text._obj.value = b"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 12090
        return self._status("cuDriverGetVersion")


def test_a_spinner_launches_one_thread_for_the_asked_time() -> None:
    cuda = FakeCuda()
    spin = Spinner(cuda, 42)
    spin(20_000)
    spin(2**40)
    assert cuda.spun == [(20_000, 42), (2**40, 42)]
    assert cuda.loaded == SPIN_PTX


def test_a_driver_that_refuses_the_kernel_is_named() -> None:
    with pytest.raises(TimerUnavailable, match="cuModuleLoadData gave CUDA_ERROR_UNSUPPORTED_PTX_VERSION"):
        Spinner(FakeCuda("cuModuleLoadData"), 0)
    with pytest.raises(TimerUnavailable, match="cuLaunchKernel gave"):
        Spinner(FakeCuda("cuLaunchKernel"), 0)(1)


def test_the_drivers_version_is_spelled_out() -> None:
    assert driver_version(FakeCuda()) == "12.9"
    assert driver_version(FakeCuda("cuDriverGetVersion")) == ""


# --------------------------------------------------------------------------------------------- in a launch, on record


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Both forms of the self-test fail, in turn by our error and by a foreign one."""
    errors: list[Exception] = [TimerUnavailable("no records", "fix it"), MemoryError("no context")]
    asked: list[str] = []

    def fails(name: str) -> Callable[[], None]:
        def fail() -> None:
            asked.append(name)
            raise errors[len(asked) - 1]

        return fail

    monkeypatch.setattr(selftest, "verify", fails("verify"))
    monkeypatch.setattr(selftest, "canary", fails("canary"))
    return asked


def test_a_failed_self_test_meets_whoever_asks_for_the_timer(refusing: list[str]) -> None:
    instruments = Instruments()
    instruments.refuse_unproven()
    assert instruments.prove_cupti(thorough=True) == {"timer": "cupti", "error": "no records (hint: fix it)"}
    with pytest.raises(TimerUnavailable, match="no records"):
        instruments.timer("cupti", 1)
    with pytest.raises(TimerUnavailable, match="no records"):
        instruments.refuse_unproven()
    assert instruments.timer("host", 1).name == "host"
    assert "MemoryError: no context" in str(instruments.prove_cupti(thorough=False)["error"])
    assert refusing == ["verify", "canary"]


class Lines:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def write(self, record: Any) -> None:
        self.records.append(record)


def recorded(machine: dict[str, Any]) -> dict[str, float | str | None]:
    lines = Lines()
    LaunchRecorder(lines).begin(LaunchSpec("base", "preparation", "fork"), 0, [], machine)  # type: ignore[arg-type]
    (event,) = lines.records
    assert isinstance(event, LaunchEvent)
    assert LaunchEvent.model_validate_json(event.model_dump_json()) == event
    return event.instrument


def test_what_the_self_test_found_goes_on_record(api: FakeCupti) -> None:
    facts = verified(api, spinner(api))
    assert recorded({"instrument": facts}) == facts
    assert recorded({}) == {}


@pytest.mark.parametrize("foreign", [None, 7, "x", ["a"]])
def test_an_instrument_that_is_no_mapping_is_left_out(foreign: object) -> None:
    assert recorded({"instrument": foreign}) == {}


def test_of_a_hostile_instrument_only_what_a_record_holds_is_kept() -> None:
    hostile = {
        "nan": float("nan"),
        "huge": 10**400,
        "yes": True,
        "deep": {"a": 1},
        "long": "x" * 10_000,
        "half \ud800": "\udfff",
        "fine": 0.5,
        "none": None,
    } | {f"more{i}": i for i in range(1_000)}
    kept = recorded({"instrument": hostile})
    assert len(kept) <= 50
    assert not {"nan", "huge", "yes", "deep"} & kept.keys()
    assert (kept["fine"], kept["none"], len(str(kept["long"]))) == (0.5, None, 1_024)
    assert kept["half ?"] == "?"
