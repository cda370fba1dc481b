"""The spread of a study's targets: the usual range, the targets that stand out, and those without a result.

A target stands out in a figure if its median is farther from the median of all targets than `FAR` robust standard
deviations of their logarithms. This is certain if its whole 95 % interval is there, because then its trials agree.
Otherwise its trials vary too much, or are too few to tell.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np

from benchstudy.model.criteria import FAR
from benchstudy.report import human
from benchstudy.report.results.over_targets import ALL, OverTargets
from benchstudy.report.results.results import Estimate
from benchstudy.report.scrutiny import many_targets, outliers
from benchstudy.statistics import stats

# Central ranges, of which the widest that the number of targets supports is shown.
_TAILS = (5, 10, 25)


@dataclass(frozen=True)
class Figure:
    """One metric of one case over all targets: `values` by target, in the unit `unit`.

    `usual`: the percentiles between which most targets are, and their names ("5–95 %"), if there are enough targets.
    `low`, `high`: the limits beyond which a target stands out; None if no outlier can be told.
    """

    case: str
    metric: str
    unit: str
    values: Mapping[str, float]
    usual: tuple[str, float, float] | None
    low: float | None
    high: float | None

    @property
    def middle(self) -> float:
        """The median over targets."""
        return median(self.values.values())

    def ratio(self, target: str) -> float:
        """The ratio of the target's median to the median of all targets."""
        return self.values[target] / self.middle


@dataclass(frozen=True)
class Outlying:
    """A target's `estimate` in a `figure` in which it stands out, by `distance` robust standard deviations."""

    target: str
    figure: Figure
    distance: float
    estimate: Estimate

    @property
    def is_sure(self) -> bool:
        """Whether its trials agree that it is beyond the limit."""
        low, high = self.estimate.summary.interval_low, self.estimate.summary.interval_high
        if low is None or high is None or self.figure.low is None or self.figure.high is None:
            return False
        return low > self.figure.high or high < self.figure.low


@dataclass(frozen=True)
class Lost:
    """A target with failed trials. `cases` are those without any figure, of `of_cases` cases."""

    target: str
    cases: tuple[str, ...]
    of_cases: int
    failed: int
    trials: int
    cause: str


@dataclass(frozen=True)
class Spread:
    """The spread of a family's targets.

    `outlying` has the targets that stand out, the most outlying first, and `lost` those with failed trials, the most
    failures first. `unmeasured` maps targets without a trial that counts to the reason, if a session recorded one.
    `hosts` has what is unusual about a target's hosts.
    """

    targets: tuple[str, ...]
    figures: tuple[Figure, ...]
    outlying: Mapping[str, tuple[Outlying, ...]]
    lost: tuple[Lost, ...]
    unmeasured: Mapping[str, str]
    hosts: Mapping[str, Sequence[str]]

    @property
    def sure(self) -> list[str]:
        """The targets that certainly stand out in at least one figure."""
        return [target for target, found in self.outlying.items() if any(one.is_sure for one in found)]

    @property
    def looked_at(self) -> int:
        """The number of values for which standing out could be told."""
        return sum(len(figure.values) for figure in self.figures if figure.low is not None)

    @property
    def said(self) -> str:
        """The summary that a reader must know first."""
        count = human.plural(len(self.targets), "target")
        silent = [one for one in self.lost if len(one.cases) == one.of_cases]
        parts = []
        if not self.looked_at:
            parts.append(f"The data do not show whether any of {count} differs from the others.")
        elif not self.outlying:
            parts.append(f"None of {count} stands out.")
        else:
            names = many_targets.named([*self.sure, *(t for t in self.outlying if t not in self.sure)])
            parts.append(
                f"{len(self.outlying):,} of {count} stand out ({names}): a median is more than {FAR:g} robust "
                "standard deviations of logarithms from the median of all targets. This is certain for "
                f"{len(self.sure):,} of them, whose whole 95 % interval lies beyond that limit."
            )
        if self.looked_at:
            expected = self.looked_at * 2 * (1 - NormalDist().cdf(FAR))
            parts.append(
                f"With normal noise alone, {human.number(expected)} of {self.looked_at:,} figures would be that far."
            )
        if self.lost:
            parts.append(
                f"Trials failed on {human.plural(len(self.lost), 'target')} "
                f"({many_targets.named([one.target for one in self.lost])}). On {len(silent):,} of these, all failed."
            )
        if self.unmeasured:
            parts.append(
                f"{human.plural(len(self.unmeasured), 'target')} gave no result "
                f"({many_targets.named(list(self.unmeasured))})."
            )
        return " ".join(parts)


