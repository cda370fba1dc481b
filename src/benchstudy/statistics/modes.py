"""Whether a few values lie in two groups, so that their median lies in neither or in only one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchstudy.model.criteria import DIP_FEWEST, DIP_LEVEL, MODES_APART, MODES_FEWEST, MODES_GAP

_FEWEST_IN_A_MODE = 2  # a single value is an outlier


@dataclass(frozen=True)
class Modes:
    """Two groups of values: how many values each has, and its median, in the unit of the values."""

    low_n: int
    low: float
    high_n: int
    high: float


def two_modes(values: Sequence[float]) -> Modes | None:
    """The two groups in which the values lie. None if they lie in one group, as far as so many values can tell.

    Works on logarithms, as ratios do. From MODES_FEWEST values on, a gap counts that is MODES_GAP times as wide as
    either group. From DIP_FEWEST on, Hartigan's dip test (1985, `diptest`) at DIP_LEVEL counts, too; the groups are
    then parted where they differ most. Groups must be MODES_APART. Returns None if a value is zero or below, because
    it has no ratio. Equal values, as a clock that rounds gives them, count as spread over its step.
    """
    if len(values) < MODES_FEWEST or not all(math.isfinite(value) and value > 0 for value in values):
        return None
    ordered = np.log(_spread_over_steps(np.asarray(values, dtype=float)))
    places = range(_FEWEST_IN_A_MODE, len(ordered) - _FEWEST_IN_A_MODE + 1)  # where the upper group may begin
    least = math.log(MODES_APART)

    def gap(at: int) -> float:
        return float(ordered[at] - ordered[at - 1])

    def widest(at: int) -> float:
        return float(max(ordered[at - 1] - ordered[0], ordered[-1] - ordered[at]))

    found = next((at for at in places if gap(at) >= least and gap(at) > MODES_GAP * widest(at)), None)
    if found is None and len(ordered) >= DIP_FEWEST and _dips(ordered):
        best = max(places, key=lambda at: at * (len(ordered) - at) * _apart(ordered, at) ** 2)
        found = best if _apart(ordered, best) >= least else None
    if found is None:
        return None
    told = np.log(np.sort(values))
    low, high = np.exp(np.median(told[:found])), np.exp(np.median(told[found:]))
    return Modes(found, float(low), len(told) - found, float(high))


def _spread_over_steps(values: np.ndarray) -> np.ndarray:
    """The values in order. If some are equal, they were rounded to a step, which is no larger than the least distance
    between others, or than the least value: equal ones are then set apart evenly within it.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) in (1, len(values)):
        return np.sort(values)
    step = min(np.diff(distinct).min(), distinct[0])
    return np.concatenate(
        [value + step * ((np.arange(n) + 0.5) / n - 0.5) for value, n in zip(distinct, counts, strict=True)]
    )


def _dips(ordered: np.ndarray) -> bool:
    import diptest  # most pages have no case with so many trials

    return float(diptest.diptest(ordered)[1]) <= DIP_LEVEL


def _apart(ordered: np.ndarray, at: int) -> float:
    return float(np.mean(ordered[at:]) - np.mean(ordered[:at]))
