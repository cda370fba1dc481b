"""Trials of load_test from a real Prometheus: fetched by the agent, with the facts that a session would write."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_server import Prometheus, agent

from benchstudy.families.load_test.metric_names import NODE, Names
from benchstudy.families.load_test.parse import FACTS, METRICS

WANTED = {"system": Names().fetched, "host": NODE}


def fetch(server: Prometheus | str, folder: Path, start_s: float, end_s: float, **changes: Any) -> dict[str, Any]:
    """The agent's summary; the file is in `folder`."""
    url = server if isinstance(server, str) else server.url
    spec = {"url": url, "start_s": start_s, "end_s": end_s, "margin_s": 60.0, "scrape_interval_s": 1.0}
    spec |= {"metrics": WANTED, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    done = agent("prometheus:fetch", spec=spec, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def trial(
    server: Prometheus,
    folder: Path,
    window: tuple[float, float],
    steady: tuple[float, float] | None = None,
    *,
    width_s: float = 60.0,
    interval_s: float = 1.0,
    facts: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """The folder of a trial with everything that the server has for the window."""
    given = {"margin_s": width_s, "scrape_interval_s": interval_s, "page_s": 120.0} | changes
    fetch(server, (folder / METRICS).parent, *window, **given)
    write_facts(folder, window, steady or window, width_s=width_s, interval_s=interval_s, **(facts or {}))
    return folder


def write_facts(
    folder: Path,
    window: tuple[float, float],
    steady: tuple[float, float],
    *,
    width_s: float,
    interval_s: float,
    **further: Any,
) -> None:
    facts = {"schema": 1, "mode": "scrape", "scrape_interval_s": interval_s, "rate_window_s": width_s}
    facts |= {name: {"start_s": a, "end_s": b} for name, (a, b) in (("window", window), ("steady", steady))}
    facts["phases"] = [{"name": "steady", "start_s": steady[0], "end_s": steady[1]}]
    (folder / FACTS).write_text(json.dumps(facts | further))
