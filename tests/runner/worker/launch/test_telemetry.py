"""What a launch keeps of its device, from an NVML that is made up; and what the driver takes of that."""

# ruff: noqa: N802 - the functions of pynvml bear these names

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.execute.attempts import LaunchRecorder, LaunchSpec, bounded_facts, run_targets
from evenbench.runner.records import LaunchEnd, Writer, dump, parse_event
from evenbench.runner.worker.launch import jobs, telemetry
from evenbench.runner.worker.launch.instruments import Instruments
from evenbench.runner.worker.launch.telemetry import Telemetry, Usage, limits

if TYPE_CHECKING:
    from evenbench.runner.process.channel import Channel

UUID = "GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc"
MIB = 1 << 20
GONE = object()  # NVML says that it cannot


class NVMLError(Exception):
    pass


@dataclass
class Nvml:
    """Looks like pynvml. A list gives its items in turn, the last one again and again; `GONE` raises."""

    answers: dict[str, Any] = field(default_factory=dict)
    opens: bool = True
    asked: list[str] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    open: int = 0
    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    nvmlMemory_v2 = 0x02000028  # noqa: N815 - its name

    def _answer(self, name: str, otherwise: Any) -> Any:
        self.asked.append(name)
        self.threads.add(threading.get_ident())
        found = self.answers.get(name, otherwise)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if found is GONE:
            raise NVMLError("Not Supported")
        return found

    def nvmlInit(self) -> None:
        if not self.opens:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != UUID:
            raise NVMLError("Not Found")
        return "handle"

    def nvmlDeviceGetUUID(self, handle: str) -> Any:
        return self._answer("uuid", UUID)

    def nvmlDeviceGetComputeMode(self, handle: str) -> Any:
        return self._answer("mode", 0)

    def nvmlDeviceGetMigMode(self, handle: str) -> Any:
        return self._answer("mig", [[0, 0]])

    def nvmlDeviceGetClockInfo(self, handle: str, which: int) -> Any:
        return self._answer("sm", 1980) if which == self.NVML_CLOCK_SM else self._answer("memory clock", 3201)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> Any:
        return self._answer("power", 310_500)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> Any:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._answer("temperature", 45)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> Any:
        return self._answer("reasons", 0)

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int) -> Any:
        assert version == self.nvmlMemory_v2
        found = self._answer("memory", 0)
        return SimpleNamespace(used=found)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> Any:
        found = self._answer("processes", {})
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in found.items()]

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> Any:
        assert (kind, counter) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        return self._answer("ecc", 0)


def watched(nvml: Nvml, marks: int = 0, *, uuid: str = UUID) -> telemetry.Values:
    """One reading at the start, one for each mark, one at the end; none by the clock."""
    seen = Telemetry(nvml, uuid, period_s=60)
    seen.start()
    seen.await_first(10)
    for _ in range(marks):
        before = nvml.asked.count("ecc")
        seen.mark()
        wait_for(lambda before=before: nvml.asked.count("reasons") > before)  # type: ignore[misc]
    values = seen.stop()
    assert "reading_us" not in values or float(values.pop("reading_us")) >= 0
    return values


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_launch_on_a_quiet_device() -> None:
    nvml = Nvml()
    assert watched(nvml) == {
        "uuid": UUID,
        "compute_mode": "default",
        "mig": "disabled",
        "samples": 2,
        "sm_clock_mhz": 1980,
        "sm_clock_min_mhz": 1980,
        "sm_clock_max_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 310.5,
        "power_max_w": 310.5,
        "temperature_c": 45,
        "temperature_max_c": 45,
        "throttle_reasons": "",
        "throttled_samples": 0,
        "memory_used_by_others_mib": 0,
        "ecc_errors": 0,
    }
    assert nvml.open == 0
    assert threading.get_ident() not in nvml.threads


def test_clocks_are_summed_up_and_limits_named() -> None:
    values = watched(
        Nvml({"sm": [1980, 1700, 1500], "reasons": [0, 0x44, 0x04], "power": [300_000, 690_000, 700_000]}), marks=1
    )
    assert values["samples"] == 3
    assert [values[f"sm_clock_{which}mhz"] for which in ("min_", "", "max_")] == [1500, 1700, 1980]
    assert (values["power_w"], values["power_max_w"]) == (690, 700)
    assert (values["throttle_reasons"], values["throttled_samples"]) == ("power cap, temperature (hardware)", 2)


