"""What workers record, what the master makes of it, and what the parser reads from the master's files.

The master's own code writes the files, by a clock that the test sets.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_file import every, figures, write_trial

from benchstudy.families.load_test.locust import CLIPPED, parse_load
from benchstudy.families.load_test.users.on_host import master
from benchstudy.families.load_test.users.on_host.alerts import (
    ALERT,
    IGNORED,
    OK,
    UNKNOWN,
)
from benchstudy.families.load_test.users.on_host.feedback import (
    AT_MAXIMUM,
    SETTLED,
    STARTING,
    SWINGING,
    TOO_LONG,
    UNBRACKETED,
)
from benchstudy.families.load_test.users.on_host.master import Collector
from benchstudy.families.load_test.users.on_host.plan import Plan
from benchstudy.families.load_test.users.on_host.recording import (
    CLIENT_ERROR,
    DROPPED,
    EVENT,
    HTTP,
    NO_ANSWER,
    SERVER_ERROR,
    TIMEOUT,
    UNEXPECTED,
    WEBSOCKET,
    Recorder,
)
from benchstudy.model.family import ParseError

BEGAN_S = 1_795_000_000.0
CONSTANTS = {
    "max_users": 40,
    "step": 2,
    "every_s": 1.0,
    "slope": 0.5,
    "window_s": 15.0,
    "at_most_s": 90.0,
    "start_up_s": 8.0,
}
CONSTANTS["swing"] = 0.5
ALERTS = [{"name": "cpu", "above": 0.85, "ignore_first_s": 5.0, "query": "q"}]
ALERTS += [{"name": "client_mean", "above": 0.1, "ignore_first_s": 2.0}]
RULE = {"constants": CONSTANTS, "alerts": ALERTS, "alert_window_s": 3.0}
PLAN: dict[str, Any] = {
    "system": "mattermost", "url": "http://s", "accounts": [["a", "secret"], ["b", "secret"]], "actions": {"post": 1.0},
    "think_least_s": 0.1, "think_mean_s": 1.0, "rates": [[1.0, 0.75], [2.0, 0.25]], "pauses": 1.0, "like": "original",
    "replies": 0.5, "uploads": 0.0, "request_timeout_s": 30.0, "arrival_s": 10.0, "seed": "1-1", "workers": 2,
    "users": 12, "ramp_s": 1.0, "duration_s": 6.0, "rule": None, "prometheus_url": "http://p", "address": "127.0.0.1",
    "metrics_port": 0, "interval_s": 1.0,
}  # fmt: skip


# --- a load -----------------------------------------------------------------------------------------------------

# By second in which they are reported, and worker: label, kind, seconds, failure.
REPORTS: dict[int, dict[str, list[tuple[str, str, float, str | None]]]] = {
    1: {"one": [("log_in/users", HTTP, 9.0, None)], "two": []},
    2: {"one": [("post/send", HTTP, 0.125, None)] * 4, "two": [("post/send", HTTP, 0.5, SERVER_ERROR)]},
    3: {"one": [("view/posts", HTTP, 0.25, None), ("view/posts", HTTP, 0.75, TIMEOUT)], "two": []},
    4: {
        "one": [("view/images", HTTP, 0.25, CLIENT_ERROR), ("view/websocket", WEBSOCKET, 3.0, NO_ANSWER)],
        "two": [("post/delivery", EVENT, 0.5, None), ("post/delivery", EVENT, 1.0, None)],
    },
    5: {"one": [("post/send", HTTP, 0.25, UNEXPECTED)], "two": [("post/send", HTTP, 0.125, NO_ANSWER)]},
    6: {"one": [("view/posts", HTTP, 7.0, SERVER_ERROR)], "two": []},
}
STEADY = range(2, 6)  # the intervals that end at 2, 3, 4 and 5 s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """Seconds since the start of the load."""
    monkeypatch.chdir(tmp_path)
    now = SimpleNamespace(s=0.0)
    passing = {"time": lambda: BEGAN_S + now.s, "monotonic": lambda: 0.5 + now.s, "process_time": lambda: now.s / 8}
    monkeypatch.setattr(master, "time", SimpleNamespace(**passing))
    return now


def run_load(clock: SimpleNamespace, plan: Mapping[str, Any] = PLAN, **outcome: Any) -> Collector:
    collector = Collector(Plan.read(plan))
    for second, of_worker in REPORTS.items():
        for number, (name, requests) in enumerate(of_worker.items()):
            clock.s = second - 0.5
            recorder = Recorder()
            for label, kind, seconds, failure in requests:
                recorder.records.add(label, kind, seconds, failure, f"{label} at {second}")
            if second == 3:
                recorder.records.fail("view/websocket", DROPPED, "gone")
            recorder.records.events = second
            recorder.ready, recorder.websockets = second, 2 * second
            report = {
                **recorder.report(),
                "rss_bytes": 1000 * second,
                "cpu_s": 50 * number + second * (0.25 + 0.5 * number),
                "host": "h",
            }
            collector.wanted = 10 * second
            collector.take(name, json.loads(json.dumps(report), object_hook=_with_numbers), users=second + number)
        clock.s = float(second)
        collector.tell_users()
        collector.write_interval()
    clock.s = 6.25
    collector.close({"problems": ["told"], "mode": "bounded", **outcome})
    return collector


def _with_numbers(found: dict[str, Any]) -> dict[Any, Any]:
    """msgpack keeps numbers as keys, JSON does not."""
    return {int(key) if key.isdigit() else key: value for key, value in found.items()}


def steady_requests(*kinds: str) -> list[tuple[str, str, float, str | None]]:
    found = [each for second in STEADY for of in REPORTS[second].values() for each in of]
    return [each for each in found if each[1] in kinds]


def parsed(folder: Path, clock_s: float = 0.0) -> Any:
    began_s = BEGAN_S - clock_s
    return parse_load(folder, began_s - 10, (began_s + 1, began_s + 5), clock_s)


def test_figures_of_clients_are_those_of_what_workers_reported_in_the_steady_time(clock, tmp_path):
    run_load(clock)
    http = steady_requests(HTTP)
    times = [seconds for _, _, seconds, failure in http if failure != NO_ANSWER]
    for clock_s in (0.0, 7.5, -3.0):
        load = parsed(tmp_path, clock_s)
        values = {name: value for name, (value, _) in load.values.items()}
        assert values["client_requests"] == len(http) == 10
        assert values["client_rate"] == len(http) / 4
        assert values["client_mean"] == pytest.approx(sum(times) / len(times))
        # 5xx, a timeout and no answer are errors of the server; 4xx and answers of no use are not.
        assert values["client_errors"] == pytest.approx(3 / 10)
        assert values["client_p50"] == pytest.approx(sorted(times)[4], rel=1 / 128)  # of nine
        assert not {"client_p95", "client_p99"} & values.keys(), "ten requests have no such percentile"
        assert (values["users"], values["users_max"]) == ((3 + 5 + 7 + 9 + 11) / 5, 11)
        # Worker "two" used 3/4 s of its processor per second, the other 1/4.
        assert values["generator_cpu"] == pytest.approx(0.75)
        assert values["events"] == 2 * (2 + 3 + 4 + 5)
        units = {name: unit for name, (_, unit) in load.values.items()}
        assert {name for name, unit in units.items() if unit != "1"} == {"client_rate", "client_mean", "client_p50"}
        assert units["client_rate"] == "1/s" and units["client_mean"] == units["client_p50"] == "s"


def test_without_any_answer_there_are_errors_and_no_time(clock, tmp_path, monkeypatch):
    """A refused connection takes about 0 s, which is no time that a server needs."""
    refused = {second: {"one": [("post/send", HTTP, 0.001, NO_ANSWER)] * 60} for second in (2, 3)}
    monkeypatch.setattr("test_load_test_master.REPORTS", {1: {"one": []}, **refused})
    run_load(clock)
    values = {name: value for name, (value, _) in parsed(tmp_path).values.items() if name.startswith("client_")}
    assert values == {"client_requests": 120, "client_rate": pytest.approx(60, rel=0.01), "client_errors": 1}


def test_a_request_that_lacks_its_time_without_a_reason_is_damage(clock, tmp_path):
    run_load(clock)
    log = tmp_path / "histograms.hlog"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if not line.startswith("Tag=view/posts,2.000")))
    with pytest.raises(ParseError, match=r"histograms\.hlog has 0 of 2 requests view/posts"):
        parsed(tmp_path)


def test_a_worker_with_one_row_has_no_share_of_a_processor(clock, tmp_path):
    run_load(clock)
    workers = tmp_path / "workers.csv"
    head, *rows = workers.read_text().splitlines(keepends=True)
    without_two = [row for row in rows if row.split(",")[1] != "1" or row.startswith("3.000")]
    workers.write_text("".join([head, *without_two]))
    assert parsed(tmp_path).values["generator_cpu"] == (pytest.approx(0.25), "1")
    without_both = [row for row in rows if row.split(",")[1] == "master" or row.startswith("3.000")]
    workers.write_text("".join([head, *without_both]))
    assert "generator_cpu" not in parsed(tmp_path).values


def test_a_table_has_a_row_per_action_and_rows_for_websockets_and_deliveries(clock, tmp_path):
    run_load(clock)
    load = parsed(tmp_path)
    rows = {row["action"]: row for row in load.series["client"]}
    of_action: dict[str, list[float]] = {
        "post": [t for label, _, t, why in steady_requests(HTTP) if label.startswith("post/") and why != NO_ANSWER],
        "view": [t for label, _, t, _ in steady_requests(HTTP) if label.startswith("view/")],
        "connect": [],
        "delivery": [0.5, 1.0],
    }
    assert list(rows) == sorted(of_action), "what was before the steady time is not of it"
    for action, times in of_action.items():
        row = rows[action]
        unanswered = {"post": 1, "connect": 1}.get(action, 0)
        assert (row["count"], row["timed"]) == (len(times) + unanswered, len(times))
        if not times:
            assert {row[name] for name in ("mean_s", "p50_s", "p95_s", "p99_s")} == {None}
            continue
        assert row["mean_s"] == pytest.approx(sum(times) / len(times))
        for name, share in (("p50_s", 0.5), ("p95_s", 0.95), ("p99_s", 0.99)):
            assert row[name] == pytest.approx(sorted(times)[math.ceil(share * len(times)) - 1], rel=1 / 128)
        histogram_rows = [r for r in load.series["client_histogram"] if r["action"] == action]
        for low, high, count in ((r["low_s"], r["high_s"], r["count"]) for r in histogram_rows):
            assert count == sum(low <= t < high for t in times)
        assert [r["low_s"] for r in histogram_rows] == sorted({r["low_s"] for r in histogram_rows})
        assert sum(r["count"] for r in histogram_rows) == len(times)
    # A websocket that broke is a failure of connecting, beside the one that had no answer.
    assert {action: row["failures"] for action, row in rows.items()} == {
        "post": 3,
        "view": 2,
        "connect": 3,
        "delivery": 0,
    }


def test_users_are_told_over_the_whole_load(clock, tmp_path):
    run_load(clock)
    load = parsed(tmp_path, -2.0)
    assert load.series["users"] == [
        {"t_s": pytest.approx(10.0 + second), "users": 2 * second + 1, "alert": None} for second in REPORTS
    ]
    assert load.series["checks"] == load.series["search"] == []


def test_the_masters_files_hold_what_workers_said(clock, tmp_path):
    collector = run_load(clock)
    table = {path.name: list(csv.DictReader(path.open(newline=""))) for path in tmp_path.glob("*.csv")}
    third = [row for row in table["workers.csv"] if row["t_s"] == "3.000"]
    told = [[row[name] for name in ("worker", "host", "users", "ready", "cpu_s", "rss_bytes")] for row in third]
    assert told[:2] == [["0", "h", "3", "3", "0.750", "3000"], ["1", "h", "4", "3", "52.250", "3000"]]
    assert [told[2][0], *told[2][2:]] == ["master", "0", "0", "0.375", "0"]
    users = [[row[name] for name in ("users", "wanted", "ready", "websockets", "events")] for row in table["users.csv"]]
    assert users[2] == ["7", "30", "6", "12", "12"] and users[5][4] == "42"
    sent = [row for row in table["requests.csv"] if row["request"] == "post/send"]
    numbers = [
        [float(row[name]) for name in ("t_s", "length_s", "count", "failures", "sum_s", "max_s")] for row in sent
    ]
    assert numbers == [[1, 1, 5, 1, 1.0, 0.5], [4, 1, 2, 2, 0.25, 0.25]]
    failed = [(row["t_s"], row["request"], row["failure"], row["count"]) for row in table["failures.csv"]]
    assert ("2.000", "view/websocket", "dropped", "2") in failed and len(failed) == 8
    assert {row["example"] for row in table["failures.csv"]} >= {"post/send at 2", "gone", "view/images at 4"}
    assert (collector.users, collector.ready, collector.now_s) == (13, 12, 6.25)
    result = json.loads((tmp_path / "load.json").read_text())
    assert (result["schema"], result["started_unix_s"], result["plan"]["accounts"]) == (1, BEGAN_S, 2)
    assert "secret" not in (tmp_path / "load.json").read_text()
    assert result["workers"] == [{"worker": 0, "host": "h"}, {"worker": 1, "host": "h"}]
    unusable = "1 answers could not be used by the simulated client, most often of post/send: post/send at 5"
    assert result["problems"] == ["told", "2 websockets broke while the load went on", unusable]
    assert list(parsed(tmp_path).problems) == result["problems"]
    assert not (tmp_path / "load.json.part").exists()
    log = (tmp_path / "histograms.hlog").read_text()
    assert f"#[StartTime: {BEGAN_S:.3f} (seconds since epoch)]" in log
    # The largest value of a line is the upper edge of its bucket, in ms.
    first = next(line for line in log.splitlines() if line.startswith("Tag=log_in/users,0.000,1.000,"))
    assert float(first.split(",")[3]) == pytest.approx(9000, rel=1 / 128) and float(first.split(",")[3]) > 9000


def test_before_any_report_there_are_no_users(clock, tmp_path):
    collector = Collector(Plan.read(PLAN))
    clock.s = 0.5
    collector.tell_users()
    assert (tmp_path / "users.csv").read_text().splitlines()[1] == "0.500,0,0,0,0,0,"


def test_a_load_without_trouble_tells_none(clock, tmp_path, monkeypatch):
    monkeypatch.setattr("test_load_test_master.REPORTS", {1: {"one": [("post/send", HTTP, 0.5, None)]}})
    run_load(clock)
    assert json.loads((tmp_path / "load.json").read_text())["problems"] == ["told"]


def test_checks_are_told_with_their_values_and_the_master_knows_what_alerts(clock, tmp_path):
    collector = Collector(Plan.read({**PLAN, "users": None, "rule": RULE}))
    assert collector.plan.rule.alerts[0].state(4.9, 1.0) == IGNORED
    collector.tell_check(4.0, 9, [("cpu", 0.5, 0.85, IGNORED), ("client_mean", None, 0.1, "unknown")])
    assert collector.alerts == ()
    collector.tell_check(
        5.25, 11, [("cpu", 0.901234567, 0.85, ALERT), ("client_mean", 0.25, 0.1, ALERT), ("x", 1, 2, OK)]
    )
    assert collector.alerts == ("cpu", "client_mean")
    clock.s = 6.0
    collector.tell_users()
    collector.close({"problems": []})
    rows = list(csv.reader((tmp_path / "alerts.csv").open(newline="")))
    assert rows[1:] == [
        ["4.000", "9", "cpu", "0.5", "0.85", "ignored"],
        ["4.000", "9", "client_mean", "", "0.1", "unknown"],
        ["5.250", "11", "cpu", "0.901235", "0.85", "alert"],
        ["5.250", "11", "client_mean", "0.25", "0.1", "alert"],
        ["5.250", "11", "x", "1", "2", "ok"],
    ]
    assert (tmp_path / "users.csv").read_text().splitlines()[1].endswith(",cpu+client_mean")
    assert collector.recently.window_s == 3 and Collector(Plan.read(PLAN)).recently.window_s == 60


def test_a_plan_is_read_with_its_rates_accounts_and_rule():
    bounded, unbounded = Plan.read(PLAN), Plan.read({**PLAN, "users": None, "rule": RULE})
    assert bounded.rates == ((1.0, 0.75), (2.0, 0.25))
    assert (bounded.accounts[1].username, bounded.accounts[1].password) == ("b", "secret")
    assert (unbounded.rule.constants.max_users, unbounded.rule.alert_window_s) == (40, 3)
    with pytest.raises(TypeError, match="more"):
        Plan.read({**PLAN, "more": 1})


@pytest.mark.parametrize("clock_s", [2.5, 0.0, None])
def test_a_trial_has_its_load_on_the_clock_of_prometheus(clock, tmp_path, clock_s: float | None):
    run_load(clock)
    trial, ahead_s = tmp_path / "trial", clock_s or 0.0
    began_s = BEGAN_S - ahead_s
    metrics = {"go_goroutines": [({"instance": "a"}, every(1, began_s - 5, [7.0] * 15))]}
    told = {"clock": None if clock_s is None else {"load_minus_prometheus_s": clock_s}}
    write_trial(trial, metrics, (began_s - 5, began_s + 9), (began_s + 1, began_s + 5), width_s=5, **told)
    (trial / "load" / "files").mkdir(parents=True)
    for path in [each for each in tmp_path.iterdir() if each.is_file()]:
        path.rename(trial / "load" / "files" / path.name)
    values, series = figures(trial)
    assert (values["client_requests"], values["goroutines"], values["users"]) == (10, 7, 7)
    assert [row["t_s"] for row in series["users"]] == [pytest.approx(5.0 + second) for second in REPORTS]
    assert {row["action"] for row in series["client"]} == {"connect", "delivery", "post", "view"}
    assert series["client_histogram"] and series["checks"] == series["search"] == []


# --- limits of the steady time ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin_s", "end_s", "requests", "users"),
    [
        (1, 5, 10, [3, 5, 7, 9, 11]),
        (1.0009, 4.9991, 10, [5, 7, 9]),  # the files have milliseconds
        (1.002, 5, 5, [5, 7, 9, 11]),
        (1, 4.998, 8, [3, 5, 7, 9]),
        (1.5, 4.5, 3, [5, 7, 9]),
        (0, 6.5, 12, [3, 5, 7, 9, 11, 13]),
    ],
)
def test_only_whole_intervals_within_the_steady_time_count(clock, tmp_path, begin_s, end_s, requests, users):
    run_load(clock)
    load = parse_load(tmp_path, BEGAN_S, (BEGAN_S + begin_s, BEGAN_S + end_s))
    assert load.values["client_requests"][0] == requests
    if begin_s in (1, 1.5, 1.002, 0):
        assert load.values["users"][0] == pytest.approx(sum(users) / len(users))


@pytest.mark.parametrize(
    ("begin_s", "end_s", "said"),
    [
        (5, 5.5, "no request ended within the steady time: the server answered none, or the time is shorter than an"),
        (5.1, 5.9, "the users made no request within the steady time: is it of another clock"),
        (20, 30, "no request within the steady time: is it of another clock"),
    ],
)
def test_a_steady_time_without_requests_is_of_another_clock_if_it_has_no_users_either(
    clock, tmp_path, begin_s, end_s, said
):
    run_load(clock)
    with pytest.raises(ParseError, match=said):
        parse_load(tmp_path, BEGAN_S, (BEGAN_S + begin_s, BEGAN_S + end_s))


def test_a_server_that_hangs_answers_no_request_of_the_steady_time(clock, tmp_path, monkeypatch):
    none = {second: {"one": []} for second in range(2, 7)}
    monkeypatch.setattr("test_load_test_master.REPORTS", {1: {"one": [("post/send", HTTP, 0.5, None)]}, **none})
    run_load(clock)
    with pytest.raises(ParseError, match="no request ended within the steady time: the server answered none"):
        parse_load(tmp_path, BEGAN_S, (BEGAN_S + 2, BEGAN_S + 5))


# --- the search of an unbounded load ----------------------------------------------------------------------------


def searched(folder: Path, checks: Sequence[tuple[float, int, str]], **changes: Any) -> Any:
    """The parser's result for a search that ended at 40 s, with these checks: time, users, state of the cpu."""
    result = {
        "why": SETTLED, "supported": 11.5, "slope": 0.125, "begin_s": 25.0, "end_s": 40.0,
        "bracket": {"low": 10, "high": 12}, "alerted": {"cpu": 0.5}, "first_alert": "cpu", "limited_by": "cpu",
    }  # fmt: skip
    told = json.loads((folder / "load.json").read_text())
    told["result"] = {**result, **changes}
    (folder / "load.json").write_text(json.dumps(told))
    with (folder / "alerts.csv").open("w", newline="") as file:
        rows = [(f"{t_s:.3f}", users, "cpu", "", 0.85, state) for t_s, users, state in checks]
        quiet = [(f"{t_s:.3f}", users, "client_mean", "", 0.1, OK) for t_s, users, _ in checks]
        every = [row for pair in zip(rows, quiet, strict=True) for row in pair]
        csv.writer(file).writerows([("t_s", "users", "alert", "value", "above", "state"), *every])
    return parsed(folder)


