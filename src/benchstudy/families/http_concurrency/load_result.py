"""The result of one run of a generator, in common terms. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from benchstudy.families.http_concurrency.ab import AbResult, histogram_of_gnuplot, parse_ab, parse_ab_percentiles
from benchstudy.families.http_concurrency.ab_result import Steps, percentile_place, steps_of_percentiles
from benchstudy.families.http_concurrency.command import AB_PERCENTILES, AB_REQUESTS, FACTS
from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.k6 import K6Result, parse_k6_summary
from benchstudy.families.http_concurrency.latency import Latency
from benchstudy.families.http_concurrency.metrics import PERCENTILES
from benchstudy.families.http_concurrency.scripts import K6_SUMMARY
from benchstudy.families.http_concurrency.wrk import WrkResult, parse_wrk
from benchstudy.families.shared.clients import Bins, Values, percentile, value_of
from benchstudy.families.shared.files import read_text
from benchstudy.model.family import ParseError


@dataclass(frozen=True)
class LoadResult:
    """The result of a generator in common terms. None: the generator does not report the value."""

    values: Values
    percentiles: Sequence[tuple[float, float]]  # percent and s, in ascending order
    histogram: Bins
    good: int
    duration: float  # s, until the last response
    sending_s: float  # how long requests were sent; k6 waits for the last responses afterwards
    problems: Sequence[str]
    load: float  # the load that the generator reports: connections, or requests per second
    late: int = 0  # requests without a time, each slower than all in the histogram
    in_flight_blur: float = 0.0  # by how much rounding may have changed the mean number of requests in flight


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
    raise ParseError(f"{FACTS}: {tool!r} is not a generator that this version knows")


def ab_load(result: AbResult, percentiles: list[tuple[float, float]] | None, requests: Path | None) -> LoadResult:
    if percentiles:
        percentiles = _within(result.complete, percentiles)
    errors, total = result.errors(), result.times["total"]
    histogram: Bins = []
    if requests is not None:
        if not requests.is_file():
            raise ParseError(f"the file {requests.name} is missing")
        # A request with a broken connection has no row.
        expected = None if errors.connect else result.complete
        histogram = histogram_of_gnuplot(requests, expected=expected)
    low, high = result.mean_between(*_steps(result.complete, percentiles, histogram))
    mean = (low + high) / 2 if percentiles else total.mean
    rate = result.requests_per_second
    known = dict(percentiles) if percentiles else {float(p): seconds for p, seconds in result.percentiles.items()}
    values: Values = {
        "throughput": (result.throughput, "1/s"),
        "requests": (result.complete, "1"),
        **_errors(errors, bodies=result.document_length is not None),
        "duration": (result.duration, "s"),
        "latency_mean": (mean, "s"),
        "latency_sd": (total.sd, "s"),
        "latency_min": (known.get(0.0, total.min), "s"),
        "latency_max": (known.get(100.0, total.max), "s"),
        **{f"latency_p{percent}": (known.get(float(percent)), "s") for percent in PERCENTILES},
        "transfer_rate": (result.transfer_rate, "B/s"),
        "keepalive_requests": (result.keepalive_requests, "1"),
        "document_length": (result.document_length, "B"),
        # From the printed rate, because ab prints the duration in whole milliseconds.
        "concurrency_measured": ((rate or 0.0) * mean or None, "1"),
    }
    for phase in ("connect", "processing", "waiting"):
        times = result.times[phase]
        values |= {f"{phase}_{name}": (getattr(times, name), "s") for name in ("mean", "sd", "median", "max")}
    problems, lasted_s = result.problems(mean=(low, high)), result.duration
    blur = (rate or 0.0) * max(high - mean, mean - low)
    rising = sorted(known.items())
    good, load = result.good, result.concurrency
    return LoadResult(values, rising, histogram, good, lasted_s, lasted_s, problems, load, in_flight_blur=blur)


def _within(complete: int, percentiles: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the percentiles of -e, of which ab reads the highest beyond its times if these are 50 or fewer."""
    longest = percentiles[-1][1]
    return [(p, longest if percentile_place(complete, p) >= complete else seconds) for p, seconds in percentiles]


def _steps(complete: int, percentiles: list[tuple[float, float]] | None, histogram: Bins) -> list[Steps]:
    """What ab tells about single latencies besides their mean: percentiles to 1 µs, and all of them to 1 ms.

    Each fills gaps of the other: many latencies below 1 ms share a bin, and the slowest hundredth shares a percentile.
    """
    ends = list(accumulate(count for *_, count in histogram))
    binned = [(end, low_s, high_s) for end, (low_s, high_s, _) in zip(ends, histogram, strict=True)]
    known = [steps_of_percentiles(complete, percentiles)] if percentiles else []
    return [*known, binned] if ends and ends[-1] == complete else known


def _wrk_result(result: WrkResult) -> LoadResult:
    latency = result.latency
    values: Values = {
        "throughput": (result.throughput, "1/s"),
        "requests": (result.requests + result.errors.connect, "1"),
        **_errors(result.errors, bodies=result.checked),
        "duration": (result.duration, "s"),
        **_latencies(latency),
        "concurrency_measured": (result.concurrency_measured, "1"),
        "transfer_rate": (result.transfer_rate, "B/s"),
    }
    percentiles, bins, lasted_s, late = latency.percentiles, latency.bins, result.duration, result.late
    if late:
        # Those that were in time say nothing of mean and maximum, and less of percentiles than wrk prints.
        values |= dict.fromkeys(("latency_mean", "latency_sd", "latency_max"), (None, "s"))
        values |= {f"latency_p{percent}": (percentile(bins, percent, late), "s") for percent in PERCENTILES}
        shifted = [(percent, percentile(bins, percent, late)) for percent, _ in percentiles]
        percentiles = [(percent, seconds) for percent, seconds in shifted if seconds is not None]
    problems, good = result.problems(), result.good
    return LoadResult(values, percentiles, bins, good, lasted_s, lasted_s, problems, result.connections, late)


def _k6_result(result: K6Result, latency: Latency | None) -> LoadResult:
    values: Values = {
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
    percentiles, bins = (latency.percentiles, latency.bins) if latency else ([], [])
    lasted_s, sending_s = result.duration, result.load_duration
    return LoadResult(values, percentiles, bins, result.good, lasted_s, sending_s, result.problems(), result.rate)


def _errors(errors: Errors, *, bodies: bool = True) -> Values:
    """`bodies`: whether the generator looked at the bodies of responses."""
    return {
        "errors": (errors.total, "1"),
        "errors_status": (errors.status, "1"),
        "errors_length": (errors.length + errors.text if bodies else None, "1"),
        "errors_timeout": (errors.timeout, "1"),
        "errors_connect": (errors.connect, "1"),
    }


def _latencies(latency: Latency | None) -> Values:
    if latency is None:
        return {}
    known = {name: (getattr(latency, name), "s") for name in ("mean", "sd", "min", "max")}
    return {
        **{f"latency_{name}": value for name, value in known.items()},
        **{f"latency_p{percent}": (latency.percentile(float(percent)), "s") for percent in PERCENTILES},
    }


def requests_under_way(values: Values) -> float | None:
    """Return the mean number of requests in flight, by Little's law: responses per second × mean latency."""
    if "concurrency_measured" in values:
        return values["concurrency_measured"][0]
    mean, duration, requests = (value_of(values, name) for name in ("latency_mean", "duration", "requests"))
    if mean is None or not duration or requests is None:
        return None
    # Where broken connections are counted apart, the mean is without them.
    return (requests - (value_of(values, "errors_connect") or 0.0)) / duration * mean
