"""Faults on a device: broken contexts, endless kernels, memory that is not given back. Each costs its own case alone.

One run holds all of them, each beside a healthy case that looks at what it finds. `docs/reliability.md` lists them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fakes.repositories import Repository

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
PATIENCE_S = 280.0
SUITES = """
    version: 1
    defaults: {measure_ms: 10, warmup_ms: 1, ceilings: false}
    suites:
      pr: {include: ["**"]}
"""
COMMON = '''
    import ctypes, os, time
    from pathlib import Path
    import torch
    from evenbench import Bench, case

    HERE = Path({nest!r})
    HELD = []
    PTX = b"""
    .version 7.0
    .target sm_75
    .address_size 64
    .visible .entry astray()
    {{
        .reg .u64 %where;
        .reg .u32 %what;
        mov.u64 %where, 16;
        mov.u32 %what, 1;
        st.global.u32 [%where], %what;
        ret;
    }}
    .visible .entry endless()
    {{
        .reg .u64 %now;
    again:
        mov.u64 %now, %globaltimer;
        bra again;
    }}
    """

    def first(name):
        """Whether this launch is the first that has the case: the preparation."""
        try:
            (HERE / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def kernel(name):
        """A launcher of a kernel of the text above, on torch's stream."""
        torch.zeros(1, device="cuda")
        cuda = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(PTX)) == 0
        assert cuda.cuModuleGetFunction(ctypes.byref(function), module, name) == 0
        one, nothing = ctypes.c_uint(1), ctypes.c_uint(0)

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            assert cuda.cuLaunchKernel(function, *[one] * 6, nothing, stream, None, None) == 0

        return launch

    def asserting():
        x, index = torch.arange(4, device="cuda"), torch.tensor([9], device="cuda")
        return lambda: x[index]

    def exhaust():
        held = []
        while True:
            held.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))

    def hoard():
        HELD.append(torch.empty(torch.cuda.mem_get_info()[1] // 3, dtype=torch.uint8, device="cuda"))

    def hoard_raw():
        pointer = ctypes.c_uint64()
        size = ctypes.c_size_t(torch.cuda.mem_get_info()[1] // 3)
        assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(pointer), size) == 0
'''
HEALTHY = """
    @case("healthy/{name}")
    def healthy_{name}(p, device):
        free, total = torch.cuda.mem_get_info()
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        assert free > total * 0.05 and free + kept > total * 0.75, (free, kept, total)
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        assert torch.empty(1).device.type == "cpu"
        x = torch.randn(1 << 16, device=device)
        assert x.dtype == torch.float32
        return Bench(run=lambda: x * 2, inputs={{"x": x}}, reference=lambda: x + x)
"""
FAULTY = """
    @case("bad/{name}", timeout_s={timeout_s})
    def bad_{name}(p, device):
        x = torch.randn(1 << 16, device=device)
        acts = {always} or not first({name!r})
        call = ({deed}) if acts else None
        return Bench(run=call if callable(call) else lambda: x * 2)
"""


class Fault(NamedTuple):
    """What a case does, or the call that it lets time; what its row says then, and what it leaves; empty: nothing."""

    deed: str
    reason: str = ""
    leaves: str = ""
    later: bool = False
    timeout_s: float = 60.0


FAULTS: Mapping[str, Fault] = {
    "astray": Fault("kernel(b'astray')", "illegal memory access", "left the device broken"),
    "astray_later": Fault("kernel(b'astray')", "illegal memory access", later=True),
    "asserts": Fault("asserting()", "device-side assert", "left the device broken"),
    "asserts_later": Fault("asserting()", "device-side assert", later=True),
    "unseen": Fault("kernel(b'astray')()", "illegal memory access", "left the device broken"),
    "endless": Fault("kernel(b'endless')", "no progress within 10 s", later=True, timeout_s=10),
    "exhausts": Fault("exhaust()", "out-of-memory"),
    "exhausts_later": Fault("exhaust()", "out-of-memory", later=True),
    "hoards": Fault("hoard()", leaves="of device memory in use"),
    "hoards_raw": Fault("hoard_raw()", leaves="of device memory in use"),
    "limits": Fault("torch.cuda.set_per_process_memory_fraction(0.01)", leaves="share of device memory"),
    "streams": Fault("torch.cuda.set_stream(torch.cuda.Stream())", leaves="current stream"),
    "defaults": Fault("torch.set_default_device('cuda')", leaves="default device"),
    "halves": Fault("torch.set_default_dtype(torch.float16)", leaves="default dtype"),
    "dies": Fault("os._exit(3)", "exit status 3", later=True),
}


class Ran(NamedTuple):
    """What the run left behind."""

    rows: Mapping[str, Mapping[str, Any]]
    events: list[dict[str, Any]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("faults")
    for name in ("nest", "tmp", "repository"):
        (root / name).mkdir()
    parts = [COMMON.format(nest=str(root / "nest"))]
    for name, fault in FAULTS.items():
        parts.append(FAULTY.format(name=name, deed=fault.deed, always=not fault.later, timeout_s=fault.timeout_s))
        parts.append(HEALTHY.format(name=f"after_{name}"))
    repository = Repository(root / "repository")
    repository.write({"cases/gpu.py": "".join(parts), "cases/suites.yaml": SUITES})
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "evenbench", "run", "**", "--seed", "1", "--ignore-unfit",
         "--output", "out.jsonl", "--json", "out.json"],
        cwd=repository.path, env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(root / "tmp")},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    events = [json.loads(line) for line in (repository.path / "out.jsonl").read_text().splitlines()]
    return Ran(rows, events)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_on_the_device_costs_its_own_row(ran: Ran, name: str) -> None:
    row = ran.rows[f"bad/{name}"]
    if FAULTS[name].reason:
        assert row["status"] == "failed", row
        assert FAULTS[name].reason in row["reason"]
    else:
        assert row["status"] in ("ok", "failed"), row  # what it does to itself is its own affair


def test_healthy_cases_on_the_device_pay_nothing(ran: Ran) -> None:
    healthy = {name: row["reason"] for name, row in ran.rows.items() if name.startswith("healthy/")}
    assert healthy == {f"healthy/after_{name}": "" for name in FAULTS}
    prepared = [event for event in ran.events if event["event"] == "case" and event["id"] in healthy]
    planned = {event["id"]: event["implementations"][0]["samples"] for event in prepared}
    counts = {e["case"]: len(e["device_busy_ns"]) for e in ran.events if e["event"] == "measurement"}
    assert {name: counts.get(name) for name in healthy} == planned


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_case_left_on_the_device_is_told(ran: Ran, name: str) -> None:
    (told,) = [event["leaves"] for event in ran.events if event["event"] == "case" and event["id"] == f"bad/{name}"]
    assert (FAULTS[name].leaves in told) if FAULTS[name].leaves else told == ""
