"""Preparation and measurement of one case, in this process: on the CPU, and on a stand-in for an accelerator."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from evenbench.runner.case.declare import Bench, Implementation, case
from evenbench.runner.config import parse, resolve
from evenbench.runner.execute.chains import Lanes
from evenbench.runner.execute.rounds import CaseTable, Rounds, Run
from evenbench.runner.plan.plan import Plan
from evenbench.runner.records import CaseEvent
from evenbench.runner.worker.launch.bench import one_line
from evenbench.runner.worker.launch.instruments import Instruments
from evenbench.runner.worker.launch.measure import measure_case
from evenbench.runner.worker.launch.prepare import prepare_case
from tests.fakes import accelerator

MB = 1 << 20
Build = Callable[[], Bench]


class Channel:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


class Launches:
    """One case through its preparation and timed launches, each with instruments of its own."""

    def __init__(self, build: Build, device: str = "cpu", *, cache: str = "warm", atol: float = 0.0) -> None:
        declared = case("worker/case", rtol=0, atol=atol)(lambda p, device: build())
        self.point = declared.points[0]
        self.device = device
        self.target = {"id": self.point.id, "timeout_s": 60.0, "cache": cache}
        self.asked = self.target | {"timer": "auto", "allow_fallback": False}

    def prepare(self, instruments: Instruments | None = None) -> dict[str, Any]:
        channel: Any = Channel()
        prepare_case(self.point, self.asked, self.device, instruments or Instruments(), channel)
        (message,) = channel.sent
        return dict(message)

    def measure(
        self, *names: str, timing: str = "host", samples: int = 10, precision: float = 0.0, result: str = ""
    ) -> list[dict[str, Any]]:
        plan = {"samples": samples, "warmup": 1, "batch": 1, "check": "passed", "result": result}
        target = self.target | {
            "timing": timing,
            "mirrored": False,
            "precision": precision,
            "implementations": dict.fromkeys(names or ("main",), plan),
        }
        channel: Any = Channel()
        measure_case(self.point, target, self.device, Instruments(), channel)
        return [message for message in channel.sent if message["event"] != "first_sample"]


def statuses(message: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["status"] for one in message["implementations"]}


# ------------------------------------------------------------------------------------------------------- correctness


def add_one(x: Any) -> Any:
    return x + 1


def bench_of(x: Any, implementations: dict[str, Any], **more: Any) -> Bench:
    return Bench(implementations=implementations, baseline=next(iter(implementations)), inputs={"x": x}, **more)


def changing(x: Any) -> Callable[[], Any]:
    def run() -> Any:
        result = x + 1
        x[0] = 7
        return result

    return run


def test_an_implementation_that_changes_inputs_costs_itself_alone() -> None:
    def build() -> Bench:
        x = np.zeros(4)
        return bench_of(
            x,
            {"plain": lambda: add_one(x), "bad": changing(x), "next": lambda: add_one(x)},
            reference=lambda: np.ones(4),
        )

    message = Launches(build).prepare()
    assert statuses(message) == {"plain": "ok", "bad": "wrong", "next": "ok"}
    assert message["implementations"][1]["reason"].startswith("the call changed its inputs (hint: work on a private")


def test_making_an_implementation_may_not_change_inputs_either() -> None:
    def build() -> Bench:
        x = np.zeros(4)

        def make() -> Callable[[], Any]:
            x[:] = 3
            return lambda: add_one(x)

        return bench_of(x, {"plain": lambda: add_one(x), "bad": Implementation(make)})

    message = Launches(build).prepare()
    assert statuses(message) == {"plain": "ok", "bad": "wrong"}
    assert message["implementations"][1]["reason"].startswith("making bad changed its inputs")


def test_a_reference_that_changes_inputs_is_found() -> None:
    def build() -> Bench:
        x = np.zeros(4)
        return Bench(run=lambda: add_one(x), inputs={"x": x}, reference=lambda: np.add(x, 1, out=x))

    message = Launches(build).prepare()
    assert (message["status"], message["reason"][:34]) == ("wrong", "the reference changed its inputs (")


def test_a_reference_that_lies_in_the_outputs_is_refused() -> None:
    def build() -> Bench:
        x, out = np.zeros(4), np.empty(4)
        wrong = lambda: np.add(x, 2, out=out)  # noqa: E731
        return Bench(run=wrong, inputs={"x": x}, outputs={"out": out}, reference=lambda: np.add(x, 1, out=out))

    message = Launches(build).prepare()
    assert (message["status"], message["kind"]) == ("failed", "setup")
    assert "compared with itself" in message["reason"]


def test_outputs_are_poisoned_before_the_timed_calls_of_each_implementation() -> None:
    def build() -> Bench:
        x, out = np.zeros(4), np.empty(4)
        return bench_of(
            x,
            {"writes": lambda: np.add(x, 1, out=out), "idles": lambda: None},
            outputs={"out": out},
            reference=lambda: np.ones(4),
        )

    launches = Launches(build)
    prepared = launches.prepare()
    assert statuses(prepared) == {"writes": "ok", "idles": "wrong"}
    idles, writes = launches.measure("writes", "idles", result=prepared["implementations"][0]["result"])
    assert (writes["event"], writes["implementation"]) == ("measurement", "writes")
    assert (idles["event"], idles["implementation"], idles["kind"]) == ("failure", "idles", "wrong")
    assert idles["error"] == "outputs left (partly) unwritten by the timed calls: out"


def test_inputs_that_change_during_timing_end_the_case_and_name_who_did_it() -> None:
    def build() -> Bench:
        x = np.zeros(4)
        return bench_of(x, {"plain": lambda: np.ones(4), "bad": changing(x)}, reference=lambda: np.ones(4))

    failures = Launches(build).measure("plain", "bad")
    assert [(one["event"], one["implementation"]) for one in failures] == [("failure", "bad"), ("failure", "plain")]
    assert all(one["error"].startswith("implementation bad changed its inputs") for one in failures)
    (alone,) = Launches(lambda: Bench(run=changing(x := np.zeros(4)), inputs={"x": x})).measure()
    assert (alone["kind"], alone["error"][:27]) == ("wrong", "the call changed its inputs")


def test_a_wrong_last_result_gives_no_number() -> None:
    calls = iter(range(1_000))

    def build() -> Bench:
        return Bench(run=lambda: float(next(calls) >= 5), reference=lambda: 0.0)

    (failure,) = Launches(build).measure()
    assert (failure["event"], failure["kind"]) == ("failure", "wrong")
    assert failure["error"].startswith("the result of the last sample is wrong: result is 1.0 instead of 0.0")


def test_varying_results_are_compared_by_value_and_equal_ones_by_their_hash() -> None:
    values = itertools.count()
    varying = Launches(lambda: Bench(run=lambda: 1 + next(values) * 1e-12, reference=lambda: 1.0), atol=1e-3)
    assert varying.prepare()["implementations"][0]["result"] == ""
    assert varying.measure(result="")[0]["event"] == "measurement"
    asked = itertools.count()
    steady = Launches(lambda: Bench(run=lambda: 1.0, reference=lambda: float(next(asked) >= 0)))
    result = steady.prepare()["implementations"][0]["result"]
    assert steady.measure(result=result)[0]["event"] == "measurement"
    assert next(asked) == 1  # in the preparation alone: an equal hash needs no reference


@pytest.mark.parametrize(
    ("step", "resets", "change"),
    [
        (lambda x: x, False, ""),
        (lambda x: x + 1, False, "differs"),
        (lambda x: x * 1e300, False, "not-finite"),
        (lambda x: x + 1, True, ""),
        (lambda x: np.full_like(x, np.nan), False, ""),  # from the first call on
    ],
)
def test_a_result_that_changes_from_call_to_call_is_recorded(step: Any, resets: bool, change: str) -> None:
    def build() -> Bench:
        x = np.ones(4)

        def run() -> Any:
            x[...] = step(x)
            return x

        return Bench(run=run, reset=(lambda: x.fill(next(starts))) if resets else None)

    starts = itertools.count(1.0)
    with np.errstate(over="ignore"):
        (one,) = Launches(build).prepare()["implementations"]
    assert (one["status"], one.get("result_change", "")) == ("ok", change)


def test_a_cache_that_stays_warm_refuses_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbench.runner.timing.cache.last_level_cache_bytes", lambda: 1 << 40)
    message = Launches(lambda: Bench(run=lambda: 1), cache="cold").prepare()
    assert (message["status"], message["kind"]) == ("failed", "timer")
    assert message["reason"].endswith(
        "(hint: measure with cache: warm, in suites.yaml or by --cache warm; the rows then say so)"
    )


# -------------------------------------------------------------------------------------------------------- accelerator


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> accelerator.Device:
    device = accelerator.Device(cache_bytes=32 * MB)
    monkeypatch.setitem(sys.modules, "torch", accelerator.fake_torch(device))
    return device


def reading(device: accelerator.Device) -> Build:
    """A case that reads 8 MB of the device."""

    def build() -> Bench:
        buffer = accelerator.Buffer(2 * MB, sys.modules["torch"].float32, None)

        def run() -> int:
            device.read(buffer)
            return 1

        return Bench(run=run, reference=lambda: 1)

    return build


@pytest.mark.parametrize(
    ("cache", "price"), [("cold", accelerator.COLD_NS_PER_KB), ("warm", accelerator.WARM_NS_PER_KB)]
)
def test_another_accelerator_is_measured_from_preparation_to_the_last_sample(
    device: accelerator.Device, cache: str, price: int
) -> None:
    launches = Launches(reading(device), accelerator.NAME, cache=cache)
    prepared = launches.prepare()
    assert (prepared["status"], prepared["timer"], prepared["fallback"]) == ("ok", "device-events", "")
    (measured,) = launches.measure(timing="device-events", result=prepared["implementations"][0]["result"])
    assert measured["timing"] == "device-events"
    assert measured["device_busy_ns"] == measured["latency_ns"] == [accelerator.LAUNCH_NS + 8 * 1024 * price] * 10
    assert (measured["n_kernels"], measured["cache"], measured["stop"]) == (None, cache, "count")


def test_a_sweep_smaller_than_the_cache_is_found_out_once_for_the_device(device: accelerator.Device) -> None:
    device.cache_bytes = 1024 * MB
    instruments = Instruments()
    launches = Launches(reading(device), accelerator.NAME, cache="cold")
    message = launches.prepare(instruments)
    assert (message["status"], message["kind"]) == ("failed", "timer")
    assert "5096 ns after the cache step and 5096 ns when repeated" in message["reason"]
    before = device.now
    assert launches.prepare(instruments)["reason"] == message["reason"]
    assert device.now == before


def test_a_steady_case_stops_early_where_a_precision_is_asked_for(device: accelerator.Device) -> None:
    launches = Launches(reading(device), accelerator.NAME)
    (whole,) = launches.measure(timing="device-events", samples=100)
    (early,) = launches.measure(timing="device-events", samples=100, precision=0.01)
    assert (len(whole["device_busy_ns"]), whole["stop"]) == (100, "count")
    assert (len(early["device_busy_ns"]), early["stop"]) == (20, "precision")


def test_each_turn_of_an_implementation_stops_by_itself(device: accelerator.Device) -> None:
    buffers = [accelerator.Buffer(MB, sys.modules["torch"].float32, None) for _ in range(2)]

    def build() -> Bench:
        calls = {name: lambda buffer=buffer: device.read(buffer) for name, buffer in zip("ab", buffers, strict=True)}
        return Bench(implementations=calls, baseline="a")

    measured = Launches(build, accelerator.NAME).measure("a", "b", timing="device-events", samples=100, precision=0.01)
    assert [(one["implementation"], len(one["device_busy_ns"]), one["stop"]) for one in measured] == [
        ("b", 40, "precision"),
        ("a", 40, "precision"),
    ]


# ---------------------------------------------------------------------------------------------------------- the driver


@pytest.mark.parametrize(("verb", "precision"), [("run", 0.02), ("compare", 0.0)])
def test_only_run_stops_early_and_by_the_settings_of_the_case(
    verb: Literal["run", "compare"], precision: float
) -> None:
    text = "version: 1\ndefaults: {precision: 0.1}\noverrides: {'host/*': {precision: 0.02}}\n"
    settings = resolve(parse(text, "suites.yaml"), None)
    plan = Plan(seed=1, sides=("head",), rounds=1)
    run = Run(verb=verb, plan=plan, settings=settings, looks=(1,), patterns=(), preload=(), gpu=None)
    nobody: Any = None
    rounds = Rounds(run, Lanes([], {}), CaseTable({}, frozenset(), frozenset()), {}, {}, nobody, nobody)
    assert rounds._precision(CaseEvent(index=0, side="head", id="host/sort", file="sort.py")) == precision


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a\ud800b\n c"), "ValueError: a?b c"),  # no record holds half of a character
        (_Unspeakable(), "_Unspeakable: its message cannot be made"),
    ],
)
def test_any_error_has_a_line(error: Exception, said: str) -> None:
    assert one_line(error) == said
