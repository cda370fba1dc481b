"""The load of load_test without a server.

The feedback rule on synthetic systems, histograms, what a study may say, and what is made from the files of real loads
(tests/data/load_users, recorded from a real Mattermost).
"""

import csv
import json
import math
import random
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import CHECKOUT
from pydantic import ValidationError

from benchstudy.families.load_test.locust import parse_load
from benchstudy.families.load_test.users.config import ORIGINAL_ACTIONS, Behaviour, LoadLevel, Rule
from benchstudy.families.load_test.users.on_host import feedback, histogram
from benchstudy.families.load_test.users.on_host.alerts import ALERT, IGNORED, OK, UNKNOWN, Alert
from benchstudy.families.load_test.users.on_host.exposition import exposition
from benchstudy.families.load_test.users.on_host.feedback import AT_MAXIMUM, AT_MINIMUM, SETTLED, TOO_LONG, FeedbackRule
from benchstudy.families.load_test.users.on_host.histogram import Line
from benchstudy.families.load_test.users.on_host.recording import (
    HTTP,
    TIMEOUT,
    Records,
    Worker,
)
from benchstudy.families.load_test.users.on_host.thinking import first_think_s, pace_of, think_s
from benchstudy.model import registry
from benchstudy.model.clients import load_roles
from benchstudy.model.errors import BenchstudyError
from benchstudy.model.family import ParseError

DATA = Path(__file__).parent / "data" / "load_users"
# As published: 8 users every 2 s, a slope below 0.2 users/s over half an hour.
PUBLISHED = feedback.Constants(max_users=20_000, step=8, every_s=2.0, slope=0.2, window_s=1800.0, at_most_s=14_400.0)
SHORT = feedback.Constants(max_users=200, step=4, every_s=1.0, slope=0.2, window_s=60.0, at_most_s=600.0)


class System:
    """A server with room for this many users. Its alerts come `lag` checks late, and go as late."""

    def __init__(self, capacity: float, lag: int = 0, noise: float = 0.0, seed: int = 1):
        self.capacity, self.lag, self.noise, self.chance = capacity, lag, noise, random.Random(seed)
        self.history: list[bool] = []

    def alerts(self, users: float) -> tuple[str, ...]:
        self.history.append(users > self.capacity + self.chance.gauss(0, self.noise))
        is_over = self.history[max(len(self.history) - 1 - self.lag, 0)]
        return ("cpu",) if is_over else ()


def loaded(system: System, constants: feedback.Constants) -> feedback.Result:
    rule, now_s, users = FeedbackRule(constants), 0.0, 0
    while rule.result is None:
        assert now_s <= constants.at_most_s, "it never comes to an end"
        users = rule.decide(now_s, users, system.alerts(users)) if now_s else rule.wanted
        now_s += constants.every_s
    return rule.result


# --- the rule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [137, 6000, 13_223])
def test_the_published_rule_finds_what_a_system_supports(capacity):
    found = loaded(System(capacity), PUBLISHED)
    assert found.why == SETTLED
    assert abs(found.supported - capacity) <= PUBLISHED.step
    assert found.bracket.low <= capacity < found.bracket.high
    assert found.bracket.high - found.bracket.low == PUBLISHED.step
    assert abs(found.slope) < PUBLISHED.slope
    assert found.end_s - found.begin_s == PUBLISHED.window_s
    assert found.limited_by == found.first_alert == "cpu"
    assert 0.4 < found.alerted["cpu"] < 0.6


@pytest.mark.parametrize("lag", [3, 15])
def test_late_alerts_widen_the_swing_and_the_bracket_but_not_the_result(lag):
    found = loaded(System(1000, lag=lag), PUBLISHED)
    assert found.why == SETTLED
    assert abs(found.supported - 1000) <= 2 * PUBLISHED.step
    assert found.bracket.high is None or found.bracket.high - found.bracket.low > PUBLISHED.step


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_system_is_found_as_well(seed):
    found = loaded(System(1000, noise=40, seed=seed), PUBLISHED)
    assert found.why == SETTLED
    assert abs(found.supported - 1000) < 30
    assert found.bracket.low < found.supported < found.bracket.high


def test_the_window_begins_with_the_first_alert():
    found = loaded(System(100), SHORT)
    first_s = 100 // SHORT.step + 1  # one step per second
    assert found.begin_s >= first_s
    assert found.end_s >= first_s + SHORT.window_s


