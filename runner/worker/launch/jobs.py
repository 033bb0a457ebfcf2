"""What one launch does: discover the cases, prepare them, or measure them. One job, one process."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...case import discover
from ...case.declare import GridPoint
from ...errors import CaseError, EvenbenchError
from ...process import leftovers, stacks
from ...process.channel import Channel
from . import measure, origins, prepare, telemetry
from .bench import one_line
from .instruments import Instruments
from .restore import Guard

__all__ = ["enter_root", "one_line", "run"]

HOST = "cpu"
CUDA_TIMERS = ("cupti", "cuda-events")
IMPORT_TIMEOUT_S = 120.0  # one case file with its libraries, from a cold disk
PYCACHE_VARIABLE = "EVENBENCH_PYCACHE"
WORK: Mapping[str, Callable[..., None]] = MappingProxyType(  # what a job does with each of its cases
    {"prepare": prepare.prepare_case, "texts": prepare.give_texts, "measure": measure.measure_case}
)


def run(job: dict[str, Any], channel: Channel) -> None:
    """Do a job and send its messages, the last of them `done`.

    Args:
        job: `kind` (discover, prepare, texts, measure), `root` and `cases` (directories), and for all but the first
            `targets`: one dict a case, in the order of measuring. `texts` keeps off every device.
    """
    began = time.perf_counter_ns()
    leftovers.offer_to_oom_killer()
    stacks.tell()
    enter_root(job["root"])
    seen = telemetry.start("cuda") if _on_cuda(job) else None  # opens NVML while the cases load
    try:
        found = _load(job, channel)
    except CaseError as error:
        channel.send({"event": "broken", "file": "", "error": one_line(error), "usage": True})
        channel.send({"event": "done"})
        return
    points = discover.points_of(found)
    if job["kind"] != "measure":  # which reports once, at its end
        _report_origins(job, channel)
    if job["kind"] == "discover":
        _discover(found, points, channel)
    else:
        if seen is not None:
            seen.await_first()  # before `accelerator` asks CUDA
        by_id = {point.id: point for point in points}
        on_device = any(by_id[t["id"]].case.device != HOST for t in job["targets"] if t["id"] in by_id)
        device = accelerator() if on_device and job["kind"] != "texts" else HOST
        if seen is None:
            seen = telemetry.start(device)
            seen.await_first()  # before the instruments open the device: what is in use by then is others'
        instruments = Instruments()
        proof = instruments.prove_cupti(thorough=job["kind"] == "prepare") if _times_by_cupti(job, device) else {}
        gc.freeze()  # what stands by now stays: a collection before each case looks at what cases left, and is quick
        channel.send({"event": "machine", **identity(device), "instrument": proof})
        work = WORK[job["kind"]]
        guard = Guard(device)
        for target in job["targets"]:
            channel.send({"event": "begin", "case": target["id"], "timeout_s": target["timeout_s"]})
            _one_case(work, by_id.get(target["id"]), target, device, instruments, channel)
            left = guard.settle()
            if left.text:
                channel.send({"event": "left", "case": target["id"], "text": left.text})
            channel.send({"event": "finish", "case": target["id"], "since_start_ns": time.perf_counter_ns() - began})
            seen.mark()
            if left.unfit:  # the driver goes on with the other cases in a fresh launch
                break
        if values := seen.stop():
            channel.send({"event": "telemetry", "values": values})
        _report_origins(job, channel)  # with what the cases have imported meanwhile
    channel.send({"event": "done"})


def _report_origins(job: dict[str, Any], channel: Channel) -> None:
    """Say where the project's modules came from, where the driver wants to know."""
    if "origin" in job:
        channel.send(origins.report(job["origin"], job["cases"], hashed=job["kind"] != "measure"))


def _on_cuda(job: dict[str, Any]) -> bool:
    """Whether it is settled, without importing torch, that a case of this launch runs on a CUDA device."""
    return any(target.get("timing") in CUDA_TIMERS for target in job.get("targets", ()))


def _times_by_cupti(job: dict[str, Any], device: str) -> bool:
    """Whether a case may be timed by CUPTI: as `timer` asks before preparation, as `timing` says after it."""
    wanted = {target.get("timing", target.get("timer")) for target in job["targets"]}
    return device == "cuda" and not wanted.isdisjoint(("auto", "cupti"))


def enter_root(root: str) -> None:
    """Work in the side's tree, with its root first on the path, as the user's own scripts would."""
    os.chdir(root)
    sys.pycache_prefix = os.environ.get(PYCACHE_VARIABLE)  # not before: torch's own compiled files are used as they lie
    sys.dont_write_bytecode = False
    if root not in sys.path[:1]:
        sys.path.insert(0, root)


def accelerator() -> str:
    """The device type that cases run on: the accelerator torch sees, or ``cpu``."""
    if importlib.util.find_spec("torch") is None:
        return HOST
    torch = importlib.import_module("torch")
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found.type if found is not None else HOST


def identity(device: str) -> dict[str, Any]:
    """The device as this launch sees it: model, UUID; and the software beside it."""
    torch = sys.modules.get("torch")
    found = {
        "device": HOST,
        "uuid": "",
        "torch": str(torch.__version__) if torch else "",
        "python": sys.version.split()[0],
    }
    if torch is not None and device == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        found |= {"device": properties.name, "uuid": f"GPU-{properties.uuid}"}
    elif device != HOST:
        found["device"] = device
    return found


def _load(job: dict[str, Any], channel: Channel) -> discover.CasesDirectory:
    """The cases of the directory; none where there is no directory. Says which file it imports, while it discovers."""
    directory = Path(job["cases"])
    if not directory.is_dir():
        return discover.CasesDirectory([], [])

    def announce(file: str) -> None:
        if job["kind"] == "discover":
            channel.send({"event": "begin", "case": file, "timeout_s": IMPORT_TIMEOUT_S})

    return discover.load(directory, without=job["without"], announce=announce)


def _discover(found: discover.CasesDirectory, points: list[GridPoint], channel: Channel) -> None:
    for broken in found.broken:
        channel.send({"event": "broken", "file": broken.file, "error": broken.error, "usage": broken.usage})
    for point in points:
        case = point.case
        channel.send(
            {
                "event": "point",
                "id": point.id,
                "file": case.file,
                "line": case.line,
                "title": case.title,
                "tags": sorted(case.tags),
                "on_cpu": case.device == HOST,
                "source": case.source_hash,
                "settings": {
                    key: getattr(case, key)
                    for key in ("timer", "cache", "iterations", "timeout_s")
                    if getattr(case, key) is not None
                },
            }
        )
    channel.send({"event": "done"})


def _one_case(
    work: Any, point: GridPoint | None, target: dict[str, Any], device: str, instruments: Instruments, channel: Channel
) -> None:
    """One case, whatever it does: an error that escapes is the case's, never the launch's."""
    try:
        if point is None:
            raise EvenbenchError("the case is gone: its file gave another set of cases than at discovery")
        work(point, target, HOST if point.case.device == HOST else device, instruments, channel)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        kind = getattr(error, "kind", "runtime")
        channel.send({"event": "failure", "case": target["id"], "kind": kind, "error": one_line(error)})
