"""Two cases against each other: the ratio with its interval, and a verdict against a margin that was declared before.

The unit is the trial. All ratios come from logarithms of trials' values, `other` over `base`; docs/statistics.md says
what is computed and why. No data makes these functions raise: a comparison that is impossible says so in words.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import scipy  # which imports `scipy.stats` on first use: it takes a second, and a crate or the index compares little

from benchstudy.model import rounding
from benchstudy.model.criteria import LEVEL
from benchstudy.model.metrics import Better
from benchstudy.statistics import shifts
from benchstudy.statistics.modes import Modes, two_modes
from benchstudy.statistics.stats import smallest_n


class Verdict(StrEnum):
    """In the order in which a summary counts them."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    NONE = "none"  # nothing could be computed, or comparing is not allowed

    @property
    def is_difference(self) -> bool:
        """Whether it says that one of the two is better."""
        return self in (Verdict.BETTER, Verdict.WORSE)

    @property
    def told(self) -> str:
        """For a reader: "better", "no verdict"."""
        return "no verdict" if self is Verdict.NONE else self.value

    @property
    def counted(self) -> str:
        """For a summary of several: "better", "without a verdict"."""
        return "without a verdict" if self is Verdict.NONE else self.value


class Refusal(StrEnum):
    """Why two arms get no verdict whatever their figures are."""

    SESSIONS = "sessions"  # no session in common, or it is unknown whether there is one
    CONDITIONS = "conditions"  # another tool, measuring code, definition or verified cache state
    DISTURBED = "disturbed"  # others took too much of the host
    UNFIT = "unfit"  # the family says why
    SAME = "same"  # trials of one are also trials of the other
    SET = "set"  # the study set both figures, such as rates that both took as offered


class Method(StrEnum):
    """How two arms are compared, as pages name it."""

    PAIRED_T = "paired t on logarithms"
    SIGNED_RANK = "paired Hodges-Lehmann, signed-rank interval"
    WELCH = "Welch on logarithms"
    MANN_WHITNEY = "Hodges-Lehmann, Mann-Whitney interval"


ALPHA = 1 - LEVEL
POWER = 0.80
_FEWEST_FOR_T, _FEWEST_FOR_RANKS = 3, smallest_n(50)
# The signed-rank interval of six pairs is their range, and no p value of it is below 0.03: too weak for a family of
# several comparisons. Ten give up hardly any power against t, and get down to 0.002.
FEWEST_PAIRS_FOR_RANKS = 10
_MOST_FOR_RANKS = 500  # more than n·m differences would fill the memory, and means of so many logarithms are normal
_MOST_UNEQUAL = 1.5  # times as many trials: beyond, Mann-Whitney's interval is too narrow if spreads differ
_NO_SPREAD = 1e-9  # in logarithms: less is rounding of the computer, not of a clock
_NO_SPREAD_WORDS = "no spread: the clock or the tool may round, so the uncertainty is unknown"
_COARSE_WORDS = "many values are equal, so the uncertainty is unknown"
_LARGEST_LOGARITHM = 700.0


@dataclass(frozen=True)
class Share:
    """`count` of `n` with Wilson's 95 % interval."""

    count: int
    n: int
    low: float
    high: float

    @property
    def interval(self) -> str:
        """For a reader: "95 %: 7–59 %"."""
        low, high, share = 100 * self.low, 100 * self.high, 100 * self.count / self.n
        return f"95 %: {rounding.interval(low, high, share, ' %', trim=True)}"


def share(count: int, n: int) -> Share:
    """The share `count` / `n` with Wilson's 95 % interval, for example of trials that failed.

    Raises ValueError unless 0 <= count <= n and n > 0.
    """
    if not 0 <= count <= n or n == 0:
        raise ValueError(f"a share needs a count between 0 and n, and an n above 0; got {count} of {n}")
    interval = scipy.stats.binomtest(count, n).proportion_ci(LEVEL, method="wilson")
    return Share(count, n, float(interval.low), float(interval.high))


