"""Mix shift: the arithmetic, on the seed's figures and on cases whose answer is known without it."""

import math
from itertools import pairwise

import numpy as np
import pytest
from load_fixture import DRIVER, EDGES, OTHERS, store_calls

from benchstudy.statistics.mix_shift import Calls, Shift, quantile

MS = 1e-3


def side(**labels: tuple[float, float]) -> dict[str, Calls]:
    """Label to (calls, mean in ms)."""
    return {label: Calls(count, count * mean * MS) for label, (count, mean) in labels.items()}


def seed_side(*, new: bool, few: float = 0.0) -> dict[str, Calls]:
    calls = store_calls(new=new, few=few)
    return {k: Calls(n, total, dict(zip(EDGES, b, strict=True))) for k, (n, total, b) in calls.items()}


def test_the_seeds_regression_is_the_mix_and_not_the_methods():
    shift = Shift(seed_side(new=False), seed_side(new=True), 3600, 3600)
    assert shift.change == pytest.approx(1.9 * MS, rel=0.01), "the page: 1.9 milliseconds slower"
    base, new, like = shift.base_quantile(), shift.new_quantile(), shift.standardised_quantile()
    assert new.value - base.value == pytest.approx(14.7 * MS, rel=0.01), "the page: 14.7 milliseconds slower"
    assert abs(like.value - base.value) < 0.5 * MS
    assert shift.alarm and shift.mix == pytest.approx(shift.change, rel=0.05) and abs(shift.within) < 0.06 * MS
    (driver,) = shift.drivers(margin=0.05)
    assert (driver.label, driver.state, driver.few) == (DRIVER, "left", False)
    assert driver == shift.parts[0]
    rest = shift.without([DRIVER])
    assert rest.change == pytest.approx(-0.0525 * MS, rel=1e-3), "the page: 0.0525 milliseconds faster"
    assert rest.new_quantile().value - rest.base_quantile().value == pytest.approx(0.462 * MS, rel=0.01)


def test_a_label_that_is_still_called_now_and_then_is_another_label_then():
    """In the report behind the page it was: 0.3 µs a call before, 11 ms in the few that were left."""
    shift = Shift(seed_side(new=False), seed_side(new=True, few=OTHERS / 5000), 3600, 3600)
    (driver,) = shift.drivers(margin=0.05)
    assert (driver.label, driver.state, driver.few) == (DRIVER, "left", True)
    assert driver.within == 0 and abs(shift.within) < 0.06 * MS, "11 ms against 0.3 µs is no method that got slower"
    assert shift.within + shift.mix == pytest.approx(shift.change, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_add_up_to_the_change_whatever_is_called(seed):
    random = np.random.default_rng(seed)
    sides = [
        {
            f"label {i}": Calls(float(random.integers(1, 10**6)), float(random.lognormal(0, 2)))
            for i in range(12)
            if random.random() < 0.8
        }
        for _ in range(2)
    ]
    shift = Shift(*sides)
    assert shift.within + shift.mix == pytest.approx(shift.change, rel=1e-9)
    assert math.fsum(p.within for p in shift.parts) == pytest.approx(shift.within)
    influences = [abs(part.influence) for part in shift.parts]
    assert influences == sorted(influences, reverse=True)


def test_labels_that_got_slower_are_no_mix():
    shift = Shift(side(a=(100, 10), b=(300, 2)), side(a=(100, 12), b=(300, 2.4)))
    assert shift.mix == pytest.approx(0, abs=1e-12) and shift.within == pytest.approx(shift.change)
    assert not shift.alarm and shift.drivers(0.05) == []


def test_a_mean_that_falls_although_every_label_got_slower_raises_the_alarm():
    shift = Shift(side(slow=(500, 10), fast=(500, 1)), side(slow=(100, 11), fast=(900, 1.1)))
    assert shift.change < 0 < shift.within and shift.alarm
    assert shift.standardised_mean > shift.base_mean


def test_shares_and_not_counts_make_the_mix():
    """A load that does more of everything has not changed its mix."""
    shift = Shift(side(a=(100, 10), b=(300, 2)), side(a=(1000, 10), b=(3000, 2)))
    assert shift.change == pytest.approx(0, abs=1e-12) and shift.mix == pytest.approx(0, abs=1e-12)


def test_rates_and_not_counts_tell_whether_a_label_is_all_but_gone():
    """A window of a hundredth of the length has a hundredth of the calls."""
    base, new = side(a=(50_000, 1), b=(50_000, 1)), side(a=(400, 1), b=(500, 1))
    assert Shift(base, new, 5400, 54).state("a") == ("both", False)
    assert Shift(base, new, 5400, 5400).state("a") == ("left", True)


def test_a_side_without_calls_has_no_mean():
    with pytest.raises(ValueError, match="without calls"):
        Shift(side(a=(1, 1)), {"a": Calls(0.0, 0.0)})
    only = Shift(side(a=(1, 1)), side(b=(1, 2)))
    assert [p.without for p in only.parts] == [None, None] and only.without(["a"]) is None


def test_quantiles_are_known_to_lie_within_a_bucket_only():
    buckets = {0.005: 90.0, 0.01: 95.0, 0.025: 98.0, math.inf: 100.0}
    middle = quantile(buckets, 0.97)
    assert middle.bucket == (0.01, 0.025) and middle.value == pytest.approx(0.02)
    assert quantile(buckets, 0.5).bucket == (0, 0.005), "the lowest bucket: only known to be below its edge"
    assert quantile(buckets, 0.99).bucket == (0.025, None) and quantile(buckets, 0.99).value == 0.025
    assert middle.apart(quantile(buckets, 0.5)) and not middle.apart(middle)
    assert quantile(buckets, 0.99).apart(middle) and middle.apart(quantile(buckets, 0.99))
    assert quantile({}, 0.99) is None and quantile({0.1: 0.0, math.inf: 0.0}, 0.99) is None
    assert quantile({0.1: 5.0, 0.2: 6.0}, 0.99) is None, "without +Inf nobody knows how many calls there were"


def test_a_bucket_that_is_a_call_behind_the_one_before_breaks_nothing():
    """Scraped one after the other while calls come in."""
    found = quantile({0.1: 10.0, 0.2: 9.0, 0.5: 12.0, math.inf: 12.0}, 0.99)
    assert found.bucket == (0.2, 0.5)


def test_trials_laid_together_keep_the_edges_that_both_have():
    both = Calls(2, 2.0, {0.1: 1.0, 0.2: 2.0, math.inf: 2.0}) + Calls(3, 3.0, {0.1: 1.0, math.inf: 3.0})
    assert both == Calls(5, 5.0, {0.1: 2.0, math.inf: 5.0})
    assert all(a < b for a, b in pairwise(sorted(both.buckets)))