def test_a_system_that_nothing_limits_supports_at_least_the_most():
    found = loaded(System(math.inf), SHORT)
    assert (found.why, found.supported, found.limited_by) == (AT_MAXIMUM, None, None), "nothing failed: no capacity"
    assert found.bracket == feedback.Bracket(SHORT.max_users, None) and (found.passed, found.failed) == (200, None)


def test_what_alerts_without_users_supports_no_number_of_them():
    found = loaded(System(-1), SHORT)
    assert (found.why, found.supported) == (AT_MINIMUM, None)
    assert found.alerted == {"cpu": 1.0}


def test_a_system_that_goes_on_losing_capacity_does_not_settle():
    class Leaking(System):
        def alerts(self, users):
            self.capacity -= 0.6
            return super().alerts(users)

    steep = feedback.Constants(max_users=2000, step=8, every_s=1.0, slope=0.2, window_s=60.0, at_most_s=300.0)
    found = loaded(Leaking(700), steep)
    assert (found.why, found.supported) == (TOO_LONG, None)
    assert found.slope < -steep.slope


# As in a report that called it settled: users every 2 s, and whether the load was above its bound.
SAWTOOTH = ((24, 1), (12, 0), (24, 0), (36, 1), (24, 1), (12, 0))
COARSE = feedback.Constants(
    max_users=100, step=12, every_s=2.0, slope=1.0, window_s=10.0, at_most_s=60.0, start_up_s=9.0, swing=0.5
)


def test_users_that_swing_have_no_slope_and_no_number():
    checks = [(2.0 * n, float(users), ("cpu",) * over) for n, (users, over) in enumerate(SAWTOOTH * 2, 2)]
    window = [check for check in checks if check[0] > 4.0][:5]
    assert abs(feedback.slope_of([(t, active) for t, active, _ in window])) < COARSE.slope
    assert feedback.swing_of(window) == pytest.approx(24 / 21.6)
    assert feedback.verdict(checks[:6], window, COARSE.swing) == feedback.SWINGING
    assert feedback.verdict(checks[:6], window, math.inf) == SETTLED, "as it was"
    rule = FeedbackRule(COARSE)
    for t_s, users, alerts in checks:
        rule.decide(t_s, users, alerts)
    assert rule.result is None
    for n in range(20):
        rule.decide(28.0 + 2 * n, *((24, ()), (12, ("cpu",)))[n % 2])
    assert (rule.result.why, rule.result.supported, rule.result.end_s) == (TOO_LONG, None, COARSE.at_most_s)
    assert rule.result.swing > COARSE.swing, "what was seen is told"


def test_no_window_begins_with_the_start_up():
    """While users log in, the system takes 20 of them, and later 40: the first alerts do not count."""
    rule = FeedbackRule(replace(COARSE, step=2, every_s=1.0, start_up_s=30.0, slope=0.5))
    users, t_s = 2.0, 0.0
    while rule.result is None:
        t_s += 1.0
        users = float(rule.decide(t_s, users, ("cpu",) * (users > (20 if t_s < 30 else 40))))
    assert rule.result.why == SETTLED and rule.result.begin_s >= 30
    assert rule.result.supported == pytest.approx(40, abs=2)
    assert (rule.result.passed, rule.result.failed) == (40, 42)


def test_a_load_without_one_that_passed_and_one_that_failed_has_no_capacity():
    falling = [(float(n), 100.0 - n, ("cpu",) * (n != 4)) for n in range(5)]
    assert feedback.meeting(falling) == (96.0, None), "the alert had been on: nobody saw it begin"
    assert feedback.verdict(falling, falling, 0.5) == feedback.UNBRACKETED


def test_users_stay_between_one_and_the_most():
    rule = FeedbackRule(feedback.Constants(max_users=10, step=4, every_s=1, slope=0.01, window_s=100, at_most_s=500))
    assert rule.wanted == 4
    assert [rule.decide(t, rule.wanted, ()) for t in range(1, 4)] == [8, 10, 10]
    assert [rule.decide(t, rule.wanted, ("cpu",)) for t in range(4, 8)] == [6, 2, 1, 1]


