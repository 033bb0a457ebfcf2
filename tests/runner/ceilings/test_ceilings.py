"""Ceilings: from a device that says what the test wants to the record, where it is kept, and what a run makes of it."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.ceilings import keys
from evenbench.runner.ceilings.for_run import RunCeilings, may_measure
from evenbench.runner.ceilings.obtain import ceilings_of, key_of, obtain
from evenbench.runner.ceilings.probe import curve
from evenbench.runner.ceilings.probe.benchmarker import Benchmarker, Probe
from evenbench.runner.ceilings.probe.clocks import TimerClock, WallClock, device_clock
from evenbench.runner.ceilings.probe.peaks import REPEATS, WINDOWS_MOST, FoundPeaks, find, spread_of
from evenbench.runner.ceilings.probe.probes import PEAKS_VERSION, PeakTarget, Shape, Unsupported
from evenbench.runner.ceilings.store import FILE_MAX, Key, Store, user_store
from evenbench.runner.errors import MeasurementError, TimerUnavailable, UnfitMachine, UntrustedInput, UsageError
from evenbench.runner.execute import measuring
from evenbench.runner.machine.gpus import Gpu
from evenbench.runner.process.bounded import Finished
from evenbench.runner.records import CeilingsEvent, parse_event
from evenbench.runner.timing.protocol import Segment

KEY = Key("NVIDIA H200", "GPU-1", {"driver": "580", "sm clock": "1980 MHz"})
GPU = Gpu("GPU-1", "NVIDIA H200", "580")


def event_of(key: Key = KEY, **changes: Any) -> CeilingsEvent:
    fields: dict[str, Any] = {
        "device": key.name,
        "uuid": key.uuid,
        "software": dict(key.software),
        "rates": {"launch": 2e5},
    }
    return CeilingsEvent(**fields | changes)


# ----------------------------------------------------------------------------------------------------------------- curve


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        (1, [1]),
        (8191, [8191]),
        (8192, [8192]),
        (16383, [8192]),
        (16384, [8192, 16384]),
        (100_000, [8192, 16384, 32768, 65536]),
    ],
)
def test_working_sets(cap: int, expected: list[int]) -> None:
    assert list(curve.sizes(cap)) == expected


@given(st.integers(min_value=8192, max_value=1 << 40))
def test_working_sets_are_all_powers_that_fit(cap: int) -> None:
    found = list(curve.sizes(cap))
    assert found[0] == 8192
    assert all(after == 2 * before for before, after in itertools.pairwise(found))
    assert found[-1] <= cap < 2 * found[-1]


def test_points_that_are_none_are_dropped_and_of_duplicates_the_first_stays() -> None:
    inf, nan = float("inf"), float("nan")
    measured = [
        (64, 3.0),
        (8, 1.0),
        (0, 5.0),
        (-1, 5.0),
        (16, 0.0),
        (16, -1.0),
        (16, inf),
        (16, nan),
        (16, 2.0),
        (8, 9.0),
    ]
    assert curve.points(measured) == [(8, 1.0), (16, 2.0), (64, 3.0)]


# ----------------------------------------------------------------------------------------------------------------- peaks


@dataclass
class Fake:
    """A device of which every shape has a pace: seconds an iteration, or what it raises."""

    paces: dict[str, dict[str, float | Exception | Callable[[int], float]]] = field(default_factory=dict)
    window_cap: int = 32_768
    timing: str = "cupti"
    now: float = 0.0
    launches: list[tuple[str, int]] = field(default_factory=list)

    def targets(self) -> Sequence[PeakTarget]:
        return [PeakTarget(key, lambda key=key: self._shapes(key)) for key in self.paces]  # type: ignore[misc]

    def window(self, nbytes: int) -> Sequence[Shape]:
        if nbytes == 16_384:
            raise MeasurementError("no such copy")
        return [self._shape(f"copy {nbytes}", pace, nbytes) for pace in (nbytes * 1e-9 + 1e-6, nbytes * 2e-9 + 1e-6)]

    def _shapes(self, key: str) -> Sequence[Shape]:
        if "broken" in self.paces[key]:
            raise Unsupported("this device has none")
        return [self._shape(name, pace, 10) for name, pace in self.paces[key].items()]

    def _shape(self, name: str, pace: Any, ops: float) -> Shape:
        def sample(iterations: int) -> float:
            self.launches.append((name, iterations))
            if isinstance(pace, Exception):
                raise pace
            took: float = (pace(len(self.launches)) if callable(pace) else pace) * iterations
            self.now += max(took, 1e-6)
            return took

        return Shape(name, Probe(sample, ops))


def peaks_of(device: Fake, **options: Any) -> FoundPeaks:
    return find(device, Benchmarker(lambda: device.now), lambda _: None, **options)


def test_of_several_shapes_the_fastest_is_measured_five_times() -> None:
    device = Fake({"compute/float32": {"slow": 3e-6, "fast": 1e-6, "middling": 2e-6}})
    found = peaks_of(device).as_fields()
    assert found["shapes"] == {"compute/float32": "fast"}
    assert found["rates"] == {"compute/float32": pytest.approx(1e7)}
    assert found["spread"] == {"compute/float32": [pytest.approx(1e7), pytest.approx(0, abs=1e-9)]}
    assert found["skipped"] == {"memory/curve": "16384 bytes: no such copy"}
    assert REPEATS == 5


def test_a_device_rests_before_each_peak_that_power_limits() -> None:
    device = Fake({"launch": {"any": 1e-6}, "matrix/bfloat16/library": {"any": 1e-6}})
    heavy = device.targets()[1]
    device.targets = lambda: [PeakTarget("launch", heavy.shapes), replace(heavy, rest_s=0.25)]  # type: ignore[method-assign]
    rests: list[float] = []
    found = peaks_of(device, rest=rests.append)
    assert rests == [0.25] * REPEATS
    assert set(found.repeats) == {"launch", "matrix/bfloat16/library"}


def test_what_is_measured_at_once_comes_first_and_stands_in_its_place() -> None:
    """Before any other target is touched, which would open the timer that slows it down."""
    device = Fake({"compute/float32": {"any": 1e-6}, "launch": {"empty": 1e-6}, "memory/read": {"one": 1e-6}})
    first, launch, last = device.targets()
    device.targets = lambda: [first, replace(launch, at_once=True), last]  # type: ignore[method-assign]
    found = peaks_of(device)
    names = [name for name, _ in device.launches]
    assert set(names[: names.count("empty")]) == {"empty"}
    assert {key: len(repeats) for key, repeats in found.repeats.items()} == {
        "compute/float32": REPEATS, "launch": REPEATS, "memory/read": REPEATS,
    }  # fmt: skip
    assert list(found.repeats) == ["compute/float32", "launch", "memory/read"]


def test_only_some_keys_are_measured_without_the_curve() -> None:
    device = Fake({"compute/float32": {"any": 1e-6}, "launch": {"empty": 1e-6}})
    found = peaks_of(device, only="laun")
    assert list(found.repeats) == ["launch"]
    assert (found.curve, found.skipped) == ([], {})


def test_the_ceiling_is_the_highest_of_the_repeated_peaks() -> None:
    found = FoundPeaks(repeats={"launch": [5.0, 4.0, 10.0, 6.0, 5.5]}, shapes={"launch": "one"}).as_fields()
    assert found["rates"] == {"launch": 10.0}
    assert found["spread"] == {"launch": [5.5, 6.0 / 5.5]}
    assert spread_of([2.0]) == (2.0, 0.0)


def test_the_higher_way_to_multiply_matrices_stands_for_both() -> None:
    found = FoundPeaks(
        repeats={"matrix/tf32/mma": [1.0], "matrix/tf32/library": [2.0], "matrix/int8/mma": [3.0]},
        shapes={"matrix/tf32/mma": "m16n8k8", "matrix/tf32/library": "torch", "matrix/int8/mma": "m16n8k32"},
    ).as_fields()
    assert found["rates"] == {
        "matrix/tf32/mma": 1.0, "matrix/tf32/library": 2.0, "matrix/int8/mma": 3.0, "matrix/tf32": 2.0, "matrix/int8": 3.0,
    }  # fmt: skip
    assert isinstance(found["shapes"], dict)
    assert found["shapes"]["matrix/tf32"] == "library: torch"
    assert found["shapes"]["matrix/int8"] == "mma: m16n8k32"


def test_what_fails_is_left_out_with_its_reason_and_the_rest_goes_on() -> None:
    device = Fake(
        {
            "compute/float64": {"broken": 0.0},
            "compute/float16": {"any": RuntimeError("out of\nmemory")},
            "compute/int32": {"any": ValueError()},
            "compute/float32": {"any": 1e-6},
        }
    )
    found = peaks_of(device)
    assert list(found.repeats) == ["compute/float32"]
    assert len(found.repeats["compute/float32"]) == REPEATS
    assert found.skipped["compute/float64"] == "this device has none"
    assert found.skipped["compute/float16"] == "out of memory"
    assert found.skipped["compute/int32"] == "ValueError"


def test_a_key_that_fails_later_is_left_out_whole() -> None:
    def pace(launch: int) -> float:
        if launch > 40:
            raise RuntimeError("fell off the bus")
        return 1e-6

    found = peaks_of(Fake({"launch": {"any": pace}}))
    assert found.repeats == {}
    assert found.shapes == {}
    assert found.skipped["launch"] == "fell off the bus"


def test_a_timer_that_reads_no_time_gives_no_ceiling() -> None:
    found = peaks_of(Fake({"launch": {"any": 0.0}}))
    assert found.repeats == {}
    assert found.skipped["launch"] == "the timer reads no time"


def test_the_curve_takes_the_faster_copy_and_few_launches() -> None:
    device = Fake()
    found = peaks_of(device)
    assert [size for size, _ in found.curve] == [8192, 32768]
    assert [rate for _, rate in found.curve] == pytest.approx([8192 / 9.192e-6, 32768 / 33.768e-6])
    assert max(iterations for _, iterations in device.launches) <= WINDOWS_MOST


def test_the_device_is_warmed_once_a_repetition() -> None:
    device = Fake({"compute/a": {"one": 1e-6}, "compute/b": {"two": 1e-6}})
    one = peaks_of(device, repeats=1)
    before = device.now
    two = Fake(device.paces)
    peaks_of(two, repeats=2)
    assert one.repeats.keys() == {"compute/a", "compute/b"}
    assert 0.25 + 2 * 0.2 <= two.now - before <= 0.4 + 2 * 0.25


# ---------------------------------------------------------------------------------------------------------------- clocks


class FakeTimer:
    name = "cupti"
    tick_ns: int | None = None

    def __init__(self, segment: Segment | None = None, error: Exception | None = None) -> None:
        self.segment, self.error = segment, error
        self.ran = 0
        self.opened = False
        if error:
            raise error

    def open(self, count_copies: bool, buffer_bytes: int) -> None:
        assert not count_copies
        self.opened = True

    def iterate(self, i: int, prepare: Callable[[], object], run: Callable[[], object]) -> int:
        assert self.opened
        prepare()
        run()
        return 0

    def collect(self) -> Segment:
        assert self.segment is not None
        return self.segment

    def close(self) -> None: ...


def test_a_timers_clock_leaves_gaps_out() -> None:
    ran: list[int] = []
    clock = TimerClock(FakeTimer(Segment([0], [2_000], [5_000], [3], [0])))
    assert clock.busy(lambda: ran.append(1)) == pytest.approx(2e-6)
    assert ran == [1]
    assert clock.name == "cupti"


def test_a_timers_clock_adds_up_prepared_calls() -> None:
    said: list[str] = []
    clock = TimerClock(FakeTimer(Segment([0, 1], [2_000, 3_000], [5_000, 5_000], [1, 1], [0, 1])))
    assert clock.each(lambda: said.append("sweep"), lambda: said.append("run"), 2) == pytest.approx(5e-6)
    assert said == ["sweep", "run"] * 2
    with pytest.raises(MeasurementError, match="left no record"):
        clock.each(lambda: None, lambda: None, 3)


@pytest.mark.parametrize(("rejected", "reason"), [([(0, "lost its id")], "lost its id"), ([], "left no record")])
def test_a_launch_without_a_reading_is_an_error(rejected: list[tuple[int, str]], reason: str) -> None:
    clock = TimerClock(FakeTimer(Segment([], [], [], [], [], rejected=rejected)))
    with pytest.raises(MeasurementError, match=reason):
        clock.busy(lambda: None)


def test_the_wall_clock_drains_before_and_after() -> None:
    said: list[str] = []
    times = iter([1.0, 3.5])

    def now() -> float:
        said.append("clock")
        return next(times)

    clock = WallClock(lambda: said.append("drain"), now)
    assert clock.busy(lambda: said.append("run")) == 2.5
    assert said == ["drain", "clock", "run", "drain", "clock"]


def test_the_wall_clock_leaves_the_preparation_out() -> None:
    clock = WallClock(clock=iter([1.0, 3.0, 10.0, 11.0]).__next__)
    said: list[str] = []
    assert clock.each(lambda: said.append("sweep"), lambda: said.append("run"), 2) == 3.0
    assert said == ["sweep", "run"] * 2


def test_the_wall_stands_in_where_cupti_does_not_work_and_says_so() -> None:
    assert device_clock(lambda: FakeTimer(Segment([], [], [], [], [])), lambda: None).name == "cupti"
    assert device_clock(lambda: FakeTimer(error=TimerUnavailable("no CUPTI")), lambda: None).name == "host"


# ----------------------------------------------------------------------------------------------------------------- store


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder")
    event = event_of(curve=[(8192, 1e9)], spread={"launch": (1e5, 0.1)}, skipped={"compute/int32": "why"})
    assert store.get(KEY) is None
    assert store.add(KEY, event) == event
    assert store.get(KEY) == event
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [store.path(KEY).name]


@pytest.mark.parametrize(
    "other",
    [
        Key("NVIDIA H200", "GPU-2", KEY.software),
        Key("NVIDIA H100", "GPU-1", KEY.software),
        Key("NVIDIA H200", "GPU-1", {**KEY.software, "driver": "590"}),
        Key("NVIDIA H200", "GPU-1", {"driver": "580"}),
    ],
)
def test_another_device_or_software_is_another_file(tmp_path: Path, other: Key) -> None:
    store = Store(tmp_path)
    store.add(KEY, event_of())
    assert store.get(other) is None
    assert store.path(other) != store.path(KEY)
    store.path(other).write_bytes(store.path(KEY).read_bytes())
    assert store.get(other) is None  # a file in the wrong place


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"rates"', '"rate"'),
        lambda text: json.dumps(json.loads(text) | {"rates": {}}),
        lambda text: text.replace("{", '{"colour": "red", ', 1),
        lambda text: text.replace("200000.0", "-1.0"),
        lambda text: text.replace("200000.0", "0"),
        lambda text: text.replace("200000.0", "1e400"),
        lambda text: text.replace("200000.0", "true"),
        lambda text: text[:-1],
        lambda _: "",
        lambda text: text + " " * FILE_MAX,
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_and_replaced(tmp_path: Path, change: Callable[[str], str]) -> None:
    store = Store(tmp_path)
    store.add(KEY, event_of())
    store.path(KEY).write_text(change(store.path(KEY).read_text()))
    assert store.get(KEY) is None
    again = event_of(at="later")
    assert store.add(KEY, again) == again
    assert store.get(KEY) == again


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_and_blocks_nothing(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(path := Store(tmp_path).path(KEY))
    with pytest.raises(UsageError, match="is not a regular file") as refused:
        Store(tmp_path).get(KEY)
    assert str(path) in str(refused.value)


def test_a_run_goes_on_without_the_ceilings_that_are_no_regular_file(tmp_path: Path) -> None:
    run = Run(tmp_path, finished())
    os.mkfifo(run.store.path(keys.host_key()))
    events, (note,) = run.find.of([GPU])
    assert [event.uuid for event in events] == ["GPU-1"]
    assert note.startswith("no share of ceilings: ")
    assert "is not a regular file" in note


def test_the_value_of_a_writer_that_came_first_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = event_of(at="first"), event_of(at="second")
    store.add(KEY, first)
    assert store.add(KEY, second) == first
    assert store.get(KEY) == first
    assert store.add(KEY, second, replace=True) == second
    assert store.get(KEY) == second
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.add(KEY, event_of())

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space"):
        store.add(KEY, event_of(at="new"), replace=True)
    assert store.get(KEY) == event_of()
    assert len(list(tmp_path.iterdir())) == 1


def test_where_a_users_store_is() -> None:
    assert user_store({"HOME": "/h"}).path(KEY).parent == Path("/h/.cache/evenbench/ceilings")
    assert user_store({"HOME": "/h", "XDG_CACHE_HOME": "/x"}).path(KEY).parent == Path("/x/evenbench/ceilings")
    everything = {"HOME": "/h", "XDG_CACHE_HOME": "/x", "EVENBENCH_CACHE": "/e"}
    assert user_store(everything).path(KEY).parent == Path("/e/ceilings")


# ---------------------------------------------------------------------------------------------------------------- obtain

ANSWER = {"rates": {"launch": 3e5}, "timing": "cupti", "shapes": {"launch": "one"}, "curve": [[8192, 1e9]]}


def finished(answer: object = ANSWER, status: int | None = 0, errors: str = "") -> Finished:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Finished(status, text.encode(), errors.encode(), truncated=False)


def test_measured_once_then_kept_until_refreshed(tmp_path: Path) -> None:
    store, calls = Store(tmp_path), []

    def measure() -> Finished:
        calls.append(1)
        return finished({**ANSWER, "rates": {"launch": 1e5 * len(calls)}})

    assert obtain(KEY, store, measure).rates == {"launch": 1e5}
    assert obtain(KEY, store, measure).rates == {"launch": 1e5}
    assert obtain(KEY, store, measure, refresh=True).rates == {"launch": 2e5}
    assert obtain(KEY, store, measure).rates == {"launch": 2e5}
    assert obtain(KEY, None, measure).rates == {"launch": 3e5}
    assert len(calls) == 3
    event = obtain(KEY, store, measure)
    assert (event.device, event.uuid, event.software) == (KEY.name, KEY.uuid, dict(KEY.software))
    assert event.timing == "cupti"
    assert event.curve == [(8192, 1e9)]
    assert event.at


@pytest.mark.parametrize(
    ("came", "why"),
    [
        (finished(status=2, errors="memory/copy\ntorch sees no CUDA device\n"), "torch sees no CUDA device"),
        (finished(status=-11), "exit status -11"),
        (finished(status=None, errors="compute/float32\n"), "took more than 600 s, at: compute/float32"),
        (finished(""), "returned no ceilings"),
        (finished("[]"), "returned no ceilings"),
        (finished("3"), "returned no ceilings"),
        (finished({**ANSWER, "colour": "red"}), "returned no ceilings"),
        (finished({**ANSWER, "rates": {"launch": -1}}), "returned no ceilings"),
        (finished({**ANSWER, "rates": {"no key": 1.0}}), "returned no ceilings"),
        (finished({**ANSWER, "rates": {}, "skipped": {"launch": "no such device"}}), "launch: no such device"),
    ],
)
def test_what_cannot_be_measured_is_said_and_not_kept(tmp_path: Path, came: Finished, why: str) -> None:
    store = Store(tmp_path)
    with pytest.raises(UnfitMachine, match="NVIDIA H200") as error:
        obtain(KEY, store, lambda: came)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert obtain(KEY, Store(tmp_path / "file"), finished).rates == {"launch": 3e5}


class Launcher:
    """Of which ceilings need only this much."""

    def __init__(self, answer: Finished, image: str = "") -> None:
        self.answer, self.image = answer, image
        self.asked: list[tuple[str, str]] = []

    def run_probes(self, device: str, gpu: str, timeout_s: float) -> Finished:
        self.asked.append((device, gpu))
        return self.answer


def test_a_gpu_is_measured_where_launches_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "max_clocks", lambda _: {"sm clock": "1980 MHz"})
    launcher: Any = Launcher(finished(), "image@sha256:1")
    event = ceilings_of(GPU, launcher, None)
    assert launcher.asked == [("cuda", "GPU-1")]
    assert event.software == {
        "probes": str(PEAKS_VERSION),
        "driver": "580",
        "sm clock": "1980 MHz",
        "image": "image@sha256:1",
    }


# ------------------------------------------------------------------------------------------------------------------ keys


def test_a_key_holds_what_peaks_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "max_clocks", lambda _: {"sm clock": "1 MHz", "memory clock": "2 MHz"})
    monkeypatch.setattr(keys, "versions", lambda packages: dict.fromkeys(packages, "1.0"))
    key = key_of(GPU, "")
    assert (key.name, key.uuid) == ("NVIDIA H200", "GPU-1")
    assert {"driver", "sm clock", "memory clock", "torch", "cuda-core", "nvidia-cuda-nvrtc"} <= key.software.keys()
    cpu = key_of(None, "")
    assert cpu.uuid == ""
    assert {"cpus", "numpy"} <= cpu.software.keys()


def test_the_name_of_a_cpu(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz: fast\nmodel name\t: other\n")
    assert keys.cpu_name(info) == "Some CPU @ 3 GHz: fast"
    assert keys.cpu_name(tmp_path / "none")


def test_versions_are_those_that_are_installed() -> None:
    assert keys.versions(["numpy", "no-such-package-here"]).keys() == {"numpy"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("1980, 3201\n", {"sm clock": "1980 MHz", "memory clock": "3201 MHz"}),
        ("[N/A], 3201\n", {"memory clock": "3201 MHz"}),
        ("No devices were found\n", {}),
    ],
)
def test_clocks_from_nvidia_smi(said: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=said))
    assert keys.max_clocks("GPU-1") == expected


def test_clocks_from_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    class NvmlError(Exception): ...

    def clock(handle: str, kind: int) -> int:
        if handle != "handle of GPU-1":
            raise NvmlError
        return 1_000 + kind

    nvml = SimpleNamespace(
        NVMLError=NvmlError, NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, nvmlInit=lambda: None, nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: f"handle of {uuid}", nvmlDeviceGetMaxClockInfo=clock,
    )  # fmt: skip
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: nvml)
    monkeypatch.setattr(importlib, "import_module", lambda _: nvml)
    assert keys.max_clocks("GPU-1") == {"sm clock": "1001 MHz", "memory clock": "1002 MHz"}
    assert keys.max_clocks("GPU-2") == {}


# ------------------------------------------------------------------------------------------------------------------- run


class Run:
    """What a run sees of its ceilings."""

    def __init__(self, folder: Path, answer: Finished, *, measure: bool = True, hint: bool = True) -> None:
        self.staged: list[str] = []
        self.logged: list[str] = []
        self.launcher = Launcher(answer)
        self.store = Store(folder)
        launcher: Any = self.launcher
        self.find = RunCeilings(launcher, self.store, self.staged.append, self.logged.append, measure, hint)


def test_a_run_on_the_cpu_measures_nothing_and_says_how(tmp_path: Path) -> None:
    run = Run(tmp_path, finished())
    assert run.find.of([]) == ([], [])
    assert "evenbench ceilings --device cpu" in run.logged[0]
    key = key_of(None, "")
    run.store.add(key, event_of(key))
    assert run.find.of([]) == ([event_of(key)], [])
    assert len(run.logged) == 1
    assert run.launcher.asked == []


def test_a_comparison_on_the_cpu_does_not_say_that_it_shows_no_share(tmp_path: Path) -> None:
    run = Run(tmp_path, finished(), hint=False)
    assert run.find.of([]) == ([], [])
    assert run.logged == []


def test_a_run_on_gpus_measures_each_once(tmp_path: Path) -> None:
    gpus = [GPU, Gpu("GPU-2", "NVIDIA H200", "580")]
    run = Run(tmp_path, finished())
    for _ in range(2):
        events, notes = run.find.of(gpus)
        assert [event.uuid for event in events] == ["GPU-1", "GPU-2"]
        assert notes == []
    assert run.launcher.asked == [("cuda", "GPU-1"), ("cuda", "GPU-2")]
    assert len(run.staged) == 2
    assert run.logged == []


def test_what_cannot_be_measured_is_a_note_of_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, finished(status=2, errors="cuda-core cannot be used"))
    events, (note,) = run.find.of([GPU])
    assert events == []
    assert "no share of ceilings" in note
    assert "cuda-core cannot be used" in note


def test_whatever_a_driver_throws_is_a_note_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def thrown(_: str) -> dict[str, str]:
        raise AttributeError("nvmlDeviceGetHandleByUUID " * 100)

    monkeypatch.setattr(keys, "max_clocks", thrown)
    events, (note,) = Run(tmp_path, finished()).find.of([GPU])
    assert events == []
    assert "nvmlDeviceGetHandleByUUID" in note
    assert len(note) == 1_000


def test_a_machine_whose_cpu_is_known_too_says_both(tmp_path: Path) -> None:
    run = Run(tmp_path, finished())
    key = key_of(None, "")
    run.store.add(key, event_of(key))
    events, _ = run.find.of([GPU])
    assert [event.uuid for event in events] == ["", "GPU-1"]


def test_where_the_machine_says_so_a_run_takes_only_what_is_kept(tmp_path: Path) -> None:
    assert not may_measure({"EVENBENCH_CEILINGS": "kept"})
    assert may_measure({})
    run = Run(tmp_path, finished(), measure=False)
    assert run.find.of([GPU]) == ([], [])
    assert run.launcher.asked == []
    key = key_of(GPU, "")
    run.store.add(key, event_of(key))
    assert run.find.of([GPU]) == ([event_of(key)], [])


@pytest.mark.parametrize(
    ("only_texts", "taken", "wanted", "written"),
    [(False, None, True, 1), (True, None, True, 0), (False, "rounds", True, 0), (False, None, False, 0)],
)
def test_a_run_writes_them_unless_it_wants_none_or_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only_texts: bool, taken: str | None, wanted: bool, written: int
) -> None:
    monkeypatch.setenv("EVENBENCH_CACHE", str(tmp_path))
    key = key_of(None, "")
    user_store(os.environ).add(key, event_of(key))
    events: list[CeilingsEvent] = []
    request: Any = SimpleNamespace(only_texts=only_texts, verb="run")
    settings = SimpleNamespace(measure=SimpleNamespace(ceilings=wanted))
    planned: Any = SimpleNamespace(taken=taken, settings=settings, gpus=[])
    place: Any = SimpleNamespace(write=events.append, stage=None, image="")
    assert measuring._ceilings(request, planned, place, place, place, lambda _: None) == []
    assert len(events) == written


# ---------------------------------------------------------------------------------------------------------------- record


@pytest.mark.parametrize(
    "change",
    [
        {"rates": {"launch": 0.0}},
        {"rates": {"launch": -1.0}},
        {"rates": {"launch": 1e25}},
        {"rates": {"launch": "fast"}},
        {"rates": {"a/b/c/d": 1.0}},
        {"rates": {"Compute": 1.0}},
        {"rates": {"launch\n": 1.0}},
        {"rates": {f"launch{n}": 1.0 for n in range(1_001)}},
        {"curve": [[0, 1.0]]},
        {"curve": [[8192, 0.0]]},
        {"curve": [[8192.5, 1.0]]},
        {"curve": [[8192, 1.0, 2.0]]},
        {"curve": [[8192, 1.0]] * 1_001},
        {"spread": {"launch": [1.0, -0.1]}},
        {"spread": {"launch": [1.0]}},
        {"skipped": {"launch": "x" * 5_000}},
        {"timing": "sundial"},
        {"colour": "red"},
    ],
)
def test_a_record_is_bounded(change: dict[str, Any]) -> None:
    plain = json.loads(event_of().model_dump_json())
    assert parse_event(json.dumps(plain)) == event_of()
    with pytest.raises(UntrustedInput):
        parse_event(json.dumps(plain | change))