def taking_turns(least: int = 10, most: int = 12) -> list[tuple[float, int, str]]:
    """A check per second from 1 to 40: the most users always alert, and the fewest never."""
    return [(float(t_s), (least, most)[t_s % 2], (OK, ALERT)[t_s % 2]) for t_s in range(1, 41)]


@pytest.fixture
def folder(clock, tmp_path) -> Iterator[Path]:
    run_load(clock, {**PLAN, "users": None, "rule": RULE})
    yield tmp_path


def test_a_search_that_settled_is_told_with_its_number(folder: Path):
    load = searched(folder, taking_turns())
    users = [(10, 12)[t_s % 2] for t_s in range(26, 41)]
    assert load.series["search"] == [
        {
            "why": SETTLED, "limited_by": "cpu", "supported": 11.5, "slope": 0.125, "least": 10, "most": 12,
            "swing": pytest.approx(2 / (sum(users) / 15)), "passed": 10, "failed": 12, "bracket_low": 10,
            "bracket_high": 12, "max_users": 40, "checks": 15, "clipped": 0,
        }
    ]  # fmt: skip
    values = {name: load.values[name] for name in load.values if name not in parsed_without_search(folder)}
    assert values == {
        "supported_users": (11.5, "1"), "slope": (0.125, "1/s"), "swing": (pytest.approx(2 / (sum(users) / 15)), "1"),
        "users_low": (10, "1"), "users_high": (12, "1"), "at_maximum": (0, "1"),
    }  # fmt: skip


