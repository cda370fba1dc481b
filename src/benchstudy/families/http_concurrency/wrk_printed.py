"""Reader of what wrk itself prints, without the line of our script. Pure.

wrk prints no latency as it was: it adds responses that a stalled connection would have had. So only the percentiles are
taken, and the mean and the deviation, which would contradict the number of requests, are left out.
"""

import re
from itertools import pairwise

from benchstudy.families.http_concurrency.errors import Errors
from benchstudy.families.http_concurrency.imported_levels import level_of, levels_of_url
from benchstudy.families.http_concurrency.summaries import Summary, counted
from benchstudy.families.shared.clients import rank_of
from benchstudy.families.shared.files import damaged
from benchstudy.model.family import ParseError

_RUNNING = re.compile(r"^Running (\S+) test @ (\S+)\r?$", re.M)
_SHAPE = re.compile(r"^ +(\d+) threads and (\d+) connections\r?$", re.M)
_TOTAL = re.compile(r"^ +(\d+) requests in ([\d.]+)(us|ms|s|m|h), [\d.]+[KMGTP]?B read\r?$", re.M)
_RATE = re.compile(r"^Requests/sec: +([\d.]+)\r?$", re.M)
_TRANSFER = re.compile(r"^Transfer/sec: +([\d.]+)([KMGTP]?)B\r?$", re.M)
_MOST = re.compile(r"^ +Latency +\S+ +\S+ +([\d.]+)(us|ms|s|m|h) ", re.M)
_PERCENTILE = re.compile(r"^ +([\d.]+)% +([\d.]+)(us|ms|s|m|h)\r?$", re.M)
_SOCKETS = re.compile(r"^ +Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)\r?$", re.M)
_STATUS = re.compile(r"^ +Non-2xx or 3xx responses: (\d+)\r?$", re.M)
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# wrk2 calibrates for 10 s, and has no rates before. wrk prints 0.00 in their place.
_WRK2 = re.compile(r"^ +Thread calibration:|HdrHistogram|^ +Req/Sec +-?nan ", re.M)
NOTES = (
    "latencies include those that wrk adds for stalled connections; so their mean and deviation are left out",
    "responses were not checked; only statuses above 399 count as errors",
)


def is_wrk(text: str) -> bool:
    """Also a run that was cut off, and wrk2's, but not a trial of ours."""
    return bool(_RUNNING.search(text) and _SHAPE.search(text)) and '{"benchstudy":"wrk"' not in text


def split_wrk(text: str) -> list[str]:
    """Split the text into runs without leaving anything out. Raises ParseError if wrk2 printed one of them."""
    if _WRK2.search(text):
        raise ParseError(
            "wrk2 printed this, not wrk. It is not imported, because it lacks the rate that wrk2 kept (-R): put its "
            "figures into a table in data/published/ (`benchstudy docs importing`)"
        )
    starts = [0, *(match.start() for match in _RUNNING.finditer(text)), len(text)]
    del starts[1]
    return [text[begin:end] for begin, end in pairwise(starts)]


def own_of_wrk(text: str) -> str:
    """Return the lines of one run that wrk itself printed."""
    return "\n".join(text[_found(_RUNNING, text).start() : _found(_TRANSFER, text).end()].splitlines())


@damaged("wrk's output is damaged")
def parse_wrk_printed(text: str) -> Summary:
    """Parse one run. Raises ParseError if it is truncated, completed no request, or contradicts itself."""
    running, shape, total = (_found(pattern, text) for pattern in (_RUNNING, _SHAPE, _TOTAL))
    requests, rate, transfer = int(total[1]), float(_found(_RATE, text)[1]), _found(_TRANSFER, text)
    if not requests or not rate:
        raise ParseError("wrk completed no request")
    took, printed = requests / rate, float(total[2]) * _UNITS[total[3]]
    if abs(took - printed) > 0.01 * printed + 0.01 * _UNITS[total[3]]:
        raise ParseError(
            f"wrk's output: inconsistent: {requests} requests in {printed:g} s are not {rate:g} per second"
        )
    sockets, status = _SOCKETS.search(text), _STATUS.search(text)
    connect, read, write, late = (int(n) for n in sockets.groups()) if sockets else (0, 0, 0, 0)
    wrong = int(status[1]) if status else 0
    # A lower bound: wrk also counts a response as late that has another status.
    errors = Errors(connect=connect + read + write, timeout=max(0, late - wrong), status=wrong)
    most = _MOST.search(text)
    recorded = most is not None and float(most[1]) > 0  # not if each response came after wrk's timeout
    percentiles = {float(p): float(time) * _UNITS[unit] for p, time, unit in _PERCENTILE.findall(text) if recorded}
    # wrk does not time late responses, although they were the slowest.
    percentiles = {p: seconds for p, seconds in percentiles.items() if rank_of(p, requests) <= requests - late}
    values = counted(requests + errors.connect, errors.total, took)
    values |= {f"errors_{name}": (getattr(errors, name), "1") for name in ("status", "timeout", "connect")}
    values |= {f"latency_p{percent:g}": (seconds, "s") for percent, seconds in percentiles.items()}
    if most and recorded and not late:
        values["latency_max"] = (float(most[1]) * _UNITS[most[2]], "s")
    values["transfer_rate"] = (float(transfer[1]) * 1024.0 ** " KMGTP".index(transfer[2] or " "), "B/s")
    told = {"concurrency": shape[2], "requests": level_of(running[1]), "threads": shape[1]}
    return Summary(values, percentiles, levels_of_url(running[2]) | told)


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.search(text)
    if match is None:
        raise ParseError("wrk's output is truncated: it lacks lines that wrk prints at the end of each run")
    return match
