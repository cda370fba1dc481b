"""Loads from several hosts: what a study says, how the load begins, and what becomes of it."""

import json
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import client_hosts
import http_study
import log_write_study
import nothing_lost
import pytest
from conftest import CHECKOUT
from file_size_study import file_size_study
from http_study import AB, FAMILY, K6, NGINX_SERVER, WRK
from one_host import trials_held
from tidy_fixture import Tables
from waiting import interrupts_heard_in_waits, until

from benchstudy.families.http_concurrency.page.load import HttpLoad
from benchstudy.families.shared.clientpage import adds_up, client_table, show_clients
from benchstudy.families.shared.clients import merged, percentile, pooled_sd
from benchstudy.hosts.agent import HostAgent
from benchstudy.hosts.commands import Command, Execution
from benchstudy.hosts.line import HostClock
from benchstudy.hosts.remote import Remote
from benchstudy.jobs.tidy import tidy_family
from benchstudy.lints import lint
from benchstudy.lints.model import Figure, Group, Material
from benchstudy.measuring.execution import TrialExecution
from benchstudy.measuring.session import hold_session
from benchstudy.measuring.storedtrials import StoredTrial
from benchstudy.measuring.together import execute_together, moments
from benchstudy.model import registry
from benchstudy.model.causes import Cause
from benchstudy.model.clients import load_roles, part_of
from benchstudy.model.errors import StudyError, TrialFailed
from benchstudy.model.family import Parsed
from benchstudy.model.host import Host
from benchstudy.model.needs import programs_of_blocks
from benchstudy.model.study import Study
from benchstudy.model.studyfile import parse_study
from benchstudy.provisioning.target import provision_target
from benchstudy.report.page import Page
from benchstudy.report.results.results import Results

HTTP = registry.get(FAMILY)
HOSTS = ("server", "l1", "l2")
NOTHING = Execution(**dict.fromkeys((one.name for one in fields(Execution)), None))

# --- what a study says --------------------------------------------------------------------------------------------


