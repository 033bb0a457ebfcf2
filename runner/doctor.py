"""Is this machine fit to measure, and how to mend what is not (`evenbench doctor`).

Nothing here is privileged, prints, or imports torch: torch and CUPTI are tried in a process of their own. Every answer
from outside comes through `Probes`, within a time limit.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from .machine import QUERY_S, Gpu, choose_gpu, gpus
from .sides.environments import PYTHON_MIN, given_python
from .sides.processes import Finished, readable, run_bounded
from .timing.host import clock_resolution_ns

GIT_S = 10.0  # `git --version` touches nothing but its own file
PROBE_S = 180.0  # importing torch from a cold disk, a first CUDA context, CUPTI
OUTPUT_MAX = 64 << 10  # bytes kept of the end of what a program says
TEXT_MAX = 300  # characters of it in one check
NAME_WIDTH = 14  # of the longest name, "results folder"

FREE_MIN_GIB = 2.0  # two copies of a checkout, two environments and the compile caches of both sides
CLOCK_STEP_MAX_NS = 1_000  # the tsc clock source steps by tens of ns; hpet and acpi_pm by hundreds to thousands
LOAD_MAX = 0.5  # of the CPUs: beyond it, the host timer and the launch of short kernels wait for a core
MEMORY_MAX_MIB = 1_024  # drivers before 510 count their own reserve as used, about 600 MiB of a large GPU
UTILISATION_MAX = 5  # percent: a monitoring agent's queries stay below, any tenant's work does not
READINGS = 3  # the driver's window for utilisation may be as short as 1/6 s; the busiest reading counts
READING_PAUSE_S = 0.4

GPU_FIELDS = (
    "memory.used",
    "utilization.gpu",
    "compute_mode",
    "clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.active",  # the older spelling, which newer drivers take as well
    "persistence_mode",
    "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
)
CLOCK_LIMITS = (  # bits of nvmlClocksEventReasons (nvml.h) that hold clocks down; idleness (1) is none
    (0x02, "application clocks"),
    (0x04, "power cap"),
    (0x08, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "temperature (software)"),
    (0x40, "temperature (hardware)"),
    (0x80, "power brake"),
    (0x100, "display clocks"),
)
VISIBLE_MEND = "check `nvidia-smi`; a container needs --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
TENANT_MEND = "end what else runs on this GPU (in a container only the host's nvidia-smi lists it), or choose with --gpu"

TORCH_PROBE = """
import importlib.util, json, sys
def say(**facts):
    print(json.dumps(facts), flush=True)
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
        spec = importlib.util.spec_from_file_location("worker_start", sys.argv[1])
        start = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(start)
        start.load_evenbench()
        from evenbench.timing import cupti
        cupti.probe()
        say(cupti_error="")
    except Exception as error:
        say(cupti_error=cause(error), cupti_mend=getattr(error, "hint", ""))
"""
"""Run as ``python -P -c``: says what it finds in JSON lines, so that a crash loses only what comes after.

Its argument, left out where there is no GPU, is the worker's start file: CUPTI is tried from the code that launches use.
"""

State = Literal["fit", "unfit", "note"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was read, what it should be, and what to do where it is not.

    `unfit` keeps the machine from measuring; a `note` is worth knowing and does not.
    """

    name: str
    state: State
    read: str
    should: str
    mend: str

    def as_dict(self) -> dict[str, str]:
        """The check for JSON."""
        return asdict(self)

    def line(self) -> str:
        """The check as one line for a terminal; what it should be only where it is not fit."""
        more = "" if self.state == "fit" else f"  (should be {self.should}" + (f"; mend: {self.mend})" if self.mend else ")")
        return f"{self.state:<5}  {self.name:<{NAME_WIDTH}}  {self.read}{more}"


def _run(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Finished:
    """Run a program to its end; one that cannot be started ends as in a shell, with status 127."""
    try:
        return run_bounded(argv, cwd=Path("/"), environment=environment, timeout_s=timeout_s, keep=OUTPUT_MAX)
    except OSError as error:
        return Finished(127, b"", f"{argv[0]}: {error.strerror}".encode(), truncated=False)


def _load() -> tuple[float, int]:
    return os.getloadavg()[0], os.cpu_count() or 1


def _free_bytes(folder: Path) -> int:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"evenbench")
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def _device_files() -> list[str]:
    return sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))


