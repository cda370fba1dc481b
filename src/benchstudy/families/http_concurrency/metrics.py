"""What a trial of http_concurrency gives."""

from benchstudy.families.shared import clients
from benchstudy.model.metrics import Metric, declare

PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)  # those of ab's own table

_LATENCY = "of a request, connecting included; of k6 without `latency_sd`, and from when it was due"
_PART = (
    "ab: parts of the latency: connecting; from then to the last byte; to the first byte. Of k6 `connect` and "
    "`waiting`: `mean`, `max`"
)
_MOMENTS = {"mean": "mean", "sd": "standard deviation", "min": "least", "max": "most"}
_ERRORS = {"status": "another status", "length": "another body", "timeout": "no answer in time", "connect": "refused"}

METRICS = declare(
    Metric(
        "throughput",
        "1/s",
        "Right answers a second",
        "higher",
        "right answers per second; of k6 while requests were begun",
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
    Metric(
        "offered",
        "1/s",
        "Offered a second",
        None,
        "k6: requests that were due per second, sent or not",
        tells="offered",
    ),
    Metric("dropped", "1", "Not sent", "lower", "k6: due, and not sent because `max_in_flight` were under way"),
    Metric("requests", "1", "Requests", None, "answered, rightly or wrongly, or given up"),
    Metric("errors", "1", "Errors", "lower", "of them wrong or missing; the sum of the next four"),
    *(
        Metric(
            f"errors_{name}",
            "1",
            f"Errors: {words}",
            "lower",
            "another status; another body; no answer in time (ab ends there instead); refused or broken",
        )
        for name, words in _ERRORS.items()
    ),
    Metric("duration", "s", "Duration of the load", None, "of the load, by the generator's clock", tells="window"),
    Metric("transfer_rate", "B/s", "Received", "higher", "received, with headers"),
    Metric("keepalive_requests", "1", "Kept alive", None, "ab: answered on a connection that was then kept"),
    Metric("document_length", "B", "Length of an answer", None, "of an answer's body"),
    Metric(
        "generator_cpu",
        "1",
        "CPU of the generator",
        None,
        "share of the CPUs it may use. It is known for the whole life of the generator, so it is an upper bound, and "
        "absent where life and load differ by more than 15 % and so leave open whether it was the limit. Of several "
        "clients the highest",
        tells="generator",
    ),
    Metric(
        "server_cpu",
        "1",
        "CPU of the server",
        "lower",
        "the server's CPU time over the load's duration, as a share of its limit",
    ),
    Metric(
        "server_peak_memory",
        "B",
        "Peak memory of the server",
        "lower",
        "of its control group from its start on, page cache included; absent where nothing counts it",
    ),
    Metric(
        "concurrency_measured",
        "1",
        "Requests under way",
        None,
        "requests under way on average, by Little's law: answers per second × mean latency",
    ),
    Metric(
        "little_error",
        "1",
        "Off the connections",
        None,
        "closed loops: how far that is from the connections, as a share of them",
    ),
    *clients.METRICS,
)
