"""The spread of a study's targets: the usual range, the targets that stand out, and those without a result.

A target stands out in a figure if its median is farther from the median of all targets than `FAR` robust standard
deviations of their logarithms. This is certain if its whole 95 % interval is there, because then its trials agree.
Otherwise its trials vary too much, or are too few to tell.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

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
    """One metric of one case over all targets: `values` by target. `unit` is empty if they have different ones."""

    case: str
    metric: str
    unit: str
    values: Mapping[str, float]

    @cached_property
    def ranked(self) -> list[str]:
        """The targets, that with the lowest value first."""
        return sorted(self.values, key=self.values.__getitem__)

    @cached_property
    def middle(self) -> float:
        """The median over targets."""
        return median(self.values.values())

    @cached_property
    def deviation(self) -> float:
        """The robust standard deviation of logarithms; infinite if no outlier can be told."""
        numbers = [*self.values.values()]
        return outliers.spread(numbers) if outliers.can_tell(numbers) else math.inf

    @property
    def can_tell(self) -> bool:
        """Whether an outlier can be told."""
        return math.isfinite(self.deviation)

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest value that do not stand out."""
        reach = FAR * self.deviation
        return self.middle * math.exp(-reach), self.middle * math.exp(reach)

    @property
    def usual(self) -> tuple[str, float, float] | None:
        """The percentiles between which most targets are, and their names ("5–95 %"), if there are enough targets."""
        tail = next((tail for tail in _TAILS if stats.supported(100 - tail, len(self.values))), None)
        if tail is None:
            return None
        low, high = np.percentile([*self.values.values()], [tail, 100 - tail])
        return f"{tail}–{100 - tail} %", float(low), float(high)

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
        lowest, highest = self.figure.limits
        return low is not None and high is not None and (low > highest or high < lowest)


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
        return sum(len(figure.values) for figure in self.figures if figure.can_tell)

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
            parts.append(outliers.by_chance([len(figure.values) for figure in self.figures if figure.can_tell]))
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
    figures = [one for one in figures_of(results, results.primary_metrics) if one.unit]
    outlying: dict[str, list[Outlying]] = {}
    for one in figures:
        if not one.can_tell:
            continue
        distances = outliers.distances([*one.values.values()]).tolist()
        for target, distance in zip(one.values, distances, strict=True):
            if abs(distance) > FAR:
                estimate = results.measured.estimate(one.metric, target, one.case)
                assert estimate is not None, "it has a median"
                outlying.setdefault(target, []).append(Outlying(target, one, distance, estimate))
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


def figures_of(results: OverTargets, metrics: Sequence[str]) -> Iterator[Figure]:
    """Yield the figures of these metrics, case by case, that any target gave."""
    for metric in metrics:
        for case in results.cases["case"]:
            given = results.by_case(metric).get((ALL, case), [])
            if given:
                unit, *others = {unit for *_, unit in given}
                values = {results.target_of[trial]: value for trial, value, _ in given}
                yield Figure(case, metric, "" if others else unit, values)


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
