"""Combination of the loads of several clients. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchstudy.families.http_concurrency.load_result import LoadResult, parse_load, requests_under_way
from benchstudy.families.http_concurrency.metrics import PERCENTILES
from benchstudy.families.shared.clients import (
    Clients,
    Values,
    combined,
    merged,
    percentile,
    pooled_sd,
    rank_of,
    read_clients,
    value_of,
    whole_s,
)

_SUMMED = (
    *("throughput", "offered", "requests", "errors", "errors_status", "errors_length", "errors_timeout"),
    *("errors_connect", "dropped", "transfer_rate", "keepalive_requests"),
)
_PARTS = ("connect", "processing", "waiting")
_SHOWN = [*range(101), *(99 + tenth / 10 for tenth in range(1, 10)), 99.99]


@dataclass(frozen=True)
class Loads:
    """The loads of a trial, their combination, and their folders. `clients`: None for a single client."""

    each: Sequence[LoadResult]
    together: LoadResult
    folders: Sequence[Path]
    clients: Clients | None = None


def one_load(tool: str, folder: Path) -> Loads:
    """Read the load of a single client. Raises ParseError."""
    load = parse_load(tool, folder)
    return Loads([load], load, [folder])


def several_loads(tool: str, folder: Path) -> Loads:
    """Read and combine the loads of several clients. Raises ParseError."""
    clients = read_clients(folder)
    folders = clients.folders
    each = [parse_load(tool, one, clients=len(folders)) for one in folders]
    if any(value_of(load.values, "dropped") for load in each):
        each = [parse_load(tool, one, clients=len(folders), from_sending=True) for one in folders]
    return Loads(each, _together(each, clients, by_amount=tool == "ab"), folders, clients)


def _together(each: Sequence[LoadResult], clients: Clients, *, by_amount: bool) -> LoadResult:
    """Combine loads: sums, latencies from the merged histogram, the longest duration.

    `by_amount`: each client ends after a number of requests. Their rates are then of the time from the first start to
    the last end, because they are of different times.
    """
    values = [load.values for load in each]
    counts = [sum(count for *_, count in load.histogram) for load in each]
    spans = [(began_s, began_s + load.sending_s) for (began_s, _), load in zip(clients.spans, each, strict=True)]
    if by_amount and (lasts_s := whole_s(spans)):
        values = [_over(lasts_s, load) for load in each]
    found = combined(
        values,
        summed=_SUMMED,
        least=("latency_min",),
        most=("duration", "latency_max", "document_length", *(f"{part}_max" for part in _PARTS)),
        means=("latency_mean", *(f"{part}_mean" for part in _PARTS)),
        counts=counts,
    )
    under_way = [requests_under_way(one) for one in values]
    if None not in under_way:
        found["concurrency_measured"] = (sum(filter(None, under_way)), "1")
    moments = [(value_of(one, "latency_mean"), value_of(one, "latency_sd")) for one in values]
    known = [(mean, sd) for mean, sd in moments if mean is not None and sd is not None]
    if len(known) == len(each):
        found["latency_sd"] = (pooled_sd([mean for mean, _ in known], [sd for _, sd in known], counts), "s")
    # Latencies of some clients are not those of all.
    everything = merged(load.histogram for load in each) if all(map(_is_timed, each)) else []
    late = sum(load.late for load in each)
    in_time = sum(count for *_, count in everything)
    read = {float(percent): percentile(everything, percent, late) for percent in _SHOWN} if everything else {}
    found |= {f"latency_p{percent}": (read.get(float(percent)), "s") for percent in PERCENTILES}
    problems = [
        f"client {client.number} on {client.host}: {problem}"
        for client, load in zip(clients.all, each, strict=True)
        for problem in load.problems
    ]
    timed = [percent for percent in PERCENTILES if everything and rank_of(percent, in_time + late) <= in_time]
    unread = [f"p{percent}" for percent in timed if read[float(percent)] is None]
    if unread:
        problems.append(
            f"percentiles: the merged histogram is too coarse for {', '.join(unread)}: this generator reports "
            "latencies in whole milliseconds"
        )
    return LoadResult(
        {**found, **clients.values(spans=spans)},
        [(percent, seconds) for percent, seconds in sorted(read.items()) if seconds is not None],
        everything,
        sum(load.good for load in each),
        max(load.duration for load in each),
        max(load.sending_s for load in each),
        [*problems, *clients.problems(spans)],
        sum(load.load for load in each),
        late,
        sum(load.in_flight_blur for load in each),
    )


def _is_timed(load: LoadResult) -> bool:
    """Whether the latencies of a load's answers are known, or there are none."""
    requests, broken = (value_of(load.values, name) for name in ("requests", "errors_connect"))
    return bool(load.histogram) or requests == broken


def _over(lasts_s: float, load: LoadResult) -> Values:
    """The values of a load whose rates are those of a longer time, in which it was not always there."""
    part = load.duration / lasts_s
    rates = {
        "transfer_rate": load.values["transfer_rate"],
        "concurrency_measured": (requests_under_way(load.values), "1"),
    }
    scaled = {name: (None if rate is None else rate * part, unit) for name, (rate, unit) in rates.items()}
    return {**load.values, **scaled, "throughput": (load.good / lasts_s, "1/s")}
