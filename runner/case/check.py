"""Whether a result is right: against its reference, and whether every element of an output was written at all.

Works on what `fingerprint` works on; neither torch nor numpy is imported here.
"""

from __future__ import annotations

import cmath
import contextlib
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..errors import SetupError, WrongResult
from .fingerprint import (
    CHUNK,
    bits_of,
    checksum,
    describe,
    dtype_name,
    is_array,
    is_finite,
    is_numpy,
    is_tensor,
    kind_of,
    parts_of,
    plain,
    seed_everything,
    shape_of,
)

__all__ = ["check_result", "checksum", "describe", "is_finite", "poison", "seed_everything", "unwritten"]

WIDE: Mapping[str, str] = {
    "float": "float64",
    "complex": "complex128",
    "int": "int64",
    "bool": "bool",
}  # kind → type compared in
NO_FLOAT64 = frozenset({"mps"})  # devices without float64: compared on the CPU

# Bits that poisoned elements hold: quiet NaNs of a sign and payload that no arithmetic makes by itself, else a value
# that is unlikely (integers) or impossible (bool: a byte that is neither 0 nor 1).
POISON_FLOAT: Mapping[str, int] = {
    "float16": 0xFEA5,
    "bfloat16": 0xFFE5,
    "float32": 0xFFE5A5C3,
    "float64": 0xFFFCA5C396E15A3C,
}
POISON_FLOAT8 = 0xFF  # a NaN in most 8-bit formats
POISON_INT: Mapping[int, int] = {1: 0xA5, 2: 0xA5C3, 4: 0xA5C396E1, 8: 0xA5C396E15A3C0F87}
NARROW_BYTES = 2  # an integer of 16 bits or less meets any given value by chance too often


def check_result(result: object, reference: object, rtol: float, atol: float) -> None:
    """Compare a result with its reference: in float64 or complex128, integers and bools exactly.

    An element is right when it equals the reference, or when ``|result - reference| <= atol + rtol * |reference|`` and
    the reference is finite. NaN is right only where the reference is NaN. The precision of the dtypes may differ, their
    kind (bool, int, float, complex) may not; a tuple may stand for a list.

    Raises:
        WrongResult: one line that says what differs, how many elements, and the largest error and its place.
    """
    if result is None:
        raise WrongResult("the call returned nothing to check; return its result or declare outputs=")
    _check(result, reference, rtol, atol, "result")


def poison(outputs: Mapping[str, object] | None) -> None:
    """Fill preallocated outputs with a bit pattern that marks elements as not written.

    Raises:
        SetupError: for an output that is neither tensor nor array, or of an element type without a pattern.
    """
    for name, value in (outputs or {}).items():
        for bits, pattern in _poisonable(name, value):
            bits[...] = pattern


def unwritten(outputs: Mapping[str, object] | None) -> list[str]:
    """The outputs that still hold an element of `poison`'s pattern, by raw bits.

    A NaN that was computed has other bits. Bools are certain. 32-bit integers can hold the pattern by chance, once in
    4 billion elements. Integers of 16 bits or less and 8-bit floats hold it by chance too often: such an output is
    named only when no element was written (the check against the reference finds the rest).
    """
    return [name for name, value in (outputs or {}).items() if _holds_poison(name, value)]


def _check(result: Any, reference: Any, rtol: float, atol: float, where: str) -> None:
    if isinstance(reference, Mapping) and isinstance(result, Mapping):
        if set(result) != set(reference):
            names = f"has the keys {sorted(map(str, result))}, the reference {sorted(map(str, reference))}"
            raise WrongResult(f"{where} {names}")
        for key in reference:
            _check(result[key], reference[key], rtol, atol, f"{where}[{key!r}]")
    elif isinstance(reference, list | tuple) and isinstance(result, list | tuple) and len(result) == len(reference):
        for index, (one, other) in enumerate(zip(result, reference, strict=True)):
            _check(one, other, rtol, atol, f"{where}[{index}]")
    elif _is_number(result) and _is_number(reference):
        _check_numbers(result, reference, rtol, atol, where)
    elif isinstance(result, str) and isinstance(reference, str) and result != reference:
        raise WrongResult(f"{where} is {result!r:.80} instead of {reference!r:.80}")
    elif type(result) is not type(reference) or not (result is None or isinstance(result, str)):
        raise WrongResult(f"{where} is {_outline(result)} where the reference is {_outline(reference)}")


def _is_number(value: object) -> bool:
    return is_array(value) or isinstance(value, bool | int | float | complex)


def _check_numbers(result: Any, reference: Any, rtol: float, atol: float, where: str) -> None:
    kind = kind_of(reference)
    if kind not in WIDE:
        raise WrongResult(f"{where}: cannot compare elements of type {kind}; return numbers")
    if kind_of(result) != kind or shape_of(result) != shape_of(reference):
        raise WrongResult(f"{where} is {_outline(result)} where the reference is {_outline(reference)}")
    if not is_array(result) and not is_array(reference):
        if not _close(result, reference, rtol, atol):
            raise WrongResult(f"{where} is {result!r} instead of {reference!r} (rtol={rtol:g}, atol={atol:g})")
        return
    _check_arrays(*_together(result, reference), kind, rtol, atol, where)


