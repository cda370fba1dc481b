"""What load_test makes of raw samples, without a server.

tests/data/promql has a trial with a restart, a gap and late labels, and a real Prometheus' answers about it.
"""

import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_file import every, figures, write_trial
from prometheus_history import EDGES

from benchstudy.families.load_test.load_metrics import Window
from benchstudy.families.load_test.parse import parse_trial
from benchstudy.model.family import ParseError

DATA = Path(__file__).parent / "data"
TRIAL = DATA / "promql" / "trial"
ASKED = json.loads((DATA / "promql" / "asked.json").read_text())
TRIALS = [TRIAL, DATA / "prometheus" / "mattermost-9.9", DATA / "prometheus" / "mattermost-10.2"]
HISTOGRAMS = {"api": ("mattermost_api_time", "handler"), "store": ("mattermost_db_store_time", "method")}
CLOSE = 1e-9
GAUGES = ("goroutines", "heap", "stack", "devices")
Samples = list[tuple[float, float]]


@pytest.fixture
def eventful() -> tuple[dict[str, float], dict[str, list[dict[str, Any]]]]:
    return figures(TRIAL)


# --- the same figures by plain arithmetic -----------------------------------------------------------------------


@cache
def kept(folder: Path) -> dict[str, list[tuple[dict[str, str], Samples]]]:
    """All series of a file by metric."""
    found: dict[str, dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    with gzip.open(folder / "metrics" / "files" / "metrics.ndjson.gz", "rt") as file:
        for line in map(json.loads, file):
            if line["kind"] == "page":
                for series in line["answer"]["data"]["result"]:
                    samples = found[line["metric"]][json.dumps(series["metric"])]
                    samples.update({at: float(value) for at, value in series["values"]})
    return {
        metric: [(json.loads(labels), sorted(samples.items())) for labels, samples in of.items()]
        for metric, of in found.items()
    }


def steady_of(folder: Path) -> tuple[float, float]:
    steady = json.loads((folder / "load_test.json").read_text())["steady"]
    return round(steady["start_s"], 3), round(steady["end_s"], 3)


def growth(samples: Samples, start_s: float, end_s: float) -> float:
    """A counter that falls began anew at zero."""
    inside = [value for at, value in samples if start_s <= at <= end_s]
    return sum(b - a if b >= a else b for a, b in pairwise(inside))


def first_growth(folder: Path, labels: dict[str, str], samples: Samples, interval_s: float) -> float:
    """The first value of a series, if its instance was scraped without it just before, in the same process."""
    of_instance = partial(of_metric, folder, labels["instance"])
    (began_s, value), (start_s, end_s) = samples[0], steady_of(folder)
    before_s = max((at for at, up in of_instance("up") if up == 1 and at < began_s), default=-math.inf)
    processes = {since for at, since in of_instance(STARTED) if before_s <= at <= began_s}
    known = began_s - before_s <= 1.8 * interval_s and len(processes) == 1
    return value if known and start_s <= before_s and began_s <= end_s else 0.0


def of_metric(folder: Path, instance: str, metric: str) -> Samples:
    return [sample for labels, samples in kept(folder)[metric] if labels["instance"] == instance for sample in samples]


def level(samples: Samples, at_s: float, valid_s: float) -> float | None:
    before = [(at, value) for at, value in samples if at_s - valid_s <= at <= at_s]
    return before[-1][1] if before else None


def instants(folder: Path, interval_s: float) -> Iterator[float]:
    start_s, end_s = steady_of(folder)
    yield from (start_s + n * interval_s for n in range(int((end_s - start_s) / interval_s) + 1))


@pytest.mark.parametrize("folder", TRIALS, ids=lambda folder: folder.name)
def test_tables_hold_the_growth_of_what_was_counted_in_the_steady_part(folder: Path):
    values, series = figures(folder)
    steady = steady_of(folder)
    for group, (metric, label) in HISTOGRAMS.items():
        grown: dict[str, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
        for part in ("count", "sum", "bucket"):
            for labels, samples in kept(folder)[f"{metric}_{part}"]:
                if any(steady[0] <= at <= steady[1] for at, _ in samples):
                    key = float(labels["le"]) if part == "bucket" else part
                    first = first_growth(folder, labels, samples, values["scrape_interval"])
                    grown[labels[label]][key] += growth(samples, *steady) + first
        rows = [row for row in series["labels"] if row["group"] == group]
        assert [row["label"] for row in rows] == sorted(grown)
        for row in rows:
            told = grown[row["label"]]
            assert (row["count"], row["sum_s"]) == pytest.approx((told.pop("count"), told.pop("sum")), rel=CLOSE)
            assert row["mean_s"] == (pytest.approx(row["sum_s"] / row["count"]) if row["count"] else None)
            buckets = [b for b in series["buckets"] if (b["group"], b["label"]) == (group, row["label"])]
            assert [(b["le_s"], b["count"]) for b in buckets] == sorted(told.items())
        both = [sum(row[part] for row in rows) for part in ("sum_s", "count")]
        assert values[f"{group}_mean"] == pytest.approx(both[0] / both[1], rel=CLOSE)


@pytest.mark.parametrize("folder", TRIALS, ids=lambda folder: folder.name)
def test_shares_are_of_the_growth_in_the_steady_part(folder: Path):
    values, _ = figures(folder)
    steady = steady_of(folder)

    def grown(metric: str, wanted=lambda labels: True) -> float:
        return sum(growth(samples, *steady) for labels, samples in kept(folder)[metric] if wanted(labels))

    count = "mattermost_api_time_count"
    failed = grown(count, lambda labels: labels["status_code"][0] == "5")
    assert values["server_error_share"] == pytest.approx(failed / grown(count), rel=CLOSE)
    assert (failed > 0) == (folder == TRIAL)
    # A processor's time as user includes that of guests.
    everything = grown("node_cpu_seconds_total", lambda labels: not labels["mode"].startswith("guest"))
    idle = grown("node_cpu_seconds_total", lambda labels: labels["mode"] in ("idle", "iowait"))
    assert values["node_cpu"] == pytest.approx(1 - idle / everything, rel=CLOSE)
    assert values.get("tcp_retransmits") == pytest.approx(
        grown("node_netstat_Tcp_RetransSegs") / grown("node_netstat_Tcp_OutSegs"), rel=CLOSE
    )


@pytest.mark.parametrize("folder", TRIALS, ids=lambda folder: folder.name)
def test_gauges_are_means_over_the_scrapes_of_the_steady_part(folder: Path):
    """Heap and stack are of one instance, the others of all of them. A value stays valid for 2.5 intervals."""
    values, _ = figures(folder)
    interval_s = values["scrape_interval"]
    used = "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"
    names = {
        "goroutines": "go_goroutines",
        "heap": "go_memstats_heap_inuse_bytes",
        "stack": "go_memstats_stack_inuse_bytes",
        "devices": "mattermost_http_websockets_total",
    }

    def over_time(metric: str) -> list[list[float]]:
        """The values of all instances at each instant."""
        series = [samples for _, samples in kept(folder)[metric]]
        at = [[level(samples, t_s, 2.5 * interval_s) for samples in series] for t_s in instants(folder, interval_s)]
        return [[value for value in of if value is not None] for of in at]

    for name, metric in names.items():
        of_instances = [sum(of) / (len(of) if name in ("heap", "stack") else 1) for of in over_time(metric) if of]
        assert values[name] == pytest.approx(sum(of_instances) / len(of_instances), rel=CLOSE)
    free, total = map(over_time, used)
    shares = [1 - a[0] / b[0] for a, b in zip(free, total, strict=True)]
    assert values["node_memory"] == pytest.approx(sum(shares) / len(shares), rel=CLOSE)


# --- the same figures by Prometheus itself ----------------------------------------------------------------------


def test_totals_are_those_that_prometheus_answered(eventful):
    values, _ = eventful
    for name, asked in ASKED["totals"].items():
        # A mean is that of the counted calls, not of rates extrapolated to the window's edges.
        assert values[name] == pytest.approx(asked, rel=0.01 if name.endswith("_mean") else CLOSE), name


def test_tables_by_label_are_those_that_prometheus_answered(eventful):
    values, series = eventful
    edges = [0.0, *EDGES]
    for group, asked in ASKED["labels"].items():
        rows = {row["label"]: row for row in series["labels"] if row["group"] == group}
        for name, by_label in asked.items():
            told = {label: row[name] for label, row in rows.items()}
            assert told == pytest.approx(by_label, rel=0.06 if name == "mean_s" else CLOSE), name
        for row in rows.values():
            low, high = row["p99_low_s"], row["p99_high_s"]
            if row["label"] == "export":  # above the last bucket
                assert (low, high) == (10, None)
            else:
                assert low < row["p99_s"] <= high == edges[edges.index(low) + 1]
        assert values[f"{group}_p99_low"] < values[f"{group}_p99"] <= values[f"{group}_p99_high"]


def test_panels_are_those_that_prometheus_answered(eventful):
    _, series = eventful
    assert {row["panel"] for row in series["panels"]} == ASKED["panels"].keys()
    assert {row["width_s"] for row in series["panels"]} == {20}
    for panel, answers in ASKED["panels"].items():
        asked = {float(at): value for at, value in answers.items() if not math.isnan(value)}
        told = {row["t_s"]: row["value"] for row in series["panels"] if row["panel"] == panel}
        if panel in GAUGES:
            # Prometheus repeats the last value of this history for 5 minutes, because it has no mark for its end.
            assert len(told) == len(asked)
            away = range(225, 250)
            told, asked = ({at: value for at, value in of.items() if int(at) not in away} for of in (told, asked))
        assert told == pytest.approx(asked, rel=CLOSE), panel


def test_points_of_quantiles_have_the_edges_of_their_bucket(eventful):
    _, series = eventful
    for row in series["panels"]:
        if not row["panel"].endswith("p99"):
            assert row["low"] is row["high"] is None
        elif row["value"] == 10:
            assert (row["low"], row["high"]) == (10, None)
        else:
            assert (row["low"], row["high"]) in set(zip((0, *EDGES), EDGES, strict=False))
            assert row["low"] < row["value"] <= row["high"]


# --- what went wrong --------------------------------------------------------------------------------------------


def test_events_are_those_of_the_history(eventful):
    """app2 began anew 200 s after the history's start, app1 was away from 280 to 304 s."""
    values, series = eventful
    began_s = steady_of(TRIAL)[0] - 40
    app1, app2 = ([at for at, up in samples if up == 1] for _, samples in kept(TRIAL)["up"])
    reset_s = min(at for at in app2 if at >= 1_795_000_200)
    before_s, after_s = max(at for at in app1 if at < 1_795_000_280), min(at for at in app1 if at > 1_795_000_303)
    events = {row["what"]: row for row in series["events"] if row["what"] != "censored"}
    assert [row["t_s"] for row in series["events"]] == sorted(row["t_s"] for row in series["events"])
    assert [row["what"] for row in series["events"]].count("censored") == 1
    assert events.keys() == {"reset", "restart", "down", "missing"}
    assert events["missing"]["detail"] == "the server has no mattermost_http_errors_total in the window"
    assert events["reset"]["t_s"] == events["restart"]["t_s"] == pytest.approx(reset_s - began_s)
    counters = [name for name in kept(TRIAL) if name.startswith("mattermost_") and "_start_" not in name]
    fell = [name for name in sorted(counters) if "websockets" not in name]
    assert events["reset"]["detail"] == f"app2:8067: counters began anew, of {', '.join(fell)}"
    assert events["restart"]["detail"] == "app2:8067: the process was started anew"
    assert events["down"]["t_s"] == pytest.approx(before_s - began_s)
    failed = sum(before_s < at < after_s for at, _ in kept(TRIAL)["up"][0][1])
    detail = f"app1:8067: no sample for {after_s - before_s:.1f} s, {failed} scrapes failed"
    assert (events["down"]["detail"], values["gaps"], values["resets"]) == (detail, 1, 1)
    marked = {row["t_s"] for row in series["panels"] if row["resets"]}
    since_s = reset_s - began_s
    assert marked == {row["t_s"] for row in series["panels"] if since_s <= row["t_s"] < since_s + 20}


UP, REQUESTS, GOROUTINES = "up", "mattermost_http_requests_total", "go_goroutines"
A, B = {"instance": "a"}, {"instance": "b"}


def told(folder: Path, *kinds: str) -> list[tuple[float, str]]:
    """(time, detail) of the events of these kinds."""
    return [(row["t_s"], row["detail"]) for row in figures(folder)[1]["events"] if row["what"] in kinds]


def ups(*times: float, down: Sequence[float] = ()) -> Samples:
    return sorted([(float(at), 1.0) for at in times] + [(float(at), 0.0) for at in down])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (ups(*range(1000, 1101, 10)), []),
        (ups(1000, 1010, 1028, *range(1038, 1101, 10)), []),  # 1.8 intervals
        (ups(1000, 1010, 1028.1, *range(1038, 1101, 10)), [(10, "no sample for 18.1 s")]),
        (ups(*range(1000, 1041, 10), *range(1070, 1101, 10)), [(40, "no sample for 30.0 s")]),
        (
            ups(*range(1000, 1041, 10), *range(1070, 1101, 10), down=(1050, 1060)),
            [(40, "no sample for 30.0 s, 2 scrapes failed")],
        ),
        # One failed scrape makes a gap of two intervals.
        (
            ups(*range(1000, 1041, 10), *range(1060, 1101, 10), down=(1050,)),
            [(40, "no sample for 20.0 s, 1 scrape failed")],
        ),
        (
            ups(1000, 1010, 1040, 1050, 1080, 1090, 1100, down=(1020, 1060, 1070)),
            [(10, "no sample for 30.0 s, 1 scrape failed"), (50, "no sample for 30.0 s, 2 scrapes failed")],
        ),
        # At the edges of the window.
        (ups(*range(1020, 1101, 10)), [(0, "no sample for 20.0 s")]),
        (ups(*range(1020, 1101, 10), down=(1000, 1010)), [(0, "no sample for 20.0 s, 1 scrape failed")]),
        (ups(*range(1000, 1081, 10)), [(80, "no sample for 20.0 s")]),
        (ups(*range(1000, 1081, 10), down=(1090, 1100)), [(80, "no sample for 20.0 s, 2 scrapes failed")]),
        (ups(1000, 1010, down=range(1020, 1101, 10)), [(10, "no sample for 90.0 s, 9 scrapes failed")]),
        # Exactly 1.8 intervals are no gap.
        (ups(*range(1018, 1079, 10), 1082), []),
        (ups(*range(1018, 1079, 10), 1081.9), [(81.9, "no sample for 18.1 s")]),
        # In the margin before the window.
        (ups(950, 960, *range(990, 1101, 10)), []),
        (ups(950, 960, *range(1000, 1101, 10)), []),
        (ups(950, 960, 970, *range(1005, 1101, 10)), [(-30, "no sample for 35.0 s")]),
    ],
)
def test_a_gap_is_more_than_1_8_intervals_without_an_answer(tmp_path, samples, expected):
    metrics = {GOROUTINES: [(B, every(10, 940, [5] * 17))], UP: [(A, samples)]}
    for borders in ((), (1015,), (1000, 1040, 1075), range(955, 1100, 10)):
        values, series = figures(write_trial(tmp_path, metrics, (1000, 1100), borders=borders))
        events = [(row["t_s"], row["what"], row["detail"]) for row in series["events"]]
        assert events == [(at, "down" if "failed" in said else "gap", f"a: {said}") for at, said in expected], borders
        assert values["gaps"] == len(expected)


