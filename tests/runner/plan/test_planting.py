"""A planted change: how it is asked for, which case it means, and how the launch makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.config import Config, RunSettings, parse, resolve
from evenbench.runner.errors import SetupError, UsageError
from evenbench.runner.plan.planting import plant_of, planted_case, slow_down
from evenbench.runner.plan.selection import DiscoveredCase, SideCases
from evenbench.runner.records import PlantRecord, SideName
from evenbench.runner.timing.protocol import Segment
from evenbench.runner.worker.launch import plant
from evenbench.runner.worker.launch.plant import MARGIN, slowed, waiting

CASES = ("norm/rms[cols=4096]", "norm/rms[cols=8192]", "norm/softmax", "other/add")


def found(*ids: str, tags: Mapping[str, list[str]] | None = None) -> SideCases:
    return SideCases(
        {
            case_id: DiscoveredCase.model_validate(
                {"event": "point", "id": case_id, "file": "a.py", "line": 1, "on_cpu": True, "source": "0"}
                | {"tags": (tags or {}).get(case_id, [])}
            )
            for case_id in ids
        },
        [],
    )


def settings(text: str = "", **keys: Any) -> RunSettings:
    return resolve(parse(text, "suites.yaml") if text else Config.default(), None, keys)


class TestWords:
    @pytest.mark.parametrize(
        ("text", "case", "fraction"),
        [
            ("norm/softmax", "norm/softmax", 0.05),
            ("norm/softmax=0.2", "norm/softmax", 0.2),
            ("norm/rms[cols=4096]", "norm/rms[cols=4096]", 0.05),
            ("norm/rms[cols=4096,rows=1]=0.1", "norm/rms[cols=4096,rows=1]", 0.1),
            ("norm/*=1", "norm/*", 1.0),
            ("tag:one=.5", "tag:one", 0.5),
        ],
    )
    def test_a_pattern_and_a_fraction(self, text: str, case: str, fraction: float) -> None:
        assert plant_of(text) == PlantRecord(case=case, fraction=fraction)

    @pytest.mark.parametrize("fraction", ["5", "0", "-0.1", "5%", "nan", "inf", ""])
    def test_a_fraction_out_of_bounds_is_one_line(self, fraction: str) -> None:
        with pytest.raises(UsageError) as caught:
            plant_of(f"norm/rms={fraction}")
        assert str(caught.value) == (
            f"--plant norm/rms={fraction}: {fraction!r} is no fraction over 0 to 1 (hint: =0.05 stands for 5 %)"
        )

    @pytest.mark.parametrize("text", ["", " ", "=0.05", "=", " =1"])
    def test_a_case_must_be_named(self, text: str) -> None:
        with pytest.raises(UsageError) as caught:
            plant_of(text)
        assert str(caught.value) == (
            f"--plant {text!r}: names no case (hint: --plant 'norm/rms*=0.05' slows that one by 5 %)"
        )

    @given(st.text(max_size=60))
    def test_any_text_is_one_or_refused(self, text: str) -> None:
        try:
            asked = plant_of(text)
        except UsageError:
            return
        assert text.startswith(asked.case)
        assert 0 < asked.fraction <= 1


class TestCase:
    SIDES: Mapping[SideName, SideCases] = {"base": found(*CASES), "head": found(*CASES, tags={"other/add": ["add"]})}

    @pytest.mark.parametrize("pattern", ["norm/rms[cols=8192]", "norm/rms[*=8192]"])
    def test_exactly_one(self, pattern: str) -> None:
        asked = PlantRecord(case=pattern, fraction=0.1)
        assert planted_case(asked, self.SIDES, settings(), []) == PlantRecord(case=CASES[1], fraction=0.1)

    def test_by_its_tag(self) -> None:
        assert planted_case(PlantRecord(case="tag:add", fraction=0.1), self.SIDES, settings(), []).case == "other/add"

    @pytest.mark.parametrize(
        ("pattern", "patterns", "said"),
        [
            ("none/*", [], "matches 0 of the cases that head would run, not one"),
            ("norm/rms", [], "matches 2 of the cases that head would run (norm/rms[cols=4096], norm/rms[cols=8192]), not one"),
            ("**", [], "matches 4 of the cases that head would run (norm/rms[cols=4096], norm/rms[cols=8192], norm/softmax, …)"),
            ("other/add", ["norm/*"], "matches 0"),
        ],
    )  # fmt: skip
    def test_any_other_number_is_told(self, pattern: str, patterns: list[str], said: str) -> None:
        with pytest.raises(UsageError) as caught:
            planted_case(PlantRecord(case=pattern, fraction=0.1), self.SIDES, settings(), patterns)
        assert caught.value.message.startswith(f"--plant {pattern}: {said}")
        assert "evenbench list" in caught.value.hint

    def test_one_of_another_suite_is_none(self) -> None:
        suite = settings("version: 1\nsuites: {pr: {include: ['norm/*']}}")
        with pytest.raises(UsageError, match="matches 0"):
            planted_case(PlantRecord(case="other/add", fraction=0.1), self.SIDES, suite, [])

    def test_what_the_judge_could_not_call_is_refused(self) -> None:
        text = "version: 1\noverrides: {'norm/softmax': {min_effect: 0.1}}"
        asked = PlantRecord(case="norm/softmax", fraction=0.1)
        with pytest.raises(UsageError, match=r"a change of 0\.1 could not be found under min_effect 0\.1"):
            planted_case(asked, self.SIDES, settings(text), [])
        assert planted_case(asked, self.SIDES, settings(), []) == asked

    def test_head_and_the_one_case_alone_are_slowed(self) -> None:
        asked = PlantRecord(case="norm/softmax", fraction=0.1)
        assert slow_down(asked, "head", "norm/softmax") == {"plant": 0.1}
        assert slow_down(asked, "head", "norm/rms[cols=4096]") == {}
        assert slow_down(asked, "base", "norm/softmax") == {}
        assert slow_down(None, "head", "norm/softmax") == {}


class Device:
    """Keeps the time of its kernels: one of the case, and the one that spins."""

    OWN_NS = 700

    def __init__(self, case_ns: int) -> None:
        self.case_ns = case_ns
        self.ran: list[tuple[str, int]] = []

    def call(self) -> None:
        self.ran.append(("case", self.case_ns))

    def spin(self, ns: int) -> None:
        self.ran.append(("spin", self.OWN_NS + ns))

    def trial(self, call: Callable[[], Any]) -> Segment:
        self.ran.clear()
        call()
        total = sum(ns for _, ns in self.ran)
        kernels = [
            {"name": name, "grid": [1, 1, 1], "block": [1, 1, 1] if name == "spin" else [256, 1, 1], "median_ns": ns}
            for name, ns in self.ran
        ]
        return Segment([0] * 3, [total - 50, total, total + 50], [total] * 3, [2] * 3, [0] * 3, kernels=kernels)


@pytest.fixture
def planted_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Device, float], int]:
    """Slows the case of a device by a fraction; the time that its calls then take."""

    def plant_there(device: Device, fraction: float) -> int:
        monkeypatch.setattr(plant, "torch_spinner", lambda: device.spin)
        call = slowed(device.call, fraction, "cuda", device.trial)
        device.ran.clear()
        call()
        assert [name for name, _ in device.ran] == ["case", "spin"]
        return sum(ns for _, ns in device.ran)

    return plant_there


class TestOnADevice:
    @pytest.mark.parametrize("case_ns", [20_000, 100_000, 10_000_000])
    @pytest.mark.parametrize("fraction", [0.05, 0.3, 1.0])
    def test_the_kernel_counts_towards_the_slow_down(
        self, planted_on: Callable[[Device, float], int], case_ns: int, fraction: float
    ) -> None:
        slow = planted_on(Device(case_ns), fraction) / case_ns - 1
        assert slow == pytest.approx(MARGIN * fraction, abs=1e-4)

    def test_a_short_case_grows_by_more(self, planted_on: Callable[[Device, float], int]) -> None:
        assert planted_on(Device(3_000), 0.05) == 3_000 + Device.OWN_NS

    def test_a_timer_that_knows_no_kernels_slows_by_more(self, planted_on: Callable[[Device, float], int]) -> None:
        class Blind(Device):
            def trial(self, call: Callable[[], Any]) -> Segment:
                return replace(super().trial(call), kernels=[])

        assert planted_on(Blind(20_000), 0.05) == 20_000 + 700 + 1_139

    def test_a_kernel_of_the_case_with_the_same_name_is_not_ours(
        self, planted_on: Callable[[Device, float], int]
    ) -> None:
        class Namesake(Device):
            def trial(self, call: Callable[[], Any]) -> Segment:
                segment = super().trial(call)
                return replace(segment, kernels=[{**kernel, "name": "spin"} for kernel in segment.kernels])

        assert planted_on(Namesake(20_000), 0.05) == 21_100

    def test_other_devices_are_refused(self) -> None:
        with pytest.raises(SetupError, match="not on 'xpu'"):
            slowed(lambda: None, 0.05, "xpu", Device(1).trial)


class TestOnTheHost:
    def test_waits_the_fraction_of_its_time(self) -> None:
        clock = SimpleNamespace(now=0, calls=0)

        def call() -> None:
            clock.calls += 1
            clock.now += 1_000

        def tick() -> int:
            clock.now += 7
            return int(clock.now)

        waiting(call, 500, tick)()
        assert clock.calls == 1
        assert 1_500 <= clock.now <= 1_500 + 3 * 7

    def test_is_given_what_the_trial_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given_ns: list[int] = []
        monkeypatch.setattr(plant, "waiting", lambda _call, ns: given_ns.append(ns))
        slowed(lambda: None, 0.6, "cpu", Device(100_000).trial)
        assert given_ns == [0]  # the call did nothing
        device = Device(100_000)
        slowed(device.call, 0.6, "cpu", device.trial)
        assert given_ns == [0, 66_000]