def _close(result: Any, reference: Any, rtol: float, atol: float) -> bool:
    """The rule of `check_result` for two Python numbers."""
    if result == reference or isinstance(reference, bool | int):
        return bool(result == reference)
    if cmath.isnan(result) or cmath.isnan(reference):
        return cmath.isnan(result) and cmath.isnan(reference)
    return cmath.isfinite(reference) and bool(abs(result - reference) <= atol + rtol * abs(reference))


def _together(result: Any, reference: Any) -> tuple[ModuleType, Any, Any]:
    """The module to compute with, and both values in it, on the result's device."""
    if is_tensor(result) or is_tensor(reference):
        import torch

        device = result.device if is_tensor(result) else reference.device
        if device.type in NO_FLOAT64:
            device = torch.device("cpu")
        return torch, _to_tensor(result, device), _to_tensor(reference, device)
    import numpy as np

    return np, np.asarray(result), np.asarray(reference)


def _to_tensor(value: Any, device: Any) -> Any:
    import torch

    if is_tensor(value):
        return plain(value).to(device)
    if is_numpy(value):
        import numpy as np

        return torch.from_numpy(np.array(value, order="C")).to(device)  # a copy: torch refuses reversed strides
    return torch.tensor(value, dtype=getattr(torch, WIDE[kind_of(value)]), device=device)


def _check_arrays(xp: ModuleType, result: Any, reference: Any, kind: str, rtol: float, atol: float, where: str) -> None:
    shape = tuple(reference.shape)
    result, reference = result.reshape(-1), reference.reshape(-1)
    count, worst = 0, (-1.0, 0)
    for start in range(0, len(reference), CHUNK):
        wrong, error = _errors(xp, result[start : start + CHUNK], reference[start : start + CHUNK], kind, rtol, atol)
        wrong_here = int(wrong.sum())
        if wrong_here:
            count += wrong_here
            error = xp.where(wrong, xp.where(xp.isnan(error), math.inf, error), -1.0)
            at = int(error.argmax())
            worst = max(worst, (float(error[at]), start + at), key=lambda pair: pair[0])
    if count:
        error_text = f"{worst[0]:.3g} at {_unravel(worst[1], shape)}"
        values = f"{_text(result[worst[1]].item())} instead of {_text(reference[worst[1]].item())}"
        raise WrongResult(
            f"{where}: {count} of {len(reference)} elements are wrong, largest error {error_text}: {values} "
            f"(rtol={rtol:g}, atol={atol:g})"
        )


def _errors(xp: ModuleType, result: Any, reference: Any, kind: str, rtol: float, atol: float) -> tuple[Any, Any]:
    """Which elements are wrong, and every element's absolute error in float64."""
    wide = getattr(xp, WIDE[kind])
    result, reference = xp.asarray(result, dtype=wide), xp.asarray(reference, dtype=wide)
    if kind in ("int", "bool"):
        distance = xp.asarray(result, dtype=xp.float64) - xp.asarray(reference, dtype=xp.float64)
        return result != reference, xp.abs(distance)
    quiet = xp.errstate(invalid="ignore", over="ignore") if hasattr(xp, "errstate") else contextlib.nullcontext()
    with quiet:  # inf - inf is expected here
        error = xp.abs(result - reference)
        within = xp.isfinite(reference) & (error <= atol + rtol * xp.abs(reference))
    right = (result == reference) | within | (xp.isnan(result) & xp.isnan(reference))
    return ~right, error


def _unravel(index: int, shape: tuple[int, ...]) -> list[int]:
    place: list[int] = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.insert(0, rest)
    return place


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)


def _outline(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)}"
    return f"{dtype_name(value)}{list(shape_of(value))}" if is_array(value) else type(value).__name__


def _poisonable(name: str, value: Any) -> list[tuple[Any, int]]:
    """The integer views of an output's memory, each with its pattern as a signed integer of the same width."""
    if not is_array(value):
        raise SetupError(
            f"outputs[{name!r}] is a {type(value).__name__}", "outputs= takes preallocated tensors or arrays"
        )
    views = []
    for part in parts_of(value.detach() if is_tensor(value) else value):
        width = int(part.dtype.itemsize)
        pattern = POISON_INT.get(width)
        if kind_of(part) == "float":
            pattern = POISON_FLOAT8 if width == 1 else POISON_FLOAT.get(dtype_name(part))
        if pattern is None or kind_of(part) not in WIDE:
            raise SetupError(f"outputs[{name!r}] has elements of type {dtype_name(value)}", "use a plain number type")
        views.append((bits_of(part), pattern - (1 << 8 * width)))  # the top bit of every pattern is set
    return views


def _holds_poison(name: str, value: Any) -> bool:
    width = int(getattr(getattr(value, "dtype", None), "itemsize", 0))
    by_chance = (kind_of(value) == "int" and width <= NARROW_BYTES) or (kind_of(value) == "float" and width == 1)
    for bits, pattern in _poisonable(name, value):
        held = bits == pattern
        if 0 not in bits.shape and bool(held.all() if by_chance else held.any()):
            return True
    return False