def test_gaps_do_not_depend_on_the_clocks_begin(tmp_path):
    metrics = {GOROUTINES: [(B, every(10, 0, [5] * 11))], UP: [(A, ups(0, 10))]}
    assert told(write_trial(tmp_path, metrics, (0, 100)), "gap") == [(10, "a: no sample for 90.0 s")]


def test_instances_that_are_scraped_together_have_their_own_gaps(tmp_path):
    """Their samples have the same times. A page may have no answer of one of them."""
    times = range(1000, 1101, 10)
    up = [
        ({"instance": name}, [(float(at), float(at not in away)) for at in times])
        for name, away in {"a": range(1020, 1041), "b": range(1020, 1031), "c": range(1070, 1101), "d": ()}.items()
    ]
    borders = (1015, 1045)
    folder = write_trial(
        tmp_path, {UP: up, GOROUTINES: [(A, every(10, 1000, [5] * 11))]}, (1000, 1100), borders=borders
    )
    assert told(folder, "down") == [
        (10, "a: no sample for 40.0 s, 3 scrapes failed"),
        (10, "b: no sample for 30.0 s, 2 scrapes failed"),
        (60, "c: no sample for 40.0 s, 4 scrapes failed"),
    ]


def test_without_up_the_samples_of_another_metric_tell_of_a_gap(tmp_path):
    times = [*range(1000, 1041, 10), *range(1070, 1101, 10)]
    metrics = {GOROUTINES: [(A, [(at, 5.0) for at in times]), (B, every(10, 1000, [0] * 11))]}
    assert told(write_trial(tmp_path, metrics, (1000, 1100)), "gap", "down") == [(40, "a: no sample for 30.0 s")]
    # `up` knows better.
    metrics[UP] = [(A, ups(*range(1000, 1101, 10)))]
    assert told(write_trial(tmp_path, metrics, (1000, 1100)), "gap", "down") == []