def test_an_idle_device_says_nothing_of_the_clocks_that_samples_ran_at() -> None:
    values = watched(Nvml({"sm": [345, 1980, 345], "reasons": [1, 0, 1], "power": [70_000, 300_000, 70_000]}), marks=1)
    assert (values["sm_clock_min_mhz"], values["sm_clock_mhz"], values["power_w"]) == (1980, 1980, 300)
    assert (values["throttle_reasons"], values["samples"]) == ("", 3)
    assert watched(Nvml({"sm": 345, "reasons": 1}))["sm_clock_mhz"] == 345  # better than nothing


def test_what_nvml_does_not_say_is_left_out_and_never_0() -> None:
    names = (
        "uuid",
        "mode",
        "mig",
        "sm",
        "memory clock",
        "power",
        "temperature",
        "reasons",
        "memory",
        "processes",
        "ecc",
    )
    assert watched(Nvml(dict.fromkeys(names, GONE))) == {"samples": 2}
    values = watched(Nvml({"power": GONE, "mig": GONE, "sm": [GONE, 1900]}))
    assert not {"power_w", "power_max_w", "mig"} & set(values)
    assert values["sm_clock_min_mhz"] == 1900


def test_a_module_without_a_function_is_like_a_device_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Nvml, "nvmlDeviceGetCurrentClocksEventReasons")
    nvml = Nvml()
    seen = Telemetry(nvml, UUID, period_s=60)
    seen.start()
    seen.await_first(10)
    values = seen.stop()
    assert "throttle_reasons" not in values
    assert values["sm_clock_mhz"] == 1980


def test_memory_in_use_before_the_device_is_opened_is_others() -> None:
    nvml = Nvml({"memory": [2 * MIB + 1, 900 * MIB]})
    values = watched(nvml)
    assert values["memory_used_by_others_mib"] == 3  # upwards
    assert "other_processes" not in values  # a container sees none, whoever is there


def test_other_processes_where_the_list_holds_our_own() -> None:
    own = {os.getpid(): 500 * MIB}
    nvml = Nvml({"memory": [0, 530 * MIB, 900 * MIB], "processes": [{}, own, own | {1: 350 * MIB, 2: None}]})
    values = watched(nvml, marks=1)
    assert (values["other_processes"], values["memory_used_by_others_mib"]) == (2, 400)


def test_memory_of_others_is_unknown_where_the_first_reading_came_late() -> None:
    usages = [Usage(500 * MIB, {}, 0), Usage(600 * MIB, {}, None)]
    assert telemetry._of_usages(usages, 1, first_is_of_others=False) == {"ecc_errors": 0}
    assert telemetry._of_usages([], 1, first_is_of_others=True) == {}


def test_new_memory_errors_and_other_facts() -> None:
    values = watched(Nvml({"ecc": [0, 2], "mode": 3, "mig": [[1, 1]]}))
    assert (values["ecc_errors"], values["compute_mode"], values["mig"]) == (2, "exclusive process", "enabled")
    assert watched(Nvml({"mode": 9}))["compute_mode"] == "9"


def test_readings_come_by_the_clock_and_usage_only_when_asked() -> None:
    nvml = Nvml()
    seen = Telemetry(nvml, UUID, period_s=0.001)
    seen.start()
    seen.await_first(10)
    wait_for(lambda: nvml.asked.count("reasons") >= 10)
    assert nvml.asked.count("processes") == 1
    assert int(seen.stop()["samples"]) >= 10
    assert nvml.asked.count("processes") == 2
    still = len(nvml.asked)
    time.sleep(0.01)
    assert len(nvml.asked) == still


def test_an_nvml_that_does_not_open_is_a_note() -> None:
    nvml = Nvml(opens=False)
    assert watched(nvml) == {"note": "NVML cannot be opened: Driver Not Loaded", "samples": 0}
    nvml = Nvml()
    assert watched(nvml, uuid="GPU-0") == {"note": "NVML does not know GPU-0: Not Found", "samples": 0}
    assert nvml.open == 0


