"""Estimates from trials. The unit is the trial: every input value belongs to one trial, never to one operation."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchstudy.model import rounding
from benchstudy.model.criteria import LEVEL
from benchstudy.statistics.modes import SAME, Modes, two_modes

FEWEST_FOR_MEAN = 20
# Resampling must give the same page each time; the seed is constant so that nobody can pick a lucky one.
_BOOTSTRAP_SEED = 20_240_229
_BOOTSTRAP_RESAMPLES = 9_999


@dataclass(frozen=True)
class Summary:
    """What `n` trials say about one quantity, in the unit of the values.

    An estimate that the data cannot support is None, and `note` says why in words for a reader. `method` names the
    estimator of the interval and is empty when there is none. `modes`: the two groups in which the values lie.
    `disturbed`: how many of the trials others disturbed.
    """

    n: int
    mean: float | None
    sd: float | None
    median: float | None
    interval_low: float | None
    interval_high: float | None
    method: str
    note: str
    modes: Modes | None = None
    disturbed: int = 0


def smallest_n(percentile: float, level: float = LEVEL) -> int:
    """The smallest number of values for which order statistics bracket the percentile at `level`, two-sided.

    With fewer values, even the extremes do not reach far enough: at 95 %, p50 needs 6, p90 36, p99 368. Raises
    ValueError for a percentile that is not between 0 and 100, both excluded.
    """
    if not 0 < percentile < 100:
        raise ValueError(f"a percentile lies between 0 and 100, both excluded; got {percentile}")
    tail = max(percentile, 100 - percentile) / 100
    return math.ceil(math.log((1 - level) / 2) / math.log(tail))


def supported(percentile: float, n: int) -> bool:
    """Whether `n` values are enough to print this percentile (0 to 100) at all."""
    return n >= smallest_n(percentile)


def summarise(values: Iterable[float | None], units: Iterable[str] = ()) -> Summary:
    """Median with its exact order-statistic 95 % interval, mean, and sample standard deviation of trials' values.

    None stands for a trial that gave no value. It is counted in the note, never as a number. The interval is that of
    `scipy.stats.quantile_test` (inverted binomial test, no assumption about the distribution) and needs 6 values.
    `units`: the units of the values, if they may differ. Over different units there is no estimate.
    """
    given = list(values)
    numbers = sorted(float(value) for value in given if value is not None)
    missing, n = len(given) - len(numbers), len(numbers)
    if not given:
        return _nothing(0, "no trial")
    if n == 0:
        return _nothing(0, "the only trial failed" if missing == 1 else f"all {missing} trials failed")
    if not all(map(math.isfinite, numbers)):
        # An infinite rate comes from a duration of zero: an average over it would look like a number.
        return _nothing(n, "a value is infinite or not a number: no estimate")
    different = sorted(set(units))
    if len(different) > 1:
        return _nothing(n, f"values in {' and in '.join(different)}: no estimate over different units")
    try:
        # Exact sums, which do not depend on the order of trials. numpy is slower for so few values.
        total, is_same = math.fsum(numbers), numbers[0] == numbers[-1]
        mean = numbers[0] if is_same else total / n  # a third of three equal values may be another one
        sd = math.sqrt(math.fsum((value - mean) ** 2 for value in numbers) / (n - 1)) if n > 1 else None
    except OverflowError:
        return _nothing(n, "values too large to add: no estimate")
    notes = [f"{missing} of {rounding.plural(len(given), 'trial')} failed"] if missing else []
    low = high = None
    method = ""
    if n < smallest_n(50):
        notes.append("n too small for an interval")
    else:
        low, high = (numbers[rank] for rank in _ranks_of_median_interval(n))
        method = "order statistics"
    if n > 1 and numbers[-1] - numbers[0] <= SAME * abs(numbers[-1]):
        notes.append("all values are equal: the clock or the tool may round")
    elif low is not None and high is not None and high - low <= SAME * abs(high):
        notes.append("most values are equal: the clock or the tool may round")
    middle = numbers[(n - 1) // 2 : n // 2 + 1]
    median = math.fsum(middle) / len(middle)
    return Summary(n, mean, sd, median, low, high, method, "; ".join(notes), two_modes(numbers))


@lru_cache(maxsize=1024)
def _ranks_of_median_interval(n: int) -> tuple[int, int]:
    """Which of `n` ordered values bound the median. It depends only on n, and a page calls it a thousand times."""
    # Imported here and below because it takes a second, and the index of a study only counts.
    from scipy import stats as scipy_stats

    tested = scipy_stats.quantile_test(np.arange(n), p=0.5)
    interval = tested.confidence_interval(confidence_level=LEVEL)
    return int(interval.low), int(interval.high)  # type: ignore[attr-defined]  # the stubs say float; it is a pair


def precision(summary: Summary) -> float | None:
    """Half the interval's width over the median: 0.05 is ±5 %. An interval without a width is precise, also at zero.

    None without an interval, or if the median is zero and the interval is not.
    """
    if summary.interval_low is not None and summary.interval_low == summary.interval_high:
        return 0.0
    if summary.interval_low is None or summary.interval_high is None or not summary.median:
        return None
    return (summary.interval_high - summary.interval_low) / 2 / abs(summary.median)


def _nothing(n: int, why: str) -> Summary:
    return Summary(n, None, None, None, None, None, "", why)


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean by the BCa bootstrap (9 999 resamples, fixed seed), in the unit of the values.

    It needs 20 values. In simulations it then covers 92 to 98 %, and down to 84 % for six values, whose median has an
    exact interval. Raises ValueError for fewer values, for values that are not finite, and for values without any
    spread, or whose spread is lost in rounding: then the bootstrap has nothing to resample.
    """
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < FEWEST_FOR_MEAN:
        raise ValueError(f"{len(numbers)} values: an interval of the mean needs at least {FEWEST_FOR_MEAN}")
    if not np.isfinite(numbers).all() or np.ptp(numbers) == 0:
        raise ValueError("an interval of the mean needs finite values that are not all equal")
    from scipy import stats as scipy_stats

    # Scaled first, because squares of very small values and sums of very large ones exceed floats.
    middle, size = float(np.median(numbers)), float(np.ptp(numbers))
    result = scipy_stats.bootstrap(
        ((numbers - middle) / size,),
        np.mean,
        confidence_level=LEVEL,
        n_resamples=_BOOTSTRAP_RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(_BOOTSTRAP_SEED),
    ).confidence_interval
    return middle + size * float(result.low), middle + size * float(result.high)


def lint_summary(name: str, mean: float, sd: float, median: float, resolution: float = 0.0) -> list[str]:
    """What is impossible in a published or imported summary, one sentence per finding that names it. [] if nothing is.

    All figures are in one unit. `resolution`: the size of the last printed digit, because rounding may move each
    figure by half of it.
    """
    slack = 1.5 * resolution  # three rounded figures meet in the comparison
    problems = []
    if sd < 0:
        problems.append(f"{name}: the standard deviation {sd:g} is negative")
    elif abs(mean - median) > sd + slack:
        distance = (
            f"{rounding.few(abs(mean - median) / sd)} standard deviations" if sd else "more than a deviation of zero"
        )
        problems.append(
            f"{name}: impossible mean/median pair: mean {mean:g} and median {median:g} lie {distance} apart, "
            "and no single sample can have more than 1"
        )
    return problems