def find(results: OverTargets, indexes: many_targets.Indexes) -> Spread:
    """Find the spread of the primary metrics. `indexes` are the records of the sessions."""
    names = {trial: target for trial, target in results.names.select("trial", "target").iter_rows()}
    figures = []
    outlying: dict[str, list[Outlying]] = {}
    for metric in results.primary_metrics:
        for case in results.cases["case"]:
            of_targets = results.by_case(metric).get((ALL, case), [])
            values = {names[trial]: value for trial, value, _ in of_targets}
            if not values or len({unit for *_, unit in of_targets}) > 1:
                continue
            figure, distances = _figure(case, metric, of_targets[0][2], values)
            figures.append(figure)
            for target, distance in zip(values, distances, strict=True):
                if abs(distance) > FAR:
                    estimate = results.measured.estimate(metric, target, case)
                    assert estimate is not None, "it has a median"
                    outlying.setdefault(target, []).append(Outlying(target, figure, float(distance), estimate))
    ranked = sorted(outlying, key=lambda target: _rank(outlying[target]))
    targets = tuple(results.measured.targets)
    problems = {index["target"]: index.get("problem") or "" for index in indexes}
    measured = set(results.measured.counted["target"].to_list())
    return Spread(
        targets,
        tuple(figures),
        {t: tuple(sorted(outlying[t], key=lambda one: -abs(one.distance))) for t in ranked},
        tuple(_lost(results)),
        {t: problems.get(t) or "no session was held" for t in targets if t not in measured},
        many_targets.unusual(many_targets.facts_of_hosts(indexes)),
    )


def _figure(case: str, metric: str, unit: str, values: Mapping[str, float]) -> tuple[Figure, Sequence[float]]:
    numbers = [*values.values()]
    tail = next((tail for tail in _TAILS if stats.supported(100 - tail, len(numbers))), None)
    usual = None
    if tail is not None:
        low, high = np.percentile(numbers, [tail, 100 - tail])
        usual = (f"{tail}–{100 - tail} %", float(low), float(high))
    if not outliers.can_tell(numbers):
        return Figure(case, metric, unit, values, usual, None, None), [0.0] * len(numbers)
    middle, reach = median(numbers), FAR * outliers.spread(numbers)
    found = Figure(case, metric, unit, values, usual, middle * math.exp(-reach), middle * math.exp(reach))
    return found, outliers.distances(numbers).tolist()


def _rank(found: Sequence[Outlying]) -> tuple[int, int, float]:
    """The sort key: certain ones first, then those that stand out in most figures, then the farthest."""
    return -sum(one.is_sure for one in found), -len(found), -max(abs(one.distance) for one in found)


def _lost(results: OverTargets) -> list[Lost]:
    by_target: dict[str, dict[str, list]] = {}
    for (target, case), outcomes in results.measured.outcomes.items():
        by_target.setdefault(target, {})[case] = outcomes
    found = []
    for target, cases in by_target.items():
        reasons = [reason for outcomes in cases.values() for reason in outcomes if reason is not None]
        if reasons:
            without = tuple(case for case, outcomes in cases.items() if None not in outcomes)
            cause = Counter(reason.words for reason in reasons).most_common(1)[0][0]
            trials = sum(map(len, cases.values()))
            found.append(Lost(target, without, len(cases), len(reasons), trials, cause))
    return sorted(found, key=lambda one: (-len(one.cases), -one.failed))
