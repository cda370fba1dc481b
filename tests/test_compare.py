"""Comparisons against their promises: by simulation how often they are right, by table what they say about odd data."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats

from benchstudy.report import human
from benchstudy.statistics import comparisons, shifts
from benchstudy.statistics.comparisons import Arm, calibrate, compare, judge, share, standing

MARGIN = 0.05
# What a rank test or t test promises, within the error of this number of simulations.
REPEATS = 2_000


def arms(values, other, paired=True, failed=(0, 0), unit="s"):
    """Two arms. Paired arms share their blocks; other arms have none in common."""
    blocks = [tuple(range(len(side))) if paired else () for side in (values, other)]
    return (
        Arm("base", unit, tuple(map(float, values)), blocks[0], failed[0]),
        Arm("other", unit, tuple(map(float, other)), blocks[1], failed[1]),
    )


def compared(values, other, *, margin=MARGIN, better="lower", **kwargs):
    return compare(*arms(values, other, **kwargs), margin=margin, better=better)


def verdict(values, other, **kwargs):
    (judged,) = judge([compared(values, other, **kwargs)])
    return judged


# -- how often they are right ----------------------------------------------------------------------


def normal(random, n):
    return 1 + 0.1 * random.standard_normal((2, n))


def lognormal(random, n):
    return np.exp(0.3 * random.standard_normal((2, n)))


def bimodal(random, n):
    """Half of the trials meet something that costs 60 %, such as a cache or a second thread."""
    return np.where(random.random((2, n)) < 0.5, 1, 1.6) * np.exp(0.03 * random.standard_normal((2, n)))


def drifting(random, n):
    """The host drifts by 15 %, and consecutive blocks are alike; trials themselves differ by 5 %."""
    block = np.empty(n)
    block[0] = random.standard_normal()
    for i in range(1, n):
        block[i] = 0.8 * block[i - 1] + 0.6 * random.standard_normal()
    return np.exp(0.15 * block + 0.05 * random.standard_normal((2, n)))


def simulated(shape, n, paired, ratio, margin=MARGIN, repeats=REPEATS):
    random = np.random.default_rng(20240229)
    for _ in range(repeats):
        base, other = shape(random, n)
        yield compared(base, other * ratio, margin=margin, paired=paired)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "n", "paired"),
    [
        *((shape, 8, True) for shape in (normal, lognormal, bimodal, drifting)),
        *((shape, 8, False) for shape in (normal, lognormal, bimodal)),
        *((shape, n, True) for shape in (bimodal, drifting) for n in (6, 12)),
        *((shape, 4, True) for shape in (normal, lognormal, drifting)),
        *((shape, 4, False) for shape in (normal, lognormal)),
    ],
)
def test_a_95_percent_interval_holds_the_true_ratio_93_to_97_times_of_100(shape, n, paired):
    hits = sum(made.evidence.low <= 1.3 <= made.evidence.high for made in simulated(shape, n, paired, 1.3))
    assert 0.93 <= hits / REPEATS <= 0.97


def test_pairing_takes_the_drift_out_that_hides_a_difference():
    def shown(paired):
        return sum(judge([m])[0].verdict == "worse" for m in simulated(drifting, 8, paired, 1.2, repeats=400)) / 400

    assert shown(paired=True) > 0.95
    assert shown(paired=False) < 0.8


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "n", "paired"), [(normal, 6, True), (drifting, 6, True), (lognormal, 6, False), (bimodal, 4, True)]
)
def test_two_equal_cases_get_a_false_verdict_at_most_5_times_of_100(shape, n, paired):
    made = list(simulated(shape, n, paired, 1.0))
    assert sum(judge([m])[0].verdict in ("better", "worse") for m in made) / REPEATS <= 0.05
    # A margin of almost zero is the hardest case: 5 % by design, and two standard errors of the simulation.
    bare = simulated(shape, n, paired, 1.0, margin=1e-6)
    assert sum(judge([m])[0].verdict in ("better", "worse") for m in bare) / REPEATS <= 0.05 + 0.01


@pytest.mark.long
def test_a_family_of_equal_cases_has_any_false_verdict_at_most_5_times_of_100():
    made = list(simulated(lognormal, 6, False, 1.0, margin=1e-6, repeats=4_000))
    families = [judge(made[start : start + 10]) for start in range(0, len(made), 10)]
    alarmed = sum(any(m.verdict in ("better", "worse") for m in family) for family in families)
    unadjusted = sum(any(m.evidence.p_beyond <= 0.05 for m in family) for family in families)
    assert alarmed / len(families) <= 0.05 + 0.02, "two standard errors of 400 families"
    assert unadjusted / len(families) > 0.25, "without the adjustment a third of the families would alarm"


@pytest.mark.long
def test_a_difference_as_large_as_the_margin_is_seldom_called_equivalent():
    """At a spread where most truly equal cases can be called equivalent."""

    def quiet(random, n):
        return 1 + 0.02 * random.standard_normal((2, n))

    def equivalent(ratio):
        return sum(judge([m])[0].verdict == "equivalent" for m in simulated(quiet, 8, True, ratio)) / REPEATS

    assert equivalent(1 + MARGIN) <= 0.05
    assert equivalent(1 / (1 + MARGIN)) <= 0.05
    assert equivalent(1.0) > 0.9


@pytest.mark.parametrize(
    ("n", "paired", "shift_of"),
    [
        (4, True, lambda base, other: shifts.student_of_pairs(other - base)),
        (12, True, lambda base, other: shifts.ranked_pairs(other - base)),
        (60, True, lambda base, other: shifts.ranked_pairs(other - base)),
        (4, False, shifts.welch),
        (8, False, shifts.ranked_samples),
    ],
    ids=["paired t", "signed ranks", "signed ranks of many", "Welch", "rank sum"],
)
def test_cases_are_equivalent_if_the_90_percent_interval_lies_within_the_margin(n, paired, shift_of):
    margin = {4: 0.15, 8: 0.08, 12: 0.05, 60: 0.03}[n]
    told = []

    def quiet(random, n):
        return np.exp(0.06 * random.standard_normal((2, n)))

    for made in simulated(quiet, n, paired, 1.01, margin, 200):
        low, high = shift_of(np.log(made.base.values), np.log(made.other.values)).interval(0.90)
        is_within = -math.log1p(margin) < low and high < math.log1p(margin)
        assert (judge([made])[0].verdict == "equivalent") == is_within
        told.append(is_within)
    assert 0.1 < sum(told) / len(told) < 0.9, "some are, and some are not"


@pytest.mark.long
@pytest.mark.parametrize(("n", "paired"), [(4, True), (6, True), (10, True), (4, False), (6, False)])
def test_the_smallest_detectable_effect_is_detected_as_often_as_it_says(n, paired):
    """80 % for t; ranks lose a little of it, because they assume less."""
    errors = [math.log1p(made.evidence.smallest_detectable) for made in simulated(normal, n, paired, 1.0, repeats=500)]
    effect = math.exp(math.sqrt(np.mean(np.square(errors))))
    ratio = (1 + MARGIN) * effect
    found = sum(judge([m])[0].verdict == "worse" for m in simulated(normal, n, paired, ratio, repeats=1_000)) / 1_000
    assert 0.74 <= found <= 0.84


# -- against the library ----------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m"), [(6, 6), (7, 12)])
def test_the_rank_sum_has_the_distribution_of_the_library(n, m):
    random = np.random.default_rng(3)
    base, other = random.normal(size=n), random.normal(0.5, size=m)
    ranked = shifts.ranked_samples(base, other)
    expected = scipy_stats.mannwhitneyu(other, base, alternative="greater", method="exact").pvalue
    assert ranked.p_above(0) == pytest.approx(expected)
    assert ranked.p_below(0) == pytest.approx(scipy_stats.mannwhitneyu(other, base, alternative="less").pvalue)


def test_the_signed_rank_has_the_distribution_of_the_library():
    differences = np.random.default_rng(4).normal(0.4, size=9)
    expected = scipy_stats.wilcoxon(differences, alternative="greater", method="exact").pvalue
    assert shifts.ranked_pairs(differences).p_above(0) == pytest.approx(expected)


# Critical values of two-sided tests at 5 %, as textbooks print them: at most so much rejects.
SIGNED_RANK = {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 15: 25, 20: 52, 25: 89, 30: 137, 50: 434}
RANK_SUM = {(6, 6): 5, (8, 8): 13, (8, 12): 22, (10, 10): 23, (20, 20): 127}


@pytest.mark.parametrize(
    ("ranked", "critical"),
    [
        *((shifts.Ranked(np.arange(n * (n + 1) / 2), "pairs", n), k) for n, k in SIGNED_RANK.items()),
        *((shifts.Ranked(np.arange(float(n * m)), "samples", n, m), k) for (n, m), k in RANK_SUM.items()),
    ],
)
def test_an_interval_of_ranks_leaves_out_as_many_values_as_a_textbook_says(ranked, critical):
    assert ranked.interval(0.95) == (critical, len(ranked.values) - 1 - critical)


@pytest.mark.parametrize(
    ("ranked", "exact"),
    [
        *((shifts.Ranked(np.arange(n * (n + 1) / 2), "pairs", n), shifts.signed_rank_cdf(n)) for n in (51, 60)),
        (shifts.Ranked(np.arange(51.0 * 51), "samples", 51, 51), shifts.rank_sum_cdf(51, 51)),
    ],
)
def test_above_50_values_the_normal_distribution_is_as_good_as_the_exact_one(ranked, exact):
    left_out = int(np.searchsorted(exact, 0.025, side="right"))
    assert ranked.interval(0.95) == (left_out - 1, len(ranked.values) - left_out)
    shown = np.arange(0, len(ranked.values), 20)
    assert [ranked.p_above(shift) for shift in shown] == pytest.approx(exact[shown + 1], abs=0.002)
    below = [ranked.p_below(len(ranked.values) - 1 - shift) for shift in shown]
    assert below == pytest.approx(exact[shown + 1], abs=0.002)


def test_welch_and_paired_t_are_those_of_the_library():
    random = np.random.default_rng(5)
    base, other = random.normal(size=5), random.normal(1, 3, size=4)
    expected = scipy_stats.ttest_ind(other, base, equal_var=False)
    assert shifts.welch(base, other).interval(0.95) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    paired = scipy_stats.ttest_rel(other, base[:4]).confidence_interval(0.95)
    assert shifts.student_of_pairs(other - base[:4]).interval(0.95) == pytest.approx(tuple(paired))


def test_many_trials_have_nearly_the_interval_of_ranks_whichever_way_it_is_found():
    """Above 50, the distribution is taken as normal; above 500, the method is t."""
    random = np.random.default_rng(6)
    values, other = np.exp(random.normal(0, 0.1, size=(2, 501)))
    ends = []
    for n in (50, 51, 500, 501):
        made = compared(values[:n], other[:n])
        ends.append((made.method, *made.interval))
    assert ends[0][1:] == pytest.approx(ends[1][1:], abs=0.01)
    assert ends[2][1:] == pytest.approx(ends[3][1:], abs=0.002)
    assert [method.split()[1] for method, *_ in ends] == ["Hodges-Lehmann,"] * 3 + ["t"]
    unpaired = [compared(values[:500], other[:n], paired=False) for n in (500, 501)]
    assert [made.method.split()[0] for made in unpaired] == ["Hodges-Lehmann,", "Welch"]
    assert unpaired[0].interval == pytest.approx(unpaired[1].interval, abs=0.002)


# -- verdicts ----------------------------------------------------------------------

STEADY = [1.00, 1.01, 0.99, 1.02, 0.98, 1.01, 1.00, 0.99]


def times(factor):
    return [value * factor * (1 + 0.002 * (i % 3 - 1)) for i, value in enumerate(STEADY)]


@pytest.mark.parametrize(
    ("factor", "better", "expected", "why"),
    [
        (1.5, "lower", "worse", "higher by at least 49"),
        (1.5, "higher", "better", "higher by at least 49"),
        (0.5, "lower", "better", "lower by at least 49.9 %"),
        (0.5, "higher", "worse", "lower by at least 49.9 %"),
        (1.0, "lower", "equivalent", "they differ by less than 5 %"),
        (1.02, "lower", "equivalent", "they differ by less than 5 %"),
        (1.05, "lower", "inconclusive", "a difference, but perhaps of less than 5 %"),
        (1 / 1.05, "lower", "inconclusive", "a difference, but perhaps of less than 5 %"),
    ],
)
def test_a_verdict_knows_its_direction_and_its_margin(factor, better, expected, why):
    judged = verdict(STEADY, times(factor), better=better)
    assert (judged.verdict, judged.tests) == (expected, 1)
    assert judged.why.startswith(why)
    assert judged.evidence.low <= judged.ratio <= judged.evidence.high
    assert judged.base.median == pytest.approx(1.0)


def test_what_is_noisy_is_inconclusive_and_says_what_could_have_been_seen():
    judged = verdict([1, 2, 1, 2, 1, 2], [2, 1, 1, 2, 2, 1])
    assert (judged.verdict, judged.why) == ("inconclusive", "neither more nor less than 5 % is shown")
    assert judged.evidence.smallest_detectable > 1


def test_the_smallest_detectable_effect_is_the_rule_of_thumb_when_trials_are_many():
    random = np.random.default_rng(7)
    made = compared(*(1 + 0.05 * random.standard_normal((2, 400))), paired=False)
    assert made.evidence.smallest_detectable == pytest.approx(2.8 * 0.05 * math.sqrt(2 / 400), rel=0.06)


def test_among_many_comparisons_a_lonely_one_has_to_be_surer():
    quiet = [compared(STEADY, STEADY[::-1]) for _ in range(30)]
    lonely = compared([1.0, 1.1, 0.9, 1.0], [1.28, 1.31, 1.20, 1.15], margin=0.01)
    assert judge([lonely])[0].verdict == "worse"
    among = judge([*quiet, lonely])[-1]
    assert (among.verdict, among.tests) == ("inconclusive", 31)
    assert among.why == "beyond 1 % if judged alone, not among 31 comparisons"


def test_among_many_comparisons_an_interval_that_excludes_one_shows_a_difference_only_by_itself():
    """Of twenty such intervals of equal cases, one excludes 1 by chance."""
    quiet = [compared(STEADY, STEADY[::-1]) for _ in range(30)]
    among = judge([*quiet, compared(STEADY, times(1.05))])[-1]
    assert among.why == "a difference if judged alone, but perhaps of less than 5 %"


def test_comparisons_that_could_not_be_made_are_no_tests():
    judged = judge([compared(STEADY, times(2)), compared(STEADY, []), compared([1.0] * 6, [1.0] * 6)])
    assert [made.tests for made in judged] == [1, 0, 0]


# -- odd data, each with its own message ----------------------------------------------------------------------

SIX = [1.0, 1.1, 0.9, 1.2, 1.0, 0.95]


@pytest.mark.parametrize(
    ("values", "other", "failed", "why"),
    [
        ([], SIX, (0, 0), "base: not measured"),
        ([], SIX, (1, 0), "base: the only trial failed"),
        (SIX, [], (0, 6), "other: all 6 trials failed"),
        ([1.0, 2.0], [1.0, 2.0], (0, 0), "n too small: 2 against 2; 3 trials are needed"),
        (SIX, [1.0], (0, 5), "n too small: 6 against 1; 3 trials are needed"),
        (SIX, [*SIX[:5], 0.0], (0, 0), "other: 1 of 6 values are zero, so there is no ratio"),
        ([0.0] * 6, SIX, (0, 0), "base: 6 of 6 values are zero, so there is no ratio"),
        (SIX, [*SIX[:5], -1.0], (0, 0), "other: 1 of 6 values are negative, so there is no ratio"),
        (SIX, [*SIX[:5], math.inf], (0, 0), "other: a value is infinite or not a number"),
        (SIX, [*SIX[:5], math.nan], (0, 0), "other: a value is infinite or not a number"),
    ],
)
def test_data_without_a_ratio_say_why_and_get_no_verdict(values, other, failed, why):
    judged = verdict(values, other, failed=failed)
    assert (judged.verdict, judged.why) == ("none", why)
    assert (judged.ratio, judged.evidence, judged.adjusted) == (None, None, None)


def test_different_units_have_no_ratio():
    base, _ = arms(SIX, SIX)
    _, other = arms(SIX, SIX, unit="B/s")
    made = compare(base, other, margin=MARGIN, better="lower")
    assert made.why == "base is in s, other in B/s: no ratio of different units"


@pytest.mark.parametrize(
    ("values", "other", "paired"),
    [([2.0] * 6, [2.0] * 6, True), ([2.0] * 6, [4.0] * 6, False), (SIX, [2 * v for v in SIX], True)],
)
def test_values_without_any_spread_have_a_ratio_but_nothing_that_tells_how_sure_it_is(values, other, paired):
    judged = verdict(values, other, paired=paired)
    assert judged.ratio == pytest.approx(other[0] / values[0])
    assert (judged.verdict, judged.evidence) == ("inconclusive", None)
    assert judged.why.startswith("no spread: the clock or the tool may round")


@pytest.mark.parametrize("values", [[2.0] * 6, [0.3, 0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2, 0.3]])
def test_one_arm_without_spread_is_told(values):
    judged = verdict(values, SIX)
    assert "all values of base are equal: the clock or the tool may round" in judged.warnings


@pytest.mark.parametrize(("mean", "other"), [(1.1, 1.3), (1.35, 1.65)])
@pytest.mark.parametrize("paired", [True, False])
def test_a_clock_coarser_than_the_margin_makes_no_two_cases_equivalent(mean, other, paired):
    """Times of about a millisecond, in whole milliseconds: most are equal, and the ratio's interval has no width."""
    random = np.random.default_rng(8)
    for _ in range(40):
        judged = verdict(*(np.maximum(1, np.round(random.normal(m, 0.2, 20))) for m in (mean, other)), paired=paired)
        assert judged.verdict != "equivalent"
        assert judged.evidence is None or judged.evidence.low < judged.evidence.high
        assert any("the clock or the tool may round" in said for said in (judged.why, *judged.warnings))


