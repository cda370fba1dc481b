"""What a trial of http_concurrency says: its figures from captured outputs, and the commands that ask for them.

Expected figures are those that the tools print in the captured files (see data/http/README.md).
"""

import gzip
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_study import load

from benchstudy.families.http_concurrency.ab import parse_ab, parse_ab_percentiles
from benchstudy.families.http_concurrency.config import Expect
from benchstudy.families.http_concurrency.k6 import parse_k6_summary
from benchstudy.families.http_concurrency.load_result import ab_load, parse_load, requests_under_way
from benchstudy.families.http_concurrency.parse import imported_summary, note_trial, parse_trial
from benchstudy.families.http_concurrency.summaries import is_hey, locust_rows, parse_hey, parse_k6, parse_locust
from benchstudy.model.family import Parsed, ParseError

DATA = Path(__file__).parent / "data"
HTTP = DATA / "http"
PERCENTS = (50, 66, 75, 80, 90, 95, 98, 99)


def text(name: str) -> str:
    return (HTTP / name).read_text()


def put(path: Path, content: str | bytes | Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(content) if isinstance(content, Mapping) else content
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def output(folder: Path, name: str) -> None:
    """What a run of a generator leaves: the captured output with this name, such as wrk-ok."""
    tool = name.partition("-")[0]
    if tool == "k6":
        put(folder / "files" / "k6-summary.json", text(f"{name}.json"))
    else:
        put(folder / "stdout", text(f"{name}.txt"))
    if tool == "ab":
        put(folder / "stderr", "")
        put(folder / "files" / "ab.csv", text(f"{name}.csv"))
        put(folder / "files" / "ab.tsv", gzip.decompress((HTTP / f"{name}.tsv.gz").read_bytes()))


def supervised(
    user_s: float | None = 0.5, system_s: float | None = 0.25, duration_s: float | None = 1.2
) -> dict[str, Any]:
    return {"cpu_user_s": user_s, "cpu_system_s": system_s, "duration_s": duration_s}


def used(user_s: float | None, system_s: float | None) -> dict[str, float | None]:
    return {"cpu_user_s": user_s, "cpu_system_s": system_s}


def facts(tool: str, **changed: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "tool": tool,
        "concurrency": None,
        "rate_per_s": None,
        "checks": {"before": {"length": 77}, "after": {"length": 78}},
        "usage": {"before": used(1.0, 0.25), "after": used(1.5, 0.75)},
        "threads": 1,
        "leaves": None,
        "left": {"before": None, "after": None},
        "server": {"effective": {"cpus": [0, 1, 2, 3]}, "peak_memory_bytes": 12_345},
        **changed,
    }


def trial(folder: Path, *names: str, cpu: Mapping[str, Any] | None = None, **changed: Any) -> Path:
    """A measured trial of one run, or of several clients that loaded together."""
    clients = [folder / "load" / str(number) for number in range(1, len(names) + 1)]
    for place, name in zip(clients if len(names) > 1 else [folder / "load"], names, strict=True):
        output(place, name)
        put(place / "supervisor.json", cpu or supervised())
    if len(names) > 1:
        began = [
            {"client": n, "role": f"load-{n}", "host": f"l{n}", "start_s": 100.0 + 0.001 * n, "end_s": 102.0}
            | {"offset_s": 0.0, "uncertainty_s": 0.0001}
            for n in range(1, len(names) + 1)
        ]
        put(folder / "load" / "clients.json", {"schema": 1, "clients": began})
        changed["clients"] = [{"threads": n} for n in range(1, len(names) + 1)]
    put(folder / "http.json", facts(**{"tool": names[0].partition("-")[0], **changed}))
    return folder


def figures(parsed: Parsed) -> dict[str, float]:
    assert len({o.metric for o in parsed.observations}) == len(parsed.observations)
    return {o.metric: o.value for o in parsed.observations}


# --- one generator ---------------------------------------------------------------------------------------------------


def test_figures_of_ab_come_from_its_report_and_times_from_its_file_of_percentiles(tmp_path: Path):
    parsed = parse_trial({"concurrency": "50"}, trial(tmp_path, "ab-ok", concurrency=50))
    found = figures(parsed)
    printed = {
        "throughput": 17_406.30, "requests": 20_000, "duration": 1.149, "transfer_rate": 198_098.70 * 1024,
        "errors": 0, "errors_status": 0, "errors_length": 0, "errors_timeout": 0, "errors_connect": 0,
        "keepalive_requests": 20_000, "document_length": 11_413, "latency_sd": 0.0071,
        "connect_mean": 0, "connect_sd": 0.0002, "connect_median": 0, "connect_max": 0.005,
        "processing_mean": 0.003, "processing_sd": 0.0071, "processing_median": 0.001, "processing_max": 0.114,
        "waiting_mean": 0.003, "waiting_sd": 0.0071, "waiting_median": 0.001, "waiting_max": 0.114,
    }  # fmt: skip
    assert {name: found[name] for name in printed} == pytest.approx(printed)
    lines = [line.split(",") for line in text("ab-ok.csv").splitlines()[1:]]
    csv = {int(percent): float(ms) / 1000 for percent, ms in lines}
    assert (found["latency_min"], found["latency_max"]) == (csv[0], csv[100]) == (0.000251, 0.113723)
    assert [found[f"latency_p{percent}"] for percent in PERCENTS] == [csv[percent] for percent in PERCENTS]
    assert parsed.series["percentiles"] == [{"percent": percent, "latency_s": csv[percent]} for percent in range(101)]
    assert sum(row["count"] for row in parsed.series["histogram"]) == 20_000
    # The mean of all requests, each to a millisecond.
    rows = gzip.decompress((HTTP / "ab-ok.tsv.gz").read_bytes()).decode().splitlines()[1:]
    mean = np.mean([int(row.split("\t")[4]) for row in rows]) / 1000
    assert found["latency_mean"] == pytest.approx(mean, abs=0.0002)
    assert found["concurrency_measured"] == pytest.approx(17_406.30 * found["latency_mean"])
    assert found["concurrency_measured"] == pytest.approx(50, rel=0.01)
    assert found["little_error"] == 0, "no more than what rounding explains"


def test_the_mean_of_ab_is_within_the_millisecond_that_it_prints(tmp_path: Path):
    """Its percentiles in microseconds say more, but not something else."""
    for printed, expected in ((1, 0.0015), (2, 0.0025), (7, 0.0065)):
        trial(tmp_path, "ab-ok", concurrency=50)
        changed = text("ab-ok.txt").replace("Total:          0    3 ", f"Total:          0    {printed} ")
        put(tmp_path / "load" / "stdout", changed)
        found = figures(parse_trial({"concurrency": "50"}, tmp_path))
        assert found["latency_mean"] == pytest.approx(expected)


def test_figures_of_wrk_are_those_that_its_script_counted(tmp_path: Path):
    parsed = parse_trial({"concurrency": "5"}, trial(tmp_path, "wrk-reset", concurrency=5))
    line = json.loads(text("wrk-reset.txt").splitlines()[-1])
    us, found = line["latency_us"], figures(parsed)
    counted = {
        "throughput": 22_047.00, "requests": 22_053 + 1161, "duration": 1.000272,
        "transfer_rate": 23_486_445 / 1.000272,
        "errors": 1161, "errors_status": 0, "errors_length": 0, "errors_timeout": 0, "errors_connect": 1161,
        "latency_mean": 197.880742e-6, "latency_sd": 229.685145e-6, "latency_min": 46e-6, "latency_max": 6857e-6,
        **{f"latency_p{percent}": dict(us["percentiles"])[percent] * 1e-6 for percent in PERCENTS},
    }  # fmt: skip
    assert {name: found[name] for name in counted} == pytest.approx(counted)
    assert found["concurrency_measured"] == pytest.approx(22_053 / 1.000272 * 197.880742e-6), "of answers"
    assert found["document_length"] == 77, "wrk does not say how long an answer was, and the check before does"
    rows = [(row["percent"], row["latency_s"] * 1e6) for row in parsed.series["percentiles"]]
    assert np.array(rows) == pytest.approx(np.array(us["percentiles"], float))
    bins = [(row["low_s"] * 1e6, row["high_s"] * 1e6, row["count"]) for row in parsed.series["histogram"]]
    assert np.array(bins) == pytest.approx(np.array(us["bins"], float))


def test_figures_of_k6_are_those_of_its_summary(tmp_path: Path):
    parsed = parse_trial({"rate": "200-per-s"}, trial(tmp_path, "k6-ok", rate_per_s=200.0))
    found, metrics = figures(parsed), json.loads(text("k6-ok.json"))["metrics"]
    latency = metrics["latency"]["values"]
    printed = {
        # 401 requests were sent in 2 s, the last one as they ended, and its answer came later.
        "throughput": 200, "offered": 200, "achieved_share": 1, "requests": 401, "errors": 0,
        "dropped": 0, "duration": 2.001581582,
        "latency_mean": 1.275784e-3, "latency_min": 0.176794e-3, "latency_max": 34.868528e-3,
        "connect_mean": 0.010304e-3, "connect_max": 0.711502e-3, "waiting_mean": 0.422326e-3,
        "waiting_max": 8.126617e-3, "transfer_rate": 4_673_254 / 2 * 400 / 401,
        **{f"latency_p{percent}": latency[f"p({percent})"] / 1000 for percent in PERCENTS},
    }  # fmt: skip
    assert {name: found[name] for name in printed} == pytest.approx(printed)
    assert found["errors_length"] == 0, "its script compares the bodies"
    assert not {"latency_sd", "little_error"} & found.keys(), "k6 prints none, and an open loop has no connections"
    assert found["concurrency_measured"] == pytest.approx(401 / 2.001581582 * 1.275784e-3)
    result = parse_k6_summary(text("k6-ok.json"))
    assert (result.read, result.sent, result.good_after_load) == (4_673_254, 28_471, 1)
    assert result.lateness_p99 == pytest.approx(0.017)
    shown = [*range(101), *(99.1, 99.2, 99.3, 99.4, 99.5, 99.6, 99.7, 99.8, 99.9, 99.95, 99.99, 99.999)]
    in_file = [percent for percent in sorted(shown) if f"p({percent})" in latency]
    assert [percent for percent, _ in result.latency.percentiles] == in_file and len(in_file) >= 111
    expected = [latency[f"p({percent})"] / 1000 for percent in in_file]
    assert [seconds for _, seconds in result.latency.percentiles] == pytest.approx(expected)


def test_nobody_knows_how_many_requests_were_under_way_in_no_time():
    told = {"latency_mean": (0.1, "s"), "requests": (5.0, "1")}
    assert requests_under_way(told | {"duration": (2.0, "s")}) == pytest.approx(0.25)
    assert requests_under_way(told | {"duration": (0.0, "s")}) is requests_under_way(told) is None


@pytest.mark.parametrize(("later", "share"), [(0, 1.0), (1, 1.0), (5, 1.0), (21, 1.0), (81, 0.85)])
def test_requests_in_flight_at_the_end_are_achieved_as_far_as_a_stable_server_has_them(tmp_path, later, share):
    """Of 200/s for 2 s, a stable server that takes 100 ms has 20 in flight at the end; more are a queue that grows."""
    summary = json.loads(text("k6-ok.json"))
    for name in ("latency", "http_req_duration"):
        values = summary["metrics"][name]["values"]
        slower = 100 - values["avg"]
        values |= {key: values[key] + slower for key in values if key not in ("count", "min", "p(0)")}
    summary["metrics"]["good_after_load"]["values"]["count"] = later
    put((folder := trial(tmp_path, "k6-ok", rate_per_s=200.0)) / "load" / "files" / "k6-summary.json", summary)
    found = figures(parse_trial({"rate": "200-per-s"}, folder))
    assert found["latency_mean"] == pytest.approx(0.1)
    assert found["achieved_share"] == pytest.approx(share, abs=2e-3)
    assert found["achieved_share"] <= 1 and found["throughput"] <= found["offered"], "k6 sends one more at the end"


@pytest.mark.parametrize("name", ["ok", "dropped", "timeout"])
def test_bins_of_k6_have_the_edges_of_wrks_and_the_counts_of_its_quantiles(name: str):
    values = json.loads(text(f"k6-{name}.json"))["metrics"]["latency"]["values"]
    quantiles = sorted((float(key[2:-1]), ms * 1000) for key, ms in values.items() if re.fullmatch(r"p\(.*\)", key))
    shares, times = np.array(quantiles).T
    latency = parse_k6_summary(text(f"k6-{name}.json")).latency_intended
    below = 0
    for low_s, high_s, count in latency.bins:
        low, high = low_s * 1e6, high_s * 1e6
        assert (low, high) == pytest.approx((round(low), round(high)), abs=1e-6)
        # One microsecond up to 128, and 64 bins to each doubling above.
        width = 1 if low < 128 else 2 ** (math.floor(math.log2(round(low))) - 6)
        assert round(high) - round(low) == width and round(low) % width == 0
        assert below >= np.interp(low, times, shares) / 100 * latency.count - 1
        below += count
        if high <= times[-1]:
            upto = np.interp(high, times, shares) / 100 * latency.count
            assert below == pytest.approx(min(max(upto, 1), latency.count - 1), abs=0.5 + 1e-6)
    assert below == latency.count
    low_s, high_s, _ = latency.bins[0]
    assert low_s * 1e6 <= times[0] < high_s * 1e6


@pytest.mark.parametrize("longest_us", [127, 128, 130, 256])
def test_the_longest_request_is_in_a_bin_that_ends_after_it(longest_us: int):
    """Where a bin ends, the next one begins."""
    summary = json.loads(text("k6-ok.json"))
    for name in ("latency", "http_req_duration"):
        values = summary["metrics"][name]["values"]
        values |= {key: 0.1 if key != "p(100)" else longest_us / 1000 for key in values if key.startswith("p(")}
        values |= {"max": longest_us / 1000}
    low_s, high_s, count = parse_k6_summary(json.dumps(summary)).latency_intended.bins[-1]
    assert round(low_s * 1e6) == longest_us < round(high_s * 1e6) and count >= 1


def test_a_run_in_which_every_arrival_was_dropped_has_no_latency(tmp_path: Path):
    summary = json.loads(text("k6-dropped.json"))
    summary["metrics"] = {"dropped_iterations": {"values": {"count": 1000}}}
    trial(tmp_path, "k6-dropped", rate_per_s=500.0)
    put(tmp_path / "load" / "files" / "k6-summary.json", summary)
    parsed = parse_trial({"rate": "500-per-s"}, tmp_path)
    found = figures(parsed)
    assert (found["requests"], found["dropped"], found["offered"], found["throughput"]) == (0, 1000, 500, 0)
    assert not [name for name in found if "latency" in name or "mean" in name or name == "concurrency_measured"]
    assert parsed.series == {"percentiles": [], "histogram": []}
    assert found["achieved_share"] == 0
    assert note_trial(tmp_path)["problems"][0] == "empty: not one request was made"
    summary["metrics"] = {}
    put(tmp_path / "load" / "files" / "k6-summary.json", summary)
    with pytest.raises(ParseError, match="neither made nor dropped one request"):
        parse_trial({"rate": "500-per-s"}, tmp_path)


def test_broken_connections_have_no_latency(tmp_path: Path):
    """The server answers after 20 ms, and resets every third connection at once."""
    found = figures(parse_trial({"rate": "100-per-s"}, trial(tmp_path / "own", "k6-broken", rate_per_s=100.0)))
    assert (found["requests"], found["errors_connect"]) == (201, 67)
    assert 0.02 < found["latency_min"] <= found["latency_p50"] <= found["latency_mean"] < 0.03
    assert found["concurrency_measured"] == pytest.approx(134 / found["duration"] * found["latency_mean"])
    assert not {name for name in found if name.startswith(("connect_", "waiting_"))}, "k6 mixes them, too"
    # Nothing tells which of these times are of answers.
    mixed = parse_trial({"rate": "100-per-s"}, trial(tmp_path / "mixed", "k6-broken-mixed", rate_per_s=100.0))
    assert not {name for name in figures(mixed) if name.startswith("latency")}
    assert mixed.series["percentiles"] == mixed.series["histogram"] == []
    problems = [problem.partition(":")[0] for problem in parse_k6_summary(text("k6-broken-mixed.json")).problems()]
    assert {"connection", "latency"} <= set(problems)
    for name in ("broken", "refused"):
        assert "latency" not in {p.partition(":")[0] for p in parse_k6_summary(text(f"k6-{name}.json")).problems()}
    # If arrivals were dropped, latencies start at sending, and k6's own metric has all requests.
    summary = json.loads(text("k6-broken.json"))
    summary["metrics"]["dropped_iterations"] = {"values": {"count": 1}}
    dropped = parse_k6_summary(json.dumps(summary))
    assert dropped.latency is None and dropped.latency_intended is not None


def test_what_cannot_be_in_a_summary_of_k6_is_named():
    def changed(change: Callable[[dict[str, Any]], Any]) -> str:
        summary = json.loads(text("k6-ok.json"))
        change(summary)
        return json.dumps(summary)

    duration = {"testRunDurationMs": 999.5}
    assert parse_k6_summary(changed(lambda d: d.update(state=duration, load=d["load"] | {"duration_s": 0.5}))).requests
    for told, change in (
        ("401 iterations and 400 requests", lambda d: d["metrics"]["http_reqs"]["values"].update(count=400)),
        ("took no time", lambda d: d["state"].update(testRunDurationMs=0)),
        ("took no time", lambda d: d["load"].update(duration_s=0)),
        ("400 values of latency for 401", lambda d: d["metrics"]["latency"]["values"].update(count=400)),
        ("impossible count of data_sent", lambda d: d["metrics"]["data_sent"]["values"].update(count=-1)),
        ("impossible count of data_sent", lambda d: d["metrics"]["data_sent"]["values"].update(count=2**53)),
        ("do not rise", lambda d: d["metrics"]["latency"]["values"].update({"p(0)": -0.001})),
        ("do not rise", lambda d: d["metrics"]["latency"]["values"].update({"p(50)": 99.0})),
        ("do not rise", lambda d: d["metrics"]["latency"]["values"].update({"p(100)": math.inf})),
        ("do not rise", lambda d: d["metrics"]["latency"]["values"].update({"p(50)": math.nan})),
        ("1003 quantiles of latency: the script", lambda d: d["metrics"]["latency"]["values"].pop("p(0)")),
        ("format 2, and only 1", lambda d: d.update(format=2)),
        ("not a summary that our k6 script wrote", lambda d: d.update(benchstudy="wrk")),
    ):
        with pytest.raises(ParseError, match=told):
            parse_k6_summary(changed(change))
    for most in (2**53 - 1, 0):
        counted = parse_k6_summary(changed(lambda d, n=most: d["metrics"]["data_sent"]["values"].update(count=n)))
        assert counted.sent == most
    with pytest.raises(ParseError, match="truncated or no JSON"):
        parse_k6_summary(text("k6-ok.json")[:-2])


def of_k6(**changed: Any) -> list[str]:
    """The names of the problems of 401 requests that were asked for at 200 per second for 2 s."""
    return [
        problem.partition(":")[0] for problem in replace(parse_k6_summary(text("k6-ok.json")), **changed).problems()
    ]


def test_an_open_loop_is_told_apart_from_a_generator_that_was_the_limit():
    # 400 arrivals, a hundredth of them and one more or less.
    fine = {"lateness_p99": 0.0}
    assert [of_k6(requests=n, **fine) for n in (395, 405)] == [[], []]
    assert [of_k6(requests=n, **fine) for n in (394, 406)] == [["rate"], ["rate"]]
    assert of_k6(requests=300, dropped=100, **fine) == ["dropped"]
    assert of_k6(requests=0, **fine) == ["empty", "rate"]


@pytest.mark.parametrize(
    ("late_s", "told"),
    [(0.00202, True), (0.00201, False), (0.0021, True), (0.002, False), (0.017, True), (None, False)],
)
def test_a_late_generator_is_told_from_a_tenth_of_the_tail(late_s: float | None, told: bool):
    """The 99th percentile is 20.1597 ms."""
    assert of_k6(lateness_p99=late_s) == ["late"] * told
    assert of_k6(lateness_p99=late_s, dropped=4, requests=397) == ["dropped"], "then latencies count from sending"


def test_a_generator_is_never_late_by_less_than_its_clock_shows():
    """Two milliseconds, whatever the tail."""
    result = parse_k6_summary(text("k6-ok.json"))
    tail = replace(result.latency_intended, percentiles=[(99.0, 0.004)])
    assert of_k6(lateness_p99=0.0019, latency_intended=tail) == []
    assert of_k6(lateness_p99=0.002, latency_intended=tail) == ["late"]
    assert of_k6(lateness_p99=0.002, latency_intended=None) == []


def test_a_trial_of_another_case_is_refused(tmp_path: Path):
    trial(tmp_path, "wrk-ok", concurrency=10)
    assert figures(parse_trial({"concurrency": "10"}, tmp_path))["requests"] == 46_751
    with pytest.raises(ParseError, match=r"measured at 10 at once according to http\.json, and the case says 11"):
        parse_trial({"concurrency": "11"}, tmp_path)
    trial(tmp_path, "wrk-ok", concurrency=11)
    with pytest.raises(ParseError, match="measured at 10 at once according to wrk, and the case says 11"):
        parse_trial({"concurrency": "11"}, tmp_path)
    trial(tmp_path, "wrk-ok", concurrency=None)
    with pytest.raises(ParseError, match=r"measured at None at once according to http\.json"):
        parse_trial({"concurrency": "10"}, tmp_path)


@pytest.mark.parametrize(("rate", "accepted"), [(200.0001, True), (199.9999, True), (200.001, False), (199.99, False)])
def test_a_rate_may_differ_by_what_rounding_takes_from_it(tmp_path: Path, rate: float, accepted: bool):
    """One request in a million."""
    trial(tmp_path, "k6-ok", rate_per_s=rate)
    if accepted:
        assert figures(parse_trial({"rate": "200-per-s"}, tmp_path))["requests"] == 401
    else:
        with pytest.raises(ParseError, match=r"a second according to http\.json, and the case says 200"):
            parse_trial({"rate": "200-per-s"}, tmp_path)


def test_answers_that_left_no_file_came_from_a_cache(tmp_path: Path):
    """Of 22 053 requests, all were answered well."""
    levels, leaves = {"concurrency": "5"}, "cache/*"
    for made in (22_053, 22_060):
        trial(tmp_path, "wrk-reset", concurrency=5, leaves=leaves, left={"before": 7, "after": 7 + made})
        assert figures(parse_trial(levels, tmp_path))["requests"] == 22_053 + 1161
    trial(tmp_path, "wrk-reset", concurrency=5, leaves=leaves, left={"before": 7, "after": 7 + 22_052})
    with pytest.raises(ParseError, match=r"22053 requests were answered and the server left 22052 new files \(cache"):
        parse_trial(levels, tmp_path)


def test_what_a_server_used_is_a_share_of_the_processors_that_it_had(tmp_path: Path):
    levels = {"concurrency": "10"}
    found = figures(parse_trial(levels, trial(tmp_path, "wrk-ok", concurrency=10)))
    # From 1.25 s to 2.25 s of processor time, of 4 processors for 1.099723 s.
    assert found["server_cpu"] == pytest.approx(1 / (1.099723 * 4)) and found["server_peak_memory"] == 12_345
    unknown = (
        {"server": None},
        {"server": {"peak_memory_bytes": None, "effective": None}},
        {"server": {"effective": {"cpus": []}}},
        {"usage": {"before": used(1.0, None), "after": used(1.5, 0.75)}},
        {"usage": {"before": used(1.0, 0.25), "after": used(None, 0.75)}},
    )
    for changed in unknown:
        found = figures(parse_trial(levels, trial(tmp_path, "wrk-ok", concurrency=10, **changed)))
        assert "server_cpu" not in found and found["requests"] == 46_751
        assert ("server_peak_memory" in found) == ("usage" in changed)


@pytest.mark.parametrize(
    ("cpu", "threads", "share"),
    [
        (supervised(0.5, 0.25, 1.1), 1, 0.75 / 1.099723),
        (supervised(0.5, 0.25, 1.1), 2, 0.75 / 1.099723 / 2),
        (supervised(1.5, 0.25, 1.1), 1, 1.0),  # no more than all of it
        (supervised(None, 0.25, 1.1), 1, None),
        (supervised(0.5, None, 1.1), 1, None),
        (supervised(0.5, 0.25, None), 1, None),
        # The load took 1.0997 s. Of a longer life, an unknown part of the time was spent before and after the load.
        (supervised(0.5, 0.39, 1.1), 1, 0.89 / 1.099723),  # busy either way
        (supervised(0.5, 0.39, 1.25), 1, 0.89 / 1.099723),  # within 0.15 of the load
        (supervised(0.5, 0.39, 1.28), 1, None),  # 0.81 at most, 0.65 at least
        (supervised(0.5, 0.37, 1.28), 1, 0.87 / 1.099723),  # 0.79 at most, so it had room
        (supervised(0.7, 0.39, 1.28), 1, 1.09 / 1.099723),  # 0.83 at least, so it had none
    ],
)
def test_how_busy_a_generator_was_is_told_unless_it_could_be_either(
    tmp_path: Path, cpu: Mapping[str, Any], threads: int, share: float | None
):
    parsed = parse_trial({"concurrency": "10"}, trial(tmp_path, "wrk-ok", cpu=cpu, concurrency=10, threads=threads))
    assert figures(parsed).get("generator_cpu") == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("cpu", "lasts_s", "share", "server"),
    [
        (supervised(1.0, 0.2, 22.3), 22.0, 0.6, 0.125),  # 0.6 at most, while it sent
        (supervised(1.0, 0.9, 22.3), 22.0, None, 0.125),  # 0.95 at most, and 0.07 at least
        (supervised(2.0, 0.4, 2.5), 2.4, 1.0, 0.125),  # 0.96 at least
        (supervised(1.0, 0.2, 2.1), 2.0, 0.6, 0.125),
    ],
)
def test_one_late_response_does_not_make_k6_and_the_server_look_idle(
    tmp_path: Path, cpu: Mapping[str, Any], lasts_s: float, share: float | None, server: float
):
    """k6 sent for 2 s, and waited for the last response."""
    trial(tmp_path, "k6-ok", cpu=cpu, rate_per_s=200.0)
    summary = json.loads(text("k6-ok.json"))
    summary["state"]["testRunDurationMs"] = lasts_s * 1000
    put(tmp_path / "load" / "files" / "k6-summary.json", summary)
    found = figures(parse_trial({"rate": "200-per-s"}, tmp_path))
    assert found.get("generator_cpu") == (None if share is None else pytest.approx(share))
    # 1 s of processor time of 4 processors.
    assert found["server_cpu"] == pytest.approx(server)
    assert found["transfer_rate"] == pytest.approx(4_673_254 / 2 * 400 / 401) and found["duration"] == lasts_s


