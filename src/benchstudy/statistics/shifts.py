"""The shift between two samples, or between the sides of pairs: by ranks (Hodges-Lehmann) and by Student's t.

Both give an estimate, an interval and one-sided p values for any shift, on a scale where differences make sense:
`comparisons.py` passes logarithms. Ranks use exact distributions up to `_EXACT` values, a normal one above.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

_EXACT = 50


@dataclass(frozen=True)
class Student:
    """A mean difference with its standard `error` and `freedom` degrees of freedom."""

    estimate: float
    error: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """The two-sided interval of the true difference at `level`, for example 0.95."""
        reach = self.error * float(scipy.special.stdtrit(self.freedom, (1 + level) / 2))
        return self.estimate - reach, self.estimate + reach

    def p_above(self, shift: float) -> float:
        """One-sided p value against "the true difference is at most `shift`"."""
        return float(scipy.special.stdtr(self.freedom, (shift - self.estimate) / self.error))

    def p_below(self, shift: float) -> float:
        """One-sided p value against "the true difference is at least `shift`"."""
        return float(scipy.special.stdtr(self.freedom, (self.estimate - shift) / self.error))

    def detectable(self, level: float, power: float) -> float:
        """The smallest true difference that the two-sided test finds with this `power`, from the noncentral t.

        2.8 standard errors when n is large, 3.5 for six pairs.
        """
        critical = scipy.special.stdtrit(self.freedom, (1 + level) / 2)
        return self.error * float(scipy.special.nctdtrinc(self.freedom, 1 - power, critical))


def student_of_pairs(differences: np.ndarray) -> Student:
    """Paired samples, by their differences: one-dimensional, two or more."""
    n = len(differences)
    return Student(float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(n), n - 1)


def welch(base: np.ndarray, other: np.ndarray) -> Student:
    """Two independent samples, one-dimensional, whose spreads may differ (Welch). One must have some spread."""
    parts = [(side.var(ddof=1) / len(side), len(side) - 1) for side in (base, other)]
    squared = sum(part for part, _ in parts)
    freedom = squared**2 / sum(part**2 / less_one for part, less_one in parts)
    return Student(float(other.mean() - base.mean()), math.sqrt(squared), float(freedom))


@dataclass(frozen=True)
class Ranked:
    """All differences between two samples, or all means of two pairs, sorted: what a rank test counts.

    `kind` decides the null distribution of the count; `n` and `m` are the sizes of the samples.
    """

    values: np.ndarray
    kind: str
    n: int
    m: int = 0

    @property
    def estimate(self) -> float:
        """Hodges-Lehmann: the median of the differences, or of the pairs' means."""
        return float(np.median(self.values))

    def interval(self, level: float) -> tuple[float, float]:
        """The shifts that the two-sided test does not reject. The samples must be large enough for `level`."""
        cut = self._quantile((1 - level) / 2)
        assert cut, "the methods are chosen so that there is one"
        return float(self.values[cut - 1]), float(self.values[-cut])

    def p_above(self, shift: float) -> float:
        """One-sided p value against "the true difference is at most `shift`"; ties count against it."""
        return self._cumulative(int((self.values <= shift).sum()))

    def p_below(self, shift: float) -> float:
        """One-sided p value against "the true difference is at least `shift`"; ties count against it."""
        return self._cumulative(int((self.values >= shift).sum()))

    def _quantile(self, tail: float) -> int:
        """How many values to exclude at either end: the largest k with P(count <= k - 1) <= tail."""
        if max(self.n, self.m) <= _EXACT:
            return int(np.searchsorted(self._exact(), tail, side="right"))
        mean, sd = self._normal()
        return max(0, math.floor(mean + sd * float(scipy.stats.norm.ppf(tail)) + 0.5))

    def _cumulative(self, count: int) -> float:
        if max(self.n, self.m) <= _EXACT:
            return float(self._exact()[count])
        mean, sd = self._normal()
        return float(scipy.stats.norm.cdf((count + 0.5 - mean) / sd))

    def _exact(self) -> np.ndarray:
        return signed_rank_cdf(self.n) if self.kind == "pairs" else rank_sum_cdf(self.n, self.m)

    def _normal(self) -> tuple[float, float]:
        n, m = self.n, self.m
        variance = n * (n + 1) * (2 * n + 1) / 24 if self.kind == "pairs" else n * m * (n + m + 1) / 12
        return len(self.values) / 2, math.sqrt(variance)


def ranked_pairs(differences: np.ndarray) -> Ranked:
    """Paired samples, by their n differences: the Walsh averages that the Wilcoxon signed-rank test counts."""
    rows, columns = np.triu_indices(len(differences))
    return Ranked(np.sort((differences[rows] + differences[columns]) / 2), "pairs", len(differences))


def ranked_samples(base: np.ndarray, other: np.ndarray) -> Ranked:
    """Two independent samples of n and m values: the n x m differences `other` - `base` that Mann-Whitney counts."""
    return Ranked(np.sort(np.subtract.outer(other, base), axis=None), "samples", len(base), len(other))


@lru_cache
def signed_rank_cdf(n: int) -> np.ndarray:
    """P(T <= k) of Wilcoxon's signed-rank statistic for n pairs, as an array over k from 0 to n(n+1)/2."""
    chances = np.ones(1)
    for rank in range(1, n + 1):
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    return np.cumsum(chances)


@lru_cache
def rank_sum_cdf(n: int, m: int) -> np.ndarray:
    """P(U <= k) of the Mann-Whitney statistic for samples of n and m values, as an array over k from 0 to n·m.

    The numbers of arrangements are the coefficients of the Gaussian binomial, in integers of any size.
    """
    ways = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for k in range(n * m, m + i - 1, -1):  # times 1 - x^(m+i)
            ways[k] -= ways[k - m - i]
        for k in range(i, n * m + 1):  # divided by 1 - x^i
            ways[k] += ways[k - i]
    total = math.comb(n + m, n)
    return np.array([cumulated / total for cumulated in itertools.accumulate(ways)])