@dataclass(frozen=True)
class Arm:
    """The trials of one case: their `values` in the base unit `unit`, and how many `failed` and gave no value.

    `blocks` name the block of each value; trials of two arms in one block are a pair. Without blocks nothing is paired.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    blocks: tuple[Hashable, ...] = ()
    failed: int = 0

    def __post_init__(self) -> None:
        if self.blocks and len(self.blocks) != len(self.values):
            raise ValueError(f"{self.name}: {len(self.values)} values in {len(self.blocks)} blocks")

    @property
    def n(self) -> int:
        """Trials that gave a value."""
        return len(self.values)

    @cached_property
    def median(self) -> float | None:
        """The absolute figure behind a ratio."""
        return float(np.median(self.values)) if self.values and np.isfinite(self.values).all() else None

    @cached_property
    def failures(self) -> Share | None:
        """The share of trials that failed, with Wilson's interval. None if none failed."""
        return share(self.failed, self.n + self.failed) if self.failed else None


@dataclass(frozen=True)
class Evidence:
    """What the spread of the trials says about a ratio. `low`, `high`: its 95 % interval.

    `p_beyond`: p value against "the two differ by at most the margin" (two-sided). `p_within`: against "they differ by
    at least the margin" (two one-sided tests). `smallest_detectable`: the relative difference beyond the margin that
    this many trials with this spread show with 80 % power; 0.2 is 20 %.
    """

    low: float
    high: float
    p_beyond: float
    p_within: float
    smallest_detectable: float


@dataclass(frozen=True)
class Comparison:
    """`other` over `base`. What the data do not support is None, and `why` gives the reason in words for a reader.
    `refusal` is that reason if it does not lie in the figures.

    `pairs`: how many blocks were compared, 0 if the arms are not paired. `adjusted`: the p value of the verdict's own
    claim after Benjamini-Hochberg over `tests` comparisons; `against`: the hypothesis it speaks against. `verdict` is
    "none" until `judge` has seen the whole family.
    """

    base: Arm
    other: Arm
    margin: float
    better: Better
    why: str = ""
    refusal: Refusal | None = None
    ratio: float | None = None
    evidence: Evidence | None = None
    method: str = ""
    pairs: int = 0
    warnings: tuple[str, ...] = ()
    verdict: Verdict = Verdict.NONE
    adjusted: float | None = None
    against: str = ""
    tests: int = 0

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The 95 % interval of the ratio."""
        return (self.evidence.low, self.evidence.high) if self.evidence else (None, None)


def compare(base: Arm, other: Arm, *, margin: float, better: Better) -> Comparison:
    """The ratio of two arms, its interval and p values, without a verdict.

    `margin`: the relative difference that matters, 0.05 for 5 %. Trials that share blocks are paired: by t on
    logarithms, from ten pairs on by Hodges-Lehmann with the inverted signed-rank test. Unpaired arms: from six
    trials each by Hodges-Lehmann with the inverted Mann-Whitney test, below by Welch's t on logarithms. Raises
    ValueError for a margin that is not between 0 and 1.
    """
    if not 0 < margin < 1:
        raise ValueError(f"a margin lies between 0 and 1, both excluded; got {margin}")
    made = Comparison(base, other, margin, better)
    problem = _problem(base) or _problem(other)
    if base.unit != other.unit and base.values and other.values:
        problem = f"{base.name} is in {base.unit}, {other.name} in {other.unit}: no ratio of different units"
    if problem:
        return replace(made, why=problem)
    pairs = _pairs(base, other)
    method = _method(len(pairs[0]), base.n, other.n)
    if method is None:
        return replace(made, why=f"n too small: {base.n} against {other.n}; {_FEWEST_FOR_T} trials are needed")
    paired = method in (Method.PAIRED_T, Method.SIGNED_RANK)
    logs = [np.log(values) for values in (pairs if paired else (base.values, other.values))]
    made = replace(made, method=method, pairs=len(pairs[0]) if paired else 0)
    made = replace(made, warnings=_warnings(made))
    differences = logs[1] - logs[0] if paired else np.concatenate([side - side[0] for side in logs])
    if np.ptp(differences) < _NO_SPREAD:
        ratio = math.exp(float(logs[1][0] - logs[0][0]))
        return replace(made, ratio=ratio, verdict=Verdict.INCONCLUSIVE, why=_NO_SPREAD_WORDS)
    groups = two_modes([_ratio(each) for each in differences]) if paired else None
    if groups is not None:
        made = replace(made, warnings=(*made.warnings, _in_groups(groups)))
    student = shifts.student_of_pairs(differences) if paired else shifts.welch(*logs)
    if method in (Method.PAIRED_T, Method.WELCH):
        return _estimated(made, student, student, groups)
    ranked = shifts.ranked_pairs(differences) if paired else shifts.ranked_samples(*logs)
    low, high = ranked.interval(1 - 2 * ALPHA)
    if high - low < _NO_SPREAD and _is_coarse(made):
        return replace(made, ratio=_ratio(ranked.estimate), verdict=Verdict.INCONCLUSIVE, why=_COARSE_WORDS)
    return _estimated(made, ranked, student, groups)


def judge(family: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with their verdicts. They form one declared family: p values are adjusted over all of them.

    better, worse: the whole 95 % interval lies beyond the margin, and so does the adjusted test. equivalent: both
    one-sided tests, adjusted, say so (TOST), which they only do if the 90 % interval lies within the margin.
    inconclusive: neither.
    """
    tested = [(index, made.evidence) for index, made in enumerate(family) if made.evidence]
    beyond = _adjusted([evidence.p_beyond for _, evidence in tested])
    within = _adjusted([evidence.p_within for _, evidence in tested])
    judged = list(family)
    for (index, evidence), p_beyond, p_within in zip(tested, beyond, within, strict=True):
        judged[index] = _verdict(family[index], evidence, p_beyond, p_within, len(tested))
    return judged


