"""Changes of level within a series: found where there is one, and rarely where there is none."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from benchstudy import change_points

SERIES = 150


def remembering(random, n, memory, noise=None):
    noise = random.normal(size=n + 200) if noise is None else noise
    return lfilter([1], [1, -memory], noise)[200:]


def moving_rates(random, n, width):
    total = np.cumsum(random.exponential(size=n + width))
    return (total[width:] - total[:-width]) / width


QUIET = {
    "white": lambda random, n: random.normal(size=n),
    "skewed": lambda random, n: np.exp(random.normal(size=n)),
    "wild": lambda random, n: random.standard_t(2, size=n),
    "counts": lambda random, n: random.poisson(1, size=n).astype(float),
    "remembers 0.3": lambda random, n: remembering(random, n, 0.3),
    "remembers 0.5": lambda random, n: remembering(random, n, 0.5),
    "remembers 0.7": lambda random, n: remembering(random, n, 0.7),
    "remembers 0.9": lambda random, n: remembering(random, n, 0.9),
    "a collector's saw": lambda random, n: (np.arange(n) + random.integers(20)) % 20 + 2 * random.normal(size=n),
}


@pytest.mark.parametrize("kind", QUIET)
@pytest.mark.parametrize(("n", "most"), [(40, 6), (100, 5), (600, 2)])
def test_a_series_that_only_makes_noise_rarely_has_a_change(kind, n, most):
    random = np.random.default_rng(1)
    told = [change_points.find(range(n), QUIET[kind](random, n)) for _ in range(SERIES)]
    if (kind, n) == ("remembers 0.9", 40):
        most = 16  # two or three samples' worth, as docs/statistics.md says
    assert 100 * sum(made.steady is False for made in told) / SERIES <= most


@pytest.mark.parametrize(("n", "width"), [(300, 5), (1800, 30)])
def test_rates_over_a_moving_window_have_no_changes_of_their_own(n, width):
    random = np.random.default_rng(2)
    told = [change_points.find(range(n), moving_rates(random, n, width), memory=width) for _ in range(SERIES)]
    assert sum(made.steady is False for made in told) / SERIES <= 0.03
    assert sum(made.steady is True for made in told) / SERIES >= 0.5, "it can tell that most are steady"


@pytest.mark.parametrize(
    ("kind", "n", "size", "least"),
    [
        ("white", 60, 2, 65), ("white", 600, 0.7, 90), ("skewed", 100, 2, 95), ("remembers 0.5", 300, 2, 85),
        ("remembers 0.9", 3000, 1.5, 80),
    ],
)  # fmt: skip
def test_a_shift_is_found_where_it_is(kind, n, size, least):
    """`size` in standard deviations of single samples."""
    random, right = np.random.default_rng(3), 0
    for _ in range(50):
        values = QUIET[kind](random, n)
        values = 100 + 5 * values / values.std()
        values[n // 3 :] += 5 * size
        made = change_points.find(range(n), values)
        right += len(made.found) == 1 and abs(made.found[0].at - n / 3) <= 0.08 * n
    assert 100 * right / 50 >= least


def test_a_change_says_when_and_from_what_to_what():
    random = np.random.default_rng(4)
    times = 1000 + 0.5 * np.arange(400)
    values = np.where(times < 1080, 20.0, 30.0) + random.normal(size=400)
    (change,) = change_points.find(times, values).found
    assert abs(change.at - 1080) <= change.blur <= 2.0
    assert (change.before, change.after) == (pytest.approx(20, abs=0.3), pytest.approx(30, abs=0.3))
    assert change.relative == pytest.approx(0.5, abs=0.03)


def test_a_stretch_apart_has_two_changes_and_single_spikes_have_none():
    random = np.random.default_rng(5)
    values = 10 + random.normal(size=100)
    values[40:60] += 6
    assert [round(change.at, -1) for change in change_points.find(range(100), values).found] == [40, 60]
    spiky = 10 + random.normal(size=100)
    spiky[[7, 31, 62, 63, 90]] += 1000
    assert change_points.find(range(100), spiky).steady


def test_a_drift_is_no_stair():
    values = 100 + 0.5 * np.arange(120) + np.random.default_rng(6).normal(scale=3, size=120)
    made = change_points.find(range(120), values)
    assert made.found == () and made.steady is False
    assert (made.drift.before, made.drift.after) == (pytest.approx(106, abs=3), pytest.approx(154, abs=3))


def test_a_clean_step_between_two_constants_is_found():
    (change,) = change_points.find(range(50), [145.0] * 20 + [154.0] * 30).found
    assert (change.at, change.before, change.after) == (20, 145, 154)


@pytest.mark.parametrize(
    ("values", "steady", "why"),
    [
        ([1.0, 2.0] * 10, None, "20 samples, and 30 are the least"),
        ([3.0] * 100, True, ""),
        ([*range(20), *[math.inf, math.nan] * 20], None, "20 samples"),
        (list(np.cumsum(np.random.default_rng(0).normal(size=40))), None, "depend too much on the ones before"),
    ],
)
def test_what_cannot_be_told_is_said_in_words(values, steady, why):
    made = change_points.find(range(len(values)), values)
    assert made.steady is steady and why in made.why and not made.found


def test_a_change_from_zero_has_no_percentage():
    (change,) = change_points.find(range(60), [0.0] * 30 + [5.0] * 30).found
    assert change.relative is None and (change.before, change.after) == (0, 5)


def test_times_and_values_belong_together():
    with pytest.raises(ValueError, match="3 times and 2 values"):
        change_points.find([0, 1, 2], [1.0, 2.0])