def test_only_gaps_that_touch_the_steady_part_count_there(tmp_path):
    up = ups(*range(1000, 1011, 10), *range(1040, 1061, 10), *range(1090, 1111, 10), *range(1140, 1161, 10))
    counts = {
        (1039, 1140): 3, (1040, 1140): 2, (1039, 1111): 3, (1039, 1110): 2, (1040, 1110): 1, (1041, 1060): 0,
        (1041, 1061): 1,
    }  # fmt: skip
    for steady, gaps in counts.items():
        folder = write_trial(tmp_path, {UP: [(A, up)], GOROUTINES: [(A, up)]}, (1000, 1160), steady)
        assert len(told(folder, "gap")) == 3
        assert figures(folder)[0]["gaps"] == gaps, steady


# --- counters that begin anew, and labels that begin late ---------------------------------------------------------

CPU, STARTED = "mattermost_process_cpu_seconds_total", "mattermost_process_start_time_seconds"


def test_counters_of_an_instance_that_fell_together_are_one_reset(tmp_path):
    """A counter that was not there at some scrapes shows the same restart later. Another restart is another event."""
    metrics = {
        UP: [(A, ups(*range(1000, 1101, 10)))],
        REQUESTS: [(A, every(10, 1000, [10, 20, 30, 5, 15, 25, 35, 2, 4, 6, 8])), (B, every(10, 1000, range(11)))],
        CPU: [(A, [(1000, 9.0), (1020, 9.5), (1060, 0.25), (1070, 0.1), (1080, 0.2)]), (B, every(10, 1000, [4, 3, 5]))],
    }
    folder = write_trial(tmp_path, metrics, (1000, 1100), (1030, 1069))
    both = f"counters began anew, of {REQUESTS}, {CPU}"
    assert told(folder, "reset") == [(10, f"b: counters began anew, of {CPU}"), (30, f"a: {both}"), (70, f"a: {both}")]
    assert figures(folder)[0]["resets"] == 0, "only what is after its start, and not after its end"
    for steady, resets in [((1029, 1069), 1), ((1029, 1070), 2), ((1009, 1070), 3), ((1010, 1070), 2)]:
        assert figures(write_trial(tmp_path, metrics, (1000, 1100), steady))[0]["resets"] == resets


