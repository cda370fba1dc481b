"""Writes the users' statistics in Prometheus' text format, for the master's own port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from . import histogram
from .recording import Measured, Records, Worker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The server's bounds, so that both sides of a request can be compared per bucket.
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def exposition(records: Records, workers: Iterable[Worker], wanted: int) -> str:
    """Return the text. `records`: everything since the start of the load."""
    return "".join(f"{line}\n" for line in _lines(records, list(workers), wanted))


def _lines(records: Records, workers: list[Worker], wanted: int) -> Iterator[str]:
    name = "benchstudy_client_request_seconds"
    yield f"# HELP {name} What users wait for, by action and request."
    yield f"# TYPE {name} histogram"
    for label, measured in sorted(records.measured.items()):
        yield from _histogram(name, {"request": label, "kind": measured.kind}, measured)
    name = "benchstudy_client_failures_total"
    yield f"# HELP {name} Requests that failed, and websockets that broke."
    yield f"# TYPE {name} counter"
    for (label, failure), count in sorted(records.failures.items()):
        yield f"{name}{_labels({'request': label, 'failure': failure})} {count}"
    yield from _simple("benchstudy_client_events_total", "counter", "Events received by websocket.", records.events)
    yield from _simple("benchstudy_client_users_wanted", "gauge", "Users that there should be.", wanted)
    for metric, kind, text in (
        ("users", "gauge", "Users at work."),
        ("ready", "gauge", "Users that are logged in, connected and have loaded their channels."),
        ("websockets", "gauge", "Open websockets."),
        ("cpu_s", "counter", "Processor time of a worker process."),
        ("rss_bytes", "gauge", "Memory of a worker process."),
    ):
        name = _WORKER_NAMES.get(metric, f"benchstudy_client_{metric}")
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} {kind}"
        for worker in workers:
            yield f"{name}{_labels({'worker': str(worker.number), 'host': worker.host})} {getattr(worker, metric)!r}"


_WORKER_NAMES = {"cpu_s": "benchstudy_client_cpu_seconds_total", "rss_bytes": "benchstudy_client_resident_bytes"}


def _simple(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"


def _histogram(name: str, labels: Mapping[str, str], measured: Measured) -> Iterator[str]:
    """Convert our buckets. A bucket that contains a bound counts as above it; it is less than 1 % wide."""
    uppers = [(histogram.edges_of(index)[1], count) for index, count in measured.counts.items()]
    for bound in BUCKETS_S:
        below = sum(count for upper, count in uppers if upper <= bound + 1e-9)
        yield f"{name}_bucket{_labels({**labels, 'le': f'{bound:g}'})} {below}"
    yield f"{name}_bucket{_labels({**labels, 'le': '+Inf'})} {measured.count}"
    yield f"{name}_sum{_labels(labels)} {measured.sum_s!r}"
    yield f"{name}_count{_labels(labels)} {measured.count}"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
