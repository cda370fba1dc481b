"""What a trial that several clients loaded together says: when each began, and figures and latencies of all. Pure.

Rates and counts add up, histograms merge, percentiles never do: they are read from the merged histogram, and left out
where its bins do not tell them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchstudy.families.shared.files import damaged, read_facts
from benchstudy.model.criteria import RESOLVED, SKEW
from benchstudy.model.metrics import Metric
from benchstudy.model.parsing import ParseError
from benchstudy.model.rounding import percent, shown

CLIENTS_FILE = "clients.json"  # as measuring/together.py writes it
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
        "Clients: skew",
        "lower",
        "several clients: from when the first one began to when the last one did, by clocks that were compared",
    ),
    Metric(
        "client_skew_share",
        "1",
        "Clients: skew, share",
        "lower",
        "several clients: the skew as a share of the measured time. Above the threshold the trial is marked: so long "
        "not all of them loaded",
        tells="skew",
    ),
    Metric(
        "client_clocks",
        "s",
        "Clients: clocks",
        "lower",
        "several clients: how far the comparison of their clocks, and so the skew, may be off",
    ),
)
Values = Mapping[str, tuple[float | None, str]]  # metric to value and unit
Bins = Sequence[tuple[float, float, int]]  # lower and upper edge, s, and how many


@dataclass(frozen=True)
class Client:
    """One of several. Times in Unix seconds on the controller's clock; `offset_s`: its own clock minus that."""

    number: int
    role: str
    host: str
    start_s: float
    end_s: float
    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True)
class Clients:
    """Those of one trial, by their number."""

    all: Sequence[Client]

    @property
    def skew_s(self) -> float:
        starts = [client.start_s for client in self.all]
        return max(starts) - min(starts)

    @property
    def shortest_s(self) -> float:
        """How long the command of the first one to end ran."""
        return min(client.end_s - client.start_s for client in self.all)

    @property
    def uncertainty_s(self) -> float:
        """Of the skew: two clocks are in it."""
        return sum(sorted(client.uncertainty_s for client in self.all)[-2:])

    def values(self, window_s: float | None) -> Values:
        """The metrics of this module. `window_s`: the measured time."""
        return {
            "client_skew": (self.skew_s, "s"),
            "client_skew_share": (self.skew_s / window_s if window_s else None, "1"),
            "client_clocks": (self.uncertainty_s, "s"),
        }

    def rows(self, values: Sequence[Values]) -> list[Mapping[str, Any]]:
        """The series `clients`: each figure of each client."""
        first = min(client.start_s for client in self.all)
        return [
            {
                "client": client.number,
                "role": client.role,
                "host": client.host,
                "metric": metric,
                "value": float(value),
                "unit": unit,
            }
            for client, own in zip(self.all, values, strict=True)
            for metric, (value, unit) in {**own, "began": (client.start_s - first, "s")}.items()
            if value is not None
        ]

    def problems(self, window_s: float | None) -> list[str]:
        """What a reader must know of how they began: skew."""
        if not window_s or self.skew_s <= SKEW * window_s:
            return []
        return [
            f"skew: the clients began {shown(self.skew_s)} s apart, {percent(self.skew_s / window_s)} of the measured "
            f"{shown(window_s)} s, in which not all of them loaded"
        ]


def read_clients(folder: Path) -> Clients:
    """Of the folder of a label. Raises ParseError."""
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
            raise ParseError(f"{CLIENTS_FILE} does not list its clients from 1 on")
        return Clients(clients)


def client_folders(folder: Path, clients: Clients) -> list[Path]:
    """What each of them left."""
    return [folder / str(client.number) for client in clients.all]


def combined(
    values: Sequence[Values],
    counts: Sequence[int],
    *,
    summed: Iterable[str] = (),
    least: Iterable[str] = (),
    most: Iterable[str] = (),
    means: Iterable[str] = (),
) -> dict[str, tuple[float | None, str]]:
    """Of the metrics named, the value of all clients; those that one of them does not give are left out.

    `counts`: of operations of each client, the weights of `means`.
    """
    found: dict[str, tuple[float | None, str]] = {}
    for names, of in ((summed, _sum), (least, _least), (most, _most), (means, _mean)):
        for name in names:
            given = [own.get(name, (None, "")) for own in values]
            known = [value for value, _ in given if value is not None]
            if known and len(known) == len(given):
                found[name] = (of(known, counts), given[0][1])
    return found


def _sum(values: Sequence[float], _: Sequence[int]) -> float:
    return sum(values)


def _least(values: Sequence[float], _: Sequence[int]) -> float:
    return min(values)


def _most(values: Sequence[float], _: Sequence[int]) -> float:
    return max(values)


def _mean(values: Sequence[float], counts: Sequence[int]) -> float | None:
    total = sum(counts)
    return sum(value * n for value, n in zip(values, counts, strict=True)) / total if total else None


def pooled_sd(means: Sequence[float], sds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The standard deviation of all operations together, exactly."""
    total, mean = sum(counts), _mean(means, counts)
    if mean is None or total < 2:
        return None
    squares = sum((n - 1) * s**2 + n * (m - mean) ** 2 for m, s, n in zip(means, sds, counts, strict=True) if n)
    return math.sqrt(squares / (total - 1))


def merged(histograms: Iterable[Bins]) -> list[tuple[float, float, int]]:
    """Counts of equal bins added up, rising. One tool makes all of them, so its bins are the same everywhere."""
    counts: Counter[tuple[float, float]] = Counter()
    for bins in histograms:
        for low, high, count in bins:
            counts[low, high] += count
    return [(low, high, count) for (low, high), count in sorted(counts.items())]


def percentile(bins: Bins, percent: float) -> float | None:
    """Nearest rank, the middle of its bin; None where that bin is too wide to tell it, or there is none."""
    rank, seen = max(1, math.ceil(sum(count for *_, count in bins) * percent / 100 - 1e-9)), 0
    for low, high, count in bins:
        seen += count
        if seen >= rank:
            middle = (low + high) / 2
            return middle if high - low <= RESOLVED * middle else None
    return None
