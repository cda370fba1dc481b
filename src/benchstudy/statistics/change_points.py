"""Moments at which a series moved to another level and stayed there. They annotate a figure; no verdict uses them.

PELT (Killick, Fearnhead and Eckley, J. Am. Stat. Assoc. 107, 2012; `ruptures`) looks for the steps that reduce the
squared error by more than `_PENALTY` · log n times the noise each. Causes of false alarms are handled first:

- outliers and skewed values: ranks are used instead of values;
- samples that depend on the ones before: the noise is that of means over long stretches, estimated from the differences
  of neighbours and of next-but-one neighbours, which a step hardly affects (in the manner of Chakar and others,
  Bernoulli 23, 2017). If samples keep more than half of the previous one, means of stretches replace them, until they
  keep less; if too few are left, there is no result;
- a slow drift, which steps would follow: a straight line is preferred if it fits as well.

Ranks tell how many samples differ, and not by how much. So two steps may cost more than an outage, which is a run of
samples far from all others. If there are no steps, such a run is looked for by values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

FEWEST_SAMPLES = 30
MOST_STRETCHES = 100
SHORTEST = 5  # stretches: anything shorter is an excursion, not a level
_FEWEST_STRETCHES = 20
_PENALTY = 3.0
_MOST_MEMORY = 0.5
_OUTAGE = 5.0  # standard deviations from the median, robustly estimated
_KEPT = 0.9  # of squared differences: the largest ones may be steps


@dataclass(frozen=True)
class Change:
    """From `at` on, the level differs: `before` and `after` are medians of the samples on both sides, up to the next
    change. `at` is known to within `blur`, one stretch; both are on the scale of the series' times.
    """

    at: float
    blur: float
    before: float
    after: float

    @property
    def relative(self) -> float | None:
        """0.2 is 20 % more than before; None from zero or a change of sign, where no percentage makes sense."""
        return self.after / self.before - 1 if self.before * self.after > 0 else None


@dataclass(frozen=True)
class Changes:
    """What was found in `n` samples. `drift`: a line fits better than steps, from `before` to `after`, and `found` is
    empty. `why`: why nothing can be said, in words for a reader.
    """

    n: int
    found: tuple[Change, ...] = ()
    drift: Change | None = None
    why: str = ""

    @property
    def steady(self) -> bool | None:
        """No change and no drift; None when nothing can be said."""
        return None if self.why else not self.found and self.drift is None


def find(times: Sequence[float], values: Sequence[float], memory: float = 0.0) -> Changes:
    """Changes of level in a series of samples at roughly equal time steps.

    `times` and `values` have the same length; times are in any one unit, values too. `memory`: how far a sample looks
    back, such as the window of a rate, in the unit of `times`. Within it there is nothing new. Samples that are not
    finite are left out. Method: PELT on ranks (`ruptures`; docs/statistics.md). Raises ValueError if times and values
    differ in number.
    """
    if len(times) != len(values):
        raise ValueError(f"{len(times)} times and {len(values)} values")
    at, level = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    at, level = at[np.isfinite(level)], level[np.isfinite(level)]
    n = len(level)
    if n < FEWEST_SAMPLES:
        return Changes(n, why=f"{n} samples; {FEWEST_SAMPLES} are needed")
    if np.ptp(level) == 0:
        return Changes(n)
    pitch = float(np.median(np.diff(at)))
    each = max(-(-n // MOST_STRETCHES), math.ceil(memory / pitch - 1e-9) if pitch > 0 else 1)
    while n // each >= _FEWEST_STRETCHES:
        ranks = _ranks(_means(level, each))
        kept, noise, least = _memory_and_noise(ranks)
        if not least:  # all means are equal, as those of samples that alternate exactly
            return Changes(n)
        if kept <= _MOST_MEMORY:
            return _segmented(at, level, each, ranks / math.sqrt(noise))
        # Memory only turns apparent changes into noise: if there is none even without memory, it need not be known.
        if _segmented(at, level, each, ranks / math.sqrt(least)).steady:
            return Changes(n)
        each *= 2
    return Changes(n, why="samples depend too much on the ones before")


def _means(level: np.ndarray, each: int) -> np.ndarray:
    """Means of `each` neighbours; an incomplete first stretch is left out."""
    return level[len(level) % each :].reshape(-1, each).mean(axis=1)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0 to 1; equal values share one. Normal scores would bend a drift, and would give the highest and the
    lowest of several levels more noise than the others."""
    from scipy import stats as scipy_stats

    return (scipy_stats.rankdata(values) - 0.5) / len(values)


