"""Checks of the host: Python, git, folders, clock, load."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

from ...sides.environments import PYTHON_MIN
from ...words import count
from .check import Check, Probes, State, ending_of, one_line

FREE_MIN_GIB = 2.0  # copies of two checkouts, their environments, and the compile caches of both
CLOCK_STEP_MAX_NS = 1_000  # the tsc clock source steps by tens of ns; hpet and acpi_pm by hundreds to thousands
LOAD_MAX = 0.5  # a CPU: beyond it, host timings and launches of short kernels wait for a free one


def host_checks(probes: Probes) -> list[Check]:
    """Whether this host can run a comparison, leaving its GPU aside."""
    return [
        Check(
            "Python",
            "fit",
            f"{platform.python_version()} on {platform.system()} {platform.machine()}",
            f"at least {'.'.join(map(str, PYTHON_MIN))}",
            "",
        ),
        _git(probes),
        _folder("temp folder", lambda: Path(probes.temporary()), "TMPDIR", probes),
        _folder("results folder", Path.cwd, "--output", probes),
        _clock(probes),
        _load(probes),
    ]


def _git(probes: Probes) -> Check:
    answer = probes.run(["git", "--version"], probes.environ, 10.0)  # seconds
    state: State = "fit" if answer.status == 0 else "note"
    return Check(
        "git", state, ending_of(answer), "installed, for sides that are refs", "install git, or compare directories"
    )


def _folder(name: str, find: Callable[[], Path], elsewhere: str, probes: Probes) -> Check:
    should, fix = f"writable, {FREE_MIN_GIB:g} GiB free", f"free some space, or choose another folder with {elsewhere}"
    try:
        folder = find()
        if name == "temp folder" and probes.noexec(folder):
            fix = f"mount it without noexec, or name another folder with {elsewhere}"
            return Check(name, "unfit", one_line(f"{folder} is mounted noexec"), "able to run programs", fix)
        free = probes.free_bytes(folder) / (1 << 30)
    except OSError as error:
        return Check(name, "unfit", f"cannot be written: {one_line(str(error))}", should, fix)
    state: State = "fit" if free >= FREE_MIN_GIB else "unfit"
    return Check(name, state, one_line(f"{folder}: {free:.1f} GiB free"), should, fix)


def _clock(probes: Probes) -> Check:
    step = probes.clock_step_ns()
    return Check(
        "clock",
        "fit" if step <= CLOCK_STEP_MAX_NS else "unfit",
        f"steps of {step} ns",
        f"steps of at most {CLOCK_STEP_MAX_NS} ns, for the host timer",
        "choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource, as root",
    )


def _load(probes: Probes) -> Check:
    should = f"a load of at most {LOAD_MAX:g} a CPU, for steady host timings"
    try:
        load, cpus = probes.load()
    except OSError as error:
        return Check("CPU", "note", f"the load cannot be read: {one_line(str(error))}", should, "")
    state: State = "fit" if load <= LOAD_MAX * cpus else "note"
    return Check("CPU", state, f"load {load:.2f} on {count(cpus, 'CPU')}", should, "end other programs, or wait")
