"""Loads on Mattermost's real server: what users do, what is recorded, and what goes wrong. One server for all tests."""

import csv
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from load_test_study import FAMILY, study_of
from mattermost_small import SERVER, block_of, provisioned
from nothing_lost import processes, running
from waiting import until

from benchstudy.families.load_test.locust import LoadResult, parse_load
from benchstudy.families.load_test.system import fresh_site, wait_for_targets
from benchstudy.families.load_test.users.config import ORIGINAL_ACTIONS, Behaviour, LoadLevel, Rule
from benchstudy.families.load_test.users.on_host.feedback import AT_MAXIMUM, AT_MINIMUM, SETTLED
from benchstudy.families.load_test.users.run import Loaded, run_load
from benchstudy.families.load_test.users.site import Site
from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.remote import Remote
from benchstudy.measuring.state import SessionState
from benchstudy.measuring.trial import TrialContext
from benchstudy.model import registry
from benchstudy.model.criteria import USERS_SWING
from benchstudy.model.errors import TrialFailed

SMALL = {"users": 24, "teams": 2, "channels": 4, "posts": 200, "direct-posts": 40}
QUICK = Behaviour(think_time={"least": "50ms", "mean": "150ms"}, pauses=0.01)
# For tests about the number of users, and not about what they do.
CALM = Behaviour(think_time={"least": "200ms", "mean": "800ms"}, pauses=0.01)
SESSION = "11111111-2222-4333-8444-555555555555"
WEBSOCKETS = "mattermost_http_websockets_total"
# The rare actions, and what the server calls their requests.
ASKED_FOR = {
    "search_users": "searchUsers",
    "search_channels": "searchAllChannels",
    "search_conversations": "searchGroupChannels",
    "reconnect": "getWebappPlugins",
    "write_draft": "upsertDraft",
}


def block() -> dict[str, Any]:
    found = block_of(
        SMALL,
        versions=[{"name": name, "services": {"postgres": SERVER}} for name in ("one", "two")],
        loads=[{"name": "bounded", "users": 8, "ramp": "2s", "duration": "10s"}],
    )
    found["services"][SERVER]["env"]["MM_FEATUREFLAGS_WEBSOCKETEVENTSCOPE"] = "true"  # the default in 10.2
    return found


@dataclass(frozen=True)
class Place:
    """A running server, and a way to load it."""

    state: SessionState
    root: Path
    site: Site
    metrics_url: str

    def load(
        self, level: LoadLevel, behaviour: Behaviour = CALM, cancelled: threading.Event | None = None, **changes: Any
    ) -> tuple[Loaded, Path]:
        """(the load's own record, its trial's folder). `changes`: of the site."""
        folder = self.root / uuid.uuid4().hex[:8]
        folder.mkdir()
        trial = TrialContext(self.state, "trial", folder, 1)
        return run_load(trial, level, behaviour, replace(self.site, **changes), cancelled or threading.Event()), folder

    def ask(self, query: str) -> float:
        """The first value that Prometheus has now; 0 if it has none."""
        found = get_json(f"{self.site.prometheus_url}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        return float(found["data"]["result"][0]["value"][1]) if found["data"]["result"] else 0.0

    def count(self, metric: str) -> float:
        """The sum over all labels, as the server itself reports it now."""
        with urllib.request.urlopen(self.metrics_url, timeout=20) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"(?m)^{metric}(?:\{{.*\}})? (\S+)$", text))


def get_json(url: str | urllib.request.Request) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("load")
    with provisioned(root, block()) as host:
        study = study_of(block(), host)
        with Remote("here", study.hosts["here"]) as remote:
            agent = HostAgent.deploy(
                remote,
                lease_s=60.0,
                reconnect_s=10.0,
                on_event=print,
                extensions=registry.get(FAMILY).extensions,
            )
            with agent.lock(SESSION, {"user": "tests"}):
                yield from _place(root, study, agent)
        until(lambda: not processes(str(root), "/agent-"))  # it notices that nobody asks any more


def _place(root: Path, study: Any, agent: HostAgent) -> Iterator[Place]:
    state = SessionState(SESSION, study.session("bench", FAMILY), {"here": agent}, root / "session", print)
    (root / "site").mkdir()
    trial = TrialContext(state, "site", root / "site", 1)
    try:
        with fresh_site(trial, "one", "postgres", SMALL["users"]) as up:
            wait_for_targets(trial, up)
            yield Place(state, root, up, f"http://{up.server.address}:{up.server.ports['metrics']}/metrics")
    finally:
        state.close()


def bounded(users: int, duration: str = "6s") -> LoadLevel:
    return LoadLevel(name="bounded", users=users, ramp="1s", duration=duration)


