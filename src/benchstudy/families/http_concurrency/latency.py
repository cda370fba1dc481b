"""Latencies of one run of a load generator, shared by the parsers of wrk and k6."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bin:
    """`count` requests took at least `low_s` and less than `high_s` seconds."""

    low_s: float
    high_s: float
    count: int


@dataclass(frozen=True)
class Latency:
    """Latencies in s. `percentiles` are (percent, s) in ascending order from 0 to 100. `bins` has no empty bins."""

    count: int
    mean: float
    sd: float | None  # None: the tool does not say
    min: float
    max: float
    percentiles: Sequence[tuple[float, float]]
    bins: Sequence[Bin]

    def percentile(self, percent: float) -> float | None:
        """Return the value of a given percentile in s; None if it is not among `percentiles`."""
        return next((seconds for given, seconds in self.percentiles if given == percent), None)

    def percentile_rows(self) -> list[Mapping[str, Any]]:
        """Return the rows of the series `percentiles`: percent, latency_s."""
        return [{"percent": percent, "latency_s": seconds} for percent, seconds in self.percentiles]

    def histogram_rows(self) -> list[Mapping[str, Any]]:
        """Return the rows of the series `histogram`: low_s, high_s, count."""
        return [{"low_s": one.low_s, "high_s": one.high_s, "count": one.count} for one in self.bins]
