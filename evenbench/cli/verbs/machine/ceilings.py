"""The verb ceilings: what the device was measured to reach, as a table, as JSON, as a picture."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import get_args

from evenbench.runner.ceilings.obtain import ceilings_of, key_of
from evenbench.runner.ceilings.store import user_store
from evenbench.runner.errors import EXIT_OK, UnfitMachine, UsageError
from evenbench.runner.launchers.container import choose_launcher
from evenbench.runner.launchers.host_settings import LauncherName
from evenbench.runner.machine import doctor
from evenbench.runner.machine.gpus import Gpu, choose_gpu, gpus
from evenbench.runner.machine.locks import HOST, machine_locks
from evenbench.runner.records import CeilingsEvent

from ...steps.console import colour, say, width
from ...steps.plot import plot_ceilings


def ceilings(options: argparse.Namespace) -> int:
    """Print the peaks that are kept, else measure them first."""
    from evenbench.reports.render.terminal.ceilings import ceilings_json, ceilings_table
    from evenbench.reports.rows.roofline import UNSTEADY

    if options.results and options.plot is None:
        raise UsageError("--results needs --plot: their rows are drawn on the roofline", "name a picture with --plot")
    if missing := next((path for path in options.results if not path.is_file()), None):
        raise UsageError(f"--results {missing}: no such file", "name a results file of run or compare")
    if options.refresh and options.no_cache:
        raise UsageError("--refresh with --no-cache: one replaces what is kept, the other leaves it alone")
    if options.plot is not None:
        from evenbench.reports.render.charts.picture import check_plot

        check_plot(options.plot)  # said before, not after measuring
    event = _obtained(options)
    if noisy := [key for key, (_, spread) in event.spread.items() if spread > UNSTEADY]:
        say(
            f"note: {', '.join(noisy)} differed by more than {UNSTEADY:.0%} between repetitions; on an idle machine, "
            "--refresh measures anew"
        )
    if options.json:
        print(json.dumps(ceilings_json(event), indent=1))
    else:
        print(ceilings_table(event, width(), colour=colour()), end="")
    if options.plot is not None:
        plot_ceilings(options.plot, event, options.results)
        say(f"picture: {options.plot}")
    return EXIT_OK


def _obtained(options: argparse.Namespace) -> CeilingsEvent:
    """The ceilings of the device that is asked for; they are measured under its lock, as a run is."""
    found = gpus()
    gpu = _device(options, found)
    store = None if options.no_cache else user_store(os.environ)
    launcher = choose_launcher(options.launcher, "", gpu.uuid if gpu else "", os.environ)
    key = key_of(gpu, launcher.image)
    if store is not None and not options.refresh and (kept := store.get(key)) is not None:
        return kept
    with launcher, machine_locks([gpu.uuid if gpu else HOST], say, description="evenbench ceilings"):
        for note in doctor.check_before_run(gpu, found, go_on=options.ignore_unfit):
            say(f"note: {note}")
        say(f"measuring the peaks of {key.name}; this takes about a minute")
        event = ceilings_of(gpu, launcher, store, refresh=options.refresh, key=key)
        if store is not None and store.get(key) is None:
            say(
                f"note: {store.path(key)} cannot be written, so they are not kept; EVENBENCH_CACHE names another folder"
            )
        return event


def _device(options: argparse.Namespace, found: list[Gpu]) -> Gpu | None:
    """The GPU, or None for the CPU: what is asked for, else a GPU where there is one."""
    if options.device == "cpu":
        if options.gpu is not None:
            raise UsageError("--gpu with --device cpu", "leave one of them out")
        return None
    gpu = choose_gpu(options.gpu, found, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if gpu is None and options.device == "cuda":
        raise UnfitMachine("this machine has no NVIDIA GPU that answers", "evenbench doctor says more")
    return gpu


def add_ceilings_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of the verb `ceilings`."""
    verb.add_argument("--device", choices=("cpu", "cuda"), help="default: a GPU where there is one")
    verb.add_argument("--gpu", metavar="INDEX|UUID", help="default: the first that is visible")
    verb.add_argument("--json", action="store_true", help="as JSON")
    verb.add_argument("--plot", type=Path, metavar="FILE", help="also draw them: .svg or .png")
    verb.add_argument(
        "--results", type=Path, action="append", default=[], metavar="RESULTS", help="with --plot: draw these rows too"
    )
    verb.add_argument("--refresh", action="store_true", help="measure anew, and keep that instead")
    verb.add_argument("--no-cache", action="store_true", help="measure anew; neither read nor keep anything")
    verb.add_argument(
        "--launcher", choices=get_args(LauncherName), help="where they are measured; default: as this machine demands"
    )
    verb.add_argument("--ignore-unfit", action="store_true", help="measure where the machine is not fit")
