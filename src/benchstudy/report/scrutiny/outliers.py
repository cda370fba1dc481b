"""Outliers: trials far from the others of their case. They are flagged and kept, with the events on their host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import numpy as np

from benchstudy.model import rounding
from benchstudy.model.criteria import FAR, LEAST_SPREAD
from benchstudy.model.grouping import grouped
from benchstudy.report import human
from benchstudy.report.results.results import Results
from benchstudy.report.scrutiny import disturbed
from benchstudy.statistics import stats

_SD_OF_MAD = 1.4826
# For FAR, by the number of values, from 40 million simulated ones each. To simulate them takes a page 20 ms per number.
_FEW = (  # from 6 to 30
    *(0.03076, 0.03374, 0.02222, 0.02342, 0.01682, 0.01735, 0.01319, 0.01351, 0.01069, 0.01093, 0.00894, 0.00905),
    *(0.00762, 0.00768, 0.00657, 0.00661, 0.00579, 0.00583, 0.00513, 0.00517, 0.00463, 0.00462, 0.00420, 0.00421),
    0.00385,
)
_MANY = {40: 0.00271, 50: 0.00211, 70: 0.00152, 100: 0.00113, 200: 7.59e-4, 500: 5.71e-4, 1000: 5.1e-4, 5000: 4.78e-4}
_CHANCES = dict(enumerate(_FEW, start=6)) | _MANY


@dataclass(frozen=True)
class Outlier:
    """A trial's `value` of a `metric` (its title), `times` the median of its case.

    `events` are those on its host meanwhile. Nothing is known of the host of an `imported` trial.
    """

    trial: str
    target: str
    case: str
    metric: str
    value: str
    times: float
    events: tuple[str, ...]
    imported: bool

    @property
    def text(self) -> str:
        """The outlier in words, to follow the name of the trial or case."""
        nothing = "imported: nothing is known about its host" if self.imported else "no event was recorded on its host"
        cause = "; ".join(self.events) or nothing
        times = f"{human.number(self.times)} times the median of its case"
        return f"{self.metric}: {self.value} is {times} ({cause})"


def find(results: Results, busy: Sequence[str], indexes: Sequence[Mapping[str, Any]]) -> list[Outlier]:
    """Find outliers of the primary metrics in cases with six trials or more.

    `busy` are trials whose host was busy before them; `indexes` are the records of the sessions.
    """
    noticed = set(busy)
    of_target = grouped((index["target"], index) for index in indexes)
    moments = {
        trial: (start, took)
        for trial, start, took in results.counted.select("trial", "started", "duration_s").iter_rows()
    }
    found = []
    for metric in results.primary_metrics:
        title = results.declared(metric).title
        for (target, case), trials in results.by_case(metric).items():
            values = [value for _, value, _ in trials]
            if not can_tell(values):
                continue
            middle = median(values)
            for (trial, value, unit), distance in zip(trials, distances(values), strict=True):
                if abs(distance) > FAR:
                    events = ["its host was busy before it"] if trial in noticed else []
                    imported = (target, case) in results.imported
                    if not imported:
                        events += [disturbed.told(results.disturbed[trial])] if trial in results.disturbed else []
                        events += _events(of_target.get(target, ()), *moments[trial])
                    times = value / middle
                    shown = human.quantity(value, unit)
                    found.append(Outlier(trial, target, case, title, shown, times, tuple(events), imported))
    return found


def distances(values: Sequence[float]) -> np.ndarray:
    """The distance of each value from the median of all, in robust standard deviations of logarithms.

    This is Iglewicz and Hoaglin's modified z-score, of logarithms because times and rates are skewed. All values must
    be above zero.
    """
    logs = np.log(values)
    return (logs - np.median(logs)) / spread(values)


def spread(values: Sequence[float]) -> float:
    """The robust standard deviation of the values' logarithms, at least LEAST_SPREAD."""
    logs = np.log(values)
    return max(_SD_OF_MAD * float(np.median(np.abs(logs - np.median(logs)))), LEAST_SPREAD)


def by_chance(counts: Sequence[int]) -> str:
    """How many values would be outliers in samples of so many normal values each, in one sentence."""
    expected = rounding.few(sum(n * _chance(n) for n in counts))
    return f"With normal noise alone, {expected} of {sum(counts):,} figures would be that far."


def _chance(n: int) -> float:
    """The chance that one of `n` normal values is an outlier: 3 % of 6, 0.5 % of 25, because their MAD varies, too."""
    return float(np.exp(np.interp(np.log(n), np.log(list(_CHANCES)), np.log(list(_CHANCES.values())))))


def looked_at(results: Results) -> list[int]:
    """The number of figures of each case and primary metric in which outliers were looked for."""
    samples = ([v for _, v, _ in of] for m in results.primary_metrics for of in results.by_case(m).values())
    return [len(values) for values in samples if can_tell(values)]


def unseen(results: Results) -> list[tuple[str, str]]:
    """The cases (target, case) with figures, but too few to tell an outlier, or with values that have no logarithm."""
    found = {
        key: None
        for metric in results.primary_metrics
        for key, trials in results.by_case(metric).items()
        if not can_tell([value for _, value, _ in trials])
    }
    return list(found)


def can_tell(values: Sequence[float]) -> bool:
    """Whether an outlier can be told among these values: they are enough, above zero and finite."""
    return len(values) >= stats.smallest_n(50) and all(0 < value < float("inf") for value in values)


def _events(indexes: Sequence[Mapping[str, Any]], started: str, duration_s: float) -> list[str]:
    """The events that sessions on a target noted while the trial ran."""
    begin = datetime.fromisoformat(started)
    end = begin + timedelta(seconds=duration_s or 0)
    noted = [e for index in indexes for s in index["sessions"] for e in s["events"]]
    return [text for when, _, text in (e.partition(" ") for e in noted) if begin <= datetime.fromisoformat(when) <= end]
