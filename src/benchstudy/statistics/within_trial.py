"""An interval from within one trial, for use when there is only one: never a verdict, and labelled accordingly.

Samples of one load follow one another, so they are resampled in blocks: the stationary bootstrap (Politis and Romano,
J. Am. Stat. Assoc. 89, 1994), whose blocks start anywhere, have random length and wrap around the end. If only a few
blocks fit into the trial, their means say little about the spread of such means: the interval is then widened, as
Student's t is wider than the normal distribution. docs/statistics.md gives its coverage.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchstudy.model.criteria import LEVEL

WITHIN = "within one trial"
FEWEST_SAMPLES = 20
FEWEST_STEPS = 10
_MOST_SAMPLES = 500  # hours at one sample per second would fill the memory and say no more about the mean
_RESAMPLES = 1999
_SEED = 20_240_916  # the same interval for the same tables


def mean_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the mean of samples at equal steps of time, in their unit.

    Method: stationary bootstrap (Politis and Romano, 1994) with Student's t. None with fewer than 20 samples, or
    without any spread.
    """
    found = _resampled(_finite(samples))
    return None if found is None else _ends(found.means, found.mean, found.blocks)


def ratio_interval(base: Sequence[float], new: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the ratio of two means, each from one trial. None if either has no interval or is near zero."""
    first, second = _resampled(_finite(base)), _resampled(_finite(new), 1)
    if first is None or second is None or (first.means <= 0).any() or second.mean <= 0:
        return None
    return _ends(second.means / first.means, second.mean / first.mean, min(first.blocks, second.blocks))


def rate_interval(grew: Sequence[float], took_s: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of growth over the time it took (1/s), from consecutive steps that need not be equally long.

    `grew` and `took_s` (seconds) have one value per step. The interval does not go below zero, because nothing
    shrinks. None with fewer than 10 steps, without any spread, or if some time is not above zero.
    """
    amounts, times = (_stretches(np.asarray(side, dtype=float)) for side in (grew, took_s))
    if len(amounts) < FEWEST_STEPS or not np.isfinite(amounts).all() or not (times > 0).all():
        return None
    rate = float(amounts.sum() / times.sum())
    # By how much a step exceeds its share: the linearised ratio, whose memory decides the block length.
    excess = amounts - rate * times
    if np.ptp(excess) <= 1e-9 * np.abs(amounts).max():
        return None
    length = block_length(excess)
    index = _indices(len(amounts), length, 0)
    low, high = _ends(amounts[index].sum(axis=1) / times[index].sum(axis=1), rate, len(amounts) / length)
    return max(low, 0.0), high


class _Resampled(NamedTuple):
    """The means of resampled trials, the trial's own mean, and how many blocks fit into it, two or more."""

    means: np.ndarray
    mean: float
    blocks: float


def block_length(samples: np.ndarray) -> int:
    """How many samples a sample remembers: three times their integrated autocorrelation time, at least n^(1/3).

    The choice of Politis and White (2004) is not used. It minimises the error of the variance for long series. For
    trials as short as ours, and for rates over a moving window whose neighbours share most of it, its blocks are too
    short: the interval covers 44 to 91 % where this one covers 79 to 93.
    """
    n = len(samples)
    centred = samples - samples.mean()
    variance = float(centred @ centred) / n
    time = 1.0
    for lag in range(1, n // 3):
        correlation = float(centred[:-lag] @ centred[lag:]) / n / variance
        if correlation < 2 / np.sqrt(n):  # beyond this it is noise
            break
        time += 2 * correlation
    return int(min(max(round(3 * time), round(n ** (1 / 3)), 2), n // 2))


def _finite(values: Sequence[float]) -> np.ndarray:
    samples = np.asarray(values, dtype=float)
    return _stretches(samples[np.isfinite(samples)])


def _stretches(samples: np.ndarray) -> np.ndarray:
    """Means over enough neighbours to leave at most 500 of them; an incomplete first stretch is left out."""
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
    """Which of n samples make up each resampled trial (resamples x n). Different `stream`s are independent.

    They do not depend on the values: trials of one length share them, which saves most of the time. The numbers equal
    those of arch 8 (`StationaryBootstrap`), so that intervals are the same as when arch drew them.
    """
    generator = np.random.default_rng(_SEED + stream)
    drawn = [(generator.integers(n, size=n), generator.random(n)) for _ in range(_RESAMPLES)]
    starts, chances = (np.array(part) for part in zip(*drawn, strict=True))
    steps = np.arange(n)
    # A block starts with probability 1/`length`; within a block, samples follow one another.
    begun = np.maximum.accumulate(np.where(chances <= 1 / length, steps, 0), axis=1)
    return ((np.take_along_axis(starts, begun, axis=1) + steps - begun) % n).astype(np.int16)


def _ends(values: np.ndarray, middle: float, blocks: float) -> tuple[float, float]:
    from scipy import special

    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    wider = float(special.stdtrit(blocks - 1, 1 - tail) / special.ndtri(1 - tail))
    return middle - wider * (middle - float(low)), middle + wider * (float(high) - middle)
