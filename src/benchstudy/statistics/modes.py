"""Whether a few values lie in two groups, so that their median lies in neither or in only one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchstudy.model.criteria import DIP_FEWEST, DIP_LEVEL, MODES_APART, MODES_FEWEST, MODES_GAP

_FEWEST_IN_A_MODE = 2  # a single value is an outlier
SAME = 1e-9  # of a value: a smaller difference is rounding of the computer, such as that of 0.1 + 0.2, not of a clock


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
    if len(values) < MODES_FEWEST or not all(map(math.isfinite, values)) or min(values) <= 0:
        return None
    ordered = np.log(_spread_over_steps(np.asarray(values, dtype=float)))
    places = np.arange(_FEWEST_IN_A_MODE, len(ordered) - _FEWEST_IN_A_MODE + 1)  # where the upper group may begin
    least, below, above = math.log(MODES_APART), ordered[places - 1], ordered[places]
    gaps, widest = above - below, np.maximum(below - ordered[0], ordered[-1] - above)
    parted = places[(gaps >= least) & (gaps > MODES_GAP * widest)]
    found = int(parted[0]) if parted.size else None
    if found is None and len(ordered) >= DIP_FEWEST and _dips(ordered):
        # From the sums up to each place: the means of both groups anew for each would take a time that grows as n².
        sums, rest = np.cumsum(ordered), len(ordered) - places
        apart = (sums[-1] - sums[places - 1]) / rest - sums[places - 1] / places
        best = int(np.argmax(places * rest * apart**2))
        found = int(places[best]) if apart[best] >= least else None
    if found is None:
        return None
    told = np.log(np.sort(values))
    low, high = np.exp(np.median(told[:found])), np.exp(np.median(told[found:]))
    return Modes(found, float(low), len(told) - found, float(high))


def _spread_over_steps(values: np.ndarray) -> np.ndarray:
    """The values in order. If some are equal, they were rounded to a step, which is no larger than the least distance
    between others, or than the least value: equal ones are then set apart evenly within it.
    """
    ordered = np.sort(values)
    begins = np.flatnonzero(np.diff(ordered, prepend=0) > SAME * ordered)
    distinct, counts = ordered[begins], np.diff(begins, append=len(ordered))
    if len(distinct) in (1, len(values)):
        return ordered
    step = min(np.diff(distinct).min(), distinct[0])
    return np.concatenate(
        [value + step * ((np.arange(n) + 0.5) / n - 0.5) for value, n in zip(distinct, counts, strict=True)]
    )


def _dips(ordered: np.ndarray) -> bool:
    import diptest  # most pages have no case with so many trials

    return float(diptest.diptest(ordered)[1]) <= DIP_LEVEL
