"""Where measured ceilings are kept: one file for each device as it is now, under the user's cache directory."""

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

FOLDER = "EVENBENCH_CACHE"  # of the environment: a machine whose users come and go keeps it elsewhere
FILE_MAX = 1 << 20  # bytes: ten times the largest; the file may be anybody's


@dataclass(frozen=True)
class Key:
    """A device as it is now: what its peaks depend on.

    Args:
        name: its model.
        uuid: of a GPU; empty for the CPU, which has none.
        software: driver, maximum clocks, versions of libraries.
    """

    name: str
    uuid: str
    software: Mapping[str, str]

    @property
    def digest(self) -> str:
        """A short name for all of it."""
        text = json.dumps([self.name, self.uuid, sorted(self.software.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def fits(self, event: CeilingsEvent) -> bool:
        """Whether they are of this device, as it is now."""
        return (event.device, event.uuid, event.software) == (self.name, self.uuid, dict(self.software))


class Store:
    """Ceilings in files. What cannot be read, has a field unknown here or is of another device counts as not there.

    Args:
        folder: theirs; made when something is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, key: Key) -> Path:
        """The file of a device."""
        return self._folder / f"{key.digest}.json"

    def get(self, key: Key) -> CeilingsEvent | None:
        """What is kept for a device.

        Raises:
            UsageError: what has the file's name is no regular file, so nothing can be read from it or kept there.
        """
        path = self.path(key)
        if path.exists() and not path.is_file():  # a FIFO would block for ever
            raise UsageError(f"{path} is no regular file", f"remove it, or name another folder with {FOLDER}")
        try:
            with path.open("rb") as file:
                text = file.read(FILE_MAX + 1)
            found = CeilingsEvent.model_validate_json(text) if len(text) <= FILE_MAX else None
        except (OSError, ValidationError):
            return None
        return found if found is not None and found.rates and key.fits(found) else None

    def add(self, key: Key, event: CeilingsEvent, *, replace: bool = False) -> CeilingsEvent:
        """Keep ceilings; whole or not at all. Returns what is kept: that of another process, where it was first.

        Args:
            replace: what was there before is to go.

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
                os.link(name, path)  # fails where there is one, which a rename would not
            except FileExistsError:
                kept = self.get(key)
                if kept is not None:
                    return kept
                Path(name).replace(path)  # what was there is of no use
            return event
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108 - as mkstemp gave it


def user_store(environ: Mapping[str, str]) -> Store:
    """That of this user: below EVENBENCH_CACHE, else XDG_CACHE_HOME or ~/.cache."""
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or tempfile.gettempdir()) / ".cache")
    return Store(Path(environ.get(FOLDER) or cache / "evenbench") / "ceilings")