def test_only_what_happened_within_the_window_is_told(tmp_path):
    """The first sample of a window is compared with the last one before it, which is of another load."""
    counter = every(10, 950, [9, 3, 4, 5, 6, 1, 2, 3, 4, 5, 2, 3])  # falls at 960, 1000, 1050
    started = every(10, 950, [7, 8, 8, 8, 8, 9, 9, 9, 9, 9, 10, 10])
    metrics = {UP: [(A, ups(*range(950, 1061, 10)))], REQUESTS: [(A, counter)], STARTED: [(A, started)]}
    for window, at in [((1000, 1060), [50]), ((999, 1050), [1, 51]), ((1000, 1049), [])]:
        folder = write_trial(tmp_path, metrics, window)
        assert [t_s for t_s, _ in told(folder, "reset")] == at
        assert told(folder, "restart") == [(t_s, "a: the process was started anew") for t_s in at]


@pytest.mark.parametrize(("begins_s", "is_told"), [(1038, False), (1038.1, True), (1060, True)])
def test_a_label_that_is_counted_first_within_the_steady_part_is_told(tmp_path, begins_s: float, is_told: bool):
    """Later than 1.8 intervals after its start, of an instance without a known scrape. What was never called is not."""
    name = "mattermost_db_store_time"

    def calls(method: str, start_s: float, first: float) -> tuple[dict[str, str], Samples]:
        return {**A, "method": method}, every(10, start_s, [first, first + 1, first + 2])

    counts = [calls("Old", 1000, 5), calls("New", begins_s, 3), calls("Same", begins_s, 2), calls("Same", 1062, 4)]
    counts += [calls("Zero", 1070, 0)]
    for (labels, _), instance in zip(counts[1:4], "bbc", strict=True):
        labels["instance"] = instance
    metrics = {UP: [(A, ups(*range(1000, 1101, 10)))], f"{name}_count": counts}
    found = told(write_trial(tmp_path, metrics, (1000, 1100), (1020, 1100)), "appeared")
    said = "store: called for the first time; the calls before the first scrape are not counted: "
    if is_told:
        assert found == [(pytest.approx(begins_s - 1000), f"{said}New (3), Same (6)")]
    else:
        assert found == [(pytest.approx(62), f"{said}Same (4)")]


