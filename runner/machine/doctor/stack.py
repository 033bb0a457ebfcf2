"""Checks of what an interpreter has installed: torch, NVML and CUPTI, each tried in a separate process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...process.bounded import Finished
from ...timing.cupti.timer import OTHER_FIX
from ..gpus import Gpu
from .check import Check, Probes, ending_of, one_line

NVML_FIX = "pip install nvidia-ml-py; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility"
TORCH_FIX = "install torch built for CUDA, no newer than the driver (pip install 'evenbench[cuda]')"

PROFILER_FIX = "end the profiler, or measure outside it"
COUNTER_FIX = "use a cupti-python that provides activity_get_num_dropped_records, so that losses are seen"
SELFTEST = (
    ("slope", "slope", ""),
    ("constant_ns", "constant", " ns"),
    ("tick_ns", "time stamps in steps of", " ns"),
    ("drop_counter", "drop counter", ""),
    ("profiler", "another profiler:", ""),
    ("cupti_python", "cupti-python", ""),
    ("libcupti", "libcupti", ""),
    ("cuda_driver", "CUDA driver", ""),
    ("spent_ms", "took", " ms"),
)  # facts of the self-test: their names there, in words, and their units

TRIAL = """
import importlib.util, json, sys

def say(**facts):
    print("\\n" + json.dumps(facts), flush=True)

def cause(error):
    return getattr(error, "message", "") or f"{type(error).__name__}: {error}"

say(python=".".join(map(str, sys.version_info[:3])))
try:
    import torch
    say(torch=torch.__version__, cuda=torch.version.cuda or "")
    if torch.cuda.is_available():
        torch.ones(1, device="cuda").item()
        say(device=torch.cuda.get_device_name())
except Exception as error:
    say(torch_error=cause(error))
if sys.argv[1:]:
    try:
        import pynvml
        pynvml.nvmlInit()
        say(nvml=pynvml.nvmlSystemGetNVMLVersion())
    except Exception as error:
        say(nvml_error=cause(error))
    try:
        spec = importlib.util.spec_from_file_location("worker_start", sys.argv[1])
        start = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(start)
        start.load_evenbench()
        from evenbench.timing.cupti import timer as cupti
        cupti.probe()
        say(cupti_error="")
    except Exception as error:
        say(cupti_error=cause(error), cupti_fix=getattr(error, "hint", ""))
        sys.exit()
    try:
        from evenbench.timing.cupti import selftest
        facts = {name: value for name, value in selftest.verify().items() if value not in (None, "")}
        say(selftest_error="", **facts)
    except Exception as error:
        say(selftest_error=cause(error), selftest_fix=getattr(error, "hint", ""))
"""
"""Run as ``python -P -c``. Prints what it finds as lines of JSON, so that a crash loses only what comes after.

Its argument is the worker's start file, through which CUPTI is tried as a launch would use it; absent without a GPU.
"""


def stack_checks(gpu: Gpu | None, python: Path, probes: Probes, *, inherit: bool) -> list[Check]:
    """Whether torch, NVML, CUPTI and its timer's self-test of an interpreter work on this GPU, as this user.

    Args:
        inherit: pass PYTHONPATH on; it is meant for our own interpreter, not for one named by the user.
    """
    variables = {name: value for name, value in probes.environ.items() if inherit or name != "PYTHONPATH"}
    command = [str(python), "-P", "-c", TRIAL]
    if gpu is not None:
        variables["CUDA_VISIBLE_DEVICES"] = gpu.uuid
        command.append(str(Path(__file__).resolve().parents[2] / "worker" / "__main__.py"))
    answer = probes.run(command, variables, 180.0)  # seconds: torch from a cold disk, a first CUDA context, CUPTI
    facts = _facts(answer.output)
    interpreter = one_line(f"Python {facts.get('python', '?')} at {python}")
    if gpu is None:
        return [_torch_of_host(facts, answer, interpreter)]
    return [_torch(facts, answer, interpreter), _nvml(facts, answer), _cupti(facts, answer), *_selftest(facts, answer)]


def _facts(output: bytes) -> Mapping[str, str]:
    """The facts that the trial printed, among whatever torch printed."""
    facts: dict[str, str] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            values: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict):
            facts |= {name: one_line(str(value)) for name, value in values.items()}
    return facts


def _torch_of_host(facts: Mapping[str, str], answer: Finished, interpreter: str) -> Check:
    should = "installed, for cases that use it"
    if "torch" not in facts:
        return Check(
            "torch",
            "note",
            f"{facts.get('torch_error') or _ending(answer)}; {interpreter}",
            should,
            "pip install torch",
        )
    return Check("torch", "fit", f"{facts['torch']}; {interpreter}", should, "")


def _torch(facts: Mapping[str, str], answer: Finished, interpreter: str) -> Check:
    should = "a torch that computes on the GPU"
    if facts.get("device"):
        return Check("torch", "fit", f"{facts['torch']} on {facts['device']}; {interpreter}", should, "")
    if "torch" not in facts:
        why = facts.get("torch_error") or _ending(answer)
    elif not facts["cuda"]:
        why = f"{facts['torch']} is a build without CUDA"
    else:
        why = f"{facts['torch']} cannot use the GPU: {facts.get('torch_error') or _ending(answer)}"
    return Check("torch", "unfit", f"{why}; {interpreter}", should, TORCH_FIX)


def _nvml(facts: Mapping[str, str], answer: Finished) -> Check:
    should = "installed, to record clocks, power and temperature beside the times"
    if "nvml" in facts:
        return Check("NVML", "fit", f"{facts['nvml']}, through pynvml", should, "")
    return Check("NVML", "note", facts.get("nvml_error") or _ending(answer), should, NVML_FIX)


def _cupti(facts: Mapping[str, str], answer: Finished) -> Check:
    should = "able to record as this user"
    if not facts.get("device"):
        return Check("CUPTI", "unfit", "not tried: torch does not work", should, "fix torch first")
    if "cupti_error" not in facts:
        return Check("CUPTI", "unfit", f"the process that tried it died: {_ending(answer)}", should, OTHER_FIX)
    if facts["cupti_error"]:
        return Check("CUPTI", "unfit", facts["cupti_error"], should, facts.get("cupti_fix") or OTHER_FIX)
    return Check("CUPTI", "fit", "records", should, "")


def _selftest(facts: Mapping[str, str], answer: Finished) -> list[Check]:
    """The self-test of the CUPTI timer; nothing where CUPTI does not work."""
    if facts.get("cupti_error") != "":
        return []
    should = "reads kernels of known length correctly, without another profiler in the process"
    if "selftest_error" not in facts:
        read = f"the process that tried it died: {_ending(answer)}"
        return [Check("CUPTI self-test", "unfit", read, should, OTHER_FIX)]
    if facts["selftest_error"]:
        return [
            Check("CUPTI self-test", "unfit", facts["selftest_error"], should, facts.get("selftest_fix") or OTHER_FIX)
        ]
    read = "; ".join(f"{words} {facts[name]}{unit}" for name, words, unit in SELFTEST if name in facts)
    profiler, blind = "profiler" in facts, facts.get("drop_counter") == "unreadable"
    fixes = [PROFILER_FIX] * profiler + [COUNTER_FIX] * blind
    return [Check("CUPTI self-test", "note" if fixes else "fit", read, should, "; ".join(fixes))]


def _ending(answer: Finished) -> str:
    """How the trial ended and its last warning or error; its output holds the trial's own lines."""
    return ending_of(replace(answer, output=answer.errors))
