"""Fingerprints of what goes into a case and what comes out of it, and what kind of value each is.

Works on torch tensors (on their device), numpy arrays, numbers, and nested tuples, lists and dicts of them. Neither
torch nor numpy is imported here: a value of theirs can only exist once somebody else has imported them.
"""

from __future__ import annotations

import cmath
import ctypes
import hashlib
import random
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from ..errors import SetupError

DIGEST_BYTES = 8  # 16 hex digits: differences are accidents here, never attacks
CHUNK = 1 << 22  # elements at a time: 32 MB per 64-bit temporary, large enough to keep a GPU busy

# Odd multipliers with well-spread bits, below 2**63 so that they are int64: of positions, then of two mixing rounds.
POSITION_FACTOR = 0x5851F42D4C957F2D
FIRST_FACTOR = 0x2545F4914F6CDD1D
SECOND_FACTOR = 0x369DEA0F31A53F85
LOW_HALF = 0xFFFFFFFF  # int64 shifts copy the sign into the high half

NUMPY_KINDS: Mapping[str, str] = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}


class _Digest(Protocol):
    def update(self, data: Any, /) -> None: ...


def checksum(value: object) -> str:
    """A 16-digit hexadecimal checksum of a value's types, shapes and raw bits.

    Not a cryptographic hash. Tensors on a device are summed there, so the same values on the CPU have another checksum;
    ``-0.0`` differs from ``0.0``, and NaNs differ by payload.

    Raises:
        SetupError: for a value that is no tensor, array, number, string, None, or tuple, list or dict of them.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _feed(digest, value)
    return digest.hexdigest()


def describe(inputs: Mapping[str, object] | None) -> list[dict[str, Any]]:
    """Name, shape, dtype and checksum (``sha``) of every input, in name order."""
    return [
        {"name": name, "shape": list(shape_of(value)), "dtype": dtype_name(value), "sha": checksum(value)}
        for name, value in sorted((inputs or {}).items())
    ]


def is_finite(value: object) -> bool:
    """Whether a value holds neither NaN nor infinity; True for what holds no floating-point numbers."""
    if isinstance(value, Mapping):
        return all(is_finite(part) for part in value.values())
    if isinstance(value, list | tuple):
        return all(is_finite(part) for part in value)
    if isinstance(value, float | complex):
        return cmath.isfinite(value)
    if not is_array(value) or kind_of(value) not in ("float", "complex"):
        return True
    module = sys.modules["torch" if is_tensor(value) else "numpy"]
    return bool(module.isfinite(plain(value) if is_tensor(value) else value).all())


def seed_everything(seed: int) -> None:
    """Seed the generators of random, and of numpy and torch where they are already imported."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)  # the widest seed that it takes
    if torch is not None:
        torch.manual_seed(seed)  # every device's generator, without initialising a device


def is_tensor(value: object) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_numpy(value: object) -> bool:
    """Whether it is a numpy array or scalar."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def is_array(value: object) -> bool:
    """Whether it is a tensor, or a numpy array or scalar."""
    return is_tensor(value) or is_numpy(value)


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape; empty for what has none."""
    return tuple(value.shape) if is_array(value) else ()


def dtype_name(value: Any) -> str:
    """The element type, such as ``bfloat16``; of what has none, its own type."""
    return str(value.dtype).removeprefix("torch.") if is_array(value) else type(value).__name__


def kind_of(value: Any) -> str:
    """``bool``, ``int``, ``float`` or ``complex``; of anything else, its type's name."""
    if is_numpy(value):
        return NUMPY_KINDS.get(value.dtype.kind, str(value.dtype))
    if is_tensor(value):
        if value.dtype.is_complex:
            return "complex"
        return "float" if value.dtype.is_floating_point else "bool" if dtype_name(value) == "bool" else "int"
    return type(value).__name__


def plain(tensor: Any) -> Any:
    """A tensor without graph, lazy conjugation or sparse layout: its strided values."""
    tensor = tensor.detach()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    return tensor.resolve_conj().resolve_neg()


def parts_of(value: Any) -> tuple[Any, ...]:
    """Views of real and imaginary part, or the value itself."""
    return (value.real, value.imag) if kind_of(value) == "complex" else (value,)


def bits_of(value: Any) -> Any:
    """A view of a real tensor or array as integers of the same width, strides kept."""
    if is_tensor(value):
        return value.view(getattr(sys.modules["torch"], f"int{8 * value.element_size()}"))
    return value.view(f"i{value.dtype.itemsize}")


def _feed(digest: _Digest, value: Any) -> None:
    """Every item goes in behind its type and size, so that no two different values feed the same bytes."""
    if is_tensor(value) or is_numpy(value):
        digest.update(f"{dtype_name(value)}{list(shape_of(value))};".encode())
        (_feed_tensor if is_tensor(value) else _feed_numpy)(digest, value)
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)};".encode())
        for key in sorted(value, key=repr):
            _feed(digest, key)
            _feed(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"sequence {len(value)};".encode())
        for item in value:
            _feed(digest, item)
    elif value is None or isinstance(value, bool | int | float | complex | str):
        text = repr(value)
        digest.update(f"{type(value).__name__} {len(text)};{text}".encode("utf-8", "surrogatepass"))
    else:
        raise SetupError(
            f"cannot take the checksum of a {type(value).__name__}",
            "use tensors, arrays, numbers, strings, or tuples, lists and dicts of them",
        )


def _feed_numpy(digest: _Digest, value: Any) -> None:
    numpy = sys.modules["numpy"]
    if value.dtype.hasobject:
        raise SetupError("cannot take the checksum of an array of Python objects", "use an array of numbers")
    digest.update(numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8).data)


def _feed_tensor(digest: _Digest, value: Any) -> None:
    tensor = plain(value).contiguous()
    if tensor.device.type != "cpu":
        digest.update(_device_sum(tensor).to_bytes(8, "little"))
    elif tensor.numel():  # straight from memory: bfloat16 has no numpy type, and numpy need not be there
        digest.update((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr()))


def _device_sum(tensor: Any) -> int:
    """The wrap-around sum over all elements of a 64-bit mix of bits and position; one transfer to the host."""
    torch = sys.modules["torch"]
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for part in parts_of(tensor):
        bits = bits_of(part).reshape(-1)
        for start in range(0, bits.numel(), CHUNK):
            chunk = bits[start : start + CHUNK]
            mixed = torch.arange(start, start + chunk.numel(), dtype=torch.int64, device=tensor.device)
            mixed.mul_(POSITION_FACTOR).bitwise_xor_(chunk)
            _fold(mixed).mul_(FIRST_FACTOR)
            _fold(mixed).mul_(SECOND_FACTOR)
            total.mul_(FIRST_FACTOR).add_(_fold(mixed).sum())
    return int(total.item()) % 2**64


def _fold(words: Any) -> Any:
    """Add the high half of every word to its low half, in place: multiplying alone carries bits only upwards."""
    return words.bitwise_xor_((words >> 32).bitwise_and_(LOW_HALF))
