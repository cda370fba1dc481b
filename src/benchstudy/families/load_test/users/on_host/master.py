"""The master's side: collects the workers' reports for files and Prometheus, and ends the load."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from . import histogram
from .alerts import ALERT, RecentlySeen
from .exposition import exposition
from .histogram import Line
from .plan import Plan
from .recording import DROPPED, UNEXPECTED, Records, Worker

SCHEMA = 1
RESULT, USERS, REQUESTS, FAILURES, HISTOGRAMS, WORKERS, ALERTS = (
    "load.json",
    "users.csv",
    "requests.csv",
    "failures.csv",
    "histograms.hlog",
    "workers.csv",
    "alerts.csv",
)
_COLUMNS = {
    USERS: ("t_s", "users", "wanted", "ready", "websockets", "events", "alert"),
    REQUESTS: ("t_s", "length_s", "request", "kind", "count", "failures", "sum_s", "max_s"),
    FAILURES: ("t_s", "length_s", "request", "failure", "count", "example"),
    WORKERS: ("t_s", "worker", "host", "users", "ready", "cpu_s", "rss_bytes"),
    ALERTS: ("t_s", "users", "alert", "value", "above", "state"),
}
MASTER = "master"


class Collector:
    """Collects the workers' reports and writes files to the current folder. Times count from `started_unix_s`.

    A request counts at the time of its worker's report, which is at most one report interval after its end.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.started_unix_s = time.time()
        self._started = time.monotonic()
        self.total = Records()
        self.workers: dict[str, Worker] = {}
        self.recently = RecentlySeen(plan.rule.alert_window_s if plan.rule else 60.0)
        self.wanted = 0
        self.alerts: tuple[str, ...] = ()
        self._fresh = Records()
        self._written_s = 0.0
        self._files: dict[str, TextIO] = {}
        self._tables: dict[str, Any] = {}
        for name, columns in _COLUMNS.items():
            self._files[name] = file = open(name, "w", newline="")  # noqa: SIM115 - open during the whole load
            self._tables[name] = csv.writer(file, lineterminator="\n")
            self._tables[name].writerow(columns)
        self._files[HISTOGRAMS] = log = open(HISTOGRAMS, "w")  # noqa: SIM115
        log.write(histogram.log_head(self.started_unix_s, "benchstudy: times of requests in us, tagged by request"))

    @property
    def now_s(self) -> float:
        """Seconds since the start of the load."""
        return time.monotonic() - self._started

    # --- input -----------------------------------------------------------------------------------------------

    def take(self, worker: str, report: Mapping[str, Any], users: int) -> None:
        """Take in a report of a worker."""
        known = self.workers.setdefault(worker, Worker(len(self.workers), report["host"]))
        known.users, known.rss_bytes = users, report["rss_bytes"]
        known.ready, known.websockets, known.cpu_s = report["ready"], report["websockets"], report["cpu_s"]
        records = Records.of_message(report["records"])
        self.recently.add(self.now_s, records.seen())
        self._fresh.merge(records)

    @property
    def users(self) -> int:
        return sum(worker.users for worker in self.workers.values())

    @property
    def ready(self) -> int:
        return sum(worker.ready for worker in self.workers.values())

    # --- output ----------------------------------------------------------------------------------------------

    def tell_users(self) -> None:
        """Write a row with the current number of users."""
        sockets = sum(worker.websockets for worker in self.workers.values())
        row = (self.users, self.wanted, self.ready, sockets, self.total.events + self._fresh.events)
        self._write(USERS, *row, "+".join(self.alerts))
        self._files[USERS].flush()

    def tell_check(self, t_s: float, users: int, rows: Sequence[tuple[str, float | None, float, str]]) -> None:
        """Write a check's rows (alert, value, bound, state), and set `alerts` to those that alert now."""
        for alert, value, above, state in rows:
            self._write(ALERTS, users, alert, "" if value is None else f"{value:.6g}", above, state, t_s=t_s)
        self.alerts = tuple(alert for alert, _, _, state in rows if state == ALERT)

    def write_interval(self) -> None:
        """Write what was reported since the last call."""
        start_s, end_s, fresh, self._fresh = self._written_s, self.now_s, self._fresh, Records()
        self._written_s = end_s
        self.total.merge(fresh)
        length_s = f"{end_s - start_s:.3f}"
        for label, measured in sorted(fresh.measured.items()):
            row = (measured.kind, measured.count, measured.failures, f"{measured.sum_s:.6f}", f"{measured.max_s:.6f}")
            self._write(REQUESTS, length_s, label, *row, t_s=start_s)
            self._files[HISTOGRAMS].write(histogram.log_line(Line(label, start_s, end_s - start_s, measured.counts)))
        for (label, failure), count in sorted(fresh.failures.items()):
            self._write(FAILURES, length_s, label, failure, count, fresh.examples[label, failure], t_s=start_s)
        for worker in self.workers.values():
            used = (f"{worker.cpu_s:.3f}", worker.rss_bytes)
            self._write(WORKERS, worker.number, worker.host, worker.users, worker.ready, *used, t_s=end_s)
        self._write(WORKERS, MASTER, os.uname().nodename, 0, 0, f"{time.process_time():.3f}", 0, t_s=end_s)

    def _write(self, table: str, *values: Any, t_s: float | None = None) -> None:
        self._tables[table].writerow((f"{self.now_s if t_s is None else t_s:.3f}", *values))

    def exposition(self) -> str:
        total = Records()
        total.merge(self.total)
        total.merge(self._fresh)
        return exposition(total, self.workers.values(), self.wanted)

    def _problems(self) -> list[str]:
        """Problems that a reader of this load's figures must know."""
        dropped = sum(count for (_, failure), count in self.total.failures.items() if failure == DROPPED)
        unexpected = {label: n for (label, failure), n in self.total.failures.items() if failure == UNEXPECTED}
        found = [f"{dropped} websockets broke while the load went on"] if dropped else []
        if unexpected:
            worst = max(unexpected, key=lambda label: unexpected[label])
            example = self.total.examples[worst, UNEXPECTED]
            found.append(
                f"{sum(unexpected.values())} answers could not be used by the simulated client, most often of "
                f"{worst}: {example}"
            )
        return found

    def close(self, outcome: Mapping[str, Any]) -> None:
        """Write the rest, and as the last file `outcome` with what readers of all files need."""
        self.write_interval()
        for file in self._files.values():
            file.close()
        plan = {name: value for name, value in asdict(self.plan).items() if name != "accounts"}
        result = {
            "schema": SCHEMA,
            "started_unix_s": self.started_unix_s,
            "plan": {**plan, "accounts": len(self.plan.accounts)},
            "workers": [{"worker": worker.number, "host": worker.host} for worker in self.workers.values()],
            **outcome,
            "problems": [*outcome["problems"], *self._problems()],
        }
        with open(f"{RESULT}.part", "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        os.replace(f"{RESULT}.part", RESULT)