def test_the_slope_is_that_of_least_squares():
    chance = np.random.default_rng(7)
    x, y = np.sort(chance.uniform(0, 1800, 50)), chance.normal(100, 20, 50)
    ours = feedback.slope_of(list(zip(x.tolist(), y.tolist(), strict=True)))
    assert ours == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-9)
    assert feedback.slope_of([(1.0, 5.0), (3.0, 9.0)]) == feedback.slope_of([(1.0, 5.0), (1.5, 6.0)]) == 2
    assert feedback.slope_of([(1.0, 5.0)]) is feedback.slope_of([(1.0, 5.0), (1.0, 6.0)]) is None


def test_the_bracket_lies_where_alerts_and_quiet_checks_meet():
    def checks(*pairs):
        return [(float(t), float(users), ("cpu",) * alert) for t, (users, alert) in enumerate(pairs)]

    assert feedback.bracket(checks((80, 0), (88, 0), (96, 1), (88, 0))) == feedback.Bracket(88, 96)
    overlapping = checks((80, 0), (88, 1), (96, 0), (104, 1), (72, 0))
    assert feedback.bracket(overlapping) == feedback.Bracket(80, 104)


# --- think time -----------------------------------------------------------------------------------------------


def test_users_act_as_often_at_first_as_ever_after():
    chance, least_s, mean_s, users = random.Random(11), 1.0, 20.0, 8000
    acted = []
    for _ in range(users):
        at_s = first_think_s(chance, least_s, mean_s)
        while at_s < 60:
            acted.append(at_s)
            at_s += think_s(chance, least_s, mean_s)
    for begin_s in range(0, 60, 4):
        expected = users * 4 / mean_s
        assert sum(begin_s <= at_s < begin_s + 4 for at_s in acted) == pytest.approx(expected, abs=5 * expected**0.5)


def test_so_many_users_are_as_slow_as_the_study_says():
    rates = Behaviour(rates={1: "5 %", 2: "10 %", 3: "15 %", 6: "40 %", 30: "30 %"}).rates
    paces = Counter(pace_of(random.Random(user), list(rates.items())) for user in range(4000))
    for factor, share in rates.items():
        assert paces[factor] / 4000 == pytest.approx(share, abs=0.03)
    assert pace_of(random.Random(), list(Behaviour().rates.items())) == 1


# --- alerts ------------------------------------------------------------------------------------------------------


def test_an_alert_is_ignored_at_first_and_none_without_a_value():
    alert = Alert("cpu", above=0.85, ignore_first_s=60.0, query="q")
    assert [alert.state(59.9, 1.0), alert.state(60.0, 1.0)] == [IGNORED, ALERT]
    assert [alert.state(61, 0.85), alert.state(61, None), alert.state(61, math.nan)] == [OK, UNKNOWN, UNKNOWN]


# --- histograms --------------------------------------------------------------------------------------------------

# Written by the reference implementation: 0, 1, 127, 128, 255, 256, 1000, 1000, 250000 and 3600000000 µs.
REFERENCE = "HISTFAAAADF4nJNpmSzMwMAAwiDABKUZQcS1yUsY7D9AJZh+MjIx/Qbij8wsH/mZDkozAQDZwglz"


def test_a_histogram_of_the_reference_implementation_is_read_and_written():
    values = [0, 1, 127, 128, 255, 256, 1000, 1000, 250_000, 3_600_000_000]
    ours = dict(Counter(histogram.index_of(value / 1e6) for value in values))
    assert histogram.decode(REFERENCE) == ours
    assert histogram.encode(ours) == REFERENCE


def test_histograms_come_back_from_the_log(tmp_path):
    chance = random.Random(4)
    parts = [
        dict(Counter(histogram.index_of(chance.lognormvariate(-4, 1)) for _ in range(n))) for n in (1, 500, 40_000)
    ]
    log = tmp_path / "log.hlog"
    log.write_text(
        histogram.log_head(1.5, "a test")
        + "".join(histogram.log_line(Line("a/b", float(n), 1.0, part)) for n, part in enumerate(parts))
    )
    with log.open() as file:
        lines = list(histogram.read_log(file))
    assert [line.counts for line in lines] == parts
    assert [(line.tag, line.start_s, line.length_s) for line in lines] == [("a/b", float(n), 1.0) for n in range(3)]


# --- what Prometheus is given ------------------------------------------------------------------------------------


