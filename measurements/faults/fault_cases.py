"""What the faulty case of an injected run does, and the files that hold it and its healthy neighbours."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

HEALTHY = ("before", "between", "after")
CHAOS = "bad/chaos"
TIMEOUT_S = 3.0  # of the faulty case: some hang, and some take a while on a busy machine
ITERATIONS = 10  # of every case

Effect: TypeAlias = Literal["dies", "may die", "hangs", "fails", "undone"]

# What chaos does, and what comes of it.
FAULTS: Mapping[str, tuple[Effect, str]] = MappingProxyType(
    {
        "segfault": ("dies", "ctypes.string_at(0)"),
        "abort": ("dies", "os.abort()"),
        "exit": ("dies", "os._exit(3)"),
        "leave": ("dies", "sys.exit(4)"),
        "killed": ("dies", "os.kill(os.getpid(), signal.SIGKILL)"),
        "kill the parent": ("dies", "os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)"),
        "close all files": ("dies", "os.closerange(3, 300)"),
        "garbage": ("dies", "babble()"),
        "harm later": ("may die", "threading.Timer(0.02, os._exit, [7]).start()"),
        "sleep": ("hangs", "time.sleep(600)"),
        "spin": ("hangs", "burn()"),
        "stop": ("hangs", "os.kill(os.getpid(), signal.SIGSTOP)"),
        "raise": ("fails", "1 / 0"),
        "exhaust memory": ("fails", "exhaust()"),
        "fork": ("undone", "child()"),
        "leave a thread": ("undone", "threading.Thread(target=burn, daemon=True).start()"),
        "flood": ("undone", "[os.write(1, b'water' * 200_000) for _ in range(10)]"),
        "move": ("undone", "os.chdir('/')"),
        "clear variables": ("undone", "os.environ.clear()"),
        "set a timer": ("undone", "signal.setitimer(signal.ITIMER_REAL, 0.05)"),
        "ignore signals": ("undone", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
        "profile": ("undone", "sys.setprofile(lambda *_: None)"),
        "close output": ("undone", "os.close(1), os.close(2)"),
        "mask": ("undone", "os.umask(0o777)"),
    }
)
CASES = """
    import ctypes, os, resource, signal, sys, threading, time
    from pathlib import Path
    from evenbench import Bench, case

    NEST = Path({nest!r})
    FAULTS = {tokens!r}

    def burn():
        while True:
            pass

    def exhaust():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 28, resource.getrlimit(resource.RLIMIT_AS)[1]))
        return bytearray(1 << 30)

    def child():
        if os.fork() == 0:
            os.setsid()
            (NEST / f"child-{{os.getpid()}}").touch()
            time.sleep(600)

    def babble():
        for descriptor in range(3, 40):
            try:
                os.write(descriptor, b"\\xff garbage\\n")
            except OSError:
                pass
        time.sleep(60)

    def state():
        return os.getcwd(), dict(os.environ), sys.getprofile(), signal.getsignal(signal.SIGTERM), os.fstat(1).st_ino

    BEFORE = state()

    @case({chaos!r}, device="cpu", timeout_s={timeout_s}, iterations={iterations})
    def chaos(p, device):
        for number, fault in enumerate(FAULTS):  # the first that nobody has done
            try:
                (NEST / f"done-{{number}}").touch(exist_ok=False)
            except FileExistsError:
                continue
            {deeds}
            break
        return Bench(run=lambda: 1, reference=lambda: 1)

    def make(name):
        @case(name, device="cpu", iterations={iterations})
        def healthy(p, device):
            if state() != BEFORE:
                raise RuntimeError("met what chaos left")
            return Bench(run=lambda: 1, reference=lambda: 1)
        return healthy

    HEALTHY = {healthy!r}
    before, between, after = (make(f"healthy/{{name}}") for name in HEALTHY)
"""
SUITES = """
    version: 1
    defaults: {cache: warm, ceilings: false, rounds: MANY, max_rounds: MANY}
    suites:
      pr: {include: ["**"], min_effect: 0.5, equivalence: 1.0}
"""


def drawn(faults: int, calls: int, seed: int) -> list[str]:
    """What chaos does at each call: nothing in the two preparations, then so many faults at random places."""
    source = random.Random(seed)
    found = [""] * calls
    for place in source.sample(range(calls), faults):
        found[place] = source.choice(list(FAULTS))
    return ["", "", *found]


EFFECTS: Sequence[Effect] = ("dies", "may die", "hangs", "fails", "undone")


def case_file(nest: str, faults: Sequence[str]) -> str:
    """The text of the cases: `chaos` does one of the faults at each call, and leaves its number in a folder."""
    deeds = "\n            ".join(f"if fault == {name!r}: {deed}" for name, (_, deed) in FAULTS.items())
    text = CASES.format(
        nest=nest, tokens=list(faults), chaos=CHAOS, timeout_s=TIMEOUT_S, iterations=ITERATIONS, deeds=deeds,
        healthy=HEALTHY,
    )  # fmt: skip
    return textwrap.dedent(text)


def suites_file(rounds: int) -> str:
    """The text of a suites.yaml whose runs have so many rounds."""
    return textwrap.dedent(SUITES).replace("MANY", str(rounds))
