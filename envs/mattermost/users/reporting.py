"""The report that the newer load test's client sends every minute: durations that its user experienced."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHANNEL_SWITCH, TEAM_SWITCH, LOGIN, WITH_FILES = "channel_switch", "team_switch", "TTFB", "rhs_load"
_VERSION = "0.1.0"
_KIND = {"platform": "other", "agent": "other"}


class Report:
    def __init__(self) -> None:
        self._client = uuid.uuid4().hex[:26]
        self._begin()

    def _begin(self) -> None:
        self._seen: list[dict[str, Any]]
        self._since_ms, self._seen = _now_ms(), []

    @contextmanager
    def timed(self, metric: str) -> Iterator[None]:
        """Time the block, even if it raises."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            took_ms = 1000 * (time.perf_counter() - begun)
            self._seen.append({"metric": metric, "value": took_ms, "timestamp": _now_ms()})

    def taken(self) -> dict[str, Any]:
        """Return what was timed since the last report."""
        report: dict[str, Any] = {"version": _VERSION, "client_id": self._client, "labels": _KIND}
        report |= {"start": self._since_ms, "end": _now_ms(), "histograms": self._seen, "counters": []}
        self._begin()
        return report


def _now_ms() -> float:
    return 1000 * time.time()
