"""wrk 4: what it prints, and the line of JSON that families/http_load/wrk.lua adds.

wrk "corrects" its latencies before it prints them, by answers that a stalled connection would have had. The line of
JSON holds them as recorded; only those fit the requests and Little's law.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.latency import Bin, Latency
from benchstudy.families.shared.files import damaged
from benchstudy.model.criteria import LITTLE
from benchstudy.model.family import ParseError

_US = 1e-6
_TIME_UNITS = {"us": _US, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BINARY = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_NUMBER = r"-?(?:\d+(?:\.\d+)?|nan|inf)"
_TIME = rf"({_NUMBER})(us|ms|s|m|h)"
_RUNNING = re.compile(r"^Running (\S+) test @ (\S+)$", re.M)
_SHAPE = re.compile(r"^  (\d+) threads and (\d+) connections$", re.M)
_LATENCY = re.compile(rf"^    Latency\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+{_NUMBER}%$", re.M)
_PERCENTILE = re.compile(rf"^\s+(\d+(?:\.\d+)?)%\s+{_TIME}$", re.M)
_TOTALS = re.compile(rf"^  (\d+) requests in {_TIME}, ({_NUMBER})([KMGTP]?)B read$", re.M)
_SOCKETS = re.compile(r"^  Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)$", re.M)
_NON_2XX = re.compile(r"^  Non-2xx or 3xx responses: (\d+)$", re.M)
_RATE = re.compile(rf"^Requests/sec:\s+({_NUMBER})$", re.M)
_TRANSFER = re.compile(rf"^Transfer/sec:\s+({_NUMBER})([KMGTP]?)B$", re.M)
_OUR_LINE = re.compile(r'^\{"benchstudy":"wrk".*$', re.M)
_SAID = re.compile(r"^(?:unable to|invalid URL|number of connections|.+\.lua:).*$", re.M)


@dataclass(frozen=True)
class WrkResult:
    """One run. Times in s, rates in 1/s and B/s, sizes in B."""

    url: str
    threads: int
    connections: int
    duration: float
    requests: int  # answers, good or not
    read: float  # B, headers included; rounded to three digits without our line
    requests_per_second: float
    transfer_rate: float
    connect_errors: int
    read_errors: int
    write_errors: int
    late: int  # answers after the timeout
    errors: Errors
    corrected_mean: float
    corrected_sd: float
    corrected_max: float
    corrected_percentiles: Mapping[float, float]  # as wrk prints them, with --latency
    statuses: Mapping[int, int] = field(default_factory=dict)  # empty where answers were not looked at
    checked: bool = False  # whether status, length and text of each answer were looked at
    latency: Latency | None = None  # as recorded; None without our line

    @property
    def good(self) -> int:
        """Answers in time that had the expected status, length and text."""
        return self.requests - (self.errors.total - self.errors.connect)

    @property
    def throughput(self) -> float:
        """Good answers a second."""
        return self.good / self.duration

    @property
    def concurrency_measured(self) -> float | None:
        """Requests under way on average, by Little's law, from the latencies as recorded; None when unknown."""
        return None if self.latency is None else self.latency.count / self.duration * self.latency.mean

    def problems(self) -> list[str]:
        """What a reader would not see in wrk's own summary, each by name: status, length, text, timeout, connection,
        little, unchecked, empty.
        """
        errors, found = self.errors, []
        if not self.requests:
            found.append("empty: not one answer came")
        if errors.status:
            found.append(f"status: {errors.status} of {self.requests} answers had another status ({self._statuses()})")
        if errors.length:
            found.append(f"length: {errors.length} of {self.requests} answers had another length")
        if errors.text:
            found.append(f"text: {errors.text} of {self.requests} answers lacked the expected text")
        if errors.timeout:
            found.append(f"timeout: {errors.timeout} of {self.requests} answers came after wrk's timeout")
        if errors.connect:
            found.append(
                f"connection: {self.connect_errors} could not be opened, {self.read_errors} broke while reading, "
                f"{self.write_errors} while writing"
            )
        if not self.checked:
            found.append("unchecked: answers were not looked at; only statuses above 399 were counted")
        measured = self.concurrency_measured
        if measured is not None and abs(measured - self.connections) > LITTLE * self.connections:
            found.append(
                f"little: throughput × mean latency is {measured:.3g}, so on average not {self.connections} requests "
                "were under way: connections were never answered (wrk does not count those) or kept being opened, "
                "or the generator was the limit"
            )
        return found

    def _statuses(self) -> str:
        if not self.statuses:
            return "above 399"
        return ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items()))