def test_a_driver_that_hangs_costs_a_launch_a_bounded_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(telemetry, "STOP_WAIT_S", 0.01)
    monkeypatch.setattr(Nvml, "nvmlDeviceGetUUID", lambda self, handle: let_go.wait(10))
    seen = Telemetry(Nvml(), UUID)
    seen.start()
    seen.await_first(0.01)
    assert seen.stop() == {"note": "NVML gave no reading within 0.01 s", "samples": 0}
    let_go.set()
    seen._thread.join(10)


def test_a_launch_waits_until_nvml_is_open_however_long_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA that opens the device meanwhile would leave a lock of libcuda with NVML's thread."""
    may_open = threading.Event()
    opens = Nvml.nvmlInit
    monkeypatch.setattr(Nvml, "nvmlInit", lambda self: (may_open.wait(10), opens(self)))
    nvml = Nvml()
    seen = Telemetry(nvml, UUID, period_s=60)
    seen.start()
    threading.Timer(0.5, may_open.set).start()
    seen.await_first()
    assert nvml.open == 1
    assert "note" not in seen.stop()


def test_only_a_cuda_device_with_a_uuid_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert telemetry.start("cpu", {}).stop() == {}
    unknown = {"note": "nothing was seen of the device: its UUID is not known"}
    for visible in ("", "0", "-1"):
        assert telemetry.start("cuda", {"CUDA_VISIBLE_DEVICES": visible}).stop() == unknown
    monkeypatch.setitem(sys.modules, "pynvml", None)
    missing = {"note": "nothing was seen of the device: pynvml is not installed"}
    assert telemetry.start("cuda", {"CUDA_VISIBLE_DEVICES": UUID}).stop() == missing
    telemetry.start("cuda", {}).mark()  # asks nothing of nobody
    module = ModuleType("pynvml")
    vars(module).update({name: getattr(nvml, name) for nvml in [Nvml()] for name in dir(nvml) if "vml" in name.lower()})
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert telemetry.start("cuda", {"CUDA_VISIBLE_DEVICES": f"{UUID},GPU-1"}).stop()["uuid"] == UUID


def test_the_names_of_limits() -> None:
    assert limits(0) == limits(0x01) == limits(0x200) == []
    assert limits(0x1FF) == [name for _, name in telemetry.CLOCK_LIMITS]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=80), inner, max_size=50),
    max_leaves=60,
)


@given(JSON)
def test_whatever_a_launch_sends_fits_the_record(values: object) -> None:
    sent = json.loads(json.dumps(values))  # NaN and infinities included, as Python reads and writes them
    kept = bounded_facts(sent)
    line = dump(LaunchEnd(launch=0, status="ok", telemetry=kept))
    read = parse_event(line)
    assert isinstance(read, LaunchEnd)
    assert read.telemetry == kept
    assert len(kept) <= 50


def test_what_is_kept_of_telemetry() -> None:
    sent = {"sm": 1980.5, "n": 3, "why": "x" * 5_000, "yes": True, "nan": math.nan, "list": [1], "big": 10**400}
    assert bounded_facts(sent) == {"sm": 1980.5, "n": 3, "why": "x" * 1_024}
    assert bounded_facts([1]) == {}
    assert len(bounded_facts({str(number): number for number in range(100)})) == 50


CASES = """
from evenbench import Bench, case

@case("t/a", params={"n": [1, 2]}, device="cpu")
def a(p, device):
    return Bench(run=lambda: p.n)
"""


class Watch:
    """Stands where `Telemetry` would, and notes where in a launch it is called."""

    def __init__(self, sent: list[dict[str, Any]]) -> None:
        self.sent = sent

    def await_first(self) -> None:
        self.sent.append({"event": "first"})

    def mark(self) -> None:
        self.sent.append({"event": "mark"})

    def stop(self) -> telemetry.Values:
        return {"samples": 2}


