"""The Universal Scalability Law, fitted to throughput against concurrency.

    X(N) = λ·N / (1 + σ·(N − 1) + κ·N·(N − 1))

λ: throughput of one user; σ: the share of serialised work (contention); κ: the cost of keeping each pair
of users in agreement (coherency), which makes throughput fall again. N. J. Gunther, "Guerrilla Capacity Planning",
Springer 2007, chapters 4 to 6.

The fit minimises relative errors, because the scatter of a throughput grows with it. Its interval comes from fits to
drawn means of each concurrency. It makes no statement about a concurrency that was not measured.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import optimize

from benchstudy.model import rounding
from benchstudy.model.criteria import LEVEL

# Three parameters pass through any three points; the fourth is the first that can disagree.
SMALLEST_LEVELS = 4
# The spread of two trials says next to nothing: Student's t for it has no variance, and not even a mean.
SMALLEST_TRIALS = 3
# A law that misses the centre of the trials at some concurrency by more than this does not describe the server.
LARGEST_MISS = 0.15
# As in stats.py: the same page each time, and no lucky seed.
_SEED = 20_240_229
_RESAMPLES = 500
_CURVE_POINTS = 60
_ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)  # of an interval, as quantiles of the resampled fits
_MOST_STEPS = 100  # fits that end at all need a dozen

Numbers = npt.NDArray[np.float64]


class UnsupportedFit(ValueError):
    """The trials do not support a fit; the message gives the reason, for a reader of the page."""


@dataclass(frozen=True)
class Parameter:
    """A fitted value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """The fitted throughput (1/s) at each `concurrency`, never outside the measured range, with its 95 % interval."""

    concurrency: Numbers
    throughput: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class Peak:
    """Where throughput is largest. `high` is None if the trials do not show a fall before the largest concurrency."""

    concurrency: float
    low: float
    high: float | None


@dataclass(frozen=True)
class Scalability:
    """A fit that the trials support.

    `single` is λ in 1/s, None if a single user was not measured: it would be an extrapolation. `peak` is None when
    the fitted throughput still rises at the largest concurrency. `worst_miss`: the largest relative distance between
    the law and the geometric mean of a concurrency's trials.
    """

    single: Parameter | None
    contention: Parameter
    coherency: Parameter
    peak: Peak | None
    curve: Curve
    worst_miss: float


def law(concurrency: Numbers, single: float, contention: float, coherency: float) -> Numbers:
    """Throughput at each concurrency by the Universal Scalability Law (Gunther), in the unit of `single`."""
    others = concurrency - 1
    return single * concurrency / (1 + contention * others + coherency * concurrency * others)


def fit(trials: Mapping[float, Sequence[float]], resamples: int = _RESAMPLES, seed: int = _SEED) -> Scalability:
    """The law that fits `trials`: concurrency (1 or more) to the throughput of each of its trials, in 1/s.

    Raises UnsupportedFit, with the reason, when there are too few concurrencies or trials, or when the law misses them.
    """
    levels, logs = _checked(trials)
    means = np.array([values.mean() for values in logs])
    counts = np.array([len(values) for values in logs], dtype=float)
    best = _fit_once(levels, means, counts, np.array([math.exp((means - np.log(levels)).max()), 0.1, 1e-4]))
    miss = np.abs(np.expm1(np.log(law(levels, *best)) - means))
    worst = int(miss.argmax())
    if miss[worst] > LARGEST_MISS:
        raise UnsupportedFit(
            f"the law misses what was measured at concurrency {levels[worst]:,.0f} by {rounding.percent(miss[worst])}, "
            f"which is more than {rounding.percent(LARGEST_MISS)}"
        )
    random = np.random.default_rng(seed)
    draws = np.array([_fit_once(levels, _drawn_means(logs, random), counts, best) for _ in range(resamples)])
    single, contention, coherency = (_parameter(best[i], draws[:, i]) for i in range(3))
    return Scalability(
        single if levels[0] == 1 else None,
        contention,
        coherency,
        _peak(best, draws, levels),
        _curve(best, draws, levels),
        float(miss[worst]),
    )


