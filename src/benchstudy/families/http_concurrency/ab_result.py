"""The content of one report of ab, and contradictions in it although ab prints it as a success."""

import math
import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.model import rounding
from benchstudy.model.criteria import LITTLE

_RESOLUTION_S = 0.001  # of the latencies in a report, which are whole multiples of it
_FLAGS_WITH_VALUE = "ncstbpuTwxyzCHAPXgemfEIZBR"

# Requests in the order of their latencies, in steps: how many took no longer than this step, and its bounds in s.
Steps = Sequence[tuple[int, float, float]]


@dataclass(frozen=True)
class Times:
    """Times of all requests in s. `sd` and `median` are None if ab was told to omit them (-S)."""

    min: float
    mean: float
    sd: float | None
    median: float | None
    max: float


@dataclass(frozen=True)
class AbResult:
    """All values of one report. Times in s, rates in 1/s and B/s, sizes in B; None for values that it lacks."""

    document_length: int | None  # None: "Variable" (-l)
    concurrency: int
    duration: float
    complete: int
    failed: int  # ab's sum, which can count one request up to three times
    keepalive_requests: int | None  # None: keep-alive was not requested
    transferred: int
    html_transferred: int
    requests_per_second: float | None  # None, like the next three, if no request was completed
    time_per_request: float | None
    time_per_request_across: float | None
    transfer_rate: float | None
    times: Mapping[str, Times]  # connect, processing, waiting, total
    percentiles: Mapping[int, float]
    version: str | None = None
    command: str | None = None  # as found before the report
    server_software: str = ""
    hostname: str = ""
    port: int = 0
    tls: str | None = None
    path: str = ""
    failed_connect: int = 0
    failed_receive: int = 0
    failed_length: int = 0
    failed_exceptions: int = 0
    write_errors: int = 0
    non_2xx: int = 0

    def errors(self) -> Errors:
        """Count failures once each, as a lower bound. ab's counters overlap.

        Each failure counts under the first that applies: no whole answer, not a 2xx, another length than the first
        answer. ab counts a broken connection under Receive, Length and Exceptions, and a short 404 under Length and
        Non-2xx. It counts no timeouts, because it gives up.
        """
        broken = max(self.failed_connect + self.failed_receive + self.write_errors, self.failed_exceptions)
        broken = min(broken, self.complete)
        status = min(self.non_2xx, self.complete - broken)
        length = max(0, min(self.failed_length, self.complete) - broken - status)
        return Errors(connect=broken, status=status, length=length)

    @property
    def good(self) -> int:
        """Completed requests with a 2xx answer of the first answer's length."""
        return self.complete - self.errors().total

    @property
    def throughput(self) -> float:
        """Successful responses per second; equal to ab's figure if all succeed."""
        return (self.requests_per_second or 0.0) * self.good / self.complete

    def mean_between(self, *known: Steps) -> tuple[float, float]:
        """The smallest and largest possible mean latency in s, by the printed mean and all steps that are known."""
        printed, half = self.times["total"].mean, _RESOLUTION_S / 2
        least, most = max(0.0, printed - half), printed + half
        if not known:
            return least, most
        low, high = mean_between(*known)
        return min(max(low, least), most), min(max(high, least), most)

    def problems(self, command: str | None = None, mean: tuple[float, float] | None = None) -> list[str]:
        """List inconsistencies in the report, or with the command (None: the one found before the report), by name:
        concurrency, keep-alive, status, length, connection, incomplete, little, arithmetic, percentiles, summary.

        `mean`: bounds of the mean latency in s that are closer than those of the printed one (`mean_between`).
        """
        said = self.command if command is None else command
        return [
            *_against(self, said),
            *_failures(self),
            *_little(self, mean or self.mean_between()),
            *self.contradictions(),
            *_arithmetic(self),
        ]

    def contradictions(self) -> list[str]:
        """Problems that no report has as ab wrote it, whatever server and load did."""
        return [*_unexplained(self), *_quotients(self), *_falling(self)]


def options(command: str) -> dict[str, list[str]]:
    """Parse the options of a command line of ab by letter, with their values ("" for a switch)."""
    try:
        words = shlex.split(command.replace("…", ""))
    except ValueError:
        words = command.split()  # a page may have cut off the closing quotation mark
    found: dict[str, list[str]] = {}
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            break  # the URL comes last
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in _FLAGS_WITH_VALUE:
                found.setdefault(letter, []).append(letters or next(rest, ""))
                break
            found.setdefault(letter, []).append("")
    return found


def _against(result: AbResult, command: str | None) -> Iterator[str]:
    """Compare the report with the command that is said to have made it."""
    asked = options(command) if command else {}
    if (concurrency := _number(asked, "c")) is not None and concurrency != result.concurrency:
        yield f"concurrency: the command says -c {concurrency}, but ab reports a level of {result.concurrency}"
    # With -t the number is only an upper bound.
    requests = None if "t" in asked else _number(asked, "n")
    if requests is not None and result.complete < requests:
        yield f"incomplete: {result.complete} of {requests} requests were completed"
    elif requests is not None and result.complete > requests:
        yield f"incomplete: the command says -n {requests}, but ab reports {result.complete} requests"
    if result.keepalive_requests == 0:
        yield (
            "keep-alive: requested (-k), but 0 requests were kept alive: each opened a connection, because the "
            "server closed it or answered HTTP/1.0 without a length"
        )
    elif result.keepalive_requests is not None and result.keepalive_requests < 0.99 * result.complete:
        yield f"keep-alive: only {result.keepalive_requests} of {result.complete} requests were kept alive"
    elif result.keepalive_requests is None and "k" in asked:
        yield "keep-alive: the command says -k, but the report is of a run without it"


