"""Trials that lie far from the others of their case: flagged and kept, beside what happened on their host meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import numpy as np

from benchstudy.model.criteria import FAR, LEAST_SPREAD
from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed
from benchstudy.statistics import stats

_SD_OF_MAD = 1.4826


@dataclass(frozen=True)
class Outlier:
    """A trial's `value` of a metric, `times` the median of its case. `events`: what happened on its host meanwhile."""

    trial: str
    target: str
    case: str
    metric: str
    value: str
    times: float
    events: tuple[str, ...]

    @property
    def text(self) -> str:
        """For a reader, behind the name of the trial or case."""
        cause = "; ".join(self.events) or "nothing was noticed on its host"
        times = f"{human.number(self.times)} times the median of its case"
        return f"{self.metric.replace('_', ' ')} {self.value} is {times} ({cause})"


def find(results: Results, busy: Sequence[str], indexes: Sequence[Mapping[str, Any]]) -> list[Outlier]:
    """Of the primary metrics, in cases with six trials or more. `busy`: trials before which their host was busy."""
    noticed = set(busy)
    of_target: dict[str, list[Mapping[str, Any]]] = {}
    for index in indexes:
        of_target.setdefault(index["target"], []).append(index)
    moments = {
        trial: (start, took)
        for trial, start, took in results.counted.select("trial", "started", "duration_s").iter_rows()
    }
    found = []
    for metric in results.primary_metrics:
        for (target, case), trials in results.by_case(metric).items():
            values = [value for _, value, _ in trials]
            if not can_tell(values):
                continue
            for (trial, value, unit), distance in zip(trials, distances(values), strict=True):
                if abs(distance) > FAR:
                    events = ["its host was busy before it"] if trial in noticed else []
                    if (target, case) in results.imported:
                        events = ["imported: nothing is known of its host"]
                    else:
                        events += [disturbed.told(results.disturbed[trial])] if trial in results.disturbed else []
                        events += _events(of_target.get(target, ()), *moments[trial])
                    times = value / median(values)
                    shown = human.quantity(value, unit)
                    found.append(Outlier(trial, target, case, metric, shown, times, tuple(events)))
    return found


def distances(values: Sequence[float]) -> np.ndarray:
    """Of each value from the median of all, in robust standard deviations: Iglewicz and Hoaglin's modified z-score,
    of logarithms because times and rates are skewed. The values are above zero.
    """
    logs = np.log(values)
    return (logs - np.median(logs)) / spread(values)


def spread(values: Sequence[float]) -> float:
    """Their robust standard deviation, of logarithms; LEAST_SPREAD at least."""
    logs = np.log(values)
    return max(_SD_OF_MAD * float(np.median(np.abs(logs - np.median(logs)))), LEAST_SPREAD)


def unseen(results: Results) -> list[tuple[str, str]]:
    """(target, case) of those that gave figures, too few of them to tell an outlier, or such as have no logarithm."""
    found = {
        key: None
        for metric in results.primary_metrics
        for key, trials in results.by_case(metric).items()
        if not can_tell([value for _, value, _ in trials])
    }
    return list(found)


def can_tell(values: Sequence[float]) -> bool:
    """Whether an outlier among so many could be told."""
    return len(values) >= stats.smallest_n(50) and all(0 < value < float("inf") for value in values)


def _events(indexes: Sequence[Mapping[str, Any]], started: str, duration_s: float) -> list[str]:
    """What sessions on a target noted while the trial ran."""
    begin = datetime.fromisoformat(started)
    end = begin + timedelta(seconds=duration_s or 0)
    noted = [e for index in indexes for s in index["sessions"] for e in s["events"]]
    return [text for when, _, text in (e.partition(" ") for e in noted) if begin <= datetime.fromisoformat(when) <= end]