def unbounded(**changes: Any) -> LoadLevel:
    short = {"step": 1, "every": "1s", "window": "6s", "ignore_first": "0s", "alert_window": "4s", "at_most": "60s"}
    return LoadLevel(name="unbounded", rule=Rule(**{**short, **changes}))


def read(loaded: Loaded, folder: Path) -> LoadResult:
    (start, end) = next(phase[1:] for phase in loaded.phases if phase[0] in ("steady", "stable"))
    return parse_load(folder / "load" / "files", loaded.started_s, (start, end))


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "load" / "files" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def locust_processes(root: Path) -> list[int]:
    return [each.pid for each in running(str(root), "locustfile.py")]


# --- a load that goes well ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(place: Place) -> tuple[Loaded, Path, float]:
    """A load on two workers in which rare actions are as frequent as others, and what the server counted of it."""
    # All except one: a login takes the server as long as a hundred other requests.
    actions = {action: 1.0 for action in ORIGINAL_ACTIONS if action != "log_in_again"}
    # A slow machine does some two hundred actions in this time. Of what a test asks for, one must be among them.
    actions |= dict.fromkeys(ASKED_FOR, 2.0)
    before = place.count("mattermost_api_time_count")
    doing = {"actions": actions, "workers": 2, "like": "v1.23.0"}  # which has all of them
    think_time = {"least": "100ms", "mean": "400ms"}
    loaded, folder = place.load(bounded(10, "20s"), Behaviour(think_time=think_time, pauses=0.01, **doing))
    return loaded, folder, place.count("mattermost_api_time_count") - before


def test_a_posted_link_is_not_looked_up_in_the_internet(place):
    accounts = json.loads(place.site.accounts.content)
    who = {"login_id": accounts["users"][0]["username"], "password": accounts["password"]}
    login = urllib.request.Request(f"{place.site.url}/api/v4/users/login", json.dumps(who).encode())
    with urllib.request.urlopen(login, timeout=20) as answer:
        session = {"Authorization": f"Bearer {answer.headers['Token']}"}
    settings = get_json(urllib.request.Request(f"{place.site.url}/api/v4/config/client?format=old", headers=session))
    assert settings["EnableLinkPreviews"] == "false"


def test_every_action_meets_a_server_that_can_do_it(good):
    loaded, folder, _ = good
    assert loaded.problems == []
    assert [name for name, _, _ in loaded.phases] == ["ramp", "steady"]
    ramp, steady = loaded.phases
    assert ramp[2] == steady[1] and steady[2] - steady[1] >= 20
    result = read(loaded, folder)
    done = {row["action"] for row in result.series["client"] if row["count"]}
    # Rare actions may find nothing to do, such as a channel that is not joined yet.
    assert len(done & set(ORIGINAL_ACTIONS)) >= len(ORIGINAL_ACTIONS) - 5
    assert {"connect", "delivery"} <= done
    # Somebody may answer a post that its writer deletes at that moment: that is 4xx, and no other failure occurs.
    assert {row["failure"] for row in rows(folder, "failures.csv")} <= {"4xx"}
    assert result.values["client_errors"] == (0.0, "1")
    assert result.values["events"][0] > 0


def test_the_server_is_asked_what_the_originals_users_ask(place: Place, good):
    """By its own counters. benchmarks/users_fidelity.py shows how close the whole mix is."""
    _, folder, _ = good

    def asked(handler: str, status: str = "..."):
        return place.ask(f'sum(mattermost_api_time_count{{handler=~"{handler}",status_code=~"{status}"}})')

    # Of every writer on every page, with the tag of the picture that the client has.
    assert asked("getProfileImage", "304") > 0.25 * asked(".*") and asked("getProfileImage", "200") == 0
    for handler in ASKED_FOR.values():
        assert asked(handler, "2..") > 0, handler
    assert asked("getWebappPlugins", "501") == 0
    # A websocket that stays open is not opened again.
    made = {row["request"] for row in rows(folder, "requests.csv")}
    assert "reconnect/plugins" in made and "reconnect/websocket" not in made


def test_all_users_are_there_in_the_steady_time_on_both_workers(good):
    loaded, folder, _ = good
    result = read(loaded, folder)
    assert result.values["users"] == result.values["users_max"] == (10.0, "1")
    last = {row["worker"]: row for row in rows(folder, "workers.csv")}
    assert [last[worker]["ready"] for worker in ("0", "1")] == ["5", "5"]
    assert 0 < result.values["generator_cpu"][0] < 1.1
    assert rows(folder, "users.csv")[-1]["ready"] == "10"


