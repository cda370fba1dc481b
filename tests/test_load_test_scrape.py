"""The family load_test where someone else ran the load: windows of a real Prometheus, and of a file exported before."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from load_test_study import hold, history, scraped, window
from prometheus_server import Prometheus, backfill, free_port, prometheus
from sshd_hosts import SshdHost

from benchstudy.families.load_run.facts import FACTS
from benchstudy.families.load_run.fetch import RAW
from benchstudy.raw import StoredTrial


@dataclass(frozen=True)
class Past:
    """Somebody's load of two releases. `t0`: when the first began, in Unix seconds."""

    server: Prometheus
    t0: float

    def window(self, version: str, begin: float, end: float, **changes: Any) -> dict[str, Any]:
        return window(version, self.t0 + begin, self.t0 + end, **changes)

    @property
    def windows(self) -> list[dict[str, Any]]:
        return [self.window("base", 60, 160), self.window("new", 360, 460)]


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    folder = tmp_path_factory.mktemp("past")
    t0 = float(int(time.time()) - 7200)
    backfill(folder, history({"old": (t0, t0 + 200), "new": (t0 + 300, t0 + 500)}))
    with prometheus(folder) as server:
        yield Past(server, t0)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.setenv("BENCHSTUDY_HOST_LOCK", str(tmp_path / "host.lock"))
    with SshdHost(tmp_path / "sshd") as sshd:
        yield {**sshd.host.model_dump(exclude_none=True), "work_dir": str(tmp_path / "work" / "benchstudy")}


def facts_of(trial: StoredTrial) -> dict[str, Any]:
    return json.loads((trial.folder / FACTS).read_text())


def test_windows_of_a_prometheus_become_trials(past: Past, host: dict[str, Any], tmp_path: Path) -> None:
    trials = hold(tmp_path, scraped(windows=past.windows, sources=[{"name": "p", "url": past.server.url}]), host)
    assert [(t.record.status, t.record.cause) for t in trials] == [("ok", None)] * 2
    for trial in trials:
        assert (trial.folder / RAW).stat().st_size > 1000
        assert facts_of(trial)["mode"] == "scrape"
        assert trial.record.verified["load_test"]["window"] == facts_of(trial)["window"]
