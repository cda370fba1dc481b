"""Parser of the summary from k6.js: k6's own metrics and the counts of the script.

k6 keeps every value and reports quantiles in steps of 0.1 %. Percentiles come from them, and a histogram whose
cumulative counts are exact to that step. Its bins are those of the wrk script, so that trials can be merged.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.latency import Latency
from benchstudy.families.shared.clients import Bins
from benchstudy.families.shared.files import as_number, damaged
from benchstudy.model import rounding
from benchstudy.model.family import ParseError

_MS = 1e-3
_BINS_AN_OCTAVE = 64
_MOST_COUNTED = 2**53  # from here on, floats skip numbers
_SHOWN = [*range(101), *(99 + tenth / 10 for tenth in range(1, 10)), 99.95, 99.99, 99.999]
# Above this share of the tail, the delay of the generator is part of the measured latency.
_LATE_SHARE = 0.1
_LATE_S = 0.002  # the script's clock does not show less


@dataclass(frozen=True)
class K6Result:
    """One open-loop run. Times in s, rates in 1/s, sizes in B."""

    rate: float  # asked for
    load_duration: float  # how long requests were started
    duration: float  # until the last answer
    vus: int  # most requests under way that were allowed
    requests: int
    dropped: int  # arrivals that found no free VU
    errors: Errors
    good_after_load: int  # good answers that came when no more requests were started
    read: float
    sent: float
    latency_intended: Latency | None  # from when a request was meant to start; None without known ones
    latency_sent: Latency | None  # from sending to the last byte, as other tools count
    connect_mean: float | None
    connect_max: float | None
    waiting_mean: float | None
    waiting_max: float | None
    lateness_p99: float | None  # of the generator, in starting requests

    @property
    def good(self) -> int:
        return self.requests - self.errors.total

    @property
    def throughput(self) -> float:
        """Successful responses per second while requests were sent. For a stable server, this is the offered rate
        without requests in flight at the end. For an overloaded server, it is the server's capacity.
        """
        return self._good_in_time / self.load_duration

    @property
    def _good_in_time(self) -> float:
        """Good answers while requests were sent. k6 sends one more at the very end, which was due after the load."""
        return min(self.good - self.good_after_load, self.rate * self.load_duration)

    @property
    def transfer_rate(self) -> float:
        """Bytes per second while requests were sent, if the responses that came later are as long as the others."""
        later = (self.good - self._good_in_time) / self.requests if self.requests else 0.0
        return self.read * (1 - later) / self.load_duration

    @property
    def offered(self) -> float:
        """Arrivals per second while requests were sent, including dropped ones. k6 sends one more at the very end."""
        return min((self.requests + self.dropped) / self.load_duration, self.rate)

    @property
    def latency(self) -> Latency | None:
        """The latency to publish. After a dropped arrival, the script does not know when later ones were due."""
        return self.latency_sent if self.dropped else self.latency_intended

    def problems(self) -> list[str]:
        """Return deviations from an open loop at the requested rate, by name: empty, dropped, rate, late, status,
        length, text, timeout, connection, latency.
        """
        errors, found = self.errors, []
        arrivals = self.requests + self.dropped
        if not self.requests:
            found.append("empty: not one request was made")
        if self.dropped:
            found.append(
                f"dropped: {self.dropped} of {arrivals} arrivals found all {self.vus} VUs busy and were not sent, so "
                "latencies count from sending and miss what those would have waited"
            )
        # One arrival more or less at the ends of the run is no deviation.
        if abs(arrivals - self.rate * self.load_duration) > 0.01 * self.rate * self.load_duration + 1:
            found.append(
                f"rate: {arrivals / self.load_duration:g} arrivals per second instead of {self.rate:g}: "
                "the generator was the limit"
            )
        tail = self.latency.percentile(99) if self.latency else None
        late = self.lateness_p99
        if not self.dropped and late is not None and tail and late >= _LATE_S and late > _LATE_SHARE * tail:
            found.append(
                f"late: 1 % of the requests started {rounding.shown(late)} s or more after they were due, in a "
                f"99th percentile of {rounding.shown(tail)} s: the generator is part of that tail"
            )
        for name, count, what in (
            ("status", errors.status, "answers had another status"),
            ("length", errors.length, "answers had another length"),
            ("text", errors.text, "answers lacked the expected text"),
            ("timeout", errors.timeout, "requests timed out"),
            ("connection", errors.connect, "requests were refused or broken"),
        ):
            if count:
                found.append(f"{name}: {count} of {self.requests} {what}")
        if 0 < errors.connect < self.requests and self.latency is None:
            found.append("latency: k6 has the times of broken connections among those of answers, so none are known")
        return found


@damaged("the k6 summary is damaged")
def parse_k6_summary(text: str) -> K6Result:
    """Parse the summary of one run. Raises ParseError if it is truncated, not from our script, or incomplete."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ParseError(f"k6's summary is truncated or no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("benchstudy") != "k6":
        raise ParseError("this is not a summary that our k6 script wrote")
    if document.get("format") != 1:
        raise ParseError(f"the k6 summary has format {document.get('format')!r}, and only 1 is known")
    with damaged("the k6 summary lacks what k6 writes"):
        return _result(document)


