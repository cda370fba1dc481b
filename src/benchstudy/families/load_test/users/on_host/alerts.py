"""Alerts: values with an upper bound, from Prometheus or from the users' own statistics."""

from __future__ import annotations

import http.client
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import histogram

OK, ALERT, IGNORED, UNKNOWN = "ok", "alert", "ignored", "unknown"
_LARGEST_ANSWER = 1 << 20
_WRONG_QUERY = (400, 422)


@dataclass(frozen=True)
class Alert:
    """An upper bound. `query`: PromQL whose first value counts; None for the client statistic of that name."""

    name: str
    above: float
    ignore_first_s: float
    query: str | None = None

    def state(self, t_s: float, value: float | None) -> str:
        """The state for a value at `t_s` s after the start of the load. Without a value the state is unknown."""
        if t_s < self.ignore_first_s:
            return IGNORED
        if value is None or math.isnan(value):
            return UNKNOWN
        return ALERT if value > self.above else OK


class PrometheusSilent(Exception):
    """Prometheus did not answer."""


class QueryRefused(PrometheusSilent):
    """Prometheus refused the query; a retry does not help."""


def ask_prometheus(url: str, query: str, timeout_s: float) -> float | None:
    """Return an instant query's first value now; None for an empty vector. Raises PrometheusSilent, QueryRefused."""
    question = f"{url.rstrip('/')}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with _DIRECT.open(question, timeout=timeout_s) as response:
            answer = json.loads(response.read(_LARGEST_ANSWER))
        result = answer["data"]["result"]
        if not result:
            return None
        return float(result[1] if answer["data"]["resultType"] == "scalar" else result[0]["value"][1])
    except urllib.error.HTTPError as error:
        said = error.read(2000).decode(errors="replace")
        kind = QueryRefused if error.code in _WRONG_QUERY else PrometheusSilent
        raise kind(f"{url} answered {error.code} to {query!r}: {said}") from error
    except (OSError, ValueError, LookupError, TypeError, RecursionError, http.client.HTTPException) as error:
        raise PrometheusSilent(f"{url} gave no answer to {query!r}: {error}") from error


# Proxies of the environment must not come between a load host and the study's own Prometheus.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Seen:
    """HTTP requests of the users in a period. `errors`: those answered with 5xx, timed out, or unanswered.

    Those that are unanswered have no time.
    """

    requests: int = 0
    sum_s: float = 0.0
    errors: int = 0
    counts: Counter[int] = field(default_factory=Counter)  # by bucket of the histogram

    def add(self, other: Seen) -> None:
        self.requests += other.requests
        self.sum_s += other.sum_s
        self.errors += other.errors
        self.counts.update(other.counts)


class RecentlySeen:
    """Requests within the last `window_s`, as far as workers reported them."""

    def __init__(self, window_s: float):
        self.window_s = window_s
        self._reports: deque[tuple[float, Seen]] = deque()

    def add(self, t_s: float, seen: Seen) -> None:
        self._reports.append((t_s, seen))

    def statistics(self, now_s: float) -> Mapping[str, float | None]:
        """client_mean and client_p99 in s, client_errors as a share; None if there was no answer, or no request."""
        while self._reports and self._reports[0][0] <= now_s - self.window_s:
            self._reports.popleft()
        total = Seen()
        for _, seen in self._reports:
            total.add(seen)
        if not total.requests:
            return {"client_mean": None, "client_p99": None, "client_errors": None}
        timed = sum(total.counts.values())
        return {
            "client_mean": total.sum_s / timed if timed else None,
            "client_p99": histogram.quantile(total.counts, 0.99),
            "client_errors": total.errors / total.requests,
        }