def test_a_settled_search_gives_the_bracket_that_let_it_settle(folder: Path):
    """Alerts end late, so 12 users are with and without one. The load that passed and the one that failed are known."""
    quiet_at_last = [*taking_turns()[:-1], (40.0, 12, OK)]
    load = searched(folder, quiet_at_last, bracket={"low": 10, "high": None})
    (search,) = load.series["search"]
    assert (search["passed"], search["failed"], search["bracket_high"]) == (10, 12, None)
    assert (load.values["users_low"], load.values["users_high"]) == ((10, "1"), (12, "1"))


def parsed_without_search(folder: Path) -> set[str]:
    told = json.loads((folder / "load.json").read_text())
    (folder / "load.json").write_text(json.dumps({**told, "result": None}))
    return set(parsed(folder).values)


def test_checks_are_told_on_the_axis_of_the_window(folder: Path):
    checks = [(4.0, 8, IGNORED), *taking_turns()[4:]]
    rows = searched(folder, checks).series["checks"]
    assert rows[0] == {"t_s": 14.0, "users": 8, "alert": None, "judged": False}
    assert rows[1] == {"t_s": 15.0, "users": 12, "alert": "cpu", "judged": True}
    assert [row["t_s"] for row in rows] == [10 + t_s for t_s, _, _ in checks]


