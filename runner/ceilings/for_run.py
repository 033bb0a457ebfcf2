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

SETTING = "EVENBENCH_CEILINGS"  # of the environment
KEPT = "kept"  # its value where runs take what is kept and measure nothing
NOTE_MAX = 1_000  # characters
NO_SHARE = "no share of ceilings: "  # begins a note that says why
NO_HOST = (
    "note: what this CPU reaches is not known, so no row shows a share of it; evenbench ceilings --device cpu "
    "measures it once, in about a minute"
)


def may_measure(environ: Mapping[str, str]) -> bool:
    """Whether this machine lets runs measure ceilings."""
    return environ.get(SETTING) != KEPT


@dataclass(frozen=True)
class RunCeilings:
    """Finds the ceilings of a run's devices, before any side is there: what runs beside them would lower them for good.

    Args:
        launcher: where the run's launches will run.
        store: keeps ceilings.
        stage: told in a line what takes long.
        log: told in a line what is worth knowing.
        measure: GPUs whose ceilings are not kept are measured.
        tell: those of the CPU, if they are not known, are told of.
    """

    launcher: Launcher
    store: Store
    stage: Callable[[str], object]
    log: Callable[[str], object]
    measure: bool = True
    tell: bool = True

    def of(self, gpus: Sequence[Gpu]) -> tuple[list[CeilingsEvent], list[str]]:
        """Those that there are, and a note for each GPU whose ceilings cannot be measured: no run fails for it.

        Those of the CPU are only looked up: measuring them takes longer than many a run on it.

        Args:
            gpus: of the run; none on a machine without.
        """
        found: list[CeilingsEvent | None] = []
        notes: list[str] = []
        try:
            found.append(self.store.get(host_key()))
            if found == [None] and not gpus and self.tell:
                self.log(NO_HOST)
        except UsageError as error:
            notes.append(f"{NO_SHARE}{error}"[:NOTE_MAX])
        for gpu in gpus:
            try:
                found.append(self._of_gpu(gpu))
            except Exception as error:  # noqa: BLE001 - whatever a driver or library throws, the run goes on without
                notes.append(f"{NO_SHARE}{error}"[:NOTE_MAX])
        return [event for event in found if event is not None], notes

    def _of_gpu(self, gpu: Gpu) -> CeilingsEvent | None:
        key = key_of(gpu, self.launcher.image)
        kept = self.store.get(key)
        if kept is not None or not self.measure:
            return kept
        self.stage(f"measuring what {gpu.name} reaches, once: about a minute")
        return ceilings_of(gpu, self.launcher, self.store, key=key)
