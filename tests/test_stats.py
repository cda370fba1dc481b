"""Estimates against values that were computed by hand or by counting."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from tidy_fixture import Tables

from benchstudy.report.exhibits import cells
from benchstudy.statistics.stats import lint_summary, mean_interval, precision, smallest_n, summarise, supported


@pytest.mark.parametrize(("percentile", "n"), [(50, 6), (75, 13), (90, 36), (95, 72), (99, 368), (99.9, 3688)])
def test_smallest_n_of_a_percentile(percentile, n):
    assert smallest_n(percentile) == n
    assert supported(percentile, n)
    assert not supported(percentile, n - 1)


@pytest.mark.parametrize("percentile", [0, 100, -1, 120])
def test_a_percentile_outside_its_range_is_refused(percentile):
    with pytest.raises(ValueError, match="between 0 and 100"):
        smallest_n(percentile)


@pytest.mark.parametrize("n", [6, 7, 10, 25, 60])
def test_the_interval_covers_the_median_as_often_as_it_says(n):
    """Of the values 1..n, the interval's ends are ranks; their coverage follows from the binomial distribution."""
    summary = summarise(range(1, n + 1))
    low, high = int(summary.interval_low), int(summary.interval_high)
    coverage = binom.cdf(high - 1, n, 0.5) - binom.cdf(low - 1, n, 0.5)
    assert coverage >= 0.95
    # One rank less on both sides would be too narrow, unless the ends are not symmetric: then the interval is exact.
    narrower = binom.cdf(high - 2, n, 0.5) - binom.cdf(low, n, 0.5)
    assert narrower < 0.95


def test_a_summary_of_few_values_has_no_interval_and_says_why():
    summary = summarise([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (summary.n, summary.mean, summary.median) == (5, 3.0, 3.0)
    assert summary.sd == pytest.approx(math.sqrt(2.5))
    assert summary.interval_low is None and summary.interval_high is None and summary.method == ""
    assert "n too small" in summary.note


def test_failed_trials_are_counted_and_never_a_number():
    summary = summarise([1.0, None, 3.0])
    assert (summary.n, summary.mean) == (2, 2.0)
    assert "1 of 3 trials failed" in summary.note


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([], "no trial"),
        ([None], "the only trial failed"),
        ([None, None], "all 2 trials failed"),
        ([1.0, math.inf], "infinite"),
        ([1.0, math.nan], "infinite or not a number"),
        ([1.0, -math.inf, None], "infinite or not a number"),
        ([1.7e308] * 7, "too large to add"),
        ([1e200, 2e200, 3e200], "too large to add"),
    ],
)
def test_values_that_allow_no_estimate_say_so_in_words(values, note):
    summary = summarise(values)
    assert summary.n == len([value for value in values if value is not None])
    assert summary.mean is None and summary.median is None and summary.interval_low is None
    assert note in summary.note


def test_equal_values_are_told_from_precise_ones():
    for value in (0.25, 0.1, 0.013, 3.3e-7):
        summary = summarise([value] * 11)
        assert (summary.mean, summary.sd) == (value, 0.0), "not a deviation of 1e-17, from rounding"
        assert (summary.interval_low, summary.interval_high) == (value, value)
        assert "all values are equal" in summary.note


def test_an_interval_without_a_width_is_told_from_a_precise_one():
    assert summarise([1.0] * 9 + [2.0]).note == "most values are equal: the clock or the tool may round"
    added = [0.3, 0.1 + 0.2] * 5  # which differ in the last bit
    assert summarise(added).note == "all values are equal: the clock or the tool may round"
    assert summarise([*added, 0.4]).note == "most values are equal: the clock or the tool may round"
    assert summarise([1.0] * 5 + [2.0] * 5).note == ""


def test_the_order_of_trials_changes_no_digit():
    values = [0.1, 1e9, 0.3, 7e-9, 12.5, 1e9 / 3, 0.7]
    assert len({(s.mean, s.sd) for s in map(summarise, itertools.permutations(values))}) == 1


def test_one_value_has_no_deviation():
    assert summarise([2.0]).sd is None


def test_values_of_different_units_have_no_estimate():
    summary = summarise([1.0, 1000.0, None], ["s", "ms"])
    assert summary.median is None and summary.note == "values in ms and in s: no estimate over different units"
    assert summarise([1.0, 2.0], ["s", "s"]).median == 1.5