@pytest.mark.parametrize(
    ("end_s", "why"),
    # Alerts are ignored for up to 5 s and look back over 3 s, so a window of 15 s ends at 23 s or later.
    [(23.0, SETTLED), (22.9995, SETTLED), (22.998, STARTING), (30.0, SETTLED)],
)
def test_a_window_that_begins_with_the_load_yields_no_number(folder: Path, end_s: float, why: str):
    load = searched(folder, taking_turns(), end_s=end_s, begin_s=end_s - 15)
    assert load.series["search"][0]["why"] == why
    assert ("supported_users" in load.values) == (why == SETTLED)


def test_a_window_is_all_checks_after_its_beginning_until_its_end(folder: Path):
    def of(*outside: tuple[float, int, str]) -> tuple[float, float]:
        checks = sorted([check for check in taking_turns() if 25 < check[0] < 40] + list(outside))
        (search,) = searched(folder, checks).series["search"]
        return search["least"], search["most"]

    assert of() == (10, 12)
    assert of((25.0, 9, OK)) == of((25.0009, 9, OK)) == of((24.0, 9, OK)) == (10, 12)
    assert of((25.002, 9, OK)) == (9, 12)
    assert of((40.0, 13, ALERT)) == of((40.001, 13, ALERT)) == (10, 13)
    assert of((40.002, 13, ALERT)) == of((41, 13, ALERT)) == (10, 12)