# A tested comparison: its verdict, and its two p values before any adjustment.
Tested = tuple[str, float, float]


def tested(judged: Iterable[Comparison]) -> list[Tested]:
    """Judged comparisons as plain data, so that a study can look at the comparisons of all its pages together."""
    return [
        (made.verdict.value, made.evidence.p_beyond, made.evidence.p_within)
        for made in judged
        if made.evidence and made.adjusted is not None
    ]


def standing(groups: Sequence[Sequence[Tested]]) -> list[tuple[int, int]]:
    """For each group its verdicts (better, worse, equivalent), and how many remain if all are adjusted together.

    The p values of all groups are one family then (Benjamini-Hochberg).
    """
    every = [one for group in groups for one in group]
    beyond, within = _adjusted([p for _, p, _ in every]), _adjusted([p for _, _, p in every])
    counts = [[0, 0] for _ in groups]
    of = [number for number, group in enumerate(groups) for _ in group]
    for number, (verdict, *_), p_beyond, p_within in zip(of, every, beyond, within, strict=True):
        if verdict == Verdict.EQUIVALENT or Verdict(verdict).is_difference:
            counts[number][0] += 1
            counts[number][1] += (p_within if verdict == Verdict.EQUIVALENT else p_beyond) <= ALPHA
    return [(made, stand) for made, stand in counts]


@dataclass(frozen=True)
class Calibration:
    """What a study finds between identical cases, where each difference is a false alarm.

    `alarms`: verdicts of better or worse. `excluding_one`: 95 % intervals of the ratio that exclude 1, which one in
    twenty is expected to do. `lowest`, `highest`: the ratios, which are the noise of this set-up.
    """

    alarms: Share
    excluding_one: Share
    lowest: float
    highest: float