def test_a_server_that_works_until_the_last_response_used_no_more_than_it_had(tmp_path: Path):
    """3 s of one processor: requests were sent for 2 s, and the last response came after 3.3 s."""
    usage = {"before": used(0, 0), "after": used(2, 1)}
    trial(tmp_path, "k6-dropped", usage=usage, rate_per_s=500.0, server={"effective": {"cpus": [0]}})
    assert figures(parse_trial({"rate": "500-per-s"}, tmp_path))["server_cpu"] == 1.0


def test_a_trial_notes_what_is_wrong_with_its_load(tmp_path: Path):
    (problem,) = note_trial(trial(tmp_path, "wrk-hang", concurrency=5))["problems"]
    assert problem.startswith("little: throughput × mean latency is 0.00768 requests in flight on average, not 5:")
    with pytest.raises(ParseError, match="'siege' is not a generator that this version knows"):
        note_trial(trial(tmp_path, "wrk-hang", tool="siege"))


def test_requests_of_ab_that_are_missing_from_its_list_are_no_result(tmp_path: Path):
    trial(tmp_path, "ab-ok", concurrency=50)
    rows = (tmp_path / "load" / "files" / "ab.tsv").read_text().splitlines(keepends=True)
    put(tmp_path / "load" / "files" / "ab.tsv", "".join(rows[:-1]))
    with pytest.raises(ParseError, match=r"ab\.tsv is truncated: 19999 requests of 20000"):
        parse_trial({"concurrency": "50"}, tmp_path)
    (tmp_path / "load" / "files" / "ab.tsv").unlink()
    with pytest.raises(ParseError, match=r"the file ab\.tsv is missing"):
        parse_trial({"concurrency": "50"}, tmp_path)
    # ab writes no row for a request whose connection broke.
    put(tmp_path / "load" / "files" / "ab.tsv", "".join(rows[:-45]))
    broken = text("ab-ok.txt").replace("Failed requests:        0", "Failed requests:        45")
    where = "   (Connect: 0, Receive: 15, Length: 15, Exceptions: 15)\nKeep-Alive requests:"
    put(tmp_path / "load" / "stdout", broken.replace("Keep-Alive requests:", where))
    found = figures(parse_trial({"concurrency": "50"}, tmp_path))
    assert (found["errors_connect"], found["errors"], found["errors_length"]) == (15, 15, 0)
    assert found["throughput"] == pytest.approx(17_406.30 * 19_985 / 20_000)