def _checked(trials: Mapping[float, Sequence[float]]) -> tuple[Numbers, list[Numbers]]:
    """Concurrencies, ascending, and the logarithms of their trials' throughputs."""
    levels = sorted(level for level, values in trials.items() if len(values))
    if len(levels) < SMALLEST_LEVELS:
        noun = "concurrency" if len(levels) == 1 else "concurrencies"
        raise UnsupportedFit(f"{len(levels)} {noun} with a throughput; a fit needs {SMALLEST_LEVELS}")
    thin = [level for level in levels if len(trials[level]) < SMALLEST_TRIALS]
    if thin:
        raise UnsupportedFit(
            f"fewer than {SMALLEST_TRIALS} trials at concurrency {', '.join(f'{level:,.0f}' for level in thin)}"
        )
    if levels[0] < 1:
        raise UnsupportedFit(f"a concurrency of {levels[0]:g}: the law starts at one user")
    values = [np.array(trials[level], dtype=float) for level in levels]
    if not all(np.isfinite(v).all() and (v > 0).all() for v in values):
        raise UnsupportedFit("a throughput that is zero or not a number")
    return np.array(levels, dtype=float), [np.log(v) for v in values]


def _fit_once(levels: Numbers, means: Numbers, counts: Numbers, start: Numbers) -> Numbers:
    """λ, σ, κ closest to the mean logarithms; a concurrency weighs as much as its trials. None is negative, and σ, a
    share, is at most 1.

    They do not depend on `start`, but are found sooner from one nearby.
    """

    def log_law(concurrency: Numbers, log_single: float, contention: float, coherency: float) -> Numbers:
        return np.log(law(concurrency, math.exp(log_single), contention, coherency))

    def slopes(concurrency: Numbers, _: float, contention: float, coherency: float) -> Numbers:
        others = concurrency - 1
        denominator = 1 + contention * others + coherency * concurrency * others
        return np.stack([np.ones_like(concurrency), -others / denominator, -concurrency * others / denominator], axis=1)

    begin = math.log(start[0]), start[1], start[2]
    fitted = partial(optimize.curve_fit, log_law, levels, means, p0=begin, sigma=1 / np.sqrt(counts), jac=slopes)
    # Without bounds it is ten times as fast, with the same result unless a bound is active.
    with np.errstate(all="ignore"), suppress(RuntimeError):
        found, _ = fitted(method="lm")
        if min(found[1:]) >= 0 and found[1] <= 1 and np.isfinite(log_law(levels, *found)).all():
            return np.array([math.exp(found[0]), found[1], found[2]])
    bounds = [-np.inf, 0, 0], [np.inf, 1, np.inf]
    # Not "dogbox", which stops on its first step if the start is as near to a bound as ours may be.
    try:
        found, _ = fitted(method="trf", bounds=bounds, x_scale="jac", max_nfev=_MOST_STEPS)
    except RuntimeError:  # the larger λ, and with it σ or κ, the closer
        raise UnsupportedFit("the trials leave open what one user would get: measure a lower concurrency") from None
    return np.array([math.exp(found[0]), found[1], found[2]])


def _drawn_means(logs: Sequence[Numbers], random: np.random.Generator) -> Numbers:
    """A mean for each concurrency, drawn from Student's t about that of its trials (parametric bootstrap).

    Trials drawn again would give normal means. But one concurrency decides most of a parameter, and the spread of its
    few trials is itself uncertain: such intervals held the truth in 86 to 93 of 100 cases instead of 95.
    """
    return np.array([v.mean() + v.std(ddof=1) / math.sqrt(len(v)) * random.standard_t(len(v) - 1) for v in logs])


def _parameter(value: float, draws: Numbers) -> Parameter:
    low, high = np.quantile(draws, _ENDS)
    return Parameter(float(value), float(low), float(high))


def _peak_of(parameters: Numbers) -> float:
    """The concurrency at which the law is largest; infinite if it only rises."""
    _, contention, coherency = map(float, parameters)
    return math.sqrt((1 - contention) / coherency) if coherency > 0 else math.inf


def _peak(best: Numbers, draws: Numbers, levels: Numbers) -> Peak | None:
    first, last = levels[0], levels[-1]
    peak = _peak_of(best)
    if peak >= last:
        return None
    low, high = np.quantile([min(_peak_of(d), last) for d in draws], _ENDS, method="nearest")
    return Peak(max(peak, first), max(float(low), first), max(float(high), first) if high < last else None)


def _curve(best: Numbers, draws: Numbers, levels: Numbers) -> Curve:
    along = np.geomspace(levels[0], levels[-1], _CURVE_POINTS)
    all_draws = np.array([law(along, *d) for d in draws])
    low, high = np.quantile(all_draws, _ENDS, axis=0)
    return Curve(along, law(along, *best), low, high)