def test_without_a_status_the_servers_own_counter_of_errors_is_its_share(tmp_path):
    errors = "mattermost_http_errors_total"
    api = [({**A, "handler": "h"}, every(10, 1000, range(0, 700, 100)))]
    metrics = {"mattermost_api_time_count": api, REQUESTS: [(A, every(10, 1000, range(0, 350, 50)))]}
    assert "server_error_share" not in figures(write_trial(tmp_path, metrics, (1000, 1060)))[0]
    metrics[errors] = [(A, every(10, 1000, [0, 0, 0, 1, 2, 3, 3]))]
    assert figures(write_trial(tmp_path, metrics, (1000, 1060)))[0]["server_error_share"] == pytest.approx(3 / 300)
    api[0][0]["status_code"] = "500"
    assert figures(write_trial(tmp_path, metrics, (1000, 1060)))[0]["server_error_share"] == 1
    del metrics["mattermost_api_time_count"], metrics[REQUESTS]
    metrics[GOROUTINES] = [(A, every(10, 1000, [5] * 7))]
    assert "server_error_share" not in figures(write_trial(tmp_path, metrics, (1000, 1060)))[0], "of no request"


def answers(*series: tuple[dict[str, str], Samples]) -> dict[str, Any]:
    """Counts and sums of series of (labels, counts), of 10 ms per answer; a is scraped every 10 s from 1000 to 1600."""
    sums = [(labels, [(at, n / 100) for at, n in counts]) for labels, counts in series]
    return {
        "mattermost_api_time_count": [*series],
        "mattermost_api_time_sum": sums,
        UP: [(A, ups(*range(1000, 1601, 10)))],
    }


FINE = ({**A, "handler": "h", "status_code": "200"}, every(10, 1000, range(0, 1220, 20)))


def failing(handler: str, begins_s: float, first: float, instance: str = "a") -> tuple[dict[str, str], Samples]:
    labels = {"instance": instance, "handler": handler, "status_code": "500"}
    return labels, [(at, first) for at in range(int(begins_s), 1601, 10)]


@pytest.mark.parametrize("named", [UP, GOROUTINES])
def test_errors_before_the_first_scrape_of_their_series_are_counted(tmp_path, named: str):
    """A server exports a status from the first answer with it on, so until the scrape before there was none."""
    for bad in ([failing("h", 1300, 40)], [failing(f"h{n}", 1100 + 10 * n, 1) for n in range(20)]):
        metrics = answers(FINE, *bad)
        metrics[named] = metrics.pop(UP)
        values, series = figures(write_trial(tmp_path, metrics, (1000, 1600)))
        count = sum(samples[0][1] for _, samples in bad)
        assert values["server_error_share"] == pytest.approx(count / (1200 + count))
        assert sum(row["count"] for row in series["labels"]) == 1200 + count
        assert values["api_mean"] == pytest.approx(0.01) and values["api_rate"] == pytest.approx(2), "as PromQL has it"
        assert values["api_calls"] == 1200 + count
        assert not [row for row in series["events"] if row["what"] == "appeared"]