def test_the_server_counts_the_requests_that_users_say_they_made(good):
    """Locust's own counts, which go to the very end."""
    _, folder, answered = good
    http = sum(int(row["Request Count"]) for row in rows(folder, "locust_stats.csv") if row["Name"] == "Aggregated")
    # Actions that users were told to leave out are only in one of them.
    assert answered == pytest.approx(http, rel=0.15)


def test_prometheus_has_what_the_users_see(place: Place, good):
    loaded, folder, _ = good
    end = loaded.phases[1][2]

    def at_most(query: str) -> float:
        return place.ask(f"max_over_time(({query})[30m:1s])")

    ours = sum(int(row["count"]) for row in rows(folder, "requests.csv") if row["kind"] == "http")
    # The scrape before the end is up to a second old.
    assert 0.5 * ours < at_most('sum(benchstudy_client_request_seconds_count{kind="http"})') <= ours * 1.1
    assert at_most("sum(benchstudy_client_websockets)") == at_most("sum(benchstudy_client_ready)") == 10
    assert at_most("sum(benchstudy_client_cpu_seconds_total)") > 0
    assert loaded.started_s < end


# --- the rule on the real server ---------------------------------------------------------------------------------


def test_the_rule_finds_how_many_a_real_server_takes_by_what_prometheus_sees_of_it(place: Place):
    """The "capacity" is the server's own count of open websockets, which no other load on this machine changes.

    It is fourteen; a swing by alerts that come late is less than half of that.
    """
    alerts = {"sockets": {"above": 14.0, "query": f"sum({WEBSOCKETS})"}, "client_errors": "2.5 %", "memory": "99 %"}
    load = unbounded(max_users=24, slope=0.4, window="12s", at_most="120s", alerts=alerts)
    loaded, folder = place.load(load)
    result = loaded.result["result"]
    assert (result["why"], result["limited_by"], result["first_alert"]) == (SETTLED, "sockets", "sockets")
    values = read(loaded, folder).values
    assert values["supported_users"][0] == pytest.approx(14, abs=3)
    assert result["passed"] < result["failed"] and result["swing"] <= USERS_SWING
    assert values["at_maximum"] == (0.0, "1") and abs(values["slope"][0]) < 0.4
    assert [name for name, _, _ in loaded.phases] == ["search", "stable"]
    states = {row["alert"]: row["state"] for row in rows(folder, "alerts.csv")}
    assert states.keys() == alerts.keys() and states["memory"] == "ok"
    assert "sockets" in {row["alert"] for row in rows(folder, "users.csv")}
    # Users of this release write no drafts.
    assert not any("draft" in row["request"] for row in rows(folder, "requests.csv"))


def test_what_nothing_limits_and_what_everything_limits_is_no_number_of_the_system(place: Place):
    alerts = {"nothing": {"above": 1e9, "query": "vector(1)"}, "typo": {"above": 1, "query": "no_such_metric"}}
    loaded, folder = place.load(unbounded(max_users=2, alerts=alerts))
    assert loaded.result["result"]["why"] == AT_MAXIMUM
    assert read(loaded, folder).values["at_maximum"] == (1.0, "1")
    assert "typo had no value" in loaded.problems[0] and "at least as many" in loaded.problems[1]
    loaded, folder = place.load(unbounded(max_users=2, alerts={"always": {"above": 0.5, "query": "vector(1)"}}))
    assert loaded.result["result"]["why"] == AT_MINIMUM
    assert "supported_users" not in read(loaded, folder).values
    assert "however few" in loaded.problems[0]


def test_connections_that_are_refused_are_errors_and_have_no_time(place: Place):
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
    alerts = {"always": {"above": 0.5, "query": "vector(1)"}, "client_errors": "2.5 %", "client_mean": "100ms"}
    load = unbounded(max_users=4, window="12s", alert_window="10s", alerts=alerts)
    loaded, folder = place.load(load, url=f"http://127.0.0.1:{closed}")
    assert {row["failure"] for row in rows(folder, "failures.csv")} == {"no_answer"}
    assert {float(row["sum_s"]) for row in rows(folder, "requests.csv")} == {0.0}
    values = read(loaded, folder).values
    assert values["client_requests"][0] > 0 and values["client_errors"] == (1.0, "1")
    assert values.keys().isdisjoint({"client_mean", "client_p50"})
    states = {(row["alert"], row["state"]) for row in rows(folder, "alerts.csv")}
    assert ("client_errors", "alert") in states and ("client_mean", "unknown") in states
    assert ("client_mean", "ok") not in states