def _number(asked: dict[str, list[str]], letter: str) -> int | None:
    """Return an option's number. Of repeated options ab uses the last one."""
    values = asked.get(letter)
    return int(values[-1]) if values and re.fullmatch(r"\d+", values[-1]) else None


def _failures(result: AbResult) -> Iterator[str]:
    if result.non_2xx:
        counted = "" if result.failed else ', although ab says "Failed requests: 0"'
        yield f"status: {result.non_2xx} of {result.complete} answers were not 2xx{counted}"
    if result.failed_length:
        yield (
            f"length: {result.failed_length} of {result.complete} answers had another length than the first one "
            f"({result.document_length} B)"
        )
    broken = result.errors().connect
    if broken:
        yield (
            f"connection: {broken} requests got no whole answer (connect {result.failed_connect}, receive "
            f"{result.failed_receive}, exceptions {result.failed_exceptions}, write {result.write_errors}); "
            "ab's times include those that broke"
        )


def _unexplained(result: AbResult) -> Iterator[str]:
    if result.failed and not result.failed_length and not result.errors().connect:
        yield f"connection: {result.failed} of {result.complete} requests failed, ab does not say how"


def _little(result: AbResult, mean: tuple[float, float]) -> Iterator[str]:
    """Check Little's law: in a closed loop, throughput × mean latency equals the number of connections."""
    rate = result.requests_per_second
    if rate is None:
        return
    low, high = (rate * bound for bound in mean)
    asked, slack = result.concurrency, LITTLE * result.concurrency
    if high < asked - slack or low > asked + slack:
        yield (
            f"little: throughput × mean latency is {rounding.shown((low + high) / 2, trim=True)} requests in flight on "
            f"average, not {asked}: the run lacked work at its start or end, or the generator was the limit"
        )


def mean_between(*known: Steps) -> tuple[float, float]:
    """The smallest and largest possible mean, in s, of requests that are in all of these steps."""
    low = high = 0.0
    done = 0
    for end in sorted({end for steps in known for end, _, _ in steps}):
        here = [steps[bisect_left(steps, end, key=lambda step: step[0])] for steps in known]
        # Bounds that contradict each other by a rounding error count as equal.
        most = min(step[2] for step in here)
        low += (end - done) * min(most, max(step[1] for step in here))
        high += (end - done) * most
        done = end
    return low / done, high / done


def steps_of_percentiles(complete: int, percentiles: Sequence[tuple[float, float]]) -> Steps:
    """Steps of the percentiles of -e (0 to 100), which are the latencies of single requests, and of those between."""
    single = {min(percentile_place(complete, percent), complete - 1): seconds for percent, seconds in percentiles}
    steps: list[tuple[int, float, float]] = []
    for (place, below), (next_place, above) in pairwise(sorted(single.items())):
        steps += [(place + 1, below, below), (next_place, below, above)]
    longest = percentiles[-1][1]
    return [*steps, (complete, longest, longest)]


def percentile_place(complete: int, percent: float) -> int:
    """The place, from 0, of the request whose latency ab prints as this percentile; it may lie behind the last one."""
    return int(0.5 + complete * percent / 100)


def _quotients(result: AbResult) -> Iterator[str]:
    """Check the figures that ab computes from others. People who edit a transcript by hand forget these."""
    rate = result.requests_per_second
    if rate is None:
        return
    # The duration is printed in milliseconds, but its quotients are computed from microseconds.
    shortest, longest = max(0.0, result.duration - 0.00055), result.duration + 0.00055
    of_time = result.concurrency / result.complete
    shown = [
        ("Requests per second", rate, *_per_second(result.complete, shortest, longest), 0.0055),
        ("Transfer rate", result.transfer_rate, *_per_second(result.transferred, shortest, longest), 5.632),
        ("Time per request", result.time_per_request, of_time * shortest, of_time * longest, 5.5e-7),
    ]
    for name, printed, least, most, digit in shown:
        if printed is not None and not least - digit <= printed <= most + digit:
            derived = f"{least:g} or more" if math.isinf(most) else f"{(least + most) / 2:g}"
            yield f"arithmetic: {name} is {printed:g}, but the other figures make it {derived}"


def _per_second(amount: float, shortest_s: float, longest_s: float) -> tuple[float, float]:
    return amount / longest_s, amount / shortest_s if shortest_s else math.inf


def _falling(result: AbResult) -> Iterator[str]:
    values = [seconds for _, seconds in sorted(result.percentiles.items())]
    if values != sorted(values):
        yield "percentiles: they fall where they must rise"


def _arithmetic(result: AbResult) -> Iterator[str]:
    if result.html_transferred > result.transferred:
        yield f"arithmetic: HTML transferred {result.html_transferred} B is more than in total {result.transferred} B"
    length = result.document_length
    # ab also reads parts of requests that it no longer counts, so slightly more than the product is consistent.
    if length and not result.failed and result.html_transferred < length * (result.complete - result.non_2xx):
        yield f"arithmetic: HTML transferred {result.html_transferred} B is less than {result.complete} × {length} B"
    total = result.times.get("total")
    if result.percentiles and total:
        longest = result.percentiles[max(result.percentiles)]
        if longest != total.max:
            yield f"percentiles: the longest request took {longest:g} s in one table and {total.max:g} s in the other"
    for name, times in result.times.items():
        if times.median is None or times.sd is None:
            continue
        # Mean and median of one sample are at most one standard deviation apart; both are rounded here.
        if abs(times.mean - times.median) > times.sd + _RESOLUTION_S:
            yield (
                f"summary: mean {times.mean:g} s and median {times.median:g} s of {name} are more than their standard "
                f"deviation of {times.sd:g} s apart"
            )
