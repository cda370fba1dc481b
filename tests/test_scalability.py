"""The Universal Scalability Law: known parameters are found again, and there is no fit if the trials allow none."""

import numpy as np
import pytest

from benchstudy.statistics import scalability
from benchstudy.statistics.scalability import UnsupportedFit, fit, law

LEVELS = (1, 5, 10, 20, 50, 100, 500, 1000)
# λ, σ, κ: an Amdahl-like server, one that collapses, one that is saturated from its first user on.
SERVERS = [(3000.0, 0.05, 1e-7), (800.0, 0.02, 2e-4), (4000.0, 0.9, 1e-6)]


def simulated(single, contention, coherency, *, noise=0.03, trials=6, levels=LEVELS, seed=1):
    random = np.random.default_rng(seed)
    return {n: law(np.float64(n), single, contention, coherency) * random.lognormal(0, noise, trials) for n in levels}


@pytest.mark.parametrize("truth", SERVERS)
def test_known_parameters_are_found_again(truth):
    found = fit(simulated(*truth, noise=1e-4), resamples=50)
    assert (found.single.value, found.contention.value) == pytest.approx(truth[:2], rel=0.01)
    assert found.coherency.value == pytest.approx(truth[2], rel=0.05, abs=2e-8)
    assert found.worst_miss < 0.001


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    """95 % of 60 is 57; fewer than 51 would have a probability below 0.001, so a broken interval shows."""
    truth, hits, curve_hits, studies = SERVERS[1], np.zeros(3), 0, 60
    for seed in range(studies):
        found = fit(simulated(*truth, seed=seed), resamples=200, seed=seed)
        shown = (found.single, found.contention, found.coherency)
        hits += [p.low <= value <= p.high for p, value in zip(shown, truth, strict=True)]
        middle = len(found.curve.concurrency) // 2
        expected = law(found.curve.concurrency[middle], *truth)
        curve_hits += found.curve.low[middle] <= expected <= found.curve.high[middle]
    assert (hits >= 51).all() and curve_hits >= 51, (hits, curve_hits)


def test_the_curve_never_leaves_what_was_measured():
    found = fit(simulated(*SERVERS[1], levels=(5, 10, 50, 100)), resamples=50)
    assert (found.curve.concurrency[0], found.curve.concurrency[-1]) == pytest.approx((5, 100))
    assert found.single is None, "one user alone was not measured"


def test_a_peak_is_told_only_where_throughput_was_seen_to_fall():
    collapsing = fit(simulated(*SERVERS[1]), resamples=100)
    assert collapsing.peak.low <= (0.98 / 2e-4) ** 0.5 <= collapsing.peak.high
    assert fit(simulated(*SERVERS[1], levels=(1, 5, 10, 20)), resamples=50).peak is None
    unclear = fit(simulated(3000.0, 0.05, 0.0, noise=0.05, seed=3), resamples=100)
    assert unclear.peak is None or unclear.peak.high is None


@pytest.mark.parametrize(
    ("trials", "why"),
    [
        ({1: [1.0] * 6, 5: [4.0] * 6, 10: [6.0] * 6}, "3 concurrencies with a throughput; a fit needs 4"),
        ({1: [1.0] * 6, 5: [4.0] * 6, 10: [6.0] * 6, 100: []}, "3 concurrencies"),
        ({1: [1.0] * 6, 5: [4.0] * 2, 10: [6.0] * 6, 20: [7.0] * 6}, "fewer than 3 trials at concurrency 5"),
        ({1: [1.0] * 6, 5: [0.0] * 6, 10: [6.0] * 6, 20: [7.0] * 6}, "throughput that is zero"),
        # A cliff: nothing changes until 50 users, and from there on a tenth remains.
        ({1: [1000.0] * 6, 5: [1000.0] * 6, 20: [1000.0] * 6, 50: [100.0] * 6, 100: [100.0] * 6}, "the law misses"),
        # Better than linear, which the law cannot express.
        ({1: [1.0] * 6, 2: [4.0] * 6, 4: [16.0] * 6, 8: [64.0] * 6}, "the law misses"),
    ],
)
def test_no_fit_where_the_trials_allow_none(trials, why):
    with pytest.raises(UnsupportedFit, match=why):
        fit(trials, resamples=20)


def test_the_same_trials_give_the_same_interval():
    trials = simulated(*SERVERS[0])
    assert fit(trials, resamples=50).contention == fit(trials, resamples=50).contention
    assert scalability.fit(trials, resamples=50, seed=2).contention != fit(trials, resamples=50).contention
