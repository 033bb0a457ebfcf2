"""One setting of a process that a case may change: how it is read, and how it is put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """A setting by its name for people.

    `begins`: its value in a library just imported; None: as it was found first.
    """

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]
    begins: Any = None


def read(setting: Setting) -> Any:
    """Its value; where it cannot be read, the kind of error, so that it differs from any value."""
    try:
        return setting.get()
    except Exception as error:  # noqa: BLE001 - a working directory that is gone, a stream that is closed, a library at odds
        return type(error)