def test_the_check_before_a_window_shows_whether_an_alert_began(folder: Path):
    def meeting(before: str) -> tuple[float | None, float | None, str]:
        rest = [(t_s, 12, ALERT if t_s == 26 else OK) for t_s in range(26, 41)]
        earlier = [(21.0, 2, OK), (22.0, 3, OK), (23.0, 4, ALERT), (24.0, 3, ALERT)]
        (search,) = searched(folder, [*earlier, (25.0, 10, before), *rest]).series["search"]
        return search["passed"], search["failed"], search["why"]

    assert meeting(OK) == (10, 12, SETTLED)
    # It had been on: nobody saw it begin.
    assert meeting(ALERT) == (12, None, UNBRACKETED)
    # What was ignored says nothing, not even that there was no alert.
    assert meeting(IGNORED) == (12, None, UNBRACKETED)


@pytest.mark.parametrize(
    "blind",
    [
        {31: (11, UNKNOWN)},  # is no load that passed
        {29: (12, ALERT), 30: (10, UNKNOWN), 31: (9, ALERT)},  # no alert began with 9 users
    ],
)
def test_a_check_without_the_value_of_an_alert_shows_neither_that_a_load_passed_nor_that_an_alert_began(folder, blind):
    checks = [(t_s, *blind.get(int(t_s), (users, state))) for t_s, users, state in taking_turns()]
    load = searched(folder, checks)
    (search,) = load.series["search"]
    assert (search["why"], search["passed"], search["failed"]) == (SETTLED, 10, 12)
    assert [row["t_s"] - 10 for row in load.series["checks"] if not row["judged"]] == [
        t_s for t_s, (_, state) in blind.items() if state == UNKNOWN
    ]


