"""Two groups behind one median: found in as few trials as a study has, and not in the spread of one group."""

import numpy as np
import pytest

from benchstudy.lints.model import Figure, Group, Material
from benchstudy.lints.summaries import two_groups
from benchstudy.statistics.modes import two_modes

# What a generator of 300 requests per second gave in six blocks of one session: median latencies in s.
SEEN = (0.204, 0.198, 0.0031, 0.201, 0.0029, 0.207)
UNIMODAL = {
    "normal": lambda random, n: random.normal(1, 0.1, n),
    "skewed": lambda random, n: random.lognormal(0, 0.3, n),
    "heavy tails": lambda random, n: np.abs(1 + 0.1 * random.standard_t(3, n)) + 1e-9,
    "flat": lambda random, n: random.uniform(1, 2, n),
}


def test_four_trials_of_200_ms_and_two_of_3_are_two_modes():
    found = two_modes(SEEN)
    assert (found.low_n, found.high_n) == (2, 4)
    assert (found.low, found.high) == pytest.approx((0.003, 0.2025), rel=1e-2)


@pytest.mark.parametrize(
    "values",
    [
        SEEN[:5],  # too few to tell
        (3.0, 200.0, 201.0, 202.0, 203.0, 204.0),  # one outlier
        (1.0, 1.0, 1.0, 1.1, 1.1, 1.1),  # a clock that rounds: too close to mislead anybody
        (0.0, 0.0, 0.0, 0.0, 4.0, 5.0),  # counts of rare events
        (1.0, 1.0, 1.0, 1.0, float("inf"), float("inf")),
        (2.0,) * 12,
    ],
)
def test_what_is_no_two_modes(values):
    assert two_modes(values) is None


@pytest.mark.parametrize("shape", UNIMODAL)
@pytest.mark.parametrize("n", [6, 10, 30])
def test_of_one_mode_hardly_ever_two_are_made(shape, n):
    random = np.random.default_rng(7)
    assert sum(two_modes(UNIMODAL[shape](random, n)) is not None for _ in range(300)) <= 0.04 * 300


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
