"""Quantiles from buckets, as Prometheus' histogram_quantile interpolates them. Edges and counts in, figures out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Quantile:
    """`value` as Prometheus interpolates it between the edges `low` and `high` of the bucket that holds it; `high` is
    None above the last finite edge, and `low` is 0 in the first bucket: there it is only known to be below `high`."""

    value: float
    low: float
    high: float | None

    def apart(self, other: "Quantile") -> bool:
        """Whether the two lie in disjoint buckets, so that their order is known."""
        below = self.high is not None and self.high <= other.low
        above = other.high is not None and other.high <= self.low
        return below or above


def quantile(buckets: Mapping[float, float], q: float) -> Quantile | None:
    """The quantile `q` (0 to 1) of cumulative counts by upper edge. None without any call, or without the edge +Inf."""
    edges = sorted(buckets)
    found = histogram_quantile(q, edges, np.array([[buckets[edge]] for edge in edges]).reshape(-1, 1))
    value, low, high = (float(part[0]) for part in found)
    return None if math.isnan(value) else Quantile(value, low, None if math.isinf(high) else high)


def histogram_quantile(quantile: float, edges: Sequence[float], cumulative: np.ndarray) -> tuple[np.ndarray, ...]:
    """The quantile of k histograms as PromQL interpolates it, and both edges of its bucket; each has shape (k,).

    `edges` (n,): ascending, the last one inf. `cumulative` (n, k): counts or rates at or below each edge. In the last
    bucket the upper edge is inf, and the value is the last finite edge, which is only a lower bound. The result is NaN
    for histograms without observations or without a bucket up to infinity.
    """
    nothing = np.full(cumulative.shape[1], np.nan)
    if len(edges) < 2 or not math.isinf(edges[-1]):
        return nothing, nothing, nothing
    # Sums of floats, and scrapes during a write, can make a bucket smaller than the one below it: no count is negative.
    upto = np.maximum.accumulate(np.nan_to_num(cumulative), axis=0)
    total = upto[-1]
    rank = quantile * total
    last = len(edges) - 1
    reached = upto[:last] >= rank
    bucket = np.where(reached.any(axis=0), reached.argmax(axis=0), last)
    bounds = np.asarray(edges, dtype=float)
    columns = np.arange(len(rank))
    before = np.vstack([np.zeros_like(total), upto])[bucket, columns]
    low, high = np.append(min(0.0, bounds[0]), bounds)[bucket], bounds[bucket]
    inside = upto[bucket, columns] - before
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(inside > 0, low + (high - low) * ((rank - before) / inside), high)
    value = np.where(np.isinf(high), low, value)
    known = total > 0
    return tuple(np.where(known, part, np.nan) for part in (value, low, high))
