"""The result of one run of a generator, in common terms. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchstudy.families.http_concurrency.ab import AbResult, histogram_of_gnuplot, parse_ab, parse_ab_percentiles
from benchstudy.families.http_concurrency.ab_result import mean_between
from benchstudy.families.http_concurrency.command import AB_PERCENTILES, AB_REQUESTS, FACTS
from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.k6 import K6Result, parse_k6_summary
from benchstudy.families.http_concurrency.latency import Latency
from benchstudy.families.http_concurrency.metrics import PERCENTILES
from benchstudy.families.http_concurrency.scripts import K6_SUMMARY
from benchstudy.families.http_concurrency.wrk import WrkResult, parse_wrk
from benchstudy.families.shared.files import read_text
from benchstudy.model.family import ParseError

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class LoadResult:
    """The result of a generator in common terms. None: the generator does not report the value."""

    values: Mapping[str, tuple[float | None, str]]  # metric to value and unit
    percentiles: Rows
    histogram: Rows
    good: int
    duration: float  # s, until the last response
    sending_s: float  # how long requests were sent; k6 waits for the last responses afterwards
    problems: Sequence[str]
    load: float  # the load that the generator reports: connections, or requests per second


def parse_load(tool: str, folder: Path, *, clients: int = 1, from_sending: bool = False) -> LoadResult:
    """Parse the output of a generator in the folder of its command. Raises ParseError.

    `clients`: the number of clients that shared the load. `from_sending`: latencies of k6 start at sending, which is
    required if another client dropped arrivals.
    """
    if tool == "ab":
        # Standard output comes first, because without any response ab writes no other file.
        result = parse_ab(read_text(folder / "stdout"), read_text(folder / "stderr"))
        percentiles = parse_ab_percentiles(read_text(folder / "files" / AB_PERCENTILES))
        return ab_load(result, percentiles, folder / "files" / AB_REQUESTS)
    if tool == "wrk":
        return _wrk_result(parse_wrk(read_text(folder / "stdout")))
    if tool == "k6":
        summary = parse_k6_summary(read_text(folder / "files" / K6_SUMMARY))
        latency = summary.latency_sent if from_sending else summary.latency
        return _k6_result(replace(summary, rate=summary.rate / clients), latency)
    raise ParseError(f"{FACTS}: {tool!r} is no generator that this version knows")


def ab_load(result: AbResult, percentiles: list[tuple[float, float]] | None, requests: Path | None) -> LoadResult:
    if percentiles:
        percentiles = _within(result.complete, percentiles)
    errors, total = result.errors(), result.times["total"]
    known = dict(percentiles) if percentiles else {float(p): seconds for p, seconds in result.percentiles.items()}
    values: dict[str, tuple[float | None, str]] = {
        "throughput": (result.throughput, "1/s"),
        "requests": (result.complete, "1"),
        **_errors(errors, bodies=result.document_length is not None),
        "duration": (result.duration, "s"),
        "latency_mean": (_ab_mean(total.mean, percentiles, result.latency_resolution), "s"),
        "latency_sd": (total.sd, "s"),
        "latency_min": (known.get(0.0, total.min), "s"),
        "latency_max": (known.get(100.0, total.max), "s"),
        **{f"latency_p{percent}": (known.get(float(percent)), "s") for percent in PERCENTILES},
        "transfer_rate": (result.transfer_rate, "B/s"),
        "keepalive_requests": (result.keepalive_requests, "1"),
        "document_length": (result.document_length, "B"),
    }
    for phase in ("connect", "processing", "waiting"):
        times = result.times[phase]
        values |= {f"{phase}_{name}": (getattr(times, name), "s") for name in ("mean", "sd", "median", "max")}
    histogram: Rows = []
    if requests is not None:
        if not requests.is_file():
            raise ParseError(f"the file {requests.name} is missing")
        # A request with a broken connection has no row.
        expected = None if errors.connect else result.complete
        histogram = histogram_of_gnuplot(requests, expected=expected).to_dicts()
    rows = [{"percent": percent, "latency_s": seconds} for percent, seconds in sorted(known.items())]
    problems, lasted_s = result.problems(percentiles=percentiles), result.duration
    return LoadResult(values, rows, histogram, result.good, lasted_s, lasted_s, problems, result.concurrency)


def _within(complete: int, percentiles: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the percentiles of -e, of which ab reads the highest beyond its times if these are 50 or fewer."""
    longest = percentiles[-1][1]
    # ab prints its time number int(0.5 + complete * percent / 100), and counts from 0.
    return [(p, longest if int(0.5 + complete * p / 100) >= complete else seconds) for p, seconds in percentiles]