def test_prometheus_own_tool_finds_nothing_wrong_with_what_the_master_shows():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool comes with Debian's prometheus")
    records = Records(events=7)
    for seconds in (0.004, 0.005, 0.03, 20.0):
        records.add('view "x"\\/posts', HTTP, seconds)
    records.add("post/send", HTTP, 30.0, TIMEOUT, "too late")
    text = exposition(records, [Worker(0, "host", users=3, cpu_s=1.25)], wanted=8)
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    assert (checked.returncode, checked.stderr) == (0, "")
    found = [line for line in text.splitlines() if 'le="0.005"' in line or 'le="+Inf"' in line]
    assert [line.rpartition(" ")[2] for line in found] == ["0", "1", "1", "4"]


# --- what a study may say ----------------------------------------------------------------------------------------


def test_the_rule_s_constants_are_the_original_s_unless_the_study_says_otherwise():
    rule = Rule(max_users=20_000)
    assert (rule.step, rule.every, rule.slope, rule.window, rule.ignore_first) == (8, 2.0, 0.2, 1800.0, 60.0)
    assert {name: alert.above for name, alert in rule.alerts.items()} == {
        "server_errors": 0.025,
        "client_mean": 0.1,
        "client_p99": 2.0,
        "client_errors": 0.025,
        "cpu": 0.85,
        "memory": 0.85,
        "tcp_retransmits": 0.005,
    }