def test_what_began_with_its_instance_or_after_a_gap_is_no_increment(tmp_path):
    """A process that is new, was started anew or was not scraped may have counted for longer."""

    def share(metrics: dict[str, Any], *steady: float) -> float:
        return figures(write_trial(tmp_path, metrics, (1000, 1600), steady or None))[0]["server_error_share"]

    late = answers(FINE, failing("h", 1300, 40, "b"))
    late[UP].append((B, ups(*range(1300, 1601, 10))))
    assert share(late) == 0
    gap = answers(FINE, failing("h", 1300, 40))
    gap[UP] = [(A, ups(*range(1000, 1281, 10), *range(1300, 1601, 10), down=[1290]))]
    assert share(gap) == 0
    anew = answers(FINE, failing("h", 1300, 40))
    anew[STARTED] = [(A, every(10, 1000, [7] * 30 + [8] * 31))]
    assert share(anew) == 0
    assert share(answers(FINE, failing("h", 1300, 40)), 1295, 1600) == 0, "zero before what is measured"
    assert share(answers(FINE, failing("h", 1300, 40)), 1290, 1600) == pytest.approx(40 / (620 + 40))


def test_shares_of_little_are_shares(tmp_path):
    metrics = {GOROUTINES: [(A, every(10, 1000, [5] * 3))]}
    metrics["node_cpu_seconds_total"] = [
        ({**A, "mode": mode}, [(1000, 9.0), (1010, 9 + grown)]) for mode, grown in (("idle", 0.25), ("user", 0.125))
    ]
    metrics["node_netstat_Tcp_OutSegs"] = [(A, every(10, 1000, [7, 8]))]
    metrics["node_netstat_Tcp_RetransSegs"] = [(A, every(10, 1000, [7, 7.5]))]
    values, _ = figures(write_trial(tmp_path, metrics, (1000, 1020), width_s=20))
    assert (values["node_cpu"], values["tcp_retransmits"]) == (pytest.approx(1 / 3), 0.5)
    metrics["node_netstat_Tcp_OutSegs"] = [(A, every(10, 1000, [7, 7]))]
    assert "tcp_retransmits" not in figures(write_trial(tmp_path, metrics, (1000, 1020), width_s=20))[0], "of nothing"


def test_a_label_that_was_scraped_once_adds_no_rate(tmp_path):
    name = "mattermost_api_time_count"
    metrics = {name: [({**A, "handler": "h"}, every(10, 1005, range(50, 56))), ({**A, "handler": "once"}, [(1040, 7)])]}
    values, series = figures(write_trial(tmp_path, metrics, (1000, 1060)))
    assert {row["label"]: (row["count"], row["rate_per_s"]) for row in series["labels"]} == {
        "h": (5, pytest.approx(0.1)), "once": (0, 0)
    }  # fmt: skip
    assert values["api_rate"] == pytest.approx(0.1)


def test_names_of_another_system_are_read(tmp_path):
    metrics = {
        "http_seconds_count": [({**A, "route": "/a", "code": "503"}, every(10, 1000, range(7)))],
        "http_seconds_sum": [({**A, "route": "/a", "code": "503"}, every(10, 1000, range(0, 70, 10)))],
        "threads": [(A, every(10, 1000, [3] * 7)), (B, every(10, 1000, [4] * 7))],
    }
    names = {"api": "http_seconds", "api_label": "route", "status_label": "code", "goroutines": "threads"}
    values, series = figures(write_trial(tmp_path, metrics, (1000, 1060), names=names))
    assert (values["api_mean"], values["goroutines"], values["server_error_share"]) == (10, 7, 1)
    assert [row["label"] for row in series["labels"]] == ["/a"]
    with pytest.raises(ParseError, match=r"load_test\.json: metrics"):
        figures(write_trial(tmp_path, metrics, (1000, 1060), names={"apis": "x"}))


@pytest.mark.parametrize("calls", [367, 368])
def test_a_p99_of_fewer_calls_than_its_interval_needs_is_no_figure(tmp_path, calls):
    samples = every(10, 1000, [0] * 6 + [calls])
    metrics = {"mattermost_api_time_bucket": [({**A, "le": le}, samples) for le in ("0.5", "2.5", "+Inf")]}
    values, _ = figures(write_trial(tmp_path, metrics | {"mattermost_api_time_count": [(A, samples)]}, (1000, 1060)))
    given = {name for name in values if name.startswith("api_p99")}
    assert values["api_calls"] == calls and given == (
        {"api_p99", "api_p99_low", "api_p99_high"} if calls > 367 else set()
    )