def calibrate(judged: Iterable[Comparison]) -> Calibration | None:
    """The rate of false alarms in judged comparisons of a case with itself (A/A). None if none has an interval."""
    usable = [(made, made.ratio, made.evidence) for made in judged if made.ratio is not None and made.evidence]
    if not usable:
        return None
    ratios = [ratio for _, ratio, _ in usable]
    return Calibration(
        share(sum(made.verdict.is_difference for made, *_ in usable), len(usable)),
        share(sum(not evidence.low <= 1 <= evidence.high for *_, evidence in usable), len(usable)),
        min(ratios),
        max(ratios),
    )


def _problem(arm: Arm) -> str:
    """Why there is no ratio with this arm; empty if there is one."""
    if not arm.values:
        if not arm.failed:
            return f"{arm.name}: not measured"
        return (
            f"{arm.name}: the only trial failed" if arm.failed == 1 else f"{arm.name}: all {arm.failed} trials failed"
        )
    if not np.isfinite(arm.values).all():
        return f"{arm.name}: a value is infinite or not a number"
    zeros, negative = sum(value == 0 for value in arm.values), sum(value < 0 for value in arm.values)
    if negative:
        return f"{arm.name}: {negative} of {arm.n} values are negative, so there is no ratio"
    if zeros:
        return f"{arm.name}: {zeros} of {arm.n} values are zero, so there is no ratio"
    return ""


def _pairs(base: Arm, other: Arm) -> tuple[list[float], list[float]]:
    """Values of the blocks in which both arms have exactly one."""
    sides = [dict(zip(arm.blocks, arm.values, strict=True)) if arm.blocks else {} for arm in (base, other)]
    if any(len(side) < len(arm.blocks) for side, arm in zip(sides, (base, other), strict=True)):
        return [], []
    shared = [block for block in sides[0] if block in sides[1]]
    return [sides[0][block] for block in shared], [sides[1][block] for block in shared]


def _method(pairs: int, n: int, m: int) -> Method | None:
    """Depends only on the numbers of trials, never on their values."""
    if pairs >= _FEWEST_FOR_RANKS or (pairs >= _FEWEST_FOR_T and min(n, m) < _FEWEST_FOR_RANKS):
        ranked = FEWEST_PAIRS_FOR_RANKS <= pairs <= _MOST_FOR_RANKS
        return Method.SIGNED_RANK if ranked else Method.PAIRED_T
    few, many = sorted((n, m))
    if few >= _FEWEST_FOR_RANKS and many <= min(_MOST_FOR_RANKS, _MOST_UNEQUAL * few):
        return Method.MANN_WHITNEY
    return Method.WELCH if few >= _FEWEST_FOR_T else None


def _is_coarse(made: Comparison) -> bool:
    """Whether some values are equal, and all others differ by more than the margin, as if they had been rounded."""
    gaps = np.diff(np.sort(np.log([*made.base.values, *made.other.values])))
    steps = gaps[gaps > _NO_SPREAD]
    return len(steps) < len(gaps) and float(steps.min(initial=math.inf)) > math.log1p(made.margin)


def _in_groups(groups: Modes) -> str:
    low, high = (f"{rounding.shown(ratio)}×" for ratio in (groups.low, groups.high))
    return f"the ratios of pairs lie in two groups: {groups.low_n} near {low}, {groups.high_n} near {high}"


def _estimated(
    made: Comparison, shift: shifts.Ranked | shifts.Student, student: shifts.Student, groups: Modes | None
) -> Comparison:
    """`made` with the ratio, interval and p values of `shift`, and what the error of `student` can detect.

    Pairs in two `groups`, one beyond either edge of the margin, are no evidence that the two differ by less.
    """
    edge = math.log1p(made.margin)
    low, high = shift.interval(LEVEL)
    opposed = groups is not None and groups.low < math.exp(-edge) and groups.high > math.exp(edge)
    evidence = Evidence(
        _ratio(low),
        _ratio(high),
        # Beyond the upper or the lower edge, only one of which can be an error: doubled for the two sides.
        p_beyond=min(1.0, 2 * min(shift.p_above(edge), shift.p_below(-edge))),
        p_within=1.0 if opposed else max(shift.p_above(-edge), shift.p_below(edge)),
        smallest_detectable=_ratio(student.detectable(LEVEL, POWER)) - 1,
    )
    return replace(made, ratio=_ratio(shift.estimate), evidence=evidence)


