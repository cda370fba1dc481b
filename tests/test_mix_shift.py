"""Mix shift: the arithmetic, on the seed's figures and on cases whose answer is known without it."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from load_fixture import DRIVER, EDGES, OTHERS, store_calls

from benchstudy.families.load_test.page.load import Contrast
from benchstudy.families.load_test.page.mix import Reading
from benchstudy.statistics.comparisons import Arm, Verdict, compare, judge
from benchstudy.statistics.mix_shift import Calls, Quantile, Shift, quantile

MS = 1e-3


def side(**labels: tuple[float, float]) -> dict[str, Calls]:
    """Label to (calls, mean in ms)."""
    return {label: Calls(count, count * mean * MS) for label, (count, mean) in labels.items()}


def bucket_of(found: Quantile) -> tuple[float, float | None]:
    return found.low, found.high


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
    """In the report behind the page: 0.3 µs per call before, 11 ms in the few remaining calls."""
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
    assert bucket_of(middle) == (0.01, 0.025) and middle.value == pytest.approx(0.02)
    assert bucket_of(quantile(buckets, 0.5)) == (0, 0.005), "the lowest bucket: only known to be below its edge"
    assert bucket_of(quantile(buckets, 0.99)) == (0.025, None) and quantile(buckets, 0.99).value == 0.025
    assert middle.apart(quantile(buckets, 0.5)) and not middle.apart(middle)
    assert quantile(buckets, 0.99).apart(middle) and middle.apart(quantile(buckets, 0.99))
    assert quantile({}, 0.99) is None and quantile({0.1: 0.0, math.inf: 0.0}, 0.99) is None
    assert quantile({0.1: 5.0, 0.2: 6.0}, 0.99) is None, "without +Inf nobody knows how many calls there were"


@pytest.mark.parametrize("q", [0.0, 0.1, 0.2, 0.5, 0.6, 0.75, 0.9])
def test_a_quantile_lies_on_the_line_between_the_edges_of_its_bucket(q):
    edges, counts = (0.1, 0.2, 0.4, math.inf), (20.0, 60.0, 90.0, 100.0)
    between = np.interp(100 * q, (0.0, *counts[:3]), (0.0, *edges[:3]))
    assert quantile(dict(zip(edges, counts, strict=True)), q).value == pytest.approx(between)


def test_a_quantile_at_an_edge_of_empty_buckets_is_that_edge():
    assert quantile({0.1: 0.0, 0.2: 10.0, math.inf: 10.0}, 0.0).value == 0.1
    assert bucket_of(quantile({0.1: 4.0, math.inf: 10.0}, 0.4)) == (0, 0.1)
    assert quantile({math.inf: 10.0}, 0.4) is None, "no edge to name"
    assert quantile({0.1: 1.0, 0.2: 2.0, math.inf: 2.0}, 0.75).value == pytest.approx(0.15), "one call in a bucket"
    assert quantile({0.1: 0.1, 0.2: 0.2, math.inf: 0.2}, 0.75).value == pytest.approx(0.15), "or a tenth a second"
    assert quantile({0.1: 4.0, math.inf: 4.0}, 1.0).value == 0.1


def test_quantiles_are_apart_only_where_their_buckets_do_not_overlap():
    low, wide, high, above = Quantile(1, 0, 2), Quantile(2, 1, 3), Quantile(3, 2, 4), Quantile(4, 4, None)
    assert low.apart(high) and high.apart(low) and above.apart(high) and high.apart(above)
    assert not low.apart(wide) and not wide.apart(high) and not above.apart(above)
    assert not Quantile(3, 3, None).apart(high) and not high.apart(Quantile(3, 3, None))


def half_and_half(shifted: float, slower: float) -> Shift:
    """Two labels of 3 ms and 1 ms, called equally often.

    `shifted` of all calls go to the first, and the second takes `slower` ms longer. So mix = shifted * (2 - slower /
    2), within = (0.5 - shifted / 2) * slower.
    """
    base = side(a=(1000, 3), b=(1000, 1))
    return Shift(base, side(a=(1000 + 2000 * shifted, 3), b=(1000 - 2000 * shifted, 1 + slower)))


@pytest.mark.parametrize(
    ("shifted", "slower", "alarm"),
    [
        (0.1, 0.39, True),  # the mix is 0.506 of the change
        (0.1, 0.41, False),  # 0.494
        (-0.1, -0.39, True),
        (-0.1, -0.41, False),
        (0.01, -0.49, True),  # against the change, 0.102 of it
        (0.01, -0.51, False),  # 0.098
        (0.0, 0.0, False),
    ],
)
def test_the_alarm_begins_at_half_of_the_change_or_a_tenth_against_it(shifted, slower, alarm):
    shift = half_and_half(shifted, slower)
    assert shift.mix == pytest.approx(shifted * (2 - slower / 2) * MS, abs=1e-12)
    assert shift.within == pytest.approx((0.5 - shifted / 2) * slower * MS, abs=1e-12)
    assert shift.alarm is alarm


@pytest.mark.parametrize(
    ("base", "new", "state"),
    [
        (1000, 10, ("both", False)),
        (1000, 9.9, ("left", True)),
        (10, 1000, ("both", False)),
        (9.9, 1000, ("entered", True)),
        (1000, 0, ("left", False)),
        (0, 1000, ("entered", False)),
    ],
)
def test_a_label_of_less_than_a_hundredth_of_the_calls_is_all_but_gone(base, new, state):
    shift = Shift(side(a=(base, 1), b=(1, 1)), side(a=(new * 2, 1), b=(1, 1)), 10, 20)
    assert shift.state("a") == state


def test_what_a_label_adds_to_the_change_is_what_the_change_would_lack_without_it():
    shift = Shift(side(a=(300, 4), b=(100, 8)), side(a=(100, 6), c=(100, 1)))
    assert (shift.base_count, shift.new_count) == (400, 200)
    assert shift.change == pytest.approx(-1.5 * MS), "from 5 to 3.5"
    a, b, c = (next(p for p in shift.parts if p.label == label) for label in "abc")
    assert (a.base_share, a.new_share, b.new_share, c.base_share) == (0.75, 0.5, 0.0, 0.0)
    assert a.within == pytest.approx(0.625 * 2 * MS) and a.mix == pytest.approx(-0.25 * (5 - 4.25) * MS)
    assert (b.within, b.mix) == pytest.approx((0, -0.25 * (8 - 4.25) * MS))
    assert (c.within, c.mix) == pytest.approx((0, 0.5 * (1 - 4.25) * MS))
    assert (a.without, b.without, c.without) == pytest.approx((-7 * MS, -0.5 * MS, 1 * MS))
    assert (a.influence, b.influence, c.influence) == pytest.approx((5.5 * MS, -1 * MS, -2.5 * MS))
    assert [part.label for part in shift.parts] == ["a", "c", "b"]
    assert shift.standardised_mean == pytest.approx(6.25 * MS)


def gone(rest_ms: float) -> Shift:
    """Two labels of 10 ms are no longer called; the others, of 1 ms, take `rest_ms`."""
    base = side(x=(100, 10), y=(100, 10), z1=(500, 1), z2=(500, 1))
    return Shift(base, side(z1=(500, rest_ms), z2=(500, rest_ms)))


@pytest.mark.parametrize("rest_ms", [0.951, 1.0, 1.049])
def test_the_fewest_labels_without_which_little_changes_are_named(rest_ms):
    shift = gone(rest_ms)
    assert [part.label for part in shift.drivers(0.05)] == ["x", "y"]
    assert shift.drivers(0.05, most=2) != [] and shift.drivers(0.05, most=1) == []
    assert shift.drivers(0.04) == [] or rest_ms == 1.0


@pytest.mark.parametrize("rest_ms", [0.949, 1.051])
def test_labels_without_which_still_much_changes_explain_nothing(rest_ms):
    assert gone(rest_ms).drivers(0.05) == []


def test_a_label_that_explains_little_of_a_small_change_is_no_driver():
    """The mean changes by 1.5 %, less than the margin. x is called more often, but adds only a sixth of that."""
    calls = {f"z{i}": (100, 1 + 0.01 * i) for i in range(10)}
    base = side(x=(6, 2), **calls)
    slower = {label: (count, ms * 1.013) for label, (count, ms) in calls.items()}
    shift = Shift(base, side(x=(8, 2), **slower))
    (x,) = (part for part in shift.parts if part.label == "x")
    assert 0 < x.influence < shift.change / 5 and x.mix > x.within == 0
    assert 0 < shift.change < 0.05 * shift.base_mean
    assert shift.drivers(0.05) == []


def test_a_label_that_pulls_the_other_way_is_no_driver():
    """s is called as before and is a little slower, while the mean falls."""
    base = side(x=(100, 10), s=(100, 10), z1=(500, 1), z2=(500, 1))
    shift = Shift(base, side(s=(100, 10.2), z1=(500, 1), z2=(500, 1)))
    assert [part.label for part in shift.drivers(0.05)] == ["x"]


def test_a_standardised_quantile_gives_labels_the_calls_that_they_had():
    """a is called ten times as often and takes as long, b takes twice as long, c is no longer called, d is new."""
    edges = (0.1, 0.2, math.inf)

    def calls(*counts: float) -> Calls:
        return Calls(counts[-1], 1.0, dict(zip(edges, counts, strict=True)))

    base = {"a": calls(60, 100, 100), "b": calls(50, 50, 50), "c": calls(0, 50, 50)}
    shift = Shift(base, {"a": calls(600, 1000, 1000), "b": calls(0, 25, 25), "d": calls(0, 0, 9)})
    # Of 200 calls, 60 + 0 + 0 take less than 0.1, and all of them less than 0.2.
    assert shift.standardised_quantile(0.5).value == pytest.approx(0.1 + 0.1 * (100 - 60) / 140)
    assert shift.base_quantile(0.5).value == pytest.approx(0.1 * 100 / 110)
    assert shift.new_quantile(0.5).value == pytest.approx(0.1 * 517 / 600)
    other = Shift(base | {"b": Calls(50, 1.0)}, base)
    assert other.base_quantile() is None, "one label has no histogram"
    labels = {"a": calls(1, 2, 3), "b": Calls(3, 1.0, {0.1: 2, math.inf: 3}), "c": calls(1, 2, 3)}
    for order in permutations(labels):
        edgeless = Shift({label: labels[label] for label in order}, base)
        assert edgeless.base_quantile(0.3).value == pytest.approx(0.1 * 2.7 / 4), "at the edges that all of them have"


def test_a_bucket_that_is_a_call_behind_the_one_before_breaks_nothing():
    """Labels are scraped one after the other while calls come in."""
    found = quantile({0.1: 10.0, 0.2: 9.0, 0.5: 12.0, math.inf: 12.0}, 0.99)
    assert bucket_of(found) == (0.2, 0.5)


def test_trials_laid_together_keep_the_edges_that_both_have():
    both = Calls(2, 2.0, {0.1: 1.0, 0.2: 2.0, math.inf: 2.0}) + Calls(3, 3.0, {0.1: 1.0, math.inf: 3.0})
    assert both == Calls(5, 5.0, {0.1: 2.0, math.inf: 5.0})
    assert all(a < b for a, b in pairwise(sorted(both.buckets)))


def test_the_words_follow_the_verdict_and_not_the_mean_that_one_long_trial_pulls():
    bases, news = ([ms * MS * (1 + block % 3 / step) for block in range(6)] for ms, step in ((10, 1000), (8, 100)))
    arms = [Arm(name, "s", tuple(values), tuple(range(6))) for name, values in (("base", bases), ("new", news))]
    tested = compare(*arms, margin=0.05, better="lower")
    raw, like = judge([tested, tested])
    assert raw.verdict is Verdict.BETTER
    # All calls laid together got slower, because one trial of the new version made most of them, and slow ones.
    shift = Shift(side(a=(100, 10)), side(a=(5000, 14)))
    reading = Reading(Contrast.__new__(Contrast), "store", shift, raw, like, 0.05)
    assert (reading.verdict, reading.worse, reading.hidden) == ("improvement", False, False)