@damaged("wrk's output is damaged")
def parse_wrk(text: str, stderr: str = "", *, scripted: bool = True) -> WrkResult:
    """The run in wrk's standard output. `scripted`: it ran with our script, so the line of JSON must be there.

    `stderr` is only read for wrk's reason when there is no run. Raises ParseError when the output is cut off, not
    wrk's, or holds two runs.
    """
    runs = _RUNNING.findall(text)
    if len(runs) != 1:
        said = [line.strip() for line in _SAID.findall(f"{stderr}\n{text}")]
        why = f"it said: {'; '.join(said)}" if said else "it gives no reason"
        raise ParseError(f"wrk left {len(runs)} reports instead of one; {why}")
    shape, totals = _found(_SHAPE, text, "threads and connections"), _found(_TOTALS, text, "total of requests")
    rate, transfer = _found(_RATE, text, "Requests/sec"), _found(_TRANSFER, text, "Transfer/sec")
    latency = _found(_LATENCY, text, "latency")
    sockets, non_2xx = _SOCKETS.search(text), _NON_2XX.search(text)
    counted = [int(n) for n in sockets.groups()] if sockets else [0, 0, 0, 0]
    ours = _our_line(text) if scripted else None
    requests = int(totals[1])
    duration, read = _seconds(totals[2], totals[3]), _bytes(totals[4], totals[5])
    wrong = Errors(sum(counted[:3]), counted[3], int(non_2xx[1]) if non_2xx else 0, 0, 0)
    result = WrkResult(
        url=runs[0][1],
        threads=int(shape[1]),
        connections=int(shape[2]),
        duration=duration,
        requests=requests,
        read=read,
        requests_per_second=float(rate[1]),
        transfer_rate=_bytes(transfer[1], transfer[2]),
        connect_errors=counted[0],
        read_errors=counted[1],
        write_errors=counted[2],
        late=counted[3],
        errors=wrong,
        corrected_mean=_seconds(latency[1], latency[2]),
        corrected_sd=_seconds(latency[3], latency[4]),
        corrected_max=_seconds(latency[5], latency[6]),
        corrected_percentiles={
            float(match[1]): _seconds(match[2], match[3]) for match in _PERCENTILE.finditer(text[: totals.start()])
        },
    )
    if result.duration <= 0:
        raise ParseError("wrk says that its run took no time")
    return result if ours is None else _with(result, ours)


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


def _with(printed: WrkResult, line: Mapping[str, Any]) -> WrkResult:
    """What wrk prints, made exact by our line. Raises ParseError when the two are of different runs."""
    with damaged("our script's JSON in wrk's output is damaged"):
        requests, errors, wrong = int(line["requests"]), line["errors"], line["wrong"]
        if (requests, line["threads"]) != (printed.requests, printed.threads):
            raise ParseError(
                f"wrk prints {printed.requests} requests of {printed.threads} threads, our script's JSON {requests} of "
                f"{line['threads']}: they are not of one run"
            )
        checked = bool(line["checked"])
        duration = line["duration_us"] * _US
        counted = {name: int(errors[name]) for name in ("connect", "read", "write", "timeout")}
        return replace(
            printed,
            duration=duration,
            read=float(line["bytes"]),
            requests_per_second=requests / duration,
            transfer_rate=line["bytes"] / duration,
            connect_errors=counted["connect"],
            read_errors=counted["read"],
            write_errors=counted["write"],
            late=counted["timeout"],
            statuses={int(status): int(count) for status, count in line["statuses"].items()},
            errors=Errors(
                connect=counted["connect"] + counted["read"] + counted["write"],
                timeout=counted["timeout"],
                status=int(wrong["status"] if checked else errors["status"]),
                length=int(wrong["length"]),
                text=int(wrong["text"]),
            ),
            checked=checked,
            latency=_latency(line["latency_us"]),
        )


def _latency(found: Mapping[str, Any] | None) -> Latency | None:
    if found is None:
        return None
    return Latency(
        count=int(found["count"]),
        mean=found["mean"] * _US,
        sd=found["sd"] * _US,
        min=found["min"] * _US,
        max=found["max"] * _US,
        percentiles=[(float(percent), us * _US) for percent, us in found["percentiles"]],
        bins=[Bin(low * _US, high * _US, int(count)) for low, high, count in found["bins"]],
    )


def _found(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.search(text)
    if match is None:
        raise ParseError(f"wrk's output is truncated: it has no {what}")
    return match


def _seconds(number: str, unit: str) -> float:
    return float(number) * _TIME_UNITS[unit]


def _bytes(number: str, prefix: str) -> float:
    return float(number) * 1024 ** _BINARY[prefix]
