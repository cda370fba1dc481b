"""An interval from within one trial, for where there is no second one: never a verdict, and labelled so.

Samples of one load follow one another, so that they are resampled in blocks: the stationary bootstrap (Politis and
Romano, J. Am. Stat. Assoc. 89, 1994), whose blocks begin anywhere and are of random length, round the end. Where only a
few blocks fit into the trial, their means say little of how far such means spread: the interval is then wider, as
Student's t is than the normal distribution. docs/statistics.md says how often that is right.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchstudy.model.criteria import LEVEL

WITHIN = "within one trial"
FEWEST_SAMPLES = 20
FEWEST_STEPS = 10
_MOST_SAMPLES = 500  # hours at a sample a second would fill the memory, and say no more of their mean
_RESAMPLES = 1999
_SEED = 20_240_916  # the same interval whenever the same tables are read


def mean_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the mean of samples at equal steps of time; None with fewer than 20 of them or without any spread."""
    found = _resampled(_finite(samples))
    return None if found is None else _ends(found.means, found.mean, found.blocks)


def ratio_interval(base: Sequence[float], new: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the ratio of two means, each of a trial of its own; None where either has no interval or is near zero."""
    first, second = _resampled(_finite(base)), _resampled(_finite(new), 1)
    if first is None or second is None or (first.means <= 0).any() or second.mean <= 0:
        return None
    return _ends(second.means / first.means, second.mean / first.mean, min(first.blocks, second.blocks))


def rate_interval(grew: Sequence[float], took_s: Sequence[float]) -> tuple[float, float] | None:
    """95 % of what grew over the time it took (1/s), from steps that follow one another and need not be equally long.

    Nothing shrinks: the interval does not go below zero. None with fewer than 10 steps, without any spread, and where
    some time is not above zero.
    """
    amounts, times = (_stretches(np.asarray(side, dtype=float)) for side in (grew, took_s))
    if len(amounts) < FEWEST_STEPS or not np.isfinite(amounts).all() or not (times > 0).all():
        return None
    rate = float(amounts.sum() / times.sum())
    # What a step has more than its share: what the memory of a ratio's steps is, when it is linearised.
    excess = amounts - rate * times
    if np.ptp(excess) < 1e-9 * np.abs(amounts).max():
        return None
    length = block_length(excess)
    index = _indices(len(amounts), length, 0)
    low, high = _ends(amounts[index].sum(axis=1) / times[index].sum(axis=1), rate, len(amounts) / length)
    return max(low, 0.0), high


class _Resampled(NamedTuple):
    """Means of resampled trials, the trial's own, and how many blocks fit into it."""

    means: np.ndarray
    mean: float
    blocks: float


def block_length(samples: np.ndarray) -> int:
    """How long samples remember: three times their integrated autocorrelation time, at least n^(1/3).

    The choice of Politis and White (2004) is not taken: it gives the least error of the variance for long series. For
    trials as short as ours, and rates over a moving window whose neighbours share most of it, its blocks are too short,
    and the interval covers 44 to 91 % where this one does 79 to 93.
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


def _finite(values: Sequence[float]) -> np.ndarray:
    samples = np.asarray(values, dtype=float)
    return _stretches(samples[np.isfinite(samples)])


def _stretches(samples: np.ndarray) -> np.ndarray:
    """Means of as many neighbours as leave at most 500 of them; what does not fill the first one is left out."""
    each = -(-len(samples) // _MOST_SAMPLES) or 1
    return samples[len(samples) % each :].reshape(-1, each).mean(axis=1)


def _resampled(samples: np.ndarray, stream: int = 0) -> _Resampled | None:
    if len(samples) < FEWEST_SAMPLES or np.ptp(samples) == 0:
        return None
    length = block_length(samples)
    index = _indices(len(samples), length, stream)
    return _Resampled(samples[index].mean(axis=1), float(samples.mean()), len(samples) / length)


@lru_cache(maxsize=32)
def _indices(n: int, length: int, stream: int) -> np.ndarray:
    """Which of n samples make up each resampled trial (resamples x n). Another `stream` is independent of it.

    They do not depend on the values: trials of one length share them, which spares most of the time. Number for number
    what arch 8 draws (`StationaryBootstrap`), so that intervals are what they were when it drew them.
    """
    generator = np.random.default_rng(_SEED + stream)
    drawn = [(generator.integers(n, size=n), generator.random(n)) for _ in range(_RESAMPLES)]
    starts, chances = (np.array(part) for part in zip(*drawn, strict=True))
    steps = np.arange(n)
    # A block begins with a chance of 1 in `length`; until the next one begins, samples follow one another.
    begun = np.maximum.accumulate(np.where(chances <= 1 / length, steps, 0), axis=1)
    return ((np.take_along_axis(starts, begun, axis=1) + steps - begun) % n).astype(np.int16)


def _ends(values: np.ndarray, middle: float, blocks: float) -> tuple[float, float]:
    from scipy import special

    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    wider = float(special.stdtrit(max(blocks - 1, 1), 1 - tail) / special.ndtri(1 - tail))
    return middle - wider * (middle - float(low)), middle + wider * (float(high) - middle)
