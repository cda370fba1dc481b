"""Our own arithmetic against a real Prometheus' answers to the seed's PromQL, on a synthetic history and live."""

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CHECKOUT
from prometheus_file import figures
from prometheus_history import Calls, Instance, lines
from prometheus_server import Exporter, Prometheus, backfill, exporter, prometheus
from prometheus_trial import trial, write_facts
from promql_capture import COUNTERS, GAUGES, HISTOGRAMS, mean, p99, panels
from waiting import until

from benchstudy.model.family import ParseError

DATA = CHECKOUT / "tests" / "data" / "prometheus"
SAME = pytest.approx
CLOSE = 1e-9  # the promise is 1 %; the same arithmetic gives the same numbers

API = [
    Calls("mattermost_api_time", "handler", "createPost", 6, 0.03, {"status_code": "200"}),
    Calls("mattermost_api_time", "handler", "createPost", 0.3, 0.01, {"status_code": "500"}),
    Calls("mattermost_api_time", "handler", "login", 1, 0.4, {"status_code": "200"}),
    Calls("mattermost_api_time", "handler", "export", 0.5, 60, {"status_code": "200"}),  # above the last bucket
    Calls("mattermost_api_time", "handler", "ping", 5, 0.0004, {"status_code": "200"}),  # in the lowest
]
STORE = [
    Calls("mattermost_db_store_time", "method", "RoleStore.GetByNames", 20, 0.001, when=lambda second: second < 430),
    Calls("mattermost_db_store_time", "method", "PostStore.Get", 8, 0.006),
    Calls("mattermost_db_store_time", "method", "ChannelStore.Late", 2, 0.02, when=lambda second: second >= 560),
]
SECONDS, RESTART, AWAY = 840, 480, range(700, 708)
INSTANCES = [
    Instance("app1:8067", API + STORE, GAUGES, COUNTERS, away=AWAY),
    Instance("app2:8067", API + STORE, GAUGES, COUNTERS, restarts=[RESTART]),
]
HOST = [
    "# TYPE node_memory_MemTotal_bytes gauge",
    *(f'node_memory_MemTotal_bytes{{instance="app1:9100",job="node"}} 1e9 {{{k}}}' for k in range(SECONDS)),
    "# TYPE node_memory_MemAvailable_bytes gauge",
    *(
        f'node_memory_MemAvailable_bytes{{instance="app1:9100",job="node"}} {4e8 + k * 1e5} {{{k}}}'
        for k in range(SECONDS)
    ),
    "# TYPE node_cpu_seconds_total unknown",
    *(
        f'node_cpu_seconds_total{{cpu="0",instance="app1:9100",job="node",mode="{mode}"}} {rate * k!r} {{{k}}}'
        for mode, rate in (("idle", 0.5), ("iowait", 0.1), ("user", 0.3), ("system", 0.1), ("guest", 0.2))
        for k in range(SECONDS)
    ),
]


@pytest.fixture(scope="module")
def begin_s() -> int:
    return int(time.time()) - 3600


