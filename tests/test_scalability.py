"""The Universal Scalability Law: known parameters are found again, and there is no fit if the trials allow none."""

import math

import numpy as np
import pytest
from scipy import optimize
from scipy import stats as scipy_stats

from benchstudy.statistics import scalability
from benchstudy.statistics.scalability import UnsupportedFit, fit, law

LEVELS = (1, 5, 10, 20, 50, 100, 500, 1000)
# λ, σ, κ: an Amdahl-like server, one that collapses, one that is saturated from its first user on.
SERVERS = [(3000.0, 0.05, 1e-7), (800.0, 0.02, 2e-4), (4000.0, 0.9, 1e-6)]


def simulated(single, contention, coherency, *, noise=0.03, trials=6, levels=LEVELS, seed=1):
    random = np.random.default_rng(seed)
    return {n: law(np.float64(n), single, contention, coherency) * random.lognormal(0, noise, trials) for n in levels}


def test_the_law_has_the_limits_of_its_textbook():
    users = np.array([1.0, 2.0, 4.0, 1e12])
    assert law(users, 30.0, 0.0, 0.0) == pytest.approx(30 * users), "nothing is shared: linear"
    amdahl = law(users, 30.0, 0.05, 0.0)
    assert amdahl[0] == 30 and amdahl[-1] == pytest.approx(30 / 0.05), "Amdahl: at most 1/σ times one user"
    assert law(users, 30.0, 0.05, 0.01)[1:3] == pytest.approx([60 / 1.07, 120 / 1.27])


@pytest.mark.parametrize("truth", SERVERS)
def test_known_parameters_are_found_again(truth):
    found = fit(simulated(*truth, noise=1e-4), resamples=50)
    assert (found.single.value, found.contention.value) == pytest.approx(truth[:2], rel=0.01)
    assert found.coherency.value == pytest.approx(truth[2], rel=0.05, abs=2e-8)
    assert found.worst_miss < 0.001


def closest(levels, logs, start, **weights):
    """What scipy finds with numeric derivatives, within the bounds of the law, and its covariance."""

    def log_law(n, log_single, contention, coherency):
        return log_single + np.log(n / (1 + contention * (n - 1) + coherency * n * (n - 1)))

    exact = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-14)
    bounds, scale = ((-np.inf, 0, 0), (np.inf, 1, np.inf)), (1, 1e-2, 1e-5)
    start = (math.log(start[0]), *start[1:])
    found, covariance = optimize.curve_fit(
        log_law, levels, logs, start, bounds=bounds, x_scale=scale, **exact, **weights
    )
    return (math.exp(found[0]), *found[1:]), covariance


