"""Names of kernels as their authors wrote them: CUPTI reports C++ names mangled."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

LIBRARY = "libstdc++.so.6"  # its ABI function demangles; torch brings the library along
NAME_MAX = 1_000  # characters: the records take a few more, and a template's arguments can be endless


def readable(name: str) -> str:
    """A kernel's name, demangled where it is a mangled C++ name and the library is at hand; cut to `NAME_MAX`."""
    if name.startswith("_Z") and (demangle := _demangler()) is not None:
        status = ctypes.c_int(0)
        pointer = demangle(name.encode(), None, None, ctypes.byref(status))
        if pointer:
            try:
                name = ctypes.string_at(pointer).decode("utf-8", "replace")
            finally:
                ctypes.CDLL(None).free(ctypes.c_void_p(pointer))
    return name[:NAME_MAX]


@functools.cache
def _demangler() -> Any:
    try:
        function = getattr(ctypes.CDLL(LIBRARY), "__cxa_demangle")  # as text: in a class it would be mangled
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function
