"""Trials that lie far from the others of their case: flagged and kept, beside what happened on their host meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import numpy as np

from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed
from benchstudy.statistics import stats

# Iglewicz and Hoaglin's modified z-score, of logarithms because times and rates are skewed.
_FARTHEST, _SD_OF_MAD = 3.5, 1.4826
# A case whose trials agree to a hundredth has no outlier that anybody would see.
_LEAST_SPREAD = 0.01


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
    moments = {
        trial: (start, took)
        for trial, start, took in results.counted.select("trial", "started", "duration_s").iter_rows()
    }
    found = []
    for metric in results.primary_metrics:
        for (target, case), trials in results.by_case(metric).items():
            values = [value for _, value, _ in trials]
            if not _can_tell(values):
                continue
            logs = np.log(values)
            distances = np.abs(logs - np.median(logs))
            limit = _FARTHEST * max(_SD_OF_MAD * float(np.median(distances)), _LEAST_SPREAD)
            for (trial, value, unit), distance in zip(trials, distances, strict=True):
                if distance > limit:
                    events = ["its host was busy before it"] if trial in noticed else []
                    if (target, case) in results.imported:
                        events = ["imported: nothing is known of its host"]
                    else:
                        events += [disturbed.told(results.disturbed[trial])] if trial in results.disturbed else []
                        events += _events(indexes, target, *moments[trial])
                    times = value / median(values)
                    shown = human.quantity(value, unit)
                    found.append(Outlier(trial, target, case, metric, shown, times, tuple(events)))
    return found


def unseen(results: Results) -> list[tuple[str, str]]:
    """(target, case) of those that gave figures, too few of them to tell an outlier, or such as have no logarithm."""
    found = {
        key: None
        for metric in results.primary_metrics
        for key, trials in results.by_case(metric).items()
        if not _can_tell([value for _, value, _ in trials])
    }
    return list(found)


def _can_tell(values: Sequence[float]) -> bool:
    return len(values) >= stats.smallest_n(50) and all(0 < value < float("inf") for value in values)


def _events(indexes: Sequence[Mapping[str, Any]], target: str, started: str, duration_s: float) -> list[str]:
    """What sessions on the target noted while the trial ran."""
    begin = datetime.fromisoformat(started)
    end = begin + timedelta(seconds=duration_s or 0)
    noted = [e for index in indexes if index["target"] == target for s in index["sessions"] for e in s["events"]]
    return [text for when, _, text in (e.partition(" ") for e in noted) if begin <= datetime.fromisoformat(when) <= end]
