"""Latencies of one run of a load generator, shared by the parsers of wrk and k6."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchstudy.families.shared.clients import Bins


@dataclass(frozen=True)
class Latency:
    """Latencies in s. `percentiles` are (percent, s) in ascending order from 0 to 100. `bins` has no empty bins."""

    count: int
    mean: float
    sd: float | None  # None: the tool does not say
    min: float
    max: float
    percentiles: Sequence[tuple[float, float]]
    bins: Bins

    def percentile(self, percent: float) -> float | None:
        """Return the value of a given percentile in s; None if it is not among `percentiles`."""
        return next((seconds for given, seconds in self.percentiles if given == percent), None)