def test_equal_values_of_a_fine_clock_are_evidence():
    judged = verdict([1000.0] * 9 + [1001.0], [1000.0] * 8 + [1001.0] * 2)
    assert (judged.verdict, judged.warnings) == ("equivalent", ())


@pytest.mark.parametrize(
    ("lower", "n", "expected", "told"),
    [
        (0.75, 12, "inconclusive", "12 near 0.752×, 12 near 1.30×"),
        (1.0, 21, "equivalent", "21 near 1.00×, 3 near 1.31×"),
    ],
)
def test_pairs_with_contrary_effects_are_not_called_equivalent(lower, n, expected, told):
    """Of 24 pairs, 12 are a quarter faster and 12 are 30 % slower: the ratio's interval is narrow, and near 1."""
    ratios = np.array([lower] * n + [1.3] * (24 - n)) * (1 + 0.001 * (np.arange(24) % 6))
    judged = verdict([1.0] * 24, ratios)
    assert judged.verdict == expected and 0.95 < judged.evidence.low < judged.evidence.high < 1.05
    assert f"the ratios of pairs lie in two groups: {told}" in judged.warnings


def test_failures_stand_beside_a_ratio_of_those_that_did_not_fail():
    base, other = arms(SIX, [2 * v + 0.01 * i for i, v in enumerate(SIX)])
    made = compare(base, replace(other, failed=2), margin=MARGIN, better="lower")
    assert made.warnings == ("2 of 8 trials of other failed (95 %: 7.1–59 %): the ratio covers only the others",)
    assert made.ratio == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("base_blocks", "other_blocks", "method", "pairs"),
    [
        ("abcdef", "abcdef", "paired t on logarithms", 6),
        ("abcdefg", "bcdefgh", "paired t on logarithms", 6),
        ("abcdefghij", "abcdefghij", "paired Hodges-Lehmann, signed-rank interval", 10),
        ("abcdefg", "hijklmn", "Hodges-Lehmann, Mann-Whitney interval", 0),
        ("abcdef", "defghi", "Hodges-Lehmann, Mann-Whitney interval", 0),
        ("abcdefgh", "efghijkl", "Hodges-Lehmann, Mann-Whitney interval", 0),
        ("abcde", "abcde", "paired t on logarithms", 5),
        ("abcdef", "abc", "paired t on logarithms", 3),
        ("abc", "bcd", "Welch on logarithms", 0),
        ("abcdef", "ghijklmno", "Hodges-Lehmann, Mann-Whitney interval", 0),
        ("abcdef", "ghijklmnop", "Welch on logarithms", 0),
        ("aabbcc", "abcdef", "Hodges-Lehmann, Mann-Whitney interval", 0),
    ],
)
def test_the_method_follows_from_the_numbers_of_trials_alone(base_blocks, other_blocks, method, pairs):
    random = np.random.default_rng(8)
    sides = [
        Arm(name, "s", tuple(np.exp(random.normal(size=len(blocks)))), tuple(blocks))
        for name, blocks in (("base", base_blocks), ("other", other_blocks))
    ]
    made = compare(*sides, margin=MARGIN, better="lower")
    assert (made.method, made.pairs) == (method, pairs)
    unpaired = [side for side in sides if 0 < pairs < side.n]
    told = [
        f"{n} of {side.n} trials of {side.name} {'has' if n == 1 else 'have'} no counterpart in {whose} block"
        for side in unpaired
        for n in (side.n - pairs,)
        for whose in ("its" if n == 1 else "their",)
    ]
    assert [w for w in made.warnings if "no counterpart in " in w] == told
    given_up = not pairs and {*base_blocks} & {*other_blocks} and len({*base_blocks}) == len(base_blocks)
    assert ("compared as independent samples" in str(made.warnings)) is bool(given_up)


