"""Parses the files of Locust's master: users over time, times of requests, and what limited the load. Pure."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchstudy.families.load_test.users.on_host import feedback, histogram
from benchstudy.families.load_test.users.on_host.alerts import ALERT, IGNORED, OK, UNKNOWN
from benchstudy.families.load_test.users.on_host.feedback import AT_MAXIMUM, SETTLED, STARTING
from benchstudy.families.load_test.users.on_host.master import (
    ALERTS,
    FAILURES,
    HISTOGRAMS,
    MASTER,
    REQUESTS,
    RESULT,
    SCHEMA,
    USERS,
    WORKERS,
)
from benchstudy.families.load_test.users.on_host.recording import (
    DROPPED,
    ERRORS,
    EVENT,
    HTTP,
    NO_ANSWER,
    WEBSOCKET,
    Measured,
)
from benchstudy.families.shared.files import damaged, read_json
from benchstudy.model.criteria import USERS_SWING
from benchstudy.model.family import ParseError
from benchstudy.statistics import stats

# A window that says it settled, although its load could not add users at some checks: the mean is only a lower bound.
CLIPPED = "clipped"
CONNECT, DELIVERY = "connect", "delivery"  # rows of the table `client` that are not HTTP
_SLACK_S = 1e-3  # an interval that ends with the window lies in it
_PERCENTS = (50, 95, 99)


@dataclass(frozen=True)
class LoadResult:
    """`values`: metric to (value, unit). `series`: users, checks, search, client, client_histogram. `problems`: for a
    reader.
    """

    values: Mapping[str, tuple[float, str]]
    series: Mapping[str, Sequence[Mapping[str, Any]]]
    problems: Sequence[str]


def parse_load(folder: Path, window_start_s: float, steady: tuple[float, float], clock_s: float = 0.0) -> LoadResult:
    """Parse the master's files in `folder`. Only the series `users`, `checks` and `search` exceed the time `steady`.

    Args:
        window_start_s: time at which `t_s` of the series is zero; like `steady` (start, end), in Unix seconds on the
            clock of Prometheus.
        clock_s: the load host's clock minus that of Prometheus.

    Raises ParseError for files that are missing, cut off, or from another time.
    """
    files = _Files(folder, window_start_s, steady, clock_s)
    with damaged(folder.name):
        return files.parse()


class _Check(NamedTuple):
    """`judged`: no alert was ignored (as at the start) or without its value, so that a check without alert has a
    meaning.
    """

    t_s: float
    users: float
    alerts: tuple[str, ...]
    judged: bool


def _rule_values(search: Mapping[str, Any] | None) -> dict[str, tuple[float, str]]:
    if search is None:
        return {}
    own = search if search["why"] == SETTLED else {}
    found = {
        "supported_users": (own.get("supported"), "1"),
        "users_low": (own.get("passed"), "1"),
        "users_high": (own.get("failed"), "1"),
        "slope": (search["slope"], "1/s"),
        "swing": (search["swing"], "1"),
        "at_maximum": (search["why"] == AT_MAXIMUM, "1"),
    }
    return {metric: (float(value), unit) for metric, (value, unit) in found.items() if value is not None}


class _Files:
    def __init__(self, folder: Path, window_start_s: float, steady: tuple[float, float], clock_s: float):
        self.folder, self.steady = folder, steady
        self.result = read_json(folder / RESULT)
        if self.result.get("schema") != SCHEMA:
            raise ParseError(f"{RESULT}: schema {self.result.get('schema')!r} is not known, only {SCHEMA} is")
        with damaged(RESULT):
            # t_s of the files to Unix seconds on the clock of Prometheus.
            self._began_s = float(self.result["started_unix_s"]) - clock_s
        self._zero_s = window_start_s

    def axis(self, t_s: float) -> float:
        return self._began_s + t_s - self._zero_s

    def is_steady(self, t_s: float, length_s: float = 0.0) -> bool:
        """Whether an interval of the files lies entirely within the steady time."""
        begin, end = self.steady
        start_s = self._began_s + t_s
        return begin - _SLACK_S <= start_s and start_s + length_s <= end + _SLACK_S

    def rows(self, name: str) -> Iterator[dict[str, str]]:
        """Rows of a CSV file. Raises ParseError if it is cut off."""
        path = self.folder / name
        if not path.is_file():
            raise ParseError(f"the file {name} is missing")
        with path.open(newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                if None in row.values() or None in row:
                    raise ParseError(f"{name}: line {number} is cut off")
                yield row

    def parse(self) -> LoadResult:
        users = list(self.rows(USERS))
        failures = self._failures()
        requests = self._requests(failures)
        http = Measured(HTTP)
        for measured in requests.values():
            if measured.kind == HTTP:
                http.merge(measured)
        if not http.count:
            if any(self.is_steady(float(row["t_s"])) for row in users):
                why = "the server answered none, or the time is shorter than an interval"
                raise ParseError(f"no request ended within the steady time: {why}")
            raise ParseError("the users made no request within the steady time: is it of another clock?")
        checks = list(self._checks())
        search = self._search(checks)
        values = self._user_values(users) | _rule_values(search) | self._client_values(http, requests, failures)
        return LoadResult(
            values,
            {
                "users": [self._users_row(row) for row in users],
                "checks": [self._check_row(check) for check in checks],
                "search": [search] if search else [],
                "client": _client_rows(requests, failures),
                "client_histogram": _histogram_rows(requests),
            },
            list(self.result.get("problems", ())),
        )

    # --- users -----------------------------------------------------------------------------------------------

    def _users_row(self, row: Mapping[str, str]) -> dict[str, Any]:
        return {"t_s": self.axis(float(row["t_s"])), "users": float(row["users"]), "alert": row["alert"] or None}

    def _user_values(self, users: Sequence[Mapping[str, str]]) -> dict[str, tuple[float, str]]:
        steady = [row for row in users if self.is_steady(float(row["t_s"]))]
        if not steady:
            raise ParseError(f"{USERS} has no row within the steady time: is it of another clock?")
        counts = [int(row["users"]) for row in steady]
        values = {"users": (sum(counts) / len(counts), "1"), "users_max": (max(counts), "1")}
        values["events"] = (int(steady[-1]["events"]) - int(steady[0]["events"]), "1")
        busiest = self._busiest_worker()
        if busiest is not None:
            values["generator_cpu"] = (busiest, "1")
        return values

    def _busiest_worker(self) -> float | None:
        """Share of one processor that the busiest worker uses; a worker cannot use more than one."""
        seen: dict[str, list[tuple[float, float]]] = {}
        for row in self.rows(WORKERS):
            if row["worker"] != MASTER and self.is_steady(float(row["t_s"])):
                seen.setdefault(row["worker"], []).append((float(row["t_s"]), float(row["cpu_s"])))
        shares = [(r[-1][1] - r[0][1]) / (r[-1][0] - r[0][0]) for r in seen.values() if r[-1][0] > r[0][0]]
        return max(shares, default=None)

    def _length_s(self) -> float:
        """Length in s of all intervals in the steady time. The master writes a row at the end of each interval."""
        ends = [float(row["t_s"]) for row in self.rows(WORKERS) if row["worker"] == MASTER]
        return sum(end - start for start, end in pairwise([0.0, *ends]) if self.is_steady(start, end - start))

    def _checks(self) -> Iterator[_Check]:
        """The checks of an unbounded load's rule, before it took users away."""
        rows = [*self.rows(ALERTS)] if self.result.get("result") else []
        # A server that is not scraped under load has no values. An alert that never had one cannot be missed.
        valued = {row["alert"] for row in rows if row["state"] in (OK, ALERT)}
        for t_s, of_check in groupby(rows, key=lambda row: row["t_s"]):
            alerts = list(of_check)
            names = tuple(row["alert"] for row in alerts if row["state"] == ALERT)
            missed = any(row["state"] == UNKNOWN and row["alert"] in valued for row in alerts) and not names
            judged = not missed and all(row["state"] != IGNORED for row in alerts)
            yield _Check(float(t_s), float(alerts[0]["users"]), names, judged)

    def _check_row(self, check: _Check) -> dict[str, Any]:
        alert = "+".join(check.alerts) or None
        return {"t_s": self.axis(check.t_s), "users": check.users, "alert": alert, "judged": check.judged}

    def _search(self, checks: Sequence[_Check]) -> dict[str, Any] | None:
        """The result of an unbounded load, and its last window. A load that says it settled is judged again by today's
        conditions, because in old loads the window may begin with the load, swing, or have no bracket.

        `clipped`: how many of the window's `checks` had `max_users` users and no alert. If there is one, `supported` is
        a lower bound.
        """
        result = self.result.get("result")
        if not result:
            return None
        rule, why = self.result["plan"]["rule"], result["why"]
        begin_s = result["end_s"] - rule["constants"]["window_s"]
        # The files have times in milliseconds.
        last = [c for c in checks if begin_s + _SLACK_S < c.t_s <= result["end_s"] + _SLACK_S]
        before = [c for c in checks if last and c.t_s < last[0].t_s][-1:]
        window = [(c.t_s, c.users, c.alerts) for c in last]
        judged = [(c.t_s, c.users, c.alerts) for c in [*before, *last] if c.judged]
        passed, failed = feedback.meeting(judged)
        most_allowed = rule["constants"]["max_users"]
        clipped = sum(users >= most_allowed and not alerts for _, users, alerts in window)
        if why == SETTLED:
            start_up_s = max(alert["ignore_first_s"] for alert in rule["alerts"]) + rule["alert_window_s"]
            begun_early = begin_s < start_up_s - _SLACK_S
            why = STARTING if begun_early else feedback.verdict(judged, window, USERS_SWING)
            why = CLIPPED if why == SETTLED and clipped else why
        return {
            "why": why,
            "limited_by": result["limited_by"],
            "supported": result["supported"] if why in (SETTLED, CLIPPED) else None,
            "slope": result["slope"],
            "swing": feedback.swing_of(window) if window else None,
            "least": min((users for _, users, _ in window), default=None),
            "most": max((users for _, users, _ in window), default=None),
            "passed": passed,
            "failed": failed,
            "bracket_low": result["bracket"]["low"],
            "bracket_high": result["bracket"]["high"],
            "max_users": most_allowed,
            "checks": len(window),
            "clipped": clipped,
        }

    # --- what they waited for --------------------------------------------------------------------------------

    def _requests(self, failures: Counter[tuple[str, str]]) -> dict[str, Measured]:
        """Requests of the steady time by label, with the histograms of the log.

        Requests without an answer have no time. In older loads they have one, of about 0 s, and are in the histograms.
        """
        found: dict[str, Measured] = {}
        for row in self.rows(REQUESTS):
            if self.is_steady(float(row["t_s"]), float(row["length_s"])):
                measured = found.setdefault(row["request"], Measured(row["kind"]))
                measured.count += int(row["count"])
                measured.failures += int(row["failures"])
                measured.sum_s += float(row["sum_s"])
                measured.max_s = max(measured.max_s, float(row["max_s"]))
        path = self.folder / HISTOGRAMS
        if not path.is_file():
            raise ParseError(f"the file {HISTOGRAMS} is missing")
        with path.open() as file:
            for line in histogram.read_log(file):
                if self.is_steady(line.start_s, line.length_s):
                    found[line.tag].counts.update(line.counts)
        for label, measured in found.items():
            least = measured.count - failures[label, NO_ANSWER]
            if not least <= measured.timed <= measured.count:
                raise ParseError(f"{HISTOGRAMS} has {measured.timed} of {measured.count} requests {label}")
        return found

    def _failures(self) -> Counter[tuple[str, str]]:
        found = Counter[tuple[str, str]]()
        for row in self.rows(FAILURES):
            if self.is_steady(float(row["t_s"]), float(row["length_s"])):
                found[row["request"], row["failure"]] += int(row["count"])
        return found

    def _client_values(
        self, http: Measured, requests: Mapping[str, Measured], failures: Mapping[tuple[str, str], int]
    ) -> dict[str, tuple[float, str]]:
        errors = sum(
            count
            for (label, failure), count in failures.items()
            if failure in ERRORS and label in requests and requests[label].kind == HTTP
        )
        quantiles = {
            f"client_p{percent}": (histogram.quantile(http.counts, percent / 100), "s")
            for percent in _PERCENTS
            if stats.supported(percent, http.timed)
        }
        mean = {} if http.mean_s is None else {"client_mean": (http.mean_s, "s")}
        return {
            "client_requests": (http.count, "1"),
            "client_rate": (http.count / self._length_s(), "1/s"),
            **mean,
            **{metric: (value, unit) for metric, (value, unit) in quantiles.items() if value is not None},
            "client_errors": (errors / http.count, "1"),
        }


