"""The verdicts under noise that is simulated, so that it can be worse than any that was recorded.

A launch has one disturbance of its own, and its iterations vary around that. Every kind below comes on top of plain
noise. Launches stand in the order of time; which of a round is base follows from the plan of a run, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from measurements.verdicts.draws import RUN_ROWS, Drawn, drawing
from measurements.verdicts.recorded import SAMPLES, Floats, Pool
from measurements.verdicts.recorded_launches import LOOKS, Found, found_of

TIME_NS = 100_000  # of the simulated kernel
LAUNCH_SD = 0.003  # of a launch's location: what kernels of 5 µs and more have on an H200
ITERATION_SD = 0.005
MODES_APART = 0.05
DRIFT = 0.05  # from the first launch of a run to the last
PERIOD_FOUR = 0.01  # on two of four launches in turn, taken off the other two
TAILS = 2  # degrees of freedom

Noise = Callable[[np.random.Generator, int, int], Floats]  # rows, launches → log of what a launch is slower by


def plain(random: np.random.Generator, rows: int, launches: int) -> Floats:
    """Normal."""
    return random.normal(0, LAUNCH_SD, (rows, launches))


def modes(share: float) -> Noise:
    """Launches of which this share is slower."""

    def noise(random: np.random.Generator, rows: int, launches: int) -> Floats:
        return np.where(random.random((rows, launches)) < share, np.log1p(MODES_APART), 0.0)

    return noise


def drift(_random: np.random.Generator, rows: int, launches: int) -> Floats:
    """Steadily slower."""
    return np.tile(np.linspace(0, np.log1p(DRIFT), launches), (rows, 1))


def heavy_tails(random: np.random.Generator, rows: int, launches: int) -> Floats:
    """Student's t with so few degrees of freedom that its variance is infinite."""
    return LAUNCH_SD * random.standard_t(TAILS, (rows, launches))


def period_four(_random: np.random.Generator, rows: int, launches: int) -> Floats:
    """Slow, fast, fast, slow: what base head head base, were it always so, would take for a change."""
    return np.tile(PERIOD_FOUR * np.array([1, -1, -1, 1]), (rows, -(-launches // 4)))[:, :launches]


KINDS: Mapping[str, Noise] = MappingProxyType(
    {
        "plain": lambda _random, rows, launches: np.zeros((rows, launches)),
        "two modes 5 % apart, a quarter of launches slow": modes(0.25),
        "two modes 5 % apart, half of launches slow": modes(0.5),
        "drift of 5 % over the run": drift,
        "heavy tails, Student with 2 degrees of freedom": heavy_tails,
        "period of four launches, ± 1 %": period_four,
    }
)


def simulated(kind: str, rounds: int, random: np.random.Generator) -> Drawn:
    """A run of rows whose sides are the same."""
    launches = 2 * rounds
    logs = plain(random, RUN_ROWS, launches) + KINDS[kind](random, RUN_ROWS, launches)
    iterations = random.normal(0, ITERATION_SD, (RUN_ROWS, launches, SAMPLES))
    samples = np.rint(TIME_NS * np.exp(logs[:, :, np.newaxis] + iterations)).astype(np.int64)
    cases = tuple(f"row {number}" for number in range(RUN_ROWS))
    pool = Pool(kind, cases, samples.reshape(RUN_ROWS, rounds, 2, SAMPLES), None)
    return drawing(pool, np.arange(rounds), random)


def found_under(kind: str, seed: int, runs: int) -> Found:
    """Runs under one noise, untouched and with slowed rows."""
    random = np.random.default_rng(seed)
    return found_of(kind, (simulated(kind, LOOKS[-1], random) for _ in range(runs)), LOOKS, random)