def test_one_zero_is_a_value_like_any_other():
    summary = summarise([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert (summary.median, summary.interval_low, summary.note) == (2.5, 0.0, "")
    assert precision(summarise([0.0] * 4 + [1.0] * 2)) is None, "nothing is a share of zero"
    assert precision(summarise([0.0] * 6)) == 0.0, "no further trial could make an interval without a width narrower"


def test_precision_is_half_the_width_over_the_median_of_whatever_sign():
    summary = summarise([1.0, 2.0, 3.0, 5.0, 6.0, 9.0])
    assert (summary.median, summary.interval_low, summary.interval_high, precision(summary)) == (4.0, 1.0, 9.0, 1.0)
    assert precision(summarise([-1.0, -2.0, -3.0, -5.0, -6.0, -9.0])) == 1.0
    assert precision(summarise([1.0, 2.0])) is None
    for end in ("interval_low", "interval_high"):
        assert precision(replace(summary, **{end: None})) is None


@pytest.mark.long
@pytest.mark.parametrize(
    "drawn",
    [
        lambda random, n: random.normal(10, 1, n),
        lambda random, n: np.exp(random.normal(0, 0.3, n)),
        lambda random, n: np.where(random.random(n) < 0.5, 1.0, 1.6) + random.normal(0, 0.05, n),
        lambda random, n: random.standard_t(3, n),
    ],
    ids=["normal", "lognormal", "bimodal", "heavy tails"],
)
@pytest.mark.parametrize("n", [6, 10, 25])
def test_the_interval_of_the_median_covers_it_95_times_of_100(drawn, n):
    random = np.random.default_rng(n)
    truth = float(np.median(drawn(random, 400_000)))
    found = [summarise(drawn(random, n)) for _ in range(2000)]
    covered = sum(made.interval_low <= truth <= made.interval_high for made in found) / len(found)
    assert 0.94 <= covered <= 0.99, "an exact interval of so few ranks may cover a little more than it says"


@pytest.mark.long
@pytest.mark.parametrize(("sigma", "least"), [(0.0, 0.90), (0.3, 0.89)])
def test_the_interval_of_a_mean_covers_it_about_as_often_as_it_says(sigma, least):
    random = np.random.default_rng(8)
    truth = math.exp(sigma**2 / 2) if sigma else 0.0
    covered = 0
    for _ in range(150):
        values = np.exp(random.normal(0, sigma, 25)) if sigma else random.normal(0, 1, 25)
        low, high = mean_interval(values)
        covered += low <= truth <= high
    assert least <= covered / 150 <= 0.99


def test_the_interval_of_a_mean_is_the_same_every_time_and_on_every_scale():
    values = [*range(1, 20), 60.0]
    low, high = mean_interval(values)
    assert (low, high) == mean_interval(values)
    assert low < sum(values) / len(values) < high
    assert high - sum(values) / 20 > sum(values) / 20 - low, "skewed as the values are"
    for scale in (1e-300, 1e300):
        assert mean_interval([scale * v for v in values]) == pytest.approx((scale * low, scale * high), rel=0.01)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1.0] * 25, "not all equal"),
        ([*range(24), math.inf], "finite"),
        (range(19), "19 values: an interval of the mean needs at least 20"),
    ],
)
def test_the_interval_of_a_mean_refuses_what_it_cannot_resample(values, why):
    with pytest.raises(ValueError, match=why):
        mean_interval(list(values))


def test_an_impossible_summary_is_named():
    (problem,) = lint_summary("write, 10GB", 70.66, 7.05, 80.50, 0.01)
    assert "write, 10GB" in problem and "1.4 standard deviations" in problem


@pytest.mark.parametrize(
    ("mean", "sd", "median"),
    [(1.05, 0.0, 1.05), (0.07353, 0.18232, 0.01691), (1.0, 0.005, 1.01)],
)
def test_possible_summaries_are_left_alone(mean, sd, median):
    """The last is impossible as printed, and possible before it was rounded to two decimals."""
    assert lint_summary("x", mean, sd, median, 0.01) == []


@pytest.mark.parametrize(("median", "possible"), [(1.019, True), (1.021, False), (0.981, True), (0.979, False)])
def test_a_median_may_be_a_deviation_away_and_what_rounding_adds(median, possible):
    """Each of three figures may be half a digit off: 0.005 + 3 · 0.005."""
    assert (lint_summary("x", 1.0, 0.005, median, 0.01) == []) == possible


def test_without_any_deviation_mean_and_median_are_one():
    (problem,) = lint_summary("x", 1.0, 0.0, 2.0)
    assert "lie more than a deviation of zero apart" in problem
    assert lint_summary("x", 1.0, 0.0, 1.0) == []


def test_a_negative_deviation_is_named():
    assert "negative" in lint_summary("x", 1.0, -0.1, 1.0)[0]


# -- what the cell of a page says -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "lines", "title"),
    [
        ([(0.1, "s")] * 2 + [(0.2, "s")], ("100 ms", "n = 3: too small for an interval"), "n too small"),
        ([None] * 3, ("failed: no space left (3 of 3)",), ""),
        ([(0.1, "s")] * 6, ("100 ms", "n = 6, 95 %: 100–100 ms"), "the clock or the tool may round"),
        ([(0.0, "s")] + [(0.1, "s")] * 5, ("100 ms", "n = 6, 95 %: 0–100 ms"), ""),
        ([(math.inf, "s")] + [(0.1, "s")] * 5, ("a value is infinite or not a number: no estimate",), ""),
        ([(100.0, "ms")] + [(0.1, "s")] * 5, ("values in ms and in s: no estimate over different units",), ""),
    ],
    ids=["too few", "all failed", "all equal", "one zero", "infinite", "different units"],
)
def test_a_cell_says_in_words_what_trials_do_not_support(tmp_path, given, lines, title):
    tables = Tables(tmp_path, "study", "file_size")
    for block, value in enumerate(given, start=1):
        failed = {} if value else {"status": "failed", "cause": "no space left"}
        values = {"duration": value} if value else {}
        tables.add({"op": "write"}, block, values, **failed)
    results = tables.results()
    (estimate,) = results.estimates("duration")
    cell = cells.estimate_cell(results, estimate, "median")
    assert (cell.lines, title in cell.title) == (lines, True)