def declared(roles: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    block = {**http_study.block([NGINX_SERVER], generators=[AB, WRK, K6]), **changed}
    study = http_study.declared(block)
    names = {name for given in roles.values() for name in (given if isinstance(given, list) else [given])}
    hosts = {name: {"address": name, "user": "me"} for name in names}
    return {**study, "hosts": hosts, "targets": {"bench": {"roles": dict(roles)}}}


def cases(roles: Mapping[str, Any], **changed: Any) -> dict[str, str]:
    plan = parse_study(declared(roles, **changed)).session("bench", FAMILY)
    return {case.id: case.definition_sha256 for case in plan.cases}


def test_a_list_of_load_hosts_is_short_for_numbered_roles():
    study = parse_study(declared({"sut": "s", "load": ["a", "b", "c"]}))
    roles = study.targets["bench"].roles
    assert roles == {"sut": "s", "load-1": "a", "load-2": "b", "load-3": "c"}
    written_out = parse_study(declared(roles))
    assert written_out.sha256 == study.sha256
    tenth = {f"load-{number}": f"h{number}" for number in range(1, 12)}
    assert load_roles(tenth) == list(tenth)  # the tenth comes after the ninth


def test_clients_are_a_level_only_where_there_are_several():
    alone = cases({"sut": "s"})
    assert cases({"sut": "s", "load": "l"}) == cases({"sut": "s", "load": ["l"]}) == alone
    assert {id for id in cases({"sut": "s", "load": ["a", "b"]})} == {f"{id},clients=2" for id in alone}
    some = cases({"sut": "s", "load": ["a", "b", "c"]}, clients=[1, 3])
    assert some.keys() == {f"{id},clients={n}" for id in alone for n in (1, 3)}
    assert cases({"sut": "s"}, clients=[1]).keys() == {f"{id},clients=1" for id in alone}


def test_a_target_with_other_load_hosts_has_cases_of_its_own():
    study = declared({"sut": "s", "load": ["a", "b"]})
    study["targets"]["small"] = {"roles": {"sut": "s"}}
    small, bench = (parse_study(study).session(target, FAMILY) for target in ("small", "bench"))
    assert small.digest != bench.digest and small.digest == parse_study(study).sessions()[1].digest


@pytest.mark.parametrize(
    ("roles", "changed", "message"),
    [
        ({"sut": ["a", "b"]}, {}, "sut: only load takes a list"),
        ({"sut": "s", "load": []}, {}, "load: []: give one host or more"),
        ({"sut": "s", "load": ["a", "a"]}, {}, "load: ['a', 'a']: give one host or more, each of them once"),
        ({"sut": "s", "load": ["a", "b"], "load-2": "c"}, {}, "its list stands for load-1, load-2: take load-2 out"),
        (
            {"sut": "s", "load": ["a", "b"]},
            {"clients": [1, 3]},
            "families.http_concurrency.clients: target bench: 3 clients, and it has 2 load hosts (a, b): give it more",
        ),
        ({"sut": "s"}, {"clients": [2]}, "2 clients, and it has 1 load host (s): give it more"),
        ({"sut": "s", "load": ["a", "b"]}, {"clients": []}, "clients: []: give numbers of clients from 1"),
        (
            {"sut": "s", "load": ["a", "b"]},
            {"concurrency": [1, 10]},
            "families.http_concurrency.clients: 2: concurrency: 1 cannot be divided among them: give 2 or more",
        ),
    ],
)
def test_what_a_study_must_not_say_of_clients(roles, changed, message):
    with pytest.raises(StudyError) as refused:
        parse_study(declared(roles, **changed))
    assert message in str(refused.value)


def test_parts_of_a_number_add_up_and_differ_by_one_at_most():
    parts = [part_of(11, client, 3) for client in (1, 2, 3)]
    assert parts == [4, 4, 3]


def test_clocks_are_compared_before_the_skew_is_told():
    """Two hosts whose clocks are an hour apart. The second one began 20 ms late, and its clock drifts."""

    def ended(began_s: float, asked_s: float) -> TrialExecution:
        began = {"asked_s": asked_s, "at_s": began_s}
        execution = replace(NOTHING, began=began, duration_s=2.0)
        return TrialExecution(execution, Path(), Path(), Path(), "wrk")

    found = moments(
        {"load-1": "l1", "load-2": "l2"},
        {"load-1": ended(1000.0, 1000.0), "load-2": ended(4600.021, 4600.001)},
        {"load-1": HostClock(0.0, 0.001), "load-2": HostClock(3600.0, 0.002)},
        {"load-1": HostClock(0.0, 0.001), "load-2": HostClock(3600.002, 0.001)},
    )
    assert found["skew_s"] == pytest.approx(0.02)
    first, second = found["clients"]
    assert (first["start_s"], first["end_s"], first["uncertainty_s"]) == (1000.0, 1002.0, 0.001)
    assert (second["host"], second["start_s"], second["late_s"]) == ("l2", 1000.02, 0.02)
    assert second["uncertainty_s"] == pytest.approx(0.003)


def test_percentiles_come_from_the_merged_histogram_and_never_from_an_average():
    # One client answered in 10 ms, another in 1 s: half of all requests took a second, and none took the mean.
    fast, slow = [(0.0100, 0.0101, 100)], [(1.00, 1.01, 100)]
    both = merged([fast, slow, fast])
    assert both == [(0.0100, 0.0101, 200), (1.00, 1.01, 100)]
    assert percentile(both, 50) == pytest.approx(0.01005) and percentile(both, 99) == pytest.approx(1.005)
    assert percentile([(0.0, 0.0005, 10), (0.0005, 0.0015, 10)], 50) is None, "a millisecond tells no half of one"
    assert pooled_sd([1.0, 3.0], [0.0, 0.0], [2, 2]) == pytest.approx(statistics.stdev([1, 1, 3, 3]))


def test_more_clients_are_expected_to_give_more_only_where_each_does_the_whole_work():
    assert {name: adds_up(name) for name in ("file_size", "fio", "http_concurrency", "log_write")} == {
        "file_size": True,
        "fio": True,
        "http_concurrency": False,
        "log_write": False,
    }


def test_lints_name_skew_and_targets_with_other_numbers_of_clients():
    def group(target: str, clients: str, *shares: float) -> Group:
        levels = {"target": target, "endpoint": "page", "clients": clients}
        return Group("", levels, {"client_skew_share": Figure(shares[0], "1", values=shares)})

    material = Material("http", "measured", (group("a", "2", 0.001, 0.03), group("b", "3", 0.002)))
    said = [(f.lint, f.what) for f in lint(material)]
    assert said == [
        ("clients-skewed", "in 1 of 2 trials, not all clients sent load for up to 3 % of the time"),
        ("clients-differ", "no number of clients is common to all targets: a from 2, b from 3"),
    ]
    alike = Material("http", "measured", (group("a", "2", 0.001), group("b", "2", 0.002), group("b", "3", 0.002)))
    assert lint(alike) == []
    two_alike = Material("http", "measured", tuple(group(t, n, 0.001) for t, n in (("a", "2"), ("b", "2"), ("c", "3"))))
    assert [f.what for f in lint(two_alike)] == [
        "no number of clients is common to all targets: a from 2, b from 2, c from 3"
    ]


# --- real loads ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("clients")
    with client_hosts.hosts(folder, *HOSTS) as found, pytest.MonkeyPatch.context() as environment:
        environment.delenv("BENCHSTUDY_HOST_LOCK", raising=False)
        environment.setenv(http_study.PASSWORD_ENV, http_study.PASSWORD)
        yield found


def study_of(hosts: Mapping[str, Any], config: Mapping[str, Any]) -> Study:
    targets = {"bench": {"roles": client_hosts.roles(2)}}
    return parse_study({**http_study.declared(config), "hosts": dict(hosts), "targets": targets})


def measure_family(root: Path, hosts: Mapping[str, Any], name: str, **block: Any) -> dict[str, StoredTrial]:
    """The trials of another family, by case."""
    targets = {"bench": {"roles": client_hosts.roles(2)}}
    study = {**http_study.declared({}), "hosts": dict(hosts), "targets": targets, "families": {name: block}}
    trials = trials_held(root, parse_study(study).session("bench", name))
    for trial in trials:
        assert trial.record.status == "ok", trial.record.cause
    return {trial.record.case: trial for trial in trials}


def measure(root: Path, hosts: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, StoredTrial]:
    trials = http_study.measure(root, study_of(hosts, config))
    return {f"{t.record.levels['generator']} {t.record.levels['clients']}": t for t in trials}


@pytest.fixture(scope="module")
def loaded(hosts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredTrial]:
    """nginx under each generator, from one client and from two."""
    config = http_study.block([NGINX_SERVER], generators=[AB, WRK, K6], clients=[1, 2])
    root = tmp_path_factory.mktemp("loaded")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(CHECKOUT)
        provision_target(study_of(hosts, config), "bench", root / "facts.json")  # only load hosts get k6
    assert [(Path(h["work_dir"]) / "tools/bin/k6").exists() for h in hosts.values()] == [False, True, True]
    return measure(root, hosts, config)


def test_the_page_shows_throughput_by_clients_and_each_client(loaded, hosts, bare_project, capsys):
    root = next(iter(loaded.values())).folder.parents[6]
    config = http_study.block([NGINX_SERVER], generators=[AB, WRK, K6], clients=[1, 2])
    tidy = bare_project / "data/tidy/http/http_concurrency"
    tidy_family(root, [study_of(hosts, config).session("bench", FAMILY)], tidy)
    results = Results(tidy, study="http", family=FAMILY)
    table = client_table(results, ["throughput", "generator_cpu"])
    assert table.columns[:4] == ("Case", "Client", "Successful responses per second", "Generator CPU")
    assert [row[1].lines[0] for row in table.rows] == ["1, l1", "1, l1", "2, l2"] * 3
    sweeps = HttpLoad(results).sweeps(is_open=False)
    assert {(sweep.generator, sweep.clients) for sweep in sweeps} == {(g, n) for g in ("ab", "wrk") for n in "12"}
    page = Page(FAMILY, study="http", tidy=tidy, output=bare_project / "reports")
    show_clients(page, ["throughput"], series="endpoint", each=["throughput"])
    assert (bare_project / "reports/figures/clients-throughput.svg").is_file()


def test_a_skew_has_the_error_of_the_clocks_beside_it(tmp_path):
    tables, levels = Tables(tmp_path, "http", "fio"), {"directory": "d", "test": "fio", "job": "j", "clients": "2"}
    times = {"client_skew": (0.003, "s"), "client_skew_share": (0.001, "1")}
    for block, error in enumerate((0.002, 0.4, 0.001), start=1):
        tables.add(levels, block, {"read_iops": (10.0, "1/s"), **times, "client_clocks": (error, "s")})
    ours = {"client": 1, "host": "l1", "metric": "cpu_user", "value": 0.1, "unit": "1"}
    tables.series["clients"] = [tables.head() | ours]
    (row,) = client_table(tables.results(), ["cpu_user"]).rows
    assert row[-1].lines == ("3.00 ms", "clocks: ± 400 ms")


def test_a_client_of_many_processes_is_the_limit_where_each_of_them_is_busy(tmp_path):
    """Four processes keep 1.2 and 3.6 processors busy."""
    tables, levels = Tables(tmp_path, "http", "fio"), {"directory": "d", "test": "fio", "job": "j", "clients": "2"}
    tables.add(levels, 1, {"read_iops": (10.0, "1/s")})
    head = {name: tables.trials[0][name] for name in ("target", "case", "block", "trial")}
    tables.series["clients"] = [
        {**head, "client": client, "host": f"l{client}", "metric": metric, "value": n, "unit": "1"}
        for client, busy in ((1, 0.3), (2, 0.9))
        for metric, n in (("cpu_user", busy), ("cpu_system", 3 * busy), ("generator_cpu", busy))
    ]
    table = client_table(tables.results(), ["cpu_system"])
    assert [row[1].marks for row in table.rows] == [(), ("client-limited",)]


def parsed(trial: StoredTrial) -> Parsed:
    assert trial.record.status == "ok", trial.record.cause
    return HTTP.parse(trial.record.levels, trial.folder)


def values(trial: StoredTrial) -> dict[str, float]:
    return {o.metric: o.value for o in parsed(trial).observations}


@pytest.mark.parametrize("tool", ["ab", "wrk", "k6"])
def test_clients_load_together_and_their_figures_add_up(loaded, tool):
    trial = loaded[f"{tool} 2"]
    found, whole = parsed(trial), values(trial)
    rows = found.series["clients"]
    assert [(c, r, h) for c, r, h in dict.fromkeys((r["client"], r["role"], r["host"]) for r in rows)] == [
        (1, "load-1", "l1"),
        (2, "load-2", "l2"),
    ]
    own = {metric: [r["value"] for r in rows if r["metric"] == metric] for metric in ("throughput", "requests")}
    if tool == "ab":  # ends after a number of requests, one client before the other
        assert 0 < whole["throughput"] <= min(sum(own["throughput"]), whole["requests"] / whole["duration"])
    else:
        assert whole["throughput"] == pytest.approx(sum(own["throughput"]))
    assert whole["requests"] == sum(own["requests"]) and min(own["requests"]) > 0
    assert sum(row["count"] for row in found.series["histogram"]) == whole["requests"]
    assert whole["errors"] == 0 and whole["client_skew"] < 0.5
    # Connections and the rate are those of all clients together.
    if tool == "k6":
        assert whole["offered"] == pytest.approx(500, rel=0.02)
    elif tool == "wrk":  # ab's clients may end one after the other, and then fewer requests were in flight
        assert whole["little_error"] < 0.2


def test_one_client_of_several_is_a_case_like_any_other_with_its_part_of_the_load(loaded):
    alone = values(loaded["ab 1"])
    assert alone["requests"] == AB["requests"] and alone["client_skew"] == 0
    together = {r["client"]: r["value"] for r in parsed(loaded["ab 2"]).series["clients"] if r["metric"] == "requests"}
    assert together == {1: 750, 2: 750}
    assert values(loaded["wrk 2"])["latency_p99"] > 0
    argv = {c.label: c.argv for c in loaded["k6 2"].record.commands if c.label.startswith("load/")}
    assert argv["load/2"][-4:-1] == ["1/2:1", "--execution-segment-sequence", "0,1/2,1"]


@dataclass
class Pair:
    """The part of a trial that commands on two hosts need, without a session."""

    agents: Mapping[str, HostAgent]
    files: Path
    roles: dict[str, str] = field(default_factory=lambda: {"load-1": "l1", "load-2": "l2"})
    commands: list[Any] = field(default_factory=list)

    def execute(self, command: Command, role: str = "") -> TrialExecution:
        agent, into = self.agents[role], self.files / command.label
        execution = agent.execute(command)
        agent.fetch(execution, into)
        self.commands.append(command)
        return TrialExecution(execution, into / "stdout", into / "stderr", into / "files", command.argv[0])

    def clock(self, role: str = "") -> HostClock:
        return self.agents[role].clock()


@pytest.fixture
def pair(hosts: dict[str, Any], tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        agents = {}
        for role, name in (("load-1", "l1"), ("load-2", "l2")):
            remote = stack.enter_context(Remote(name, Host.model_validate(hosts[name])))
            agents[role] = HostAgent.deploy(remote, lease_s=20.0, reconnect_s=5.0, on_event=print)
            stack.enter_context(agents[role].lock("a-session", {"study": "tests"}))
        yield Pair(agents, tmp_path)


def test_what_is_told_of_the_beginning_is_when_the_commands_began(pair):
    say = Command(["date", "+%s.%N"])
    found = execute_together(pair, dict.fromkeys(pair.roles, say), "both")
    told = json.loads((pair.files / "both/clients.json").read_text())
    for client, done in zip(told["clients"], found, strict=True):
        late_s = float(done.stdout.read_text()) - client["start_s"]
        assert -0.01 < late_s < 1.0 and client["uncertainty_s"] < 0.5
    assert told["skew_s"] < 0.5
    # Nobody waited in vain, and nobody began before the last one was ready.
    assert all(client["late_s"] >= 0 for client in told["clients"])


def test_one_that_cannot_begin_holds_no_other(pair):
    commands = {"load-1": Command(["sleep", "300"]), "load-2": Command(["sleep", "300"], open_files=1 << 40)}
    began = time.monotonic()
    with pytest.raises(TrialFailed, match=r"client 2 of 2, load-2 on l2: .*open_files") as failed:
        execute_together(pair, commands, "both")
    assert time.monotonic() - began < 30
    assert (failed.value.failure.cause, failed.value.failure.host) == (Cause.START_FAILED, "l2")


@dataclass
class Pressed:
    """A load whose first command presses Ctrl-C and then, as all others, runs until it is told to end."""

    files: Path
    roles: dict[str, str] = field(default_factory=lambda: {"load-1": "l1", "load-2": "l2"})
    commands: list[Any] = field(default_factory=list)

    def execute(self, command: Command, role: str = "") -> TrialExecution:
        if role == "load-1":
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        told = command.stop_when.wait(2)
        raise TrialFailed("told to end" if told else "nobody told it to end")

    def clock(self, role: str = "") -> HostClock:
        return HostClock(0.0, 0.0)


def test_ctrl_c_ends_a_load_of_several_clients(tmp_path):
    pressed = Pressed(tmp_path)
    command = Command(["sleep", "300"])
    with interrupts_heard_in_waits(), pytest.raises(KeyboardInterrupt):
        execute_together(pressed, dict.fromkeys(pressed.roles, command), "both")


def test_fio_works_on_one_file_system_from_several_clients(hosts, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    job = {"name": "mixed", "rw": "randrw", "engine": "psync", "direct": False, "size": "4MiB", "runtime": "1s"}
    where = {"name": "shared", "path": str(folder)}
    block = {"directories": [where], "page_jobs": [], "small_files": [], "jobs": [job]}
    found = measure_family(tmp_path, hosts, "fio", **block, clients=[2])
    (trial,) = found.values()
    fio = registry.get("fio")
    parsed = fio.parse(trial.record.levels, trial.folder)
    whole = {o.metric: o.value for o in parsed.observations}
    own: dict[str, list[float]] = {}
    for row in parsed.series["clients"]:
        own.setdefault(row["metric"], []).append(row["value"])
    assert whole["read_iops"] == pytest.approx(sum(own["read_iops"])) and len(own["read_iops"]) == 2
    assert whole["cpu_user"] == max(own["cpu_user"]) and whole["client_skew"] < 0.5
    counted = [b["count"] for b in parsed.series["latency_histogram"] if (b["op"], b["kind"]) == ("read", "clat")]
    assert sum(counted) == whole["read_ios"] == sum(own["read_ios"])
    assert min(own["read_clat_p50"]) * 0.98 <= whole["read_clat_p50"] <= max(own["read_clat_p50"]) * 1.02
    argv = {argument for c in trial.record.commands for argument in c.argv if argument.startswith("--filename=")}
    assert len(argv) == 2 and not list(folder.iterdir()), "each has a file of its own, and none is left"


def _answers_at_work(folder: Path) -> bool:
    clients = json.loads((folder / "load" / "clients.json").read_text())["clients"]
    for client in clients:
        answer = json.loads((folder / "load" / str(client["client"]) / "stdout").read_text())
        begins_s = [operation["began_ns"] / 1e9 - client["offset_s"] for operation in answer["operations"]]
        if not (client["start_s"] < begins_s[0] and begins_s == sorted(begins_s) and begins_s[-1] < client["end_s"]):
            return False
    return True


def test_file_size_from_several_clients_of_a_folder_and_of_a_bucket(hosts, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    block = file_size_study(["local", "rclone-s3"], folder, sizes=["1MB"], sync=["fsync"], cache=["cold"], clients=[2])
    found = measure_family(tmp_path, hosts, "file_size", **block)
    file_size = registry.get("file_size")
    assert len(found) == 4
    for trial in found.values():
        parsed = file_size.parse(trial.record.levels, trial.folder)
        whole = {o.metric: o.value for o in parsed.observations}
        own = [row["value"] for row in parsed.series["clients"] if row["metric"] == "throughput"]
        # 3 operations each, between those of the other client or at the same time.
        assert len(own) == 2 and 1 / sum(1 / o for o in own) * 1.999 <= whole["throughput"] <= 2.001 * min(own)
        assert 0 <= whole["client_overlap"] <= 1
        assert _answers_at_work(trial.folder), "during the commands of the clients, by the clock that tells of them"
        assert whole["operations"] == 6 and [row["operation"] for row in parsed.series["operations"]] == [*range(6)]
        durations = [row["duration_s"] for row in parsed.series["operations"]]
        assert whole["duration"] == pytest.approx(statistics.mean(durations))
    requests = [json.loads(c.argv[-1]) for t in found.values() for c in t.record.commands if "load/" in c.label]
    places = [request.get("prefix") or request["directory"] for request in requests]
    assert len(requests) == 8 and len({*places}) == 4, "two folders and two prefixes, each with one client's own files"
    assert not list(folder.iterdir()), "nothing is left"


def test_each_client_mounts_the_folder_that_it_measures(hosts, tmp_path, monkeypatch):
    """A folder of the server, mounted by both load hosts with sshfs."""
    exported, server = tmp_path / "exported", hosts["server"]
    exported.mkdir()
    options = (
        f"auto_cache,IdentityFile={server['identity_file']},UserKnownHostsFile={server['known_hosts']},BatchMode=yes"
    )
    mount = ["sshfs", "-f", "-p", str(server["port"]), "-o", options, f"{server['user']}@127.0.0.1:{exported}"]
    services = {
        "share": {
            "role": "load",
            "setup": [["mkdir", "{{dir}}/mount"]],
            "argv": [*mount, "{{dir}}/mount"],
            "ready": {"mount": "{{dir}}/mount"},
            "stop": ["fusermount3", "-u", "{{dir}}/mount"],
        }
    }
    place = {"name": "share", "path": "{{service.dir}}/mount", "service": "share", "expect_fs": "fuse.sshfs"}
    job = {"name": "mixed", "rw": "randrw", "engine": "psync", "direct": False, "size": "1MiB", "runtime": "1s"}
    blocks = {
        "file_size": {"backends": [{**place, "kind": "path"}], "sizes": ["100KB"], "cache": ["warm"]},
        "fio": {"directories": [{**place, "path": "{{dir}}/mount"}], "page_jobs": [], "small_files": [], "jobs": [job]},
    }
    assert "sshfs" in programs_of_blocks([{"services": services}], {"sut": "server", "load-1": "l1"})["l1"]
    for family, block in blocks.items():
        found = measure_family(tmp_path, hosts, family, **block, clients=[1, 2], services=services)
        mounts = {}
        for trial in found.values():
            commands = [command for command in trial.record.commands if "load/" in command.label]
            assert len(commands) == int(trial.record.levels["clients"])
            for command in commands:
                mounts.setdefault(command.host, set()).update(re.findall(r"/[^\"=]*?/mount", " ".join(command.argv)))
        assert mounts.keys() == {"l1", "l2"} and [len(places) for places in mounts.values()] == [1, 1], family
        assert mounts["l1"] != mounts["l2"]
        (logs,) = {path.parent for path in tmp_path.glob(f"data/raw/**/{family}/**/services/share/load-*")}
        assert {path.name for path in logs.iterdir()} == {"load-1", "load-2"}
    assert not list(exported.iterdir()), "nothing is left"
    assert str(hosts["l1"]["work_dir"]) not in Path("/proc/self/mounts").read_text()


def test_shards_of_logbench_write_one_log(hosts, tmp_path, monkeypatch):
    changed = {"generators": [log_write_study.OPEN], "rates": ["300/s"], "sweeps": [{"antispam": ["no"]}]}
    block = log_write_study.family(**changed, clients=[2])
    study = {**http_study.declared({}), "hosts": dict(hosts), "families": {"log_write": block}}
    study["targets"] = {"bench": {"roles": client_hosts.roles(2)}}
    monkeypatch.chdir(CHECKOUT)
    provision_target(parse_study(study), "bench", tmp_path / "facts.json")
    found = measure_family(tmp_path, hosts, "log_write", **block)
    log_write = registry.get("log_write")
    (trial,) = found.values()
    parsed = log_write.parse(trial.record.levels, trial.folder)
    whole = {o.metric: o.value for o in parsed.observations}
    own: dict[str, list[float]] = {}
    for row in parsed.series["clients"]:
        own.setdefault(row["metric"], []).append(row["value"])
    # Each client offered its half, and the tree grew by what both wrote.
    assert own["offered"] == pytest.approx([150, 150], rel=0.02) and whole["offered"] == pytest.approx(300, rel=0.02)
    assert whole["qps"] == pytest.approx(300, rel=0.3) and whole["achieved_share"] == pytest.approx(1, rel=0.3)
    assert whole["accepted"] == sum(own["accepted"]) and whole["errors"] == 0
    assert whole["proofs_proved"] == whole["proofs_asked"] == sum(own["proofs_asked"])
    times = [b["count"] for b in parsed.series["histogram"] if b["which"] == "queue"]
    assert sum(times) == whole["accepted"] - whole["duplicates"]
    assert min(own["queue_p50"]) * 0.99 <= whole["queue_p50"] <= max(own["queue_p50"]) * 1.01
    assert whole["queue_max"] == max(own["queue_max"])
    assert whole["generator_cpu"] == max(own["generator_cpu"])
    generators = {row["process"] for row in parsed.series["resources"] if row["process"].startswith("generator")}
    assert generators == {"generator on l1", "generator on l2"}, "each load host is sampled"


@pytest.mark.parametrize(
    ("family", "block", "message"),
    [
        (
            "log_write",
            log_write_study.family(clients=[2]),
            "families.log_write.clients: 2: generator hammer: the hammer is one process with one screen",
        ),
        (
            "file_size",
            {
                "backends": [{"name": "b", "kind": "path", "path": "{{service.dir}}/m", "service": "m"}],
                "sizes": ["1MB"],
                "services": {"m": {"argv": ["sshfs"], "ready": {"mount": "{{dir}}/m"}}},
                "clients": [2],
            },
            "families.file_size.clients: 2: backend b: its service m runs on sut only: write `role: load` in it",
        ),
        (
            "fio",
            {
                "directories": [{"name": "d", "path": "{{dir}}/m", "service": "m"}],
                "services": {"m": {"role": "load", "argv": ["sshfs"], "ready": {"mount": "{{dir}}/m"}}},
            },
            "directory d: its service m runs on load hosts, and the folder is measured on sut: set `clients`",
        ),
        (
            "file_size",
            {
                "backends": [{"name": "b", "kind": "s3", "bucket": "bucket", "service": "m"}],
                "sizes": ["1MB"],
                "services": {
                    "m": {
                        "role": "load",
                        "argv": ["minio"],
                        "secrets": ["access_key", "secret_key"],
                        "ready": {"file": "{{dir}}/m"},
                    }
                },
                "clients": [2],
            },
            "families.file_size.clients: 2: backend b: all clients need the same server: give m the role sut",
        ),
        (
            "fio",
            {"directories": [{"name": "d", "path": "/srv"}], "clients": [2]},
            "families.fio.clients: 2: small_files: the loops measure one host: write small_files: []",
        ),
    ],
)
def test_what_cannot_be_loaded_by_several_is_named(family, block, message):
    study = {**declared({"sut": "s", "load": ["a", "b"]}), "families": {family: block}}
    with pytest.raises(StudyError) as refused:
        parse_study(study)
    assert message in str(refused.value)


def test_a_disk_of_the_server_is_measured_there_although_the_target_has_load_hosts():
    block = {"directories": [{"name": "d", "path": "/srv"}]}
    study = {**declared({"sut": "s", "load": ["a", "b"]}), "families": {"fio": block}}
    assert all("clients" not in case.levels for case in parse_study(study).session("bench", "fio").cases)


def test_a_client_that_dies_fails_the_trial_with_its_host_and_the_others_are_ended(hosts, tmp_path):
    config = http_study.block([NGINX_SERVER], generators=[{**WRK, "duration": "60s"}], clients=[2])
    killed: list[int] = []

    def kill() -> None:
        until(lambda: all(client_hosts.process_of("wrk", hosts[name]) for name in ("l1", "l2")), 60)
        killed.append(client_hosts.process_of("wrk", hosts["l2"]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    (trial,) = measure(tmp_path, hosts, config).values()
    killer.join()
    record = trial.record
    assert record.status == "failed" and record.duration_s < 30
    assert (record.failure.cause, record.failure.host, record.failure.name) == (Cause.SIGNAL, "l2", "wrk")
    assert record.cause.startswith("client 2 of 2, load-2 on l2: wrk was ended by signal 9")
    states = {command.label: command.state for command in record.commands}
    assert states["load/1"] == "ended" and client_hosts.process_of("wrk", hosts["l1"]) is None


@pytest.mark.fault(42)
def test_a_host_that_is_gone_is_named_and_the_others_are_ended(tmp_path, monkeypatch):
    monkeypatch.delenv("BENCHSTUDY_HOST_LOCK", raising=False)
    with client_hosts.hosts(tmp_path, *HOSTS) as hosts:
        block = http_study.block([NGINX_SERVER], generators=[{**WRK, "duration": "60s"}], clients=[2])
        study = http_study.declared(block) | {"thresholds": {"lease": "3s", "reconnect": "1s"}}
        study |= {"hosts": hosts, "targets": {"bench": {"roles": client_hosts.roles(2)}}}

        def unplug() -> None:
            until(lambda: all(client_hosts.process_of("wrk", hosts[name]) for name in ("l1", "l2")), 60)
            client_hosts.unplug(tmp_path / "l2")

        unplugging = threading.Thread(target=unplug)
        unplugging.start()
        hold_session(tmp_path, parse_study(study).session("bench", FAMILY))
        unplugging.join()
        (trial,) = http_study.trials_of(tmp_path)
        record = trial.record
        assert (record.status, record.failure.cause, record.failure.host) == ("aborted", Cause.CONNECTION, "l2")
        assert record.duration_s < 40 and "l2" in record.cause
        until(lambda: not any(client_hosts.process_of("wrk", host) for host in hosts.values()))
    # The agent of l2 is the last to notice that the controller is gone.
    until(lambda: not nothing_lost.processes(str(tmp_path)))