def _row_of(label: str, kind: str) -> str:
    """The row of the table `client` for a label: its action, or the row for all of its kind."""
    return {WEBSOCKET: CONNECT, EVENT: DELIVERY}.get(kind, label.partition("/")[0])


def _client_rows(requests: Mapping[str, Measured], failures: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """One row per action, over all its requests."""
    merged = _by_row(requests)
    for (_, failure), count in failures.items():
        if failure == DROPPED:
            merged.setdefault(CONNECT, Measured(WEBSOCKET)).failures += count
    rows = []
    for action, measured in sorted(merged.items()):
        quantiles = {f"p{percent}_s": histogram.quantile(measured.counts, percent / 100) for percent in _PERCENTS}
        counts = {"count": measured.count, "failures": measured.failures, "timed": measured.timed}
        rows.append({"action": action, **counts, "mean_s": measured.mean_s, **quantiles})
    return rows


def _histogram_rows(requests: Mapping[str, Measured]) -> list[dict[str, Any]]:
    rows = []
    for action, measured in sorted(_by_row(requests).items()):
        for index, count in sorted(measured.counts.items()):
            low_s, high_s = histogram.edges_of(index)
            rows.append({"action": action, "low_s": low_s, "high_s": high_s, "count": count})
    return rows


def _by_row(requests: Mapping[str, Measured]) -> dict[str, Measured]:
    merged: dict[str, Measured] = {}
    for label, measured in requests.items():
        merged.setdefault(_row_of(label, measured.kind), Measured(measured.kind)).merge(measured)
    return merged