def _ratio(logarithm: float) -> float:
    """The interval of three widely spread trials may exceed any float: its end is then infinite or zero."""
    return math.exp(logarithm) if logarithm < _LARGEST_LOGARITHM else math.inf


def _warnings(made: Comparison) -> tuple[str, ...]:
    found = []
    for arm, counterpart in ((made.base, made.other), (made.other, made.base)):
        # If a counterpart failed, the failures are reported instead.
        if made.pairs and made.pairs + counterpart.failed < arm.n:
            alone = arm.n - made.pairs
            rest = rounding.verb(alone, arm.n, "has no counterpart in its block", "have no counterpart in their block")
            found.append(f"{alone} of {rounding.plural(arm.n, 'trial')} of {arm.name} {rest}")
        if arm.failures is not None:
            found.append(
                f"{arm.failed} of {rounding.plural(arm.failures.n, 'trial')} of {arm.name} failed "
                f"({arm.failures.interval}): the ratio covers only the others"
            )
        if math.log(max(arm.values) / min(arm.values)) < _NO_SPREAD:
            found.append(f"all values of {arm.name} are equal: the clock or the tool may round")
    shared = len(_pairs(made.base, made.other)[0])
    if shared and not made.pairs:
        few = min(made.base.n, made.other.n)
        rest = rounding.verb(shared, few, "has a counterpart in its block", "have a counterpart in their block")
        found.append(f"only {shared} of {few} trials {rest}: compared as independent samples")
    if _is_coarse(made):
        found.append("values that are not equal differ by more than the margin: the clock or the tool may round")
    return tuple(found)


def _adjusted(p_values: Sequence[float]) -> list[float]:
    return scipy.stats.false_discovery_control(p_values).tolist() if p_values else []


def _least(low: float, high: float) -> str:
    """The end of an interval beyond the margin, with as many digits: "at least 15.9 times the base"."""
    to = rounding.digits(low, high)
    if high < 1:
        return f"lower by at least {rounding.shown(100 * (1 - high), to)} %"
    if low < 2:
        return f"higher by at least {rounding.shown(100 * (low - 1), to)} %"
    if not math.isfinite(low):
        return "more times the base than a float can hold"
    return f"at least {rounding.shown(low, to)} times the base"


def _verdict(made: Comparison, evidence: Evidence, p_beyond: float, p_within: float, tests: int) -> Comparison:
    edge = 1 + made.margin
    up, down = evidence.low > edge, evidence.high < 1 / edge
    margin = f"{rounding.shown(made.margin * 100, trim=True)} %"
    beyond, within = (p_beyond, f"they differ by at most {margin}"), (p_within, f"they differ by {margin} or more")
    if (up or down) and p_beyond <= ALPHA:
        verdict, rejected = (Verdict.BETTER if up == (made.better == "higher") else Verdict.WORSE), beyond
        why = _least(evidence.low, evidence.high)
    elif p_within <= ALPHA:
        verdict, rejected, why = Verdict.EQUIVALENT, within, f"they differ by less than {margin}"
    else:
        # Neither hypothesis is rejected: give the p value against the one that is closer to rejection.
        verdict, rejected = Verdict.INCONCLUSIVE, min(beyond, within)
        if up or down:
            why = f"beyond {margin} if judged alone, not among {tests} comparisons"
        elif not evidence.low <= 1 <= evidence.high:
            alone = " if judged alone" if tests > 1 else ""  # its interval is not adjusted
            why = f"a difference{alone}, but perhaps of less than {margin}"
        else:
            why = f"neither more nor less than {margin} is shown"
    return replace(made, verdict=verdict, adjusted=rejected[0], against=rejected[1], tests=tests, why=why)