def _result(document: Mapping[str, Any]) -> K6Result:
    load, metrics = document["load"], document["metrics"]
    duration = document["state"]["testRunDurationMs"] * _MS
    errors = Errors(
        **{name: _count(metrics, f"errors_{name}") for name in ("connect", "timeout", "status", "length", "text")}
    )
    requests = _count(metrics, "http_reqs")
    iterations = _count(metrics, "iterations")
    if requests != iterations:
        raise ParseError(f"k6 counts {iterations} iterations and {requests} requests; each iteration makes one request")
    if not requests and not _count(metrics, "dropped_iterations"):
        raise ParseError("k6 neither made nor dropped one request: it was ended, or the script failed")
    if duration <= 0 or load["duration_s"] <= 0:
        raise ParseError("k6 says that its run took no time")
    # Of broken connections, k6 has these times among those of answers.
    answered = {} if errors.connect else metrics
    return K6Result(
        rate=float(load["rate"]),
        load_duration=float(load["duration_s"]),
        duration=duration,
        vus=int(load["vus"]),
        requests=requests,
        dropped=_count(metrics, "dropped_iterations"),
        errors=errors,
        good_after_load=_count(metrics, "good_after_load"),
        read=float(_count(metrics, "data_received")),
        sent=float(_count(metrics, "data_sent")),
        latency_intended=_latency(metrics, "latency", requests, errors.connect),
        latency_sent=_latency(metrics, "http_req_duration", requests, errors.connect),
        connect_mean=_seconds(answered, "http_req_connecting", "avg"),
        connect_max=_seconds(answered, "http_req_connecting", "max"),
        waiting_mean=_seconds(answered, "http_req_waiting", "avg"),
        waiting_max=_seconds(answered, "http_req_waiting", "max"),
        lateness_p99=_seconds(metrics, "lateness", "p(99)"),
    )


def _count(metrics: Mapping[str, Any], name: str) -> int:
    """k6 leaves out a counter that was never added to."""
    count = int(as_number(metrics[name]["values"]["count"], name)) if name in metrics else 0
    if not 0 <= count < _MOST_COUNTED:
        raise ParseError(f"the k6 summary has an impossible count of {name}")
    return count


def _seconds(metrics: Mapping[str, Any], name: str, statistic: str) -> float | None:
    return as_number(metrics[name]["values"][statistic], name) * _MS if name in metrics else None


def _latency(metrics: Mapping[str, Any], name: str, requests: int, broken: int) -> Latency | None:
    """The latencies of answers. None without any, or if k6 has them together with times of `broken` requests: these are
    0 s of a refused connection, and tell nothing of the server. Older scripts mixed them in our metric, too.
    """
    answers = requests - broken
    if not answers:
        return None
    values = metrics[name]["values"]
    if broken and values["count"] == requests:
        return None
    if values["count"] != answers:
        raise ParseError(f"k6 gives {values['count']} values of {name} for {answers} answers")
    given_ms = {key: value for key, value in values.items() if key.startswith("p(") and key.endswith(")")}
    quantiles = sorted((float(key[2:-1]), as_number(value, key) * _MS) for key, value in given_ms.items())
    if len(quantiles) < 101 or (quantiles[0][0], quantiles[-1][0]) not in ((0.0, 100.0), (0.0, 99.999)):
        raise ParseError(f"the k6 summary has {len(quantiles)} quantiles of {name}: the script asks for 1004")
    times = [seconds for _, seconds in quantiles]
    if times[0] < 0 or not all(map(math.isfinite, times)) or times != sorted(times):
        raise ParseError(f"the quantiles of {name} in the k6 summary do not rise from 0 upwards")
    given = dict(quantiles)
    return Latency(
        count=answers,
        mean=values["avg"] * _MS,
        sd=None,
        min=values["min"] * _MS,
        max=values["max"] * _MS,
        percentiles=[(float(percent), given[percent]) for percent in sorted(_SHOWN) if percent in given],
        bins=_bins(quantiles, answers),
    )


def _bins(quantiles: list[tuple[float, float]], requests: int) -> Bins:
    """Counts of requests between the edges of the wrk script's bins, from the quantiles."""
    percents, seconds = np.array(quantiles).T
    shares, times, edges = percents / 100, seconds * 1e6, _edges()
    if not times[-1] < edges[-1]:
        raise ParseError("k6's longest latency is longer than any run")
    first, last = np.searchsorted(edges, [int(times[0]), times[-1]], side="right")
    lows, highs = edges[first - 1 : last], edges[first : last + 1]
    # Rounding must not take the shortest and the longest out of the bins they are surely in.
    upto = np.minimum(np.maximum(1, np.rint(_shares_below(highs[:-1], shares, times) * requests)), requests - 1)
    counts = np.diff(np.maximum.accumulate([0, *upto, requests])).astype(int)
    filled = counts > 0
    columns = (part[filled].tolist() for part in (lows / 1e6, highs / 1e6, counts))
    return list(zip(*columns, strict=True))


@cache
def _edges() -> np.ndarray:
    """Edges of all bins in µs: one per microsecond up to 128, above that 64 bins to each power of two."""
    octaves = [np.arange(_BINS_AN_OCTAVE, 2 * _BINS_AN_OCTAVE) * 2**power for power in range(46)]
    return np.concatenate([np.arange(_BINS_AN_OCTAVE), *octaves])


def _shares_below(edges: np.ndarray, shares: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The share of requests that took less than each edge, on the straight line between the two nearest quantiles."""
    above = np.searchsorted(times, edges)
    below = np.maximum(above - 1, 0)
    more, longer = shares[above] - shares[below], times[above] - times[below]
    with np.errstate(invalid="ignore"):
        inside = shares[below] + more * (edges - times[below]) / longer
    return np.where(above == 0, 0.0, inside)