# --- several clients -------------------------------------------------------------------------------------------------


def test_clients_are_one_sample_of_all_their_requests(tmp_path: Path):
    names = ("wrk-ok", "wrk-reset")
    parsed = parse_trial({"concurrency": "15", "clients": "2"}, trial(tmp_path, *names, concurrency=15))
    found, lines = figures(parsed), [json.loads(text(f"{name}.txt").splitlines()[-1]) for name in names]
    n = [46_751, 22_053]
    means, sds = [203.188531e-6, 197.880742e-6], [468.575613e-6, 229.685145e-6]
    mean = np.dot(n, means) / sum(n)
    # The squares of all times, from each client's own mean and deviation.
    squares = sum((count - 1) * sd**2 + count * m**2 for count, m, sd in zip(n, means, sds, strict=True))
    expected = {
        "throughput": 46_751 / 1.099723 + 22_053 / 1.000272,
        "requests": 68_804 + 1161, "errors": 1161, "errors_connect": 1161, "errors_status": 0, "errors_length": 0,
        "errors_timeout": 0, "transfer_rate": 544_836_154 / 1.099723 + 23_486_445 / 1.000272,
        "duration": 1.099723, "latency_min": 26e-6, "latency_max": 9459e-6, "latency_mean": mean,
        "latency_sd": math.sqrt((squares - sum(n) * mean**2) / (sum(n) - 1)),
        "concurrency_measured": 46_751 / 1.099723 * means[0] + 22_053 / 1.000272 * means[1],
        # The second client began a millisecond after the first, and ended before it.
        "client_skew": 0.001, "client_skew_share": 1 - 1.000272 / 1.099723, "client_clocks": 0.0002,
        # Of two threads, the second client's generator could use twice the time.
        "generator_cpu": 0.75 / 1.099723,
        "document_length": 77,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    counts: dict[tuple[int, int], int] = {}
    for line in lines:
        for low, high, count in line["latency_us"]["bins"]:
            counts[low, high] = counts.get((low, high), 0) + count
    rows = [(round(r["low_s"] * 1e6), round(r["high_s"] * 1e6), r["count"]) for r in parsed.series["histogram"]]
    assert rows == [(*edges, count) for edges, count in sorted(counts.items())]
    everything = np.repeat([(low + high) / 2e6 for low, high, _ in rows], [count for *_, count in rows])
    for percent in PERCENTS:
        nearest_rank = np.quantile(everything, percent / 100, method="inverted_cdf")
        assert found[f"latency_p{percent}"] == pytest.approx(nearest_rank)
    shown = [row["percent"] for row in parsed.series["percentiles"]]
    assert shown == sorted(shown) and {0, 50, 99.1, 99.9, 99.99, 100} <= set(shown)
    each = {(row["client"], row["metric"]): row["value"] for row in parsed.series["clients"]}
    assert (each[1, "requests"], each[2, "requests"], each[2, "errors_connect"]) == (46_751, 22_053 + 1161, 1161)
    assert each[2, "generator_cpu"] == pytest.approx(0.75 / 1.000272 / 2)
    problems = note_trial(tmp_path)["problems"]
    assert [problem[:25] for problem in problems] == [
        "client 1 on l1: little: t",
        "client 2 on l2: connectio",
        "client 2 on l2: little: t",
        "skew: for 9.04 % of the m",
    ]


def test_latencies_of_one_client_are_not_those_of_all(tmp_path: Path):
    """Of the second client, k6 has the times of broken connections among the others."""
    for names, known in ((("k6-broken", "k6-broken"), True), (("k6-broken", "k6-broken-mixed"), False)):
        folder = trial(tmp_path / names[-1], *names, rate_per_s=100.0)
        found = figures(parse_trial({"rate": "100-per-s", "clients": "2"}, folder))
        assert found["requests"] == 402
        assert ({"latency_p50", "latency_p99", "latency_mean"} <= found.keys()) is known
        assert any(name.startswith("latency") for name in found) is known


def test_clients_of_ab_are_read_to_the_millisecond_and_say_where_that_is_too_coarse(tmp_path: Path):
    parsed = parse_trial({"concurrency": "100", "clients": "2"}, trial(tmp_path, "ab-ok", "ab-ok", concurrency=100))
    found = figures(parsed)
    expected = {
        "requests": 40_000, "throughput": 40_000 / 1.150, "keepalive_requests": 40_000, "document_length": 11_413,
        "connect_mean": 0, "connect_max": 0.005, "processing_mean": 0.003, "processing_max": 0.114,
        "waiting_mean": 0.003, "waiting_max": 0.114, "latency_max": 0.113723, "latency_min": 0.000251,
        "latency_p99": 0.023,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert not {"latency_p50", "latency_p75", "latency_p95"} & found.keys()
    problems = note_trial(tmp_path)["problems"]
    assert "percentiles: the merged histogram is too coarse for p50, p66, p75, p80, p90, p95, p98" in problems[-1]


def test_clients_of_ab_that_end_at_different_times_have_a_rate_of_the_whole_time(tmp_path: Path):
    """Two clients of 20,000 requests each; one host takes 1.7 s, the other 4 s."""
    trial(tmp_path, "ab-ok", "ab-ok", concurrency=100)
    load = tmp_path / "load"
    told = json.loads((load / "clients.json").read_text())
    for client, lasted_s in zip(told["clients"], (1.7, 4.0), strict=True):
        client |= {"start_s": 1.7e9, "end_s": 1.7e9 + lasted_s}
        output = load / str(client["client"]) / "stdout"
        printed = output.read_text().replace("1.149 seconds", f"{lasted_s:.3f} seconds")
        put(output, printed.replace("17406.30", f"{20_000 / lasted_s:.2f}"))
    put(load / "clients.json", told)
    found = figures(parse_trial({"concurrency": "100", "clients": "2"}, tmp_path))
    assert found["throughput"] == 40_000 / 4 and found["throughput"] <= 40_000 / found["duration"]
    assert found["transfer_rate"] == pytest.approx(198_098.70 * 1024 * (1.7 + 4) / 4)
    # Each client had 20,000 requests under way for its mean latency.
    assert found["concurrency_measured"] == pytest.approx(40_000 * found["latency_mean"] / 4)
    assert found["client_skew"] == 0 and found["client_skew_share"] == pytest.approx(1 - 1.7 / 4)
    assert note_trial(tmp_path)["problems"][-1] == (
        "skew: for 57.5 % of the measured 4.00 s, not all clients sent load: they started 0 s apart, and ended 2.30 s "
        "apart"
    )


def test_clients_of_k6_share_the_rate_and_count_from_sending_if_one_dropped_an_arrival(tmp_path: Path):
    def together(*names: str, rate: int) -> dict[str, float]:
        folder = trial(tmp_path, *names, rate_per_s=float(rate))
        for path in folder.glob("load/*/files/k6-summary.json"):
            summary = json.loads(path.read_text())
            summary["load"]["rate"] *= 2  # each client is told the rate of both, and sends its half
            put(path, summary)
        return figures(parse_trial({"rate": f"{rate}-per-s", "clients": "2"}, folder))

    found = together("k6-ok", "k6-ok", rate=400)
    assert (found["requests"], found["offered"], found["dropped"]) == (802, 400, 0)
    assert found["achieved_share"] == pytest.approx(1, abs=1e-3)
    assert found["latency_mean"] == pytest.approx(1.275784e-3)
    assert "latency_sd" not in found
    found = together("k6-ok", "k6-dropped", rate=700)
    assert (found["requests"], found["dropped"], found["offered"]) == (668, 734, 700)
    assert found["latency_mean"] == pytest.approx((401 * 0.616704e-3 + 267 * 34.047844e-3) / 668)
    assert found["latency_max"] == pytest.approx(1.5023101) and found["latency_min"] == pytest.approx(0.126228e-3)
    assert found["duration"] == pytest.approx(3.344081172)


# --- summaries of other generators -----------------------------------------------------------------------------------


def test_every_figure_of_an_imported_summary(tmp_path: Path):
    put(tmp_path / "hey" / "hey.txt", text("hey.txt"))
    assert figures(parse_trial({"concurrency": "unknown"}, tmp_path / "hey")) == pytest.approx(
        {
            "requests": 200, "errors": 0, "errors_status": 0, "errors_connect": 0, "throughput": 200 / 0.2775,
            "duration": 0.2775, "latency_min": 0.0005, "latency_mean": 0.0065, "latency_max": 0.0374,
            "latency_p50": 0.0043, "latency_p75": 0.0083, "latency_p90": 0.0130, "latency_p95": 0.0185,
            "latency_p99": 0.0370, "concurrency_measured": 200 / 0.2775 * 0.0065,
        }
    )  # fmt: skip
    put(tmp_path / "k6" / "k6-export.json", text("k6-export.json"))
    found = parse_trial({}, tmp_path / "k6")
    assert figures(found) == pytest.approx(
        {
            "requests": 2150, "errors": 0, "throughput": 1071.5825517891362, "duration": 2150 / 1071.5825517891362,
            "latency_min": 0.312676e-3, "latency_mean": 3.4234987879069743e-3, "latency_max": 53.825435e-3,
            "latency_p50": 2.326249e-3, "latency_p90": 6.1998577e-3, "latency_p95": 8.515414899999993e-3,
            "connect_mean": 0.19150068e-3, "connect_max": 9.464374e-3, "waiting_mean": 2.9472287195348805e-3,
            "waiting_max": 53.723163e-3, "transfer_rate": 203_600.68483993586,
            "concurrency_measured": 1071.5825517891362 * 3.4234987879069743e-3,
        }
    )  # fmt: skip
    assert [row["percent"] for row in found.series["percentiles"]] == [50.0, 90.0, 95.0]
    assert imported_summary(tmp_path / "k6").told == {"vus": "4"}
    put(tmp_path / "locust" / "locust_stats.csv", (DATA / "load_users/bounded/locust_stats.csv").read_bytes())
    put(tmp_path / "locust" / "part.json", {"row": 1})
    found = figures(parse_trial({}, tmp_path / "locust"))
    expected = {
        "requests": 13, "errors": 0, "duration": 13 / 1.1400421518652228, "throughput": 1.1400421518652228,
        "latency_min": 1.725025002087932e-3, "latency_mean": 2.668454461784747e-3,
        "latency_max": 4.093409002962289e-3, "latency_p50": 0.003, "latency_p98": 0.004, "latency_p99": 0.004,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    put(tmp_path / "ab" / "ab.txt", text("ab-ok.txt"))
    found = figures(parse_trial({"concurrency": "50"}, tmp_path / "ab"))
    expected = {"latency_mean": 0.003, "latency_min": 0, "latency_max": 0.114, "latency_p50": 0.001, "requests": 20_000}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert imported_summary(tmp_path / "ab") is None


def test_answers_that_hey_counts_as_wrong_or_broken_are_errors():
    changed = text("hey.txt").replace(
        "[200]\t200 responses",
        "[200]\t100 responses\n  [299]\t40 responses\n  [199]\t7 responses\n  [300]\t13 responses",
    )
    changed += '\nError distribution:\n  [38]\tGet "http://x/": EOF\n  [2]\tGet "http://x/": timeout\n'
    values = {name: value for name, (value, _) in parse_hey(changed).values.items()}
    counted = {name: values[name] for name in ("requests", "errors", "errors_status", "errors_connect")}
    assert counted == {"requests": 200, "errors": 60, "errors_status": 20, "errors_connect": 40}
    assert values["throughput"] == pytest.approx(140 / 0.2775)


def test_a_summary_of_hey_without_any_response_has_no_latencies():
    values = parse_hey(text("hey-refused.txt")).values
    counts = {name: value for name, (value, _) in values.items() if not name.startswith(("errors_", "duration"))}
    assert counts == {"requests": 200, "errors": 200, "throughput": 0.0}
    assert (values["errors_connect"], values["errors_status"]) == ((200, "1"), (0, "1"))
    for whole, number, other in (("hey.txt", "0.0065", " NaN"), ("hey-refused.txt", " NaN", "0.0065")):
        with pytest.raises(ParseError, match="inconsistent: the mean of"):
            parse_hey(text(whole).replace(f"Average:\t{number}", f"Average:\t{other}"))
    with pytest.raises(ParseError, match="truncated: it has no 'Total'"):
        parse_hey(text("hey-refused.txt").replace("Total:\t0.0715", "Total:\t NaN"))


def test_failures_of_locust_are_errors_and_must_fit_their_rate():
    row = locust_rows((DATA / "load_users/bounded/locust_stats.csv").read_text())[0]
    for failures, per_s, accepted in ((3, 3 * 1.1400421518652228 / 13, True), (3, 0.2630, False), (3, 0.2631, False)):
        told = row | {"Failure Count": str(failures), "Failures/s": f"{per_s}"}
        if accepted:
            values = {name: value for name, (value, _) in parse_locust(told).values.items()}
            assert (values["errors"], values["requests"]) == (3, 13)
            assert parse_locust(told).problems == [
                "latency: 3 of 13 requests failed, and Locust times those, too: a connection that was refused takes "
                "about 0 s"
            ]
            assert values["throughput"] == pytest.approx(10 * 1.1400421518652228 / 13)
        else:
            with pytest.raises(ParseError, match="inconsistent: 3 failures in"):
                parse_locust(told)


def test_what_was_never_asked_for_is_no_row_of_locust():
    head, *rows = (DATA / "load_users/bounded/locust_stats.csv").read_text().splitlines()
    none = rows[0].replace(",13,0,", ",0,0,")
    assert len(locust_rows("\n".join([head, none, *rows]))) == len(rows) - 1, "their sum is no row either"
    with pytest.raises(ParseError, match="truncated: its last line lacks columns"):
        locust_rows("\n".join([head, *rows[:2], rows[2][:40]]))
    with pytest.raises(ParseError, match="Locust's table is damaged"):
        locust_rows("\n".join([head, rows[0].replace(",13,0,", ",1x,0,")]))


@pytest.mark.parametrize(
    ("changed", "accepted"),
    [
        # A tenth and a millisecond less is rounding. k6's own figures are 0.31, 2.33, 6.20, 8.52 and 53.8 ms.
        ({"p(95)": 4.6}, True),
        ({"p(95)": 4.5}, False),
        ({"max": 6.7}, True),
        ({"max": 6.6}, False),
        ({"min": 3.6}, True),
        ({"min": 3.8}, False),
        ({"avg": 53.825435}, True),
        ({"avg": 53.9}, False),
    ],
)
def test_latencies_of_a_summary_rise_but_for_rounding(changed: dict[str, float], accepted: bool):
    summary = json.loads(text("k6-export.json"))
    summary["metrics"]["http_req_duration"].update(changed)
    if accepted:
        assert parse_k6(json.dumps(summary)).values["requests"] == (2150, "1")
    else:
        with pytest.raises(ParseError, match="do not rise"):
            parse_k6(json.dumps(summary))


def test_counts_of_k6_are_of_one_duration():
    summary = json.loads(text("k6-export.json"))
    iterations = summary["metrics"]["iterations"]
    near = ((1 + 8e-7, True), (1 - 8e-7, True), (1 + 1.2e-6, False), (1 - 1.2e-6, False))
    for factor, accepted in (*near, (0.5, False), (2, False)):
        summary["metrics"]["iterations"] = iterations | {"rate": iterations["rate"] * factor}
        if accepted:
            assert parse_k6(json.dumps(summary)).values["requests"] == (2150, "1")
        else:
            with pytest.raises(ParseError, match="inconsistent: iterations is of"):
                parse_k6(json.dumps(summary))
    summary["metrics"]["iterations"] = {"count": 0, "rate": 0}
    summary["metrics"]["dropped_iterations"] = {"count": 7, "rate": 1}
    summary["metrics"]["http_req_failed"]["passes"] = 150
    values = {name: value for name, (value, _) in parse_k6(json.dumps(summary)).values.items()}
    assert (values["dropped"], values["errors"]) == (7, 150)
    assert values["throughput"] == pytest.approx(1071.5825517891362 * 2000 / 2150)
    nested = {name: {"type": "x", "values": metric} for name, metric in summary["metrics"].items()}
    assert parse_k6(json.dumps({"metrics": nested})).values == parse_k6(json.dumps(summary)).values


def test_requests_of_k6_are_not_called_successful_if_their_failures_were_not_counted():
    """k6 before 0.31 has no http_req_failed."""
    summary = json.loads(text("k6-export.json"))
    del summary["metrics"]["http_req_failed"]
    values = {name: value for name, (value, _) in parse_k6(json.dumps(summary)).values.items()}
    assert (values["requests"], values["errors"], values["throughput"]) == (2150, None, None)


def test_bodies_that_nobody_checked_are_not_counted_as_right(tmp_path):
    checked = text("wrk-ok.txt")
    assert '"checked":true' in checked
    for name, output in (("checked", checked), ("unchecked", checked.replace('"checked":true', '"checked":false'))):
        put(tmp_path / name / "stdout", output)
    assert parse_load("wrk", tmp_path / "checked").values["errors_length"] == (0, "1")
    unchecked = parse_load("wrk", tmp_path / "unchecked").values
    assert unchecked["errors_length"] == (None, "1") and unchecked["errors_status"] == (0, "1")
    assert ab_load(parse_ab(text("ab-vary-l.txt")), None, None).values["errors_length"] == (None, "1")


@pytest.mark.parametrize("requests", [1, 10, 50])
def test_percentiles_of_few_requests_are_none_that_ab_read_beyond_its_times(requests: int):
    """p99 was 0.257 ms where the longest of ten requests took 59.769 ms."""
    result, read = parse_ab(text(f"ab-n{requests}.txt")), parse_ab_percentiles(text(f"ab-n{requests}.csv"))
    assert [seconds for _, seconds in read] != sorted(seconds for _, seconds in read), "the capture has ab's fault"
    load = ab_load(result, read, None)
    rising = [seconds for _, seconds in load.percentiles]
    assert rising == sorted(rising) and rising[:50] == [seconds for _, seconds in read][:50]
    assert load.values["latency_p99"] == load.values["latency_max"] == (read[100][1], "s")
    assert abs((load.values["latency_mean"][0] or 0.0) - result.times["total"].mean) <= 0.0005
    assert not load.problems


def test_two_summaries_in_one_text_are_refused():
    with pytest.raises(ParseError, match="several summaries of hey"):
        parse_hey(text("hey.txt") * 2)


def test_hey_is_known_by_all_of_its_headings():
    whole = text("hey.txt")
    assert is_hey(whole)
    for heading in ("Latency distribution:", "Status code distribution:", "Requests/sec:"):
        assert not is_hey(whole.replace(heading, "")) and not is_hey(heading)


@pytest.mark.parametrize(("rate", "accepted"), [(720.60, True), (720.84, True), (720.3, False), (721.1, False)])
def test_the_rate_of_hey_may_differ_by_its_rounded_duration(rate: float, accepted: bool):
    """200 requests in 0.27745 s to 0.27755 s are 720.59 to 720.85 per second."""
    changed = text("hey.txt").replace("720.6436", f"{rate}")
    if accepted:
        assert parse_hey(changed).values["requests"] == (200, "1")
    else:
        with pytest.raises(ParseError, match=r"200 requests in 0\.2775 s are not"):
            parse_hey(changed)


def test_summaries_that_lack_something_are_refused():
    whole = json.loads(text("k6-export.json"))
    for missing in ("http_reqs", "http_req_duration", "http_req_connecting", "http_req_waiting"):
        metrics = {name: metric for name, metric in whole["metrics"].items() if name != missing}
        with pytest.raises(ParseError, match=f"k6's summary lacks what k6 writes.*{missing}"):
            parse_k6(json.dumps({"metrics": metrics}))
    with pytest.raises(ParseError, match="hey's summary is damaged"):
        parse_hey(text("hey.txt").replace("0.2775", "0.2.775"))
    with pytest.raises(ParseError, match="Locust's table lacks"):
        parse_locust({"Request Count": "3"})


# --- the commands of generators --------------------------------------------------------------------------------------


URL = "http://192.0.2.1:8080/page?x=1"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        # By ab's manual: -k keep-alive, -r go on after errors, -l lengths may differ, -s timeout (30 s by default).
        ({"requests": 5000}, "-k -c 8 -n 5000"),
        ({"requests": 5000, "duration": 9.0}, "-k -c 8 -t 9 -n 5000"),
        ({"requests": 5000, "request_timeout": 60.0}, "-k -s 60 -c 8 -n 5000"),
        ({"requests": 5000, "request_timeout": 29.0}, "-k -s 29 -c 8 -n 5000"),
        ({"requests": 5000, "request_timeout": 31.0}, "-k -s 31 -c 8 -n 5000"),
        ({"requests": 5000, "survive_errors": True, "same_length": False}, "-k -r -l -c 8 -n 5000"),
        ({"requests": 3}, "-k -c 8 -n 8"),  # ab refuses fewer requests than connections
        ({"requests": 5000, "warm_up": 100, "is_warm_up": True}, "-k -c 8 -n 100"),
        ({"requests": 5000, "duration": 9.0, "warm_up": 100, "is_warm_up": True}, "-k -c 8 -n 100"),
        ({"requests": 5000, "warm_up": 100}, "-k -c 8 -n 5000"),
        ({"requests": 5000, "warm_up": 2.0, "is_warm_up": True}, "-k -c 8 -t 2 -n 5000"),
        ({"requests": 5001, "client": 1, "clients": 3}, "-k -c 3 -n 1667"),
        ({"requests": 5001, "client": 3, "clients": 3}, "-k -c 2 -n 1667"),
    ],
)
def test_the_command_line_of_ab(given: dict[str, Any], options: str):
    given["warm_up"], is_warm_up = given.get("warm_up"), given.pop("is_warm_up", False)
    made = replace(load("ab", 8, **given), warm_up=is_warm_up)
    assert made.argv() == ["/tools/ab", *options.split(), "-g", "ab.tsv", "-e", "ab.csv", URL]
    assert (made.threads, made.environment()) == (1, {"LC_ALL": "C"})


def test_headers_of_ab_are_in_its_command_line_and_those_of_others_are_not():
    headers = {"Cookie": "a=b", "X-Kind": "x y"}
    assert load("ab", 8, requests=10, headers=headers).argv()[-5:] == ["-H", "Cookie: a=b", "-H", "X-Kind: x y", URL]
    for made in (load("wrk", 8, duration=3.0, headers=headers), load("k6", None, 20.0, duration=3.0, headers=headers)):
        assert not any("Cookie" in word for word in made.argv())
        assert made.environment()["BENCHSTUDY_HTTP_HEADERS"] == "Cookie: a=b\nX-Kind: x y"


def named(environment: Mapping[str, str]) -> dict[str, str]:
    """What our scripts read."""
    prefix = "BENCHSTUDY_HTTP_"
    return {name.removeprefix(prefix): value for name, value in environment.items() if name.startswith(prefix)}


def test_the_command_line_of_wrk_and_what_its_script_is_told():
    made = load("wrk", 12, duration=3.0, threads=4, request_timeout=7.0, warm_up=2.0, first=100)
    words = "--threads 4 --connections 12 --duration 3s --timeout 7s --latency --script /scripts/wrk.lua"
    made = replace(made, warm_up=False)
    assert made.argv() == ["/tools/wrk", *words.split(), "http://192.0.2.1:8080"]
    assert replace(made, warm_up=True).argv() == [word.replace("3s", "2s") for word in made.argv()]
    assert made.environment()["LC_ALL"] == "C"
    told = {"STATUS": "200", "LENGTH": "1000", "PATH": "/page?x=1"}
    assert named(made.environment()) == told | {"FIRST": "100", "THREADS": "4", "CONNECTIONS": "12"}
    unchecked = replace(made, generator=made.generator.model_copy(update={"check_answers": False}))
    assert named(unchecked.environment())["CHECK"] == "none"
    assert "LENGTH" not in named(replace(made, same_length=False).environment())
    # wrk refuses fewer connections than threads.
    few = replace(made, concurrency=3)
    assert few.threads == 3 and few.argv()[1:5] == ["--threads", "3", "--connections", "3"]
    assert named(few.environment())["THREADS"] == "3"


@pytest.mark.parametrize(
    ("connections", "given", "threads"),
    [(5, 2, 1), (6, 2, 2), (10, 4, 2), (12, 5, 4), (7, 7, 7), (7, 8, 7), (101, 8, 1), (1, 4, 1), (1000, 8, 8)],
)
def test_wrk_opens_every_connection_because_its_threads_divide_them(connections: int, given: int, threads: int):
    made = load("wrk", connections, duration=3.0, threads=given)
    assert made.argv()[1:5] == ["--threads", f"{threads}", "--connections", f"{connections}"]
    assert named(made.environment())["THREADS"] == f"{threads}"
    # Each client opens a part of the connections.
    parts = [load("wrk", 10, duration=3.0, threads=2, client=client, clients=3) for client in (1, 2, 3)]
    assert [(part.connections, part.threads) for part in parts] == [(4, 2), (3, 1), (3, 1)]


def test_clients_of_wrk_ask_for_numbers_of_their_own():
    """A thread takes its first number, and then each of all threads later: as many series as there are threads."""
    clients = [
        load("wrk", 10, duration=3.0, threads=4, first=100, client=client, clients=3).environment()
        for client in (1, 2, 3)
    ]
    told = [named(environment) for environment in clients]
    assert [(one["FIRST"], one["THREADS"], one["CONNECTIONS"]) for one in told] == [
        ("100", "12", "4"),
        ("104", "12", "3"),
        ("108", "12", "3"),
    ]


def test_the_command_line_of_k6_and_what_its_script_is_told():
    made = load("k6", None, 100 / 60, duration=2.5, max_in_flight=30, request_timeout=4.0, first=7)
    words = ["/tools/k6", "run", "--quiet", "--no-color", "--address", ""]
    assert made.argv() == [*words, "/scripts/k6.js"]
    environment = made.environment()
    assert named(environment) == {
        "STATUS": "200",
        "LENGTH": "1000",
        "URL": URL,
        "FIRST": "7",
        "RATE": "1.6666666666666667",
        "DURATION": "2.5",
        "TIMEOUT": "4",
        "VUS": "30",
    }
    assert environment["K6_NO_USAGE_REPORT"] == "true" and made.threads is None
    # k6 splits the schedule of arrivals by itself, if each instance is told its segment and all edges.
    parts = [replace(made, client=client, clients=3).argv()[len(words) : -1] for client in (1, 2, 3)]
    assert parts == [
        ["--execution-segment", segment, "--execution-segment-sequence", "0,1/3,2/3,1"]
        for segment in ("0:1/3", "1/3:2/3", "2/3:1")
    ]
    assert named(replace(made, client=2, clients=3).environment())["RATE"] == "1.6666666666666667"


def test_a_generator_may_open_a_file_per_connection_and_some_more():
    assert [load("ab", n, requests=9).open_files - n for n in (1, 50, 60_000)] == [128] * 3
    assert load("ab", 51, requests=9, client=2, clients=2).open_files == 25 + 128
    assert load("k6", None, 20.0, duration=1.0, max_in_flight=300).open_files == 300 + 128


def test_a_script_is_told_what_a_good_answer_is_and_no_more_than_it_was_given():
    given = {"duration": 1.0, "first": 5, "headers": {"A": "b:c"}}
    for made in (load("wrk", 1, **given), load("k6", rate_per_s=1.0, **given)):
        told = {"STATUS": "204", "LENGTH": "0", "TEXT": "yes", "FIRST": "5", "HEADERS": "A: b:c"}
        expect = Expect(status=204, length=0, text="yes")
        assert named(replace(made, expect=expect).environment()).items() >= told.items()
        least = replace(made, expect=Expect(content_type="text/html"), headers={})
        assert not {"LENGTH", "TEXT", "HEADERS", "CHECK"} & named(least.environment()).keys()
        with pytest.raises(ValueError, match="header") as caught:
            replace(made, headers={"Cookie": "secret\r\nX: y"}).environment()
        assert "secret" not in str(caught.value)
