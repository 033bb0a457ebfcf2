"""The store of measured ceilings: one file for each device as it is now, below the user's cache directory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ..errors import UsageError
from ..records import CeilingsEvent

FOLDER = "EVENBENCH_CACHE"  # environment variable: another folder, where users of a machine come and go
FILE_MAX = 1 << 20  # bytes: ten times the largest; anybody may have written the file


@dataclass(frozen=True)
class Key:
    """A device as it is now: what its peaks depend on.

    Args:
        name: its model.
        uuid: a GPU's UUID; empty for the CPU.
        software: driver, maximum clocks, versions of libraries.
    """

    name: str
    uuid: str
    software: Mapping[str, str]

    @property
    def digest(self) -> str:
        """A short name for all of these."""
        text = json.dumps([self.name, self.uuid, sorted(self.software.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def fits(self, event: CeilingsEvent) -> bool:
        """Whether the ceilings belong to this device as it is now."""
        return (event.device, event.uuid, event.software) == (self.name, self.uuid, dict(self.software))


class Store:
    """Ceilings in files. A file that cannot be read, has an unknown field or belongs to another device is ignored.

    Args:
        folder: the folder of the files; created when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, key: Key) -> Path:
        """The file of a device."""
        return self._folder / f"{key.digest}.json"

    def get(self, key: Key) -> CeilingsEvent | None:
        """The stored ceilings of a device; None: there are none.

        Raises:
            UsageError: the path is not a regular file, so nothing can be read from it or stored there.
        """
        path = self.path(key)
        if path.exists() and not path.is_file():  # a FIFO would block for ever
            raise UsageError(f"{path} is not a regular file", f"remove it, or name another folder in {FOLDER}")
        try:
            with path.open("rb") as file:
                text = file.read(FILE_MAX + 1)
            event = CeilingsEvent.model_validate_json(text) if len(text) <= FILE_MAX else None
        except (OSError, ValidationError):
            return None
        return event if event is not None and event.rates and key.fits(event) else None

    def add(self, key: Key, event: CeilingsEvent, *, replace: bool = False) -> CeilingsEvent:
        """Store ceilings, whole or not at all. Returns the stored ones: another process's, where it was first.

        Args:
            replace: replace stored ones.

        Raises:
            OSError: the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self.path(key)
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=self._folder)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(event.model_dump_json())
            if replace:
                Path(name).replace(path)
                return event
            try:
                os.link(name, path)  # fails where the file exists, which a rename would not
            except FileExistsError:
                stored = self.get(key)
                if stored is not None:
                    return stored
                Path(name).replace(path)  # the file there is unusable
            return event
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108 - the name that mkstemp returned


def user_store(environ: Mapping[str, str]) -> Store:
    """The store of this user: below EVENBENCH_CACHE, else XDG_CACHE_HOME or ~/.cache."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or tempfile.gettempdir()) / ".cache")
    return Store(Path(environ.get(FOLDER) or cache / "evenbench") / "ceilings")
