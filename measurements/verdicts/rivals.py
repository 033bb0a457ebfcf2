"""The rules by which other tools call a benchmark slower, in our reading of them, on the samples of a comparison.

None of this is their code. Each rule is a few lines after what the tool's public source or documentation says of its
decision; the docstrings name it. Tools that start one process a side are shown twice: given one launch, as they would
be, and given all launches of a comparison, which is kinder. A rule says of every row 1 (slower), -1 (faster) or 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

Samples = NDArray[np.int64]  # rows by launches by iterations, nanoseconds
Calls = NDArray[np.int64]  # 1, -1 or 0 for each row
Floats = NDArray[np.float64]
Rule = Callable[[Samples, Samples], Calls]

U_ALPHA = 0.05
ASV_ALPHA, ASV_FACTOR = 0.002, 1.1
CRITERION_ALPHA, CRITERION_NOISE, CRITERION_CONFIDENCE = 0.05, 0.01, 0.95
RESAMPLES = 2_000  # Criterion makes 100,000; the quantiles that count here are settled well before
ROWS_AT_ONCE = 500
ALERT_DEFAULT, ALERT_TIGHT = 2.0, 1.1


class Rival(NamedTuple):
    """A rule, what of a comparison it takes, and of how many launches a side."""

    rule: Rule
    takes: str
    launches: int | None = None  # all


def benchstat(base: Samples, head: Samples) -> Calls:
    """Mann-Whitney U at 0.05 on one number a run: benchstat (golang.org/x/perf, package benchmath, AssumeNothing)."""
    return _u_test(_means(base), _means(head), U_ALPHA, "exact")


def u_test(base: Samples, head: Samples) -> Calls:
    """The same test on iterations.

    So benchstat would say where each is taken for a run, and Google Benchmark's tools/compare.py says it of repetitions,
    which one process makes.
    """
    return _u_test(_pooled(base), _pooled(head), U_ALPHA, "asymptotic")


def criterion(base: Samples, head: Samples) -> Calls:
    """Criterion.rs (analysis/compare.rs, report.rs): a change of the mean beyond a noise threshold of 1 %.

    A bootstrapped t test at 0.05 must reject, and the bootstrapped 95 % interval of the change lie beyond the threshold.
    """
    a, b = _pooled(base), _pooled(head)
    n = a.shape[1]
    weights_a, weights_b, *pooled = _weights(n)
    change = (b @ weights_b) / (a @ weights_a) - 1
    low, high = np.quantile(change, [(1 - CRITERION_CONFIDENCE) / 2, (1 + CRITERION_CONFIDENCE) / 2], axis=1)
    both = np.concatenate([a, b], axis=1)
    drawn = _t(_moments(both, pooled[0]), _moments(both, pooled[1]), n)
    equally = np.full((n, 1), 1 / n)
    seen = _t(_moments(b, equally), _moments(a, equally), n)
    differs = (np.abs(drawn) >= np.abs(seen)).mean(axis=1) < CRITERION_ALPHA
    return _calls(differs & (low > CRITERION_NOISE), differs & (high < -CRITERION_NOISE))


def github_action_benchmark(base: Samples, head: Samples, alert: float = ALERT_DEFAULT) -> Calls:
    """The quotient of two numbers above `alert-threshold`, 200 % by default: github-action-benchmark (src/write.ts)."""
    quotient = _overall(head) / _overall(base)
    return _calls(quotient > alert, np.zeros(len(quotient), dtype=bool))


def github_action_benchmark_tight(base: Samples, head: Samples) -> Calls:
    """The same with the threshold at 110 %, which projects set."""
    return github_action_benchmark(base, head, ALERT_TIGHT)


def asv_continuous(base: Samples, head: Samples) -> Calls:
    """Medians apart by the factor 1.1, and Mann-Whitney U at 0.002: asv (commands/compare.py, _stats.py)."""
    a, b = _pooled(base), _pooled(head)
    differs = mannwhitneyu(b, a, axis=1, method="asymptotic").pvalue < ASV_ALPHA
    quotient = np.median(b, axis=1) / np.median(a, axis=1)
    return _calls(differs & (quotient > ASV_FACTOR), differs & (quotient < 1 / ASV_FACTOR))


def nvbench_compare(base: Samples, head: Samples) -> Calls:
    """Means apart by more than the smaller of the relative standard deviations: nvbench_compare.py.

    So it was for years, and still is as nvbench_compare_legacy.py; newer ones take medians and interquartile ranges.
    """
    a, b = _pooled(base), _pooled(head)
    noise = np.minimum(*(each.std(axis=1, ddof=1) / each.mean(axis=1) for each in (a, b)))
    change = b.mean(axis=1) / a.mean(axis=1) - 1
    return _calls(change > noise, change < -noise)


def any_ratio(base: Samples, head: Samples) -> Calls:
    """A speed-up below 1 is a regression, as many scripts have it."""
    quotient = _overall(head) / _overall(base)
    return _calls(quotient > 1, np.zeros(len(quotient), dtype=bool))


RIVALS: Mapping[str, Rival] = MappingProxyType(
    {
        "benchstat, a run is a launch": Rival(benchstat, "launches' means"),
        "benchstat, a run is an iteration": Rival(u_test, "all iterations"),
        "Google Benchmark's compare.py, one launch": Rival(u_test, "iterations of one launch", 1),
        "Criterion with 1 %": Rival(criterion, "all iterations"),
        "Criterion with 1 %, one launch": Rival(criterion, "iterations of one launch", 1),
        "github-action-benchmark, 200 %": Rival(github_action_benchmark, "mean"),
        "github-action-benchmark, 110 %": Rival(github_action_benchmark_tight, "mean"),
        "asv continuous, factor 1.1": Rival(asv_continuous, "all iterations"),
        "nvbench-compare": Rival(nvbench_compare, "all iterations"),
        "nvbench-compare, one launch": Rival(nvbench_compare, "iterations of one launch", 1),
        "any ratio below 1": Rival(any_ratio, "mean"),
    }
)


def called(rival: Rival, base: Samples, head: Samples) -> Calls:
    """What a rule says of many rows, some at a time, since Criterion's resamples take room."""
    base, head = base[:, : rival.launches], head[:, : rival.launches]
    starts = range(0, len(base), ROWS_AT_ONCE)
    return np.concatenate([rival.rule(base[n : n + ROWS_AT_ONCE], head[n : n + ROWS_AT_ONCE]) for n in starts])


