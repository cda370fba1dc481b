"""An interval from within one trial, for where there is no second one: never a verdict, and labelled so.

Samples of one load follow one another, so that they are resampled in blocks: the stationary bootstrap of Politis and
Romano (J. Am. Stat. Assoc. 89, 1994), whose blocks begin anywhere and are of random length, round the end.
"""

from collections.abc import Sequence

import numpy as np

from benchstudy.stats import LEVEL

WITHIN = "within one trial"
FEWEST_SAMPLES = 20
_RESAMPLES = 1999
_SEED = 20_240_916  # the same interval whenever the same tables are read


def mean_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the mean of samples at equal steps of time; None with too few of them or without any spread."""
    means = _means(np.asarray(samples, dtype=float))
    return None if means is None else _ends(means)


def ratio_interval(base: Sequence[float], new: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the ratio of two means, each of a trial of its own; None where either has no interval or is near zero."""
    sides = [_means(np.asarray(side, dtype=float), seed) for seed, side in enumerate((base, new))]
    if sides[0] is None or sides[1] is None or (sides[0] <= 0).any():
        return None
    return _ends(sides[1] / sides[0])


def block_length(samples: np.ndarray) -> int:
    """How long samples remember: three times their integrated autocorrelation time, at least n^(1/3).

    Where panels are rates over a moving window, neighbours share most of it, and n^(1/3) would be far too short.
    """
    n = len(samples)
    centred = samples - samples.mean()
    variance = float(centred @ centred) / n
    time = 1.0
    for lag in range(1, n // 3):
        correlation = float(centred[:-lag] @ centred[lag:]) / n / variance
        if correlation < 2 / np.sqrt(n):  # from there on it is noise
            break
        time += 2 * correlation
    return int(min(max(round(3 * time), round(n ** (1 / 3)), 2), n // 2))


def _means(samples: np.ndarray, seed: int = 0) -> np.ndarray | None:
    samples = samples[np.isfinite(samples)]
    n = len(samples)
    if n < FEWEST_SAMPLES or np.ptp(samples) == 0:
        return None
    random = np.random.default_rng(_SEED + seed)
    begins = random.random((_RESAMPLES, n)) < 1 / block_length(samples)
    begins[:, 0] = True
    index = random.integers(0, n, (_RESAMPLES, n))
    # Where no block begins, the sample after the one before.
    for column in range(1, n):
        index[:, column] = np.where(begins[:, column], index[:, column], (index[:, column - 1] + 1) % n)
    return samples[index].mean(axis=1)


def _ends(values: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(values, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)