def scattered(truth, seed, levels=LEVELS):
    """Trials with a scatter of a tenth, of which each concurrency has another number."""
    random = np.random.default_rng(seed)
    return {n: law(np.float64(n), *truth) * random.lognormal(0, 0.1, 3 + i % 5) for i, n in enumerate(levels)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("truth", [*SERVERS, (3000.0, 0.0, 2e-5), (3000.0, 1e-3, 2e-7), (500.0, 1.0, 1e-5)])
def test_the_fit_is_the_closest_to_all_single_trials_also_where_a_parameter_is_zero(truth, seed):
    trials = scattered(truth, seed)
    levels = np.concatenate([np.full(len(values), float(n)) for n, values in trials.items()])
    expected, _ = closest(levels, np.log(np.concatenate([*trials.values()])), (truth[0], 0.1, 1e-5))
    found = fit(trials, resamples=1)
    assert (found.single.value, found.contention.value) == pytest.approx(expected[:2], rel=1e-3, abs=1e-7)
    assert found.coherency.value == pytest.approx(expected[2], rel=1e-3, abs=1e-9)
    misses = [law(np.float64(n), *expected) / scipy_stats.gmean(values) - 1 for n, values in trials.items()]
    assert found.worst_miss == pytest.approx(max(map(abs, misses)), rel=1e-3)


def test_intervals_are_those_of_the_covariance_of_the_fit():
    """Where all concurrencies scatter alike, the parameters have scipy's covariance."""
    truth, offsets = SERVERS[1], np.linspace(-0.2, 0.2, 41)  # so many that Student's t is nearly normal
    bumps = dict(zip(LEVELS, (0.03, -0.02, -0.04, 0.05, 0.01, 0.03, -0.02, -0.04), strict=True))
    trials = {n: law(np.float64(n), *truth) * np.exp(bumps[n] + offsets) for n in LEVELS}
    found = fit(trials, resamples=600)
    errors = {"sigma": np.full(len(LEVELS), offsets.std(ddof=1) / math.sqrt(41)), "absolute_sigma": True}
    levels, logs = np.array(LEVELS, dtype=float), [np.log(values).mean() for values in trials.values()]
    expected, covariance = closest(levels, logs, truth, **errors)
    middle = (math.log(expected[0]), *expected[1:])
    drawn = np.random.default_rng(1).multivariate_normal(middle, covariance, 20_000).T
    drawn[0] = np.exp(drawn[0])
    peaks = np.sqrt((1 - drawn[1]) / drawn[2])
    for shown, draws in zip(
        (found.single, found.contention, found.coherency, found.peak), (*drawn, peaks), strict=True
    ):
        low, high = np.quantile(draws, (0.025, 0.975))
        assert (shown.low, shown.high) == pytest.approx((low, high), abs=0.1 * (high - low))
        assert shown.high - shown.low == pytest.approx(high - low, rel=0.1)
    curves = np.array([law(found.curve.concurrency, *one) for one in drawn[:, :2000].T])
    low, high = np.quantile(curves, (0.025, 0.975), axis=0)
    assert found.curve.high - found.curve.low == pytest.approx(high - low, rel=0.15)
    assert (found.curve.low < found.curve.throughput).all() and (found.curve.throughput < found.curve.high).all()


@pytest.mark.parametrize(("n", "t"), [(3, 4.303), (4, 3.182), (6, 2.571), (30, 2.045)])
def test_the_spread_of_few_trials_is_uncertain_so_their_interval_is_that_of_students_t(n, t):
    """Only the trials at the largest concurrency differ, so they alone decide how well the coherency is known."""
    offsets = 1e-3 * np.linspace(-1, 1, n)

    def server(more):
        return {level: law(np.float64(level), *SERVERS[1]) * np.exp((level == 1000) * more) for level in LEVELS}

    found = fit(server(offsets) | {level: [value] * n for level, value in server(0.0).items() if level < 1000}, 2000)
    lower, higher = (fit({level: [value] * 3 for level, value in server(more).items()}, 1) for more in (1e-3, -1e-3))
    slope = (higher.coherency.value - lower.coherency.value) / 2e-3
    expected = 2 * t * slope * offsets.std(ddof=1) / math.sqrt(n)
    assert found.coherency.high - found.coherency.low == pytest.approx(expected, rel=0.12)


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


@pytest.mark.parametrize("truth", [(500.0, 0.98, 1e-6), (500.0, 1.0, 1e-3), (500.0, 1.1, 0.0)])
def test_contention_is_a_share_and_so_is_each_end_of_its_interval(truth):
    found = fit(simulated(*truth, levels=(1, 2, 4, 8)), resamples=100).contention
    assert 0 <= found.low <= found.high <= 1 and 0 <= found.value <= 1
    assert found.high == pytest.approx(1, abs=0.03)


def test_a_decline_that_asks_for_more_contention_than_all_has_all():
    falling = {n: [1e4 * v * n / (n - 1) for v in (0.98, 1.0, 1.02)] for n in (10, 20, 50, 100)}
    assert fit(falling, resamples=20).contention.value == pytest.approx(1, abs=1e-3)


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
    ("truth", "levels", "peak"),
    [
        # What the R package usl says of SPEC SDM91.
        ((90.0, 0.02773, 1.0437e-4), (1, 18, 36, 72, 108, 144, 216), 96.5),
        ((90.0, 0.02773, 1.0437e-4), (100, 144, 216, 300, 500), 100),
        ((500.0, 1.0, 0.01), (1, 2, 4, 8), 1),
        ((500.0, 1.0, 0.01), (2, 4, 8, 16), 2),
        ((90.0, 0.02773, 1.0437e-4), (1, 18, 36, 72, 96), None),
        ((90.0, 0.02773, 1.0437e-4), (1, 18, 36, 72, 97), 96.5),
        ((90.0, 0.02773, 0.0), (1, 18, 36, 72, 108), None),
    ],
)
def test_the_peak_is_where_the_law_is_largest_among_what_was_measured(truth, levels, peak):
    found = fit(simulated(*truth, noise=1e-6, levels=levels), resamples=20).peak
    if peak is None:
        assert found is None
    else:
        along = np.linspace(levels[0], levels[-1], 100_000)
        assert along[law(along, *truth).argmax()] == pytest.approx(peak, rel=1e-3)
        assert (found.concurrency, found.low, found.high) == pytest.approx((peak, peak, peak), rel=1e-2)