@dataclass(frozen=True)
class Probes:
    """Where the answers come from; a test gives its own.

    Attributes:
        run: argv, variables and seconds → how the program ended.
        free_bytes: of a folder, after a write into it; raises OSError where that fails.
        load: load average of the last minute, and the number of CPUs that it is spread over.
        device_files: of NVIDIA GPUs, present even where the driver's library does not answer.
    """

    environ: Mapping[str, str]
    gpus: Callable[[], list[Gpu]] = gpus
    device_files: Callable[[], list[str]] = _device_files
    run: Callable[[Sequence[str], Mapping[str, str], float], Finished] = _run
    temporary: Callable[[], str] = tempfile.gettempdir
    free_bytes: Callable[[Path], int] = _free_bytes
    clock_step_ns: Callable[[], int] = clock_resolution_ns
    load: Callable[[], tuple[float, int]] = _load
    pause: Callable[[float], None] = time.sleep


def examine(gpu: str | None, python: Path | None, probes: Probes | None = None) -> list[Check]:
    """Look at everything a measurement stands on. A machine without any GPU is fit for the host timer.

    Args:
        gpu: ``--gpu``: index, UUID or the beginning of one; None for the first visible.
        python: interpreter whose torch and CUPTI are tried; None for our own.

    Raises:
        UsageError: no such GPU, no such interpreter.
    """
    probes = probes or Probes(os.environ)
    interpreter = given_python("--python", str(python)) if python else Path(sys.executable)
    found = probes.gpus()
    chosen = choose_gpu(gpu, found, probes.environ.get("CUDA_VISIBLE_DEVICES"))
    checks = [*_host_checks(probes), _gpu_check(chosen, found, probes)]
    if chosen is not None:
        checks += _gpu_state(*_readings(chosen, probes))
    return checks + _torch_checks(chosen, interpreter, probes, inherit=python is None)


