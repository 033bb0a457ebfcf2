"""torch's settings that a case may change, and what a case leaves on the device. Looks only where torch is imported."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .setting import Setting

MEMORY_SHARE = 0.05  # of the device's memory, beyond what was in use before the first case
NONE = "none"  # no default device was ever set
ERROR_MAX = 300  # characters of a device's error
BACKENDS: Mapping[str, tuple[str, Any]] = MappingProxyType(  # attribute of torch.backends.cudnn → as torch begins
    {"enabled": ("cuDNN", True), "benchmark": ("cuDNN's tuning", False), "deterministic": ("cuDNN's choice", False)}
)


def settings(device: str) -> Iterator[Setting]:
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


def broken(device: str) -> str:
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
        bound = MEMORY_SHARE * total
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