def test_an_alert_that_never_had_a_value_cannot_be_missed(folder: Path):
    load = searched(folder, [(t_s, users, UNKNOWN) for t_s, users, _ in taking_turns()], why=AT_MAXIMUM)
    assert all(row["judged"] for row in load.series["checks"])


@pytest.mark.parametrize(("most", "why"), [(16, SETTLED), (17, SWINGING)])
def test_users_that_swing_by_more_than_half_their_mean_yield_no_number(folder: Path, most: int, why: str):
    users = [(10, most)[t_s % 2] for t_s in range(26, 41)]
    swing = (most - 10) / (sum(users) / len(users))
    assert (swing > 0.5) == (why == SWINGING)
    load = searched(folder, taking_turns(most=most))
    assert (load.series["search"][0]["why"], load.values["swing"][0]) == (why, pytest.approx(swing))


@pytest.mark.parametrize(("state", "clipped", "why"), [(OK, 2, CLIPPED), (ALERT, 0, SETTLED)])
def test_a_window_that_its_maximum_clipped_yields_a_lower_bound(folder: Path, state: str, clipped: int, why: str):
    """If there is no alert with 40 users, of 40 that are allowed, more would have been added."""
    checks = [(t_s, 40, state) if t_s in (30, 31) else (t_s, n, s) for t_s, n, s in taking_turns(30, 38)]
    load = searched(folder, checks, supported=35.0)
    (search,) = load.series["search"]
    assert (search["why"], search["supported"], search["clipped"], search["checks"]) == (why, 35.0, clipped, 15)
    assert ("supported_users" in load.values) == (why == SETTLED)
    assert load.values["at_maximum"] == (0, "1"), "it did not stay there"


def test_a_window_that_began_too_early_is_no_lower_bound_either(folder: Path):
    checks = [(t_s, 40, OK) if t_s == 10 else (t_s, n, s) for t_s, n, s in taking_turns(30, 38)]
    (search,) = searched(folder, checks, end_s=22.0, begin_s=7.0).series["search"]
    assert (search["why"], search["supported"], search["clipped"]) == (STARTING, None, 1)


@pytest.mark.parametrize("why", [TOO_LONG, AT_MAXIMUM])
def test_a_search_that_found_no_number_keeps_its_reason(folder: Path, why: str):
    load = searched(folder, taking_turns(), why=why, bracket={"low": None, "high": None}, slope=None)
    assert (load.series["search"][0]["why"], load.series["search"][0]["supported"]) == (why, None)
    assert load.values["at_maximum"] == (why == AT_MAXIMUM, "1")
    assert load.values.keys().isdisjoint({"supported_users", "slope", "users_low", "users_high"})


def test_a_search_without_checks_in_its_window_has_no_users(folder: Path):
    (search,) = searched(folder, taking_turns()[:20], why=TOO_LONG).series["search"]
    assert [search[name] for name in ("swing", "least", "most", "passed", "failed")] == [None] * 5
