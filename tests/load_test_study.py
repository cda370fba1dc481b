"""Small studies of the family load_test, and a function that holds a session."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nothing_lost import processes
from one_host import findings_of, study_on, trials_held
from waiting import until

from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model.study import SessionPlan, Study

FAMILY = "load_test"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def moment(seconds: float) -> str:
    """A time in Unix seconds, as a study writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def window(version: str, start: float | str, end: float | str, **changes: Any) -> dict[str, Any]:
    times = {"start": start, "end": end}
    times = {name: at if isinstance(at, str) else moment(at) for name, at in times.items()}
    return {"version": version, "database": "postgres", "load": "bounded", **times, **changes}


SOURCE = {"name": "grafana", "url": "http://127.0.0.1:9"}
WINDOWS = [
    window("base", "2024-09-10T10:00:00Z", "2024-09-10T11:00:00Z"),
    window("new", "2024-09-10T12:00:00Z", "2024-09-10T13:00:00Z"),
    window("base", "2024-09-11T10:00:00Z", "2024-09-11T11:00:00Z"),
    window("new", "2024-09-11T12:00:00Z", "2024-09-11T13:00:00Z"),
]


def scraped(**changes: Any) -> dict[str, Any]:
    """A valid block for a load that somebody else runs, with these changes."""
    return {"windows": WINDOWS, "sources": [SOURCE], **changes}


def study_of(block: Mapping[str, Any], host: Mapping[str, Any] | None = None, **changes: Any) -> Study:
    return study_on(host, {FAMILY: dict(block)}, **{"blocks": 2, **changes})


def plan_of(block: Mapping[str, Any], host: Mapping[str, Any] | None = None) -> SessionPlan:
    return study_of(block, host).session("bench", FAMILY)


def hold(root: Path, block: Mapping[str, Any], host: Mapping[str, Any]) -> list[StoredTrial]:
    return trials_held(root, plan_of(block, host))


def checked(plan: SessionPlan, roles: list[str]) -> list[tuple[bool, str, str]]:
    """What `benchstudy check` finds on the host: whether it is good, what it is, and what to do."""
    found = findings_of(plan.family, plan.config, plan.hosts["here"], *roles)
    # The agent's desk ends by itself when nobody talks to it. Other fixtures of this run may have processes there.
    until(lambda: not processes(plan.hosts["here"].work_dir), 60.0)
    return found


def history(spans: Mapping[str, tuple[float, float]], step_s: float = 1.0) -> Iterator[str]:
    """OpenMetrics with times: a server under load (with the label `instance`) between two times."""
    yield from _gauge("go_goroutines", spans, step_s, 100.0)
    yield from _gauge("mattermost_http_websockets_total", spans, step_s, 30.0)
    for group, label, by in (("db_store", "method", "UserStore.Get"), ("api", "handler", "getUser")):
        yield from _histogram(f"mattermost_{group}_time", label, by, spans, step_s)


def _ticks(span: tuple[float, float], step_s: float) -> Iterable[tuple[int, float]]:
    return ((number, span[0] + number * step_s) for number in range(int((span[1] - span[0]) / step_s) + 1))


def _gauge(name: str, spans: Mapping[str, tuple[float, float]], step_s: float, value: float) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    for instance, span in spans.items():
        for _, at in _ticks(span, step_s):
            yield f'{name}{{instance="{instance}"}} {value} {at:.3f}'


def _histogram(
    name: str, label: str, by: str, spans: Mapping[str, tuple[float, float]], step_s: float
) -> Iterator[str]:
    """Ten observations per second, of 7 ms each."""
    yield f"# TYPE {name} histogram"
    for instance, span in spans.items():
        labels = f'instance="{instance}",{label}="{by}"'
        for number, at in _ticks(span, step_s):
            count = 10 * number
            for bound in (*BOUNDS, "+Inf"):
                inside = count if bound == "+Inf" or bound >= 0.007 else 0
                yield f'{name}_bucket{{{labels},le="{bound}"}} {inside} {at:.3f}'
            yield f"{name}_sum{{{labels}}} {0.007 * count:.6f} {at:.3f}"
            yield f"{name}_count{{{labels}}} {count} {at:.3f}"


# --- loads run here ---------------------------------------------------------------------------------------------------

LISTENS = {"argv": ["sleep", "infinity"], "ports": ["http", "metrics", "sql"], "ready": {"tcp": "http"}}
PROMETHEUS = {
    **LISTENS,
    "needs": ["node-exporter"],
    "files": {"prometheus.yml": "global: {}\nscrape_configs: []\n"},
}
BOUNDED = {"name": "bounded", "users": 20, "ramp": "4s", "duration": "12s"}
UNBOUNDED = {"name": "unbounded", "rule": {"max_users": 50, "window": "20s", "at_most": "60s"}, "blocks": 1}


def run_here(**changes: Any) -> dict[str, Any]:
    """A block whose description is valid, with these changes; its services only sleep."""
    return {
        "versions": [
            {"name": "old", "services": {"postgres": "server-old"}},
            {"name": "new", "services": {"postgres": "server-new"}},
        ],
        "databases": [{"name": "postgres", "service": "postgres"}],
        "loads": [BOUNDED, UNBOUNDED],
        "prometheus": {"service": "prometheus"},
        "services": {
            "dataset": LISTENS,
            "postgres": {**LISTENS, "needs": ["dataset"]},
            "server-old": {**LISTENS, "needs": ["postgres", "dataset"]},
            "server-new": {**LISTENS, "needs": ["postgres", "dataset"]},
            "node-exporter": LISTENS,
            "prometheus": PROMETHEUS,
        },
        **changes,
    }