def test_a_quantile_above_the_last_bucket_is_censored_for_its_label_and_for_all(tmp_path):
    def buckets(handler: str, *counts: int) -> list[tuple[dict[str, str], Samples]]:
        labels = {**A, "handler": handler}
        return [
            ({**labels, "le": le}, every(10, 1000, [n * count for n in range(7)]))
            for le, count in zip(("0.5", "2.5", "+Inf"), counts, strict=True)
        ]

    metrics = {"mattermost_api_time_bucket": [*buckets("slow", 0, 1, 10), *buckets("slower", 0, 0, 1)]}
    metrics["mattermost_api_time_bucket"] += buckets("fast", 50, 100, 100)
    rates = [(labels, samples) for labels, samples in metrics["mattermost_api_time_bucket"] if labels["le"] == "+Inf"]
    metrics["mattermost_api_time_count"] = rates
    folder = write_trial(tmp_path, metrics, (1000, 1060), (1010, 1060))
    assert told(folder, "censored") == [
        (10, "the p99 of mattermost_api_time is above its last bucket, 2.5 s"),
        (10, "the p99 of slow, slower (api) is above the last bucket"),
    ]
    values, series = figures(folder)
    # No bucket below an interpolated value is told for what is only known to be higher.
    assert (values["api_p99"], values["api_p99_low"], "api_p99_high" in values) == (2.5, 2.5, False)
    fast = next(row for row in series["labels"] if row["label"] == "fast")
    assert (fast["p99_low_s"], fast["p99_s"], fast["p99_high_s"]) == pytest.approx((0.5, 2.5 - 2 * 0.02, 2.5))


# --- windows ----------------------------------------------------------------------------------------------------


def test_a_gauge_is_valid_for_two_and_a_half_intervals(tmp_path):
    metrics = {UP: [(A, ups(*range(1000, 1101, 10)))], GOROUTINES: [(A, [(1005, 7), (1055.001, 8)])]}
    values, series = figures(write_trial(tmp_path, metrics, (1000, 1100)))
    panel = {row["t_s"]: row["value"] for row in series["panels"]}
    assert panel == {10: 7, 20: 7, 30: 7, 60: 8, 70: 8, 80: 8}
    assert values["goroutines"] == 7.5


def test_memory_is_used_where_both_metrics_are_known(tmp_path):
    total, available = "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"
    metrics = {
        GOROUTINES: [(A, every(10, 1000, [5] * 7))],
        total: [(A, every(10, 1000, [100] * 7))],
        available: [(A, every(10, 1000, [50, 40, 30]))],
    }
    values, _ = figures(write_trial(tmp_path, metrics, (1000, 1060)))
    # The last value is valid for two more intervals.
    assert values["node_memory"] == pytest.approx((0.5 + 0.6 + 3 * 0.7) / 5)
    del metrics[available]
    assert "node_memory" not in figures(write_trial(tmp_path, metrics, (1000, 1060)))[0]


@pytest.mark.parametrize(
    ("minutes", "interval_s", "step_s"),
    [
        (1, 1, 1), (1, 0.25, 1), (1, 1.5, 2), (1, 10, 10), (1, 11, 15), (10, 1, 2), (40 / 6, 1, 1), (60, 1, 10),
        (30, 1, 5), (300, 1, 60), (600, 1, 120), (2880, 1, 600), (7 * 1440, 1, 1800), (14 * 1440, 1, 3600),
        (100, 1, 15), (101, 1, 30), (24 * 60, 1, 300), (50 * 24 * 60, 15, 10800), (600, 4000, 4000),
        # Half a second more than 400 steps of 5 s, and a millisecond less than five steps of 1 s.
        (2000.5 / 60, 1, 10), (4.999 / 60, 1, 1),
    ],
)  # fmt: skip
def test_a_panel_has_at_most_400_round_steps_and_none_below_an_interval(minutes, interval_s, step_s):
    end_ms = 5000 + round(60_000 * minutes)
    steps = Window(5000, end_ms, 6000, end_ms, 60_000, round(1000 * interval_s)).steps_ms
    assert set(np.diff(steps)) == {1000 * step_s}
    assert steps[0] == 5000 and end_ms - 1000 * step_s < steps[-1] <= end_ms
    assert len(steps) <= 401


@pytest.mark.parametrize(("length_ms", "interval_ms", "step_ms"), [(60_000, 1000, 1000), (24 * 3600_000, 1000, 10547)])
def test_gauges_are_sampled_at_each_scrape_but_never_at_more_than_8192(length_ms, interval_ms, step_ms):
    instants = Window(0, 9 * length_ms, 7, 7 + length_ms, 60_000, interval_ms).instants_ms
    assert instants[0] == 7 and set(np.diff(instants)) == {step_ms} and instants[-1] + step_ms > 7 + length_ms
    assert len(instants) <= 8193


QUIET = {GOROUTINES: [(A, every(10, 1000, [5] * 11))]}


@pytest.mark.parametrize(("width_s", "used_s"), [(20, 20), (19, 50), (60, 60), (1, 50)])
def test_a_rate_window_that_holds_fewer_than_two_scrapes_is_five_intervals(tmp_path, width_s: float, used_s: float):
    values, _ = figures(write_trial(tmp_path, QUIET, (1000, 1100), (1010, 1090), width_s=width_s))
    assert (values["rate_window"], values["scrape_interval"], values["window"]) == (used_s, 10, 80)


