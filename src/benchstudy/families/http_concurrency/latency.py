"""Latencies of one run of a load generator: what the parsers of wrk and k6 share."""

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
    """Seconds. `percentiles` are (percent, seconds) from 0 to 100, rising; `bins` has only those with requests."""

    count: int
    mean: float
    sd: float | None  # None: the tool does not say
    min: float
    max: float
    percentiles: Sequence[tuple[float, float]]
    bins: Sequence[Bin]

    def percentile(self, percent: float) -> float | None:
        """The value of one of the given percentiles; None for another one."""
        return next((seconds for given, seconds in self.percentiles if given == percent), None)

    def percentile_rows(self) -> list[Mapping[str, Any]]:
        """As the series `percentiles`: percent, latency_s."""
        return [{"percent": percent, "latency_s": seconds} for percent, seconds in self.percentiles]

    def histogram_rows(self) -> list[Mapping[str, Any]]:
        """As the series `histogram`: low_s, high_s, count."""
        return [{"low_s": one.low_s, "high_s": one.high_s, "count": one.count} for one in self.bins]
