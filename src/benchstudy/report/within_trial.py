"""An interval from within one trial, for where there is no second one: never a verdict, and labelled so.

Samples of one load follow one another, so that they are resampled in blocks: the stationary bootstrap of Politis and
Romano (J. Am. Stat. Assoc. 89, 1994), whose blocks begin anywhere and are of random length, round the end. Where only a
few blocks fit into the trial, their means say little of how far such means spread: the interval is then wider, as
Student's t is than the normal distribution.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from benchstudy.stats import LEVEL

WITHIN = "within one trial"
FEWEST_SAMPLES = 20
_RESAMPLES = 1999
_SEED = 20_240_916  # the same interval whenever the same tables are read


def mean_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the mean of samples at equal steps of time; None with too few of them or without any spread."""
    found = _resampled(samples)
    return None if found is None else _ends(found.means, found.mean, found.blocks)


def ratio_interval(base: Sequence[float], new: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the ratio of two means, each of a trial of its own; None where either has no interval or is near zero."""
    first, second = _resampled(base, 0), _resampled(new, 1)
    if first is None or second is None or (first.means <= 0).any() or second.mean <= 0:
        return None
    return _ends(second.means / first.means, second.mean / first.mean, min(first.blocks, second.blocks))


class _Resampled(NamedTuple):
    """Means of resampled trials, the trial's own, and how many blocks fit into it."""

    means: np.ndarray
    mean: float
    blocks: float


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


def _resampled(values: Sequence[float], seed: int = 0) -> _Resampled | None:
    samples = np.asarray(values, dtype=float)
    samples = samples[np.isfinite(samples)]
    n = len(samples)
    if n < FEWEST_SAMPLES or np.ptp(samples) == 0:
        return None
    random, length = np.random.default_rng(_SEED + seed), block_length(samples)
    begins = random.random((_RESAMPLES, n)) < 1 / length
    begins[:, 0] = True
    index = random.integers(0, n, (_RESAMPLES, n))
    # Where no block begins, the sample after the one before.
    for column in range(1, n):
        index[:, column] = np.where(begins[:, column], index[:, column], (index[:, column - 1] + 1) % n)
    return _Resampled(samples[index].mean(axis=1), float(samples.mean()), n / length)


def _ends(values: np.ndarray, middle: float, blocks: float) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    wider = float(special.stdtrit(max(blocks - 1, 1), 1 - tail) / special.ndtri(1 - tail))
    return middle - wider * (middle - float(low)), middle + wider * (float(high) - middle)
