"""The figure about faults: `faults`, so many random ones over so many launches, and what they cost. Needs no GPU."""

from __future__ import annotations

import argparse
import statistics
import time

from evenbench.runner.worker.launch.restore import Guard
from measurements.faults.fault_cases import CHAOS, HEALTHY, drawn
from measurements.faults.injected import Chaos, Outcome
from measurements.figures import seconds, table
from measurements.instrument.instrument import Verbs
from measurements.parts import fresh

LAUNCHES, FAULTS, SEED = 1_000, 500, 1
LOOKS = 300


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommand to the grammar of scripts/prove."""
    verb = verbs.add_parser("faults", parents=[common], help="random faults over many launches; no GPU")
    verb.set_defaults(figure=faults)
    verb.add_argument("--launches", type=int, default=LAUNCHES)
    verb.add_argument("--faults", type=int, default=FAULTS)
    verb.add_argument("--seed", type=int, default=SEED)


def faults(options: argparse.Namespace) -> bool:
    """One comparison with that many timed launches. True where nothing but the faulty case paid."""
    chaos = Chaos(fresh(options.out.resolve() / "faults"), drawn(options.faults, options.launches, options.seed))
    outcome = chaos.run(options.launches // 2, options.seed)
    show(outcome)
    return not outcome.wrong and outcome.faults.total() == options.faults


def looking_after_us() -> float:
    """How long a launch takes to see that a case changed nothing; of a launch without torch."""
    guard, times = Guard("cpu"), []
    for _ in range(LOOKS):
        began = time.perf_counter_ns()
        guard.settle()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1_000


def show(outcome: Outcome) -> None:
    """Print what was done and what came of it."""
    whole = len(HEALTHY) * outcome.planned
    effects = "; ".join(f"{count} {effect}" for effect, count in outcome.effects().items())
    table(
        ("random faults in a run on the host timer", "value"),
        [
            ("timed launches planned", f"{outcome.planned:,}"),
            (f"faults done by {CHAOS}", f"{outcome.faults.total():,}"),
            ("of them", effects),
            ("kinds of fault", len(outcome.faults)),
            ("launches in all, preparation included", f"{outcome.launches:,}"),
            ("of them to go on after another", f"{outcome.again:,}"),
            ("measurements of healthy cases, all with their full count", f"{outcome.healthy:,} of {whole:,}"),
            (
                "files that the driver had open, in the first quarter and the second half",
                "{} and {}".format(*outcome.descriptors),
            ),
            ("memory of the driver, the same", "{:.0f} and {:.0f} MB".format(*outcome.memory_mb)),
            (f"looking after a case, median of {LOOKS}", f"{looking_after_us():.0f} µs"),
            ("wall time", seconds(outcome.wall_s)),
            ("what was wrong, processes and files left included", "; ".join(outcome.wrong) or "nothing"),
        ],
    )