@pytest.mark.parametrize("few", [6, 12])
def test_the_interval_of_arms_of_unequal_numbers_and_spreads_covers_what_it_says(few):
    random = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        sides = [random.lognormal(0, sd, n) for n, sd in ((30, 0.05), (few, 0.15))]
        low, high = compared(*sides, paired=False).interval
        covered += low <= 1 <= high
    assert covered >= 400 * 0.92, "0.95, less 2.8 standard errors; Mann-Whitney's covers 0.85 of them"


def test_a_wild_spread_of_three_trials_stays_a_number_or_infinite():
    made = compared([1e-150, 1.0, 1e150], [1.0, 1e150, 1e-150])
    assert made.interval == (0, math.inf) and judge([made])[0].verdict == "inconclusive"


@pytest.mark.parametrize("margin", [0, 1, -0.1, 5])
def test_a_margin_outside_its_range_is_refused(margin):
    with pytest.raises(ValueError, match="between 0 and 1"):
        compared(SIX, SIX, margin=margin)


def test_the_share_of_failures_has_wilsons_interval():
    """By hand for 0 of 6: z²/(n + z²)."""
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    assert share(0, 6).high == pytest.approx(z2 / (6 + z2))
    assert (share(2, 6).interval, share(5_000_000, 10_000_000).interval) == ("95 %: 9.7–70 %", "95 %: ±0.062 %")
    with pytest.raises(ValueError, match="7 of 6"):
        share(7, 6)


