"""Random faults in real runs, one after the other until time is up. Started by scripts/soak."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from measurements.faults.fault_cases import drawn
from measurements.faults.injected import Blow, Chaos, Outcome

MINUTES = 60.0
ROUNDS = (6, 12)  # of a run, at least and at most
FAULTY = 0.5  # of the calls of the faulty case
BLOWS: Sequence[Blow] = ("stop", "SIGINT", "SIGTERM", "SIGKILL")
BLOWS_MAX = 3  # to the driver, one to each time that it is started in a run


def main() -> int:
    """Run until time is up. Returns 1 where a run did not hold."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Injects random faults into real runs.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no run begins later; default: 60")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; default: a random one")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    until = time.monotonic() + options.minutes * 60
    outcomes: list[Outcome] = []
    while not outcomes or time.monotonic() < until:
        outcomes.append(one(seed))
        seed += 1
    return summary(outcomes)


def one(seed: int) -> Outcome:
    """One run, told in a line."""
    source = random.Random(seed)
    rounds = source.randint(*ROUNDS)
    blows: list[Blow] = [source.choice(BLOWS) for _ in range(source.randint(0, BLOWS_MAX))]
    with tempfile.TemporaryDirectory(prefix="evenbench-soak-") as folder:
        chaos = Chaos(Path(folder).resolve(), drawn(int(2 * rounds * FAULTY), 2 * rounds, seed))
        outcome = chaos.run(rounds, seed, blows)
    struck = f"; {', '.join(outcome.blows)}" if outcome.blows else ""
    told = f"{outcome.faults.total()} faults in {outcome.launches} launches{struck}; {outcome.wall_s:.0f} s"
    print(f"seed {seed}: {told}: {'; '.join(outcome.wrong) or 'held'}", flush=True)
    return outcome


def summary(outcomes: Sequence[Outcome]) -> int:
    """Say what all runs came to."""
    faults = sum((outcome.faults for outcome in outcomes), Counter())
    bad = sum(1 for outcome in outcomes if outcome.wrong)
    print(
        f"{len(outcomes)} runs, {sum(each.commands for each in outcomes)} commands, "
        f"{sum(each.launches for each in outcomes):,} launches, {faults.total():,} faults of {len(faults)} kinds, "
        f"{sum(each.healthy for each in outcomes):,} measurements of healthy cases: "
        f"{f'{bad} runs did not hold' if bad else 'all held'}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