def test_an_interval_that_cannot_be_measured_is_the_one_that_was_planned(tmp_path):
    once = {GOROUTINES: [(A, [(1050, 5)])]}
    assert figures(write_trial(tmp_path, once, (1000, 1100), scrape_interval_s=7.0))[0]["scrape_interval"] == 7
    # The first page that has one, by its median.
    metrics = once | {REQUESTS: [(A, [(1000, 1), (1004, 2), (1008, 3), (1050, 4)])], UP: [(A, ups(1000, 1009))]}
    assert figures(write_trial(tmp_path, metrics, (1000, 1100), scrape_interval_s=7.0))[0]["scrape_interval"] == 4


@pytest.mark.parametrize(
    ("steady", "is_within"),
    [
        ((1000, 1100), True),
        ((1050, 1050.1), True),
        ((999.9, 1100), False),
        ((1000, 1100.1), False),
        ((1050, 1050), False),
        ((1060, 1050), False),
    ],
)
def test_the_steady_part_lies_within_the_window(tmp_path, steady, is_within: bool):
    folder = write_trial(tmp_path, QUIET, (1000, 1100), steady)
    if is_within:
        assert figures(folder)[0]["window"] == pytest.approx(steady[1] - steady[0])
    else:
        with pytest.raises(ParseError, match=r"load_test\.json: the steady part .* is not within the window"):
            figures(folder)


@pytest.mark.parametrize(
    ("window", "is_held"), [((999.999, 1100.001), True), ((999.99, 1100), False), ((1000, 1100.01), False)]
)
def test_a_window_that_was_not_fetched_is_refused_with_both_spans(tmp_path, window, is_held: bool):
    """Times in the file are whole milliseconds."""
    folder = write_trial(tmp_path, QUIET, (1000, 1100))
    facts = json.loads((folder / "load_test.json").read_text())
    facts["window"] = dict(zip(("start_s", "end_s"), window, strict=True))
    (folder / "load_test.json").write_text(json.dumps(facts))
    if is_held:
        assert figures(folder)[0]["goroutines"] == 5
    else:
        said = f"was fetched for 1000.000 to 1100.000, and the window is {window[0]:.3f} to {window[1]:.3f} (Unix s)"
        with pytest.raises(ParseError, match=re.escape(said)):
            figures(folder)


def test_a_trial_without_any_known_sample_says_what_was_looked_for(tmp_path):
    folder = write_trial(tmp_path, {"other_total": QUIET[GOROUTINES]}, (1000, 1100), (1010, 1090))
    said = (
        "http://p has no sample of mattermost_api_time_count, mattermost_db_store_time_count, "
        f"{REQUESTS}, {CPU} or go_goroutines with any labels from 1010 to 1090 (Unix s): is the window right"
    )
    with pytest.raises(ParseError, match=re.escape(said)):
        figures(folder)


@pytest.mark.parametrize(
    ("at", "few", "asked"),
    [
        ([1050.0], "fewer than two samples", "is it shorter than two scrapes, or did the target not answer?"),
        ([1010.0], "fewer than two samples", "is it shorter than two scrapes"),
        ([1090.001], "no sample", "is the window right"),
        ([], "no sample", "is the window right"),
    ],
)
def test_a_trial_with_one_scrape_says_that_two_are_needed(tmp_path, at, few, asked):
    """A counter that was scraped once has no increase. There is another scrape before the steady time."""
    samples = [(second, 5.0) for second in (1000.0, *at)]
    folder = write_trial(tmp_path, {CPU: [({"instance": "a"}, samples)]}, (1000, 1100), (1010, 1090))
    with pytest.raises(ParseError, match=f"^http://p has {few} of .* from 1010 to 1090 .Unix s.: {re.escape(asked)}"):
        figures(folder)


def test_phases_are_told_by_their_time_in_the_window(tmp_path):
    phases = [{"name": "ramp", "start_s": 1000, "end_s": 1010.5}, {"name": "steady", "start_s": 1010.5, "end_s": 1100}]
    _, series = figures(write_trial(tmp_path, QUIET, (1000, 1100), phases=phases))
    assert series["phases"] == [
        {"phase": "ramp", "start_s": 0, "end_s": 10.5},
        {"phase": "steady", "start_s": 10.5, "end_s": 100},
    ]
    assert all(series[name] == [] for name in ("users", "checks", "search", "client", "client_histogram"))


def test_units_are_those_of_what_is_measured():
    units = {observation.metric: observation.unit for observation in parse_trial({}, TRIAL).observations}
    seconds = {name for name in units if name.partition("_")[2] in ("mean", "p99", "p99_low", "p99_high")}
    assert {name for name, unit in units.items() if unit == "s"} == seconds | {
        "window",
        "scrape_interval",
        "rate_window",
    }
    assert {name for name, unit in units.items() if unit == "1/s"} == {"rps", "api_rate", "store_rate"}
    assert {name for name, unit in units.items() if unit == "B"} == {"heap", "stack"}
    assert set(units.values()) == {"s", "1/s", "B", "1"}
