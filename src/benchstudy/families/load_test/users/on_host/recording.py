"""Records of the workers' users, and their sums on the master. Only numbers are sent, and they can be added."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import histogram
from .alerts import Seen

HTTP, WEBSOCKET, EVENT = "http", "websocket", "event"  # kinds of timed operations
SERVER_ERROR, CLIENT_ERROR, TIMEOUT, NO_ANSWER, DROPPED = "5xx", "4xx", "timeout", "no_answer", "dropped"
UNEXPECTED = "unexpected"  # an answer that the simulated client could not use
ERRORS = (SERVER_ERROR, TIMEOUT, NO_ANSWER)  # what the alert client_errors counts
_LONGEST_EXAMPLE = 300


class Refused(Exception):
    """A request failed. The failure is recorded already, and the action that needed the request is over."""


@dataclass
class Measured:
    """All requests of one label, such as `view_channel/posts`, including failed ones. Times in s.

    A request without an answer is in `count` and `failures`, and has no time: a refused connection takes about 0 s.
    """

    kind: str
    count: int = 0
    failures: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0
    counts: Counter[int] = field(default_factory=Counter)  # by bucket

    @property
    def timed(self) -> int:
        """Number of requests that have a time."""
        return sum(self.counts.values())

    @property
    def mean_s(self) -> float | None:
        """Mean time; None if no request has one."""
        return self.sum_s / self.timed if self.timed else None

    def add(self, seconds: float | None, failed: bool) -> None:
        """Count a request. `seconds`: None if no answer came."""
        self.count += 1
        self.failures += failed
        if seconds is None:
            return
        self.sum_s += seconds
        self.max_s = max(self.max_s, seconds)
        self.counts[histogram.index_of(seconds)] += 1

    def merge(self, other: Measured) -> None:
        self.count += other.count
        self.failures += other.failures
        self.sum_s += other.sum_s
        self.max_s = max(self.max_s, other.max_s)
        self.counts.update(other.counts)


@dataclass
class Records:
    """All measurements of a period. `failures` maps (label, kind of failure) to a number, `examples` to a text."""

    measured: dict[str, Measured] = field(default_factory=dict)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    events: int = 0

    def add(self, label: str, kind: str, seconds: float, failure: str | None = None, example: str = "") -> None:
        time_s = None if failure == NO_ANSWER else seconds
        self.measured.setdefault(label, Measured(kind)).add(time_s, failure is not None)
        if failure is not None:
            self.fail(label, failure, example)

    def fail(self, label: str, failure: str, example: str = "") -> None:
        """Count a failure that is no request of its own."""
        self.failures[label, failure] += 1
        self.examples.setdefault((label, failure), example[:_LONGEST_EXAMPLE])

    def merge(self, other: Records) -> None:
        for label, measured in other.measured.items():
            self.measured.setdefault(label, Measured(measured.kind)).merge(measured)
        self.failures.update(other.failures)
        for key, example in other.examples.items():
            self.examples.setdefault(key, example)
        self.events += other.events

    def seen(self) -> Seen:
        """Summarize the HTTP requests."""
        total = Seen()
        for label, measured in self.measured.items():
            if measured.kind == HTTP:
                errors = sum(self.failures[label, failure] for failure in ERRORS)
                total.add(Seen(measured.count, measured.sum_s, errors, measured.counts))
        return total

    # --- between processes -----------------------------------------------------------------------------------

    def message(self) -> dict[str, Any]:
        """Return plain data that msgpack accepts."""
        return {
            "measured": {
                label: [m.kind, m.count, m.failures, m.sum_s, m.max_s, m.counts] for label, m in self.measured.items()
            },
            "failures": [
                [label, failure, count, self.examples.get((label, failure), "")]
                for (label, failure), count in self.failures.items()
            ],
            "events": self.events,
        }

    @classmethod
    def of_message(cls, message: Mapping[str, Any]) -> Records:
        records = cls(events=message["events"])
        records.measured = {label: Measured(*values) for label, values in message["measured"].items()}
        for label, failure, count, example in message["failures"]:
            records.failures[label, failure] = count
            records.examples[label, failure] = example
        return records


class Recorder:
    """Records what the users of one worker process did since the last report, and their number."""

    def __init__(self) -> None:
        self.records = Records()
        self.ready = 0  # logged in, connected, with their channels loaded
        self.websockets = 0

    def report(self) -> dict[str, Any]:
        """Return what is new for the master since the last call. `cpu_s`: CPU time of this process since its start."""
        records, self.records = self.records, Records()
        return {
            "records": records.message(),
            "host": os.uname().nodename,
            "ready": self.ready,
            "websockets": self.websockets,
            "cpu_s": time.process_time(),
        }


@dataclass
class Worker:
    """The master's view of a worker."""

    number: int
    host: str
    users: int = 0
    ready: int = 0
    websockets: int = 0
    cpu_s: float = 0.0
    rss_bytes: int = 0