def _ab_mean(printed: float, percentiles: list[tuple[float, float]] | None, resolution: float) -> float:
    """Return the mean in s. ab prints whole milliseconds, so the percentiles from -e, in µs, are used for precision."""
    if percentiles is None:
        return printed
    middle = sum(mean_between(percentiles)) / 2
    return min(max(middle, printed - resolution / 2), printed + resolution / 2)


def _wrk_result(result: WrkResult) -> LoadResult:
    latency = result.latency
    values = {
        "throughput": (result.throughput, "1/s"),
        "requests": (result.requests + result.errors.connect, "1"),
        **_errors(result.errors, bodies=result.checked),
        "duration": (result.duration, "s"),
        **_latencies(latency),
        "concurrency_measured": (result.concurrency_measured, "1"),
        "transfer_rate": (result.transfer_rate, "B/s"),
    }
    lasted_s = result.duration
    return LoadResult(values, *_rows(latency), result.good, lasted_s, lasted_s, result.problems(), result.connections)


def _k6_result(result: K6Result, latency: Latency | None) -> LoadResult:
    values = {
        "throughput": (result.throughput, "1/s"),
        "offered": (result.offered, "1/s"),
        "requests": (result.requests, "1"),
        **_errors(result.errors),
        "dropped": (result.dropped, "1"),
        "duration": (result.duration, "s"),
        **_latencies(latency),
        "connect_mean": (result.connect_mean, "s"),
        "connect_max": (result.connect_max, "s"),
        "waiting_mean": (result.waiting_mean, "s"),
        "waiting_max": (result.waiting_max, "s"),
        "transfer_rate": (result.transfer_rate, "B/s"),
    }
    lasted_s, sending_s = result.duration, result.load_duration
    return LoadResult(values, *_rows(latency), result.good, lasted_s, sending_s, result.problems(), result.rate)


def _errors(errors: Errors, *, bodies: bool = True) -> dict[str, tuple[float | None, str]]:
    """`bodies`: whether the generator looked at the bodies of responses."""
    return {
        "errors": (errors.total, "1"),
        "errors_status": (errors.status, "1"),
        "errors_length": (errors.length + errors.text if bodies else None, "1"),
        "errors_timeout": (errors.timeout, "1"),
        "errors_connect": (errors.connect, "1"),
    }


def _latencies(latency: Latency | None) -> dict[str, tuple[float | None, str]]:
    if latency is None:
        return {}
    known = {name: (getattr(latency, name), "s") for name in ("mean", "sd", "min", "max")}
    return {
        **{f"latency_{name}": value for name, value in known.items()},
        **{f"latency_p{percent}": (latency.percentile(float(percent)), "s") for percent in PERCENTILES},
    }


def _rows(latency: Latency | None) -> tuple[Rows, Rows]:
    return ([], []) if latency is None else (latency.percentile_rows(), latency.histogram_rows())


def requests_under_way(values: Mapping[str, tuple[float | None, str]]) -> float | None:
    """Return the mean number of requests in flight, by Little's law: responses per second × mean latency."""
    if "concurrency_measured" in values:
        return values["concurrency_measured"][0]
    mean, duration, requests = (values.get(name, (None, ""))[0] for name in ("latency_mean", "duration", "requests"))
    return None if mean is None or not duration or requests is None else requests / duration * mean