def test_alerts_are_written_as_people_do():
    alerts = {"cpu": "70 %", "client_mean": "250ms", "queue": {"above": 3, "query": "max(q[{{window}}])"}}
    rule = Rule(max_users=10, alert_window="5s", alerts=alerts)
    assert [alert.above for alert in rule.alerts.values()] == [0.7, 0.25, 3.0]
    assert rule.query("queue") == "max(q[5s])"
    assert rule.query("client_mean") is None
    assert "[5s]" in rule.query("cpu")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Behaviour(actions={"serch_posts": 1}), "search_posts"),
        (lambda: Behaviour(actions={"post": 0}), "above zero"),
        (lambda: Behaviour(think_time={"least": "3s", "mean": "1s"}), "between 0 and mean"),
        (lambda: Behaviour(rates={1: "50 %"}), "add up to 100 %"),
        (lambda: Behaviour(rates={0: "100 %"}), "factors above zero"),
        (lambda: Rule(max_users=10, alerts={"cpus": "85 %"}), 'alerts.cpus: .*"cpu"'),
        (lambda: Rule(max_users=10, alerts={"cpu": "much"}), "not a threshold"),
        (lambda: Rule(max_users=4), "step: 8 is above"),
        (lambda: Rule(max_users=10, every="500ms"), "below 1 s"),
        (lambda: Rule(max_users=10, window="4s"), "fewer than 5 steps"),
        (lambda: Rule(max_users=10, at_most="30min"), "at_most"),
        (lambda: LoadLevel(name="x", users=3), "give users and duration"),
        (lambda: LoadLevel(name="x", users=3, duration="3s", rule=Rule(max_users=10)), "it has a rule"),
        (lambda: LoadLevel(name="x", ramp="3s", rule=Rule(max_users=10)), "it has a rule"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_wrong(make, said):
    with pytest.raises(ValidationError, match=said):
        make()


def test_every_action_of_a_study_can_be_done():
    # The modules that perform them need Locust, so their names are looked up in the sources.
    users = CHECKOUT / "envs" / "mattermost" / "users"
    sources = "".join(
        (users / f"{name}.py").read_text() for name in ("actions", "newer", "organising", "searching", "threads")
    )
    missing = [name for name in ORIGINAL_ACTIONS if f"def {name}(" not in sources]
    assert missing == []


def test_a_load_host_gets_the_harness_and_the_systems_users_as_one_package():
    sent = registry.get("load_test").libraries()["load-users"]()
    assert {Path(name).parent.as_posix() for name in sent} == {".", "load_users", "load_users/mattermost"}
    assert {"locustfile.py", "load_users/users.py", "load_users/mattermost/actions.py"} < set(sent)


@pytest.mark.parametrize(("library", "folder"), [("load-users", "users"), ("load-data", "data")])
def test_a_project_without_the_systems_files_is_told_which_folder_is_missing(bare_project, library, folder):
    (bare_project / "workflow" / "scripts").mkdir()  # a checkout takes nothing from elsewhere
    with pytest.raises(BenchstudyError, match=f"no scripts in {bare_project}/envs/mattermost/{folder}:"):
        registry.get("load_test").libraries()[library]()


def test_load_comes_from_each_load_host_once():
    assert load_roles({"sut": "a"}) == ["sut"]
    assert load_roles({"sut": "a", "load-2": "c", "load": "b", "load-3": "b"}) == ["load", "load-2"]


# --- files of real loads -----------------------------------------------------------------------------------------


def recorded(kind: str, folder: Path | None = None):
    """(the parser's result for the recording, its load.json). Prometheus' clock is the load host's plus 5 s."""
    folder = folder or DATA / kind
    result = json.loads((folder / "load.json").read_text())
    began = result["started_unix_s"] + 5.0
    phase = result["phases"][1]
    return parse_load(folder, began, (began + phase["start_s"], began + phase["end_s"]), -5.0), result


def test_a_bounded_load_is_read():
    load, result = recorded("bounded")
    assert load.values["users"] == load.values["users_max"] == (12, "1")
    assert 0 < load.values["generator_cpu"][0] < 1
    assert load.values["client_errors"] == (0.0, "1")
    assert {"supported_users", "at_maximum"}.isdisjoint(load.values)
    mean, p50, p99 = (load.values[f"client_{name}"][0] for name in ("mean", "p50", "p99"))
    assert 0 < p50 < mean < p99 < 1
    actions = {row["action"]: row for row in load.series["client"]}
    assert "log_in" not in actions, "before the steady time"
    assert {"view_channel", "post", "read_older", "delivery"} <= actions.keys()
    counted = Counter()
    for row in load.series["client_histogram"]:
        assert row["low_s"] < row["high_s"]
        counted[row["action"]] += row["count"]
    assert counted == {action: row["count"] for action, row in actions.items()}
    http = sum(row["count"] for action, row in actions.items() if action not in ("connect", "delivery"))
    assert load.values["client_requests"] == (http, "1")
    phase = result["phases"][1]
    assert load.values["client_rate"][0] == pytest.approx(http / (phase["end_s"] - phase["start_s"]), rel=0.2)
    assert [row["t_s"] for row in load.series["users"]] == sorted(row["t_s"] for row in load.series["users"])
    assert load.series["users"][0]["t_s"] == pytest.approx(1.0, abs=0.2)


def test_an_unbounded_load_is_read():
    load, result = recorded("unbounded")
    assert result["result"]["why"] == SETTLED, "as it was called then"
    (search,) = load.series["search"]
    assert search["why"] == feedback.STARTING and "supported_users" not in load.values
    assert (search["least"], search["most"], search["passed"], search["failed"]) == (4, 12, 10, 12)
    assert load.values["swing"][0] == search["swing"] == pytest.approx(8 / (118 / 15))
    alerted = [row for row in load.series["checks"] if row["alert"]]
    assert [row["users"] for row in alerted] == [10, 8, 6, 12, 10, 8, 6], "before users were taken away"
    assert [row["judged"] for row in load.series["checks"][:5]] == [False] * 4 + [True]
    assert load.values.keys().isdisjoint({"users_low", "users_high"}), "a number that was not found has no bracket"
    assert load.values["slope"] == (result["result"]["slope"], "1/s")
    assert load.values["at_maximum"] == (0, "1")
    assert {row["alert"] for row in load.series["users"]} == {None, "client_mean"}
    checks = recorded_checks()
    alerting = {check["alert"] for check in checks if check["state"] == "alert"}
    assert alerting == {result["result"]["limited_by"]} == {"client_mean"}
    assert all(float(check["value"]) > float(check["above"]) for check in checks if check["state"] == "alert")
    assert {check["alert"] for check in checks} == {alert["name"] for alert in result["plan"]["rule"]["alerts"]}


@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_quantiles_of_actions_are_of_the_nearest_rank_in_their_histograms(kind):
    load, _ = recorded(kind)
    histograms: dict[str, list[float]] = {}
    for row in load.series["client_histogram"]:
        middle_s = (row["low_s"] + row["high_s"]) / 2
        histograms.setdefault(row["action"], []).extend([middle_s] * row["count"])
    rows = {row["action"]: [row[f"p{percent}_s"] for percent in (50, 95, 99)] for row in load.series["client"]}
    http = [t for action, times in histograms.items() if action not in ("connect", "delivery") for t in times]
    rows["all"] = [load.values[f"client_p{percent}"][0] for percent in (50, 95, 99)]
    for action, times in {**histograms, "all": http}.items():
        ranks = [-(-percent * len(times) // 100) for percent in (50, 95, 99)]
        assert rows[action] == pytest.approx([sorted(times)[rank - 1] for rank in ranks]), action


def recorded_checks() -> list[dict[str, str]]:
    with (DATA / "unbounded" / "alerts.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_what_it_wrote_down_the_rule_comes_to_the_same_result():
    _, result = recorded("unbounded")
    rule = FeedbackRule(feedback.Constants(**result["plan"]["rule"]["constants"]))
    checks: dict[float, list] = {}
    for check in recorded_checks():
        checks.setdefault(float(check["t_s"]), []).append(check)
    for t_s, of_check in checks.items():
        rule.decide(t_s, int(of_check[0]["users"]), [check["alert"] for check in of_check if check["state"] == "alert"])
    assert rule.result is not None
    assert rule.result.supported == result["result"]["supported"]
    assert rule.result.slope == pytest.approx(result["result"]["slope"], abs=0.01)
    assert [rule.result.bracket.low, rule.result.bracket.high] == [*result["result"]["bracket"].values()]
    assert rule.result.alerted == result["result"]["alerted"]


@pytest.mark.parametrize("kind", ["bounded", "unbounded"])
def test_our_counts_and_means_are_locusts_own(kind):
    """Locust's statistics continue for the last second after the load's end."""
    ours: dict[str, list[float]] = {}
    with (DATA / kind / "requests.csv").open() as file:
        for row in csv.DictReader(file):
            if row["kind"] == HTTP:
                counts = ours.setdefault(row["request"], [0, 0.0])
                counts[0] += int(row["count"])
                counts[1] += float(row["sum_s"])
    compared = 0
    with (DATA / kind / "locust_stats.csv").open() as file:
        for row in csv.DictReader(file):
            count = int(row["Request Count"])
            if row["Name"] == "Aggregated":
                assert 0.9 * count < sum(n for n, _ in ours.values()) <= count
            elif ours[row["Name"]][0] == count:
                mean_ms = 1000 * ours[row["Name"]][1] / count
                assert mean_ms == pytest.approx(float(row["Average Response Time"]), rel=1e-3)
                compared += 1
            else:
                assert ours[row["Name"]][0] < count
    assert compared > 10


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("load.json", lambda text: text[: len(text) // 2], "load.json is truncated"),
        ("load.json", lambda text: text.replace('"schema": 1', '"schema": 9'), "schema 9 is not known, only 1 is"),
        ("load.json", lambda text: text.replace('"schema": 1', '"schema": 0'), "schema 0"),
        ("load.json", lambda text: text.replace('"schema": 1,', ""), "schema None"),
        ("users.csv", lambda text: text[:-8], "users.csv: line 12 is cut off"),
        ("requests.csv", lambda text: text.rpartition("\n")[0].rpartition(",")[0], "requests.csv: line .* is cut off"),
        ("histograms.hlog", lambda text: text[:-10], "line"),
        ("histograms.hlog", lambda text: text[: text.rstrip().rindex("\n") + 1], "histograms.hlog has"),
        ("histograms.hlog", lambda text: text + text.splitlines()[-1], "histograms.hlog has"),
        ("histograms.hlog", None, "histograms.hlog is missing"),
        ("workers.csv", None, "workers.csv is missing"),
    ],
)
def test_files_that_are_cut_off_or_missing_are_refused(tmp_path, file, change, said):
    folder = tmp_path / "files"
    shutil.copytree(DATA / "bounded", folder)
    result = json.loads((folder / "load.json").read_text())
    if change is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(change((folder / file).read_text()))
    began = result["started_unix_s"]
    with pytest.raises(ParseError, match=said):
        parse_load(folder, began, (began, began + 1000.0))


def test_files_of_another_time_are_refused():
    result = json.loads((DATA / "bounded" / "load.json").read_text())
    began = result["started_unix_s"]
    with pytest.raises(ParseError, match="another clock"):
        parse_load(DATA / "bounded", began, (began + 3600, began + 3700))
