"""A device's ceilings: those that are kept, else measured in a process of their own, which nothing here depends on."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ..errors import UnfitMachine
from ..launchers.probes import probe_here
from ..machine.gpus import Gpu
from ..process.bounded import Finished, readable
from ..records import CeilingsEvent
from .keys import gpu_key, host_key
from .store import Key, Store

if TYPE_CHECKING:
    from ..launchers.launcher import Launcher

MEASURE_S = 600.0  # ten times what it takes: only one that hangs meets it
REASON_MAX = 500  # characters of what a process said last
MEND = "evenbench doctor says what this machine lacks"

Measure = Callable[[], Finished]


def key_of(gpu: Gpu | None, image: str) -> Key:
    """A GPU as it is now, or this machine's CPU.

    Args:
        image: that the launcher runs launches in; empty for none.
    """
    return host_key() if gpu is None else gpu_key(gpu, image)


def ceilings_of(
    gpu: Gpu | None, launcher: Launcher, store: Store | None, *, refresh: bool = False, key: Key | None = None
) -> CeilingsEvent:
    """The ceilings of a GPU, or of this machine's CPU; see `obtain`.

    Args:
        launcher: where launches run, and so the probes. Those of the CPU run here in any case.
    """
    key = key or key_of(gpu, launcher.image)

    def measure() -> Finished:
        return launcher.run_probes("cuda", gpu.uuid, MEASURE_S) if gpu else probe_here("cpu", "", MEASURE_S)

    return obtain(key, store, measure, refresh=refresh)


def obtain(key: Key, store: Store | None, measure: Measure, *, refresh: bool = False) -> CeilingsEvent:
    """The ceilings of a device.

    Args:
        key: the device as it is now.
        store: keeps them; None: nothing is read or written.
        measure: runs the process that measures them, to its end.
        refresh: measure even where there are some; they are replaced.

    Raises:
        UnfitMachine: they cannot be measured; says why.
    """
    if store is not None and not refresh and (kept := store.get(key)) is not None:
        return kept
    event = _event_of(key, measure())
    if store is None:
        return event
    try:
        return store.add(key, event, replace=refresh)
    except OSError:  # measured all the same; the next one measures again
        return event


def _event_of(key: Key, finished: Finished) -> CeilingsEvent:
    """What a process answered, as a record: it is checked like anything that comes from elsewhere.

    Raises:
        UnfitMachine: it gave no answer, or none of use.
    """
    if finished.status != 0:
        said = readable(finished.errors)
        why = said[-1][:REASON_MAX] if said else f"exit status {finished.status}"
        if finished.status is None:
            why = f"it took more than {MEASURE_S:g} s, at: {why}"
        raise UnfitMachine(f"the ceilings of {key.name} cannot be measured: {why}", MEND)
    try:
        answer = json.loads(finished.output)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        named = {"device": key.name, "uuid": key.uuid, "software": dict(key.software), "at": at}
        event = CeilingsEvent.model_validate_json(json.dumps({**answer, **named}))
    except (ValueError, TypeError, ValidationError) as error:
        why = str(error).splitlines()[0][:REASON_MAX]
        raise UnfitMachine(f"the process that measured {key.name} gave no ceilings: {why}", MEND) from None
    if not event.rates:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in event.skipped.items())
        raise UnfitMachine(f"no ceiling of {key.name} could be measured: {reasons[:REASON_MAX]}", MEND)
    return event
