"""Makes tests/data/promql: what a real Prometheus keeps of an eventful history, and its answers to PromQL about it.

    python tests/promql_capture.py

The file of a trial is fetched by the agent; the answers are Prometheus' own. See data/promql/README.md.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
FOLDER = TESTS / "data" / "promql"
BEGIN_S, SECONDS, INTERVAL_S, WIDTH_S = 1_795_000_000, 400, 4.0, 20.0
WINDOW, STEADY, STEP_S = (60.3, 360.3), (100.3, 350.3), 5
RESTART, AWAY = 200, range(280, 304)
GAUGES = {
    "go_goroutines": 800.0,
    "go_memstats_heap_inuse_bytes": 1e8,
    "go_memstats_stack_inuse_bytes": 5e6,
    "mattermost_http_websockets_total": 60.0,
}
COUNTERS = {"mattermost_http_requests_total": 13.0, "mattermost_process_cpu_seconds_total": 0.8}
HISTOGRAMS = {"api": ("mattermost_api_time", "handler"), "store": ("mattermost_db_store_time", "method")}


def mean(metric: str, over: str, by: str = "") -> str:
    return f"sum(rate({metric}_sum[{over}])) {by} / sum(rate({metric}_count[{over}])) {by}"


def p99(metric: str, over: str, *by: str) -> str:
    return f"histogram_quantile(0.99, sum(rate({metric}_bucket[{over}])) by ({','.join(('le', *by))}))"


def totals(over: str) -> dict[str, str]:
    found = {
        "rps": f"sum(rate(mattermost_http_requests_total[{over}]))",
        "cpu": f"avg(rate(mattermost_process_cpu_seconds_total[{over}]))",
    }
    for group, (metric, _) in HISTOGRAMS.items():
        found |= {
            f"{group}_mean": mean(metric, over),
            f"{group}_p99": p99(metric, over),
            f"{group}_rate": f"sum(rate({metric}_count[{over}]))",
        }
    return found


def panels(over: str) -> dict[str, str]:
    found = {name: query for name, query in totals(over).items() if not name.endswith("_rate")}
    return found | {
        "goroutines": "sum(go_goroutines)",
        "heap": "avg(go_memstats_heap_inuse_bytes)",
        "stack": "avg(go_memstats_stack_inuse_bytes)",
        "devices": "sum(mattermost_http_websockets_total)",
    }


def _history() -> Iterator[str]:
    from prometheus_history import Calls, Instance, lines

    api = [
        Calls("mattermost_api_time", "handler", "createPost", 6, 0.03, {"status_code": "200"}),
        Calls("mattermost_api_time", "handler", "createPost", 0.6, 0.01, {"status_code": "500"}),
        Calls("mattermost_api_time", "handler", "export", 0.06, 60, {"status_code": "200"}),  # above the last bucket
        Calls("mattermost_api_time", "handler", "ping", 5, 0.0004, {"status_code": "200"}),  # in the lowest
    ]
    store = [
        Calls("mattermost_db_store_time", "method", "PostStore.Get", 8, 0.006),
        Calls("mattermost_db_store_time", "method", "RoleStore.Left", 20, 0.001, when=lambda second: second < 180),
        Calls("mattermost_db_store_time", "method", "ChannelStore.Late", 2, 0.02, when=lambda second: second >= 240),
    ]
    instances = [
        Instance("app1:8067", api + store, GAUGES, COUNTERS, away=AWAY),
        Instance("app2:8067", api + store, GAUGES, COUNTERS, restarts=[RESTART]),
    ]
    yield from lines(instances, BEGIN_S, SECONDS, interval_s=INTERVAL_S, seed=3)
    host = 'instance="app1:9100",job="node"'
    seconds = range(0, SECONDS, int(INTERVAL_S))
    constant_growth = {
        **{f'node_cpu_seconds_total{{cpu="0",{host},mode="{mode}"}}': rate for mode, rate in (
            ("idle", 0.5), ("iowait", 0.125), ("user", 0.25), ("system", 0.125), ("guest", 0.25)
        )},
        f"node_netstat_Tcp_OutSegs{{{host}}}": 400.0,
        f"node_netstat_Tcp_RetransSegs{{{host}}}": 3.0,
    }  # fmt: skip
    for name, rate in constant_growth.items():
        if "idle" in name or "node_cpu" not in name:
            yield f"# TYPE {name.partition('{')[0]} unknown"
        yield from (f"{name} {rate * second!r} {BEGIN_S + second}.000" for second in seconds)
    for name, level in (
        ("node_memory_MemTotal_bytes", lambda second: 1e9),
        ("node_memory_MemAvailable_bytes", lambda second: 4e8 + second * 1e5),
    ):
        yield f"# TYPE {name} gauge"
        yield from (f"{name}{{{host}}} {level(second)!r} {BEGIN_S + second}.000" for second in seconds)


def main() -> None:
    from prometheus_server import backfill, prometheus
    from prometheus_trial import trial

    window, steady = ([BEGIN_S + edge for edge in edges] for edges in (WINDOW, STEADY))
    shutil.rmtree(FOLDER / "trial", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        backfill(Path(folder), _history())
        with prometheus(Path(folder)) as server:
            scrapes = {"width_s": WIDTH_S, "interval_s": INTERVAL_S, "page_s": 100.0}
            trial(server, FOLDER / "trial", window, steady, **scrapes)
            at_s = steady[1]
            over = f"{round(1000 * (steady[1] - steady[0]))}ms"

            def ask(query: str, *by: str) -> dict[str, float]:
                return server.ask(query, at_s, *by)

            def over_time(query: str) -> list[list[Any]]:
                between = {"start": f"{window[0]:.3f}", "end": f"{window[1]:.3f}", "step": STEP_S}
                return server.get("/api/v1/query_range", query=query, **between)["result"][0]["values"]

            asked: dict[str, Any] = {
                "totals": {name: ask(query)[""] for name, query in totals(over).items()},
                "labels": {
                    group: {
                        "mean_s": ask(mean(metric, over, f"by ({label})"), label),
                        "p99_s": ask(p99(metric, over, label), label),
                        "rate_per_s": ask(f"sum(rate({metric}_count[{over}])) by ({label})", label),
                    }
                    for group, (metric, label) in HISTOGRAMS.items()
                },
                "panels": {
                    name: {round(at - window[0], 3): float(value) for at, value in over_time(query)}
                    for name, query in panels(f"{WIDTH_S:g}s").items()
                },
            }
    parts = [f'"{part}": {{\n' + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "}"
             for part, found in asked.items()]  # fmt: skip
    (FOLDER / "asked.json").write_text("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    main()
