"""A device's ceilings: the stored ones, else measured in a separate process."""

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

MEASURE_S = 600.0  # ten times the usual time: only a process that hangs reaches it
REASON_MAX = 500  # characters of a process's last line
FIX = "run evenbench doctor to see what this machine lacks"

Measure = Callable[[], Finished]


def key_of(gpu: Gpu | None, image: str) -> Key:
    """The key of a GPU as it is now, or of this machine's CPU.

    Args:
        image: the image in which the launcher runs launches; empty: none.
    """
    return host_key() if gpu is None else gpu_key(gpu, image)


def ceilings_of(
    gpu: Gpu | None, launcher: Launcher, store: Store | None, *, refresh: bool = False, key: Key | None = None
) -> CeilingsEvent:
    """The ceilings of a GPU, or of this machine's CPU; see `obtain`.

    Args:
        launcher: runs the probes where launches run. Those of the CPU always run here.
    """
    key = key or key_of(gpu, launcher.image)

    def measure() -> Finished:
        return launcher.run_probes("cuda", gpu.uuid, MEASURE_S) if gpu else probe_here("cpu", "", MEASURE_S)

    return obtain(key, store, measure, refresh=refresh)


def obtain(key: Key, store: Store | None, measure: Measure, *, refresh: bool = False) -> CeilingsEvent:
    """The ceilings of a device.

    Args:
        key: the device as it is now.
        store: where they are stored; None: nothing is read or written.
        measure: runs the process that measures them, to its end.
        refresh: measure again where some are stored, and replace them.

    Raises:
        UnfitMachine: they cannot be measured; its message gives the reason.
    """
    stored = None if store is None or refresh else store.get(key)
    if stored is not None:
        return stored
    event = _event_of(key, measure())
    if store is None:
        return event
    try:
        return store.add(key, event, replace=refresh)
    except OSError:  # measured all the same; the next run measures again
        return event


def _event_of(key: Key, finished: Finished) -> CeilingsEvent:
    """A process's answer as a record, checked like any foreign input.

    Raises:
        UnfitMachine: there is no answer, or no usable one.
    """
    if finished.status != 0:
        lines = readable(finished.errors)
        why = lines[-1][:REASON_MAX] if lines else f"exit status {finished.status}"
        if finished.status is None:
            why = f"it took more than {MEASURE_S:g} s, at: {why}"
        raise UnfitMachine(f"the ceilings of {key.name} cannot be measured: {why}", FIX)
    try:
        answer = json.loads(finished.output)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        device = {"device": key.name, "uuid": key.uuid, "software": dict(key.software), "at": at}
        event = CeilingsEvent.model_validate_json(json.dumps({**answer, **device}))
    except (ValueError, TypeError, ValidationError) as error:
        why = str(error).splitlines()[0][:REASON_MAX]
        raise UnfitMachine(f"the process that measured {key.name} returned no ceilings: {why}", FIX) from None
    if not event.rates:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in event.skipped.items())
        raise UnfitMachine(f"no ceiling of {key.name} could be measured: {reasons[:REASON_MAX]}", FIX)
    return event