def _means(samples: Samples) -> Floats:
    return np.asarray(samples.mean(axis=2), dtype=np.float64)


def _pooled(samples: Samples) -> Floats:
    return samples.reshape(len(samples), -1).astype(np.float64)


def _overall(samples: Samples) -> Floats:
    return np.asarray(samples.mean(axis=(1, 2)), dtype=np.float64)


def _calls(slower: NDArray[np.bool_], faster: NDArray[np.bool_]) -> Calls:
    return slower.astype(np.int64) - faster.astype(np.int64)


def _u_test(a: Floats, b: Floats, alpha: float, method: Literal["exact", "asymptotic"]) -> Calls:
    differs = mannwhitneyu(b, a, axis=1, method=method).pvalue < alpha
    longer = np.median(b, axis=1) > np.median(a, axis=1)
    return _calls(differs & longer, differs & ~longer)


@functools.cache
def _weights(n: int) -> tuple[Floats, ...]:
    """The weights of RESAMPLES samples of `n` with replacement, a column each that sums to 1; the same for every row.

    Two out of `n` values, one for each side, then two out of both sides' values put together.
    """
    random = np.random.default_rng(0)
    return tuple(random.multinomial(n, np.full(of, 1 / of), RESAMPLES).T / n for of in (n, n, 2 * n, 2 * n))


def _moments(samples: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of every row under every column of weights."""
    centred = samples - samples.mean(axis=1, keepdims=True)  # else the variance is a small difference of large numbers
    mean = centred @ weights
    return mean + samples.mean(axis=1, keepdims=True), (centred**2) @ weights - mean**2


def _t(one: tuple[Floats, Floats], other: tuple[Floats, Floats], n: int) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # equal samples have no spread
        return np.asarray((one[0] - other[0]) / np.sqrt((one[1] + other[1]) / (n - 1)), dtype=np.float64)
