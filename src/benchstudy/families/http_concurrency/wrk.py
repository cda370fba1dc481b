"""wrk 4: the line of JSON that wrk.lua adds to what it prints.

wrk "corrects" its latencies before it prints them: it adds responses that a stalled connection would have had. The
line of JSON has the recorded latencies. Only these agree with the number of requests and with Little's law.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.latency import Latency
from benchstudy.families.shared.files import damaged
from benchstudy.model import rounding
from benchstudy.model.criteria import LITTLE
from benchstudy.model.family import ParseError

_US = 1e-6
_RUNNING = re.compile(r"^Running \S+ test @ \S+$", re.M)
_SHAPE = re.compile(r"^  (\d+) threads and (\d+) connections$", re.M)
_TOTAL = re.compile(r"^  (\d+) requests in ", re.M)
_OUR_LINE = re.compile(r'^\{"benchstudy":"wrk".*$', re.M)


@dataclass(frozen=True)
class WrkResult:
    """One run. Times in s, rates in 1/s and B/s, sizes in B."""

    threads: int
    connections: int
    duration: float
    requests: int  # answers, good or not
    read: float  # B, headers included
    connect_errors: int
    read_errors: int
    write_errors: int
    late: int  # answers after wrk's timeout, also wrong ones
    errors: Errors
    statuses: Mapping[int, int]  # empty if responses were not checked
    checked: bool  # whether status, length and text of each response were checked
    latency: Latency

    @property
    def good(self) -> int:
        """The number of responses in time with the expected status, length and text; at most, see `_errors`."""
        return self.requests - (self.errors.total - self.errors.connect)

    @property
    def throughput(self) -> float:
        """Successful responses per second."""
        return self.good / self.duration

    @property
    def transfer_rate(self) -> float:
        return self.read / self.duration

    @property
    def concurrency_measured(self) -> float:
        """The mean number of requests in flight, by Little's law, from the recorded latencies."""
        return self.latency.count / self.duration * self.latency.mean

    def problems(self) -> list[str]:
        """Return the problems that wrk's own summary hides, by name: status, length, text, timeout, connection,
        little, unchecked.
        """
        errors, found = self.errors, []
        if errors.status:
            found.append(f"status: {errors.status} of {self.requests} answers had another status ({self._statuses()})")
        if errors.length:
            found.append(f"length: {errors.length} of {self.requests} answers had another length")
        if errors.text:
            found.append(f"text: {errors.text} of {self.requests} answers lacked the expected text")
        if self.late:
            found.append(
                f"timeout: {self.late} of {self.requests} answers came after wrk's timeout, which does not time them; "
                "percentiles count them as slower than all others"
            )
        if errors.connect:
            found.append(
                f"connection: {self.connect_errors} could not be opened, {self.read_errors} broke while reading, "
                f"{self.write_errors} while writing"
            )
        if not self.checked:
            found.append("unchecked: answers were not looked at; only statuses above 399 were counted")
        measured = self.concurrency_measured
        if abs(measured - self.connections) > LITTLE * self.connections:
            found.append(
                f"little: throughput × mean latency is {rounding.shown(measured, trim=True)} requests in flight on "
                f"average, not {self.connections}: connections were never answered (wrk does not count those) or kept "
                "being opened, or the generator was the limit"
            )
        return found

    def _statuses(self) -> str:
        if not self.statuses:
            return "above 399"
        return ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items()))


@damaged("wrk's output is damaged")
def parse_wrk(text: str) -> WrkResult:
    """Parse the run in wrk's standard output, from the line that our script adds at its end.

    Raises ParseError if the output is truncated, not from wrk, or has no run or two, or if there was no response.
    """
    runs = len(_RUNNING.findall(text))
    if runs != 1:
        raise ParseError(f"wrk left {runs} reports instead of one")
    shape, total = _found(_SHAPE, text, "threads and connections"), _found(_TOTAL, text, "total of requests")
    with damaged("our script's JSON in wrk's output is damaged"):
        line = _our_line(text)
        if not line["requests"]:
            raise ParseError(f"wrk completed no request in {rounding.shown(line['duration_us'] * _US)} s")
        if line["latency_us"] is None:
            raise ParseError(_why_no_times(int(line["errors"]["timeout"]), int(line["requests"])))
        result = _result(line, int(shape[2]))
    if result.duration <= 0:
        raise ParseError("wrk says that its run took no time")
    if (result.requests, result.threads) != (int(total[1]), int(shape[1])):
        raise ParseError(
            f"wrk prints {total[1]} requests of {shape[1]} threads, our script's JSON {result.requests} of "
            f"{result.threads}: they are not of one run"
        )
    return result


def _our_line(text: str) -> Mapping[str, Any]:
    lines = _OUR_LINE.findall(text)
    if len(lines) != 1:
        raise ParseError(f"wrk's output is truncated: it has {len(lines)} lines of our script's JSON instead of one")
    try:
        line = json.loads(lines[0])
    except ValueError as error:
        raise ParseError(f"wrk's output is truncated: our script's JSON is not whole: {error}") from error
    if line.get("format") != 1:
        raise ParseError(f"our script's JSON has format {line.get('format')!r}, and only 1 is known")
    return line


def _why_no_times(late: int, requests: int) -> str:
    if late >= requests:
        return f"each of {requests} answers came after wrk's timeout, so wrk recorded no time"
    return "wrk does not keep the times of answers as our script knows it from wrk 4 with LuaJIT"


def _result(line: Mapping[str, Any], connections: int) -> WrkResult:
    connect, read, write, late = (int(line["errors"][name]) for name in ("connect", "read", "write", "timeout"))
    return WrkResult(
        threads=line["threads"],
        connections=connections,
        duration=line["duration_us"] * _US,
        requests=int(line["requests"]),
        read=float(line["bytes"]),
        connect_errors=connect,
        read_errors=read,
        write_errors=write,
        late=late,
        errors=_errors(line),
        statuses={int(status): int(count) for status, count in line["statuses"].items()},
        checked=bool(line["checked"]),
        latency=_latency(line["latency_us"]),
    )


def _errors(line: Mapping[str, Any]) -> Errors:
    """Count failures once each, as a lower bound: wrk also counts an answer as late that is wrong."""
    counted, wrong = line["errors"], line["wrong"]
    status = int(wrong["status"] if line["checked"] else counted["status"])
    length, text = int(wrong["length"]), int(wrong["text"])
    return Errors(
        connect=sum(int(counted[name]) for name in ("connect", "read", "write")),
        timeout=max(0, int(counted["timeout"]) - status - length - text),
        status=status,
        length=length,
        text=text,
    )


def _latency(found: Mapping[str, Any]) -> Latency:
    return Latency(
        count=int(found["count"]),
        mean=found["mean"] * _US,
        sd=found["sd"] * _US,
        min=found["min"] * _US,
        max=found["max"] * _US,
        percentiles=[(float(percent), us * _US) for percent, us in found["percentiles"]],
        bins=[(low * _US, high * _US, int(count)) for low, high, count in found["bins"]],
    )


def _found(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.search(text)
    if match is None:
        raise ParseError(f"wrk's output is truncated: it has no {what}")
    return match