@pytest.mark.parametrize(("off", "misses"), [(0.14, False), (0.16, True)])
def test_a_law_may_miss_a_concurrency_by_up_to_15_percent(off, misses):
    """Only the last concurrency is off. With many trials at all others, the law does not follow it."""
    trials = {n: list(law(np.float64(n), 100.0, 0.05, 0.0) * np.ones(300)) for n in (1, 2, 4, 8, 16)}
    trials[8] = [value / (1 + off) for value in trials[8][:3]]
    if misses:
        with pytest.raises(UnsupportedFit, match=r"at concurrency 8 by 1[56].\d+ %, which is more than 15 %"):
            fit(trials, resamples=2)
    else:
        assert fit(trials, resamples=2).worst_miss == pytest.approx(off, rel=0.05)


@pytest.mark.parametrize(
    ("trials", "why"),
    [
        ({1: [1.0] * 6, 5: [4.0] * 6, 10: [6.0] * 6}, "3 concurrencies with a throughput; a fit needs 4"),
        ({1: [1.0] * 6, 5: [4.0] * 6, 10: [6.0] * 6, 100: []}, "3 concurrencies"),
        ({1: [1.0] * 6, 5: [4.0] * 2, 10: [6.0] * 6, 20: [7.0] * 6}, "fewer than 3 trials at concurrency 5"),
        ({5: [4.0] * 6}, "1 concurrency with a throughput"),
        ({5: []}, "0 concurrencies with a throughput"),
        ({1: [1.0] * 2, 5: [4.0] * 2, 10: [6.0] * 3, 20: [7.0] * 6}, "fewer than 3 trials at concurrency 1, 5$"),
        ({0.5: [1.0] * 3, 5: [4.0] * 3, 10: [6.0] * 3, 20: [7.0] * 6}, "0.5: the law starts at one user"),
        ({1: [1.0] * 6, 5: [4.0, 4.0, math.nan], 10: [6.0] * 6, 20: [7.0] * 6}, "not a number"),
        ({1: [1.0] * 6, 5: [4.0, 4.0, -1.0], 10: [6.0] * 6, 20: [7.0] * 6}, "throughput that is zero"),
        ({1: [1.0] * 6, 5: [0.0] * 6, 10: [6.0] * 6, 20: [7.0] * 6}, "throughput that is zero"),
        # A cliff: nothing changes until 50 users, and from there on a tenth remains.
        ({1: [1000.0] * 6, 5: [1000.0] * 6, 20: [1000.0] * 6, 50: [100.0] * 6, 100: [100.0] * 6}, "the law misses"),
        # A single user would be infinitely fast: 1/λ is zero.
        ({n: [1e4 * v / (n - 1) for v in (0.98, 1.0, 1.02)] for n in (10, 20, 50, 100)}, "leave open what one user"),
        ({n: [1e4 * v / n / (n - 1) for v in (0.98, 1.0, 1.02)] for n in (2, 3, 4, 5)}, "a lower concurrency"),
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
