"""What a case changed in its launch is undone before the next one, and what cannot be undone is told.

Taken once a launch, after the case files are loaded: what they set at import holds for all their cases. After each case,
outside all timing, every setting is read again, which takes some 100 µs.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import gc
import locale
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from ...process import leftovers

DESCRIPTORS_SHARE = 0.5  # of the limit on open files; a case that leaves more open starves the next
MEMORY_SHARE = 0.25  # of the memory that was free at the start; less than that leaves the next case enough
QUICK_S = 0.001  # how long threads that a case left are watched: most of them sleep
CALM_S = 0.5  # OpenMP's threads spin for 0.2 s after their work
KEPT_FROM = 200  # copies of the standard streams lie beyond the descriptors that programs count with
STREAMS = ("stdin", "stdout", "stderr")
LIMITS = tuple(
    getattr(resource, name)
    for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")
)  # fmt: skip
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
HANDLER_OF: Callable[[int], Any] = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)  # under `signal`
SIGNALS = tuple(n for n in range(1, signal.SIGSYS + 1) if n not in (signal.SIGKILL, signal.SIGSTOP))


DEVICE_MEMORY_SHARE = 0.05  # of the device's memory, beyond what was in use before the first case
NONE = "none"  # no default device was ever set
ERROR_MAX = 300  # characters of a device's error
BACKENDS: Mapping[str, tuple[str, Any]] = MappingProxyType(  # attribute of torch.backends.cudnn → as torch begins
    {"enabled": ("cuDNN", True), "benchmark": ("cuDNN's tuning", False), "deterministic": ("cuDNN's choice", False)}
)


@dataclass(frozen=True)
class Setting:
    """A setting by its name for people.

    `begins`: its value in a library just imported; None: as it was found first.
    """

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]
    begins: Any = None


class Left(NamedTuple):
    """What a case left: names of what it had changed, and why the launch cannot go on, if it cannot."""

    changed: Sequence[str]
    unfit: Sequence[str]

    @property
    def text(self) -> str:
        """In words; empty where it left all as it was."""
        changed = f"changed {', '.join(self.changed)}" if self.changed else ""
        return "; ".join(part for part in (changed, *self.unfit) if part)


@dataclass(frozen=True)
class _Kept:
    setting: Setting
    value: Any


class Guard:
    """Holds the state of the process before the first case, and puts it back after each.

    Args:
        device: that the launch's cases run on, in torch's word.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._streams = _Streams()
        self._kept = [_Kept(setting, read(setting)) for setting in self._process_settings()]
        self._torch = self._numpy = False
        self._late_settings(first=True)
        self._threads = leftovers.threads()
        self._free = _free_memory()
        self._resident = _resident()
        self._device_memory = memory_held(device)

    def settle(self) -> Left:
        """Undo what the case changed; never raises."""
        if broken := torch_is_broken(self._device):
            return Left([], [broken])  # nothing else matters, or can be asked
        self._late_settings(first=False)
        changed, unfit = [], []
        for kept in self._kept:
            if read(kept.setting) == kept.value:
                continue
            changed.append(kept.setting.name)
            with contextlib.suppress(Exception):
                kept.setting.put(kept.value)
            if read(kept.setting) != kept.value:
                unfit.append(f"its {kept.setting.name} cannot be undone")
        return Left(changed, [*unfit, *self._leftovers()])

    def _process_settings(self) -> Iterator[Setting]:
        yield from PROCESS
        yield Setting("standard streams", self._streams.state, self._streams.put)

    def _late_settings(self, *, first: bool) -> None:
        """Settings of libraries, once those are imported: by a case, they are as the library begins."""
        if not self._numpy and sys.modules.get("numpy") is not None:
            self._numpy = True
            self._kept.append(_Kept(NUMPY, read(NUMPY) if first else NUMPY_BEGINS))
            self._keep(_functions("numpy's functions", sys.modules["numpy"]))
        if not self._torch and sys.modules.get("torch") is not None:
            self._torch = True
            for one in torch_settings(self._device):
                self._kept.append(_Kept(one, read(one) if first or one.begins is None else one.begins))
            if functional := sys.modules.get("torch.nn.functional"):  # libraries of kernels replace some of it
                self._keep(_functions("functions of torch.nn.functional", functional))

    def _keep(self, setting: Setting) -> None:
        self._kept.append(_Kept(setting, read(setting)))

    def _leftovers(self) -> Iterator[str]:
        if running := self._running_threads():
            yield f"left {running} thread{'s' if running > 1 else ''} running"
        with contextlib.suppress(OSError):
            lowest = os.open(os.devnull, os.O_RDONLY)
            os.close(lowest)
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            if 0 < limit * DESCRIPTORS_SHARE < lowest:
                yield f"left over {lowest} files open"
        bound = self._resident + self._free * MEMORY_SHARE
        if self._free and _peak() > bound:  # told at once, where asking for what is in use takes a while
            gc.collect()
            if (held := _resident()) > bound:
                yield f"left {held - self._resident >> 20} MiB of memory in use"
        if held := memory_left(self._device, self._device_memory):
            yield f"left {held >> 20} MiB of device memory in use"

    def _running_threads(self) -> int:
        """Threads that were not there before, and want a processor while no case does: idle ones disturb nobody."""
        new = leftovers.threads() - self._threads
        running = leftovers.busy(new, QUICK_S) if new else set()
        if running:
            time.sleep(CALM_S / 2)
            running = leftovers.busy(running, CALM_S / 2)
        of_python = {thread.native_id for thread in threading.enumerate()}
        # One that sleeps may wake up: a thread of Python is looked at again, one of a library is taken for what it is.
        self._threads |= new - running - of_python
        return len(running)