# -- A/A ----------------------------------------------------------------------


def test_cases_that_are_the_same_tell_the_false_alarm_rate():
    judged = judge([*simulated(lognormal, 6, True, 1.0, repeats=200)])
    found = calibrate(judged)
    assert found.excluding_one.n == 200
    assert found.excluding_one.low <= 0.05 <= found.excluding_one.high
    assert found.alarms.count == 0
    assert found.lowest < 1 < found.highest
    assert calibrate(judge([compared([], []), compared([1.0] * 6, [2.0] * 6)])) is None, "no interval"


def test_only_what_was_judged_is_plain_data_for_the_study():
    made = [compared(STEADY, times(2)), compared(STEADY, []), compared([1.0] * 6, [1.0] * 6)]
    assert comparisons.tested(made) == []
    (one,) = comparisons.tested(judge(made))
    assert one == ("worse", made[0].evidence.p_beyond, made[0].evidence.p_within)


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.3, "higher by at least 30.0 %"),
        (15.87, "at least 15.9 times the base"),
        (2.5, "at least 2.50 times the base"),
    ],
)
def test_a_verdict_names_its_least_with_the_digits_of_its_interval(factor, said):
    values = [1.0, 1.0 + 1e-8, 1.0 - 1e-8, 1.0, 1.0 + 2e-8, 1.0]
    made = compared(values, [factor * v for v in reversed(values)])
    assert judge([made])[0].why == said