def test_who_types_is_told_to_those_who_look_at_the_channel(place: Place):
    """By the server's own counters: how often somebody typed, and to how many users that was sent."""

    def typing() -> tuple[float, float]:
        kinds = ("mattermost_websocket_event_total", "mattermost_websocket_broadcasts_total")
        said, sent = (place.count(rf'{kind}\{{[^}}]*="typing"[^}}]*\}}') for kind in kinds)
        return said, sent

    before, said = typing(), 0.0
    while said <= 50:  # on a busy machine, one load types less
        place.load(bounded(12, "4s"), QUICK.model_copy(update={"actions": {"post": 1.0, "view_channel": 1.0}}))
        now = typing()
        assert now[0] > before[0] + said  # each load types
        said, sent = (after - was for after, was in zip(now, before, strict=True))
    # Seven times as often if clients do not say what they look at.
    assert sent < 3 * said


# --- a load that fails ----------------------------------------------------------------------------------------


def failure(place: Place, *arguments: Any, **changes: Any) -> str:
    with pytest.raises(TrialFailed) as caught:
        place.load(*arguments, **changes)
    until(lambda: locust_processes(place.root) == [])
    return str(caught.value)


def test_users_who_cannot_log_in_are_said_with_the_servers_words(place: Place):
    accounts = json.loads(place.site.accounts.content)
    for user in accounts["users"]:
        user["password"] = "not-the-one"
    behaviour = CALM.model_copy(update={"arrival": 3.0})
    changed = replace(place.site.accounts, content=json.dumps(accounts).encode())
    said = failure(place, bounded(2), behaviour, accounts=changed)
    assert said.startswith("only 0 of 2 users could log in")
    assert "log_in/log_in: 4xx" in said and "401" in said


def test_too_few_accounts_are_refused_before_anything_starts(place: Place):
    said = failure(place, bounded(SMALL["users"] + 1))
    assert f"the data set has {SMALL['users']}" in said


@pytest.mark.parametrize("port", ["master", "metrics"])
def test_a_port_that_is_taken_fails_the_load_with_its_number(place: Place, port: str):
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        load = replace(place.site.load, ports={**place.site.load.ports, port: number})
        assert f"127.0.0.1:{number}" in failure(place, bounded(1), load=load)


def test_a_silent_prometheus_ends_the_rule(place: Place):
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
    rule = unbounded(max_users=3, alerts={"cpu": "85 %"})
    said = failure(place, rule, prometheus_url=f"http://127.0.0.1:{number}")
    assert "nothing decides about users any more" in said and str(number) in said


def test_a_wrong_query_ends_the_rule_with_prometheus_words(place: Place):
    rule = unbounded(max_users=3, alerts={"wrong": {"above": 1, "query": "sum(("}})
    assert "parse error" in failure(place, rule)


def test_a_cancelled_load_ends_soon_and_leaves_nothing(place: Place):
    cancelled = threading.Event()

    def cancel() -> None:
        until(lambda: place.count(WEBSOCKETS) >= 2, 60)
        cancelled.set()

    threading.Thread(target=cancel, daemon=True).start()
    begun = time.monotonic()
    assert "ended early" in failure(place, bounded(2, "5min"), cancelled=cancelled)
    assert time.monotonic() - begun < 120


def test_files_are_attached_and_others_look_at_them(place: Place):
    """By the server's own count, waiting until it has it."""
    looked_at = 'sum(mattermost_api_time_count{handler="getFilePreview", status_code="200"})'
    cancelled = threading.Event()

    def cancel() -> None:
        try:
            until(lambda: place.ask(looked_at) >= 3, 120)
        finally:
            cancelled.set()

    watcher = threading.Thread(target=cancel, daemon=True)
    watcher.start()
    doing = {"actions": {"post": 1.0, "view_channel": 1.0}, "uploads": 1.0}
    assert "ended early" in failure(place, bounded(6, "5min"), QUICK.model_copy(update=doing), cancelled=cancelled)
    watcher.join()
    assert place.ask(looked_at) >= 3
    # In the folder of the trial's server, which is removed with it.
    assert list((place.root / "work" / "services").rglob("*_preview.*"))


def test_a_worker_that_is_killed_fails_the_load(place: Place):
    def kill() -> None:
        until(lambda: place.count(WEBSOCKETS) >= 2, 60)
        # The process that was forked last runs users; its parent only waits for it.
        os.kill(max(locust_processes(place.root), key=started_at), signal.SIGKILL)

    until(lambda: place.count(WEBSOCKETS) == 0)  # of the earlier loads
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    said = failure(place, bounded(2, "5min"))
    killer.join()
    assert said == "Locust lost all of its workers (1)"


def started_at(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
