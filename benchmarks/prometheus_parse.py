"""Time and memory that it takes to make tables of what a Prometheus saw: 500 series at 1 s.

    python benchmarks/prometheus_parse.py [MINUTES …]

A real Prometheus gets a history through its own tool, and the agent fetches it. A process of its own, with 2
processors, parses it and writes Parquet. Prints JSON with one row per duration. Memory must not grow with the duration.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

os.environ.setdefault("BENCHSTUDY_TOOL_STORE", str(Path(__file__).resolve().parents[1] / ".benchstudy" / "tools"))

from prometheus_history import Calls, Instance, lines
from prometheus_server import backfill, prometheus
from prometheus_trial import fetch, write_facts

HANDLERS = [
    Calls("mattermost_api_time", "handler", f"handler{n}", 1 + n / 5, 0.02 * (1 + n % 5), {"status_code": "200"})
    for n in range(25)
]
METHODS = [Calls("mattermost_db_store_time", "method", f"Store.m{n}", 3, 0.004 * (1 + n % 3)) for n in range(10)]
GAUGES = {"go_goroutines": 800.0, "go_memstats_heap_inuse_bytes": 1e8, "go_memstats_stack_inuse_bytes": 5e6}
COUNTERS = {"mattermost_http_requests_total": 85.0, "mattermost_process_cpu_seconds_total": 0.8}
# 35 histograms of 14 series, 5 other metrics, and two of the scraping itself: 497 series.
SERVER = Instance("app1:8067", [*HANDLERS, *METHODS], GAUGES, COUNTERS)

_TIDY = """
import json, re, resource, sys, time
from pathlib import Path

begun = time.perf_counter()
import polars as pl
from benchstudy.families.load_test.family import FAMILY
from benchstudy.families.load_test.parse import parse_trial

folder = Path(sys.argv[1])
loaded = time.perf_counter()
parsed = parse_trial({}, folder)
for name, rows in parsed.series.items():
    schema = {column: getattr(pl, kind) for column, kind in FAMILY.series_schemas[name].items()}
    pl.DataFrame(rows, schema=schema).write_parquet(folder / f"{name}.parquet")
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "imports_s": loaded - begun,
    "raw_to_tidy_s": time.perf_counter() - loaded,
    "cpu_s": used.ru_utime + used.ru_stime,
    # getrusage also counts what the process was before it became this program.
    "peak_memory_mb": int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024,
}))
"""


def measure(minutes: int, folder: Path) -> dict[str, float]:
    start_s = int(time.time()) - 60 * minutes - 300
    end_s = start_s + 60 * minutes
    backfill(folder, lines([SERVER], start_s - 60, 60 * minutes + 60))
    trial = folder / "trial"
    files = trial / "metrics" / "files"
    with prometheus(folder) as server:
        begun = time.perf_counter()
        fetched = fetch(server, files, start_s, end_s)
        fetch_s = time.perf_counter() - begun
    write_facts(trial, (start_s, end_s), (start_s, end_s), width_s=60.0, interval_s=1.0)
    argv = [
        "taskset",
        "-c",
        ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])),
        sys.executable,
        "-c",
        _TIDY,
        trial,
    ]
    row = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    counts = {"minutes": minutes, "series": fetched["series"], "samples": fetched["samples"]}
    return counts | {"raw_mb": fetched["bytes"] / 1e6, "fetch_s": fetch_s} | row


def main(*minutes: int) -> None:
    rows = []
    for length in minutes or (15, 90):
        with tempfile.TemporaryDirectory(prefix="bs-") as temporary:
            rows.append(measure(length, Path(temporary)))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