def _host_checks(probes: Probes) -> list[Check]:
    version, least = platform.python_version(), ".".join(map(str, PYTHON_MIN))
    git = probes.run(["git", "--version"], probes.environ, GIT_S)
    step = probes.clock_step_ns()
    return [
        Check("Python", "fit", f"{version} on {platform.system()} {platform.machine()}", f"at least {least}", ""),
        Check(
            "git",
            "fit" if git.status == 0 else "note",
            _said(git),
            "at hand, for sides that are refs and for the commits of those that are folders",
            "install git",
        ),
        _folder("temp folder", lambda: Path(probes.temporary()), "TMPDIR", probes),
        _folder("results folder", Path.cwd, "--output", probes),
        Check(
            "clock",
            "fit" if step <= CLOCK_STEP_MAX_NS else "unfit",
            f"steps of {step} ns",
            f"monotonic, in steps of at most {CLOCK_STEP_MAX_NS} ns",
            "choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        _load_check(probes),
    ]


def _folder(name: str, find: Callable[[], Path], elsewhere: str, probes: Probes) -> Check:
    should, mend = f"writable, {FREE_MIN_GIB:g} GiB free", f"make room, or name another place with {elsewhere}"
    try:
        folder = find()
        free = probes.free_bytes(folder) / (1 << 30)
    except OSError as error:
        return Check(name, "unfit", f"cannot be written: {_text(str(error))}", should, mend)
    return Check(name, "fit" if free >= FREE_MIN_GIB else "unfit", f"{folder}: {free:.1f} GiB free", should, mend)


def _load_check(probes: Probes) -> Check:
    should = f"a load of at most {LOAD_MAX:g} a CPU, for steady host times"
    try:
        load, cpus = probes.load()
    except OSError:
        return Check("CPU", "note", "the load cannot be read", should, "")
    quiet = load <= LOAD_MAX * cpus
    return Check("CPU", "fit" if quiet else "note", f"load {load:.2f} on {cpus} CPUs", should, "end other programs, or wait")


def _gpu_check(chosen: Gpu | None, found: list[Gpu], probes: Probes) -> Check:
    if chosen is not None:
        return Check("GPU", "fit", f"{_text(chosen.name)}, driver {chosen.driver}, {chosen.uuid}", "an NVIDIA GPU", "")
    if found:
        return Check("GPU", "note", f"{len(found)} hidden by CUDA_VISIBLE_DEVICES", "visible, for GPU cases", "unset it")
    if files := probes.device_files():
        read = f"{', '.join(files)} present, but no driver answers"
        return Check("GPU", "unfit", read, "a GPU whose driver answers", VISIBLE_MEND)
    return Check("GPU", "note", "none: only host cases can be measured", "an NVIDIA GPU, for GPU cases", VISIBLE_MEND)


def _readings(gpu: Gpu, probes: Probes) -> tuple[list[Mapping[str, str]], str]:
    """The GPU's state, read a few times, and why it could not be read. One failed reading voids them all."""
    command = ["nvidia-smi", f"--id={gpu.uuid}", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader,nounits"]
    readings: list[Mapping[str, str]] = []
    for number in range(READINGS):
        if number:
            probes.pause(READING_PAUSE_S)
        answer = probes.run(command, probes.environ, QUERY_S)
        values = [value.strip() for value in answer.output.decode("utf-8", "replace").split(",")]
        if answer.status != 0 or len(values) != len(GPU_FIELDS):
            return [], f"nvidia-smi: {_said(answer)}"
        readings.append(dict(zip(GPU_FIELDS, values, strict=True)))
    return readings, ""


def _gpu_state(readings: Sequence[Mapping[str, str]], problem: str) -> list[Check]:
    last = readings[-1] if readings else dict.fromkeys(GPU_FIELDS, problem)
    seen = readings or [last]
    mode, persistence, mig = last["compute_mode"], last["persistence_mode"], last["mig.mode.current"]
    ecc = _number(last["ecc.errors.uncorrected.volatile.total"])
    ecc_read = _text(last["ecc.errors.uncorrected.volatile.total"]) if ecc is None else f"{ecc:g} uncorrected errors"
    usable = mode in {"Default", "Exclusive_Process"}
    persistent = persistence == "Enabled"
    whole = mig in {"Disabled", "[N/A]", "N/A"}  # the latter where the model cannot be split
    return [
        _at_most("GPU memory", "MiB used", [r["memory.used"] for r in seen], MEMORY_MAX_MIB),
        _at_most("GPU use", "% busy", [r["utilization.gpu"] for r in seen], UTILISATION_MAX),
        Check("compute mode", "fit" if usable else "unfit", _text(mode), "Default", "nvidia-smi -c DEFAULT, as root"),
        _clocks(last),
        Check(
            "persistence",
            "fit" if persistent else "note",
            _text(persistence),
            "Enabled, so that the driver and its clocks stay between launches",
            "nvidia-smi -pm 1, as root",
        ),
        Check(
            "MIG",
            "fit" if whole else "note",
            _text(mig),
            "Disabled: slices share clocks and power with their neighbours",
            "nvidia-smi -mig 0, as root",
        ),
        Check(
            "ECC",
            "unfit" if ecc else "note" if ecc is None else "fit",
            ecc_read,
            "0 since the driver was loaded",
            "reset the GPU; replace it if they come again",
        ),
    ]


def _at_most(name: str, unit: str, texts: Sequence[str], limit: int) -> Check:
    """Fit where the greatest of the readings is within the limit; one that is no number counts as unfit."""
    should = f"at most {limit} {unit}"
    numbers = [_number(text) for text in texts]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        mend = f"{VISIBLE_MEND}; with MIG on, turn it off"
        return Check(name, "unfit", f"cannot be read: {_text(texts[numbers.index(None)])}", should, mend)
    return Check(name, "fit" if max(known) <= limit else "unfit", f"{max(known):g} {unit}", should, TENANT_MEND)


def _clocks(reading: Mapping[str, str]) -> Check:
    should, mend = "held back by nothing", "undo locked clocks (nvidia-smi -rgc, -rac), see to cooling and power"
    current, most, reasons = (_text(reading[field]) for field in GPU_FIELDS[3:6])
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reasons) is None:
        return Check("clocks", "note", f"cannot be read: {reasons}", should, VISIBLE_MEND)
    limits = [name for bit, name in CLOCK_LIMITS if int(reasons, 16) & bit]
    read = f"SM at {current} of {most} MHz, held back by {', '.join(limits) or 'nothing'}"
    return Check("clocks", "note" if limits else "fit", read, should, mend)


def _torch_checks(gpu: Gpu | None, python: Path, probes: Probes, *, inherit: bool) -> list[Check]:
    """What the interpreter's torch and CUPTI do. PYTHONPATH is ours: an interpreter that was named does not get it."""
    variables = {name: value for name, value in probes.environ.items() if inherit or name != "PYTHONPATH"}
    command = [str(python), "-P", "-c", TORCH_PROBE]
    if gpu is not None:
        variables["CUDA_VISIBLE_DEVICES"] = gpu.uuid
        command.append(str(Path(__file__).resolve().parent / "worker" / "__main__.py"))
    answer = probes.run(command, variables, PROBE_S)
    facts: dict[str, Any] = {}
    for line in answer.output.decode("utf-8", "replace").splitlines():
        if line.startswith("{"):
            facts |= _facts(line)
    checks = [_torch(facts, gpu, answer, python)]
    if gpu is not None:
        checks.append(_cupti(facts, answer))
    return checks


def _facts(line: str) -> dict[str, Any]:
    try:
        facts = json.loads(line)
    except ValueError:  # torch, or what it imports, may print as well
        return {}
    return facts if isinstance(facts, dict) else {}


def _torch(facts: Mapping[str, Any], gpu: Gpu | None, answer: Finished, python: Path) -> Check:
    lacking: State = "note" if gpu is None else "unfit"
    should = "a torch that sees the GPU" if gpu else "at hand, for cases that use it"
    where = f"Python {facts.get('python', '?')} at {python}"
    mend = "install a build of torch with CUDA for this driver (pip install 'evenbench[cuda]')"
    if "torch_error" in facts or "torch" not in facts:
        return Check("torch", lacking, f"{_text(str(facts.get('torch_error') or _said(answer)))}; {where}", should, mend)
    build = f"torch {facts['torch']} " + (f"for CUDA {facts['cuda']}" if facts.get("cuda") else "without CUDA")
    if gpu is None:
        return Check("torch", "fit", f"{build}; {where}", should, "")
    if not facts.get("device"):
        why = (readable(answer.errors) or ["it gives no reason"])[-1] if facts.get("cuda") else "a build for CPUs"
        return Check("torch", "unfit", f"{build} sees no CUDA device: {_text(why)}; {where}", should, mend)
    return Check("torch", "fit", f"{build} on {_text(str(facts['device']))}; {where}", should, "")


def _cupti(facts: Mapping[str, Any], answer: Finished) -> Check:
    should = "able to record as this user"
    if "cupti_error" not in facts:
        mend = "see what the line above says, or use --timer cuda-events"
        return Check("CUPTI", "unfit", f"the process that tried it ended early: {_said(answer)}", should, mend)
    if facts["cupti_error"]:
        return Check("CUPTI", "unfit", _text(str(facts["cupti_error"])), should, _text(str(facts.get("cupti_mend", ""))))
    return Check("CUPTI", "fit", "records", should, "")


def _said(answer: Finished) -> str:
    """How a program ended, and the last line of what it said."""
    lines = readable(answer.output if answer.status == 0 else answer.errors or answer.output)
    ending = {None: "no answer in time", 0: ""}.get(answer.status, f"status {answer.status}")
    return _text(": ".join(filter(None, (ending, lines[-1] if lines else "")))) or "nothing"


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else None


def _text(text: str) -> str:
    """Foreign text as one bounded line without what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:TEXT_MAX]