def test_a_launch_looks_after_each_case_and_sends_what_it_saw_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.py").write_text(CASES)
    sent: list[dict[str, Any]] = []
    devices: list[str] = []

    def start(device: str) -> Watch:
        devices.append(device)
        return Watch(sent)

    monkeypatch.setattr(telemetry, "start", start)
    monkeypatch.setattr(jobs, "enter_root", lambda root: None)  # it changes this process
    monkeypatch.setitem(sys.modules, "evenbench", importlib.import_module("evenbench"))
    targets = [
        {"id": f"t/a[n={n}]", "timeout_s": 10.0, "cache": "warm", "timer": "auto", "allow_fallback": False}
        for n in (1, 2)
    ]
    job = {
        "kind": "prepare",
        "root": str(tmp_path),
        "cases": str(tmp_path / "cases"),
        "without": [],
        "targets": targets,
    }
    jobs.run(job, cast("Channel", SimpleNamespace(send=sent.append)))
    order = [
        message["event"]
        for message in sent
        if message["event"] in ("first", "machine", "finish", "mark", "telemetry", "done")
    ]
    assert order == ["first", "machine", "finish", "mark", "finish", "mark", "telemetry", "done"]
    assert [message["values"] for message in sent if message["event"] == "telemetry"] == [{"samples": 2}]
    assert devices == ["cpu"]


ON_DEVICE = """
from evenbench import Bench, case

@case("t/a")
def a(p, device):
    return Bench(run=lambda: 1)
"""


@pytest.mark.parametrize(
    ("target", "order"),
    [
        ({"timing": "cupti"}, ["first", "CUDA asked", "CUDA opens"]),
        ({"timer": "auto"}, ["CUDA asked", "first", "CUDA opens"]),  # before it is asked, none knows that there is CUDA
    ],
)
def test_nvml_is_open_before_cuda_opens_the_device(
    target: dict[str, str], order: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.py").write_text(ON_DEVICE)
    sent: list[dict[str, Any]] = []

    def accelerator() -> str:
        sent.append({"event": "CUDA asked"})
        return "cuda"

    def opens(self: Any, *, thorough: bool) -> dict[str, Any]:
        sent.append({"event": "CUDA opens"})
        return {}

    monkeypatch.setattr(telemetry, "start", lambda device: Watch(sent))
    monkeypatch.setattr(jobs, "accelerator", accelerator)
    monkeypatch.setattr(Instruments, "prove_cupti", opens)
    monkeypatch.setattr(jobs, "Guard", lambda device: None)
    monkeypatch.setattr(jobs, "WORK", {"any": None})
    monkeypatch.setattr(jobs, "_one_case", lambda *_: sys.exit("the cases are not asked for"))
    monkeypatch.setattr(jobs, "identity", lambda device: {"device": device})
    monkeypatch.setattr(jobs, "enter_root", lambda root: None)
    monkeypatch.setitem(sys.modules, "evenbench", importlib.import_module("evenbench"))
    job = {"kind": "any", "root": str(tmp_path), "cases": str(tmp_path / "cases"), "without": []}
    with pytest.raises(SystemExit, match="not asked for"):
        jobs.run(
            job | {"targets": [{"id": "t/a", "timeout_s": 10.0, **target}]},
            cast("Channel", SimpleNamespace(send=sent.append)),
        )
    assert [message["event"] for message in sent if message["event"] in order] == order


class Session:
    """A launch that was."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = messages

    def launch(self, job: dict[str, Any], *, fork: bool, timeout_s: float) -> Iterator[dict[str, Any]]:
        yield {"event": "machine"}
        yield {"event": "begin", "case": "a"}
        yield {"event": "finish", "case": "a"}
        yield from self.messages
        yield {"event": "exit", "status": "ok"}


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        ([{"event": "telemetry", "values": {"sm_clock_mhz": 1980, "list": []}}], {"sm_clock_mhz": 1980}),
        ([{"event": "telemetry"}], {}),
        ([], {}),
    ],
)
def test_telemetry_stands_on_the_launchs_last_line(
    messages: list[dict[str, Any]], kept: dict[str, float], tmp_path: Path
) -> None:
    quiet = SimpleNamespace(launch=lambda *_: None, case=lambda *_: None, launch_done=lambda *_: None)
    with Writer(tmp_path / "results.jsonl") as writer:
        recorder = LaunchRecorder(writer, indices={("head", "a"): 0})
        spec = LaunchSpec(side="head", kind="timed", start="fork", round=0)
        target = {"id": "a", "timeout_s": 1.0}
        run_targets(cast("Any", Session(*messages)), recorder, spec, {}, [target], lambda *_: None, cast("Any", quiet))
    end = parse_event((tmp_path / "results.jsonl").read_text().splitlines()[-1])
    assert isinstance(end, LaunchEnd)
    assert end.telemetry == kept
