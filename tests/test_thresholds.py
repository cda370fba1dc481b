"""Thresholds of the method (`model/criteria.py`) hold where the documents say: one figure on each side."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tidy_fixture import Tables

from benchstudy.families.shared.clients import percentile
from benchstudy.lints import lint
from benchstudy.lints.ceilings import _all_from_storage
from benchstudy.lints.model import Figure, Group, Material
from benchstudy.model.criteria import FAR
from benchstudy.report.checklist import numbers
from benchstudy.report.comparisons.comparability import is_one_proof
from benchstudy.report.scrutiny import episodes, outliers

LEVELS = {"backend": "local", "op": "write", "size": "1MB", "sync": "fsync"}


def results_of(root, values, apart_s=60.0):
    tables = Tables(root, "embedded", "file_size")
    for block, value in enumerate(values):
        started = (datetime(2026, 11, 20, tzinfo=UTC) + timedelta(seconds=block * apart_s)).isoformat()
        tables.add(LEVELS, block + 1, {"duration": (value, "s")}, numbers={"size_bytes": 1}, started=started)
    return tables.results()


@pytest.mark.parametrize(
    ("logarithms", "found"),
    [
        # The median of the distances from the median is 0.1, so 3.5 robust deviations are 0.519.
        ([-0.1, -0.1, -0.1, 0, 0.1, 0.1, 0.515], 0),
        ([-0.1, -0.1, -0.1, 0, 0.1, 0.1, 0.523], 1),
        # It is 0, so the least deviation counts, and 3.5 of it are 0.035.
        ([0, 0, 0, 0, 0, 0, 0.0345], 0),
        ([0, 0, 0, 0, 0, 0, 0.0355], 1),
    ],
)
def test_an_outlier_is_farther_than_3_5_robust_deviations(bare_project, logarithms, found):
    results = results_of(bare_project, map(math.exp, logarithms))
    assert len(outliers.find(results, [], [])) == found


@pytest.mark.parametrize(("n", "times"), [(6, 63), (8, 48), (25, 11), (100, 2.4), (1000, 1.1)])
def test_chance_makes_more_outliers_than_a_known_deviation_would(n, times):
    """The normal distribution has 0.000465 beyond 3.5, but the deviation of few values is itself uncertain."""
    expected = float(outliers.by_chance([n] * 100).split()[4])
    assert expected == pytest.approx(100 * n * 0.000465 * times, rel=0.1)


@pytest.mark.parametrize("n", [6, 9, 25, 45, 300])
def test_the_chances_in_the_table_are_those_of_the_threshold(n):
    """The deviation is 1.4826 times the median distance from the median."""
    values = np.random.default_rng(8).normal(size=(2_000_000 // n, n))
    apart = np.abs(values - np.median(values, axis=1, keepdims=True))
    simulated = np.mean(apart > FAR * 1.4826 * np.median(apart, axis=1, keepdims=True))
    assert float(outliers.by_chance([n] * 1000).split()[4]) == pytest.approx(1000 * n * simulated, rel=0.1)


@pytest.mark.parametrize(("last_s", "count"), [(599, 1), (600, 0)])
def test_an_episode_lasts_less_than_ten_minutes(bare_project, last_s, count):
    assert len(episodes.find(results_of(bare_project, [1.0, 1.1, 1.2], last_s / 2))) == count


@pytest.mark.parametrize(
    ("claim", "held", "proved"),
    [("warm", 0.99, True), ("warm", 0.989, False), ("cold", 0.01, True), ("cold", 0.011, False)],
)
def test_a_cache_state_is_proved_within_a_hundredth(claim, held, proved):
    assert numbers._is_proved(claim, held, 4096.0) == proved


@pytest.mark.parametrize(("fetched", "note"), [(990.0, True), (989.0, False)])
def test_storage_gave_every_byte_of_a_read_within_a_hundredth(fetched, note):
    assert _all_from_storage(Group("", {"size": "1KB"}, {}, fetched)) == note


@pytest.mark.parametrize(("share", "count"), [(0.01, 0), (0.0101, 1)])
def test_clients_are_skewed_beyond_a_hundredth_of_the_time(share, count):
    figures = {"client_skew_share": Figure(share, "1", values=(share,))}
    found = lint(Material("made", "measured", (Group("", {}, figures),)))
    assert [finding.lint for finding in found] == ["clients-skewed"] * count


@pytest.mark.parametrize(("bin_", "value"), [((97.5, 102.5), 100.0), ((97.4, 102.6), None)])
def test_a_percentile_is_read_from_a_bin_of_at_most_a_twentieth(bin_, value):
    assert percentile([(*bin_, 9)], 50) == value


@pytest.mark.parametrize(("other", "one"), [(500_000.0, True), (499_000.0, False)])
def test_two_cases_have_one_proof_from_half_of_the_bytes_on(other, one):
    assert is_one_proof([1_000_000.0], [other]) == one