class _Streams:
    """The descriptors 0, 1, 2 and Python's objects over them."""

    def __init__(self) -> None:
        beyond = KEPT_FROM if resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 2 * KEPT_FROM else 3
        self._copies = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, beyond) for number in range(3)]

    def state(self) -> Any:
        """Which files they are, and whether Python can still use them."""
        files = [os.fstat(number) for number in range(3)]
        return [(file.st_dev, file.st_ino) for file in files], [not getattr(sys, name).closed for name in STREAMS]

    def put(self, _state: Any) -> None:
        """Put them back."""
        for number, copy in enumerate(self._copies):
            os.dup2(copy, number)
        for number, name in enumerate(STREAMS):
            if getattr(getattr(sys, name), "closed", True):
                setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _functions(told: str, *modules: ModuleType) -> Setting:
    """What the names of modules stand for: one that was replaced meets all cases, a new one beside them nobody."""
    known = [(vars(module), [name for name, value in vars(module).items() if callable(value)]) for module in modules]

    def put(found: Sequence[Sequence[Any]]) -> None:
        for (held, names), values in zip(known, found, strict=True):
            held.update(zip(names, values, strict=True))

    values = [(itemgetter(*names), held) for held, names in known]  # at once: one by one takes twice as long
    return Setting(told, lambda: [those(held) for those, held in values], put)


def _environment() -> dict[bytes, bytes]:
    """A copy of what os.environ holds: made through its methods it would take a hundred times as long."""
    held: Mapping[bytes, bytes] = getattr(os.environb, "_data", None) or os.environb
    return dict(held)


def _handlers() -> list[Any]:
    """As the interpreter has them: `signal.getsignal` turns each number into an enumeration's member first."""
    return [HANDLER_OF(number) for number in SIGNALS]


def _put_environment(values: Mapping[bytes, bytes]) -> None:
    for name in set(os.environb) - set(values):
        del os.environb[name]
    os.environb.update(values)


def _put_handlers(handlers: Sequence[Any]) -> None:
    for number, handler in zip(SIGNALS, handlers, strict=True):
        if handler is not None and HANDLER_OF(number) is not handler:
            signal.signal(number, handler)


def _stop_timers(_running: Any) -> None:
    for timer in TIMERS:
        signal.setitimer(timer, 0)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _put_limits(limits: Sequence[tuple[int, int]]) -> None:
    for number, limit in zip(LIMITS, limits, strict=True):
        if resource.getrlimit(number) != limit:
            resource.setrlimit(number, limit)


def _errors_of_warnings() -> list[Any]:
    return [entry for entry in warnings.filters if entry[0] == "error"]


def _put_errors_of_warnings(before: Sequence[Any]) -> None:
    warnings.filters[:] = [entry for entry in warnings.filters if entry[0] != "error" or entry in before]  # type: ignore[index]


def _put_collection(wanted: tuple[bool, tuple[int, int, int]]) -> None:
    enabled, thresholds = wanted
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*thresholds)


def _trace() -> tuple[Any, Any]:
    return sys.gettrace(), sys.getprofile()


def _put_trace(wanted: tuple[Any, Any]) -> None:
    sys.settrace(wanted[0])
    sys.setprofile(wanted[1])