def _memory_and_noise(ranks: np.ndarray) -> tuple[float, float, float]:
    """An upper bound for how much of itself a rank passes on to the next; the variance of means over long stretches
    that follows, times their length (both for a first-order autoregression); and that variance without memory."""
    unsure = 1 / math.sqrt(len(ranks))
    differences = np.diff(ranks)
    if np.count_nonzero(differences) <= len(differences) - int(_KEPT * len(differences)):  # clean steps
        near, kept = float((differences**2).mean()), unsure
    else:
        # Not the last coefficient after convert(), which drops one of exactly zero.
        slope = float(np.polynomial.Polynomial.fit(np.arange(len(ranks)), ranks, 1).deriv()(0))
        near, far = (_usual(_squared_differences(ranks, lag, slope)) for lag in (1, 2))
        kept = max(0.0, far / near - 1) + unsure
    return kept, near / 2 * (1 + kept) / (1 - kept) ** 2 if kept < 1 else math.inf, near / 2


def _squared_differences(ranks: np.ndarray, lag: int, slope: float) -> np.ndarray:
    """Sorted squared differences, corrected for a steady drift."""
    return np.sort((ranks[lag:] - ranks[:-lag] - lag * slope) ** 2)


def _usual(squares: np.ndarray) -> float:
    """The mean of sorted squares without the largest, scaled to the mean of all of them for normal values."""
    from scipy import special

    most = squares[: max(1, int(_KEPT * len(squares)))]
    # The share of a chi-squared variable's mean that lies below its quantile `_KEPT`.
    share = float(special.gammainc(1.5, float(special.chdtri(1, 1 - _KEPT)) / 2)) / _KEPT
    return float(most.mean()) / share


def _segmented(at: np.ndarray, level: np.ndarray, each: int, ranks: np.ndarray) -> Changes:
    from ruptures import KernelCPD  # importing it takes a tenth of a second, and no other page needs it

    n, penalty = len(level), _PENALTY * math.log(len(ranks))
    ends = KernelCPD(kernel="linear", min_size=SHORTEST).fit(ranks[:, None]).predict(pen=penalty)
    if len(ends) < 2:
        return Changes(n, _levels(at, level, each, _outage(_means(level, each))))
    steps = sum(_squared_error(part) for part in np.split(ranks, ends[:-1])) + penalty * (len(ends) - 1)
    place = np.arange(len(ranks))
    line = np.polynomial.Polynomial.fit(place, ranks, 1)(place)
    if float(((ranks - line) ** 2).sum()) + penalty <= steps:
        fifth = n // 5
        return Changes(n, drift=Change(float(at[0]), 0.0, _median(level[:fifth]), _median(level[-fifth:])))
    return Changes(n, _levels(at, level, each, ends[:-1]))


def _outage(means: np.ndarray) -> list[int]:
    """Where the longest run of means begins and ends that lie far from the median, all on one side; empty if it is
    shorter than a level, or if half of the means are equal.
    """
    from scipy import stats as scipy_stats

    off = means - np.median(means)
    far = np.sign(off) * (np.abs(off) > _OUTAGE * float(scipy_stats.median_abs_deviation(means, scale="normal")))
    edges = [0, *(np.flatnonzero(np.diff(far)) + 1).tolist(), len(far)]
    runs = [(end - begin, begin, end) for begin, end in pairwise(edges) if far[begin]]
    length, begin, end = max(runs, default=(0, 0, 0))
    is_known = length >= SHORTEST and np.count_nonzero(off) > len(off) / 2
    return [edge for edge in (begin, end) if 0 < edge < len(far)] if is_known else []


def _levels(at: np.ndarray, level: np.ndarray, each: int, ends: Sequence[int]) -> tuple[Change, ...]:
    """The changes between levels, the first of which end before these stretches."""
    n, begin = len(level), 0
    parts = np.split(level, [n % each + end * each for end in ends])
    found = []
    for before, after in pairwise(parts):
        begin += len(before)
        blur = float(at[begin] - at[max(0, begin - each)])
        found.append(Change(float(at[begin]), blur, _median(before), _median(after)))
    return tuple(found)


def _squared_error(part: np.ndarray) -> float:
    return float(((part - part.mean()) ** 2).sum())


def _median(part: np.ndarray) -> float:
    return float(np.median(part))
