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
    yield from _head(name, "histogram", "What users wait for, by action and request.")
    for label, measured in sorted(records.measured.items()):
        yield from _histogram(name, {"request": label, "kind": measured.kind}, measured)
    failed = [({"request": label, "failure": kind}, count) for (label, kind), count in sorted(records.failures.items())]
    yield from _metric("failures_total", "counter", "Requests that failed, and websockets that broke.", failed)
    yield from _metric("events_total", "counter", "Events received by websocket.", [({}, records.events)])
    yield from _metric("users_wanted", "gauge", "Users that there should be.", [({}, wanted)])
    for field, name, kind, text in (
        ("users", "users", "gauge", "Users at work."),
        ("ready", "ready", "gauge", "Users that are logged in, connected and have loaded their channels."),
        ("websockets", "websockets", "gauge", "Open websockets."),
        ("cpu_s", "cpu_seconds_total", "counter", "Processor time of a worker process."),
        ("rss_bytes", "resident_bytes", "gauge", "Memory of a worker process."),
    ):
        of_workers = [({"worker": str(w.number), "host": w.host}, getattr(w, field)) for w in workers]
        yield from _metric(name, kind, text, of_workers)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _metric(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    name = f"benchstudy_client_{name}"
    yield from _head(name, kind, text)
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {value!r}"


def _histogram(name: str, labels: Mapping[str, str], measured: Measured) -> Iterator[str]:
    """Convert our buckets. A bucket that contains a bound counts as above it; it is less than 1 % wide."""
    uppers = [(histogram.edges_of(index)[1], count) for index, count in measured.counts.items()]
    for bound in BUCKETS_S:
        below = sum(count for upper, count in uppers if upper <= bound + 1e-9)
        yield f"{name}_bucket{_labels({**labels, 'le': f'{bound:g}'})} {below}"
    yield f"{name}_bucket{_labels({**labels, 'le': '+Inf'})} {measured.timed}"
    yield f"{name}_sum{_labels(labels)} {measured.sum_s!r}"
    yield f"{name}_count{_labels(labels)} {measured.timed}"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
