"""The ceilings that a run writes into its results: kept ones, and of GPUs those that had to be measured first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..machine.gpus import Gpu
from ..records import CeilingsEvent
from .keys import host_key
from .obtain import ceilings_of, key_of
from .store import Store

if TYPE_CHECKING:
    from ..launchers.launcher import Launcher

SETTING = "EVENBENCH_CEILINGS"  # environment variable
KEPT = "kept"  # its value on a machine whose runs use stored ceilings and measure none
NOTE_MAX = 1_000  # characters
NO_SHARE = "no share of ceilings: "  # a note begins with it, and goes on with the reason


def may_measure(environ: Mapping[str, str]) -> bool:
    """Whether this machine lets runs measure ceilings."""
    return environ.get(SETTING) != KEPT


@dataclass(frozen=True)
class RunCeilings:
    """Finds the ceilings of a run's devices before any side is prepared: other work would lower them for good.

    Args:
        launcher: where the run's launches will run.
        store: keeps ceilings.
        stage: called with a line about each step that takes long.
        log: called with a line worth knowing.
        measure: measure GPUs whose ceilings are not stored.
        hint: tell the user how to measure the CPU's ceilings, where they are not known.
    """

    launcher: Launcher
    store: Store
    stage: Callable[[str], object]
    log: Callable[[str], object]
    measure: bool = True
    hint: bool = True

    def of(self, gpus: Sequence[Gpu]) -> tuple[list[CeilingsEvent], list[str]]:
        """The known ceilings, and a note for each GPU whose ceilings cannot be measured: no run fails for it.

        The CPU's ceilings are only looked up: measuring them takes longer than many a run on it.

        Args:
            gpus: the run's GPUs; empty on a machine without.
        """
        ceilings: list[CeilingsEvent | None] = []
        notes: list[str] = []
        try:
            ceilings.append(self.store.get(host_key()))
            if ceilings == [None] and not gpus and self.hint:
                self.log(
                    "note: this CPU's peaks are not known, so no row shows a share of them; "
                    "evenbench ceilings --device cpu measures them once, in about a minute"
                )
        except UsageError as error:
            notes.append(f"{NO_SHARE}{error}"[:NOTE_MAX])
        for gpu in gpus:
            try:
                ceilings.append(self._of_gpu(gpu))
            except Exception as error:  # noqa: BLE001 - whatever a driver or library raises, the run goes on without
                notes.append(f"{NO_SHARE}{error}"[:NOTE_MAX])
        return [event for event in ceilings if event is not None], notes

    def _of_gpu(self, gpu: Gpu) -> CeilingsEvent | None:
        key = key_of(gpu, self.launcher.image)
        stored = self.store.get(key)
        if stored is not None or not self.measure:
            return stored
        self.stage(f"measuring the peaks of {gpu.name}, once: about a minute")
        return ceilings_of(gpu, self.launcher, self.store, key=key)
