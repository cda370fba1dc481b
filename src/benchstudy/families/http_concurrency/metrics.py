"""The metrics of the family http_concurrency."""

from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)  # those in ab's table

_LATENCY = (
    "latency of a request, including the time to connect; refused and broken connections are left out. k6: measured "
    "from when the request was due; no `latency_sd`"
)
_PART = (
    "ab: parts of the latency, in whole milliseconds (`sd` in tenths): time to connect, time from then to the last "
    "byte, and time from then to the first byte. k6: only `mean` and `max` of `connect` and `waiting`"
)
_MOMENTS = {"mean": "mean", "sd": "standard deviation", "min": "minimum", "max": "maximum"}
_ERRORS = {"status": "wrong status", "length": "wrong body", "timeout": "timeout", "connect": "connection"}

METRICS = declare(
    Metric(
        "throughput",
        "1/s",
        "Successful responses per second",
        "higher",
        "rate of successful responses; k6: during the time in which requests were sent; absent if an imported output "
        "does not count failures",
        primary=True,
    ),
    Metric("latency_p50", "s", "Latency, p50", "lower", _LATENCY, primary=True),
    *(Metric(f"latency_p{percent}", "s", f"Latency, p{percent}", "lower", _LATENCY) for percent in PERCENTILES[1:]),
    *(Metric(f"latency_{name}", "s", f"Latency, {words}", "lower", _LATENCY) for name, words in _MOMENTS.items()),
    *(
        Metric(f"{part}_{name}", "s", f"{part.capitalize()}, {name}", "lower", _PART)
        for part in ("connect", "processing", "waiting")
        for name in ("mean", "sd", "median", "max")
    ),
    Metric("offered", "1/s", "Offered rate", None, "k6: rate of requests that were due, sent or not", tells="offered"),
    Metric(
        "achieved_share",
        "1",
        "Achieved",
        "higher",
        "k6: `throughput` divided by `offered`. Requests in flight at the end count if they were answered later, up to "
        "the number that a stable server has in flight by Little's law",
    ),
    Metric("dropped", "1", "Not sent", "lower", "k6: requests not sent when due, because `max_in_flight` was reached"),
    Metric("requests", "1", "Requests", None, "number of requests that were answered, successfully or not, or failed"),
    Metric("errors", "1", "Errors", "lower", "requests with a wrong or missing response; the sum of the next four"),
    *(
        Metric(
            f"errors_{name}",
            "1",
            f"Errors: {words}",
            "lower",
            "wrong status; wrong body, absent if bodies were not checked (wrk with `check_answers: false`, ab with "
            "`-l`); no response in time (ab gives up instead); connection refused or broken",
        )
        for name, words in _ERRORS.items()
    ),
    Metric(
        "duration", "s", "Duration of the load", None, "duration of the load, by the generator's clock", tells="window"
    ),
    Metric(
        "transfer_rate",
        "B/s",
        "Transfer rate",
        "higher",
        "rate of received bytes, including headers; k6: during the time in which requests were sent",
    ),
    Metric("keepalive_requests", "1", "Keep-alive requests", None, "ab: requests whose connection was kept alive"),
    Metric("document_length", "B", "Response length", None, "size of a response's body"),
    Metric(
        "generator_cpu",
        "1",
        "Generator CPU",
        None,
        "CPU used, as a share of what the generator may use. It covers the whole run of its process, so it is an upper "
        "bound. It is absent if the process ran, or waited for the last responses, for so long that the upper and the "
        "lower bound differ by more than 15 % and leave open whether the generator was the limit. With several "
        "clients, the highest",
        tells="generator",
    ),
    Metric(
        "server_cpu",
        "1",
        "Server CPU",
        "lower",
        "CPU time of the server divided by the duration of the load, as a share of its limit; k6: divided by the time "
        "in which requests were sent. If that exceeds 100 %, it is 100 %, or the share until the last response if that "
        "is higher",
    ),
    Metric(
        "server_peak_memory",
        "B",
        "Peak server memory",
        "lower",
        "peak memory of its control group since the server started, including page cache; absent if not counted",
    ),
    Metric(
        "concurrency_measured",
        "1",
        "Requests in flight",
        None,
        "mean number of requests in flight, by Little's law: responses per second × mean latency",
    ),
    Metric(
        "little_error",
        "1",
        "Deviation from Little's law",
        None,
        "closed loops: difference between `concurrency_measured` and the number of connections, as a share of the "
        "latter, minus the part that ab's rounding may explain. Absent if rounding may hide a deviation above the "
        "threshold",
    ),
    *clients.METRICS,
)
