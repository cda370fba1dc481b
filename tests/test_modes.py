"""Two groups behind one median: found in as few trials as a study has, and not in the spread of one group."""

import numpy as np
import pytest

from benchstudy.lints import words
from benchstudy.lints.model import Figure, Group, Material
from benchstudy.lints.summaries import two_groups
from benchstudy.model.units import BASE_UNITS
from benchstudy.report import human
from benchstudy.statistics.modes import two_modes

# What a generator of 300 requests per second gave in six blocks of one session: median latencies in s.
SEEN = (0.204, 0.198, 0.0031, 0.201, 0.0029, 0.207)


def lasting(random, milliseconds):
    """Durations in s as differences of times in whole milliseconds, so that equal ones differ in their last digits."""
    began = random.integers(10**7, size=len(milliseconds)) / 1000
    return np.round(began + milliseconds / 1000, 3) - began


UNIMODAL = {
    "normal": lambda random, n: random.normal(1, 0.1, n),
    "skewed": lambda random, n: random.lognormal(0, 0.3, n),
    "heavy tails": lambda random, n: np.abs(1 + 0.1 * random.standard_t(3, n)) + 1e-9,
    "flat": lambda random, n: random.uniform(1, 2, n),
    "whole milliseconds": lambda random, n: np.round(3.5 * random.lognormal(0, 0.05, n)),
    "differences of times": lambda random, n: lasting(random, np.round(3.5 * random.lognormal(0, 0.05, n))),
    "counts": lambda random, n: 1.0 + random.poisson(3, n),
}


def test_four_trials_of_200_ms_and_two_of_3_are_two_modes():
    found = two_modes(SEEN)
    assert (found.low_n, found.high_n) == (2, 4)
    assert (found.low, found.high) == pytest.approx((0.003, 0.2025), rel=1e-2)


def test_two_modes_in_whole_milliseconds_are_told_as_they_were_printed():
    found = two_modes((3.0, 3.0, 201.0, 201.0, 198.0, 207.0))
    assert (found.low_n, found.low, found.high_n, found.high) == pytest.approx((2, 3, 4, 201))


@pytest.mark.parametrize(
    "values",
    [
        SEEN[:5],  # too few to tell
        (3.0, 200.0, 201.0, 202.0, 203.0, 204.0),  # one outlier
        (1.0, 1.0, 1.0, 1.1, 1.1, 1.1),  # a clock that rounds: too close to mislead anybody
        (0.0, 0.0, 0.0, 0.0, 4.0, 5.0),  # counts of rare events
        (1.0, 1.0, 1.0, 1.0, float("inf"), float("inf")),
        (2.0,) * 12,
        (-0.5, -0.5, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0),  # no ratio
    ],
)
def test_what_is_no_two_modes(values):
    assert two_modes(values) is None


@pytest.mark.parametrize("shape", UNIMODAL)
@pytest.mark.parametrize("n", [6, 10, 30])
def test_of_one_mode_hardly_ever_two_are_made(shape, n):
    random = np.random.default_rng(7)
    assert sum(two_modes(UNIMODAL[shape](random, n)) is not None for _ in range(300)) <= 0.04 * 300


@pytest.mark.parametrize(("gap", "found"), [(0.29, False), (0.31, True)])
def test_a_gap_counts_that_is_three_times_as_wide_as_the_wider_group(gap, found):
    """As logarithms; the wider group is 0.1 wide, above or below the gap."""
    low, high = np.array([0.0, 0.04, 0.05, 0.1]), np.array([0.1, 0.11])
    for logs in (np.r_[low, high + gap], np.r_[-high - gap, -low]):
        modes = two_modes(np.exp(logs))
        assert (modes is not None) == found
        assert modes is None or {modes.low_n, modes.high_n} == {4, 2}


@pytest.mark.parametrize(("ratio", "found"), [(1.24, False), (1.26, True)])
@pytest.mark.parametrize("each", [3, 20])
def test_groups_less_than_a_quarter_apart_mislead_nobody(each, ratio, found):
    group = np.linspace(1, 1.0001, each)
    assert (two_modes([*group, *(ratio * group)]) is not None) == found


def test_groups_that_overlap_are_parted_where_they_vary_least():
    random, parted = np.random.default_rng(3), 0
    for _ in range(20):
        logs = np.sort(np.r_[random.normal(0, 0.1, 100), random.normal(1.5, 0.4, 60)])
        within = {at: np.var(logs[:at]) * at + np.var(logs[at:]) * (160 - at) for at in range(2, 159)}
        found = two_modes(np.exp(logs))
        parted += found is not None
        assert found is None or found.low_n == min(within, key=within.get)
    assert parted >= 10


def test_the_dip_test_counts_from_ten_trials_on():
    """Four of each mode are alike. A fifth one beside each makes both modes too wide for the gap between them."""
    ten = (1.0, 1.02, 1.04, 1.06, 1.3, 2.0, 2.02, 2.04, 2.06, 2.5)
    found = two_modes(ten)
    assert (found.low_n, found.low, found.high_n, found.high) == pytest.approx((5, 1.04, 5, 2.04))
    assert two_modes(ten[1:]) is None


def test_modes_that_overlap_are_found_among_many_by_the_dip_test():
    random = np.random.default_rng(7)
    values = np.concatenate([random.normal(1.0, 0.08, 20), random.normal(1.6, 0.12, 30)])
    assert np.diff(np.sort(np.log(values))).max() < 0.2, "no gap parts them"
    found = two_modes(values)
    assert found is not None and abs(found.low_n - 20) <= 2 and 1.5 < found.high / found.low < 1.75


def test_a_lint_names_case_metric_and_both_modes():
    group = Group("", {"server": "files", "rate": "300/s"}, {"latency_p50": Figure(0.2, "s", values=SEEN)})
    material = Material("http_concurrency", "measured", (group,), headlines=("latency_p50",))
    assert list(two_groups.find(material)) == [
        ("files, 300/s", "latency p50: 2 trials near 3 ms, 4 near 202 ms"),
    ]


@pytest.mark.parametrize("unit", BASE_UNITS)
def test_findings_print_figures_with_their_unit(unit):
    printed = [text.lstrip("0123456789.") for text in (words.of_unit(unit)(2.5), human.quantity(2.5, unit))]
    assert printed[0] == printed[1]
