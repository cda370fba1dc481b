"""The family load_test run here: one session with Mattermost's real server on PostgreSQL, good and bad ones."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from held_session import start_session
from load_test_study import FAMILY, hold
from mattermost_small import SERVER, block_of, provisioned
from nothing_lost import left_on_host, processes, running
from waiting import until

from benchstudy.families.load_test.facts import FACTS
from benchstudy.families.load_test.fetch import RAW
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.model import registry
from benchstudy.statistics import stats

SMALL = {"users": 10, "teams": 1, "channels": 3, "posts": 60, "direct-posts": 10}
LAST_WORDS = "five users are there: it ends here"
# Starts the server, and kills it once users have connected.
DIES = f"""
import re, subprocess, sys, time, urllib.request
server = subprocess.Popen(sys.argv[2:])
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
while server.poll() is None:
    time.sleep(0.1)
    try:
        text = opener.open(sys.argv[1] + "/metrics", timeout=5).read().decode()
    except OSError:
        continue
    if sum(float(n) for n in re.findall(r"(?m)^mattermost_http_websockets_total.* (\\S+)$", text)) >= 5:
        print({LAST_WORDS!r}, file=sys.stderr, flush=True)
        server.kill()
sys.exit(server.wait())
"""


def block() -> dict[str, Any]:
    found = block_of(
        SMALL,
        blocks=1,
        versions=[
            {"name": name, "services": {"postgres": service}}
            for name, service in (("good", SERVER), ("dies", "dies"), ("refused", "refused"))
        ],
        # So long that a load whose server dies cannot have ended before.
        loads=[{"name": "bounded", "users": 8, "ramp": "1s", "duration": "7s"}],
        behaviour={"think_time": {"least": "100ms", "mean": "500ms"}},
    )
    found["services"] |= bad_servers(found["services"][SERVER])
    return found


def bad_servers(server: Mapping[str, Any]) -> dict[str, Any]:
    """A server that dies under load, and one whose database refuses connections."""
    source = server["env"]["MM_SQLSETTINGS_DATASOURCE"].replace(":{{postgres.port.sql}}", ":9")
    assert source != server["env"]["MM_SQLSETTINGS_DATASOURCE"]
    dies = ["python3", "-c", DIES, "http://{{bind}}:{{port.metrics}}", *server["argv"]]
    return {
        "dies": {**server, "argv": dies},
        "refused": {
            **server,
            "env": {**server["env"], "MM_SQLSETTINGS_DATASOURCE": source},
            "ready": {**server["ready"], "timeout": "4s"},
        },
    }


@dataclass(frozen=True)
class Session:
    """A session that was held on `host`, whose work folder is `work`."""

    host: Mapping[str, Any]
    work: Path
    trials: Mapping[str, StoredTrial]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    root = tmp_path_factory.mktemp("session")
    with provisioned(root, block()) as host:
        trials = hold(root, block(), host)
        yield Session(host, root / "work", {trial.record.levels["version"]: trial for trial in trials})


def facts_of(trial: StoredTrial) -> dict[str, Any]:
    return json.loads((trial.folder / FACTS).read_text())


def test_a_load_is_run_and_what_prometheus_saw_is_kept(session: Session):
    trial = session.trials["good"]
    assert trial.record.status == "ok", trial.record.cause
    parsed = registry.get(FAMILY).parse(trial.record.levels, trial.folder)
    values = {one.metric: one.value for one in parsed.observations}
    assert values["users"] == pytest.approx(8, abs=0.5) and values["window"] == pytest.approx(7, rel=0.5)
    assert values["client_errors"] == values["server_error_share"] == 0
    for group in ("api", "store"):
        mean, edges = values[f"{group}_mean"], [values.get(f"{group}_p99_{edge}") for edge in ("low", "high")]
        known = stats.supported(99, int(values[f"{group}_calls"]))
        assert mean > 0 and (edges[0] < edges[1] and mean < edges[1] if known else edges == [None, None])
    # For users, times include the server's own time and the network in both directions.
    assert values["client_mean"] > 0 and values["api_rate"] == pytest.approx(values["client_rate"], rel=0.5)
    assert values["cpu"] > 0 and values["heap"] > 1 << 20 and 0 < values["node_cpu"] <= 1
    assert {row["phase"] for row in parsed.series["phases"]} == {"ramp", "steady"}
    assert {row["group"] for row in parsed.series["labels"]} == {"api", "store"}


def test_what_was_found_around_a_load_stands_with_it(session: Session):
    trial = session.trials["good"]
    facts = facts_of(trial)
    assert (facts["mode"], facts["bounded"], facts["rate_window_s"]) == ("run", True, 5.0)
    assert facts["versions"]["server"].startswith("9.9") and "PostgreSQL" in facts["versions"]["database"]
    assert facts["data_set"]["counts"]["users"] >= SMALL["users"]
    assert abs(facts["clock"]["load_minus_prometheus_s"]) < 0.5 and abs(facts["clock"]["stepped_s"]) < 0.5
    (ramp, steady), window = facts["phases"], facts["window"]
    assert (ramp["start_s"], ramp["end_s"], steady["end_s"]) == (
        window["start_s"],
        steady["start_s"],
        window["end_s"],
    )
    assert facts["steady"] == {name: steady[name] for name in ("start_s", "end_s")}
    assert facts["used"][SERVER]["peak_memory_bytes"] > 1 << 20
    assert trial.record.verified["load_test"] == facts
    labels = [command.label for command in trial.record.commands]
    assert labels[:3] == ["load", "server", "metrics"] and {"database", "node-exporter", "prometheus"} <= {*labels}
    assert (trial.folder / RAW).stat().st_size > 1000
    for label in ("server", "database", "prometheus"):
        assert (trial.folder / label / "supervisor.json").is_file()


def test_a_server_that_dies_under_load_is_the_cause_and_users_stop(session: Session):
    record = session.trials["dies"].record
    assert record.status == "failed"
    assert re.match(r"the server dies died during the trial: it ended with exit status \d+", record.cause or "")
    assert LAST_WORDS in (record.cause or "")
    states = {command.label: command.state for command in record.commands}
    assert (states["server"], states["prometheus"], states["database"]) == ("exited", "ended", "ended")
    assert LAST_WORDS in (session.trials["dies"].folder / "server" / "stderr").read_text()


def test_a_database_that_refuses_connections_is_named(session: Session):
    record = session.trials["refused"].record
    assert record.status == "failed"
    assert record.cause.startswith("service refused: ")
    assert re.search(r"127\.0\.0\.1:9.*connection refused", record.cause, re.DOTALL)


def test_nothing_survives_the_session(session: Session):
    folders = [path for folder in ("services", "runs", "sessions") for path in (session.work / folder).glob("*")]
    assert not folders and not processes(str(session.work / "services"))


def test_nothing_survives_a_controller_that_is_killed_under_load(session: Session, tmp_path: Path):
    """Servers, database, Prometheus, Locust with its workers, and the data set, which hosts end by themselves."""
    study = {
        "study": "killed",
        "blocks": 1,
        "thresholds": {"lease": "3s", "reconnect": "3s"},
        "hosts": {"here": dict(session.host)},
        "targets": {"bench": {"roles": {"sut": "here"}}},
        "families": {
            FAMILY: block_of(
                SMALL,
                versions=[{"name": "good", "services": {"postgres": SERVER}}],
                loads=[{"name": "bounded", "users": 6, "ramp": "1s", "duration": "5min"}],
            )
        },
    }
    controller = start_session(tmp_path, study)
    try:
        until(lambda: controller.poll() is not None or processes(str(session.work), "locustfile.py"), 180)
        (mark,) = {
            found
            for each in running(str(session.work))
            for found in re.findall(r"BENCHSTUDY_SESSION=[-\w]+", each.traces)
        }
        # The process that will become Locust is visible before Locust is.
        programs = ("postgres", SERVER, "prometheus", "node-exporter", "locustfile.py")
        until(lambda: controller.poll() is not None or all(processes(mark, program) for program in programs), 60)
        assert controller.poll() is None
    finally:
        controller.kill()
        controller.wait(60)
        until(lambda: not processes(str(session.work)), 120)
    until(lambda: not processes(mark) and not left_on_host(session.work))