@pytest.mark.parametrize(
    ("factor", "interval", "said"),
    [
        (29.0, "95 %: 20–42×", "at least 20 times the base"),
        (1.8, "95 %: 1.2–2.6×", "higher by at least 24 %"),
        (1 / 1.8, "95 %: 0.38–0.81×", "lower by at least 19 %"),
    ],
)
def test_a_least_beside_a_wide_interval_has_two_digits_like_it(factor, interval, said):
    """The interval ends at the factor divided by 1.45, and at the factor times 1.45."""
    step = math.log(1.45) * math.sqrt(5) / scipy_stats.t.ppf(0.975, 5)
    values = [math.exp(sign * step) for sign in (-1, 1, -1, 1, -1, 1)]
    (made,) = judge([compared([1.0] * 6, [factor * v for v in values])])
    assert human.ratio(made.ratio, *made.interval)[1] == interval
    assert made.why == said


def test_a_least_that_no_number_holds_is_told_in_words():
    made = compared([1e-200, 2e-200, 1e-200], [1e200, 2e200, 2e200])
    assert made.evidence.low == math.inf
    assert judge([made])[0].why == "more times the base than a float can hold"


def test_over_a_whole_study_verdicts_that_a_table_has_by_itself_may_not_stand():
    """A table with one clear difference and one that just passes, in a study with forty comparisons of nothing."""
    clear, narrow, like = ("better", 1e-6, 1.0), ("worse", 0.02, 1.0), ("equivalent", 1.0, 1e-5)
    nothing = [("inconclusive", 0.5, 0.5)] * 40
    assert standing([[clear, narrow, like]]) == [(3, 3)]
    assert standing([[clear, narrow, like], nothing]) == [(3, 2), (0, 0)]
