"""Results of a trial with several clients: when each client started, and combined metrics and latencies. Pure.

Rates and counts are summed, and histograms are merged. Percentiles cannot be combined: they are read from the merged
histogram, or left out if its bins are too wide.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchstudy.families.shared.files import damaged, read_facts
from benchstudy.model.clients import CLIENTS_FILE
from benchstudy.model.criteria import RESOLVED, SKEW
from benchstudy.model.metrics import Metric
from benchstudy.model.parsing import ParseError
from benchstudy.model.rounding import percent, shown

SERIES = "clients"
SCHEMA: Mapping[str, str] = {
    "client": "Int64",
    "role": "String",
    "host": "String",
    "metric": "String",
    "value": "Float64",
    "unit": "String",
}
METRICS = (
    Metric(
        "client_skew",
        "s",
        "Client skew",
        "lower",
        "several clients: time from the start of the first client to the start of the last, by compared clocks",
    ),
    Metric(
        "client_skew_share",
        "1",
        "Client skew, share",
        "lower",
        "several clients: the share of the measured time in which not all clients sent load, because one started "
        "later or ended earlier. A trial above the threshold is marked",
        tells="skew",
    ),
    Metric(
        "client_clocks",
        "s",
        "Client clock error",
        "lower",
        "several clients: uncertainty of the clock comparison, and therefore of the skew",
    ),
)
Values = dict[str, tuple[float | None, str]]  # metric to value and unit
Spans = Sequence[tuple[float, float]]  # when each client sent load: begin and end in s
Bins = Sequence[tuple[float, float, int]]  # lower and upper edge in s, and the count


@dataclass(frozen=True)
class Client:
    """One of several clients. Times in Unix seconds on the controller's clock. `offset_s`: its own clock minus that."""

    number: int
    role: str
    host: str
    start_s: float
    end_s: float
    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True)
class Clients:
    """The clients of one trial, in the order of their numbers, and the folder of each one's files."""

    all: Sequence[Client]
    folders: Sequence[Path]

    @property
    def skew_s(self) -> float:
        starts = [client.start_s for client in self.all]
        return max(starts) - min(starts)

    @property
    def spans(self) -> Spans:
        """When each command began and ended, in s after the first one began."""
        first_s = min(client.start_s for client in self.all)
        return [(client.start_s - first_s, client.end_s - first_s) for client in self.all]

    @property
    def uncertainty_s(self) -> float:
        """The uncertainty of the skew, which depends on two clocks."""
        return sum(sorted(client.uncertainty_s for client in self.all)[-2:])

    def values(self, window_s: float | None = None, *, spans: Spans = ()) -> Values:
        """The metrics of this module. `window_s`: the measured time in s, if all clients share one, else `spans`."""
        share = self.skew_s / window_s if window_s else _not_together(spans)
        return {
            "client_skew": (self.skew_s, "s"),
            "client_skew_share": (share, "1"),
            "client_clocks": (self.uncertainty_s, "s"),
        }

    def rows(self, values: Sequence[Values]) -> list[Mapping[str, Any]]:
        """The series `clients`: one row per metric of each client."""
        return [
            {
                "client": client.number,
                "role": client.role,
                "host": client.host,
                "metric": metric,
                "value": float(value),
                "unit": unit,
            }
            for client, (began_s, _), own in zip(self.all, self.spans, values, strict=True)
            for metric, (value, unit) in {**own, "began": (began_s, "s")}.items()
            if value is not None
        ]

    def problems(self, spans: Spans) -> list[str]:
        """Sentences about problems with the times of the clients: skew."""
        share = _not_together(spans)
        if share is None or share <= SKEW:
            return []
        ends = [end for _, end in spans]
        return [
            f"skew: for {percent(share)} of the measured {shown(whole_s(spans))} s, not all clients sent load: they "
            f"started {shown(self.skew_s)} s apart, and ended {shown(max(ends) - min(ends))} s apart"
        ]


def whole_s(spans: Spans) -> float:
    """The time in s from the begin of the first client to the end of the last."""
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


def _not_together(spans: Spans) -> float | None:
    if not spans or not whole_s(spans):
        return None
    together_s = min(end for _, end in spans) - max(begin for begin, _ in spans)
    return 1 - max(0.0, together_s) / whole_s(spans)


