"""The growth rate of a tree, from the checkpoints that were seen. Pure.

There is one checkpoint per publish step, so a window cuts two steps. Rates are between checkpoints inside the window:
a rate from the last checkpoint before it would include leaves of the warm-up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Seen = tuple[float, int]  # the time when it was first seen, in s, and its size
_STALLED = 2.5  # publish steps without a checkpoint
_LATE = 1.5  # times the usual wait for a leaf: at slow rates, most publish steps have none


@dataclass(frozen=True)
class Growth:
    """The growth in a window: `qps` in 1/s over all publish steps, which take `duration_s`.

    `slope`: the rate by least squares, in which a single late checkpoint has little weight. `grew`, `took_s`: leaves
    and duration of each step.
    """

    qps: float
    slope: float
    duration_s: float
    grew: tuple[int, ...]
    took_s: tuple[float, ...]


def growth(seen: Sequence[Seen], begin: float, end: float, publish_interval_s: float) -> Growth | None:
    """Return the growth between the first and the last checkpoint inside the window; None for fewer than two.

    `seen`: in ascending order. If a log publishes nothing for more than a few steps at an edge of the window, that time
    counts: at the end the size stays, and at the start it is that part of the interrupted step's growth which falls
    into the window. A wait for the next leaf of a slow rate is no such time. Times in s.
    """
    rows = [row for row in seen if begin <= row[0] <= end]
    stalled_s = max(_STALLED * publish_interval_s, _LATE * _per_leaf_s(rows))
    before = [row for row in seen if row[0] < begin][-1:]
    if not rows:  # the log stopped before the window, and keeps its size
        rows = [(begin, size) for _, size in before]
    elif before and rows[0][0] - begin > stalled_s:
        (last, size), (next_, grown) = before[0], rows[0]
        rows = [(begin, round(size + (grown - size) * (begin - last) / (next_ - last))), *rows]
    if rows and end - rows[-1][0] > stalled_s:
        rows = [*rows, (end, rows[-1][1])]
    if not rows or rows[-1][0] == rows[0][0]:
        return None
    (first, small), (last, large) = rows[0], rows[-1]
    qps = (large - small) / (last - first)
    grew = tuple(b - a for (_, a), (_, b) in pairwise(rows))
    took_s = tuple(b - a for (a, _), (b, _) in pairwise(rows))
    return Growth(qps, _slope(rows), last - first, grew, took_s)


def _per_leaf_s(rows: Sequence[Seen]) -> float:
    """The mean time per leaf, in s; 0 if no leaf was added."""
    grew = rows[-1][1] - rows[0][1] if rows else 0
    return (rows[-1][0] - rows[0][0]) / grew if grew else 0.0


def _slope(rows: Sequence[Seen]) -> float:
    t, size = np.array(rows, dtype=float).T
    t -= t.mean()
    return float((t * (size - size.mean())).sum() / (t * t).sum())
