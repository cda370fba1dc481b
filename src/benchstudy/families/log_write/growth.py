"""How fast a tree grew, from the checkpoints that were seen. Pure.

A checkpoint is seen once a publish step, so a window of the clock cuts two steps. Rates are between checkpoints inside:
from the last one before the window on, a rate would hold what the warm-up wrote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Seen = tuple[float, int]  # when it was seen first, in s, and its size
_STALLED = 2.5  # publish steps without a checkpoint


@dataclass(frozen=True)
class Growth:
    """Of a window: `qps` in 1/s over all publish steps and `duration_s`. `slope`: by least squares over all of them, on
    which a single late checkpoint has little weight. `grew`, `took_s`: each step's leaves and its time.
    """

    qps: float
    slope: float
    duration_s: float
    grew: tuple[int, ...]
    took_s: tuple[float, ...]


def growth(seen: Sequence[Seen], begin: float, end: float, publish_interval_s: float) -> Growth | None:
    """Between the first and the last checkpoint inside the window; None when there are no two.

    `seen`: rising. A log that stops publishing for longer than a few steps has no growth until the window's end.
    """
    rows = [row for row in seen if begin <= row[0] <= end]
    if not rows:  # it had stopped before: what it had then is what it has
        rows = [(begin, size) for moment, size in seen if moment < begin][-1:]
    if rows and end - rows[-1][0] > _STALLED * publish_interval_s:
        rows = [*rows, (end, rows[-1][1])]
    if len(rows) < 2 or rows[-1][0] <= rows[0][0]:
        return None
    (first, small), (last, large) = rows[0], rows[-1]
    qps = (large - small) / (last - first)
    grew = tuple(b - a for (_, a), (_, b) in pairwise(rows))
    took_s = tuple(b - a for (a, _), (b, _) in pairwise(rows))
    return Growth(qps, _slope(rows), last - first, grew, took_s)


def _slope(rows: Sequence[Seen]) -> float:
    t, size = np.array(rows, dtype=float).T
    t -= t.mean()
    return float((t * (size - size.mean())).sum() / (t * t).sum())