def busy_s(each: Sequence[Spans]) -> tuple[float, float]:
    """Return the time in s in which a client was at work, and that in which all were. `each`: of each client, when."""
    changes = sorted((t, step) for spans in each for begin, end in spans for t, step in ((begin, 1), (end, -1)))
    one_s = all_s = 0.0
    working = 0
    for (t, step), (until, _) in pairwise(changes):
        working += step
        one_s += (until - t) * (working > 0)
        all_s += (until - t) * (working == len(each))
    return one_s, all_s


def read_clients(folder: Path) -> Clients:
    """Read the clients from the folder of a label. Raises ParseError."""
    with damaged(f"{CLIENTS_FILE} is damaged"):
        found = read_facts(folder / CLIENTS_FILE, ("clients",))["clients"]
        clients = [
            Client(
                int(one["client"]),
                str(one["role"]),
                str(one["host"]),
                *(float(one[name]) for name in ("start_s", "end_s", "offset_s", "uncertainty_s")),
            )
            for one in found
        ]
        if [client.number for client in clients] != [*range(1, len(clients) + 1)]:
            raise ParseError(f"{CLIENTS_FILE} does not number its clients from 1")
        return Clients(clients, [folder / str(client.number) for client in clients])


def combined(
    values: Sequence[Values],
    *,
    summed: Iterable[str] = (),
    least: Iterable[str] = (),
    most: Iterable[str] = (),
    means: Iterable[str] = (),
    counts: Sequence[int] = (),
) -> Values:
    """Combine the named metrics over all clients. A metric that a client lacks is left out.

    `counts`: the number of operations of each client, as weights of `means`.
    """
    found: Values = {}
    ways: list[tuple[Iterable[str], Callable[[Sequence[float]], float | None]]]
    ways = [(summed, sum), (least, min), (most, max), (means, lambda known: pooled_mean(known, counts))]
    for names, of in ways:
        for name in names:
            given = [own.get(name, (None, "")) for own in values]
            known = [value for value, _ in given if value is not None]
            if known and len(known) == len(given):
                found[name] = (of(known), given[0][1])
    return found


def value_of(values: Values, metric: str) -> float | None:
    """Return the value of a metric; None also if it is not there."""
    return values.get(metric, (None, ""))[0]


def pooled_mean(values: Sequence[float], counts: Sequence[int]) -> float | None:
    """Return the mean of all operations together, from the mean and the count of each part; None without operations."""
    total = sum(counts)
    return sum(value * n for value, n in zip(values, counts, strict=True)) / total if total else None


def pooled_sd(means: Sequence[float], sds: Sequence[float], counts: Sequence[int]) -> float | None:
    """Return the exact standard deviation of all operations together; None for fewer than two."""
    total, mean = sum(counts), pooled_mean(means, counts)
    if mean is None or total < 2:
        return None
    squares = sum((n - 1) * s**2 + n * (m - mean) ** 2 for m, s, n in zip(means, sds, counts, strict=True) if n)
    return math.sqrt(squares / (total - 1))


def merged(histograms: Iterable[Bins]) -> list[tuple[float, float, int]]:
    """Add up the counts of equal bins, in ascending order. All clients use the same tool, so their bins are equal."""
    counts: Counter[tuple[float, float]] = Counter()
    for bins in histograms:
        for low, high, count in bins:
            counts[low, high] += count
    return [(low, high, count) for (low, high), count in sorted(counts.items())]


def percentile(bins: Bins, percent: float, slower: int = 0) -> float | None:
    """Return the middle of the bin with the nearest rank; None without bins, or if that bin is too wide.

    `slower`: the number of further values above all bins; None also if the rank is one of them.
    """
    found = bin_of_rank(bins, rank_of(percent, sum(count for *_, count in bins) + slower))
    if found is None:
        return None
    low, high = found
    middle = (low + high) / 2
    return middle if high - low <= RESOLVED * middle else None


def rank_of(percent: float, total: int) -> int:
    """Return the rank, from 1, that is nearest to a percentile of `total` values."""
    return max(1, math.ceil(total * percent / 100 - 1e-9))


def bin_of_rank(bins: Bins, rank: int) -> tuple[float, float] | None:
    """Return the edges of the bin that holds this rank, counted from 1; None if there are fewer values."""
    seen = 0
    for low, high, count in bins:
        seen += count
        if seen >= rank:
            return low, high
    return None
