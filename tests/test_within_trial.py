"""Intervals from within one trial: how often they cover the true value, and when there is none."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.signal import lfilter

from benchstudy.statistics import within_trial

TRIALS = 200


def remembering(random, n, memory):
    """Samples of mean zero that each keep a share of the previous one."""
    return lfilter([1], [1, -memory], random.normal(size=n + 200))[200:]


def moving_rates(random, n, width):
    """Rates over a moving window of this many samples, like Prometheus' panels; their mean is zero."""
    total = np.cumsum(random.exponential(size=n + width))
    return (total[width:] - total[:-width]) / width - 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "n", "least"),
    [
        ("0", 100, 90), ("0.5", 100, 85), ("0.9", 200, 84), ("-0.4", 60, 91),
        ("window of 5", 60, 84), ("window of 15", 200, 86), ("0", 20, 90),
    ],
)  # fmt: skip
def test_intervals_from_within_a_trial_cover_what_they_say(kind, n, least):
    """Also for samples that remember previous ones, where a bootstrap of single samples covers half as often."""
    random, covered = np.random.default_rng(3), 0
    for _ in range(TRIALS):
        width = kind.removeprefix("window of ")
        samples = remembering(random, n, float(kind)) if width == kind else moving_rates(random, n, int(width))
        low, high = within_trial.mean_interval(10 + samples)
        covered += low <= 10 <= high
    assert least <= 100 * covered / TRIALS <= 99


@pytest.mark.parametrize(("steps", "least"), [(12, 84), (30, 84)])
def test_the_interval_of_a_rate_covers_what_it_says(steps, least):
    random, covered = np.random.default_rng(5), 0
    for _ in range(TRIALS):
        took = 1 + 0.2 * random.random(steps)
        grew = took * 1000 * (1 + 0.1 * remembering(random, steps, 0.3))
        low, high = within_trial.rate_interval(grew, took)
        covered += low <= 1000 <= high
    assert least <= 100 * covered / TRIALS <= 99


def test_single_samples_resampled_alone_would_cover_far_less_often():
    """The reason for blocks: the same samples in another order have the interval of independent ones."""
    random = np.random.default_rng(1)
    samples = remembering(random, 200, 0.9)
    low, high = within_trial.mean_interval(samples)
    other_low, other_high = within_trial.mean_interval(random.permutation(samples))
    assert high - low > 2 * (other_high - other_low)


def test_two_trials_are_resampled_apart():
    samples = 10 + np.random.default_rng(2).normal(size=100)
    low, high = within_trial.ratio_interval(samples, samples)
    assert low < 0.99 and high > 1.01, "the same draws on both sides would say that they are exactly alike"


@pytest.mark.parametrize(("base_unit", "new_unit"), [(1e-3, 1.0), (1.0, 1e-3), (1e3, 1e3)])
def test_the_interval_of_a_ratio_changes_with_its_units_as_the_ratio_does(base_unit, new_unit):
    random = np.random.default_rng(6)
    base, new = 10 + random.normal(size=50), 12 + random.normal(size=50)
    ends = np.array(within_trial.ratio_interval(base, new)) * new_unit / base_unit
    assert within_trial.ratio_interval(base * base_unit, new * new_unit) == pytest.approx(tuple(ends))
    assert ends[0] < 1.2 * new_unit / base_unit < ends[1]


def test_the_interval_is_the_same_in_every_process():
    asked = "from benchstudy.statistics import within_trial as w; print(w.mean_interval([v % 7 for v in range(50)]))"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert told == f"{within_trial.mean_interval([v % 7 for v in range(50)])}\n"


def test_samples_without_spread_or_too_few_have_no_interval():
    assert within_trial.mean_interval([5.0] * 100) is None and within_trial.mean_interval([1.0, 2.0, 3.0]) is None
    assert within_trial.mean_interval([1.0, 2.0] * 9 + [math.inf, math.nan, 3.0]) is None, "19 samples are numbers"
    assert within_trial.ratio_interval([0.0, 1.0, -1.0] * 20, [1.0, 2.0, 3.0] * 20) is None
    assert within_trial.rate_interval([512] * 9, [1.0] * 9) is None
    assert within_trial.rate_interval([500, 512, 524] * 3, [1.0] * 9) is None
    assert within_trial.rate_interval([500, 524] * 5, [1.0] * 10) is not None
    assert within_trial.rate_interval([512, *[500] * 11], [0.0, *[1.0] * 11]) is None
    assert within_trial.rate_interval([512] * 30, [1.0] * 30) is None
    took = np.linspace(0.9, 1.1, 30)
    assert within_trial.rate_interval(7e9 * took, took) is None, "what floats round is no spread"
    assert within_trial.rate_interval([0] * 30, [1.0] * 30) is None  # nothing grew, at any step


def test_hours_of_samples_have_the_interval_of_their_stretches():
    samples = remembering(np.random.default_rng(4), 10_001, 0.9)
    low, high = within_trial.mean_interval(100 + samples)
    assert low < 100 < high
    assert high - low == pytest.approx(2 * 1.96 * 10 / math.sqrt(10_000), rel=0.3), "of AR(1), that is known"


def test_a_block_is_three_times_as_long_as_a_sample_is_remembered():
    """The autocorrelation time of a first-order autoregression is (1 + r) / (1 - r)."""
    samples = remembering(np.random.default_rng(5), 2_000, 0.8)
    assert within_trial.block_length(samples) == pytest.approx(3 * 1.8 / 0.2, rel=0.2)


def test_a_rate_that_was_nothing_for_half_of_the_time_does_not_shrink():
    low, high = within_trial.rate_interval([1000] * 6 + [0] * 6, [1.0] * 12)
    assert low == 0 and high > 500


def test_intervals_are_those_of_another_stationary_bootstrap():
    """The result of arch 8.0.0 (StationaryBootstrap) for these samples, when it drew the indices."""
    random = np.random.default_rng(7)
    base, new = 10 + np.cumsum(random.normal(size=60)) * 0.3, 12 + random.normal(size=90)
    assert within_trial.mean_interval(base) == pytest.approx((-1.2216705698554566, 15.29780948993909), rel=1e-12)
    assert within_trial.ratio_interval(base, new) == pytest.approx((0.02756881421063495, 4.142519009612611), rel=1e-12)
    rate = within_trial.rate_interval(new[:40], np.full(40, 2.0))
    assert rate == pytest.approx((5.785719658577758, 6.074661515968899), rel=1e-12)


@pytest.mark.long
def test_libraries_of_statistics_are_imported_only_when_they_are_asked_for():
    """The imports take a second, and neither the command line nor crates nor most pages need them."""
    names = ("commands.cli", "statistics.change_points", "families.log_write.family", "families.load_test.page.users")
    names += ("provenance.crate", "provenance.reproduce")
    modules = ", ".join(f"benchstudy.{name}" for name in names)
    asked = f"import sys, {modules}; print({{'pandas', 'ruptures', 'scipy.stats'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout == "set()\n"