@pytest.fixture(scope="module")
def server(begin_s: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")

    def history() -> Iterator[str]:
        yield from lines(INSTANCES, begin_s, SECONDS)
        for line in HOST:
            text, _, second = line.partition(" {") if line.endswith("}") else (line, "", "")
            yield f"{text} {begin_s + int(second[:-1])}.000" if second else line

    backfill(folder, history())
    with prometheus(folder) as running:
        yield running


WINDOWS = {
    "quiet": (60, 420, 120, 420),
    "a restart": (420, 660, 440, 660),  # RoleStore.GetByNames disappears, ChannelStore.Late appears
    "one is away": (600, 840, 640, 830),
    "half a minute": (200, 230, 205, 230),
}


@pytest.fixture(scope="module", params=WINDOWS)
def window(request, server, begin_s, tmp_path_factory) -> tuple[str, tuple[float, ...], float, Path]:
    # Samples have milliseconds; no version of Prometheus counts differently at a border between two samples.
    moments = [begin_s + 0.0005 + edge for edge in WINDOWS[request.param]]
    width_s = 60.0 if moments[1] - moments[0] >= 120 else 5.0
    folder = trial(server, tmp_path_factory.mktemp("trial"), moments[:2], moments[2:], width_s=width_s)
    return request.param, tuple(round(moment, 3) for moment in moments), width_s, folder


def test_totals_of_the_steady_window_are_those_of_promql(server, window):
    _, (_, _, start_s, end_s), _, folder = window
    over = f"{round(1000 * (end_s - start_s))}ms"
    values, _ = figures(folder)

    def ask(query: str) -> float:
        return server.ask(query, end_s)[""]

    for group, (metric, _) in HISTOGRAMS.items():
        # A mean is that of the counted calls, not of rates extrapolated to the window's edges.
        assert values[f"{group}_mean"] == SAME(ask(mean(metric, over)), rel=0.01)
        assert values[f"{group}_p99"] == SAME(ask(p99(metric, over)), rel=CLOSE)
        assert values[f"{group}_rate"] == SAME(ask(f"sum(rate({metric}_count[{over}]))"), rel=CLOSE)
    assert values["rps"] == SAME(ask(f"sum(rate(mattermost_http_requests_total[{over}]))"), rel=CLOSE)
    assert values["cpu"] == SAME(ask(f"avg(rate(mattermost_process_cpu_seconds_total[{over}]))"), rel=CLOSE)
    failed = f'sum(rate(mattermost_api_time_count{{status_code=~"5.."}}[{over}]))'
    assert values["server_error_share"] == SAME(
        ask(f"{failed} / sum(rate(mattermost_api_time_count[{over}]))"), rel=0.01
    )
    assert values["node_cpu"] == SAME(0.4, abs=1e-6)


def test_tables_by_label_are_those_of_promql(server, window):
    _, (_, _, start_s, end_s), _, folder = window
    over = f"{round(1000 * (end_s - start_s))}ms"
    _, found = figures(folder)
    for group, (metric, label) in HISTOGRAMS.items():
        rows = {row["label"]: row for row in found["labels"] if row["group"] == group}
        asked = {
            "mean_s": server.ask(mean(metric, over, f"by ({label})"), end_s, label),
            "p99_s": server.ask(p99(metric, over, label), end_s, label),
            "rate_per_s": server.ask(f"sum(rate({metric}_count[{over}])) by ({label})", end_s, label),
        }
        assert rows.keys() == asked["rate_per_s"].keys()
        for name, row in rows.items():
            assert row["rate_per_s"] == SAME(asked["rate_per_s"][name], rel=CLOSE)
            if row["count"] == 0:
                assert row["mean_s"] is row["p99_s"] is None
                assert math.isnan(asked["p99_s"][name])
                continue
            assert row["mean_s"] == SAME(asked["mean_s"][name], rel=0.01)
            assert row["mean_s"] * row["count"] == SAME(row["sum_s"])
            assert row["p99_s"] == SAME(asked["p99_s"][name], rel=CLOSE)
            assert row["p99_low_s"] <= row["p99_s"] and (row["p99_high_s"] is None or row["p99_s"] <= row["p99_high_s"])
            buckets = [b for b in found["buckets"] if (b["group"], b["label"]) == (group, name)]
            assert [b["le_s"] for b in buckets] == sorted(b["le_s"] for b in buckets) and buckets[-1][
                "le_s"
            ] == math.inf
            assert buckets[-1]["count"] == row["count"]


PANELS = panels("1m").keys()


@pytest.mark.parametrize("panel", PANELS)
def test_the_ten_panels_are_those_of_promql(server, window, begin_s, panel):
    _, (start_s, end_s, *_), width_s, folder = window
    _, found = figures(folder)
    rows = [row for row in found["panels"] if row["panel"] == panel]
    assert len(rows) > 20 and {row["width_s"] for row in rows} == {width_s}
    step_s = rows[1]["t_s"] - rows[0]["t_s"]
    answer = server.get(
        "/api/v1/query_range",
        query=panels(f"{width_s:g}s")[panel],
        start=f"{start_s + rows[0]['t_s']:.3f}",
        end=f"{end_s:.3f}",
        step=f"{step_s:g}s",
    )
    asked = {round(at - start_s, 3): float(value) for at, value in answer["result"][0]["values"]}
    if panel in ("goroutines", "heap", "stack", "devices"):
        # A history has no marks for the end of a series, so Prometheus repeats the last value for 5 minutes.
        away = (AWAY.start + begin_s - start_s, AWAY.stop + begin_s - start_s + 1)
        rows = [row for row in rows if not away[0] <= row["t_s"] <= away[1]]
        assert len(rows) > 20
    else:
        assert len(rows) == sum(not math.isnan(value) for value in asked.values())
    for row in rows:
        assert row["value"] == SAME(asked[round(row["t_s"], 3)], rel=CLOSE), row
        if panel.endswith("p99"):
            assert row["low"] <= row["value"] and (row["high"] is None or row["value"] <= row["high"])


def test_means_of_gauges_are_over_time(server, window):
    _, (_, _, start_s, end_s), _, folder = window
    values, _ = figures(folder)
    # Without a scrape, Prometheus repeats the last value of a history, which has no marks for its end.
    answered = "and on(instance) up == 1"
    queries = {
        "goroutines": f"sum(go_goroutines {answered})",
        "heap": f"avg(go_memstats_heap_inuse_bytes {answered})",
    }
    for name, query in queries.items():
        asked = server.ask(f"avg_over_time({query}[{round(end_s - start_s)}s:1s])", end_s)[""]
        assert values[name] == SAME(asked, rel=0.01)
    asked = server.ask(f"1 - avg_over_time(node_memory_MemAvailable_bytes[{round(end_s - start_s)}s]) / 1e9", end_s)[""]
    assert values["node_memory"] == SAME(asked, rel=0.002)


# --- faults in the history --------------------------------------------------------------------------------------


def events(found: dict[str, list[dict]], what: str) -> list[dict]:
    return [row for row in found["events"] if row["what"] == what]


@pytest.mark.fault(28)
def test_a_restart_is_told_and_the_panel_points_that_see_it_are_marked(window, begin_s):
    name, (start_s, *_), width_s, folder = window
    values, found = figures(folder)
    if name != "a restart":
        assert values["resets"] == 0 and not events(found, "reset") and not events(found, "restart")
        assert all(row["resets"] == 0 for row in found["panels"])
        return
    assert values["resets"] == 1
    (reset,), (restart,) = events(found, "reset"), events(found, "restart")
    assert reset["t_s"] == restart["t_s"] == SAME(begin_s + RESTART - start_s, abs=1.001)
    assert reset["detail"].startswith("app2:8067: counters began anew, of mattermost_api_time_bucket, ")
    marked = {row["t_s"] for row in found["panels"] if row["resets"]}
    assert marked and all(reset["t_s"] <= t < reset["t_s"] + width_s for t in marked)


@pytest.mark.fault(28)
def test_a_gap_is_told_with_its_instance(window, begin_s):
    name, (start_s, *_), _, folder = window
    values, found = figures(folder)
    if name != "one is away":
        assert values["gaps"] == 0 and not events(found, "down") and not events(found, "gap")
        return
    assert values["gaps"] == 1
    (down,) = events(found, "down")
    assert down["t_s"] == SAME(begin_s + AWAY.start - start_s - 0.5, abs=0.51)
    assert down["detail"] == f"app1:8067: no sample for {len(AWAY) + 1:.1f} s, {len(AWAY)} scrapes failed"


def test_a_series_of_one_window_only_is_never_zero(window):
    name, _, _, folder = window
    _, found = figures(folder)
    methods = {row["label"]: row for row in found["labels"] if row["group"] == "store"}
    if name in ("quiet", "half a minute"):
        assert methods.keys() == {"RoleStore.GetByNames", "PostStore.Get"}
    elif name == "one is away":
        # app2 restarted and never called the method that disappeared; what app1 counted before stays the same.
        assert methods.keys() == {"RoleStore.GetByNames", "PostStore.Get", "ChannelStore.Late"}
        left = methods["RoleStore.GetByNames"]
        assert left["count"] == left["rate_per_s"] == 0 and left["mean_s"] is left["p99_s"] is None
    else:
        assert not events(found, "appeared"), "both were scraped just before its first call"
        assert methods["ChannelStore.Late"]["count"] > 0


def test_quantiles_beyond_the_buckets_are_censored(window):
    _, _, _, folder = window
    _, found = figures(folder)
    handlers = {row["label"]: row for row in found["labels"] if row["group"] == "api"}
    assert (handlers["export"]["p99_s"], handlers["export"]["p99_low_s"]) == (10, 10)
    assert handlers["export"]["p99_high_s"] is None
    assert (handlers["ping"]["p99_low_s"], handlers["ping"]["p99_high_s"]) == (0, 0.005)
    assert any("export" in row["detail"] for row in events(found, "censored"))


def test_a_window_without_samples_is_refused_with_what_is_missing(server, begin_s, tmp_path):
    folder = trial(server, tmp_path, (begin_s - 500, begin_s - 400), select='{job="server"}')
    with pytest.raises(
        ParseError, match=r"has no sample of mattermost_api_time_count, .* with \{job=\"server\"\} from"
    ):
        figures(folder)


def test_a_selector_that_matches_nothing_is_refused(server, begin_s, tmp_path):
    folder = trial(server, tmp_path, (begin_s + 60, begin_s + 120), select='{instance=~"web.*"}')
    with pytest.raises(ParseError, match=r'instance=~"web\.\*".*does the selector match'):
        figures(folder)


def test_a_selector_takes_one_instance(server, begin_s, tmp_path):
    folder = trial(server, tmp_path, (begin_s + 60, begin_s + 180), select='{instance=~"app2.*",}', width_s=5.0)
    values, _ = figures(folder)
    asked = server.ask('sum(rate(mattermost_http_requests_total{instance="app2:8067"}[120s]))', begin_s + 180)
    assert values["rps"] == SAME(asked[""], rel=CLOSE)
    assert "node_cpu" not in values


def test_a_metric_that_one_release_lacks_is_absent_and_told(server, begin_s, tmp_path):
    metrics = {
        "system": ["mattermost_api_time_count", "mattermost_api_time_sum", "mattermost_nothing_total"],
        "host": [],
    }
    folder = trial(server, tmp_path, (begin_s + 60, begin_s + 180), metrics=metrics, width_s=5.0)
    values, found = figures(folder)
    assert "api_mean" in values and not values.keys() & {"api_p99", "store_mean", "cpu", "rps", "devices"}
    assert {row["panel"] for row in found["panels"]} == {"api_mean"}
    assert [row["detail"] for row in events(found, "missing")] == [
        "the server has no mattermost_nothing_total in the window"
    ]


def test_without_up_other_samples_tell_of_a_gap(server, begin_s, tmp_path):
    metrics = {"system": ["go_goroutines", "mattermost_http_requests_total"], "host": []}
    folder = trial(server, tmp_path, (begin_s + 660, begin_s + 760), metrics=metrics, width_s=5.0)
    values, found = figures(folder)
    assert values["gaps"] == 1
    (gap,) = events(found, "gap")
    assert gap["detail"] == f"app1:8067: no sample for {len(AWAY) + 1:.1f} s"


@pytest.mark.fault(28)
def test_a_server_away_to_the_end_of_the_window_is_told(server, begin_s, tmp_path):
    folder = trial(server, tmp_path, (begin_s + 660, begin_s + AWAY.start + 5), width_s=5.0)
    _, found = figures(folder)
    (down,) = events(found, "down")
    assert "app1:8067" in down["detail"] and re.search(r"no sample for [56]\.\d s, [56] scrapes failed", down["detail"])


def test_a_window_scraped_seldom_is_read_at_its_own_interval(begin_s, tmp_path):
    backfill(tmp_path / "server", lines(INSTANCES[:1], begin_s, SECONDS, interval_s=15.0))
    window = begin_s + 60, begin_s + 660
    with prometheus(tmp_path / "server") as seldom:
        folder = trial(seldom, tmp_path / "trial", window)  # says that it is 1 s
        values, found = figures(folder)
        assert (values["scrape_interval"], values["rate_window"], values["gaps"]) == (15, 60, 0)
        for panel in ("store_p99", "goroutines"):
            rows = [row for row in found["panels"] if row["panel"] == panel]
            assert len(rows) >= 40
            for row in rows[:: len(rows) // 4]:
                asked = seldom.ask(panels("60s")[panel], window[0] + row["t_s"])[""]
                assert row["value"] == SAME(asked, rel=CLOSE)
        write_facts(folder, window, window, width_s=20.0, interval_s=1.0)
        values, _ = figures(folder)
    assert values["rate_window"] == 75  # over 20 s there would be at most one scrape


def test_a_steady_part_outside_of_what_was_fetched_is_refused(server, begin_s, tmp_path):
    folder = trial(server, tmp_path, (begin_s + 60, begin_s + 120), width_s=5.0)
    longer = begin_s + 60, begin_s + 200
    write_facts(folder, longer, longer, width_s=5.0, interval_s=1.0)
    with pytest.raises(ParseError, match="was fetched for"):
        figures(folder)


# --- live -------------------------------------------------------------------------------------------------------


def drive(
    server: Prometheus, program: Exporter, seconds: float, *, roles: bool, sockets: int | None
) -> tuple[float, float]:
    """Run a load until this much of it was scraped; returns start and end on Prometheus' clock."""
    first = begun = None
    while begun is None or scraped(server) < begun + seconds:
        # So many per step that there are enough for a p99, even if a busy machine takes few steps.
        program.observe("mattermost_api_time", 0.03, 30, handler="createPost", status_code="200")
        program.observe("mattermost_api_time", 0.3, 10, handler="login", status_code="200")
        program.observe("mattermost_db_store_time", 0.007, 50, method="PostStore.Get")
        if roles:
            program.observe("mattermost_db_store_time", 0.0007, 200, method="RoleStore.GetByNames")
        program.count("mattermost_http_requests_total", 4)
        program.count("mattermost_process_cpu_seconds_total", 0.02)
        program.gauge("go_goroutines", 500)
        program.gauge("mattermost_http_websockets_total", sockets, origin_client="web")
        program.gauge("mattermost_process_start_time_seconds", program.process.pid)
        time.sleep(0.02)  # the load's own pace
        # From the first scrape on after everything was there.
        first = first or scraped(server)
        if begun is None and scraped(server) > first:
            begun = scraped(server)
    return begun, scraped(server)


def scraped(server: Prometheus) -> float:
    """The time of the last answered scrape, in Unix s."""
    found = server.get("/api/v1/query", query='timestamp(up{job="server"}) and up{job="server"} == 1')["result"]
    return float(found[0]["value"][1]) if found else 0.0


def test_a_live_program_its_restart_and_a_label_of_one_release_only(tmp_path):
    with exporter() as first:
        port = first.port
        with prometheus(tmp_path / "prometheus", {"server": [first.address]}, interval="250ms") as server:
            until(lambda: scraped(server), 60)
            base = drive(server, first, 3, roles=True, sockets=None)
            restarted = drive(server, first, 1, roles=True, sockets=3)
            first.process.stdin.close()
            first.process.wait(20)
            until(lambda: not_up(server))
            with exporter(port) as second:
                until(lambda: scraped(server) > restarted[1])
                new = drive(server, second, 3, roles=False, sockets=5)
                shifted = {"interval_s": 0.25, "width_s": 1.25}
                folders = {
                    name: trial(server, tmp_path / name, window, **shifted)
                    for name, window in (("base", base), ("new", new), ("both", (restarted[0], new[1])))
                }
                for name, (start_s, end_s) in {"base": base, "new": new}.items():
                    values, found = figures(folders[name])
                    over = f"{round(1000 * (end_s - start_s))}ms"
                    for group, (metric, label) in HISTOGRAMS.items():
                        assert values[f"{group}_mean"] == SAME(server.ask(mean(metric, over), end_s)[""], rel=0.01)
                        assert values[f"{group}_p99"] == SAME(server.ask(p99(metric, over), end_s)[""], rel=0.01)
                        asked = server.ask(mean(metric, over, f"by ({label})"), end_s, label)
                        rows = {r["label"]: r["mean_s"] for r in found["labels"] if r["group"] == group}
                        assert rows == SAME(asked, rel=0.01)
                    assert values["goroutines"] == 500 and values["scrape_interval"] == SAME(0.25, abs=0.05)
    base_values, base_found = figures(folders["base"])
    new_values, new_found = figures(folders["new"])
    labels = [{r["label"] for r in found["labels"]} for found in (base_found, new_found)]
    assert labels[0] - labels[1] == {"RoleStore.GetByNames"} and not labels[1] - labels[0]
    # Before the first client connects, there is no such series, which does not mean that there are no clients.
    assert "devices" not in base_values and new_values["devices"] == 5
    values, found = figures(folders["both"])
    assert values["resets"] == len(events(found, "reset")) == len(events(found, "restart")) == 1
    # A busy machine may miss one more scrape.
    assert values["gaps"] >= len(events(found, "down")) >= 1


def not_up(server: Prometheus) -> bool:
    found = server.get("/api/v1/query", query='up{job="server"}')["result"]
    return bool(found) and found[0]["value"][1] == "0"


# --- data of real servers -------------------------------------------------------------------------------------------


def test_two_real_releases_of_which_one_no_longer_calls_what_the_other_called_most():
    """See data/prometheus/README.md."""
    values, found = {}, {}
    for release in ("9.9", "10.2"):
        values[release], found[release] = figures(DATA / f"mattermost-{release}")
        assert {event["what"] for event in found[release]["events"]} <= {"appeared"}
        assert values[release]["resets"] == values[release]["gaps"] == 0
        assert values[release]["server_error_share"] == 0 and values[release]["devices"] == 20
        assert 90 < values[release]["api_rate"] < values[release]["rps"] + 1 < 110
        assert values[release]["api_p99_low"] < values[release]["api_p99"] < values[release]["api_p99_high"]
        assert {row["panel"] for row in found[release]["panels"]} == set(PANELS)
    store = {
        release: {row["label"]: row for row in series["labels"] if row["group"] == "store"}
        for release, series in found.items()
    }
    left = store["9.9"]["RoleStore.GetByNames"]
    # It still does at the start, so there is a counter, which does not change: no zero time, but no time at all.
    gone = store["10.2"]["RoleStore.GetByNames"]
    assert gone["count"] == gone["rate_per_s"] == 0 and gone["mean_s"] is gone["p99_s"] is None
    assert left["count"] == max(row["count"] for row in store["9.9"].values()) == 895
    assert left["mean_s"] < 2e-6 and (left["p99_low_s"], left["p99_high_s"]) == (0, 0.005)
    for release, rows in store.items():
        total = sum(row["sum_s"] for row in rows.values()) / sum(row["count"] for row in rows.values())
        assert values[release]["store_mean"] == SAME(total)