PROCESS: Sequence[Setting] = (
    _functions("Python's own functions", builtins, time),  # first: what follows calls them
    Setting("signal timers", lambda: [signal.getitimer(timer) != (0.0, 0.0) for timer in TIMERS], _stop_timers),
    Setting("signal handlers", _handlers, _put_handlers),
    Setting(
        "blocked signals",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda blocked: signal.pthread_sigmask(signal.SIG_SETMASK, blocked),
    ),
    Setting("working directory", os.getcwd, os.chdir),
    Setting("environment", _environment, _put_environment),
    Setting("umask", _umask, os.umask),
    Setting(
        "priority",
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        lambda value: os.setpriority(os.PRIO_PROCESS, 0, value),
    ),
    Setting("processors", lambda: os.sched_getaffinity(0), lambda value: os.sched_setaffinity(0, value)),
    Setting("limits", lambda: [resource.getrlimit(number) for number in LIMITS], _put_limits),
    Setting("locale", lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    Setting("tracing", _trace, _put_trace),
    Setting("garbage collection", lambda: (gc.isenabled(), gc.get_threshold()), _put_collection),
    Setting("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Setting("switch interval", sys.getswitchinterval, sys.setswitchinterval),
    Setting("warnings as errors", _errors_of_warnings, _put_errors_of_warnings),
)
NUMPY = Setting(
    "numpy's error state",
    lambda: sys.modules["numpy"].geterr(),  # noqa: PLW0108 - it is imported late, or never
    lambda value: sys.modules["numpy"].seterr(**value),
)
NUMPY_BEGINS: Mapping[str, str] = MappingProxyType(
    {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
)


def _peak() -> int:
    """Bytes of memory that were in use at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _resident() -> int:
    """Bytes of memory in use; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return 0


def _free_memory() -> int:
    """Bytes that this machine can still give; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    return 0


def read(setting: Setting) -> Any:
    """Its value; where it cannot be read, the kind of error, so that it differs from any value."""
    try:
        return setting.get()
    except Exception as error:  # noqa: BLE001 - a working directory that is gone, a stream that is closed, a library at odds
        return type(error)


def torch_settings(device: str) -> Iterator[Setting]:
    """All that torch has here; those of CUDA where the launch's cases run on it. None where it is another `torch`."""
    torch = sys.modules["torch"]
    if not hasattr(torch, "set_default_dtype"):
        return
    yield Setting("default dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32)
    yield Setting("default device", lambda: _default_device(torch), lambda name: _set_default_device(torch, name), NONE)
    yield Setting("gradient mode", torch.is_grad_enabled, lambda value: torch.set_grad_enabled(value), True)  # noqa: PLW0108 - a class: made, it is set
    yield Setting("inference mode", torch.is_inference_mode_enabled, _impossible, False)
    for kind in dict.fromkeys(("cpu", device)):
        yield Setting(
            f"autocast of {kind}",
            lambda kind=kind: torch.is_autocast_enabled(kind),  # type: ignore[misc]
            lambda value, kind=kind: torch.set_autocast_enabled(kind, value),  # type: ignore[misc]
            False,
        )
    yield Setting("torch's threads", torch.get_num_threads, torch.set_num_threads)
    yield Setting(
        "deterministic algorithms",
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        False,
    )
    yield Setting("matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")
    for name, (told, begins) in BACKENDS.items():
        yield Setting(told, *_attribute(torch.backends.cudnn, name), begins)
    if device == "cuda":
        yield Setting("current device", torch.cuda.current_device, torch.cuda.set_device)
        yield Setting("current stream", torch.cuda.current_stream, torch.cuda.set_stream)
        if hasattr(torch.cuda, "get_per_process_memory_fraction"):  # not in older ones
            share = torch.cuda.get_per_process_memory_fraction
            yield Setting("share of device memory", share, torch.cuda.set_per_process_memory_fraction)


def torch_is_broken(device: str) -> str:
    """Why the device is of no use to this process any more, such as after an illegal address; empty where it is sound."""
    torch = sys.modules.get("torch")
    if torch is None or device == "cpu":
        return ""
    try:
        torch.accelerator.synchronize()
    except Exception as error:  # noqa: BLE001 - each kind of device has its own
        return f"left the device broken: {type(error).__name__}: {' '.join(str(error).split())}"[:ERROR_MAX]
    return ""


def memory_held(device: str) -> int:
    """Bytes of a CUDA device that no later case can use: all in use, but for what torch keeps free for itself."""
    torch = sys.modules.get("torch")
    if torch is None or device != "cuda":
        return 0
    try:
        free, total = torch.cuda.mem_get_info()
        return int(total - free - torch.cuda.memory_reserved() + torch.cuda.memory_allocated())
    except Exception:  # noqa: BLE001 - a broken device is told by `broken`
        return 0


def memory_left(device: str, before: int) -> int:
    """Bytes that cases left in use, where they are too many; 0 else. What torch keeps for itself of a full device it gives back."""
    torch = sys.modules.get("torch")
    if torch is None or device != "cuda":
        return 0
    try:
        free, total = torch.cuda.mem_get_info()
        bound = DEVICE_MEMORY_SHARE * total
        if free < bound:
            gc.collect()
            torch.cuda.empty_cache()  # libraries beside torch need some, too
        left = memory_held(device) - before
        if left > bound:
            gc.collect()
            left = memory_held(device) - before
    except Exception:  # noqa: BLE001 - as above
        return 0
    return left if left > bound else 0


def _default_device(torch: Any) -> str:
    found = torch.get_default_device()
    return NONE if found.type == "cpu" else str(found)


def _set_default_device(torch: Any, name: str) -> None:
    torch.set_default_device(None if name == NONE else name)


def _impossible(_value: Any) -> None:
    raise NotImplementedError


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)
